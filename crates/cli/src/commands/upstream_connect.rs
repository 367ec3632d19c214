//! `toolgate upstream connect`: listens on this computer for the browser to come back, and hands on what it brings.
//!
//! Invariant: one answer is taken, from a browser that was sent by whom we asked: its `state` is checked where it was made.
//! Nothing of it is printed.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::client::Client;
use crate::failure::{Done, Failure};
use crate::output::{Output, note, text_of};

/// As long as what was begun is waited for.
const PATIENCE: Duration = Duration::from_mins(10);
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Of one that connects and says nothing.
const READ_WITHIN: Duration = Duration::from_secs(10);

pub async fn run(name: &str, scope: Option<String>, answer: Option<String>, client: &Client, output: &Output) -> Done {
    let answer = match answer {
        Some(answer) => answer,
        None => browsed(name, scope.as_deref(), client).await?,
    };
    let mut body = json!({"answer": answer});
    if let Some(scope) = scope {
        body["scope"] = scope.into();
    }
    let connection = client.post(&["upstreams", name, "connected"], body).await?;
    output.say(&connection, &sentence(name, &connection))
}

fn sentence(name: &str, connection: &Value) -> String {
    let whose = if connection["scope"] == json!("org") { "the organisation" } else { "you" };
    let issuer = text_of(connection, "issuer");
    let renews = if connection["renews"] == json!(true) { "" } else { "; it cannot be renewed without you" };
    format!("Connected {whose} with {name}, by {issuer}{renews}.")
}

/// The address that a browser came back to.
async fn browsed(name: &str, scope: Option<&str>, client: &Client) -> Result<String, Failure> {
    let wrong = |error: std::io::Error| {
        Failure::failed(
            format!("cannot listen on this computer: {error}"),
            "check what keeps programs from listening on 127.0.0.1",
        )
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(wrong)?;
    let base = format!("http://127.0.0.1:{}", listener.local_addr().map_err(wrong)?.port());
    let mut body = json!({"redirect": format!("{base}/callback")});
    if let Some(scope) = scope {
        body["scope"] = scope.into();
    }
    let begun = client.post(&["upstreams", name, "connect"], body).await?;
    note(&format!("Open this in a browser on this computer, and say yes there:\n\n{}\n", text_of(&begun, "address")));
    let coming = async {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            if let Ok(Ok(Some(target))) = tokio::time::timeout(READ_WITHIN, asked(stream)).await {
                return format!("{base}{target}");
            }
        }
    };
    tokio::time::timeout(PATIENCE, coming).await.map_err(|_| {
        let remedy =
            "try again; a browser on another computer comes back to an address that can be given with `--answer`";
        Failure::failed("no browser came back", remedy)
    })
}

/// What a browser asks for, if it is what it was sent for.
async fn asked(mut stream: TcpStream) -> std::io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let target = str::from_utf8(line).ok().and_then(|line| line.strip_prefix("GET ")?.split(' ').next());
    let target = target.filter(|target| target.starts_with("/callback?")).map(str::to_owned);
    let (status, words) = match &target {
        Some(_) => ("200 OK", "Go back to the terminal: it says what came of it. This page can be closed."),
        None => ("404 Not Found", "There is nothing here."),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{words}",
        words.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_the_browser_was_sent_for_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ask = async |line: &str| {
            let mut browser = TcpStream::connect(address).await.unwrap();
            browser.write_all(format!("{line}\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let target = asked(stream).await.unwrap();
            let mut answer = String::new();
            browser.read_to_string(&mut answer).await.unwrap();
            (target, answer.contains("200 OK"))
        };
        assert_eq!(ask("GET /callback?code=a&state=b HTTP/1.1").await, (Some("/callback?code=a&state=b".into()), true));
        for other in ["GET /favicon.ico HTTP/1.1", "POST /callback?code=a HTTP/1.1", "GET /callback HTTP/1.1", ""] {
            assert_eq!(ask(other).await, (None, false), "{other}");
        }
    }
}
