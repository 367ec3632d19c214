//! Mail over a relay that keeps what it was told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_egress::mail::{Mail, Mailer, Relay};
use toolgate_egress::{EgressError, Rule, Sent, Trust};

use crate::tls::{Certified, certified};
use crate::world::World;

#[derive(Clone, Copy, PartialEq)]
enum Speaks {
    Plain,
    Starttls,
    Implicit,
    /// Says what belongs under TLS already before it.
    Injects,
    RefusesRecipients,
    Floods,
}

/// What the relay heard, each line with whether it came under TLS.
type Heard = Arc<Mutex<Vec<(bool, String)>>>;

async fn relay(speaks: Speaks, acceptor: TlsAcceptor) -> (u16, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = Heard::default();
    let keeps = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (heard, acceptor) = (Arc::clone(&keeps), acceptor.clone());
            tokio::spawn(async move {
                let secured = if speaks == Speaks::Implicit {
                    acceptor.accept(stream).await
                } else {
                    let Some(stream) = talk(stream, speaks, false, &heard).await else { return };
                    acceptor.accept(stream).await
                };
                if let Ok(stream) = secured {
                    let _ = talk(stream, speaks, true, &heard).await;
                }
            });
        }
    });
    (port, heard)
}

/// Until the end, or until the other side wants TLS.
async fn talk<S: AsyncRead + AsyncWrite + Unpin>(stream: S, speaks: Speaks, is_tls: bool, heard: &Heard) -> Option<S> {
    let mut stream = BufReader::new(stream);
    let greets = !is_tls || speaks == Speaks::Implicit;
    if greets {
        stream.write_all(b"220 relay.test\r\n").await.ok()?;
    }
    let mut is_data = false;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        heard.lock().unwrap().push((is_tls, line.trim_end().to_owned()));
        let word: String = line.chars().take(4).collect::<String>().to_ascii_uppercase();
        let offers = matches!(speaks, Speaks::Starttls | Speaks::Injects) && !is_tls;
        let answer: &[u8] = match word.trim_end() {
            "." if is_data => {
                is_data = false;
                b"250 taken\r\n"
            }
            _ if is_data => continue,
            "EHLO" if offers => b"250-relay.test\r\n250-SIZE 1000000\r\n250 STARTTLS\r\n",
            "EHLO" => b"250-relay.test\r\n250-8BITMIME\r\n250 AUTH PLAIN LOGIN\r\n",
            "STAR" => {
                let ready: &[u8] = match speaks {
                    Speaks::Injects => b"220 go\r\n250-relay.test\r\n250 AUTH PLAIN\r\n",
                    _ => b"220 go\r\n",
                };
                stream.write_all(ready).await.ok()?;
                return Some(stream.into_inner());
            }
            "AUTH" => b"235 welcome\r\n",
            "RCPT" if speaks == Speaks::RefusesRecipients => b"550 no such person\r\n",
            "MAIL" if speaks == Speaks::Floods => loop {
                stream.write_all(&[b'2'; 4096]).await.ok()?;
            },
            "DATA" => {
                is_data = true;
                b"354 go on\r\n"
            }
            "QUIT" => b"221 bye\r\n",
            _ => b"250 ok\r\n",
        };
        stream.write_all(answer).await.ok()?;
    }
}

fn mail() -> Mail {
    Mail {
        from: "Toolgate <toolgate@example.test>".into(),
        to: vec!["ada@example.test".into(), "Bob <bob@example.test>".into()],
        cc: Vec::new(),
        subject: "A call wärtet".into(),
        text: "Somebody must decide.\n.\nThe line above is a dot.\n".into(),
        message_id: "0190-a@example.test".into(),
    }
}

async fn send(speaks: Speaks, tls: &str, user: &str) -> (Result<(), EgressError>, Vec<(bool, String)>) {
    let Certified { authority, acceptor } = certified("relay.test");
    let (port, heard) = relay(speaks, acceptor).await;
    let world = World::trusting(Trust::Roots(vec![authority]));
    world.names.say("relay.test", &[&["127.0.0.1"]]);
    let relay = Relay::parse(&format!("smtp://{user}relay.test:{port}?tls={tls}")).unwrap();
    let mailer = Mailer::new(world.connector, relay, "gate@example.test", "gate.example.test")
        .with_timeout(Duration::from_secs(5));
    let sent = mailer.send(&mail()).await;
    let heard = heard.lock().unwrap().clone();
    (sent, heard)
}

#[tokio::test]
async fn a_mail_reaches_the_relay_in_each_way_to_speak_to_it() {
    for (speaks, tls, is_tls) in
        [(Speaks::Plain, "none", false), (Speaks::Starttls, "starttls", true), (Speaks::Implicit, "implicit", true)]
    {
        let (sent, heard) = send(speaks, tls, "gate:p%40ss%20word@").await;
        sent.unwrap_or_else(|error| panic!("{tls}: {error}: {:?}", error.logged()));
        let all: Vec<&str> = heard.iter().map(|(_, line)| line.as_str()).collect();
        for expected in [
            "EHLO gate.example.test",
            // NUL gate NUL p@ss word
            "AUTH PLAIN AGdhdGUAcEBzcyB3b3Jk",
            "MAIL FROM:<toolgate@example.test>",
            "RCPT TO:<ada@example.test>",
            "RCPT TO:<bob@example.test>",
            "Message-ID: <0190-a@example.test>",
            "Date: Fri, 15 Jan 2027 08:00:00 +0000",
            "From: Toolgate <toolgate@example.test>",
            "Somebody must decide.",
            "..",
            "QUIT",
        ] {
            assert!(all.contains(&expected), "{tls}: no `{expected}` in {all:#?}");
        }
        let clear = heard.iter().filter(|(tls, _)| !tls).map(|(_, line)| line.as_str());
        assert!(!is_tls || clear.clone().all(|line| line.starts_with("EHLO") || line == "STARTTLS"), "{all:#?}");
    }
}

#[tokio::test]
async fn without_tls_nothing_is_said_that_is_not_for_all_ears() {
    let (sent, heard) = send(Speaks::Plain, "starttls", "gate:password@").await;
    let error = sent.unwrap_err();
    assert_eq!((error.rule(), error.sent()), (Rule::Tls, Sent::No), "{error}");
    assert!(heard.iter().all(|(_, line)| line.starts_with("EHLO")), "{heard:?}");

    let (sent, heard) = send(Speaks::Injects, "starttls", "gate:password@").await;
    assert!(sent.is_err(), "what was said before TLS is no part of TLS");
    assert!(heard.iter().all(|(is_tls, line)| *is_tls || !line.starts_with("AUTH")), "{heard:?}");
}

#[tokio::test]
async fn a_relay_that_says_no_or_too_much_is_told_of_without_secrets() {
    let (sent, _) = send(Speaks::RefusesRecipients, "none", "gate:password@").await;
    let error = sent.unwrap_err();
    assert_eq!((error.rule(), error.sent()), (Rule::Mail, Sent::No), "{error}");
    assert!(error.told().contains("550") && !error.to_string().contains("password"), "{error}");
    assert_eq!(ToolError::from(error).code, ErrorCode::ProviderError);

    let (sent, _) = send(Speaks::Floods, "none", "").await;
    assert_eq!(sent.unwrap_err().rule(), Rule::Mail);
}

#[tokio::test]
async fn the_relay_may_be_private_but_neither_metadata_nor_ourselves() {
    let Certified { acceptor, .. } = certified("relay.test");
    let (port, heard) = relay(Speaks::Plain, acceptor).await;
    let world = World::new();
    world.names.say("relay.test", &[&["127.0.0.1"]]);
    world.names.say("sly.test", &[&["169.254.169.254"]]);
    world.connector.listen(vec![([127, 0, 0, 1], port).into()]);
    for host in
        ["relay.test", "127.0.0.1", "2130706433", "[::1]", "sly.test", "169.254.169.254", "metadata.google.internal"]
    {
        let relay = Relay::parse(&format!("smtp://{host}:{port}?tls=none")).unwrap();
        let error =
            Mailer::new(world.connector.clone(), relay, "gate@x.test", "x.test").send(&mail()).await.unwrap_err();
        assert_eq!(error.rule(), Rule::Never, "{host}: {error}");
    }
    assert!(heard.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_mail_that_would_break_its_own_head_is_refused() {
    let world = World::new();
    let relay = Relay::parse("smtp://127.0.0.1:1?tls=none").unwrap();
    let mailer = Mailer::new(world.connector, relay, "gate@x.test", "x.test");
    let wrong: [fn(&mut Mail); 7] = [
        |mail| mail.to = vec![],
        |mail| mail.to = vec!["no address".into()],
        |mail| mail.to = vec!["a@b.test\r\nRCPT TO:<c@d.test>".into()],
        |mail| mail.from = "x".into(),
        |mail| mail.subject = "a\r\nBcc: c@d.test".into(),
        |mail| mail.message_id = "a@b\r\nBcc: c@d.test".into(),
        |mail| mail.message_id = "none".into(),
    ];
    for (number, spoil) in wrong.iter().enumerate() {
        let mut mail = mail();
        spoil(&mut mail);
        assert_eq!(mailer.send(&mail).await.unwrap_err().rule(), Rule::Header, "{number}");
    }
}

#[test]
fn a_relay_is_written_as_a_url() {
    #[track_caller]
    fn check(url: &str, expected: Result<&str, &str>) {
        match (Relay::parse(url), expected) {
            (Ok(relay), Ok(shown)) => assert_eq!(relay.to_string(), shown),
            (Err(fault), Err(told)) => {
                assert!(fault.told().contains(told), "{url}: {}", fault.told());
                assert!(!format!("{}{}", fault.told(), fault.remedy()).contains("hunter2"), "{url}");
            }
            (got, _) => {
                panic!("{url}: {:?}", got.map(|relay| relay.to_string()).map_err(|fault| fault.told().to_owned()))
            }
        }
    }
    check("smtp://user:hunter2@mail.test:2525?tls=none", Ok("mail.test:2525"));
    check("smtp://mail.test", Ok("mail.test:587"));
    check("smtps://mail.test", Ok("mail.test:465"));
    check("smtp://mail.test?tls=implicit", Ok("mail.test:465"));
    check("smtp://[fd12::1]:25?tls=none", Ok("[fd12::1]:25"));
    check("hunter2", Err("no URL"));
    check("http://u:hunter2@mail.test", Err("scheme"));
    check("smtp://:hunter2@mail.test", Err("without the other"));
    check("smtp://u:hunter2@mail.test?tls=maybe", Err("`tls`"));
    check("smtp://u:hunter2@mail.test?tls=none&tls=none", Err("more than"));
    check("smtp://u:hunter2@mail.test/path", Err("more than"));
    check("smtp://mail.test:0", Err("port 0"));
    check("smtp://", Err("host"));
}
