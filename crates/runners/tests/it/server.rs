//! A server on loopback that tests answer for. The tests of the toolbox use it too.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Keeps requests, answers by a function of the request.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub async fn start(reply: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1", 0, reply).await
    }

    pub async fn start_at(host: &str, port: u16, reply: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((host, port)).await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let (reply, requests) = (Arc::new(reply), Arc::clone(&server.requests));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (reply, requests) = (Arc::clone(&reply), Arc::clone(&requests));
                tokio::spawn(async move {
                    let mut read = Vec::new();
                    while stream.read_buf(&mut read).await.is_ok_and(|read| read > 0) {
                        let text = String::from_utf8_lossy(&read).into_owned();
                        if !is_whole(&text) {
                            continue;
                        }
                        requests.lock().unwrap().push(text.clone());
                        let answer = reply(&text);
                        // An empty answer is a connection that breaks.
                        if answer.is_empty() || stream.write_all(&answer).await.is_err() {
                            return;
                        }
                        read.clear();
                    }
                });
            }
        });
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn is_whole(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(|length| length.trim().parse()))
        .unwrap_or(Ok(0_usize));
    body.len() >= length.unwrap()
}

pub fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &[name, ": ", value, "\r\n"].concat();
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

pub fn json_answer(value: &Value) -> Vec<u8> {
    answer("200 OK", &[("content-type", "application/json")], value.to_string().as_bytes())
}
