//! What the database itself enforces, whoever writes: each rule is broken once, in both databases.

use serde_json::json;
use toolgate_contracts::agent::SideEffects;
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::{Id, RunId, TenantId, ToolId};
use toolgate_store::calls::{ApprovalStatus, Status};
use toolgate_store::testing::{Database, every_store, tenant};
use toolgate_store::{Change, Error, Kind, MIGRATIONS, Scope};

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

/// A tool of the system tenant.
async fn shared_tool(product: &Product) -> ToolId {
    let id: ToolId = Id::new(&product.clock, &product.rng);
    let mut change = Change::new(TenantId::SYSTEM);
    change.insert_tenant(&tenant(TenantId::SYSTEM, "system", product.clock.now()));
    change.then(
        "INSERT INTO tools (tenant_id, id, name, folded, origin, created_at) VALUES ($1, $2, 'shared', 'shared', 'code', 0)",
        [id.into()],
    );
    product.store.commit(change).await.unwrap();
    id
}

const COPY_VERSION: &str = "INSERT INTO tool_versions (tenant_id, id, tool_id, version, definition, input_schema, definition_digest, behaviour_digest, published_by, created_at)
    SELECT $1, $2, $3, '7.0.0', definition, input_schema, definition_digest, behaviour_digest, published_by, created_at FROM tool_versions WHERE tenant_id = $1 LIMIT 1";

#[tokio::test]
async fn a_version_is_of_its_tool_s_tenant_and_goes_with_its_tool() {
    every_store(async |store| {
        let other = Product::with(store.clone(), 21).await;
        let product = Product::with(store, 22).await;
        let shared = shared_tool(&product).await;
        let add = async |tool: ToolId| {
            let id: toolgate_contracts::VersionId = Id::new(&product.clock, &product.rng);
            product.run(COPY_VERSION, [id.into(), tool.into()]).await
        };
        refused_by(add(shared).await, "foreign_key");
        refused_by(add(other.tool).await, "foreign_key");
        add(product.tool).await.unwrap();
        let moved = "UPDATE tool_versions SET id = $2 WHERE tenant_id = $1 AND version = '7.0.0'";
        refused_by(product.run(moved, [product.tool.into()]).await, "tool_versions_immutable");
        let delete = "DELETE FROM tool_versions WHERE tenant_id = $1 AND version = '7.0.0'";
        refused_by(product.run(delete, []).await, "tool_versions_stay");
        product.run("DELETE FROM tools WHERE tenant_id = $1 AND id = $2", [product.tool.into()]).await.unwrap();
        let left = "SELECT id FROM tool_versions WHERE tenant_id = $1";
        assert!(product.store.query(&Scope::Tenant(product.tenant), left, vec![]).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn only_one_s_own_and_shared_tools_are_named() {
    every_store(async |store| {
        let other = Product::with(store.clone(), 23).await;
        let product = Product::with(store, 24).await;
        let shared = shared_tool(&product).await;
        let nobody: ToolId = Id::new(&product.clock, &product.rng);
        for (rule, insert, update) in [
            (
                "tool_overrides_own_or_shared",
                "INSERT INTO tool_overrides (tenant_id, tool_id, updated_by, updated_at) VALUES ($1, $2, 'x', 0)",
                "UPDATE tool_overrides SET tool_id = $2 WHERE tenant_id = $1",
            ),
            (
                "tool_aliases_own_or_shared",
                "INSERT INTO tool_aliases (tenant_id, tool_id, folded, name, created_at) SELECT $1, $2, 'old' || count(*), 'old', 0 FROM tool_aliases WHERE tenant_id = $1",
                "UPDATE tool_aliases SET tool_id = $2 WHERE tenant_id = $1",
            ),
            (
                "assignments_own_or_shared",
                "INSERT INTO assignments (tenant_id, tool_id, agent_id, created_by, created_at) SELECT $1, $2, id, 'x', 0 FROM agents WHERE tenant_id = $1",
                "UPDATE assignments SET tool_id = $2 WHERE tenant_id = $1",
            ),
        ] {
            product.run(insert, [product.tool.into()]).await.unwrap();
            product.run(insert, [shared.into()]).await.unwrap();
            for stranger in [other.tool, nobody] {
                refused_by(product.run(insert, [stranger.into()]).await, rule);
                refused_by(product.run(update, [stranger.into()]).await, rule);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_call_is_stays() {
    every_store(async |store| {
        let product = Product::with(store, 25).await;
        let shared = shared_tool(&product).await;
        let call = product.call(product.users[0], None, Status::Running);
        product.add(&call).await.unwrap();
        for update in [
            "UPDATE calls SET mode = 'dry_run' WHERE tenant_id = $1",
            "UPDATE calls SET egress_class = 'read_only' WHERE tenant_id = $1",
            "UPDATE calls SET effect_free = NOT effect_free WHERE tenant_id = $1",
        ] {
            refused_by(product.run(update, []).await, "calls_identity_stays");
        }
        for update in [
            "UPDATE calls SET tool_id = $2 WHERE tenant_id = $1",
            "UPDATE calls SET id = $2 WHERE tenant_id = $1",
            "UPDATE calls SET tenant_id = $2 WHERE tenant_id = $1",
        ] {
            refused_by(product.run(update, [shared.into()]).await, "calls_identity_stays");
        }
        product.run("UPDATE calls SET status = 'completed', mode = mode WHERE tenant_id = $1", []).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn checkpoints_are_written_once() {
    every_store(async |store| {
        let product = Product::with(store, 26).await;
        let insert =
            "INSERT INTO audit_checkpoints (tenant_id, size, root, note, created_at) VALUES ($1, 1, $2, 'n', 0)";
        product.run(insert, [vec![1_u8].into()]).await.unwrap();
        refused_by(product.run(insert, [vec![2_u8].into()]).await, "audit_checkpoints_pkey");
        let rule = "audit_checkpoints_append_only";
        for change in [
            "UPDATE audit_checkpoints SET note = 'm' WHERE tenant_id = $1",
            "DELETE FROM audit_checkpoints WHERE tenant_id = $1",
        ] {
            let refused = product.run(change, []).await.expect_err(rule);
            // In PostgreSQL the role that serves has no right to try.
            assert!(refused.is(rule) || product.store.kind() == Kind::Postgres, "{refused:?}");
        }
    })
    .await;
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let product = Product::with(database.open().await, 26).await;
    let insert = "INSERT INTO audit_checkpoints (tenant_id, size, root, note, created_at) VALUES ($1, 1, $2, 'n', 0)";
    product.run(insert, [vec![1_u8].into()]).await.unwrap();
    for change in
        ["UPDATE audit_checkpoints SET note = 'm'", "DELETE FROM audit_checkpoints", "TRUNCATE audit_checkpoints"]
    {
        let scoped = format!("SET toolgate.tenants = '*'; {change}");
        let refused = database.execute(&scoped).await.expect_err(change);
        assert!(refused.is("audit_checkpoints_append_only"), "{refused:?}");
    }
}

#[tokio::test]
async fn replacing_is_no_way_around_the_rules() {
    let database = Database::sqlite(MIGRATIONS).unwrap();
    let product = Product::with(database.open().await, 27).await;
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
    change.then("INSERT INTO audit_sequence (tenant_id, leaf_index, leaf_id) VALUES ($1, 0, $2)", [entry.id.into()]);
    change.then(
        "INSERT INTO audit_checkpoints (tenant_id, size, root, note, created_at) VALUES ($1, 1, $2, 'n', 0)",
        [vec![1_u8].into()],
    );
    product.store.commit(change).await.unwrap();
    product.add(&product.call(product.users[0], None, Status::Running)).await.unwrap();
    // As anybody with the file would, foreign keys off.
    for (table, rule) in [
        ("events", "events_pkey"),
        ("audit_leaves", "audit_leaves_pkey"),
        ("audit_checkpoints", "audit_checkpoints_pkey"),
        ("calls", "calls_pkey"),
    ] {
        let sql = format!("PRAGMA foreign_keys = OFF; INSERT OR REPLACE INTO {table} SELECT * FROM {table}");
        let refused = database.execute(&sql).await.expect_err(table);
        assert!(refused.is(rule), "{table}: {refused:?}");
    }
    for (sql, rule) in [
        ("INSERT OR REPLACE INTO audit_sequence SELECT tenant_id, 9, leaf_id FROM audit_sequence", "audit_sequence_leaf"),
        ("INSERT OR REPLACE INTO audit_sequence SELECT tenant_id, leaf_index, zeroblob(16) FROM audit_sequence", "audit_sequence_pkey"),
        (
            "INSERT OR REPLACE INTO tool_versions (tenant_id, id, tool_id, version, definition, input_schema, definition_digest, behaviour_digest, published_by, created_at)
             SELECT tenant_id, id, tool_id, '8.0.0', '{}', input_schema, definition_digest, behaviour_digest, published_by, created_at FROM tool_versions",
            "tool_versions_pkey",
        ),
        (
            "INSERT OR REPLACE INTO tool_versions (tenant_id, id, tool_id, version, definition, input_schema, definition_digest, behaviour_digest, published_by, created_at)
             SELECT tenant_id, randomblob(16), tool_id, version, '{}', input_schema, definition_digest, behaviour_digest, published_by, created_at FROM tool_versions",
            "tool_versions_version",
        ),
        ("DELETE FROM tools", "foreign_key"),
    ] {
        let refused = database.execute(&format!("PRAGMA foreign_keys = OFF; {sql}")).await.expect_err(sql);
        assert!(refused.is(rule), "{sql}: {refused:?}");
    }
    // A schema that is there stays as it is.
    database
        .execute("INSERT OR REPLACE INTO schema_versions SELECT tenant_id, digest, 'forged', 0 FROM schema_versions")
        .await
        .unwrap();
    let sql = "SELECT digest FROM schema_versions WHERE tenant_id = $1 AND schema_text = 'forged'";
    assert!(product.store.query(&Scope::Tenant(product.tenant), sql, vec![]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_call_of_nothing_is_refused_alone_whatever_shares_its_commit() {
    every_store(async |store| {
        let product = Product::with(store, 12).await;
        let call = || product.call(product.users[0], None, Status::Running);
        let (good, better) = (call(), call());
        let mut of_no_tool = call();
        of_no_tool.tool = Id::new(&product.clock, &product.rng);
        let mut of_no_run = call();
        of_no_run.run = Some(Id::new(&product.clock, &product.rng));
        let mut leaf = Change::new(TenantId::new(&product.clock, &product.rng));
        leaf.leaf(Id::new(&product.clock, &product.rng), "{}".into(), product.clock.now());
        let (kept, no_tool, no_run, no_tenant, kept_too) = tokio::join!(
            product.add(&good),
            product.add(&of_no_tool),
            product.add(&of_no_run),
            product.store.commit(leaf),
            product.add(&better),
        );
        kept.unwrap();
        kept_too.unwrap();
        for refused in [no_tool, no_run, no_tenant] {
            refused_by(refused, "foreign_key");
        }
        for (id, there) in [(good.id, true), (better.id, true), (of_no_tool.id, false), (of_no_run.id, false)] {
            assert_eq!(product.store.call(product.tenant, id).await.unwrap().is_some(), there);
        }
    })
    .await;
}
