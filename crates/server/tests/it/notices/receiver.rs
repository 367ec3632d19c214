//! Somebody who is told: a small HTTP server that keeps what it was sent and answers as the test wants.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;

#[derive(Clone, Debug)]
pub struct Received {
    pub method_and_path: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    /// Which call it is about.
    pub fn call(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        body["data"]["call_id"].as_str().unwrap().to_owned()
    }
}

#[derive(Default)]
struct Inner {
    received: Vec<Received>,
    status: u16,
    location: Option<String>,
}

pub struct Receiver {
    address: std::net::SocketAddr,
    inner: Arc<Mutex<Inner>>,
    task: tokio::task::JoinHandle<()>,
}

impl Receiver {
    pub async fn start() -> Self {
        let inner = Arc::new(Mutex::new(Inner { status: 200, ..Inner::default() }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(take).with_state(Arc::clone(&inner));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, inner, task }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on it answers this.
    pub fn answer(&self, status: u16) {
        let mut inner = self.inner.lock().unwrap();
        (inner.status, inner.location) = (status, None);
    }

    pub fn redirect(&self, status: u16, location: &str) {
        let mut inner = self.inner.lock().unwrap();
        (inner.status, inner.location) = (status, Some(location.to_owned()));
    }

    /// What came since the last time.
    pub fn taken(&self) -> Vec<Received> {
        std::mem::take(&mut self.inner.lock().unwrap().received)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(inner): State<Arc<Mutex<Inner>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = body.collect().await.unwrap().to_bytes();
    let mut inner = inner.lock().unwrap();
    inner.received.push(Received {
        method_and_path: format!("{} {}", parts.method, parts.uri.path()),
        headers: parts.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    });
    let status = StatusCode::from_u16(inner.status).unwrap();
    match &inner.location {
        Some(location) => (status, [(header::LOCATION, location.clone())]).into_response(),
        None => status.into_response(),
    }
}
