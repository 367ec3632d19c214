//! What code in a sandbox may ask of us: `fetch` and `secret`, and nothing else. The same for every kind that runs code.
//!
//! Invariant: code reaches only the hosts and methods that its definition lists, through the same way out as every other
//! request of the call.
//! Invariant: a secret is read by its name, and only one that the tool declares and its owner gave to this very code.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_contracts::runner::HostAccess;
use toolgate_egress::{Effect, HostList, Method, Redirects, Request, Sent, Url, header};
use toolgate_engine::{Outside, Permit};
use toolgate_sandbox::{HostCall, HostCalls, Network};

/// What one answer may hold: it is carried into the sandbox as JSON.
const FETCHED_BYTES_MAX: usize = 2 * 1024 * 1024;

/// In one run.
const ASKED_MAX: usize = 1000;

/// What the code may ask of us.
pub(crate) struct Host {
    outside: Outside,
    permit: Permit,
    hosts: Vec<HostAccess>,
    /// How many requests went out that may have an effect.
    wrote: Arc<AtomicUsize>,
    /// The secrets that the code has read.
    read: Mutex<BTreeSet<String>>,
    /// How often it asked.
    asked: AtomicUsize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fetch {
    url: String,
    method: String,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    body: Option<Value>,
    /// A body that need not be text.
    #[serde(default)]
    base64: Option<String>,
}

impl HostCalls for Host {
    fn call(&self, call: HostCall) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            if self.asked.fetch_add(1, Ordering::Relaxed) >= ASKED_MAX {
                return Err(format!("the code asked more than {ASKED_MAX} times"));
            }
            match call.name.as_str() {
                "fetch" => self.fetch(call.argument).await,
                "secret" => self.secret(&call.argument),
                other => {
                    Err(format!("there is no host call `{}`; there are `fetch` and `secret`", other.escape_debug()))
                }
            }
        })
    }
}

impl Host {
    /// The way out of code, which counts in `wrote` how many requests went out that may have an effect.
    pub fn through(outside: Outside, permit: Permit, hosts: Vec<HostAccess>, wrote: Arc<AtomicUsize>) -> Network {
        Network::Through(Arc::new(Self {
            outside,
            permit,
            hosts,
            wrote,
            read: Mutex::default(),
            asked: AtomicUsize::new(0),
        }))
    }

    fn secret(&self, name: &Value) -> Result<Value, String> {
        let name = name.as_str().unwrap_or_default();
        let secret = self.permit.secrets().get(name);
        let text = secret.and_then(|secret| secret.expose_text());
        let text = text.ok_or_else(|| format!("the tool has no secret `{}`", name.escape_debug()))?;
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        Ok(Value::from(text))
    }

    /// Code that has read a secret may send it anywhere in any form, so it goes only where all that it has read may go.
    fn check_secrets(&self, host: &str) -> Result<(), String> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let bound = read.iter().filter_map(|name| self.permit.secrets().get(name));
        match bound.into_iter().find(|secret| !secret.may_go_to(host)) {
            Some(secret) => Err(format!("fetch: the secret `{}` may not go to `{host}`", secret.name())),
            None => Ok(()),
        }
    }

    async fn fetch(&self, argument: Value) -> Result<Value, String> {
        let call = self.permit.call();
        let Fetch { url, method, headers, body, base64 } =
            serde_json::from_value(argument).map_err(|error| format!("fetch: {error}"))?;
        let url: Url = url.parse().map_err(|error| format!("fetch: `url`: {error}"))?;
        let method: Method = method.parse().map_err(|_| "fetch: `method` is none".to_owned())?;
        let admitted: Vec<&str> = self
            .hosts
            .iter()
            .filter(|access| access.methods.iter().any(|listed| listed.as_str() == method.as_str()))
            .map(|access| access.host.as_str())
            .collect();
        let list = HostList::parse(&admitted).map_err(|fault| fault.told().to_owned())?;
        let way = self.outside.way_of(call).map_err(|fault| fault.told().to_owned())?.within(list);
        self.check_secrets(url.host_str().unwrap_or_default())?;
        let mut request = Request::new(method, url);
        let writes = usize::from(request.effect == Effect::Write);
        // A redirect is a new choice of host, and it is the code's to make.
        request.redirects = Redirects::Return;
        request.timeout = call.timeout;
        for (name, value) in &headers {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let (name, value) = header(name, &value).map_err(|error| error.to_string())?;
            request.headers.insert(name, value);
        }
        request.body = match (base64, body) {
            (Some(encoded), _) => {
                let bytes = data_encoding::BASE64.decode(encoded.as_bytes());
                bytes.map_err(|_| "fetch: `base64` is none".to_owned())?.into()
            }
            (None, None | Some(Value::Null)) => toolgate_egress::Bytes::new(),
            (None, Some(Value::String(text))) => text.into(),
            (None, Some(value)) => value.to_string().into(),
        };
        // Counted before: whatever ends the code while this is under way must not find it uncounted.
        self.wrote.fetch_add(writes, Ordering::SeqCst);
        let response = self.outside.send(call, &way, request).await.map_err(|error| {
            if error.sent() == Sent::No {
                self.wrote.fetch_sub(writes, Ordering::SeqCst);
            }
            error.to_string()
        })?;
        let status = response.status.as_u16();
        let headers: Map<String, Value> = response
            .headers
            .iter()
            .map(|(name, value)| {
                (name.to_string(), Value::from(String::from_utf8_lossy(value.as_bytes()).into_owned()))
            })
            .collect();
        let bytes = response.bytes_max(FETCHED_BYTES_MAX).await.map_err(|error| error.to_string())?;
        Ok(match String::from_utf8(bytes.to_vec()) {
            Ok(text) => json!({"status": status, "headers": headers, "text": text}),
            Err(error) => {
                let base64 = data_encoding::BASE64.encode(error.as_bytes());
                json!({"status": status, "headers": headers, "base64": base64})
            }
        })
    }
}
