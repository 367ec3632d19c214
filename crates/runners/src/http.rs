//! The kind `http`: a declared request. What goes out is made of the definition and the arguments ([`request`]), sent
//! through the connector, and what comes back is read, mapped and, where it fails, told in the taxonomy ([`answer`]).
//!
//! Invariant: the arguments fill places in path segments, query values, header values and the body; they never choose
//! scheme, host, port, method or the name of a header.
//! Invariant: the secret goes out only to a host that its owner lets it go to, and not beyond its origin.

mod answer;
mod pages;
mod request;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolgate_contracts::{Definition, ErrorCode, ToolError};
use toolgate_egress::{Effect, EgressError, Request, Response, Sent, Way};
use toolgate_engine::{Call, Outcome, Outside, Permit, Runner};

use self::request::Declared;
use crate::compiled::Compiled;

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
        let answer = answer::read(trip.send(request).await?, effect).await?;
        answer::outcome(&declared, call, answer, effect).await
    }
}

/// Where one call's requests go out.
struct Trip<'a> {
    outside: &'a Outside,
    call: &'a Call,
    way: &'a Way,
}

impl Trip<'_> {
    async fn send(&self, request: Request) -> Result<Response, Failure> {
        let effect = request.effect;
        let sent = self.outside.send(self.call, self.way, request).await;
        sent.map_err(|error| Failure::of(error, effect))
    }
}

/// Why there is no result, and whether something may have happened all the same.
enum Failure {
    Told(ToolError),
    /// A write went out, and no answer came.
    Unknown(String),
}

impl Failure {
    fn of(error: EgressError, effect: Effect) -> Self {
        match (effect, error.sent()) {
            (Effect::Write, Sent::Perhaps) => Self::Unknown(error.to_string()),
            (Effect::Read, _) | (_, Sent::No) => Self::Told(error.into()),
        }
    }
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::Told(error)
    }
}

impl Runner for Requests {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            match self.exchange(&permit).await {
                Ok(outcome) => outcome,
                Err(Failure::Told(error)) => Outcome::Failed(error),
                Err(Failure::Unknown(why)) => Outcome::Unknown(why),
            }
        })
    }

    /// The request as it would go out, each secret by its name.
    fn plan<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let declared = self.declared(call)?;
            let way = self.outside.way_of(call).map_err(|fault| unavailable(&fault))?;
            let planned = declared.planned(call)?;
            let refused = self.outside.connector.judge(&way, &planned.url).err().map(|error| error.to_string());
            let mut plan = json!({
                "would_run": refused.is_none(),
                "method": planned.method.as_str(),
                "url": planned.url.as_str(),
                "headers": declared.shown_headers(&planned),
            });
            if !planned.body.is_empty() {
                plan["body"] = serde_json::from_slice(&planned.body)
                    .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&planned.body).into_owned()));
            }
            if let Some(refused) = refused {
                plan["refused"] = Value::String(refused);
            }
            Ok(plan)
        })
    }

    fn ready<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(Declared::read(definition).map(drop)))
    }
}

fn unavailable(fault: &toolgate_contracts::Fault) -> ToolError {
    let message = format!("{}; {}", fault.told(), fault.remedy());
    ToolError::because(ErrorCode::PolicyDenied, "egress", message)
}
