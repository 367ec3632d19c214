//! Servers that want tokens: who may connect them, where a token goes, when it is renewed, and what is told without one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{RawForm, State};
use axum::response::{IntoResponse, Response};
use toolgate_contracts::{Digest, Principal, SecretPlace};
use toolgate_egress::Url;

use super::*;

/// A server and its authorisation server, at one address.
#[derive(Default)]
struct Fake {
    port: u16,
    made: u32,
    /// Access tokens that are good, and for which scopes.
    good: BTreeMap<String, String>,
    /// Renewal tokens, each good once.
    renewals: BTreeMap<String, String>,
    /// Codes, with the challenge that they were asked with.
    codes: BTreeMap<String, (String, String)>,
    renewed: u32,
    refuses_renewal: bool,
    wants: &'static str,
    /// Says what it was shown as an error of the protocol.
    fails: bool,
    /// What the server was shown.
    shown: BTreeSet<String>,
    forms: Vec<BTreeMap<String, String>>,
    registered: u32,
}

type Shared = Arc<Mutex<Fake>>;

fn locked(fake: &Shared) -> MutexGuard<'_, Fake> {
    fake.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fake {
    fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn give(&mut self, scope: &str, renews: bool) -> Response {
        self.made += 1;
        let (access, renewal) = (format!("access-token-{}", self.made), format!("renewal-token-{}", self.made));
        self.good.insert(access.clone(), scope.to_owned());
        let mut given = json!({"access_token": access, "token_type": "Bearer", "expires_in": 3600, "scope": scope});
        if renews {
            self.renewals.insert(renewal.clone(), scope.to_owned());
            given["refresh_token"] = renewal.into();
        }
        Json(given).into_response()
    }
}

fn refusal(error: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response()
}

async fn token(State(fake): State<Shared>, headers: HeaderMap, RawForm(form): RawForm) -> Response {
    let url = Url::parse(&format!("http://x/?{}", String::from_utf8(form.to_vec()).unwrap())).unwrap();
    let mut form: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
    let basic = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    form.insert("authorization".to_owned(), basic.unwrap_or_default());
    let get = |name: &str| form.get(name).cloned().unwrap_or_default();
    let mut fake = locked(&fake);
    fake.forms.push(form.clone());
    assert_eq!(get("resource"), format!("{}/mcp", fake.base()), "whom it is for is said each time");
    match get("grant_type").as_str() {
        "authorization_code" => {
            let Some((challenge, scope)) = fake.codes.remove(&get("code")) else { return refusal("invalid_grant") };
            let verifier = Digest::of(get("code_verifier").as_bytes());
            if data_encoding::BASE64URL_NOPAD.encode(verifier.as_bytes()) != challenge {
                return refusal("invalid_grant");
            }
            fake.give(&scope, true)
        }
        "refresh_token" => {
            let scope = fake.renewals.remove(&get("refresh_token"));
            match scope.filter(|_| !fake.refuses_renewal) {
                Some(scope) => {
                    fake.renewed += 1;
                    fake.give(&scope, true)
                }
                None => refusal("invalid_grant"),
            }
        }
        "client_credentials" if get("authorization") == "Basic d2U6dGhlLWNsaWVudHMtc2VjcmV0" => {
            let scope = get("scope");
            fake.give(&scope, false)
        }
        _ => refusal("invalid_client"),
    }
}

async fn mcp(State(fake): State<Shared>, headers: HeaderMap, Json(message): Json<Value>) -> Response {
    let mut fake = locked(&fake);
    let shown = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    fake.shown.insert(shown.clone());
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", fake.base());
    let refused = |status: StatusCode, words: &str| {
        let challenge = format!("Bearer {words}resource_metadata=\"{metadata}\"");
        (status, [("www-authenticate", challenge)], Json(json!({}))).into_response()
    };
    let Some(scope) = fake.good.get(shown.trim_start_matches("Bearer ")).cloned() else {
        return refused(StatusCode::UNAUTHORIZED, "");
    };
    let result = match message["method"].as_str().unwrap() {
        "initialize" => {
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "web"}})
        }
        "tools/list" => json!({"tools": [tool("say", json!({}))]}),
        "tools/call" if !fake.wants.is_empty() && !scope.split(' ').any(|word| word == fake.wants) => {
            let words = format!("error=\"insufficient_scope\", scope=\"{}\", ", fake.wants);
            return refused(StatusCode::FORBIDDEN, &words);
        }
        "tools/call" if fake.fails => {
            let said = format!("I was shown {:?}", fake.shown);
            let error = json!({"code": -32000, "message": said, "data": {"shown": [said]}});
            return Json(json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).into_response();
        }
        "tools/call" => json!({"content": [{"type": "text", "text": format!("I was shown {:?}", fake.shown)}]}),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

async fn start(world: &World) -> (Shared, tokio::task::JoinHandle<()>) {
    let fake = Shared::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    locked(&fake).port = port;
    let base = locked(&fake).base();
    let resource =
        json!({"resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["read"]});
    let server = json!({
        "issuer": base, "authorization_endpoint": format!("{base}/authorize"), "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"), "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    let register = async |State(fake): State<Shared>, Json(said): Json<Value>| {
        locked(&fake).registered += 1;
        assert_eq!(said["application_type"], json!("native"), "{said:#}");
        (StatusCode::CREATED, Json(json!({"client_id": "made", "token_endpoint_auth_method": "none"})))
    };
    let router = axum::Router::new()
        .route("/.well-known/oauth-protected-resource/mcp", axum::routing::get(Json(resource)))
        .route("/.well-known/oauth-authorization-server", axum::routing::get(Json(server)))
        .route("/register", axum::routing::post(register))
        .route("/token", axum::routing::post(token))
        .route("/mcp", axum::routing::post(mcp))
        .with_state(Arc::clone(&fake));
    let opening = json!({"host": "127.0.0.1", "port": port, "scheme": "http", "reason": "a test"});
    world.send(&As::OwnerOf("system"), "POST", "/egress/openings", opening).await.ok();
    (fake, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

async fn save(world: &World, fake: &Shared, oauth: Value) -> Value {
    let url = format!("{}/mcp", locked(fake).base());
    let spec = json!({"name": "web", "era": "2025-06-18", "transport": {"kind": "http", "url": url}, "auth": {"oauth": oauth}});
    world.send(&As::Owner, "PUT", "/upstreams/web", spec).await.ok()
}

const REDIRECT: &str = "http://127.0.0.1:9/callback";

async fn begin(world: &World, who: &As, scope: &str) -> Url {
    let body = json!({"redirect": REDIRECT, "scope": scope});
    let begun = world.send(who, "POST", "/upstreams/web/connect", body).await.ok();
    Url::parse(begun["address"].as_str().unwrap()).unwrap()
}

fn query(url: &Url, name: &str) -> String {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// What a browser brings back whose person says yes.
fn yes(fake: &Shared, page: &Url) -> String {
    let mut fake = locked(fake);
    let code = format!("code-{}", fake.codes.len() + 1);
    fake.codes.insert(code.clone(), (query(page, "code_challenge"), query(page, "scope")));
    let mut back = Url::parse(&query(page, "redirect_uri")).unwrap();
    let base = fake.base();
    back.query_pairs_mut()
        .append_pair("code", &code)
        .append_pair("state", &query(page, "state"))
        .append_pair("iss", &base);
    back.to_string()
}

async fn connect(world: &World, fake: &Shared, who: &As, scope: &str) -> Value {
    let page = begin(world, who, scope).await;
    let body = json!({"answer": yes(fake, &page), "scope": scope});
    world.send(who, "POST", "/upstreams/web/connected", body).await.ok()
}

async fn call(world: &World, who: &As) -> Value {
    let call = json!({"tool": "web.say", "input": {}, "wait": 30});
    world.send(who, "POST", "/calls", call).await.body
}

pub(super) async fn key(world: &World, user: &str, scopes: Value) -> As {
    let key = json!({"name": format!("{user}-key"), "owner": user, "scopes": scopes});
    let key = world.send(&As::Owner, "POST", "/keys", key).await.ok();
    As::Key(key["secret"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_made_by_a_browser_and_its_token_goes_to_the_server_alone() {
    every_world(async |world| {
        let (fake, serving) = start(world).await;
        let saved = save(world, &fake, json!({})).await;
        assert!(saved["problem"].as_str().unwrap().contains("other credentials"), "{saved:#}");
        let page = begin(world, &As::Owner, "org").await;
        assert_eq!((query(&page, "client_id").as_str(), query(&page, "scope").as_str()), ("made", "read"));
        assert_eq!(query(&page, "resource"), format!("{}/mcp", locked(&fake).base()));
        let back = yes(&fake, &page);
        let other = back.replace("state=", "state=x");
        for wrong in [other.as_str(), "no address"] {
            let body = json!({"answer": wrong});
            let refused = world.send(&As::Owner, "POST", "/upstreams/web/connected", body).await;
            assert!(refused.status >= 400, "{wrong}");
            // What was begun is over, whatever came back.
            let again = world.send(&As::Owner, "POST", "/upstreams/web/connected", json!({"answer": back})).await;
            again.refused(409);
        }
        let connection = connect(world, &fake, &As::Owner, "org").await;
        assert_eq!((&connection["granted"], &connection["renews"]), (&json!("read"), &json!(true)));
        assert!(!connection.to_string().contains("-token-"), "{connection:#}");
        assert_eq!(locked(&fake).registered, 1, "the client of before is used again");
        let shown = world.send(&As::Owner, "GET", "/upstreams/web", Value::Null).await.ok();
        assert_eq!(shown["connections"][0]["scope"], json!("org"), "{shown:#}");
        assert_eq!(outcomes(&shown["reading"]), pairs(&[("say", "new")]), "it is read at once");
        let listed = world.send(&As::Owner, "GET", "/secrets", Value::Null).await.ok();
        assert_eq!(listed["items"], json!([]), "{listed:#}");
        world.trust("web.say").await;
        let caller = key(world, "admin", json!(["tools:execute"])).await;
        let done = call(world, &caller).await;
        let told = done["output"].as_str().unwrap_or_else(|| panic!("{done:#}"));
        assert!(told.contains("Bearer [secret:token]") && !told.contains("access-token"), "{told}");
        let As::Key(own) = &caller else { unreachable!() };
        let shown = locked(&fake).shown.clone();
        assert!(shown.iter().all(|shown| shown.is_empty() || shown.starts_with("Bearer access-token-")), "{shown:?}");
        assert!(!shown.iter().any(|shown| shown.contains(own.as_str())));
        let log = world.send(&As::Owner, "GET", "/audit/entries?limit=200", Value::Null).await.ok();
        assert!(log.to_string().contains("upstream.connect") && !log.to_string().contains("-token-"));
        world.send(&As::Owner, "DELETE", "/upstreams/web/connection", Value::Null).await.ok();
        let done = call(world, &caller).await;
        assert_eq!(done["error"]["code"], json!("AUTH_REQUIRED"), "{done:#}");
        assert_eq!(done["error"]["details"]["connect"], json!("toolgate upstream connect web"), "{done:#}");
        world.send(&As::Owner, "DELETE", "/upstreams/web/connection", Value::Null).await.refused(404);
        // With the server go its connections.
        connect(world, &fake, &As::Owner, "org").await;
        world.send(&As::Owner, "DELETE", "/upstreams/web", Value::Null).await.ok();
        save(world, &fake, json!({})).await;
        let shown = world.send(&As::Owner, "GET", "/upstreams/web", Value::Null).await.ok();
        assert_eq!(shown["connections"], json!([]), "{shown:#}");
        serving.abort();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_that_was_sent_is_told_however_the_server_says_it() {
    every_world(async |world| {
        let (fake, serving) = start(world).await;
        save(world, &fake, json!({})).await;
        connect(world, &fake, &As::Owner, "org").await;
        world.trust("web.say").await;
        for fails in [false, true] {
            // The token is refused and renewed within the call: the server was shown two.
            locked(&fake).good.clear();
            locked(&fake).shown.clear();
            locked(&fake).fails = fails;
            let done = call(world, &As::Owner).await;
            assert_eq!(done["status"], json!(if fails { "failed" } else { "completed" }), "{done:#}");
            assert_eq!(locked(&fake).shown.len(), 2, "{:?}", locked(&fake).shown);
            assert!(done.to_string().contains("[secret:token]"), "{done:#}");
            assert!(!done.to_string().contains("access-token"), "{done:#}");
            let id = done["id"].as_str().unwrap();
            let kept = world.send(&As::Owner, "GET", &format!("/calls/{id}"), Value::Null).await.ok();
            assert!(!kept.to_string().contains("access-token"), "{kept:#}");
        }
        serving.abort();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_renewed_once_however_many_want_it_and_not_while_another_process_does() {
    every_world(async |world| {
        let (fake, serving) = start(world).await;
        save(world, &fake, json!({})).await;
        connect(world, &fake, &As::Owner, "org").await;
        world.trust("web.say").await;
        assert_eq!(call(world, &As::Owner).await["status"], json!("completed"));
        // It runs out: eight want another at once, and a renewal token that came twice would be refused.
        world.app.clock.advance(3600);
        let done = futures_util::future::join_all((0..8).map(|_| call(world, &As::Owner))).await;
        assert!(done.iter().all(|done| done["status"] == json!("completed")), "{done:#?}");
        assert_eq!(locked(&fake).renewed, 1);
        // The server stops taking it before its time: renewed once, and sent again.
        locked(&fake).good.clear();
        assert_eq!(call(world, &As::Owner).await["status"], json!("completed"));
        assert_eq!(locked(&fake).renewed, 2);
        // Another process is at it.
        let snapshot = world.app.registry.snapshot();
        let tenant = snapshot.tenant_by_slug("default").unwrap().tenant.id;
        let place = SecretPlace::org(tenant);
        let lease = format!("oauth:{tenant}:web:{}:{}", place.scope, place.id);
        let now = world.app.clock.now();
        assert!(world.app.store.take_lease(&lease, "another", now, Duration::from_mins(10)).await.unwrap());
        locked(&fake).good.clear();
        let short = json!({"tool": "web.say", "input": {}, "wait": 30, "timeout_ms": 500});
        let done = world.send(&As::Owner, "POST", "/calls", short).await.body;
        assert_eq!((&done["status"], locked(&fake).renewed), (&json!("failed"), 2), "{done:#}");
        world.app.store.release_lease(&lease, "another").await.unwrap();
        let done = call(world, &As::Owner).await;
        assert_eq!((&done["status"], locked(&fake).renewed), (&json!("completed"), 3), "{done:#}");
        // It ends: said once, and asked for no more.
        locked(&fake).good.clear();
        locked(&fake).refuses_renewal = true;
        let done = call(world, &As::Owner).await;
        assert_eq!(done["error"]["code"], json!("AUTH_REQUIRED"), "{done:#}");
        let asked = locked(&fake).forms.len();
        assert_eq!(call(world, &As::Owner).await["error"]["code"], json!("AUTH_REQUIRED"));
        assert_eq!(locked(&fake).forms.len(), asked);
        serving.abort();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_s_own_connection_is_theirs_and_more_is_asked_for_where_the_server_wants_it() {
    every_world(async |world| {
        let (fake, serving) = start(world).await;
        save(world, &fake, json!({"per": "user"})).await;
        // What is offered is read with the organisation's.
        connect(world, &fake, &As::Owner, "org").await;
        world.trust("web.say").await;
        let body = json!({"name": "ann", "roles": ["member"], "kind": "person"});
        world.send(&As::Owner, "POST", "/users", body).await.ok();
        let ann = key(world, "ann", json!(["tools:execute", "calls.create", "secrets.user"])).await;
        let without = key(world, "admin", json!(["tools:execute"])).await;
        let body = json!({"redirect": REDIRECT, "scope": "user"});
        world.send(&without, "POST", "/upstreams/web/connect", body.clone()).await.refused(403);
        let org = json!({"redirect": REDIRECT, "scope": "org"});
        world.send(&ann, "POST", "/upstreams/web/connect", org).await.refused(403);
        for elsewhere in ["https://evil.example/", "http://127.0.0.1.evil.example:9/", "http://10.0.0.1:9/"] {
            let body = json!({"redirect": elsewhere, "scope": "user"});
            world.send(&ann, "POST", "/upstreams/web/connect", body).await.refused(400);
        }
        let done = call(world, &ann).await;
        assert_eq!(done["error"]["code"], json!("AUTH_REQUIRED"), "nobody falls back to the organisation's: {done:#}");
        // What one began, another cannot end.
        let page = begin(world, &ann, "user").await;
        let answer = json!({"answer": yes(&fake, &page), "scope": "user"});
        world.send(&As::Owner, "POST", "/upstreams/web/connected", answer.clone()).await.refused(409);
        world.send(&ann, "POST", "/upstreams/web/connected", answer).await.ok();
        assert_eq!(call(world, &ann).await["status"], json!("completed"));
        assert_eq!(call(world, &As::Owner).await["error"]["code"], json!("AUTH_REQUIRED"));
        locked(&fake).wants = "write";
        let done = call(world, &ann).await;
        assert_eq!(
            (&done["error"]["code"], &done["error"]["details"]["status"]),
            (&json!("AUTH_REQUIRED"), &json!(403))
        );
        let page = begin(world, &ann, "user").await;
        assert_eq!(query(&page, "scope"), "read write");
        let answer = json!({"answer": yes(&fake, &page), "scope": "user"});
        world.send(&ann, "POST", "/upstreams/web/connected", answer).await.ok();
        assert_eq!(call(world, &ann).await["status"], json!("completed"));
        serving.abort();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_ours_gets_tokens_by_its_secret_and_a_server_that_moves_gets_none() {
    every_world(async |world| {
        let (fake, serving) = start(world).await;
        let oauth = json!({"grant": "client_credentials", "client_id": "we", "client_secret": "WEB_CLIENT"});
        save(world, &fake, oauth.clone()).await;
        let value = json!({"value": "the-clients-secret", "hosts": ["127.0.0.1"]});
        world.send(&As::Owner, "PUT", "/secrets/org/WEB_CLIENT", value).await.ok();
        world.send(&As::Owner, "POST", "/secrets/org/WEB_CLIENT/allow", json!({"code": ["web"]})).await.ok();
        let reading = world.send(&As::Owner, "POST", "/upstreams/web/refresh", json!({})).await.ok();
        assert_eq!(outcomes(&reading), pairs(&[("say", "new")]));
        world.trust("web.say").await;
        assert_eq!(call(world, &As::Owner).await["status"], json!("completed"));
        assert_eq!(locked(&fake).made, 1, "it is kept");
        locked(&fake).wants = "write";
        // What its own secret brought is private, so each call here has a caller of its own.
        let done = call(world, &key(world, "admin", json!(["tools:execute"])).await).await;
        assert_eq!(done["status"], json!("completed"), "more is asked for without anybody: {done:#}");
        let body = json!({"redirect": REDIRECT});
        world.send(&As::Owner, "POST", "/upstreams/web/connect", body).await.refused(409);
        // At another address nothing of it is shown.
        let (elsewhere, other) = start(world).await;
        save(world, &elsewhere, oauth).await;
        let done = call(world, &As::Owner).await;
        assert_eq!(done["error"]["details"]["reason"], json!("blocked"), "{done:#}");
        assert!(locked(&elsewhere).shown.is_empty());
        serving.abort();
        other.abort();
    })
    .await;
}

/// What a client that came for a server hears, until that word, or the end of its stream.
pub(super) async fn heard_at(
    world: &World,
    who: &As,
    path: &str,
    until: &'static str,
) -> tokio::task::JoinHandle<String> {
    let As::Key(key) = who else { panic!() };
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    let request = axum::http::Request::post(path)
        .header("host", "localhost")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "subscriptions/listen")
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .body(axum::body::Body::from(body.to_string()))
        .unwrap();
    let answer = tower::ServiceExt::oneshot(world.app.router(), request).await.unwrap();
    let mut frames = answer.into_body().into_data_stream();
    let first = futures_util::StreamExt::next(&mut frames).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("acknowledged"), "{first:?}");
    tokio::spawn(async move {
        let mut text = String::new();
        while let Some(frame) = futures_util::StreamExt::next(&mut frames).await {
            text.push_str(&String::from_utf8_lossy(&frame.unwrap()));
            if text.contains(until) {
                break;
            }
        }
        text
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_listens_at_a_server_is_cut_off_when_it_is_disconnected_or_removed() {
    every_world(async |world| {
        let (fake, serving) = start(world).await;
        // `web` is a group of tools, which comes first.
        let url = format!("{}/mcp", locked(&fake).base());
        let spec = json!({"name": "site", "era": "2025-06-18", "transport": {"kind": "http", "url": url}, "auth": {"oauth": {}}});
        world.send(&As::Owner, "PUT", "/upstreams/site", spec.clone()).await.ok();
        let connect = async || {
            let begun = json!({"redirect": REDIRECT, "scope": "org"});
            let begun = world.send(&As::Owner, "POST", "/upstreams/site/connect", begun).await.ok();
            let page = Url::parse(begun["address"].as_str().unwrap()).unwrap();
            let body = json!({"answer": yes(&fake, &page), "scope": "org"});
            world.send(&As::Owner, "POST", "/upstreams/site/connected", body).await.ok();
        };
        let who = key(world, "admin", json!(["tools:execute"])).await;
        // Also where somebody connects anew before anybody looks.
        for (path, anew) in
            [("/upstreams/site/connection", true), ("/upstreams/site/connection", false), ("/upstreams/site", false)]
        {
            connect().await;
            let listening = heard_at(world, &who, "/mcp/site", "complete").await;
            world.send(&As::Owner, "DELETE", path, Value::Null).await.ok();
            if anew {
                connect().await;
            }
            let text = tokio::time::timeout(Duration::from_mins(1), listening).await.unwrap().unwrap();
            assert!(text.contains("\"complete\""), "{path} {anew} {text}");
        }
        // Tokens that are renewed are of the same connection.
        world.send(&As::Owner, "PUT", "/upstreams/site", spec).await.ok();
        connect().await;
        let snapshot = world.app.registry.snapshot();
        let tenant = snapshot.tenant_by_slug("default").unwrap().tenant.id;
        let name = "site".parse().unwrap();
        // The organisation's is anybody's.
        let anybody = Principal::Local(0);
        let connection = async || world.app.engine.upstream_connection(tenant, &name, anybody).await.unwrap();
        let before = connection().await;
        let renewed = locked(&fake).renewed;
        world.app.clock.advance(3600);
        world.send(&As::Owner, "POST", "/upstreams/site/refresh", json!({})).await.ok();
        assert!(locked(&fake).renewed > renewed);
        assert_eq!(connection().await, before);
        serving.abort();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_the_system_is_there_only_for_those_who_have_one_of_its_tools() {
    every_world(async |world| {
        let (fake, serving) = start(world).await;
        let url = format!("{}/mcp", locked(&fake).base());
        let operator = As::OwnerOf("system");
        let spec = json!({"name": "common", "era": "2025-06-18", "transport": {"kind": "http", "url": url}, "auth": {"oauth": {}}});
        world.send(&operator, "PUT", "/upstreams/common", spec).await.ok();
        let begin = json!({"redirect": REDIRECT, "scope": "org"});
        let without = key(world, "admin", json!(["secrets.user"])).await;
        let ask = async |who: &As, name: &str| {
            world.send(who, "POST", &format!("/upstreams/{name}/connect"), begin.clone()).await
        };
        // Nobody has read it yet, so it has no tools.
        for who in [&As::Owner, &without] {
            let (there, nowhere) = (ask(who, "common").await.refused(404), ask(who, "nowhere").await.refused(404));
            assert_eq!(there.to_string().replace("common", "nowhere"), nowhere.to_string());
        }
        let begun = world.send(&operator, "POST", "/upstreams/common/connect", begin.clone()).await.ok();
        let page = Url::parse(begun["address"].as_str().unwrap()).unwrap();
        let body = json!({"answer": yes(&fake, &page), "scope": "org"});
        world.send(&operator, "POST", "/upstreams/common/connected", body).await.ok();
        world.tool("common.say").await.ok();
        let told = ask(&As::Owner, "common").await.refused(403);
        assert!(told["detail"].as_str().unwrap().contains("the system tenant's"), "{told:#}");
        ask(&without, "common").await.refused(404);
        world.send(&As::Owner, "PUT", "/tools/common.say/enabled", json!({"enabled": false})).await.ok();
        ask(&As::Owner, "common").await.refused(404);
        serving.abort();
    })
    .await;
}
