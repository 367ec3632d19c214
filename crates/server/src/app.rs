//! The application: store, registry and settings, opened once and shared by every request.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use axum::Router;
use toolgate_agents::{Agents, Host, Models};
use toolgate_contracts::entries::WrongEntries;
use toolgate_contracts::{Clock, Fault, Rng, Slug, TenantId};
use toolgate_egress::mail::Mailer;
use toolgate_engine::audit::Pinned;
use toolgate_engine::external::External;
use toolgate_engine::shared::Shared;
use toolgate_engine::{Audit, Engine, Keyed, Parts, Runners, Wiring};
use toolgate_mcp::serve::Surface;
use toolgate_registry::commands::{Builtins, CodeTool, FIRST_USER, FIRST_WORKSPACE, Registry};
use toolgate_registry::groups::SEEDED_GROUPS;
use toolgate_store::people::{Tenant, User, UserKind, Workspace};
use toolgate_store::{Change, Configured, Kind, Options, Store};
use toolgate_vault::{Keyring, MasterKey, Vault};
use toolgate_workflows::{PublishedWorkflows, Workflows};

use crate::config::Config;
use crate::exposition::Exposition;
use crate::outside::{self, Outside};

pub const FIRST_TENANT: &str = "default";
/// How long calls that run may take to end when the program does.
pub const DRAIN: std::time::Duration = std::time::Duration::from_secs(4);
/// Definitions judged at once, of which each may keep a core busy; more wait for their turn.
const JUDGED_AT_ONCE_MAX: usize = 2;

/// The tools compiled into this program, and what runs tools in it.
#[derive(Clone, Copy)]
pub struct CodeTools {
    pub tools: &'static [CodeTool],
    pub builtins: Builtins,
    pub runners: fn(&Wiring<'_>) -> Runners,
    /// Runs the operator's command that prints the master key. This crate starts no process.
    pub printed_by: fn(Vec<String>) -> Printed,
}

/// What a command printed.
pub type Printed = futures_util::future::BoxFuture<'static, Result<zeroize::Zeroizing<String>, Fault>>;

/// Keys that are remembered for a moment.
type Callers = moka::sync::Cache<toolgate_contracts::KeyId, Arc<crate::auth::KnownKey>>;
const CALLERS_MAX: u64 = 10_000;
/// Tokens likewise, by the digest of their text.
type KnownTokens = moka::sync::Cache<toolgate_contracts::Digest, Arc<crate::auth::tokens::KnownToken>>;

#[derive(Clone)]
pub struct App(Arc<Inner>);

pub struct Inner {
    pub config: Config,
    pub store: Store,
    pub registry: Arc<Registry>,
    pub engine: Engine,
    pub audit: Audit,
    pub keyring: Keyring,
    /// What of the operator's entries could not be read.
    pub wrong_entries: WrongEntries,
    /// The way out, and on whose behalf.
    pub outside: Outside,
    /// The models of tenants' providers.
    pub models: Models,
    /// The operator's relay, where there is one.
    pub mailer: Option<Mailer>,
    pub clock: Clock,
    pub rng: Rng,
    pub data: std::path::PathBuf,
    /// Keys that were let in a moment ago: looking each up takes as long as a call.
    pub callers: Callers,
    pub tokens: KnownTokens,
    /// How many passwords are hashed at once, and how many wait.
    pub hashing: crate::identity::passwords::Hashing,
    /// The provider of identities, where there is one.
    pub oidc: Option<crate::identity::oidc::Oidc>,
    /// Who may use `/mcp` with an access token.
    pub oauth: crate::oauth::Memory,
    /// How many definitions are judged at once.
    pub judging: tokio::sync::Semaphore,
    /// Where the server listens, once it does.
    pub listening: OnceLock<std::net::SocketAddr>,
    /// Set when the server is told to end: it finishes what it has and wants no more.
    pub draining: AtomicBool,
    /// Started with the example tools, to show what it does: the console then shows how a changed log is found out.
    pub demonstration: AtomicBool,
    /// What is counted.
    pub exposition: Exposition,
    /// What runs agents.
    pub host: Host,
    /// Graphs of tools, agents and questions, and what runs them.
    pub workflows: Workflows,
    /// What clients of the protocol see.
    pub mcp: Surface,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    /// Opens the database of a data folder, brings it up to date and makes sure that the first rows are there.
    pub async fn open(config: Config, data: &Path, code: CodeTools, clock: Clock, rng: Rng) -> Result<Self, Fault> {
        let store = open_store(&config, data).await?;
        store.migrate().await?;
        first_rows(&store, &clock, &rng).await?;
        let registry = Arc::new(Registry::open(store.clone(), clock.clone(), rng.clone(), code.builtins).await?);
        registry.publish_code_tools(code.tools).await?;
        let master = master_key(&config, data, code, &rng).await?;
        let previous = previous_master_key(&config)?;
        let keyring = Keyring::open(store.clone(), master, previous, clock.clone(), rng.clone()).await?;
        let audit = Audit::open(store.clone(), keyring.clone(), Some(data), clock.clone(), rng.clone()).await?;
        let outside = Outside::new(Arc::clone(&registry), store.clone(), clock.clone(), rng.clone());
        let listen = config.get("listen").parse().ok().filter(|address: &std::net::SocketAddr| address.port() != 0);
        if let Some(address) = listen {
            outside.listen(address);
        }
        let mailer = outside::mailer(&config, &outside.connector)?;
        let oidc = crate::identity::oidc::Oidc::open(&config, data)?;
        let oauth = crate::oauth::Memory::open(&config)?;
        let exposition = Exposition::default();
        let entries = Arc::new(crate::entries::load(&config, data)?);
        for wrong in entries.wrong.all() {
            tracing::error!("the operator's entry {}", wrong.problem());
        }
        let keyed = Keyed::new(keyring.clone());
        let vault = Vault::new(store.clone(), keyring.clone(), clock.clone(), rng.clone());
        let wiring = Wiring {
            store: &store,
            clock: &clock,
            rng: &rng,
            data,
            registry: &registry,
            outside: &outside,
            mailer: mailer.as_ref(),
            keyed: &keyed,
            vault: &vault,
            entries: &entries,
        };
        let models = Models::new(&wiring);
        let runners = (code.runners)(&wiring);
        let (agents, published) = (Agents::default(), PublishedWorkflows::default());
        let engine = Engine::new(Parts {
            store: store.clone(),
            registry: Arc::clone(&registry),
            keyring: keyring.clone(),
            runners: runners
                .with("external", Arc::new(External))
                .with("prompt", Arc::new(agents.clone()))
                .with("task", Arc::new(agents.clone()))
                .with("workflow", Arc::new(published.clone())),
            shared: Shared::open(config.redis_url()).await?,
            metrics: Arc::clone(&exposition.calls),
            clock: clock.clone(),
            rng: rng.clone(),
            blobs: data.join("blobs"),
            audit: audit.clone(),
        });
        engine.send_mail(mailer.is_some());
        // An SQLite file is ours alone while we hold the folder, so whoever ran calls before is gone.
        engine.start(store.kind() == Kind::Sqlite).await?;
        engine.keep_living();
        let host = Host::new(engine.clone(), Arc::clone(&registry), models.clone());
        agents.hosted_by(&host);
        let workflows = Workflows::new(engine.clone(), Arc::clone(&registry), Some(Arc::new(host.clone())));
        published.run_by(&workflows);
        let app = Self(Arc::new_cyclic(|inner: &std::sync::Weak<Inner>| Inner {
            mcp: Surface::new(toolgate_mcp::serve::Parts {
                engine: engine.clone(),
                registry: Arc::clone(&registry),
                keyring: keyring.clone(),
                clock: clock.clone(),
                rng: rng.clone(),
                address: {
                    let inner = inner.clone();
                    Arc::new(move || Self::of(&inner).map(|app| app.base_url()).unwrap_or_default())
                },
                patience: std::time::Duration::from_secs(config.number("mcp_patience_seconds").into()),
            }),
            config,
            store,
            registry,
            engine,
            audit,
            keyring,
            outside,
            models,
            mailer,
            clock,
            rng,
            data: data.to_owned(),
            callers: Callers::builder().max_capacity(CALLERS_MAX).time_to_live(crate::auth::KNOWN_FOR).build(),
            tokens: KnownTokens::builder().max_capacity(CALLERS_MAX).time_to_live(crate::auth::KNOWN_FOR).build(),
            hashing: crate::identity::passwords::Hashing::default(),
            oidc,
            oauth,
            judging: tokio::sync::Semaphore::new(JUDGED_AT_ONCE_MAX),
            listening: OnceLock::new(),
            draining: AtomicBool::new(false),
            demonstration: AtomicBool::new(false),
            exposition,
            host,
            workflows,
            wrong_entries: entries.wrong.clone(),
        }));
        crate::sql_requests::keep_answering(&app);
        Ok(app)
    }

    /// For background work that ends with the application.
    pub(crate) fn weak(&self) -> std::sync::Weak<Inner> {
        Arc::downgrade(&self.0)
    }

    pub(crate) fn of(inner: &std::sync::Weak<Inner>) -> Option<Self> {
        inner.upgrade().map(Self)
    }

    /// A name for this process among those that share the database.
    pub(crate) fn new_holder(&self) -> String {
        toolgate_contracts::Id::<()>::new(&self.clock, &self.rng).to_string()
    }

    /// The API as a service: behind the doors of [`crate::serve`], or in process for the command line.
    pub fn router(&self) -> Router {
        crate::api::router(self)
    }

    /// How people reach this server.
    pub fn base_url(&self) -> String {
        match (self.config.get("public_url"), self.listening.get()) {
            ("", Some(address)) => format!("{}://{address}", self.scheme()),
            ("", None) => format!("{}://{}", self.scheme(), self.config.get("listen")),
            (url, _) => url.to_owned(),
        }
    }

    /// Where a person sees a run, with `{run_id}` in it: here, or in the operator's own viewer.
    pub fn trace_address(&self) -> String {
        match self.config.get("traces_url") {
            "" => format!("{}/runs/{{run_id}}", self.base_url()),
            address => address.to_owned(),
        }
    }

    /// How people elsewhere reach this server, where they can.
    pub fn shared_url(&self) -> Option<&str> {
        Some(self.config.get("public_url")).filter(|url| !url.is_empty() && !is_loopback(url))
    }

    /// What the listening socket speaks.
    pub fn scheme(&self) -> &'static str {
        if self.config.has_tls() { "https" } else { "http" }
    }

    /// The token is in the fragment: browsers do not send it, so no log and no link preview spends it.
    pub fn sign_in_url(&self, token: &str) -> String {
        format!("{}/#sign-in={token}", self.base_url())
    }

    /// Leaves in a restored database the trace that it is one, ends the sessions it brought back, and begins a new log:
    /// the one before may have been signed further than this database knows. Returns the heads that were.
    pub async fn note_restored(&self, file: &str) -> Result<Vec<Pinned>, Fault> {
        let caller = crate::auth::local_caller(self, crate::LocalCaller::this_process(), FIRST_TENANT)?;
        let signed = self.audit.pinned().await?;
        for tenant in self.store.tenants().await? {
            let mut change = Change::new(tenant.id);
            change.end_all_sessions(self.clock.now());
            change.revoke_all_tokens("db.restore", self.clock.now());
            let before = signed.iter().find(|pinned| pinned.tenant == tenant.id).map(|pinned| &pinned.checkpoint);
            let details = before.map_or_else(|| serde_json::json!({}), |head| {
                serde_json::json!({"log_before": head.origin, "size_before": head.size, "root_before": head.root})
            });
            change.audit(&self.entry(&caller, tenant.id, "db.restore", file, details));
            self.store.commit(change).await?;
        }
        // Tokens that were revoked after the backup would be good again: none of those before it is.
        self.keyring.replace(toolgate_vault::Purpose::Token, None).await?;
        // Last: cut off before it, the database is still refused, and all of this is done again.
        self.audit.begin_new_log().await?;
        Ok(signed)
    }

    pub async fn close(&self) {
        self.workflows.stop().await;
        self.host.stop().await;
        self.engine.drain(DRAIN).await;
        self.engine.close_runners().await;
        if let Err(error) = self.store.clone().close().await {
            tracing::error!("closing the database: {error}");
        }
    }
}

/// Whether an origin means the machine that reads it.
pub fn is_loopback(origin: &str) -> bool {
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    let host = host
        .rsplit_once(':')
        .map_or(host, |(name, port)| if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host });
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let is_local = host == "localhost" || host.ends_with(".localhost");
    is_local || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback() || address.is_unspecified())
}

/// The key that wraps all others: given, printed by a command, in a file that is named, or in the data folder, where it
/// is made when new.
async fn master_key(config: &Config, data: &Path, code: CodeTools, rng: &Rng) -> Result<MasterKey, Fault> {
    if let Some(command) = config.master_key_command() {
        return MasterKey::parse(&(code.printed_by)(command).await?).map_err(|fault| {
            let remedy = "the command of `master_key_command` prints the key and nothing else";
            Fault::new(toolgate_contracts::FaultKind::Unavailable, fault.told(), remedy)
        });
    }
    match (config.get("master_key"), config.get("master_key_file")) {
        ("", "") => MasterKey::in_folder(data, rng),
        ("", file) => MasterKey::from_file(Path::new(file)),
        (key, _) => MasterKey::parse(key),
    }
}

/// The key before it, while some keys may still lie under that one.
fn previous_master_key(config: &Config) -> Result<Option<MasterKey>, Fault> {
    match (config.get("master_key_previous"), config.get("master_key_previous_file")) {
        ("", "") => Ok(None),
        ("", file) => MasterKey::from_file(Path::new(file)).map(Some),
        (key, _) => MasterKey::parse(key).map(Some),
    }
}

/// A note in the folder that its database is elsewhere, so that a command without `database` does not begin an empty one.
const ELSEWHERE: &str = "database-is-elsewhere";

pub async fn open_store(config: &Config, data: &Path) -> Result<Store, Fault> {
    let note = data.join(ELSEWHERE);
    if config.get("database").is_empty()
        && let Ok(url) = std::fs::read_to_string(&note)
    {
        return Err(Fault::new(
            toolgate_contracts::FaultKind::Conflict,
            format!("the database of {} is elsewhere: {}", data.display(), url.trim()),
            format!(
                "set TOOLGATE_DATABASE, or `database` in toolgate.yaml there; to begin with SQLite, remove {}",
                note.display()
            ),
        ));
    }
    let mut options = Options::new(config.database_url(data));
    options.durability = if config.get("durability") == "power" { Configured::Power } else { Configured::Auto };
    options.connections = config.number("database_connections") as usize;
    let store = Store::open(options).await?;
    if store.kind() == Kind::Postgres {
        let url = crate::config::without_password(config.get("database"));
        std::fs::write(&note, url).map_err(|error| Fault::internal(format!("{}: {error}", note.display())))?;
    }
    Ok(store)
}

/// The system tenant, a first tenant with a workspace and an administrator. Two replicas may both try; one does it.
async fn first_rows(store: &Store, clock: &Clock, rng: &Rng) -> Result<(), Fault> {
    // Each is looked for by itself: a start that was cut off between the two goes on where it was.
    let tenants = store.tenants().await?;
    let has_system = tenants.iter().any(|tenant| tenant.id == TenantId::SYSTEM);
    let has_others = tenants.iter().any(|tenant| tenant.id != TenantId::SYSTEM);
    let now = clock.now();
    let slug = |text: &str| text.parse::<Slug>().map_err(Fault::internal);
    let tenant = |id, slug, name: &str| Tenant {
        id,
        slug,
        name: name.to_owned(),
        currency: "USD".to_owned(),
        open_write: false,
        limits: toolgate_contracts::TenantLimits::default(),
        settings: toolgate_contracts::TenantSettings::default(),
        policy_revision: 0,
        created_at: now,
    };

    if !has_system {
        let mut system = Change::new(TenantId::SYSTEM);
        system.insert_tenant(&tenant(TenantId::SYSTEM, slug("system")?, "System"));
        for (group, tools) in SEEDED_GROUPS {
            for tool in *tools {
                system.insert_group_member(group, &toolgate_contracts::FoldedName::of(tool));
            }
        }
        commit_first(store, system).await?;
    }
    if has_others {
        return Ok(());
    }

    let id = TenantId::new(clock, rng);
    let mut first = Change::new(id);
    first.insert_tenant(&tenant(id, slug(FIRST_TENANT)?, "Default"));
    first.insert_workspace(&Workspace {
        id: toolgate_contracts::Id::new(clock, rng),
        slug: slug(FIRST_WORKSPACE)?,
        name: "Main".to_owned(),
        created_at: now,
    });
    let account = toolgate_contracts::Id::new(clock, rng);
    first.insert_account(account, "Administrator", now);
    let user = User {
        id: toolgate_contracts::Id::new(clock, rng),
        kind: UserKind::Person,
        name: FIRST_USER.to_owned(),
        email: None,
        roles: vec![toolgate_contracts::Role::Admin, toolgate_contracts::Role::Operator],
        permissions: toolgate_contracts::Permissions::default(),
        workspaces: vec![slug(FIRST_WORKSPACE)?],
        disabled: false,
        created_at: now,
    };
    first.insert_user(&user, Some(account));
    first.count_revision();
    commit_first(store, first).await
}

async fn commit_first(store: &Store, change: Change) -> Result<(), Fault> {
    match store.commit(change).await {
        Ok(_) => Ok(()),
        Err(error) if error.is("tenants_slug") || error.is("tenants_pkey") => Ok(()),
        Err(error) => Err(error.into()),
    }
}
