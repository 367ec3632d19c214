//! From judged addresses to a stream: connect to exactly one of them, see that it is the one, then TLS for the name.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

use crate::error::{EgressError, Rule};
use crate::limits::Limits;
use crate::target::Permitted;

/// Whose certificates are believed.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The authorities that this machine trusts.
    System,
    /// These authorities and no other.
    Roots(Vec<CertificateDer<'static>>),
}

/// Made at the first use: a machine without certificates can still do everything else.
pub(crate) struct Tls {
    trust: Trust,
    config: OnceLock<Result<Configs, String>>,
}

#[derive(Clone)]
struct Configs {
    http: Arc<ClientConfig>,
    other: Arc<ClientConfig>,
}

/// What is spoken inside, as TLS announces it; a mail relay may refuse to hear of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Other,
}

impl Tls {
    pub fn new(trust: Trust) -> Self {
        Self { trust, config: OnceLock::new() }
    }

    fn config(&self) -> Result<Configs, EgressError> {
        self.config.get_or_init(|| configured(&self.trust).map_err(|error| error.to_string())).clone().map_err(
            |error| {
                let remedy = "the operator installs the system's certificates (`ca-certificates`)";
                EgressError::new(Rule::Tls, "TLS cannot be set up on this server", remedy).with_log(error)
            },
        )
    }

    /// `limits.connect` for the whole handshake.
    pub async fn connect(
        &self,
        host: &Host<String>,
        stream: TcpStream,
        protocol: Protocol,
        limits: &Limits,
    ) -> Result<TlsStream<TcpStream>, EgressError> {
        let name = match host {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| {
                EgressError::new(Rule::Url, format!("`{host}` is no name for TLS"), "name a host by a valid DNS name")
                    .of(host)
            })?,
            Host::Ipv4(address) => ServerName::from(std::net::IpAddr::from(*address)),
            Host::Ipv6(address) => ServerName::from(std::net::IpAddr::from(*address)),
        };
        let Configs { http, other } = self.config()?;
        let config = match protocol {
            Protocol::Http => http,
            Protocol::Other => other,
        };
        let handshake = TlsConnector::from(config).connect(name, stream);
        match tokio::time::timeout(limits.connect, handshake).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => {
                let told = format!("no TLS connection to `{host}`: {}", reason(&error));
                Err(EgressError::new(Rule::Tls, told, "check the host's certificate").of(host).with_log(error))
            }
            Err(_) => Err(slow(host, "TLS was not set up", limits.connect)),
        }
    }
}

fn configured(trust: &Trust) -> Result<Configs, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    let other = match trust {
        Trust::System => builder.with_platform_verifier()?.with_no_client_auth(),
        Trust::Roots(certificates) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates {
                roots.add(certificate.clone())?;
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    };
    let mut http = other.clone();
    http.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Configs { http: Arc::new(http), other: Arc::new(other) })
}

/// What a person can act on; the rest is logged.
fn reason(error: &std::io::Error) -> &'static str {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_)) => "its certificate is not valid for it",
        Some(rustls::Error::AlertReceived(_)) => "it broke off",
        Some(_) => "it does not speak TLS as we do",
        None => "the connection was lost",
    }
}

pub(crate) fn slow(host: &Host<String>, what: &str, after: std::time::Duration) -> EgressError {
    let told = format!("`{host}`: {what} within {} s", after.as_secs_f32());
    EgressError::new(Rule::Timeout, told, "try again later, or use a faster host").of(host)
}

/// Tries the addresses in their order, all within `limits.connect`.
pub(crate) async fn tcp(
    host: &Host<String>,
    permitted: &[Permitted],
    limits: &Limits,
) -> Result<(TcpStream, Permitted), EgressError> {
    let until = Instant::now() + limits.connect;
    let mut last = None;
    for candidate in permitted {
        match timeout_at(until, TcpStream::connect(candidate.address)).await {
            Ok(Ok(stream)) => {
                verify(host, &stream, candidate.address)?;
                // Requests are written whole: waiting for more would only delay them. Failing to say so harms nobody.
                let _ = stream.set_nodelay(true);
                return Ok((stream, *candidate));
            }
            Ok(Err(error)) => last = Some(format!("{}: {error}", candidate.address)),
            Err(_) => return Err(slow(host, "no connection", limits.connect)),
        }
    }
    let told = format!("no connection to `{host}`");
    let error = EgressError::new(Rule::Connect, told, "check that the host is up and listens on the port").of(host);
    Err(error.with_log(last.unwrap_or_default()))
}

/// The last check, on the connection itself: what is between us and the network may have its own mind.
fn verify(host: &Host<String>, stream: &TcpStream, wanted: SocketAddr) -> Result<(), EgressError> {
    let peer = stream.peer_addr().ok();
    if peer.is_some_and(|peer| peer.ip() == wanted.ip() && peer.port() == wanted.port()) {
        return Ok(());
    }
    let told = format!("the connection to `{host}` ended at an address that was not checked");
    let remedy = "the operator checks what redirects connections on this server";
    Err(EgressError::new(Rule::Address, told, remedy).of(host).with_log(format!("{wanted} became {peer:?}")))
}
