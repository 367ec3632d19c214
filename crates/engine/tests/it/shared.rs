//! Two replicas and a real Redis between them, over a wire that can be cut.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use toolgate_contracts::call::AttachmentKind;
use toolgate_contracts::definition::Label;
use toolgate_contracts::{Clock, Digest, Principal, RateLimit, Rng, TenantId, Timestamp, ToolName, ToolResult};
use toolgate_engine::shared::{CacheKey, CacheParts, Cached, KeptAttachment, Quota, Shared, Sharing};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// `scripts/with-services` sets it.
#[expect(clippy::disallowed_methods, reason = "a test has no configuration but its environment")]
fn redis_url() -> String {
    std::env::var("TOOLGATE_TEST_REDIS")
        .ok()
        .filter(|url| !url.is_empty())
        .unwrap_or_else(|| panic!("TOOLGATE_TEST_REDIS is not set: run the test with `scripts/with-services`"))
}

async fn replica(url: &str) -> Shared {
    Shared::open(Some(url)).await.unwrap()
}

/// Past the product.
async fn directly() -> MultiplexedConnection {
    redis::Client::open(redis_url()).unwrap().get_multiplexed_async_connection().await.unwrap()
}

fn stored_as(key: &CacheKey) -> String {
    format!("toolgate:1:result:{key}")
}

/// Keys that no other test has.
struct Own(String);

impl Own {
    fn new() -> Self {
        Self(format!("test-{:032x}", u128::from_ne_bytes(Rng::System.bytes())))
    }

    fn quota(&self, name: &str, count: u32, per_s: u32) -> Quota {
        Quota { key: format!("{}:{name}", self.0), limit: RateLimit { count, per_s } }
    }

    fn key(&self, tenant: TenantId, rights: &str) -> CacheKey {
        let name: ToolName = "weather".parse().unwrap();
        CacheKey::of(&CacheParts {
            tool: &name,
            version: &"1.0.0".parse().unwrap(),
            behaviour: Digest::of(b"behaviour"),
            input: Digest::of(self.0.as_bytes()),
            tenant,
            secrets: &[],
            sharing: Sharing::Principal { principal: Principal::Local(1), agent: None },
            rights: Digest::of(rights.as_bytes()),
        })
    }
}

fn tenant() -> TenantId {
    TenantId::new(&Clock::System, &Rng::System)
}

fn cached(text: &str) -> Cached {
    Cached {
        result: ToolResult::text(text),
        labels: vec![Label::Private, Label::Sensitive],
        stored_at: NOW,
        attachments: vec![KeptAttachment {
            kind: AttachmentKind::Image,
            content_type: "image/png".into(),
            bytes: (0..=255).collect(),
        }],
    }
}

/// A way to Redis that a test can cut, or silence: then it takes everything and answers nothing.
struct Wire {
    url: String,
    state: watch::Sender<State>,
    _carrier: AbortOnDropHandle<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Whole,
    Silent,
    Cut,
}

impl Wire {
    async fn new(first: State) -> Self {
        let server = redis_url();
        let (address, path) = server.strip_prefix("redis://").unwrap().split_once('/').unwrap();
        let (address, path) = (address.to_owned(), path.to_owned());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}/{path}", listener.local_addr().unwrap());
        let (state, states) = watch::channel(first);
        let carrier = tokio::spawn(async move {
            let mut carried = tokio::task::JoinSet::new();
            loop {
                let (caller, _) = listener.accept().await.unwrap();
                carried.spawn(carry(caller, address.clone(), states.clone()));
            }
        });
        Self { url, state, _carrier: AbortOnDropHandle::new(carrier) }
    }

    fn is(&self, state: State) {
        self.state.send_replace(state);
    }
}

/// Until the state is another.
async fn carry(mut caller: TcpStream, address: String, mut states: watch::Receiver<State>) {
    let state = *states.borrow_and_update();
    let carried = async {
        match state {
            State::Whole => {
                let mut server = TcpStream::connect(address).await.unwrap();
                let _ = copy_bidirectional(&mut caller, &mut server).await;
            }
            State::Silent => std::future::pending().await,
            State::Cut => {}
        }
    };
    tokio::select! {
        () = carried => return,
        _ = states.changed() => {}
    }
    if *states.borrow() == State::Silent {
        // What was open stays open.
        let _ = states.changed().await;
    }
}

/// How many of `tries` pass.
async fn passed(shared: &Shared, quotas: &[Quota], tries: usize) -> usize {
    let mut passed = 0;
    for _ in 0..tries {
        passed += usize::from(shared.rates.take(quotas, NOW).await.is_ok());
    }
    passed
}

/// Asks until it is so; the test's own time limit ends a wait in vain.
async fn until(mut so: impl AsyncFnMut() -> bool) {
    while !so().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn replicas_share_one_rate() {
    let (own, url) = (Own::new(), redis_url());
    let (one, other) = (replica(&url).await, replica(&url).await);
    // An hour for each, so that nothing comes free while the test runs.
    let quotas = [own.quota("a", 10, 36_000)];
    assert_eq!(passed(&one, &quotas, 6).await, 6);
    assert_eq!(passed(&other, &quotas, 20).await, 4);
    let refused = one.rates.take(&quotas, NOW).await.unwrap_err();
    assert_eq!((&refused.key, refused.limit), (&quotas[0].key, quotas[0].limit));
    assert!((3590..=3600).contains(&refused.retry_after_s), "{refused:?}");
}

#[tokio::test]
async fn the_time_of_a_replica_does_not_count() {
    let own = Own::new();
    let one = replica(&redis_url()).await;
    let quotas = [own.quota("a", 1, 36_000)];
    one.rates.take(&quotas, NOW).await.unwrap();
    let years_later = NOW.plus_seconds(100_000_000);
    assert!(one.rates.take(&quotas, years_later).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_on_two_replicas_gets_exactly_the_limit() {
    let (own, url) = (Own::new(), redis_url());
    let replicas = [Arc::new(replica(&url).await), Arc::new(replica(&url).await)];
    let quotas = [own.quota("tenant", 70, 360_000), own.quota("tool", 500, 360_000)];
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200 {
        let (shared, quotas) = (replicas[number % 2].clone(), quotas.clone());
        tasks.spawn(async move { shared.rates.take(&quotas, NOW).await.is_ok() });
    }
    assert_eq!(tasks.join_all().await.into_iter().filter(|passed| *passed).count(), 70);
    // The refused took nothing from the other.
    assert_eq!(passed(&replicas[0], &quotas[1..], 500).await, 430);
}

#[tokio::test]
async fn redis_and_memory_count_alike() {
    let own = Own::new();
    let (one, memory) = (replica(&redis_url()).await, Shared::memory());
    for (count, per_s) in [(1, 3_600), (3, 3_600), (7, 36_000), (60, 86_400), (99, 4_000_000_000)] {
        let quotas = [own.quota(&format!("{count}/{per_s}"), count, per_s)];
        let expected = count as usize;
        assert_eq!(passed(&one, &quotas, expected + 5).await, expected, "{count} in {per_s} s");
        assert_eq!(passed(&memory, &quotas, expected + 5).await, expected, "{count} in {per_s} s");
    }
}

#[tokio::test]
async fn what_was_taken_comes_back_with_time_and_leaves_no_key() {
    let (own, one) = (Own::new(), replica(&redis_url()).await);
    let mut redis = directly().await;
    let quotas = [own.quota("a", 2, 1)];
    assert_eq!(passed(&one, &quotas, 2).await, 2);
    until(async || one.rates.take(&quotas, NOW).await.is_ok()).await;
    let stored = format!("toolgate:1:rate:{}", quotas[0].key);
    until(async || !redis::cmd("EXISTS").arg(&stored).query_async::<bool>(&mut redis).await.unwrap()).await;
}

#[tokio::test]
async fn while_redis_is_away_a_replica_gives_half_by_itself() {
    let own = Own::new();
    let wire = Wire::new(State::Whole).await;
    let one = replica(&wire.url).await;
    let ten = [own.quota("ten", 10, 36_000)];
    assert_eq!(passed(&one, &ten, 3).await, 3);
    for away in [State::Cut, State::Silent] {
        wire.is(away);
        let quotas = [own.quota(if away == State::Cut { "cut" } else { "silent" }, 10, 36_000)];
        assert_eq!(passed(&one, &quotas, 20).await, 5);
        wire.is(State::Whole);
        // Back by itself: this key is Redis's again, which has seen none of it.
        let back = [own.quota(if away == State::Cut { "back" } else { "back again" }, 1_000_000, 36_000)];
        let other = replica(&redis_url()).await;
        until(async || {
            one.rates.take(&back, NOW).await.unwrap();
            one.rates.take(&quotas, NOW).await.is_ok()
        })
        .await;
        assert_eq!(passed(&other, &quotas, 20).await, 9);
    }
    assert_eq!(passed(&one, &ten, 20).await, 7, "what was taken before is still taken");
}

#[tokio::test]
async fn a_redis_that_comes_late_is_used_when_it_comes() {
    let own = Own::new();
    let wire = Wire::new(State::Cut).await;
    let one = replica(&wire.url).await;
    let key = own.key(tenant(), "all");
    one.results.put(&key, cached("early"), None).await;
    assert_eq!(one.results.get(&key, NOW).await, None);
    assert_eq!(passed(&one, &[own.quota("a", 4, 36_000)], 10).await, 2);
    wire.is(State::Whole);
    until(async || {
        one.results.put(&key, cached("late"), None).await;
        one.results.get(&key, NOW).await.is_some()
    })
    .await;
}

#[tokio::test]
async fn a_result_of_one_replica_is_given_by_the_other() {
    let (own, url) = (Own::new(), redis_url());
    let (one, other) = (replica(&url).await, replica(&url).await);
    let key = own.key(tenant(), "all");
    assert_eq!(other.results.get(&key, NOW).await, None);
    one.results.put(&key, cached("sunny"), Some(Duration::from_mins(1))).await;
    assert_eq!(other.results.get(&key, NOW).await, Some(cached("sunny")));
    assert_eq!(other.results.get(&key, NOW.plus_seconds(60)).await, None);
}

#[tokio::test]
async fn other_tenants_and_other_rights_never_meet() {
    let (own, url) = (Own::new(), redis_url());
    let tenants = [tenant(), tenant()];
    for shared in [replica(&url).await, Shared::memory()] {
        for tenant in tenants {
            for rights in ["few", "all"] {
                let key = own.key(tenant, rights);
                assert_eq!(shared.results.get(&key, NOW).await, None, "{tenant} {rights}");
                shared.results.put(&key, cached(&format!("{tenant} {rights}")), None).await;
            }
        }
        for tenant in tenants {
            for rights in ["few", "all"] {
                let found = shared.results.get(&own.key(tenant, rights), NOW).await;
                assert_eq!(found, Some(cached(&format!("{tenant} {rights}"))));
            }
        }
    }
}

#[tokio::test]
async fn nothing_stays_in_redis_for_ever() {
    let (own, one) = (Own::new(), replica(&redis_url()).await);
    let mut redis = directly().await;
    let days_30 = 30 * 24 * 60 * 60;
    for (ttl, expected_s) in [(None, days_30), (Some(u64::MAX), days_30), (Some(500), 500)] {
        let key = own.key(tenant(), "all");
        one.results.put(&key, cached("a"), ttl.map(Duration::from_secs)).await;
        let kept_s: i64 = redis::cmd("TTL").arg(stored_as(&key)).query_async(&mut redis).await.unwrap();
        assert!((expected_s - 60..=expected_s).contains(&kept_s), "{kept_s} s for {ttl:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_no_result() {
    let (own, one) = (Own::new(), replica(&redis_url()).await);
    let mut redis = directly().await;
    let key = own.key(tenant(), "all");
    one.results.put(&key, cached("a"), None).await;
    let good: String = redis::cmd("GET").arg(stored_as(&key)).query_async(&mut redis).await.unwrap();
    let of_a_later_version = good.replacen('{', "{\"more\":1,", 1);
    for (stored, read) in [(good.as_str(), true), ("", false), ("{\"cached\":", false), (&of_a_later_version, false)] {
        redis::cmd("SET").arg(stored_as(&key)).arg(stored).arg("EX").arg(60).exec_async(&mut redis).await.unwrap();
        assert_eq!(one.results.get(&key, NOW).await.is_some(), read, "{stored}");
    }
    // Nor is what does not fit.
    let large = own.key(tenant(), "all");
    one.results.put(&large, cached(&"x".repeat(1024 * 1024)), None).await;
    assert_eq!(one.results.get(&large, NOW).await, None);
}

#[tokio::test]
async fn an_address_that_no_redis_has_is_a_fault_without_the_password() {
    for url in ["redis://:hunter2@", "rediss://:hunter2@cache:6379/", "redis://:hunter2@cache/x", "hunter2"] {
        let fault = Shared::open(Some(url)).await.err().unwrap_or_else(|| panic!("{url} is accepted"));
        assert!(!format!("{fault:?}").contains("hunter2"), "{fault:?}");
    }
    assert!(Shared::open(None).await.is_ok());
}
