//! The kinds `http` and `openapi`: a declared request. What goes out is made of the definition and the arguments ([`request`]), sent
//! through the connector, and what comes back is read, mapped and, where it fails, told in the taxonomy ([`answer`]).
//!
//! Invariant: the arguments fill places in path segments, query values, header values and the body; they never choose
//! scheme, host, port, method or the name of a header.
//! Invariant: the secret goes out only to a host that its owner lets it go to, and not beyond its origin.

mod answer;
mod pages;
pub(crate) mod request;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolgate_contracts::{Definition, ErrorCode, ToolError};
use toolgate_egress::{Request, Response, Way};
use toolgate_engine::{Call, Outcome, Outside, Permit, Runner};

pub use self::answer::{Answer, Body, attachment, unread};
pub use self::request::with_secret;

use self::request::Declared;
use crate::compiled::Compiled;
pub use crate::failure::Failure;

pub struct Requests {
    outside: Outside,
    known: Compiled<Declared>,
}

impl Requests {
    pub fn new(outside: Outside) -> Self {
        Self { outside, known: Compiled::new() }
    }

    fn declared(&self, call: &Call) -> Result<Arc<Declared>, ToolError> {
        self.known.of(&call.tool, || Declared::read(&call.tool.definition))
    }

    async fn exchange(&self, permit: &Permit) -> Result<Outcome, Failure> {
        let call = permit.call();
        let declared = self.declared(call)?;
        let way = self.outside.way_of(call).map_err(|fault| unavailable(&fault))?;
        let request = declared.request(call, permit.secrets())?;
        let trip = Trip { outside: &self.outside, call, way: &way };
        if let Some(pages) = &declared.pages {
            return pages::all(&trip, &declared, pages, request).await;
        }
        let effect = request.effect;
        let answer = trip.ask(request).await?;
        answer::outcome(&declared, call, answer, effect).await
    }
}

/// Where one call's requests go out.
pub struct Trip<'a> {
    pub outside: &'a Outside,
    pub call: &'a Call,
    pub way: &'a Way,
}

impl Trip<'_> {
    /// Sends a request and reads the answer to its end, or says what its status means.
    pub async fn ask(&self, request: Request) -> Result<Answer, Failure> {
        let effect = request.effect;
        answer::read(self.send(request).await?, effect).await
    }

    /// The request as it would go out, and whether it would be refused; `headers` has each secret by its name.
    pub fn plan(&self, request: &Request, headers: Map<String, Value>) -> Value {
        let refused = self.outside.connector.judge(self.way, &request.url).err();
        let mut plan = json!({
            "would_run": refused.is_none(),
            "method": request.method.as_str(),
            "url": request.url.as_str(),
            "headers": headers,
        });
        if !request.body.is_empty() {
            plan["body"] = serde_json::from_slice(&request.body)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&request.body).into_owned()));
        }
        if let Some(refused) = refused {
            plan["refused"] = refused.to_string().into();
            plan["rule"] = refused.rule().as_str().into();
            if let Some(host) = refused.host() {
                plan["host"] = host.into();
            }
        }
        plan
    }

    async fn send(&self, request: Request) -> Result<Response, Failure> {
        let effect = request.effect;
        let sent = self.outside.send(self.call, self.way, request).await;
        sent.map_err(|error| Failure::of(error, effect))
    }
}

impl Runner for Requests {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.exchange(&permit).await.unwrap_or_else(Outcome::from) })
    }

    /// The request as it would go out, each secret by its name.
    fn plan<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let declared = self.declared(call)?;
            let way = self.outside.way_of(call).map_err(|fault| unavailable(&fault))?;
            let planned = declared.planned(call)?;
            let trip = Trip { outside: &self.outside, call, way: &way };
            let mut plan = trip.plan(&planned, declared.shown_headers(&planned));
            plan["url"] = declared.shown_url(&planned).into();
            Ok(plan)
        })
    }

    fn ready<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(Declared::read(definition).map(drop)))
    }
}

/// That no way out could be made for a call.
pub fn unavailable(fault: &toolgate_contracts::Fault) -> ToolError {
    let message = format!("{}; {}", fault.told(), fault.remedy());
    ToolError::because(ErrorCode::PolicyDenied, "egress", message)
}
