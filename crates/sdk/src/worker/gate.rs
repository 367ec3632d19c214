//! The server, as a worker speaks with it: requests, their three kinds of ends, and patience.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::{Fault, FaultKind, Rng, TenantId, json as strict};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than any request here waits on purpose.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(70);
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// After this a lease is over, and with it the right to report.
const REPORT_MAX: Duration = Duration::from_mins(1);
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Work, as the server hands it out. Members that are not named here are for others.
#[derive(Deserialize)]
pub(super) struct Leased {
    pub lease_id: String,
    pub call: LeasedCall,
    pub context: Context,
}

#[derive(Deserialize)]
pub(super) struct LeasedCall {
    pub name: String,
    pub call_id: String,
    pub input: Value,
}

#[derive(Deserialize)]
pub(super) struct Context {
    pub tenant_id: TenantId,
    pub principal: String,
    #[serde(default)]
    pub agent_id: Option<String>,
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
}

/// How a request ended.
pub(super) enum Answer {
    Value(Value),
    /// 204: there is none.
    Nothing,
    /// The server said no.
    Refused(Fault),
    /// Nobody knows whether the server heard it.
    Unreached(Fault),
}

pub(super) struct Gate {
    http: reqwest::Client,
    url: String,
}

impl Gate {
    pub fn new(url: &str, key: &str) -> Result<Self, Fault> {
        // The second of two installations is told that there is one already, which is all we want.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut bearer = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
            Fault::invalid("the key holds characters that no key has", "give the key as it was printed")
        })?;
        bearer.set_sensitive(true);
        let http = reqwest::Client::builder()
            .default_headers(HeaderMap::from_iter([(AUTHORIZATION, bearer)]))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            // A redirect or a proxy would show the key to somebody who was not named.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("toolgate-sdk/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(Fault::internal)?;
        Ok(Self { http, url: format!("{url}/api/v1") })
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        let unreached = |error: reqwest::Error| {
            let told = format!("{} cannot be reached: {}", self.url, cause(&error));
            Answer::Unreached(Fault::new(
                FaultKind::Unavailable,
                told,
                "check that it runs and that its address is right",
            ))
        };
        let response = match self.http.post(format!("{}/{path}", self.url)).json(body).send().await {
            Ok(response) => response,
            Err(error) => return unreached(error),
        };
        let status = response.status().as_u16();
        let bytes = match response.bytes().await {
            Ok(bytes) => bytes,
            Err(error) => return unreached(error),
        };
        match (status, strict::read(&bytes, ANSWER_BYTES_MAX)) {
            (204, _) => Answer::Nothing,
            (200..=299, Ok(value)) => Answer::Value(value),
            (502 | 504, _) => Answer::Unreached(refusal(status, &Value::Null)),
            (_, problem) => Answer::Refused(refusal(status, &problem.unwrap_or_default())),
        }
    }

    /// Reports once: a report that was not acknowledged is sent again, and that it is then refused as the second one
    /// means that the first came through.
    pub async fn report(&self, path: &str, report: &Value) {
        let begun = Instant::now();
        let mut backoff = Backoff::default();
        let mut report = report.clone();
        let mut sent_again = false;
        while begun.elapsed() < REPORT_MAX {
            match self.post(path, &report).await {
                Answer::Value(_) | Answer::Nothing => return,
                Answer::Refused(fault) if fault.kind() == FaultKind::Conflict => {
                    if !sent_again {
                        tracing::warn!("a report came too late: {}", fault.told());
                    }
                    return;
                }
                Answer::Refused(fault) if matches!(fault.kind(), FaultKind::Invalid | FaultKind::TooLarge) => {
                    tracing::warn!("a report was refused: {}; {}", fault.told(), fault.remedy());
                    // What it did is done, whether or not its result can be kept.
                    let bare = json!({"status": "completed"});
                    if report["status"] != "completed" || report == bare {
                        return;
                    }
                    report = bare;
                }
                Answer::Refused(fault) | Answer::Unreached(fault) => {
                    tracing::warn!("a report was not heard: {}", fault.told());
                    sent_again = true;
                    backoff.wait(&CancellationToken::new()).await;
                }
            }
        }
    }
}

fn refusal(status: u16, problem: &Value) -> Fault {
    let kind = match status {
        401 => FaultKind::Unauthenticated,
        403 => FaultKind::Forbidden,
        404 => FaultKind::NotFound,
        409 => FaultKind::Conflict,
        413 => FaultKind::TooLarge,
        429 => FaultKind::RateLimited,
        400..=499 => FaultKind::Invalid,
        _ => FaultKind::Unavailable,
    };
    let text = |member: &str| problem[member].as_str().map(str::to_owned);
    let told = text("detail").unwrap_or_else(|| format!("the server answered with status {status}"));
    let told = problem["details"]["findings"].as_array().into_iter().flatten().fold(told, |told, finding| {
        let word = |member: &str| finding[member].as_str().unwrap_or_default();
        format!("{told}\n  {}: {}", word("pointer"), word("message"))
    });
    Fault::new(kind, told, text("remedy").unwrap_or_else(|| "check that the address is a Toolgate server's".to_owned()))
}

/// The innermost reason: the outer ones repeat the address.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// Twice as long each time, and never all workers at once.
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(BACKOFF_FIRST)
    }
}

impl Backoff {
    pub async fn wait(&mut self, stopping: &CancellationToken) {
        let [byte] = Rng::System.bytes::<1>();
        let most = self.0;
        self.0 = (most * 2).min(BACKOFF_MAX);
        let wait = most.mul_f64(0.5 + f64::from(byte) / 512.0);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stopping.cancelled() => {}
        }
    }
}
