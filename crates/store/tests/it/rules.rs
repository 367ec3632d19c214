//! What the database itself enforces, whoever writes: each rule is broken once, in both databases.

use serde_json::json;
use toolgate_contracts::agent::SideEffects;
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::{Id, RunId, ToolId};
use toolgate_store::calls::{ApprovalStatus, Status};
use toolgate_store::testing::every_store;
use toolgate_store::{Change, Error, Scope};

use crate::product::Product;

#[track_caller]
fn refused_by(result: Result<toolgate_store::Outcome, Error>, rule: &str) {
    let error = result.expect_err(rule);
    assert!(error.is(rule), "expected {rule}, got {error:?}");
}

#[tokio::test]
async fn a_write_tool_requires_approval_whoever_writes() {
    every_store(async |store| {
        let product = Product::with(store, 1).await;
        let tool: ToolId = Id::new(&product.clock, &product.rng);
        let mut change = Change::new(product.tenant);
        product.add_tool(&mut change, tool, "send", json!({"egress_class": "write"}));
        product.store.commit(change).await.unwrap();
        let asks = async || {
            let rows = product.store.query(&Scope::Tenant(product.tenant), "SELECT requires_approval FROM tools WHERE tenant_id = $1 AND id = $2", vec![tool.into()]).await.unwrap();
            rows[0].get::<bool>(0).unwrap()
        };
        product.run("UPDATE tools SET requires_approval = FALSE WHERE tenant_id = $1 AND id = $2", [tool.into()]).await.unwrap();
        assert!(asks().await, "switched off");
        product.run("UPDATE tools SET requires_approval = FALSE, egress_class = 'none', risk = 'safe' WHERE tenant_id = $1 AND id = $2", [tool.into()]).await.unwrap();
        assert!(!asks().await, "not a write any more");
        product.run("UPDATE tools SET egress_class = 'write', risk = 'critical' WHERE tenant_id = $1 AND id = $2", [tool.into()]).await.unwrap();
        assert!(asks().await, "became a write");
        refused_by(product.run("UPDATE tools SET risk = 'safe' WHERE tenant_id = $1 AND id = $2", [tool.into()]).await, "tools_write_is_not_safe");
        let raw: ToolId = Id::new(&product.clock, &product.rng);
        let insert = "INSERT INTO tools (tenant_id, id, name, folded, origin, egress_class, requires_approval, risk, created_at)
            VALUES ($1, $2, 'raw', 'raw', 'tenant', 'write', FALSE, 'critical', 0)";
        product.run(insert, [raw.into()]).await.unwrap();
        let rows = product.store.query(&Scope::Tenant(product.tenant), "SELECT requires_approval FROM tools WHERE tenant_id = $1 AND id = $2", vec![raw.into()]).await.unwrap();
        assert!(rows[0].get::<bool>(0).unwrap(), "inserted without");
    })
    .await;
}

#[tokio::test]
async fn a_status_moves_only_along_the_arrows() {
    use Status::{Approved, Cancelled, Completed, Failed, OutcomeUnknown, Pending, Rejected, Running};
    let arrows = [
        (Pending, Approved),
        (Pending, Rejected),
        (Pending, Cancelled),
        (Approved, Running),
        (Approved, Pending),
        (Approved, Rejected),
        (Approved, Cancelled),
        (Running, Completed),
        (Running, Failed),
        (Running, Cancelled),
        (Running, OutcomeUnknown),
        (OutcomeUnknown, Completed),
        (OutcomeUnknown, Failed),
    ];
    // How each state is reached from a new call.
    let path = |to: Status| match to {
        Pending => vec![Pending],
        Approved => vec![Pending, Approved],
        Rejected => vec![Pending, Rejected],
        Running => vec![Running],
        OutcomeUnknown => vec![Running, OutcomeUnknown],
        other => vec![Running, other],
    };
    every_store(async |store| {
        let product = Product::with(store, 2).await;
        for from in Status::ALL {
            for to in Status::ALL.iter().filter(|to| *to != from) {
                let steps = path(*from);
                let call = product.call(product.users[0], None, steps[0]);
                product.add(&call).await.unwrap();
                let step = async |to: Status| {
                    product
                        .run(
                            "UPDATE calls SET status = $3 WHERE tenant_id = $1 AND id = $2",
                            [call.id.into(), to.as_str().into()],
                        )
                        .await
                };
                for next in &steps[1..] {
                    step(*next).await.unwrap();
                }
                let moved = step(*to).await;
                if arrows.contains(&(*from, *to)) {
                    assert!(moved.is_ok(), "{from:?} to {to:?}: {moved:?}");
                } else {
                    refused_by(moved, "calls_arrows");
                }
            }
        }
        for begin in [Approved, Rejected, OutcomeUnknown] {
            refused_by(product.add(&product.call(product.users[0], None, begin)).await, "calls_begin");
        }
        let mut effect = product.call(product.users[0], None, Completed);
        effect.side_effects = SideEffects::Writes;
        refused_by(product.add(&effect).await, "calls_begin");
    })
    .await;
}

#[tokio::test]
async fn a_write_never_runs_without_a_person() {
    every_store(async |store| {
        let product = Product::with(store, 3).await;
        let mut call = product.call(product.users[0], None, Status::Pending);
        call.class = EgressClass::Write;
        call.side_effects = SideEffects::Writes;
        call.approval_status = ApprovalStatus::Pending;
        refused_by(product.add(&call).await, "calls_write_needs_person");
        call.person_required = true;
        product.add(&call).await.unwrap();
        let approve = async |by: &str| {
            let sql = "UPDATE calls SET status = 'approved', approval_status = 'approved', approval_decided_by = $3 WHERE tenant_id = $1 AND id = $2";
            product.run(sql, [call.id.into(), by.into()]).await
        };
        refused_by(approve("system:timeout").await, "calls_person_decides");
        let direct = product.run("UPDATE calls SET status = 'approved' WHERE tenant_id = $1 AND id = $2", [call.id.into()]).await;
        refused_by(direct, "calls_person_decides");
        let cleared = product.run("UPDATE calls SET person_required = FALSE WHERE tenant_id = $1 AND id = $2", [call.id.into()]).await;
        assert!(cleared.is_err_and(|error| error.is("calls_person_required_stays") || error.is("calls_write_needs_person")));
        approve("user:somebody").await.unwrap();
        product.run("UPDATE calls SET status = 'running' WHERE tenant_id = $1 AND id = $2", [call.id.into()]).await.unwrap();
        let mut running = product.call(product.users[0], None, Status::Running);
        running.class = EgressClass::Write;
        running.person_required = true;
        refused_by(product.add(&running).await, "calls_person_decides");
    })
    .await;
}

#[tokio::test]
async fn the_log_and_what_was_published_cannot_change() {
    every_store(async |store| {
        let product = Product::with(store, 4).await;
        let entry = toolgate_store::audit::Entry {
            id: Id::new(&product.clock, &product.rng),
            at: product.clock.now(),
            tenant: product.tenant,
            actor: "local:0".into(),
            action: "test".into(),
            object: "x".into(),
            details: serde_json::Map::new(),
        };
        let mut change = Change::new(product.tenant);
        change.audit(&entry);
        change.then(
            "INSERT INTO events (tenant_id, run_id, seq, last_seq, events, created_at) VALUES ($1, $2, 0, 0, '[]', 0)",
            [entry.id.into()],
        );
        change
            .then("INSERT INTO audit_sequence (tenant_id, leaf_index, leaf_id) VALUES ($1, 0, $2)", [entry.id.into()]);
        product.store.commit(change).await.unwrap();
        for statement in [
            "UPDATE audit_leaves SET entry = '{}' WHERE tenant_id = $1",
            "DELETE FROM audit_leaves WHERE tenant_id = $1",
            "UPDATE events SET events = '[1]' WHERE tenant_id = $1",
            "DELETE FROM events WHERE tenant_id = $1",
            "UPDATE audit_sequence SET leaf_index = 7 WHERE tenant_id = $1",
            "DELETE FROM audit_sequence WHERE tenant_id = $1",
            "UPDATE schema_versions SET schema_text = '{}' WHERE tenant_id = $1",
            "UPDATE tool_versions SET definition = '{}' WHERE tenant_id = $1",
            "UPDATE tool_versions SET version = '9.9.9' WHERE tenant_id = $1",
        ] {
            let refused = product.run(statement, []).await;
            assert!(refused.is_err(), "{statement} was let through");
        }
        product.run("UPDATE tool_versions SET state = 'blocked' WHERE tenant_id = $1", []).await.unwrap();
        assert_eq!(product.store.audit_entries(product.tenant, 10).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_used_tool_stays_and_a_run_takes_its_calls_along() {
    every_store(async |store| {
        let product = Product::with(store, 5).await;
        let run: RunId = Id::new(&product.clock, &product.rng);
        let step: toolgate_contracts::StepId = Id::new(&product.clock, &product.rng);
        let insert = "INSERT INTO runs (tenant_id, id, root_run_id, principal, state, created_at, updated_at) VALUES ($1, $2, $2, 'local:0', 'running', 0, 0)";
        product.run(insert, [run.into()]).await.unwrap();
        product.run("INSERT INTO steps (tenant_id, id, run_id, title, created_at) VALUES ($1, $2, $3, 'Look', 0)", [step.into(), run.into()]).await.unwrap();
        let mut call = product.call(product.users[0], None, Status::Completed);
        (call.run, call.root_run, call.step) = (Some(run), Some(run), Some(step));
        product.add(&call).await.unwrap();
        assert!(product.run("DELETE FROM tools WHERE tenant_id = $1 AND id = $2", [product.tool.into()]).await.is_err(), "a used tool was deleted");
        product.run("DELETE FROM steps WHERE tenant_id = $1 AND id = $2", [step.into()]).await.unwrap();
        let scope = Scope::Tenant(product.tenant);
        let rows = product.store.query(&scope, "SELECT step_id FROM calls WHERE tenant_id = $1", vec![]).await.unwrap();
        assert_eq!(rows[0].get::<Option<toolgate_contracts::StepId>>(0).unwrap(), None);
        product.run("DELETE FROM runs WHERE tenant_id = $1 AND id = $2", [run.into()]).await.unwrap();
        assert!(product.store.query(&scope, "SELECT id FROM calls WHERE tenant_id = $1", vec![]).await.unwrap().is_empty());
        product.run("DELETE FROM tools WHERE tenant_id = $1 AND id = $2", [product.tool.into()]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn names_are_unique_by_their_folded_key_in_a_tenant_and_with_the_global_ones() {
    every_store(async |store| {
        let product = Product::with(store.clone(), 6).await;
        let add = async |name: &str| {
            let mut change = Change::new(product.tenant);
            product.add_tool(&mut change, Id::new(&product.clock, &product.rng), name, json!({}));
            product.store.commit(change).await
        };
        assert!(matches!(add("read_record").await, Err(Error::Unmet(_))));
        assert!(matches!(add("READRECORD").await, Err(Error::Unmet(_))));
        add("read_records").await.unwrap();
        // Another tenant may have the same name.
        Product::with(store, 7).await;
    })
    .await;
}
