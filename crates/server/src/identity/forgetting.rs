//! What may be forgotten, by command and with a trace: a person's payloads, and calls past their time.

use serde::Serialize;
use serde_json::json;
use toolgate_contracts::{Caller, Fault, Permission, Principal, TenantId, Timestamp};
use toolgate_store::Change;
use toolgate_store::people::User;

use crate::app::App;

/// How many hold something of a person, and how many cannot be erased yet.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Erased {
    pub calls: i64,
    pub inputs: i64,
    pub open_calls: i64,
    pub open_inputs: i64,
}

impl App {
    /// Erases what a person sent and got; the trace says that it was done, and to how many calls and questions.
    /// Those that have not ended are counted apart: they are erased by the next time.
    pub async fn erase_person(&self, caller: &Caller, name: &str, apply: bool) -> Result<Erased, Fault> {
        caller.require(&Permission::DATA_RETENTION)?;
        let user = self.store.user(caller.tenant, name).await?.ok_or_else(|| Fault::not_found("user", name))?;
        let person = Principal::User(user.id);
        let calls = self.store.count_calls_of(caller.tenant, person).await?;
        let inputs = self.store.count_questions_of(caller.tenant, person).await?;
        if apply {
            let mut change = Change::new(caller.tenant);
            change.erase_log_payloads_of(person);
            change.erase_questions_of(person);
            change.delete_secrets_of(user.id);
            change.forget_session_places(user.id);
            change.audit(&self.entry(
                caller,
                caller.tenant,
                "person.erase",
                &person.to_string(),
                json!({"calls": calls, "inputs": inputs}),
            ));
            self.store.commit(change).await?;
            // Batch by batch: cut off in between, the same command goes on where it was.
            while self.store.count_calls_of(caller.tenant, person).await? > 0 {
                let mut batch = Change::new(caller.tenant);
                batch.erase_payloads_of(person, self.clock.now());
                self.store.commit(batch).await?;
            }
            self.store.erase_runs_of(caller.tenant, person).await?;
        }
        let open_calls = self.store.count_open_calls_of(caller.tenant, person).await?;
        let open_inputs = self.store.count_open_questions_of(caller.tenant, person).await?;
        Ok(Erased { calls, inputs, open_calls, open_inputs })
    }

    /// Who asks what is kept of a person: an administrator, or that person; that they asked is in the log.
    pub async fn exported_person(&self, caller: &Caller, name: &str) -> Result<User, Fault> {
        let user = self.store.user(caller.tenant, name).await?.ok_or_else(|| Fault::not_found("user", name))?;
        if caller.user() != Some(user.id) || caller.agent.is_some() {
            caller.require(&Permission::DATA_RETENTION)?;
        }
        let mut change = Change::new(caller.tenant);
        let object = Principal::User(user.id).to_string();
        change.audit(&self.entry(caller, caller.tenant, "person.export", &object, json!({})));
        self.store.commit(change).await?;
        Ok(user)
    }

    /// Deletes finished calls and closed questions that began more than `days` ago; the log keeps a tombstone. Told is how
    /// many of each.
    pub async fn retain(&self, caller: &Caller, days: u32, apply: bool) -> Result<(i64, i64), Fault> {
        caller.require(&Permission::DATA_RETENTION)?;
        let before = self.clock.now().plus_seconds(-i64::from(days) * 86_400);
        let mut count = self.store.count_calls_before(caller.tenant, before).await?;
        let mut inputs = self.store.count_questions_before(caller.tenant, before).await?;
        if apply {
            // What goes has been used: it is counted first.
            self.sum_up_usage(caller.tenant).await?;
            let announced = json!({"before": before, "calls": count, "inputs": inputs});
            let mut change = Change::new(caller.tenant);
            change.audit(&self.entry(caller, caller.tenant, "retention.delete", "calls", announced));
            self.store.commit(change).await?;
            inputs = self.forget_questions(caller.tenant, before).await?;
            self.store.forget_runs_before(caller.tenant, before).await?;
            count = 0;
            loop {
                let mut batch = Change::new(caller.tenant);
                batch.forget_calls_before(before, self.clock.now());
                let deleted = self.store.commit(batch).await?.changed.last().copied().unwrap_or(0);
                count += i64::try_from(deleted).unwrap_or(0);
                if deleted == 0 {
                    break;
                }
            }
        }
        Ok((count, inputs))
    }

    async fn forget_questions(&self, tenant: TenantId, before: Timestamp) -> Result<i64, Fault> {
        let mut count = 0;
        loop {
            let mut batch = Change::new(tenant);
            batch.forget_questions_before(before);
            let deleted = self.store.commit(batch).await?.changed.last().copied().unwrap_or(0);
            count += i64::try_from(deleted).unwrap_or(0);
            if deleted == 0 {
                return Ok(count);
            }
        }
    }
}
