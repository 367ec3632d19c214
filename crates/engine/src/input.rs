//! Questions to people: asked by a run, answered by whoever may, waited for on any replica.
//!
//! An answer is data and decides nothing: no approval and no grant arises from one, and it adds no labels. So whoever
//! asked may answer it too, if they are a person; an agent never does.

mod form;

use serde_json::{Map, Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Duration, Instant};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::input_request::{
    ANSWER_BYTES_MAX, QUESTION_INSTRUCTIONS_BYTES_MAX, QUESTION_S_DEFAULT, QUESTION_S_MAX, QUESTION_TITLE_BYTES_MAX,
    QUESTIONS_OPEN_MAX,
};
use toolgate_contracts::{
    AgentId, AgentState, CallId, Caller, Fault, FaultKind, Id, InputRequest, InputRequestId, InputRequestState,
    KillScope, NewQuestion, Page, Permission, Principal, RunId, TenantId, Timestamp, json as strict,
};
use toolgate_ledger::Salt;
use toolgate_registry::schema::fill_defaults;
use toolgate_registry::snapshot::TenantRegistry;
use toolgate_store::calls::Sight;
use toolgate_store::catalog::KillSwitch;
use toolgate_store::events::Place;
use toolgate_store::input_requests::{Question, QuestionFilter};
use toolgate_store::{Change, Error};

use form::{check_answer, check_text, checked_schema};

use crate::engine::Engine;
use crate::entry::members;
use crate::notify::News;

/// How long a waiter goes without looking, for answers that another replica took.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const SYSTEM: &str = "system";

/// Why nothing goes on, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    pub since: Timestamp,
    pub why: String,
}

impl Engine {
    /// Asks people on behalf of a run, which waits from then on.
    pub async fn ask(&self, caller: &Caller, run: RunId, new: NewQuestion) -> Result<InputRequest, Fault> {
        caller.require(&Permission::CALLS_CREATE)?;
        let own = self.own_run(caller, run).await?;
        self.check_undriven(
            caller.tenant,
            &own,
            "questions in it come",
            "open a run below it with `parent_run_id`, and ask there",
        )
        .await?;
        self.ask_as(caller, run, InputRequestId::new(&self.clock, &self.rng), new).await
    }

    /// The same with an id that was chosen beforehand, by whoever must find it again after they were cut off.
    pub async fn ask_as(
        &self,
        caller: &Caller,
        run: RunId,
        id: InputRequestId,
        new: NewQuestion,
    ) -> Result<InputRequest, Fault> {
        caller.require(&Permission::CALLS_CREATE)?;
        let run = self.own_run(caller, run).await?;
        if run.state.is_final() {
            return Err(Fault::conflict(format!("the run is {}", run.state), "open another run"));
        }
        let agent = caller.agent.or(run.agent_id);
        if let Some(stopped) = self.stopped(caller.tenant, agent)? {
            return Err(Fault::conflict(stopped.why, "ask again when it is let go on"));
        }
        let NewQuestion { title, instructions, schema, expires_s, call_id } = new;
        let instructions = instructions.filter(|text| !text.trim().is_empty());
        check_text(&title, "title", QUESTION_TITLE_BYTES_MAX)?;
        if let Some(instructions) = &instructions {
            check_text(instructions, "instructions", QUESTION_INSTRUCTIONS_BYTES_MAX)?;
        }
        let expires_s = expires_s.unwrap_or(QUESTION_S_DEFAULT);
        if !(1..=QUESTION_S_MAX).contains(&expires_s) {
            let remedy = format!("let it stand 1 to {QUESTION_S_MAX} seconds");
            return Err(Fault::invalid(format!("`expires_s` is {expires_s}"), remedy).at("/expires_s"));
        }
        if let Some(call) = call_id {
            self.check_asking_call(caller, run.id, call).await?;
        }
        let schema = checked_schema(schema)?;
        let now = self.clock.now();
        let salt: [u8; 32] = self.rng.bytes();
        let question = Question {
            request: InputRequest {
                id,
                run_id: run.id,
                call_id,
                asked_by: caller.principal,
                title,
                instructions,
                schema,
                state: InputRequestState::Open,
                answer: None,
                answered_by: None,
                expires_at: now.plus_seconds(expires_s.into()),
            },
            agent,
            run_principal: run.principal,
            closed_at: None,
            frozen_at: None,
            created_at: now,
            salt: Some(salt.to_vec()),
        };
        let request = &question.request;
        let ended = Fault::conflict("the run has ended or is frozen", "open another run");
        let too_many = Fault::new(
            FaultKind::RateLimited,
            format!("the run has {QUESTIONS_OPEN_MAX} open questions already"),
            "wait for answers, or ask several things in one question",
        );
        let told = json!({"title": request.title, "instructions": request.instructions, "schema": request.schema});
        let asked = Salt::from_bytes(salt).commit_named("question", &strict::canonical(&told));
        let actor = caller.principal.to_string();
        let mut change = Change::new(caller.tenant);
        change.ask_question(&question, ended, too_many);
        let event = event(request, EventType::InputRequested, &actor, now);
        change.append_events(run.id, Place::Counted, call_id, &[event], now);
        change.park_run(run.id, &run_event(request, EventType::RunWaiting, &actor, now), now);
        self.note(&mut change, &question, &actor, "input.ask", json!({"question": asked, "agent": agent}));
        let news = News::of_question(request.id, run.id, call_id).in_workspace(run.workspace_id);
        self.tell(&mut change, self.registry.snapshot().tenant(caller.tenant)?, news);
        self.store.commit(change).await?;
        self.signal(caller.tenant, run.id, call_id);
        Ok(question.request)
    }

    /// A call asks in its own run, and nowhere else.
    async fn check_asking_call(&self, caller: &Caller, run: RunId, call: CallId) -> Result<(), Fault> {
        let unknown = || Fault::not_found("call", call).at("/call_id");
        let record = self.store.call(caller.tenant, call).await?.ok_or_else(unknown)?;
        if record.run == run { Ok(()) } else { Err(unknown()) }
    }

    /// Answers a question: once, by a person who may, with what its schema accepts. The same answer again is the same
    /// result; another one is refused with who answered and when.
    pub async fn answer_question(
        &self,
        caller: &Caller,
        id: InputRequestId,
        mut answer: Value,
    ) -> Result<InputRequest, Fault> {
        let question = self.readable_question(caller, id).await?;
        require_person(caller)?;
        if answer.to_string().len() > ANSWER_BYTES_MAX {
            let remedy = format!("keep an answer under {ANSWER_BYTES_MAX} bytes");
            return Err(Fault::new(FaultKind::TooLarge, "the answer is too large", remedy).at("/answer"));
        }
        strict::normalize(&mut answer).map_err(|error| {
            let pointer = format!("/answer{}", error.pointer);
            Fault::from(error).at(pointer)
        })?;
        let filled = fill_defaults(&question.request.schema, &mut answer);
        if question.request.state != InputRequestState::Open {
            return same_answer(question, &answer);
        }
        filled.map_err(|_| {
            Fault::invalid("the answer has too many places with defaults", "write them out").at("/answer")
        })?;
        check_answer(&question.request.schema, &answer)?;
        let now = self.clock.now();
        let actor = caller.principal.to_string();
        let text = strict::canonical(&answer);
        let salt = question.salt.as_deref().and_then(|salt| <[u8; 32]>::try_from(salt).ok());
        let salt = Salt::from_bytes(salt.unwrap_or_else(|| self.rng.bytes()));
        let committed = json!({"answer": salt.commit_named("answer", &text)});
        let close = |change: &mut Change| {
            change.answer_question(id, &text, caller.principal, now, taken());
            self.note(change, &question, &actor, "input.answer", committed);
        };
        match self.close(caller.tenant, &question, EventType::InputSubmitted, &actor, now, close).await {
            Ok(()) => Ok(self.question(caller.tenant, id).await?.request),
            // Somebody was faster, or its time ran out in this moment.
            Err(Error::Unmet(_)) => same_answer(self.readable_question(caller, id).await?, &answer),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a question back: whoever asked it, or whoever could answer it.
    pub async fn cancel_question(&self, caller: &Caller, id: InputRequestId) -> Result<InputRequest, Fault> {
        let question = self.readable_question(caller, id).await?;
        caller.require(&Permission::CALLS_CREATE)?;
        if question.request.state != InputRequestState::Open {
            return Err(closed(&question));
        }
        let now = self.clock.now();
        let actor = caller.principal.to_string();
        let close = |change: &mut Change| {
            change.cancel_question(id, now, taken());
            self.note(change, &question, &actor, "input.cancel", json!({}));
        };
        match self.close(caller.tenant, &question, EventType::InputCancelled, &actor, now, close).await {
            Ok(()) => Ok(self.question(caller.tenant, id).await?.request),
            Err(Error::Unmet(_)) => Err(closed(&self.question(caller.tenant, id).await?)),
            Err(error) => Err(error.into()),
        }
    }

    /// A question that the caller may see: of their own runs, of agents they manage, or any with the right to all. An
    /// agent's key sees what it asked. Another looks like none.
    pub async fn readable_question(&self, caller: &Caller, id: InputRequestId) -> Result<Question, Fault> {
        let unknown = || Fault::not_found("question", id);
        let sight = self.sight(caller).await?;
        let found = self.store.question(caller.tenant, id).await?;
        let found = found.filter(|question| sees(&sight, caller, question)).ok_or_else(unknown)?;
        if self.is_overdue(&found) && self.expire(caller.tenant, &found).await? {
            return self.question(caller.tenant, id).await;
        }
        Ok(found)
    }

    async fn question(&self, tenant: TenantId, id: InputRequestId) -> Result<Question, Fault> {
        self.store.question(tenant, id).await?.ok_or_else(|| Fault::not_found("question", id))
    }

    pub async fn list_questions(
        &self,
        caller: &Caller,
        state: Option<InputRequestState>,
        run: Option<RunId>,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<InputRequest>, Fault> {
        let sight = self.sight(caller).await?;
        // On a data folder without a server nobody else looks at the time.
        self.expire_questions().await?;
        let asked_as = is_narrow(caller).then_some((caller.principal, caller.agent));
        let of_token = caller.token.as_ref().and_then(|token| token.run);
        if of_token.is_some() && run.is_some() && of_token != run {
            return Ok(Page { items: Vec::new(), next_cursor: None });
        }
        let filter = QuestionFilter { sight, asked_as, state, run: run.or(of_token) };
        let Page { items, next_cursor } = self.store.questions(caller.tenant, &filter, cursor, limit).await?;
        Ok(Page { items: items.into_iter().map(|question| question.request).collect(), next_cursor })
    }

    /// Waits until a question is closed, at most until then, wherever it is closed.
    pub async fn when_answered(
        &self,
        caller: &Caller,
        id: InputRequestId,
        until: Instant,
    ) -> Result<InputRequest, Fault> {
        let mut signals = self.signals();
        loop {
            let question = self.readable_question(caller, id).await?;
            let run = question.request.run_id;
            let open = question.request.state == InputRequestState::Open;
            if !open || Instant::now() >= until || self.stopping.is_cancelled() {
                return Ok(question.request);
            }
            let look = (Instant::now() + LOOK_EVERY).min(until);
            loop {
                match tokio::time::timeout_at(look, signals.recv()).await {
                    Ok(Ok(signal)) if signal.run != run => {}
                    Ok(Ok(_) | Err(RecvError::Lagged(_))) | Err(_) => break,
                    Ok(Err(RecvError::Closed)) => tokio::time::sleep_until(look).await,
                }
            }
        }
    }

    /// What time does to questions: deadlines stand still for who is stopped, and go on; what is over is over.
    pub(crate) async fn attend_questions(&self) -> Result<(), Fault> {
        self.freeze_questions().await?;
        self.expire_questions().await
    }

    /// Runs of who is stopped stand still, and go on.
    pub(crate) async fn attend_runs(&self) -> Result<(), Fault> {
        let snapshot = self.registry.snapshot();
        for tenant in snapshot.tenants().filter(|registry| stops_somebody(registry)).map(|registry| registry.tenant.id)
        {
            for agent in self.store.running_agents(tenant).await? {
                if let Some(stopped) = self.stopped(tenant, agent)? {
                    let mut change = Change::new(tenant);
                    change.freeze_runs(agent, stopped.since);
                    self.store.commit(change).await?;
                }
            }
        }
        for (tenant, agent) in self.store.frozen_runs().await? {
            if self.stopped(tenant, agent).is_ok_and(|stopped| stopped.is_none()) {
                let mut change = Change::new(tenant);
                change.thaw_runs(agent, self.clock.now());
                self.store.commit(change).await?;
            }
        }
        Ok(())
    }

    async fn freeze_questions(&self) -> Result<(), Fault> {
        let snapshot = self.registry.snapshot();
        for tenant in snapshot.tenants().filter(|registry| stops_somebody(registry)).map(|registry| registry.tenant.id)
        {
            for agent in self.store.askers(tenant).await? {
                if let Some(stopped) = self.stopped(tenant, agent)? {
                    let mut change = Change::new(tenant);
                    change.freeze_questions(agent, stopped.since);
                    self.store.commit(change).await?;
                }
            }
        }
        for (tenant, agent) in self.store.frozen_questions().await? {
            // A tenant that is not known here yet is another replica's to look after.
            if self.stopped(tenant, agent).is_ok_and(|stopped| stopped.is_none()) {
                let mut change = Change::new(tenant);
                change.thaw_questions(agent, self.clock.now());
                self.store.commit(change).await?;
            }
        }
        Ok(())
    }

    async fn expire_questions(&self) -> Result<(), Fault> {
        for (tenant, id) in self.store.overdue_questions(self.clock.now()).await? {
            let expired = async {
                match self.store.question(tenant, id).await? {
                    Some(question) => self.expire(tenant, &question).await,
                    None => Ok(false),
                }
            };
            if let Err(fault) = expired.await {
                tracing::warn!(question = %id, "cannot expire: {}", fault.logged().unwrap_or(fault.told()));
            }
        }
        Ok(())
    }

    fn is_overdue(&self, question: &Question) -> bool {
        question.request.state == InputRequestState::Open
            && question.frozen_at.is_none()
            && question.request.expires_at <= self.clock.now()
    }

    /// Ends a question whose time is over, unless it was over only after its asker was stopped; tells whether it changed.
    async fn expire(&self, tenant: TenantId, question: &Question) -> Result<bool, Fault> {
        if let Some(stopped) = self.stopped(tenant, question.agent)?
            && stopped.since < question.request.expires_at
        {
            return Ok(false);
        }
        let now = self.clock.now();
        let close = |change: &mut Change| {
            change.expire_question(question.request.id, now, taken());
            self.note(change, question, SYSTEM, "input.expire", json!({}));
        };
        match self.close(tenant, question, EventType::InputExpired, SYSTEM, now, close).await {
            // Closed meanwhile is as good.
            Ok(()) | Err(Error::Unmet(_)) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Closes a question; its run goes on if it waits for nobody else. The run's row is written first, as in
    /// [`Engine::ask`], so that nobody is overlooked.
    async fn close(
        &self,
        tenant: TenantId,
        question: &Question,
        told: EventType,
        actor: &str,
        now: Timestamp,
        close: impl FnOnce(&mut Change),
    ) -> Result<(), Error> {
        let request = &question.request;
        let mut change = Change::new(tenant);
        let event = event(request, told, actor, now);
        change.append_events(request.run_id, Place::Counted, request.call_id, &[event], now);
        close(&mut change);
        change.resume_run(request.run_id, &run_event(request, EventType::RunResumed, actor, now), now);
        self.store.commit(change).await?;
        self.signal(tenant, request.run_id, request.call_id);
        Ok(())
    }

    fn note(&self, change: &mut Change, question: &Question, actor: &str, action: &str, more: Value) {
        let InputRequest { id, run_id, call_id, .. } = &question.request;
        let mut details = members(json!({"run": run_id, "call": call_id}));
        details.extend(members(more));
        details.retain(|_, member| !member.is_null());
        change.audit(&toolgate_store::audit::Entry {
            id: Id::new(&self.clock, &self.rng),
            at: self.clock.now(),
            tenant: change.tenant(),
            actor: actor.to_owned(),
            action: action.to_owned(),
            object: id.to_string(),
            details,
        });
    }

    /// Whether a tenant, or this agent of it, is stopped: by a kill switch, or because the agent is frozen.
    pub fn stopped(&self, tenant: TenantId, agent: Option<AgentId>) -> Result<Option<Stopped>, Fault> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let holds = |switch: &&KillSwitch| match switch.scope {
            KillScope::Tenant => true,
            KillScope::Agent => agent.is_some_and(|agent| agent.uuid() == switch.object),
            KillScope::Tool => false,
        };
        let first = registry.kill_switches().filter(holds).min_by_key(|switch| switch.set_at);
        if let Some(switch) = first {
            let what = match switch.scope {
                KillScope::Agent => "the agent",
                KillScope::Tenant | KillScope::Tool => "everything",
            };
            let why = format!("{what} is stopped by a kill switch: {}", switch.reason);
            return Ok(Some(Stopped { since: switch.set_at, why }));
        }
        let frozen = agent.and_then(|id| registry.agents.get(&id)).filter(|agent| agent.state == AgentState::Frozen);
        Ok(frozen.map(|agent| {
            // Since when is not known; for what it is needed, from now on is near enough.
            Stopped { since: self.clock.now(), why: format!("the agent `{}` is frozen", agent.spec.name) }
        }))
    }
}

/// Questions are for people: no agent's key and no token answers them, nor a service.
fn require_person(caller: &Caller) -> Result<(), Fault> {
    if caller.agent.is_some() || matches!(caller.credential, Credential::Token(_)) {
        return Err(Fault::new(
            FaultKind::Forbidden,
            "questions are answered by people, and this credential is an agent's",
            "let a person answer: `toolgate input answer`, with their own key or session",
        ));
    }
    caller.require(&Permission::CALLS_CONFIRM)
}

fn sees(sight: &Sight, caller: &Caller, question: &Question) -> bool {
    let Question { request, agent, run_principal, .. } = question;
    match sight {
        Sight::Token(token) => token.sees(request.asked_by, *agent, request.run_id),
        _ if is_narrow(caller) => request.asked_by == caller.principal && *agent == caller.agent,
        Sight::Everything => true,
        Sight::OwnAndManaged { viewer, agents } => {
            request.asked_by == *viewer || run_principal == viewer || agent.is_some_and(|agent| agents.contains(&agent))
        }
    }
}

/// An agent's key, or a token: it sees what was asked in the same name, and nothing else.
fn is_narrow(caller: &Caller) -> bool {
    caller.agent.is_some() || caller.token.is_some()
}

/// The first answer counts: told again it is the same, another one comes too late.
fn same_answer(question: Question, answer: &Value) -> Result<InputRequest, Fault> {
    let answered = question.request.state == InputRequestState::Answered;
    let same =
        question.request.answer.as_ref().is_some_and(|first| strict::canonical(first) == strict::canonical(answer));
    if answered && same { Ok(question.request) } else { Err(closed(&question)) }
}

/// Tells who comes too late what became of it: by whom, and when.
fn closed(question: &Question) -> Fault {
    let Question { request, closed_at, .. } = question;
    let by: Option<String> = request.answered_by.as_ref().map(Principal::to_string);
    let told = match (request.state, &by, closed_at) {
        (InputRequestState::Answered, Some(by), Some(at)) => format!("the question was answered by {by} at {at}"),
        (state, ..) => format!("the question is {state}"),
    };
    Fault::conflict(told, "see what became of it with `toolgate input show`")
        .with_details(json!({"state": request.state, "answered_by": by, "closed_at": closed_at}))
}

fn taken() -> Fault {
    Fault::conflict("the question was closed meanwhile", "see what became of it with `toolgate input show`")
}

fn event(request: &InputRequest, event_type: EventType, actor: &str, at: Timestamp) -> NewEvent {
    let mut data: Map<String, Value> = [("input_id".to_owned(), request.id.to_string().into())].into_iter().collect();
    if event_type == EventType::InputRequested {
        data.insert("expires_at".to_owned(), json!(request.expires_at));
    }
    NewEvent { event_type, call_id: request.call_id, at, actor: actor.to_owned(), data }
}

fn run_event(request: &InputRequest, event_type: EventType, actor: &str, at: Timestamp) -> NewEvent {
    let data = [("input_id".to_owned(), request.id.to_string().into())].into_iter().collect();
    NewEvent { event_type, call_id: None, at, actor: actor.to_owned(), data }
}

/// Whether anybody but the callers of a tool may do nothing for now.
fn stops_somebody(registry: &TenantRegistry) -> bool {
    registry.kill_switches().any(|switch| switch.scope != KillScope::Tool)
        || registry.agents.values().any(|agent| agent.state == AgentState::Frozen)
}
