//! Who may do what: every route by every kind of caller, kept in `tests/authority.golden`.
//!
//! To write the file anew after a change that is meant, delete it and run `the_golden_file_says_who_may_do_what`: the
//! first run writes it and fails. A route that no caller gets through fails by name: say in `authority/routes.rs` what
//! it is sent, and in `authority/scene.rs` what its path names.
//!
//! Deliberately absent: what a list shows to whom, beyond whether it is empty; that is tested where the list is.

mod routes;
mod scene;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use routes::{Route, routes};
use scene::{Scene, Told};
use serde_json::Value;
use toolgate_store::testing::every_migrated;
use toolgate_store::{Kind, MIGRATIONS, Scope};

use crate::world::{As, World};

const HEAD: &str = "\
# Who may do what: every route by every kind of caller. Explained in docs/access.md.
#
# Everything that a path names was made by the owner of the data folder, in the tenant `default`. `member@web` and
# `admin@web` are browser sessions; `agent` is a key made for an agent of an administrator, `token` a capability token
# for all tools that an administrator minted; `elsewhere` is an administrator of another tenant; `owner` is the owner of
# the data folder; the others are keys with all rights of a role.
#
# allow    done
# 409      not done, because of what is there or whose it is; no right would help
# empty    allowed, and nothing is shown of what there is
# refused  answered with 200, and what was asked for is refused in the answer
# 401      who it is must be said first
# 403      it may be known, and not done
# 404      it looks as if it were not there
#
# The test in crates/server/tests/it/authority.rs writes and compares this file.
";

/// What a name means in the caller's own tenant, or what is the same for all: another tenant's administrator gets
/// through, and touches nothing of the tenant `default`.
const NAMED_ALIKE: [&str; 12] = [
    "GET /.well-known/oauth-protected-resource/mcp/{agent}",
    "GET /docs/errors/{reason}",
    "PUT /api/v1/guardrails/{guardrail}",
    "PUT /api/v1/profiles/{profile}",
    "PUT /api/v1/providers/{provider}",
    "PUT /api/v1/workflows/{workflow}",
    "PUT /api/v1/secrets/org/{name}",
    "PUT /api/v1/secrets/user/{name}",
    "PUT /api/v1/secrets/workspace/{name}",
    // A shared tool.
    "PUT /api/v1/tools/{tool}/override",
    "DELETE /api/v1/tools/{tool}/override",
    "POST /api/v1/server-keys/{kind}/rotate",
];

/// What answers to nobody here, since nothing is configured for it, or since it takes what a client alone has, such as a
/// code or a session of the protocol; tested in `oidc.rs`, `oauth.rs` and `mcp.rs`.
const UNCONFIGURED: [&str; 4] = ["POST /api/v1/session/oidc", "POST /oauth/token", "GET /mcp", "GET /mcp/{agent}"];

/// What ends a browser session, or gives it a new secret.
fn ends_session(route: &Route) -> bool {
    let route = route.versioned();
    matches!(
        route.as_str(),
        "POST /api/v1/sign-out"
            | "DELETE /api/v1/sessions"
            | "PUT /api/v1/me/password"
            | "POST /api/v1/session/step-up"
            // A new session takes the place of the one that asked for it.
            | "POST /api/v1/session/password"
            | "POST /api/v1/session/invitation/accept"
            | "POST /api/v1/sign-in"
            | "POST /api/v1/session/tenant"
    )
}

fn golden_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/authority.golden")
}

/// Whether the rights sufficed, in the words of the file.
fn class(route: &Route, told: &Told) -> String {
    let body = &told.body;
    let denied = matches!(body["error"]["code"].as_str(), Some("POLICY_DENIED" | "AUTH_REQUIRED"));
    // Cancelling and rejecting end a call with such a code: that is what was asked for.
    let refused = (denied && body["status"] == "failed")
        || body["status"] == "denied"
        || body["output"]["error"].is_object()
        || body["items"][0]["refused"].is_string()
        || body["state"] == "unknown_tool";
    match told.status {
        200..300 if refused => "refused".to_owned(),
        // Of a database without roles, or without backups of ours, the operator is told just that.
        200..300 | 409 | 503 if route.path.starts_with("/api/v1/db/") => "allow".to_owned(),
        200..300 if route.method == "GET" && body["items"] == Value::Array(Vec::new()) => "empty".to_owned(),
        // Signing in with a provider sends a browser on, whatever came of it.
        200..300 | 303 => "allow".to_owned(),
        other => other.to_string(),
    }
}

type Table = BTreeMap<Route, Vec<String>>;

async fn table(scene: &Scene) -> Table {
    let mut all = routes();
    // One by one comes first, so that lists have something to show; what ends a session comes last.
    let is_list = |route: &Route| route.parameters().next().is_none();
    all.sort_by_key(|route| (ends_session(route), route.method != "GET", is_list(route), route.clone()));
    scene.furnish().await;
    let mut table = Table::new();
    let mut closed = Vec::new();
    for route in all {
        let mut classes = Vec::new();
        let mut last = None;
        let mut named = None;
        for (name, who) in &scene.callers {
            let objects = match named.take() {
                Some(objects) => objects,
                None => scene.objects(&route).await,
            };
            let renewed = if ends_session(&route) { Some(scene.again(name, who).await) } else { None };
            let told = scene.ask(renewed.as_ref().unwrap_or(who), &route, &objects).await;
            scene.check_tells_no_secret(&route, name, &told);
            if *name == "elsewhere" {
                check_cannot_tell_whether_it_is_there(scene, &route, who, &objects, &told).await;
            }
            classes.push(class(&route, &told));
            // What was changed is made anew for the next.
            named = Some(objects).filter(|_| route.method == "GET" || told.status >= 400);
            last = Some(told);
        }
        let through = classes.iter().any(|class| matches!(class.as_str(), "allow" | "empty" | "409"));
        if !through && !UNCONFIGURED.contains(&route.versioned().as_str()) {
            closed.push(format!("{route}: {} {}", classes.join(" "), last.map(|told| told.body).unwrap_or_default()));
        }
        table.insert(route, classes);
    }
    assert!(closed.is_empty(), "nobody gets through, and the owner is told:\n{}", closed.join("\n"));
    table
}

/// `security.md` §11, test 48: another tenant's object and none at all are answered alike.
async fn check_cannot_tell_whether_it_is_there(
    scene: &Scene,
    route: &Route,
    who: &As,
    objects: &BTreeMap<String, String>,
    told: &Told,
) {
    if route.parameters().next().is_none() || NAMED_ALIKE.contains(&route.versioned().as_str()) {
        return;
    }
    let of_nothing = |value: &str| match value {
        id if id.len() == scene::NO_ID.len() => scene::NO_ID,
        number if number.parse::<u64>().is_ok() => "987654",
        _ => "nothing",
    };
    let nothing: BTreeMap<String, String> =
        objects.iter().map(|(name, value)| (name.clone(), of_nothing(value).to_owned())).collect();
    assert_ne!(class(route, told), "allow", "{route}: another tenant's administrator is told {}", told.text);
    let other = scene.ask(who, route, &nothing).await;
    let alike = |text: &str, objects: &BTreeMap<String, String>| {
        objects.values().fold(text.to_owned(), |text, value| {
            let word = regex::Regex::new(&format!(r"\b{}\b", regex::escape(value))).unwrap();
            word.replace_all(&text, "…").into_owned()
        })
    };
    let (there, absent) = (alike(&told.body.to_string(), objects), alike(&other.body.to_string(), &nothing));
    assert_eq!((told.status, there), (other.status, absent), "{route}: the answers tell what another tenant has");
}

fn written(scene: &Scene, table: &Table) -> String {
    let width = table.keys().map(|route| route.to_string().len()).max().unwrap_or(0);
    let mut text = format!("{HEAD}\n{:width$}", "route");
    for (name, _) in &scene.callers {
        write!(text, "  {name}").unwrap();
    }
    text.push('\n');
    for (route, classes) in table {
        write!(text, "{:width$}", route.to_string()).unwrap();
        for ((name, _), class) in scene.callers.iter().zip(classes) {
            write!(text, "  {class:size$}", size = name.len()).unwrap();
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// The routes of a file: what stands before two spaces.
fn listed(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.skip(1).map(|line| line.split("  ").next().unwrap_or_default()).collect()
}

fn compare(text: &str) {
    let path = golden_path();
    let Ok(kept) = std::fs::read_to_string(&path) else {
        std::fs::write(&path, text).unwrap();
        panic!("tests/authority.golden was not there and is now: look at it");
    };
    let (before, now) = (listed(&kept), listed(text));
    let missing: Vec<_> = now.iter().filter(|route| !before.contains(route)).collect();
    let gone: Vec<_> = before.iter().filter(|route| !now.contains(route)).collect();
    let difference = similar::TextDiff::from_lines(kept.as_str(), text).unified_diff().context_radius(0).to_string();
    assert!(
        kept == text,
        "tests/authority.golden does not say who may do what: look at each line; to take it as it is now, delete the \
         file and run this test\nroutes that it misses: {missing:#?}\nroutes that are gone: {gone:#?}\n{difference}"
    );
}

#[tokio::test]
async fn the_golden_file_says_who_may_do_what() {
    every_migrated(async |database| {
        let scene = Scene::new(World::open(database).await).await;
        let table = table(&scene).await;
        compare(&written(&scene, &table));
    })
    .await;
}

/// What clients and proxies write into requests, of which nothing makes a caller.
const FORGED: [(&str, &str); 37] = [
    ("x-api-key", "KEY"),
    ("x-auth-token", "KEY"),
    ("x-access-token", "KEY"),
    ("x-authorization", "Bearer KEY"),
    ("proxy-authorization", "Bearer KEY"),
    ("x-forwarded-authorization", "Bearer KEY"),
    ("x-toolgate-key", "KEY"),
    ("toolgate-key", "KEY"),
    ("toolgate-token", "KEY"),
    ("toolgate-tenant", "default"),
    ("toolgate-client", "cli"),
    ("toolgate-revision", "1"),
    ("toolgate-background", "1"),
    ("toolgate-caller", "local:0"),
    ("toolgate-agent", "keyed"),
    ("toolgate-principal", "local:0"),
    ("toolgate-internal", "true"),
    ("x-toolgate-internal", "true"),
    ("x-toolgate-local", "1000"),
    ("x-forwarded-for", "127.0.0.1"),
    ("x-forwarded-host", "localhost"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-user", "admin"),
    ("x-forwarded-email", "admin@localhost"),
    ("forwarded", "for=127.0.0.1;host=localhost;proto=https"),
    ("x-real-ip", "127.0.0.1"),
    ("x-remote-user", "admin"),
    ("remote-user", "admin"),
    ("x-auth-request-user", "admin"),
    ("x-user-id", "admin"),
    ("x-original-url", "/healthz"),
    ("x-rewrite-url", "/healthz"),
    ("x-http-method-override", "GET"),
    ("x-internal-request", "true"),
    ("mcp-session-id", "KEY"),
    ("mcp-name", "admin"),
    ("x-mcp-authorized", "true"),
];

/// Field reports: a header meant for hops within the product skips the door; a key in the address ends up in logs.
#[tokio::test]
async fn no_header_but_authorization_and_no_parameter_makes_a_caller() {
    let database = toolgate_store::testing::Database::sqlite(MIGRATIONS).unwrap();
    let scene = Scene::new(World::open(&database).await).await;
    let key = scene.key_of("admin").to_owned();
    let forged: Vec<(&str, String)> = FORGED.iter().map(|(name, value)| (*name, value.replace("KEY", &key))).collect();
    for route in routes() {
        let objects = scene.named_alike(&route);
        let plain = scene.ask(&As::Nobody, &route, &objects).await;
        // Who guesses passwords or invitations is told to wait, whatever headers come along.
        let guesses = route.path == "/api/v1/session/password" || route.path.starts_with("/api/v1/session/invitation");
        if plain.status != 401 || guesses {
            continue;
        }
        let alone = forged.iter().map(std::slice::from_ref);
        for headers in alone.chain([forged.as_slice()]) {
            let told = scene.ask_with(&As::Nobody, &route, &objects, headers, "").await;
            assert_eq!((told.status, &told.body), (401, &plain.body), "{route} with {headers:?}");
        }
        for parameter in ["key", "api_key", "apikey", "token", "access_token", "authorization", "auth"] {
            let query = format!("{parameter}={key}");
            let told = scene.ask_with(&As::Nobody, &route, &objects, &[], &query).await;
            assert_eq!(told.status, 401, "{route}?{parameter}=…");
            assert!(!told.text.contains(&key), "{route}: the key is repeated");
        }
    }
}

/// `security.md` §11, test 37. What the first reading makes (keys, places in the log, sums of usage) is there by then.
#[tokio::test]
async fn reading_changes_nothing() {
    every_migrated(async |database| {
        let scene = Scene::new(World::open(database).await).await;
        let read_all = async || {
            for route in routes().iter().filter(|route| route.method == "GET") {
                for who in [&As::Owner, scene.caller("admin")] {
                    scene.ask(who, route, &scene.objects(route).await).await;
                }
            }
        };
        read_all().await;
        let before = rows(&scene, database.kind).await;
        assert!(before.len() > 30, "{before:?}");
        read_all().await;
        let mut after = rows(&scene, database.kind).await;
        // Who takes all of a person's data away leaves a trace, and a trace has a place in the log.
        let traced = after["audit_leaves"] - before["audit_leaves"];
        let exports = read_export_actions(&scene).await;
        assert_eq!((traced, exports), (2, 4), "one export by each of two in each of two rounds, and no other trace");
        for table in ["audit_leaves", "audit_sequence", "audit_checkpoints", "audit_nodes"] {
            after.insert(table.to_owned(), before[table]);
        }
        assert_eq!(before, after);
    })
    .await;
}

async fn read_export_actions(scene: &Scene) -> usize {
    let path = "/api/v1/audit/entries?limit=500&action=person.export";
    let entries = scene.world.get(&As::Owner, path).await.ok();
    entries["items"].as_array().unwrap().len()
}

/// How many rows each table has.
async fn rows(scene: &Scene, kind: Kind) -> BTreeMap<String, i64> {
    let store = &scene.world.app.store;
    let scope = Scope::Everyone("a test counts the rows of all tables");
    let sql = match kind {
        Kind::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
        Kind::Postgres => {
            "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
        }
    };
    let tables = store.query(&scope, sql, vec![]).await.unwrap();
    let mut rows = BTreeMap::new();
    for table in tables.iter().map(|row| row.get::<String>(0).unwrap()) {
        let counted = store.query(&scope, &format!("SELECT COUNT(*) FROM {table}"), vec![]).await.unwrap();
        rows.insert(table, counted[0].get::<i64>(0).unwrap());
    }
    rows
}
