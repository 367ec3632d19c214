//! The OpenAPI document, completed by what holds for every operation alike, so that no handler has to repeat it: a name
//! of its own, who may call, and how a refusal looks.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::IntoResponse;
use serde_json::Value;
use toolgate_contracts::ErrorCode;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response, Tag};
use utoipa::{PartialSchema as _, ToSchema};

const KEY: &str = "key";
const SESSION: &str = "session";
const PROBLEM: &str = "Problem";
const PROBLEM_KIND: &str = "application/problem+json";

/// In the order in which a reader meets them. One that no operation has is left out.
const TAGS: &[(&str, &str)] = &[
    ("calls", "Calling tools, and what became of a call."),
    ("runs", "Calls that belong together, and what happened in them."),
    ("events", "What happens, as it happens."),
    ("approvals", "What waits for a person."),
    ("grants", "What people allow for a while without being asked each time."),
    ("inputs", "Questions to people, and their answers."),
    ("tools", "What can be called: registering, switching, versions."),
    ("plugins", "Components that run tools, installed by the operator."),
    ("upstreams", "Servers of others behind the gate, and what they offer."),
    ("search", "Finding tools and agents by words."),
    ("agents", "Who calls on somebody's behalf, and which tools they have."),
    ("skills", "Instructions that clients offer their users and agents are given."),
    ("providers", "Where the models of agents are, how they are spoken to, and what they cost."),
    ("workflows", "Graphs of tools, agents and questions to people."),
    ("profiles", "Named sets of limits that tighten what agents may do."),
    ("policies", "Who may call which tool, and when a person is asked first."),
    ("guardrails", "What arguments and results are examined for."),
    ("labels", "What callers have seen, and where it may go."),
    ("settings", "How a tenant works."),
    ("egress", "Hosts inside that the operator opened."),
    ("webhooks", "Whom to tell of what happens."),
    ("secrets", "What tools are given and nobody else sees."),
    ("server-keys", "The server's own keys."),
    ("tokens", "Short-lived credentials that can do less than their holder."),
    ("session", "Signing in, and who one is."),
    ("keys", "Keys for programs."),
    ("users", "People and services of a tenant."),
    ("invitations", "Links that let somebody in."),
    ("tenants", "Tenants and their workspaces."),
    ("limits", "How much may be used, and switches that stop things at once."),
    ("audit", "The log of what was done, and its proofs."),
    ("usage", "What was used, and what it cost."),
    ("mcp", "The Model Context Protocol, for agents and their programs."),
    ("oauth", "Letting clients of the Model Context Protocol in."),
    ("compat", "The shapes of the specifications that Toolgate unifies, for clients that know one of them."),
    ("work", "Tools that run in somebody's own process."),
    ("system", "Health, numbers, configuration and the database."),
];

/// How every request is refused that is (RFC 9457).
#[derive(ToSchema)]
#[schema(as = Problem)]
#[expect(dead_code, reason = "described here, written by `Fault::problem`")]
struct ProblemBody {
    /// The page about it.
    r#type: String,
    /// The kind in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What is wrong, with the name or value.
    detail: String,
    code: ErrorCode,
    /// What to do.
    remedy: String,
    /// Which member of the request is meant, as a JSON Pointer.
    pointer: Option<String>,
    /// More, such as the findings of a definition.
    #[schema(value_type = Option<Object>)]
    details: Option<Value>,
}

/// The document as it is sent; made once, since anybody may ask for it.
pub async fn served() -> impl IntoResponse {
    static TEXT: LazyLock<String> = LazyLock::new(|| serde_json::to_string(&super::document()).unwrap_or_default());
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str())
}

/// `front` needs nobody, the operations of `api` need a caller.
pub fn complete(mut front: OpenApi, api: OpenApi) -> OpenApi {
    for operation in front.paths.paths.values_mut().flat_map(operations) {
        operation.security = Some(Vec::new());
    }
    // This machine needs no key, others do.
    if let Some(metrics) = front.paths.paths.get_mut("/metrics").and_then(|path| path.get.as_mut()) {
        metrics.security = Some([vec![SecurityRequirement::default()], callers()].concat());
    }
    // A page can send a cookie, and an agent has none.
    for (_, path) in front.paths.paths.iter_mut().filter(|(path, _)| path.starts_with("/mcp")) {
        for operation in operations(path) {
            operation.security = Some(vec![SecurityRequirement::new(KEY, Vec::<String>::new())]);
        }
    }
    front.merge(api);
    let mut document = front;
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        name(operation);
        answer(operation);
    }
    let used: Vec<String> =
        document.paths.paths.values_mut().flat_map(operations).filter_map(|operation| tag_of(operation)).collect();
    let tag = |(name, about): &(&str, &str)| {
        let mut tag = Tag::new(*name);
        tag.description = Some((*about).to_owned());
        tag
    };
    document.tags = Some(TAGS.iter().filter(|(name, _)| used.iter().any(|tag| tag == name)).map(tag).collect());
    document.security = Some(callers());

    let components = document.components.get_or_insert_default();
    components.schemas.insert(PROBLEM.to_owned(), ProblemBody::schema());
    components.schemas.insert("ErrorCode".to_owned(), ErrorCode::schema());
    let mut refused = Response::new("Refused, with the reason and what to do");
    let body = Content::new(Some(RefOr::Ref(Ref::from_schema_name(PROBLEM))));
    refused.content.insert(PROBLEM_KIND.to_owned(), body.into());
    components.responses.insert(PROBLEM.to_owned(), refused.into());
    let mut key = Http::new(HttpAuthScheme::Bearer);
    key.description = Some("An API key: `Authorization: Bearer KEY`.".to_owned());
    components.add_security_scheme(KEY, SecurityScheme::Http(key));
    let about =
        "The cookie of a signed-in browser; `tg` on plain HTTP. What changes something must come from our own pages.";
    let session = ApiKey::Cookie(ApiKeyValue::with_description("__Host-tg", about));
    components.add_security_scheme(SESSION, SecurityScheme::ApiKey(session));
    document
}

fn callers() -> Vec<SecurityRequirement> {
    [KEY, SESSION].map(|scheme| SecurityRequirement::new(scheme, Vec::<String>::new())).to_vec()
}

fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, patch, .. } = path;
    [get, put, post, delete, patch].into_iter().flatten()
}

fn tag_of(operation: &Operation) -> Option<String> {
    operation.tags.as_ref().and_then(|tags| tags.first().cloned())
}

/// A handler is named within its subject (`list`, `edit_user`), an operation within all of them (`tools_list`,
/// `users_edit`).
fn name(operation: &mut Operation) {
    let (Some(handler), Some(tag)) = (operation.operation_id.take(), tag_of(operation)) else { return };
    let one = tag.trim_end_matches('s');
    let other: Vec<&str> = handler.split('_').filter(|word| word.trim_end_matches('s') != one).collect();
    let words = if matches!(other.as_slice(), ["of"]) { handler.split('_').collect() } else { other };
    operation.operation_id = Some([vec![tag.as_str()], words].concat().join("_"));
    // A reader of a list wants a title, not a sentence.
    if let Some(summary) = &mut operation.summary {
        *summary = summary.trim_end_matches('.').to_owned();
    }
}

fn answer(operation: &mut Operation) {
    let refusal = || RefOr::Ref(Ref::from_response_name(PROBLEM));
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(told) = response else { continue };
        if status.starts_with('4') && told.content.is_empty() {
            *response = refusal();
        } else if told.description.is_empty() {
            let words = match status.as_str() {
                "202" => "Accepted; not done yet",
                "204" => "Done; there is nothing to say",
                "503" => "Not now",
                _ => "Done",
            };
            told.description.push_str(words);
        }
    }
    operation.responses.responses.insert("default".to_owned(), refusal());
}
