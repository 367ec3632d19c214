//! Guardrails: what a tenant has arguments and results examined for.

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::guardrail::{Finding, Guardrail};
use toolgate_contracts::{Fault, Page};
use toolgate_registry::commands::KeptGuardrail;
use toolgate_store::cursor::ListOf;
use utoipa::ToSchema;

use super::paging::{PageQuery, page_of};
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;

#[derive(Serialize, ToSchema)]
pub struct GuardrailView {
    name: String,
    /// Its place among those that look, from 1 on.
    place: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    guardrail: Option<Guardrail>,
    /// Why it cannot be read; it stops every call until it is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
}

impl GuardrailView {
    fn new((index, kept): (usize, KeptGuardrail)) -> Self {
        let KeptGuardrail { name, guardrail } = kept;
        let (guardrail, broken) = match guardrail {
            Ok(guardrail) => (Some(guardrail), None),
            Err(why) => (None, Some(why)),
        };
        Self { name, place: index + 1, guardrail, broken }
    }
}

/// The tenant's guardrails, in the order in which they look.
#[utoipa::path(get, path = "/api/v1/guardrails", tag = "guardrails", params(PageQuery), responses((status = 200, body = Page<GuardrailView>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<GuardrailView>>, Problem> {
    let guardrails = app.registry.guardrails(&caller)?.into_iter().enumerate().map(GuardrailView::new).collect();
    let list = ListOf { tenant: caller.tenant, list: "guardrails", filter: "" };
    let by_place = |view: &GuardrailView| format!("{:06}", view.place);
    Ok(Json(page_of(guardrails, by_place, &list, query.cursor.as_deref(), query.limit)?))
}

/// One guardrail.
#[utoipa::path(get, path = "/api/v1/guardrails/{guardrail}", tag = "guardrails", params(("guardrail" = String, Path)), responses((status = 200, body = GuardrailView), (status = 404)))]
pub async fn show(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Json<GuardrailView>, Problem> {
    let mut guardrails = app.registry.guardrails(&caller)?.into_iter().enumerate().map(GuardrailView::new);
    let found = guardrails.find(|view| view.name == name);
    Ok(Json(found.ok_or_else(|| Fault::not_found("guardrail", &name))?))
}

/// Creates the guardrail of that name, or replaces it.
#[utoipa::path(put, path = "/api/v1/guardrails/{guardrail}", tag = "guardrails", params(("guardrail" = String, Path)), request_body = Guardrail, responses((status = 200, body = Guardrail)))]
pub async fn replace(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(guardrail): Body<Guardrail>,
) -> Result<Changed<Guardrail>, Problem> {
    if guardrail.name.as_str() != name {
        let told = format!("the body names the guardrail `{}`, the path `{name}`", guardrail.name);
        return Err(Fault::invalid(told, "make them the same").at("/name").into());
    }
    // Whoever may not set one is told that, and nothing of the detector.
    let guardrail = app.registry.check_guardrail(&caller, guardrail)?;
    app.engine.check_detector_runs(&caller, &guardrail)?;
    let (guardrail, revision) = app.registry.put_guardrail(&caller, guardrail).await?;
    Ok(Changed(guardrail, revision))
}

/// Removes a guardrail that no tool and no profile demands.
#[utoipa::path(delete, path = "/api/v1/guardrails/{guardrail}", tag = "guardrails", params(("guardrail" = String, Path)), responses((status = 200, body = Object), (status = 404), (status = 409)))]
pub async fn delete(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Changed<Value>, Problem> {
    let revision = app.registry.delete_guardrail(&caller, &name).await?;
    Ok(Changed(json!({"deleted": name}), revision))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardrailTest {
    /// As it is or would be saved.
    guardrail: Guardrail,
    /// What it looks at: arguments, or a result.
    #[schema(value_type = Object)]
    value: Value,
    /// The tool that the value is said to be of; a detector that is a tool is told.
    #[serde(default)]
    tool: Option<String>,
}

/// What a guardrail finds in a value. Nothing is saved, and of a call nothing is stopped.
#[utoipa::path(post, path = "/api/v1/guardrails/test", tag = "guardrails", request_body = GuardrailTest, responses((status = 200, body = Finding)))]
pub async fn test(
    State(app): State<App>,
    By(caller): By,
    Body(request): Body<GuardrailTest>,
) -> Result<Json<Finding>, Problem> {
    let GuardrailTest { guardrail, value, tool } = request;
    Ok(Json(app.engine.try_guardrail(&caller, guardrail, tool.as_deref(), value).await?))
}
