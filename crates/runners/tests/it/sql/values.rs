//! What values look like on their way in and out.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use toolgate_contracts::ErrorCode;

use super::scene::{Kind, Scene, every_scene, postgres_scene, sqlite_scene};

#[tokio::test]
async fn values_of_postgresql_have_a_form_in_json() {
    postgres_scene(&async |scene: &Scene| {
        let types = "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
            CREATE TYPE pair AS (a integer, b text);";
        scene.owner.as_ref().unwrap().execute(types).await.unwrap();
        for (expression, expected) in [
            ("null::text", json!(null)),
            ("true", json!(true)),
            ("32767::int2", json!(32767)),
            ("-5", json!(-5)),
            ("9007199254740991", json!(9_007_199_254_740_991_i64)),
            ("9007199254740993", json!("9007199254740993")),
            ("'-9223372036854775808'::int8", json!("-9223372036854775808")),
            ("4294967295::oid", json!(4_294_967_295_u32)),
            ("0.1::float4", json!(0.1)),
            ("0.1::float8", json!(0.1)),
            ("'NaN'::float8", json!("NaN")),
            ("'-Infinity'::float4", json!("-Infinity")),
            ("1e300::float8", json!("1e300")),
            ("12.50", json!("12.50")),
            ("0.00001234", json!("0.00001234")),
            ("-0.5", json!("-0.5")),
            ("123456789012345678901234567890.000100", json!("123456789012345678901234567890.000100")),
            ("10000::numeric", json!("10000")),
            ("1e20::numeric", json!("100000000000000000000")),
            ("0::numeric(5,2)", json!("0.00")),
            ("'NaN'::numeric", json!("NaN")),
            ("'Infinity'::numeric", json!("Infinity")),
            ("'ä\u{1f600}'::text", json!("ä\u{1f600}")),
            ("'a'::char(3)", json!("a  ")),
            ("'x'::\"char\"", json!("x")),
            ("'name'::name", json!("name")),
            ("'\\x00ff'::bytea", json!("AP8=")),
            ("'{\"a\": [1, null]}'::json", json!({"a": [1, null]})),
            ("'{\"a\": 12345678901234567890}'::jsonb", json!("{\"a\": 12345678901234567890}")),
            ("'0190163d-8694-739b-aea5-966c26f8ad91'::uuid", json!("0190163d-8694-739b-aea5-966c26f8ad91")),
            ("'2026-11-15'::date", json!("2026-11-15")),
            ("'1999-12-31'::date", json!("1999-12-31")),
            ("'infinity'::date", json!("infinity")),
            ("'04:05:06.7'::time", json!("04:05:06.7")),
            ("'04:05:06-08:30'::timetz", json!("04:05:06-08:30")),
            ("'2026-11-15 12:00:00.25'::timestamp", json!("2026-11-15T12:00:00.25")),
            ("'2026-11-15 12:00:00+02'::timestamptz", json!("2026-11-15T10:00:00Z")),
            ("'1969-12-31 23:59:59.999999+00'::timestamptz", json!("1969-12-31T23:59:59.999999Z")),
            ("'-infinity'::timestamptz", json!("-infinity")),
            ("'1 year 2 months 3 days 04:05:06.5'::interval", json!("P1Y2M3DT4H5M6.5S")),
            ("'-00:00:00.5'::interval", json!("PT-0.5S")),
            ("'0'::interval", json!("PT0S")),
            ("'10.0.0.1'::inet", json!("10.0.0.1")),
            ("'10.0.0.0/8'::cidr", json!("10.0.0.0/8")),
            ("'::1/64'::inet", json!("::1/64")),
            ("'08:00:2b:01:02:03'::macaddr", json!("08:00:2b:01:02:03")),
            ("B'10110'", json!("10110")),
            ("array[1, null, 3]", json!([1, null, 3])),
            ("array[['a', 'b'], ['c', 'd']]", json!([["a", "b"], ["c", "d"]])),
            ("'{}'::text[]", json!([])),
            ("'glad'::mood", json!("glad")),
            ("array['glad']::mood[]", json!(["glad"])),
            ("5::positive", json!(5)),
            ("row(1, 'x')::pair", json!({"a": 1, "b": "x"})),
            ("int4range(1, 5)", json!("[1,5)")),
            ("'empty'::int4range", json!("empty")),
            ("daterange('2026-01-01', null)", json!("[2026-01-01,)")),
            ("pg_sleep(0)", json!(null)),
        ] {
            let rows = scene.rows(&format!("select {expression} as v"), &[]).await;
            assert_eq!(rows, json!([{"v": expected}]), "{expression}");
        }
        for expression in ["'a'::tsvector", "'(1,2)'::point", "row(1, 2)", "'5'::money", "'orders'::regclass"] {
            let error = scene.refused("ledger", &format!("select {expression} as v"), &[]).await;
            assert!(error.message.contains("select `v::text`"), "{expression}: {}", error.message);
        }
        let error = scene.refused("ledger", "select '5874897-12-31'::date as v", &[]).await;
        assert!(error.message.contains("too far away"), "{}", error.message);
    })
    .await;
}

#[tokio::test]
async fn parameters_become_what_the_statement_takes() {
    postgres_scene(&async |scene: &Scene| {
        for (value, of, expected) in [
            (json!(5), "int2", json!(5)),
            (json!("9223372036854775807"), "int8", json!("9223372036854775807")),
            (json!(1.5), "numeric", json!("1.5")),
            (json!("0.1"), "numeric", json!("0.1")),
            (json!(1e-7), "float8", json!(1e-7)),
            (json!(true), "bool", json!(true)),
            (json!(true), "text", json!("true")),
            (json!("2026-11-15T12:00:00Z"), "timestamptz", json!("2026-11-15T12:00:00Z")),
            (json!("P1DT2H"), "interval", json!("P1DT2H")),
            (json!("0190163d-8694-739b-aea5-966c26f8ad91"), "uuid", json!("0190163d-8694-739b-aea5-966c26f8ad91")),
            (json!("AP8="), "bytea", json!("AP8=")),
            (json!(["a,\"", null, "{}\\"]), "text[]", json!(["a,\"", null, "{}\\"])),
            (json!([[1, 2], [3, 4]]), "int[]", json!([[1, 2], [3, 4]])),
            (json!([{"a": 1}]), "jsonb[]", json!([{"a": 1}])),
            (json!({"a": "x"}), "json", json!({"a": "x"})),
            (json!(null), "date", json!(null)),
        ] {
            let rows = scene.rows(&format!("select $1::{of} as v"), std::slice::from_ref(&value)).await;
            assert_eq!(rows, json!([{"v": expected}]), "{value} as {of}");
        }
        for (value, of, says) in [
            (json!("x"), "int4", "invalid input syntax for type integer"),
            (json!(70_000), "int2", "out of range"),
            (json!([1]), "int4", "`/p1`: a list, and the statement takes `int4`"),
            (json!({}), "text", "`/p1`: an object"),
            (json!("?"), "bytea", "`/p1`: a text that is not base64"),
            (json!("a\0b"), "text", "`/p1`: a text with a NUL character"),
            (json!("a\0b"), "jsonb", "unsupported Unicode escape"),
        ] {
            let error = scene.refused("ledger", &format!("select $1::{of} as v"), std::slice::from_ref(&value)).await;
            assert_eq!((error.code, error.reason()), (ErrorCode::ValidationError, "schema"), "{value}: {error:?}");
            assert!(error.message.contains(says), "{value}: {}", error.message);
        }
    })
    .await;
}

#[tokio::test]
async fn values_of_sqlite_have_a_form_in_json() {
    sqlite_scene(&async |scene: &Scene| {
        for (expression, expected) in [
            ("null", json!(null)),
            ("9007199254740993", json!("9007199254740993")),
            ("1.0", json!(1)),
            ("0.5", json!(0.5)),
            ("1e300", json!("1e300")),
            ("9e999", json!("Infinity")),
            ("'a' || char(0) || 'b'", json!("a\0b")),
            ("x'00ff'", json!("AP8=")),
            ("cast(x'61ff62' as text)", json!("a\u{fffd}b")),
            ("true", json!(1)),
        ] {
            let rows = scene.rows(&format!("select {expression} as v"), &[]).await;
            assert_eq!(rows, json!([{"v": expected}]), "{expression}");
        }
        assert_eq!(scene.rows("select ? as a, ? as b", &[json!(1), json!("x")]).await, json!([{"a": 1, "b": "x"}]));
        assert_eq!(scene.rows("select ?2 as a, ?1 as b", &[json!(1), json!("x")]).await, json!([{"a": "x", "b": 1}]));
        assert_eq!(scene.rows("select $2 as a, $1 as b", &[json!(1), json!("x")]).await, json!([{"a": "x", "b": 1}]));
        let error = scene.refused("ledger", "select $1::text", &[json!(1)]).await;
        assert!(error.message.contains("`$1::text` has no number"), "{}", error.message);
    })
    .await;
}

#[tokio::test]
async fn text_that_is_not_utf_8_is_told() {
    postgres_scene(&async |scene: &Scene| {
        let error = scene.refused("ledger", "select convert_from('\\x61ff'::bytea, 'UTF8')", &[]).await;
        assert_eq!((error.code, error.reason()), (ErrorCode::ValidationError, "schema"), "{error:?}");
    })
    .await;
}

/// Any JSON that a call may carry and PostgreSQL can hold, which is without NUL.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Value::from),
        any::<f64>()
            .prop_filter("a number with a fraction", |number| number.fract() != 0.0 && number.is_finite())
            .prop_map(Value::from),
        "[^\0]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[^\0]{0,8}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

#[tokio::test]
async fn any_json_parameter_comes_back_as_it_went() {
    every_scene(async |scene| {
        let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
        for _ in 0..200 {
            let value = any_json().new_tree(&mut runner).unwrap().current();
            let statement = if scene.kind == Kind::Postgres { "select $1::jsonb as v" } else { "select $1 as v" };
            let found = scene.rows(statement, std::slice::from_ref(&value)).await[0]["v"].take();
            let expected = match (&value, scene.kind) {
                // SQLite has neither booleans nor documents.
                (Value::Bool(value), Kind::Sqlite) => json!(u8::from(*value)),
                (Value::Array(_) | Value::Object(_), Kind::Sqlite) => json!(value.to_string()),
                _ => value.clone(),
            };
            assert_eq!(found, expected, "{value}");
        }
    })
    .await;
}
