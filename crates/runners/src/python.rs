//! The kind `python`: a tenant's code in the sandbox, its input as the dictionary `input`, its result as JSON.
//!
//! Invariant: code reaches the world only by asking for it (`fetch`), and only the hosts and methods that its definition
//! lists, through the same way out as every other request of the call.
//! Invariant: a secret is read by its name (`secret`), and only one that the tool declares and its owner gave to this
//! very code.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_contracts::runner::{HostAccess, Python};
use toolgate_contracts::{Definition, ErrorCode, ToolError};
use toolgate_egress::{Effect, HostList, Method, Redirects, Request, Sent, Url, header};
use toolgate_engine::runner::{Done, Need};
use toolgate_engine::{Call, Outcome, Outside, Permit, Runner};
use toolgate_sandbox::{HostCall, HostCalls, Limits, Network, Offer, Sandbox, SandboxRequest, SandboxResult};

use crate::expression::other_kind;

/// What one answer may hold: it is carried into the sandbox as JSON.
const FETCHED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// What of standard output goes with a result.
const PRINTED_CHARS_MAX: usize = 16 * 1024;

pub struct Snippets {
    sandbox: Sandbox,
    outside: Outside,
}

impl Snippets {
    pub fn new(sandbox: Sandbox, outside: Outside) -> Self {
        Self { sandbox, outside }
    }

    async fn execute(&self, permit: Permit) -> Result<Outcome, ToolError> {
        let call = Arc::clone(permit.call());
        let wrote = Arc::new(AtomicUsize::new(0));
        let ended = self.ended(permit, &call, &wrote).await;
        match ended {
            // What it sent may have been acted on: a failure would be tried again.
            Err(error) if wrote.load(Ordering::SeqCst) > 0 => Ok(Outcome::Unknown(error.message)),
            ended => ended,
        }
    }

    async fn ended(&self, permit: Permit, call: &Arc<Call>, wrote: &Arc<AtomicUsize>) -> Result<Outcome, ToolError> {
        let python = python(&call.tool.definition)?;
        let limits = Limits { wall: call.timeout, cpu: call.timeout.min(Limits::default().cpu), ..Limits::default() };
        let request = SandboxRequest {
            code: python.code.clone(),
            input: serde_json::to_vec(call.input.as_ref()).unwrap_or_default(),
            limits,
            network: self.network(permit, python, wrote),
            tier: call.tool.definition.sandbox.map(Into::into),
            output: None,
        };
        // Dropping what runs kills it, so cancelling needs no more than that.
        let result = tokio::select! {
            result = self.sandbox.run(&request) => result?,
            () = call.cancel.cancelled() => {
                return Err(ToolError::because(ErrorCode::PolicyDenied, "cancelled", "the call was cancelled"));
            }
        };
        finished(call, result, &limits).await
    }

    fn network(&self, permit: Permit, python: &Python, wrote: &Arc<AtomicUsize>) -> Network {
        if python.hosts.is_empty() && permit.call().tool.definition.secrets.is_empty() {
            return Network::Denied;
        }
        Network::Through(Arc::new(Host {
            outside: self.outside.clone(),
            permit,
            hosts: python.hosts.clone(),
            wrote: Arc::clone(wrote),
            read: Mutex::default(),
        }))
    }
}

impl Runner for Snippets {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            match self.execute(permit).await {
                Ok(outcome) => outcome,
                Err(error) => error.into(),
            }
        })
    }

    /// A machine without a sandbox is well all the same: it refuses what would need one.
    fn needs(&self) -> BoxFuture<'_, Vec<Need>> {
        Box::pin(async move {
            let told = |offer: &Offer| match &offer.refused {
                None => format!("`{}` held {} attempts to get out", offer.tier, offer.proofs.len()),
                Some(why) => format!("`{}`: {why}", offer.tier),
            };
            let offers = self.sandbox.offers().await;
            let found: Vec<String> = offers.iter().map(told).collect();
            vec![Need { name: "sandbox", found: found.join("; ") }]
        })
    }

    fn ready<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            python(definition)?;
            let wanted = definition.sandbox.map(Into::into);
            let offers = self.sandbox.offers().await;
            if offers.iter().any(|offer| offer.is_open() && wanted.is_none_or(|wanted| offer.tier >= wanted)) {
                return Ok(());
            }
            let why: Vec<String> = offers.iter().map(ToString::to_string).collect();
            let message = format!("no sandbox on this machine is enough: {}", why.join("; "));
            Err(ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message))
        })
    }
}

fn python(definition: &Definition) -> Result<&Python, ToolError> {
    match &definition.runner {
        toolgate_contracts::Runner::Python(python) => Ok(python),
        _ => Err(other_kind(definition, "python")),
    }
}

/// What it printed is shown as output, beside the value that it returned.
async fn finished(call: &Call, result: SandboxResult, limits: &Limits) -> Result<Outcome, ToolError> {
    let printed: String = [&result.stdout, &result.stderr]
        .iter()
        .flat_map(|bytes| String::from_utf8_lossy(bytes).chars().collect::<Vec<_>>())
        .take(PRINTED_CHARS_MAX)
        .collect();
    if !printed.is_empty() {
        call.output.append(&printed).await;
    }
    match result.outcome(limits) {
        Ok(value) => {
            Ok(Outcome::Done(Done { result: toolgate_contracts::ToolResult::structured(value), ..Done::default() }))
        }
        Err(error) if printed.is_empty() => Err(error),
        Err(error) => Err(error.with("printed", printed)),
    }
}

/// What the code may ask of us.
struct Host {
    outside: Outside,
    permit: Permit,
    hosts: Vec<HostAccess>,
    /// How many requests went out that may have an effect.
    wrote: Arc<AtomicUsize>,
    /// The secrets that the code has read.
    read: Mutex<BTreeSet<String>>,
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
}

impl HostCalls for Host {
    fn call(&self, call: HostCall) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
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
        let Fetch { url, method, headers, body } =
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
        request.body = match body {
            None | Some(Value::Null) => toolgate_egress::Bytes::new(),
            Some(Value::String(text)) => text.into(),
            Some(value) => value.to_string().into(),
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
