//! The same again: a request that was answered before, a place in a run that is taken. The first answer stands.

use std::time::Duration;

use toolgate_contracts::call::WAIT_S_DEFAULT;
use toolgate_contracts::{CallId, Digest, Envelope, Fault, Mode, TenantId, ToolName};
use toolgate_store::Error;
use toolgate_store::calls::RequestKey;

use crate::engine::Engine;
use crate::read::sees;
use crate::record::Prepared;
use crate::submit::Asked;

impl Engine {
    /// The same request, or the same place in a run, was answered before.
    pub(crate) async fn answered_before(&self, asked: &Asked) -> Result<Option<Envelope>, Fault> {
        let tenant = asked.caller.tenant;
        if let Some(key) = &asked.key
            && let Some((call, body)) = self.store.answered_request(tenant, key, self.clock.now()).await?
        {
            self.within_token(asked, call).await?;
            // Whoever records runs the tool themselves: waiting for its end would be waiting for themselves.
            let wait = if asked.request.mode == Mode::Record { Duration::ZERO } else { asked.wait };
            let answer = self.same_request(tenant, key, call, body, wait).await?;
            self.join_read(&asked.caller, &answer.labels, &answer.name).await?;
            return Ok(Some(answer));
        }
        let (Some(run), Some(seq)) = (&asked.run, asked.request.seq) else { return Ok(None) };
        match self.store.call_at_place(tenant, run.id, seq).await? {
            Some(call) => {
                let answer = self.same_place(asked, call, seq).await?;
                self.join_read(&asked.caller, &answer.labels, &answer.name).await?;
                Ok(Some(answer))
            }
            None => Ok(None),
        }
    }

    /// A token shares `request_id`s with its owner, and is shown nothing of tools beyond its scope.
    async fn within_token(&self, asked: &Asked, call: CallId) -> Result<(), Fault> {
        let Some(token) = &asked.caller.token else { return Ok(()) };
        let beyond = || {
            Fault::conflict("the request_id was used for a tool outside the token's scope", "choose another request_id")
        };
        let record = self.store.call(asked.caller.tenant, call).await?.ok_or_else(beyond)?;
        let name: toolgate_contracts::ToolName = record.tool_name.parse().map_err(Fault::internal)?;
        let version = record.tool_version.parse().map_err(Fault::internal)?;
        if token.covers(&[&name.folded()], &version) { Ok(()) } else { Err(beyond().at("/request_id")) }
    }

    pub(crate) async fn same_request(
        &self,
        tenant: TenantId,
        key: &RequestKey,
        call: CallId,
        body: Digest,
        wait: Duration,
    ) -> Result<Envelope, Fault> {
        if body != key.body {
            return Err(another_body(key));
        }
        self.when_ended(tenant, call, tokio::time::Instant::now() + wait).await
    }

    /// A taken place with the same tool and input is that call; with others it is a mistake.
    pub(crate) async fn same_place(&self, asked: &Asked, call: CallId, seq: u32) -> Result<Envelope, Fault> {
        let tenant = asked.caller.tenant;
        let record = self.store.call(tenant, call).await?.ok_or_else(|| Fault::not_found("call", call))?;
        let mut input = asked.request.input.clone();
        let sight = self.sight(&asked.caller).await?;
        let readable = sees(&sight, &asked.caller, &record);
        let snapshot = self.registry.snapshot();
        let today = self.clock.now().day();
        let resolved = snapshot.tenant(tenant)?.resolve(&asked.tool, &today);
        let same_tool = match resolved {
            Some(tool) => {
                let _ = toolgate_registry::schema::fill_defaults(&tool.definition.input_schema, &mut input);
                tool.tool.id == record.tool
            }
            // Removed since: the call that was made of it is still that call.
            None => record.tool_name.parse::<ToolName>().is_ok_and(|name| name.folded() == asked.tool.name.folded()),
        };
        if !readable || !same_tool || record.asked_input() != Some(&input) {
            return Err(Fault::conflict(
                format!("place {seq} of the run has another call"),
                "leave `seq` out to take the next place",
            )
            .at("/seq"));
        }
        self.when_ended(tenant, call, tokio::time::Instant::now() + asked.wait).await
    }

    /// Somebody was faster with the same request or place, or we were ourselves and did not hear of it: then the answer
    /// is there already.
    pub(crate) async fn taken(&self, prepared: &Prepared, error: &Error) -> Result<Option<Envelope>, Fault> {
        let (tenant, id) = (prepared.call.tenant, prepared.call.id);
        let wait = if prepared.call.mode == Mode::Record { 0 } else { WAIT_S_DEFAULT };
        let wait = Duration::from_secs(wait);
        if let Some(key) = &prepared.request
            && error.is("request_ids_pkey")
            && let Some((call, body)) = self.store.answered_request(tenant, key, self.clock.now()).await?
        {
            return self.same_request(tenant, key, call, body, wait).await.map(Some);
        }
        if error.is("run_calls_pkey")
            && let Some(call) = self.store.call_at_place(tenant, prepared.call.run, prepared.call.seq).await?
        {
            let record = self.store.call(tenant, call).await?;
            let same = record.as_ref().is_some_and(|record| {
                record.tool == prepared.call.tool.tool.id && record.asked_input() == Some(&*prepared.call.input)
            });
            if same {
                return self.when_ended(tenant, call, tokio::time::Instant::now() + wait).await.map(Some);
            }
            let told = format!("place {} of the run was taken meanwhile", prepared.call.seq);
            return Err(Fault::conflict(told, "leave `seq` out to take the next place").at("/seq"));
        }
        let ours = error.is("calls_pkey") || matches!(error, Error::Unmet(_));
        match self.store.call(tenant, id).await? {
            Some(record) if ours && record.status.is_final() => self.envelope_of(tenant, record).await.map(Some),
            _ => Ok(None),
        }
    }
}

pub(crate) fn another_body(key: &RequestKey) -> Fault {
    Fault::conflict(
        format!("the request_id `{}` was used with another body", key.request_id),
        "send the same body again, or choose another request_id",
    )
    .at("/request_id")
}
