//! Servers of others behind the gate: saved, tried, read, accepted and removed, all by the one right.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use toolgate_contracts::{
    Caller, Digest, Fault, Page, Permission, SecretInfo, SecretScope, Slug, Timestamp, Upstream, UpstreamHealth,
};
use toolgate_registry::commands::{Decision, Reading, ShownOffer, Suggestion};
use toolgate_store::cursor::ListOf;
use toolgate_store::upstreams::StoredUpstream;
use utoipa::ToSchema;

use super::paging::{NoQuery, PageQuery, page_of};
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;

#[derive(Serialize, ToSchema)]
pub struct UpstreamView {
    #[serde(flatten)]
    upstream: Upstream,
    saved_by: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// It is elsewhere, or started otherwise, than when it was accepted: nothing of it is used until that is accepted.
    moved: bool,
    /// Why it cannot be read.
    problem: Option<String>,
    /// Changes that it offers and nobody has accepted or refused.
    changes_offered: usize,
    /// Its tools that cannot be called, because it does not offer them or changed them too far.
    tools_blocked: usize,
    /// As far as this process knows.
    health: Option<UpstreamHealth>,
}

#[derive(Serialize, ToSchema)]
pub struct ShownUpstream {
    #[serde(flatten)]
    upstream: UpstreamView,
    /// What it offers that nobody has accepted, what was refused included.
    offers: Vec<ShownOffer>,
    /// Names all of what is shown here that can be accepted; accepting wants it. Absent where it is nowhere to be found.
    #[schema(value_type = Option<String>)]
    seen: Option<Digest>,
    /// What came of reading it the last time that something was different.
    reading: Option<Reading>,
    /// When that was.
    read_at: Option<Timestamp>,
    /// The organisation's connection with it, and the caller's own, where it wants tokens.
    connections: Vec<ShownConnection>,
}

#[derive(Serialize, ToSchema)]
pub struct ShownConnection {
    scope: SecretScope,
    connected_by: String,
    /// When it was made, or its tokens last renewed.
    updated_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
pub struct SavedUpstream {
    #[serde(flatten)]
    upstream: UpstreamView,
    /// What came of reading it, unless it waits to be accepted.
    reading: Option<Reading>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptUpstream {
    /// `seen` of what was looked at. What the server offers meanwhile is not accepted.
    #[schema(value_type = String)]
    seen: Digest,
    /// By the server's names; absent: everything that it offers, where it is and what it calls itself.
    #[serde(default)]
    tools: Option<Vec<String>>,
}

#[derive(Serialize, ToSchema)]
pub struct AcceptedUpstream {
    /// By the server's names.
    accepted: Vec<String>,
    /// Why it cannot be read now.
    problem: Option<String>,
    reading: Option<Reading>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefuseOffers {
    /// `seen` of what was looked at. What the server offers meanwhile is not refused.
    #[schema(value_type = String)]
    seen: Digest,
    /// By the server's names; absent: everything that waits for somebody.
    #[serde(default)]
    tools: Option<Vec<String>>,
    /// For whoever reads the log.
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct RefusedOffers {
    /// By the server's names.
    refused: Vec<String>,
}

#[derive(Serialize, ToSchema)]
pub struct ReviewedUpstream {
    suggestions: Vec<Suggestion>,
}

#[derive(Serialize, ToSchema)]
pub struct RemovedUpstream {
    #[schema(value_type = String)]
    name: Slug,
}

fn named(caller: &Caller, name: &str) -> Result<Slug, Fault> {
    caller.require(&Permission::UPSTREAMS_EDIT)?;
    name.parse().map_err(|_| Fault::not_found("upstream", name))
}

async fn view(app: &App, caller: &Caller, stored: &StoredUpstream) -> Result<(UpstreamView, Option<Reading>), Fault> {
    let StoredUpstream { tenant, spec, place, saved_by, created_at, updated_at } = stored;
    let now = app.engine.upstream_place(&caller.tenant_slug, spec);
    let reading = app.registry.last_reading(*tenant, &spec.name).await?.map(|(reading, _)| reading);
    let waiting = app.registry.upstream_waiting(*tenant, spec).await?;
    let view = UpstreamView {
        upstream: spec.clone(),
        saved_by: saved_by.clone(),
        created_at: *created_at,
        updated_at: *updated_at,
        moved: now.as_ref().is_ok_and(|now| now != place),
        problem: now.err().map(|fault| fault.told().to_owned()).or_else(|| reading.as_ref()?.problem.clone()),
        changes_offered: waiting.offered,
        tools_blocked: waiting.blocked,
        health: app.engine.upstream_health(*tenant, &spec.name),
    };
    Ok((view, reading))
}

/// The servers of others that the tenant has behind the gate.
#[utoipa::path(get, path = "/api/v1/upstreams", tag = "upstreams", params(PageQuery), responses((status = 200, body = Page<UpstreamView>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<UpstreamView>>, Problem> {
    let mut views = Vec::new();
    for stored in app.registry.upstreams(&caller)? {
        views.push(view(&app, &caller, &stored).await?.0);
    }
    let list = ListOf { tenant: caller.tenant, list: "upstreams", filter: "" };
    let key = |view: &UpstreamView| view.upstream.name.to_string();
    Ok(Json(page_of(views, key, &list, query.cursor.as_deref(), query.limit)?))
}

/// One server, how it stands with it, and what it offers that nobody has accepted.
#[utoipa::path(get, path = "/api/v1/upstreams/{upstream}", tag = "upstreams", params(("upstream" = String, Path)), responses((status = 200, body = ShownUpstream), (status = 404)))]
pub async fn show(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(NoQuery {}): Query<NoQuery>,
) -> Result<Json<ShownUpstream>, Problem> {
    let name = named(&caller, &name)?;
    let stored = app.registry.upstream(&caller, &name)?;
    let (view, reading) = view(&app, &caller, &stored).await?;
    let read_at = app.registry.last_reading(caller.tenant, &name).await?.map(|(_, at)| at);
    let (offers, seen) = match app.engine.upstream_place(&caller.tenant_slug, &stored.spec) {
        Ok(place) => {
            let shown = app.registry.upstream_offers(&caller, &name, place).await?;
            (shown.offers, Some(shown.seen))
        }
        Err(_) => (Vec::new(), None),
    };
    let shown = |one: SecretInfo| {
        let SecretInfo { scope, created_by, created_at, .. } = one;
        ShownConnection { scope, connected_by: created_by, updated_at: created_at }
    };
    let connections = app.engine.upstream_connections(&caller, &stored.spec).await?.into_iter().map(shown).collect();
    Ok(Json(ShownUpstream { upstream: view, offers, seen, reading, read_at, connections }))
}

/// Puts a server behind the gate, or changes how it is reached. A new one is read at once, and its tools registered; one
/// that is elsewhere than before waits until that is accepted.
#[utoipa::path(put, path = "/api/v1/upstreams/{upstream}", tag = "upstreams", params(("upstream" = String, Path)), request_body = Upstream, responses((status = 200, body = SavedUpstream), (status = 409)))]
pub async fn save(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(spec): Body<Upstream>,
) -> Result<Changed<SavedUpstream>, Problem> {
    caller.require(&Permission::UPSTREAMS_EDIT)?;
    if spec.name.as_str() != name {
        let told = format!("the body names the server `{}`, the path `{}`", spec.name, name.escape_debug());
        return Err(Fault::invalid(told, "make them the same").at("/name").into());
    }
    spec.check()?;
    let place = app.engine.upstream_place(&caller.tenant_slug, &spec)?;
    let (stored, mut revision) = app.registry.save_upstream(&caller, spec, place).await?;
    app.engine.forget_upstream(caller.tenant, &stored.spec.name).await;
    let reading =
        if stored.place == place { read(&app, &caller, &stored.spec.name, &mut revision).await } else { None };
    let (upstream, _) = view(&app, &caller, &stored).await?;
    Ok(Changed(SavedUpstream { upstream, reading }, revision))
}

/// What reading it now brings; why it cannot be read is kept, and shown with it.
async fn read(app: &App, caller: &Caller, name: &Slug, revision: &mut i64) -> Option<Reading> {
    let read = app.engine.read_upstream(&caller.principal.to_string(), caller.tenant, name, true).await.ok()?;
    *revision = read.revision.unwrap_or(*revision);
    Some(read.reading)
}

/// Removes a server. Its tools stay, because calls name them, and cannot be called.
#[utoipa::path(delete, path = "/api/v1/upstreams/{upstream}", tag = "upstreams", params(("upstream" = String, Path)), responses((status = 200, body = RemovedUpstream), (status = 404)))]
pub async fn remove(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Changed<RemovedUpstream>, Problem> {
    let name = named(&caller, &name)?;
    let revision = app.registry.remove_upstream(&caller, &name).await?;
    app.engine.forget_upstream(caller.tenant, &name).await;
    Ok(Changed(RemovedUpstream { name }, revision))
}

/// Asks a server what it offers, and says what would become of it; writes nothing.
#[utoipa::path(post, path = "/api/v1/upstreams/{upstream}/test", tag = "upstreams", params(("upstream" = String, Path)), responses((status = 200, body = Reading), (status = 404), (status = 503)))]
pub async fn test(State(app): State<App>, By(caller): By, Path(name): Path<String>) -> Result<Json<Reading>, Problem> {
    let name = named(&caller, &name)?;
    app.registry.upstream(&caller, &name)?;
    // A process that runs may be of a program that is another one by now.
    app.engine.forget_upstream(caller.tenant, &name).await;
    let read = app.engine.read_upstream(&caller.principal.to_string(), caller.tenant, &name, false).await?;
    Ok(Json(read.reading))
}

/// Asks a server what it offers, registers what is new, and keeps as an offer what differs from what was accepted.
#[utoipa::path(post, path = "/api/v1/upstreams/{upstream}/refresh", tag = "upstreams", params(("upstream" = String, Path)), responses((status = 200, body = Reading), (status = 404), (status = 503)))]
pub async fn refresh(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Json<Reading>, Problem> {
    let name = named(&caller, &name)?;
    app.registry.upstream(&caller, &name)?;
    // A process that runs may be of a program that is another one by now.
    app.engine.forget_upstream(caller.tenant, &name).await;
    let read = app.engine.read_upstream(&caller.principal.to_string(), caller.tenant, &name, true).await?;
    Ok(Json(read.reading))
}

/// Accepts what a server offers: the tools that are named, or everything, where it is now included.
#[utoipa::path(post, path = "/api/v1/upstreams/{upstream}/accept", tag = "upstreams", params(("upstream" = String, Path)), request_body = AcceptUpstream, responses((status = 200, body = AcceptedUpstream), (status = 404), (status = 409)))]
pub async fn accept(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(AcceptUpstream { seen, tools }): Body<AcceptUpstream>,
) -> Result<Changed<AcceptedUpstream>, Problem> {
    let name = named(&caller, &name)?;
    let stored = app.registry.upstream(&caller, &name)?;
    let place = app.engine.upstream_place(&caller.tenant_slug, &stored.spec)?;
    let (accepted, mut revision) =
        app.registry.accept_upstream(&caller, &name, Decision { tools: tools.as_deref(), place, seen }).await?;
    app.engine.forget_upstream(caller.tenant, &name).await;
    let reading = read(&app, &caller, &name, &mut revision).await;
    let problem = match &reading {
        Some(_) => None,
        None => app.registry.last_reading(caller.tenant, &name).await?.and_then(|(reading, _)| reading.problem),
    };
    Ok(Changed(AcceptedUpstream { accepted, problem, reading }, revision))
}

/// Refuses what a server offers. What was accepted goes on as it was; what is refused stays so until the server offers
/// something else, or somebody accepts it by its name.
#[utoipa::path(post, path = "/api/v1/upstreams/{upstream}/refuse", tag = "upstreams", params(("upstream" = String, Path)), request_body = RefuseOffers, responses((status = 200, body = RefusedOffers), (status = 404), (status = 409)))]
pub async fn refuse(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(RefuseOffers { seen, tools, reason }): Body<RefuseOffers>,
) -> Result<Changed<RefusedOffers>, Problem> {
    let name = named(&caller, &name)?;
    let stored = app.registry.upstream(&caller, &name)?;
    let place = app.engine.upstream_place(&caller.tenant_slug, &stored.spec)?;
    let decision = Decision { tools: tools.as_deref(), place, seen };
    let (refused, revision) = app.registry.refuse_offers(&caller, &name, decision, reason.as_deref()).await?;
    Ok(Changed(RefusedOffers { refused }, revision))
}

/// Tools whose own hints are milder than their class, for the operator to look at.
#[utoipa::path(get, path = "/api/v1/upstreams/{upstream}/review", tag = "upstreams", params(("upstream" = String, Path)), responses((status = 200, body = ReviewedUpstream), (status = 404)))]
pub async fn review(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(NoQuery {}): Query<NoQuery>,
) -> Result<Json<ReviewedUpstream>, Problem> {
    let name = named(&caller, &name)?;
    Ok(Json(ReviewedUpstream { suggestions: app.registry.review_upstream(&caller, &name)? }))
}
