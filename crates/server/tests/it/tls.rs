//! TLS by certificate files: what a bad pair is told, who is trusted, slow handshakes, and files that change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use toolgate_contracts::Timestamp;
use toolgate_server::listen::{Limits, listen};
use toolgate_server::tls::{Pair, Tls, pinned};

use crate::world::with_settings;

const NOW: Timestamp = Timestamp::from_millis(1_794_700_000_000);

/// A certificate and its key in files.
fn pair(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    write(folder, name, &made.cert.pem(), &made.signing_key.serialize_pem())
}

fn write(folder: &Path, name: &str, cert: &str, key: &str) -> (PathBuf, PathBuf) {
    let files = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    std::fs::write(&files.0, cert).unwrap();
    std::fs::write(&files.1, key).unwrap();
    files
}

#[test]
fn a_bad_pair_is_told_by_its_setting_and_file() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = pair(folder.path(), "one");
    let (_, other) = pair(folder.path(), "two");
    let gone = folder.path().join("gone.pem");
    let text = folder.path().join("text.pem");
    std::fs::write(&text, "no certificate").unwrap();
    assert!(Pair::read(&cert, &key).is_ok());
    for (cert, key, setting, told) in [
        (&gone, &key, "tls_cert", "cannot be read: No such file"),
        (&cert, &gone, "tls_key", "cannot be read: No such file"),
        (&text, &key, "tls_cert", "holds no certificate in PEM"),
        (&key, &key, "tls_cert", "holds no certificate in PEM"),
        (&cert, &text, "tls_key", "holds no private key in PEM"),
        (&cert, &cert, "tls_key", "holds no private key in PEM"),
        (&cert, &other, "tls_key", "is not the key of the certificate"),
    ] {
        let fault = Pair::read(cert, key).unwrap_err();
        assert!(fault.told().starts_with(&format!("`{setting}` ")) && fault.told().contains(told), "{}", fault.told());
        assert!(!fault.remedy().is_empty());
    }
}

struct Served {
    address: std::net::SocketAddr,
    tls: Arc<Tls>,
}

async fn serve(files: (PathBuf, PathBuf), limits: Limits) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = Arc::new(Tls::open(files.0, files.1, NOW).map_err(|fault| fault.told().to_owned()).unwrap());
    let router = Router::new().route("/healthz", get(|| async { "ok" }));
    tokio::spawn(listen(listener, router, limits, Some(tls.acceptor()), std::future::pending()));
    Served { address, tls }
}

impl Served {
    async fn connect(&self, pins: &[String], protocol: &[u8]) -> std::io::Result<TlsStream<TcpStream>> {
        let mut config = pinned(pins.to_vec()).map_err(|fault| fault.told().to_owned()).unwrap();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("anything.test").unwrap(), stream).await
    }

    async fn healthy(&self, pins: &[String]) -> String {
        let mut stream = self.connect(pins, b"http/1.1").await.unwrap();
        let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_and_only_the_pinned_certificate_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(pair(folder.path(), "one"), Limits::default()).await;
    let own = [served.tls.fingerprint()];
    for protocol in [&b"h2"[..], b"http/1.1"] {
        let stream = served.connect(&own, protocol).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
    }
    assert!(served.healthy(&own).await.starts_with("HTTP/1.1 200"));
    let (cert, key) = pair(folder.path(), "two");
    let another = Pair::read(&cert, &key).unwrap().fingerprint;
    for pins in [vec![], vec![another], vec![String::new()]] {
        assert!(served.connect(&pins, b"h2").await.is_err(), "{pins:?}");
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_end_counts_and_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { connections: 2, header: Duration::from_millis(400), ..Limits::default() };
    let served = serve(pair(folder.path(), "one"), limits).await;
    let mut waiting = Vec::new();
    for half in ["", "\u{16}\u{3}", "GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(half.as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    assert!(served.healthy(&[served.tls.fingerprint()]).await.starts_with("HTTP/1.1 200"));
    for mut stream in waiting {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "the server closes the connection");
    }
}

#[tokio::test]
async fn changed_files_are_used_and_bad_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = pair(folder.path(), "one");
    let served = serve((cert.clone(), key.clone()), Limits::default()).await;
    let first = served.tls.fingerprint();
    let published = Arc::new(Mutex::new(Vec::new()));
    let (tls, seen) = (Arc::clone(&served.tls), Arc::clone(&published));
    let following = tokio::spawn(async move {
        tls.follow(Duration::from_millis(20), |pins| seen.lock().unwrap().push(pins.to_vec())).await;
    });
    let settled = Duration::from_millis(200);

    // A certificate without its key, and then nothing at all.
    let (new_cert, new_key) = pair(folder.path(), "two");
    std::fs::rename(&new_cert, &cert).unwrap();
    tokio::time::sleep(settled).await;
    std::fs::write(&key, "broken").unwrap();
    tokio::time::sleep(settled).await;
    assert_eq!(served.tls.fingerprint(), first);
    assert!(served.healthy(std::slice::from_ref(&first)).await.starts_with("HTTP/1.1 200"));
    assert!(published.lock().unwrap().is_empty());

    std::fs::rename(&new_key, &key).unwrap();
    for _ in 0..500 {
        if served.tls.fingerprint() != first {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let second = served.tls.fingerprint();
    assert_ne!(first, second);
    assert!(served.healthy(std::slice::from_ref(&second)).await.starts_with("HTTP/1.1 200"));
    assert!(served.connect(std::slice::from_ref(&first), b"h2").await.is_err());
    assert_eq!(*published.lock().unwrap(), [vec![second.clone(), first], vec![second]]);
    following.abort();
}

#[tokio::test]
async fn the_doctor_reads_the_certificate_and_what_does_not_fit_together() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str, until: (i32, u8)| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until.0, until.1, 20);
        write(folder.path(), name, &params.self_signed(&key).unwrap().pem(), &key.serialize_pem())
    };
    let (valid, expired, soon) = (made("valid", (2040, 1)), made("expired", (2024, 1)), made("soon", (2026, 11)));
    let files = [&valid, &expired, &soon];
    for (_, key) in files {
        std::fs::set_permissions(key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let shown = |path: &PathBuf| path.display().to_string();
    let check = async |settings: Vec<(&'static str, String)>, name: &str| {
        let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (app, _folder) = with_settings(&settings).await;
        let answer = crate::world::send(
            app.router(),
            &crate::world::As::Owner,
            "GET",
            "/api/v1/doctor",
            serde_json::Value::Null,
        );
        let body = answer.await.ok();
        let checks = body["checks"].as_array().unwrap();
        checks
            .iter()
            .find(|check| check["name"] == name)
            .map(|check| (check["ok"] == true, check["found"].as_str().unwrap().to_owned()))
    };
    let with = |(cert, key): &(PathBuf, PathBuf)| vec![("tls_cert", shown(cert)), ("tls_key", shown(key))];
    assert_eq!(check(vec![], "certificate").await, None);
    let (ok, found) = check(with(&valid), "certificate").await.unwrap();
    assert!(ok && found.starts_with("until 2040-01-20"), "{found}");
    for (files, told) in
        [(&expired, "expired at 2024"), (&soon, "expires soon"), (&(valid.0.clone(), soon.1.clone()), "is not the key")]
    {
        let (ok, found) = check(with(files), "certificate").await.unwrap();
        assert!(!ok && found.contains(told), "{found}");
    }
    let public = |url: &str| ("public_url", url.to_owned());
    assert!(!check(vec![public("https://tools.example.com")], "serving").await.unwrap().0);
    let trusted = vec![public("https://tools.example.com"), ("trusted_proxies", "10.0.0.1".to_owned())];
    assert!(check(trusted, "serving").await.unwrap().0);
    let mut plain = with(&valid);
    plain.push(public("http://tools.example.com"));
    assert!(!check(plain, "serving").await.unwrap().0);
    let (ok, url) = check(with(&valid), "serving").await.unwrap();
    assert!(ok && url.starts_with("https://"), "{url}");
}
