//! `send_email` over a relay that keeps what it was told.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use toolgate_contracts::ErrorCode::{ProviderError, SandboxError, ValidationError};
use toolgate_egress::mail::{Mailer, Relay};
use toolgate_engine::{Outcome, Runner as _};
use toolgate_toolbox::{Builtin, Tools};

use crate::services::run;
use crate::world::{World, error, every_world};

#[derive(Clone, Copy, PartialEq)]
enum Speaks {
    Well,
    RefusesRecipients,
    /// Breaks off when the mail is over.
    Hangs,
}

type Heard = Arc<Mutex<Vec<String>>>;

async fn relay(speaks: Speaks) -> (u16, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = Heard::default();
    let keeps = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let heard = Arc::clone(&keeps);
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                stream.write_all(b"220 relay.test\r\n").await.unwrap();
                let mut is_data = false;
                loop {
                    let mut line = String::new();
                    if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                        return;
                    }
                    heard.lock().unwrap().push(line.trim_end().to_owned());
                    let word: String = line.chars().take(4).collect::<String>().to_ascii_uppercase();
                    let answer: &[u8] = match word.trim_end() {
                        "." if is_data && speaks == Speaks::Hangs => return,
                        "." if is_data => {
                            is_data = false;
                            b"250 taken\r\n"
                        }
                        _ if is_data => continue,
                        "EHLO" => b"250-relay.test\r\n250 8BITMIME\r\n",
                        "RCPT" if speaks == Speaks::RefusesRecipients => b"550 no such person\r\n",
                        "DATA" => {
                            is_data = true;
                            b"354 go on\r\n"
                        }
                        "QUIT" => b"221 bye\r\n",
                        _ => b"250 ok\r\n",
                    };
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (port, heard)
}

async fn with_relay(world: &World, speaks: Speaks) -> (Builtin, Heard) {
    let (port, heard) = relay(speaks).await;
    let relay = Relay::parse(&format!("smtp://127.0.0.1:{port}?tls=none")).unwrap();
    let connector = world.tools.outside.connector.clone();
    let mailer = Mailer::new(connector, relay, "Toolgate <toolgate@example.com>", "gate.example.com");
    (Builtin::new(Tools { mailer: Some(mailer), ..world.tools.clone() }), heard)
}

fn mail() -> Value {
    json!({"to": "ada@example.com, Bob <bob@example.com>", "cc": "eve@example.com", "subject": "Grüße", "body": "Line.\n.\nEnd „x“."})
}

#[tokio::test]
async fn a_mail_reaches_the_relay_as_it_was_planned() {
    every_world(async |world| {
        let (runner, heard) = with_relay(&world, Speaks::Well).await;
        runner.ready(&world.tool("send_email").definition).await.unwrap();
        let call = world.call("send_email", mail());
        let plan = runner.plan(&call).await.unwrap();
        let expected = json!({
            "would_run": true, "from": "Toolgate <toolgate@example.com>", "to": ["ada@example.com", "Bob <bob@example.com>"],
            "cc": ["eve@example.com"], "subject": "Grüße", "body": "Line.\n.\nEnd „x“.",
        });
        assert_eq!(plan, expected);
        assert_eq!(heard.lock().unwrap().len(), 0, "a plan sends nothing");

        let id = format!("{}@example.com", call.id);
        let Outcome::Done(done) = run(&runner, call, vec![]).await else { panic!() };
        let recipients = json!(["ada@example.com", "Bob <bob@example.com>", "eve@example.com"]);
        assert_eq!(done.result.structured.unwrap(), json!({"recipients": recipients, "message_id": id}));
        assert_eq!(done.result.app_data.unwrap(), json!({"recipients": recipients}));
        let content = serde_json::to_value(&done.result.content).unwrap();
        assert_eq!(content, json!([{"type": "text", "text": "Email sent to ada@example.com, Bob <bob@example.com>"}]));
        let heard = heard.lock().unwrap().clone();
        for line in [
            "RCPT TO:<ada@example.com>",
            "RCPT TO:<bob@example.com>",
            "RCPT TO:<eve@example.com>",
            "From: Toolgate <toolgate@example.com>",
            "Cc: eve@example.com",
            &format!("Message-ID: <{id}>"),
        ] {
            assert!(heard.iter().any(|heard| heard == line), "{line}: {heard:#?}");
        }
    })
    .await;
}

#[tokio::test]
async fn seed_004_s_three_arguments_are_enough() {
    every_world(async |world| {
        let (runner, _) = with_relay(&world, Speaks::Well).await;
        let call = world.call("send_email", json!({"to": "ada@example.com", "subject": "Hello", "body": "Hi"}));
        let Outcome::Done(done) = run(&runner, call, vec![]).await else { panic!() };
        assert_eq!(done.result.app_data.unwrap(), json!({"recipients": ["ada@example.com"]}));
    })
    .await;
}

#[tokio::test]
async fn nothing_in_a_mail_becomes_a_header_of_its_own() {
    every_world(async |world| {
        let (runner, heard) = with_relay(&world, Speaks::Well).await;
        let many = vec!["a@example.com"; 51].join(",");
        for (member, value, part) in [
            ("subject", "Hello\r\nBcc: x@evil.test", "it holds the character `\\u{d}`"),
            ("subject", "Hello\nX: y", "it holds the character `\\u{a}`"),
            ("subject", "ab\u{202e}cd", "it holds the character `\\u{202e}`"),
            ("subject", "", "it has 0 characters; expected 1 to 200"),
            ("to", "ada@example.com\r\nRCPT TO:<x@evil.test>", "it holds the character `\\u{d}`"),
            ("to", "ada@example.com>\u{0}", "it holds the character `\\u{0}`"),
            ("to", "nobody", "`nobody` is no address; write `name@host`, several with commas between"),
            ("to", " , ", "it is empty; write `ada@example.com`"),
            ("to", "a@b@c", "an address that is none"),
            ("to", many.as_str(), "there are 52 recipients, the limit is 50"),
            ("cc", "x@evil.test\nBcc: y@evil.test", "it holds the character `\\u{a}`"),
        ] {
            let mut input = mail();
            input[member] = json!(value);
            if member == "to" {
                input["cc"] = json!("eve@example.com");
            }
            let call = world.call("send_email", input);
            let planned = runner.plan(&call).await.unwrap_err();
            let refused = error(run(&runner, call, vec![]).await);
            assert_eq!((refused.code, refused.reason()), (ValidationError, "schema"), "{value:?}: {}", refused.message);
            assert!(refused.message.contains(part), "{value:?}: {}", refused.message);
            assert_eq!(planned.message, refused.message);
        }
        assert_eq!(heard.lock().unwrap().len(), 0, "nothing was said to the relay");
        let mut dots = mail();
        dots["body"] = json!("\r\n.\r\nMAIL FROM:<x@evil.test>\r\n");
        assert!(matches!(run(&runner, world.call("send_email", dots), vec![]).await, Outcome::Done(_)));
        let heard = heard.lock().unwrap().clone();
        assert_eq!(heard.iter().filter(|line| line.starts_with("MAIL FROM:<toolgate@")).count(), 1, "{heard:#?}");
        assert_eq!(
            heard.iter().filter(|line| *line == "QUIT").count(),
            1,
            "the mail's own lines are its text: {heard:#?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_relay_that_refuses_took_nothing_and_one_that_breaks_off_may_have() {
    every_world(async |world| {
        let (runner, _) = with_relay(&world, Speaks::RefusesRecipients).await;
        let refused = error(run(&runner, world.call("send_email", mail()), vec![]).await);
        assert_eq!((refused.code, refused.reason()), (ProviderError, "upstream_5xx"), "{}", refused.message);
        let (runner, _) = with_relay(&world, Speaks::Hangs).await;
        let lost = run(&runner, world.call("send_email", mail()), vec![]).await;
        assert!(matches!(lost, Outcome::Unknown(_)), "{lost:?}");
        let none = error(world.run(world.call("send_email", mail())).await);
        assert_eq!((none.code, none.reason()), (SandboxError, "tier_unavailable"));
        assert_eq!(none.message, "no mail relay is configured; the operator sets `smtp` and `mail_from`");
        assert_eq!(world.runner.ready(&world.tool("send_email").definition).await.unwrap_err().message, none.message);
    })
    .await;
}
