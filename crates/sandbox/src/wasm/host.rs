//! What an instance has beside its own memory: its streams, and what its host does for it.

use std::sync::Arc;

use data_encoding::BASE64;
use serde_json::{Map, Value, json};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use super::bindings::host::{Host, Request, Response};
use super::limiter::Limiter;
use super::streams::{Captured, Writer};
use crate::request::{HostCall, Limits, Network, Stream};

/// Streams and things to wait for that an instance may hold at once.
const RESOURCES_MAX: usize = 1024;
/// Random bytes asked for at once: they are made before they are handed over.
const RANDOM_BYTES_MAX: u64 = 1024 * 1024;

pub struct State {
    wasi: WasiCtx,
    table: ResourceTable,
    pub limiter: Limiter,
    pub captured: Arc<Captured>,
    network: Network,
}

impl State {
    pub fn new(limits: &Limits, network: Network, captured: Arc<Captured>) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        let wasi = WasiCtxBuilder::new()
            .stdout(Writer::new(Stream::Stdout, Arc::clone(&captured)))
            .stderr(Writer::new(Stream::Stderr, Arc::clone(&captured)))
            .max_random_size(RANDOM_BYTES_MAX)
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .build();
        Self { wasi, table, limiter: Limiter::new(limits.memory_bytes), captured, network }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl Host for State {
    async fn fetch(&mut self, request: Request) -> wasmtime::Result<Result<Response, String>> {
        let Request { method, url, headers, body } = request;
        let headers: Map<String, Value> = headers.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
        let mut argument = json!({"method": method, "url": url, "headers": headers});
        if let Some(body) = body {
            argument["base64"] = BASE64.encode(&body).into();
        }
        Ok(match ask(&self.network, "fetch", argument).await {
            Ok(answer) => response(&answer).ok_or_else(|| "fetch: the answer cannot be read".to_owned()),
            Err(why) => Err(why),
        })
    }

    async fn secret(&mut self, name: String) -> wasmtime::Result<Result<String, String>> {
        Ok(match ask(&self.network, "secret", name.into()).await {
            Ok(Value::String(value)) => Ok(value),
            Ok(_) => Err("secret: the answer cannot be read".to_owned()),
            Err(why) => Err(why),
        })
    }

    async fn log(&mut self, text: String) -> wasmtime::Result<()> {
        self.captured.log(&text)
    }
}

async fn ask(network: &Network, name: &str, argument: Value) -> Result<Value, String> {
    match network {
        Network::Denied => Err(format!("{name}: the tool was granted no hosts and no secrets")),
        Network::Through(host) => host.call(HostCall { name: name.to_owned(), argument }).await,
    }
}

/// As the host's answer to Python says it: `status`, `headers`, and the body as `text` or `base64`.
fn response(answer: &Value) -> Option<Response> {
    let status = u16::try_from(answer.get("status")?.as_u64()?).ok()?;
    let headers = answer.get("headers")?.as_object()?;
    let headers =
        headers.iter().map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect::<Option<_>>()?;
    let body = match (answer.get("text"), answer.get("base64")) {
        (Some(text), _) => text.as_str()?.as_bytes().to_vec(),
        (None, Some(encoded)) => BASE64.decode(encoded.as_str()?.as_bytes()).ok()?,
        (None, None) => Vec::new(),
    };
    Some(Response { status, headers, body })
}
