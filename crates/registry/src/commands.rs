//! The registry as it is changed: one set of commands behind REST, the command line and `manageTools`.
//!
//! Every command takes the caller and checks the right itself, so no door can forget it; every change carries its audit
//! entry and counts the revision, because a change can only be begun with both ([`Registry::begin`]).

mod acceptances;
mod agents;
mod classify;
mod guardrails;
mod imports;
mod lent;
mod lifecycle;
mod limits;
mod openings;
mod plugins;
mod policies;
mod providers;
mod register;
mod settings;
mod skills;
mod stop;
mod upstreams;

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::{Map, Value, json};
use toolgate_contracts::{Caller, Clock, Fault, FaultKind, Id, Rng, TenantId, Timestamp};
use toolgate_store::audit::Entry;
use toolgate_store::{Change, Store};

use crate::floor::Floor;
use crate::snapshot::Snapshot;

pub use acceptances::KeptAcceptance;
pub use agents::{AgentDraft, FIRST_USER, FIRST_WORKSPACE, agent_findings, shown};
pub use classify::Verdict;
pub use guardrails::KeptGuardrail;
pub use imports::{Import, ImportOutcome, ImportedOperation, Importing, refused_document};
pub use lent::LentRight;
pub use lifecycle::Reach;
pub use plugins::plugin_tool_md;
pub use policies::{Approvers, DEFAULT_REVISION, Judged as JudgedPolicies};
pub use providers::{KeptProvider, ProviderAction, Removal};
pub use register::{Registration, RegistrationAction, Submitted, refused};
pub use skills::{AddedSkill, FilledSkill, SkillAction};
pub use stop::Target;
pub use upstreams::{
    Decision, Read as UpstreamRead, ReadOutcome, ReadTool, Reading, ShownOffer, ShownOffers, Suggestion, Waiting,
};

/// A tool compiled into the program: its definition as a file, and what its function does whatever the file says.
#[derive(Clone, Copy, Debug)]
pub struct CodeTool {
    pub file: &'static str,
    pub text: &'static [u8],
}

/// The functions compiled into the program, and the least that a definition of each must own up to.
#[derive(Clone, Copy)]
pub struct Builtins {
    pub names: &'static [&'static str],
    pub floor: fn(&str) -> Option<Floor>,
}

pub struct Registry {
    store: Store,
    clock: Clock,
    rng: Rng,
    builtins: Builtins,
    snapshot: ArcSwap<Snapshot>,
    /// One reader of the catalog at a time; the others wait for its result.
    loading: tokio::sync::Mutex<()>,
}

impl Registry {
    /// Loads the snapshot. The store must be migrated.
    pub async fn open(store: Store, clock: Clock, rng: Rng, builtins: Builtins) -> Result<Self, Fault> {
        let snapshot = ArcSwap::from_pointee(Snapshot::build(store.catalog().await?));
        Ok(Self { store, clock, rng, builtins, snapshot, loading: tokio::sync::Mutex::new(()) })
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn new_id<K>(&self) -> Id<K> {
        Id::new(&self.clock, &self.rng)
    }

    /// Loads anew if another replica changed something.
    pub async fn refresh(&self) -> Result<(), Fault> {
        self.at_least(i64::MAX).await
    }

    /// Serves no snapshot older than one a caller was promised; a number nobody was promised costs a look, not a load.
    pub async fn at_least(&self, revision: i64) -> Result<(), Fault> {
        if self.snapshot.load().revision >= revision {
            return Ok(());
        }
        let _one = self.loading.lock().await;
        if self.snapshot.load().revision < revision
            && self.snapshot.load().revision < self.store.registry_revision().await?
        {
            let catalog = self.store.catalog().await?;
            self.snapshot.store(Arc::new(Snapshot::build(catalog)));
        }
        Ok(())
    }

    /// Begins a change of configuration in `tenant`, with its audit entry and its revision.
    pub fn begin(&self, caller: &Caller, tenant: TenantId, action: &str, object: &str, details: Value) -> Change {
        let details = match details {
            Value::Object(details) => details,
            _ => Map::new(),
        };
        let mut change = Change::new(tenant);
        change.audit(&Entry {
            id: self.new_id(),
            at: self.now(),
            tenant,
            actor: caller.principal.to_string(),
            action: action.to_owned(),
            object: object.to_owned(),
            details,
        });
        change.count_revision();
        change
    }

    /// Commits a change and shows it to everyone here at once; answers the revision that has it.
    pub async fn finish(&self, change: Change) -> Result<i64, Fault> {
        let outcome = self.store.commit(change).await?;
        let revision = outcome.revision().unwrap_or_default();
        // It is committed, and the answer says so even if it cannot be shown yet; the next request tries again.
        if let Err(fault) = self.at_least(revision).await {
            tracing::error!(revision, "committed, but not shown yet: {}", fault.logged().unwrap_or(fault.told()));
        }
        Ok(revision)
    }
}

/// A right that only the operator has, in words that say what a tenant can do instead.
fn operator_only(what: &str, instead: &str) -> Fault {
    Fault::new(FaultKind::Forbidden, format!("{what} is for the operator"), instead)
}

fn no_details() -> Value {
    json!({})
}
