//! OAuth at `/mcp`: the whole way of an ordinary client, and what hostile clients, pages, documents and issuers may try.

mod clients;
mod issuers;

use std::collections::HashMap;

use axum::body::Body;
use axum::http::{Request, header};
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};
use toolgate_contracts::Digest;
use toolgate_server::App;
use tower::ServiceExt as _;

use crate::world::{Answer, As, World, answer, every_world, send};

const ORIGIN: &str = "http://localhost";
const RESOURCE: &str = "http://localhost/mcp";
const REDIRECT: &str = "http://localhost:3118/callback";
const VERIFIER: &str = "a-verifier-that-only-the-client-knows-0123456789";

fn encoded(pairs: &[(&str, &str)]) -> String {
    let encode =
        |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
    pairs.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&")
}

fn decoded(query: &str) -> HashMap<String, String> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text).decode_utf8().unwrap().into_owned()
    };
    query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

fn challenge() -> String {
    BASE64URL_NOPAD.encode(Digest::of(VERIFIER.as_bytes()).as_bytes())
}

/// What a client asks for, with some of it changed; an empty value leaves a parameter out.
fn asking(client: &str, change: &[(&str, &str)]) -> String {
    let challenge = challenge();
    let mut said = vec![
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("state", "the state"),
        ("resource", RESOURCE),
    ];
    said.retain(|(name, _)| change.iter().all(|(other, _)| other != name));
    said.extend(change.iter().filter(|(_, value)| !value.is_empty()));
    encoded(&said)
}

async fn form(app: &App, path: &str, pairs: &[(&str, &str)]) -> Answer {
    let request = Request::post(path)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Body::from(encoded(pairs)))
        .unwrap();
    answer(app.router().oneshot(request).await.unwrap()).await
}

/// Somebody at a browser.
async fn person(app: &App, name: &str, roles: &[&str]) -> As {
    let new = json!({"name": name, "roles": roles});
    send(app.router(), &As::Owner, "POST", "/api/v1/users", new).await.ok();
    let link = send(app.router(), &As::Owner, "POST", &format!("/api/v1/users/{name}/sign-in-link"), json!({})).await;
    let token = link.ok()["url"].as_str().unwrap().split_once("#sign-in=").unwrap().1.to_owned();
    let signed_in = send(app.router(), &As::Nobody, "POST", "/api/v1/sign-in", json!({"token": token})).await;
    As::Cookie(signed_in.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned())
}

async fn register(app: &App, redirects: &[&str]) -> String {
    let metadata = json!({"client_name": "Code Helper", "redirect_uris": redirects, "grant_types": ["authorization_code"],
        "token_endpoint_auth_method": "client_secret_basic", "application_type": "native"});
    let registered = send(app.router(), &As::Nobody, "POST", "/oauth/register", metadata).await;
    assert_eq!(registered.status, 201, "{:#}", registered.body);
    assert_eq!(registered.body["token_endpoint_auth_method"], "none");
    registered.body["client_id"].as_str().unwrap().to_owned()
}

async fn decide(app: &App, who: &As, query: &str, allow: bool, agent: Option<&str>) -> Answer {
    let decision = json!({"query": query, "allow": allow, "agent": agent});
    send(app.router(), who, "POST", "/api/v1/oauth/decision", decision).await
}

/// Where the browser comes back, and what it brings.
fn back(answer: Answer) -> (String, HashMap<String, String>) {
    let to = answer.ok()["redirect"].as_str().unwrap().to_owned();
    let (at, query) = to.split_once('?').unwrap();
    (at.to_owned(), decoded(query))
}

async fn code(app: &App, who: &As, client: &str, change: &[(&str, &str)], agent: Option<&str>) -> String {
    back(decide(app, who, &asking(client, change), true, agent).await).1["code"].clone()
}

async fn take(app: &App, client: &str, code: &str, change: &[(&str, &str)]) -> Answer {
    let mut said = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("code_verifier", VERIFIER),
        ("resource", RESOURCE),
    ];
    said.retain(|(name, _)| change.iter().all(|(other, _)| other != name));
    said.extend(change.iter().filter(|(_, value)| !value.is_empty()));
    form(app, "/oauth/token", &said).await
}

async fn renew(app: &App, client: &str, refresh: &str) -> Answer {
    let said = [("grant_type", "refresh_token"), ("refresh_token", refresh), ("client_id", client)];
    form(app, "/oauth/token", &said).await
}

#[track_caller]
fn refused_with(answer: &Answer, error: &str) {
    assert_eq!((answer.status, answer.body["error"].as_str()), (400, Some(error)), "{:#}", answer.body);
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// A client with what it was allowed.
struct Held {
    access: As,
    refresh: String,
}

fn held(answer: Answer) -> Held {
    let body = answer.ok();
    Held { access: As::Key(text(&body["access_token"])), refresh: text(&body["refresh_token"]) }
}

/// The list of tools, as an older client asks for it.
async fn listed(app: &App, who: &As, path: &str) -> Answer {
    let mut request = Request::post(path)
        .header(header::HOST, "localhost")
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json")
        .header("mcp-protocol-version", "2025-06-18");
    if let As::Key(key) = who {
        request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    answer(app.router().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap()).await
}

#[track_caller]
fn challenged(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{:#}", answer.body);
    answer.headers["www-authenticate"].to_str().unwrap().to_owned()
}

async fn agent(world: &World, who: &As, name: &str) {
    let spec = json!({"name": name, "workspace": "main", "description": "Helps."});
    world.send(who, "POST", "/api/v1/agents", spec).await.ok();
}

#[tokio::test]
async fn a_client_that_knows_only_the_address_gets_in_by_a_browser_and_stays_in() {
    every_world(async |world| {
        let app = &world.app;
        // The address alone, then what each answer names.
        let said = challenged(&listed(app, &As::Nobody, "/mcp").await, 401);
        let at = "resource_metadata=\"http://localhost/.well-known/oauth-protected-resource/mcp\"";
        assert!(said.contains(at) && said.contains("scope=\"tools:execute calls.read.own\""), "{said}");
        assert!(!said.contains("error="), "{said}");
        let resource = world.get(&As::Nobody, "/.well-known/oauth-protected-resource/mcp").await.ok();
        assert_eq!((&resource["resource"], &resource["authorization_servers"]), (&json!(RESOURCE), &json!([ORIGIN])));
        let narrowed = world.get(&As::Nobody, "/.well-known/oauth-protected-resource/mcp/x").await.ok();
        assert_eq!(narrowed["resource"], "http://localhost/mcp/x");
        let server = world.get(&As::Nobody, "/.well-known/oauth-authorization-server").await.ok();
        assert_eq!(server["issuer"], ORIGIN);
        assert_eq!(server["code_challenge_methods_supported"], json!(["S256"]));
        assert_eq!(server["token_endpoint"], "http://localhost/oauth/token");

        let client = register(app, &[REDIRECT]).await;
        let ada = person(app, "ada", &["admin"]).await;
        // Another port than it registered: programs take the one that is free.
        let other_port = "http://localhost:4999/callback";
        let query = asking(&client, &[("redirect_uri", other_port)]);
        let asked = world.get(&ada, &format!("/api/v1/oauth/request?{query}")).await.ok();
        assert_eq!(asked["client"]["name"], "Code Helper");
        assert_eq!(
            (&asked["client"]["goes_to"], &asked["client"]["goes_to_kind"]),
            (&json!("this computer"), &json!("this_computer"))
        );
        assert_eq!(asked["scopes"], json!(["tools:execute", "calls.read.own"]));

        let (at, brought) = back(decide(app, &ada, &query, true, None).await);
        assert_eq!(at, other_port);
        assert_eq!((brought["state"].as_str(), brought["iss"].as_str()), ("the state", ORIGIN));
        let taken = take(app, &client, &brought["code"], &[("redirect_uri", other_port)]).await;
        assert_eq!((&taken.body["token_type"], &taken.body["expires_in"]), (&json!("Bearer"), &json!(3600)));
        let first = held(taken);
        assert!(!listed(app, &first.access, "/mcp").await.ok()["result"]["tools"].as_array().unwrap().is_empty());

        // After an hour it renews, as often as it wants, and each text is good once.
        world.clock.advance(3601);
        let said = challenged(&listed(app, &first.access, "/mcp").await, 401);
        assert!(said.contains("error=\"invalid_token\""), "{said}");
        let second = held(renew(app, &client, &first.refresh).await);
        listed(app, &second.access, "/mcp").await.ok();
        let third = held(renew(app, &client, &second.refresh).await);
        listed(app, &third.access, "/mcp").await.ok();
        assert_eq!(listed(app, &second.access, "/mcp").await.status, 401, "the token before is worth nothing");

        // It is among the keys, as what it is, and revoked like one.
        let keys = world.get(&As::Owner, "/api/v1/keys").await.ok();
        let key = keys["items"].as_array().unwrap().iter().find(|key| key["client"].is_object()).unwrap().clone();
        assert_eq!((&key["client"]["name"], &key["resource"]), (&json!("Code Helper"), &json!(RESOURCE)));
        assert_eq!(key["owner_name"], "ada");
        world.send(&As::Owner, "DELETE", &format!("/api/v1/keys/{}", text(&key["id"])), Value::Null).await.ok();
        assert_eq!(listed(app, &third.access, "/mcp").await.status, 401);
        refused_with(&renew(app, &client, &third.refresh).await, "invalid_grant");
    })
    .await;
}

#[tokio::test]
async fn what_a_client_holds_uses_tools_at_one_address_and_does_nothing_else() {
    every_world(async |world| {
        let app = &world.app;
        let client = register(app, &[REDIRECT]).await;
        let ada = person(app, "ada", &["admin", "approver", "operator"]).await;
        let held = held(take(app, &client, &code(app, &ada, &client, &[], None).await, &[]).await);
        listed(app, &held.access, "/mcp").await.ok();
        // Not the API, whatever its person may do there.
        for (method, path) in [
            ("GET", "/api/v1/me"),
            ("GET", "/api/v1/tools"),
            ("GET", "/api/v1/approvals"),
            ("POST", "/api/v1/keys"),
            ("POST", "/api/v1/tokens"),
            ("POST", "/api/v1/calls"),
            ("POST", "/api/v1/oauth/decision"),
        ] {
            let told = world.send(&held.access, method, path, json!({})).await.refused(401);
            assert!(told["detail"].as_str().unwrap().contains(RESOURCE), "{told:#}");
        }
        // Nor another host's address, nor one with a name for which it was not made.
        let narrow = register(app, &[REDIRECT]).await;
        agent(&world, &As::Owner, "helper").await;
        let at = "http://localhost/mcp/helper";
        let change = [("resource", at)];
        let narrow = self::held(take(app, &narrow, &code(app, &ada, &narrow, &change, None).await, &change).await);
        listed(app, &narrow.access, "/mcp/helper").await.ok();
        assert_eq!(listed(app, &narrow.access, "/mcp").await.status, 401);
        assert_eq!(listed(app, &narrow.access, "/mcp/destructive").await.status, 401);
        let elsewhere = Request::post("/mcp")
            .header(header::HOST, "127.0.0.1")
            .header(header::CONTENT_TYPE, "application/json")
            .header(
                header::AUTHORIZATION,
                match &held.access {
                    As::Key(key) => format!("Bearer {key}"),
                    _ => panic!(),
                },
            )
            .body(Body::from(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string()))
            .unwrap();
        assert_eq!(app.router().oneshot(elsewhere).await.unwrap().status(), 401);
    })
    .await;
}

#[tokio::test]
async fn a_client_acts_as_an_agent_that_its_person_manages_and_as_no_other() {
    every_world(async |world| {
        let app = &world.app;
        let client = register(app, &[REDIRECT]).await;
        let ada = person(app, "ada", &["author"]).await;
        let eve = person(app, "eve", &["member"]).await;
        agent(&world, &ada, "helper").await;
        let agents = |asked: Value| -> Vec<String> {
            asked["agents"].as_array().unwrap().iter().map(|agent| text(&agent["name"])).collect()
        };
        let path = format!("/api/v1/oauth/request?{}", asking(&client, &[]));
        assert_eq!(agents(world.get(&ada, &path).await.ok()), ["helper"]);
        assert!(agents(world.get(&eve, &path).await.ok()).is_empty());
        decide(app, &eve, &asking(&client, &[]), true, Some("helper")).await.refused(404);
        let theirs = asking(&client, &[("resource", "http://localhost/mcp/helper")]);
        decide(app, &eve, &theirs, true, None).await.refused(404);
        decide(app, &ada, &asking(&client, &[("resource", "http://localhost/mcp/nobody")]), true, None)
            .await
            .refused(404);

        let held = held(take(app, &client, &code(app, &ada, &client, &[], Some("helper")).await, &[]).await);
        listed(app, &held.access, "/mcp").await.ok();
        let keys = world.get(&ada, "/api/v1/keys").await.ok();
        assert!(keys["items"][0]["agent"].is_string(), "{keys:#}");
        listed(app, &held.access, "/mcp/helper").await.ok();
        // One that was let in as its person does not choose an agent by itself.
        let other = register(app, &[REDIRECT]).await;
        let own = self::held(take(app, &other, &code(app, &ada, &other, &[], None).await, &[]).await);
        listed(app, &own.access, "/mcp").await.ok();
        assert_eq!(listed(app, &own.access, "/mcp/helper").await.status, 404);
    })
    .await;
}

#[tokio::test]
async fn only_a_person_at_a_browser_lets_a_client_in_and_is_asked_each_time() {
    every_world(async |world| {
        let app = &world.app;
        let client = register(app, &[REDIRECT]).await;
        let ada = person(app, "ada", &["member"]).await;
        let viewer = person(app, "vic", &["viewer"]).await;
        let query = asking(&client, &[]);
        decide(app, &As::Nobody, &query, true, None).await.refused(401);
        decide(app, &As::Owner, &query, true, None).await.refused(403);
        decide(app, &viewer, &query, true, None).await.refused(403);
        let by_key = world.user("default", "kim", &["admin"]).await;
        decide(app, &by_key, &query, true, None).await.refused(403);
        // A page of another site, with the person's cookie.
        let As::Cookie(cookie) = &ada else { panic!() };
        for (name, value) in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")] {
            let request = Request::post("/api/v1/oauth/decision")
                .header(header::HOST, "localhost")
                .header(header::COOKIE, cookie)
                .header(header::CONTENT_TYPE, "application/json")
                .header(name, value)
                .body(Body::from(json!({"query": query, "allow": true}).to_string()))
                .unwrap();
            assert_eq!(app.router().oneshot(request).await.unwrap().status(), 403, "{name}");
        }
        // Looking changes nothing, and what was allowed before is not known.
        let path = format!("/api/v1/oauth/request?{query}");
        let before = world.get(&ada, &path).await.ok();
        code(app, &ada, &client, &[], None).await;
        assert_eq!(world.get(&ada, &path).await.ok(), before);
        // Not allowed: the client hears so, and gets nothing.
        let (_, brought) = back(decide(app, &ada, &query, false, None).await);
        assert_eq!(brought["error"], "access_denied");
        assert!(!brought.contains_key("code") && brought["iss"] == ORIGIN && brought["state"] == "the state");
        let log = world.get(&As::Owner, "/api/v1/audit/entries?action=oauth.allow").await.ok();
        assert_eq!(log["items"].as_array().unwrap().len(), 1, "{log:#}");
    })
    .await;
}

#[tokio::test]
async fn a_code_is_good_once_for_its_client_its_redirect_and_its_verifier() {
    every_world(async |world| {
        let app = &world.app;
        let client = register(app, &[REDIRECT]).await;
        let other = register(app, &[REDIRECT, "https://other.example/cb"]).await;
        let ada = person(app, "ada", &["member"]).await;
        let wrong_verifier = "b-verifier-that-only-the-client-knows-0123456789";
        for change in [
            ("client_id", other.as_str()),
            ("redirect_uri", "http://localhost:3119/callback"),
            ("redirect_uri", "https://other.example/cb"),
            ("code_verifier", wrong_verifier),
            ("code_verifier", "short"),
            ("code", "made-up"),
        ] {
            let code = code(app, &ada, &client, &[], None).await;
            refused_with(&take(app, &client, &code, &[change]).await, "invalid_grant");
        }
        for missing in ["client_id", "redirect_uri", "code_verifier", "code", "grant_type"] {
            let code = code(app, &ada, &client, &[], None).await;
            refused_with(&take(app, &client, &code, &[(missing, "")]).await, "invalid_request");
        }
        let late = code(app, &ada, &client, &[], None).await;
        refused_with(&take(app, &client, &late, &[("resource", "https://evil.example/mcp")]).await, "invalid_target");
        refused_with(&take(app, &client, &late, &[("grant_type", "password")]).await, "unsupported_grant_type");
        world.clock.advance(61);
        refused_with(&take(app, &client, &late, &[]).await, "invalid_grant");

        // Whoever shows it again ends what came of it.
        let once = code(app, &ada, &client, &[], None).await;
        let held = held(take(app, &client, &once, &[]).await);
        listed(app, &held.access, "/mcp").await.ok();
        refused_with(&take(app, &client, &once, &[]).await, "invalid_grant");
        assert_eq!(listed(app, &held.access, "/mcp").await.status, 401);
        refused_with(&renew(app, &client, &held.refresh).await, "invalid_grant");
        // Many at once: one at most gets something, and keeps nothing.
        let raced = code(app, &ada, &client, &[], None).await;
        let (left, right) = tokio::join!(take(app, &client, &raced, &[]), take(app, &client, &raced, &[]));
        assert!(left.status == 400 || right.status == 400);
        for one in [left, right].into_iter().filter(|one| one.status == 200) {
            assert_eq!(listed(app, &self::held(one).access, "/mcp").await.status, 401);
        }
    })
    .await;
}

#[tokio::test]
async fn a_refresh_token_that_comes_back_ends_the_whole_line() {
    every_world(async |world| {
        let app = &world.app;
        let client = register(app, &[REDIRECT]).await;
        let other = register(app, &[REDIRECT]).await;
        let ada = person(app, "ada", &["member"]).await;
        let first = held(take(app, &client, &code(app, &ada, &client, &[], None).await, &[]).await);
        refused_with(&renew(app, &other, &first.refresh).await, "invalid_grant");
        refused_with(&renew(app, &client, "made-up").await, "invalid_grant");
        let second = held(renew(app, &client, &first.refresh).await);
        listed(app, &second.access, "/mcp").await.ok();
        refused_with(&renew(app, &client, &first.refresh).await, "invalid_grant");
        assert_eq!(listed(app, &second.access, "/mcp").await.status, 401);
        refused_with(&renew(app, &client, &second.refresh).await, "invalid_grant");
        let log = world.get(&As::Owner, "/api/v1/audit/entries?action=key.revoke").await.ok();
        assert!(log.to_string().contains("a refresh token came back"), "{log:#}");

        // Thirty days without renewing it, a client that gives it back, and a person who is disabled.
        let idle = held(take(app, &client, &code(app, &ada, &client, &[], None).await, &[]).await);
        let given_back = held(take(app, &client, &code(app, &ada, &client, &[], None).await, &[]).await);
        let eve = person(app, "eve", &["member"]).await;
        let of_eve = held(take(app, &client, &code(app, &eve, &client, &[], None).await, &[]).await);
        assert_eq!(form(app, "/oauth/revoke", &[("token", &given_back.refresh)]).await.status, 200);
        assert_eq!(listed(app, &given_back.access, "/mcp").await.status, 401);
        assert_eq!(form(app, "/oauth/revoke", &[("token", "made-up")]).await.status, 200);
        world.send(&As::Owner, "PATCH", "/api/v1/users/eve", json!({"disabled": true})).await.ok();
        assert_eq!(listed(app, &of_eve.access, "/mcp").await.status, 401);
        refused_with(&renew(app, &client, &of_eve.refresh).await, "invalid_grant");
        world.clock.advance(30 * 86_400 + 1);
        refused_with(&renew(app, &client, &idle.refresh).await, "invalid_grant");
    })
    .await;
}

#[tokio::test]
async fn a_client_revokes_no_key_that_somebody_made() {
    every_world(async |world| {
        let key = world.user("default", "kim", &["member"]).await;
        let As::Key(text) = &key else { panic!() };
        assert_eq!(form(&world.app, "/oauth/revoke", &[("token", text)]).await.status, 200);
        world.get(&key, "/api/v1/me").await.ok();
    })
    .await;
}
