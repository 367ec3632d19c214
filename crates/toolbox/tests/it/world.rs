//! The shipped tools in a fresh database, with a runner and a tenant to call them from.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use toolgate_contracts::{Clock, Definition, ErrorCode, Id, Rng, Slug, TenantId, Timestamp, ToolError};
use toolgate_engine::{Call, Keyed, Outcome, Outside, Runner as _, Wiring, testing};
use toolgate_registry::commands::{FIRST_WORKSPACE, Registry};
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_store::people::Workspace;
use toolgate_store::testing::{every_store, tenant as tenant_row};
use toolgate_store::{Change, Store};
use toolgate_toolbox::{BUILTINS, Builtin, TOOLS, Tools};
use toolgate_vault::{Keyring, MasterKey, Secret, Vault};

/// The value of every secret that a tool declares.
const KEY: &str = "a key for the example";

pub struct World {
    pub tenant: TenantId,
    pub slug: Slug,
    pub clock: Clock,
    pub rng: Rng,
    pub tools: Tools,
    pub runner: Arc<Builtin>,
    pub files: PathBuf,
    registry: Arc<Registry>,
    _folder: tempfile::TempDir,
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
            if id == tenant {
                let (slug, name) = (FIRST_WORKSPACE.parse().unwrap(), "Main".to_owned());
                change.insert_workspace(&Workspace { id: Id::new(&clock, &rng), slug, name, created_at: clock.now() });
            }
            store.commit(change).await.unwrap();
        }
        let registry = Registry::open(store.clone(), clock.clone(), rng.clone(), BUILTINS).await.unwrap();
        registry.publish_code_tools(TOOLS).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("files");
        let registry = Arc::new(registry);
        let outside = Outside::new(Arc::clone(&registry), store.clone(), clock.clone(), rng.clone());
        let master = MasterKey::parse(&"2a".repeat(32)).unwrap();
        let keyring = Keyring::open(store.clone(), master, None, clock.clone(), rng.clone()).await.unwrap();
        let tools = Tools::new(&Wiring {
            store: &store,
            clock: &clock,
            rng: &rng,
            data: folder.path(),
            registry: &registry,
            outside: &outside,
            mailer: None,
            keyed: &Keyed::new(keyring.clone()),
            vault: &Vault::new(store.clone(), keyring, clock.clone(), rng.clone()),
            entries: &Arc::default(),
        });
        let runner = Arc::new(Builtin::new(tools.clone()));
        Self { tenant, slug: "acme".parse().unwrap(), clock, rng, tools, runner, files, registry, _folder: folder }
    }

    pub fn tool(&self, name: &str) -> ResolvedTool {
        let snapshot = self.registry.snapshot();
        let found = snapshot.tenant(self.tenant).unwrap().resolve(&name.parse().unwrap(), "2026-11-15");
        found.unwrap_or_else(|| panic!("no tool {name}"))
    }

    pub fn call(&self, tool: &str, input: Value) -> Call {
        testing::call(self.tenant, self.slug.clone(), self.tool(tool), input, &self.clock, &self.rng)
    }

    /// A call of a tool that a tenant made of the function.
    pub fn call_of_own(&self, tool: &str, input: Value, change: impl FnOnce(&mut Definition)) -> Call {
        let mut call = self.call(tool, input);
        let mut definition = Definition::clone(&call.tool.definition);
        change(&mut definition);
        call.tool.definition = Arc::new(definition);
        call
    }

    pub async fn run(&self, call: Call) -> Outcome {
        let declared = call.tool.definition.secrets.iter();
        let secrets = declared.map(|secret| Secret::new(secret.name.as_str(), KEY.as_bytes().to_vec())).collect();
        self.runner.run(testing::permit_with(call, secrets)).await
    }

    /// The output of a call that goes well.
    pub async fn output(&self, tool: &str, input: Value) -> Value {
        output(self.run(self.call(tool, input)).await)
    }

    pub async fn check(&self, tool: &str, input: Value, expected: Value) {
        assert_eq!(self.output(tool, input.clone()).await, expected, "{tool} {input}");
    }

    /// That a call fails so.
    pub async fn refused(&self, tool: &str, input: Value, code: ErrorCode, reason: &str, message: &str) {
        let error = error(self.run(self.call(tool, input.clone())).await);
        let found = (error.code, error.reason(), error.message.as_str());
        assert_eq!(found, (code, reason, message), "{tool} {input}");
    }

    pub fn new_id<K>(&self) -> Id<K> {
        Id::new(&self.clock, &self.rng)
    }
}

#[track_caller]
pub fn output(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Done(done) => done.result.structured.expect("a structured result"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn error(outcome: Outcome) -> ToolError {
    match outcome {
        Outcome::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}
