//! What a call would do is worked out before people are asked, kept with the question, and shown with it.

use serde_json::{Value, json};
use toolgate_contracts::{ErrorCode, Role, Status};

use crate::approvals::kind;
use crate::world::{error, every_world};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_shows_what_would_happen_as_it_was_when_people_were_asked() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let asked_at = world.clock.now();
        let input = json!({"key": "p", "n": 1});
        let call = world.park(&ada, "writes", input.clone()).await;
        world.clock.advance(30);
        let preview = world.card(&ben, call).await.preview.unwrap();
        assert_eq!((preview.plan, preview.at), (Some(json!({"would": input})), asked_at));
        assert_eq!((preview.failed, preview.truncated, preview.stale), (None, false, None));
        assert_eq!((world.runner.plans(), world.runner.runs("p")), (1, 0), "once, and nothing was done");
        // An edited input is another thing to foresee.
        world.settings(|settings| settings.separation = true).await;
        let edited = json!({"key": "p", "n": 2});
        world.decide(&ben, call, json!({"decision": "approve", "input": edited})).await.unwrap();
        let preview = world.card(&ben, call).await.preview.unwrap();
        assert_eq!((preview.plan, preview.stale), (Some(json!({"would": edited})), None));
        assert_eq!(preview.at, world.clock.now());
        // And an edit that cannot run is told to whoever edits.
        let refused = json!({"code": "VALIDATION_ERROR", "message": "no such entry"});
        let cat = world.person("cat", &[Role::Approver]).await;
        let fault = world.decide(&cat, call, json!({"decision": "approve", "input": {"plan": refused}})).await;
        assert!(fault.unwrap_err().told().contains("no such entry"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_fails_in_passing_is_told_and_stops_nothing() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let check = async |plan: Value, told: Option<&str>| {
            let call = world.park(&ada, "writes", json!({"key": "f", "plan": plan})).await;
            let preview = world.card(&ben, call).await.preview;
            assert_eq!(preview.as_ref().and_then(|preview| preview.failed.as_deref()), told, "{plan}");
            assert!(preview.is_none_or(|preview| preview.plan.is_none()));
            world.approve(&ben, call).await.unwrap();
            assert_eq!(world.ended(call).await.status, Status::Completed);
        };
        check(json!({"code": "NETWORK_ERROR", "message": "no answer"}), Some("no answer")).await;
        check(json!({"code": "PROVIDER_ERROR", "message": "it is ill"}), Some("it is ill")).await;
        check(json!("panic"), Some("what runs it broke down")).await;
        check(json!("hang"), Some("it was not worked out within 5 s")).await;
        check(json!("nothing"), None).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_asked_about_a_call_that_cannot_run() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let check = async |plan: Value, code: ErrorCode, reason: &str| {
            let envelope = world.call_as(&ada, "writes", json!({"key": "never", "plan": plan})).await;
            assert_eq!((envelope.status, error(&envelope)), (Status::Failed, (code, reason)));
            envelope.error.unwrap().details.unwrap()
        };
        let said = |code: &str, reason: &str| json!({"code": code, "message": "no", "details": {"reason": reason}});
        check(said("VALIDATION_ERROR", "schema"), ErrorCode::ValidationError, "schema").await;
        check(said("POLICY_DENIED", "not_found"), ErrorCode::PolicyDenied, "not_found").await;
        check(said("SANDBOX_ERROR", "tier_unavailable"), ErrorCode::SandboxError, "tier_unavailable").await;
        let details = check(json!("closed"), ErrorCode::PolicyDenied, "egress").await;
        assert_eq!(
            (&details["rule"], &details["host"]),
            (&json!("address"), &json!("a.test")),
            "as if it had been sent"
        );
        let none = toolgate_store::approvals::ApprovalFilter::default();
        assert_eq!(world.engine.count_approvals(&ben, &none).await.unwrap(), 0);
        // A tool without a runner here, too.
        world.settings(|settings| settings.separation = false).await;
        let owner = world.owner();
        let asks =
            json!({"egress_class": "write", "runner": {"kind": "http", "method": "POST", "url": "https://a.example/"}});
        world.publish("unwired_write", asks).await;
        let envelope = world.call_as(&owner, "unwired_write", json!({})).await;
        assert_eq!(error(&envelope), (ErrorCode::SandboxError, "tier_unavailable"));
        assert_eq!(kind(world.approve(&ben, envelope.id).await), toolgate_contracts::FaultKind::NotFound);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_plan_is_cut_and_says_so() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let call = world.park(&ada, "writes", json!({"key": "long", "text": "x".repeat(100_000)})).await;
        let card = world.card(&ben, call).await;
        let preview = card.preview.unwrap();
        assert!(preview.truncated && preview.plan.unwrap().to_string().len() <= 32 * 1024);
        assert!(card.input_shown.len() > 100_000, "what will run is whole");
    })
    .await;
}
