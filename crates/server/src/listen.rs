//! The listening socket: how many connections there may be, and how long each may take its time.
//!
//! Whoever connects is a stranger until a request is read. So a connection has a limit for every way of being slow:
//! sending a header, sending a body, taking an answer, doing nothing; with TLS also shaking hands.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use crate::proxies::Peer;

/// Open connections. At the bound no more are accepted until one ends; those that come wait in the kernel's queue, and
/// the limits on time see to it that they do not wait for ever.
pub const CONNECTIONS_MAX: usize = 1024;
/// Files that are not connections: the database's, the log's, those of calls.
const FILES_KEPT: usize = 256;
/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 128;
/// What a request's header may hold.
const HEADER_BYTES_MAX: u32 = 64 * 1024;
/// After a connection could not be accepted, because of too many open files for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A connection without a request has this long when the server ends.
const FAREWELL: Duration = Duration::from_millis(500);

/// How long a connection may take. A test sets them short.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub connections: usize,
    /// For a whole header, since the connection was made or the answer before was given; before it, for the handshake.
    pub header: Duration,
    /// Without any request under way.
    pub idle: Duration,
    /// For a whole body.
    pub body: Duration,
    /// While a peer takes nothing of its answer.
    pub stall: Duration,
    /// For open requests after the stop; the contract says that SIGTERM ends within ten seconds in all.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_MAX,
            header: Duration::from_secs(10),
            idle: Duration::from_mins(1),
            body: Duration::from_mins(1),
            stall: Duration::from_secs(30),
            drain: Duration::from_secs(8),
        }
    }
}

/// Serves until `stop`, then lets open requests finish for as long as the limits allow.
pub async fn listen(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    tls: Option<TlsAcceptor>,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let most = connections(limits.connections);
    let (stopping, stopped) = watch::channel(false);
    // Dropped with what is still open in it.
    let mut open = JoinSet::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(_) = open.join_next() => {}
            accepted = listener.accept(), if open.len() < most => match accepted {
                Ok((stream, peer)) => {
                    open.spawn(begin(stream, Peer(peer), router.clone(), limits, tls.clone(), stopped.clone()));
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let _ = stopping.send(true);
    let drained = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain, drained).await.is_err() {
        tracing::warn!("{} connections did not end in time", open.len());
    }
}

/// As many as wanted, but not so many that no file could be opened. Raises the limit of the process as far as it may.
fn connections(wanted: usize) -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!("the limit of open files stays: {error}");
        }
    }
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    let room = files.map_or(wanted, |files| files.saturating_sub(FILES_KEPT).max(files / 2));
    wanted.min(room).max(1)
}

/// The peer was gone before it was accepted; the next one may be there.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// A connection counts as one from here on, whatever it has said so far.
async fn begin(
    stream: TcpStream,
    peer: Peer,
    router: Router,
    limits: Limits,
    tls: Option<TlsAcceptor>,
    mut stopped: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return connection(stream, peer, router, limits, stopped).await };
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(limits.header, tls.accept(stream)) => shaken,
        _ = stopped.wait_for(|stopped| *stopped) => return,
    };
    match shaken {
        Ok(Ok(stream)) => connection(stream, peer, router, limits, stopped).await,
        Ok(Err(error)) => tracing::debug!("a handshake failed: {error}"),
        Err(_) => tracing::debug!("a handshake did not end in time"),
    }
}

async fn connection<S>(stream: S, peer: Peer, router: Router, limits: Limits, mut stopped: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header).max_buf_size(HEADER_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(limits.stall)
        .keep_alive_timeout(limits.header);
    let requests = Requests::default();
    let counted = requests.clone();
    let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
        let guard = counted.begin();
        let router = router.clone();
        async move {
            let mut request = request.map(|body| Body::new(Timely::new(body, limits.body)));
            request.extensions_mut().insert(peer);
            let Ok(response) = router.oneshot(request).await;
            // Under way until the last of its answer was taken.
            let held = response.map(|body| {
                Body::new(body.map_err(move |error| {
                    let _ = &guard;
                    error
                }))
            });
            Ok::<Response<Body>, Infallible>(held)
        }
    });
    let serving = builder.serve_connection(TokioIo::new(Unstalled::new(stream, limits.stall)), service);
    tokio::pin!(serving);
    // The version of the protocol is told from the first bytes, for which the protocols' own limits do not hold yet.
    let mut patience = limits.header;
    let (mut seen, mut since) = (requests.begun(), Instant::now());
    loop {
        tokio::select! {
            ended = &mut serving => {
                if let Err(error) = ended {
                    tracing::debug!("a connection ended: {error}");
                }
                return;
            }
            _ = stopped.wait_for(|stopped| *stopped), if patience != FAREWELL => {
                serving.as_mut().graceful_shutdown();
                (patience, since) = (FAREWELL, Instant::now());
            }
            () = tokio::time::sleep_until(since + patience) => {
                let begun = requests.begun();
                if requests.under_way() == 0 && begun == seen {
                    tracing::debug!("a connection without a request is closed");
                    return;
                }
                if patience != FAREWELL {
                    patience = limits.idle;
                }
                (seen, since) = (begun, Instant::now());
            }
        }
    }
}

/// The requests of one connection.
#[derive(Clone, Default)]
struct Requests(Arc<Counts>);

#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    under_way: AtomicUsize,
}

impl Requests {
    fn begin(&self) -> UnderWay {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    fn begun(&self) -> usize {
        self.0.begun.load(Ordering::Relaxed)
    }

    fn under_way(&self) -> usize {
        self.0.under_way.load(Ordering::Relaxed)
    }
}

struct UnderWay(Requests);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body that must be there in time, however it is chopped.
struct Timely<B> {
    body: B,
    until: Pin<Box<Sleep>>,
}

impl<B> Timely<B> {
    fn new(body: B, limit: Duration) -> Self {
        Self { body, until: Box::pin(tokio::time::sleep(limit)) }
    }
}

impl<B> HttpBody for Timely<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        self.until.as_mut().poll(context).map(|()| Some(Err("the body did not come in time".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that fails when its peer takes nothing for too long.
struct Unstalled<S> {
    stream: S,
    limit: Duration,
    /// Set while something waits to be written.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Unstalled<S> {
    fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, until: None }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.limit)));
        until.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, to)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, shut)
    }
}
