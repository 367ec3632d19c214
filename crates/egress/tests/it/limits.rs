//! Security test 31: an upstream that floods, drips, bombs or never ends holds neither memory nor a worker.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolgate_egress::{EgressError, Limits, Packing, Request, Rule, Sent, Url};

use crate::world::{Server, World, ok, open};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn encoded(encoding: &str, body: &[u8]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {}\r\n\r\n", body.len())
            .into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// Small enough that a test does not wait, large enough that a busy machine does not matter.
fn short() -> Limits {
    Limits {
        headers: Duration::from_millis(300),
        idle: Duration::from_millis(300),
        rate_after: Duration::from_millis(300),
        ..Limits::default()
    }
}

async fn fetch(url: Url, limits: Limits) -> Result<Vec<u8>, EgressError> {
    let way = open(&["127.0.0.1"], url.port().unwrap());
    let mut request = Request::get(url);
    request.limits = limits;
    let mut answer = World::new().connector.send(&way, request).await?;
    let mut whole = Vec::new();
    let mut pieces_max = 0;
    while let Some(piece) = answer.chunk().await? {
        pieces_max = pieces_max.max(piece.len());
        whole.extend_from_slice(&piece);
    }
    assert!(pieces_max < 2 * 1024 * 1024, "a piece of {pieces_max} bytes is more than a reader expects");
    Ok(whole)
}

#[tokio::test]
async fn gzip_is_inflated_once_and_within_bounds() {
    let text = "a line of text that repeats, though not too often\n".repeat(2000);
    let plain = gzip(text.as_bytes());
    let two_members = [gzip(b"one "), gzip(b"two")].concat();
    let bomb = gzip(&vec![0; 64 * 1024 * 1024]);
    let noise: Vec<u8> = (0..50_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    let cut = plain[..plain.len() - 10].to_vec();
    let twice = gzip(&plain);
    let tight = Limits { inflated_bytes_max: 100_000, ratio_max: 100_000, ..Limits::default() };
    for (what, encoding, body, limits, expected) in [
        ("plain", "gzip", &plain, Limits { ratio_max: 1000, ..Limits::default() }, Ok(text.as_bytes().to_vec())),
        ("two members", "x-gzip", &two_members, Limits::default(), Ok(b"one two".to_vec())),
        ("noise", "gzip", &gzip(&noise), Limits::default(), Ok(noise.clone())),
        ("empty", "gzip", &Vec::new(), Limits::default(), Ok(Vec::new())),
        ("identity", "identity", &b"as is".to_vec(), Limits::default(), Ok(b"as is".to_vec())),
        ("a bomb", "gzip", &bomb, Limits::default(), Err(Rule::TooLarge)),
        ("too much", "gzip", &bomb, tight, Err(Rule::TooLarge)),
        ("cut short", "gzip", &cut, Limits { ratio_max: 1000, ..Limits::default() }, Err(Rule::Reset)),
        ("no gzip", "gzip", &b"not gzip at all".to_vec(), Limits::default(), Err(Rule::Encoding)),
        ("two layers", "gzip, gzip", &twice, Limits::default(), Err(Rule::Encoding)),
        ("not asked for", "br", &plain, Limits::default(), Err(Rule::Encoding)),
    ] {
        let answer = encoded(encoding, body);
        let server = Server::start("127.0.0.1:0", move |_| answer.clone()).await;
        let got = fetch(server.url("/"), limits).await.map_err(|error| error.rule());
        assert_eq!(got.as_ref().map(Vec::len), expected.as_ref().map(Vec::len), "{what}");
        assert_eq!(got, expected, "{what}");
    }
}

/// A server that says what it likes for as long as it is listened to.
async fn scripted<F, T>(script: F) -> Url
where
    F: Fn(TcpStream) -> T + Send + 'static,
    T: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            tokio::spawn(script(stream));
        }
    });
    url
}

#[tokio::test]
async fn an_endless_body_ends_at_the_limit() {
    let url = scripted(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        loop {
            stream.write_all(&[b'x'; 16 * 1024]).await?;
        }
    })
    .await;
    let error = fetch(url, Limits::default()).await.unwrap_err();
    assert_eq!((error.rule(), error.sent()), (Rule::TooLarge, Sent::Perhaps));

    let server =
        Server::start("127.0.0.1:0", |_| b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n".to_vec()).await;
    assert_eq!(fetch(server.url("/"), Limits::default()).await.unwrap_err().rule(), Rule::TooLarge, "said beforehand");
}

#[tokio::test]
async fn headers_that_do_not_end_end_at_the_limit() {
    let flood = scripted(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
        loop {
            stream.write_all(b"x-flood: 0123456789012345678901234567890123456789\r\n").await?;
        }
    })
    .await;
    let one = scripted(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\nx-long: ").await?;
        loop {
            stream.write_all(&[b'x'; 4096]).await?;
        }
    })
    .await;
    for url in [flood, one] {
        let error = fetch(url, Limits::default()).await.unwrap_err();
        assert_eq!(error.rule(), Rule::TooLarge, "{error}: {:?}", error.logged());
    }
    let interim = scripted(|mut stream| async move {
        loop {
            stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let error = fetch(interim, short()).await.unwrap_err();
    assert_eq!(error.rule(), Rule::Timeout, "{error}: {:?}", error.logged());
}

#[tokio::test]
async fn an_upstream_that_is_silent_or_drips_is_left() {
    let silent = scripted(|stream| async move {
        tokio::time::sleep(Duration::from_mins(10)).await;
        drop(stream);
        Ok(())
    })
    .await;
    let stops = scripted(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nsome").await?;
        tokio::time::sleep(Duration::from_mins(10)).await;
        Ok(())
    })
    .await;
    // Never silent for long, but slower than is waited for.
    let drips = scripted(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        loop {
            stream.write_all(b"x").await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let slow = Limits { idle: Duration::from_mins(1), ..short() };
    for (what, url, limits, told) in [
        ("silent", silent, short(), "no answer"),
        ("stops", stops, Limits { rate_after: Duration::from_mins(1), ..short() }, "paused"),
        ("drips", drips, slow, "slower than"),
    ] {
        let error = fetch(url, limits).await.unwrap_err();
        assert_eq!(error.rule(), Rule::Timeout, "{what}: {error}");
        assert!(error.told().contains(told), "{what}: {error}");
    }
}

#[tokio::test]
async fn the_whole_has_one_deadline() {
    let drips = scripted(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        loop {
            stream.write_all(&[b'x'; 1000]).await?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let way = open(&["127.0.0.1"], drips.port().unwrap());
    let mut request = Request::get(drips);
    request.timeout = Duration::from_millis(300);
    let answer = World::new().connector.send(&way, request).await.unwrap();
    let error = answer.bytes_max(1 << 30).await.unwrap_err();
    assert_eq!(error.rule(), Rule::Timeout);
    assert!(error.told().contains("in time"), "{error}");
}

#[tokio::test]
async fn an_answer_longer_than_the_reader_wants_is_refused() {
    let server = Server::start("127.0.0.1:0", |_| ok("0123456789")).await;
    let way = open(&["127.0.0.1"], server.port());
    let world = World::new();
    assert_eq!(
        world.connector.send(&way, Request::get(server.url("/"))).await.unwrap().bytes_max(10).await.unwrap(),
        "0123456789"
    );
    let answer = world.connector.send(&way, Request::get(server.url("/"))).await.unwrap();
    assert_eq!(answer.bytes_max(9).await.unwrap_err().rule(), Rule::TooLarge);
}

#[tokio::test]
async fn a_stream_is_read_while_it_comes_and_asked_for_unpacked() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = vec![0; 4096];
        let count = stream.read(&mut asked).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        for piece in ["first", "other"] {
            stream.write_all(format!("5\r\n{piece}\r\n").as_bytes()).await.unwrap();
        }
        // It never ends by itself.
        let _ = stream.read(&mut [0; 1]).await;
        String::from_utf8(asked[..count].to_vec()).unwrap()
    });
    let way = open(&["127.0.0.1"], url.port().unwrap());
    let mut request = Request::get(url);
    request.packing = Packing::Plain;
    let mut answer = World::new().connector.send(&way, request).await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "first");
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "other");
    // Who reads no further closes the connection, which the other side sees.
    drop(answer);
    assert!(server.await.unwrap().contains("accept-encoding: identity"));
}
