//! Two copies of the program on one database: what one changes, the other shows.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use toolgate_store::MIGRATIONS;
use toolgate_store::testing::Database;
use tower::ServiceExt as _;

use crate::world::{As, answer, send, tool, two_replicas};

#[tokio::test]
async fn a_replica_never_serves_older_than_it_promised() {
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let ([first, second], _folders) = two_replicas(&database).await;
    let body = json!({"definition": tool("readRecord", json!({})), "apply": true});
    let registered = send(first.router(), &As::Owner, "POST", "/api/v1/tools", body).await;
    let revision = registered.headers["toolgate-revision"].to_str().unwrap().to_owned();
    registered.ok();
    let request = Request::get("/api/v1/tools/readRecord")
        .header("toolgate-revision", revision)
        .extension(toolgate_server::LocalCaller { uid: 1 });
    answer(second.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()).await.ok();

    // Without a promise the follower sees it as soon as it looks.
    send(first.router(), &As::Owner, "PUT", "/api/v1/tools/echo/enabled", json!({"enabled": false})).await.ok();
    second.registry.refresh().await.unwrap();
    send(second.router(), &As::Owner, "GET", "/api/v1/tools/echo", json!(null)).await.refused(404);

    // Two registrations of one name at the same moment: one wins, the other is told.
    let same = json!({"definition": tool("twice", json!({})), "apply": true});
    let (left, right) = tokio::join!(
        send(first.router(), &As::Owner, "POST", "/api/v1/tools", same.clone()),
        send(second.router(), &As::Owner, "POST", "/api/v1/tools", same)
    );
    let mut statuses = [left.status, right.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{:#} {:#}", left.body, right.body);
    first.close().await;
    second.close().await;
}
