//! The API in process, called by the owner of the data folder.

use axum::Router;
use axum::body::Body;
use axum::http::request::Builder;
use axum::http::{HeaderValue, Method, Request, header};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use toolgate_contracts::Fault;
use toolgate_server::{App, CLIENT_HEADER, DataFolder, LocalCaller, TENANT_HEADER};
use tower::ServiceExt as _;

use super::{ANSWER_BYTES_MAX, CLIENT};
use crate::failure::Failure;

pub struct Local {
    router: Router,
    tenant: Option<String>,
    /// A key or token to act with; absent: the owner of the folder.
    credential: Option<HeaderValue>,
    /// Ours to close; absent where a server lends its own.
    open: Option<(App, DataFolder)>,
}

impl Local {
    pub fn own(app: App, folder: DataFolder, tenant: Option<String>) -> Self {
        Self { router: app.router(), tenant, credential: None, open: Some((app, folder)) }
    }

    /// For a server that does something before it serves.
    pub fn lent(app: &App) -> Self {
        Self { router: app.router(), tenant: None, credential: None, open: None }
    }

    pub fn acting_with(self, credential: Option<&str>) -> Result<Self, Failure> {
        let credential = credential.map(super::bearer).transpose()?;
        Ok(Self { credential, ..self })
    }

    pub async fn send(&self, method: Method, target: &str, body: Option<Value>) -> Result<(u16, Vec<u8>), Failure> {
        let mut request = self.request(method, target);
        let body = match body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        let (status, body) = self.ask(request, body).await?;
        Ok((status, read(body).await?))
    }

    pub async fn upload(
        &self,
        target: &str,
        content_type: &'static str,
        bytes: Vec<u8>,
    ) -> Result<(u16, Vec<u8>), Failure> {
        let request = self.request(Method::POST, target).header(header::CONTENT_TYPE, content_type);
        let (status, body) = self.ask(request, Body::from(bytes)).await?;
        Ok((status, read(body).await?))
    }

    /// An answer that does not end, to be read as it comes.
    pub async fn stream(&self, target: &str, after: Option<&str>) -> Result<(u16, Body), Failure> {
        let mut request = self.request(Method::GET, target).header(header::ACCEPT, "text/event-stream");
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        self.ask(request, Body::empty()).await
    }

    fn request(&self, method: Method, target: &str) -> Builder {
        let request = Request::builder().method(method).uri(target);
        let request = match &self.credential {
            Some(credential) => request.header(header::AUTHORIZATION, credential.clone()),
            None => request.extension(LocalCaller::this_process()),
        };
        let request = request.header(CLIENT_HEADER, CLIENT);
        match &self.tenant {
            Some(tenant) => request.header(TENANT_HEADER, tenant),
            None => request,
        }
    }

    async fn ask(&self, request: Builder, body: Body) -> Result<(u16, Body), Failure> {
        let request = request
            .body(body)
            .map_err(|error| Failure::usage(format!("this cannot be sent: {error}"), "check --tenant"))?;
        let response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        Ok((response.status().as_u16(), response.into_body()))
    }

    pub async fn close(self) {
        let Self { router, tenant: _, credential: _, open } = self;
        drop(router);
        if let Some((app, folder)) = open {
            app.close().await;
            // After the database: whoever takes the folder next finds it closed.
            drop(folder);
        }
    }
}

pub async fn read(body: Body) -> Result<Vec<u8>, Failure> {
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(Fault::internal)?;
    Ok(body.to_bytes().to_vec())
}
