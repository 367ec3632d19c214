//! A right that people lend with an approval: to one call, if they hold it themselves, and in no other way.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolgate_contracts::definition::HitlMode;
use toolgate_contracts::{ApprovalState, Caller, ErrorCode, FaultKind, Permission, Permissions, Role, Status};

use crate::approvals::{choice, kind};
use crate::world::{World, error, every_world, request, user_of};

/// A call that needs a right which its caller lacks.
fn changing(key: &str) -> Value {
    json!({"key": key, "act": "lent", "borrows": "tools.tenant.create"})
}

async fn output(world: &World, call: toolgate_contracts::CallId) -> Value {
    world.ended(call).await.output.unwrap()
}

/// The same person with a key that has less.
fn narrowed(caller: &Caller, rights: &[Permission]) -> Caller {
    let permissions: Permissions = caller.permissions.iter().filter(|right| rights.contains(right)).cloned().collect();
    Caller { permissions, ..caller.clone() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_approves_lends_the_right_that_the_call_needs() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let (_, agent) = world.agent_of(&ada, "maker", json!({})).await;
        let ben = world.person("ben", &[Role::Approver]).await;
        let eva = world.person("eva", &[Role::Approver, Role::Author]).await;
        let call = world.park(&agent, "asking", changing("one")).await;
        let card = world.card(&eva, call).await;
        assert_eq!(card.borrows.as_ref().map(Permission::as_str), Some("tools.tenant.create"));
        assert!(card.person_required, "no mode lets it run");
        // Who decides and does not hold it cannot lend it.
        let refused = world.approve(&ben, call).await.unwrap_err();
        assert_eq!(refused.kind(), FaultKind::Forbidden);
        assert!(refused.told().contains("`tools.tenant.create`"), "{}", refused.told());
        // Nor who holds it and shows a key that does not.
        let keyed = narrowed(&eva, &[Permission::APPROVALS_DECIDE, Permission::APPROVALS_READ]);
        assert_eq!(kind(world.approve(&keyed, call).await), FaultKind::Forbidden);
        // Nor in passing, among others.
        let (ids, yes) = ([call.to_string()], choice(json!({"decision": "approve"})));
        let several = world.engine.decide_all(&eva, &ids, &BTreeMap::new(), &yes).await.unwrap();
        assert!(several[0].refused.as_deref().unwrap().contains("lends a right"));
        assert_eq!(world.approval_of(call).await.state, ApprovalState::Open);
        world.approve(&eva, call).await.unwrap();
        let by = eva.principal.to_string();
        assert_eq!(output(&world, call).await, json!({"right": "tools.tenant.create", "by": [by]}));
        // A call that needs none is lent none, and so is one whose caller has it.
        let plain = world.park(&agent, "asking", json!({"key": "plain", "act": "lent"})).await;
        world.approve(&ben, plain).await.unwrap();
        assert_eq!(output(&world, plain).await, json!({"right": null}));
        let author = world.person("author", &[Role::Author]).await;
        let own = world.park(&author, "asking", changing("own")).await;
        world.approve(&ben, own).await.unwrap();
        assert_eq!(output(&world, own).await, json!({"right": null}));
        // Who does not hold it may still say no.
        let other = world.park(&agent, "asking", changing("no")).await;
        world.reject(&ben, other, "not now").await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_but_a_persons_decision_lends() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        // A token: nobody is asked, because nothing widens it.
        let token = world.holder(&ada, json!({"scope": ["tool:*"]})).await;
        let refused = world.call_as(&token, "asking", changing("token")).await;
        assert_eq!(error(&refused), (ErrorCode::PolicyDenied, "permission"));
        // A dry run is only planned, and whom nobody asks is lent nothing.
        let dry = request("asking", changing("dry"), |call| call.mode = toolgate_contracts::Mode::DryRun);
        assert_eq!(world.send(&ada, dry).await.unwrap().status, Status::Completed);
        let unasked = world.call_as(&ada, "script", changing("unasked")).await;
        assert_eq!(unasked.output, Some(json!({"right": null})));
        // A mode that would let it run waits for a person all the same.
        for mode in [HitlMode::ContinueOnTimeout, HitlMode::FireAndContinue] {
            let tool = format!("modal_{mode}");
            world.publish(&tool, json!({"requires_approval": true, "hitl": {"mode": mode, "timeout_s": 60}})).await;
            let call = world.park(&ada, &tool, changing(&tool)).await;
            world.clock.advance(61);
            world.in_background_until("its time is over", async || world.record(call).await.status.is_final()).await;
            assert_eq!(world.record(call).await.status, Status::Rejected, "{mode}");
            assert_eq!(world.runner.runs(&tool), 0);
        }
        // A standing grant answers for such calls, and not for this one.
        let max = world.person("max", &[Role::Admin]).await;
        let first = world.park(&ada, "fetches", json!({"key": "s"})).await;
        let standing = json!({"decision": "approve", "standing": {"constraints": [{"pointer": "/key", "const": "s"}], "uses": 5, "expires_s": 600}});
        world.decide(&max, first, standing).await.unwrap();
        assert_eq!(world.call_as(&ada, "fetches", json!({"key": "s"})).await.status, Status::Completed);
        world.park(&ada, "fetches", changing("s")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_lost_before_the_call_runs_is_not_lent() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let eva = world.person("eva", &[Role::Approver, Role::Author]).await;
        // Nothing runs while no place is free, so the decision and the run are two moments.
        let call = world.park(&ada, "asking", changing("lost")).await;
        let two = world.person("dan", &[Role::Approver, Role::Author]).await;
        let mut change = toolgate_store::Change::new(world.tenant);
        change.set_roles(user_of(&eva), &[Role::Approver]);
        world.store.commit(change).await.unwrap();
        // Her key still says so; she does not hold it any more.
        let decided = world.approve(&eva, call).await;
        assert!(decided.is_err() || decided.unwrap().card.state == ApprovalState::Open);
        assert_eq!(world.runner.runs("lost"), 0);
        world.approve(&two, call).await.unwrap();
        assert_eq!(output(&world, call).await["by"], json!([two.principal.to_string()]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_that_comes_to_need_a_right_needs_an_editor_who_has_it() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let eva = world.person("eva", &[Role::Approver, Role::Author]).await;
        let call = world.park(&ada, "asking", json!({"key": "e", "act": "lent"})).await;
        let edit = json!({"decision": "approve", "input": changing("e")});
        assert_eq!(kind(world.decide(&ben, call, edit.clone()).await), FaultKind::Forbidden);
        assert_eq!(world.approval_of(call).await.binding.borrows, None, "nothing was changed");
        world.decide(&eva, call, edit).await.unwrap();
        assert_eq!(output(&world, call).await["by"], json!([eva.principal.to_string()]));
    })
    .await;
}
