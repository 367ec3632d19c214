//! How a tenant works, and what the operator opens.

use serde_json::json;

use super::receiver::Receiver;
use super::text;
use crate::world::{As, every_world};

#[tokio::test]
async fn settings_are_read_by_many_and_changed_by_whoever_edits_policies() {
    every_world(async |world| {
        let put = async |who: &As, body| world.send(who, "PUT", "/api/v1/settings", body).await;
        let defaults = world.get(&As::Owner, "/api/v1/settings").await.ok();
        assert_eq!((&defaults["separation"], &defaults["approval_expires_s"]), (&json!(false), &json!(86_400)));
        let set =
            put(&As::Owner, json!({"separation": true, "hosts": ["api.example.com", "*.example.org:8443"]})).await;
        let set = set.ok();
        assert_eq!(set["separation"], true);
        assert_eq!(world.get(&As::Owner, "/api/v1/settings").await.ok(), set);
        for (body, pointer) in [
            (json!({"approval_expires_s": 0}), "/approval_expires_s"),
            (json!({"approval_expires_s": 100_000_000}), "/approval_expires_s"),
            (json!({"remind_before_s": 100_000_000}), "/remind_before_s"),
            (json!({"asks_per_run_max": 0}), "/asks_per_run_max"),
            (json!({"hosts": ["api.example.com", "https://x/"]}), "/hosts/1"),
            (json!({"separation": "yes"}), "/separation"),
            (json!({"seperation": true}), "/seperation"),
        ] {
            let refused = put(&As::Owner, body).await.refused(400);
            assert_eq!(refused["pointer"], pointer, "{refused:#}");
        }
        assert_eq!(world.get(&As::Owner, "/api/v1/settings").await.ok(), set, "what is refused changes nothing");
        for role in ["member", "approver", "author", "operator"] {
            let user = world.user("default", &format!("some-{role}"), &[role]).await;
            put(&user, json!({})).await.refused(403);
        }
        let admin = world.user("default", "ada", &["admin"]).await;
        put(&admin, json!({})).await.ok();
        assert_eq!(world.get(&admin, "/api/v1/settings").await.ok(), defaults, "what is left out has its default");
        assert!(world.actions().await.contains(&"settings.set".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn a_tenant_that_closes_itself_to_a_list_is_held_to_it() {
    every_world(async |world| {
        let hook = async |url: &str| {
            world.send(&As::Owner, "POST", "/api/v1/webhooks", json!({"url": url, "types": ["call.failed"]})).await
        };
        hook("https://hooks.example.net/").await.ok();
        world.send(&As::Owner, "PUT", "/api/v1/settings", json!({"hosts": ["*.example.com"]})).await.ok();
        let refused = hook("https://hooks.example.net/").await.refused(403);
        assert_eq!(refused["pointer"], "/url");
        hook("https://hooks.example.com/").await.ok();
    })
    .await;
}

#[tokio::test]
async fn only_the_operator_opens_hosts_and_never_a_metadata_service_or_a_port_of_our_own() {
    every_world(async |world| {
        let open = async |who: &As, body| world.send(who, "POST", "/api/v1/egress/openings", body).await;
        let spec = |host: &str, port: u16| json!({"host": host, "port": port, "scheme": "http", "reason": "why not"});
        for role in ["viewer", "member", "approver", "author", "admin"] {
            let user = world.user("default", &format!("some-{role}"), &[role]).await;
            open(&user, spec("10.0.0.5", 80)).await.refused(403);
            world.get(&user, "/api/v1/egress/openings").await.refused(403);
        }
        let operator = world.user("default", "otto", &["operator"]).await;
        let own = 8899;
        world.app.outside.listen(([0, 0, 0, 0], own).into());
        for host in ["169.254.169.254", "fd00:ec2::254", "metadata.google.internal", "instance-data", "0.0.0.0"] {
            let refused = open(&operator, spec(host, 80)).await;
            assert!(matches!(refused.status, 400 | 403), "{host}: {:#}", refused.body);
            assert_eq!(refused.body["pointer"], "/host", "{host}");
        }
        for host in ["127.0.0.1", "127.9.9.9", "::1", "localhost"] {
            open(&operator, spec(host, own)).await.refused(403);
            open(&operator, spec(host, own + 1)).await.ok();
        }
        for (extra, pointer) in [
            (json!({"reason": " "}), "/reason"),
            (json!({"port": 0}), "/port"),
            (json!({"host": "a b"}), "/host"),
            (json!({"expires_at": "2001-01-01T00:00:00Z"}), "/expires_at"),
            (json!({"tenants": ["nobody"]}), "/tenants/0"),
        ] {
            let mut body = spec("10.0.0.5", 80);
            body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let refused = open(&operator, body).await;
            assert!(refused.status >= 400, "{:#}", refused.body);
            assert_eq!(refused.body["pointer"], pointer, "{:#}", refused.body);
        }
        let opening = open(&operator, spec("10.0.0.5", 80)).await.ok();
        let listed = world.get(&operator, "/api/v1/egress/openings").await.ok();
        assert_eq!(listed["items"].as_array().unwrap().len(), 5);
        let path = format!("/api/v1/egress/openings/{}", text(&opening, "id"));
        world.send(&operator, "DELETE", &path, json!({})).await.ok();
        world.send(&operator, "DELETE", &path, json!({})).await.refused(404);
        let system = world.get(&As::OwnerOf("system"), "/api/v1/audit/entries?action=egress.*").await.ok();
        let actions: Vec<&str> =
            system["items"].as_array().unwrap().iter().map(|entry| text(&entry["entry"], "action")).collect();
        assert_eq!(actions.len(), 6, "each is in the operator's log: {actions:?}");
    })
    .await;
}

#[tokio::test]
async fn an_opening_ends_when_it_says_so_and_for_tools_alone_is_none_for_webhooks() {
    every_world(async |world| {
        let receiver = Receiver::start().await;
        let hook = async || {
            let body = json!({"url": receiver.url("/"), "types": ["call.completed"]});
            world.send(&As::Owner, "POST", "/api/v1/webhooks", body).await
        };
        world.open_host(&receiver, json!({"tools": ["http_get"]})).await;
        hook().await.refused(403);
        world.open_host(&receiver, json!({"expires_at": "2026-11-15T00:00:00Z"})).await;
        hook().await.ok();
        world.echo(&As::Owner).await;
        world.clock.advance(24 * 3600);
        world.deliver().await;
        assert_eq!(receiver.taken().len(), 0, "it ended before anything was sent");
    })
    .await;
}
