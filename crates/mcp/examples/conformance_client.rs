//! A client for the official conformance suite, made of what speaks with servers of others: it lists tools, calls those
//! that may be called, answers what is asked, and gets tokens with a browser that says yes to everything.
//!
//! The suite appends its server's address to the command. Deliberately absent: anything that a scenario has a name for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolgate_contracts::{Clock, Id, Opening, OpeningSpec, Rng, Scheme, TenantId};
use toolgate_egress::{
    Connector, EgressError, HeaderName, HeaderValue, Openings, Purpose, Request, Response, Url, Way,
};
use toolgate_mcp::oauth::{self, Answer, Client, Known, OauthError, Registering, Tokens, Wanting};
use toolgate_mcp::upstream::{
    Asked, Asker, Challenge, Era, Exchange, Key, LinkError, Outlet, Place, Settings, Upstream, Upstreams, Wanted,
};
use toolgate_mcp::wire::{RpcError, annotated};

type Failure = Box<dyn std::error::Error>;

/// The suite's own address of a document that it never fetches.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
const REDIRECT: &str = "http://127.0.0.1:3118/callback";
/// A server that wants more each time is not followed for ever.
const TRIES_MAX: usize = 3;
const ROUNDS_MAX: usize = 8;
const WITHIN: Duration = Duration::from_secs(30);

/// The connector, by a way that is open to where the suite's servers are.
struct Local(Connector);

impl Outlet for Local {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, EgressError>> {
        let list = opening(&request.url).into_iter().collect();
        let way = Way::new(Purpose::Tool, Arc::new(Openings { revision: 1, list }));
        Box::pin(async move { self.0.send(&way, request).await })
    }
}

/// This machine, at the port of an address.
fn opening(url: &Url) -> Option<Opening> {
    let host = url.host_str().filter(|host| matches!(*host, "localhost" | "127.0.0.1"))?;
    let spec = OpeningSpec {
        host: host.parse().ok()?,
        port: url.port_or_known_default()?,
        scheme: Scheme::Http,
        tenants: None,
        tools: None,
        reason: "the suite".to_owned(),
        expires_at: None,
    };
    Some(Opening { id: Id::new(&Clock::System, &Rng::System), spec })
}

/// The same, with the token that there is.
struct WithToken {
    direct: Local,
    tokens: Mutex<Option<Tokens>>,
}

impl Outlet for WithToken {
    fn send(&self, mut request: Request) -> BoxFuture<'_, Result<Response, EgressError>> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) =
            tokens.as_ref().and_then(|tokens| HeaderValue::from_str(&format!("Bearer {}", tokens.access_token)).ok())
        {
            request = request.with_secret(HeaderName::from_static("authorization"), value);
        }
        drop(tokens);
        self.direct.send(request)
    }
}

/// Accepts every form with what it proposes.
struct Defaults;

impl Asker for Defaults {
    fn ask(&self, asked: Asked) -> BoxFuture<'_, Result<Value, RpcError>> {
        Box::pin(std::future::ready(Ok(answered(&asked.method, &asked.params))))
    }
}

fn answered(method: &str, params: &Map<String, Value>) -> Value {
    match method {
        "elicitation/create" => {
            let form = params.get("requestedSchema").cloned().unwrap_or_default();
            json!({"action": "accept", "content": given(&form)})
        }
        "sampling/createMessage" => {
            json!({"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "none", "stopReason": "endTurn"})
        }
        _ => json!({"roots": []}),
    }
}

/// A value for everything that a schema names: what it proposes, or something of the type.
fn given(schema: &Value) -> Value {
    let members = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let one = |(name, member): (String, Value)| {
        let value =
            member.get("default").cloned().unwrap_or_else(|| match member.get("type").and_then(Value::as_str) {
                Some("number" | "integer") => json!(5),
                Some("boolean") => json!(true),
                Some("array") => json!([]),
                Some("object") => given(&member),
                _ => member.pointer("/enum/0").cloned().unwrap_or_else(|| json!("text")),
            });
        (name, value)
    };
    Value::Object(members.into_iter().map(one).collect())
}

struct Run {
    outlet: Arc<WithToken>,
    links: Upstreams,
    upstream: Arc<Upstream>,
    key: Key,
    url: Url,
    context: Value,
    clock: Clock,
    client: Option<Client>,
    tries: usize,
}

impl Run {
    async fn ask(
        &mut self,
        method: &str,
        params: &Map<String, Value>,
        annotated: &[(String, String)],
    ) -> Result<Value, Failure> {
        loop {
            let exchange =
                Exchange { asker: Some(Arc::new(Defaults)), annotated: annotated.to_vec(), ..Exchange::within(WITHIN) };
            let outlet: Arc<dyn Outlet> = Arc::clone(&self.outlet) as _;
            let asked = self.links.request(&self.key, &self.upstream, &outlet, method, params.clone(), exchange).await;
            match asked {
                Err(LinkError::AuthRequired { challenge, .. }) if self.tries < TRIES_MAX => {
                    self.tries += 1;
                    self.authorise(&challenge).await?;
                }
                other => return Ok(other?),
            }
        }
    }

    /// Gets a token, with a browser that says yes.
    async fn authorise(&mut self, challenge: &Challenge) -> Result<(), OauthError> {
        let text = |member: &str| self.context.get(member).and_then(Value::as_str);
        let outlet = &self.outlet.direct;
        let authority = oauth::discover(outlet, &self.url, challenge, None).await?;
        let before = self.outlet.tokens.lock().unwrap_or_else(PoisonError::into_inner).take();
        let had =
            before.as_ref().filter(|before| before.issuer == authority.issuer).and_then(|before| before.scope.clone());
        let scope = oauth::scope_for(&authority, challenge, None);
        let scope = scope.map(|scope| oauth::with_more(had.as_deref(), &scope));
        let known = Known {
            registered: text("client_id").map(|id| (id, text("client_secret"))),
            document: Some(DOCUMENT),
            before: self.client.as_ref(),
        };
        let registering = Registering { name: "toolgate", redirect: REDIRECT, scope: scope.as_deref() };
        let client = oauth::client_for(outlet, &authority, &known, &registering).await?;
        self.client = Some(client.clone());
        let now = self.clock.now();
        let tokens = if authority.authorization_endpoint.is_none() {
            oauth::by_secret(outlet, &authority, &client, scope.as_deref(), now).await?
        } else {
            let wanting = Wanting { client, redirect: REDIRECT, scope };
            let (page, attempt) = oauth::begin(&authority, wanting, &Rng::System, now)?;
            let answer = outlet.send(Request::get(page.clone())).await.map_err(OauthError::Egress)?;
            let back =
                answer.headers.get("location").and_then(|value| value.to_str().ok()).and_then(|at| page.join(at).ok());
            let back = back.ok_or_else(|| OauthError::Wrong(format!("the page answers {}", answer.status)))?;
            oauth::finish(outlet, &attempt, &Answer::of(&back), now).await?
        };
        *self.outlet.tokens.lock().unwrap_or_else(PoisonError::into_inner) = Some(tokens);
        Ok(())
    }

    /// A call to its end, whatever is asked on the way.
    async fn call(&mut self, tool: &Value, arguments: Value) -> Result<Value, Failure> {
        let headers = annotated(&tool["inputSchema"]).unwrap_or_default();
        let mut params = Map::new();
        params.insert("name".into(), tool["name"].clone());
        params.insert("arguments".into(), arguments);
        let mut result = Value::Null;
        for _ in 0..ROUNDS_MAX {
            result = self.ask("tools/call", &params, &headers).await?;
            if result["resultType"] != json!("input_required") {
                break;
            }
            let asked = result["inputRequests"].as_object().cloned().unwrap_or_default();
            let answers = asked.into_iter().map(|(name, one)| {
                let params = one["params"].as_object().cloned().unwrap_or_default();
                (name, answered(one["method"].as_str().unwrap_or_default(), &params))
            });
            params.insert("inputResponses".into(), Value::Object(answers.collect()));
            match result.get("requestState") {
                Some(state) => params.insert("requestState".into(), state.clone()),
                None => params.remove("requestState"),
            };
        }
        Ok(result)
    }
}

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "the suite tells its client what there is by variables")]
async fn main() -> Result<(), Failure> {
    let url = Url::parse(&std::env::args().next_back().unwrap_or_default())?;
    let context: Value =
        serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default()).unwrap_or_default();
    let era = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").ok();
    let clock = Clock::System;
    let connector = Connector::new(toolgate_egress::Settings::system(clock.clone()));
    let outlet = Arc::new(WithToken { direct: Local(connector), tokens: Mutex::default() });
    let mut upstream = Upstream::new(Place::Http { url: url.clone(), headers: Vec::new() });
    let known =
        toolgate_mcp::wire::Revision::ALL.into_iter().find(|revision| Some(revision.as_str()) == era.as_deref());
    upstream.era = known.map_or(Era::Auto, Era::Only);
    upstream.declared = json!({"elicitation": {"form": {"applyDefaults": true}}, "sampling": {}, "roots": {}})
        .as_object()
        .cloned()
        .unwrap_or_default();
    let key = Key { tenant: TenantId::SYSTEM, upstream: "suite".to_owned(), credentials: None };
    let links = Upstreams::new(Settings::new(clock.clone(), None));
    let upstream = Arc::new(upstream);
    let mut run = Run { outlet, links, upstream, key, url, context, clock, client: None, tries: 0 };
    let listed = run.ask("tools/list", &Map::new(), &[]).await?;
    let tools = listed["tools"].as_array().cloned().unwrap_or_default();
    // What would have to be sent in headers that there cannot be is not called.
    let tools: Vec<Value> = tools.into_iter().filter(|tool| annotated(&tool["inputSchema"]).is_some()).collect();
    // What belongs to no request comes by a stream of its own, where there are sessions. It is open within a moment.
    let outlet: Arc<dyn Outlet> = Arc::clone(&run.outlet) as _;
    let link = run.links.link(&run.key, &run.upstream, &outlet).await?;
    let listening = link.listen(Wanted { tools: true, ..Wanted::default() });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let named = run.context["toolCalls"].as_array().cloned().unwrap_or_default();
    if named.is_empty() {
        for tool in &tools {
            run.call(tool, given(&tool["inputSchema"])).await?;
        }
    }
    for call in named {
        if let Some(tool) = tools.iter().find(|tool| tool["name"] == call["name"]) {
            run.call(tool, call["arguments"].clone()).await?;
        }
    }
    drop((listening, link));
    run.links.close().await;
    Ok(())
}
