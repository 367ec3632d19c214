//! A tenant with one of everything, a neighbour, and callers of every kind.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use toolgate_contracts::{Digest, Plugin, TenantId};
use toolgate_server::LocalCaller;
use toolgate_store::Change;
use tower::ServiceExt as _;

use super::routes::Route;
use crate::plugins::built;
use crate::world::{As, World, tool};

/// Of nothing.
pub const NO_ID: &str = "01930000-0000-7000-8000-00000000dead";

const SECRET: &str = "sentinel-5f1e0c77-value-of-a-secret";
/// As long as a stream that says nothing more is listened to.
const LISTENED: Duration = Duration::from_millis(30);

/// What queries and bodies name, besides paths.
const IN_BODIES: [&str; 10] =
    ["agent", "approval", "assigned", "client", "context", "invited", "keeper", "link", "reset", "run"];

pub struct Scene {
    pub world: World,
    router: Router,
    pub callers: Vec<(&'static str, As)>,
    service: As,
    /// What must not be in any answer, and what it is.
    sentinels: Vec<(String, String)>,
    /// Made once, and only read.
    kept: RefCell<BTreeMap<String, String>>,
    number: Cell<u32>,
}

/// An answer, read to its end or until it says nothing more.
#[derive(Debug)]
pub struct Told {
    pub status: u16,
    pub body: Value,
    /// Headers and body as they were sent.
    pub text: String,
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_else(|| panic!("no `{member}`: {value:#}")).to_owned()
}

/// Ends of paths that are about runs of agents.
const OF_AGENTS: [&str; 6] = ["/outputs", "/turns", "/bundle", "/resume", "/materialize", "/replay"];
const OF_WORKFLOWS: [&str; 2] = ["/workflow", "/workflow/nodes"];

impl Scene {
    pub async fn new(world: World) -> Self {
        let router = toolgate_server::outer(&world.app);
        world.tenant("acme").await;
        let admin = world.user("default", "ada", &["admin"]).await;
        let elsewhere = world.user("acme", "eve", &["admin"]).await;
        let mut callers = vec![("anonymous", As::Nobody)];
        for role in ["viewer", "member", "approver", "author"] {
            callers.push((role, world.user("default", role, &[role]).await));
        }
        callers.push(("admin", admin.clone()));
        callers.push(("operator", world.user("default", "operator", &["operator"]).await));
        let body = json!({"name": "bot", "kind": "service"});
        world.send(&admin, "POST", "/api/v1/users", body).await.ok();
        let body = json!({"name": "bot", "owner": "bot", "scopes": ["service"]});
        let service = As::Key(text(&world.send(&admin, "POST", "/api/v1/keys", body).await.ok(), "secret"));
        callers.push(("service", service.clone()));
        world.send(&admin, "POST", "/api/v1/agents", json!({"name": "keyed"})).await.ok();
        // All that an agent's key may hold of what its owner may.
        let held = ["agents.read", "agents.run", "calls.create", "calls.read.own", "tokens.mint", "tools.read"];
        let scopes: Vec<&str> = held.into_iter().chain(["usage.read", "workflows.run"]).collect();
        let body = json!({"name": "keyed", "agent": "keyed", "scopes": scopes});
        let keyed = world.send(&admin, "POST", "/api/v1/keys", body).await.ok();
        callers.push(("agent", As::Key(text(&keyed, "secret"))));
        let body = json!({"scope": ["tool:*"], "expires_s": 900});
        let token = world.send(&admin, "POST", "/api/v1/tokens", body).await.ok();
        callers.push(("token", As::Key(text(&token, "token"))));
        callers.push(("member@web", signed_in(&world, "member").await));
        callers.push(("admin@web", signed_in(&world, "ada").await));
        callers.push(("elsewhere", elsewhere));
        callers.push(("owner", As::Owner));

        let work = json!({"egress_class": "write", "runner": {"kind": "external"}});
        world.register(&As::Owner, tool("probe.work", work)).await.ok();
        let settings = json!({"standing_grants_for_critical": true});
        world.send(&As::Owner, "PUT", "/api/v1/settings", settings).await.ok();
        let secret = json!({"value": SECRET, "hosts": ["records.example.com"]});
        world.send(&As::Owner, "PUT", "/api/v1/secrets/org/SENTINEL", secret).await.ok();
        let hook = json!({"url": "https://hooks.example.com/", "types": ["call.failed"]});
        let hook = world.send(&As::Owner, "POST", "/api/v1/webhooks", hook).await.ok();
        let unspent = link(&world, "member").await;
        let mut sentinels = vec![
            ("the value of a secret".to_owned(), SECRET.to_owned()),
            ("the secret of a webhook".to_owned(), text(&hook, "secret")),
            ("a sign-in link".to_owned(), unspent),
        ];
        for (name, who) in &callers {
            if let As::Key(shown) | As::Cookie(shown) = who {
                let shown = shown.strip_prefix("tg=").unwrap_or(shown);
                sentinels.push((format!("the credential of {name}"), shown.to_owned()));
            }
        }
        let (kept, number) = (RefCell::default(), Cell::new(0));
        Self { world, router, callers, service, sentinels, kept, number }
    }

    pub fn caller(&self, name: &str) -> &As {
        &self.callers.iter().find(|(known, _)| *known == name).unwrap().1
    }

    pub fn key_of(&self, name: &str) -> &str {
        let As::Key(key) = self.caller(name) else { panic!("{name} has no key") };
        key
    }

    #[track_caller]
    pub fn check_tells_no_secret(&self, route: &Route, to: &str, told: &Told) {
        for (what, sentinel) in &self.sentinels {
            assert!(!told.text.contains(sentinel), "{route} tells {to} {what}: {}", told.text);
        }
    }

    fn next(&self) -> u32 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    async fn make(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.world.send(&As::Owner, method, path, body.clone()).await;
        assert!((200..300).contains(&answer.status), "{method} {path} {body}: {:#}", answer.body);
        answer.body
    }

    /// What the route's path, query and body name: for reading the same each time, else made anew.
    pub async fn objects(&self, route: &Route) -> BTreeMap<String, String> {
        let (query, body) = route.sent();
        let mut names: Vec<&str> = route.parameters().collect();
        for name in IN_BODIES {
            if (query.contains(&format!("{{{name}}}")) || body.contains(&format!("{{{name}}}")))
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
        let mut objects = BTreeMap::new();
        for name in names {
            let kept = self.kept.borrow().get(&of_route(route, name)).cloned();
            let value = match kept.filter(|_| route.method == "GET") {
                Some(value) => value,
                None => self.object(route, name).await,
            };
            if route.method == "GET" {
                self.kept.borrow_mut().insert(of_route(route, name), value.clone());
            }
            objects.insert(name.to_owned(), value);
        }
        if route.versioned() == "DELETE /api/v1/agents/{agent}/tools/{tool}" {
            self.make("PUT", &self.filled(&route.path, &As::Owner, &objects), json!({})).await;
        }
        if route.versioned() == "DELETE /api/v1/tools/{tool}/classification" {
            let body = json!({"egress_class": "write", "reason": "looked"});
            self.make("PUT", &self.filled(&route.path, &As::Owner, &objects), body).await;
        }
        if objects.contains_key("session") && objects.contains_key("user") {
            objects.insert("user".to_owned(), "approver".to_owned());
        }
        objects
    }

    /// Whoever asks, signed in anew where they ask in a browser.
    pub async fn again(&self, name: &str, who: &As) -> As {
        match who {
            As::Cookie(_) => signed_in(&self.world, if name == "admin@web" { "ada" } else { "member" }).await,
            other => other.clone(),
        }
    }

    /// One of each that is listed and not shown alone.
    pub async fn furnish(&self) {
        for name in ["assigned", "grant", "opening", "acceptance", "context", "invitation", "key", "session"] {
            self.object(&Route::new("GET", ""), name).await;
        }
        let agent = self.object(&Route::new("GET", ""), "agent").await;
        let stop = json!({"scope": "agent", "name": agent, "on": true, "reason": "stop"});
        self.make("PUT", "/api/v1/kill-switches", stop).await;
    }

    /// Names for a path, of things that need not be there.
    #[expect(clippy::unused_self, reason = "read beside `objects`")]
    pub fn named_alike(&self, route: &Route) -> BTreeMap<String, String> {
        let names = route.parameters().chain(IN_BODIES);
        names.map(|name| (name.to_owned(), NO_ID.to_owned())).collect()
    }

    /// A run of an agent that said something to `echo`, and has ended.
    async fn agent_run(&self, n: u32) -> String {
        let (provider, agent) = (format!("play{n}"), format!("player{n}"));
        let call = json!([{"tool": "echo", "input": {"text": "hi"}}]);
        let turns = json!([{"call": call}, {"when": {"last_tool": "echo"}, "say": "said"}]);
        let spec = json!({"name": provider, "kind": "scripted", "script": {"version": 1, "turns": turns}});
        self.make("PUT", &format!("/api/v1/providers/{provider}"), spec).await;
        let spec = json!({"name": agent, "model": format!("{provider}/any"), "custom_tools": ["echo"]});
        self.make("POST", "/api/v1/agents", spec).await;
        let path = format!("/api/v1/agents/{agent}/runs?wait=20");
        text(&self.make("POST", &path, json!({"prompt": "Say hi."})).await, "id")
    }

    async fn object(&self, route: &Route, name: &str) -> String {
        let n = self.next();
        let route = route.versioned();
        match name {
            "agent" => text(&self.make("POST", "/api/v1/agents", json!({"name": format!("agent{n}")})).await, "name"),
            "assigned" => {
                let agent =
                    text(&self.make("POST", "/api/v1/agents", json!({"name": format!("agent{n}")})).await, "name");
                self.make("PUT", &format!("/api/v1/agents/{agent}/tools/probe.work"), json!({})).await;
                agent
            }
            // Overrides are of shared tools; the others are of the tenant's own.
            "tool" if route.contains("/override") => "calculator".to_owned(),
            "tool" if route.contains("/test") => "probe.work".to_owned(),
            "tool" => {
                let definition = tool(&format!("probe{n}"), json!({}));
                self.world.register(&As::Owner, definition).await.ok();
                format!("probe{n}")
            }
            "call" if route.contains("/cancel") || route.contains("/settle") => self.waiting("execute").await,
            "call" if route.contains("/complete") => self.approved("record").await,
            "call" => {
                let body = json!({"tool": "echo", "input": {"text": format!("private words {n}")}});
                text(&self.make("POST", "/api/v1/calls", body).await, "id")
            }
            "blob" => self.blob().await,
            "approval" => self.waiting("execute").await,
            "lease" => {
                self.approved("execute").await;
                let body = json!({"tools": ["probe.work"], "wait": 60});
                text(&self.world.send(&self.service, "POST", "/api/v1/work/lease", body).await.ok(), "lease_id")
            }
            "run" if OF_WORKFLOWS.iter().any(|end| route.ends_with(end)) => {
                let workflow = Box::pin(self.object(&Route::new("GET", ""), "workflow")).await;
                // To its end: before, there may be no node yet to be seen.
                let path = format!("/api/v1/workflows/{workflow}/runs?wait=60");
                text(&self.make("POST", &path, json!({"input": {}})).await, "run_id")
            }
            "run" if OF_AGENTS.iter().any(|end| route.ends_with(end)) => self.agent_run(n).await,
            "run" => text(&self.make("POST", "/api/v1/runs", json!({"title": "Probe"})).await, "id"),
            "input" => {
                let run = text(&self.make("POST", "/api/v1/runs", json!({"title": "Probe"})).await, "id");
                let schema = json!({"type": "object", "additionalProperties": false, "properties": {"lamp": {"type": "string"}}});
                let body = json!({"title": "Which lamp?", "schema": schema});
                text(&self.make("POST", &format!("/api/v1/runs/{run}/inputs"), body).await, "id")
            }
            "grant" => {
                let agent = Box::pin(self.object(&Route::new("GET", ""), "assigned")).await;
                let body = json!({
                    "tool": "probe.work", "agent": agent, "constraints": [{"pointer": "/id", "const": "7"}],
                    "reason": "often",
                });
                text(&self.make("POST", "/api/v1/grants", body).await, "id")
            }
            "profile" => {
                let profile = format!("profile{n}");
                self.make("POST", "/api/v1/profiles", json!({"name": profile})).await;
                profile
            }
            "skill" => {
                let skill = format!("skill{n}");
                let source = format!("---\nname: {skill}\ndescription: Looks at a text.\n---\nLook.\n");
                self.make("POST", "/api/v1/skills", json!({"source": source})).await;
                skill
            }
            "provider" => {
                let provider = format!("provider{n}");
                let script = json!({"version": 1, "turns": [{"say": "ready"}]});
                let body = json!({"name": provider, "kind": "scripted", "script": script});
                self.make("PUT", &format!("/api/v1/providers/{provider}"), body).await;
                provider
            }
            "workflow" => {
                let workflow = format!("workflow{n}");
                let node = json!({"id": "say", "kind": "tool", "config": {"tool": "echo", "input": {"text": "hi"}}});
                let graph = json!({"version": 1, "name": workflow, "nodes": [node]});
                self.make("PUT", &format!("/api/v1/workflows/{workflow}"), graph).await;
                workflow
            }
            "guardrail" => {
                let guardrail = format!("guardrail{n}");
                let body = json!({
                    "version": 1, "name": guardrail, "order": 10, "stage": "TOOL_CALL", "tools": ["find_note"],
                    "detector": {"kind": "builtin", "name": "secrets"}, "on_match": "ask", "log_only": true,
                });
                self.make("PUT", &format!("/api/v1/guardrails/{guardrail}"), body).await;
                guardrail
            }
            "revision" => {
                let body = json!({"source": "@id(\"all\") permit (principal, action, resource);"});
                self.make("POST", "/api/v1/policies", body).await["saved"]["revision"].to_string()
            }
            "acceptance" => {
                let host = format!("a{n}.example.com");
                let body = json!({"tool": "probe.work", "host": host, "accepts": ["private"], "reason": "looked"});
                text(&self.make("POST", "/api/v1/labels/acceptances", body).await, "id")
            }
            "context" => {
                let body = json!({"tool": "echo", "input": {"text": "seen"}, "labels": ["private"]});
                self.make("POST", "/api/v1/calls", body).await;
                let contexts = self.make("GET", "/api/v1/labels/contexts", Value::Null).await;
                text(&contexts["items"][0], "context")
            }
            "key" => {
                self.make("POST", "/api/v1/keys", json!({"name": format!("key{n}")})).await;
                format!("key{n}")
            }
            "id" if route.contains("/tokens/") => {
                text(&self.make("POST", "/api/v1/tokens", json!({"scope": ["tool:echo"]})).await, "id")
            }
            "name" if route.contains("/secrets/") => {
                let scope = route.split('/').nth(4).unwrap();
                let mut body = json!({"value": format!("some-value-{n}-of-a-secret")});
                if scope == "workspace" {
                    body["workspace"] = json!("main");
                }
                self.make("PUT", &format!("/api/v1/secrets/{scope}/PROBE{n}"), body).await;
                format!("PROBE{n}")
            }
            "webhook" => {
                let body = json!({"url": format!("https://hooks.example.com/{n}"), "types": ["call.failed"]});
                text(&self.make("POST", "/api/v1/webhooks", body).await, "id")
            }
            "user" => {
                self.make("POST", "/api/v1/users", json!({"name": format!("person{n}")})).await;
                format!("person{n}")
            }
            "link" => link(&self.world, "member").await,
            "session" => {
                signed_in(&self.world, "approver").await;
                let sessions = self.make("GET", "/api/v1/users/approver/sessions", Value::Null).await;
                text(&sessions["items"][0], "id")
            }
            "invitation" => {
                let body = json!({"name": format!("invited{n}")});
                text(&self.make("POST", "/api/v1/invitations", body).await["invitation"], "id")
            }
            "invited" => {
                let body = json!({"name": format!("invited{n}")});
                behind_hash(&self.make("POST", "/api/v1/invitations", body).await)
            }
            "reset" | "keeper" => {
                let keeper = format!("keeper{n}");
                self.make("POST", "/api/v1/users", json!({"name": keeper})).await;
                let token = behind_hash(&self.make("POST", &format!("/api/v1/users/{keeper}/reset"), json!({})).await);
                if name == "reset" {
                    return token;
                }
                let body = json!({"token": token, "password": "a lamp in the hall"});
                self.make("POST", "/api/v1/session/reset/finish", body).await;
                keeper
            }
            "opening" => {
                let body = json!({"host": format!("o{n}.example.com"), "port": 443, "reason": "wanted"});
                text(&self.make("POST", "/api/v1/egress/openings", body).await, "id")
            }
            "plugin" => self.plugin(n).await,
            "client" => {
                let body = json!({"redirect_uris": ["https://a.example/cb"]});
                text(&self.make("POST", "/oauth/register", body).await, "client_id")
            }
            // Its secret is nowhere, so nobody is asked anything.
            "upstream" => {
                let upstream = format!("upstream{n}");
                let body = json!({"name": upstream, "transport": {"kind": "http", "url": "https://mcp.example.com/"},
                    "headers": [{"name": "X-Key", "secret": "NOWHERE"}]});
                self.make("PUT", &format!("/api/v1/upstreams/{upstream}"), body).await;
                upstream
            }
            "role" => {
                let role = format!("role{n}");
                // SQLite has no roles, and says so.
                if route.starts_with("DELETE") {
                    let path = format!("/api/v1/db/roles/{role}");
                    self.world.send(&As::Owner, "PUT", &path, json!({"user": "admin"})).await;
                }
                role
            }
            "entry" => {
                let entries = self.make("GET", "/api/v1/audit/entries?limit=1", Value::Null).await;
                entries["items"][0]["index"].to_string()
            }
            "kind" => "webhook".to_owned(),
            "tenant" => "default".to_owned(),
            "reason" => "index".to_owned(),
            other => panic!("{route}: say what `{other}` is"),
        }
    }

    /// A plug-in as it is kept, without a component that anybody would run.
    async fn plugin(&self, n: impl std::fmt::Display) -> String {
        let component = format!("no component {n}").into_bytes();
        let name = format!("plugin{n}");
        let plugin: Plugin = serde_json::from_value(json!({
            "name": name, "version": "1.0.0", "digest": Digest::of(&component), "world": "tool", "bytes": 1,
            "description": {"name": name, "version": "1.0.0", "title": "", "description": "", "input_schema": {}},
            "installed_by": "system", "created_at": "2026-11-16T00:00:00.000Z",
        }))
        .unwrap();
        let mut change = Change::new(TenantId::SYSTEM);
        change.count_revision();
        change.insert_plugin(&plugin, component);
        self.world.app.registry.finish(change).await.unwrap();
        name
    }

    /// A call that waits for a person.
    async fn waiting(&self, mode: &str) -> String {
        let input = json!({"id": format!("w{}", self.next())});
        let body = json!({"tool": "probe.work", "input": input, "mode": mode, "wait": 0});
        let call = self.make("POST", "/api/v1/calls", body).await;
        assert_eq!(call["status"], "pending", "{call:#}");
        text(&call, "id")
    }

    /// A call that somebody decided on, and that nobody has done yet.
    async fn approved(&self, mode: &str) -> String {
        let call = self.waiting(mode).await;
        self.make("POST", &format!("/api/v1/approvals/{call}/decide"), json!({"decision": "approve"})).await;
        call
    }

    /// What is too large for an answer.
    async fn blob(&self) -> String {
        self.make("PUT", "/api/v1/tools/echo/override", json!({"max_output_bytes": 1024})).await;
        let words = "private words ".repeat(100);
        let body = json!({"tool": "echo", "input": {"text": words}});
        let call = self.make("POST", "/api/v1/calls", body).await;
        let url = call["attachments"][0]["url"].as_str().unwrap_or_else(|| panic!("no attachment: {}", call["error"]));
        url.rsplit('/').next().unwrap().to_owned()
    }

    fn filled(&self, template: &str, who: &As, objects: &BTreeMap<String, String>) -> String {
        let n = self.next();
        let credential = if let As::Key(key) = who { key.as_str() } else { "" };
        let filled = template.replace("{n}", &n.to_string()).replace("{n12}", &format!("{n:012}"));
        let filled = filled.replace("{credential}", credential);
        objects.iter().fold(filled, |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    pub async fn ask(&self, who: &As, route: &Route, objects: &BTreeMap<String, String>) -> Told {
        self.ask_with(who, route, objects, &[], "").await
    }

    pub async fn ask_with(
        &self,
        who: &As,
        route: &Route,
        objects: &BTreeMap<String, String>,
        headers: &[(&str, String)],
        parameter: &str,
    ) -> Told {
        let (query, body) = route.sent();
        let mut body = body.to_owned();
        if body.contains("{caller}") {
            let me = self.world.get(who, "/api/v1/me").await.body;
            let caller = me["agent"].as_str().or(me["principal"].as_str()).unwrap_or("nobody").to_owned();
            body = body.replace("{caller}", &caller);
        }
        let mut path = self.filled(&route.path, who, objects);
        for query in [self.filled(query, who, objects), parameter.to_owned()].iter().filter(|query| !query.is_empty()) {
            path = format!("{path}{}{query}", if path.contains('?') { "&" } else { "?" });
        }
        let mut request = Request::builder().method(route.method.as_str()).uri(path).header(header::HOST, "localhost");
        request = match who {
            As::Owner => request.extension(LocalCaller { uid: 1000 }),
            As::OwnerOf(_) => panic!("nobody of these"),
            As::Key(key) => request.header(header::AUTHORIZATION, format!("Bearer {key}")),
            As::Cookie(cookie) => request.header(header::COOKIE, cookie).header("sec-fetch-site", "same-origin"),
            As::Nobody => request,
        };
        request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        // A component is no text.
        let (kind, body) = match (route.method.as_str(), route.path.as_str()) {
            ("POST", "/api/v1/plugins") => ("application/wasm", Body::from(built("findCardNumbers"))),
            ("POST", "/oauth/token" | "/oauth/revoke") => ("application/x-www-form-urlencoded", Body::from(body)),
            _ => ("application/json", Body::from(self.filled(&body, who, objects))),
        };
        let request = request.header(header::CONTENT_TYPE, kind).body(body).unwrap();
        read(self.router.clone().oneshot(request).await.unwrap()).await
    }
}

/// Tokens have one page of routes, and `id` there is nobody else's.
fn of_route(route: &Route, name: &str) -> String {
    match name {
        "run" if OF_AGENTS.iter().chain(&OF_WORKFLOWS).any(|end| route.path.ends_with(end)) => {
            format!("{} run", route.path)
        }
        "id" | "name" => format!("{} {name}", route.path),
        "tool" if route.path.contains("/override") || route.path.contains("/test") => format!("{} tool", route.path),
        _ => name.to_owned(),
    }
}

async fn read(response: axum::response::Response) -> Told {
    let (parts, mut body) = response.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let endless = kind.starts_with("text/event-stream");
    let mut bytes = Vec::new();
    loop {
        let frame = if endless {
            let Ok(frame) = tokio::time::timeout(LISTENED, body.frame()).await else { break };
            frame
        } else {
            body.frame().await
        };
        let Some(frame) = frame else { break };
        bytes.extend_from_slice(frame.unwrap().data_ref().map_or(&[][..], |data| &data[..]));
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Told { status: parts.status.as_u16(), body: json, text: format!("{:?}\n{text}", parts.headers) }
}

fn behind_hash(answer: &Value) -> String {
    text(answer, "url").split_once('#').unwrap().1.to_owned()
}

async fn link(world: &World, user: &str) -> String {
    let path = format!("/api/v1/users/{user}/sign-in-link");
    let link = world.send(&As::Owner, "POST", &path, json!({})).await.ok();
    link["url"].as_str().unwrap().split_once("#sign-in=").unwrap().1.to_owned()
}

async fn signed_in(world: &World, user: &str) -> As {
    let token = link(world, user).await;
    let answered = world.send(&As::Nobody, "POST", "/api/v1/sign-in", json!({"token": token})).await;
    As::Cookie(answered.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned())
}
