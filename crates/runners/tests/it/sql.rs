//! The kind `sql` in both databases: what statements give, what they may not do, and how they are stopped.

mod bounds;
mod confined;
mod ends;
mod scene;
mod values;

use serde_json::json;
use toolgate_contracts::ErrorCode;
use toolgate_contracts::definition::EgressClass;
use toolgate_engine::{Runner as _, testing};
use toolgate_runners::{Databases, Statements};

use self::scene::{Kind, PASSWORD, every_scene};
use crate::world::{done, failed};

#[tokio::test]
async fn a_statement_gets_its_parameters_and_gives_rows() {
    every_scene(async |scene| {
        let statement = "select id, customer, total from orders where total > $2 and customer <> $1 order by id";
        let output = scene.output("ledger", statement, &[json!("Joan"), json!(10)]).await;
        let rows = json!([{"id": 1, "customer": "Grace", "total": 40}, {"id": 3, "customer": "Ada", "total": 12.5}]);
        assert_eq!(output, json!({"rows": rows, "row_count": 2, "truncated": false}));
        assert_eq!(
            scene.rows("select $1 as a, $1 as b, 1 as a", &[json!("x")]).await,
            json!([{"a": "x", "b": "x", "a_2": 1}])
        );
        assert_eq!(scene.rows("select id from orders where id > 9", &[]).await, json!([]));
    })
    .await;
}

#[tokio::test]
async fn a_change_tells_how_many_rows_it_concerned_and_what_it_returned() {
    every_scene(async |scene| {
        let output = scene.output("orders", "update orders set total = total + $1 where id < 3", &[json!(1)]).await;
        assert_eq!(output, json!({"rows": [], "row_count": 2, "truncated": false}));
        let insert = "insert into orders (id, customer, total) values ($1, $2, 5) returning id, customer";
        let output = scene.output("orders", insert, &[json!(4), json!("Mary")]).await;
        assert_eq!(output, json!({"rows": [{"id": 4, "customer": "Mary"}], "row_count": 1, "truncated": false}));
        assert_eq!(scene.rows("select sum(total) as total from orders", &[]).await, json!([{"total": 66.5}]));
        // More than an entry gives back is changed all the same, and counted.
        let many = match scene.kind {
            Kind::Sqlite => "with recursive n(i) as (select 10 union all select i + 1 from n where i < 1500) insert into orders select i, 'x', 1, false from n returning id",
            Kind::Postgres => "insert into orders select i, 'x', 1, false from generate_series(10, 1500) i returning id",
        };
        let output = scene.output("orders", many, &[]).await;
        assert_eq!((&output["row_count"], &output["truncated"]), (&json!(1491), &json!(true)));
        assert_eq!(output["rows"].as_array().unwrap().len(), 1000);
        assert_eq!(scene.rows("select count(*) as n from orders", &[]).await, json!([{"n": 1495}]));
    })
    .await;
}

#[tokio::test]
async fn a_tool_of_a_milder_class_only_reads_whatever_its_statement_says() {
    every_scene(async |scene| {
        let statement = "delete from orders";
        let mild =
            |definition: &mut toolgate_contracts::Definition| definition.egress_class = Some(EgressClass::ReadOnly);
        let call = scene.call_of("orders", statement, &[], mild);
        let error = failed(scene.statements.run(testing::permit(call)).await);
        assert_eq!((error.code, error.reason()), (ErrorCode::PolicyDenied, "permission"), "{}", error.message);
        scene.is_unharmed().await;
    })
    .await;
}

#[tokio::test]
async fn an_entry_is_for_its_tenants_and_for_reading_unless_it_says_otherwise() {
    every_scene(async |scene| {
        for name in ["foreign", "nonsense"] {
            let error = scene.refused(name, "select 1", &[]).await;
            assert_eq!((error.code, error.reason()), (ErrorCode::SandboxError, "tier_unavailable"));
            assert!(
                error.message.contains(&format!("`{name}` is not among those of this tenant")),
                "{}",
                error.message
            );
        }
        let error = scene.refused("ledger", "delete from orders", &[]).await;
        assert_eq!((error.code, error.reason()), (ErrorCode::PolicyDenied, "permission"));
        assert!(error.message.contains("`writable`"), "{}", error.message);
        scene.is_unharmed().await;
    })
    .await;
}

#[tokio::test]
async fn a_plan_shows_what_would_run_and_runs_nothing() {
    every_scene(async |scene| {
        for (database, statement, writes) in [
            ("ledger", "select * from orders where customer = $1", false),
            ("orders", "update orders set total = 0 where customer = $1", true),
            ("orders", "with gone as (select 1) delete from orders where customer = $1", true),
        ] {
            let plan = scene.statements.plan(&scene.call(database, statement, &[json!("Ada")])).await.unwrap();
            assert_eq!((&plan["would_run"], &plan["writes"]), (&json!(true), &json!(writes)), "{plan}");
            assert_eq!((&plan["statement"], &plan["parameters"]), (&json!(statement), &json!(["Ada"])));
            assert!(
                plan["plan"]
                    .as_array()
                    .is_some_and(|lines| lines.iter().any(|line| line.to_string().contains("orders"))),
                "{plan}"
            );
        }
        let plan = scene.statements.plan(&scene.call("orders", "create table more (a integer)", &[])).await.unwrap();
        assert_eq!((&plan["would_run"], plan.get("plan")), (&json!(true), None));
        let error = scene.statements.plan(&scene.call("orders", "select * from nowhere", &[])).await.unwrap_err();
        assert!(error.message.contains("nowhere"), "{}", error.message);
        scene.is_unharmed().await;
    })
    .await;
}

#[tokio::test]
async fn preflight_and_doctor_say_whether_a_database_answers() {
    every_scene(async |scene| {
        let ready = async |name: &str| {
            let call = scene.call(name, "select 1", &[]);
            scene.statements.ready(&call.tool.definition).await
        };
        ready("ledger").await.unwrap();
        assert!(ready("nonsense").await.unwrap_err().message.contains("no database `nonsense`"));
        let needs = scene.statements.needs().await;
        let orders = needs.iter().find(|need| need.found.starts_with("`orders`")).unwrap();
        assert!(orders.is_met && orders.found == "`orders`: answers", "{}", orders.found);
    })
    .await;
}

#[tokio::test]
async fn a_wrong_entry_is_told_without_its_password() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, says) in [
        (format!("postgres://u:{PASSWORD}@{closed}/d"), "cannot be reached: connection refused"),
        (format!("postgres://u:{PASSWORD}@h:port/d"), "cannot be read"),
        (format!("mysql://u:{PASSWORD}@h/d"), "`mysql://`"),
        ("sqlite:///nowhere/at/all.db".to_owned(), "its file is not there"),
        ("sqlite:///dev/zero".to_owned(), "is no file"),
        ("sqlite://file:orders.db".to_owned(), "must be whole"),
    ] {
        let statements = Statements::new(Databases::new(&scene::entries(&url)));
        let needs = statements.needs().await;
        assert!(!needs[0].is_met && needs[0].found.contains(says), "{url}: {}", needs[0].found);
        assert!(!needs[0].found.contains(PASSWORD));
    }
}

#[tokio::test]
async fn a_password_comes_from_a_file_at_every_connection() {
    scene::postgres_scene(&async |scene: &scene::Scene| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let mut entries = scene::entries(&scene.url.replace(&format!(":{PASSWORD}"), ""));
        entries.databases.get_mut("ledger").unwrap().password_file = Some(file.clone());
        let statements = Statements::new(Databases::new(&entries));
        let run = async || statements.run(testing::permit(scene.call("ledger", "select 1 as one", &[]))).await;
        let error = failed(run().await);
        assert!(error.message.contains("`password_file` cannot be read"), "{}", error.message);
        std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
        assert_eq!(done(run().await).result.structured.unwrap()["rows"], json!([{"one": 1}]));
    })
    .await;
}
