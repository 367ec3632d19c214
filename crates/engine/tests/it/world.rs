//! An engine on a fresh database with tools that do what their input says, and people who call them.
//!
//! Time is the test's own wherever the product asks for it; only runners, timeouts and backoff take real time.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::event::Event;
use toolgate_contracts::{
    Agent, AgentState, Amount, CallId, CallRequest, Caller, Clock, Definition, Envelope, ErrorCode, Fault, Id, KeyId,
    LeafId, Permission, Permissions, Principal, Rng, Role, RunId, SessionId, Source, Status, TenantId, TenantSettings,
    Timestamp, ToolError, UserId, json,
};
use toolgate_engine::external::External;
use toolgate_engine::runner::{Done, NewAttachment};
use toolgate_engine::runs::NewRun;
use toolgate_engine::shared::Shared;
use toolgate_engine::{Audit, Call, Engine, Metrics, Outcome, Parts, Permit, Runner, Runners};
use toolgate_ledger::Salt;
use toolgate_registry::commands::{AgentDraft, Builtins, CodeTool, FIRST_WORKSPACE, Registry, Submitted, Verdict};
use toolgate_registry::floor::Floor;
use toolgate_store::budgets::Balance;
use toolgate_store::calls::CallRecord;
use toolgate_store::credentials::ApiKey;
use toolgate_store::people::{Tenant, User, UserKind, Workspace};
use toolgate_store::runs::Run;

use toolgate_store::testing::every_store;
use toolgate_store::{Change, Scope, Store};
use toolgate_vault::{Keyring, MasterKey};

const MASTER: &str = "2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a";
pub const MONTH: &str = "2026-11";
pub const DAY: &str = "2026-11-15";

/// What is waited for comes at once, or the test is broken.
const PATIENCE: Duration = Duration::from_secs(30);

const BUILTINS: Builtins = Builtins { names: &["script", "probe"], floor: |_| Some(Floor::NOTHING) };

pub struct World {
    pub store: Store,
    pub clock: Clock,
    pub rng: Rng,
    pub tenant: TenantId,
    pub neighbour: TenantId,
    pub runner: Arc<Script>,
    pub registry: Arc<Registry>,
    pub engine: Engine,
    pub folder: Arc<TempDir>,
    keyring: Keyring,
    audit: Audit,
}

/// Runs a test on both databases.
pub async fn every_world(test: impl AsyncFn(World)) {
    every_store(async |store| test(World::open(store).await).await).await;
}

impl World {
    async fn open(store: Store) -> Self {
        // 2026-11-15T10:00:00Z
        let clock = Clock::manual(Timestamp::from_millis(1_794_736_800_000));
        let rng = Rng::seeded(7);
        let (tenant, neighbour) = (TenantId::new(&clock, &rng), TenantId::new(&clock, &rng));
        for (id, slug) in [(TenantId::SYSTEM, "system"), (tenant, "acme"), (neighbour, "neighbour")] {
            let mut change = Change::new(id);
            change.insert_tenant(&Tenant {
                id,
                slug: slug.parse().unwrap(),
                name: slug.to_owned(),
                currency: "USD".to_owned(),
                open_write: true,
                limits: toolgate_contracts::TenantLimits::default(),
                settings: toolgate_contracts::TenantSettings::default(),
                policy_revision: 0,
                created_at: clock.now(),
            });
            change.insert_workspace(&Workspace {
                id: Id::new(&clock, &rng),
                slug: FIRST_WORKSPACE.parse().unwrap(),
                name: "Main".to_owned(),
                created_at: clock.now(),
            });
            store.commit(change).await.unwrap();
        }
        let registry = Registry::open(store.clone(), clock.clone(), rng.clone(), BUILTINS).await.unwrap();
        registry.publish_code_tools(&TOOLS).await.unwrap();
        let master = MasterKey::parse(MASTER).unwrap();
        let keyring = Keyring::open(store.clone(), master, None, clock.clone(), rng.clone()).await.unwrap();
        let folder = Arc::new(TempDir::new().unwrap());
        let audit =
            Audit::open(store.clone(), keyring.clone(), Some(folder.path()), clock.clone(), rng.clone()).await.unwrap();
        let runner = Arc::new(Script::new(store.clone()));
        let registry = Arc::new(registry);
        let wired = (&store, &clock, &rng);
        let engine = wire(wired, &registry, &keyring, &audit, &runner, &folder);
        engine.start(false).await.unwrap();
        Self { store, clock, rng, tenant, neighbour, runner, registry, engine, folder, keyring, audit }
    }

    /// A second process on the same database: a registry, a cache and a memory of its own.
    pub async fn replica(&self) -> Self {
        let Self { store, clock, rng, tenant, neighbour, runner, folder, keyring, audit, .. } = self;
        let registry = Registry::open(store.clone(), clock.clone(), rng.clone(), BUILTINS).await.unwrap();
        let registry = Arc::new(registry);
        let engine = wire((store, clock, rng), &registry, keyring, audit, runner, folder);
        engine.start(false).await.unwrap();
        Self {
            store: store.clone(),
            clock: clock.clone(),
            rng: rng.clone(),
            tenant: *tenant,
            neighbour: *neighbour,
            runner: Arc::clone(runner),
            registry,
            engine,
            folder: Arc::clone(folder),
            keyring: keyring.clone(),
            audit: audit.clone(),
        }
    }

    /// The owner of the folder, who may do everything in this tenant.
    pub fn owner(&self) -> Caller {
        owner_of(self.tenant, "acme")
    }

    pub fn owner_next_door(&self) -> Caller {
        owner_of(self.neighbour, "neighbour")
    }

    /// Somebody new with a key that has these rights.
    pub fn with_key(&self, permissions: Permissions) -> Caller {
        Caller {
            principal: Principal::User(Id::new(&self.clock, &self.rng)),
            display_name: "somebody".to_owned(),
            permissions,
            credential: Credential::ApiKey(KeyId::new(&self.clock, &self.rng)),
            ..self.owner()
        }
    }

    pub fn member(&self) -> Caller {
        self.with_key(Permissions::of([Role::Member]))
    }

    pub fn worker(&self) -> Caller {
        self.with_key(Permissions::of([Role::Service]))
    }

    /// Somebody whom the database knows, with these roles and a key that holds all their rights. A call that waits is
    /// judged again with the rights its caller has then, so whoever waits must be somebody.
    pub async fn person(&self, name: &str, roles: &[Role]) -> Caller {
        let (user, key) = (Id::new(&self.clock, &self.rng), KeyId::new(&self.clock, &self.rng));
        let permissions = Permissions::of(roles.iter().copied());
        let account = Id::new(&self.clock, &self.rng);
        let mut change = Change::new(self.tenant);
        change.insert_account(account, name, self.clock.now());
        change.insert_user(
            &User {
                id: user,
                kind: UserKind::Person,
                name: name.to_owned(),
                email: None,
                roles: roles.to_vec(),
                permissions: Permissions::default(),
                workspaces: Vec::new(),
                disabled: false,
                created_at: self.clock.now(),
            },
            Some(account),
        );
        change.set_roles(user, roles).set_memberships(user, &[FIRST_WORKSPACE.parse().unwrap()]);
        self.store.commit(change).await.unwrap();
        self.give_key(user, key, name, None, &permissions).await;
        Caller {
            principal: Principal::User(user),
            display_name: name.to_owned(),
            permissions,
            roles: roles.into(),
            credential: Credential::ApiKey(key),
            ..self.owner()
        }
    }

    /// Another key of the same person.
    pub async fn second_key(&self, caller: &Caller) -> Caller {
        let key = KeyId::new(&self.clock, &self.rng);
        self.give_key(user_of(caller), key, &caller.display_name, None, &caller.permissions).await;
        Caller { credential: Credential::ApiKey(key), ..caller.clone() }
    }

    async fn give_key(
        &self,
        owner: UserId,
        id: KeyId,
        name: &str,
        agent: Option<toolgate_contracts::AgentId>,
        rights: &Permissions,
    ) {
        let key = ApiKey {
            id,
            name: format!("{name} {id}"),
            owner,
            owner_name: name.to_owned(),
            agent,
            scopes: rights.iter().map(ToString::to_string).collect(),
            client: None,
            resource: None,
            created_at: self.clock.now(),
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        };
        let mut change = Change::new(self.tenant);
        change.insert_key(&key, toolgate_contracts::Digest::of(id.to_string().as_bytes()));
        self.store.commit(change).await.unwrap();
    }

    /// The same person at a browser, signed in just now.
    pub async fn at_browser(&self, caller: &Caller) -> Caller {
        let session = SessionId::new(&self.clock, &self.rng);
        let (now, hash) = (self.clock.now(), toolgate_contracts::Digest::of(session.to_string().as_bytes()));
        let mut change = Change::new(self.tenant);
        change.insert_session(toolgate_store::sign_in::NewSession {
            id: session,
            user: user_of(caller),
            token_hash: hash,
            how: toolgate_store::sign_in::How::Link,
            address: None,
            user_agent: None,
            at: now,
            expires_at: now.plus_seconds(36_000),
            proved_at: Some(now),
        });
        self.store.commit(change).await.unwrap();
        Caller { credential: Credential::BrowserSession(session), ..caller.clone() }
    }

    /// An agent, and a key of this person's that acts as it.
    pub async fn agent_of(&self, person: &Caller, name: &str, more: Value) -> (Agent, Caller) {
        let (agent, _) = self.agent(name, more).await;
        let key = KeyId::new(&self.clock, &self.rng);
        let rights: Permissions =
            person.permissions.iter().filter(|permission| permission.is_for_agents()).cloned().collect();
        self.give_key(user_of(person), key, name, Some(agent.id), &rights).await;
        let agent_id = agent.id;
        let caller = Caller {
            agent: Some(agent_id),
            permissions: rights,
            credential: Credential::ApiKey(key),
            ..person.clone()
        };
        (agent, caller)
    }

    /// Changes how the tenant works.
    pub async fn settings(&self, change: impl FnOnce(&mut TenantSettings)) {
        let mut settings = self.registry.snapshot().tenant(self.tenant).unwrap().tenant.settings.clone();
        change(&mut settings);
        self.registry.set_settings(&self.owner(), settings).await.unwrap();
    }

    /// An agent of the tenant, and a key made for it.
    pub async fn agent(&self, name: &str, more: Value) -> (Agent, Caller) {
        let mut spec = json!({"name": name, "model": "scripted/one"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let draft = AgentDraft { spec: json::decode(spec).unwrap(), state: AgentState::Active };
        let (agent, _) = self.registry.put_agent(&self.owner(), draft).await.unwrap();
        let caller = Caller { agent: Some(agent.id), ..self.with_key(Permissions::of([Role::Member])) };
        (agent, caller)
    }

    pub async fn limits(&self, limits: Value) {
        self.registry.set_limits(&self.owner(), json::decode(limits).unwrap()).await.unwrap();
    }

    pub async fn profile(&self, profile: Value) {
        self.registry.put_profile(&self.owner(), json::decode(profile).unwrap()).await.unwrap();
    }

    /// A tool of the tenant's own that runs elsewhere, of class `none`.
    pub async fn external(&self, name: &str, changes_state: bool, more: Value) {
        let mut definition = definition(name, &json!({"egress_class": "write", "runner": {"kind": "external"}}));
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let submitted = Submitted::Json(definition.to_string().into_bytes());
        self.registry.register(&self.owner(), &submitted, true).await.unwrap();
        let verdict = Verdict {
            egress_class: toolgate_contracts::definition::EgressClass::None,
            changes_state: Some(changes_state),
            reason: "it stays in the house".to_owned(),
        };
        self.registry.classify(&self.owner(), None, &name.parse().unwrap(), Some(verdict)).await.unwrap();
    }

    /// Another version of a shipped tool.
    pub async fn publish(&self, name: &str, more: Value) {
        self.registry.publish_code_tools(&[code_tool(name, &more)]).await.unwrap();
    }

    pub async fn run(&self, caller: &Caller, limits: Value) -> Run {
        let new = NewRun { limits: json::decode(limits).unwrap(), ..NewRun::default() };
        self.engine.open_run(caller, new).await.unwrap()
    }

    pub async fn send(&self, caller: &Caller, request: CallRequest) -> Result<Envelope, Fault> {
        // Several stand in one join, and a test's stack is small.
        Box::pin(self.engine.submit(caller, Source::Api, request)).await
    }

    /// The owner's call.
    pub async fn call(&self, tool: &str, input: Value) -> Envelope {
        self.call_as(&self.owner(), tool, input).await
    }

    pub async fn call_as(&self, caller: &Caller, tool: &str, input: Value) -> Envelope {
        self.send(caller, CallRequest::new(tool, input)).await.unwrap()
    }

    /// The same call so many times at once.
    pub async fn at_once(&self, caller: &Caller, count: usize, request: &CallRequest) -> Vec<Result<Envelope, Fault>> {
        let calls = (0..count).map(|_| {
            let (engine, caller, request) = (self.engine.clone(), caller.clone(), request.clone());
            tokio::spawn(async move { engine.submit(&caller, Source::Api, request).await })
        });
        futures_util::future::join_all(calls).await.into_iter().map(Result::unwrap).collect()
    }

    /// Begins a call in the background, and waits until it runs and has a row.
    pub async fn begin(&self, caller: &Caller, request: CallRequest) -> CallId {
        let key = key_of(&request.tool, &request.input);
        let before = self.runner.runs(&key);
        let (engine, caller) = (self.engine.clone(), caller.clone());
        drop(tokio::spawn(async move { engine.submit(&caller, Source::Api, request).await }));
        eventually("the runner is entered", async || self.runner.runs(&key) > before).await;
        let id = self.runner.newest(&key);
        eventually("it has a row", async || self.store.call(self.tenant, id).await.unwrap().is_some()).await;
        id
    }

    pub async fn record(&self, id: CallId) -> CallRecord {
        self.store.call(self.tenant, id).await.unwrap().unwrap_or_else(|| panic!("no call {id}"))
    }

    /// Waits until a call has ended.
    pub async fn ended(&self, id: CallId) -> CallRecord {
        eventually("the call ends", async || self.record(id).await.status.is_final()).await;
        self.record(id).await
    }

    pub async fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table} WHERE tenant_id = $1");
        let rows = self.store.query(&Scope::Tenant(self.tenant), &sql, vec![]).await.unwrap();
        rows.first().unwrap().get(0).unwrap()
    }

    /// The log's entries about a call.
    pub async fn entries(&self, id: CallId) -> Vec<Value> {
        let entries = self.store.audit_entries(self.tenant, 100_000).await.unwrap();
        let about = |entry: &Value| entry["details"]["call"] == id.to_string();
        entries.into_iter().filter(about).collect()
    }

    pub async fn actions(&self, id: CallId) -> Vec<String> {
        let mut actions: Vec<_> =
            self.entries(id).await.iter().map(|entry| entry["action"].as_str().unwrap().to_owned()).collect();
        actions.sort();
        actions
    }

    pub async fn events(&self, run: RunId) -> Vec<Event> {
        let mut follower = self.engine.follow_run(self.tenant, run, 0);
        let mut events = Vec::new();
        loop {
            let page = follower.page().await.unwrap();
            if page.is_empty() {
                return events;
            }
            events.extend(page);
        }
    }

    /// The types of a run's events, which are numbered from 1 without a gap.
    pub async fn event_types(&self, run: RunId) -> Vec<&'static str> {
        let events = self.events(run).await;
        let numbers: Vec<u64> = events.iter().filter_map(|event| event.seq).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        events.iter().map(|event| event.event_type.as_str()).collect()
    }

    /// What a call's record must be whatever became of it: what was answered is what is kept, each step said something,
    /// and the log commits to the payloads as they are.
    pub async fn check_record(&self, envelope: &Envelope) -> CallRecord {
        let record = self.record(envelope.id).await;
        assert_eq!(record.status, envelope.status);
        assert_eq!(record.call_id, envelope.call_id);
        assert_eq!((&record.output, &record.error), (&envelope.output, &envelope.error));
        assert_eq!(record.input.as_ref(), Some(&envelope.input));
        assert_eq!(
            (record.cost, record.cached, record.truncated),
            (envelope.cost, envelope.cached, envelope.truncated)
        );
        assert_eq!((&record.attachments, &record.labels), (&envelope.attachments, &envelope.labels));
        let decision = record.decision.as_object().unwrap();
        assert!(decision["verdict"].is_string() && !decision["member"].as_str().unwrap().is_empty(), "{decision:?}");
        let leaf = self.store.leaf(self.tenant, LeafId::from(envelope.id)).await.unwrap().unwrap();
        let receipt = envelope.receipt.as_ref().unwrap();
        assert_eq!((receipt.entry_digest, receipt.log.is_empty()), (leaf.digest, false));
        let entry: Value = serde_json::from_str(&leaf.text).unwrap();
        assert_eq!(json::canonical(&entry), leaf.text);
        let details = &entry["details"];
        assert_eq!(details["status"], envelope.status.as_str());
        assert_eq!(entry["actor"], record.principal.to_string());
        assert_eq!(details["reason"].as_str().unwrap_or(""), envelope.error.as_ref().map_or("", ToolError::reason));
        let salt = Salt::from_bytes(record.salt.clone().unwrap().try_into().unwrap());
        let error = record.error.as_ref().map(|error| serde_json::to_value(error).unwrap());
        for (what, payload) in [("input", &record.input), ("output", &record.output)] {
            let made = payload.as_ref().map(|value| salt.commit_named(what, &json::canonical(value)));
            assert_eq!(details[what].as_str(), made.map(|made| made.to_string()).as_deref(), "{what}");
        }
        assert_eq!(details["error"].is_string(), error.is_some());
        record
    }

    pub async fn balance(&self, scope: &str) -> (i64, i64) {
        let Balance { reserved, spent } = self.store.balance(self.tenant, scope).await.unwrap();
        (reserved.micros(), spent.micros())
    }

    /// Does what replicas do in the background until `done`.
    pub async fn in_background_until(&self, what: &str, done: impl AsyncFn() -> bool) {
        let stop = CancellationToken::new();
        let (engine, told) = (self.engine.clone(), stop.clone());
        let background = tokio::spawn(async move { engine.attend_background(told).await });
        eventually(what, done).await;
        stop.cancel();
        background.await.unwrap();
    }
}

pub fn user_of(caller: &Caller) -> UserId {
    match caller.principal {
        Principal::User(user) => user,
        Principal::Local(_) => panic!("the owner of a folder is no user"),
    }
}

fn owner_of(tenant: TenantId, slug: &str) -> Caller {
    Caller {
        tenant,
        tenant_slug: slug.parse().unwrap(),
        principal: Principal::Local(1000),
        display_name: "the owner".to_owned(),
        permissions: Permissions::of([Role::Admin, Role::Operator, Role::Service]),
        roles: [Role::Admin, Role::Operator].into(),
        agent: None,
        credential: Credential::LocalFolder,
        token: None,
    }
}

fn wire(
    (store, clock, rng): (&Store, &Clock, &Rng),
    registry: &Arc<Registry>,
    keyring: &Keyring,
    audit: &Audit,
    runner: &Arc<Script>,
    folder: &Arc<TempDir>,
) -> Engine {
    let external = External;
    let script: Arc<dyn Runner> = Arc::clone(runner) as _;
    Engine::new(Parts {
        store: store.clone(),
        registry: Arc::clone(registry),
        keyring: keyring.clone(),
        runners: Runners::default().with("builtin", script).with("external", Arc::new(external)),
        shared: Shared::memory(),
        metrics: Arc::new(Metrics::new(&mut prometheus_client::registry::Registry::default())),
        clock: clock.clone(),
        rng: rng.clone(),
        blobs: folder.path().join("blobs"),
        audit: audit.clone(),
    })
}

/// Waits for a state with a generous deadline.
pub async fn eventually(what: &str, state: impl AsyncFn() -> bool) {
    let waiting = async {
        while !state().await {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "not in time: {what}");
}

/// The error of a refused or failed call.
#[track_caller]
pub fn error(envelope: &Envelope) -> (ErrorCode, &str) {
    let error = envelope.error.as_ref().unwrap_or_else(|| panic!("no error: {envelope:?}"));
    (error.code, error.reason())
}

/// Counts those who got the same answer, whatever it was.
pub fn statuses(answers: &[Result<Envelope, Fault>]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for answer in answers {
        let key = match answer {
            Ok(envelope) => {
                let reason = envelope.error.as_ref().map(|error| format!(" {}", error.reason())).unwrap_or_default();
                format!("{}{reason}", envelope.status)
            }
            Err(fault) => format!("fault {:?}: {}", fault.kind(), fault.logged().unwrap_or(fault.told())),
        };
        *counts.entry(key).or_default() += 1;
    }
    counts
}

// ── tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

/// A definition whose input is an object of any members.
fn definition(name: &str, more: &Value) -> Value {
    let mut definition = json!({
        "name": name,
        "version": "1.0.0",
        "description": "Does what its input says. Use it in tests of the path. Do not use it for anything else.",
        "input_schema": {"type": "object"},
        "runner": {"kind": "builtin", "function": "script"},
    });
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    definition
}

fn code_tool(name: &str, more: &Value) -> CodeTool {
    let text = format!("---\n{}\n---\n\n# {name}\n", definition(name, more));
    CodeTool { file: "world.rs", text: Vec::leak(text.into_bytes()) }
}

static TOOLS: LazyLock<Vec<CodeTool>> = LazyLock::new(|| {
    let strict = json!({
        "type": "object", "additionalProperties": false, "required": ["n"],
        "properties": {
            "n": {"type": "integer", "description": "A number.", "minimum": 0},
            "unit": {"type": "string", "description": "Its unit.", "default": "m"},
            "act": {"type": "string", "description": "What to do.", "default": "give"},
            "value": {"description": "What to give."},
        },
    });
    let counted = json!({
        "type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "description": "A number."}},
    });
    let cent = json!({"per_call": "0.01"});
    let secret = json!({"name": "KEY", "purpose": "A key."});
    let tools = [
        ("script", json!({})),
        ("note", json!({"changes_state": true})),
        ("reads", json!({"egress_class": "read_only"})),
        ("writes", json!({"egress_class": "write"})),
        ("asking", json!({"requires_approval": true})),
        ("risky", json!({"risk": "critical"})),
        ("fetches", json!({"egress_class": "read_only", "requires_approval": true})),
        ("strict_fetches", json!({"egress_class": "read_only", "requires_approval": true, "input_schema": strict})),
        ("always_asking", json!({"permission_policy": "always_ask"})),
        ("strict", json!({"input_schema": strict, "output_schema": counted})),
        ("strict_note", json!({"changes_state": true, "output_schema": counted})),
        ("small", json!({"max_output_bytes": 1000})),
        (
            "small_list",
            json!({"max_output_bytes": 1000, "output_schema": {
                "type": "object", "required": ["rows"],
                "properties": {"rows": {"type": "array", "description": "Numbers.", "items": {"type": "integer"}}},
            }}),
        ),
        ("tables", json!({"output_sections": [{"key": "rows", "label": "Rows", "type": "table"}]})),
        ("priced", json!({"cost": cent})),
        ("priced_note", json!({"cost": cent, "changes_state": true})),
        ("metered", json!({"cost": {"per_call": "0.01", "per_unit": "0.002", "unit": "page"}})),
        ("cached", json!({"cache": "ttl", "cache_ttl_s": 60, "labels": {"adds": ["untrusted"]}})),
        ("cached_for_all", json!({"cache": "forever", "cache_scope": "tenant"})),
        ("cached_note", json!({"cache": "forever", "changes_state": true})),
        ("cached_priced", json!({"cache": "forever", "cost": cent})),
        ("probed_note", json!({"changes_state": true, "verify": "probe", "cost": cent})),
        ("secretive", json!({"secrets": [secret]})),
        ("secretive_note", json!({"secrets": [secret], "changes_state": true})),
        ("secretive_small", json!({"secrets": [secret], "max_output_bytes": 1000})),
        ("secretive_cached", json!({"secrets": [secret], "cache": "forever", "cache_scope": "tenant"})),
        ("secretive_asking", json!({"secrets": [secret], "requires_approval": true})),
        ("secretive_maybe", json!({"secrets": [{"name": "KEY", "required": false, "purpose": "A key."}]})),
        ("probe", json!({"runner": {"kind": "builtin", "function": "probe"}})),
        ("hidden", json!({"opt_in": true})),
        ("elsewhere", json!({"tenants": ["neighbour"]})),
        ("for_team", json!({"required_permission": "entities.team.read"})),
        ("old", json!({"aliases": [{"name": "older"}]})),
        (
            "unwired",
            json!({
                "egress_class": "read_only", "runner": {"kind": "http", "method": "GET", "url": "https://example.com/"},
            }),
        ),
    ];
    tools.iter().map(|(name, more)| code_tool(name, more)).collect()
});

/// Runs of what shares a key are counted together.
fn key_of(tool: &str, input: &Value) -> String {
    input["key"].as_str().unwrap_or(tool).to_owned()
}

/// What a runner saw of its own call when it ran.
#[derive(Clone, Debug)]
pub struct Seen {
    pub status: Option<Status>,
    pub actions: Vec<String>,
}

/// Does what the input's `act` says, and remembers that it did.
pub struct Script {
    store: Store,
    runs: Mutex<HashMap<String, (u32, CallId)>>,
    plans: Mutex<u32>,
    call_ids: Mutex<Vec<String>>,
    seen: Mutex<Option<Seen>>,
    released: watch::Sender<bool>,
}

impl Script {
    fn new(store: Store) -> Self {
        Self {
            store,
            runs: Mutex::default(),
            plans: Mutex::default(),
            call_ids: Mutex::default(),
            seen: Mutex::default(),
            released: watch::channel(false).0,
        }
    }

    pub fn runs(&self, key: &str) -> u32 {
        self.runs.lock().unwrap().get(key).map_or(0, |(runs, _)| *runs)
    }

    /// The call that ran last under this key.
    fn newest(&self, key: &str) -> CallId {
        self.runs.lock().unwrap()[key].1
    }

    pub fn plans(&self) -> u32 {
        *self.plans.lock().unwrap()
    }

    /// The `call_id`s that ran, one for each attempt.
    pub fn call_ids(&self) -> Vec<String> {
        self.call_ids.lock().unwrap().clone()
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone().unwrap()
    }

    /// Lets everything that hangs go on.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    async fn look(&self, call: &Call) -> Outcome {
        let record = self.store.call(call.tenant, call.id).await.unwrap();
        let entries = self.store.audit_entries(call.tenant, 1000).await.unwrap();
        let about = entries.iter().filter(|entry| entry["details"]["call"] == call.id.to_string());
        let actions = about.map(|entry| entry["action"].as_str().unwrap().to_owned()).collect();
        *self.seen.lock().unwrap() = Some(Seen { status: record.map(|record| record.status), actions });
        Outcome::structured(json!({"looked": true}))
    }

    async fn act(&self, permit: &Permit) -> Outcome {
        let call = permit.call();
        let input = &*call.input;
        let count = {
            let mut runs = self.runs.lock().unwrap();
            let (count, newest) = runs.entry(key_of(call.tool.tool.name.as_str(), input)).or_insert((0, call.id));
            (*count, *newest) = (*count + 1, call.id);
            *count
        };
        self.call_ids.lock().unwrap().push(call.call_id.clone());
        let millis = Duration::from_millis(input["ms"].as_u64().unwrap_or(80));
        let value = || input.get("value").cloned().unwrap_or_else(|| json!({"run": count}));
        match input["act"].as_str().unwrap_or("give") {
            "give" => Outcome::structured(value()),
            "slow" => {
                tokio::time::sleep(millis).await;
                Outcome::structured(value())
            }
            "result" => Outcome::Done(Done {
                result: serde_json::from_value(input["result"].clone()).unwrap(),
                ..Done::default()
            }),
            "charge" => Outcome::Done(Done {
                result: toolgate_contracts::ToolResult::structured(value()),
                cost: input["cost"].as_str().map(|cost| cost.parse::<Amount>().unwrap()),
                units: input["units"].as_u64(),
                ..Done::default()
            }),
            "attach" => Outcome::Done(Done {
                result: toolgate_contracts::ToolResult::structured(value()),
                attachments: vec![NewAttachment {
                    kind: toolgate_contracts::call::AttachmentKind::Blob,
                    content_type: "text/plain".to_owned(),
                    bytes: input["bytes"].as_str().unwrap().as_bytes().to_vec(),
                }],
                ..Done::default()
            }),
            "fail" => {
                let times = input["times"].as_u64().unwrap_or(u64::MAX);
                let error: ToolError = serde_json::from_value(input["error"].clone()).unwrap();
                if u64::from(count) <= times { error.into() } else { Outcome::structured(value()) }
            }
            "hang" => {
                let _ = self.released.subscribe().wait_for(|released| *released).await;
                Outcome::structured(value())
            }
            "obey" => {
                call.cancel.cancelled().await;
                Outcome::failed(ErrorCode::PolicyDenied, "cancelled", "stopped before anything was changed")
            }
            "finish" => {
                call.cancel.cancelled().await;
                Outcome::structured(value())
            }
            "stream" => {
                for line in input["lines"].as_array().unwrap() {
                    call.output.append(line.as_str().unwrap()).await;
                    tokio::time::sleep(millis).await;
                }
                Outcome::structured(value())
            }
            "look" => self.look(call).await,
            "lent" => Outcome::structured(match &call.lent {
                Some(lent) => json!({"right": lent.right, "by": lent.by}),
                None => json!({"right": null}),
            }),
            "leak" => crate::secrets::leak(permit).await,
            "beyond" => Outcome::structured(match input["which"].as_str().unwrap() {
                "odd" => json!({"n": 9_007_199_254_740_993_i64}),
                "most" => json!({"n": u64::MAX}),
                _ => json!({"n": 1e300}),
            }),
            "unknown" => Outcome::Unknown("the reply was lost".to_owned()),
            "panic" => panic!("as its input says"),
            other => panic!("no act {other}"),
        }
    }
}

impl Runner for Script {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let call = permit.call();
            let probe = match &call.tool.definition.runner {
                toolgate_contracts::Runner::Builtin(builtin) => builtin.function == "probe",
                _ => false,
            };
            if probe {
                let happened = &call.input["input"]["happened"];
                let output = call.input["input"].get("probed").cloned().unwrap_or(json!({"found": true}));
                return Outcome::structured(json!({"happened": happened, "output": output}));
            }
            self.act(&permit).await
        })
    }

    fn plan<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        *self.plans.lock().unwrap() += 1;
        Box::pin(async move {
            match call.input["plan"].as_str() {
                Some("nothing") => Ok(json!({"would_run": true})),
                Some("closed") => Ok(
                    json!({"would_run": false, "refused": "the host is closed", "rule": "address", "host": "a.test"}),
                ),
                Some("hang") => std::future::pending().await,
                Some("panic") => panic!("as its input says"),
                _ => match call.input["plan"].get("code") {
                    Some(_) => Err(serde_json::from_value(call.input["plan"].clone()).unwrap()),
                    None => Ok(json!({"would": *call.input})),
                },
            }
        })
    }

    fn borrows(&self, _: &Definition, input: &Value) -> Option<Permission> {
        Some(input["borrows"].as_str()?.parse().unwrap())
    }

    fn ready<'a>(&'a self, _: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A request with one thing changed.
pub fn request(tool: &str, input: Value, change: impl FnOnce(&mut CallRequest)) -> CallRequest {
    let mut request = CallRequest::new(tool, input);
    change(&mut request);
    request
}

/// An amount in millionths.
pub fn micros(text: &str) -> i64 {
    text.parse::<Amount>().unwrap().micros()
}

/// Waits for many at once, each in a task of its own.
pub async fn all<T: Send + 'static>(
    tasks: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    futures_util::future::join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

pub fn permissions(words: &[Permission]) -> Permissions {
    words.iter().cloned().collect()
}
