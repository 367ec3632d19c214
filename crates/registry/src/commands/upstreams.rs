//! Servers of others: putting them behind the gate, and what becomes of the tools that they offer.
//!
//! Invariant: what a server changes by itself is served to nobody until somebody accepts it, unless the operator said of
//! that class of change that it is taken. What was accepted goes on as it was.
//! Invariant: nothing is removed. A tool that a server no longer offers is blocked, and goes on when it comes back.
//! Deliberately absent: asking a server. Whoever has a connection gives what it answered.

mod deciding;
mod offers;
mod taking;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::definition::{EgressClass, Origin, ToolState};
use toolgate_contracts::upstream::{Listing, ServerInfo};
use toolgate_contracts::{
    Caller, Definition, Digest, DriftClass, Fault, Permission, Runner, Slug, TenantId, ToolName, Upstream,
};
use toolgate_store::Change;
use toolgate_store::audit::Entry;
use toolgate_store::catalog::Lifecycle;
use toolgate_store::upstreams::{Offer, StoredUpstream};
use utoipa::ToSchema;

pub use self::offers::{ShownOffer, ShownOffers};
use self::taking::{Published, Step, Taking};
use super::Registry;
use super::register::{KnownHere, Publication, RegistrationAction, plan};
use crate::finding::{Finding, has_errors};
use crate::lint;
use crate::snapshot::{Snapshot, TenantRegistry, TenantTool, Tool};
use crate::upstream;

/// Servers of one tenant.
const UPSTREAMS_MAX: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadOutcome {
    New,
    Unchanged,
    /// A new version of it was registered.
    Updated,
    /// It waits until somebody accepts it.
    Offered,
    /// Somebody refused it. What was accepted goes on, and the server may offer something else.
    Declined,
    /// It was gone, and is offered again.
    Back,
    /// No longer offered: it cannot be called.
    Gone,
    /// The findings say why.
    Refused,
}

/// What became of one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReadTool {
    /// The server's own name.
    pub tool: String,
    /// The tool here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub outcome: ReadOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<DriftClass>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// What came of reading a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reading {
    #[serde(default)]
    pub server: ServerInfo,
    /// What it called itself when it was last accepted, where that is something else: another version may do other
    /// things by the same words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<ServerInfo>,
    /// The revision of the protocol that it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// It is elsewhere, or started otherwise, than when it was accepted: nothing of it is used until that is accepted.
    #[serde(default)]
    pub moved: bool,
    /// Why it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    pub tools: Vec<ReadTool>,
    /// Of what it says beside its tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

impl Reading {
    /// What it called itself when it was last accepted.
    fn accepted_server(&self) -> Option<&ServerInfo> {
        // One that was never read calls itself nothing.
        self.was.as_ref().or(Some(&self.server)).filter(|server| **server != ServerInfo::default())
    }

    fn calls_itself_otherwise(&self, now: &ServerInfo) -> bool {
        self.server != ServerInfo::default() && self.server != *now
    }
}

/// A reading, and what it changed.
#[derive(Clone, Debug)]
pub struct Read {
    pub reading: Reading,
    /// Offers that nobody had seen before, by the server's names; `None` stands for the place itself.
    pub drifted: Vec<(Option<String>, String)>,
    pub revision: Option<i64>,
}

/// How much of a server waits for somebody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Changes that it offers and nobody has accepted or refused.
    pub offered: usize,
    /// Its tools that cannot be called, because it does not offer them, or changed them too far.
    pub blocked: usize,
}

/// What somebody accepts of a server, or refuses.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    /// By the server's names; absent: everything that waits, and where an acceptance is it, where the server is.
    pub tools: Option<&'a [String]>,
    /// Where it is now.
    pub place: Digest,
    /// What was looked at: [`ShownOffers::seen`].
    pub seen: Digest,
}

/// What an operator might say of a tool, as far as its own hints go.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Suggestion {
    pub tool: String,
    #[schema(value_type = String)]
    pub name: ToolName,
    pub egress_class: EgressClass,
    pub suggested: EgressClass,
    pub reason: String,
}

impl Registry {
    /// The servers of the caller's tenant.
    pub fn upstreams(&self, caller: &Caller) -> Result<Vec<Arc<StoredUpstream>>, Fault> {
        caller.require(&Permission::UPSTREAMS_EDIT)?;
        Ok(self.snapshot().tenant(caller.tenant)?.upstreams.values().cloned().collect())
    }

    pub fn upstream(&self, caller: &Caller, name: &Slug) -> Result<Arc<StoredUpstream>, Fault> {
        caller.require(&Permission::UPSTREAMS_EDIT)?;
        stored(self.snapshot().tenant(caller.tenant)?, name)
    }

    /// Puts a server behind the gate, or changes how it is reached. `place` is where it is by what it says now; a server
    /// that is new is accepted there, one that moves is not used before [`Registry::accept_upstream`].
    pub async fn save_upstream(
        &self,
        caller: &Caller,
        spec: Upstream,
        place: Digest,
    ) -> Result<(StoredUpstream, i64), Fault> {
        caller.require(&Permission::UPSTREAMS_EDIT)?;
        spec.check()?;
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let before = registry.upstreams.get(&spec.name);
        if before.is_none() && registry.upstreams.len() >= UPSTREAMS_MAX {
            let told = format!("there are {UPSTREAMS_MAX} servers already");
            return Err(Fault::conflict(told, "remove one that nobody uses"));
        }
        if let Some(before) = before
            && before.spec.unprefixed != spec.unprefixed
        {
            let told = "`unprefixed` cannot change: the names of its tools are in use";
            return Err(Fault::conflict(told, "add the server under another name").at("/unprefixed"));
        }
        let now = self.now();
        let stored = StoredUpstream {
            tenant: caller.tenant,
            place: before.map_or(place, |before| before.place),
            saved_by: caller.principal.to_string(),
            created_at: before.map_or(now, |before| before.created_at),
            updated_at: now,
            spec,
        };
        let details = json!({"transport": stored.spec.transport, "secrets": stored.spec.secrets(), "moved": stored.place != place});
        let mut change = self.begin(caller, caller.tenant, "upstream.save", stored.spec.name.as_str(), details);
        change.put_upstream(&stored);
        let revision = self.finish(change).await.map_err(|fault| match fault.broken_rule() {
            Some("upstreams_folded") => {
                let told = format!("the name `{}` looks like that of another server", stored.spec.name);
                Fault::conflict(told, "choose another name").at("/name")
            }
            _ => fault,
        })?;
        Ok((stored, revision))
    }

    /// Removes a server. Its tools stay, because calls name them, and cannot be called.
    pub async fn remove_upstream(&self, caller: &Caller, name: &Slug) -> Result<i64, Fault> {
        let stored = self.upstream(caller, name)?;
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let mut change = self.begin(caller, caller.tenant, "upstream.remove", name.as_str(), json!({}));
        for tool in known(registry, &stored.spec).values() {
            block(&mut change, &tool.tool, name);
        }
        change.delete_upstream(name);
        // Whoever puts another one there connects it anew.
        change.delete_secrets_named(&["oauth", "oauth-client", "oauth-attempt"].map(|kind| format!("{kind}:{name}")));
        self.finish(change).await
    }

    /// Takes what a server answered: registers what is new, keeps what differs as an offer, blocks what is gone. `actor`
    /// is who asked for it; with `apply` off nothing is written.
    pub async fn take_listing(
        &self,
        actor: &str,
        tenant: TenantId,
        name: &Slug,
        listing: &Listing,
        apply: bool,
    ) -> Result<Read, Fault> {
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let stored = stored(registry, name)?;
        let mut reading = Reading {
            server: listing.server.clone(),
            revision: Some(listing.revision.clone()),
            moved: listing.place != stored.place,
            was: None,
            findings: listing.instructions.as_deref().map(upstream::instructions).unwrap_or_default(),
            ..Reading::default()
        };
        let before: Option<Reading> = self.last_reading(tenant, name).await?.map(|(reading, _)| reading);
        let renamed = before.as_ref().is_some_and(|before| before.calls_itself_otherwise(&reading.server));
        reading.was = before.as_ref().and_then(|before| before.accepted_server().cloned());
        reading.was.take_if(|was| *was == reading.server);
        if reading.moved {
            let was_told = before.is_some_and(|before| before.moved);
            if apply {
                self.keep(tenant, name, &reading).await?;
            }
            let drifted = if was_told { Vec::new() } else { vec![(None, "place".to_owned())] };
            return Ok(Read { reading, drifted, revision: None });
        }
        let offers: BTreeMap<String, Offer> =
            self.store().offers(tenant, name).await?.into_iter().map(|offer| (offer.tool.clone(), offer)).collect();
        let mut taking = Taking {
            registry: self,
            snapshot: &snapshot,
            tenant: registry,
            spec: &stored.spec,
            known: known(registry, &stored.spec),
            offers,
            steps: Vec::new(),
            tools: Vec::new(),
            drifted: Vec::new(),
        };
        taking.judge(&listing.tools).await?;
        let Taking { steps, mut tools, mut drifted, .. } = taking;
        if renamed && reading.was.is_some() {
            drifted.push((None, "version".to_owned()));
        }
        tools.sort_by(|left, right| left.tool.cmp(&right.tool));
        reading.tools = tools;
        if !apply {
            return Ok(Read { reading, drifted: Vec::new(), revision: None });
        }
        if steps.is_empty() {
            if before.as_ref() != Some(&reading) {
                self.keep(tenant, name, &reading).await?;
            }
            return Ok(Read { reading, drifted, revision: None });
        }
        let mut change = Change::new(tenant);
        let (registered, offered) = steps.iter().fold((0, 0), |(registered, offered), step| match step {
            Step::Publish(_) => (registered + 1, offered),
            Step::Offer(_) => (registered, offered + 1),
            Step::Withdraw(_) | Step::Block(_) | Step::Unblock(_) => (registered, offered),
        });
        self.note_upstream(
            &mut change,
            actor,
            "upstream.read",
            name.as_str(),
            json!({"registered": registered, "offered": offered}),
        );
        change.count_revision();
        for step in steps {
            self.write(&mut change, actor, name, step);
        }
        change.keep_reading(name, &serde_json::to_value(&reading).unwrap_or_default(), self.now());
        let revision = self.finish(change).await?;
        Ok(Read { reading, drifted, revision: Some(revision) })
    }

    /// Keeps that a server could not be read; what was read of its tools before stays.
    pub async fn keep_problem(&self, tenant: TenantId, name: &Slug, problem: &str) -> Result<(), Fault> {
        let mut reading = self.last_reading(tenant, name).await?.map(|(reading, _)| reading).unwrap_or_default();
        if reading.problem.as_deref() == Some(problem) {
            return Ok(());
        }
        reading.problem = Some(problem.to_owned());
        self.keep(tenant, name, &reading).await
    }

    async fn keep(&self, tenant: TenantId, name: &Slug, reading: &Reading) -> Result<(), Fault> {
        let mut change = Change::new(tenant);
        change.keep_reading(name, &serde_json::to_value(reading).unwrap_or_default(), self.now());
        self.store().commit(change).await?;
        Ok(())
    }

    /// What came of reading a server the last time that something was different, and when that was.
    pub async fn last_reading(
        &self,
        tenant: TenantId,
        name: &Slug,
    ) -> Result<Option<(Reading, toolgate_contracts::Timestamp)>, Fault> {
        let kept = self.store().reading(tenant, name).await?;
        Ok(kept.and_then(|(reading, at)| Some((serde_json::from_value(reading).ok()?, at))))
    }

    /// How much of a server waits for somebody.
    pub async fn upstream_waiting(&self, tenant: TenantId, spec: &Upstream) -> Result<Waiting, Fault> {
        let offers = self.store().offers(tenant, &spec.name).await?;
        let snapshot = self.snapshot();
        let known = known(snapshot.tenant(tenant)?, spec);
        let gone =
            |tool: &&TenantTool| tool.tool.versions.iter().any(|version| is_ours(&version.lifecycle, &spec.name));
        let changed = offers.iter().filter(|offer| !offer.class.keeps_calls() && known.contains_key(&offer.tool));
        Ok(Waiting {
            offered: offers.iter().filter(|offer| offer.refused.is_none()).count(),
            blocked: changed.count() + known.values().filter(|tool| gone(tool)).count(),
        })
    }

    /// Tools whose own hints are milder than their class. A hint is a claim: somebody looks before it counts.
    pub fn review_upstream(&self, caller: &Caller, name: &Slug) -> Result<Vec<Suggestion>, Fault> {
        let stored = self.upstream(caller, name)?;
        let snapshot = self.snapshot();
        let tools = known(snapshot.tenant(caller.tenant)?, &stored.spec);
        let suggested = |(original, tool): (&String, &&TenantTool)| {
            let version = tool.tool.current()?;
            let hints = version.definition.annotations.unwrap_or_default();
            let egress_class = version.definition.class();
            let (suggested, reason) = match (hints.read_only_hint, hints.open_world_hint) {
                (Some(true), Some(false)) => {
                    (EgressClass::None, "it says that it changes nothing and reaches nothing outside")
                }
                (Some(true), _) => (EgressClass::ReadOnly, "it says that it changes nothing"),
                _ => return None,
            };
            (suggested < egress_class).then(|| Suggestion {
                tool: original.clone(),
                name: tool.tool.name.clone(),
                egress_class,
                suggested,
                reason: reason.to_owned(),
            })
        };
        Ok(tools.iter().filter_map(suggested).collect())
    }

    /// What keeps a definition from being registered among the tenant's tools.
    fn refusals_of(&self, snapshot: &Snapshot, registry: &TenantRegistry, definition: &Definition) -> Vec<Finding> {
        let today = self.now().day();
        if let Some((tool, alias)) = registry.find(&definition.name, &today) {
            let own = alias.is_none()
                && tool.tool.tenant == registry.tenant.id
                && tool.tool.name == definition.name
                && same_server(tool, definition);
            if !own {
                let message =
                    format!("the name `{}` is taken by another tool, or looks like one that is", definition.name);
                let fix = "rename that tool, or add the server under another name";
                return vec![Finding::error("upstream.name-taken", "/name", message, fix)];
            }
        }
        let known = KnownHere { registry, builtins: self.builtins, plugins: &snapshot.plugins, today: &today };
        let refusals = lint::refusals(definition, Some(&known));
        if has_errors(&refusals) { refusals } else { Vec::new() }
    }

    async fn publication(
        &self,
        registry: &TenantRegistry,
        existing: Option<&TenantTool>,
        definition: Definition,
    ) -> Result<Option<(Published, String)>, Fault> {
        let used = self.store().tombstones(registry.tenant.id, &definition.name.folded()).await?;
        let planned = plan(&definition, existing, &used, Vec::new())?;
        if planned.action == RegistrationAction::Unchanged {
            return Ok(None);
        }
        let version: semver::Version = planned.version.parse().map_err(Fault::internal)?;
        let published = Published {
            tool: existing.map(|tool| tool.tool.id),
            said: existing.and_then(|tool| tool.tool.classification.clone()),
            class: planned.difference.class.as_str(),
            definition: Box::new(definition),
            version,
        };
        Ok(Some((published, planned.version)))
    }

    fn write(&self, change: &mut Change, actor: &str, upstream: &Slug, step: Step) {
        match step {
            Step::Publish(Published { tool, said, class, definition, version }) => {
                let details = json!({
                    "version": version, "class": class, "definition_digest": definition.definition_digest(),
                    "upstream": upstream,
                });
                self.note_upstream(change, actor, "tool.register", definition.name.as_str(), details);
                let (origin, source) = (Origin::Upstream, None);
                let definition = *definition;
                self.publish(change, Publication { tool, said, origin, definition, version, source, by: actor });
            }
            Step::Offer(offer) => {
                change.put_offer(upstream, &offer);
            }
            Step::Withdraw(tool) => {
                change.delete_offer(upstream, &tool);
            }
            Step::Block(tool) => block(change, &tool, upstream),
            Step::Unblock(tool) => {
                for version in tool.versions.iter().filter(|version| is_ours(&version.lifecycle, upstream)) {
                    change.unblock_gone(version.id);
                }
            }
        }
    }

    fn note_upstream(&self, change: &mut Change, actor: &str, action: &str, object: &str, details: Value) {
        change.audit(&Entry {
            id: self.new_id(),
            at: self.now(),
            tenant: change.tenant(),
            actor: actor.to_owned(),
            action: action.to_owned(),
            object: object.to_owned(),
            details: details.as_object().cloned().unwrap_or_default(),
        });
    }
}

fn stored(registry: &TenantRegistry, name: &Slug) -> Result<Arc<StoredUpstream>, Fault> {
    registry.upstreams.get(name).cloned().ok_or_else(|| Fault::not_found("upstream", name))
}

/// The tenant's tools that came from a server, by the server's names.
fn known<'s>(registry: &'s TenantRegistry, spec: &Upstream) -> BTreeMap<String, &'s TenantTool> {
    let own =
        registry.tools().filter(|tool| tool.tool.tenant == registry.tenant.id && tool.tool.origin == Origin::Upstream);
    own.filter_map(|tool| match &tool.tool.newest_released()?.published.definition.runner {
        Runner::Mcp(runner) if runner.server == spec.name.as_str() => Some((runner.tool.clone(), tool)),
        _ => None,
    })
    .collect()
}

fn same_server(tool: &TenantTool, definition: &Definition) -> bool {
    let newest = tool.tool.newest_released().map(|version| &version.published.definition.runner);
    match (newest, &definition.runner) {
        (Some(Runner::Mcp(before)), Runner::Mcp(now)) => before.server == now.server && before.tool == now.tool,
        _ => false,
    }
}

fn gone_message(upstream: &Slug) -> String {
    format!("the server `{upstream}` does not offer it now")
}

/// Blocked by a reading, and by nobody else.
fn is_ours(lifecycle: &Lifecycle, upstream: &Slug) -> bool {
    lifecycle.state == ToolState::Blocked && lifecycle.message == Some(gone_message(upstream))
}

fn block(change: &mut Change, tool: &Tool, upstream: &Slug) {
    for version in tool.versions.iter().filter(|version| version.lifecycle.state != ToolState::Blocked) {
        change.block_gone(version.id, &gone_message(upstream));
    }
}
