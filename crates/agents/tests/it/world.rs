//! Providers of each kind, a server on loopback that a test answers for, and a way out to it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolgate_agents::{
    Bounds, Delta, Direct, Kind, Message, ModelError, Provider, ProviderSpec, Reading, Request, Turn,
};
use toolgate_contracts::{Clock, Opening, OpeningId, OpeningSpec, Scheme, TenantId, Timestamp};
use toolgate_egress::{Connector, Openings, Purpose, Settings, Trust, Way};

pub fn spec(kind: Kind) -> ProviderSpec {
    let base_url = (kind == Kind::Xml).then(|| "https://models.example.com/v1".to_owned());
    ProviderSpec {
        name: "provider".parse().unwrap(),
        kind,
        base_url,
        secret: None,
        script: None,
        prices: toolgate_agents::PriceTable::default(),
    }
}

pub fn provider(kind: Kind) -> Provider {
    Provider::open(spec(kind)).unwrap()
}

pub fn request() -> Request {
    Request {
        model: "model".to_owned(),
        messages: vec![Message::User { text: "hello".to_owned() }],
        ..Request::default()
    }
}

pub fn reading(kind: Kind) -> Reading {
    provider(kind).reading(&request(), &Bounds::default()).unwrap()
}

/// What is read from a stream that comes in these pieces, and what was heard meanwhile.
pub fn streamed<'a>(kind: Kind, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Delta>, Result<Turn, ModelError>) {
    let mut heard = Vec::new();
    let mut reading = reading(kind);
    for piece in pieces {
        if let Err(error) = reading.push(piece, &mut |delta| heard.push(delta.clone())) {
            return (heard, Err(error));
        }
    }
    let turn = reading.finish(&mut |delta| heard.push(delta.clone()));
    (heard, turn)
}

pub fn whole(kind: Kind, body: &[u8]) -> Result<Turn, ModelError> {
    reading(kind).whole(body, &mut |_| {})
}

/// What a test answers a request with: bytes are written as they are, and then the connection ends.
type Reply = dyn Fn(usize, String, TcpStream) -> BoxFuture<'static, ()> + Send + Sync;

#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers the first request with the first answer, in the end always with the last.
    pub async fn saying(answers: Vec<Vec<u8>>) -> Self {
        let answers = Arc::new(answers);
        Self::start(move |count, _, mut stream| {
            let answers = Arc::clone(&answers);
            Box::pin(async move {
                let _ = stream.write_all(&answers[count.min(answers.len() - 1)]).await;
            })
        })
        .await
    }

    pub async fn start(
        reply: impl Fn(usize, String, TcpStream) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let (reply, requests): (Arc<Reply>, _) = (Arc::new(reply), Arc::clone(&server.requests));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (reply, requests) = (Arc::clone(&reply), Arc::clone(&requests));
                tokio::spawn(async move {
                    let mut read = Vec::new();
                    while !is_whole(&read) {
                        if stream.read_buf(&mut read).await.is_ok_and(|read| read == 0) {
                            return;
                        }
                    }
                    let text = String::from_utf8(read).unwrap();
                    let count = {
                        let mut requests = requests.lock().unwrap();
                        requests.push(text.clone());
                        requests.len() - 1
                    };
                    reply(count, text, stream).await;
                });
            }
        });
        server
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// The body of the last request.
    pub fn body(&self) -> Value {
        let requests = self.requests();
        let (_, body) = requests.last().unwrap().split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    /// A provider of this kind here, and a way to it.
    pub fn provider(&self, kind: Kind) -> (Provider, Direct) {
        let base_url = Some(format!("http://{}/v1", self.address));
        (Provider::open(ProviderSpec { base_url, ..spec(kind) }).unwrap(), way_to(self.address))
    }
}

fn is_whole(read: &[u8]) -> bool {
    let text = String::from_utf8_lossy(read);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(|length| length.trim().parse()))
        .unwrap_or(Ok(0_usize));
    body.len() >= length.unwrap()
}

pub fn way_to(address: SocketAddr) -> Direct {
    let clock = Clock::manual(Timestamp::from_millis(1_800_000_000_000));
    let mut settings = Settings::system(clock);
    settings.trust = Trust::Roots(Vec::new());
    let spec = OpeningSpec {
        host: address.ip().to_string().parse().unwrap(),
        port: address.port(),
        scheme: Scheme::Http,
        tenants: None,
        tools: None,
        reason: "a test".into(),
        expires_at: None,
    };
    let opening = Opening { id: OpeningId::from_uuid(TenantId::SYSTEM.uuid()), spec };
    let openings = Arc::new(Openings { revision: 1, list: vec![opening] });
    Direct { connector: Connector::new(settings), way: Way::new(Purpose::Model, openings) }
}

pub fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
    for (name, value) in headers {
        head += &[name, ": ", value, "\r\n"].concat();
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

pub const JSON: (&str, &str) = ("content-type", "application/json");
pub const EVENTS: (&str, &str) = ("content-type", "text/event-stream");
