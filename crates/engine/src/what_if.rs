//! What proposed policies would have said of calls that were made: the recorded decisions, judged again.
//!
//! Only what policies say is judged anew; what definitions, profiles, labels, guardrails and limits said stands as it is
//! recorded. Invariant: what the record does not hold is unknown, never guessed; nothing is called and nothing changes.

mod judging;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::Value;
use toolgate_contracts::{
    CallId, Caller, Fault, FaultKind, Permission, Principal, TenantId, Timestamp, ToolId, ToolName,
};
use toolgate_policy::cedar::{Circumstances, Gravity, Needs, Policies, PolicyFinding};
use toolgate_registry::commands::JudgedPolicies;
use toolgate_registry::snapshot::TenantRegistry;
use toolgate_registry::subject::facts;
use toolgate_registry::toolset::View;
use toolgate_store::approvals::{Asker, Shown};
use toolgate_store::calls::{CallFilter, CallRecord, Sight};
use utoipa::ToSchema;

pub use judging::{Recorded, by_policy};

use crate::admit::{Decision, Verdict};
use crate::engine::Engine;

/// Calls that are judged; beyond it the newest are.
const CALLS_MAX: u64 = 50_000;
const CALLS_PER_PAGE: u32 = 200;
const EXAMPLES_MAX: usize = 5;
/// Kinds of changes that are told apart; what comes beyond is counted without its tool.
const ROWS_MAX: usize = 2_000;
/// Callers that are remembered while calls are judged.
const CALLERS_MAX: usize = 2_000;

/// Which calls are judged again.
#[derive(Clone, Debug)]
pub struct Range {
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    /// By its name.
    pub tool: Option<String>,
    /// By name or id.
    pub agent: Option<String>,
}

/// What would be different under the proposed policies.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WhatIf {
    /// What is said of the proposed text; with an error nothing was judged.
    pub findings: Vec<PolicyFinding>,
    pub ok: bool,
    pub since: Timestamp,
    pub until: Timestamp,
    pub calls: u64,
    pub unchanged: u64,
    pub newly_denied: u64,
    pub newly_asked: u64,
    pub newly_allowed: u64,
    pub unknown: u64,
    /// There were more; the newest were judged.
    pub incomplete: bool,
    pub changes: Vec<Change>,
    pub unknowns: Vec<Unknown>,
    /// What to know about these numbers.
    pub notes: Vec<String>,
}

/// Calls of one tool by one agent that would end in the same other way.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = DecisionChange)]
pub struct Change {
    pub tool: String,
    /// Absent: a person or a service called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    pub before: Verdict,
    pub after: Verdict,
    /// The policies that say so; none: nothing permits it, or nothing forbids it any more.
    pub policies: Vec<String>,
    pub calls: u64,
    pub examples: Vec<CallId>,
}

/// Calls of which nobody can tell.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = UndecidedCalls)]
pub struct Unknown {
    pub tool: String,
    pub why: String,
    pub calls: u64,
    pub examples: Vec<CallId>,
}

type ChangeKey = (Verdict, String, Option<String>, Verdict, Vec<String>);

#[derive(Default)]
struct Tally {
    calls: u64,
    unchanged: u64,
    changes: BTreeMap<ChangeKey, Counted>,
    unknowns: BTreeMap<(String, String), Counted>,
}

#[derive(Default)]
struct Counted {
    calls: u64,
    examples: Vec<CallId>,
}

impl Counted {
    fn add(&mut self, call: CallId) {
        self.calls += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(call);
        }
    }
}

/// What comes of one call.
enum Outcome {
    Unchanged,
    Changed { before: Verdict, after: Verdict, policies: Vec<String> },
    Unknown(&'static str),
}

impl Engine {
    /// Judges the calls of a time again, newest first, under this text.
    pub async fn what_if(&self, caller: &Caller, source: &str, range: &Range) -> Result<WhatIf, Fault> {
        caller.require(&Permission::POLICIES_EDIT)?;
        caller.require(&Permission::CALLS_READ_ALL)?;
        if caller.agent.is_some() || caller.token.is_some() {
            let remedy = "use a key that acts as no agent, or sign in";
            return Err(Fault::new(FaultKind::Forbidden, "agents do not read everybody's calls", remedy));
        }
        let tenant = caller.tenant;
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let until = range.until.unwrap_or_else(|| self.clock.now().plus_seconds(1));
        if range.since >= until {
            return Err(Fault::invalid("`since` is not before `until`", "name an earlier time").at("/since"));
        }
        let filter = filter(registry, range, &self.clock.now().day())?;
        let JudgedPolicies { findings, compiled } = registry.judge_policies(source, None);
        let mut told = WhatIf {
            ok: findings.iter().all(|finding| finding.gravity != Gravity::Error),
            findings,
            since: range.since,
            until,
            calls: 0,
            unchanged: 0,
            newly_denied: 0,
            newly_asked: 0,
            newly_allowed: 0,
            unknown: 0,
            incomplete: false,
            changes: Vec::new(),
            unknowns: Vec::new(),
            notes: notes(),
        };
        let Some(compiled) = compiled else { return Ok(told) };
        let mut tally = Tally::default();
        let mut callers = Callers::default();
        let mut before = None;
        loop {
            let ids = self.store.call_ids(tenant, &Sight::Everything, &filter, before, CALLS_PER_PAGE).await?;
            let Some(last) = ids.last() else { break };
            before = Some(*last);
            for record in self.store.call_records(tenant, &ids).await? {
                let outcome = self.judged(registry, &compiled.policies, &mut callers, tenant, &record).await?;
                tally.add(registry, &record, outcome);
            }
            if ids.len() < CALLS_PER_PAGE as usize {
                break;
            }
            if tally.calls >= CALLS_MAX {
                told.incomplete = true;
                break;
            }
        }
        Ok(tally.finish(told))
    }

    async fn judged(
        &self,
        registry: &TenantRegistry,
        policies: &Policies,
        callers: &mut Callers,
        tenant: TenantId,
        record: &CallRecord,
    ) -> Result<Outcome, Fault> {
        let Ok(decision) = serde_json::from_value::<Decision>(record.decision.clone()) else {
            return Ok(Outcome::Unknown("its decision cannot be read"));
        };
        let said = Recorded::of(&decision, record.error.as_ref());
        // Denied whatever policies say.
        if said.rest == Verdict::Deny {
            return Ok(Outcome::Unchanged);
        }
        let Some(tool) = self.version_of(tenant, record) else { return Ok(Outcome::Unknown("the version is gone")) };
        let agent = match record.agent {
            None => None,
            Some(id) => match registry.agents.get(&id) {
                Some(agent) => Some(agent),
                None => return Ok(Outcome::Unknown("the agent is gone")),
            },
        };
        let Some(caller) = callers.get(self, tenant, record.principal).await? else {
            return Ok(Outcome::Unknown("whoever called is gone, and with them their roles"));
        };
        let view = View { registry, caller: &caller, agent, run: None, today: "" };
        let (who, version) = (view.who(), tool.version.version.to_string());
        let (subject, tool) = (who.subject(), facts(&tool, &version));
        let needs = policies.needs(&subject, &tool);
        let args = match (&record.input, needs.args.is_empty()) {
            (Some(input), _) => input.clone(),
            (None, true) => Value::Null,
            (None, false) => return Ok(Outcome::Unknown("its input was erased")),
        };
        let Some(depth) = self.depth_of(tenant, record, &needs).await? else {
            return Ok(Outcome::Unknown("its run is gone, and with it how deep it was"));
        };
        let labels = decision.labels.to_vec();
        let circumstances =
            Circumstances { labels: &labels, source: record.source, depth, now: record.created_at, args: &args };
        let (by_policy, named) = by_policy(policies, &subject, &tool, &circumstances);
        let (before, after) = (said.by_policy.max(said.rest), by_policy.max(said.rest));
        if before == after {
            return Ok(Outcome::Unchanged);
        }
        // Where policies denied, nobody looked for labels and guardrails.
        if said.by_policy == Verdict::Deny
            && !labels.is_empty()
            && tool.sink == toolgate_contracts::definition::Sink::Open
        {
            return Ok(Outcome::Unknown("it was denied before its labels were judged"));
        }
        Ok(Outcome::Changed { before, after, policies: named })
    }

    /// How many runs were above it, where that is asked for; `None`: nobody knows any more.
    async fn depth_of(&self, tenant: TenantId, record: &CallRecord, needs: &Needs) -> Result<Option<u32>, Fault> {
        if !needs.depth || !record.in_run {
            return Ok(Some(0));
        }
        let Some(run) = self.store.run(tenant, record.run).await? else { return Ok(None) };
        let above = self.runs_above(tenant, &run).await?;
        Ok(u32::try_from(above.len()).ok())
    }
}

/// Whoever called, with the roles of now.
#[derive(Default)]
struct Callers(HashMap<Principal, Option<Caller>>);

impl Callers {
    async fn get(&mut self, engine: &Engine, tenant: TenantId, principal: Principal) -> Result<Option<Caller>, Fault> {
        if let Some(known) = self.0.get(&principal) {
            return Ok(known.clone());
        }
        let credential = match principal {
            Principal::Local(_) => Shown::Folder,
            Principal::User(_) => Shown::DatabaseRole,
        };
        let asker = Asker { principal, agent: None, agent_by: None, credential };
        let found = match engine.caller_again(tenant, &asker).await {
            Ok(caller) => Some(caller),
            Err(fault) if fault.kind() == FaultKind::Forbidden => None,
            Err(fault) => return Err(fault),
        };
        if self.0.len() >= CALLERS_MAX {
            self.0.clear();
        }
        self.0.insert(principal, found.clone());
        Ok(found)
    }
}

impl Tally {
    fn add(&mut self, registry: &TenantRegistry, record: &CallRecord, outcome: Outcome) {
        self.calls += 1;
        let tool = record.tool_name.clone();
        match outcome {
            Outcome::Unchanged => self.unchanged += 1,
            Outcome::Changed { before, after, policies } => {
                let name =
                    |id| registry.agents.get(&id).map_or_else(|| format!("{id}"), |one| one.spec.name.to_string());
                let agent = record.agent.map(name);
                let full = self.changes.len() >= ROWS_MAX;
                let key = (after, tool, agent, before, policies);
                let key = if full && !self.changes.contains_key(&key) {
                    (after, "others".to_owned(), None, before, Vec::new())
                } else {
                    key
                };
                self.changes.entry(key).or_default().add(record.id);
            }
            Outcome::Unknown(why) => self.unknowns.entry((tool, why.to_owned())).or_default().add(record.id),
        }
    }

    fn finish(self, mut told: WhatIf) -> WhatIf {
        told.calls = self.calls;
        told.unchanged = self.unchanged;
        for ((after, tool, agent, before, policies), Counted { calls, examples }) in self.changes {
            *match after {
                Verdict::Deny => &mut told.newly_denied,
                Verdict::Ask => &mut told.newly_asked,
                Verdict::Allow => &mut told.newly_allowed,
            } += calls;
            told.changes.push(Change { tool, agent, before, after, policies, calls, examples });
        }
        // What takes away comes first, and of that what happens most.
        told.changes.sort_by_key(|change| (std::cmp::Reverse(change.after), std::cmp::Reverse(change.calls)));
        for ((tool, why), Counted { calls, examples }) in self.unknowns {
            told.unknown += calls;
            told.unknowns.push(Unknown { tool, why, calls, examples });
        }
        told
    }
}

fn notes() -> Vec<String> {
    [
        "roles, workspaces and overrides of tools are those of now",
        "a call of a tool that was hidden from its caller left no record, and is not counted",
        "where policies denied a call, labels and guardrails were not asked; they may still stop what is newly allowed",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn filter(registry: &TenantRegistry, range: &Range, today: &str) -> Result<CallFilter, Fault> {
    let Range { since, until, tool, agent } = range;
    let tool_id = |name: &String| -> Result<ToolId, Fault> {
        let found = name.parse::<ToolName>().ok().and_then(|name| registry.find(&name, today).map(|(tool, _)| tool));
        Ok(found.ok_or_else(|| Fault::not_found("tool", name).at("/tool"))?.tool.id)
    };
    let agent_id = |name: &String| {
        registry.agent(name).map(|agent| agent.id).ok_or_else(|| Fault::not_found("agent", name).at("/agent"))
    };
    Ok(CallFilter {
        since: Some(*since),
        until: *until,
        tool: tool.as_ref().map(tool_id).transpose()?,
        agent: agent.as_ref().map(agent_id).transpose()?,
        ..CallFilter::default()
    })
}
