//! Serving: the lock on the data folder, the doors around the router, and an orderly end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use toolgate_contracts::page::PAGE_ITEMS_MAX;
use toolgate_contracts::{Caller, Clock, Fault, FaultKind, Rng, Role};
use toolgate_engine::audit::Sequencer;
use toolgate_registry::commands::FIRST_USER;
use toolgate_store::lock::{DataLock, Held, LockError};
use toolgate_store::people::{User, UserKind};
use tower_http::set_header::SetResponseHeaderLayer;

use crate::app::{App, CodeTools};
use crate::config::Config;
use crate::deliver::Courier;
use crate::listen::{self, Limits};
use crate::problem::Problem;
use crate::proxies::ReachedBy;
use crate::tls::{self, Tls};
use crate::{LocalCaller, bypass, pages, telemetry};

/// How soon a change made by another replica is seen here.
const REFRESH_EVERY: Duration = Duration::from_millis(500);
/// How soon a key that was rotated elsewhere is used here; one that is not known yet is looked for at once.
const KEYS_EVERY: Duration = Duration::from_secs(10);

/// A data folder that this process has to itself.
pub struct DataFolder {
    pub path: PathBuf,
    lock: DataLock,
}

/// What the holder of a data folder tells others: how to talk to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Running {
    pub url: String,
    pub key_file: PathBuf,
    /// The certificates that the server may show, where it speaks HTTPS: see [`tls::pinned`].
    #[serde(default)]
    pub certificates: Vec<String>,
}

#[derive(Debug)]
pub enum ServeError {
    /// Another process has the folder; a server says how to reach it.
    Held {
        pid: Option<u32>,
        running: Option<Running>,
    },
    Fault(Fault),
}

impl From<Fault> for ServeError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl DataFolder {
    /// Makes the folder if need be (readable by its owner only) and takes its lock.
    pub fn take(path: &Path) -> Result<Self, ServeError> {
        make_private(path).map_err(|error| {
            ServeError::Fault(Fault::new(
                FaultKind::Unavailable,
                format!("the data folder {} cannot be used: {error}", path.display()),
                "check its path, owner and mode, or choose another with --data",
            ))
        })?;
        match DataLock::acquire(path) {
            Ok(lock) => Ok(Self { path: path.to_owned(), lock }),
            Err(LockError::Held(Held { pid, info })) => {
                Err(ServeError::Held { pid, running: serde_json::from_value(info.into()).ok() })
            }
            Err(LockError::Folder(error)) => Err(ServeError::Fault(error.into())),
        }
    }
}

fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// What `serve --json` prints when it is ready.
#[derive(Clone, Debug, Serialize)]
pub struct Ready {
    pub url: String,
    pub sign_in_url: String,
    pub key_file: PathBuf,
}

/// Serves until told to stop. `ready` is called once, when requests are answered.
pub async fn serve(
    config: Config,
    folder: &mut DataFolder,
    code: CodeTools,
    stop: impl Future<Output = ()> + Send + 'static,
    before: impl AsyncFnOnce(&App) -> Result<(), Fault>,
    ready: impl FnOnce(Ready),
) -> Result<(), Fault> {
    let address: SocketAddr = config.get("listen").parse().map_err(Fault::internal)?;
    let tls = match config.tls_files(&folder.path) {
        Some((cert, key)) => Some(Tls::open(cert, key, Clock::System.now())?),
        None => None,
    };
    let app = App::open(config, &folder.path, code, Clock::System, Rng::System).await?;
    before(&app).await?;
    let listener = tokio::net::TcpListener::bind(address).await.map_err(|error| {
        Fault::new(
            FaultKind::Unavailable,
            format!("cannot listen on {address}: {error}"),
            "stop whatever uses that address, or choose another with --listen (port 0 takes a free one)",
        )
    })?;
    let bound = listener.local_addr().map_err(Fault::internal)?;
    let _ = app.listening.set(bound);
    app.outside.listen(bound);
    app.host.show_at(app.trace_address());
    let administrator = administrator(&app, &operator(&app)?).await?;
    let key_file = key_file(&app, &folder.path, &administrator).await?;
    let (token, _) = app.create_link(&operator(&app)?, &administrator).await?;
    let url = app.base_url();
    let publish = |certificates: &[String]| {
        let running = Running {
            url: format!("{}://{bound}", app.scheme()),
            key_file: key_file.clone(),
            certificates: certificates.to_vec(),
        };
        match serde_json::to_value(running) {
            Ok(serde_json::Value::Object(info)) => folder.lock.publish(&info).map_err(Fault::internal),
            _ => Err(Fault::internal("the path of the key file is not Unicode")),
        }
    };
    if bypass::is_on(&app.config) {
        tracing::warn!("{}", bypass::WARNING);
    }
    publish(&tls.iter().map(Tls::fingerprint).collect::<Vec<_>>())?;

    app.audit.check_pins().await?;
    let refresher = tokio::spawn(follow_other_replicas(app.clone()));
    let background = Background::start(&app);
    // Whoever comes before the first is accepted waits in the kernel's queue.
    ready(Ready { sign_in_url: app.sign_in_url(&token), url, key_file: key_file.clone() });
    let ending = app.clone();
    let stop = async move {
        stop.await;
        ending.draining.store(true, Ordering::Relaxed);
    };
    let acceptor = tls.as_ref().map(Tls::acceptor);
    let certificates = async {
        let Some(tls) = &tls else { return std::future::pending().await };
        let published = |certificates: &[String]| {
            if let Err(fault) = publish(certificates) {
                tracing::error!("cannot publish the certificate: {}", fault.logged().unwrap_or(fault.told()));
            }
        };
        tls.follow(tls::LOOK_EVERY, published).await;
    };
    tokio::select! {
        () = listen::listen(listener, outer(&app), Limits::default(), acceptor, stop) => {}
        () = certificates => {}
    }
    refresher.abort();
    app.workflows.stop().await;
    app.engine.drain(crate::app::DRAIN).await;
    background.end().await;
    app.close().await;
    Ok(())
}

/// What a server does besides answering: attends to calls, gives the log its order, sums up usage, tells others.
struct Background {
    stop: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Background {
    fn start(app: &App) -> Self {
        let stop = CancellationToken::new();
        let (engine, until) = (app.engine.clone(), stop.clone());
        let attending = tokio::spawn(async move { engine.attend_background(until).await });
        let sequencing = tokio::spawn(Sequencer::new(app.audit.clone()).run(stop.clone()));
        let summing = tokio::spawn(toolgate_engine::usage::follow(app.store.clone(), stop.clone()));
        let telling = app.engine.clone();
        app.audit.on_checkpoint(move |tenant, head| {
            let (engine, head) = (telling.clone(), head.clone());
            tokio::spawn(async move {
                if let Err(fault) = engine.tell_of_checkpoint(tenant, &head).await {
                    tracing::warn!("a head is not told: {}", fault.logged().unwrap_or(fault.told()));
                }
            });
        });
        let keys = tokio::spawn(follow_keys(app.clone(), stop.clone()));
        let delivering = tokio::spawn(Courier::new(app.clone()).run(stop.clone()));
        let following = tokio::spawn(app.engine.clone().follow_upstreams(stop.clone()));
        let (host, until) = (app.host.clone(), stop.clone());
        let hosting = tokio::spawn(async move { host.attend(until).await });
        let (workflows, until) = (app.workflows.clone(), stop.clone());
        let flowing = tokio::spawn(async move { workflows.attend(until).await });
        Self { stop, tasks: vec![attending, sequencing, summing, delivering, keys, following, hosting, flowing] }
    }

    async fn end(self) {
        self.stop.cancel();
        for task in self.tasks {
            if tokio::time::timeout(Duration::from_secs(2), task).await.is_err() {
                tracing::warn!("background work does not end");
            }
        }
    }
}

/// The router with its doors: who asks, host names, security headers; and what is noted of every request.
pub fn outer(app: &App) -> Router {
    // What the API answers is for its caller, not for a cache on the way.
    let no_store = SetResponseHeaderLayer::if_not_present(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let router = app.router().layer(no_store).merge(pages::router());
    // A red flag that nobody can overlook.
    let warning = bypass::is_on(&app.config).then(|| {
        let name = header::HeaderName::from_static(bypass::WARNING_HEADER);
        SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(bypass::WARNING))
    });
    let router = pages::secured(router);
    let router = if let Some(warning) = warning { router.layer(warning) } else { router };
    router
        .layer(middleware::from_fn_with_state(app.clone(), known_host))
        .layer(middleware::from_fn_with_state(app.clone(), telemetry::observe))
}

/// Answers only to its own names, so that a page elsewhere cannot reach it by rebinding one.
async fn known_host(State(app): State<App>, request: Request, next: Next) -> Response {
    let host = request.uri().host().map(str::to_owned).or_else(|| {
        request
            .headers()
            .get(header::HOST)
            .and_then(|value| value.to_str().ok())
            .map(|host| without_port(host).to_owned())
    });
    // Where a trusted proxy was asked for another name, that must be ours too.
    let reached = request.extensions().get::<ReachedBy>();
    let forwarded = reached.and_then(|reached| reached.forwarded_host.as_deref()).map(without_port);
    let is_ours = forwarded.is_none_or(|forwarded| is_known(&app, forwarded));
    let address = "use the address it listens on, or name the host in `allowed_hosts` or `public_url`";
    match host {
        Some(host) if is_ours && is_known(&app, &host) => next.run(request).await,
        Some(host) if is_name(&host) && forwarded.is_none_or(is_name) => {
            let told = "this server does not answer to that host name";
            Problem(Fault::new(FaultKind::Forbidden, told, address)).into_response()
        }
        _ => Problem(Fault::invalid("`Host` is missing, or names no host", address)).into_response(),
    }
}

/// Whether it is a name or an address, whoever's.
fn is_name(host: &str) -> bool {
    !host.is_empty() && host.parse::<Authority>().is_ok_and(|parsed| parsed.host() == host)
}

fn is_known(app: &App, host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_lowercase();
    let public = || app.config.get("public_url").split_once("://").map_or("", |(_, host)| without_port(host));
    let listening = || app.listening.get().map(|address| address.ip().to_string());
    matches!(host.as_str(), "localhost" | "127.0.0.1" | "::1")
        || (!public().is_empty() && host == public())
        || Some(&host) == listening().as_ref()
        || app.config.allowed_hosts().contains(&host)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

/// Keys that other replicas made or rotated, and keys whose last work has run out.
async fn follow_keys(app: App, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(KEYS_EVERY) => {}
            () = stop.cancelled() => return,
        }
        let followed = async {
            app.keyring.end_expired().await?;
            app.keyring.refresh().await
        };
        if let Err(fault) = followed.await {
            tracing::warn!("cannot follow the server's keys: {}", fault.logged().unwrap_or(fault.told()));
        }
    }
}

async fn follow_other_replicas(app: App) {
    loop {
        tokio::time::sleep(REFRESH_EVERY).await;
        if let Err(fault) = app.registry.refresh().await {
            tracing::warn!("cannot follow changes: {}", fault.logged().unwrap_or(fault.told()));
        }
    }
}

/// The owner of the folder, who makes the first link and the first key.
fn operator(app: &App) -> Result<Caller, Fault> {
    crate::auth::local_caller(app, LocalCaller::this_process(), crate::app::FIRST_TENANT)
}

/// Whom the printed link signs in and to whom the key in the folder belongs: the first administrator in force.
async fn administrator(app: &App, caller: &Caller) -> Result<String, Fault> {
    let users = app.store.users(caller.tenant, "", PAGE_ITEMS_MAX).await?;
    let in_force = |user: &&User| !user.disabled && user.kind == UserKind::Person && user.roles.contains(&Role::Admin);
    let first = users.iter().filter(in_force).min_by_key(|user| (user.name != FIRST_USER, user.created_at));
    first.map(|user| user.name.clone()).ok_or_else(|| {
        Fault::new(
            FaultKind::Conflict,
            "no administrator is in force, so nobody could sign in",
            "enable one with `toolgate user set NAME --enable`, or make one with `toolgate user create NAME --role admin`",
        )
    })
}

/// A key beside the database, for the command line of the folder's owner. Made anew when it does not work. Each folder
/// has its own, so that replicas on one database do not take it from each other.
async fn key_file(app: &App, data: &Path, owner: &str) -> Result<PathBuf, Fault> {
    let path = data.join("admin.key");
    if let Ok(text) = std::fs::read_to_string(&path)
        && crate::auth::key_works(app, text.trim()).await?
    {
        return Ok(path);
    }
    let text = app.create_folder_key(&operator(app)?, owner).await?;
    write_private(&path, &text).map_err(|error| Fault::internal(format!("{}: {error}", path.display())))?;
    Ok(path)
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    // A new file, so that nobody keeps it open from when it was readable; renamed, so that nobody reads half of it.
    let fresh = path.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}
