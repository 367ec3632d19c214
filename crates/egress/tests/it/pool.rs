//! Security test 50: a kept connection serves neither another tenant nor anybody after its opening was closed.

use toolgate_contracts::Scheme;
use toolgate_egress::{Method, Request, Rule};

use crate::world::{Server, World, of_tenant, ok, opening, way};

#[tokio::test]
async fn a_connection_is_kept_for_its_tenant_and_revision_only() {
    let server = Server::start("127.0.0.1:0", |_| ok("reached")).await;
    let world = World::new();
    let url = server.url("/").to_string();
    let all = |revision| way(revision, [opening("127.0.0.1", server.port(), Scheme::Http)]);

    let acme = of_tenant(all(1), 1, "acme");
    for _ in 0..3 {
        world.text(&acme, &url).await.unwrap();
    }
    assert_eq!(server.connections(), 1, "one connection, used again");
    world.text(&of_tenant(all(1), 2, "other"), &url).await.unwrap();
    assert_eq!(server.connections(), 2, "another tenant makes its own");
    world.text(&all(1), &url).await.unwrap();
    assert_eq!(server.connections(), 3, "and so does the server itself");
    world.text(&of_tenant(all(2), 1, "acme"), &url).await.unwrap();
    assert_eq!(server.connections(), 4, "what changed is not served by what was");
    world.text(&acme, &url).await.unwrap();
    assert_eq!(server.connections(), 5, "what was kept under older openings is gone");
}

#[tokio::test]
async fn as_many_connections_are_kept_as_were_needed_at_once() {
    const AT_ONCE: usize = 64;
    let server = Server::start("127.0.0.1:0", |_| ok("reached")).await;
    let world = World::new();
    let way = way(1, [opening("127.0.0.1", server.port(), Scheme::Http)]);
    let url = server.url("/").to_string();
    for _ in 0..3 {
        // All have their answer's head before any reads its body and gives its connection back.
        let mut answers = Vec::new();
        for _ in 0..AT_ONCE {
            answers.push(world.get(&way, &url).await.unwrap());
        }
        for answer in answers {
            answer.bytes_max(100).await.unwrap();
        }
    }
    assert_eq!(server.connections(), AT_ONCE);
}

#[tokio::test]
async fn a_kept_connection_does_not_outlive_its_opening() {
    let server = Server::start("127.0.0.1:0", |_| ok("reached")).await;
    let world = World::new();
    let url = server.url("/").to_string();
    let mut spec = opening("127.0.0.1", server.port(), Scheme::Http);
    spec.tenants = Some(vec!["acme".parse().unwrap()]);
    spec.expires_at = Some(crate::world::NOW.plus_seconds(10));
    let acme = of_tenant(way(1, [spec.clone()]), 1, "acme");
    world.text(&acme, &url).await.unwrap();

    let other = of_tenant(way(1, [spec]), 2, "other");
    assert_eq!(world.get(&other, &url).await.err().unwrap().rule(), Rule::Scheme, "not opened for this tenant");
    let closed = of_tenant(way(2, []), 1, "acme");
    assert_eq!(world.get(&closed, &url).await.err().unwrap().rule(), Rule::Scheme, "closed meanwhile");
    world.clock.advance(10);
    assert_eq!(world.get(&acme, &url).await.err().unwrap().rule(), Rule::Scheme, "expired meanwhile");
    assert_eq!((server.connections(), server.requests().len()), (1, 1));
}

#[tokio::test]
async fn a_write_goes_out_on_a_connection_of_its_own() {
    let server = Server::start("127.0.0.1:0", |_| ok("reached")).await;
    let world = World::new();
    let way = way(1, [opening("127.0.0.1", server.port(), Scheme::Http)]);
    for method in [Method::GET, Method::POST, Method::POST] {
        let answer = world.connector.send(&way, Request::new(method, server.url("/"))).await.unwrap();
        answer.bytes_max(100).await.unwrap();
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_meanwhile_is_replaced() {
    let server = Server::start("127.0.0.1:0", |request| match crate::world::path(request) {
        // Says that it stays, and breaks off at the next request.
        "/break" => b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort".to_vec(),
        _ => ok("reached"),
    })
    .await;
    let world = World::new();
    let way = way(1, [opening("127.0.0.1", server.port(), Scheme::Http)]);
    world.text(&way, server.url("/").as_str()).await.unwrap();
    let mut request = Request::get(server.url("/break"));
    request.limits.idle = std::time::Duration::from_millis(50);
    let answer = world.connector.send(&way, request).await.unwrap();
    assert_eq!(answer.bytes_max(200).await.err().unwrap().rule(), Rule::Timeout);
    assert_eq!(server.connections(), 1);
    world.text(&way, server.url("/").as_str()).await.unwrap();
    assert_eq!(server.connections(), 2, "a connection whose answer did not end is not used again");
}
