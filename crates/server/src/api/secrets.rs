//! Secrets: set by scope and name, listed without values, given to tools and hosts. A value goes in and never comes out.

use axum::Json;
use axum::extract::{FromRequest, Path, Request, State};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use toolgate_contracts::secret::is_secret_name;
use toolgate_contracts::{
    Caller, Digest, Fault, FaultKind, HostPattern, Page, Permission, SecretAllowed, SecretInfo, SecretPlace,
    SecretScope, Slug, ToolName, ToolRef, WorkspaceId,
};
use toolgate_engine::secrets::{Which, is_code};
use toolgate_store::Change;
use toolgate_store::cursor::ListOf;
use toolgate_store::people::Workspace;
use toolgate_vault::{NewValue, Secret};
use utoipa::{IntoParams, ToSchema};

use super::paging::{PageQuery, page_of};
use crate::app::App;
use crate::extract::{Body, By, Query};
use crate::problem::Problem;

/// Text that is taken and never told: no error about it holds a word of it.
#[derive(Default, ToSchema)]
#[schema(value_type = String)]
pub struct Unshown(String);

impl<'de> Deserialize<'de> for Unshown {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Ok(Self(text)),
            _ => Err(serde::de::Error::custom("a value that is not a text")),
        }
    }
}

/// A body that may hold a value: what is wrong with it is told without quoting it.
pub struct Quiet<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Quiet<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match Body::<T>::from_request(request, state).await {
            Ok(Body(body)) => Ok(Self(body)),
            Err(Problem(fault)) if fault.kind() == FaultKind::Invalid => Err(Fault::invalid(
                "the body is not understood; it is not repeated here because it may hold a secret",
                "send JSON as `{\"value\": \"…\"}`, with `workspace`, `tools` and `hosts` if need be",
            )
            .into()),
            Err(problem) => Err(problem),
        }
    }
}

/// A secret without its value.
#[derive(Serialize, ToSchema)]
pub struct SecretView {
    #[serde(flatten)]
    secret: SecretInfo,
    /// The short name of the workspace that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    workspace: Option<Slug>,
    /// Only in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by_name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSecret {
    value: Unshown,
    /// With the scope `workspace`, where there is more than one.
    workspace: Option<String>,
    /// Tools that may have it; absent with `hosts` and `providers`: as it was given before.
    tools: Option<Vec<String>>,
    /// Hosts to which a request may carry it.
    hosts: Option<Vec<HostPattern>>,
    /// Model providers whose key it is.
    providers: Option<Vec<String>>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InWorkspace {
    /// With the scope `workspace`, where there is more than one.
    workspace: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowSecret {
    workspace: Option<String>,
    /// Tools that may have it from now on.
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    hosts: Vec<HostPattern>,
    /// Model providers whose key it is from now on.
    #[serde(default)]
    providers: Vec<String>,
    /// Tools whose code may see it, as that code is now: `name`, or `name@version`.
    #[serde(default)]
    code: Vec<String>,
    /// Nobody else from now on, instead of these besides those before.
    #[serde(default)]
    only: bool,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WhichQuery {
    /// The secret's name.
    name: String,
    /// For this agent, by name or id.
    agent: Option<String>,
}

#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RotateSecrets {
    /// Encrypt every value anew, and end the keys that are then unused.
    deep: bool,
}

/// What a rotation did.
#[derive(Serialize, ToSchema)]
pub struct Rotated {
    /// The data key that encrypts from now on.
    kid: String,
    /// Values that were encrypted anew.
    resealed: usize,
    /// Older data keys that nothing lies under any more.
    ended: usize,
}

/// The secrets that the caller may set: their own, and with the permission the workspaces' and the organisation's.
#[utoipa::path(get, path = "/api/v1/secrets", tag = "secrets", params(PageQuery), responses((status = 200, body = Page<SecretView>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<SecretView>>, Problem> {
    let scopes: Vec<SecretScope> = SecretScope::ALL.iter().copied().filter(|scope| may_set(&caller, *scope)).collect();
    if scopes.is_empty() {
        caller.require(&Permission::SECRETS_USER)?;
    }
    let own = SecretPlace::of(caller.principal);
    let workspaces = app.store.workspaces(caller.tenant).await?;
    let secrets = app.store.secrets(caller.tenant).await?.into_iter();
    // What the server keeps for itself has names that no secret has.
    let seen = secrets.filter(|secret| is_secret_name(&secret.name)).filter(|secret| {
        scopes.contains(&secret.scope) && (secret.scope != SecretScope::User || secret.scope_id == own.id)
    });
    let items: Vec<SecretView> = seen.map(|secret| view(secret, &workspaces, Vec::new())).collect();
    let filter = format!("{} {scopes:?}", caller.principal);
    let list = ListOf { tenant: caller.tenant, list: "secrets", filter: &filter };
    let key = |view: &SecretView| {
        let order = SecretScope::ALL.iter().position(|scope| *scope == view.secret.scope);
        format!("{} {order:?} {}", view.secret.name, view.secret.scope_id)
    };
    let mut page = page_of(items, key, &list, query.cursor.as_deref(), query.limit)?;
    let names = app.engine.names(caller.tenant, page.items.iter().map(|view| view.secret.created_by.as_str())).await?;
    for view in &mut page.items {
        view.created_by_name = names.of(&view.secret.created_by);
    }
    Ok(Json(page))
}

/// Sets a secret. The value before it is gone, and what was approved with that one does not run with this one.
#[utoipa::path(put, path = "/api/v1/secrets/{scope}/{name}", tag = "secrets", params(("scope" = SecretScope, Path), ("name" = String, Path)), request_body = SetSecret, responses((status = 200, body = SecretView)))]
pub async fn set(
    State(app): State<App>,
    By(caller): By,
    Path((scope, name)): Path<(String, String)>,
    Quiet(request): Quiet<SetSecret>,
) -> Result<Json<SecretView>, Problem> {
    let SetSecret { value: Unshown(value), workspace, tools, hosts, providers } = request;
    let (place, workspaces) = place(&app, &caller, &scope, workspace.as_deref()).await?;
    let secret = Secret::new(name.as_str(), value.into_bytes());
    let allowed = match (tools, hosts, providers) {
        (None, None, None) => None,
        (tools, hosts, providers) => {
            let mut allowed = SecretAllowed { hosts: hosts.unwrap_or_default(), ..SecretAllowed::default() };
            for (index, tool) in tools.unwrap_or_default().iter().enumerate() {
                add_tool(&app, &caller, &mut allowed, tool).map_err(|fault| fault.at(format!("/tools/{index}")))?;
            }
            for (index, provider) in providers.unwrap_or_default().iter().enumerate() {
                add_provider(&app, &caller, &mut allowed, provider)
                    .map_err(|fault| fault.at(format!("/providers/{index}")))?;
            }
            Some(allowed)
        }
    };
    let by = caller.principal.to_string();
    let new = NewValue { place, secret: &secret, allowed: allowed.clone(), by: &by };
    let begin = |found: &toolgate_contracts::ResolvedSecret| {
        let details = json!({
            "scope": found.scope, "scope_id": found.scope_id, "version": found.version, "allowed": allowed,
        });
        let mut change = Change::new(caller.tenant);
        change.audit(&app.entry(&caller, caller.tenant, "secret.set", &name, details));
        change
    };
    let stored = app.engine.vault().put(caller.tenant, new, begin).await?;
    Ok(Json(view(stored.info, &workspaces, stored.warnings)))
}

/// Takes a secret away. Calls that need it fail from now on.
#[utoipa::path(delete, path = "/api/v1/secrets/{scope}/{name}", tag = "secrets", params(("scope" = SecretScope, Path), ("name" = String, Path), InWorkspace), responses((status = 200, body = SecretView), (status = 404)))]
pub async fn delete(
    State(app): State<App>,
    By(caller): By,
    Path((scope, name)): Path<(String, String)>,
    Query(query): Query<InWorkspace>,
) -> Result<Json<SecretView>, Problem> {
    let (place, workspaces) = place(&app, &caller, &scope, query.workspace.as_deref()).await?;
    let before = info(&app, &caller, place, &name).await?;
    let mut change = Change::new(caller.tenant);
    let details = json!({"scope": before.scope, "scope_id": before.scope_id, "version": before.version});
    change.audit(&app.entry(&caller, caller.tenant, "secret.deleted", &name, details));
    change.delete_secret(place, &name);
    app.store.commit(change).await.map_err(Fault::from)?;
    Ok(Json(view(before, &workspaces, Vec::new())))
}

/// Gives a secret to tools, model providers and hosts; the value stays as it is.
#[utoipa::path(post, path = "/api/v1/secrets/{scope}/{name}/allow", tag = "secrets", params(("scope" = SecretScope, Path), ("name" = String, Path)), request_body = AllowSecret, responses((status = 200, body = SecretView), (status = 404)))]
pub async fn allow(
    State(app): State<App>,
    By(caller): By,
    Path((scope, name)): Path<(String, String)>,
    Body(request): Body<AllowSecret>,
) -> Result<Json<SecretView>, Problem> {
    let AllowSecret { workspace, tools, hosts, providers, code, only } = request;
    let (place, workspaces) = place(&app, &caller, &scope, workspace.as_deref()).await?;
    let vault = app.engine.vault();
    let before = vault.find(caller.tenant, place, &name).await?.ok_or_else(|| Fault::not_found("secret", &name))?;
    let mut allowed = if only { SecretAllowed::default() } else { before.allowed.clone() };
    for (index, tool) in tools.iter().enumerate() {
        add_tool(&app, &caller, &mut allowed, tool).map_err(|fault| fault.at(format!("/tools/{index}")))?;
    }
    for (index, tool) in code.iter().enumerate() {
        add_code(&app, &caller, &mut allowed, tool).map_err(|fault| fault.at(format!("/code/{index}")))?;
    }
    for (index, provider) in providers.iter().enumerate() {
        add_provider(&app, &caller, &mut allowed, provider).map_err(|fault| fault.at(format!("/providers/{index}")))?;
    }
    for host in hosts {
        if !allowed.hosts.contains(&host) {
            allowed.hosts.push(host);
        }
    }
    let details = json!({
        "scope": place.scope, "scope_id": place.id, "version": before.found.version, "allowed": &allowed,
    });
    let mut change = Change::new(caller.tenant);
    change.audit(&app.entry(&caller, caller.tenant, "secret.allowed", &name, details));
    vault.allow(caller.tenant, &before, &allowed, change).await?;
    let warnings = without_code(&app, &caller, &allowed)?;
    Ok(Json(view(info(&app, &caller, place, &name).await?, &workspaces, warnings)))
}

/// Which scope's secret a call of the caller, or of one of their agents, would be given; for people who may set one.
#[utoipa::path(get, path = "/api/v1/secrets/which", tag = "secrets", params(WhichQuery), responses((status = 200, body = Which)))]
pub async fn which(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<WhichQuery>,
) -> Result<Json<Which>, Problem> {
    let scopes = [SecretScope::User, SecretScope::Workspace, SecretScope::Org];
    if !scopes.into_iter().any(|scope| may_set(&caller, scope)) {
        require(&caller, SecretScope::User)?;
    }
    Ok(Json(app.engine.which_secret(&caller, &query.name, query.agent.as_deref()).await?))
}

/// Makes a new data key for the tenant; `deep` also encrypts every value anew. Cut off, it goes on when asked again.
#[utoipa::path(post, path = "/api/v1/secrets/rotate", tag = "secrets", request_body = RotateSecrets, responses((status = 200, body = Rotated)))]
pub async fn rotate(
    State(app): State<App>,
    By(caller): By,
    Body(RotateSecrets { deep }): Body<RotateSecrets>,
) -> Result<Json<Rotated>, Problem> {
    require(&caller, SecretScope::Org)?;
    let mut change = Change::new(caller.tenant);
    change.audit(&app.entry(&caller, caller.tenant, "secret.rotated", "data_key", json!({"deep": deep})));
    app.store.commit(change).await.map_err(Fault::from)?;
    let vault = app.engine.vault();
    let done = if deep { vault.rotate_deep(caller.tenant).await? } else { vault.rotate(caller.tenant).await? };
    let toolgate_vault::Rotation { kid, resealed, ended } = done;
    Ok(Json(Rotated { kid, resealed, ended }))
}

fn permission(scope: SecretScope) -> Permission {
    match scope {
        SecretScope::User => Permission::SECRETS_USER,
        SecretScope::Workspace => Permission::SECRETS_WORKSPACE,
        SecretScope::Org => Permission::SECRETS_ORG,
    }
}

/// An agent uses secrets; it sets none, whatever its key says.
fn may_set(caller: &Caller, scope: SecretScope) -> bool {
    caller.agent.is_none() && caller.may(&permission(scope))
}

fn require(caller: &Caller, scope: SecretScope) -> Result<(), Fault> {
    if caller.agent.is_some() {
        let told = "a key made for an agent neither sets secrets nor asks for them";
        return Err(Fault::new(FaultKind::Forbidden, told, "use a person's own key, or sign in"));
    }
    caller.require(&permission(scope))
}

async fn place(
    app: &App,
    caller: &Caller,
    scope: &str,
    workspace: Option<&str>,
) -> Result<(SecretPlace, Vec<Workspace>), Fault> {
    let scope: SecretScope = scope.parse().map_err(|why| Fault::invalid(why, "name one of them").at("/scope"))?;
    require(caller, scope)?;
    let workspaces = app.store.workspaces(caller.tenant).await?;
    if workspace.is_some() && scope != SecretScope::Workspace {
        let told = format!("`workspace` with the scope `{scope}`");
        return Err(Fault::invalid(told, "leave it out, or set the secret in the scope `workspace`").at("/workspace"));
    }
    let place = match scope {
        SecretScope::User => SecretPlace::of(caller.principal),
        SecretScope::Org => SecretPlace::org(caller.tenant),
        SecretScope::Workspace => SecretPlace::workspace(named(&workspaces, workspace)?),
    };
    Ok((place, workspaces))
}

fn named(workspaces: &[Workspace], name: Option<&str>) -> Result<WorkspaceId, Fault> {
    match (name, workspaces) {
        (None, [only]) => Ok(only.id),
        (None, _) => Err(Fault::invalid("there is more than one workspace", "say which").at("/workspace")),
        (Some(name), _) => {
            let found = workspaces.iter().find(|one| one.slug.as_str() == name || one.id.to_string() == name);
            found.map(|one| one.id).ok_or_else(|| Fault::not_found("workspace", name).at("/workspace"))
        }
    }
}

async fn info(app: &App, caller: &Caller, place: SecretPlace, name: &str) -> Result<SecretInfo, Fault> {
    let secrets = app.store.secrets(caller.tenant).await?;
    let found =
        secrets.into_iter().find(|one| one.name == name && one.scope == place.scope && one.scope_id == place.id);
    found.ok_or_else(|| Fault::not_found("secret", name))
}

fn view(secret: SecretInfo, workspaces: &[Workspace], warnings: Vec<String>) -> SecretView {
    let of = |one: &&Workspace| SecretPlace::workspace(one.id).id == secret.scope_id;
    let workspace = workspaces.iter().find(of).filter(|_| secret.scope == SecretScope::Workspace);
    SecretView { workspace: workspace.map(|one| one.slug.clone()), secret, created_by_name: None, warnings }
}

fn resolved(app: &App, caller: &Caller, name: &str) -> Result<toolgate_registry::snapshot::ResolvedTool, Fault> {
    let unknown = || Fault::not_found("tool", name);
    let reference: ToolRef = name.parse().map_err(|_| unknown())?;
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let today = app.registry.now().day();
    let (tool, _) = registry.find(&reference.name, &today).ok_or_else(unknown)?;
    if !super::control::may_know(registry, caller, &today, tool) {
        return Err(unknown());
    }
    registry.resolve(&reference, &today).ok_or_else(unknown)
}

/// By its canonical name, whatever name the caller knows it by.
fn add_tool(app: &App, caller: &Caller, allowed: &mut SecretAllowed, name: &str) -> Result<(), Fault> {
    let tool = resolved(app, caller, name)?;
    if !allowed.tools.contains(&tool.tool.name) {
        allowed.tools.push(tool.tool.name.clone());
    }
    Ok(())
}

/// One that the caller's tenant has or is offered.
fn add_provider(app: &App, caller: &Caller, allowed: &mut SecretAllowed, name: &str) -> Result<(), Fault> {
    let provider = app.registry.provider(caller, name)?;
    if !allowed.providers.contains(&provider.spec.name) {
        allowed.providers.push(provider.spec.name.clone());
    }
    Ok(())
}

fn add_code(app: &App, caller: &Caller, allowed: &mut SecretAllowed, name: &str) -> Result<(), Fault> {
    if let Some((server, place)) = upstream_of(app, caller, name)? {
        // Not among the tools: what is given to a server is given to no tool that happens to have its name.
        allowed.code.insert(server, place);
        return Ok(());
    }
    let tool = resolved(app, caller, name)?;
    if !is_code(&tool.definition) {
        let told =
            format!("`{}` runs no code of its own: it is of kind `{}`", tool.name, tool.definition.runner.kind());
        return Err(Fault::invalid(told, "list it among `tools`"));
    }
    allowed.code.insert(tool.tool.name.clone(), tool.behaviour_digest);
    if !allowed.tools.contains(&tool.tool.name) {
        allowed.tools.push(tool.tool.name.clone());
    }
    Ok(())
}

/// A server of others, as it was accepted: what is given to it is given to all of its tools.
fn upstream_of(app: &App, caller: &Caller, name: &str) -> Result<Option<(ToolName, Digest)>, Fault> {
    let snapshot = app.registry.snapshot();
    let upstreams = &snapshot.tenant(caller.tenant)?.upstreams;
    let found = name.parse::<Slug>().ok().and_then(|name| upstreams.get(&name));
    Ok(found.and_then(|stored| Some((stored.spec.as_tool_name()?, stored.place))))
}

/// Tools that are listed and yet get nothing, because they run code that nobody looked at.
fn without_code(app: &App, caller: &Caller, allowed: &SecretAllowed) -> Result<Vec<String>, Fault> {
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let today = app.registry.now().day();
    let wanting = allowed.tools.iter().filter(|name| {
        let tool = registry.resolve(&ToolRef { name: (*name).clone(), version: None }, &today);
        tool.is_some_and(|tool| is_code(&tool.definition) && allowed.code.get(*name) != Some(&tool.behaviour_digest))
    });
    Ok(wanting
        .map(|name| format!("`{name}` runs code of its own; look at it, then give the secret with `--code {name}`"))
        .collect())
}
