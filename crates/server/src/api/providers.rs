//! Model providers: where the models of agents are, how they are spoken to, which secret is the key, what they cost.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;
use toolgate_agents::{Answered, Asker, Bounds, Message, Request};
use toolgate_contracts::provider::{Stop, Usage};
use toolgate_contracts::{
    Amount, Fault, Page, Permission, ProviderKind, ProviderSpec, Slug, TenantId, Timestamp, ToolError,
};
use toolgate_registry::commands::{KeptProvider, ProviderAction, Removal};
use toolgate_store::cursor::ListOf;
use toolgate_store::providers::StoredProvider;
use utoipa::{IntoParams, ToSchema};

use super::paging::{PageQuery, page_of};
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;

/// What a test asks where nobody says anything else.
const QUESTION: &str = "Answer with the one word: ready";
const QUESTION_CHARS_MAX: usize = 4000;
/// Whoever tests waits: an answer that takes longer is told as one that did not come.
const TEST_WALL: Duration = Duration::from_mins(1);
/// A provider that wants to be asked again later than this is told on, not waited for.
const TEST_WAIT_MAX: Duration = Duration::from_secs(5);
/// Enough for a model that thinks before it says one word.
const TEST_TOKENS_MAX: u32 = 2048;

#[derive(Serialize, ToSchema)]
pub struct ProviderView {
    #[serde(flatten)]
    provider: ProviderSpec,
    /// It plays a script: no model says anything of it.
    scripted: bool,
    /// By the operator, to all tenants; it is not the tenant's to change.
    offered: bool,
    revision: u32,
    saved_by: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl ProviderView {
    fn new(stored: &StoredProvider, reader: TenantId) -> Self {
        let StoredProvider { tenant, spec, revision, saved_by, created_at, updated_at } = stored.clone();
        let scripted = spec.kind.is_scripted();
        let offered = tenant != reader;
        // Who of the operator's people wrote it is nobody's business elsewhere.
        let saved_by = if offered { "operator".to_owned() } else { saved_by };
        Self { provider: spec, scripted, offered, revision, saved_by, created_at, updated_at }
    }

    fn without_script(mut self) -> Self {
        self.provider.script = None;
        self
    }
}

#[derive(Serialize, ToSchema)]
pub struct ShownProvider {
    #[serde(flatten)]
    provider: ProviderView,
    /// The agents whose model is the provider's.
    #[schema(value_type = Vec<String>)]
    agents: Vec<Slug>,
}

#[derive(Serialize, ToSchema)]
pub struct SavedProvider {
    #[serde(flatten)]
    provider: ProviderView,
    action: ProviderAction,
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct PutQuery {
    /// Only if it still has this revision.
    revision: Option<u32>,
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct DeleteQuery {
    /// Also while agents ask its models; they fail until they have another.
    force: bool,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestProvider {
    /// As the provider names it.
    model: String,
    /// What it is asked; a short question of ours where it is not said.
    #[serde(default)]
    prompt: Option<String>,
}

/// What became of a test. Either `answer` or `error` is there.
#[derive(Serialize, ToSchema)]
pub struct TestedProvider {
    provider: String,
    model: String,
    kind: ProviderKind,
    /// It plays a script: no model said anything of this.
    scripted: bool,
    prompt: String,
    duration_ms: u64,
    answer: Option<TestAnswer>,
    error: Option<ToolError>,
}

#[derive(Serialize, ToSchema)]
pub struct TestAnswer {
    text: String,
    /// As the provider names what answered.
    answered_by: String,
    stop: Stop,
    usage: Usage,
    /// How often it was sent.
    tries: u32,
    /// By the table of prices; absent where it has none for the model.
    cost: Option<Amount>,
    currency: String,
}

/// The model providers of the tenant and those that it is offered, by name, without their scripts.
#[utoipa::path(get, path = "/api/v1/providers", tag = "providers", params(PageQuery), responses((status = 200, body = Page<ProviderView>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<ProviderView>>, Problem> {
    let providers = app.registry.providers(&caller)?;
    let views = providers.iter().map(|stored| ProviderView::new(stored, caller.tenant).without_script()).collect();
    let list = ListOf { tenant: caller.tenant, list: "providers", filter: "" };
    let key = |view: &ProviderView| view.provider.name.to_string();
    Ok(Json(page_of(views, key, &list, query.cursor.as_deref(), query.limit)?))
}

/// One provider, with the agents that ask its models.
#[utoipa::path(get, path = "/api/v1/providers/{provider}", tag = "providers", params(("provider" = String, Path)), responses((status = 200, body = ShownProvider), (status = 404)))]
pub async fn show(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Json<ShownProvider>, Problem> {
    let stored = app.registry.provider(&caller, &name)?;
    let agents = app.registry.snapshot().tenant(caller.tenant)?.agents_asking(&stored.spec.name);
    Ok(Json(ShownProvider { provider: ProviderView::new(&stored, caller.tenant), agents }))
}

/// Creates a provider, or replaces it. The same again changes nothing.
#[utoipa::path(put, path = "/api/v1/providers/{provider}", tag = "providers", params(("provider" = String, Path), PutQuery), request_body = ProviderSpec, responses((status = 200, body = SavedProvider), (status = 400), (status = 409)))]
pub async fn put(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(query): Query<PutQuery>,
    Body(spec): Body<ProviderSpec>,
) -> Result<Response, Problem> {
    if spec.name.as_str() != name {
        let told = format!("the address names the provider `{name}`, the body `{}`", spec.name);
        return Err(Fault::invalid(told, "write the same name in both").at("/name").into());
    }
    let KeptProvider { provider, action, revision } = app.models.keep(&caller, spec, query.revision).await?;
    let saved = SavedProvider { provider: ProviderView::new(&provider, caller.tenant), action };
    Ok(match revision {
        Some(revision) => Changed(saved, revision).into_response(),
        None => Json(saved).into_response(),
    })
}

/// Removes a provider whose models no agent asks.
#[utoipa::path(delete, path = "/api/v1/providers/{provider}", tag = "providers", params(("provider" = String, Path), DeleteQuery), responses((status = 200, body = Object), (status = 404), (status = 409)))]
pub async fn delete(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(query): Query<DeleteQuery>,
) -> Result<Changed<Value>, Problem> {
    let removal = if query.force { Removal::Forced } else { Removal::Unused };
    let revision = app.registry.remove_provider(&caller, &name, removal).await?;
    Ok(Changed(json!({"deleted": name}), revision))
}

/// Asks a model of the provider one short question, by the way that agents' questions go, with the caller's secrets.
#[utoipa::path(post, path = "/api/v1/providers/{provider}/test", tag = "providers", params(("provider" = String, Path)), request_body = TestProvider, responses((status = 200, body = TestedProvider), (status = 404)))]
pub async fn test(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(TestProvider { model, prompt }): Body<TestProvider>,
) -> Result<Json<TestedProvider>, Problem> {
    caller.require(&Permission::AGENTS_MANAGE)?;
    let stored = app.registry.provider(&caller, &name)?;
    let prompt = prompt.unwrap_or_else(|| QUESTION.to_owned());
    let chars = prompt.chars().count();
    if !(1..=QUESTION_CHARS_MAX).contains(&chars) {
        let told = format!("`prompt` has {chars} characters");
        return Err(Fault::invalid(told, format!("write 1 to {QUESTION_CHARS_MAX}")).at("/prompt").into());
    }
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let agent = caller.agent.and_then(|agent| registry.agents.get(&agent));
    let asker =
        Asker { tenant: caller.tenant, principal: caller.principal, workspace: agent.map(|agent| agent.workspace) };
    let request = Request {
        model: model.clone(),
        messages: vec![Message::User { text: prompt.clone() }],
        output_tokens_max: Some(TEST_TOKENS_MAX),
        ..Request::default()
    };
    let bounds = Bounds { wall: TEST_WALL, first: TEST_WALL, wait_max: TEST_WAIT_MAX, ..Bounds::default() };
    let begun = Instant::now();
    let whole = format!("{name}/{model}");
    let asked = Box::pin(app.models.ask(&asker, &whole, &request, bounds, &mut |_| {})).await;
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (answer, error) = match asked {
        Ok(Answered { turn, tries, cost, provider: _, kind: _ }) => {
            let currency = registry.tenant.currency.clone();
            let answer = TestAnswer {
                text: turn.text,
                answered_by: turn.model,
                stop: turn.stop,
                usage: turn.usage,
                tries,
                cost,
                currency,
            };
            (Some(answer), None)
        }
        Err(error) => (None, Some(ToolError::from(error))),
    };
    let kind = stored.spec.kind;
    let scripted = kind.is_scripted();
    Ok(Json(TestedProvider { provider: name, model, kind, scripted, prompt, duration_ms, answer, error }))
}
