//! Skills: instructions with places for arguments, which clients offer their users as prompts.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_contracts::{Digest, Page, Skill, Timestamp};
use toolgate_registry::Finding;
use toolgate_registry::commands::{AddedSkill, SkillAction};
use toolgate_store::cursor::ListOf;
use toolgate_store::skills::{SkillVersion, StoredSkill};
use utoipa::{IntoParams, ToSchema};

use super::paging::{PageQuery, page_of};
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;

#[derive(Serialize, ToSchema)]
pub struct SkillView {
    #[serde(flatten)]
    skill: Skill,
    /// Of its file.
    digest: Digest,
    saved_by: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl SkillView {
    fn new(stored: &Arc<StoredSkill>) -> Self {
        let StoredSkill { tenant: _, spec, digest, saved_by, created_at, updated_at } = stored.as_ref().clone();
        Self { skill: spec, digest, saved_by, created_at, updated_at }
    }
}

#[derive(Serialize, ToSchema)]
pub struct ShownSkill {
    #[serde(flatten)]
    skill: SkillView,
    /// The file, as it holds or as it was under the digest that was asked for.
    source: String,
    /// What its text was, the one that was saved last first.
    versions: Vec<ShownVersion>,
}

#[derive(Serialize, ToSchema)]
pub struct ShownVersion {
    digest: Digest,
    saved_by: String,
    saved_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
pub struct SavedSkill {
    #[serde(flatten)]
    skill: SkillView,
    action: SkillAction,
    findings: Vec<Finding>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddSkill {
    /// A whole `SKILL.md`: front matter and text.
    source: String,
}

#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FillSkill {
    /// Texts by the names of the arguments.
    #[schema(value_type = Object)]
    arguments: Map<String, Value>,
}

#[derive(Serialize, ToSchema)]
pub struct SkillText {
    digest: Digest,
    text: String,
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct SkillQuery {
    /// An earlier text, by its digest.
    #[param(value_type = Option<String>)]
    digest: Option<Digest>,
}

/// The skills that the caller has, by name.
#[utoipa::path(get, path = "/api/v1/skills", tag = "skills", params(PageQuery), responses((status = 200, body = Page<SkillView>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<SkillView>>, Problem> {
    let skills = app.registry.skills(&caller)?.iter().map(SkillView::new).collect();
    let list = ListOf { tenant: caller.tenant, list: "skills", filter: "" };
    let key = |view: &SkillView| view.skill.name.to_string();
    Ok(Json(page_of(skills, key, &list, query.cursor.as_deref(), query.limit)?))
}

/// Creates the skill that a `SKILL.md` names, or replaces it. The same file again changes nothing.
#[utoipa::path(post, path = "/api/v1/skills", tag = "skills", request_body = AddSkill, responses((status = 200, body = SavedSkill), (status = 400), (status = 409)))]
pub async fn add(
    State(app): State<App>,
    By(caller): By,
    Body(AddSkill { source }): Body<AddSkill>,
) -> Result<Response, Problem> {
    let AddedSkill { skill, action, findings, revision } = app.registry.add_skill(&caller, &source).await?;
    let saved = SavedSkill { skill: SkillView::new(&skill), action, findings };
    Ok(match revision {
        Some(revision) => Changed(saved, revision).into_response(),
        None => Json(saved).into_response(),
    })
}

/// One skill with its text, and which texts it had before.
#[utoipa::path(get, path = "/api/v1/skills/{skill}", tag = "skills", params(("skill" = String, Path), SkillQuery), responses((status = 200, body = ShownSkill), (status = 404)))]
pub async fn show(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(query): Query<SkillQuery>,
) -> Result<Json<ShownSkill>, Problem> {
    let skill = app.registry.skill(&caller, &name)?;
    let source = app.registry.skill_source(caller.tenant, &skill, query.digest).await?;
    let versions = app.registry.skill_versions(caller.tenant, &skill).await?;
    let version =
        |SkillVersion { digest, saved_by, created_at }| ShownVersion { digest, saved_by, saved_at: created_at };
    let versions = versions.into_iter().map(version).collect();
    Ok(Json(ShownSkill { skill: SkillView::new(&skill), source, versions }))
}

/// The text of a skill with its places filled in, as `prompts/get` gives it.
#[utoipa::path(post, path = "/api/v1/skills/{skill}/fill", tag = "skills", params(("skill" = String, Path)), request_body = FillSkill, responses((status = 200, body = SkillText), (status = 400), (status = 404)))]
pub async fn fill(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(FillSkill { arguments }): Body<FillSkill>,
) -> Result<Json<SkillText>, Problem> {
    let filled = app.registry.fill_skill(&caller, &name, &arguments).await?;
    Ok(Json(SkillText { digest: filled.skill.digest, text: filled.text }))
}

/// Removes a skill that no agent and no tool names, with all its texts.
#[utoipa::path(delete, path = "/api/v1/skills/{skill}", tag = "skills", params(("skill" = String, Path)), responses((status = 200, body = Object), (status = 404), (status = 409)))]
pub async fn delete(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Changed<Value>, Problem> {
    let revision = app.registry.remove_skill(&caller, &name).await?;
    Ok(Changed(json!({"deleted": name}), revision))
}
