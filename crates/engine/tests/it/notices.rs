//! What is told outside is written with what it tells of, once, to those who want it.

use serde_json::{Value, json};
use toolgate_contracts::{Id, NoticeType, Status, WebhookId, WebhookState};
use toolgate_engine::control::Settlement;
use toolgate_store::Change;
use toolgate_store::notices::{Addressee, SealedSecrets, Webhook};

use crate::world::{World, every_world, request};

const SENTINEL: &str = "SENTINEL-argument-9";

impl World {
    async fn webhook(&self, types: &[NoticeType]) -> WebhookId {
        let id = Id::new(&self.clock, &self.rng);
        let webhook = Webhook {
            id,
            url: "https://hooks.example.com/".into(),
            types: types.to_vec(),
            state: WebhookState::Active,
            paused_because: None,
            failures: 0,
            next_at: None,
            rotated_at: None,
            created_by: "user:x".into(),
            created_at: self.clock.now(),
        };
        let mut change = Change::new(self.tenant);
        change.insert_webhook(&webhook, &SealedSecrets { key_id: "k".into(), sealed: vec![1; 60], before: None });
        change.count_revision();
        self.store.commit(change).await.unwrap();
        self.registry.refresh().await.unwrap();
        id
    }

    /// What a webhook is to be told, as `type status`.
    async fn told(&self, webhook: WebhookId) -> Vec<String> {
        let to = Addressee { tenant: self.tenant, webhook: Some(webhook) };
        let due = self.store.due_deliveries(to, self.clock.now(), 100).await.unwrap();
        let words = |body: &str| {
            assert!(!body.contains(SENTINEL), "an argument is told: {body}");
            let notice: Value = serde_json::from_str(body).unwrap();
            format!("{} {}", notice["type"].as_str().unwrap(), notice["data"]["status"].as_str().unwrap())
        };
        let mut told: Vec<String> = due.iter().map(|due| words(&due.body)).collect();
        told.sort();
        told
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_end_is_told_to_those_who_want_it_and_to_nobody_else() {
    every_world(async |world| {
        let all = world.webhook(NoticeType::ALL).await;
        let some = world.webhook(&[NoticeType::CallFailed]).await;
        let input = json!({"key": SENTINEL});
        assert_eq!(world.call("script", input.clone()).await.status, Status::Completed);
        assert_eq!(world.told(all).await, ["call.completed completed", "tool_run success"]);
        let refused = world.call("strict", json!({"n": SENTINEL})).await;
        assert_eq!((refused.status, crate::world::error(&refused).1), (Status::Failed, "schema"));
        assert_eq!(
            world.told(all).await,
            ["call.completed completed", "call.failed failed", "tool_run success"],
            "what was refused did not run"
        );
        assert_eq!(world.told(some).await, ["call.failed failed"]);
        let before = world.count("deliveries").await;
        world.call_as(&world.owner_next_door(), "script", input.clone()).await;
        let dry = request("script", input, |call| call.mode = toolgate_contracts::Mode::DryRun);
        world.send(&world.owner(), dry).await.unwrap();
        assert_eq!(world.count("deliveries").await, before, "neither the neighbour's nor a dry run");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_outcome_is_told_and_its_settlement_too_but_it_ran_once() {
    every_world(async |world| {
        let webhook = world.webhook(NoticeType::ALL).await;
        world.external("far_note", true, json!({})).await;
        let call = request("far_note", json!({"key": SENTINEL}), |call| call.wait = Some(0));
        let call = world.send(&world.owner(), call).await.unwrap();
        let lease = toolgate_engine::external::LeaseRequest { tools: vec!["far_note".to_owned()], wait: None };
        world.engine.lease(&world.worker(), lease).await.unwrap().unwrap();
        world.clock.advance(toolgate_engine::external::LEASE_S);
        world.in_background_until("it is lost", async || world.record(call.id).await.status != Status::Running).await;
        assert_eq!(world.told(webhook).await, ["call.outcome_unknown outcome_unknown", "tool_run error"]);
        let settlement = Settlement { status: Status::Completed, reason: "it is in the ledger".into(), output: None };
        world.engine.settle(&world.owner(), &call.id.to_string(), settlement).await.unwrap();
        assert_eq!(
            world.told(webhook).await,
            ["call.completed completed", "call.outcome_unknown outcome_unknown", "tool_run error"]
        );
    })
    .await;
}
