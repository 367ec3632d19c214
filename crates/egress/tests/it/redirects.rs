//! Security test 29: what a redirect may carry to another origin, and what headers a caller may set at all.

use toolgate_contracts::{Scheme, ToolError};
use toolgate_egress::{Effect, HeaderMap, HeaderName, HeaderValue, Method, Redirects, Request, Rule, Sent, header};

use crate::world::{Server, World, bytes, ok, open, opening, path, redirect, way};

/// Two origins: the first redirects `/STATUS/…` to the other one, or to itself below `/self`.
async fn origins() -> (Server, Server, World) {
    let other = Server::start("127.0.0.1:0", |_| ok("other")).await;
    let to = other.url("/landed").to_string();
    let first = Server::start("127.0.0.1:0", move |request| {
        let mut words = path(request).trim_start_matches('/').split('/');
        match (words.next().and_then(|status| status.parse().ok()), words.next()) {
            (Some(status), Some("self")) => redirect(status, "/landed"),
            (Some(status), _) => redirect(status, &to),
            _ => ok("first"),
        }
    })
    .await;
    (first, other, World::new())
}

fn both(first: &Server, other: &Server) -> toolgate_egress::Way {
    way(1, [opening("127.0.0.1", first.port(), Scheme::Http), opening("127.0.0.1", other.port(), Scheme::Http)])
}

fn with_secrets(request: Request) -> Request {
    let value = |text: &'static str| HeaderValue::from_static(text);
    let mut request = request
        .with_secret(HeaderName::from_static("x-api-key"), value("secret-1"))
        .with_secret(HeaderName::from_static("cookie"), value("secret-2"));
    request.headers.insert("authorization", value("Bearer secret-3"));
    request.headers.insert("accept", value("text/plain"));
    request.redirects = Redirects::Follow;
    request
}

#[tokio::test]
async fn secret_headers_stay_with_their_origin() {
    let (first, other, world) = origins().await;
    let way = both(&first, &other);
    for status in [301, 302, 303, 307, 308] {
        let request = with_secrets(Request::get(first.url(&format!("/{status}"))));
        let answer = world.connector.send(&way, request).await.unwrap();
        assert_eq!((answer.hops, answer.url.path()), (1, "/landed"));
        assert_eq!(answer.openings.len(), 2, "both openings are told");
    }
    assert!(first.requests().iter().all(|request| request.matches("secret-").count() == 3));
    for request in other.requests() {
        assert!(!request.contains("secret-"), "{request}");
        assert!(request.contains("accept: text/plain"), "what is no secret goes along");
    }

    let request = with_secrets(Request::get(first.url("/302/self")));
    world.connector.send(&way, request).await.unwrap();
    assert!(first.requests().last().unwrap().contains("secret-1"), "the same origin keeps them");
}

#[tokio::test]
async fn secrets_do_not_come_back_when_the_way_does() {
    let back = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let location = std::sync::Arc::clone(&back);
    let other = Server::start("127.0.0.1:0", move |_| redirect(302, &location.lock().unwrap())).await;
    let to = other.url("/").to_string();
    let first = Server::start("127.0.0.1:0", move |request| match path(request) {
        "/" => redirect(302, &to),
        _ => ok("back"),
    })
    .await;
    *back.lock().unwrap() = first.url("/back").to_string();
    let request = with_secrets(Request::get(first.url("/")));
    let answer = World::new().connector.send(&both(&first, &other), request).await.unwrap();
    assert_eq!(answer.hops, 2);
    assert!(!first.requests().last().unwrap().contains("secret-"));
}

#[tokio::test]
async fn a_write_is_not_carried_to_another_origin() {
    let (first, other, world) = origins().await;
    let way = both(&first, &other);
    for (method, status, expected) in [
        (Method::POST, 307, Err(Rule::Redirect)),
        (Method::POST, 308, Err(Rule::Redirect)),
        (Method::PUT, 301, Err(Rule::Redirect)),
        (Method::DELETE, 302, Err(Rule::Redirect)),
        (Method::PATCH, 308, Err(Rule::Redirect)),
        (Method::POST, 301, Ok("GET")),
        (Method::POST, 302, Ok("GET")),
        (Method::PUT, 303, Ok("GET")),
        (Method::HEAD, 303, Ok("HEAD")),
    ] {
        let mut request = with_secrets(Request::new(method.clone(), first.url(&format!("/{status}"))));
        request.body = bytes("the-body");
        request.headers.insert("content-type", HeaderValue::from_static("text/plain"));
        let before = other.connections();
        match (world.connector.send(&way, request).await, expected) {
            (Ok(_), Ok(arrived)) => {
                let landed = other.requests().pop().unwrap();
                assert!(landed.starts_with(arrived), "{method} {status}: {landed}");
                assert!(method == Method::HEAD || !landed.contains("the-body"), "{method} {status}: {landed}");
                assert!(method == Method::HEAD || !landed.contains("content-type"), "{method} {status}: {landed}");
            }
            (Err(error), Err(rule)) => {
                assert_eq!((error.rule(), error.sent()), (rule, Sent::Perhaps), "{method} {status}: {error}");
                assert_eq!(other.connections(), before, "{method} {status}");
                assert_eq!(ToolError::from(error).reason(), "egress");
            }
            (got, _) => panic!("{method} {status}: {:?}", got.map(|answer| answer.status)),
        }
    }
    let mut request = Request::new(Method::GET, first.url("/307"));
    request.redirects = Redirects::Follow;
    request.effect = Effect::Write;
    let error = world.connector.send(&way, request).await.err().unwrap();
    assert_eq!(error.rule(), Rule::Redirect, "what has an effect is a write, whatever its method");
}

#[tokio::test]
async fn redirects_end_and_can_be_left_alone() {
    let server = Server::start("127.0.0.1:0", |request| {
        let number: u32 = path(request).trim_start_matches('/').parse().unwrap();
        if number == 0 { ok("end") } else { redirect(302, &format!("/{}", number - 1)) }
    })
    .await;
    let (world, way) = (World::new(), open(&["127.0.0.1"], server.port()));
    assert_eq!(world.text(&way, server.url("/5").as_str()).await.unwrap(), "end");
    let error = world.get(&way, server.url("/6").as_str()).await.err().unwrap();
    assert_eq!((error.rule(), ToolError::from(error).reason()), (Rule::Redirects, "redirects"));
    let answer = world.connector.send(&way, Request::get(server.url("/3"))).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.hops), (302, 0));
}

#[tokio::test]
async fn a_redirect_leads_to_no_other_scheme() {
    for location in ["file:///etc/passwd", "unix:/run/docker.sock", "data:text/plain,x", "ftp://127.0.0.1/", "gopher:x"]
    {
        let server = Server::start("127.0.0.1:0", move |_| redirect(302, location)).await;
        let way = open(&["127.0.0.1"], server.port());
        let error = World::new().get(&way, server.url("/").as_str()).await.err().unwrap();
        assert_eq!(error.rule(), Rule::Scheme, "{location}: {error}");
    }
}

#[tokio::test]
async fn the_caller_sets_no_header_that_frames_or_steers_the_message() {
    let server = Server::start("127.0.0.1:0", |_| ok("x")).await;
    let (world, way) = (World::new(), open(&["127.0.0.1"], server.port()));
    for name in [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "cookie",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "keep-alive",
        "accept-encoding",
    ] {
        assert_eq!(header(name, "x").unwrap_err().rule(), Rule::Header, "{name}");
        let mut request = Request::get(server.url("/"));
        request.headers = HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static("x"))]);
        assert_eq!(world.connector.send(&way, request).await.err().unwrap().rule(), Rule::Header, "{name}");
    }
    for method in [Method::CONNECT, Method::TRACE] {
        let request = Request::new(method, server.url("/"));
        assert_eq!(world.connector.send(&way, request).await.err().unwrap().rule(), Rule::Header);
    }
    assert_eq!(server.connections(), 0);
}
