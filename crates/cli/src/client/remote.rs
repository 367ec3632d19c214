//! The API over HTTP.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Method, header};
use reqwest::{RequestBuilder, Response, Url};
use serde_json::Value;
use toolgate_contracts::Fault;
use toolgate_server::{CLIENT_HEADER, TENANT_HEADER, tls};

use super::{ANSWER_BYTES_MAX, CLIENT};
use crate::failure::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// A backup of a large database is one request.
const CHANGE_TIMEOUT: Duration = Duration::from_mins(10);

/// How a server was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It was named.
    Named,
    /// It holds the data folder that the command was about, and wrote there which certificates it has.
    Holding { folder: PathBuf, certificates: Vec<String> },
}

/// Why nothing came back.
pub enum Unanswered {
    /// Nobody was there, so nothing happened.
    NeverSent(Failure),
    /// It may have happened.
    Lost(Failure),
}

pub struct Remote {
    http: reqwest::Client,
    url: String,
    pub reached: Reached,
}

impl Remote {
    pub fn new(url: &str, key: &str, tenant: Option<&str>, reached: Reached) -> Result<Self, Failure> {
        let url = checked(url)?;
        // The second of two installations is told that there is one already, which is all we want.
        let _ = Arc::unwrap_or_clone(tls::provider()).install_default();
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, super::bearer(key)?);
        headers.insert(CLIENT_HEADER, HeaderValue::from_static(CLIENT));
        if let Some(tenant) = tenant {
            let slug = HeaderValue::from_str(tenant)
                .map_err(|_| Failure::usage("--tenant is not a short name", "see `toolgate tenant list`"))?;
            headers.insert(TENANT_HEADER, slug);
        }
        let mut http = reqwest::Client::builder();
        // What only the folder's owner can write is a better witness than any authority, which knows no loopback anyway.
        if let Reached::Holding { certificates, .. } = &reached {
            http = http.tls_backend_preconfigured(tls::pinned(certificates.clone())?);
        }
        let http = http
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirect or a proxy would show the key to somebody who was not named.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("toolgate/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(Fault::internal)?;
        Ok(Self { http, url, reached })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// A key in clear text beyond this machine.
    pub fn is_exposed(&self) -> bool {
        self.url.starts_with("http://") && !self.is_here()
    }

    /// On this machine.
    fn is_here(&self) -> bool {
        let host = Url::parse(&self.url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
        matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]")
    }

    pub async fn send(&self, method: Method, target: &str, body: Option<Value>) -> Result<(u16, Vec<u8>), Failure> {
        let patience = if method == Method::GET { READ_TIMEOUT } else { CHANGE_TIMEOUT };
        let mut request = self.http.request(method, format!("{}{target}", self.url)).timeout(patience);
        if let Some(body) = body {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body.to_string());
        }
        self.answered(request).await
    }

    pub async fn upload(
        &self,
        target: &str,
        content_type: &'static str,
        bytes: Vec<u8>,
    ) -> Result<(u16, Vec<u8>), Failure> {
        let request = self.http.post(format!("{}{target}", self.url)).timeout(CHANGE_TIMEOUT);
        self.answered(request.header(header::CONTENT_TYPE, content_type).body(bytes)).await
    }

    async fn answered(&self, request: RequestBuilder) -> Result<(u16, Vec<u8>), Failure> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_redirection() {
            let to =
                response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("another address");
            return Err(Failure::unreachable(
                format!("{} sends us on to {to}", self.url),
                "name the server by its own address",
            ));
        }
        Ok((status.as_u16(), self.read(response).await?))
    }

    /// An answer that does not end, to be read as it comes.
    pub async fn stream(&self, target: &str, after: Option<&str>) -> Result<Response, Failure> {
        let mut request = self.http.get(format!("{}{target}", self.url)).header(header::ACCEPT, "text/event-stream");
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let answered = tokio::time::timeout(READ_TIMEOUT, request.send()).await;
        let late = |_| {
            Failure::unreachable(
                format!("{} does not answer in time", self.url),
                "check that it runs and is not overloaded; `toolgate doctor` on its machine says more",
            )
        };
        answered.map_err(late)?.map_err(|error| self.unreachable(&error))
    }

    /// One message of the protocol of agents' tools, or the stream of what changed; the answer is read as it comes.
    pub async fn exchange_mcp(
        &self,
        target: &str,
        headers: &[(String, String)],
        message: Option<&Value>,
    ) -> Result<Response, Unanswered> {
        let url = format!("{}{target}", self.url);
        let mut request = match message {
            Some(message) => {
                let accepted = "application/json, text/event-stream";
                let request = self.http.post(url).header(header::ACCEPT, accepted);
                request.header(header::CONTENT_TYPE, "application/json").body(message.to_string())
            }
            None => self.http.get(url).header(header::ACCEPT, "text/event-stream"),
        };
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.send().await.map_err(|error| {
            let failure = self.unreachable(&error);
            if error.is_connect() { Unanswered::NeverSent(failure) } else { Unanswered::Lost(failure) }
        })
    }

    pub async fn read(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > ANSWER_BYTES_MAX {
                return Err(Failure::unreachable(
                    format!("{} answers without end", self.url),
                    "check that it is a Toolgate server",
                ));
            }
        }
        Ok(bytes)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut causes = Vec::new();
        let mut next = std::error::Error::source(error);
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        let why = if error.is_timeout() {
            "it does not answer in time".to_owned()
        } else {
            causes.pop().unwrap_or_else(|| error.to_string())
        };
        if error.is_connect() || error.is_builder() {
            let distrusted = why.contains("ertificate") || why.contains("Issuer") || why.contains("EndEntity");
            let remedy = if distrusted {
                "have the server show a certificate of an authority that this machine trusts, or name that authority in SSL_CERT_FILE".to_owned()
            } else if self.is_here() {
                let address = self.url.split_once("://").map_or("", |(_, address)| address);
                format!(
                    "start a server there with `toolgate serve --listen {address}`, or leave --server out to work on a data folder"
                )
            } else {
                "check the address, and that the server runs there (`toolgate serve` on its machine)".to_owned()
            };
            return Failure::unreachable(format!("cannot reach {}: {why}", self.url), remedy);
        }
        Failure::unreachable(
            format!("the answer of {} was lost: {why}", self.url),
            "what was asked for may have happened: look first (`toolgate calls list`); a call with --request-id can be repeated safely",
        )
    }
}

fn checked(url: &str) -> Result<String, Failure> {
    let wrong = |why: &str| {
        Failure::usage(
            format!("`{url}` is not a server's address: {why}"),
            "write it as https://tools.example.com or http://127.0.0.1:8787",
        )
    };
    if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(wrong("it begins with neither https:// nor http://"));
    }
    let parsed = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(Failure::usage(
            "the server's address holds a user name or password",
            "give the key with --key-file or TOOLGATE_KEY",
        ));
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(wrong("it has more than a host and a port"));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_no_secret() {
        assert_eq!(checked("http://127.0.0.1:1/").unwrap(), "http://127.0.0.1:1");
        for url in ["127.0.0.1:8787", "ftp://x", "https://me:pw@x", "https://x/?a", "https://x#a", ""] {
            assert!(checked(url).is_err(), "{url}");
        }
        assert!(!checked("https://me:hunter2@x").unwrap_err().told().contains("hunter2"));
    }

    #[test]
    fn only_this_machine_may_see_a_key_in_clear() {
        let exposed = |url| Remote::new(url, "tg_x", None, Reached::Named).unwrap().is_exposed();
        assert!(exposed("http://tools.example.com"));
        assert!(!exposed("https://tools.example.com"));
        assert!(!exposed("http://127.0.0.1:8787"));
        assert!(!exposed("http://[::1]:8787"));
    }
}
