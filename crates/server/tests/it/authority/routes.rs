//! Every route there is, and what each is sent so that rights decide and nothing else.

use std::fmt;
use std::path::Path;

use regex::Regex;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub method: String,
    pub path: String,
}

/// By path, then by method.
impl Ord for Route {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.path, &self.method).cmp(&(&other.path, &other.method))
    }
}

impl PartialOrd for Route {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6} {}", self.method, self.path)
    }
}

impl Route {
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_uppercase(), path: path.to_owned() }
    }

    /// The route that answers, where this is its other name.
    pub fn versioned(&self) -> String {
        format!("{} {}", self.method, self.path.replacen("/api/tools", "/api/v1/tools", 1))
    }

    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// What stands behind the path, and the body. `{n}` is another number in every request.
    pub fn sent(&self) -> (&'static str, &'static str) {
        let name = self.versioned();
        let found = SENT.iter().find(|(route, _, _)| *route == name);
        found.map_or(("", if self.method == "GET" { "" } else { "{}" }), |(_, query, body)| (query, body))
    }
}

/// Those of the document, under every name and in every scope; and those that are no part of the API.
pub fn routes() -> Vec<Route> {
    let document = serde_json::to_value(toolgate_server::api::document()).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            // Who may set a secret depends on its scope.
            let scopes: &[&str] = if path.contains("{scope}") { &["user", "workspace", "org"] } else { &[""] };
            routes.extend(scopes.iter().map(|scope| Route::new(method, &path.replace("{scope}", scope))));
            if path.starts_with("/api/v1/tools") {
                routes.push(Route::new(method, &path.replacen("/api/v1/tools", "/api/tools", 1)));
            }
        }
    }
    routes.extend(undocumented().iter().map(|path| Route::new("GET", path)));
    routes.sort();
    routes
}

/// Routes that are made without the document: read from the sources, so that none is forgotten.
fn undocumented() -> Vec<String> {
    let made = Regex::new(r#"\.(route|nest|route_service|nest_service)\(\s*"([^"]+)""#).unwrap();
    let mut sources = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut paths = Vec::new();
    while let Some(source) = sources.pop() {
        if source.is_dir() {
            sources.extend(std::fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&source).unwrap();
        for found in made.captures_iter(&text) {
            match (&found[1], &found[2]) {
                // The other name of the tools' routes, and the answer for what is no route.
                ("nest_service", "/api/tools") | ("route", "/api/{*rest}") => {}
                ("route", path) => paths.push(path.to_owned()),
                (how, path) => panic!("{}: say what `{how}` of {path} serves", source.display()),
            }
        }
    }
    assert!(
        paths.iter().any(|path| path == "/openapi.json") && paths.iter().any(|path| path == "/docs/api"),
        "{paths:?}"
    );
    paths
}

const REGISTER: &str = r#"{"apply": true, "definition": {
    "name": "made{n}", "description": "Reads one record by its number. Use it when the number is known. Do not use it to search.",
    "input_schema": {"type": "object", "additionalProperties": false, "required": ["id"],
        "properties": {"id": {"type": "string", "description": "The record's number.", "maxLength": 40}}},
    "output_schema": {"type": "object", "additionalProperties": false, "required": ["title"],
        "properties": {"title": {"type": "string", "description": "Its title."}}},
    "egress_class": "read_only",
    "runner": {"kind": "http", "method": "GET", "url": "https://records.example.com/{{ id }}"}}}"#;
const QUESTION: &str = r#"{"title": "Which lamp?", "schema": {"type": "object", "additionalProperties": false,
    "properties": {"lamp": {"type": "string"}}}}"#;
const WEBHOOK: &str = r#"{"url": "https://hooks.example.com/{n}", "types": ["call.failed"]}"#;
const REJECT: &str = r#"{"decision": "reject", "reason": "no"}"#;
const GUARDRAIL: &str = r#"{"version": 1, "name": "{guardrail}", "order": 10, "stage": "TOOL_CALL", "tools": ["find_note"],
    "detector": {"kind": "builtin", "name": "secrets"}, "on_match": "ask", "log_only": true}"#;
const TRY_GUARDRAIL: &str = r#"{"value": {"text": "words"}, "guardrail": {"version": 1, "name": "tried", "order": 10,
    "stage": "TOOL_CALL", "detector": {"kind": "builtin", "name": "secrets"}, "on_match": "ask", "log_only": true}}"#;
const POLICIES: &str = r#"{"source": "@id(\"all\") permit (principal, action, resource);"}"#;
const TRY: &str = r#"{"input": {"id": "{n}"}, "dry_run": true}"#;
const INVOKE: &str = r#"{"request_id": "7c5e3f6a-0000-4000-8000-{n12}", "caller_id": "{caller}",
    "capability_token": "{credential}", "tool_id": "calculator", "function_name": "", "args": {"expression": "6 * 7"}}"#;

const CLIENT: &str = "client_id={client}&redirect_uri=https%3A%2F%2Fa.example%2Fcb&response_type=code&code_challenge_method=S256&code_challenge=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";
const MCP_LIST: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#;

/// The route, what stands behind its path, its body. What is not here is sent `{}`.
const SENT: &[(&str, &str, &str)] = &[
    ("POST /api/v1/agents", "", r#"{"name": "made{n}"}"#),
    ("PUT /api/v1/agents/{agent}", "", r#"{"name": "{agent}"}"#),
    ("POST /api/v1/agents/{agent}/runs", "", r#"{"prompt": "Hello"}"#),
    ("PUT /api/v1/agents/{agent}/state", "", r#"{"state": "frozen"}"#),
    ("POST /api/v1/approvals/decide", "", r#"{"ids": ["{approval}"], "decision": "reject", "reason": "no"}"#),
    ("POST /api/v1/approvals/{approval}/decide", "", REJECT),
    ("GET /api/v1/audit/consistency", "from=1&to=1", ""),
    ("POST /api/v1/calls", "", r#"{"tool": "probe.work", "input": {"id": "{n}"}, "wait": 0}"#),
    ("POST /api/v1/calls/{call}/complete", "", r#"{"status": "completed", "output": {"title": "done"}}"#),
    ("POST /api/v1/calls/{call}/settle", "", r#"{"status": "failed", "reason": "looked"}"#),
    ("GET /api/v1/compat/capabilities", "q=calculator", ""),
    ("POST /api/v1/compat/execute", "", r#"{"slug": "echo", "input": {"text": "{n}"}}"#),
    ("POST /api/v1/db/backup", "", r#"{"name": "made{n}.db"}"#),
    ("PUT /api/v1/db/roles/{role}", "", r#"{"user": "admin"}"#),
    ("POST /api/v1/egress/openings", "", r#"{"host": "h{n}.example.com", "port": 443, "reason": "wanted"}"#),
    (
        "POST /api/v1/grants",
        "",
        r#"{"tool": "probe.work", "agent": "{assigned}", "constraints": [{"pointer": "/id", "const": "7"}], "reason": "often"}"#,
    ),
    ("POST /api/v1/guardrails/test", "", TRY_GUARDRAIL),
    ("PUT /api/v1/guardrails/{guardrail}", "", GUARDRAIL),
    (
        "POST /api/v1/imports/openapi",
        "",
        r#"{"document": "{\"openapi\": \"3.1.0\", \"paths\": {\"/x\": {\"get\": {}}}}", "base_url": "https://x.example.com", "apply": true, "prefix": "made{n}"}"#,
    ),
    ("POST /api/v1/inputs/{input}/answer", "", r#"{"answer": {"lamp": "hall"}}"#),
    ("POST /api/v1/invitations", "", r#"{"name": "made{n}"}"#),
    ("POST /api/v1/keys", "", r#"{"name": "made{n}", "scopes": ["tools.read"]}"#),
    ("PUT /api/v1/kill-switches", "", r#"{"scope": "agent", "name": "{agent}", "on": true, "reason": "stop"}"#),
    (
        "POST /api/v1/labels/acceptances",
        "",
        r#"{"tool": "probe.work", "host": "h{n}.example.com", "accepts": ["private"], "reason": "looked"}"#,
    ),
    ("POST /api/v1/labels/reset", "", r#"{"context": "{context}"}"#),
    ("POST /api/v1/lint", "", REGISTER),
    ("PUT /api/v1/me/password", "", r#"{"password": "a lamp in the hall"}"#),
    ("POST /api/v1/policies", "", POLICIES),
    ("POST /api/v1/policies/check", "", POLICIES),
    ("POST /api/v1/policies/test", "", r#"{"revision": "default", "since": "2026-11-14T00:00:00Z"}"#),
    ("POST /api/v1/profiles", "", r#"{"name": "made{n}"}"#),
    ("PUT /api/v1/profiles/{profile}", "", r#"{"name": "{profile}"}"#),
    ("POST /api/v1/retention", "", r#"{"older_than_days": 100}"#),
    ("POST /api/v1/replay", "", r#"{"run": "{run}"}"#),
    ("POST /api/v1/runs/{run}/inputs", "", QUESTION),
    ("PUT /api/v1/runs/{run}/state", "", r#"{"state": "completed"}"#),
    ("POST /api/v1/runs/{run}/steps", "", r#"{"title": "First"}"#),
    (
        "POST /api/v1/runs/{run}/tool-events",
        "",
        r#"{"type": "tool_invocation_started", "call_id": "e{n}", "tool": "probe.work", "input": {"id": "{n}"}}"#,
    ),
    ("GET /api/v1/search", "q=calculator", ""),
    ("POST /api/v1/skills", "", r#"{"source": "---\nname: made{n}\ndescription: Looks at a text.\n---\nLook.\n"}"#),
    ("PUT /api/v1/providers/{provider}", "", r#"{"name": "{provider}", "kind": "openai_chat"}"#),
    ("POST /api/v1/providers/{provider}/test", "", r#"{"model": "any"}"#),
    (
        "PUT /api/v1/workflows/{workflow}",
        "",
        r#"{"version": 1, "name": "{workflow}", "description": "{n}", "nodes": [{"id": "say", "kind": "tool", "config": {"tool": "echo", "input": {"text": "hi"}}}]}"#,
    ),
    ("POST /api/v1/workflows/{workflow}/publish", "", r#"{"tool": "made{n}", "dry_run": true}"#),
    ("POST /api/v1/runs/{run}/materialize", "", r#"{"pin": {"name": "it", "selector": {"tool": "echo"}}}"#),
    ("GET /api/v1/secrets/which", "name=SENTINEL", ""),
    ("PUT /api/v1/secrets/user/{name}", "", r#"{"value": "some-value-{n}-of-a-secret"}"#),
    ("PUT /api/v1/secrets/workspace/{name}", "", r#"{"value": "some-value-{n}-of-a-secret", "workspace": "main"}"#),
    ("PUT /api/v1/secrets/org/{name}", "", r#"{"value": "some-value-{n}-of-a-secret"}"#),
    ("DELETE /api/v1/secrets/workspace/{name}", "workspace=main", ""),
    ("POST /api/v1/secrets/workspace/{name}/allow", "", r#"{"workspace": "main"}"#),
    ("POST /api/v1/session/invitation", "", r#"{"token": "{invited}"}"#),
    (
        "POST /api/v1/session/invitation/accept",
        "",
        r#"{"token": "{invited}", "name": "made{n}", "password": "a lamp in the hall"}"#,
    ),
    ("POST /api/v1/session/link", "", r#"{"token": "{link}"}"#),
    ("POST /api/v1/session/password", "", r#"{"user": "{keeper}", "password": "a lamp in the hall"}"#),
    ("POST /api/v1/session/reset", "", r#"{"user": "made{n}"}"#),
    ("POST /api/v1/session/reset/finish", "", r#"{"token": "{reset}", "password": "a lamp in the hall"}"#),
    ("POST /api/v1/session/step-up", "", r#"{"password": "a lamp in the hall"}"#),
    ("POST /api/v1/session/tenant", "", r#"{"tenant": "default"}"#),
    // As the scene has it.
    ("PUT /api/v1/settings", "", r#"{"standing_grants_for_critical": true}"#),
    ("POST /api/v1/sign-in", "", r#"{"token": "{link}"}"#),
    ("POST /api/v1/tenants", "", r#"{"slug": "made{n}"}"#),
    ("PATCH /api/v1/tenants/{tenant}", "", r#"{"open_write": false}"#),
    ("POST /api/v1/tokens", "", r#"{"scope": ["tool:calculator"]}"#),
    ("DELETE /api/v1/tokens", "agent={agent}", ""),
    ("POST /api/v1/tools", "", REGISTER),
    ("PATCH /api/v1/tools/{tool}", "", r#"{"title": "Another {n}"}"#),
    ("PUT /api/v1/tools/{tool}/classification", "", r#"{"egress_class": "write", "reason": "looked"}"#),
    ("PUT /api/v1/tools/{tool}/enabled", "", r#"{"enabled": false}"#),
    ("PUT /api/v1/tools/{tool}/override", "", r#"{"title": "Another"}"#),
    ("PUT /api/v1/tools/{tool}/state", "", r#"{"state": "deprecated", "message": "old"}"#),
    ("POST /api/v1/tools/{tool}/test", "", TRY),
    ("POST /api/v1/tools/{tool}/test/stream", "", TRY),
    ("POST /api/v1/users", "", r#"{"name": "made{n}"}"#),
    ("PATCH /api/v1/users/{user}", "", r#"{"roles": ["viewer"]}"#),
    (
        "PUT /api/v1/upstreams/{upstream}",
        "",
        r#"{"name": "{upstream}", "transport": {"kind": "http", "url": "https://mcp.example.com/"}, "headers": [{"name": "X-Key", "secret": "NOWHERE"}]}"#,
    ),
    ("POST /api/v1/upstreams/{upstream}/connect", "", r#"{"redirect": "http://127.0.0.1:9/callback"}"#),
    ("POST /api/v1/upstreams/{upstream}/connected", "", r#"{"answer": "http://127.0.0.1:9/callback?code=x"}"#),
    (
        "POST /api/v1/upstreams/{upstream}/accept",
        "",
        r#"{"seen": "0000000000000000000000000000000000000000000000000000000000000000"}"#,
    ),
    (
        "POST /api/v1/upstreams/{upstream}/refuse",
        "",
        r#"{"seen": "0000000000000000000000000000000000000000000000000000000000000000"}"#,
    ),
    ("POST /api/v1/webhooks", "", WEBHOOK),
    ("PUT /api/v1/webhooks/{webhook}", "", WEBHOOK),
    ("POST /api/v1/work/lease", "", r#"{"tools": ["probe.work"], "wait": 0}"#),
    ("POST /api/v1/work/{lease}/complete", "", r#"{"status": "completed", "output": {"title": "done"}}"#),
    ("POST /api/v1/workspaces", "", r#"{"slug": "made{n}"}"#),
    ("POST /invoke", "", INVOKE),
    ("POST /mcp", "", MCP_LIST),
    ("POST /mcp/{agent}", "", MCP_LIST),
    ("GET /api/v1/oauth/request", CLIENT, ""),
    (
        "POST /api/v1/oauth/decision",
        "",
        r#"{"allow": true, "query": "client_id={client}&redirect_uri=https%3A%2F%2Fa.example%2Fcb&response_type=code&code_challenge_method=S256&code_challenge=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"}"#,
    ),
    ("POST /oauth/register", "", r#"{"redirect_uris": ["https://a.example/cb"]}"#),
    ("POST /oauth/revoke", "", "token=nothing"),
    ("POST /oauth/token", "", "grant_type=refresh_token&refresh_token=nothing&client_id=nobody"),
];
