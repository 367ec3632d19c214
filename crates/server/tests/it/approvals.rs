//! Approvals and standing grants over HTTP: their shape, who may, one decision that counts, and the bypass that is
//! confined.

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::world::{As, World, answer, every_world, with_settings};

async fn park(world: &World, who: &As, path: &str) -> Value {
    let call = json!({"tool": "write_file", "input": {"path": path, "text": "hello"}, "wait": 0});
    let parked = world.send(who, "POST", "/api/v1/calls", call).await;
    assert_eq!(parked.status, 202, "{:#}", parked.body);
    assert_eq!(parked.body["status"], "pending", "{:#}", parked.body);
    parked.ok()
}

fn decide(call: &Value) -> String {
    format!("/api/v1/approvals/{}/decide?wait=20", call["id"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_listed_shown_decided_once_and_run() {
    every_world(async |world| {
        let member = world.user("default", "ada", &["member"]).await;
        let approver = world.user("default", "ben", &["approver"]).await;
        let call = park(&world, &member, "a.txt").await;
        let list = world.get(&approver, "/api/v1/approvals?state=open&tool=write_file").await.ok();
        assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list:#}");
        let count = world.get(&approver, "/api/v1/approvals/count?state=open").await.ok();
        assert_eq!(count, json!({"count": 1}));
        let card = world.get(&approver, &format!("/api/v1/approvals/{}", call["id"].as_str().unwrap())).await.ok();
        assert_eq!((&card["call_id"], &card["asked_by"]), (&call["id"], &json!("ada")));
        assert_eq!(card["input"], json!({"overwrite": false, "path": "a.txt", "text": "hello"}));
        let by_id = world.get(&approver, &format!("/api/v1/approvals/{}", card["id"].as_str().unwrap())).await.ok();
        assert_eq!(by_id, card);
        for query in ["state=waiting", "tool=nothing", "agent=nobody", "workspace=nowhere", "limit=0", "wrong=1"] {
            let refused = world.get(&approver, &format!("/api/v1/approvals?{query}")).await;
            assert!((400..=404).contains(&refused.status), "{query}: {}", refused.status);
        }
        world.get(&approver, "/api/v1/approvals?state=open&workspace=main").await.ok();

        let approve = json!({"decision": "approve"});
        world.send(&member, "POST", &decide(&call), approve.clone()).await.refused(403);
        world.send(&As::Nobody, "POST", &decide(&call), approve.clone()).await.refused(401);
        let wrong = json!({"decision": "approve", "tool": "echo"});
        world.send(&approver, "POST", &decide(&call), wrong).await.refused(400);
        world.send(&approver, "POST", &decide(&call), json!({"decision": "reject"})).await.refused(400);
        let decided = world.send(&approver, "POST", &decide(&call), approve.clone()).await.ok();
        assert_eq!((&decided["state"], &decided["call_status"]), (&json!("approved"), &json!("completed")));
        let second = world.send(&approver, "POST", &decide(&call), approve).await.refused(409);
        assert!(second["detail"].as_str().unwrap().contains("approved by user:"), "{second:#}");
        let shown = world.get(&member, &format!("/api/v1/calls/{}", call["id"].as_str().unwrap())).await.ok();
        assert_eq!((&shown["status"], &shown["approval_status"]), (&json!("completed"), &json!("approved")));
        assert!(shown["approval_id"].is_string() && shown["started_at"].is_string(), "{shown:#}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_are_decided_in_one_request_and_none_makes_a_standing_grant() {
    every_world(async |world| {
        let member = world.user("default", "ada", &["member"]).await;
        let approver = world.user("default", "ben", &["approver"]).await;
        let (one, two) = (park(&world, &member, "1").await, park(&world, &member, "2").await);
        let ids = json!([one["id"], two["id"]]);
        let bulk = |more: Value| {
            let mut body = json!({"ids": ids});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        let path = "/api/v1/approvals/decide";
        let standing = bulk(json!({"decision": "approve", "standing": {"constraints": []}}));
        world.send(&approver, "POST", path, standing).await.refused(400);
        // Writing is critical here: those are looked at one by one.
        let refused = world.send(&approver, "POST", path, bulk(json!({"decision": "approve"}))).await.ok();
        assert!(refused["items"].as_array().unwrap().iter().all(|item| item["refused"].is_string()), "{refused:#}");
        let no = bulk(json!({"decision": "reject", "reason": "no"}));
        let rejected = world.send(&approver, "POST", path, no).await.ok();
        assert!(rejected["items"].as_array().unwrap().iter().all(|item| item["state"] == "rejected"), "{rejected:#}");
        world.send(&approver, "POST", path, json!({"ids": [], "decision": "approve"})).await.refused(400);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standing_grants_are_made_listed_and_taken_back() {
    every_world(async |world| {
        let approver = world.user("default", "ben", &["approver"]).await;
        let admin = world.user("default", "root", &["admin"]).await;
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "robot", "model": "scripted/one"})).await.ok();
        let grant =
            json!({"tool": "write_file", "agent": "robot", "constraints": [{"pointer": "/path", "prefix": "out/"}]});
        world.send(&admin, "POST", "/api/v1/grants", grant.clone()).await.refused(409);
        let settings = world.get(&As::Owner, "/api/v1/settings").await.ok();
        let mut settings = settings;
        settings["standing_grants_for_critical"] = json!(true);
        world.send(&As::Owner, "PUT", "/api/v1/settings", settings).await.ok();
        world.send(&approver, "POST", "/api/v1/grants", grant.clone()).await.refused(403);
        let made = world.send(&admin, "POST", "/api/v1/grants", grant).await.ok();
        assert_eq!((&made["uses_max"], &made["holds"]), (&json!(10), &json!(true)));
        let list = world.get(&approver, "/api/v1/grants").await.ok();
        assert_eq!(list["items"][0]["id"], made["id"]);
        let path = format!("/api/v1/grants/{}", made["id"].as_str().unwrap());
        world.send(&approver, "DELETE", &path, Value::Null).await.refused(403);
        let revoked = world.send(&admin, "DELETE", &path, Value::Null).await.ok();
        assert_eq!(revoked["holds"], false);
        world.send(&admin, "DELETE", &path, Value::Null).await.refused(409);
        world.send(&admin, "DELETE", "/api/v1/grants/none", Value::Null).await.refused(404);
    })
    .await;
}

/// Deciding by key needs a scope that no key has by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_decides_only_if_it_was_made_for_that() {
    every_world(async |world| {
        world.user("default", "ben", &["approver"]).await;
        world.send(&As::Owner, "POST", "/api/v1/agents", json!({"name": "robot", "model": "scripted/one"})).await.ok();
        let member = world.user("default", "ada", &["member"]).await;
        let call = park(&world, &member, "a.txt").await;
        let key = async |more: Value| {
            let mut body = json!({"owner": "ben"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let made = world.send(&As::Owner, "POST", "/api/v1/keys", body).await.ok();
            let scopes: Vec<String> = serde_json::from_value(made["scopes"].clone()).unwrap();
            (As::Key(made["secret"].as_str().unwrap().to_owned()), scopes)
        };
        for made in [json!({"name": "plain"}), json!({"name": "robots", "agent": "robot"})] {
            let (key, scopes) = key(made.clone()).await;
            assert!(scopes.iter().all(|scope| !scope.contains("approvals")), "{made} {scopes:?}");
            let refused = world.send(&key, "POST", &decide(&call), json!({"decision": "approve"})).await;
            assert!(matches!(refused.status, 403 | 404), "{made}: {}", refused.status);
        }
        // Asked for on an agent's key it is refused, by its own name and by that of a role.
        for (scopes, named) in [
            (json!(["calls.create", "approvals.decide"]), "never holds approvals.decide: that is for people"),
            (json!(["approver"]), "approvals.decide"),
            (json!(["tools:execute", "secrets.user", "labels.reset"]), "never holds labels.reset, secrets.user"),
        ] {
            let agents = json!({"name": "r2", "agent": "robot", "scopes": scopes});
            let refused = world.send(&As::Owner, "POST", "/api/v1/keys", agents).await.refused(403);
            assert!(refused["detail"].as_str().unwrap().contains(named), "{refused:#}");
            assert_eq!(refused["pointer"], "/scopes", "{refused:#}");
        }
        let (scoped, _) = key(json!({"name": "scoped", "scopes": ["approvals.read", "approvals.decide"]})).await;
        world.send(&scoped, "POST", &decide(&call), json!({"decision": "reject", "reason": "no"})).await.ok();
    })
    .await;
}

/// Test 56: what only looks (a mail scanner, a chat that unfurls links) decides nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_56_looking_at_an_approval_by_any_safe_method_decides_nothing() {
    every_world(async |world| {
        let member = world.user("default", "ada", &["member"]).await;
        let approver = world.user("default", "ben", &["approver"]).await;
        let call = park(&world, &member, "a.txt").await;
        let card = world.get(&approver, &format!("/api/v1/approvals/{}", call["id"].as_str().unwrap())).await.ok();
        for who in [&As::Nobody, &approver] {
            for id in [&call["id"], &card["id"]] {
                for path in ["/approvals/{}", "/api/v1/approvals/{}", "/api/v1/approvals/{}/decide"] {
                    for method in ["GET", "HEAD", "OPTIONS"] {
                        let path = path.replace("{}", id.as_str().unwrap());
                        let query = format!("{path}?decision=approve");
                        for path in [path, query] {
                            let _ = world.send(who, method, &path, Value::Null).await;
                        }
                    }
                }
            }
        }
        let after = world.get(&approver, &format!("/api/v1/approvals/{}", card["id"].as_str().unwrap())).await.ok();
        assert_eq!((&after["state"], &after["call_status"]), (&json!("open"), &json!("pending")));
    })
    .await;
}

/// The development bypass: a server of one's own, the role `service`, no proxy between; every refusal is written down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bypass_is_for_a_service_on_a_development_server_and_each_use_is_written_down() {
    for on in ["false", "true"] {
        let (app, _folder) = with_settings(&[("dev_bypass", on)]).await;
        let _ = app.listening.set("127.0.0.1:8787".parse().unwrap());
        let router = || toolgate_server::outer(&app);
        let send = async |who: &As, path: &str, body: Value| {
            crate::world::send(router(), who, if body.is_null() { "GET" } else { "POST" }, path, body).await
        };
        let owner = As::Owner;
        let make = async |name: &str, role: &str, kind: &str| {
            send(&owner, "/api/v1/users", json!({"name": name, "roles": [role], "kind": kind})).await.ok();
            let key = json!({"name": format!("{name}-key"), "owner": name, "scopes": ["tools:execute"]});
            As::Key(send(&owner, "/api/v1/keys", key).await.ok()["secret"].as_str().unwrap().to_owned())
        };
        let (service, admin) = (make("robot", "service", "service").await, make("root", "admin", "person").await);
        let call = json!({
            "tool": "write_file", "input": {"path": "a.txt", "text": "now"}, "bypass_approval": true,
        });
        let answered = send(&service, "/api/v1/calls", call.clone()).await;
        if on == "true" {
            let envelope = answered.ok();
            assert_eq!(envelope["status"], "completed", "{envelope:#}");
        } else {
            answered.refused(403);
        }
        send(&admin, "/api/v1/calls", call.clone()).await.refused(403);
        send(&owner, "/api/v1/calls", call.clone()).await.refused(403);
        let As::Key(key) = &service else { panic!("a key") };
        for (name, value) in
            [("x-forwarded-for", "127.0.0.1"), ("forwarded", "for=1"), ("via", "1.1 x"), ("x-real-ip", "1")]
        {
            let request = Request::builder()
                .method("POST")
                .uri("/api/v1/calls")
                .header(header::HOST, "localhost")
                .header(header::AUTHORIZATION, format!("Bearer {key}"))
                .header(header::CONTENT_TYPE, "application/json")
                .header(name, value)
                .body(Body::from(call.to_string()))
                .unwrap();
            let response = router().oneshot(request).await.unwrap();
            // Nobody can overlook such a server.
            assert_eq!(response.headers().contains_key("toolgate-warning"), on == "true");
            answer(response).await.refused(403);
        }
        let batch = json!({"calls": [call.clone()]});
        let batch = send(&service, "/api/v1/calls", batch).await;
        assert!(batch.body.to_string().contains("bypass_approval"), "{}", batch.body);
        let tenant = app.registry.snapshot().tenant_by_slug("default").unwrap().tenant.id;
        let entries = app.store.audit_entries(tenant, 1000).await.unwrap();
        let actions: Vec<&str> = entries.iter().filter_map(|entry| entry["action"].as_str()).collect();
        let counted = |action: &str| actions.iter().filter(|known| **known == action).count();
        assert_eq!(counted("approval.bypassed"), usize::from(on == "true"), "{actions:?}");
        assert!(counted("approval.bypass_refused") >= 6, "{actions:?}");
        let doctor = send(&owner, "/api/v1/doctor", Value::Null).await.ok();
        assert_eq!(doctor.to_string().contains("development bypass"), on == "true");
    }
}
