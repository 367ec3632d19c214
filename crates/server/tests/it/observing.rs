//! What is noted of a request: ids, one line in the log without secrets, numbers for those who may see them, readiness.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use serde_json::Value;
use toolgate_server::proxies::Peer;
use toolgate_server::{App, outer};
use tower::ServiceExt as _;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::world::{Answer, As, answer, every_world, with_settings};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn get(app: &App, path: &str, peer: Option<&str>, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::get(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "localhost");
    }
    request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    if let Some(peer) = peer {
        request = request.extension(Peer(peer.parse().unwrap()));
    }
    answer(outer(app).oneshot(request.body(Body::empty()).unwrap()).await.unwrap()).await
}

#[tokio::test]
async fn every_answer_names_its_request_and_its_trace() {
    let (app, _folder) = with_settings(&[]).await;
    let text = |headers: &HeaderMap, name: &str| headers[name].to_str().unwrap().to_owned();
    for (path, status) in [("/healthz", 200), ("/api/v1/me", 401), ("/nothing", 404)] {
        let own = get(&app, path, None, &[("x-request-id", "mine-1"), ("traceparent", PARENT)]).await;
        assert_eq!((own.status, text(&own.headers, "x-request-id").as_str()), (status, "mine-1"));
        let trace = text(&own.headers, "traceparent");
        assert!(trace.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && trace.ends_with("-01"), "{trace}");
        assert!(!trace.contains("00f067aa0ba902b7"), "a span of its own: {trace}");
        let made = get(&app, path, None, &[("x-request-id", "not an id"), ("traceparent", "00-0-0-00")]).await;
        assert_eq!(text(&made.headers, "x-request-id").len(), 32);
        assert_eq!(text(&made.headers, "traceparent").len(), PARENT.len());
    }
    let refused = get(&app, "/healthz", None, &[("host", "evil.test")]).await;
    assert_eq!(refused.status, 403);
    assert_eq!(text(&refused.headers, "x-request-id").len(), 32, "a refusal at the door is named too");
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_has_one_line_for_a_request_and_nothing_secret() {
    let (app, _folder) = with_settings(&[("trusted_proxies", "10.0.0.0/8")]).await;
    let lines = Lines::default();
    let writer = lines.clone();
    let layer = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let secrets = [
        ("authorization", "Bearer tg_hunter2"),
        ("cookie", "tg=hunter2"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-request-id", "mine-1"),
        ("traceparent", PARENT),
    ];
    get(&app, "/api/v1/tools/private_name?q=hunter2", Some("10.1.1.1:4000"), &secrets).await;
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("private_name"), "{text}");
    let entries: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let requests: Vec<_> = entries.iter().filter(|entry| entry["target"] == "toolgate::request").collect();
    assert_eq!(requests.len(), 1, "{text}");
    let entry = requests[0];
    assert_eq!(entry["level"], "INFO");
    assert_eq!((&entry["method"], &entry["route"]), (&"GET".into(), &"/api/v1/tools/{tool}".into()));
    assert_eq!((&entry["status"], &entry["client"]), (&401.into(), &"203.0.113.9".into()));
    assert_eq!(entry["span"]["request_id"], "mine-1");
    assert_eq!(entry["span"]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(entry["ms"].is_number());
}

#[tokio::test]
async fn only_a_named_proxy_may_say_under_which_name_it_was_asked() {
    let (app, _folder) =
        with_settings(&[("trusted_proxies", "10.0.0.0/8"), ("allowed_hosts", "tools.example.com")]).await;
    for (peer, forwarded, status) in [
        ("10.1.1.1:1", "tools.example.com", 200),
        ("10.1.1.1:1", "TOOLS.example.com:443", 200),
        ("10.1.1.1:1", "evil.test", 403),
        ("10.1.1.1:1", "evil test", 400),
        // A stranger's word is not looked at.
        ("203.0.113.9:1", "evil.test", 200),
    ] {
        let answered = get(&app, "/healthz", Some(peer), &[("x-forwarded-host", forwarded)]).await;
        assert_eq!(answered.status, status, "{peer} {forwarded}");
    }
    // Nor does it open another name.
    let rebound = [("host", "evil.test"), ("x-forwarded-host", "tools.example.com")];
    for peer in ["10.1.1.1:1", "203.0.113.9:1"] {
        assert_eq!(get(&app, "/healthz", Some(peer), &rebound).await.status, 403, "{peer}");
    }
}

#[tokio::test]
async fn numbers_are_for_this_machine_and_for_operators() {
    every_world(async |world| {
        let key = |who: As| match who {
            As::Key(key) => format!("Bearer {key}"),
            _ => unreachable!(),
        };
        let viewer = key(world.user("default", "vera", &["viewer"]).await);
        let admin = key(world.user("default", "ada", &["admin"]).await);
        let operator = key(world.user("default", "otto", &["operator"]).await);
        let local = Some("127.0.0.1:4000");
        let stranger = Some("203.0.113.9:4000");
        for (peer, headers, status) in [
            (local, vec![], 200),
            (Some("[::1]:4000"), vec![], 200),
            (local, vec![("x-forwarded-for", "203.0.113.9")], 401),
            (local, vec![("forwarded", "for=127.0.0.1")], 401),
            (local, vec![("via", "1.1 proxy")], 401),
            (None, vec![], 401),
            (stranger, vec![], 401),
            (stranger, vec![("x-forwarded-for", "127.0.0.1")], 401),
            (stranger, vec![("authorization", viewer.as_str())], 403),
            (stranger, vec![("authorization", admin.as_str())], 403),
            (stranger, vec![("authorization", operator.as_str())], 200),
        ] {
            let answered = get(&world.app, "/metrics", peer, &headers).await;
            assert_eq!(answered.status, status, "{peer:?} {headers:?}");
        }
        world.app.close().await;
    })
    .await;
}

#[tokio::test]
async fn open_numbers_are_for_everybody_and_count_requests() {
    let (app, _folder) = with_settings(&[("metrics_open", "true"), ("public_url", "http://tools.example.com")]).await;
    get(&app, "/api/v1/tools/one", None, &[]).await;
    get(&app, "/nothing/at/all", None, &[]).await;
    let request =
        Request::get("/metrics").header("host", "tools.example.com").extension(Peer("203.0.113.9:1".parse().unwrap()));
    let response = outer(&app).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    for line in [
        "toolgate_http_requests_total{method=\"GET\",route=\"/api/v1/tools/{tool}\",status=\"401\"} 1",
        "toolgate_http_requests_total{method=\"GET\",route=\"unmatched\",status=\"404\"} 1",
        "toolgate_calls_running 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("/tools/one"));
}

#[tokio::test]
async fn a_server_that_ends_or_has_lost_its_database_is_not_ready() {
    every_world(async |world| {
        assert_eq!(get(&world.app, "/readyz", None, &[]).await.status, 200);
        world.app.draining.store(true, Ordering::Relaxed);
        assert_eq!(get(&world.app, "/readyz", None, &[]).await.status, 503);
        assert_eq!(get(&world.app, "/healthz", None, &[]).await.status, 200);
        world.app.draining.store(false, Ordering::Relaxed);
        world.app.close().await;
        assert_eq!(get(&world.app, "/readyz", None, &[]).await.status, 503);
    })
    .await;
}

/// The names that `/metrics` shows, as Prometheus has them.
fn shown(app: &App) -> Vec<String> {
    let calls = &app.exposition.calls;
    calls.call_finished(
        "echo",
        toolgate_contracts::call::Status::Completed,
        None,
        toolgate_contracts::Source::Api,
        0.1,
    );
    calls.denied("not_found");
    app.exposition.answered("GET", "/healthz", 200, 0.1);
    let text = app.exposition.text();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_dashboard_and_the_documents_name_the_numbers_that_there_are() {
    let (app, _folder) = with_settings(&[]).await;
    let shown = shown(&app);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let name = regex::Regex::new(r"\b(?:toolgate|process)_[a-z_]+").unwrap();

    let dashboard: Value = serde_json::from_str(&read("examples/grafana/toolgate.json")).unwrap();
    let mut expressions = Vec::new();
    collect(&dashboard, &mut expressions);
    assert!(expressions.len() >= 8, "{expressions:?}");
    for expression in &expressions {
        for found in name.find_iter(expression) {
            assert!(
                shown.iter().any(|name| name == found.as_str()),
                "{} in {expression} is not counted",
                found.as_str()
            );
        }
    }

    let page = read("docs/operations.md");
    let base = |name: &str| {
        let ends = ["_bucket", "_sum", "_count"];
        ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).to_owned()
    };
    for name in &shown {
        assert!(page.contains(&format!("`{}", base(name))), "docs/operations.md does not describe `{}`", base(name));
    }
    for row in page.lines().filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next()) {
        if row.starts_with("toolgate_") || row.starts_with("process_") {
            assert!(
                shown.iter().any(|name| base(name) == row),
                "docs/operations.md describes `{row}`, which is not counted"
            );
        }
    }
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(["expr", "query"].iter().filter_map(|name| members.get(*name)?.as_str()).map(str::to_owned));
            members.values().for_each(|member| collect(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}
