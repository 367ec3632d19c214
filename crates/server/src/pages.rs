//! What a browser opens: the console, the reference of the API, which reads `/openapi.json`, and the page of an error.
//! Nothing comes from another host.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tower::util::MapResponseLayer;

use crate::console;

const SECURITY_HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; \
         worker-src 'self'; frame-src 'self'; media-src 'self' blob:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
];

pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/docs/api", get(|| file("text/html; charset=utf-8", include_str!("../page/reference.html"))))
        .route("/colors.css", get(|| file("text/css; charset=utf-8", include_str!("../page/colors.css"))))
        .route("/reference.css", get(|| file("text/css; charset=utf-8", include_str!("../page/reference.css"))))
        .route("/reference.js", get(|| file("text/javascript; charset=utf-8", include_str!("../page/reference.js"))))
        .route("/docs/errors/{reason}", get(error_page))
        .route("/favicon.ico", get(|| file("image/svg+xml", include_str!("../page/mark.svg"))))
        .route("/mark.svg", get(|| file("image/svg+xml", include_str!("../page/mark.svg"))))
        .fallback(console::serve)
}

/// What the `type` of a problem points to.
async fn error_page(Path(reason): Path<String>) -> Response {
    let page = match reason.as_str() {
        "calls" => include_str!("../../../docs/errors/calls.md"),
        "index" => include_str!("../../../docs/errors/index.md"),
        "conflict" => include_str!("../../../docs/errors/conflict.md"),
        "internal" => include_str!("../../../docs/errors/internal.md"),
        "invalid" => include_str!("../../../docs/errors/invalid.md"),
        "not_found" => include_str!("../../../docs/errors/not_found.md"),
        "permission" => include_str!("../../../docs/errors/permission.md"),
        "rate" => include_str!("../../../docs/errors/rate.md"),
        "too_large" => include_str!("../../../docs/errors/too_large.md"),
        "unauthenticated" => include_str!("../../../docs/errors/unauthenticated.md"),
        "unavailable" => include_str!("../../../docs/errors/unavailable.md"),
        _ => return (StatusCode::NOT_FOUND, "There is no such error.\n").into_response(),
    };
    file("text/plain; charset=utf-8", page).await
}

/// What every answer carries, pages and API alike. All in one layer: each layer of a router is paid for by every request.
pub fn secured<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    let carried =
        SECURITY_HEADERS.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    let carried = Arc::new(carried);
    router.layer(MapResponseLayer::new(move |mut response: Response| {
        let headers = response.headers_mut();
        headers.reserve(carried.len());
        for (name, value) in &*carried {
            headers.entry(name).or_insert_with(|| value.clone());
        }
        response
    }))
}

fn file(kind: &'static str, text: &'static str) -> std::future::Ready<Response> {
    std::future::ready(([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text).into_response())
}
