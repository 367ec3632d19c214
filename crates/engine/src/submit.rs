//! The path, whole. Whoever starts a tool comes through here: REST, MCP, the console, the command line, agents and
//! workflows.
//!
//! ```text
//!  1 identify   who is answerable, as which agent, in which run
//!  2 resolve    the name, within this caller's tool set
//!  3 validate   the input: defaults, schema, canonical form
//!  4 authorize  what depends on the arguments
//!  5 decide     allow, ask or deny
//!  6 reserve    rates, places, budgets
//!  7 permit     the right to run once
//!  8 run        cache, attempts, time
//!  9 record     call, events and log entry in one commit; then the answer
//! ```

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::agent::MAX_TOOL_CALLS_DEFAULT;
use toolgate_contracts::call::{BATCH_CALLS_MAX, METADATA_BYTES_MAX, REQUEST_ID_BYTES_MAX, WAIT_S_DEFAULT, WAIT_S_MAX};
use toolgate_contracts::definition::{TIMEOUT_MS_DEFAULT, ToolState};
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::{
    AgentId, CallId, CallRequest, Caller, Digest, Envelope, ErrorCode, Fault, FaultKind, Limits, Mode, Permission,
    RunId, Source, Status, ToolError, ToolRef, json,
};
use toolgate_ledger::Salt;
use toolgate_registry::snapshot::{ResolvedTool, TenantRegistry};
use toolgate_store::calls::RequestKey;
use toolgate_store::events::Place;
use toolgate_store::runs::Run;
use toolgate_store::{Change, Durability, Error};
use tracing::Instrument as _;

use crate::admit::{Admitted, Decision, Question, Refusal, Refused, Step, Verdict};
use crate::call::Call;
use crate::engine::Engine;
use crate::read::sees;
use crate::record::{Ended, Prepared, Written};
use crate::reserve::ParallelPlaces;
use crate::runner::OutputSink;

/// Places that a caller may choose in a run.
const SEQ_MAX: u32 = 1_000_000;

/// What was asked, by whom, as whom, and where: step 1.
struct Asked {
    caller: Caller,
    source: Source,
    request: CallRequest,
    tool: ToolRef,
    agent: Option<AgentId>,
    run: Option<Run>,
    /// The runs above it, whose limits bind it too.
    above: Vec<Run>,
    key: Option<RequestKey>,
    wait: Duration,
}

/// A call that may run, with its place among the tenant's parallel ones.
struct Permitted {
    prepared: Prepared,
    place: ParallelPlaces,
    /// Among all calls of this replica.
    at_once: OwnedSemaphorePermit,
}

enum Admission {
    Permitted(Box<Permitted>),
    /// It ended before it could run, or it was answered before.
    Answered(Box<Envelope>),
}

impl Engine {
    /// Submits one call and waits for its end, at most as long as it asks; past that the answer is the call as it is.
    pub async fn submit(&self, caller: &Caller, source: Source, request: CallRequest) -> Result<Envelope, Fault> {
        let span =
            tracing::debug_span!("call", tool = request.tool, tenant = %caller.tenant, call_id = tracing::field::Empty);
        let path = async {
            let asked = self.identify(caller, source, request).instrument(step("identify")).await?;
            let wait = asked.wait;
            match self.admit(asked).await? {
                Admission::Answered(envelope) => Ok(*envelope),
                Admission::Permitted(permitted) => self.run(*permitted, wait).await,
            }
        };
        path.instrument(span).await
    }

    /// Submits independent calls: they are admitted in their order and run in parallel; answers keep the order.
    pub async fn submit_all(
        &self,
        caller: &Caller,
        source: Source,
        requests: Vec<CallRequest>,
    ) -> Result<Vec<Result<Envelope, Fault>>, Fault> {
        if requests.is_empty() || requests.len() > BATCH_CALLS_MAX {
            return Err(Fault::invalid(
                format!("a batch of {} calls", requests.len()),
                format!("send 1 to {BATCH_CALLS_MAX} calls in one batch"),
            )
            .at("/calls"));
        }
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            let admitted = async {
                let asked = self.identify(caller, source, request).await?;
                let wait = asked.wait;
                Ok::<_, Fault>((self.admit(asked).await?, wait))
            };
            // Begun here, so that they run while the next is admitted.
            answers.push(match admitted.await {
                Ok((Admission::Permitted(permitted), wait)) => {
                    let engine = self.clone();
                    Err(tokio::spawn(async move { engine.run(*permitted, wait).await }))
                }
                Ok((Admission::Answered(envelope), _)) => Ok(Ok(*envelope)),
                Err(fault) => Ok(Err(fault)),
            });
        }
        let mut ended = Vec::with_capacity(answers.len());
        for answer in answers {
            ended.push(match answer {
                Ok(answer) => answer,
                Err(task) => task.await.unwrap_or_else(|error| Err(Fault::internal(error))),
            });
        }
        Ok(ended)
    }

    /// Steps 7 to 9, in a task of their own: a caller who goes away does not take the call along.
    async fn run(&self, permitted: Permitted, wait: Duration) -> Result<Envelope, Fault> {
        let Permitted { prepared, place, at_once } = permitted;
        let (tenant, id) = (prepared.call.tenant, prepared.call.id);
        if prepared.call.mode == Mode::Record {
            return self.begin_recorded(prepared).await;
        }
        tracing::Span::current().record("call_id", &prepared.call.call_id);
        let engine = self.clone();
        let driving = async move {
            let _places = (place, at_once);
            engine.drive(prepared).await
        };
        let mut task = tokio::spawn(driving.instrument(step("run")));
        let until = tokio::time::Instant::now() + wait;
        match tokio::time::timeout_at(until, &mut task).await {
            Ok(Ok(Ok(envelope))) if !envelope.status.is_final() => self.when_ended(tenant, id, until).await,
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Err(Fault::internal(format!("call {id} ended by a panic: {error}"))),
            Err(_) => self.as_it_stands(tenant, id, task).await,
        }
    }

    /// Its time of waiting is over. Its record may be a moment from being written.
    async fn as_it_stands(
        &self,
        tenant: toolgate_contracts::TenantId,
        id: CallId,
        mut task: tokio::task::JoinHandle<Result<Envelope, Fault>>,
    ) -> Result<Envelope, Fault> {
        loop {
            if let Some(record) = self.store.call(tenant, id).await? {
                return self.envelope_of(tenant, record).await;
            }
            // Before 50 ms have passed an effect-free call has no row; it has one then, or it has ended.
            if let Ok(ended) = tokio::time::timeout(Duration::from_millis(20), &mut task).await {
                return ended.unwrap_or_else(|error| Err(Fault::internal(error)));
            }
        }
    }

    /// Step 1.
    async fn identify(&self, caller: &Caller, source: Source, request: CallRequest) -> Result<Asked, Fault> {
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
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let run = match request.run_id {
            Some(id) => Some(self.own_run(caller, id).await?),
            None => None,
        };
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
        Ok(Asked { caller: caller.clone(), source, request, tool, agent, run, above, key, wait })
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

    /// Steps 2 to 6, and the record of what ends there.
    async fn admit(&self, mut asked: Asked) -> Result<Admission, Fault> {
        if (asked.key.is_some() || asked.request.seq.is_some())
            && let Some(envelope) = Box::pin(self.answered_before(&asked)).await?
        {
            return Ok(Admission::Answered(Box::new(envelope)));
        }
        let at_once = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let told = "this server runs as many calls as it can";
            Fault::new(FaultKind::Unavailable, told, "try again in a moment; nothing was recorded")
        })?;
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(asked.caller.tenant)?;
        let now = self.clock.now();
        let today = now.day();
        let agent = asked.agent.and_then(|id| registry.agents.get(&id));
        let (caller, tool) = (asked.caller.clone(), asked.tool.clone());
        let limits = asked.run.as_ref().map(|run| run.limits.clone());
        let question = Question {
            registry,
            revision: snapshot.revision,
            caller: &caller,
            agent,
            run: limits.as_ref(),
            today: &today,
            tool: &tool,
            mode: asked.request.mode,
        };
        let input = std::mem::replace(&mut asked.request.input, Value::Null);
        let answer = question.answer(input);
        let (seq, counted, full) = self.place_in_run(&asked).await?;
        let most = question.most_calls();
        let Admitted { tool, input, decision } = match answer {
            Ok(admitted) => admitted,
            Err(Refusal::NotFound(fault, input)) => {
                return Box::pin(self.unknown_tool(&asked, seq, fault, input)).await;
            }
            Err(Refusal::Refused(refused)) => return Box::pin(self.refuse(asked, *refused, seq)).await,
        };
        let refused = |step, decision: Decision, tool, input, error| {
            let decision = Decision { verdict: Verdict::Deny, refused_at: Some(step), ..decision };
            Refused { tool, input, decision, error }
        };
        if let Some(error) = question.past_its_time(asked.run.as_ref(), now) {
            return Box::pin(self.refuse(asked, refused(Step::Reserve, decision, tool, input, error), seq)).await;
        }
        if let Some(most) = (counted > most).then_some(most).or(full) {
            let error = too_many_calls(most);
            return Box::pin(self.refuse(asked, refused(Step::Reserve, decision, tool, input, error), seq)).await;
        }
        let dry = asked.request.mode == Mode::DryRun;
        if decision.verdict == Verdict::Ask && !dry {
            let error = approval_required(&tool, &decision.asks);
            return Box::pin(self.refuse(asked, refused(Step::Decide, decision, tool, input, error), seq)).await;
        }
        let clock = crate::admit::Stopwatch::start();
        let estimate = Question::estimate(&tool);
        let run = asked.run.as_ref().map(|run| run.id);
        let holds = match estimate.filter(|_| !dry) {
            Some(cost) => question.holds(&tool, run, &asked.above, cost, now),
            None => Ok(Vec::new()),
        };
        let reserved = match holds {
            Ok(holds) => match self.take_places(&question.parallel_limits(run)) {
                Ok(place) => self
                    .take_rates(&question.quotas(&tool, run), now)
                    .instrument(step("reserve"))
                    .await
                    .map(|()| (holds, place)),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let (holds, place) = match reserved {
            Ok(reserved) => reserved,
            Err(error) => {
                let refused = refused(Step::Reserve, decision, tool, input, error);
                return Box::pin(self.refuse(asked, refused, seq)).await;
            }
        };
        let mut prepared = self.prepare(asked, tool, input, decision, seq).await?;
        prepared.holds = holds;
        prepared.estimate = estimate;
        let _ = clock.lap(Step::Reserve, &mut prepared.decision.spans);
        Ok(Admission::Permitted(Box::new(Permitted { prepared, place, at_once })))
    }

    /// The record of a call, as far as it is known before it runs.
    async fn prepare(
        &self,
        asked: Asked,
        tool: ResolvedTool,
        input: Value,
        decision: Decision,
        seq: u32,
    ) -> Result<Prepared, Fault> {
        let Asked { caller, source, request, tool: _, agent, run, above: _, key, wait: _ } = asked;
        let CallRequest { step_id, mode, timeout_ms, metadata, labels, .. } = request;
        let id = CallId::new(&self.clock, &self.rng);
        let run_id = run.as_ref().map_or(RunId::from(id), |run| run.id);
        let canonical = json::canonical(&input);
        let run_key = self.run_key(caller.tenant, run_id).await?;
        let call_id = run_key.call_id(&format!("{}@{}", tool.tool.name, tool.version.version), &canonical, seq);
        let declared = tool.definition.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT);
        let timeout = Duration::from_millis(timeout_ms.map_or(declared, |asked| asked.min(declared)));
        let snapshot = self.registry.snapshot();
        let workspace = agent
            .and_then(|id| snapshot.tenant(caller.tenant).ok()?.agents.get(&id).map(|agent| agent.workspace))
            .or_else(|| run.as_ref().and_then(|run| run.workspace_id));
        let mut labels = labels;
        labels.extend(run.iter().flat_map(|run| run.labels.iter().copied()));
        labels.extend(tool.definition.labels.iter().flat_map(|rules| rules.adds.iter().copied()));
        labels.sort_unstable();
        labels.dedup();
        let warnings = warnings(&tool);
        let call = Call {
            id,
            call_id,
            tenant: caller.tenant,
            tenant_slug: caller.tenant_slug.clone(),
            run: run_id,
            step: step_id,
            seq,
            principal: caller.principal,
            agent,
            rights: caller.permissions.clone(),
            mode,
            tool,
            input: Arc::new(input),
            timeout,
            created_at: self.clock.now(),
            cancel: CancellationToken::new(),
            output: OutputSink::buffered(),
        };
        Ok(Prepared {
            call: Arc::new(call),
            source,
            workspace,
            decision,
            input: canonical,
            metadata: metadata.map(|members| Value::Object(members).to_string()),
            labels,
            request: key,
            output_bytes_max: run.as_ref().and_then(|run| run.limits.max_output_bytes),
            root_run: run.map(|run| run.root_run_id),
            holds: Vec::new(),
            estimate: None,
            salt: Salt::from_bytes(self.rng.bytes()),
            warnings,
        })
    }

    /// A refusal of a tool that the caller knows is a call with a record.
    async fn refuse(&self, asked: Asked, refused: Refused, seq: u32) -> Result<Admission, Fault> {
        let Refused { tool, input, decision, error } = refused;
        let prepared = self.prepare(asked, tool, input, decision, seq).await?;
        let ended = Ended::refused(error);
        match self.finish(&prepared, Written::Nothing, Status::Failed, ended).await {
            Ok(envelope) => Ok(Admission::Answered(Box::new(envelope))),
            Err(error) => match self.taken(&prepared, &error).await? {
                Some(envelope) => Ok(Admission::Answered(Box::new(envelope))),
                None => Err(error.into()),
            },
        }
    }

    /// Outside a run an unknown name is answered without a record. In a run it is an answer that the model reads.
    async fn unknown_tool(&self, asked: &Asked, seq: u32, fault: Fault, input: Value) -> Result<Admission, Fault> {
        let Some(run) = &asked.run else { return Err(fault) };
        let now = self.clock.now();
        let error = ToolError::because(ErrorCode::PolicyDenied, "not_found", fault.told());
        let data: Map<String, Value> = [
            ("tool".to_owned(), Value::from(asked.request.tool.as_str())),
            ("code".to_owned(), Value::from("POLICY_DENIED")),
            ("reason".to_owned(), Value::from("not_found")),
        ]
        .into_iter()
        .collect();
        let actor = asked.caller.principal.to_string();
        let event = NewEvent { event_type: EventType::ToolFailed, call_id: None, at: now, actor, data };
        let mut change = Change::new(asked.caller.tenant).durability(Durability::Process);
        change.append_events(run.id, Place::Counted, None, &[event], now);
        self.store.commit(change).await?;
        self.signal(asked.caller.tenant, run.id, None);
        let run_key = self.run_key(asked.caller.tenant, run.id).await?;
        Ok(Admission::Answered(Box::new(Envelope {
            id: CallId::new(&self.clock, &self.rng),
            status: Status::Failed,
            run_id: run.id,
            call_id: run_key.call_id(&asked.request.tool, &json::canonical(&input), seq),
            name: asked.request.tool.clone(),
            version: String::new(),
            input,
            output: None,
            error: Some(error),
            t_start: now,
            t_end: now,
            cached: false,
            truncated: false,
            attachments: Vec::new(),
            labels: Vec::new(),
            cost: None,
            receipt: None,
            warnings: Vec::new(),
        })))
    }

    /// The call's place in its run, how many calls the run then has, and the limit of a run above it that is passed. A
    /// lone call is the first and only one.
    async fn place_in_run(&self, asked: &Asked) -> Result<(u32, u32, Option<u32>), Fault> {
        let Some(run) = &asked.run else { return Ok((0, 1, None)) };
        let now = self.clock.now();
        let ended =
            Fault::conflict(format!("the run {} has ended or is frozen", run.id), "open another run").at("/run_id");
        let mut change = Change::new(asked.caller.tenant).durability(Durability::Process);
        match asked.request.seq {
            Some(seq) => change.count_call_at(run.id, seq, now, ended),
            None => change.count_calls(run.id, 1, now, ended),
        };
        for above in &asked.above {
            let ended =
                Fault::conflict(format!("the run {} above it has ended or is frozen", above.id), "open another run");
            change.count_call_below(above.id, now, ended.at("/run_id"));
        }
        let outcome = self.store.commit(change).await?;
        let returned = |index: usize| {
            let row = outcome.returned.get(index).and_then(|rows| rows.first());
            row.ok_or_else(|| Fault::internal("no place returned"))
        };
        let row = returned(0)?;
        let mut full = None;
        for (index, above) in asked.above.iter().enumerate() {
            let counted: u32 = returned(index + 1)?.get(0)?;
            full = full.or(above.limits.max_tool_calls.filter(|most| counted > *most));
        }
        Ok((row.get(0)?, row.get(1)?, full))
    }

    /// The same request, or the same place in a run, was answered before.
    async fn answered_before(&self, asked: &Asked) -> Result<Option<Envelope>, Fault> {
        let tenant = asked.caller.tenant;
        if let Some(key) = &asked.key
            && let Some((call, body)) = self.store.answered_request(tenant, key, self.clock.now()).await?
        {
            // Whoever records runs the tool themselves: waiting for its end would be waiting for themselves.
            let wait = if asked.request.mode == Mode::Record { Duration::ZERO } else { asked.wait };
            return self.same_request(tenant, key, call, body, wait).await.map(Some);
        }
        let (Some(run), Some(seq)) = (&asked.run, asked.request.seq) else { return Ok(None) };
        match self.store.call_at_place(tenant, run.id, seq).await? {
            Some(call) => self.same_place(asked, call, seq).await.map(Some),
            None => Ok(None),
        }
    }

    async fn same_request(
        &self,
        tenant: toolgate_contracts::TenantId,
        key: &RequestKey,
        call: CallId,
        body: Digest,
        wait: Duration,
    ) -> Result<Envelope, Fault> {
        if body != key.body {
            return Err(Fault::conflict(
                format!("the request_id `{}` was used with another body", key.request_id),
                "send the same body again, or choose another request_id",
            )
            .at("/request_id"));
        }
        self.when_ended(tenant, call, tokio::time::Instant::now() + wait).await
    }

    /// A taken place with the same tool and input is that call; with others it is a mistake.
    async fn same_place(&self, asked: &Asked, call: CallId, seq: u32) -> Result<Envelope, Fault> {
        let tenant = asked.caller.tenant;
        let record = self.store.call(tenant, call).await?.ok_or_else(|| Fault::not_found("call", call))?;
        let mut input = asked.request.input.clone();
        let sight = self.sight(&asked.caller).await?;
        let readable = sees(&sight, &asked.caller, &record);
        let snapshot = self.registry.snapshot();
        let today = self.clock.now().day();
        let resolved = snapshot.tenant(tenant)?.resolve(&asked.tool, &today);
        let same_tool = resolved.is_some_and(|tool| {
            let _ = toolgate_registry::schema::fill_defaults(&tool.definition.input_schema, &mut input);
            tool.tool.id == record.tool
        });
        if !readable || !same_tool || record.input.as_ref() != Some(&input) {
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
                record.tool == prepared.call.tool.tool.id && record.input.as_ref() == Some(&*prepared.call.input)
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

impl Question<'_> {
    /// The strictest of the run's and the agent's; a run has a default, a lone call is one call.
    fn most_calls(&self) -> u32 {
        let of = |limits: Option<&Limits>| limits.and_then(|limits| limits.max_tool_calls);
        let stated = of(self.run).into_iter().chain(of(self.agent.map(|agent| &agent.spec.limits))).min();
        stated.unwrap_or(MAX_TOOL_CALLS_DEFAULT)
    }
}

/// One span of a call's trace for each step; it costs nothing where nobody listens.
pub(crate) fn step(name: &'static str) -> tracing::Span {
    tracing::debug_span!("step", otel.name = name)
}

fn too_many_calls(most: u32) -> ToolError {
    let message =
        format!("this run may make {most} calls and has made them; raise `max_tool_calls` or open another run");
    ToolError::because(ErrorCode::PolicyDenied, "max_tool_calls", message).with("max_tool_calls", most)
}

fn approval_required(tool: &ResolvedTool, asks: &[String]) -> ToolError {
    let message = format!(
        "`{}` runs only after a person approved it, and approvals are not available on this server: {}",
        tool.name,
        asks.join("; ")
    );
    ToolError::because(ErrorCode::PolicyDenied, "approval_required", message).with("asks", asks.to_vec())
}

fn warnings(tool: &ResolvedTool) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(alias) = &tool.alias {
        let until = alias.remove_by.as_ref().map(|day| format!(", which works until {day}")).unwrap_or_default();
        warnings.push(format!("`{}` is an old name of `{}`{until}", alias.name, tool.name));
    }
    if tool.state() == ToolState::Deprecated {
        let lifecycle = &tool.version.lifecycle;
        let message = lifecycle.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
        let instead = lifecycle.replaced_by.as_ref().map(|name| format!("; use `{name}`")).unwrap_or_default();
        warnings.push(format!("`{}@{}` is deprecated{message}{instead}", tool.name, tool.version.version));
    }
    warnings
}

fn check_sizes(request: &CallRequest) -> Result<(), Fault> {
    if let Some(id) = &request.request_id
        && (id.is_empty() || id.len() > REQUEST_ID_BYTES_MAX)
    {
        let told = format!("`request_id` has {} bytes", id.len());
        return Err(Fault::invalid(told, format!("use 1 to {REQUEST_ID_BYTES_MAX} bytes")).at("/request_id"));
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
fn body_digest(request: &CallRequest) -> Digest {
    let same = CallRequest { request_id: None, wait: None, timeout_ms: None, ..request.clone() };
    json::digest(&serde_json::to_value(&same).unwrap_or_default())
}
