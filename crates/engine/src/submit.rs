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

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use toolgate_contracts::agent::MAX_TOOL_CALLS_DEFAULT;
use toolgate_contracts::call::BATCH_CALLS_MAX;
use toolgate_contracts::definition::Label;
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::{
    AgentId, CallId, CallRequest, Caller, Envelope, ErrorCode, Fault, FaultKind, Limits, Mode, RunId, Source, Status,
    TenantId, ToolError, ToolRef, json,
};
use toolgate_policy::labels::{Labels, Origins};
use toolgate_store::calls::RequestKey;
use toolgate_store::events::Place;
use toolgate_store::runs::Run;
use toolgate_store::{Change, Durability};
use tracing::Instrument as _;

use crate::admit::{Admitted, Decision, Question, Refusal, Refused, Step, Verdict};
use crate::engine::Engine;
use crate::labels::Seen;
use crate::record::{Consent, Ended, Prepared, Written};
use crate::reserve::{Crowd, Expected, ParallelPlaces};
use crate::tokens::other_run;

/// What was asked, by whom, as whom, and where: step 1.
pub(crate) struct Asked {
    pub caller: Caller,
    pub source: Source,
    pub request: CallRequest,
    pub tool: ToolRef,
    pub agent: Option<AgentId>,
    pub run: Option<Run>,
    /// The runs above it, whose limits bind it too.
    pub above: Vec<Run>,
    pub key: Option<RequestKey>,
    pub wait: Duration,
    /// What was seen before it.
    pub seen: Seen,
    pub manner: Manner,
    pub beside: Option<Beside>,
}

/// What goes along with a call in memory, from whoever begins it to whoever runs it, and is kept nowhere: the way back
/// to a client that waits. A call that waited for a person has none.
pub type Beside = Arc<dyn std::any::Any + Send + Sync>;

/// A call that was begun, as it then is.
pub enum Begun {
    /// It ended before it could run, or it was answered before.
    Ended(Box<Envelope>),
    /// It waits for a person.
    Parked(CallId),
    /// Nothing keeps it from running.
    AtHand(AtHand),
}

/// A call that may run on this replica and has not begun: whoever waits for it drives it to its end, which most calls
/// reach before a task of their own would be worth its price. Dropped, it runs on.
pub struct AtHand {
    running: Running,
    driving: Driving,
}

/// Steps 7 to 9 of a call. Dropped before their end, they go on in a task of their own: a caller who goes away does not take
/// the call along.
struct Driving(Option<BoxFuture<'static, Left>>);

/// How a call stands when nothing of it runs here any more.
type Left = Result<Envelope, Fault>;

/// A call that runs on this replica. Dropped, it runs on.
pub struct Running {
    engine: Engine,
    tenant: TenantId,
    id: CallId,
    labels: Labels,
    /// Gone when it has ended, or was handed over to somebody else's process.
    task: Option<tokio::task::JoinHandle<Left>>,
}

/// How a call stands after it was waited for.
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is made")]
pub enum Soon {
    Ended(Result<Envelope, Fault>),
    Runs(Running),
}

/// What takes longer gets a task of its own, so that it depends on nobody's waiting.
pub const AT_HAND: Duration = Duration::from_millis(50);

/// How long somebody waits who waits for a call's end, whenever it is.
const LONG: Duration = Duration::from_hours(30 * 24);

impl AtHand {
    pub fn id(&self) -> CallId {
        self.running.id
    }

    /// Runs it with a task of its own.
    pub fn apart(self) -> Running {
        let Self { mut running, mut driving } = self;
        running.task = driving.0.take().map(tokio::spawn);
        running
    }

    /// Runs it here for so long, and apart from then on.
    pub async fn soon(mut self, within: Duration) -> Soon {
        let Some(driving) = &mut self.driving.0 else { return Soon::Runs(self.running) };
        let Ok(left) = tokio::time::timeout(within, driving).await else { return Soon::Runs(self.apart()) };
        self.driving.0 = None;
        match left {
            Ok(left) if !left.status.is_final() => Soon::Runs(self.running),
            ended => Soon::Ended(ended),
        }
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        if let Some(driving) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(driving);
        }
    }
}

impl Running {
    pub fn id(&self) -> CallId {
        self.id
    }

    /// Of what it was given and of what it brings: whoever hears of it before its end has heard that.
    pub fn labels(&self) -> Vec<Label> {
        self.labels.to_vec()
    }

    /// How it stands when nothing of it runs here any more: at its end, or in somebody else's hands.
    pub async fn left(&mut self) -> Result<Envelope, Fault> {
        if let Some(task) = &mut self.task {
            let left = task.await.unwrap_or_else(|error| Err(broke_down(self.id, error)));
            self.task = None;
            return left;
        }
        self.engine.answer(self.tenant, self.id).await
    }

    /// Its end. Dropped before, nothing is lost.
    pub async fn ended(&mut self) -> Result<Envelope, Fault> {
        if self.task.is_some() {
            let left = self.left().await?;
            if left.status.is_final() {
                return Ok(left);
            }
        }
        self.engine.when_ended(self.tenant, self.id, tokio::time::Instant::now() + LONG).await
    }
}

fn broke_down(call: CallId, why: impl std::fmt::Display) -> Fault {
    Fault::internal(format!("call {call} ended by a panic: {why}"))
}

/// In which manner a call is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    #[default]
    Ordinary,
    /// Seed 000's development bypass: no person is asked. Whoever serves judges whether a request may have it.
    Unasked,
    /// By a guardrail, which looks at another call: nobody is asked, and no detector looks at it in turn.
    Examining,
    /// By a running call, whose place among the parallel ones it shares: the outer one waits while it runs.
    Step,
    /// By whoever hosts the run: nobody else calls in it while it is open.
    Hosted,
}

/// A call that may run, with its place among the tenant's parallel ones.
pub(crate) struct Permitted {
    prepared: Prepared,
    place: ParallelPlaces,
    /// Among all calls of this replica.
    at_once: OwnedSemaphorePermit,
}

pub(crate) enum Admission {
    Permitted(Box<Permitted>),
    /// It ended before it could run, or it was answered before.
    Answered(Box<Envelope>),
    /// It waits for a person, and its caller until then for its end.
    Parked(CallId, tokio::time::Instant),
}

impl Engine {
    /// Submits one call and waits for its end, at most as long as it asks; past that the answer is the call as it is.
    pub async fn submit(&self, caller: &Caller, source: Source, request: CallRequest) -> Result<Envelope, Fault> {
        self.submit_with(caller, source, request, Manner::Ordinary).await
    }

    /// The same for a request that may carry the development bypass.
    pub async fn submit_with(
        &self,
        caller: &Caller,
        source: Source,
        request: CallRequest,
        manner: Manner,
    ) -> Result<Envelope, Fault> {
        let span =
            tracing::debug_span!("call", tool = request.tool, tenant = %caller.tenant, call_id = tracing::field::Empty);
        let path = async {
            let asked = self.identify(caller, source, request, manner).instrument(step("identify")).await?;
            let wait = asked.wait;
            let tenant = asked.caller.tenant;
            match self.admit(asked).await? {
                Admission::Answered(envelope) => Ok(*envelope),
                Admission::Parked(id, until) => self.when_ended(tenant, id, until).await,
                Admission::Permitted(permitted) => self.run(*permitted, wait).await,
            }
        };
        path.instrument(span).await
    }

    /// Begins a call and answers as soon as it is known what becomes of it: for whoever has something to say while it
    /// runs or waits.
    pub async fn begin_call(
        &self,
        caller: &Caller,
        source: Source,
        request: CallRequest,
        beside: Option<Beside>,
    ) -> Result<Begun, Fault> {
        self.begin_with(caller, source, request, beside, Manner::Ordinary).await
    }

    /// The same for whoever hosts the run in which it is made.
    pub async fn begin_hosted(&self, caller: &Caller, request: CallRequest) -> Result<Begun, Fault> {
        self.begin_with(caller, Source::Agent, request, None, Manner::Hosted).await
    }

    async fn begin_with(
        &self,
        caller: &Caller,
        source: Source,
        request: CallRequest,
        beside: Option<Beside>,
        manner: Manner,
    ) -> Result<Begun, Fault> {
        let span =
            tracing::debug_span!("call", tool = request.tool, tenant = %caller.tenant, call_id = tracing::field::Empty);
        let path = async {
            let mut asked = self.identify(caller, source, request, manner).instrument(step("identify")).await?;
            asked.beside = beside;
            if asked.request.mode == Mode::Record {
                let told = "a call that its caller runs cannot be begun here";
                return Err(Fault::invalid(told, "submit it with `mode: record` over REST"));
            }
            Ok(match self.admit(asked).await? {
                Admission::Answered(envelope) => Begun::Ended(envelope),
                Admission::Parked(id, _) => Begun::Parked(id),
                Admission::Permitted(permitted) => Begun::AtHand(self.set_off(*permitted)),
            })
        };
        path.instrument(span).await
    }

    /// Begins the call of a workflow's node. What was seen before it is what its inputs carry: nothing else that the run
    /// or whoever began it has read reaches it. What it brings joins the run and its reader as ever.
    pub async fn begin_node(&self, caller: &Caller, request: CallRequest, inputs: &[Label]) -> Result<Begun, Fault> {
        let span =
            tracing::debug_span!("call", tool = request.tool, tenant = %caller.tenant, call_id = tracing::field::Empty);
        let path = async {
            let mut asked =
                self.identify(caller, Source::Workflow, request, Manner::Hosted).instrument(step("identify")).await?;
            let labels = Labels::from(inputs);
            let origins = if labels.is_empty() { Origins::default() } else { asked.seen.origins };
            asked.seen = Seen { labels, origins, ..Seen::default() };
            Ok(match self.admit(asked).await? {
                Admission::Answered(envelope) => Begun::Ended(envelope),
                Admission::Parked(id, _) => Begun::Parked(id),
                Admission::Permitted(permitted) => Begun::AtHand(self.set_off(*permitted)),
            })
        };
        path.instrument(span).await
    }

    /// Steps 7 to 9, for whoever waits for them.
    fn set_off(&self, permitted: Permitted) -> AtHand {
        let Permitted { prepared, place, at_once } = permitted;
        let (tenant, id, labels) = (prepared.call.tenant, prepared.call.id, prepared.labels());
        tracing::Span::current().record("call_id", &prepared.call.call_id);
        let engine = self.clone();
        let driving = async move {
            let _places = (place, at_once);
            // It may be driven within somebody's connection, which is not to break with it.
            let driven = AssertUnwindSafe(engine.drive(prepared)).catch_unwind().await;
            driven.unwrap_or_else(|_| Err(broke_down(id, "the log says where")))
        };
        let running = Running { engine: self.clone(), tenant, id, labels, task: None };
        AtHand { running, driving: Driving(Some(Box::pin(driving.instrument(step("run"))))) }
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
                let asked = self.identify(caller, source, request, Manner::Ordinary).await?;
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
                Ok((Admission::Parked(id, until), _)) => {
                    let (engine, tenant) = (self.clone(), caller.tenant);
                    Err(tokio::spawn(async move { engine.when_ended(tenant, id, until).await }))
                }
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

    async fn run(&self, permitted: Permitted, wait: Duration) -> Result<Envelope, Fault> {
        if permitted.prepared.call.mode == Mode::Record {
            return self.begin_recorded(permitted.prepared).await;
        }
        let until = tokio::time::Instant::now() + wait;
        let mut running = match self.set_off(permitted).soon(wait.min(AT_HAND)).await {
            Soon::Ended(ended) => return ended,
            Soon::Runs(running) => running,
        };
        match tokio::time::timeout_at(until, running.ended()).await {
            Ok(ended) => ended,
            Err(_) => self.as_it_stands(running).await,
        }
    }

    /// Its time of waiting is over. Its record may be a moment from being written.
    async fn as_it_stands(&self, mut running: Running) -> Result<Envelope, Fault> {
        let (tenant, id) = (running.tenant, running.id);
        loop {
            if let Some(record) = self.store.call(tenant, id).await? {
                return self.envelope_of(tenant, record).await;
            }
            // Before 50 ms have passed an effect-free call has no row; it has one then, or it has ended.
            if let Ok(ended) = tokio::time::timeout(Duration::from_millis(20), running.ended()).await {
                return ended;
            }
        }
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
            source: asked.source,
            now,
            depth: u32::try_from(asked.above.len()).unwrap_or(u32::MAX),
            labels: asked.seen.labels,
            examining: asked.manner == Manner::Examining,
        };
        let input = std::mem::replace(&mut asked.request.input, Value::Null);
        let answer = question.answer(input);
        let (seq, counted, full) =
            self.place_in_run(caller.tenant, asked.run.as_ref(), &asked.above, asked.request.seq).await?;
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
        if let Some(error) =
            caller.token.as_ref().and_then(|token| other_run(token, asked.request.run_id, &asked.above))
        {
            return Box::pin(self.refuse(asked, refused(Step::Authorize, decision, tool, input, error), seq)).await;
        }
        if let Some(error) = question.past_its_time(asked.run.as_ref(), &asked.above, now) {
            return Box::pin(self.refuse(asked, refused(Step::Reserve, decision, tool, input, error), seq)).await;
        }
        if let Some(most) = (counted > most).then_some(most).or(full) {
            let error = too_many_calls(most);
            return Box::pin(self.refuse(asked, refused(Step::Reserve, decision, tool, input, error), seq)).await;
        }
        let dry = asked.request.mode == Mode::DryRun;
        let mut decision = decision;
        if asked.manner != Manner::Examining
            && let Err(error) = Box::pin(self.examine_by_tools(&question, &tool, &input, &mut decision)).await
        {
            return Box::pin(self.refuse(asked, refused(Step::Decide, decision, tool, input, error), seq)).await;
        }
        if let Err(error) = self.note_borrowing(&caller, asked.request.mode, &tool, &input, &mut decision) {
            return Box::pin(self.refuse(asked, refused(Step::Decide, decision, tool, input, error), seq)).await;
        }
        let mut consent = Consent::NotAsked;
        if let Some(asking) = decision.asking.clone().filter(|_| !dry) {
            match Box::pin(self.consent_to(&asked, &tool, &input, &asking)).await? {
                Some(given) => consent = given,
                None if asked.manner == Manner::Examining => {
                    let error =
                        ToolError::because(ErrorCode::PolicyDenied, "approval_required", "a detector asks nobody");
                    let refused = refused(Step::Decide, decision, tool, input, error);
                    return Box::pin(self.refuse(asked, refused, seq)).await;
                }
                None => {
                    let asks_max = registry.tenant.settings.asks_per_run_max;
                    if let Some(error) = self.too_many_asks(&asked, asks_max).await? {
                        let refused = refused(Step::Decide, decision, tool, input, error);
                        return Box::pin(self.refuse(asked, refused, seq)).await;
                    }
                    if let Err(error) =
                        self.take_rates(&question.quotas(&tool, asked.run.as_ref().map(|run| run.id)), now).await
                    {
                        let refused = refused(Step::Reserve, decision, tool, input, error);
                        return Box::pin(self.refuse(asked, refused, seq)).await;
                    }
                    return Box::pin(self.park(asked, tool, input, decision, asking, seq)).await;
                }
            }
        }
        let clock = crate::admit::Stopwatch::start();
        let run = asked.run.as_ref().map(|run| run.id);
        // What is only planned takes nothing.
        let expected = if dry {
            Ok(Expected { estimate: Question::estimate(&tool), ..Expected::default() })
        } else {
            self.expected(&question, (&tool, &input), run, &asked.above, now)
        };
        let reserved = match expected {
            Ok(expected) => match self.take_places(&own_places(asked.manner, &question, run)) {
                Ok(place) => self
                    .take_rates(&question.quotas(&tool, run), now)
                    .instrument(step("reserve"))
                    .await
                    .map(|()| (expected, place)),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let (Expected { estimate, holds }, place) = match reserved {
            Ok(reserved) => reserved,
            Err(error) => {
                let refused = refused(Step::Reserve, decision, tool, input, error);
                return Box::pin(self.refuse(asked, refused, seq)).await;
            }
        };
        let mut prepared = self.prepare(asked, tool, input, decision, seq).await?;
        prepared.holds = holds;
        prepared.consent = consent;
        prepared.estimate = estimate;
        let _ = clock.lap(Step::Reserve, &mut prepared.decision.spans);
        Ok(Admission::Permitted(Box::new(Permitted { prepared, place, at_once })))
    }

    /// A refusal of a tool that the caller knows is a call with a record.
    async fn refuse(&self, asked: Asked, refused: Refused, seq: u32) -> Result<Admission, Fault> {
        let Refused { tool, input, decision, error } = refused;
        let prepared = self.prepare(asked, tool, input, decision, seq).await?;
        self.write_refusal(prepared, error).await
    }

    /// The same for one that was about to be put aside.
    pub(crate) async fn refuse_prepared(&self, mut prepared: Prepared, error: ToolError) -> Result<Admission, Fault> {
        prepared.decision.verdict = Verdict::Deny;
        prepared.decision.refused_at = Some(Step::Decide);
        self.write_refusal(prepared, error).await
    }

    async fn write_refusal(&self, prepared: Prepared, error: ToolError) -> Result<Admission, Fault> {
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
        let error = ToolError::because(ErrorCode::PolicyDenied, "not_found", fault.told());
        let unread = self.answer_unread(&asked.caller, run.id, seq, &asked.request.tool, input, error);
        Ok(Admission::Answered(Box::new(unread.await?)))
    }

    /// The answer to a call in a run that names no tool or cannot be read: told in the run's log, and no record.
    pub(crate) async fn answer_unread(
        &self,
        caller: &Caller,
        run: RunId,
        seq: u32,
        tool: &str,
        input: Value,
        error: ToolError,
    ) -> Result<Envelope, Fault> {
        let (now, tenant) = (self.clock.now(), caller.tenant);
        let call_id = self.run_key(tenant, run).await?.call_id(tool, &json::canonical(&input), seq);
        let code = serde_json::to_value(error.code).unwrap_or_default();
        let data: Map<String, Value> = [
            ("tool".to_owned(), Value::from(tool)),
            ("code".to_owned(), code),
            ("reason".to_owned(), Value::from(error.reason())),
            ("seq".to_owned(), seq.into()),
            ("call_id".to_owned(), call_id.as_str().into()),
        ]
        .into_iter()
        .collect();
        let actor = caller.principal.to_string();
        let event = NewEvent { event_type: EventType::ToolFailed, call_id: None, at: now, actor, data };
        let mut change = Change::new(tenant).durability(Durability::Process);
        change.append_events(run, Place::Counted, None, &[event], now);
        self.store.commit(change).await?;
        self.signal(tenant, run, None);
        Ok(Envelope {
            id: CallId::new(&self.clock, &self.rng),
            status: Status::Failed,
            run_id: run,
            call_id,
            name: tool.to_owned(),
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
            edited: false,
        })
    }

    /// The call's place in its run, how many calls the run then has, and the limit of a run above it that is passed. A
    /// lone call is the first and only one.
    pub(crate) async fn place_in_run(
        &self,
        tenant: TenantId,
        run: Option<&Run>,
        above: &[Run],
        seq: Option<u32>,
    ) -> Result<(u32, u32, Option<u32>), Fault> {
        let Some(run) = run else { return Ok((0, 1, None)) };
        let now = self.clock.now();
        let ended = Fault::conflict(format!("the run {} has ended", run.id), "open another run").at("/run_id");
        let mut change = Change::new(tenant).durability(Durability::Process);
        match seq {
            Some(seq) => change.count_call_at(run.id, seq, now, ended),
            None => change.count_calls(run.id, 1, now, ended),
        };
        for above in above {
            let ended = Fault::conflict(format!("the run {} above it has ended", above.id), "open another run");
            change.count_call_below(above.id, now, ended.at("/run_id"));
        }
        let outcome = self.store.commit(change).await?;
        let returned = |index: usize| {
            let row = outcome.returned.get(index).and_then(|rows| rows.first());
            row.ok_or_else(|| Fault::internal("no place returned"))
        };
        let row = returned(0)?;
        let mut full = None;
        for (index, above) in above.iter().enumerate() {
            let counted: u32 = returned(index + 1)?.get(0)?;
            full = full.or(above.limits.max_tool_calls.filter(|most| counted > *most));
        }
        Ok((row.get(0)?, row.get(1)?, full))
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
    ToolError::because(ErrorCode::PolicyDenied, "max_tool_calls", message).at_limit("max_tool_calls", most, most)
}

/// A step runs in the place of the call that it is a step of.
fn own_places(manner: Manner, question: &Question<'_>, run: Option<RunId>) -> Vec<(Crowd, u32)> {
    match manner {
        Manner::Step => Vec::new(),
        Manner::Ordinary | Manner::Unasked | Manner::Examining | Manner::Hosted => question.parallel_limits(run),
    }
}
