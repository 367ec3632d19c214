//! Security test 28: an answer of DNS that changes between check and connect, on the first or a later hop.

use toolgate_egress::Rule;

use crate::world::{Server, World, ok, open, path, redirect};

struct Two {
    world: World,
    /// Open, at 127.0.0.1.
    good: Server,
    /// Closed, at 127.0.0.2 on the same port.
    bad: Server,
    url: String,
}

async fn two() -> Two {
    let good = Server::start("127.0.0.1:0", |request| match path(request) {
        "/again" => redirect(302, "/"),
        _ => ok("good"),
    })
    .await;
    let bad = Server::start(&format!("127.0.0.2:{}", good.port()), |_| ok("bad")).await;
    let url = format!("http://rebind.test:{}", good.port());
    Two { world: World::new(), good, bad, url }
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_that_is_connected_to() {
    let Two { world, good, bad, url } = two().await;
    let way = open(&["127.0.0.1"], good.port());
    world.names.say("rebind.test", &[&["127.0.0.1"], &["127.0.0.2"]]);
    assert_eq!(world.text(&way, &url).await.unwrap(), "good");
    assert_eq!(world.names.asked("rebind.test"), 1, "one lookup, one check, one connection");

    let error = world.get(&way, &url).await.err().unwrap();
    assert_eq!(error.rule(), Rule::Address, "the next request sees the new answer, whatever is pooled: {error}");
    assert_eq!((good.connections(), bad.connections()), (1, 0));
}

#[tokio::test]
async fn a_redirect_to_the_same_name_is_looked_up_and_checked_again() {
    let Two { world, good, bad, url } = two().await;
    let way = open(&["127.0.0.1"], good.port());
    world.names.say("rebind.test", &[&["127.0.0.1"], &["127.0.0.2"]]);
    let error = world.get(&way, &format!("{url}/again")).await.err().unwrap();
    assert_eq!(error.rule(), Rule::Address, "{error}");
    assert_eq!(world.names.asked("rebind.test"), 2);
    assert_eq!((good.requests().len(), bad.connections()), (1, 0));
}

#[tokio::test]
async fn a_name_that_was_opened_still_never_leads_to_metadata() {
    let Two { world, good, bad: _, url } = two().await;
    let way = open(&["rebind.test"], good.port());
    world.names.say("rebind.test", &[&["127.0.0.1"], &["169.254.169.254"]]);
    let error = world.get(&way, &format!("{url}/again")).await.err().unwrap();
    assert_eq!(error.rule(), Rule::Never, "{error}");
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_does_not_listen() {
    let Two { world, good, bad: _, url } = two().await;
    let way = open(&["127.0.0.0/8"], good.port());
    world.names.say("rebind.test", &[&["127.0.0.9", "127.0.0.1"]]);
    assert_eq!(world.text(&way, &url).await.unwrap(), "good");
    world.names.say("rebind.test", &[&["127.0.0.9"]]);
    let error = world.get(&way, &url).await.err().unwrap();
    assert_eq!((error.rule(), error.sent()), (Rule::Connect, toolgate_egress::Sent::No));
}
