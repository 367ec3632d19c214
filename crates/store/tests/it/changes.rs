//! What a change does, alone and among others.

use std::sync::Arc;

use tokio::task::JoinSet;
use toolgate_contracts::FaultKind;
use toolgate_store::testing::every_database;
use toolgate_store::{Change, Constraint, Durability, Error, Expect, Scope, Value};

use crate::schema::{INSERT, MIGRATIONS, bodies, count, expected, note, one, tenant, write};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_committed_is_read_at_once() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        for (id, durability) in [(1, Durability::Disk), (2, Durability::Process), (3, Durability::Disk)] {
            store.commit(note(tenant(1), id, &format!("note {id}")).durability(durability)).await.unwrap();
            assert_eq!(bodies(&store, tenant(1)).await.len(), usize::try_from(id).unwrap());
        }
        store.ping().await.unwrap();
        // Another opener sees it too.
        assert_eq!(count(&database.open().await).await, 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_change_fails_alone_among_a_hundred() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        write(&store, tenant(0), 0, "taken").await.unwrap();
        for round in 0..5_i64 {
            let mut running = JoinSet::new();
            for number in 0..100_i64 {
                let store = store.clone();
                // Every tenth fails: a key that is taken, a statement that changes nothing, a text that is no SQL here.
                running.spawn(async move {
                    let id = 1 + round * 1000 + number;
                    let mut change = note(tenant(u128::try_from(number % 7).unwrap()), id, &format!("note {id}"));
                    match number % 30 {
                        5 => drop(
                            change
                                .then("INSERT INTO notes (tenant_id, id, body) VALUES ($1, 0, 'x'), ($1, 0, 'y')", []),
                        ),
                        15 => drop(change.expecting(
                            expected("no such note"),
                            "DELETE FROM notes WHERE tenant_id = $1 AND id = $2",
                            [Value::Int(-1)],
                        )),
                        25 => drop(change.then("UPDATE no_such_table SET a = 1 WHERE tenant_id = $1", [])),
                        _ => {}
                    }
                    (number, store.commit(change).await)
                });
            }
            while let Some(result) = running.join_next().await {
                let (number, outcome) = result.unwrap();
                match (number % 30, outcome) {
                    (5, Err(error)) => assert!(error.is("notes_pkey"), "{error:?}"),
                    (15, Err(Error::Unmet(fault))) => assert_eq!(fault.told(), "no such note"),
                    (25, Err(Error::Corrupt(message))) => assert!(message.contains("no_such_table"), "{message}"),
                    (5 | 15 | 25, other) => panic!("{number}: {other:?}"),
                    (_, outcome) => assert_eq!(outcome.unwrap().changed, [1], "{number}"),
                }
            }
        }
        // 10 of each hundred failed, with all that they had done.
        assert_eq!(count(&store).await, 1 + 5 * 90);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unmet_expectation_undoes_the_whole_change() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        write(&store, tenant(1), 1, "one").await.unwrap();
        let mut change = note(tenant(1), 2, "two");
        change.expecting(
            expected("gone"),
            "UPDATE notes SET body = 'new' WHERE tenant_id = $1 AND id = $2",
            [Value::Int(9)],
        );
        change.then(INSERT, [Value::Int(3), "three".into()]);
        let error = store.commit(change).await.unwrap_err();
        let fault = toolgate_contracts::Fault::from(error);
        assert_eq!((fault.kind(), fault.told()), (FaultKind::Conflict, "gone"));
        assert_eq!(bodies(&store, tenant(1)).await, ["one"]);

        let update = "UPDATE notes SET flag = $2 WHERE tenant_id = $1";
        for (expect, holds) in [
            (Expect::Anything, true),
            (expected("one"), true),
            (Expect::Some(toolgate_contracts::Fault::conflict("none", "")), true),
            (Expect::Rows(2, toolgate_contracts::Fault::conflict("two", "")), false),
        ] {
            let mut change = Change::new(tenant(1));
            change.expecting(expect, update, [true.into()]);
            assert_eq!(store.commit(change).await.is_ok(), holds);
        }
        let mut change = Change::new(tenant(2));
        change.expecting(Expect::Some(toolgate_contracts::Fault::conflict("none", "")), update, [true.into()]);
        assert!(matches!(store.commit(change).await, Err(Error::Unmet(_))));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_returns_what_its_statements_return() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        let mut change = note(tenant(1), 1, "one");
        change
            .then("INSERT INTO notes (tenant_id, id, body) VALUES ($1, $2, $3), ($1, $4, $5) RETURNING id, body", [2.into_value(), "two".into(), 3.into_value(), "three".into()])
            .then("INSERT INTO notes (tenant_id, id, body) VALUES ($1, 1, 'again') ON CONFLICT (tenant_id, id) DO NOTHING", [])
            .then("UPDATE notes SET flag = TRUE WHERE tenant_id = $1 AND id > 1", [])
            .then("/* no tenant: one counter */ UPDATE counters SET value = value + $1 WHERE name = $2 RETURNING value", [5.into_value(), "all".into()])
            .then("SELECT id FROM notes WHERE tenant_id = $1", [])
            .then("DELETE FROM notes WHERE tenant_id = $1 AND id = 9", []);
        let outcome = store.commit(change).await.unwrap();
        assert_eq!(outcome.changed, [1, 2, 0, 2, 1, 3, 0]);
        assert_eq!(outcome.returned[1][1].get::<String>(1).unwrap(), "three");
        assert_eq!(outcome.returned[4][0].get::<i64>(0).unwrap(), 5);
        assert!(outcome.returned[0].is_empty());
        let empty = store.commit(Change::new(tenant(1))).await.unwrap();
        assert!(empty.changed.is_empty());
    })
    .await;
}

trait IntoValue {
    fn into_value(self) -> Value;
}

impl IntoValue for i64 {
    fn into_value(self) -> Value {
        Value::Int(self)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_has_the_same_name_in_both_databases() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        let mut change = note(tenant(1), 1, "one");
        change.then(
            "INSERT INTO notes (tenant_id, id, body, other, flag) VALUES ($1, 2, 'frozen', $2, TRUE)",
            [Value::Uuid(uuid::Uuid::from_u128(7))],
        );
        change.then("INSERT INTO replies (tenant_id, note_id) VALUES ($1, 1)", []);
        store.commit(change).await.unwrap();
        let other: Value = uuid::Uuid::from_u128(7).into();
        let days = "INSERT INTO days (tenant_id, id, note) VALUES ($1, 1, ''), ($1, 101, '')";
        let mut change = Change::new(tenant(1));
        change.then(days, []);
        store.commit(change).await.unwrap();
        let table: [(&str, Vec<Value>, &str); 12] = [
            ("INSERT INTO notes (tenant_id, id, body) VALUES ($1, 1, 'x')", vec![], "notes_pkey"),
            ("INSERT INTO notes (tenant_id, id, body) VALUES ($1, 3, 'one')", vec![], "notes_body_once"),
            (
                "INSERT INTO notes (tenant_id, id, body, flag) VALUES ($1, 3, 'FROZEN', TRUE)",
                vec![],
                "notes_body_once_folded",
            ),
            (
                "INSERT INTO notes (tenant_id, id, body, other) VALUES ($1, 3, 'x', $2)",
                vec![other],
                "notes_tenant_id_other_key",
            ),
            ("INSERT INTO notes (tenant_id, id, body) VALUES ($1, 3, $2)", vec![Value::Null], "notes_body_not_null"),
            (
                "INSERT INTO notes (tenant_id, id, body) VALUES ($1, 3, $2)",
                vec!["x".repeat(1_000_000).into()],
                "notes_body_short",
            ),
            ("INSERT INTO days (tenant_id, id, note) VALUES ($1, 1, '')", vec![], "days_pkey"),
            ("INSERT INTO days (tenant_id, id, note) VALUES ($1, 101, '')", vec![], "days_pkey"),
            ("INSERT INTO days (tenant_id, id, note) VALUES ($1, 102, $2)", vec![Value::Null], "days_note_not_null"),
            ("INSERT INTO replies (tenant_id, note_id) VALUES ($1, 77)", vec![], Constraint::FOREIGN_KEY),
            ("DELETE FROM notes WHERE tenant_id = $1 AND id = 1", vec![], Constraint::FOREIGN_KEY),
            ("UPDATE notes SET flag = TRUE WHERE tenant_id = $1 AND id = 2", vec![], "notes_frozen"),
        ];
        for (sql, mut parameters, name) in table {
            let mut change = Change::new(tenant(1));
            match parameters.pop() {
                Some(parameter) => change.then(sql, [parameter]),
                None => change.then(sql, []),
            };
            let error = store.commit(change).await.unwrap_err();
            assert!(error.is(name), "{sql}: {error:?}");
        }
        assert_eq!(count(&store).await, 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_go_on_while_a_thousand_changes_are_written() {
    every_database(MIGRATIONS, async |database| {
        let store = Arc::new(database.open().await);
        let mut running = JoinSet::new();
        for id in 0..1000_i64 {
            let store = Arc::clone(&store);
            running.spawn(async move {
                let durability = if id % 3 == 0 { Durability::Disk } else { Durability::Process };
                store.commit(note(tenant(1), id, &format!("{id}")).durability(durability)).await.unwrap();
                let sql = "SELECT body FROM notes WHERE tenant_id = $1 AND id = $2";
                let rows = store.query(&Scope::Tenant(tenant(1)), sql, vec![id.into()]).await.unwrap();
                assert_eq!(rows[0].get::<String>(0).unwrap(), format!("{id}"), "a caller reads what it wrote");
            });
        }
        while let Some(done) = running.join_next().await {
            done.unwrap();
        }
        assert_eq!(
            one(&store, "SELECT count(*), count(DISTINCT body) FROM notes", vec![]).await.get::<i64>(1).unwrap(),
            1000
        );
    })
    .await;
}
