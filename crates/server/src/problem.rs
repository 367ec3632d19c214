//! A fault as an HTTP answer: `application/problem+json`, with the inside in the log only.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use toolgate_contracts::{Fault, FaultKind};

pub struct Problem(pub Fault);

impl<E: Into<Fault>> From<E> for Problem {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self(fault) = self;
        if let Some(logged) = fault.logged() {
            let broken = matches!(fault.kind(), FaultKind::Internal | FaultKind::Unavailable);
            if broken {
                tracing::error!(told = fault.told(), "{logged}");
            } else {
                tracing::debug!(told = fault.told(), "{logged}");
            }
        }
        let status = StatusCode::from_u16(fault.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, fault.problem().to_string()).into_response();
        let wait = fault.details().and_then(|details| details.get("retry_after_s")).and_then(serde_json::Value::as_u64);
        if let Some(seconds) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}
