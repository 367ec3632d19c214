//! Values go in and come back, in both databases alike.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use toolgate_contracts::{Digest, Timestamp};
use toolgate_store::testing::every_database;
use toolgate_store::{Change, Error, Scope, Value};
use uuid::Uuid;

use crate::schema::{MIGRATIONS, count, one, tenant, write};

const WRITE: &str =
    "INSERT INTO notes (tenant_id, id, body, flag, amount, raw, other) VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (tenant_id, id) DO UPDATE SET body = excluded.body, flag = excluded.flag, amount = excluded.amount,
    raw = excluded.raw, other = excluded.other";
const READ: &str = "SELECT id, body, flag, amount, raw, other FROM notes WHERE tenant_id = $1 AND id = $2";

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_value_comes_back() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        let texts = "[^\0]{0,40}";
        let bytes = proptest::collection::vec(any::<u8>(), 0..40);
        let real =
            proptest::option::of(proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO);
        let strategy = (
            any::<i64>(),
            texts,
            proptest::option::of(any::<bool>()),
            real,
            proptest::option::of(bytes),
            proptest::option::of(any::<u128>()),
        );
        let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(100) });
        for _ in 0..100 {
            let (id, text, flag, real, bytes, uuid) = strategy.new_tree(&mut runner).unwrap().current();
            let uuid = uuid.map(Uuid::from_u128);
            let mut change = Change::new(tenant(1));
            let real_value = real.map_or(Value::Null, Value::Real);
            let text = format!("{id}:{text}").to_lowercase();
            change.then(
                WRITE,
                [
                    id.into(),
                    (&text).into(),
                    flag.map_or(Value::Null, Value::Bool),
                    real_value,
                    bytes.clone().into(),
                    uuid.into(),
                ],
            );
            store.commit(change).await.unwrap();
            let rows = store.query(&Scope::Tenant(tenant(1)), READ, vec![id.into()]).await.unwrap();
            let row = &rows[0];
            assert_eq!(row.get::<i64>(0).unwrap(), id);
            assert_eq!(row.get::<String>(1).unwrap(), text);
            assert_eq!(row.get::<Option<bool>>(2).unwrap(), flag);
            assert_eq!(row.get::<Option<f64>>(3).unwrap(), real);
            assert_eq!(row.get::<Option<Vec<u8>>>(4).unwrap(), bytes);
            assert_eq!(row.get::<Option<Uuid>>(5).unwrap(), uuid);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_from_aggregates_are_numbers() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        for id in 1..=3 {
            write(&store, tenant(1), id, &format!("note {id}")).await.unwrap();
        }
        let row = one(
            &store,
            "SELECT count(*), sum(id), max(id), avg(id), sum(amount), 1 = 1, '$1', coalesce(NULL, 'x') FROM notes",
            vec![],
        )
        .await;
        assert_eq!(row.get::<i64>(0).unwrap(), 3);
        assert_eq!(row.get::<i64>(1).unwrap(), 6);
        assert_eq!(row.get::<u32>(2).unwrap(), 3);
        assert!((row.get::<f64>(3).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(row.get::<Option<f64>>(4).unwrap(), None);
        assert!(row.get::<bool>(5).unwrap());
        assert_eq!(row.get::<String>(6).unwrap(), "$1");
        assert!(matches!(row.get::<i64>(7), Err(Error::Corrupt(_))));
        assert!(matches!(row.get::<i64>(99), Err(Error::Corrupt(_))));
        let row =
            one(&store, "SELECT body, id FROM notes WHERE id = $1 AND body = $2", vec![2_i64.into(), "note 2".into()])
                .await;
        assert_eq!(row.get::<Timestamp>(1).unwrap(), Timestamp::from_millis(2));
        assert!(row.get::<Digest>(0).is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_database_cannot_hold_neither_takes() {
    every_database(MIGRATIONS, async |database| {
        let store = database.open().await;
        let error = write(&store, tenant(1), 1, "a\0b").await.unwrap_err();
        assert!(matches!(&error, Error::Unmet(fault) if fault.told().contains("U+0000")), "{error:?}");
        let mut change = Change::new(tenant(1));
        change.then(WRITE, [Value::Int(1), "x".into(), Value::Null, Value::Real(f64::NAN), Value::Null, Value::Null]);
        assert!(matches!(store.commit(change).await, Err(Error::Corrupt(_))));
        // A value of another kind than its column, and a wrong number of values.
        let mut change = Change::new(tenant(1));
        change.then(WRITE, ["one".into(), "x".into(), Value::Null, Value::Null, Value::Null, Value::Null]);
        assert!(matches!(store.commit(change).await, Err(Error::Corrupt(_))));
        let mut change = Change::new(tenant(1));
        change.then(WRITE, ["one".into()]);
        assert!(matches!(store.commit(change).await, Err(Error::Corrupt(_))));
        assert_eq!(count(&store).await, 0);
    })
    .await;
}
