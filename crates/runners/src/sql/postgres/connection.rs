//! A connection from its first byte to the moment it may be used, and again after each use.
//!
//! Invariant: whoever we are there is no superuser, in no role that reads or writes files of the server or starts its
//! programs, and cannot become one. Asked at every connection, since rights change.
//! Invariant: what comes in is counted, and a statement that answers more than it may loses its connection.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{CancelToken, Client, Config};
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_store::address::PostgresAddress;
use zeroize::Zeroizing;

use super::super::unavailable;
use super::errors;

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// An address that does not answer is given up after this; a name may have several.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(5);
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
const PASSWORD_BYTES_MAX: u64 = 4096;
/// What the server may say before the first statement.
const GREETING_BYTES_MAX: usize = 1024 * 1024;

/// Everything that a statement may have left in the session. Without what the driver keeps prepared there.
const CLEAR: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *;
    SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";

/// Who we are, and whether that, or anything we may become, is more than may be.
const ROLES: &str = "SELECT session_user::text,
    (SELECT string_agg(DISTINCT CASE
            WHEN rolsuper THEN 'a superuser'
            WHEN rolcreaterole THEN 'able to give itself roles (CREATEROLE)'
            ELSE 'in ' || rolname END, ' and ')
        FROM pg_catalog.pg_roles
        WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER') AND (rolsuper OR rolcreaterole OR rolname IN
            ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')))";

pub(super) struct Connector {
    address: PostgresAddress,
    password_file: Option<PathBuf>,
    /// What every session is set to, anew after each use.
    settings: String,
}

pub(super) struct Session {
    pub client: Client,
    pub meter: Meter,
    settings: String,
    task: JoinHandle<()>,
}

impl Drop for Session {
    /// The socket is closed at once, whatever the server still has to say.
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Session {
    /// Brings it back to how it was when it was opened.
    pub async fn clear(&self) -> Result<(), tokio_postgres::Error> {
        self.meter.allow(GREETING_BYTES_MAX);
        self.client.batch_execute(CLEAR).await?;
        self.client.batch_execute(&self.settings).await
    }

    pub fn canceller(&self, connector: Arc<Connector>) -> Canceller {
        Canceller { token: self.client.cancel_token(), connector, is_needed: true }
    }
}

impl Connector {
    pub fn new(mut address: PostgresAddress, password_file: Option<PathBuf>, timeout: Duration) -> Self {
        address.config.application_name("toolgate");
        let timeout_ms = timeout.as_millis();
        let settings = format!(
            "SET default_transaction_read_only = on; SET statement_timeout = {timeout_ms};
            SET lock_timeout = {timeout_ms}; SET idle_in_transaction_session_timeout = '60s';
            SET client_min_messages = warning"
        );
        Self { address, password_file, settings }
    }

    pub async fn connect(&self) -> Result<Session, ToolError> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.connect_now()).await;
        connected.unwrap_or_else(|_| Err(network("connect", "the database does not answer; try again later")))
    }

    async fn connect_now(&self) -> Result<Session, ToolError> {
        let mut config = self.address.config.clone();
        if let Some(file) = &self.password_file {
            config.password(self.password(file).await?.trim_end_matches(['\r', '\n']));
        }
        let Reached { stream, host } = self.reach(&mut config).await?;
        let meter = Meter::default();
        meter.allow(GREETING_BYTES_MAX);
        let stream = Metered { stream, meter: meter.clone() };
        let tls = MakeTlsConnect::<Metered>::make_tls_connect(&mut self.address.tls.clone(), &host)
            .map_err(|error| network("tls", format!("the database's name cannot be checked: {error}")))?;
        let connected = config.connect_raw(stream, tls).await;
        let (client, connection) = connected.map_err(|error| errors::of_connecting(&error))?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = errors::whole(&error), "a connection to an operator's database ended");
            }
        });
        let session = Session { client, meter, settings: self.settings.clone(), task };
        session.check_role().await?;
        session.client.batch_execute(&self.settings).await.map_err(|error| errors::of_connecting(&error))?;
        Ok(session)
    }

    /// Read anew for each connection: passwords change.
    async fn password(&self, file: &Path) -> Result<Zeroizing<String>, ToolError> {
        let file = file.to_path_buf();
        let read = tokio::task::spawn_blocking(move || {
            use std::io::Read as _;
            let mut text = Zeroizing::new(String::new());
            std::fs::File::open(file)?.take(PASSWORD_BYTES_MAX).read_to_string(&mut text)?;
            io::Result::Ok(text)
        });
        match read.await {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(error)) => Err(unavailable(format!("its `password_file` cannot be read: {}", error.kind()))),
            Err(_) => Err(unavailable("its `password_file` cannot be read")),
        }
    }

    /// The first of its addresses that answers.
    async fn reach(&self, config: &mut Config) -> Result<Reached, ToolError> {
        let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        let mut refused = None;
        let mut reached = None;
        for index in 0..hosts.len().max(addresses.len()) {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            let host = match (hosts.get(index), addresses.get(index)) {
                (Some(Host::Tcp(name)), _) => name.clone(),
                (_, Some(address)) => address.to_string(),
                _ => String::new(),
            };
            let stream = async {
                Ok::<Box<dyn Stream>, io::Error>(match (hosts.get(index), addresses.get(index)) {
                    (_, Some(address)) => Box::new(tcp(TcpStream::connect((*address, port)).await?)?),
                    (Some(Host::Unix(folder)), None) => {
                        Box::new(UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await?)
                    }
                    (Some(Host::Tcp(name)), None) => Box::new(tcp(TcpStream::connect((name.as_str(), port)).await?)?),
                    (None, None) => return Err(io::ErrorKind::AddrNotAvailable.into()),
                })
            };
            match tokio::time::timeout(SOCKET_TIMEOUT, stream).await {
                Ok(Ok(stream)) => {
                    reached = Some((stream, host, matches!(hosts.get(index), Some(Host::Unix(_)))));
                    break;
                }
                Ok(Err(error)) => refused = Some(error.kind()),
                Err(_) => refused = Some(io::ErrorKind::TimedOut),
            }
        }
        let Some((stream, host, is_local)) = reached else {
            let why = refused.map_or_else(|| "no address".to_owned(), |kind| kind.to_string());
            return Err(network("connect", format!("the database cannot be reached: {why}; try again later")));
        };
        if is_local {
            config.ssl_mode(SslMode::Disable);
        }
        Ok(Reached { stream, host })
    }
}

fn tcp(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Session {
    async fn check_role(&self) -> Result<(), ToolError> {
        let row = self.client.query_one(ROLES, &[]).await.map_err(|error| errors::of_connecting(&error))?;
        let (name, too_much): (String, Option<String>) = (row.get(0), row.get(1));
        match too_much {
            None => Ok(()),
            Some(what) => Err(unavailable(format!(
                "its role `{name}` is {what}, and so could leave the database; the operator gives the entry a role that \
                 may do only what its tools need"
            ))),
        }
    }
}

/// Stops the statement of a session, also where nobody waits for it any more.
pub(super) struct Canceller {
    token: CancelToken,
    connector: Arc<Connector>,
    pub is_needed: bool,
}

impl Canceller {
    /// Asks the server, which hears it on a connection of its own. A server that does not hear keeps the time itself.
    pub async fn cancel(&mut self) {
        self.is_needed = false;
        cancel(self.token.clone(), Arc::clone(&self.connector)).await;
    }
}

impl Drop for Canceller {
    fn drop(&mut self) {
        if self.is_needed
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(cancel(self.token.clone(), Arc::clone(&self.connector)));
        }
    }
}

async fn cancel(token: CancelToken, connector: Arc<Connector>) {
    let asked = async {
        let Reached { stream, host } = connector.reach(&mut connector.address.config.clone()).await.ok()?;
        let stream = Metered { stream, meter: Meter::allowing(GREETING_BYTES_MAX) };
        let tls = MakeTlsConnect::<Metered>::make_tls_connect(&mut connector.address.tls.clone(), &host).ok()?;
        token.cancel_query_raw(stream, tls).await.ok()
    };
    if !matches!(tokio::time::timeout(CANCEL_TIMEOUT, asked).await, Ok(Some(()))) {
        tracing::warn!("a statement in an operator's database could not be cancelled; its `statement_timeout` ends it");
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

struct Reached {
    stream: Box<dyn Stream>,
    /// The name that the server's certificate must have.
    host: String,
}

/// How much may still come in.
#[derive(Clone, Default)]
pub(super) struct Meter(Arc<AtomicUsize>);

impl Meter {
    fn allowing(bytes: usize) -> Self {
        let meter = Self::default();
        meter.allow(bytes);
        meter
    }

    pub fn allow(&self, bytes: usize) {
        self.0.store(bytes, Ordering::SeqCst);
    }

    pub fn is_exhausted(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        // Nobody else counts: there is one reader of a socket.
        let left = self.0.load(Ordering::SeqCst).saturating_sub(bytes);
        self.0.store(left, Ordering::SeqCst);
        if left == 0 { Err(io::Error::other("the server sent more than it may")) } else { Ok(()) }
    }
}

struct Metered {
    stream: Box<dyn Stream>,
    meter: Meter,
}

impl AsyncRead for Metered {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        Poll::Ready(self.meter.count(buf.filled().len() - before))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

pub(super) fn network(reason: &str, message: impl Into<String>) -> ToolError {
    ToolError::because(ErrorCode::NetworkError, reason, message)
}
