//! `POST /invoke`: seed 002's invocation protocol at its fixed address. The token in the body is the credential, and
//! there is no other; every answer that can be given is given with 200 and signed.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use ed25519_dalek::{SigningKey, VerifyingKey};
use serde_json::{Map, Value, json};
use toolgate_contracts::call::WAIT_S_MAX;
use toolgate_contracts::json as strict;
use toolgate_contracts::{CallRequest, Envelope, Fault, FaultKind, Mode, Permission, Source, Status};
use toolgate_policy::response::sign_response;
use toolgate_policy::token::Keys;
use toolgate_vault::{Key, Purpose};

use crate::app::App;
use crate::auth;
use crate::compat::tool_layer::{Answer, Invocation, METADATA, SignedAnswer};
use crate::problem::Problem;

/// What is over by then is answered by the call itself.
const SHORT_S: u64 = 1;

/// Calls a tool with a capability token, in the words of the invocation protocol.
#[utoipa::path(post, path = "/invoke", tag = "compat", request_body = Invocation, responses((status = 200, body = SignedAnswer), (status = 400)))]
pub async fn invoke(State(app): State<App>, request: Parts, body: Bytes) -> Result<Response, Problem> {
    let invocation = read(&body)?;
    let answer = match Box::pin(called(&app, &request, &invocation)).await {
        Ok(envelope) => Answer::of(&invocation.request_id, &envelope),
        Err(fault) => {
            if let Some(logged) = fault.logged() {
                tracing::warn!(told = fault.told(), "{logged}");
            }
            Answer::refused(&invocation.request_id, &fault)
        }
    };
    let key = app.keyring.key(Purpose::Response, None).await?;
    let mut signed = answer.unsigned();
    sign_response(&mut signed, &SigningKey::from_bytes(key.seed()));
    Ok(Json(Value::Object(signed)).into_response())
}

/// What cannot be read has no `request_id` to answer to.
fn read(body: &[u8]) -> Result<Invocation, Fault> {
    let mut value = strict::read(body, strict::CALL_BYTES_MAX)?;
    if let Value::Object(members) = &mut value {
        members.retain(|_, member| !member.is_null());
    }
    Ok(strict::decode(value)?)
}

async fn called(app: &App, request: &Parts, invocation: &Invocation) -> Result<Envelope, Fault> {
    refuse_deciders(app, request).await?;
    let caller = app.token_caller(&invocation.capability_token, request).await?;
    if caller.may(&Permission::APPROVALS_DECIDE) {
        return Err(decides());
    }
    // As the token says it: the agent that acts, else who is answerable.
    let named = caller.agent.map_or_else(|| caller.principal.to_string(), |agent| agent.to_string());
    if spelt(&invocation.caller_id) != named {
        let told = "`caller_id` is not whom the token was made for";
        let remedy = format!("send the token's `act.sub`, or its `sub` where it has none: `{named}`");
        return Err(Fault::new(FaultKind::Unauthenticated, told, remedy).at("/caller_id"));
    }
    let request_id = uuid::Uuid::parse_str(&invocation.request_id).map_err(|_| {
        let told = format!("the request_id `{}` is not a UUID", shortened(&invocation.request_id));
        Fault::invalid(told, "send a new UUID with each request").at("/request_id")
    })?;
    let source = if caller.agent.is_some() { Source::Agent } else { Source::Api };
    let envelope = app.engine.submit(&caller, source, call_of(invocation, &request_id.to_string(), &named)).await?;
    if envelope.status != Status::Running {
        return Ok(envelope);
    }
    // What runs is waited for; for a person nobody waits with an open connection.
    let until = tokio::time::Instant::now() + Duration::from_secs(WAIT_S_MAX);
    app.engine.when_ended(caller.tenant, envelope.id, until).await
}

/// An id as this server writes it: a UUID has several spellings, and all of them are the same one.
fn spelt(id: &str) -> String {
    uuid::Uuid::parse_str(id).map_or_else(|_| id.to_owned(), |id| id.to_string())
}

fn call_of(invocation: &Invocation, request_id: &str, caller_id: &str) -> CallRequest {
    let mut metadata: Map<String, Value> = invocation.metadata.clone();
    let own = json!({"request_id": request_id, "caller_id": caller_id});
    metadata.insert(METADATA.to_owned(), own);
    CallRequest {
        request_id: Some(request_id.to_owned()),
        mode: if invocation.is_dry_run() { Mode::DryRun } else { Mode::Execute },
        wait: Some(SHORT_S),
        metadata: Some(metadata),
        ..CallRequest::new(invocation.tool(), Value::Object(invocation.args.clone()))
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

/// A key that decides has no business where agents call; any other is not looked at.
async fn refuse_deciders(app: &App, request: &Parts) -> Result<(), Fault> {
    if !request.headers.contains_key(header::AUTHORIZATION) && request.extensions.get::<crate::LocalCaller>().is_none()
    {
        return Ok(());
    }
    match auth::again(app, request).await {
        Ok(caller) if caller.may(&Permission::APPROVALS_DECIDE) => Err(decides()),
        _ => Ok(()),
    }
}

/// No door of agents takes a credential that decides.
pub fn decides() -> Fault {
    Fault::new(
        FaultKind::Forbidden,
        "a credential that may decide approvals is not accepted here",
        "make a key for the agent with `toolgate key create NAME --agent AGENT`, and a token with it",
    )
}

/// The keys that check what this server signed: answers of the invocation protocol, and tokens (RFC 7517).
#[utoipa::path(get, path = "/.well-known/jwks.json", tag = "compat", responses((status = 200, body = Object)))]
pub async fn jwks(State(app): State<App>) -> Result<Response, Problem> {
    // Made when first asked for, so that whoever reads them before the first answer has them.
    app.keyring.key(Purpose::Response, None).await?;
    app.keyring.key(Purpose::Token, None).await?;
    let mut keys = app.keyring.all(Purpose::Response, None).await?;
    keys.extend(app.keyring.all(Purpose::Token, None).await?);
    let named = |key: &std::sync::Arc<Key>| (key.kid().to_owned(), public(key));
    let set = Keys::new(keys.iter().map(named)).jwks();
    let cached = HeaderValue::from_static("public, max-age=60");
    Ok(([(header::CACHE_CONTROL, cached)], Json(set)).into_response())
}

fn public(key: &Key) -> VerifyingKey {
    SigningKey::from_bytes(key.seed()).verifying_key()
}
