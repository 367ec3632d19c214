//! What handlers take from a request: strictly read bodies and queries, and the caller whom the door let in.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toolgate_contracts::definition::OPAQUE_MEMBERS;
use toolgate_contracts::{Caller, Fault, FaultKind, json};

use crate::REVISION_HEADER;
use crate::problem::Problem;

/// A definition may carry schemas, so bodies may be as large as those.
pub const BODY_BYTES_MAX: usize = json::SCHEMA_BYTES_MAX;

/// The caller whom the door identified; only there are callers made.
pub struct By(pub Caller);

impl<S: Send + Sync> FromRequestParts<S> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.map(Self).ok_or_else(|| Fault::internal("a route without the door before it").into())
    }
}

/// A JSON body, read by the one strict reader.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        Ok(Self(read(request, state, BODY_BYTES_MAX).await?))
    }
}

/// The same for a route that takes more; its layer has to let it through.
pub struct LargeBody<T, const BYTES_MAX: usize>(pub T);

impl<T: DeserializeOwned, S: Send + Sync, const BYTES_MAX: usize> FromRequest<S> for LargeBody<T, BYTES_MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        Ok(Self(read(request, state, BYTES_MAX).await?))
    }
}

async fn read<T: DeserializeOwned, S: Send + Sync>(
    request: Request,
    state: &S,
    bytes_max: usize,
) -> Result<T, Problem> {
    require_json(request.headers())?;
    let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
        let status = rejection.into_response().status();
        if status == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
            Fault::new(FaultKind::TooLarge, format!("the body is larger than {bytes_max} bytes"), "send a smaller one")
        } else {
            Fault::invalid("the body could not be read", "send it again")
        }
    })?;
    let mut value = json::read(if bytes.is_empty() { b"{}" } else { &bytes }, bytes_max).map_err(Fault::from)?;
    json::drop_nulls(&mut value, &OPAQUE_MEMBERS);
    Ok(json::decode(value).map_err(Fault::from)?)
}

fn require_json(headers: &HeaderMap) -> Result<(), Fault> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Fault::invalid(
        format!("the body's content type is `{kind}`"),
        "send JSON with `Content-Type: application/json`",
    ))
}

/// A query string; unknown parameters are refused by their name.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query.map(|axum::extract::Query(query)| Self(query)).map_err(|rejection| {
            let told = rejection.body_text();
            let told = told.strip_prefix("Failed to deserialize query string: ").unwrap_or(&told).to_owned();
            let (parameter, told) = told.split_once(": ").unwrap_or(("", told.as_str()));
            let told = match parameter {
                "" => json::spoken(told),
                parameter => format!("`{parameter}`: {}", json::spoken(told)),
            };
            Fault::invalid(format!("the query is not understood: {told}"), "see `/openapi.json` for the parameters")
                .into()
        })
    }
}

/// An answer, with the revision that holds what it changed.
pub struct Changed<T>(pub T, pub i64);

impl<T: Serialize> IntoResponse for Changed<T> {
    fn into_response(self) -> Response {
        let Self(body, revision) = self;
        ([(REVISION_HEADER, revision.to_string())], axum::Json(body)).into_response()
    }
}
