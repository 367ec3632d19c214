//! How statements end that do not end well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolgate_contracts::ErrorCode;
use toolgate_engine::{Outcome, Runner as _, testing};
use toolgate_runners::{Databases, Statements};

use super::scene::{Kind, Scene, entries, every_scene, postgres_scene};
use crate::world::{done, failed};

#[tokio::test]
async fn an_error_of_the_database_is_told_in_the_taxonomy() {
    every_scene(async |scene| {
        let postgres = scene.kind == Kind::Postgres;
        let (provider, validation) = (ErrorCode::ProviderError, ErrorCode::ValidationError);
        for (statement, code, reason) in [
            ("insert into orders (id, customer) values (1, 'x')", provider, "upstream_4xx"),
            ("insert into orders (id, customer, total) values (9, 'x', -1)", provider, "upstream_4xx"),
            ("insert into orders (id) values (9)", provider, "upstream_4xx"),
            ("select nonsense from orders", provider, "upstream_4xx"),
            ("selec", ErrorCode::PolicyDenied, "permission"),
            ("select from where", provider, "upstream_4xx"),
        ] {
            let error = scene.refused("orders", statement, &[]).await;
            assert_eq!((error.code, error.reason()), (code, reason), "{statement}: {error:?}");
            assert!(!error.message.contains("Key ("), "values of other rows: {}", error.message);
        }
        if postgres {
            let error = scene.refused("orders", "select 1 / $1::int", &[json!(0)]).await;
            assert_eq!((error.code, error.reason()), (validation, "schema"), "{error:?}");
            let error = scene.refused("orders", "insert into orders (id, customer) values (1, 'x')", &[]).await;
            let details = error.details.unwrap();
            assert_eq!((&details["sqlstate"], &details["constraint"]), (&json!("23505"), &json!("orders_pkey")));
        }
        scene.is_unharmed().await;
    })
    .await;
}

#[tokio::test]
async fn a_file_that_another_program_holds_is_told() {
    super::scene::sqlite_scene(&async |scene: &Scene| {
        let other = rusqlite::Connection::open(scene.url.strip_prefix("sqlite://").unwrap()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE; DELETE FROM orders").unwrap();
        scene.is_unharmed().await;
        let error = scene.refused("orders", "delete from orders", &[]).await;
        assert_eq!((error.code, error.reason()), (ErrorCode::ProviderError, "upstream_5xx"), "{error:?}");
        assert!(error.message.contains("another program holds"), "{}", error.message);
        drop(other);
        scene.is_unharmed().await;
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced() {
    postgres_scene(&async |scene: &Scene| {
        scene.is_unharmed().await;
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{}'", scene.role());
        scene.owner.as_ref().unwrap().execute(&end).await.unwrap();
        scene.is_unharmed().await;
    })
    .await;
}

/// A way to the server that is cut when a text goes by.
async fn cut_at(server: &str, text: &'static str) -> (std::net::SocketAddr, Arc<AtomicBool>) {
    let url = url::Url::parse(server).unwrap();
    let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(5432));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let is_armed = Arc::new(AtomicBool::new(true));
    let armed = Arc::clone(&is_armed);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&server).await.unwrap();
            let armed = Arc::clone(&armed);
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let back = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
                    let seen = String::from_utf8_lossy(&buffer[..read]).contains(text);
                    if seen && armed.load(Ordering::SeqCst) {
                        back.abort();
                        return;
                    }
                    to_server.write_all(&buffer[..read]).await.unwrap();
                }
                back.abort();
            });
        }
    });
    (address, is_armed)
}

#[tokio::test]
async fn only_a_commit_without_an_answer_is_unknown() {
    postgres_scene(&async |scene: &Scene| {
        for (text, statement, is_unknown) in [
            ("COMMIT", "update orders set total = 1", true),
            ("select 1 as cut", "select 1 as cut", false),
            ("update orders set total = 2", "update orders set total = 2", false),
        ] {
            let (proxy, is_armed) = cut_at(&scene.url, text).await;
            let mut url = url::Url::parse(&scene.url).unwrap();
            url.set_ip_host(proxy.ip()).unwrap();
            url.set_port(Some(proxy.port())).unwrap();
            let statements = Statements::new(Databases::new(&entries(url.as_str())));
            let run = async || statements.run(testing::permit(scene.call("orders", statement, &[]))).await;
            match run().await {
                Outcome::Unknown(why) => assert!(is_unknown && why.contains("being kept"), "{statement}: {why}"),
                other => {
                    let error = failed(other);
                    assert!(!is_unknown, "{statement}");
                    assert_eq!((error.code, error.reason()), (ErrorCode::NetworkError, "reset"), "{error:?}");
                }
            }
            scene.is_unharmed().await;
            is_armed.store(false, Ordering::SeqCst);
            let read = statements.run(testing::permit(scene.call("ledger", "select 1 as one", &[]))).await;
            assert_eq!(done(read).result.structured.unwrap()["rows"], json!([{"one": 1}]));
        }
    })
    .await;
}
