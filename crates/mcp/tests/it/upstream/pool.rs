//! Many links together: shared, bounded, closed when unused, begun again without end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use toolgate_mcp::upstream::{Era, Exchange, Key, Rests, Settings, Upstreams};
use toolgate_mcp::wire::Revision;

use super::served::{Manners, Server};
use super::world::{
    LONG, brief, call, children, command, descriptors, is_alive, key, nowhere, object, outlet, piped, settings,
    structured, tenant, until,
};

fn restless() -> Settings {
    Settings { rests: Rests { from: u32::MAX, ..Rests::default() }, ..settings() }
}

#[tokio::test]
async fn a_link_is_shared_within_its_key_and_nowhere_else() {
    let pool = Upstreams::new(settings());
    let upstream = Arc::new(piped("2025-11-25", &[]));
    let wanted = (0..20).map(|_| {
        let (pool, upstream) = (pool.clone(), Arc::clone(&upstream));
        async move { pool.link(&key("one"), &upstream, &nowhere()).await.unwrap() }
    });
    let links = join_all(wanted).await;
    assert!(links.iter().all(|link| link.pid() == links[0].pid()), "all who come at once wait for one");
    for other in [
        Key { credentials: Some("user:1".to_owned()), ..key("one") },
        Key { tenant: tenant(2), ..key("one") },
        key("two"),
    ] {
        let link = pool.link(&other, &upstream, &nowhere()).await.unwrap();
        assert_ne!(link.pid(), links[0].pid(), "{other:?}");
    }
    assert_eq!(pool.standings(tenant(1)).len(), 3);
    let standing = pool.standing(&key("one")).unwrap();
    assert_eq!((standing.health.opened, standing.found.unwrap().revision), (1, Revision::V20251125));

    let mut changed = piped("2025-11-25", &[]);
    changed.declared = object(json!({"roots": {}}));
    let fresh = pool.link(&key("one"), &Arc::new(changed), &nowhere()).await.unwrap();
    assert_ne!(fresh.pid(), links[0].pid(), "a server that is configured differently is another one");
    assert!(links[0].ended().is_none(), "who still uses the old one does so to its end");

    pool.close().await;
    assert_eq!(pool.open_count(), 0);
}

#[tokio::test]
async fn one_slow_server_delays_no_other() {
    let pool = Upstreams::new(settings());
    let mut slow = piped("2025-11-25", &["mute"]);
    slow.bounds.open = LONG;
    let (slow, quick) = (Arc::new(slow), Arc::new(piped("2025-11-25", &[])));
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.link(&key("slow"), &slow, &nowhere()).await.map(drop) }
    });
    until("it is being opened", || pool.open_count() == 1).await;
    let link = pool.link(&key("quick"), &quick, &nowhere()).await.unwrap();
    structured(&link, "echo", json!({})).await.unwrap();
    assert!(!waiting.is_finished());
    waiting.abort();
}

#[tokio::test]
async fn a_server_that_fails_is_left_alone_and_says_why() {
    let rests = Rests { from: 2, first: Duration::from_millis(300), most: Duration::from_millis(300) };
    let pool = Upstreams::new(Settings { rests, ..settings() });
    let upstream = Arc::new(piped("2025-11-25", &[]));
    for _ in 0..2 {
        let link = pool.link(&key("one"), &upstream, &nowhere()).await.unwrap();
        structured(&link, "die", json!({})).await.unwrap_err();
    }
    let resting = pool.link(&key("one"), &upstream, &nowhere()).await.map(drop).unwrap_err();
    assert_eq!(resting.name(), "resting", "{resting}");
    until("its process is gone", || pool.standing(&key("one")).unwrap().health.complaint.is_some()).await;
    let health = pool.standing(&key("one")).unwrap().health;
    assert_eq!((health.failures_in_a_row, health.is_resting), (2, true));
    assert_eq!(health.last_error.as_ref().unwrap().0, "closed");
    assert!(health.complaint.unwrap().contains("the disk is on fire"));
    assert!(health.last_error_at.is_some());
    pool.link(&key("other"), &upstream, &nowhere()).await.unwrap();
    let mut changed = piped("2025-11-25", &[]);
    changed.bounds.requests_max = 7;
    pool.link(&key("one"), &Arc::new(changed), &nowhere()).await.unwrap();
    for _ in 0..2 {
        let link = pool.link(&key("one"), &upstream, &nowhere()).await.unwrap();
        structured(&link, "die", json!({})).await.unwrap_err();
    }
    pool.link(&key("one"), &upstream, &nowhere()).await.map(drop).unwrap_err();

    tokio::time::sleep(Duration::from_millis(350)).await;
    let link = pool.link(&key("one"), &upstream, &nowhere()).await.unwrap();
    structured(&link, "echo", json!({})).await.unwrap();
    assert_eq!(pool.standing(&key("one")).unwrap().health.failures_in_a_row, 0);
}

#[tokio::test]
async fn there_are_never_more_than_there_may_be() {
    let pool = Upstreams::new(Settings { processes_max: 2, links_per_tenant_max: 3, ..settings() });
    let upstream = Arc::new(piped("2025-11-25", &[]));
    let first = pool.link(&key("1"), &upstream, &nowhere()).await.unwrap();
    let second = pool.link(&key("2"), &upstream, &nowhere()).await.unwrap();
    let full = pool.link(&key("3"), &upstream, &nowhere()).await.map(drop).unwrap_err();
    assert_eq!(full.name(), "full", "{full}");
    let unused = second.pid().unwrap();
    drop(second);
    let third = pool.link(&key("3"), &upstream, &nowhere()).await.unwrap();
    until("the unused one gave up its place", || !is_alive(unused)).await;
    structured(&first, "echo", json!({})).await.unwrap();
    structured(&third, "echo", json!({})).await.unwrap();

    let server = Server::start(Revision::V20260728, Manners::default()).await;
    let addressed = Arc::new(server.upstream());
    let fourth = pool.link(&key("4"), &addressed, &outlet(server.port)).await.unwrap();
    let of_tenant = pool.link(&key("5"), &addressed, &outlet(server.port)).await.map(drop).unwrap_err();
    assert_eq!(of_tenant.name(), "full", "{of_tenant}");
    let other = Key { tenant: tenant(2), ..key("5") };
    pool.link(&other, &addressed, &outlet(server.port)).await.unwrap();
    drop(fourth);
    pool.link(&key("5"), &addressed, &outlet(server.port)).await.unwrap();
}

#[tokio::test]
async fn one_tenant_never_has_all_that_there_may_be() {
    let pool = Upstreams::new(Settings { processes_max: 4, ..settings() });
    let upstream = Arc::new(piped("2025-11-25", &[]));
    let mut held = Vec::new();
    for name in ["1", "2", "3"] {
        held.push(pool.link(&key(name), &upstream, &nowhere()).await.unwrap());
    }
    let full = pool.link(&key("4"), &upstream, &nowhere()).await.map(drop).unwrap_err();
    assert_eq!(full.name(), "full", "{full}");
    let other = Key { tenant: tenant(2), ..key("4") };
    held.push(pool.link(&other, &upstream, &nowhere()).await.unwrap());
    held.remove(0);
    pool.link(&key("4"), &upstream, &nowhere()).await.unwrap();
}

#[tokio::test]
async fn what_nobody_uses_is_closed_and_opened_again_when_it_is_wanted() {
    let pool = Upstreams::new(Settings { idle: Duration::from_millis(200), ..settings() });
    let upstream = Arc::new(piped("2025-11-25", &[]));
    let link = pool.link(&key("one"), &upstream, &nowhere()).await.unwrap();
    let pid = link.pid().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(link.ended().is_none(), "it is in use as long as somebody holds it");
    drop(link);
    until("its process is gone", || !is_alive(pid)).await;
    assert_eq!(pool.open_count(), 0);
    let again = pool.link(&key("one"), &upstream, &nowhere()).await.unwrap();
    assert_ne!(again.pid().unwrap(), pid);
}

#[tokio::test]
async fn a_request_that_found_the_link_ended_goes_out_on_a_new_one() {
    let pool = Upstreams::new(restless());
    let upstream = Arc::new(brief());
    for _ in 0..5 {
        let exchange = Exchange::within(LONG);
        let asked =
            pool.request(&key("one"), &upstream, &nowhere(), "tools/call", call("x", json!({})), exchange).await;
        asked.unwrap();
        until("its process has left", || pool.standing(&key("one")).unwrap().found.is_none()).await;
    }
    assert_eq!(pool.standing(&key("one")).unwrap().health.opened, 5);
    let short = Exchange::within(Duration::from_millis(300));
    let mute = Arc::new(piped("2025-11-25", &["mute"]));
    let late = pool.request(&key("mute"), &mute, &nowhere(), "tools/call", call("x", json!({})), short).await;
    assert_eq!(late.unwrap_err().name(), "timeout", "opening counts to the caller's time");
    let missing = Arc::new(command(&["/nowhere/server"]));
    let exchange = Exchange::within(LONG);
    let start = pool.request(&key("no"), &missing, &nowhere(), "tools/list", object(json!({})), exchange).await;
    assert_eq!(start.unwrap_err().name(), "start");
}

#[tokio::test]
async fn a_thousand_processes_that_leave_leave_nothing_behind() {
    let pool = Upstreams::new(restless());
    let upstream = Arc::new(brief());
    let before = descriptors();
    for number in 0..1000 {
        let link = pool.link(&key("one"), &upstream, &nowhere()).await.unwrap();
        let asked = link.request("tools/call", call("x", json!({})), Exchange::within(LONG)).await;
        asked.unwrap_or_else(|error| panic!("{number}: {error}"));
        until("it is over", || link.ended().is_some()).await;
    }
    assert_eq!(pool.standing(&key("one")).unwrap().health.opened, 1000);
    drop(upstream);
    pool.close().await;
    until("no process is left", || children().is_empty()).await;
    until("no descriptor is left", || descriptors() <= before + 8).await;
}

/// Such ones were left behind until nothing could be opened any more.
#[tokio::test]
async fn a_thousand_servers_that_never_answer_the_first_words_leave_nothing_behind() {
    let pool = Upstreams::new(restless());
    let mut mute = command(&["/bin/sh", "-c", "exec cat >/dev/null"]);
    mute.era = Era::Only(Revision::V20250618);
    // So short that some are given up while they are being started.
    mute.bounds.open = Duration::from_millis(50);
    let mute = Arc::new(mute);
    let before = descriptors();
    for _ in 0..25 {
        let keys: Vec<Key> = (0..40).map(|number| key(&format!("mute-{number}"))).collect();
        let tried = join_all(keys.iter().map(|key| async { pool.link(key, &mute, &nowhere()).await.map(drop) })).await;
        for late in tried {
            assert!(matches!(late.unwrap_err().name(), "timeout" | "closed"));
        }
        until("no process is left", || children().is_empty()).await;
    }
    drop(mute);
    pool.close().await;
    until("no descriptor is left", || descriptors() <= before + 8).await;
}

#[tokio::test]
async fn a_thousand_broken_connections_leave_nothing_behind() {
    let server = Server::start(Revision::V20250618, Manners { drops: Some(3), ..Manners::default() }).await;
    let pool = Upstreams::new(restless());
    let mut upstream = server.upstream();
    upstream.era = Era::Only(Revision::V20250618);
    let (upstream, outlet) = (Arc::new(upstream), outlet(server.port));
    let before = descriptors();
    let (mut answered, mut broken) = (0, 0);
    for number in 0..1000 {
        let exchange = Exchange::within(LONG);
        match pool.request(&key("one"), &upstream, &outlet, "tools/call", call("x", json!({})), exchange).await {
            Ok(_) => answered += 1,
            Err(_) => broken += 1,
        }
        if number % 5 == 0 {
            pool.forget(|of| *of == key("one")).await;
        }
    }
    assert!(answered > 100 && broken > 100, "{answered} {broken}");
    pool.close().await;
    drop((pool, outlet));
    until("no connection is left", || server.open_connections() == 0).await;
    until("no descriptor is left", || descriptors() <= before + 8).await;
}
