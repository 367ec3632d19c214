//! A tenant's policies: checked, saved in revisions, activated, and tried on the calls that were made.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use toolgate_contracts::{Fault, Page, Timestamp};
use toolgate_engine::what_if::{Range, WhatIf};
use toolgate_policy::cedar::{Gravity, Policies, PolicyFinding, Summary};
use toolgate_registry::commands::{DEFAULT_REVISION, JudgedPolicies};
use toolgate_store::cursor::ListOf;
use toolgate_store::policies::PolicyRevision;
use utoipa::ToSchema;

use super::paging::{PageQuery, page_limit};
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;

#[derive(Serialize, ToSchema)]
pub struct PolicyRevisionView {
    #[serde(flatten)]
    revision: PolicyRevision,
    saved_by_name: Option<String>,
    activated_by_name: Option<String>,
    /// It decides.
    active: bool,
}

/// Saved revisions, newest first. Revision 0, the default set, is not among them.
#[utoipa::path(get, path = "/api/v1/policies", tag = "policies", params(PageQuery), responses((status = 200, body = Page<PolicyRevisionView>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<PolicyRevisionView>>, Problem> {
    let active = app.registry.may_read_policies(&caller)?;
    let limit = page_limit(query.limit)?;
    let list = ListOf { tenant: caller.tenant, list: "policies", filter: "" };
    let before = query.cursor.as_deref().map(|cursor| list.key(cursor)).transpose()?;
    let before = before.and_then(|key| key.parse::<i64>().ok());
    let mut saved = app.store.policy_revisions(caller.tenant, before, limit + 1).await?;
    let more = saved.len() > limit as usize;
    saved.truncate(limit as usize);
    let last = saved.last().map(|last| last.revision);
    let next_cursor = last.filter(|_| more).map(|last| list.cursor(&last.to_string()));
    let saved_by = saved.iter().map(|one| one.saved_by.as_str());
    let people: Vec<&str> = saved_by.chain(saved.iter().filter_map(|one| one.activated_by.as_deref())).collect();
    let names = app.engine.names(caller.tenant, people).await?;
    let view = |revision: PolicyRevision| PolicyRevisionView {
        saved_by_name: names.of(&revision.saved_by),
        activated_by_name: revision.activated_by.as_deref().and_then(|by| names.of(by)),
        active: revision.revision == active,
        revision,
    };
    let items = saved.into_iter().map(view).collect();
    Ok(Json(Page { items, next_cursor }))
}

#[derive(Serialize, ToSchema)]
pub struct PolicyText {
    /// 0 is the default set.
    revision: i64,
    active: bool,
    /// Absent for the default set, which nobody saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: Option<PolicyRevision>,
    policies: Vec<Summary>,
    source: String,
}

/// The text of a revision: by its number, `active` or `default`.
#[utoipa::path(get, path = "/api/v1/policies/{revision}", tag = "policies", params(("revision" = String, Path)), responses((status = 200, body = PolicyText), (status = 404)))]
pub async fn show(
    State(app): State<App>,
    By(caller): By,
    Path(which): Path<String>,
) -> Result<Json<PolicyText>, Problem> {
    let active = app.registry.may_read_policies(&caller)?;
    let (revision, saved, source) = app.registry.policy_text(&caller, &which).await?;
    // One that cannot be read is shown all the same: whoever mends it must see it.
    let policies = Policies::load(&source).map(|policies| policies.summaries()).unwrap_or_default();
    Ok(Json(PolicyText { revision, active: revision == active, saved, policies, source }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyCheck {
    /// Cedar.
    source: String,
}

#[derive(Serialize, ToSchema)]
pub struct CheckedPolicies {
    /// No finding is an error.
    ok: bool,
    findings: Vec<PolicyFinding>,
    /// Saving it needs the permission `policies.log_only`.
    uses_log_only: bool,
    policies: Vec<Summary>,
}

impl From<JudgedPolicies> for CheckedPolicies {
    fn from(judged: JudgedPolicies) -> Self {
        let JudgedPolicies { findings, compiled } = judged;
        Self {
            ok: findings.iter().all(|finding| finding.gravity != Gravity::Error),
            findings,
            uses_log_only: compiled.as_ref().is_some_and(|compiled| compiled.uses_log_only),
            policies: compiled.map(|compiled| compiled.policies.summaries()).unwrap_or_default(),
        }
    }
}

/// Checks policies against the tools, agents and roles there are, and saves nothing.
#[utoipa::path(post, path = "/api/v1/policies/check", tag = "policies", request_body = PolicyCheck, responses((status = 200, body = CheckedPolicies)))]
pub async fn check(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<PolicyCheck>,
) -> Result<Json<CheckedPolicies>, Problem> {
    // Judging a large text takes a while, and other requests do not wait for it.
    let _turn = app.judging.acquire().await.map_err(Fault::internal)?;
    let people = app.registry.approvers(&caller).await?;
    let judge = {
        let app = app.clone();
        move || app.registry.check_policies(&caller, &request.source, people.as_ref())
    };
    Ok(Json(tokio::task::spawn_blocking(judge).await.map_err(Fault::internal)??.into()))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyDraft {
    source: String,
    /// What was changed and why, for the list.
    #[serde(default)]
    note: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct SavedPolicies {
    /// With an error among the findings nothing is saved.
    saved: Option<PolicyRevision>,
    findings: Vec<PolicyFinding>,
}

/// Saves policies as a new revision, which decides nothing yet.
#[utoipa::path(post, path = "/api/v1/policies", tag = "policies", request_body = PolicyDraft, responses((status = 200, body = SavedPolicies)))]
pub async fn save(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<PolicyDraft>,
) -> Result<Json<SavedPolicies>, Problem> {
    let _turn = app.judging.acquire().await.map_err(Fault::internal)?;
    let (judged, saved) = app.registry.save_policies(&caller, &request.source, request.note.as_deref()).await?;
    Ok(Json(SavedPolicies { saved, findings: judged.findings }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyActivation {
    /// The revision that you think decides; another one is a conflict.
    #[serde(default)]
    expected_active: Option<i64>,
}

#[derive(Serialize, ToSchema)]
pub struct ActivatedPolicies {
    active: i64,
    findings: Vec<PolicyFinding>,
}

/// Lets a revision decide from now on, everywhere; 0 or `default` is the default set.
#[utoipa::path(post, path = "/api/v1/policies/{revision}/activate", tag = "policies", params(("revision" = String, Path)), request_body = PolicyActivation, responses((status = 200, body = ActivatedPolicies), (status = 404), (status = 409)))]
pub async fn activate(
    State(app): State<App>,
    By(caller): By,
    Path(which): Path<String>,
    Body(request): Body<PolicyActivation>,
) -> Result<Changed<ActivatedPolicies>, Problem> {
    let number = match which.as_str() {
        "default" => DEFAULT_REVISION,
        number => number.parse().map_err(|_| Fault::not_found("policy revision", number))?,
    };
    let (findings, revision) = app.registry.activate_policies(&caller, number, request.expected_active).await?;
    Ok(Changed(ActivatedPolicies { active: number, findings }, revision))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyTest {
    /// Cedar; or name a `revision`.
    #[serde(default)]
    source: Option<String>,
    /// A number, `active` or `default`.
    #[serde(default)]
    revision: Option<String>,
    since: Timestamp,
    #[serde(default)]
    until: Option<Timestamp>,
    /// Only calls of this tool.
    #[serde(default)]
    tool: Option<String>,
    /// Only calls of this agent, by name or id.
    #[serde(default)]
    agent: Option<String>,
}

/// Decides the recorded calls of a time again under these policies, and says what would be different.
#[utoipa::path(post, path = "/api/v1/policies/test", tag = "policies", request_body = PolicyTest, responses((status = 200, body = WhatIf)))]
pub async fn test(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<PolicyTest>,
) -> Result<Response, Problem> {
    let PolicyTest { source, revision, since, until, tool, agent } = request;
    let source = match (source, revision) {
        (Some(source), None) => source,
        (None, Some(which)) => app.registry.policy_text(&caller, &which).await?.2,
        _ => {
            let remedy = "send the policies as `source`, or name a `revision`";
            return Err(Fault::invalid("neither or both of `source` and `revision`", remedy).at("/source").into());
        }
    };
    // One at a time: each reads many calls.
    let _turn = app.judging.acquire().await.map_err(Fault::internal)?;
    let told = app.engine.what_if(&caller, &source, &Range { since, until, tool, agent }).await?;
    Ok(Json(told).into_response())
}
