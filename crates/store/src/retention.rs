//! What may be forgotten: finished calls and runs past their time, a person's payloads, and ways in that let nobody in any
//! more.
//! The log keeps the trace of all.

use toolgate_contracts::{Principal, TenantId, Timestamp};

use crate::calls::first_id_of;
use crate::change::{Change, Durability};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Store, Value};

/// Rows deleted in one transaction, so that retention never blocks the writer for long.
pub const RETENTION_BATCH_ROWS: u32 = 5_000;

/// How long sessions, links and invitations are kept after their end, for whoever asks what happened.
pub const SIGN_INS_KEPT_DAYS: i64 = 30;

const FINISHED: &str = "status IN ('completed', 'failed', 'rejected', 'cancelled')";

/// Of a batch of closed runs that still have something.
macro_rules! closed {
    ($table:literal, $which:literal) => {
        concat!(
            "run_id IN (SELECT h.run_id FROM ",
            $table,
            " h JOIN runs r ON r.tenant_id = h.tenant_id AND r.id = h.run_id WHERE h.tenant_id = $1 AND ",
            $which,
            " AND h.is_open = 0 AND h.outputs IS NOT NULL ORDER BY h.run_id LIMIT $3)"
        )
    };
}

macro_rules! emptying {
    ($which:literal) => {
        [
            concat!("DELETE FROM event_parts WHERE tenant_id = $1 AND ", closed!("agent_runs", $which)),
            concat!(
                "UPDATE agent_turns SET answer = NULL, asides = '[]' WHERE tenant_id = $1 AND ",
                closed!("agent_runs", $which)
            ),
            concat!(
                "UPDATE workflow_nodes SET inputs = '{}', outputs = '{}', error = NULL WHERE tenant_id = $1 AND ",
                closed!("workflow_runs", $which)
            ),
            concat!(
                "UPDATE workflow_runs SET inputs = '{}', outputs = NULL WHERE tenant_id = $1 AND ",
                closed!("workflow_runs", $which)
            ),
            concat!(
                "UPDATE agent_runs SET plan = '{}', asked = NULL, outputs = NULL WHERE tenant_id = $1 AND ",
                closed!("agent_runs", $which)
            ),
        ]
    };
}

impl Change {
    /// Deletes at most one batch of finished calls that began before `moment`.
    pub fn forget_calls_before(&mut self, moment: Timestamp, now: Timestamp) -> &mut Self {
        self.then(
            "DELETE FROM event_parts WHERE tenant_id = $1 AND call_id IN (SELECT id FROM calls WHERE tenant_id = $1 AND id < $2
                AND status IN ('completed', 'failed', 'rejected', 'cancelled') ORDER BY id LIMIT $3)",
            [first_id_of(moment).into(), RETENTION_BATCH_ROWS.into()],
        );
        self.then(
            "UPDATE blobs SET expires_at = $4 WHERE tenant_id = $1 AND call_id IN (SELECT id FROM calls WHERE tenant_id = $1 AND id < $2
                AND status IN ('completed', 'failed', 'rejected', 'cancelled') ORDER BY id LIMIT $3)",
            [first_id_of(moment).into(), RETENTION_BATCH_ROWS.into(), now.into()],
        );
        self.then(
            "UPDATE approvals SET preview = NULL WHERE tenant_id = $1 AND call_id IN (SELECT id FROM calls WHERE tenant_id = $1 AND id < $2
                AND status IN ('completed', 'failed', 'rejected', 'cancelled') ORDER BY id LIMIT $3)",
            [first_id_of(moment).into(), RETENTION_BATCH_ROWS.into()],
        );
        self.then(
            "DELETE FROM calls WHERE tenant_id = $1 AND id IN (SELECT id FROM calls WHERE tenant_id = $1 AND id < $2
                AND status IN ('completed', 'failed', 'rejected', 'cancelled') ORDER BY id LIMIT $3)",
            [first_id_of(moment).into(), RETENTION_BATCH_ROWS.into()],
        )
    }

    /// Deletes at most one batch each of sessions, links, invitations and what OAuth clients showed that ended before
    /// `moment`.
    fn forget_sign_ins_before(&mut self, moment: Timestamp) -> &mut Self {
        let began = || first_id_of(moment).into();
        self.then(
            "DELETE FROM browser_sessions WHERE tenant_id = $1 AND id IN (SELECT id FROM browser_sessions
                WHERE tenant_id = $1 AND id < $3 AND (revoked_at <= $2 OR expires_at <= $2) ORDER BY id LIMIT $4)",
            [moment.into(), began(), RETENTION_BATCH_ROWS.into()],
        );
        // A link lives an hour at most, so a spent one has run out as well.
        self.then(
            "DELETE FROM sign_in_links WHERE tenant_id = $1 AND token_hash IN (SELECT token_hash FROM sign_in_links
                WHERE tenant_id = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3)",
            [moment.into(), RETENTION_BATCH_ROWS.into()],
        );
        self.then(
            "DELETE FROM oauth_codes WHERE tenant_id = $1 AND code_hash IN (SELECT code_hash FROM oauth_codes
                WHERE tenant_id = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3)",
            [moment.into(), RETENTION_BATCH_ROWS.into()],
        );
        self.then(
            "DELETE FROM oauth_refreshes WHERE tenant_id = $1 AND token_hash IN (SELECT token_hash FROM oauth_refreshes
                WHERE tenant_id = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3)",
            [moment.into(), RETENTION_BATCH_ROWS.into()],
        );
        self.then(
            "DELETE FROM invitations WHERE tenant_id = $1 AND id IN (SELECT id FROM invitations
                WHERE tenant_id = $1 AND id < $3 AND (accepted_at <= $2 OR revoked_at <= $2 OR expires_at <= $2)
                ORDER BY id LIMIT $4)",
            [moment.into(), began(), RETENTION_BATCH_ROWS.into()],
        )
    }

    /// Ends every browser session, spends every link and revokes every invitation of a tenant: what a restored backup holds of them may
    /// have been ended since.
    pub fn end_all_sessions(&mut self, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE browser_sessions SET revoked_at = $2 WHERE tenant_id = $1 AND revoked_at IS NULL",
            [at.into()],
        );
        self.then("UPDATE sign_in_links SET used_at = $2 WHERE tenant_id = $1 AND used_at IS NULL", [at.into()]);
        self.end_all_client_keys(at);
        self.revoke_all_invitations(at)
    }

    /// Removes what a person sent and got, of at most one batch of calls that have ended. Rows, decisions and the log stay; salts go, so
    /// nothing can be guessed back. Files expire at once and are removed by whoever clears expired ones.
    pub fn erase_payloads_of(&mut self, person: Principal, now: Timestamp) -> &mut Self {
        let person = || Value::from(person.to_string());
        self.then(
            "DELETE FROM event_parts WHERE tenant_id = $1 AND call_id IN (SELECT id FROM calls
                WHERE tenant_id = $1 AND principal = $2 AND (input IS NOT NULL OR output IS NOT NULL OR error IS NOT NULL)
                AND status IN ('completed', 'failed', 'rejected', 'cancelled') ORDER BY id LIMIT $3)",
            [person(), RETENTION_BATCH_ROWS.into()],
        );
        self.then(
            "UPDATE blobs SET expires_at = $4 WHERE tenant_id = $1 AND call_id IN (SELECT id FROM calls
                WHERE tenant_id = $1 AND principal = $2 AND (input IS NOT NULL OR output IS NOT NULL OR error IS NOT NULL)
                AND status IN ('completed', 'failed', 'rejected', 'cancelled') ORDER BY id LIMIT $3)",
            [person(), RETENTION_BATCH_ROWS.into(), now.into()],
        );
        self.then(
            "UPDATE approvals SET preview = NULL WHERE tenant_id = $1 AND call_id IN (SELECT id FROM calls
                WHERE tenant_id = $1 AND principal = $2 AND (input IS NOT NULL OR output IS NOT NULL OR error IS NOT NULL)
                AND status IN ('completed', 'failed', 'rejected', 'cancelled') ORDER BY id LIMIT $3)",
            [person(), RETENTION_BATCH_ROWS.into()],
        );
        self.then(
            "UPDATE calls SET input = NULL, proposed_input = NULL, output = NULL, error = NULL, metadata = NULL, attachments = NULL,
                salt = NULL
             WHERE tenant_id = $1 AND id IN (SELECT id FROM calls
                WHERE tenant_id = $1 AND principal = $2 AND (input IS NOT NULL OR output IS NOT NULL OR error IS NOT NULL)
                AND status IN ('completed', 'failed', 'rejected', 'cancelled') ORDER BY id LIMIT $3)",
            [person(), RETENTION_BATCH_ROWS.into()],
        )
    }

    /// Empties at most one batch each of runs of agents and of workflows of a person that are closed: what was asked, what
    /// models said and what came of it. The two last statements say how many.
    fn empty_runs_of(&mut self, person: Principal) -> &mut Self {
        for sql in emptying!("r.principal = $2") {
            self.then(sql, [person.to_string().into(), RETENTION_BATCH_ROWS.into()]);
        }
        self
    }

    /// The same for those that began before `moment`, whoever's.
    fn empty_runs_before(&mut self, moment: Timestamp) -> &mut Self {
        for sql in emptying!("r.id < $2") {
            self.then(sql, [first_id_of(moment).into(), RETENTION_BATCH_ROWS.into()]);
        }
        self
    }

    /// Removes what the log commits to of a person, beside calls.
    pub fn erase_log_payloads_of(&mut self, person: Principal) -> &mut Self {
        self.then("DELETE FROM audit_payloads WHERE tenant_id = $1 AND person = $2", [person.to_string().into()])
    }
}

impl Store {
    /// Deletes sessions, links and invitations that ended long ago, batch by batch. Told is how many.
    pub async fn forget_sign_ins(&self, now: Timestamp) -> Result<u64, Error> {
        let long_ago = now.plus_seconds(-SIGN_INS_KEPT_DAYS * 86_400);
        // Whatever ended before a moment began before it, and ids are in the order of beginning: few rows are looked at.
        let began = first_id_of(long_ago);
        let sql =
            "SELECT DISTINCT tenant_id FROM browser_sessions WHERE id < $2 AND (revoked_at <= $1 OR expires_at <= $1)
             UNION SELECT DISTINCT tenant_id FROM sign_in_links WHERE expires_at <= $1
             UNION SELECT DISTINCT tenant_id FROM oauth_codes WHERE expires_at <= $1
             UNION SELECT DISTINCT tenant_id FROM oauth_refreshes WHERE expires_at <= $1
             UNION SELECT DISTINCT tenant_id FROM invitations
                WHERE id < $2 AND (accepted_at <= $1 OR revoked_at <= $1 OR expires_at <= $1)";
        let everyone = Scope::Everyone("what ended long ago, whoever's");
        let mut forgotten = 0;
        for row in &self.query(&everyone, sql, vec![long_ago.into(), began.into()]).await? {
            let tenant = row.get(0)?;
            loop {
                let mut batch = Change::new(tenant).durability(Durability::Process);
                batch.forget_sign_ins_before(long_ago);
                let deleted = self.commit(batch).await?.changed;
                forgotten += deleted.iter().sum::<u64>();
                if deleted.iter().all(|rows| *rows < u64::from(RETENTION_BATCH_ROWS)) {
                    break;
                }
            }
        }
        Ok(forgotten)
    }

    /// Empties all closed runs of a person, batch by batch. Told is how many.
    pub async fn erase_runs_of(&self, tenant: TenantId, person: Principal) -> Result<u64, Error> {
        self.empty_all(tenant, |batch| _ = batch.empty_runs_of(person)).await
    }

    /// Empties all closed runs that began before `moment`, batch by batch. Told is how many.
    pub async fn forget_runs_before(&self, tenant: TenantId, moment: Timestamp) -> Result<u64, Error> {
        self.empty_all(tenant, |batch| _ = batch.empty_runs_before(moment)).await
    }

    async fn empty_all(&self, tenant: TenantId, empty: impl Fn(&mut Change) + Send) -> Result<u64, Error> {
        let mut emptied = 0;
        loop {
            let mut batch = Change::new(tenant);
            empty(&mut batch);
            let runs: u64 = self.commit(batch).await?.changed.iter().rev().take(2).sum();
            emptied += runs;
            if runs == 0 {
                return Ok(emptied);
            }
        }
    }

    pub async fn count_calls_before(&self, tenant: TenantId, moment: Timestamp) -> Result<i64, Error> {
        let sql = format!("SELECT count(*) FROM calls WHERE tenant_id = $1 AND id < $2 AND {FINISHED}");
        self.count(tenant, &sql, first_id_of(moment).into()).await
    }

    pub async fn count_calls_of(&self, tenant: TenantId, person: Principal) -> Result<i64, Error> {
        let sql = format!(
            "SELECT count(*) FROM calls WHERE tenant_id = $1 AND principal = $2
                AND (input IS NOT NULL OR output IS NOT NULL OR error IS NOT NULL) AND {FINISHED}"
        );
        self.count(tenant, &sql, person.to_string().into()).await
    }

    /// Calls of a person that have not ended, of which nothing can be erased yet.
    pub async fn count_open_calls_of(&self, tenant: TenantId, person: Principal) -> Result<i64, Error> {
        let sql = format!("SELECT count(*) FROM calls WHERE tenant_id = $1 AND principal = $2 AND NOT ({FINISHED})");
        self.count(tenant, &sql, person.to_string().into()).await
    }

    async fn count(&self, tenant: TenantId, sql: &str, parameter: Value) -> Result<i64, Error> {
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![parameter]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }
}
