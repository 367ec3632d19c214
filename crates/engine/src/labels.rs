//! What a run, or a caller without one, has seen before a call; and what it has seen after.
//!
//! A run keeps its own labels. Callers without runs join over a context: who calls, as which agent, for twelve hours
//! after the last call that brought something. What a caller reads in one of its runs, all of its runs have read: opening
//! another run, early or late, washes nothing off.

use std::sync::Arc;

use moka::ops::compute::Op;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::definition::{EgressClass, Sink};
use toolgate_contracts::{CallRequest, Caller, Fault, Timestamp, ToolRef};
use toolgate_policy::labels::{Authority, Labels, Origins, sources};
use toolgate_registry::snapshot::{ResolvedTool, TenantRegistry};
use toolgate_store::Change;
use toolgate_store::labels::LabelContext;
use toolgate_store::runs::Run;

use crate::asking::administers;
use crate::engine::Engine;
use crate::record::Prepared;

/// How long a caller without runs is remembered after the last call that brought something.
pub(crate) const CONTEXT_S: i64 = 12 * 60 * 60;
/// A context whose time was extended less long ago than this is not written again for that alone.
const EXTENDED_EVERY_S: i64 = 10 * 60;

/// What was seen before, and where it came from.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub labels: Labels,
    pub origins: Origins,
    /// What of it is written down already, in the run and for the caller.
    pub(crate) kept: Labels,
    pub(crate) expires_at: Option<Timestamp>,
    /// How often what callers have seen had changed when it was read, where that is known.
    pub(crate) as_of: Option<u64>,
}

/// Which context a caller's calls join: who is answerable and the agent, else the credential's own.
pub fn context_of(caller: &Caller) -> String {
    if let Some(token) = &caller.token {
        return token.context.clone();
    }
    match (caller.agent, caller.credential) {
        (Some(agent), _) => format!("{} agent:{agent}", caller.principal),
        (None, Credential::ApiKey(key)) => format!("{} key:{key}", caller.principal),
        (None, Credential::BrowserSession(session)) => format!("{} session:{session}", caller.principal),
        (None, Credential::Token(_) | Credential::DatabaseRole | Credential::LocalFolder) => {
            caller.principal.to_string()
        }
    }
}

impl Engine {
    /// What this caller has seen over calls. Remembered for a moment: another replica's news may be a second old.
    pub(crate) async fn seen_by(&self, caller: &Caller) -> Result<Arc<Seen>, Fault> {
        let key = (caller.tenant, context_of(caller));
        if let Some(seen) = self.contexts.get(&key) {
            return Ok(seen);
        }
        self.look_up(key).await
    }

    /// The same, as the database has it now: for what could carry it away. Where nobody else writes there, what was read
    /// is that until somebody here writes.
    pub(crate) async fn seen_just_now(&self, caller: &Caller) -> Result<Arc<Seen>, Fault> {
        let key = (caller.tenant, context_of(caller));
        if let (Some(changes), Some(seen)) = (self.store.context_changes(), self.contexts.get(&key))
            && seen.as_of == Some(changes)
        {
            return Ok(seen);
        }
        self.look_up(key).await
    }

    async fn look_up(&self, key: (toolgate_contracts::TenantId, String)) -> Result<Arc<Seen>, Fault> {
        let as_of = self.store.context_changes();
        let found = self.store.label_context(key.0, &key.1, self.clock.now()).await?;
        let seen = match found {
            None => Seen { as_of, ..Seen::default() },
            Some(LabelContext { labels, origins, expires_at }) => {
                let labels = Labels::from(labels);
                let origins = serde_json::from_value(origins).unwrap_or_default();
                Seen { labels, origins, kept: labels, expires_at: Some(expires_at), as_of }
            }
        };
        let seen = Arc::new(seen);
        self.contexts.insert(key, Arc::clone(&seen));
        Ok(seen)
    }

    /// What was seen before a call: by its run, or by whoever calls without one; and what the request itself says.
    pub(crate) async fn seen_before(
        &self,
        caller: &Caller,
        registry: &TenantRegistry,
        tool: &ToolRef,
        run: Option<&Run>,
        request: &CallRequest,
    ) -> Result<Seen, Fault> {
        // What could carry something away is judged by what is written: another call, or another replica, may have ended
        // since somebody looked.
        let out = is_a_way_out(registry, tool, &self.clock.now().day());
        let context = if out { self.seen_just_now(caller).await? } else { self.seen_by(caller).await? };
        let mut seen = within_run(&context, run);
        let said = Labels::from(request.labels.as_slice());
        if !said.is_within(seen.labels) {
            seen.labels = seen.labels.join(said);
            seen.origins.add("what the caller said");
        }
        Ok(seen)
    }

    /// Writes down with a call's end what its reader has seen by it, and what the request itself said was seen.
    pub(crate) fn join_seen(&self, change: &mut Change, prepared: &Prepared, now: Timestamp) {
        let Prepared { seen, context, call, brings, .. } = prepared;
        let joined = seen.labels.join(*brings);
        // What a detector sees it tells nobody but the guardrail.
        if joined.is_empty() || call.examining {
            return;
        }
        let mut origins = seen.origins.clone();
        if !brings.is_empty() {
            origins.add(call.tool.name.as_str());
        }
        let known = joined.is_within(seen.kept) && origins == seen.origins;
        let written = serde_json::to_value(&origins).unwrap_or_default();
        if prepared.root_run.is_some() && !known {
            for run in std::iter::once(&call.run).chain(&prepared.above) {
                change.join_run_labels(*run, &joined.to_vec(), &written);
            }
        }
        let extended = |at: Timestamp| at >= now.plus_seconds(CONTEXT_S - EXTENDED_EVERY_S);
        if known && (brings.is_empty() || seen.expires_at.is_some_and(extended)) {
            return;
        }
        let expires_at = now.plus_seconds(CONTEXT_S);
        let joining = LabelContext { labels: joined.to_vec(), origins: written, expires_at };
        change.join_context(context, &joining, now);
        self.remember((call.tenant, context.clone()), joined, &origins);
    }

    /// Known here at once, whatever else ends in the same moment. It counts as kept only when it is read back: the commit
    /// that writes it down may fail.
    fn remember(&self, key: (toolgate_contracts::TenantId, String), joined: Labels, origins: &Origins) {
        self.contexts.entry(key).and_compute_with(|known| {
            let before = known.map(moka::Entry::into_value).unwrap_or_default();
            if joined.is_within(before.labels) {
                return Op::Nop;
            }
            Op::Put(Arc::new(Seen {
                labels: before.labels.join(joined),
                origins: before.origins.clone().join(origins),
                kept: before.kept,
                expires_at: before.expires_at,
                as_of: before.as_of,
            }))
        });
    }
}

/// What was seen before a call in this run: by the run, and by whoever calls. A run that was opened early washes nothing
/// off either, because one and the same caller hears what all of its runs answer.
pub(crate) fn within_run(context: &Seen, run: Option<&Run>) -> Seen {
    let Some(run) = run else { return context.clone() };
    let (own, origins) = (Labels::from(run.labels.as_slice()), serde_json::from_value::<Origins>(run.origins.clone()));
    Seen {
        labels: own.join(context.labels),
        origins: origins.unwrap_or_default().join(&context.origins),
        kept: own.meet(context.kept),
        expires_at: context.expires_at,
        as_of: context.as_of,
    }
}

/// What reading this tool's result adds.
pub(crate) fn brings(tool: &ResolvedTool, secret_used: bool) -> Labels {
    let authority = Authority::of(tool.tool.origin, tool.version.is_classified());
    sources(&tool.definition, authority, secret_used)
}

fn is_a_way_out(registry: &TenantRegistry, tool: &ToolRef, today: &str) -> bool {
    registry.resolve(tool, today).is_none_or(|tool| {
        let definition = &tool.definition;
        definition.class() == EgressClass::Write
            || definition.effective_sink() == Sink::Open
            || administers(&tool)
            || definition.labels.as_ref().is_some_and(|rules| rules.max_in.is_some())
    })
}
