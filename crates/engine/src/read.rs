//! Calls as they are read: who may, and the envelope of what the record holds.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use toolgate_contracts::call::Receipt;
use toolgate_contracts::event::Event;
use toolgate_contracts::{
    AgentId, BlobId, CallId, Caller, Envelope, Fault, HeldToken, LeafId, Page, Permission, Principal, Scope, StepId,
    TenantId, Timestamp, ToolId,
};
use toolgate_registry::snapshot::Version;
use toolgate_store::calls::{CallFilter, CallRecord, CallSummary, Sight, TokenSight, ToolVersions};
use utoipa::ToSchema;

use crate::engine::Engine;

/// How long a waiter goes without looking, for calls that end on another replica.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Calls that are looked up by one question.
const CALLS_AT_ONCE: usize = 500;

/// A call with everything its reader may know: the envelope, and how it came to it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CallDetails {
    #[serde(flatten)]
    pub envelope: Envelope,
    pub root_run_id: toolgate_contracts::RunId,
    pub step_id: Option<StepId>,
    pub step_title: Option<String>,
    pub seq: u32,
    pub tool_id: ToolId,
    pub tool_title: String,
    pub egress_class: String,
    pub agent_id: Option<AgentId>,
    pub agent_name: Option<String>,
    #[schema(value_type = String)]
    pub principal: Principal,
    pub principal_name: Option<String>,
    pub source: String,
    pub mode: String,
    pub approval_status: String,
    pub approval_required: bool,
    #[schema(value_type = Option<String>)]
    pub approval_id: Option<toolgate_contracts::ApprovalId>,
    pub approval_decided_by: Option<String>,
    pub approval_decided_by_name: Option<String>,
    pub approval_reason: Option<String>,
    /// By which grant it ran: of this call, or a standing one.
    #[schema(value_type = Option<String>)]
    pub grant_id: Option<toolgate_contracts::GrantId>,
    /// Which secrets it was given, never what they hold: `[{name, scope, version}]`.
    #[schema(value_type = Option<Object>)]
    pub secrets: Option<Value>,
    /// What each step said and why.
    #[schema(value_type = Object)]
    pub decision: Value,
    pub cost_estimate: Option<toolgate_contracts::Amount>,
    /// The caller's own figure, beside what the server counts.
    pub reported_cost: Option<toolgate_contracts::Amount>,
    #[schema(value_type = Option<Object>)]
    pub usage: Option<Value>,
    pub attempts: u32,
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    #[schema(value_type = Option<Object>)]
    pub proposed_input: Option<Value>,
    pub cancel_requested_by: Option<String>,
    /// It is offered to workers, and none has taken it.
    pub awaits_worker: bool,
    #[schema(value_type = String)]
    pub definition_digest: toolgate_contracts::Digest,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
}

impl Engine {
    /// Whose calls the caller sees: everyone's, or their own and those of agents they manage; with a token, what it was
    /// made for.
    pub async fn sight(&self, caller: &Caller) -> Result<Sight, Fault> {
        if let Some(token) = &caller.token {
            caller.require(&Permission::CALLS_READ_OWN)?;
            return Ok(Sight::Token(self.token_sight(caller, token)?));
        }
        if caller.agent.is_none() && caller.may(&Permission::CALLS_READ_ALL) {
            return Ok(Sight::Everything);
        }
        caller.require(&Permission::CALLS_READ_OWN)?;
        let mut agents = Vec::new();
        if caller.agent.is_none() {
            let snapshot = self.registry.snapshot();
            for agent in snapshot.tenant(caller.tenant)?.agents.values() {
                if self.registry.may_manage(caller, agent).await? {
                    agents.push(agent.id);
                }
            }
        }
        Ok(Sight::OwnAndManaged { viewer: caller.principal, agents })
    }

    fn token_sight(&self, caller: &Caller, token: &HeldToken) -> Result<TokenSight, Fault> {
        let seen = TokenSight { viewer: caller.principal, agent: caller.agent, run: token.run, tools: None };
        if token.scope.contains(&Scope::Every) {
            return Ok(seen);
        }
        let snapshot = self.registry.snapshot();
        let mut tools = Vec::new();
        for tool in snapshot.tenant(caller.tenant)?.tools() {
            // By the names that a call is judged by.
            let covered = |version: &&std::sync::Arc<Version>| {
                let names = [tool.tool.name.folded(), tool.at(version, None).name.folded()];
                token.covers(&[&names[0], &names[1]], &version.version)
            };
            let all = tool.tool.versions.len();
            let versions: Vec<String> =
                tool.tool.versions.iter().filter(covered).map(|version| version.version.to_string()).collect();
            if !versions.is_empty() {
                let versions = (versions.len() < all).then_some(versions);
                tools.push(ToolVersions { tool: tool.tool.id, versions });
            }
        }
        Ok(TokenSight { tools: Some(tools), ..seen })
    }

    /// A call that the caller may read; another looks like none.
    pub async fn readable(&self, caller: &Caller, id: &str) -> Result<CallRecord, Fault> {
        let unknown = || Fault::not_found("call", id);
        let sight = self.sight(caller).await?;
        let found = match id.parse::<CallId>() {
            Ok(id) => Some(id),
            Err(_) if id.starts_with("c_") => self.store.call_by_call_id(caller.tenant, caller.principal, id).await?,
            Err(_) => None,
        };
        let record = match found {
            Some(id) => self.store.call(caller.tenant, id).await?,
            None => None,
        };
        let record = record.filter(|record| sees(&sight, caller, record)).ok_or_else(unknown)?;
        self.join_result(caller, &record).await?;
        Ok(record)
    }

    /// Whoever reads a record has seen what is in it: its result, and before there is one its input.
    pub(crate) async fn join_result(&self, caller: &Caller, record: &CallRecord) -> Result<(), Fault> {
        if record.output.is_some() || record.error.is_some() || !record.attachments.is_empty() {
            return self.join_read(caller, &record.labels, &record.tool_name).await;
        }
        self.join_input(caller, record).await
    }

    /// The same for who is shown the input alone. What was seen before it is kept with what waited; of the rest it is
    /// known together with what the result brings.
    pub(crate) async fn join_input(&self, caller: &Caller, record: &CallRecord) -> Result<(), Fault> {
        if record.input.is_none() && record.proposed_input.is_none() {
            return Ok(());
        }
        let waited = match record.approval {
            Some(id) => self.store.approval(caller.tenant, id).await?,
            None => None,
        };
        let labels = waited.map_or_else(|| record.labels.clone(), |approval| approval.binding.labels);
        self.join_read(caller, &labels, &record.tool_name).await
    }

    pub async fn list_calls(
        &self,
        caller: &Caller,
        filter: &CallFilter,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<CallSummary>, Fault> {
        let sight = self.sight(caller).await?;
        let Some(filter) = of_agent(caller, filter) else { return Ok(Page { items: Vec::new(), next_cursor: None }) };
        let mut page = self.store.calls(caller.tenant, &sight, &filter, cursor, limit).await?;
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let names = self.names(caller.tenant, page.items.iter().map(|call| call.principal.as_str())).await?;
        for call in &mut page.items {
            call.principal_name = names.of(&call.principal);
            let agent = call.agent_id.and_then(|id| registry.agents.get(&id));
            call.agent_name = agent.map(|agent| agent.spec.name.to_string());
            if let Some(tool) = registry.tool_by_id(call.tool_id).and_then(|tool| tool.tool.newest().cloned()) {
                tool.definition.effective_title().clone_into(&mut call.tool_name);
            }
        }
        Ok(page)
    }

    /// The calls of these events that the caller does not see: a token sees its run, and of its calls those of its tools.
    pub async fn beyond_sight<'e>(
        &self,
        caller: &Caller,
        events: impl IntoIterator<Item = &'e Event> + Send,
    ) -> Result<BTreeSet<CallId>, Fault> {
        if caller.token.is_none() {
            return Ok(BTreeSet::new());
        }
        let mut beyond: BTreeSet<CallId> = events.into_iter().filter_map(|event| event.call_id).collect();
        let sight = self.sight(caller).await?;
        let calls: Vec<CallId> = beyond.iter().copied().collect();
        for some in calls.chunks(CALLS_AT_ONCE) {
            let records = self.store.call_records(caller.tenant, some).await?;
            for seen in records.iter().filter(|record| sees(&sight, caller, record)) {
                beyond.remove(&seen.id);
            }
        }
        Ok(beyond)
    }

    /// The envelope of a call as it is recorded now.
    pub async fn answer(&self, tenant: TenantId, id: CallId) -> Result<Envelope, Fault> {
        let record = self.store.call(tenant, id).await?.ok_or_else(|| Fault::not_found("call", id))?;
        self.envelope_of(tenant, record).await
    }

    /// Waits for a call's end, at most until then.
    pub async fn when_ended(&self, tenant: TenantId, id: CallId, until: Instant) -> Result<Envelope, Fault> {
        let mut signals = self.signals();
        loop {
            let record = self.store.call(tenant, id).await?.ok_or_else(|| Fault::not_found("call", id))?;
            if record.status.is_final() || Instant::now() >= until {
                return self.envelope_of(tenant, record).await;
            }
            let look = (Instant::now() + LOOK_EVERY).min(until);
            loop {
                match tokio::time::timeout_at(look, signals.recv()).await {
                    Ok(Ok(signal)) if signal.call != Some(id) => {}
                    Ok(Ok(_) | Err(RecvError::Lagged(_))) | Err(_) => break,
                    Ok(Err(RecvError::Closed)) => tokio::time::sleep_until(look).await,
                }
            }
        }
    }

    pub(crate) async fn envelope_of(&self, tenant: TenantId, record: CallRecord) -> Result<Envelope, Fault> {
        let leaf = self.store.leaf(tenant, LeafId::from(record.id)).await?;
        let receipt =
            leaf.map(|leaf| Receipt { entry_digest: leaf.digest, log: self.log_of(tenant), index: leaf.index });
        let now = self.clock.now();
        Ok(Envelope {
            edited: record.proposed_input.is_some(),
            id: record.id,
            status: record.status,
            run_id: record.run,
            call_id: record.call_id,
            name: record.tool_name,
            version: record.tool_version,
            input: record.input.unwrap_or(Value::Null),
            output: record.output,
            error: record.error,
            t_start: record.started_at.unwrap_or(record.created_at),
            t_end: record.completed_at.unwrap_or(now),
            cached: record.cached,
            truncated: record.truncated,
            attachments: record.attachments,
            labels: record.labels,
            cost: record.cost,
            receipt,
            warnings: Vec::new(),
        })
    }

    pub async fn details(&self, tenant: TenantId, record: CallRecord) -> Result<CallDetails, Fault> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let tool_title = registry
            .tool_by_id(record.tool)
            .and_then(|tool| tool.tool.newest().map(|version| version.definition.effective_title().to_owned()))
            .unwrap_or_else(|| record.tool_name.clone());
        let agent_name = record.agent.and_then(|id| registry.agents.get(&id)).map(|agent| agent.spec.name.to_string());
        let principal = record.principal.to_string();
        let mentioned = record.approval_decided_by.as_deref().into_iter().chain([principal.as_str()]);
        let names = self.names(tenant, mentioned).await?;
        let awaits_worker =
            record.status == toolgate_contracts::Status::Running && self.store.awaits_worker(tenant, record.id).await?;
        Ok(CallDetails {
            awaits_worker,
            root_run_id: record.root_run,
            step_id: record.step,
            step_title: record.step_title.clone(),
            seq: record.seq,
            tool_id: record.tool,
            tool_title,
            egress_class: record.class.to_string(),
            agent_id: record.agent,
            agent_name,
            principal: record.principal,
            principal_name: names.of_principal(record.principal),
            source: record.source.to_string(),
            mode: record.mode.to_string(),
            approval_status: record.approval_status.to_string(),
            approval_required: record.approval_required,
            approval_id: record.approval,
            approval_decided_by: record.approval_decided_by.clone(),
            approval_decided_by_name: record.approval_decided_by.as_deref().and_then(|by| names.of(by)),
            approval_reason: record.approval_reason.clone(),
            grant_id: record.grant,
            secrets: record.secrets.clone(),
            decision: record.decision.clone(),
            cost_estimate: record.cost_estimate,
            reported_cost: record.reported_cost,
            usage: record.usage.clone(),
            attempts: record.attempts,
            metadata: record.metadata.clone(),
            proposed_input: record.proposed_input.clone(),
            cancel_requested_by: record.cancel_requested_by.clone(),
            definition_digest: record.definition_digest,
            created_at: record.created_at,
            started_at: record.started_at,
            completed_at: record.completed_at,
            envelope: self.envelope_of(tenant, record).await?,
        })
    }
}

/// A large payload as it is given out.
#[derive(Debug)]
pub struct Attached {
    /// Whose call it belongs to.
    pub tool: ToolId,
    pub content_type: String,
    pub bytes: Vec<u8>,
}

impl Engine {
    /// A blob for whoever may read its call, as long as it is kept; another looks like none.
    pub async fn attached(&self, caller: &Caller, id: BlobId) -> Result<Attached, Fault> {
        let unknown = || Fault::not_found("blob", id);
        let blob = self.store.blob(caller.tenant, id).await?.ok_or_else(unknown)?;
        let expired = blob.expires_at.is_some_and(|at| at <= self.clock.now());
        let Some(call) = blob.call.filter(|_| !expired) else { return Err(unknown()) };
        let call = self.readable(caller, &call.to_string()).await.map_err(|_| unknown())?;
        let bytes = self.blobs.read(&blob).await?;
        Ok(Attached { tool: call.tool, content_type: blob.content_type, bytes })
    }
}

/// A key made for an agent sees that agent's calls and no others of its owner; `None`: another's are asked for.
pub(crate) fn of_agent<'f>(caller: &Caller, filter: &'f CallFilter) -> Option<Cow<'f, CallFilter>> {
    let Some(own) = caller.agent else { return Some(Cow::Borrowed(filter)) };
    let asked = filter.agent.is_none_or(|asked| asked == own);
    asked.then(|| Cow::Owned(CallFilter { agent: Some(own), ..filter.clone() }))
}

pub(crate) fn sees(sight: &Sight, caller: &Caller, record: &CallRecord) -> bool {
    let own = record.principal == caller.principal;
    match (caller.agent, sight) {
        // Whoever shows a token sees what was done as the very same, with what the token is for.
        (_, Sight::Token(token)) => {
            token.sees(record.principal, record.agent, record.run) && token.covers(record.tool, &record.tool_version)
        }
        (Some(agent), _) => own && record.agent == Some(agent),
        (None, Sight::Everything) => true,
        (None, Sight::OwnAndManaged { agents, .. }) => own || record.agent.is_some_and(|agent| agents.contains(&agent)),
    }
}
