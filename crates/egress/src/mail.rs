//! Mail to people, over the operator's relay.
//!
//! The relay is an entry of the configuration, so its address may be private. lettre writes the message and speaks SMTP;
//! the connection and its TLS are the connector's. The turn to TLS is made here, since what a server sent in clear text
//! before it must not be read as if it had come after. Deliberately absent: HTML, attachments, delivery without a relay.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use lettre::message::Mailbox;
use lettre::transport::smtp;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::extension::ClientId;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use toolgate_contracts::Fault;
use url::{Host, Url};
use zeroize::Zeroizing;

use crate::connector::{Connector, Dialled};
use crate::dial::Protocol;
use crate::error::{EgressError, Rule};
use crate::limits::Limits;
use crate::way::{Endpoint, Openings, Purpose, Way};

/// For one mail, from looking the relay up to its last word.
pub const MAIL_TIMEOUT: Duration = Duration::from_secs(30);
/// All that a relay says for one mail.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const LINE_BYTES_MAX: usize = 2048;
const LINES_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayTls {
    /// Clear text first, then TLS; without TLS nothing is sent.
    Starttls,
    /// TLS from the first byte.
    Implicit,
    /// Never: for a relay on this machine or a trusted network.
    None,
}

/// `smtp://user:password@host:587?tls=starttls`. No `Debug`: it holds a password.
#[derive(Clone)]
pub struct Relay {
    endpoint: Endpoint,
    tls: RelayTls,
    credentials: Option<(String, Zeroizing<String>)>,
}

impl Relay {
    /// Without `tls`, `smtps` and port 465 mean `implicit` and everything else `starttls`.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        // The URL itself is never repeated: it holds a password.
        let wrong = |what: &str| {
            let remedy = "write `smtp://user:password@host:587?tls=starttls`, with `tls=implicit` or `tls=none` if so";
            Fault::invalid(format!("the mail relay {what}"), remedy)
        };
        let url = Url::parse(text).map_err(|_| wrong("is no URL"))?;
        let is_smtps = match url.scheme() {
            "smtp" => false,
            "smtps" => true,
            _ => return Err(wrong("has neither the scheme `smtp` nor `smtps`")),
        };
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err(wrong("has more than a host, a port and `tls`"));
        }
        let mut tls = None;
        for (name, value) in url.query_pairs() {
            tls = match (&*name, &*value, tls) {
                ("tls", "starttls", None) => Some(RelayTls::Starttls),
                ("tls", "implicit", None) => Some(RelayTls::Implicit),
                ("tls", "none", None) => Some(RelayTls::None),
                ("tls", _, None) => return Err(wrong("has a `tls` that is none of starttls, implicit and none")),
                _ => return Err(wrong("has more than a host, a port and `tls`")),
            };
        }
        let is_implicit = is_smtps || url.port() == Some(465);
        let tls = tls.unwrap_or(if is_implicit { RelayTls::Implicit } else { RelayTls::Starttls });
        let port = url.port().unwrap_or(if tls == RelayTls::Implicit { 465 } else { 587 });
        let endpoint = Endpoint::parse(url.host_str().unwrap_or_default(), port)
            .map_err(|error| wrong(&format!("has no host to connect to: {}", error.told())))?;
        let decoded = |part: &str| percent_decode_str(part).decode_utf8().map(std::borrow::Cow::into_owned);
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            (user, Some(password)) if !user.is_empty() => {
                let unreadable = |_| wrong("has a user or password that is no UTF-8");
                let password = Zeroizing::new(decoded(password).map_err(unreadable)?);
                Some((decoded(user).map_err(unreadable)?, password))
            }
            _ => return Err(wrong("has a user or a password without the other")),
        };
        Ok(Self { endpoint, tls, credentials })
    }
}

/// Shown to people: without the password.
impl fmt::Display for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.endpoint.host, self.endpoint.port)
    }
}

#[derive(Clone, Debug)]
pub struct Mail {
    /// `Toolgate <toolgate@example.com>` or the bare address.
    pub from: String,
    pub to: Vec<String>,
    pub cc: Vec<String>,
    pub subject: String,
    pub text: String,
    /// Without brackets: `id@host`. The same for every attempt at one mail, so that a second copy is known as such.
    pub message_id: String,
}

/// Sends mail over one relay. Cheap to clone.
#[derive(Clone)]
pub struct Mailer {
    connector: Connector,
    relay: Arc<Relay>,
    /// Whom mail is from that nobody else signs.
    sender: Arc<str>,
    hello: ClientId,
    limits: Limits,
    timeout: Duration,
}

impl Mailer {
    /// `hello` is the name this server gives itself, best the host of its public URL.
    pub fn new(connector: Connector, relay: Relay, sender: &str, hello: &str) -> Self {
        let is_name = matches!(Host::parse(hello), Ok(Host::Domain(_)));
        let hello = if is_name { ClientId::Domain(hello.to_owned()) } else { ClientId::default() };
        let (relay, sender) = (Arc::new(relay), sender.into());
        Self { connector, relay, sender, hello, limits: Limits::default(), timeout: MAIL_TIMEOUT }
    }

    pub fn sender(&self) -> &str {
        &self.sender
    }

    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Whether a mail can be written at all.
    pub fn check(&self, mail: &Mail) -> Result<(), EgressError> {
        self.message(mail).map(drop)
    }

    pub async fn send(&self, mail: &Mail) -> Result<(), EgressError> {
        let message = self.message(mail)?;
        let envelope = message.envelope().clone();
        let host = &self.relay.endpoint.host;
        let delivered = tokio::time::timeout(self.timeout, async {
            let mut connection = self.connect().await?;
            if let Some((user, password)) = &self.relay.credentials {
                let credentials = Credentials::new(user.clone(), password.to_string());
                let mechanisms = [Mechanism::Plain, Mechanism::Login];
                connection
                    .auth(&mechanisms, &credentials)
                    .await
                    .map_err(|error| self.refused("the sign-in", &error))?;
            }
            connection.send(&envelope, &message.formatted()).await.map_err(|error| {
                // A relay that says no took nothing; one that breaks off may have.
                let refused = self.refused("the mail", &error);
                if error.status().is_some() { refused } else { refused.perhaps_sent() }
            })?;
            // It has the mail; whether it hears our goodbye changes nothing.
            let _ = connection.quit().await;
            Ok(())
        });
        delivered
            .await
            .unwrap_or_else(|_| Err(crate::dial::slow(host, "the mail was not taken", self.timeout).perhaps_sent()))
    }

    fn message(&self, mail: &Mail) -> Result<lettre::Message, EgressError> {
        let Mail { from, to, cc, subject, text, message_id } = mail;
        let wrong =
            |what: &str| EgressError::new(Rule::Header, format!("the mail has {what}"), "correct it; nothing was sent");
        let mailbox = |text: &str| {
            text.parse::<Mailbox>()
                .map_err(|_| wrong("an address that is none: write `name@host` or `Name <name@host>`"))
        };
        if to.is_empty() {
            return Err(wrong("nobody to go to"));
        }
        if [subject, message_id].iter().any(|line| line.chars().any(char::is_control)) {
            return Err(wrong("a line break or another control character in its subject or id"));
        }
        let is_id = message_id.split_once('@').is_some_and(|(id, host)| !id.is_empty() && !host.is_empty())
            && message_id.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>'));
        if !is_id {
            return Err(wrong("an id that is none: write `id@host`"));
        }
        let millis = u64::try_from(self.connector.clock().now().millis()).unwrap_or_default();
        let mut builder = lettre::Message::builder()
            .date(UNIX_EPOCH + Duration::from_millis(millis))
            .from(mailbox(from)?)
            .subject(subject.clone())
            .message_id(Some(format!("<{message_id}>")))
            .header(lettre::message::header::ContentType::TEXT_PLAIN);
        for address in to {
            builder = builder.to(mailbox(address)?);
        }
        for address in cc {
            builder = builder.cc(mailbox(address)?);
        }
        builder.body(text.clone()).map_err(|error| wrong("a text that cannot be sent").with_log(error))
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, EgressError> {
        let Relay { endpoint, tls, credentials: _ } = &*self.relay;
        let way = Way::new(Purpose::Mail, Arc::new(Openings::default()));
        let Dialled { mut stream, address } = self.connector.dial(&way, endpoint, &self.limits).await?;
        let stream = match tls {
            RelayTls::None => Stream::new(Box::new(stream), address, b""),
            RelayTls::Implicit => {
                let stream =
                    self.connector.tls().connect(&endpoint.host, stream, Protocol::Other, &self.limits).await?;
                Stream::new(Box::new(stream), address, b"")
            }
            RelayTls::Starttls => {
                self.turn_to_tls(&mut stream).await?;
                let stream =
                    self.connector.tls().connect(&endpoint.host, stream, Protocol::Other, &self.limits).await?;
                // The relay greeted before; the library waits for a greeting.
                Stream::new(Box::new(stream), address, b"220 ready\r\n")
            }
        };
        AsyncSmtpConnection::connect_with_transport(Box::new(stream), &self.hello)
            .await
            .map_err(|error| self.refused("the connection", &error))
    }

    /// Everything that is said in clear text: a greeting, whether it can, and that we want to.
    async fn turn_to_tls(&self, stream: &mut TcpStream) -> Result<(), EgressError> {
        let host = &self.relay.endpoint.host;
        let lost = |error: io::Error| {
            let told = format!("the mail relay `{host}` broke off before TLS");
            EgressError::new(Rule::Mail, told, "check the relay's host, port and `tls`").of(host).with_log(error)
        };
        let greeting = answer(stream).await.map_err(lost)?;
        stream.write_all(format!("EHLO {}\r\n", self.hello).as_bytes()).await.map_err(lost)?;
        let extensions = answer(stream).await.map_err(lost)?;
        let can =
            extensions.lines().any(|line| line.get(4..).is_some_and(|word| word.eq_ignore_ascii_case("STARTTLS")));
        if !greeting.starts_with("220") || !extensions.starts_with("250") || !can {
            let told = format!("the mail relay `{host}` does not offer STARTTLS");
            let remedy = "use `tls=implicit` if it has it; `tls=none` sends mail and password in clear text";
            return Err(EgressError::new(Rule::Tls, told, remedy).of(host));
        }
        stream.write_all(b"STARTTLS\r\n").await.map_err(lost)?;
        let ready = answer(stream).await.map_err(lost)?;
        if !ready.starts_with("220") {
            let told = format!("the mail relay `{host}` does not begin TLS");
            return Err(EgressError::new(Rule::Tls, told, "ask whoever runs the relay").of(host));
        }
        Ok(())
    }

    fn refused(&self, what: &str, error: &smtp::Error) -> EgressError {
        let host = &self.relay.endpoint.host;
        let code = error.status().map(|code| format!(" ({code})")).unwrap_or_default();
        let told = format!("the mail relay `{host}` did not take {what}{code}");
        let remedy = if error.is_permanent() { "correct what it refuses" } else { "try again later" };
        EgressError::new(Rule::Mail, told, remedy).of(host).with_log(chain(error))
    }
}

fn chain(error: &smtp::Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

/// One answer of a relay, byte by byte: not one byte more is read than belongs to it, so that nothing sent in clear
/// text is left to be taken for what comes under TLS.
async fn answer(stream: &mut TcpStream) -> io::Result<String> {
    let mut whole = String::new();
    for _ in 0..LINES_MAX {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            if line.len() == LINE_BYTES_MAX {
                return Err(io::Error::other("a line is too long"));
            }
            line.push(stream.read_u8().await?);
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let is_last = line.as_bytes().get(3) != Some(&b'-');
        whole.push_str(&line);
        whole.push('\n');
        if is_last {
            return Ok(whole);
        }
    }
    Err(io::Error::other("an answer has too many lines"))
}

trait Io: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Io for T {}

/// A connection that was made and judged by us, in the form in which the library takes one; it ends when too much came.
struct Stream {
    io: Box<dyn Io>,
    peer: SocketAddr,
    /// Read before anything of the connection is.
    first: &'static [u8],
    left: usize,
}

impl Stream {
    fn new(io: Box<dyn Io>, peer: SocketAddr, first: &'static [u8]) -> Self {
        Self { io, peer, first, left: ANSWER_BYTES_MAX }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl AsyncTokioStream for Stream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let (now, later) = self.first.split_at(self.first.len().min(buf.remaining()));
            buf.put_slice(now);
            self.first = later;
            return Poll::Ready(Ok(()));
        }
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::other("the relay says too much")));
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        self.left = self.left.saturating_sub(read);
        polled
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
