//! What a statement may not do, whatever it says.

use serde_json::json;
use toolgate_contracts::ErrorCode;
use toolgate_engine::{Runner as _, testing};
use toolgate_runners::{Databases, Statements};
use toolgate_store::testing::{Database, postgres_url};

use super::scene::{Kind, PASSWORD, Role, Scene, entries, every_scene, postgres_scene, sqlite_scene};
use crate::world::failed;

#[tokio::test]
async fn sql_in_parameters_is_a_value() {
    every_scene(async |scene| {
        for text in ["'; drop table orders; --", "x' or '1' = '1", "$1", "\\'; delete from orders; --", "𝒳\u{202e}"]
        {
            assert_eq!(scene.rows("select id from orders where customer = $1", &[json!(text)]).await, json!([]));
            assert_eq!(scene.rows("select $1 as v", &[json!(text)]).await, json!([{"v": text}]));
        }
        scene.is_unharmed().await;
    })
    .await;
}

#[tokio::test]
async fn stacked_statements_are_refused_behind_comments_and_dollar_quotes_too() {
    every_scene(async |scene| {
        for statement in [
            "select 1; delete from orders",
            "select 1 -- \n; delete from orders",
            "select 1 /* ' */; delete from orders -- '",
            "select ';'; delete from orders",
            "select $$a$$; delete from orders -- $$",
            "select E'\\''; delete from orders --'",
            "delete from orders; select 1",
        ] {
            scene.refused("orders", statement, &[]).await;
        }
        scene.is_unharmed().await;
    })
    .await;
}

#[tokio::test]
async fn copy_to_program_attach_and_the_like_are_refused_before_they_are_sent() {
    every_scene(async |scene| {
        for statement in [
            "copy orders to program 'id'",
            "COPY orders FROM '/etc/passwd'",
            "do 'begin end'",
            "set default_transaction_read_only = off",
            "reset all",
            "listen a",
            "load 'x'",
            "begin",
            "commit",
            "attach database '/tmp/other.db' as other",
            "detach database main",
            "pragma writable_schema = on",
            "vacuum into '/tmp/copy.db'",
            "select load_extension('x')",
            "select pg_read_file('/etc/passwd')",
            "select set_config('default_transaction_read_only', 'off', false)",
        ] {
            let error = scene.refused("orders", statement, &[]).await;
            assert_eq!((error.code, error.reason()), (ErrorCode::PolicyDenied, "permission"), "{statement}");
            assert!(error.message.starts_with("the tool's statement: "), "{}", error.message);
        }
        scene.is_unharmed().await;
    })
    .await;
}

#[tokio::test]
async fn the_authorizer_sees_what_the_words_of_a_statement_hide() {
    sqlite_scene(&async |scene: &Scene| {
        let file = scene.url.strip_prefix("sqlite://").unwrap();
        let hidden = "create view hidden as select * from pragma_database_list;
            create view loads as select load_extension('x') as a;";
        rusqlite::Connection::open(file).unwrap().execute_batch(hidden).unwrap();
        for (statement, says) in [
            ("select * from pragma_table_info('orders')", "PRAGMA table_info"),
            ("create virtual table f using fts5(a)", "a virtual table"),
            ("create temp table t (a)", "a temporary table"),
            ("select \"fts3_tokenizer\"  /* */ ('x')", "fts3_tokenizer"),
        ] {
            let error = scene.refused("orders", statement, &[]).await;
            assert!(error.message.contains(says), "{statement}: {}", error.message);
            assert_eq!((error.code, error.reason()), (ErrorCode::PolicyDenied, "permission"), "{statement}");
        }
        for (statement, says) in [
            ("select * from hidden", "unsafe use of virtual table"),
            ("select * from loads", "load_extension"),
            ("update sqlite_schema set sql = ''", "may not be modified"),
        ] {
            let error = scene.refused("orders", statement, &[]).await;
            assert!(error.message.contains(says), "{statement}: {}", error.message);
        }
        scene.is_unharmed().await;
    })
    .await;
}

#[tokio::test]
async fn nothing_is_written_while_reading() {
    every_scene(async |scene| {
        let statements: &[&str] = match scene.kind {
            Kind::Sqlite => &["with a as (select 1) delete from orders", "explain delete from orders"],
            Kind::Postgres => &[
                "with gone as (delete from orders returning id) select * from gone",
                "select id from orders for update",
                "select bump()",
                "select * into copied from orders",
                "explain analyze delete from orders",
                "select nextval('numbers')",
            ],
        };
        if let Some(owner) = &scene.owner {
            let grant = format!("CREATE SEQUENCE numbers; GRANT ALL ON SEQUENCE numbers TO {}", scene.role());
            owner.execute(&grant).await.unwrap();
        }
        for statement in statements {
            let error = scene.refused("ledger", statement, &[]).await;
            assert_eq!((error.code, error.reason()), (ErrorCode::PolicyDenied, "permission"), "{statement}: {error:?}");
        }
        scene.is_unharmed().await;
    })
    .await;
}

#[tokio::test]
async fn a_statement_leaves_nothing_in_a_connection() {
    postgres_scene(&async |scene: &Scene| {
        for _ in 0..2 {
            scene.output("orders", "select litter()", &[]).await;
            let asked = "select current_setting('search_path') as path, current_setting('transaction_read_only') as reading,
                (select count(*) from pg_locks where locktype = 'advisory') as locks, to_regclass('left_behind')::text as left";
            let found = scene.rows(asked, &[]).await;
            assert_eq!(found, json!([{"path": "\"$user\", public", "reading": "on", "locks": 0, "left": null}]));
        }
    })
    .await;
}

#[tokio::test]
async fn a_role_that_could_leave_the_database_is_refused() {
    let Some(server) = postgres_url() else { return };
    let Some(owner) = Database::postgres(&[]).await else { return };
    for (what, says) in [
        ("SUPERUSER", "is a superuser"),
        ("CREATEROLE", "able to give itself roles"),
        ("IN ROLE pg_read_server_files", "is in pg_read_server_files"),
        ("NOINHERIT IN ROLE pg_write_server_files", "is in pg_write_server_files"),
        ("IN ROLE pg_execute_server_program", "is in pg_execute_server_program"),
    ] {
        let role = Role::create(&server, what).await;
        postgres_scene(&async |scene: &Scene| {
            let statements = Statements::new(Databases::new(&entries(&role.url(&owner.url))));
            let call = scene.call("orders", "select 1", &[]);
            let error = failed(statements.run(testing::permit(call)).await);
            assert_eq!((error.code, error.reason()), (ErrorCode::SandboxError, "tier_unavailable"), "{error:?}");
            assert!(error.message.contains(says), "{what}: {}", error.message);
            assert!(!error.message.contains(PASSWORD));
        })
        .await;
    }
}

#[tokio::test]
async fn this_server_s_own_database_is_nobody_s_to_read() {
    sqlite_scene(&async |scene: &Scene| {
        let own = std::path::PathBuf::from(scene.url.strip_prefix("sqlite://").unwrap());
        let (linked, followed) = (own.with_file_name("linked.db"), own.with_file_name("followed.db"));
        std::fs::hard_link(&own, &linked).unwrap();
        std::os::unix::fs::symlink(&own, &followed).unwrap();
        for path in [&own, &linked, &followed] {
            let entries = entries(&format!("sqlite://{}", path.display()));
            let ran = async |own: Option<&std::path::Path>| {
                let statements = Statements::new(Databases::beside(&entries, own));
                let needs = statements.needs().await;
                let call = scene.call("ledger", "select count(*) as n from orders", &[]);
                (statements.run(testing::permit(call)).await, needs)
            };
            let (outcome, needs) = ran(Some(&own)).await;
            let error = failed(outcome);
            assert_eq!((error.code, error.reason()), (ErrorCode::SandboxError, "tier_unavailable"), "{error:?}");
            assert!(error.message.contains("this server's own database"), "{}", error.message);
            assert!(needs.iter().all(|need| !need.is_met), "doctor says so");
            crate::world::done(ran(Some(&own.with_file_name("other.db"))).await.0);
        }
    })
    .await;
}

#[tokio::test]
async fn rights_of_the_role_hold() {
    postgres_scene(&async |scene: &Scene| {
        scene.owner.as_ref().unwrap().execute("CREATE TABLE secrets (a integer)").await.unwrap();
        for statement in ["select * from secrets", "drop table orders", "create table public.more (a integer)"] {
            let error = scene.refused("orders", statement, &[]).await;
            assert_eq!((error.code, error.reason()), (ErrorCode::PolicyDenied, "permission"), "{statement}: {error:?}");
        }
    })
    .await;
}
