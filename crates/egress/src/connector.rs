//! The connector: judge, look up, judge again, connect, exchange, follow. Nothing else in the server opens a connection
//! to a place that somebody else chose.
//!
//! Invariant: between judging an address and connecting to it there is no second lookup.
//! Invariant: nothing here reads the environment, so no proxy variable changes where a request goes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use toolgate_contracts::id::OpeningId;
use toolgate_contracts::{Clock, Scheme};
use url::{Host, Url};

use crate::body::{Body, Inflate};
use crate::dial::{self, Protocol, Tls, Trust};
use crate::error::{EgressError, Rule};
use crate::limits::{HEADER_BYTES_MAX, HOPS_MAX, Limits, UPLOAD_BYTES_PER_S};
use crate::pool::{Connection, Driver, Key, Pool};
use crate::request::{Effect, Packing, Redirects, Request, redirected};
use crate::resolve::{Resolve, SystemResolver};
use crate::target::{Permitted, Target};
use crate::way::{Endpoint, Way};

/// Open at once, idle ones included.
const CONNECTIONS_MAX: usize = 1024;
const HEADERS_MAX: usize = 256;
const USER_AGENT: &str = concat!("toolgate/", env!("CARGO_PKG_VERSION"));

pub struct Settings {
    pub clock: Clock,
    /// Where this server listens; see also [`Connector::listen`].
    pub listening: Vec<SocketAddr>,
    pub resolver: Box<dyn Resolve>,
    pub trust: Trust,
}

impl Settings {
    pub fn system(clock: Clock) -> Self {
        Self { clock, listening: Vec::new(), resolver: Box::new(SystemResolver::default()), trust: Trust::System }
    }
}

/// The one way out. Cheap to clone.
#[derive(Clone)]
pub struct Connector(Arc<Inner>);

struct Inner {
    clock: Clock,
    listening: ArcSwap<Vec<SocketAddr>>,
    resolver: Box<dyn Resolve>,
    tls: Tls,
    pool: Pool,
    connections: Arc<Semaphore>,
}

/// An answer whose body is still to be read.
pub struct Response {
    pub status: StatusCode,
    /// Without `Content-Encoding` and `Content-Length` where the body is inflated on the way.
    pub headers: HeaderMap,
    /// Where the answer came from, after all redirects.
    pub url: Url,
    /// Redirects that were followed.
    pub hops: u8,
    /// The openings without which a hop would have been refused; each is to be audited.
    pub openings: Vec<OpeningId>,
    body: Body,
}

impl Response {
    /// The next piece of the body, or `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, EgressError> {
        self.body.chunk().await
    }

    /// The whole body, refused when it is longer than `max`.
    pub async fn bytes_max(mut self, max: usize) -> Result<Bytes, EgressError> {
        let mut whole = Vec::new();
        while let Some(piece) = self.chunk().await? {
            if whole.len() + piece.len() > max {
                let told = format!("`{}`: the answer has more than {max} bytes", self.body.host);
                return Err(EgressError::new(Rule::TooLarge, told, "ask for less").of(&self.body.host).perhaps_sent());
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.into())
    }
}

/// A connection that was judged and checked, for protocols other than HTTP.
pub struct Dialled {
    pub stream: TcpStream,
    pub address: SocketAddr,
}

impl Connector {
    pub fn new(settings: Settings) -> Self {
        let Settings { clock, listening, resolver, trust } = settings;
        Self(Arc::new(Inner {
            clock,
            listening: ArcSwap::from_pointee(listening),
            resolver,
            tls: Tls::new(trust),
            pool: Pool::default(),
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        }))
    }

    /// Where this server listens, known once it does: nothing that goes out may come in there.
    pub fn listen(&self, addresses: Vec<SocketAddr>) {
        self.0.listening.store(Arc::new(addresses));
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub(crate) fn tls(&self) -> &Tls {
        &self.0.tls
    }

    /// Judges where a request would go, without looking anything up or connecting: for a card, a form, a webhook's URL.
    pub fn judge(&self, way: &Way, url: &Url) -> Result<(), EgressError> {
        let target = Target::of(url)?;
        let now = self.0.clock.now();
        target.judge_name(way, now)?;
        match target.literal() {
            Some(address) => target.judge(way, &[address], &self.0.listening.load(), now).map(drop),
            None => Ok(()),
        }
    }

    /// Sends a request and follows where it is told to. The answer's body has the same deadline.
    pub async fn send(&self, way: &Way, request: Request) -> Result<Response, EgressError> {
        let mut trip = Trip { openings: Vec::new(), sent: AtomicBool::new(false) };
        let deadline = Instant::now() + request.timeout;
        let timeout = request.timeout;
        let host = request.url.host_str().unwrap_or_default().to_owned();
        let answered = tokio::time::timeout_at(deadline, self.follow(way, request, deadline, &mut trip)).await;
        let result = answered.unwrap_or_else(|_| {
            let told = format!("`{host}`: no answer within {} s", timeout.as_secs_f32());
            Err(EgressError::new(Rule::Timeout, told, "try again later, or allow more time").of(&host))
        });
        result.map_err(|error| {
            let error = if trip.sent.load(Ordering::Relaxed) { error.perhaps_sent() } else { error };
            tracing::debug!(
                purpose = way.purpose.as_str(),
                rule = error.rule().as_str(),
                host = error.host(),
                "not sent or not answered: {}; {}",
                error.told(),
                error.logged().unwrap_or_default()
            );
            error.with_openings(trip.openings)
        })
    }

    /// Connects to an endpoint of the operator's configuration. Its address may be private; metadata services and our own
    /// ports are closed to it like to everything else.
    pub async fn dial(&self, way: &Way, endpoint: &Endpoint, limits: &Limits) -> Result<Dialled, EgressError> {
        let target = Target { scheme: Scheme::Https, host: endpoint.host.clone(), port: endpoint.port };
        let way = way.clone().to_endpoint(endpoint.clone());
        let permitted = self.admit(&way, &target, limits).await?;
        let (stream, Permitted { address, opening: _ }) = dial::tcp(&target.host, &permitted, limits).await?;
        Ok(Dialled { stream, address })
    }

    async fn follow(
        &self,
        way: &Way,
        mut request: Request,
        deadline: Instant,
        trip: &mut Trip,
    ) -> Result<Response, EgressError> {
        request.check()?;
        let mut hops = 0;
        loop {
            let target = Target::of(&request.url)?;
            let (answer, connection) = self.exchange(way, &target, &request, trip).await?;
            let next = match request.redirects {
                Redirects::Follow => redirected(&request, &target, answer.status(), answer.headers())?,
                Redirects::Return => None,
            };
            let Some(next) = next else {
                return answered(&self.0.pool, request, target, answer, connection, deadline, hops, &trip.openings);
            };
            if hops == HOPS_MAX {
                let told = format!("`{target}` redirects on after {HOPS_MAX} redirects");
                return Err(EgressError::new(Rule::Redirects, told, "name the final URL").of(&target));
            }
            hops += 1;
            request = next;
        }
    }

    /// Everything between a name and the addresses that may be connected to.
    async fn admit(&self, way: &Way, target: &Target, limits: &Limits) -> Result<Vec<Permitted>, EgressError> {
        target.judge_name(way, self.0.clock.now())?;
        let addresses = match (&target.host, target.literal()) {
            (_, Some(address)) => vec![address],
            (Host::Domain(name), _) => self.look_up(target, name, limits.connect).await?,
            _ => Vec::new(),
        };
        if addresses.is_empty() {
            return Err(unknown(target));
        }
        target.judge(way, &addresses, &self.0.listening.load(), self.0.clock.now())
    }

    async fn look_up(
        &self,
        target: &Target,
        name: &str,
        timeout: Duration,
    ) -> Result<Vec<std::net::IpAddr>, EgressError> {
        match tokio::time::timeout(timeout, self.0.resolver.resolve(name)).await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) => Err(unknown(target).with_log(error)),
            Err(_) => Err(dial::slow(&target.host, "its name was not resolved", timeout)),
        }
    }

    /// One request and the head of its answer.
    async fn exchange(
        &self,
        way: &Way,
        target: &Target,
        request: &Request,
        trip: &mut Trip,
    ) -> Result<(hyper::Response<Incoming>, (Key, Connection)), EgressError> {
        let permitted = self.admit(way, target, &request.limits).await?;
        let key = |address| Key {
            tenant: way.tenant.as_ref().map(|(id, _)| *id),
            target: target.clone(),
            address,
            revision: way.openings.revision,
        };
        // A write goes out on a connection of its own: on one that had been closed meanwhile, nobody could say whether
        // it was acted on.
        if request.effect == Effect::Read {
            let kept = permitted.iter().find_map(|known| {
                let key = key(known.address);
                self.0.pool.take(&key).map(|connection| (key, connection, known.opening))
            });
            if let Some((key, mut connection, opening)) = kept {
                trip.note(opening);
                match ask(&mut connection, target, request, trip).await {
                    Ok(answer) => return Ok((answer, (key, connection))),
                    // Most likely it had been closed; reading once more on a new one harms nobody.
                    Err(error) if error.rule() == Rule::Reset => {}
                    Err(error) => return Err(error),
                }
            }
        }
        if self.0.connections.available_permits() == 0 {
            // One that only waits makes room for one that is wanted.
            self.0.pool.give_one_up();
        }
        let permit = tokio::time::timeout(request.limits.connect, Arc::clone(&self.0.connections).acquire_owned());
        let Ok(Ok(permit)) = permit.await else {
            let told = format!("more than {CONNECTIONS_MAX} connections are open");
            return Err(EgressError::new(Rule::Connect, told, "try again later").of(target));
        };
        let (stream, Permitted { address, opening }) = dial::tcp(&target.host, &permitted, &request.limits).await?;
        trip.note(opening);
        let (sender, driver) = match target.scheme {
            Scheme::Http => Self::handshake(target, stream).await?,
            Scheme::Https => {
                let stream = self.0.tls.connect(&target.host, stream, Protocol::Http, &request.limits).await?;
                Self::handshake(target, stream).await?
            }
        };
        let mut connection = Connection { sender, driver, _permit: permit };
        let answer = ask(&mut connection, target, request, trip).await?;
        Ok((answer, (key(address), connection)))
    }

    async fn handshake<S>(target: &Target, stream: S) -> Result<(http1::SendRequest<Full<Bytes>>, Driver), EgressError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let made = http1::Builder::new()
            .max_headers(HEADERS_MAX)
            .max_header_size(HEADER_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, driver) = made.map_err(|error| lost(target).with_log(error))?;
        Ok((sender, Driver::new(async move { drop(driver.await) })))
    }
}

/// What happened on the way, whatever its end.
struct Trip {
    openings: Vec<OpeningId>,
    sent: AtomicBool,
}

impl Trip {
    fn note(&mut self, opening: Option<OpeningId>) {
        self.openings.extend(opening.filter(|opening| !self.openings.contains(opening)));
    }
}

async fn ask(
    connection: &mut Connection,
    target: &Target,
    request: &Request,
    trip: &Trip,
) -> Result<hyper::Response<Incoming>, EgressError> {
    let outgoing = outgoing(target, request)?;
    let upload = Duration::from_secs(request.body.len() as u64 / UPLOAD_BYTES_PER_S);
    let within = request.limits.headers + upload;
    trip.sent.store(true, Ordering::Relaxed);
    let answer = connection.sender.send_request(outgoing);
    match tokio::time::timeout(within, connection.driver.bring(answer)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if error.is_parse_too_large() => {
            let told = format!("`{target}` answers with more headers than are read");
            Err(EgressError::new(Rule::TooLarge, told, "ask the host's owner").of(target))
        }
        Ok(Err(error)) => Err(lost(target).with_log(error)),
        Err(_) => Err(dial::slow(&target.host, "no answer", within)),
    }
}

fn outgoing(target: &Target, request: &Request) -> Result<hyper::Request<Full<Bytes>>, EgressError> {
    let wrong = |error: hyper::http::Error| {
        EgressError::new(Rule::Url, "the URL cannot be sent", "encode its special characters")
            .of(target)
            .with_log(error)
    };
    let path = match request.url.query() {
        Some(query) => format!("{}?{query}", request.url.path()),
        None => request.url.path().to_owned(),
    };
    let uri = Uri::builder().path_and_query(path).build().map_err(wrong)?;
    let mut outgoing = hyper::Request::builder()
        .method(request.method.clone())
        .uri(uri)
        .header(header::HOST, target.authority())
        .body(Full::new(request.body.clone()))
        .map_err(wrong)?;
    let headers = outgoing.headers_mut();
    headers.extend(request.headers.clone());
    let packing = match request.packing {
        Packing::Gzip => HeaderValue::from_static("gzip"),
        Packing::Plain => HeaderValue::from_static("identity"),
    };
    headers.insert(header::ACCEPT_ENCODING, packing);
    headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
    Ok(outgoing)
}

#[expect(clippy::too_many_arguments, reason = "the parts of one answer, put together in one place")]
fn answered(
    pool: &Pool,
    request: Request,
    target: Target,
    answer: hyper::Response<Incoming>,
    (key, connection): (Key, Connection),
    deadline: Instant,
    hops: u8,
    openings: &[OpeningId],
) -> Result<Response, EgressError> {
    let (parts, incoming) = answer.into_parts();
    let mut headers = parts.headers;
    let announced = incoming.size_hint().lower();
    if announced > request.limits.wire_bytes_max {
        let told =
            format!("`{target}`: the answer has {announced} bytes, {} at most are read", request.limits.wire_bytes_max);
        return Err(EgressError::new(Rule::TooLarge, told, "ask for less").of(&target));
    }
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    let inflate = match (encodings.next().map(HeaderValue::as_bytes), encodings.next()) {
        (None, _) => None,
        (Some(encoding), None) if encoding.eq_ignore_ascii_case(b"identity") || encoding.is_empty() => None,
        (Some(encoding), None)
            if encoding.eq_ignore_ascii_case(b"gzip") || encoding.eq_ignore_ascii_case(b"x-gzip") =>
        {
            Some(Inflate::gzip())
        }
        _ => {
            let told = format!("`{target}` answers in an encoding that was not asked for");
            let remedy = "only gzip is read, and only once around";
            return Err(EgressError::new(Rule::Encoding, told, remedy).of(&target));
        }
    };
    if inflate.is_some() {
        headers.remove(header::CONTENT_ENCODING);
        headers.remove(header::CONTENT_LENGTH);
    }
    Ok(Response {
        status: parts.status,
        headers,
        url: request.url,
        hops,
        openings: openings.to_vec(),
        body: Body {
            incoming,
            inflate,
            kept: Some((pool.clone(), key, connection)),
            host: target.host,
            limits: request.limits,
            deadline,
            wire_bytes: 0,
            waited: Duration::ZERO,
            failed: None,
        },
    })
}

fn unknown(target: &Target) -> EgressError {
    EgressError::new(Rule::Dns, format!("`{target}` has no address"), "check the host's name").of(target)
}

fn lost(target: &Target) -> EgressError {
    EgressError::new(Rule::Reset, format!("`{target}` broke the connection off"), "try again later").of(target)
}
