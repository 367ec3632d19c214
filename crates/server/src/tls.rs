//! TLS by certificate files, and the pin by which commands on this machine know the server that holds their folder.
//!
//! rustls with ring; [`provider`] is the one place that says so. Deliberately absent: certificates of clients, and any
//! way to trust a server without knowing it.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use data_encoding::HEXLOWER;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;
use toolgate_contracts::{Fault, FaultKind, Timestamp};
use x509_cert::der::Decode as _;

/// How soon changed files are noticed.
pub const LOOK_EVERY: Duration = Duration::from_mins(1);
/// Most preferred first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// What a file was when it was read; a renamed link shows in it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(u64, u64, i64, i64);

/// A certificate with the key that fits it.
#[derive(Clone, Debug)]
pub struct Pair {
    certified: Arc<CertifiedKey>,
    /// The digest of the certificate, by which it is pinned.
    pub fingerprint: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// Others on this machine may read the key.
    pub is_key_exposed: bool,
}

impl Pair {
    pub fn read(cert: &Path, key: &Path) -> Result<Self, Fault> {
        let wrong = |setting: &str, file: &Path, what: &str, remedy: &str| {
            Fault::new(FaultKind::Invalid, format!("`{setting}` {}: {what}", file.display()), remedy)
        };
        let pem = |setting: &str, file: &Path, error: &rustls::pki_types::pem::Error, expected: &str| {
            let what = match error {
                rustls::pki_types::pem::Error::Io(error) => format!("cannot be read: {error}"),
                rustls::pki_types::pem::Error::NoItemsFound => format!("holds no {expected} in PEM"),
                error => format!("is not PEM: {error}"),
            };
            wrong(setting, file, &what, "check its path, its owner and that it is a PEM file")
        };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect)
            .map_err(|error| pem("tls_cert", cert, &error, "certificate"))?;
        let Some(own) = chain.first().cloned() else {
            let missing = rustls::pki_types::pem::Error::NoItemsFound;
            return Err(pem("tls_cert", cert, &missing, "certificate"));
        };
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| pem("tls_key", key, &error, "private key"))?;
        let unreadable = |error: x509_cert::der::Error| {
            wrong("tls_cert", cert, &format!("its first certificate cannot be read: {error}"), "make it anew")
        };
        let parsed = x509_cert::Certificate::from_der(&own).map_err(unreadable)?;
        let certified = CertifiedKey::from_der(chain, secret, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => wrong(
                "tls_key",
                key,
                &format!("is not the key of the certificate in {}", cert.display()),
                "name the key that the certificate was made with; the server's own certificate comes first in its file",
            ),
            error => wrong("tls_key", key, &format!("cannot be used: {error}"), "use an ECDSA, Ed25519 or RSA key"),
        })?;
        let time = |time: x509_cert::time::Time| {
            Timestamp::from_millis(i64::try_from(time.to_unix_duration().as_millis()).unwrap_or(i64::MAX))
        };
        let mode = std::fs::metadata(key).map_or(0, |file| file.permissions().mode());
        Ok(Self {
            certified: Arc::new(certified),
            fingerprint: fingerprint(&own),
            not_before: time(parsed.tbs_certificate.validity.not_before),
            not_after: time(parsed.tbs_certificate.validity.not_after),
            is_key_exposed: mode & 0o007 != 0,
        })
    }
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    HEXLOWER.encode(&Sha256::digest(certificate))
}

/// The pair that is used now; a connection that is open keeps the one it began with.
#[derive(Debug)]
struct Current(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    current: Arc<Current>,
    /// The pin of the current pair, and what the files were when they were last looked at, good or bad.
    seen: Mutex<(String, Option<[Stamp; 2]>)>,
    acceptor: TlsAcceptor,
}

impl Tls {
    pub fn open(cert: PathBuf, key: PathBuf, now: Timestamp) -> Result<Self, Fault> {
        let stamps = stamps(&cert, &key);
        let pair = Pair::read(&cert, &key)?;
        if pair.not_after <= now {
            tracing::warn!("the certificate {} expired at {}", cert.display(), pair.not_after);
        }
        let current = Arc::new(Current(ArcSwap::new(pair.certified)));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(Fault::internal)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<Current>::clone(&current));
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { cert, key, current, seen: Mutex::new((pair.fingerprint, stamps)), acceptor })
    }

    pub fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }

    pub fn fingerprint(&self) -> String {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Reads changed files, for ever. A bad pair is logged, and the one in use stays in use. `publish` is told which
    /// certificates a connection may meet: for a moment the old and the new one.
    pub async fn follow(&self, every: Duration, publish: impl Fn(&[String])) {
        loop {
            tokio::time::sleep(every).await;
            self.look_again(&publish);
        }
    }

    fn look_again(&self, publish: &impl Fn(&[String])) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.cert, &self.key);
        if stamps == seen.1 {
            return;
        }
        // A pair that is only half replaced is bad now, and changes once more when the other half comes.
        seen.1 = stamps;
        match Pair::read(&self.cert, &self.key) {
            Ok(pair) => {
                publish(&[pair.fingerprint.clone(), seen.0.clone()]);
                self.current.0.store(pair.certified);
                publish(std::slice::from_ref(&pair.fingerprint));
                tracing::info!("the certificate {} is used from now on, until {}", self.cert.display(), pair.not_after);
                seen.0 = pair.fingerprint;
            }
            Err(fault) => tracing::error!("the certificate in use stays: {}; {}", fault.told(), fault.remedy()),
        }
    }
}

/// `None` while a file is missing.
fn stamps(cert: &Path, key: &Path) -> Option<[Stamp; 2]> {
    let stamp = |path: &Path| {
        let file = std::fs::metadata(path).ok()?;
        Some(Stamp(file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
    };
    Some([stamp(cert)?, stamp(key)?])
}

/// Trusts the holders of these certificates and nobody else: neither an authority nor a name can stand in for a pin, and
/// an expired certificate is still the one that was published. Whoever holds one must show that it has the key.
pub fn pinned(fingerprints: Vec<String>) -> Result<ClientConfig, Fault> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(Fault::internal)?;
    let verifier = Pinned { fingerprints, provider };
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

#[derive(Debug)]
struct Pinned {
    fingerprints: Vec<String>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.fingerprints.contains(&fingerprint(certificate)) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
