//! Servers of others, seen from the gate: read with the organisation's secrets, taken into the registry, told of when they
//! change.
//!
//! Invariant: one server that is slow, gone or wrong delays and empties nothing of another's.
//! Deliberately absent: the protocol, which is the runner's of kind `mcp`, and what becomes of what was read, which is the
//! registry's.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use serde_json::{Map, Value};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::{
    Digest, Fault, FaultKind, Principal, ResolvedSecret, Runner as Kind, Slug, TenantId, Upstream, UpstreamHealth,
};
use toolgate_registry::commands::UpstreamRead;
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_store::Change;
use toolgate_store::upstreams::StoredUpstream;
use toolgate_vault::Reach;

use crate::engine::Engine;
use crate::notify::News;
use crate::runner::{UpstreamAsked, UpstreamList, UpstreamNews};
use crate::secrets::Secrets;

const READ_AT_MOST: Duration = Duration::from_mins(1);
/// A server that says without end that it changed is read no more often.
const READ_AGAIN: Duration = Duration::from_secs(5);
const READ_EVERY: Duration = Duration::from_mins(5);
/// After the start, so that whoever waits for the first answer does not wait for these.
const READ_FIRST: Duration = Duration::from_secs(2);
const READ_AT_ONCE_MAX: usize = 8;
const SYSTEM: &str = "system";

impl Engine {
    /// Where a server is by what it says, and by the operator's entry; refused where that is nowhere.
    pub fn upstream_place(&self, tenant: &Slug, upstream: &Upstream) -> Result<Digest, Fault> {
        self.runners.of_upstreams()?.upstream_place(tenant, upstream)
    }

    pub fn upstream_health(&self, tenant: TenantId, name: &Slug) -> Option<UpstreamHealth> {
        self.runners.of_upstreams().ok()?.upstream_health(tenant, name)
    }

    /// Ends what is open to a server that was removed or changed.
    pub async fn forget_upstream(&self, tenant: TenantId, name: &Slug) {
        if let Ok(runner) = self.runners.of_upstreams() {
            runner.forget_upstream(tenant, name).await;
        }
    }

    /// Asks a server what it offers, and takes that into the registry; without `apply` only says what would be.
    pub async fn read_upstream(
        &self,
        actor: &str,
        tenant: TenantId,
        name: &Slug,
        apply: bool,
    ) -> Result<UpstreamRead, Fault> {
        let runner = Arc::clone(self.runners.of_upstreams()?);
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let stored = registry.upstreams.get(name).ok_or_else(|| Fault::not_found("upstream", name))?;
        let listed = async {
            let asked = self.asked_of(tenant, registry.tenant.slug.clone(), stored).await?;
            match tokio::time::timeout(READ_AT_MOST, runner.list_upstream(asked)).await {
                Ok(listed) => listed,
                Err(_) => Err(Fault::new(
                    FaultKind::Unavailable,
                    format!("the server `{name}` does not say what it offers within {} s", READ_AT_MOST.as_secs()),
                    "see what it says with `toolgate upstream show`, and start it again",
                )),
            }
        };
        let listing = match listed.await {
            Ok(listing) => listing,
            Err(fault) => {
                if apply {
                    self.registry.keep_problem(tenant, name, fault.told()).await?;
                }
                return Err(fault);
            }
        };
        let take = || self.registry.take_listing(actor, tenant, name, &listing, apply);
        let read = match take().await {
            // The round that follows every change, or another replica, took the same meanwhile: what is left is little.
            Err(fault) if fault.kind() == FaultKind::Conflict => {
                self.registry.refresh().await?;
                take().await?
            }
            read => read?,
        };
        for (tool, class) in &read.drifted {
            self.tell_of_drift(tenant, name, tool.as_deref(), class).await?;
        }
        Ok(read)
    }

    async fn asked_of(&self, tenant: TenantId, slug: Slug, stored: &StoredUpstream) -> Result<UpstreamAsked, Fault> {
        let (secrets, found) = self.secrets_of_upstream(tenant, stored).await?;
        Ok(UpstreamAsked { tenant, tenant_slug: slug, principal: None, upstream: stored.spec.clone(), secrets, found })
    }

    /// A server of others as it is asked by nobody in particular: where it was accepted, or not at all.
    async fn to_ask(&self, tenant: TenantId, name: &Slug, principal: Principal) -> Result<UpstreamAsked, Fault> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let stored = registry.upstreams.get(name).ok_or_else(|| Fault::not_found("upstream", name))?;
        if self.upstream_place(&registry.tenant.slug, &stored.spec)? != stored.place {
            let told = format!("the server `{name}` is elsewhere, or started otherwise, than when it was accepted");
            return Err(Fault::conflict(told, format!("the operator takes it with `toolgate upstream accept {name}`")));
        }
        let asked = self.asked_of(tenant, registry.tenant.slug.clone(), stored).await?;
        Ok(UpstreamAsked { principal: Some(principal), ..asked })
    }

    /// What a server says that it can.
    pub async fn upstream_capabilities(
        &self,
        tenant: TenantId,
        name: &Slug,
        principal: Principal,
    ) -> Result<Map<String, Value>, Fault> {
        let asked = self.to_ask(tenant, name, principal).await?;
        self.runners.of_upstreams()?.upstream_capabilities(asked).await
    }

    /// All that a server lists of one kind beside its tools.
    pub async fn list_of_upstream(
        &self,
        tenant: TenantId,
        name: &Slug,
        principal: Principal,
        what: UpstreamList,
    ) -> Result<Vec<Value>, Fault> {
        let asked = self.to_ask(tenant, name, principal).await?;
        self.runners.of_upstreams()?.list_of_upstream(asked, what).await
    }

    /// What a server says of changes, as long as somebody listens.
    pub async fn hear_upstream(
        &self,
        tenant: TenantId,
        name: &Slug,
        principal: Principal,
        resources: Vec<String>,
    ) -> Result<mpsc::Receiver<UpstreamNews>, Fault> {
        let asked = self.to_ask(tenant, name, principal).await?;
        self.runners.of_upstreams()?.hear_upstream(asked, resources).await
    }

    async fn tell_of_drift(&self, tenant: TenantId, name: &Slug, tool: Option<&str>, class: &str) -> Result<(), Fault> {
        let snapshot = self.registry.snapshot();
        let mut change = Change::new(tenant);
        self.tell(&mut change, snapshot.tenant(tenant)?, News::of_drift(name, tool, class));
        if !change.is_empty() {
            self.store.commit(change).await?;
        }
        Ok(())
    }

    /// A server is read by nobody in particular, so with what the whole organisation gave it.
    pub(crate) async fn secrets_of_upstream(
        &self,
        tenant: TenantId,
        stored: &StoredUpstream,
    ) -> Result<(Arc<Secrets>, Vec<ResolvedSecret>), Fault> {
        let names: Vec<&str> = stored.spec.secrets().into_iter().collect();
        let server = &stored.spec.name;
        if names.is_empty() {
            return Ok((Arc::default(), Vec::new()));
        }
        let sealed = self.0.vault.resolve(Reach { tenant, principal: None, workspace: None }, &names).await?;
        for name in names {
            let found = sealed.iter().find(|sealed| sealed.found.name == name);
            let given = found.is_some_and(|sealed| {
                stored.spec.as_tool_name().is_some_and(|tool| sealed.allowed.code.get(&tool) == Some(&stored.place))
            });
            if !given {
                let what = if found.is_some() { "is not given to it as it is now" } else { "is not there" };
                let told = format!("the server `{server}` cannot be read: the organisation's secret `{name}` {what}");
                let remedy = format!(
                    "set it with `toolgate secret set {name} --scope org`, and give it to the server with `toolgate secret allow {name} --scope org --code {server}`"
                );
                return Err(Fault::new(FaultKind::Conflict, told, remedy));
            }
        }
        let opened = self.open_sealed(tenant, &sealed).await?;
        Ok((opened.secrets, sealed.into_iter().map(|sealed| sealed.found).collect()))
    }

    /// The place at which the server of a tool was accepted.
    pub(crate) fn place_of(&self, tool: &ResolvedTool) -> Option<Digest> {
        let Kind::Mcp(runner) = &tool.definition.runner else { return None };
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tool.tool.tenant).ok()?;
        let name: Slug = runner.server.parse().ok()?;
        registry.upstreams.get(&name).map(|stored| stored.place)
    }

    /// Reads all servers now and then, and each at once that says that it offers something else.
    pub async fn follow_upstreams(self, until: CancellationToken) {
        let Ok(runner) = self.runners.of_upstreams() else { return };
        let mut news = runner.upstream_news();
        let mut next = tokio::time::Instant::now() + READ_FIRST;
        let mut read_at = tokio::time::Instant::now();
        loop {
            let changed = async {
                match &mut news {
                    Some(news) => news.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = until.cancelled() => return,
                () = tokio::time::sleep_until(next) => {
                    tokio::select! {
                        () = until.cancelled() => return,
                        () = self.read_upstreams() => {}
                    }
                    next = tokio::time::Instant::now() + READ_EVERY;
                }
                changed = changed => match changed {
                    Ok(_) if read_at.elapsed() < READ_AGAIN => next = next.min(read_at + READ_AGAIN),
                    Ok((tenant, name)) => {
                        read_at = tokio::time::Instant::now();
                        let engine = self.clone();
                        // One that is slow holds up no other, and no end.
                        tokio::spawn(async move { engine.read_quietly(tenant, &name).await });
                    }
                    // Some were missed: all are asked.
                    Err(RecvError::Lagged(_)) => next = tokio::time::Instant::now(),
                    Err(RecvError::Closed) => news = None,
                },
            }
        }
    }

    /// Reads all servers of all tenants, a few at once.
    pub async fn read_upstreams(&self) {
        let snapshot = self.registry.snapshot();
        let all: Vec<(TenantId, Slug)> = snapshot
            .tenants()
            .flat_map(|registry| registry.upstreams.keys().map(|name| (registry.tenant.id, name.clone())))
            .collect();
        stream::iter(all)
            .for_each_concurrent(
                READ_AT_ONCE_MAX,
                |(tenant, name)| async move { self.read_quietly(tenant, &name).await },
            )
            .await;
    }

    async fn read_quietly(&self, tenant: TenantId, name: &Slug) {
        if let Err(fault) = self.read_upstream(SYSTEM, tenant, name, true).await {
            tracing::warn!(upstream = %name, "a server behind the gate cannot be read: {}", fault.told());
        }
    }
}
