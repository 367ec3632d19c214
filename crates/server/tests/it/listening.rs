//! Slow strangers: connections that send half of something and wait. On loopback, with short limits.

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use toolgate_server::listen::{Limits, listen};
use tower::ServiceExt as _;

use crate::world::{As, answer, every_world, send};

const SHORT: Limits = Limits {
    connections: 1024,
    header: Duration::from_millis(400),
    idle: Duration::from_millis(400),
    body: Duration::from_millis(400),
    stall: Duration::from_millis(400),
    drain: Duration::from_millis(800),
};

struct Served {
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

async fn serve(limits: Limits) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/echo", post(|body: Bytes| async { body }))
        .route("/large", get(|| async { vec![b'x'; 64 * 1024 * 1024] }))
        .route("/slow", get(|| async { tokio::time::sleep(Duration::from_millis(600)).await }));
    let (stop, stopped) = oneshot::channel();
    let ended = tokio::spawn(listen(listener, router, limits, None, async {
        let _ = stopped.await;
    }));
    Served { address, stop, ended }
}

impl Served {
    async fn begin(&self, bytes: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        stream
    }

    async fn healthy(&self) -> String {
        rest(self.begin("GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await).await
    }
}

/// What comes until the server closes; a connection that stays open fails the test.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut bytes)).await;
    // A reset ends a connection as well as a word does.
    let _ = read.expect("the server closes the connection");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn half_a_header_neither_stops_others_nor_stays() {
    let served = serve(SHORT).await;
    let mut waiting = Vec::new();
    for number in 0..200 {
        let half = ["GET /healthz HTTP/1.1\r\nhost: loc", "", "PRI * HT", "G"][number % 4];
        waiting.push(served.begin(half).await);
    }
    let asked = Instant::now();
    assert!(served.healthy().await.starts_with("HTTP/1.1 200"));
    assert!(asked.elapsed() < Duration::from_millis(300), "{:?}", asked.elapsed());
    for stream in waiting {
        assert!(!rest(stream).await.starts_with("HTTP/1.1 200"));
    }
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn at_the_bound_others_wait_until_the_slow_are_closed() {
    let served = serve(Limits { connections: 20, ..SHORT }).await;
    let mut waiting = Vec::new();
    for _ in 0..40 {
        waiting.push(served.begin("GET /heal").await);
    }
    let asked = Instant::now();
    assert!(served.healthy().await.starts_with("HTTP/1.1 200"));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn a_body_must_come_in_time_however_it_is_chopped() {
    let served = serve(SHORT).await;
    let post = "POST /echo HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 1000\r\n\r\n";
    let stream = served.begin(post).await;
    let (mut reading, mut writing) = stream.into_split();
    let dripping = tokio::spawn(async move {
        while writing.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let began = Instant::now();
    let mut answer = [0; 12];
    tokio::time::timeout(Duration::from_secs(3), reading.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 400");
    assert!(began.elapsed() >= Duration::from_millis(300));
    drop(reading);
    tokio::time::timeout(Duration::from_secs(3), dripping).await.expect("the connection is closed").unwrap();
}

#[tokio::test]
async fn who_does_not_take_the_answer_is_let_go() {
    let served = serve(SHORT).await;
    let mut stream = served.begin("GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let mut taken = 0;
    let mut buffer = vec![0; 1024 * 1024];
    while let Ok(Ok(read @ 1..)) = tokio::time::timeout(Duration::from_secs(3), stream.read(&mut buffer)).await {
        taken += read;
    }
    assert!(taken < 64 * 1024 * 1024, "the answer was cut off, not kept for whoever may come");
}

#[tokio::test]
async fn a_long_request_is_not_idle_and_a_stop_lets_it_finish() {
    let served = serve(SHORT).await;
    let slow = served.begin("GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let _silent = served.begin("").await;
    let answer = tokio::spawn(rest(slow));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let stopped = Instant::now();
    served.stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(2), served.ended).await.expect("it ends").unwrap();
    assert!(stopped.elapsed() < Duration::from_millis(1500), "{:?}", stopped.elapsed());
    assert!(answer.await.unwrap().starts_with("HTTP/1.1 200"));
    assert!(TcpStream::connect(served.address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn answers_of_the_api_are_stored_nowhere_on_their_way() {
    every_world(async |world| {
        let outer = toolgate_server::outer(&world.app);
        for path in ["/api/v1/tools", "/api/v1/nothing", "/healthz"] {
            let answered = send(outer.clone(), &As::Owner, "GET", path, serde_json::Value::Null).await;
            assert_eq!(answered.headers["cache-control"], "no-store", "{path}");
        }
        let page = axum::http::Request::get("/docs/api").header("host", "localhost");
        let page = page.body(axum::body::Body::empty()).unwrap();
        assert_eq!(answer(outer.oneshot(page).await.unwrap()).await.headers["cache-control"], "no-cache");
    })
    .await;
}
