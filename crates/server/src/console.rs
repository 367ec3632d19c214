//! The console's files, as they were built, from the program itself. Nothing is read from a disk.
//!
//! An address that no file and no route has is one of the console's own pages, which its script knows; so a browser
//! that asks for a page gets the one document. What asks for anything else is told that there is nothing.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

struct Asset {
    path: &'static str,
    bytes: &'static [u8],
    brotli: Option<&'static [u8]>,
}

static ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/console.rs"));

const DOCUMENT: &str = "/index.html";
const NOTHING: &str =
    "Nothing here. The console is at /, the API at /api/v1, its description at /docs/api and /openapi.json.\n";
const NOT_BUILT: &str = "This program was built without its console. Run `make run`, which builds both, or \
                         `npm ci && npm run build` in console/ before `cargo build`.\n";

pub async fn serve(request: Request) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return (StatusCode::NOT_FOUND, NOTHING).into_response();
    }
    let path = request.uri().path();
    if let Some(asset) = find(path) {
        return asset.answer(request.headers());
    }
    // Whoever asks for the address alone, of whatever kind, means the page.
    if !is_page(path) || (path != "/" && !wants_page(request.headers())) {
        return (StatusCode::NOT_FOUND, NOTHING).into_response();
    }
    match find(DOCUMENT) {
        Some(document) => document.answer(request.headers()),
        None => (StatusCode::SERVICE_UNAVAILABLE, NOT_BUILT).into_response(),
    }
}

fn find(path: &str) -> Option<&'static Asset> {
    let at = ASSETS.binary_search_by(|asset| asset.path.cmp(path)).ok()?;
    ASSETS.get(at)
}

/// An address under the API or of a missing file is not a page, whoever asks.
fn is_page(path: &str) -> bool {
    !["/api/", "/assets/", "/.well-known/"].iter().any(|prefix| path.starts_with(prefix))
}

fn wants_page(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

impl Asset {
    fn answer(&self, headers: &HeaderMap) -> Response {
        let takes_brotli = headers
            .get(header::ACCEPT_ENCODING)
            .and_then(|accepted| accepted.to_str().ok())
            .is_some_and(|accepted| accepted.split(',').any(|coding| coding.trim().split(';').next() == Some("br")));
        // Files under /assets have a digest of their content in their name.
        let keep = if self.path.starts_with("/assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
        let mut response = match self.brotli.filter(|_| takes_brotli) {
            Some(brotli) => ([(header::CONTENT_ENCODING, "br")], brotli).into_response(),
            None => self.bytes.into_response(),
        };
        let said = response.headers_mut();
        said.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind()));
        said.insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
        said.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        response
    }

    fn kind(&self) -> &'static str {
        match self.path.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("woff2") => "font/woff2",
            Some("json") => "application/json",
            _ => "application/octet-stream",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With or without a built console: only a browser that asks for a page gets the document.
    #[tokio::test]
    async fn only_pages_are_answered_with_the_document() {
        let page = if ASSETS.is_empty() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        for (method, path, accept, expected) in [
            ("GET", "/", "text/html", page),
            ("GET", "/", "*/*", page),
            ("GET", "/tools/echo", "text/html,application/xhtml+xml;q=0.9", page),
            ("HEAD", "/tools/echo", "text/html", page),
            ("GET", "/tools/echo", "application/json", StatusCode::NOT_FOUND),
            ("POST", "/tools/echo", "text/html", StatusCode::NOT_FOUND),
            ("GET", "/api/v1/none", "text/html", StatusCode::NOT_FOUND),
            ("GET", "/assets/none.js", "text/html", StatusCode::NOT_FOUND),
            ("GET", "/../Cargo.toml", "*/*", StatusCode::NOT_FOUND),
        ] {
            let request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept);
            let answered = serve(request.body(axum::body::Body::empty()).unwrap()).await;
            assert_eq!(answered.status(), expected, "{method} {path} {accept}");
        }
    }

    #[tokio::test]
    async fn a_file_is_kept_for_ever_only_where_its_name_says_what_it_holds() {
        for asset in ASSETS {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, br"));
            let answered = asset.answer(&headers);
            let said = |name| answered.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
            assert_eq!(said(header::CONTENT_ENCODING).is_some(), asset.brotli.is_some(), "{}", asset.path);
            assert_eq!(
                said(header::CACHE_CONTROL).is_some_and(|keep| keep.contains("immutable")),
                asset.path.starts_with("/assets/"),
                "{}",
                asset.path
            );
            assert_ne!(said(header::CONTENT_TYPE), Some("application/octet-stream"), "{}", asset.path);
        }
    }
}
