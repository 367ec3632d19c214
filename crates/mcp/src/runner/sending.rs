//! One call on one link: sent, asked back about as often as the server may, and answered.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use toolgate_contracts::ToolError;
use toolgate_contracts::runner::Mcp;
use toolgate_contracts::upstream::UpstreamAsks;
use toolgate_egress::{Effect, EgressError, Request, Response, Sent};
use toolgate_engine::{Call, Outcome, Outside};

use super::keeper::{Authorised, Holder, Keeper};
use super::questions::{self, Questions};
use super::{HEARD_MAX, answer, beside, named};
use crate::upstream::{Asker, Exchange, Link, LinkError, Outlet};
use crate::way::Way;
use crate::wire::{Notification, RpcError, annotated, code};

/// How often a server may ask for more before it answers.
const ROUNDS_MAX: u32 = 10;

/// The link had ended and nothing had gone out.
pub struct Unsent;

pub struct Sending<'a> {
    pub call: &'a Arc<Call>,
    pub link: &'a Arc<Link>,
    pub runner: &'a Mcp,
    pub questions: &'a Arc<Questions>,
    pub way: Option<&'a Arc<Way>>,
    /// Whose tokens go along.
    pub bears: Option<(&'a Arc<Keeper>, &'a Arc<Holder>)>,
}

impl Sending<'_> {
    pub async fn send(&self, outside: &Outside, left: Duration) -> Result<Outcome, Unsent> {
        let Self { call, link, runner, questions, way, bears } = self;
        let server = questions.server.as_str();
        let until = Instant::now() + left;
        let (method, mut params) = beside::request(&runner.tool, &call.input);
        params.insert("_meta".into(), json!({"progressToken": call.id}));
        if let Some(level) = way.and_then(|way| way.log_level) {
            link.hear_logs(level).await;
        }
        let may_ask = questions.asks != UpstreamAsks::default();
        let mut outlet: Arc<dyn Outlet> = Arc::new(OfCall { outside: outside.clone(), call: Arc::clone(call) });
        if let Some((keeper, holder)) = bears {
            outlet = Arc::new(Authorised { inner: outlet, keeper: Arc::clone(keeper), holder: Arc::clone(holder) });
        }
        for round in 1.. {
            let (heard, hearing) = mpsc::channel(HEARD_MAX);
            let exchange = Exchange {
                cancel: call.cancel.clone(),
                // That a resource is only read is the protocol's word; of a tool the operator's counts.
                effect: if self.only_reads() { Effect::Read } else { Effect::Write },
                heard: Some(heard),
                asker: may_ask.then(|| Arc::clone(questions) as Arc<dyn Asker>),
                capabilities: Some(questions::declared(questions.asks, way.map(AsRef::as_ref))),
                log_level: way.and_then(|way| way.log_level).map(|level| level.as_str().to_owned()),
                annotated: annotated(&call.tool.definition.input_schema).unwrap_or_default(),
                outlet: Some(Arc::clone(&outlet)),
                ..Exchange::within(until.saturating_duration_since(Instant::now()))
            };
            let asked = Box::pin(self.heard(link.request(method, params.clone(), exchange), hearing)).await;
            let wanted = match asked {
                Ok(Value::Object(result)) if is_asking(&result) => result,
                Ok(Value::Object(result)) if beside::is_beside(&runner.tool) => {
                    return Ok(Outcome::structured(beside::result(result)));
                }
                Ok(result) => return Ok(answer::outcome(server, result)),
                Err(LinkError::Closed { sent: Sent::No, .. }) if round == 1 => return Err(Unsent),
                Err(error) => match addresses(&error) {
                    Some(asking) if may_ask => asking,
                    _ => return Ok(self.failed(error)),
                },
            };
            if round >= ROUNDS_MAX {
                return Ok(questions.refusal(&format!("it has asked {ROUNDS_MAX} times")).into());
            }
            let requests = wanted.get("inputRequests").and_then(Value::as_object).cloned().unwrap_or_default();
            let answers = tokio::select! {
                answers = questions.answers(&requests) => answers,
                () = call.cancel.cancelled() => return Ok(ToolError::cancelled().into()),
                () = tokio::time::sleep_until(until) => Err(questions.refusal("nobody answered in the time that the call has")),
            };
            let is_address = wanted.get(ADDRESSES) == Some(&Value::Bool(true));
            match answers {
                // An older server takes being asked again for a yes.
                Ok(answers) if is_address && answers.values().any(|answer| answer["action"] != "accept") => {
                    return Ok(questions.refusal("it was declined").into());
                }
                Ok(answers) => {
                    params.insert("inputResponses".into(), answers.into());
                }
                Err(error) => return Ok(error.into()),
            }
            // Byte for byte as it came: it is the server's own.
            match wanted.get("requestState") {
                Some(state) => params.insert("requestState".into(), state.clone()),
                None => params.shift_remove("requestState"),
            };
            if is_address {
                // An older server knows of the answer by itself.
                params.shift_remove("inputResponses");
            }
            if requests.is_empty() {
                // It only wants to be asked again; not at once.
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        Ok(questions.refusal("it asks without end").into())
    }

    /// Waits for an answer, and passes on what is said meanwhile: all of it before the answer.
    async fn heard(
        &self,
        asking: impl Future<Output = Result<Value, LinkError>>,
        mut hearing: mpsc::Receiver<Notification>,
    ) -> Result<Value, LinkError> {
        tokio::pin!(asking);
        let asked = loop {
            tokio::select! {
                biased;
                Some(notification) = hearing.recv() => self.pass(notification).await,
                asked = &mut asking => break asked,
            }
        };
        while let Ok(notification) = hearing.try_recv() {
            self.pass(notification).await;
        }
        asked
    }

    /// Without what the server was given in secret, and without what nobody sees.
    async fn pass(&self, mut notification: Notification) {
        let Ok(redactor) = self.questions.redactor() else { return };
        let params = redactor.redact_json(Value::Object(notification.params));
        notification.params = match questions::seen(params) {
            Value::Object(params) => params,
            _ => return,
        };
        if notification.method == "notifications/progress"
            && let Some(message) = notification.params.get("message").and_then(Value::as_str)
        {
            self.call.output.append(format!("{message}\n")).await;
        }
        if let Some(way) = self.way {
            way.tell(notification);
        }
    }

    fn only_reads(&self) -> bool {
        self.call.is_effect_free() || beside::is_beside(&self.runner.tool)
    }

    fn failed(&self, error: LinkError) -> Outcome {
        let server = self.questions.server.as_str();
        match error {
            error if error.sent() == Sent::Perhaps && !self.only_reads() => {
                Outcome::Unknown(format!("`{server}`: {error}; whether the call took effect is not known"))
            }
            LinkError::Cancelled { .. } => ToolError::cancelled().into(),
            LinkError::Rpc(answered) => {
                let required = answered.data.as_ref().and_then(|data| data.get("requiredCapabilities")).cloned();
                let required = required.filter(|_| answered.code == code::MISSING_CAPABILITY);
                let error = named(server, LinkError::Rpc(answered).into());
                match required {
                    Some(required) => error.with("required_capabilities", required).into(),
                    None => error.into(),
                }
            }
            error => named(server, error.into()).into(),
        }
    }
}

fn is_asking(result: &Map<String, Value>) -> bool {
    result.get("resultType").and_then(Value::as_str) == Some("input_required")
}

/// Marks what was made of an error.
const ADDRESSES: &str = "addresses";

/// What an older server says that wants addresses opened before it is asked again, in the words of the newer ones.
fn addresses(error: &LinkError) -> Option<Map<String, Value>> {
    let LinkError::Rpc(RpcError { code: code::OPEN_ADDRESS, data: Some(data), .. }) = error else { return None };
    let mut requests = Map::new();
    for (index, wanted) in data.get("elicitations")?.as_array()?.iter().enumerate() {
        let mut params = wanted.as_object()?.clone();
        params.insert("mode".into(), "url".into());
        requests.insert(format!("address-{index}"), json!({"method": "elicitation/create", "params": params}));
    }
    let mut asking = Map::new();
    asking.insert("inputRequests".into(), requests.into());
    asking.insert(ADDRESSES.into(), true.into());
    Some(asking)
}

/// The way out of one call.
struct OfCall {
    outside: Outside,
    call: Arc<Call>,
}

impl Outlet for OfCall {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, EgressError>> {
        Box::pin(async move {
            let way = self.outside.way_of(&self.call).map_err(|fault| EgressError::no_way(&fault))?;
            self.outside.send(&self.call, &way, request).await
        })
    }
}
