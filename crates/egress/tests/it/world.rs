//! Servers that count who comes, a resolver that says what it is told, and a connector between them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use toolgate_contracts::id::OpeningId;
use toolgate_contracts::{Clock, Opening, OpeningSpec, Scheme, TenantId, Timestamp};
use toolgate_egress::{
    Addresses, Bytes, Connector, EgressError, Openings, Purpose, Redirects, Request, Resolve, Response, Settings,
    Trust, Url, Way,
};
use uuid::Uuid;

pub const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Answers from a script: the first time the first answer, in the end always the last.
#[derive(Clone, Default)]
pub struct Names(Arc<Mutex<HashMap<String, Answers>>>);

/// How often it was asked for, and what is said in turn.
type Answers = (usize, Vec<Vec<IpAddr>>);

impl Names {
    pub fn say(&self, name: &str, answers: &[&[&str]]) {
        let answers = answers.iter().map(|answer| answer.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        self.0.lock().unwrap().insert(name.to_owned(), (0, answers));
    }

    pub fn asked(&self, name: &str) -> usize {
        self.0.lock().unwrap().get(name).map_or(0, |(asked, _)| *asked)
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> Addresses<'a> {
        let mut names = self.0.lock().unwrap();
        let answer = names.get_mut(name).map(|(asked, answers)| {
            let answer = answers[(*asked).min(answers.len() - 1)].clone();
            *asked += 1;
            answer
        });
        Box::pin(async move { answer.ok_or_else(|| std::io::Error::other("no such name")) })
    }
}

pub struct World {
    pub connector: Connector,
    pub names: Names,
    pub clock: Clock,
}

impl World {
    pub fn new() -> Self {
        Self::trusting(Trust::Roots(Vec::new()))
    }

    pub fn trusting(trust: Trust) -> Self {
        let (names, clock) = (Names::default(), Clock::manual(NOW));
        let mut settings = Settings::system(clock.clone());
        settings.resolver = Box::new(names.clone());
        settings.trust = trust;
        Self { connector: Connector::new(settings), names, clock }
    }

    pub async fn get(&self, way: &Way, url: &str) -> Result<Response, EgressError> {
        let mut request = Request::get(url.parse().unwrap());
        request.redirects = Redirects::Follow;
        self.connector.send(way, request).await
    }

    /// The whole body of an answer.
    pub async fn text(&self, way: &Way, url: &str) -> Result<String, EgressError> {
        let body = self.get(way, url).await?.bytes_max(1 << 20).await?;
        Ok(String::from_utf8(body.to_vec()).unwrap())
    }
}

pub fn opening(host: &str, port: u16, scheme: Scheme) -> OpeningSpec {
    OpeningSpec {
        host: host.parse().unwrap(),
        port,
        scheme,
        tenants: None,
        tools: None,
        reason: "a test".into(),
        expires_at: None,
    }
}

pub fn opening_id(number: u128) -> OpeningId {
    OpeningId::from_uuid(Uuid::from_u128(number))
}

/// The openings get the ids 1, 2, 3 and so on.
pub fn way(revision: i64, specs: impl IntoIterator<Item = OpeningSpec>) -> Way {
    let list = (1..).zip(specs).map(|(number, spec)| Opening { id: opening_id(number), spec }).collect();
    Way::new(Purpose::Tool, Arc::new(Openings { revision, list }))
}

/// Plain `http` to one port of these hosts.
pub fn open(hosts: &[&str], port: u16) -> Way {
    way(1, hosts.iter().map(|host| opening(host, port, Scheme::Http)))
}

pub fn of_tenant(way: Way, number: u128, slug: &str) -> Way {
    way.for_tenant(TenantId::from_uuid(Uuid::from_u128(number)), slug.parse().unwrap())
}

type Reply = dyn Fn(&str) -> Vec<u8> + Send + Sync;

/// Counts connections, keeps requests, answers by a function of the request, keeps connections open.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub async fn start(at: &str, reply: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let server =
            Self { address: listener.local_addr().unwrap(), connections: Arc::default(), requests: Arc::default() };
        let reply: Arc<Reply> = Arc::new(reply);
        tokio::spawn({
            let server = server.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    server.connections.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(serve(stream, Arc::clone(&reply), Arc::clone(&server.requests)));
                }
            }
        });
        server
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self, path: &str) -> Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

pub async fn serve<S>(mut stream: S, reply: Arc<Reply>, requests: Arc<Mutex<Vec<String>>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(|n| n.trim().parse()))
                .unwrap_or(Ok(0_usize))
                .unwrap();
            if body.len() >= length {
                requests.lock().unwrap().push(text.clone());
                if stream.write_all(&reply(&text)).await.is_err() {
                    return;
                }
                read.clear();
                continue;
            }
        }
        match stream.read_buf(&mut read).await {
            Ok(1..) => {}
            _ => return,
        }
    }
}

pub fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

pub fn redirect(status: u16, location: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

/// The first line's second word.
pub fn path(request: &str) -> &str {
    request.split(' ').nth(1).unwrap_or_default()
}

pub fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
