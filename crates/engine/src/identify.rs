//! Step 1: who is answerable, as which agent, in which run; and what of a request can be refused before anything else.

use std::time::Duration;

use serde_json::Value;
use toolgate_contracts::call::{METADATA_BYTES_MAX, REQUEST_ID_BYTES_MAX, RunKind, WAIT_S_DEFAULT, WAIT_S_MAX};
use toolgate_contracts::{
    AgentId, CallRequest, Caller, Digest, Fault, FaultKind, Permission, Source, TenantId, ToolRef, json,
};
use toolgate_registry::snapshot::TenantRegistry;
use toolgate_store::calls::RequestKey;
use toolgate_store::runs::Run;

use crate::engine::Engine;
use crate::submit::{Asked, Manner};

/// Places that a caller may choose in a run.
const SEQ_MAX: u32 = 1_000_000;

impl Engine {
    /// Step 1.
    pub(crate) async fn identify(
        &self,
        caller: &Caller,
        source: Source,
        mut request: CallRequest,
        manner: Manner,
    ) -> Result<Asked, Fault> {
        caller.require(&Permission::CALLS_CREATE)?;
        if self.stopping.is_cancelled() {
            return Err(Fault::new(FaultKind::Unavailable, "the server is stopping", "try again in a moment"));
        }
        let tool: ToolRef = request.tool.parse().map_err(|why: toolgate_contracts::name::RefError| {
            Fault::invalid(why.to_string(), "name the tool as `name` or `name@version`").at("/tool")
        })?;
        let wait = request.wait.unwrap_or(WAIT_S_DEFAULT);
        if wait > WAIT_S_MAX {
            let told = format!("`wait` is {wait}");
            return Err(Fault::invalid(told, format!("wait 0 to {WAIT_S_MAX} whole seconds")).at("/wait"));
        }
        if request.timeout_ms == Some(0) {
            return Err(Fault::invalid("`timeout_ms` is 0", "leave it out, or give at least 1").at("/timeout_ms"));
        }
        check_sizes(&request)?;
        // A token for one run means that one where none is named.
        request.run_id = request.run_id.or_else(|| caller.token.as_ref().and_then(|token| token.run));
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let run = match request.run_id {
            Some(id) => Some(self.nameable_run(caller, id).await?),
            None => None,
        };
        if let Some(run) = run.as_ref().filter(|_| manner != Manner::Hosted) {
            let remedy = "call without `run_id`, or open a run below it with `parent_run_id`";
            self.check_undriven(caller.tenant, run, "calls in it come", remedy)
                .await
                .map_err(|fault| fault.at("/run_id"))?;
        }
        if let Some(step) = request.step_id {
            let run = run.as_ref().ok_or_else(|| {
                Fault::invalid("`step_id` without `run_id`", "name the run that has the step").at("/step_id")
            })?;
            let known = self.store.step(caller.tenant, run.id, step).await?;
            known.ok_or_else(|| Fault::not_found("step", step).at("/step_id"))?;
        }
        if request.seq.is_some_and(|seq| seq > SEQ_MAX) {
            return Err(Fault::invalid("`seq` is too large", format!("a run has places 0 to {SEQ_MAX}")).at("/seq"));
        }
        if request.seq.is_some() && run.is_none() {
            return Err(Fault::invalid("`seq` without `run_id`", "a place is one in a run; name it").at("/seq"));
        }
        let agent = self.acting_agent(caller, registry, request.agent_id.as_deref(), run.as_ref()).await?;
        let key = request.request_id.clone().map(|request_id| RequestKey {
            who: asking(caller),
            request_id,
            body: body_digest(&request),
        });
        let wait = Duration::from_secs(wait);
        let above = match &run {
            Some(run) if run.parent_run_id.is_some() => self.runs_above(caller.tenant, run).await?,
            _ => Vec::new(),
        };
        let seen = self.seen_before(caller, registry, &tool, run.as_ref(), &request).await?;
        Ok(Asked {
            caller: caller.clone(),
            source,
            request,
            tool,
            agent,
            run,
            above,
            key,
            wait,
            seen,
            manner,
            beside: None,
        })
    }

    /// Nobody outside puts anything into a run that is driven here. Its places are its host's: a call between them would
    /// take the next one from the model.
    pub(crate) async fn check_undriven(
        &self,
        tenant: TenantId,
        run: &Run,
        what: &str,
        remedy: &str,
    ) -> Result<(), Fault> {
        let told = match run.kind {
            RunKind::Workflow if !run.state.is_final() => {
                format!("the run {} is a workflow's, and {what} from its nodes alone", run.id)
            }
            _ if run.agent_id.is_some() && self.store.is_hosted(tenant, run.id).await? => {
                format!("the run {} is an agent's that is hosted here, and {what} from the agent alone", run.id)
            }
            _ => return Ok(()),
        };
        Err(Fault::conflict(told, remedy))
    }

    /// Who the agent is comes from the credential; a request, or the run, may only name one that this caller manages.
    pub(crate) async fn acting_agent(
        &self,
        caller: &Caller,
        registry: &TenantRegistry,
        named: Option<&str>,
        run: Option<&Run>,
    ) -> Result<Option<AgentId>, Fault> {
        let of_run = run.and_then(|run| run.agent_id);
        let asked = match named {
            Some(name) => {
                let unknown = || Fault::not_found("agent", name).at("/agent_id");
                let agent = registry.agent(name).ok_or_else(unknown)?;
                let own = caller.agent == Some(agent.id);
                if !own && (caller.agent.is_some() || !self.registry.may_manage(caller, agent).await?) {
                    return Err(unknown());
                }
                Some(agent.id)
            }
            None => None,
        };
        let acting = caller.agent.or(asked).or(of_run);
        if let (Some(acting), Some(of_run)) = (acting, of_run)
            && acting != of_run
            && run.is_some_and(|run| run.id != run.root_run_id)
        {
            return Err(Fault::conflict("the run is another agent's", "open a run for this agent under the same root")
                .at("/run_id"));
        }
        if let Some(id) = acting
            && !registry.agents.contains_key(&id)
        {
            return Err(Fault::new(FaultKind::Forbidden, "the agent was deleted", "use another agent"));
        }
        Ok(acting)
    }
}

fn check_sizes(request: &CallRequest) -> Result<(), Fault> {
    if let Some(id) = &request.request_id {
        check_request_id(id)?;
    }
    if let Some(metadata) = &request.metadata {
        let bytes = serde_json::to_string(metadata).map_or(usize::MAX, |text| text.len());
        if bytes > METADATA_BYTES_MAX {
            let told = format!("`metadata` has {bytes} bytes");
            return Err(Fault::invalid(told, format!("keep it under {METADATA_BYTES_MAX}")).at("/metadata"));
        }
        // Calls are found by it, and PostgreSQL looks into no JSON that has one: a single call would hide all others.
        if metadata.iter().any(|(member, value)| member.contains('\0') || holds_zero(value)) {
            let told = "`metadata` holds the character U+0000";
            return Err(Fault::invalid(told, "leave the character out").at("/metadata"));
        }
    }
    Ok(())
}

pub(crate) fn check_request_id(id: &str) -> Result<(), Fault> {
    if id.is_empty() || id.len() > REQUEST_ID_BYTES_MAX {
        let told = format!("`request_id` has {} bytes", id.len());
        return Err(Fault::invalid(told, format!("use 1 to {REQUEST_ID_BYTES_MAX} bytes")).at("/request_id"));
    }
    Ok(())
}

fn holds_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_zero),
        Value::Object(members) => members.iter().any(|(member, value)| member.contains('\0') || holds_zero(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whose a `request_id` is: a key made for an agent shares none with its owner.
pub(crate) fn asking(caller: &Caller) -> String {
    match caller.agent {
        Some(agent) => format!("{} agent:{agent}", caller.principal),
        None => caller.principal.to_string(),
    }
}

/// What makes two requests the same: everything but how long their callers wait, and how long the tool may take.
pub(crate) fn body_digest(request: &CallRequest) -> Digest {
    let same = CallRequest { request_id: None, wait: None, timeout_ms: None, ..request.clone() };
    json::digest(&serde_json::to_value(&same).unwrap_or_default())
}
