//! `database_read` and `run_sql_write` in a file of the operator's. What statements may do at all is tried with the kind
//! `sql`, which runs them.

use serde_json::{Value, json};
use toolgate_contracts::ErrorCode::{self, PolicyDenied, SandboxError, ValidationError};
use toolgate_contracts::definition::{HitlMode, Risk, Sink};
use toolgate_contracts::{Entries, ToolError};
use toolgate_engine::{Outcome, Runner as _, testing};
use toolgate_runners::Databases;
use toolgate_toolbox::{Builtin, Tools};

use crate::world::{World, error, every_world, output};

const ORDERS: &str = "
    CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, total REAL, paid BOOLEAN);
    INSERT INTO orders VALUES (1, 'Grace', 40, 0), (2, 'Joan', 7, 1), (3, 'Ada', 12.5, 0);";

struct Tried<'a> {
    world: &'a World,
    runner: Builtin,
    _folder: tempfile::TempDir,
}

impl<'a> Tried<'a> {
    fn new(world: &'a World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("orders.db");
        rusqlite::Connection::open(&file).unwrap().execute_batch(ORDERS).unwrap();
        let url = format!("sqlite://{}", file.display());
        let entries = json!({"databases": {
            "orders": {"url": url, "writable": true, "tenants": ["acme"]},
            "ledger": {"url": url, "tenants": ["acme"]},
            "payroll": {"url": url, "tenants": ["globex"]},
        }});
        let entries: Entries = serde_json::from_value(entries).unwrap();
        let runner = Builtin::new(Tools { databases: Databases::new(&entries), ..world.tools.clone() });
        Self { world, runner, _folder: folder }
    }

    async fn run(&self, tool: &str, input: Value) -> Outcome {
        self.runner.run(testing::permit(self.world.call(tool, input))).await
    }

    async fn refused(&self, tool: &str, input: Value) -> (ErrorCode, String, ToolError) {
        let error = error(self.run(tool, input).await);
        (error.code, error.reason().to_owned(), error)
    }
}

#[tokio::test]
async fn the_examples_of_the_definitions_are_true() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        for tool in ["database_read", "run_sql_write"] {
            for example in &world.tool(tool).definition.examples {
                let found = output(tried.run(tool, example.input.clone()).await);
                assert_eq!(Some(found), example.output, "{tool} {}", example.input);
            }
        }
        let paid = json!({"database": "ledger", "sql": "select count(*) as n from orders where paid"});
        assert_eq!(output(tried.run("database_read", paid).await)["rows"], json!([{"n": 2}]));
    })
    .await;
}

#[tokio::test]
async fn reading_never_writes_and_writing_needs_a_writable_entry() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        for sql in [
            "delete from orders",
            "with a as (select 1) delete from orders",
            "insert into orders (customer) values ('x') returning id",
            "drop table orders",
            "select 1; delete from orders",
            "attach 'other.db' as other",
            "pragma query_only = off",
        ] {
            for database in ["orders", "ledger"] {
                let (code, _, error) = tried.refused("database_read", json!({"database": database, "sql": sql})).await;
                assert!([PolicyDenied, ValidationError].contains(&code), "{sql}: {error:?}");
            }
        }
        let (code, reason, _) =
            tried.refused("run_sql_write", json!({"database": "ledger", "sql": "delete from orders"})).await;
        assert_eq!((code, reason.as_str()), (PolicyDenied, "permission"));
        let all = json!({"database": "ledger", "sql": "select count(*) as n from orders"});
        assert_eq!(output(tried.run("database_read", all).await)["rows"], json!([{"n": 3}]));
    })
    .await;
}

#[tokio::test]
async fn what_a_caller_got_wrong_names_its_place() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        for (input, pointer, says) in [
            (json!({"database": "payroll", "sql": "select 1"}), "/database", "there is `ledger`, `orders`"),
            (json!({"database": "orders", "sql": "select nonsense from orders"}), "/sql", "no such column: nonsense"),
            (json!({"database": "orders", "sql": "selec 1"}), "/sql", "begins with `selec`"),
            (json!({"database": "orders", "sql": "update orders set paid = 1"}), "/sql", "this only reads"),
            (json!({"database": "orders", "sql": "select $2", "parameters": [1]}), "/sql", "takes 2 parameters and 1"),
            (json!({"database": "orders", "sql": "select :id", "parameters": [1]}), "/sql", "`:id` has no number"),
        ] {
            let (code, reason, error) = tried.refused("database_read", input.clone()).await;
            assert_eq!((code, reason.as_str()), (ValidationError, "schema"), "{input}: {error:?}");
            assert!(error.message.contains(says), "{input}: {}", error.message);
            assert_eq!(error.details.unwrap()["pointer"], pointer, "{input}");
        }
        // Where there is no database at all, the operator is to be asked.
        let call = world.call("database_read", json!({"database": "orders", "sql": "select 1"}));
        let error = error(world.run(call).await);
        assert_eq!((error.code, error.reason()), (SandboxError, "tier_unavailable"));
        assert!(error.message.contains("`entries.yaml`"), "{}", error.message);
    })
    .await;
}

#[tokio::test]
async fn rows_are_as_many_as_were_asked_for() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let input = json!({"database": "orders", "sql": "select id from orders order by id", "rows_max": 2});
        let expected = json!({"rows": [{"id": 1}, {"id": 2}], "row_count": 2, "truncated": true});
        assert_eq!(output(tried.run("database_read", input).await), expected);
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_shows_the_plan_of_the_database() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let input = json!({"database": "orders", "sql": "delete from orders where id = $1", "parameters": [1]});
        let plan = tried.runner.plan(&world.call("run_sql_write", input)).await.unwrap();
        assert_eq!(
            (&plan["would_run"], &plan["writes"], &plan["parameters"]),
            (&json!(true), &json!(true), &json!([1]))
        );
        assert!(plan["plan"][0].as_str().unwrap().contains("orders"), "{plan}");
        let all = json!({"database": "ledger", "sql": "select count(*) as n from orders"});
        assert_eq!(output(tried.run("database_read", all).await)["rows"], json!([{"n": 3}]));
    })
    .await;
}

#[tokio::test]
async fn risks_are_the_documented_ones() {
    every_world(async |world| {
        let (read, write) = (world.tool("database_read").definition, world.tool("run_sql_write").definition);
        assert_eq!((read.effective_risk(), read.effective_sink()), (Risk::Sensitive, Sink::Open));
        assert_eq!((write.effective_risk(), write.effective_sink()), (Risk::Critical, Sink::Open));
        assert_eq!(write.hitl_mode(), HitlMode::Blocking);
    })
    .await;
}
