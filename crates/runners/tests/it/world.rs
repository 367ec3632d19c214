//! A tenant with one tool whose runner each test sets, a way out that is open to one server on loopback, and that server.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::secret::SecretAllowed;
use toolgate_contracts::{
    Caller, Clock, Definition, OpeningSpec, Principal, Rng, Role, Scheme, Slug, TenantId, Timestamp, ToolError,
    json as strict,
};
use toolgate_egress::{Addresses, Resolve, Settings};
use toolgate_engine::runner::Done;
use toolgate_engine::{Call, Outcome, Outside, testing};
use toolgate_registry::commands::{Builtins, CodeTool, Registry};
use toolgate_store::testing::{every_store, tenant as tenant_row};
use toolgate_store::{Change, Store};

pub use crate::server::{Server, answer, json_answer};

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
    store: Store,
    clock: Clock,
    rng: Rng,
    pub registry: Arc<Registry>,
}

pub async fn every_world(test: impl AsyncFn(World)) {
    every_store(async |store| test(World::open(store).await).await).await;
}

impl World {
    pub async fn open(store: Store) -> Self {
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
        let outside = Outside::new(Arc::clone(&registry), store.clone(), clock.clone(), rng.clone());
        Self { outside, tenant, slug: "acme".parse().unwrap(), store, clock, rng, registry }
    }

    /// Opens a host and port of this machine, as an operator would.
    pub async fn open_port(&self, port: u16) {
        self.open_address("127.0.0.1", port).await;
    }

    pub async fn open_address(&self, host: &str, port: u16) {
        let spec = OpeningSpec {
            host: host.parse().unwrap(),
            port,
            scheme: Scheme::Http,
            tenants: None,
            tools: None,
            reason: "a test".into(),
            expires_at: None,
        };
        self.registry.open_host(&operator(), spec).await.unwrap();
    }

    /// The way out where names lead to what a test says of them, and to nothing else.
    pub fn resolving(&self, names: &[(&str, &[&str])]) -> Outside {
        let answers = |(name, answers): &(&str, &[&str])| {
            let answers = answers.iter().rev().map(|address| address.parse().unwrap()).collect();
            ((*name).to_owned(), answers)
        };
        let names = Names(Mutex::new(names.iter().map(answers).collect()));
        let settings = Settings { resolver: Box::new(names), ..Settings::system(self.clock.clone()) };
        let (clock, rng) = (self.clock.clone(), self.rng.clone());
        Outside::with(settings, Arc::clone(&self.registry), self.store.clone(), clock, rng)
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

/// The addresses that each name still leads to, the next one last; the last stays.
struct Names(Mutex<HashMap<String, Vec<IpAddr>>>);

impl Resolve for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> Addresses<'a> {
        let mut names = self.0.lock().unwrap();
        let answer =
            names.get_mut(name).and_then(|left| if left.len() > 1 { left.pop() } else { left.last().copied() });
        Box::pin(
            async move { answer.map(|address| vec![address]).ok_or_else(|| std::io::Error::other("no such name")) },
        )
    }
}

pub fn operator() -> Caller {
    Caller {
        tenant: TenantId::SYSTEM,
        tenant_slug: "system".parse().unwrap(),
        principal: Principal::Local(0),
        display_name: "operator".into(),
        permissions: Role::Operator.permissions().into(),
        roles: Arc::new([Role::Operator]),
        agent: None,
        credential: Credential::LocalFolder,
        token: None,
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
