//! A tenant with one tool whose runner each test sets, a way out that is open to one server on loopback, and that server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::secret::SecretAllowed;
use toolgate_contracts::{
    Caller, Clock, Definition, OpeningSpec, Principal, Rng, Role, Scheme, Slug, TenantId, Timestamp, ToolError,
    json as strict,
};
use toolgate_engine::runner::Done;
use toolgate_engine::{Call, Outcome, Outside, testing};
use toolgate_registry::commands::{Builtins, CodeTool, Registry};
use toolgate_store::testing::{every_store, tenant as tenant_row};
use toolgate_store::{Change, Store};

const TOOL: &str = "---
name: tried
version: 1.0.0
description: What a test makes of it.
egress_class: write
input_schema: { type: object }
runner: { kind: http, method: POST, url: \"https://a.test/\" }
---
";

pub struct World {
    pub outside: Outside,
    pub tenant: TenantId,
    slug: Slug,
    clock: Clock,
    rng: Rng,
    registry: Arc<Registry>,
}

pub async fn every_world(test: impl AsyncFn(World)) {
    every_store(async |store| test(World::open(store).await).await).await;
}

impl World {
    async fn open(store: Store) -> Self {
        let clock = Clock::manual(Timestamp::from_millis(1_794_736_800_000));
        let rng = Rng::seeded(7);
        let tenant = TenantId::new(&clock, &rng);
        for (id, slug) in [(TenantId::SYSTEM, "system"), (tenant, "acme")] {
            let mut change = Change::new(id);
            change.insert_tenant(&tenant_row(id, slug, clock.now()));
            store.commit(change).await.unwrap();
        }
        let builtins = Builtins { names: &[], floor: |_| None };
        let registry = Registry::open(store.clone(), clock.clone(), rng.clone(), builtins).await.unwrap();
        let tool = CodeTool { file: "TOOL.md", text: TOOL.as_bytes() };
        registry.publish_code_tools(Box::leak(Box::new([tool]))).await.unwrap();
        let registry = Arc::new(registry);
        let outside = Outside::new(Arc::clone(&registry), store, clock.clone(), rng.clone());
        Self { outside, tenant, slug: "acme".parse().unwrap(), clock, rng, registry }
    }

    /// Opens a host and port of this machine, as an operator would.
    pub async fn open_port(&self, port: u16) {
        let caller = Caller {
            tenant: TenantId::SYSTEM,
            tenant_slug: "system".parse().unwrap(),
            principal: Principal::Local(0),
            display_name: "operator".into(),
            permissions: Role::Operator.permissions().into(),
            roles: Arc::new([Role::Operator]),
            agent: None,
            credential: Credential::LocalFolder,
            token: None,
        };
        let spec = OpeningSpec {
            host: "127.0.0.1".parse().unwrap(),
            port,
            scheme: Scheme::Http,
            tenants: None,
            tools: None,
            reason: "a test".into(),
            expires_at: None,
        };
        self.registry.open_host(&caller, spec).await.unwrap();
    }

    pub fn call(&self, runner: &Value, input: Value) -> Call {
        self.call_of(runner, input, |_| {})
    }

    pub fn call_of(&self, runner: &Value, input: Value, change: impl FnOnce(&mut Definition)) -> Call {
        let snapshot = self.registry.snapshot();
        let tool = snapshot.tenant(self.tenant).unwrap().resolve(&"tried".parse().unwrap(), "2026-11-15").unwrap();
        let mut call = testing::call(self.tenant, self.slug.clone(), tool, input, &self.clock, &self.rng);
        let mut definition = Definition::clone(&call.tool.definition);
        definition.runner = serde_json::from_value(runner.clone()).unwrap();
        change(&mut definition);
        call.tool.behaviour_digest = strict::digest(&serde_json::to_value(&definition).unwrap());
        call.tool.definition = Arc::new(definition);
        call
    }
}

/// The hosts to which a secret may go.
pub fn to_hosts(hosts: &[&str]) -> SecretAllowed {
    SecretAllowed { hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(), ..SecretAllowed::default() }
}

#[track_caller]
pub fn done(outcome: Outcome) -> Done {
    match outcome {
        Outcome::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn failed(outcome: Outcome) -> ToolError {
    match outcome {
        Outcome::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

/// Keeps requests, answers by a function of the request.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub async fn start(reply: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let (reply, requests) = (Arc::new(reply), Arc::clone(&server.requests));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (reply, requests) = (Arc::clone(&reply), Arc::clone(&requests));
                tokio::spawn(async move {
                    let mut read = Vec::new();
                    while stream.read_buf(&mut read).await.is_ok_and(|read| read > 0) {
                        let text = String::from_utf8_lossy(&read).into_owned();
                        if !is_whole(&text) {
                            continue;
                        }
                        requests.lock().unwrap().push(text.clone());
                        let answer = reply(&text);
                        // An empty answer is a connection that breaks.
                        if answer.is_empty() || stream.write_all(&answer).await.is_err() {
                            return;
                        }
                        read.clear();
                    }
                });
            }
        });
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn is_whole(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(|length| length.trim().parse()))
        .unwrap_or(Ok(0_usize));
    body.len() >= length.unwrap()
}

pub fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head += name;
        head += ": ";
        head += value;
        head += "\r\n";
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

pub fn json_answer(value: &Value) -> Vec<u8> {
    answer("200 OK", &[("content-type", "application/json")], value.to_string().as_bytes())
}

pub fn echo_of(request: &str) -> Vec<u8> {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let mut words = lines.next().unwrap().split(' ');
    let headers: serde_json::Map<String, Value> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), json!(value)))
        .collect();
    json_answer(&json!({"method": words.next(), "path": words.next(), "headers": headers, "body": body}))
}
