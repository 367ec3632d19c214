//! A running application on a fresh database, and people with keys to it.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_contracts::{Clock, Rng, Timestamp};
use toolgate_engine::{Runners, Wiring};
use toolgate_mcp::runner::Servers;
use toolgate_runners::{Compositions, Plugins};
use toolgate_server::{App, CodeTools, Config, LocalCaller, Printed};
use toolgate_store::Kind;
use toolgate_store::testing::{Database, every_migrated};
use toolgate_toolbox::{Builtin, Tools};
use tower::ServiceExt as _;

pub const CODE: CodeTools =
    CodeTools { tools: toolgate_toolbox::TOOLS, builtins: toolgate_toolbox::BUILTINS, runners, printed_by };

fn printed_by(_: Vec<String>) -> Printed {
    Box::pin(async { panic!("no test of the server starts a program") })
}

fn runners(wiring: &Wiring<'_>) -> Runners {
    let Wiring { store, outside, .. } = *wiring;
    // What one test compiled, the next takes: it takes seconds, and is named by its digest.
    let plugins = Plugins::open(Path::new(env!("CARGO_TARGET_TMPDIR")), store.clone(), outside.clone()).unwrap();
    Runners::default()
        .with("builtin", Arc::new(Builtin::new(Tools::new(wiring))))
        .with("composition", Arc::new(Compositions::default()))
        .with("mcp", Arc::new(Servers::starting(wiring)))
        .with("wasm", Arc::new(plugins))
}

pub struct World {
    pub app: App,
    pub clock: Clock,
    router: OnceLock<Router>,
    _folder: tempfile::TempDir,
}

/// Runs a test on both databases.
pub async fn every_world(test: impl AsyncFn(World)) {
    every_migrated(async |database| test(World::open(database).await).await).await;
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub headers: axum::http::HeaderMap,
}

impl Answer {
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{} {:#}", self.status, self.body);
        self.body
    }

    #[track_caller]
    pub fn refused(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:#}", self.body);
        assert_eq!(self.body["status"], status, "a refusal is a problem: {:#}", self.body);
        assert!(self.body["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{:#}", self.body);
        self.body
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub enum As {
    Owner,
    OwnerOf(&'static str),
    Key(String),
    Cookie(String),
    Nobody,
}

impl World {
    pub async fn open(database: &Database) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::manual(Timestamp::from_millis(1_794_700_000_000));
        let app = open(database, folder.path(), clock.clone(), 1).await;
        Self { app, clock, router: OnceLock::new(), _folder: folder }
    }

    /// An application that was opened elsewhere.
    pub fn of(app: App) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = app.clock.clone();
        Self { app, clock, router: OnceLock::new(), _folder: folder }
    }

    pub fn router(&self) -> Router {
        self.router.get_or_init(|| self.app.router()).clone()
    }

    pub async fn send(&self, who: &As, method: &str, path: &str, body: Value) -> Answer {
        send(self.router(), who, method, path, body).await
    }

    pub async fn get(&self, who: &As, path: &str) -> Answer {
        self.send(who, "GET", path, Value::Null).await
    }

    /// A user of a tenant with these roles, and a key that has them all.
    pub async fn user(&self, tenant: &'static str, name: &str, roles: &[&str]) -> As {
        let owner = As::OwnerOf(tenant);
        let service = roles == ["service"];
        let kind = if service { "service" } else { "person" };
        self.send(&owner, "POST", "/api/v1/users", json!({"name": name, "roles": roles, "kind": kind})).await.ok();
        // The owner of the folder lacks what only a service does, so a service's key has the common part.
        let scopes = if service { json!(["tools:execute"]) } else { json!(roles) };
        let key = self
            .send(
                &owner,
                "POST",
                "/api/v1/keys",
                json!({"name": format!("{name}-key"), "owner": name, "scopes": scopes}),
            )
            .await
            .ok();
        As::Key(key["secret"].as_str().unwrap().to_owned())
    }

    pub async fn tenant(&self, slug: &str) {
        self.send(&As::Owner, "POST", "/api/v1/tenants", json!({"slug": slug})).await.ok();
    }

    pub async fn register(&self, who: &As, definition: Value) -> Answer {
        self.send(who, "POST", "/api/v1/tools", json!({"definition": definition, "apply": true})).await
    }

    /// The names a caller is shown.
    pub async fn names(&self, who: &As, query: &str) -> Vec<String> {
        let list = self.get(who, &format!("/api/v1/tools?limit=500&{query}")).await.ok();
        list["items"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

pub async fn open(database: &Database, folder: &std::path::Path, clock: Clock, seed: u64) -> App {
    // Nobody waits in a test for a person who does not come.
    let flags = [("database", database.url.clone()), ("mcp_patience_seconds", "0".to_owned())];
    let config = Config::load(None, std::iter::empty(), &flags).unwrap();
    let _ = matches!(database.kind, Kind::Sqlite);
    App::open(config, folder, CODE, clock, Rng::seeded(seed)).await.map_err(|fault| format!("{fault:?}")).unwrap()
}

/// Two copies of the program on one database, with the folders they live in.
pub async fn two_replicas(database: &Database) -> ([App; 2], [tempfile::TempDir; 2]) {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    // Replicas of one database share the key that wraps all others.
    let [own, other] = folders.each_ref().map(|folder| folder.path().join("master.key"));
    std::fs::write(&own, "11".repeat(32)).unwrap();
    std::fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::copy(own, other).unwrap();
    let clock = Clock::manual(Timestamp::from_millis(1_794_700_000_000));
    let (first, second) =
        tokio::join!(open(database, folders[0].path(), clock.clone(), 1), open(database, folders[1].path(), clock, 2));
    ([first, second], folders)
}

/// What runs in the background of a server.
pub fn attend(app: &App) -> CancellationToken {
    let stop = CancellationToken::new();
    let (host, engine) = (app.host.clone(), app.engine.clone());
    tokio::spawn({
        let stop = stop.clone();
        async move { host.attend(stop).await }
    });
    tokio::spawn({
        let stop = stop.clone();
        async move { engine.attend_background(stop).await }
    });
    stop
}

/// An application on SQLite with settings of its own, for what no database has a part in.
pub async fn with_settings(settings: &[(&'static str, &str)]) -> (App, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let flags: Vec<_> = settings.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let config = Config::load(None, std::iter::empty(), &flags).unwrap();
    let clock = Clock::manual(Timestamp::from_millis(1_794_700_000_000));
    let app = App::open(config, folder.path(), CODE, clock, Rng::seeded(3)).await;
    (app.map_err(|fault| format!("{fault:?}")).unwrap(), folder)
}

pub async fn send(router: Router, who: &As, method: &str, path: &str, body: Value) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
    request = match who {
        As::Owner => request.extension(LocalCaller { uid: 1000 }),
        As::OwnerOf(tenant) => {
            request.extension(LocalCaller { uid: 1000 }).header(toolgate_server::TENANT_HEADER, *tenant)
        }
        As::Key(key) => request.header(header::AUTHORIZATION, format!("Bearer {key}")),
        As::Cookie(cookie) => request.header(header::COOKIE, cookie).header("sec-fetch-site", "same-origin"),
        As::Nobody => request,
    };
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let request = request.header(header::CONTENT_TYPE, "application/json").body(body).unwrap();
    answer(router.oneshot(request).await.unwrap()).await
}

pub async fn answer(response: axum::response::Response) -> Answer {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Answer { status: parts.status.as_u16(), body, headers: parts.headers }
}

/// A definition that passes, to be changed by each test.
pub fn tool(name: &str, extra: Value) -> Value {
    let mut definition = json!({
        "name": name,
        "description": "Reads one record by its number. Use it when the number is known. Do not use it to search.",
        "input_schema": {
            "type": "object", "additionalProperties": false, "required": ["id"],
            "properties": {"id": {"type": "string", "description": "The record's number.", "maxLength": 40}},
        },
        "output_schema": {
            "type": "object", "additionalProperties": false, "required": ["title"],
            "properties": {"title": {"type": "string", "description": "Its title."}},
        },
        "egress_class": "read_only",
        "runner": {"kind": "http", "method": "GET", "url": "https://records.example.com/{{ id }}"},
    });
    definition.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    definition
}

pub fn write_tool(name: &str) -> Value {
    tool(
        name,
        json!({"egress_class": "write", "runner": {"kind": "http", "method": "POST", "url": "https://records.example.com/"}}),
    )
}
