//! Capability tokens: minted within what the caller has, narrowed by whoever holds one, revoked at once.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use toolgate_contracts::definition::Label;
use toolgate_contracts::{
    AgentId, Amount, Caller, Fault, Page, Principal, RunId, Scope, Timestamp, TokenId, json as strict,
};
use toolgate_engine::names::Names;
use toolgate_engine::tokens::{Minted, NewToken, claims_of};
use toolgate_policy::constraint::Constraint;
use toolgate_policy::labels::Labels;
use toolgate_policy::token::{Claims, MintRequest};
use toolgate_store::cursor::ListOf;
use toolgate_store::tokens::{TokenFilter, TokenRow};
use utoipa::{IntoParams, ToSchema};

use super::paging::page_limit;
use crate::app::App;
use crate::extract::{Body, By, Query};
use crate::problem::Problem;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// `tool:NAME`, `tool:NAME@REQUIREMENT` or `tool:*`. Of a child, what its parent does not cover falls away.
    #[schema(min_items = 1, max_items = 64)]
    scope: Vec<Scope>,
    /// What arguments must be; all of them hold. A child has these and its parent's.
    #[serde(default)]
    #[schema(max_items = 64)]
    constraints: Vec<Constraint>,
    /// What calls with it may cost together, those with its children included.
    budget: Option<Amount>,
    /// How many calls may be made with it, those with its children included.
    max_calls: Option<u32>,
    /// Data with other labels does not go into a call. Absent: any.
    labels_max: Option<Vec<Label>>,
    /// How long it lasts: 1 to 900 seconds, 300 without it. A child ends with its parent at the latest.
    #[schema(minimum = 1, maximum = 900)]
    expires_s: Option<u32>,
    /// Only calls of this run.
    run: Option<RunId>,
    /// The thumbprint (RFC 7638) of the key that whoever shows the token must prove to hold (RFC 9449).
    jkt: Option<String>,
    /// Whoever shows the token acts as this agent: one that you manage or are.
    agent: Option<String>,
    /// The token above: the one that the request is made with. Absent: that one, if it was one.
    parent: Option<TokenId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenState {
    Active,
    Expired,
    Revoked,
}

#[derive(Serialize, ToSchema)]
pub struct TokenInfo {
    id: TokenId,
    state: TokenState,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<TokenId>,
    /// Who is answerable.
    principal: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    principal_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    scope: Vec<Scope>,
    constraints: Vec<Constraint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_calls: Option<u32>,
    /// Counted are calls that change something, and all where a token of the chain has `max_calls`.
    calls_used: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels_max: Option<Vec<Label>>,
    /// Whether it is bound to a key, and nothing without a proof.
    bound: bool,
    depth: u32,
    created_at: Timestamp,
    expires_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_by_name: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct MintedToken {
    /// Shown now and never again.
    token: String,
    #[serde(flatten)]
    info: TokenInfo,
}

#[derive(Serialize, ToSchema)]
pub struct RevokedTokens {
    revoked: u64,
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct TokensQuery {
    /// Only those of this agent.
    agent: Option<String>,
    /// Only those that work now.
    active: Option<bool>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// 1 to 500; 50 without it.
    limit: Option<u32>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AgentQuery {
    /// Whose tokens are revoked.
    agent: String,
}

/// Mints a token; with a token, a narrower one of it. Its text is in the answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", request_body = TokenRequest, responses((status = 201, body = MintedToken)))]
pub async fn mint(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<TokenRequest>,
) -> Result<(StatusCode, Json<MintedToken>), Problem> {
    let TokenRequest { scope, constraints, budget, max_calls, labels_max, expires_s, run, jkt, agent, parent } =
        request;
    let wanted = MintRequest {
        scope,
        constraints: constraints.into_iter().collect(),
        budget,
        max_calls,
        labels_max: labels_max.map(Into::into),
        expires_s,
        run,
        jkt,
    };
    let new = NewToken { wanted, agent, parent };
    let Minted { row, claims, text } = app.engine.mint_token(&caller, new, &app.issuer()?).await?;
    let info = named_info(&app, &caller, row, claims).await?;
    Ok((StatusCode::CREATED, Json(MintedToken { token: text, info })))
}

/// One's own tokens, all with `keys.all`, or those of an agent that one manages; newest first. With a token: itself and
/// those made of it.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", params(TokensQuery), responses((status = 200, body = Page<TokenInfo>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<TokensQuery>,
) -> Result<Json<Page<TokenInfo>>, Problem> {
    let TokensQuery { agent, active, cursor, limit } = query;
    let mut filter = app.engine.token_filter(&caller, agent.as_deref()).await?;
    let limit = page_limit(limit)?;
    let described = format!("{filter:?} {active:?}");
    filter.working_at = active.unwrap_or_default().then(|| app.clock.now());
    let list = ListOf { tenant: caller.tenant, list: "tokens", filter: &described };
    let before = cursor.as_deref().map(|cursor| list.key(cursor)).transpose()?.and_then(|key| key.parse().ok());
    let mut rows = app.store.tokens(caller.tenant, &filter, before, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next_cursor = if more { rows.last().map(|last| list.cursor(&last.id.to_string())) } else { None };
    let names = names_of(&app, &caller, &rows).await?;
    let shown = |row: TokenRow| {
        let claims = claims_of(&row)?;
        info(&app, &caller, row, claims, &names)
    };
    Ok(Json(Page { items: rows.into_iter().map(shown).collect::<Result<_, Fault>>()?, next_cursor }))
}

/// A token, without its text.
#[utoipa::path(get, path = "/api/v1/tokens/{id}", tag = "tokens", params(("id" = String, Path)), responses((status = 200, body = TokenInfo), (status = 404)))]
pub async fn show(State(app): State<App>, By(caller): By, Path(id): Path<String>) -> Result<Json<TokenInfo>, Problem> {
    let row = app.engine.readable_token(&caller, &id).await?;
    let claims = claims_of(&row)?;
    Ok(Json(named_info(&app, &caller, row, claims).await?))
}

/// Revokes a token and those made of it, at once.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", tag = "tokens", params(("id" = String, Path)), responses((status = 200, body = TokenInfo), (status = 404)))]
pub async fn revoke(
    State(app): State<App>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Json<TokenInfo>, Problem> {
    let row = app.engine.revoke_token(&caller, &id).await?;
    app.forget_callers();
    let claims = claims_of(&row)?;
    Ok(Json(named_info(&app, &caller, row, claims).await?))
}

/// Revokes every token of an agent, at once.
#[utoipa::path(delete, path = "/api/v1/tokens", tag = "tokens", params(AgentQuery), responses((status = 200, body = RevokedTokens), (status = 404)))]
pub async fn revoke_of_agent(
    State(app): State<App>,
    By(caller): By,
    Query(AgentQuery { agent }): Query<AgentQuery>,
) -> Result<Json<RevokedTokens>, Problem> {
    let revoked = app.engine.revoke_tokens_of_agent(&caller, &agent).await?;
    app.forget_callers();
    Ok(Json(RevokedTokens { revoked }))
}

async fn names_of(app: &App, caller: &Caller, rows: &[TokenRow]) -> Result<Names, Fault> {
    let people: Vec<String> =
        rows.iter().flat_map(|row| [Some(row.principal.to_string()), row.revoked_by.clone()]).flatten().collect();
    app.engine.names(caller.tenant, people.iter().map(String::as_str)).await
}

async fn named_info(app: &App, caller: &Caller, row: TokenRow, claims: Claims) -> Result<TokenInfo, Fault> {
    let names = names_of(app, caller, std::slice::from_ref(&row)).await?;
    info(app, caller, row, claims, &names)
}

/// All tokens of a person, page by page: the newest before `before`.
pub(super) async fn of_person(
    app: &App,
    caller: &Caller,
    person: Principal,
    before: Option<TokenId>,
    limit: u32,
) -> Result<Vec<(TokenId, TokenInfo)>, Fault> {
    let filter = TokenFilter { principal: Some(person), ..TokenFilter::default() };
    let rows = app.store.tokens(caller.tenant, &filter, before, limit).await?;
    let names = names_of(app, caller, &rows).await?;
    let shown = |row: TokenRow| {
        let claims = claims_of(&row)?;
        Ok((row.id, info(app, caller, row, claims, &names)?))
    };
    rows.into_iter().map(shown).collect()
}

fn info(app: &App, caller: &Caller, row: TokenRow, claims: Claims, names: &Names) -> Result<TokenInfo, Fault> {
    let snapshot = app.registry.snapshot();
    let agent = row.agent.and_then(|id| snapshot.tenant(caller.tenant).ok()?.agents.get(&id));
    let state = if row.revoked_at.is_some() {
        TokenState::Revoked
    } else if row.expires_at <= app.clock.now() {
        TokenState::Expired
    } else {
        TokenState::Active
    };
    let constraints = serde_json::to_value(&claims.constraints).map_err(Fault::internal)?;
    Ok(TokenInfo {
        id: row.id,
        state,
        parent: row.parent,
        principal: row.principal.to_string(),
        principal_name: names.of_principal(row.principal),
        agent_id: row.agent,
        agent_name: agent.map(|agent| agent.spec.name.to_string()),
        run_id: claims.run,
        scope: claims.scope,
        constraints: strict::decode(constraints)?,
        budget: claims.budget,
        max_calls: row.calls_max,
        calls_used: row.calls_used,
        labels_max: claims.labels_max.map(Labels::to_vec),
        bound: claims.cnf.is_some(),
        depth: claims.depth,
        created_at: row.created_at,
        expires_at: row.expires_at,
        revoked_at: row.revoked_at,
        revoked_by_name: row.revoked_by.as_deref().and_then(|by| names.of(by)),
        revoked_by: row.revoked_by,
    })
}
