//! The kind `mcp`: tools of servers of others, called over shared links.
//!
//! Invariant: what is called is what was accepted. Before each call the tool's pin is compared with what the server says
//! of it now, over the link that the call takes; what differs so that calls would no longer mean what they meant is not
//! called.
//! Invariant: a server is given the secrets that its tools declare and nothing of the caller's: no token, no header.
//! Deliberately absent: registering what a server offers, which is the registry's.

mod answer;
pub mod beside;
mod connecting;
mod keeper;
mod listed;
mod places;
mod questions;
mod sending;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;
use toolgate_contracts::runner::{Mcp, Runner as Kind};
use toolgate_contracts::upstream::{ConnectionOf, Listing, Upstream as Spec, UpstreamAsks};
use toolgate_contracts::{
    Definition, Digest, Entries, ErrorCode, Fault, FaultKind, Principal, SecretPlace, Slug, TenantId, ToolError,
    UpstreamHealth,
};
use toolgate_egress::{EgressError, Purpose, Request, Response, Sent};
use toolgate_engine::runner::{Connecting, Connection, Need, UpstreamAsked, UpstreamList, UpstreamNews};
use toolgate_engine::secrets::Secrets;
use toolgate_engine::{Call, Outcome, Outside, Permit, Runner, Wiring};
use toolgate_registry::commands::Registry;
use toolgate_registry::upstream as offered;
use toolgate_sandbox::Spawner;
use toolgate_store::upstreams::StoredUpstream;

use self::keeper::{Holder, Keeper};
use self::listed::{Listed, Listings, pages};
use self::places::{Located, Prepared};
use self::questions::Questions;
use self::sending::{Sending, Unsent};
use crate::upstream::{Key, Link, LinkError, News, Outlet, Settings, Upstreams, Wanted};
use crate::way::Way;
use crate::wire::code;

/// Messages of one call's progress that nobody has read yet.
const HEARD_MAX: usize = 64;
/// Prompts, resources or templates of one server.
const ITEMS_MAX: usize = 2000;
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Servers of which it is kept where they are; at the bound all are worked out anew.
const LOCATED_MAX: usize = 10_000;

/// Runs tools of servers of others. Cheap to clone.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

/// A server as it is stored, and where that is.
type Known = (Arc<StoredUpstream>, Arc<Located>);

struct Inner {
    links: Upstreams,
    listings: Listings,
    registry: Arc<Registry>,
    outside: Outside,
    entries: Arc<Entries>,
    /// Tokens for servers that want them.
    keeper: Arc<Keeper>,
    /// Ways out of tenants, one for each server.
    outlets: Mutex<HashMap<(TenantId, String), Arc<dyn Outlet>>>,
    /// Of servers as the snapshot has them; another snapshot's are worked out anew.
    located: Mutex<HashMap<(TenantId, Slug), Known>>,
}

impl Servers {
    pub fn new(wiring: &Wiring<'_>, spawner: Option<Spawner>) -> Self {
        Self::with(wiring, Settings::new(wiring.clock.clone(), spawner))
    }

    /// With what starts processes, for programs that start no others.
    pub fn starting(wiring: &Wiring<'_>) -> Self {
        Self::new(wiring, Spawner::new().ok())
    }

    /// With other bounds.
    pub fn with(wiring: &Wiring<'_>, settings: Settings) -> Self {
        Self(Arc::new(Inner {
            links: Upstreams::new(settings),
            listings: Listings::default(),
            registry: Arc::clone(wiring.registry),
            outside: wiring.outside.clone(),
            entries: Arc::clone(wiring.entries),
            keeper: Arc::new(Keeper::new(wiring)),
            outlets: Mutex::default(),
            located: Mutex::default(),
        }))
    }

    /// What is wrong with the operator's entries.
    pub fn problems(&self) -> Vec<String> {
        let wrong = |(name, entry): (&String, &_)| places::problem(entry).map(|why| format!("`{name}`: {why}"));
        self.0.entries.upstreams.iter().filter_map(wrong).collect()
    }

    /// The server of a tool, and the tenant whose it is.
    fn server_of(&self, call: &Call) -> Result<(Arc<StoredUpstream>, Slug), ToolError> {
        let runner = runner_of(&call.tool.definition)?;
        self.find(call.tool.tool.tenant, runner)
    }

    fn find(&self, owner: TenantId, runner: &Mcp) -> Result<(Arc<StoredUpstream>, Slug), ToolError> {
        let gone = || {
            let message = format!("the server `{}` is not behind the gate any more", runner.server.escape_debug());
            ToolError::because(ErrorCode::PolicyDenied, "blocked", message)
        };
        let name: Slug = runner.server.parse().map_err(|_| gone())?;
        let snapshot = self.0.registry.snapshot();
        let registry = snapshot.tenant(owner).map_err(|fault| ToolError::of(&fault))?;
        let stored = registry.upstreams.get(&name).cloned().ok_or_else(gone)?;
        Ok((stored, registry.tenant.slug.clone()))
    }

    /// What of a server's tool somebody said no to.
    fn declined(&self, owner: TenantId, server: &Slug, tool: &str) -> Result<Option<Digest>, ToolError> {
        let snapshot = self.0.registry.snapshot();
        let registry = snapshot.tenant(owner).map_err(|fault| ToolError::of(&fault))?;
        Ok(registry.refused.get(&(server.clone(), tool.to_owned())).copied())
    }

    /// What calls of a server have in common. It is kept with the very value that it was made of.
    fn located(&self, stored: &Arc<StoredUpstream>, owner: &Slug) -> Result<Arc<Located>, Fault> {
        let key = (stored.tenant, stored.spec.name.clone());
        let lock = || self.0.located.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, located)) = lock().get(&key)
            && Arc::ptr_eq(of, stored)
        {
            return Ok(Arc::clone(located));
        }
        let located = Arc::new(Located::of(&self.0.entries, owner, &stored.spec)?);
        let mut all = lock();
        if all.len() >= LOCATED_MAX {
            all.clear();
        }
        all.insert(key, (Arc::clone(stored), Arc::clone(&located)));
        Ok(located)
    }

    fn outlet(&self, tenant: TenantId, spec: &Spec) -> Arc<dyn Outlet> {
        let mut outlets = self.0.outlets.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || {
            let outlet = OfTenant { outside: self.0.outside.clone(), tenant, spec: spec.clone() };
            Arc::new(outlet) as Arc<dyn Outlet>
        };
        Arc::clone(outlets.entry((tenant, spec.name.to_string())).or_insert_with(made))
    }

    async fn call(&self, permit: Arc<Permit>, prepared: &Prepared) -> Outcome {
        let call = Arc::clone(permit.call());
        let began = Instant::now();
        let runner = match runner_of(&call.tool.definition) {
            Ok(runner) => runner,
            Err(error) => return error.into(),
        };
        let server = prepared.spec.name.as_str();
        if call.cancel.is_cancelled() {
            return ToolError::cancelled().into();
        }
        let way = call.beside.clone().and_then(|beside| beside.downcast::<Way>().ok());
        let tokens = prepared.holder.as_ref().map(|holder| holder.sent.clone());
        let questions = Arc::new(Questions::new(server, prepared.spec.asks, Arc::clone(&permit), way.clone(), tokens));
        // A link that ended before anything was sent on it is not the last word: once more, with another, which is read anew.
        let mut again = true;
        loop {
            let left = call.timeout.saturating_sub(began.elapsed());
            let opened = tokio::select! {
                opened = tokio::time::timeout(left, self.ready(&call, prepared)) => opened,
                () = call.cancel.cancelled() => return ToolError::cancelled().into(),
            };
            let (link, listed) = match opened {
                Ok(Ok(opened)) => opened,
                Ok(Err(LinkError::Closed { .. })) if std::mem::take(&mut again) => continue,
                Ok(Err(error)) => return named(server, error.into()).into(),
                Err(_) => {
                    let error = LinkError::Timeout { after: call.timeout, sent: Sent::No };
                    return named(server, error.into()).into();
                }
            };
            // As it was accepted, whatever the operator or the tenant says of it besides.
            let accepted = &call.tool.version.published.definition;
            let declined = self.declined(call.tool.tool.tenant, &prepared.spec.name, &runner.tool);
            if let Err(error) = declined.and_then(|declined| admit(prepared, accepted, runner, &listed, declined)) {
                // Whoever looks for offers finds it there.
                self.0.listings.tell(call.tool.tool.tenant, &prepared.spec.name);
                return error.into();
            }
            let bears = prepared.holder.as_ref().map(|holder| (&self.0.keeper, holder));
            let sending = Sending { call: &call, link: &link, runner, questions: &questions, way: way.as_ref(), bears };
            match sending.send(&self.0.outside, call.timeout.saturating_sub(began.elapsed())).await {
                Err(Unsent) if std::mem::take(&mut again) => {}
                Err(Unsent) => {
                    let error = LinkError::Closed { why: "it ends its links at once".to_owned(), sent: Sent::No };
                    return named(server, error.into()).into();
                }
                Ok(outcome) => return outcome,
            }
        }
    }

    /// The link that a call takes, and what the server says of its tools over it.
    async fn ready(&self, call: &Call, prepared: &Prepared) -> Result<(Arc<Link>, Arc<Listed>), LinkError> {
        let outlet = self.bearing(self.outlet(call.tenant, &prepared.spec), prepared.holder.as_ref());
        let link = self.0.links.link(&prepared.key, &prepared.upstream, &outlet).await?;
        let listed = self.0.listings.fresh(prepared, &link).await?;
        Ok((link, listed))
    }

    fn prepared(&self, call: &Call, permit: &Permit) -> Result<Prepared, ToolError> {
        let (stored, owner) = self.server_of(call)?;
        let wrong = |fault: Fault| named(stored.spec.name.as_str(), ToolError::of(&fault));
        let located = self.located(&stored, &owner).map_err(wrong)?;
        let credentials = places::credentials(&call.secrets);
        let credentials = if is_apart(&stored.spec) { Some(of_one(call.principal, credentials)) } else { credentials };
        let upstream = key_name(call.tool.tool.tenant, call.tenant, &stored.spec.name);
        let key = Key { tenant: call.tenant, upstream, credentials };
        let mut prepared = places::prepare(&self.0.entries, &owner, &located, permit.secrets(), key).map_err(wrong)?;
        prepared.holder = self.holder(call, &located, permit.secrets());
        if prepared.place != stored.place {
            return Err(moved(&stored.spec.name));
        }
        Ok(prepared)
    }

    async fn list(&self, asked: UpstreamAsked) -> Result<Listing, Fault> {
        let (prepared, tenant) = self.prepared_to_ask(asked)?;
        self.0.listings.forget(&prepared.key);
        let outlet = self.bearing(self.outlet(tenant, &prepared.spec), prepared.holder.as_ref());
        let read = async || {
            let link = self.0.links.link(&prepared.key, &prepared.upstream, &outlet).await?;
            let listed = self.0.listings.fresh(&prepared, &link).await?;
            let tools = with_something_behind(&link, &listed).await?;
            Ok((listed, tools))
        };
        let read = match read().await {
            // It was there and ended before it was asked: once more, with another.
            Err(LinkError::Closed { .. }) => read().await,
            read => read,
        };
        let (listed, tools) = read.map_err(|error| self.unreadable(&prepared, &error))?;
        Ok(Listing {
            revision: listed.found.named.clone(),
            server: listed.server(),
            instructions: listed.found.instructions.clone(),
            tools,
            place: prepared.place,
        })
    }

    /// A server as it is asked by nobody in particular.
    fn prepared_to_ask(&self, asked: UpstreamAsked) -> Result<(Prepared, TenantId), Fault> {
        let UpstreamAsked { tenant, tenant_slug, principal, upstream, secrets, found } = asked;
        let principal = principal.filter(|_| is_apart(&upstream));
        let credentials = places::credentials(&found);
        let credentials = match principal {
            Some(principal) => Some(of_one(principal, credentials)),
            None => credentials,
        };
        let key = Key { tenant, upstream: upstream.name.to_string(), credentials };
        let located = Located::of(&self.0.entries, &tenant_slug, &upstream)?;
        let mut prepared = places::prepare(&self.0.entries, &tenant_slug, &located, &secrets, key)?;
        let url = located.url.as_ref();
        let holder = url.and_then(|url| Holder::of(tenant, principal, &upstream, url, &secrets));
        prepared.holder = holder.map(|holder| self.0.keeper.holding(holder));
        Ok((prepared, tenant))
    }

    /// Whose tokens a call takes, where the server wants some.
    fn holder(&self, call: &Call, located: &Located, secrets: &Secrets) -> Option<Arc<Holder>> {
        let url = located.url.as_ref()?;
        let holder = Holder::of(call.tenant, Some(call.principal), &located.spec, url, secrets)?;
        Some(self.0.keeper.holding(holder))
    }

    fn unreadable(&self, prepared: &Prepared, error: &LinkError) -> Fault {
        let name = &prepared.spec.name;
        match (&prepared.holder, error) {
            (Some(holder), LinkError::AuthRequired { .. }) => {
                let why = self.0.keeper.problem(holder).map(|why| format!("; {why}")).unwrap_or_default();
                let told = format!("the server `{name}` cannot be read: {error}{why}");
                let remedy = format!("connect it with `toolgate upstream connect {name} --scope org`");
                Fault::new(FaultKind::Unavailable, told, remedy)
            }
            _ => self.unreachable(prepared.key.tenant, name, error),
        }
    }

    fn unreachable(&self, tenant: TenantId, name: &Slug, error: &LinkError) -> Fault {
        let said = self.without_tokens(tenant, name, &error.to_string());
        Fault::new(FaultKind::Unavailable, format!("the server `{name}` cannot be read: {said}"), error.remedy())
    }

    /// What a server says may hold what it was sent.
    fn without_tokens(&self, tenant: TenantId, name: &Slug, said: &str) -> String {
        match self.0.keeper.redactor_of(tenant, name) {
            Ok(redactor) => redactor.redact_text(said).into_owned(),
            Err(_) => "it could not be kept apart from tokens".to_owned(),
        }
    }

    async fn link_to_ask(&self, asked: UpstreamAsked) -> Result<Arc<Link>, Fault> {
        let name = asked.upstream.name.clone();
        let (prepared, tenant) = self.prepared_to_ask(asked)?;
        let outlet = self.bearing(self.outlet(tenant, &prepared.spec), prepared.holder.as_ref());
        let link = self.0.links.link(&prepared.key, &prepared.upstream, &outlet).await;
        link.map_err(|error| self.unreachable(tenant, &name, &error))
    }

    async fn hear(&self, asked: UpstreamAsked, uris: Vec<String>) -> Result<mpsc::Receiver<UpstreamNews>, Fault> {
        let link = self.link_to_ask(asked).await?;
        let (tell, heard) = mpsc::channel(HEARD_MAX);
        let mut listening = link.listen(Wanted { tools: true, prompts: true, resources: true, uris });
        tokio::spawn(async move {
            loop {
                let news = tokio::select! {
                    news = tokio::time::timeout(LOOK_EVERY, listening.next()) => news,
                    () = tell.closed() => return,
                };
                let news = match news {
                    Ok(Ok(News::ToolsChanged)) => UpstreamNews::Tools,
                    Ok(Ok(News::PromptsChanged)) => UpstreamNews::Prompts,
                    Ok(Ok(News::ResourcesChanged)) => UpstreamNews::Resources,
                    Ok(Ok(News::ResourceUpdated { uri })) => UpstreamNews::Resource(uri),
                    Ok(Err(RecvError::Closed)) => return,
                    Err(_) if link.ended().is_some() => return,
                    Ok(Ok(News::Said(_)) | Err(RecvError::Lagged(_))) | Err(_) => continue,
                };
                // Who does not read misses what is told again anyway.
                let _ = tell.try_send(news);
            }
        });
        Ok(heard)
    }
}

/// Of what is offered beside tools, only that behind which there is something: many servers say that they have resources
/// and prompts, and have none.
async fn with_something_behind(link: &Link, listed: &Listed) -> Result<Vec<Value>, LinkError> {
    let mut tools = listed.all.clone();
    let is = |tool: &Value, name: &str| tool.get("name").and_then(Value::as_str) == Some(name);
    let offers = |name: &str| listed.tools.contains_key(name);
    let some = async |what: UpstreamList| {
        let (method, member) = method_of(what);
        match pages(link, method, member, ITEMS_MAX).await {
            Ok((items, _)) => Ok(!items.is_empty()),
            Err(LinkError::Rpc(_) | LinkError::Unreadable { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    };
    let has_prompts = offers(beside::GET) && some(UpstreamList::Prompts).await?;
    let has_resources =
        offers(beside::READ) && (some(UpstreamList::Resources).await? || some(UpstreamList::Templates).await?);
    tools.retain(|tool| {
        (has_prompts || !is(tool, beside::GET))
            && (has_resources || !is(tool, beside::READ))
            && (has_prompts || has_resources || !is(tool, beside::COMPLETE))
    });
    Ok(tools)
}

const fn method_of(what: UpstreamList) -> (&'static str, &'static str) {
    match what {
        UpstreamList::Prompts => ("prompts/list", "prompts"),
        UpstreamList::Resources => ("resources/list", "resources"),
        UpstreamList::Templates => ("resources/templates/list", "resourceTemplates"),
    }
}

/// Whether the tool is still what was accepted, or differs only so that a call means the same.
fn admit(
    prepared: &Prepared,
    accepted: &Definition,
    runner: &Mcp,
    listed: &Listed,
    declined: Option<Digest>,
) -> Result<(), ToolError> {
    let server = prepared.spec.name.as_str();
    let refused = |why: String, remedy: String| {
        let message = format!("`{}` is not called: {why}; {remedy}", accepted.name);
        ToolError::because(ErrorCode::PolicyDenied, "blocked", message).with("upstream", server)
    };
    let Some((said, digest)) = listed.tools.get(&runner.tool) else {
        let why = format!("the server `{server}` does not offer it now");
        return Err(refused(why, "it goes on when the server offers it again".to_owned()));
    };
    if runner.digest == Some(*digest) {
        return Ok(());
    }
    // Whoever said no to exactly this said more than whoever says yes to its class.
    let takes = |class| prepared.spec.accepts.contains(class) && declined != Some(*digest);
    let accept = format!(
        "the operator looks at it with `toolgate upstream show {server}` and takes it with `toolgate upstream accept {server} --tool {}`",
        runner.tool.escape_debug()
    );
    match offered::definition(&prepared.spec, said) {
        Err(findings) => {
            let first = findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
            let why = format!("the server `{server}` describes it in a way that is not taken ({first})");
            Err(refused(why, "ask the server's owner".to_owned()))
        }
        Ok(now) => match offered::drift(accepted, &now.definition) {
            Some((class, _)) if !class.keeps_calls() && !takes(&class) => {
                let why = format!("the server `{server}` offers another tool by this name now ({class})");
                Err(refused(why, accept).with("class", class.as_str()))
            }
            Some(_) | None => Ok(()),
        },
    }
}

/// Whether each caller has a link of their own. A server that may ask is among them: what it asks late would be asked of
/// whoever calls it then.
fn is_apart(spec: &Spec) -> bool {
    let own = spec.oauth().is_some_and(|oauth| oauth.per == ConnectionOf::User);
    spec.apart || own || spec.asks != UpstreamAsks::default()
}

/// With what one caller is told from others.
fn of_one(principal: Principal, credentials: Option<String>) -> String {
    format!("{principal} {}", credentials.unwrap_or_default())
}

/// The operator's name for a server, and whose it is where it is not the caller's own.
fn key_name(owner: TenantId, tenant: TenantId, name: &Slug) -> String {
    if owner == tenant { name.to_string() } else { shared_name(name) }
}

/// No name of a server has a slash.
fn shared_name(name: &Slug) -> String {
    format!("shared/{name}")
}

fn runner_of(definition: &Definition) -> Result<&Mcp, ToolError> {
    match &definition.runner {
        Kind::Mcp(runner) => Ok(runner),
        other => {
            let message = format!("`{}` is of kind `{}`, not `mcp`", definition.name, other.kind());
            Err(ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message))
        }
    }
}

fn named(server: &str, error: ToolError) -> ToolError {
    let ToolError { code, message, details, retry_after_s } = error;
    ToolError { code, message: format!("`{server}`: {message}"), details, retry_after_s }.with("server", server)
}

fn moved(name: &Slug) -> ToolError {
    let message = format!(
        "the server `{name}` is elsewhere, or started otherwise, than when it was accepted; the operator looks at it and takes it with `toolgate upstream accept {name}`"
    );
    ToolError::because(ErrorCode::PolicyDenied, "blocked", message).with("upstream", name.as_str())
}

/// The way out for what is sent for a server itself: to open a link, to read what it offers.
struct OfTenant {
    outside: Outside,
    tenant: TenantId,
    spec: Spec,
}

impl Outlet for OfTenant {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, EgressError>> {
        Box::pin(async move {
            let way = self
                .outside
                .way(Purpose::Tool, self.tenant, self.spec.as_tool_name().as_ref())
                .map_err(|fault| EgressError::no_way(&fault))?;
            let answer = self.outside.connector.send(&way, request).await;
            let openings = match &answer {
                Ok(answer) => answer.openings.as_slice(),
                Err(error) => error.openings(),
            };
            if let Err(fault) = self.outside.note_use_of(self.tenant, "system", Purpose::Tool, openings).await {
                tracing::error!("an opening was used and not noted: {}", fault.logged().unwrap_or(fault.told()));
            }
            answer
        })
    }
}

impl Runner for Servers {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let permit = Arc::new(permit);
            let prepared = match self.prepared(permit.call(), &permit) {
                Ok(prepared) => prepared,
                Err(error) => return error.into(),
            };
            let is_shared = permit.call().tool.tool.tenant != permit.call().tenant;
            let outcome = self.call(permit, &prepared).await;
            match &prepared.holder {
                Some(holder) => connecting::told(&self.0.keeper, holder, is_shared, outcome),
                None => outcome,
            }
        })
    }

    fn plan<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let runner = runner_of(&call.tool.definition)?;
            self.server_of(call)?;
            Ok(json!({"would_run": true, "server": runner.server, "tool": runner.tool}))
        })
    }

    fn ready_for<'a>(&'a self, tenant: &'a Slug, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        let ready = || {
            let runner = runner_of(definition)?;
            let snapshot = self.0.registry.snapshot();
            let registry = snapshot.tenant_by_slug(tenant.as_str()).map_err(|fault| ToolError::of(&fault))?;
            let own = self.find(registry.tenant.id, runner);
            let (stored, owner) = own.or_else(|_| self.find(TenantId::SYSTEM, runner))?;
            let place = places::place(&self.0.entries, &owner, &stored.spec).map_err(|fault| ToolError::of(&fault))?;
            if place == stored.place { Ok(()) } else { Err(moved(&stored.spec.name)) }
        };
        Box::pin(std::future::ready(ready()))
    }

    fn needs(&self) -> BoxFuture<'_, Vec<Need>> {
        let wrong = |problem: String| Need { name: "upstream", found: problem, is_met: false };
        let mut needs: Vec<Need> = self.problems().into_iter().map(wrong).collect();
        let whole = self.0.entries.upstreams.len().saturating_sub(needs.len());
        if whole > 0 {
            needs.push(Need { name: "upstreams", found: format!("{whole} can be started"), is_met: true });
        }
        Box::pin(std::future::ready(needs))
    }

    fn upstream_place(&self, tenant: &Slug, upstream: &Spec) -> Result<Digest, Fault> {
        places::place(&self.0.entries, tenant, upstream)
    }

    fn connect_upstream(&self, asked: UpstreamAsked, connecting: Connecting) -> BoxFuture<'_, Result<String, Fault>> {
        Box::pin(self.connect(asked, connecting))
    }

    fn connected_upstream(
        &self,
        asked: UpstreamAsked,
        connecting: Connecting,
        back: String,
    ) -> BoxFuture<'_, Result<Connection, Fault>> {
        Box::pin(async move { self.connected(asked, connecting, &back).await })
    }

    fn upstream_connection<'a>(
        &'a self,
        tenant: TenantId,
        place: SecretPlace,
        name: &'a Slug,
    ) -> BoxFuture<'a, Result<Option<String>, Fault>> {
        Box::pin(self.0.keeper.connection(tenant, place, name))
    }

    fn list_upstream(&self, asked: UpstreamAsked) -> BoxFuture<'_, Result<Listing, Fault>> {
        Box::pin(self.list(asked))
    }

    fn upstream_capabilities(&self, asked: UpstreamAsked) -> BoxFuture<'_, Result<Map<String, Value>, Fault>> {
        Box::pin(async move { Ok(self.link_to_ask(asked).await?.found().capabilities.clone()) })
    }

    fn list_of_upstream(&self, asked: UpstreamAsked, what: UpstreamList) -> BoxFuture<'_, Result<Vec<Value>, Fault>> {
        Box::pin(async move {
            let (tenant, name) = (asked.tenant, asked.upstream.name.clone());
            let link = self.link_to_ask(asked).await?;
            let (method, member) = method_of(what);
            match pages(&link, method, member, ITEMS_MAX).await {
                Ok((items, _)) => Ok(items),
                Err(LinkError::Rpc(error)) if error.code == code::METHOD_NOT_FOUND => Ok(Vec::new()),
                Err(error) => Err(self.unreachable(tenant, &name, &error)),
            }
        })
    }

    fn hear_upstream(
        &self,
        asked: UpstreamAsked,
        resources: Vec<String>,
    ) -> BoxFuture<'_, Result<mpsc::Receiver<UpstreamNews>, Fault>> {
        Box::pin(self.hear(asked, resources))
    }

    fn upstream_health(&self, tenant: TenantId, name: &Slug) -> Option<UpstreamHealth> {
        let standings = self.0.links.standings(tenant);
        let of_it = standings.into_iter().filter(|standing| standing.key.upstream == name.as_str());
        // Of several links, by several credentials, the worst is worth knowing.
        let worst =
            of_it.max_by_key(|standing| (standing.health.failures_in_a_row, standing.health.last_success_at))?;
        let health = worst.health;
        Some(UpstreamHealth {
            open: worst.found.is_some(),
            failures_in_a_row: health.failures_in_a_row,
            resting: health.is_resting,
            last_success_at: health.last_success_at,
            last_error: health
                .last_error
                .map(|(kind, said)| format!("{kind}: {}", self.without_tokens(tenant, name, &said))),
            last_error_at: health.last_error_at,
            complaint: health.complaint,
            revision: worst.found.map(|found| found.named.clone()),
        })
    }

    fn forget_upstream<'a>(&'a self, tenant: TenantId, name: &'a Slug) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            // A server of the system is spoken to by all tenants.
            let shared = (tenant == TenantId::SYSTEM).then(|| shared_name(name));
            let is_it = |key: &Key| {
                key.tenant == tenant && key.upstream == name.as_str() || Some(&key.upstream) == shared.as_ref()
            };
            let is_spoken_to =
                |of: TenantId, called: &str| (of == tenant || shared.is_some()) && called == name.as_str();
            {
                let mut outlets = self.0.outlets.lock().unwrap_or_else(PoisonError::into_inner);
                outlets.retain(|(of, called), _| !is_spoken_to(*of, called));
            }
            self.0.listings.forget_all(is_it);
            self.0.links.forget(is_it).await;
        })
    }

    fn upstream_news(&self) -> Option<broadcast::Receiver<(TenantId, Slug)>> {
        Some(self.0.listings.news())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.0.listings.clear();
            self.0.links.close().await;
        })
    }
}
