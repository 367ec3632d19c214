//! Servers that are started for one test, and the way to them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use toolgate_contracts::id::OpeningId;
use toolgate_contracts::{Clock, Opening, OpeningSpec, Scheme, TenantId};
use toolgate_egress::{Connector, Openings, Purpose, Way};
use toolgate_mcp::upstream::{
    Asked, Asker, Direct, Era, Exchange, Key, Link, LinkError, Outlet, Place, Settings, Upstream, Upstreams,
};
use toolgate_mcp::wire::{Revision, RpcError};
use toolgate_sandbox::Spawner;
use uuid::Uuid;

/// Enough for a machine under load; no test waits for it to pass.
pub const LONG: Duration = Duration::from_mins(1);

pub fn tenant(number: u128) -> TenantId {
    TenantId::from_uuid(Uuid::from_u128(number))
}

pub fn key(upstream: &str) -> Key {
    Key { tenant: tenant(1), upstream: upstream.to_owned(), credentials: None }
}

pub fn settings() -> Settings {
    Settings::new(Clock::System, Some(Spawner::new().unwrap()))
}

/// A way to one port of this machine.
pub fn outlet(port: u16) -> Arc<dyn Outlet> {
    let spec = OpeningSpec {
        host: "127.0.0.1".parse().unwrap(),
        port,
        scheme: Scheme::Http,
        tenants: None,
        tools: None,
        reason: "a test".into(),
        expires_at: None,
    };
    let opening = Opening { id: OpeningId::from_uuid(Uuid::from_u128(1)), spec };
    let openings = Openings { revision: 1, list: vec![opening] };
    let connector = Connector::new(toolgate_egress::Settings::system(Clock::System));
    Arc::new(Direct { connector, way: Way::new(Purpose::Tool, Arc::new(openings)) })
}

pub fn nowhere() -> Arc<dyn Outlet> {
    outlet(1)
}

fn server(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/servers").join(name).display().to_string()
}

pub fn command(words: &[&str]) -> Upstream {
    let command = words.iter().map(|word| (*word).to_owned()).collect();
    Upstream::new(Place::Stdio { command, environment: Vec::new(), folder: None })
}

/// The server over pipes, in a revision, with manners.
pub fn piped(revision: &str, manners: &[&str]) -> Upstream {
    let script = server("pipe.py");
    let mut words = vec!["/usr/bin/python3", "-I", &script, revision];
    words.extend(manners);
    let mut upstream = command(&words);
    upstream.era = match revision.parse() {
        Ok(revision) => Era::Only(revision),
        Err(()) => Era::Only(Revision::V20250326),
    };
    upstream
}

pub fn brief() -> Upstream {
    let mut upstream = command(&["/bin/sh", &server("brief.sh")]);
    upstream.era = Era::Only(Revision::V20250618);
    upstream
}

pub async fn open(upstream: Upstream) -> Result<Arc<Link>, LinkError> {
    let pool = Upstreams::new(settings());
    pool.link(&key("one"), &Arc::new(upstream), &nowhere()).await
}

pub async fn open_at(upstream: Upstream, port: u16) -> Result<Arc<Link>, LinkError> {
    let pool = Upstreams::new(settings());
    pool.link(&key("one"), &Arc::new(upstream), &outlet(port)).await
}

pub fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub fn call(tool: &str, arguments: Value) -> Map<String, Value> {
    object(json!({"name": tool, "arguments": arguments}))
}

/// The structured content of a tool's result.
pub async fn structured(link: &Link, tool: &str, arguments: Value) -> Result<Value, LinkError> {
    let result = link.request("tools/call", call(tool, arguments), Exchange::within(LONG)).await?;
    Ok(result["structuredContent"].clone())
}

/// Answers by a function, and tells what it was asked.
pub struct Answering {
    pub asked: mpsc::UnboundedSender<Asked>,
    pub answer: fn() -> Result<Value, RpcError>,
}

impl Asker for Answering {
    fn ask(&self, asked: Asked) -> BoxFuture<'_, Result<Value, RpcError>> {
        let _ = self.asked.send(asked);
        Box::pin(std::future::ready((self.answer)()))
    }
}

/// How many descriptors this process has open.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Processes whose parent is this one, those that wait to be reaped included.
pub fn children() -> Vec<i32> {
    let own = std::process::id().to_string();
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        after.split_whitespace().nth(1) == Some(own.as_str())
    };
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(is_child).collect()
}

pub fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Waits until something holds that has to hold soon.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..15_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("it never came to this: {what}");
}
