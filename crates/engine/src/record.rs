//! Step 9, and the rows before it: a call, its events and its entry in the log are committed together, and only then
//! does anybody hear of them.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_contracts::call::{Attachment, Receipt};
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::runner::PromptMode;
use toolgate_contracts::{
    Amount, ApprovalStatus, Digest, Envelope, ErrorCode, Fault, GrantId, HeldToken, Id, LeafId, LeaseId, Mode,
    OpeningId, RunId, Runner, Source, Status, Timestamp, ToolError, WorkspaceId,
};
use toolgate_ledger::Salt;
use toolgate_policy::labels::Labels;
use toolgate_store::blobs::Blob;
use toolgate_store::calls::{Ending, NewCall, RequestKey};
use toolgate_store::events::Place;
use toolgate_store::grants::Started;
use toolgate_store::{Change, Durability, Error};

use crate::admit::Decision;
use crate::call::Call;
use crate::engine::Engine;
use crate::entry::{Details, Entry, commitment, members};
use crate::external::RECORDED_S;
use crate::labels::Seen;
use crate::notify::End;
use crate::reserve::{Hold, no_room, taken_of};
use crate::submit::step;
use crate::tokens::token_refused;
use crate::uses;
use tracing::Instrument as _;

/// A call with everything that its record needs.
pub(crate) struct Prepared {
    pub call: Arc<Call>,
    /// From when on its time counts: when it was asked for, or when people had decided.
    pub began: Timestamp,
    pub source: Source,
    pub workspace: Option<WorkspaceId>,
    pub decision: Decision,
    /// The canonical text of the input.
    pub input: String,
    pub metadata: Option<String>,
    /// What was seen before the call, what its result adds, and for whom that is remembered.
    pub seen: Seen,
    pub brings: Labels,
    pub context: String,
    pub consent: Consent,
    pub token: Option<Arc<HeldToken>>,
    /// Events of its run that are there already, of a lone call that waited.
    pub events_before: u64,
    pub request: Option<RequestKey>,
    /// Of a run with a row of its own: its root.
    pub root_run: Option<RunId>,
    /// The runs above it, which see what it brings.
    pub above: Vec<RunId>,
    /// Of the run.
    pub output_bytes_max: Option<u64>,
    pub holds: Vec<Hold>,
    pub estimate: Option<Amount>,
    pub salt: Salt,
    pub warnings: Vec<String>,
    /// Which secrets it is given: `[{name, scope, version}]`.
    pub secrets: Option<String>,
}

/// On whose word a call runs.
#[derive(Clone, Debug)]
pub(crate) enum Consent {
    /// Nobody had to be asked.
    NotAsked,
    /// A person decided before, for calls like it.
    Standing { grant: GrantId, issued_by: String },
    /// The development bypass.
    Bypassed,
    /// A person decided, on this call: its row is there, and the grant is spent as it begins.
    Granted { grant: GrantId, digest: Digest },
}

/// Who is told to have decided where the development bypass was used.
pub(crate) const BYPASS: &str = "system:dev_bypass";

/// How a call ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended {
    pub output: Option<Value>,
    pub output_text: Option<String>,
    pub error: Option<ToolError>,
    pub truncated: bool,
    pub cached: bool,
    pub attempts: u32,
    pub attachments: Vec<(Blob, Attachment)>,
    pub cost: Option<Amount>,
    pub reported_cost: Option<Amount>,
    pub units: Option<u64>,
    /// Whose word it is, where we did not run it ourselves.
    pub attested_by: Option<String>,
    /// How whoever settled it knows.
    pub settled_because: Option<String>,
    /// Guardrails that would have withheld the result, and were only to be logged.
    pub logged: Vec<String>,
}

impl Ended {
    pub fn refused(error: ToolError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

/// Where a call's record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Nothing,
    /// Its row says `running`.
    Begun,
}

impl Prepared {
    /// Whether its record must be there before it runs: it changes something, it holds money, or somebody else, a process,
    /// an agent or a workflow, will look for it.
    pub fn needs_row_first(&self) -> bool {
        let elsewhere = match &self.call.tool.definition.runner {
            Runner::External(_) | Runner::Task(_) | Runner::Workflow(_) => true,
            Runner::Prompt(prompt) => prompt.mode == PromptMode::Agent,
            _ => false,
        };
        let asked = !matches!(self.consent, Consent::NotAsked);
        self.call.mode != Mode::DryRun
            && (!self.call.is_effect_free() || !self.holds.is_empty() || elsewhere || asked || self.is_counted())
    }

    /// Whether it counts against the `max_calls` of a token.
    fn is_counted(&self) -> bool {
        self.token.as_ref().is_some_and(|token| token.is_counted())
    }

    fn durability(&self) -> Durability {
        if self.call.is_effect_free() && self.holds.is_empty() { Durability::Process } else { Durability::Disk }
    }

    pub fn place(&self, seq: u64) -> Place {
        let before = self.events_before + self.call.telling.written();
        if self.root_run.is_some() { Place::Counted } else { Place::At(before + seq) }
    }

    /// Those of the call itself: of what it was given, and of what it brings.
    pub fn labels(&self) -> Labels {
        let refused = self.decision.refused_at.is_some();
        if refused { self.seen.labels } else { self.seen.labels.join(self.brings) }
    }

    pub fn reserved(&self) -> Option<String> {
        let reserved: Vec<_> = self.holds.iter().map(|hold| &hold.held).collect();
        (!reserved.is_empty()).then(|| serde_json::to_string(&reserved).unwrap_or_default())
    }

    fn actor(&self) -> String {
        self.call.principal.to_string()
    }

    fn tool_at_version(&self) -> String {
        format!("{}@{}", self.call.tool.tool.name, self.call.tool.version.version)
    }

    pub fn event(&self, event_type: EventType, at: Timestamp, data: Value) -> NewEvent {
        NewEvent { event_type, call_id: Some(self.call.id), at, actor: self.actor(), data: members(data) }
    }

    pub fn started(&self, at: Timestamp) -> NewEvent {
        let mut data = json!({"tool": self.call.tool.name, "version": self.call.tool.version.version.to_string()});
        if self.call.mode != Mode::Execute {
            data["mode"] = self.call.mode.as_str().into();
        }
        self.event(EventType::ToolStarted, at, data)
    }

    /// The event of how it ended.
    fn ended(&self, status: Status, ended: &Ended, at: Timestamp) -> NewEvent {
        let mut data = json!({"tool": self.call.tool.name, "status": status});
        if let Some(error) = &ended.error {
            data["code"] = json!(error.code);
            data["reason"] = error.reason().into();
        }
        if ended.cached {
            data["cached"] = true.into();
        }
        if ended.truncated {
            data["truncated"] = true.into();
        }
        data["duration_ms"] = (at.millis() - self.began.millis()).max(0).into();
        let event_type = match status {
            Status::Completed => EventType::ToolCompleted,
            Status::Cancelled => EventType::ToolCancelled,
            _ => EventType::ToolFailed,
        };
        self.event(event_type, at, data)
    }

    fn told<'a>(&'a self, status: Status, ended: &'a Ended) -> End<'a> {
        let call = &self.call;
        End {
            call: call.id,
            run: call.run,
            tool: call.tool.tool.name.as_str(),
            mode: call.mode,
            source: self.source,
            status,
            error: ended.error.as_ref(),
            ran: ended.attempts > 0 || ended.cached,
            began: self.began,
        }
    }

    pub fn row(&self, status: Status, holder: Option<&str>, ending: Option<Ending>) -> NewCall {
        let call = &self.call;
        let definition = &call.tool.definition;
        let dry = call.mode == Mode::DryRun;
        let (approval_status, approved_by, grant) = match &self.consent {
            Consent::NotAsked => (ApprovalStatus::NotRequired, None, None),
            Consent::Standing { grant, issued_by } => (ApprovalStatus::Approved, Some(issued_by.clone()), Some(*grant)),
            Consent::Bypassed => (ApprovalStatus::Approved, Some(BYPASS.to_owned()), None),
            Consent::Granted { grant, .. } => (ApprovalStatus::Approved, None, Some(*grant)),
        };
        let asked_by_label = self.decision.asking.as_ref().is_some_and(|asking| asking.person_required);
        NewCall {
            id: call.id,
            call_id: call.call_id.clone(),
            run: self.root_run.map(|_| call.run),
            root_run: self.root_run,
            step: call.step,
            seq: call.seq,
            tool: call.tool.tool.id,
            tool_version: call.tool.version.version.to_string(),
            agent: call.agent,
            workspace: self.workspace,
            principal: call.principal,
            source: self.source,
            mode: call.mode,
            class: definition.class(),
            side_effects: definition.effects(),
            status,
            approval_status,
            person_required: (definition.class() == EgressClass::Write || asked_by_label) && !dry,
            approval: None,
            approved_by,
            grant,
            token: self.token.as_ref().map(|token| token.id),
            secrets: self.secrets.clone(),
            definition_digest: call.tool.definition_digest,
            policy_revision: self.decision.policy,
            decision: serde_json::to_string(&self.decision).unwrap_or_default(),
            labels: serde_json::to_string(&self.labels()).unwrap_or_default(),
            metadata: self.metadata.clone(),
            cost_estimate: self.estimate.map(|cost| cost.to_string()),
            reserved: self.reserved().filter(|_| ending.is_none()),
            holder: holder.map(str::to_owned),
            salt: Some(*self.salt.as_bytes()),
            input: self.input.clone(),
            created_at: call.created_at,
            started_at: (status == Status::Running
                || (self.decision.refused_at.is_none() && status != Status::Pending))
                .then_some(call.created_at),
            ending,
        }
    }

    fn entry<'a>(&'a self, action: &'a str, actor: &'a str, tool: &'a str, id: LeafId, at: Timestamp) -> Entry<'a> {
        let call = &self.call;
        Entry {
            action,
            actor,
            at,
            details: Details {
                agent: call.agent,
                attested_by: None,
                call: call.id,
                definition: call.tool.definition_digest,
                error: None,
                error_code: None,
                grant: match self.consent {
                    Consent::Granted { grant, .. } | Consent::Standing { grant, .. } => Some(grant),
                    Consent::NotAsked | Consent::Bypassed => None,
                },
                input: commitment(&self.salt, "input", &self.input),
                logged: &[],
                mode: call.mode,
                openings: &[],
                output: None,
                reason: None,
                revision: self.decision.revision,
                run: call.run,
                secrets: &call.secrets,
                source: self.source,
                status: Status::Running,
                tool,
            },
            id,
            object: &call.call_id,
            tenant: call.tenant,
            v: 1,
        }
    }
}

impl Engine {
    /// Writes that a call begins to run, before it does: with its intent in the log where it changes something.
    pub(crate) async fn begin(&self, prepared: &mut Prepared, holder: Option<&str>) -> Result<(), Error> {
        let now = self.clock.now();
        let tenant = prepared.call.tenant;
        let mut change = Change::new(tenant).durability(prepared.durability());
        for (index, hold) in prepared.holds.iter().enumerate() {
            change.reserve(&hold.held, hold.limit, no_room(index));
        }
        // What changes something asks for every use whether the token is still good; what is counted, counts.
        if let Some(token) = &prepared.token
            && (!prepared.call.is_effect_free() || prepared.is_counted())
        {
            let chain: Vec<_> = token.chain.iter().map(|token| token.id).collect();
            change.use_tokens(&chain, token_refused());
        }
        if !prepared.call.is_effect_free() && prepared.call.mode != Mode::DryRun {
            let id: LeafId = Id::new(&self.clock, &self.rng);
            prepared.decision.intent = Some(id);
            let (actor, tool) = (prepared.actor(), prepared.tool_at_version());
            let text = prepared.entry("call.intent", &actor, &tool, id, now).text();
            change.leaf(id, text, now);
        }
        match &prepared.consent {
            Consent::Granted { grant, digest } => {
                let started = Started {
                    at: now,
                    holder: holder.map(str::to_owned),
                    decision: serde_json::to_string(&prepared.decision).unwrap_or_default(),
                    reserved: prepared.reserved(),
                    secrets: prepared.secrets.clone(),
                };
                let refused = Fault::conflict("the grant was spent, withdrawn or has run out", "read the call again");
                change.spend_grant(*grant, prepared.call.id, *digest, &started, refused);
            }
            Consent::Standing { grant, .. } => {
                let refused = Fault::conflict("the standing grant was used up meanwhile", "send the call again");
                change.use_grant(*grant, now, refused);
                first_row(&mut change, prepared, prepared.row(Status::Running, holder, None), now);
            }
            Consent::NotAsked | Consent::Bypassed => {
                first_row(&mut change, prepared, prepared.row(Status::Running, holder, None), now);
            }
        }
        if matches!(prepared.consent, Consent::Bypassed) {
            change.audit(&self.bypass_entry(prepared, now));
        }
        // What a person was asked about begins when they have decided.
        let waited = matches!(prepared.consent, Consent::Granted { .. });
        let event = prepared.started(if waited { now } else { prepared.call.created_at });
        change.append_events(prepared.call.run, prepared.place(1), Some(prepared.call.id), &[event], now);
        let call = &prepared.call;
        // In the same commit: a call that nobody has would run for ever.
        if call.mode == Mode::Record {
            let lease = (LeaseId::from(call.id), call.principal);
            change.offer_work(call.id, call.tool.tool.id, Some(lease), now.plus_seconds(RECORDED_S), now);
        } else if matches!(call.tool.definition.runner, Runner::External(_)) {
            let seconds = i64::try_from(call.timeout.as_secs().max(1)).unwrap_or(i64::MAX);
            change.offer_work(call.id, call.tool.tool.id, None, now.plus_seconds(seconds), now);
        }
        // It may end without us, and its output may be read as it comes: what its reader sees is written down before.
        self.join_seen(&mut change, prepared, now);
        let used = prepared.call.uses.take();
        uses::note(&mut change, &prepared.call, &used, &self.clock, &self.rng);
        if let Err(error) = self.store.commit(change).instrument(step("permit")).await {
            self.note_apart(&prepared.call, &used).await;
            return Err(error);
        }
        self.signal(tenant, prepared.call.run, Some(prepared.call.id));
        Ok(())
    }

    /// Writes how a call ended, and answers with it. What was held is given back in the same commit.
    pub(crate) async fn finish(
        &self,
        prepared: &Prepared,
        written: Written,
        status: Status,
        ended: Ended,
    ) -> Result<Envelope, Error> {
        let now = self.clock.now();
        let call = &prepared.call;
        let mut change = Change::new(call.tenant).durability(prepared.durability());
        let error_text = ended.error.as_ref().map(|error| serde_json::to_string(error).unwrap_or_default());
        let ending = Ending {
            output: ended.output_text.clone(),
            error: error_text.clone(),
            attachments: attachments_text(&ended.attachments),
            cost: ended.cost.map(|cost| cost.to_string()),
            reported_cost: ended.reported_cost.map(|cost| cost.to_string()),
            usage: ended.units.map(|units| json!({"units": units}).to_string()),
            attempts: ended.attempts,
            cached: ended.cached,
            truncated: ended.truncated,
            at: Some(now),
        };
        let taken = || Fault::conflict("the call has ended already", "read it again");
        let mut events = Vec::with_capacity(2);
        match (written, status) {
            (Written::Nothing, _) => {
                first_row(&mut change, prepared, prepared.row(status, None, Some(ending)), now);
                if prepared.decision.refused_at.is_none() {
                    events.push(prepared.started(call.created_at));
                }
            }
            (Written::Begun, Status::OutcomeUnknown) => {
                let error = error_text.clone().unwrap_or_default();
                change.lose_call(call.id, error, ended.attempts, taken());
            }
            (Written::Begun, _) => {
                change.finish_call(call.id, Status::Running, status, ending, taken());
                let cost = ended.cost.unwrap_or_default();
                for hold in &prepared.holds {
                    change.settle(&hold.held, taken_of(&hold.held, cost, ended.units));
                }
                if matches!(call.tool.definition.runner, Runner::External(_)) {
                    change.forget_work(call.id);
                }
            }
        }
        let told_of_it = call.telling.take();
        events.extend_from_slice(&told_of_it);
        events.push(prepared.ended(status, &ended, now));
        let place = prepared.place(if written == Written::Begun { 2 } else { 1 });
        change.append_events(call.run, place, Some(call.id), &events, now);
        for (blob, _) in &ended.attachments {
            change.insert_blob(blob);
        }
        // What never ran has told nobody anything. A plan may show what a tool that reads here would change.
        let told = match call.mode {
            Mode::DryRun => ended.error.is_none() && Labels::PRIVATE.is_within(prepared.brings),
            Mode::Execute | Mode::Record => {
                (ended.attempts > 0 || ended.cached)
                    && !ended.error.as_ref().is_some_and(|error| tells_nothing(call, error))
            }
        };
        if prepared.decision.refused_at.is_none() && told {
            self.join_seen(&mut change, prepared, now);
        }
        let used = call.uses.take();
        let digest = outcome_leaf(&mut change, prepared, status, &ended, error_text.as_deref(), &used, now);
        self.tell_of_end(&mut change, &prepared.told(status, &ended), now);
        if let Err(error) = self.store.commit(change).instrument(step("record")).await {
            call.telling.put_back(told_of_it);
            self.note_apart(call, &used).await;
            return Err(error);
        }
        self.signal(call.tenant, call.run, Some(call.id));
        self.count(prepared, status, ended.error.as_ref(), now);
        Ok(self.envelope(prepared, status, ended, digest, now))
    }

    /// The call is not recorded, and what it went through was used all the same.
    async fn note_apart(&self, call: &Call, used: &[OpeningId]) {
        if used.is_empty() {
            return;
        }
        let mut change = Change::new(call.tenant);
        uses::note(&mut change, call, used, &self.clock, &self.rng);
        if let Err(error) = self.store.commit(change).await {
            tracing::error!(call = %call.id, "an opening was used and not noted: {error}");
        }
    }

    /// Each use of the development bypass is an entry of its own.
    fn bypass_entry(&self, prepared: &Prepared, at: Timestamp) -> toolgate_store::audit::Entry {
        let details = json!({"call": prepared.call.id, "tool": prepared.tool_at_version()});
        toolgate_store::audit::Entry {
            id: Id::new(&self.clock, &self.rng),
            at,
            tenant: prepared.call.tenant,
            actor: prepared.actor(),
            action: "approval.bypassed".to_owned(),
            object: prepared.call.call_id.clone(),
            details: members(details),
        }
    }

    fn count(&self, prepared: &Prepared, status: Status, error: Option<&ToolError>, now: Timestamp) {
        let seconds = seconds_between(prepared.began, now);
        let tool = prepared.call.tool.tool.name.as_str();
        self.metrics.call_finished(tool, status, error.map(|error| error.code), prepared.source, seconds);
        if prepared.decision.refused_at.is_some()
            && let Some(error) = error
        {
            self.metrics.denied(error.reason());
        }
    }

    fn envelope(&self, prepared: &Prepared, status: Status, ended: Ended, digest: Digest, now: Timestamp) -> Envelope {
        let call = &prepared.call;
        Envelope {
            id: call.id,
            status,
            run_id: call.run,
            call_id: call.call_id.clone(),
            name: call.tool.tool.name.to_string(),
            version: call.tool.version.version.to_string(),
            input: Value::clone(&call.input),
            output: ended.output,
            error: ended.error,
            t_start: prepared.began,
            t_end: now,
            cached: ended.cached,
            truncated: ended.truncated,
            attachments: ended.attachments.into_iter().map(|(_, attachment)| attachment).collect(),
            labels: prepared.labels().to_vec(),
            cost: ended.cost,
            receipt: Some(Receipt { entry_digest: digest, log: self.log_of(call.tenant), index: None }),
            warnings: prepared.warnings.clone(),
            // Whoever waits for a decision reads the record.
            edited: false,
        }
    }
}

pub(crate) fn first_row(change: &mut Change, prepared: &Prepared, row: NewCall, now: Timestamp) {
    change.insert_call(row);
    if let Some(request) = &prepared.request {
        change.remember_request(request, prepared.call.id, now);
    }
    if prepared.root_run.is_some() {
        change.take_place(prepared.call.run, prepared.call.seq, prepared.call.id);
    }
}

/// The log's entry of how a call ended. It has the call's own id; a state that may still change gets another.
fn outcome_leaf(
    change: &mut Change,
    prepared: &Prepared,
    status: Status,
    ended: &Ended,
    error_text: Option<&str>,
    used: &[OpeningId],
    now: Timestamp,
) -> Digest {
    let id = LeafId::from(prepared.call.id);
    let (actor, tool) = (prepared.actor(), prepared.tool_at_version());
    let action = match status {
        Status::Completed => "call.completed",
        Status::Cancelled => "call.cancelled",
        Status::OutcomeUnknown => "call.outcome_unknown",
        Status::Rejected => "call.rejected",
        _ => "call.failed",
    };
    let mut entry = prepared.entry(action, &actor, &tool, id, now);
    entry.details.status = status;
    entry.details.output = ended.output_text.as_ref().map(|text| commitment(&prepared.salt, "output", text));
    entry.details.error = error_text.map(|text| commitment(&prepared.salt, "error", text));
    entry.details.error_code = ended.error.as_ref().map(|error| error.code);
    entry.details.reason = ended.error.as_ref().map(ToolError::reason).filter(|reason| !reason.is_empty());
    entry.details.attested_by = ended.attested_by.as_deref();
    entry.details.logged = &ended.logged;
    entry.details.openings = used;
    let text = entry.text();
    change.leaf(id, text, now)
}

pub(crate) fn attachments_text(attachments: &[(Blob, Attachment)]) -> Option<String> {
    let listed: Vec<&Attachment> = attachments.iter().map(|(_, attachment)| attachment).collect();
    (!listed.is_empty()).then(|| serde_json::to_string(&listed).unwrap_or_default())
}

#[expect(clippy::cast_precision_loss, reason = "a duration for a histogram")]
pub(crate) fn seconds_between(began: Timestamp, now: Timestamp) -> f64 {
    (now.millis() - began.millis()) as f64 / 1000.0
}

/// An error in words of our own about what was never reached. Code of others chooses its words itself.
fn tells_nothing(call: &Call, error: &ToolError) -> bool {
    let ours = matches!(
        call.tool.definition.runner,
        Runner::Builtin(_) | Runner::Http(_) | Runner::Openapi(_) | Runner::Sql(_) | Runner::Script(_)
    );
    let nothing = match error.code {
        ErrorCode::NetworkError | ErrorCode::PolicyDenied => true,
        ErrorCode::AuthRequired => error.reason() != "upstream",
        ErrorCode::SandboxError => error.reason() == "tier_unavailable",
        _ => false,
    };
    ours && nothing
}
