//! Runs: opened, given titled steps, ended; several agents' under one root.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_contracts::agent::MAX_DEPTH_DEFAULT;
use toolgate_contracts::call::{RunKind, RunState};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::definition::Label;
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::{
    Amount, CallId, Caller, Fault, FaultKind, Limits, Page, Permission, RunId, Status, StepId, TenantId, Timestamp,
};
use toolgate_policy::labels::{Labels, Origins};
use toolgate_registry::snapshot::TenantRegistry;
use toolgate_registry::toolset::View;
use toolgate_store::Change;
use toolgate_store::calls::{CallFilter, CallSummary, RequestKey, Sight, TokenSight};
use toolgate_store::events::Place;
use toolgate_store::runs::{Run, RunFilter, RunSums, Step};
use utoipa::ToSchema;

use crate::engine::Engine;

/// Runs under one root that a view shows.
const SHOWN_RUNS_MAX: u32 = 500;
const SHOWN_STEPS_MAX: u32 = 500;
const SHOWN_CALLS_MAX: u32 = 200;
const TITLE_BYTES_MAX: usize = 300;
/// The rule that a run breaks which would stand deeper than it may.
pub const TOO_DEEP: &str = "max_depth";
/// Why a run ends that nobody ended by itself.
const ABOVE_ENDED: &str = "the run above it has ended";
/// Deeper than any `max_depth` that makes sense.
const RUNS_ABOVE_MAX: usize = 100;

/// What a caller asks of a new run.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewRun {
    /// Chosen beforehand by whoever must find it again, also after they were cut off. Nobody outside chooses one.
    #[serde(skip)]
    pub id: Option<RunId>,
    /// The caller's idempotency key, for 24 hours: the same request again gets the same run.
    pub request_id: Option<String>,
    /// What drives it. Nobody outside says that either: what they open are runs of calls.
    #[serde(skip)]
    pub kind: RunKind,
    pub title: Option<String>,
    /// An agent by id or name, one that the caller manages.
    pub agent: Option<String>,
    /// Another run under whose root this one stands.
    pub parent_run_id: Option<RunId>,
    pub limits: Limits,
    pub labels: Vec<Label>,
    /// Where what was seen came from, of somebody beside the one who opens it. Nobody outside says that.
    #[serde(skip)]
    pub origins: Origins,
}

impl NewRun {
    /// What makes two requests the same.
    fn body(&self) -> Value {
        let Self { id: _, request_id: _, kind: _, title, agent, parent_run_id, limits, labels, origins: _ } = self;
        json!({"title": title, "agent": agent, "parent_run_id": parent_run_id, "limits": limits, "labels": labels})
    }
}

/// A run with the names of whom it is: absent where there is nobody of that id any more.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RunSummary {
    #[serde(flatten)]
    pub run: Run,
    pub agent_name: Option<String>,
    pub principal_name: Option<String>,
    /// The beginning of what an agent was asked, in one line; absent where it is erased, and where reading it would bring
    /// labels that whoever asks does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What its calls and its model's answers cost, with those of the runs below it.
    #[schema(value_type = String)]
    pub cost: Amount,
    /// Of those answers, the ones whose model has no price: what they cost is not in `cost`.
    pub unpriced: u32,
}

/// A call in a run that names no tool, or whose arguments cannot be read: it counts, and has no record.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct UnreadCall {
    pub run_id: RunId,
    pub tool: String,
    /// Its place in the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    pub code: String,
    pub reason: String,
    pub at: Timestamp,
}

/// A run with what happened in it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RunView {
    #[serde(flatten)]
    pub run: RunSummary,
    pub steps: Vec<StepView>,
    /// Those opened under this run, if it is a root.
    pub runs: Vec<RunSummary>,
    /// The newest, of the whole tree if it is a root.
    pub calls: Vec<CallSummary>,
    /// The newest that could not be read, of the whole tree if it is a root. They are in no list of calls.
    pub unread: Vec<UnreadCall>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StepView {
    #[serde(flatten)]
    pub step: Step,
    pub agent_name: Option<String>,
}

/// Whether a run is one that the caller may look at: their own, one of an agent they manage, or any with the right to all.
fn sees(sight: &Sight, caller: &Caller, run: &Run) -> bool {
    match (sight, caller.agent) {
        (Sight::Token(token), _) => token.sees(run.principal, run.agent_id, run.id),
        // Of its owner's runs without an agent it may open runs under them, and read none.
        (_, Some(agent)) => run.principal == caller.principal && run.agent_id == Some(agent),
        (Sight::Everything, None) => true,
        (Sight::OwnAndManaged { agents, .. }, None) => {
            run.principal == caller.principal || run.agent_id.is_some_and(|agent| agents.contains(&agent))
        }
    }
}

impl Engine {
    pub async fn open_run(&self, caller: &Caller, mut new: NewRun) -> Result<Run, Fault> {
        caller.require(&Permission::CALLS_CREATE)?;
        let key = match new.request_id.take() {
            Some(id) => Some(Self::key_to_begin(caller, id, &new.body())?),
            None => None,
        };
        let chosen = *new.id.get_or_insert_with(|| RunId::new(&self.clock, &self.rng));
        let open = |key: Option<RequestKey>| async move {
            let opened = self.open_run_with(caller, new, |change, run| {
                if let Some(key) = &key {
                    self.remember_begun(change, key, run.id);
                }
            });
            Ok(Box::pin(opened).await?.id)
        };
        let id = self.begin_once(caller.tenant, key, open).await?;
        if id != chosen {
            // The key is the principal's, and whoever comes for them now may not be who opened it.
            return self.own_run(caller, id).await.map_err(|fault| fault.at("/request_id"));
        }
        self.store.run(caller.tenant, id).await?.ok_or_else(|| Fault::not_found("run", id))
    }

    /// The same, with what else must hold in the commit that opens it.
    pub async fn open_run_with(
        &self,
        caller: &Caller,
        new: NewRun,
        more: impl FnOnce(&mut Change, &Run) + Send,
    ) -> Result<Run, Fault> {
        let parent = match new.parent_run_id {
            Some(id) => Some(self.own_run(caller, id).await.map_err(|fault| fault.at("/parent_run_id"))?),
            None => None,
        };
        self.open_run_below(caller, parent, new, more).await
    }

    /// The same below a run that whoever asks may name, where another opens it: an agent below the run of one that asks it.
    pub async fn open_run_below(
        &self,
        caller: &Caller,
        parent: Option<Run>,
        new: NewRun,
        more: impl FnOnce(&mut Change, &Run) + Send,
    ) -> Result<Run, Fault> {
        caller.require(&Permission::CALLS_CREATE)?;
        let NewRun { id, request_id: _, kind, title, agent, parent_run_id: _, limits, labels, origins } = new;
        check_title("title", title.as_deref())?;
        limits.check("/limits")?;
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let parent_run_id = parent.as_ref().map(|parent| parent.id);
        if parent.as_ref().is_some_and(|parent| parent.state.is_final()) {
            return Err(Fault::conflict("the parent run has ended", "open a run without it").at("/parent_run_id"));
        }
        let limits = registry.tenant.limits.within(limits);
        self.check_depth(caller, parent.as_ref(), &limits).await?;
        let agent =
            self.acting_agent(caller, registry, agent.as_deref(), None).await.map_err(|fault| fault.at("/agent"))?;
        let now = self.clock.now();
        let id = id.unwrap_or_else(|| RunId::new(&self.clock, &self.rng));
        let mut joined = labels;
        joined.extend(parent.iter().flat_map(|parent| parent.labels.iter().copied()));
        // Opening another run washes nothing off.
        let seen = self.seen_just_now(caller).await?;
        joined.extend(seen.labels.iter());
        joined.sort_unstable();
        joined.dedup();
        let of_parent =
            parent.as_ref().and_then(|parent| serde_json::from_value::<Origins>(parent.origins.clone()).ok());
        let origins = seen.origins.clone().join(&of_parent.unwrap_or_default()).join(&origins);
        let run = Run {
            id,
            root_run_id: parent.as_ref().map_or(id, |parent| parent.root_run_id),
            parent_run_id,
            workspace_id: agent.and_then(|id| registry.agents.get(&id)).map(|agent| agent.workspace),
            agent_id: agent,
            principal: caller.principal,
            title,
            kind,
            state: RunState::Running,
            reason: None,
            limits: bound(registry, canonical_limits(registry, caller, agent, limits, now)?, parent.as_ref()),
            labels: joined,
            origins: serde_json::to_value(&origins).unwrap_or_default(),
            calls_counted: 0,
            waited_ms: 0,
            frozen_at: None,
            created_at: now,
            updated_at: now,
        };
        let mut change = Change::new(caller.tenant);
        change.insert_run(&run);
        let mut data = Map::new();
        if let Some(title) = &run.title {
            data.insert("title".to_owned(), title.as_str().into());
        }
        if let Some(agent) = run.agent_id {
            data.insert("agent_id".to_owned(), agent.to_string().into());
        }
        let started = run_event(caller, EventType::RunStarted, data.clone(), now);
        change.append_events(id, Place::Counted, None, &[started], now);
        if run.root_run_id != id {
            data.insert("run_id".to_owned(), id.to_string().into());
            let told = run_event(caller, EventType::RunStarted, data, now);
            change.append_events(run.root_run_id, Place::Counted, None, &[told], now);
        }
        more(&mut change, &run);
        self.store.commit(change).await?;
        self.signal(caller.tenant, id, None);
        Ok(run)
    }

    /// The limits that a run of this agent would have below `parent`.
    pub fn limits_below(
        &self,
        caller: &Caller,
        agent: toolgate_contracts::AgentId,
        limits: Limits,
        parent: Option<&Run>,
    ) -> Result<Limits, Fault> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        limits.check("/limits")?;
        Ok(bound(registry, canonical_limits(registry, caller, Some(agent), limits, self.clock.now())?, parent))
    }

    /// The runs above a run, nearest first.
    pub async fn runs_above(&self, tenant: TenantId, run: &Run) -> Result<Vec<Run>, Fault> {
        let mut above = Vec::new();
        let mut next = run.parent_run_id;
        while let Some(id) = next.filter(|_| above.len() < RUNS_ABOVE_MAX) {
            let Some(run) = self.store.run(tenant, id).await? else { break };
            next = run.parent_run_id;
            above.push(run);
        }
        Ok(above)
    }

    /// Runs under runs, as deep as the strictest of them says.
    async fn check_depth(&self, caller: &Caller, parent: Option<&Run>, limits: &Limits) -> Result<(), Fault> {
        let mut most = limits.max_depth.unwrap_or(MAX_DEPTH_DEFAULT);
        let (mut above, mut depth) = (parent.cloned(), 0);
        while let Some(run) = above {
            depth += 1;
            most = most.min(run.limits.max_depth.unwrap_or(MAX_DEPTH_DEFAULT));
            if depth > most {
                let told = format!("runs may stand {most} deep under each other");
                let fault = Fault::conflict(told, "raise `max_depth`, or open the run under the root");
                return Err(fault.by_rule(TOO_DEEP).at("/parent_run_id"));
            }
            above = match run.parent_run_id {
                Some(id) => self.store.run(caller.tenant, id).await?,
                None => None,
            };
        }
        Ok(())
    }

    /// A run that the caller opened, or whose agent they manage; another looks like none. Of a token for one run, that
    /// run alone.
    pub async fn own_run(&self, caller: &Caller, id: RunId) -> Result<Run, Fault> {
        if caller.token.as_ref().and_then(|token| token.run).is_some_and(|own| own != id) {
            return Err(Fault::not_found("run", id).at("/run_id"));
        }
        self.nameable_run(caller, id).await
    }

    /// A run that the caller may name; that a token is for another is told where it is used.
    pub(crate) async fn nameable_run(&self, caller: &Caller, id: RunId) -> Result<Run, Fault> {
        let unknown = || Fault::not_found("run", id).at("/run_id");
        let run = self.store.run(caller.tenant, id).await?.ok_or_else(unknown)?;
        let same_agent = match (caller.agent, run.agent_id) {
            (Some(agent), Some(of_run)) => agent == of_run,
            // Who shows a token made for no agent does not become one by naming its run.
            (None, Some(_)) => caller.token.is_none(),
            (_, None) => true,
        };
        if run.principal == caller.principal && same_agent {
            return Ok(run);
        }
        let snapshot = self.registry.snapshot();
        let agent = run.agent_id.and_then(|id| snapshot.tenant(caller.tenant).ok()?.agents.get(&id).cloned());
        match agent {
            Some(agent) if caller.agent.is_none() && self.registry.may_manage(caller, &agent).await? => Ok(run),
            _ => Err(unknown()),
        }
    }

    /// A run that the caller may look at.
    pub async fn readable_run(&self, caller: &Caller, id: RunId) -> Result<Option<Run>, Fault> {
        let sight = self.sight(caller).await?;
        let run = self.store.run(caller.tenant, id).await?;
        Ok(run.filter(|run| sees(&sight, caller, run)))
    }

    /// The same for what holds every call of a run: a token for some tools is not shown those of others.
    pub async fn whole_run(&self, caller: &Caller, id: RunId) -> Result<Option<Run>, Fault> {
        if let Sight::Token(TokenSight { tools: Some(_), .. }) = self.sight(caller).await? {
            let told = "it holds every call of the run, and this token is for some tools only";
            let remedy = "read the calls that it may with `GET /api/v1/calls?run=`, or use a key";
            return Err(Fault::new(FaultKind::Forbidden, told, remedy));
        }
        self.readable_run(caller, id).await
    }

    pub async fn list_runs(
        &self,
        caller: &Caller,
        filter: RunFilter,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<RunSummary>, Fault> {
        let sight = self.sight(caller).await?;
        let mut page = self.store.runs(caller.tenant, &sight, filter, cursor, limit).await?;
        if caller.agent.is_some() {
            page.items.retain(|run| run.agent_id == caller.agent);
        }
        Ok(Page { items: self.named_runs(caller, page.items).await?, next_cursor: page.next_cursor })
    }

    async fn named_runs(&self, caller: &Caller, runs: Vec<Run>) -> Result<Vec<RunSummary>, Fault> {
        let tenant = caller.tenant;
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let people: Vec<String> = runs.iter().map(|run| run.principal.to_string()).collect();
        let names = self.names(tenant, people.iter().map(String::as_str)).await?;
        let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
        let mut sums = self.store.run_sums(tenant, &ids).await?;
        let mut prompts = self.prompts_for(caller, &runs).await?;
        let named = |run: Run| {
            let RunSums { cost, unpriced } = sums.remove(&run.id).unwrap_or_default();
            let agent = run.agent_id.and_then(|id| registry.agents.get(&id));
            RunSummary {
                agent_name: agent.map(|agent| agent.spec.name.to_string()),
                principal_name: names.of_principal(run.principal),
                prompt: prompts.remove(&run.id),
                cost,
                unpriced,
                run,
            }
        };
        Ok(runs.into_iter().map(named).collect())
    }

    /// What the agents of these runs were asked, of those that the caller may look at, and as far as reading it brings
    /// nobody a label that they have not: a list changes nothing.
    async fn prompts_for(&self, caller: &Caller, runs: &[Run]) -> Result<HashMap<RunId, String>, Fault> {
        let sight = self.sight(caller).await?;
        if matches!(sight, Sight::Token(TokenSight { tools: Some(_), .. })) {
            return Ok(HashMap::new());
        }
        let ids: Vec<RunId> = runs.iter().filter(|run| sees(&sight, caller, run)).map(|run| run.id).collect();
        let brings = self.brings_nothing(caller).await?;
        let asked = self.store.asked_of(caller.tenant, &ids).await?;
        let shown = asked.into_iter().filter(|(_, _, labels)| brings(labels));
        Ok(shown.map(|(run, prompt, _)| (run, prompt)).collect())
    }

    /// Whether reading something with these labels brings the caller none that they have not. A person's browser takes
    /// none on.
    async fn brings_nothing(&self, caller: &Caller) -> Result<impl Fn(&[Label]) -> bool + use<>, Fault> {
        let is_person = matches!(caller.credential, Credential::BrowserSession(_));
        let seen = self.seen_just_now(caller).await?.labels;
        Ok(move |labels: &[Label]| is_person || Labels::from(labels).is_within(seen))
    }

    /// The newest calls of a run, or of the whole tree, that could not be read: of the runs that the caller may look at.
    /// What a model took for a tool is text of that model.
    async fn unread_of(&self, caller: &Caller, run: &Run, under: &[Run]) -> Result<Vec<UnreadCall>, Fault> {
        let sight = self.sight(caller).await?;
        // A token for some tools is not told which others were asked for.
        if matches!(sight, Sight::Token(TokenSight { tools: Some(_), .. })) {
            return Ok(Vec::new());
        }
        let brings = self.brings_nothing(caller).await?;
        let all = std::iter::once(run).chain(under);
        let shown = all.filter(|run| sees(&sight, caller, run) && brings(&run.labels));
        let shown: HashSet<RunId> = shown.map(|run| run.id).collect();
        let tenant = caller.tenant;
        let mut found = Vec::new();
        for event in self.store.events_without_call(tenant, run, EventType::ToolFailed, SHOWN_CALLS_MAX).await? {
            if !shown.contains(&event.run_id) {
                continue;
            }
            let text = |member: &str| event.data.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
            found.push(UnreadCall {
                run_id: event.run_id,
                tool: text("tool"),
                seq: event.data.get("seq").and_then(Value::as_u64).and_then(|seq| u32::try_from(seq).ok()),
                call_id: Some(text("call_id")).filter(|id| !id.is_empty()),
                code: text("code"),
                reason: text("reason"),
                at: event.at,
            });
        }
        Ok(found)
    }

    /// A run with its steps, the runs under it and its newest calls. The run of a lone call is made up from the call.
    pub async fn show_run(&self, caller: &Caller, id: RunId) -> Result<RunView, Fault> {
        let tenant = caller.tenant;
        let Some(run) = self.readable_run(caller, id).await? else { return self.lone_run(caller, id).await };
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let name_of = |agent: Option<toolgate_contracts::AgentId>| {
            agent.and_then(|id| registry.agents.get(&id)).map(|agent| agent.spec.name.to_string())
        };
        let root = run.root_run_id == run.id;
        let runs = if root { self.store.runs_under(tenant, run.id, SHOWN_RUNS_MAX).await? } else { Vec::new() };
        let mut steps = Vec::new();
        for id in std::iter::once(run.id).chain(runs.iter().map(|run| run.id).filter(|id| *id != run.id)) {
            let left = SHOWN_STEPS_MAX.saturating_sub(u32::try_from(steps.len()).unwrap_or(u32::MAX));
            if left == 0 {
                break;
            }
            for step in self.store.steps(tenant, id, left).await? {
                steps.push(StepView { agent_name: name_of(step.agent_id), step });
            }
        }
        let filter = if root {
            CallFilter { root_run: Some(run.id), ..CallFilter::default() }
        } else {
            CallFilter { run: Some(run.id), ..CallFilter::default() }
        };
        let calls = self.list_calls(caller, &filter, None, SHOWN_CALLS_MAX).await?.items;
        let unread = self.unread_of(caller, &run, &runs).await?;
        let others = runs.into_iter().filter(|under| under.id != id);
        let mut named = self.named_runs(caller, std::iter::once(run).chain(others).collect()).await?.into_iter();
        let Some(run) = named.next() else { return Err(Fault::not_found("run", id)) };
        Ok(RunView { run, steps, runs: named.collect(), calls, unread })
    }

    async fn lone_run(&self, caller: &Caller, id: RunId) -> Result<RunView, Fault> {
        let unknown = || Fault::not_found("run", id);
        let call = self.readable(caller, &CallId::from_uuid(id.uuid()).to_string()).await.map_err(|_| unknown())?;
        if call.in_run {
            return Err(unknown());
        }
        let state = match call.status {
            Status::Completed => RunState::Completed,
            Status::Failed | Status::Rejected => RunState::Failed,
            Status::Cancelled => RunState::Cancelled,
            // Somebody has to decide, or to find out.
            Status::Pending | Status::OutcomeUnknown => RunState::WaitingHuman,
            _ => RunState::Running,
        };
        let details = self.details(caller.tenant, call.clone()).await?;
        let run = Run {
            id,
            root_run_id: id,
            parent_run_id: None,
            workspace_id: call.workspace,
            agent_id: call.agent,
            principal: call.principal,
            title: Some(details.tool_title.clone()),
            kind: RunKind::Calls,
            state,
            reason: None,
            limits: Limits::default(),
            labels: call.labels.clone(),
            origins: Value::Object(Map::new()),
            calls_counted: 1,
            waited_ms: 0,
            frozen_at: None,
            created_at: call.created_at,
            updated_at: call.completed_at.unwrap_or(call.created_at),
        };
        let cost = call.cost.unwrap_or_default();
        let calls = vec![CallSummary {
            id: call.id,
            call_id: call.call_id,
            run_id: id,
            tool_id: call.tool,
            tool_key: call.tool_name,
            tool_name: details.tool_title,
            tool_version: call.tool_version,
            agent_id: call.agent,
            agent_name: details.agent_name.clone(),
            principal: call.principal.to_string(),
            principal_name: details.principal_name,
            source: call.source.to_string(),
            egress_class: call.class.to_string(),
            status: call.status,
            approval_status: call.approval_status,
            approval_id: call.approval,
            step_title: None,
            mode: call.mode.to_string(),
            cached: call.cached,
            cost: call.cost.map(|cost| cost.to_string()),
            error_code: call.error.and_then(|error| serde_json::to_value(error.code).ok()?.as_str().map(str::to_owned)),
            root_run_id: id,
            created_at: call.created_at,
            started_at: call.started_at,
            completed_at: call.completed_at,
        }];
        let principal_name = calls.first().and_then(|call| call.principal_name.clone());
        let run = RunSummary { run, agent_name: details.agent_name, principal_name, prompt: None, cost, unpriced: 0 };
        Ok(RunView { run, steps: Vec::new(), runs: Vec::new(), calls, unread: Vec::new() })
    }

    pub async fn add_step(&self, caller: &Caller, run: RunId, title: &str) -> Result<Step, Fault> {
        caller.require(&Permission::CALLS_CREATE)?;
        check_title("title", Some(title))?;
        let run = self.own_run(caller, run).await?;
        if run.state.is_final() {
            return Err(Fault::conflict(format!("the run is {}", run.state), "open another run"));
        }
        let remedy = "open a run below it with `parent_run_id`, and take steps there";
        self.check_undriven(caller.tenant, &run, "steps in it come", remedy).await?;
        let now = self.clock.now();
        let agent_id = caller.agent.or(run.agent_id);
        let step = Step {
            id: StepId::new(&self.clock, &self.rng),
            run_id: run.id,
            agent_id,
            title: title.to_owned(),
            created_at: now,
        };
        let data: Map<String, Value> =
            [("step_id".to_owned(), step.id.to_string().into()), ("title".to_owned(), title.into())]
                .into_iter()
                .collect();
        let event = run_event(caller, EventType::StepStarted, data, now);
        let mut change = Change::new(caller.tenant);
        change.insert_step(&step).append_events(run.id, Place::Counted, None, &[event], now);
        self.store.commit(change).await?;
        self.signal(caller.tenant, run.id, None);
        Ok(step)
    }

    /// Ends a run by the word of who opened it. One that is driven here they can only cancel.
    pub async fn end_run(
        &self,
        caller: &Caller,
        run: RunId,
        state: RunState,
        reason: Option<&str>,
    ) -> Result<Run, Fault> {
        caller.require(&Permission::CALLS_CREATE)?;
        if state != RunState::Cancelled {
            let own = self.own_run(caller, run).await?;
            self.check_undriven(caller.tenant, &own, "its end comes", "end it as `cancelled`").await?;
        }
        self.end_run_with(caller, run, state, reason, |_| {}).await
    }

    /// The same, with what else must hold in the commit that ends it.
    pub async fn end_run_with(
        &self,
        caller: &Caller,
        run: RunId,
        state: RunState,
        reason: Option<&str>,
        more: impl FnOnce(&mut Change) + Send,
    ) -> Result<Run, Fault> {
        caller.require(&Permission::CALLS_CREATE)?;
        let run = self.own_run(caller, run).await?;
        let event_type = match state {
            RunState::Completed => EventType::RunCompleted,
            RunState::Failed => EventType::RunFailed,
            RunState::Cancelled => EventType::RunCancelled,
            other => {
                let told = format!("`state` is {other}");
                return Err(Fault::invalid(told, "end a run as `completed`, `failed` or `cancelled`").at("/state"));
            }
        };
        check_title("reason", reason)?;
        self.end_tree_with(caller, &run, state, event_type, reason, more).await?;
        self.store.run(caller.tenant, run.id).await?.ok_or_else(|| Fault::not_found("run", run.id))
    }

    /// Cancels what stands below a run that has ended.
    pub async fn cancel_below(&self, tenant: TenantId, run: &Run) -> Result<(), Fault> {
        let slug = self.registry.snapshot().tenant(tenant)?.tenant.slug.clone();
        let caller = &Self::server_for(tenant, slug, run.principal);
        let below = self.store.runs_below(tenant, run).await?;
        for id in below.into_iter().filter(|id| *id != run.id) {
            let Some(below) = self.store.run(tenant, id).await?.filter(|run| !run.state.is_final()) else {
                continue;
            };
            let why = Some(ABOVE_ENDED);
            match Box::pin(self.end_tree(caller, &below, RunState::Cancelled, EventType::RunCancelled, why)).await {
                // It ended by itself meanwhile.
                Err(fault) if fault.kind() == FaultKind::Conflict => {}
                ended => ended?,
            }
        }
        Ok(())
    }

    /// Ends a run, and with it those below it: they may call nothing any more, and nobody waits for them. Whoever hosts
    /// one of them sees its state and stops.
    pub(crate) async fn end_tree(
        &self,
        caller: &Caller,
        run: &Run,
        state: RunState,
        event_type: EventType,
        reason: Option<&str>,
    ) -> Result<(), Fault> {
        self.end_tree_with(caller, run, state, event_type, reason, |_| {}).await
    }

    async fn end_tree_with(
        &self,
        caller: &Caller,
        run: &Run,
        state: RunState,
        event_type: EventType,
        reason: Option<&str>,
        more: impl FnOnce(&mut Change) + Send,
    ) -> Result<(), Fault> {
        let tenant = caller.tenant;
        let now = self.clock.now();
        let ended = Fault::conflict(format!("the run is {} already", run.state), "there is nothing to end");
        let mut data = Map::new();
        if let Some(reason) = reason {
            data.insert("reason".to_owned(), reason.into());
        }
        let event = run_event(caller, event_type, data, now);
        let mut change = Change::new(tenant);
        change.move_run(run.id, state, reason, now, ended).append_events(run.id, Place::Counted, None, &[event], now);
        let below = self.store.runs_below(tenant, run).await?;
        for id in &below {
            if *id != run.id {
                let data = [("run_id".to_owned(), run.id.to_string().into())].into_iter().collect();
                change.cancel_run(*id, ABOVE_ENDED, &run_event(caller, EventType::RunCancelled, data, now), now);
            }
            change.cancel_questions_of(*id, now);
        }
        // Nobody below waits for people any more.
        if let Some(above) = run.parent_run_id {
            let data = [("run_id".to_owned(), run.id.to_string().into())].into_iter().collect();
            change.resume_run(above, &run_event(caller, EventType::RunResumed, data, now), now);
        }
        more(&mut change);
        self.store.commit(change).await?;
        for id in below {
            self.signal(tenant, id, None);
            let state = if id == run.id { state } else { RunState::Cancelled };
            self.end_calls_of(caller, id, state).await?;
        }
        Ok(())
    }

    /// Takes back what waits in a run that is over, and stops what runs where that is wanted.
    async fn end_calls_of(&self, caller: &Caller, run: RunId, state: RunState) -> Result<(), Fault> {
        // Nobody waits for them any more, and whoever decided would decide for nothing.
        for call in self.store.parked_calls_of(caller.tenant, run).await? {
            let Some(record) = self.store.call(caller.tenant, call).await? else { continue };
            if let Err(fault) =
                Box::pin(self.cancel_parked(caller.tenant, &record, &caller.principal.to_string())).await
            {
                tracing::debug!(%call, "not cancelled with its run: {}", fault.told());
            }
        }
        if state == RunState::Cancelled {
            // Everyone's: whose they are was judged with the run.
            let open = CallFilter { run: Some(run), status: Some(Status::Running), ..CallFilter::default() };
            for call in self.store.calls(caller.tenant, &Sight::Everything, &open, None, SHOWN_CALLS_MAX).await?.items {
                // One that ended meanwhile needs no cancelling.
                let _ = self.ask_to_stop(caller, call.id).await;
            }
        }
        Ok(())
    }
}

fn check_title(member: &str, text: Option<&str>) -> Result<(), Fault> {
    toolgate_contracts::unseen::check_text(member, text.unwrap_or_default())?;
    match text {
        Some(text) if text.trim().is_empty() || text.len() > TITLE_BYTES_MAX => Err(Fault::invalid(
            format!("a title or reason of {} bytes", text.len()),
            format!("use 1 to {TITLE_BYTES_MAX} bytes"),
        )),
        _ => Ok(()),
    }
}

fn run_event(caller: &Caller, event_type: EventType, data: Map<String, Value>, at: Timestamp) -> NewEvent {
    NewEvent { event_type, call_id: None, at, actor: caller.principal.to_string(), data }
}

/// Names of a run's own allow-list must exist, as those of an agent must: a misspelt one would allow nothing.
fn canonical_limits(
    registry: &TenantRegistry,
    caller: &Caller,
    agent: Option<toolgate_contracts::AgentId>,
    mut limits: Limits,
    now: Timestamp,
) -> Result<Limits, Fault> {
    let Some(names) = &mut limits.enabled_tools else { return Ok(limits) };
    for (index, name) in names.iter_mut().enumerate() {
        let at = format!("/limits/enabled_tools/{index}");
        let reference: toolgate_contracts::ToolRef =
            name.parse().map_err(|why: toolgate_contracts::name::RefError| {
                Fault::invalid(why.to_string(), "name tools as `name` or `name@version`").at(&at)
            })?;
        let today = now.day();
        let agent = agent.and_then(|id| registry.agents.get(&id));
        let view = View { agent, ..View::of(registry, caller, &today)? };
        let unknown = || Fault::not_found("tool", &reference).at(&at);
        let tool = registry.resolve(&reference, &today).filter(|tool| view.sees(tool)).ok_or_else(unknown)?;
        *name = match &reference.version {
            Some(version) => format!("{}@{version}", tool.tool.name),
            None => tool.tool.name.to_string(),
        };
    }
    Ok(limits)
}

/// A run is bound by what binds its tenant and the run above it.
fn bound(registry: &TenantRegistry, limits: Limits, parent: Option<&Run>) -> Limits {
    registry.tenant.limits.within(within(limits, parent))
}

/// A run under another is bound by what binds that one, and by its own. What is counted, calls and money, is counted in
/// both while it runs.
fn within(limits: Limits, parent: Option<&Run>) -> Limits {
    let Some(above) = parent.map(|parent| &parent.limits) else { return limits };
    let enabled_tools = match (limits.enabled_tools, &above.enabled_tools) {
        (Some(own), Some(above)) => Some(in_both(&own, above)),
        (own, above) => own.or_else(|| above.clone()),
    };
    // The one that lets fewer through in the same time.
    let rate_limit = match (limits.rate_limit, above.rate_limit) {
        (Some(own), Some(above)) => {
            let [of_own, of_above] =
                [(own, above), (above, own)].map(|(one, other)| u64::from(one.count) * u64::from(other.per_s));
            Some(if of_above < of_own { above } else { own })
        }
        (own, above) => own.or(above),
    };
    Limits {
        enabled_tools,
        side_effects: limits.side_effects.into_iter().chain(above.side_effects).min(),
        max_wall_s: limits.max_wall_s.into_iter().chain(above.max_wall_s).min(),
        max_output_bytes: limits.max_output_bytes.into_iter().chain(above.max_output_bytes).min(),
        max_depth: limits.max_depth.into_iter().chain(above.max_depth).min(),
        max_parallel: limits.max_parallel.into_iter().chain(above.max_parallel).min(),
        rate_limit,
        ..limits
    }
}

/// What both lists allow; a name without a version allows every version.
fn in_both(own: &[String], above: &[String]) -> Vec<String> {
    fn allows(name: &str, other: &str) -> bool {
        name == other || other.split_once('@').is_some_and(|(bare, _)| bare == name)
    }
    let of_own = own.iter().filter(|own| above.iter().any(|above| allows(above, own)));
    let of_above = above.iter().filter(|above| !own.contains(above) && own.iter().any(|own| allows(own, above)));
    of_own.chain(of_above).cloned().collect()
}
