//! TLS is set up for the name that was asked for, and for nobody else; a redirect does not leave it.

use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use toolgate_contracts::Scheme;
use toolgate_egress::{Rule, Trust};

use crate::world::{Server, World, ok, opening, path, redirect, serve, way};

pub struct Certified {
    pub authority: CertificateDer<'static>,
    pub acceptor: TlsAcceptor,
}

/// A certificate for a name, signed by itself and trusted by whoever is given it.
pub fn certified(name: &str) -> Certified {
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    Certified { authority: cert.der().clone(), acceptor: TlsAcceptor::from(Arc::new(config)) }
}

async fn start(acceptor: TlsAcceptor, reply: fn(&str) -> Vec<u8>) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, Arc::new(reply), seen).await;
                }
            });
        }
    });
    (port, requests)
}

#[tokio::test]
async fn the_certificate_is_checked_for_the_name_and_not_for_the_address() {
    let Certified { authority, acceptor } = certified("api.test");
    let (port, requests) = start(acceptor, |_| ok("secret page")).await;
    let world = World::trusting(Trust::Roots(vec![authority]));
    for name in ["api.test", "other.test"] {
        world.names.say(name, &[&["127.0.0.1"]]);
    }
    let way = way(1, [opening("127.0.0.1", port, Scheme::Https)]);
    assert_eq!(world.text(&way, &format!("https://api.test:{port}/a?b=c")).await.unwrap(), "secret page");
    let request = requests.lock().unwrap()[0].clone();
    assert!(request.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: api.test:{port}\r\n")), "{request}");
    assert_eq!(world.text(&way, &format!("https://API.test.:{port}/")).await.unwrap(), "secret page");

    for url in [format!("https://other.test:{port}/"), format!("https://127.0.0.1:{port}/")] {
        let error = world.get(&way, &url).await.err().unwrap();
        assert_eq!((error.rule(), error.sent()), (Rule::Tls, toolgate_egress::Sent::No), "{url}: {error}");
    }
    let nobody = World::new();
    nobody.names.say("api.test", &[&["127.0.0.1"]]);
    let error = nobody.get(&way, &format!("https://api.test:{port}/")).await.err().unwrap();
    assert_eq!(error.rule(), Rule::Tls, "an authority that is not trusted");
    assert_eq!(requests.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_redirect_does_not_leave_https() {
    let plain = Server::start("127.0.0.1:0", |_| ok("plain")).await;
    let Certified { authority, acceptor } = certified("api.test");
    let (port, _) = start(acceptor, |request| {
        redirect(302, &format!("http://127.0.0.1:{}", path(request).trim_start_matches('/')))
    })
    .await;
    let world = World::trusting(Trust::Roots(vec![authority]));
    world.names.say("api.test", &[&["127.0.0.1"]]);
    let way = way(1, [opening("127.0.0.1", port, Scheme::Https), opening("127.0.0.1", plain.port(), Scheme::Http)]);
    let error = world.get(&way, &format!("https://api.test:{port}/{}", plain.port())).await.err().unwrap();
    assert_eq!(error.rule(), Rule::Redirect, "{error}");
    assert_eq!(plain.connections(), 0);
}
