//! A run as a replay bundle: gone through again from what was committed, written down, and signed by the tenant's log.
//!
//! Whoever may read every call of the run may have it. What others may not read is left out: policies and guardrails for
//! who may not read policies.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::BASE64;
use serde_json::{Value, json};
use toolgate_contracts::agent_outputs::{AgentOutputs, ToolEnvelope};
use toolgate_contracts::call::RunKind;
use toolgate_contracts::event::Event;
use toolgate_contracts::{BlobId, Caller, Envelope, Fault, FaultKind, RunId, TenantId};
use toolgate_registry::snapshot::{ResolvedTool, TenantRegistry};
use toolgate_registry::toolset::View;
use toolgate_store::agent_runs::{AgentRun, Aside};
use toolgate_store::calls::CallRecord;
use toolgate_store::runs::Run;

use super::Host;
use super::drive::answer_of;
use crate::conversation::{BoundBy, Conversation, Next, Offered, Plan, Proposed};
use crate::replay::{
    BLOB_BYTES_MAX, BLOBS_BYTES_MAX, Bundle, BundleAgent, BundleCall, BundlePolicy, BundleRun, BundleSubject,
    BundleTurn, EVENTS_MAX, FORMAT, Facts, OfferedAs, Read, SealedBundle, Signature, Snapshot, SnapshotTool, unsettled,
};

/// What a run was told, in its order.
#[derive(Default)]
struct Told {
    turns: Vec<BundleTurn>,
    calls: Vec<BundleCall>,
    /// The tools that were called, each version once.
    tools: Vec<ResolvedTool>,
}

/// The calls of one answer that had ended when the run did, each with its place and its record.
type Taken = Vec<(u32, Envelope, Option<CallRecord>)>;

impl Host {
    /// A run of an agent that has ended, for whoever may read it and every call in it.
    pub async fn bundle(&self, caller: &Caller, id: RunId) -> Result<SealedBundle, Fault> {
        let unknown = || Fault::not_found("run", id);
        let run = self.0.engine.readable_run(caller, id).await?.ok_or_else(unknown)?;
        let Some(kept) = self.0.store.agent_run(caller.tenant, id).await? else { return Err(no_agents(&run)) };
        if kept.is_open {
            let told = format!("the run is {}, and only one that has ended can be replayed", run.state);
            return Err(Fault::conflict(told, "wait for its end, or cancel it with `toolgate run cancel`"));
        }
        let Some(outputs) = kept.outputs.clone() else { return Err(erased()) };
        let plan: Plan = serde_json::from_value(kept.plan.clone()).map_err(Fault::internal)?;
        let outputs: AgentOutputs = serde_json::from_value(outputs).map_err(Fault::internal)?;
        self.0.engine.join_run_read(caller, &run).await?;
        let told = Box::pin(self.told(caller, id, &plan, &outputs)).await?;
        let snapshot = Box::pin(self.snapshot_of(caller, &run, &kept, &plan, &told)).await?;
        let blobs = Box::pin(self.blobs_of(caller, &told.calls)).await?;
        let mut bundle = Bundle {
            format: FORMAT.to_owned(),
            run: BundleRun {
                id,
                agent: BundleAgent {
                    name: plan.agent,
                    id: plan.agent_id,
                    model: plan.model,
                    model_params: plan.params,
                    system: plan.system,
                    output_tokens_max: plan.output_tokens_max,
                    by_name: plan.by_name,
                },
                revision: plan.revision,
                prompt: plan.prompt,
                limits: plan.limits,
                labels: run.labels,
                run_key: self.0.engine.key_of_run(caller.tenant, id).await?,
                started_at: run.created_at,
            },
            snapshot,
            turns: told.turns,
            calls: told.calls,
            events: self.events_of(caller.tenant, id).await?,
            outputs,
            blobs,
        };
        bundle.snapshot.policy.unknown = unsettled(&bundle);
        if self.0.registry.may_read_policies(caller).is_err() {
            bundle.snapshot.policy.texts = BTreeMap::new();
            bundle.snapshot.guardrails = Vec::new();
        }
        self.sealed(caller.tenant, bundle).await
    }

    /// The run gone through again, with what the model was told.
    async fn told(&self, caller: &Caller, id: RunId, plan: &Plan, outputs: &AgentOutputs) -> Result<Told, Fault> {
        let mut told = Told::default();
        let mut stored = self.0.store.agent_turns(caller.tenant, id).await?.into_iter();
        let mut conversation = Conversation::begin(plan);
        let mut asides: Vec<Aside> = Vec::new();
        loop {
            match conversation.next() {
                Next::Ask(request) => {
                    let Some(turn) = stored.next().filter(|turn| turn.answer.is_some()) else { break };
                    let response = answer_of(&turn)?;
                    conversation.heard(&response);
                    let usage = response.usage;
                    told.turns.push(BundleTurn { request: *request, response, usage });
                    asides = turn.asides;
                }
                Next::Call(proposed) => {
                    let taken = Box::pin(self.taken(caller, id, &proposed, &asides, outputs)).await?;
                    let ended = taken.iter().map(|(seq, envelope, _)| (*seq, envelope.clone()));
                    let is_whole = taken.len() == proposed.len();
                    if is_whole {
                        conversation.took(ended.map(|(_, envelope)| envelope).collect());
                    } else {
                        conversation.took_some(ended.collect());
                    }
                    let made = conversation.made();
                    let made = made.get(made.len() - taken.len()..).unwrap_or_default();
                    for (made, (_, envelope, record)) in made.iter().zip(taken) {
                        told.calls.push(BundleCall {
                            seq: made.seq,
                            turn: made.turn,
                            envelope,
                            decision: record.as_ref().map(decision),
                            result_for_model: made.told.clone(),
                        });
                        let tool = record.and_then(|record| self.0.engine.tool_of(caller.tenant, &record));
                        told.tools.extend(tool);
                    }
                    if !is_whole {
                        break;
                    }
                }
                Next::Answered | Next::Ended(_) => break,
            }
        }
        Ok(told)
    }

    async fn taken(
        &self,
        caller: &Caller,
        id: RunId,
        proposed: &[Proposed],
        asides: &[Aside],
        outputs: &AgentOutputs,
    ) -> Result<Taken, Fault> {
        let mut taken = Vec::with_capacity(proposed.len());
        for one in proposed {
            let record = match self.0.store.call_at_place(caller.tenant, id, one.seq).await? {
                None => None,
                Some(call) => Some(self.0.engine.readable(caller, &call.to_string()).await.map_err(partly)?),
            };
            if record.as_ref().is_some_and(|record| record.input.is_none()) {
                return Err(erased());
            }
            let aside = asides.iter().find(|aside| aside.seq == one.seq).map(|aside| aside.envelope.clone());
            let envelope = match (aside, &record) {
                (Some(aside), _) => aside,
                (None, Some(record)) => self.0.engine.answer(caller.tenant, record.id).await?,
                (None, None) => continue,
            };
            // What the run ended with: a call that is settled or erased later tells no other story of it.
            let Some(as_given) = outputs.tools_by_id.get(&envelope.call_id) else { continue };
            taken.push((one.seq, with(envelope, as_given.clone()), record));
        }
        Ok(taken)
    }

    async fn snapshot_of(
        &self,
        caller: &Caller,
        run: &Run,
        kept: &AgentRun,
        plan: &Plan,
        told: &Told,
    ) -> Result<Snapshot, Fault> {
        let snapshot = self.0.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let mut policy = BundlePolicy {
            subject: self.subject_of(registry, caller.tenant, kept, plan).await,
            depth: u32::try_from(self.0.engine.runs_above(caller.tenant, run).await?.len()).unwrap_or(u32::MAX),
            ..BundlePolicy::default()
        };
        let decisions = told.calls.iter().filter_map(|call| call.decision.as_ref());
        let revisions: BTreeSet<i64> = decisions
            .filter_map(|decision| decision.get("policy")?.as_i64())
            .filter(|revision| *revision != 0)
            .collect();
        for revision in revisions {
            if let Some((_, text)) = self.0.store.policy(caller.tenant, revision).await? {
                policy.texts.insert(revision.to_string(), text);
            }
        }
        let BoundBy { guardrails, profile } = plan.bound_by.clone();
        Ok(Snapshot { tools: tools(plan, &told.tools), policy, guardrails, profile })
    }

    /// Whoever asked, with the roles of now; `None`: they are gone, or the agent is.
    async fn subject_of(
        &self,
        registry: &TenantRegistry,
        tenant: TenantId,
        kept: &AgentRun,
        plan: &Plan,
    ) -> Option<BundleSubject> {
        let caller = self.0.engine.acting_again(tenant, &kept.asker).await.ok()?;
        let agent = registry.agents.get(&plan.agent_id)?;
        let view = View { registry, caller: &caller, agent: Some(agent), run: None, today: "" };
        let who = view.who();
        let subject = who.subject();
        Some(BundleSubject {
            kind: subject.kind.as_str().to_owned(),
            id: subject.id.to_owned(),
            roles: subject.roles.to_vec(),
            workspace: subject.workspace.map(str::to_owned),
            owner: subject.owner.map(str::to_owned),
        })
    }

    async fn events_of(&self, tenant: TenantId, id: RunId) -> Result<Vec<Event>, Fault> {
        let mut events: Vec<Event> = Vec::new();
        let mut after = 0;
        while events.len() < EVENTS_MAX {
            let page = self.0.store.events(tenant, id, after).await?;
            let Some(last) = page.iter().filter_map(|event| event.seq).max() else { break };
            after = last;
            events.extend(page);
        }
        events.truncate(EVENTS_MAX);
        Ok(events)
    }

    async fn blobs_of(&self, caller: &Caller, calls: &[BundleCall]) -> Result<BTreeMap<String, Option<String>>, Fault> {
        let mut blobs = BTreeMap::new();
        let mut left = BLOBS_BYTES_MAX;
        for attachment in calls.iter().flat_map(|call| &call.envelope.attachments) {
            let id = attachment.url.rsplit('/').next().and_then(|id| id.parse::<BlobId>().ok());
            let Some(id) = id else { continue };
            let Some(blob) = self.0.store.blob(caller.tenant, id).await? else { continue };
            let fits = blob.bytes <= BLOB_BYTES_MAX && blob.bytes <= left;
            let bytes = if fits { self.0.engine.attached(caller, id).await.ok() } else { None };
            if bytes.is_some() {
                left -= blob.bytes;
            }
            blobs.insert(blob.sha256.to_string(), bytes.map(|attached| BASE64.encode(&attached.bytes)));
        }
        Ok(blobs)
    }

    async fn sealed(&self, tenant: TenantId, bundle: Bundle) -> Result<SealedBundle, Fault> {
        let digest = bundle.digest()?;
        let (note, key) = self.0.engine.audit().state(tenant, FORMAT, &digest).await?;
        let signature = Signature { key: key.to_string(), note: note.to_string() };
        let sealed = SealedBundle { bundle, digest, signature };
        // Nobody is given what cannot be read back.
        let text = serde_json::to_vec(&sealed).map_err(Fault::internal)?;
        Read::from_text(&text).map_err(|fault| {
            let told = format!("the run is too large or too deep for a bundle: {}", fault.told());
            Fault::conflict(told, "read it with `toolgate run show`").with_log(fault.told())
        })?;
        Ok(sealed)
    }
}

pub(crate) fn erased() -> Fault {
    let told = "what was asked and answered in this run was erased";
    Fault::conflict(told, "replay a bundle that was made before, or begin another run")
}

/// A run in which no model was asked has nothing to play again.
fn no_agents(run: &Run) -> Fault {
    let id = run.id;
    if run.kind == RunKind::Workflow {
        let told = format!("the run {id} is a workflow's, and only runs of agents are exported");
        let remedy = format!(
            "see what its nodes took and gave with `toolgate workflow nodes {id} --json`; \
             runs of agents below it can be exported, each by its id: `toolgate run show {id}`"
        );
        return Fault::conflict(told, remedy);
    }
    let told = format!("the run {id} has calls alone, and only runs of agents are exported");
    Fault::conflict(told, format!("see its calls with `toolgate run show {id}`"))
}

/// Of a run whose calls the caller sees in part there is no bundle.
fn partly(fault: Fault) -> Fault {
    if fault.kind() != FaultKind::NotFound {
        return fault;
    }
    let told = "a bundle holds every call of the run, and you may not read all of them";
    Fault::new(FaultKind::Forbidden, told, "ask somebody who may read all calls (`calls.read.all`)")
}

fn with(envelope: Envelope, given: ToolEnvelope) -> Envelope {
    let ToolEnvelope { call_id, name, version, input, output, error, t_start, t_end, cached, truncated, attachments } =
        given;
    Envelope {
        call_id,
        name,
        version,
        input,
        output,
        error,
        t_start,
        t_end,
        cached,
        truncated,
        attachments,
        ..envelope
    }
}

fn decision(record: &CallRecord) -> Value {
    let mut decision = record.decision.clone();
    decision["asked_at"] = json!(record.created_at);
    if record.proposed_input.is_some() {
        decision["edited"] = json!(true);
    }
    decision
}

/// Those that the model was told of, in that order, then those that were called beside them.
fn tools(plan: &Plan, called: &[ResolvedTool]) -> Vec<SnapshotTool> {
    let mut tools: Vec<SnapshotTool> = plan.tools.iter().map(offered).collect();
    for tool in called {
        let (name, version) = (tool.name.to_string(), tool.version.version.to_string());
        let facts = Some(facts(tool));
        let known = tools.iter_mut().find(|known| known.name == name && known.version == version);
        match known {
            Some(known) => known.facts = facts,
            None => tools.push(SnapshotTool { name, version, offered: None, facts }),
        }
    }
    tools
}

fn offered(Offered { wire, tool, version, description, input }: &Offered) -> SnapshotTool {
    let offered = OfferedAs { wire: wire.clone(), description: description.clone(), input: input.clone() };
    SnapshotTool { name: tool.clone(), version: version.clone(), offered: Some(offered), facts: None }
}

fn facts(tool: &ResolvedTool) -> Facts {
    let version = tool.version.version.to_string();
    let facts = toolgate_registry::subject::facts(tool, &version);
    Facts {
        name: facts.name.to_owned(),
        egress_class: facts.egress_class,
        risk: facts.risk,
        category: facts.category.map(str::to_owned),
        group: facts.group.map(str::to_owned),
        tags: facts.tags.to_vec(),
        origin: facts.origin,
        sink: facts.sink,
        input_schema: facts.input_schema.clone(),
        definition_digest: facts.key,
    }
}
