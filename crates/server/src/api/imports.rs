//! Imports: documents of others as tools of one's own.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest as _, Request as Sent, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use toolgate_contracts::{Caller, Digest, Fault, FaultKind};
use toolgate_egress::{Purpose, Redirects, Request, Url};
use toolgate_registry::commands::{Import, Importing};
use toolgate_registry::openapi::{Choice, DOCUMENT_BYTES_MAX, Document};

use crate::app::App;
use crate::extract::{By, Changed, LargeBody};
use crate::problem::Problem;

/// A document of the largest size, in JSON that has to escape each second character of it.
pub const BODY_BYTES_MAX: usize = 2 * DOCUMENT_BYTES_MAX + 64 * 1024;

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenapiRequest {
    /// The text of the document, JSON or YAML, of version 3.0 or 3.1.
    document: Option<String>,
    /// Or where it is.
    url: Option<String>,
    /// What the document is known by here; without it the URL, or the title of the API.
    name: Option<String>,
    /// Only these: `operationId`, `GET /path`, or the name of the tool.
    #[serde(default)]
    operations: Vec<String>,
    /// Only those with one of these tags.
    #[serde(default)]
    tags: Vec<String>,
    /// Only those whose path fits; `*` is anything within a segment, `**` anything.
    #[serde(default)]
    paths: Vec<String>,
    /// What stands before the names: `billing` makes `billing.listInvoices`.
    prefix: Option<String>,
    /// Where the API is, instead of what the document says.
    base_url: Option<String>,
    /// The secret with the credential, instead of one named after the API.
    secret: Option<String>,
    /// Also mark as deprecated what was imported before and is gone from the document, or deprecated in it.
    #[serde(default)]
    deprecate_gone: bool,
    /// Without it nothing is written: the answer says what would be.
    #[serde(default)]
    apply: bool,
    /// The `digest` of the document that was shown. What is at a URL may be another the next time: it is needed to apply
    /// from there.
    expected_digest: Option<Digest>,
}

/// Imports operations of an OpenAPI document as tools, or says what that would change.
///
/// Each operation is new, unchanged, changed (with the class of the change), gone, skipped or refused. With `apply` all
/// that is not refused is registered at once.
#[utoipa::path(post, path = "/api/v1/imports/openapi", tag = "tools", request_body = OpenapiRequest, responses((status = 200, body = Import)))]
pub async fn openapi(State(app): State<App>, By(caller): By, sent: Sent) -> Result<Response, Problem> {
    // So large a body is read for nobody who may not import.
    app.registry.may_import(&caller)?;
    let LargeBody(request) = LargeBody::<OpenapiRequest, BODY_BYTES_MAX>::from_request(sent, &app).await?;
    let OpenapiRequest { document, url, name, expected_digest, .. } = request;
    if request.apply && url.is_some() && expected_digest.is_none() {
        let told = "`apply` from a URL without `expected_digest`";
        let remedy = "ask without `apply` first, look at what it would do, and send the `digest` of that answer";
        return Err(Fault::invalid(told, remedy).at("/expected_digest").into());
    }
    let (bytes, source, base) = match (document, url) {
        (Some(text), None) => (text.into_bytes(), name, None),
        (None, Some(url)) => {
            let url = address(&url)?;
            let known_by = name.unwrap_or_else(|| without_query(&url));
            // What the document says of its own place is meant of where it was found in the end.
            let (bytes, found_at) = fetched(&app, &caller, url).await?;
            (bytes, Some(known_by), Some(found_at))
        }
        _ => {
            let told = "exactly one of `document` and `url` is needed";
            return Err(Fault::invalid(told, "send the one or the other").into());
        }
    };
    let choice = Choice {
        operations: request.operations,
        tags: request.tags,
        paths: request.paths,
        prefix: request.prefix,
        server: request.base_url,
        secret: request.secret,
        source: source.map(checked_name).transpose()?,
        base,
    };
    let importing = Importing { apply: request.apply, deprecate_gone: request.deprecate_gone };
    // Reading a large document takes a while, and other requests do not wait for it.
    let _turn = app.judging.acquire().await.map_err(Fault::internal)?;
    let document = tokio::task::spawn_blocking(move || Document::read(&bytes)).await.map_err(Fault::internal)?;
    let document = document.map_err(toolgate_registry::commands::refused_document)?;
    if expected_digest.is_some_and(|expected| expected != document.digest) {
        let told = format!("the document is not the one that was shown: its digest is {}", document.digest);
        return Err(Fault::conflict(told, "look at what it would do now, and apply that")
            .at("/expected_digest")
            .into());
    }
    let import = app.registry.import(&caller, Arc::new(document), choice, importing).await?;
    let revision = import.revision;
    Ok(match revision {
        Some(revision) => Changed(import, revision).into_response(),
        None => Json(import).into_response(),
    })
}

const NAME_CHARS_MAX: usize = 300;

fn checked_name(name: String) -> Result<String, Fault> {
    if name.trim().is_empty() || name.chars().count() > NAME_CHARS_MAX || name.chars().any(char::is_control) {
        let told =
            format!("the name of the document is empty, longer than {NAME_CHARS_MAX} characters or several lines");
        return Err(Fault::invalid(told, "give a short name, or leave it out").at("/name"));
    }
    Ok(name)
}

fn address(url: &str) -> Result<Url, Fault> {
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
    parsed.ok_or_else(|| Fault::invalid("`url` is no `https` or `http` address", "give the whole address").at("/url"))
}

/// A query may hold a key, and a name is seen by everybody.
fn without_query(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// The document, by the one way out and within its limits, and where that led to.
async fn fetched(app: &App, caller: &Caller, url: Url) -> Result<(Vec<u8>, Url), Fault> {
    let way = app.outside.way(Purpose::Import, caller.tenant, None)?;
    let mut request = Request::get(url);
    request.redirects = Redirects::Follow;
    let answer = app.outside.connector.send(&way, request).await;
    let openings = match &answer {
        Ok(answer) => answer.openings.clone(),
        Err(error) => error.openings().to_vec(),
    };
    app.outside.note_use(caller, Purpose::Import, &openings).await?;
    let answer = answer.map_err(|error| Fault::from(error).at("/url"))?;
    let status = answer.status;
    if !status.is_success() {
        let host = answer.url.host_str().unwrap_or_default().to_owned();
        let told = format!("`{host}` answers {status} instead of a document");
        return Err(Fault::new(FaultKind::Invalid, told, "check the address, or give the document itself").at("/url"));
    }
    let found_at = answer.url.clone();
    let bytes = answer.bytes_max(DOCUMENT_BYTES_MAX).await.map_err(|error| Fault::from(error).at("/url"))?;
    Ok((bytes.to_vec(), found_at))
}
