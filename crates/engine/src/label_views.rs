//! Labels for people: what callers have seen, forgetting it, how often people were asked and what would spare them.
//!
//! Invariant: only a person in a browser forgets, and the log says who. What reads results of others joins their labels,
//! as if it had called itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use serde_json::json;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::definition::Label;
use toolgate_contracts::event::{Event, EventType};
use toolgate_contracts::{
    AskCode, CallId, Caller, Fault, FaultKind, Id, Permission, RunId, TenantId, Timestamp, ToolId,
};
use toolgate_policy::labels::{Labels, Origins, Rule};
use toolgate_store::Change;
use toolgate_store::audit::Entry;
use toolgate_store::guardrails::Asked;
use toolgate_store::labels::LabelContext;
use toolgate_store::usage::{UsageBy, UsageFilter, UsageKey};
use utoipa::ToSchema;

use crate::asking::destination;
use crate::engine::Engine;
use crate::entry::members;
use crate::labels::{CONTEXT_S, context_of};

/// Asks that are counted; beyond it the newest are.
const ASKS_MAX: usize = 20_000;
const ASKS_PER_PAGE: u32 = 500;
const HINTS_MAX: usize = 10;
const REASON_BYTES_MAX: usize = 1000;

/// What a caller without runs has seen.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ContextView {
    /// Who, and by which agent, key or session: the name by which it is reset.
    pub context: String,
    /// The agent's name, where one acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    pub labels: Labels,
    pub origins: Origins,
    /// Unless it sees more until then.
    pub forgotten_at: Timestamp,
}

/// How often people were asked, and why.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Asks {
    pub since: Timestamp,
    /// Calls that ended in this time.
    pub calls: i64,
    pub asks: u64,
    pub per_100_calls: f64,
    /// There were more; the newest are counted.
    pub incomplete: bool,
    pub by_rule: Vec<RuleAsks>,
    pub by_tool: Vec<ToolAsks>,
    pub hints: Vec<Hint>,
}

/// One call that is asked for two reasons counts under both.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RuleAsks {
    /// `write`, `policy`, `label` and so on.
    pub code: AskCode,
    /// Which policy, label rule, guardrail or profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub asks: u64,
    pub per_100_calls: f64,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ToolAsks {
    pub tool: String,
    pub calls: i64,
    pub asks: u64,
    pub per_100_calls: f64,
}

/// What the operator could accept so that people are asked less.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Hint {
    pub tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub accept: Vec<Label>,
    /// Asks that would not have been.
    pub asks: u64,
    /// Of all asks, in percent.
    pub share: f64,
    pub text: String,
}

impl Engine {
    /// What is remembered of callers of this tenant.
    pub async fn label_contexts(&self, caller: &Caller) -> Result<Vec<ContextView>, Fault> {
        caller.require(&Permission::CALLS_READ_ALL)?;
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let view = |(context, seen): (String, LabelContext)| {
            let agent = context.split_once(" agent:").and_then(|(_, id)| id.parse().ok());
            ContextView {
                agent: agent.and_then(|id| registry.agents.get(&id)).map(|agent| agent.spec.name.to_string()),
                context,
                labels: Labels::from(seen.labels),
                origins: serde_json::from_value(seen.origins).unwrap_or_default(),
                forgotten_at: seen.expires_at,
            }
        };
        let contexts = self.store.label_contexts(caller.tenant, self.clock.now()).await?;
        Ok(contexts.into_iter().map(view).collect())
    }

    /// Forgets what a caller has seen. Runs that were opened keep what they have.
    pub async fn reset_labels(
        &self,
        caller: &Caller,
        context: &str,
        reason: Option<&str>,
    ) -> Result<ContextView, Fault> {
        caller.require(&Permission::LABELS_RESET)?;
        if !matches!(caller.credential, Credential::BrowserSession(_)) || caller.agent.is_some() {
            let told = "labels are reset only by a person at a browser";
            let remedy = "sign in with a link of `toolgate user sign-in-link NAME`, and reset them there";
            return Err(Fault::new(FaultKind::Forbidden, told, remedy));
        }
        let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
        if let Some(reason) = reason {
            if reason.len() > REASON_BYTES_MAX {
                let told = format!("`reason` has {} bytes", reason.len());
                return Err(Fault::invalid(told, format!("use at most {REASON_BYTES_MAX}")).at("/reason"));
            }
            toolgate_contracts::unseen::check_text("reason", reason)?;
        }
        let now = self.clock.now();
        let found = self.store.label_context(caller.tenant, context, now).await?;
        let LabelContext { labels, origins, expires_at } =
            found.ok_or_else(|| Fault::not_found("label context", context).at("/context"))?;
        let labels = Labels::from(labels);
        let mut change = Change::new(caller.tenant);
        change.reset_context(context).audit(&Entry {
            id: Id::new(&self.clock, &self.rng),
            at: now,
            tenant: caller.tenant,
            actor: caller.principal.to_string(),
            action: "label.reset".to_owned(),
            object: context.to_owned(),
            details: members(json!({"labels": labels, "reason": reason})),
        });
        self.store.commit(change).await?;
        self.contexts.invalidate(&(caller.tenant, context.to_owned()));
        let origins = serde_json::from_value(origins).unwrap_or_default();
        Ok(ContextView { context: context.to_owned(), agent: None, labels, origins, forgotten_at: expires_at })
    }

    /// Who reads the result of a call that another made has seen what is in it.
    pub async fn join_read(&self, caller: &Caller, labels: &[Label], tool: &str) -> Result<(), Fault> {
        let mut origins = Origins::default();
        origins.add(tool);
        self.join_seen_by(caller, labels, &origins).await
    }

    pub(crate) async fn join_seen_by(&self, caller: &Caller, labels: &[Label], from: &Origins) -> Result<(), Fault> {
        let read = Labels::from(labels);
        // People judge what they read; what they do with it in the console they do themselves.
        if read.is_empty() || matches!(caller.credential, Credential::BrowserSession(_)) {
            return Ok(());
        }
        let seen = self.seen_by(caller).await?;
        if read.is_within(seen.kept) {
            return Ok(());
        }
        let (now, context) = (self.clock.now(), context_of(caller));
        let labels = seen.labels.join(read);
        let origins = seen.origins.clone().join(from);
        let written = serde_json::to_value(origins).unwrap_or_default();
        let joining =
            LabelContext { labels: labels.to_vec(), origins: written, expires_at: now.plus_seconds(CONTEXT_S) };
        let mut change = Change::new(caller.tenant);
        change.join_context(&context, &joining, now);
        self.store.commit(change).await?;
        self.contexts.invalidate(&(caller.tenant, context));
        Ok(())
    }

    /// The same for output that is read as it comes.
    pub async fn join_streamed(&self, caller: &Caller, events: impl IntoIterator<Item = &Event>) -> Result<(), Fault> {
        let parts = events.into_iter().filter(|event| event.part.is_some());
        let (of_models, of_calls): (Vec<&Event>, Vec<&Event>) =
            parts.partition(|event| event.event_type == EventType::ModelDelta);
        // What a model says is made of all that its run has seen.
        let runs: BTreeSet<RunId> = of_models.into_iter().map(|event| event.run_id).collect();
        for run in runs {
            if let Some(run) = self.store.run(caller.tenant, run).await? {
                self.join_run_read(caller, &run).await?;
            }
        }
        let calls: BTreeSet<CallId> = of_calls.into_iter().filter_map(|event| event.call_id).collect();
        for call in calls {
            if let Some(record) = self.store.call(caller.tenant, call).await? {
                self.join_read(caller, &record.labels, &record.tool_name).await?;
            }
        }
        Ok(())
    }

    /// How often people were asked since the day of this moment, by rule and by tool, and what would spare them. The sums
    /// of calls must be up to date.
    pub async fn asks(&self, caller: &Caller, since: Timestamp) -> Result<Asks, Fault> {
        caller.require(&Permission::APPROVALS_READ)?;
        let since = start_of_day(since);
        let today = self.clock.now().day();
        let filter = UsageFilter { from: since.day(), to: today, agent: None, tool: None };
        let mut calls: HashMap<ToolId, i64> = HashMap::new();
        for (key, sums) in self.store.usage(caller.tenant, UsageBy::Tool, &filter).await? {
            if let UsageKey::Tool(Some(tool)) = key {
                *calls.entry(tool).or_default() += sums.calls;
            }
        }
        let mut counted = Counted::default();
        let mut before = None;
        let mut incomplete = false;
        loop {
            let page = self.store.asked(caller.tenant, since, before, ASKS_PER_PAGE).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            let spared = self.spared(caller.tenant, &page).await?;
            for (asked, hint) in page.iter().zip(spared) {
                counted.add(asked, hint);
            }
            if page.len() < ASKS_PER_PAGE as usize {
                break;
            }
            if counted.asks >= ASKS_MAX as u64 {
                incomplete = true;
                break;
            }
        }
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let name_of = |id: ToolId| registry.tool_by_id(id).map_or_else(|| id.to_string(), |tool| tool.name.to_string());
        Ok(counted.finish(since, incomplete, &calls, name_of))
    }

    /// Of each ask: whether accepting private data for its tool and host would have spared it.
    async fn spared(&self, tenant: TenantId, page: &[Asked]) -> Result<Vec<Option<Spared>>, Fault> {
        let by_labels = |asked: &Asked| {
            let l4 = Some(Rule::L4.as_str());
            asked.reasons.iter().all(|reason| reason.code == AskCode::Label && reason.by.as_deref() == l4)
        };
        let ids: Vec<_> = page.iter().filter(|asked| by_labels(asked)).map(|asked| asked.call).collect();
        let mut records = HashMap::new();
        for record in self.store.call_records(tenant, &ids).await? {
            records.insert(record.id, record);
        }
        let spared = |asked: &Asked| {
            let record = records.get(&asked.call)?;
            let tool = self.version_of(tenant, record)?;
            let host = record.input.as_ref().and_then(|input| destination(&tool, input));
            Some(Spared { tool: asked.tool, host: host.map(|host| host.to_string()) })
        };
        Ok(page.iter().map(spared).collect())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spared {
    tool: ToolId,
    host: Option<String>,
}

#[derive(Default)]
struct Counted {
    asks: u64,
    by_rule: BTreeMap<(&'static str, Option<String>), (AskCode, u64)>,
    by_tool: BTreeMap<ToolId, u64>,
    hints: BTreeMap<Spared, u64>,
}

impl Counted {
    fn add(&mut self, asked: &Asked, hint: Option<Spared>) {
        self.asks += 1;
        for reason in &asked.reasons {
            let key = (reason.code.as_str(), reason.by.clone());
            self.by_rule.entry(key).or_insert((reason.code, 0)).1 += 1;
        }
        *self.by_tool.entry(asked.tool).or_default() += 1;
        if let Some(hint) = hint {
            *self.hints.entry(hint).or_default() += 1;
        }
    }

    fn finish(
        self,
        since: Timestamp,
        incomplete: bool,
        calls: &HashMap<ToolId, i64>,
        name_of: impl Fn(ToolId) -> String,
    ) -> Asks {
        let all: i64 = calls.values().sum();
        let mut by_rule: Vec<RuleAsks> = self
            .by_rule
            .into_iter()
            .map(|((_, by), (code, asks))| RuleAsks { code, by, asks, per_100_calls: per_100(asks, all) })
            .collect();
        by_rule.sort_by_key(|row| std::cmp::Reverse(row.asks));
        let mut by_tool: Vec<ToolAsks> = self
            .by_tool
            .into_iter()
            .map(|(tool, asks)| {
                let calls = calls.get(&tool).copied().unwrap_or_default();
                ToolAsks { tool: name_of(tool), calls, asks, per_100_calls: per_100(asks, calls) }
            })
            .collect();
        by_tool.sort_by_key(|row| std::cmp::Reverse(row.asks));
        let total = i64::try_from(self.asks).unwrap_or(i64::MAX);
        let mut hints: Vec<Hint> = self
            .hints
            .into_iter()
            .map(|(Spared { tool, host }, asks)| {
                let (tool, share) = (name_of(tool), per_100(asks, total));
                let to = host.as_ref().map(|host| format!(" to {host}")).unwrap_or_default();
                let text = format!("accepting private for {tool}{to} would remove {share:.0} % of asks");
                Hint { tool, host, accept: vec![Label::Private], asks, share, text }
            })
            .collect();
        hints.sort_by_key(|hint| std::cmp::Reverse(hint.asks));
        hints.truncate(HINTS_MAX);
        Asks {
            since,
            calls: all,
            asks: self.asks,
            per_100_calls: per_100(self.asks, all),
            incomplete,
            by_rule,
            by_tool,
            hints,
        }
    }
}

/// To one decimal place; of nothing it is nothing.
#[expect(clippy::cast_precision_loss, reason = "a share to one decimal place")]
fn per_100(part: u64, whole: i64) -> f64 {
    if whole <= 0 { 0.0 } else { (part as f64 * 1000.0 / whole as f64).round() / 10.0 }
}

fn start_of_day(moment: Timestamp) -> Timestamp {
    format!("{}T00:00:00Z", moment.day()).parse().unwrap_or(moment)
}
