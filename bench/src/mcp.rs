//! A tool of a server behind the gate, called over the protocol: beside the same call to that server itself, and beside
//! other gateways in front of it, each at several numbers of connections.
//!
//! The server is the bare one of `bench/beside`; Toolgate is the program that people run, with what it switches on by
//! itself. The gateways are those of the registries that `scripts/bench-beside` could get: `mcp-proxy` of crates.io and
//! `fastmcp` of PyPI. One that is not there, or does not answer, is named in the table.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_contracts::Clock;

use crate::Failure;
use crate::path::load::{self, Request};
use crate::path::servers::Server;
use crate::path::{Cost, exchange, process};
use crate::report::{Goal, Report};

const REVISION: &str = "2026-07-28";
const TEXT: &str = "The quick \"brown\" fox jumps over the lazy dög";
/// What every answer holds: the text came back.
const EXPECTED: &[u8] = b"\"content\":[{";

pub fn run(report: &mut Report) -> Result<(), Failure> {
    println!("{}, load {:.2}, {} cores", Clock::System.now(), process::load(), std::thread::available_parallelism()?);
    let programs = Programs::find()?;
    let bare = Server::of(&programs.bare, &[])?;
    let folder = tempfile::tempdir()?;
    let gate = Gate::open(&programs.toolgate, folder.path(), &bare)?;
    let mut gateways = Vec::new();
    for (name, opened) in [
        ("mcp-proxy", Gateway::mcp_proxy(&programs, folder.path(), &bare)),
        ("fastmcp", Gateway::fastmcp(&programs, &bare)),
    ] {
        match opened {
            Ok(gateway) => gateways.push((name, gateway)),
            Err(why) => println!("  {name} is left out: {why}"),
        }
    }

    let to_bare = call("/mcp", "echo", None);
    let to_own = call("/mcp", "echo", Some(&gate.key));
    let to_served = call("/mcp", "bare.echo", Some(&gate.key));
    for connections in [1, 8, 64, 256] {
        let direct = exchange(&bare, &to_bare, connections)?;
        let own = exchange(&gate.server, &to_own, connections)?;
        let behind = exchange(&gate.server, &to_served, connections)?;
        let told = |report: &mut Report, what: &str, cost: &Cost| {
            let label = |metric: &str| format!("{connections} connections, {what}, {metric}");
            report.line(label("calls"), "1/s", cost.per_second, Some(direct.per_second));
            report.line(label("p50"), "us", cost.measured.median, Some(direct.measured.median));
            report.line(label("p99"), "us", cost.measured.p99, Some(direct.measured.p99));
            report.line(label("CPU of that process"), "us", cost.measured.cpu, Some(direct.measured.cpu));
        };
        told(report, "the bare server itself", &direct);
        told(report, "Toolgate, a tool of its own", &own);
        told(report, "Toolgate, the bare server's tool", &behind);
        for (name, gateway) in &gateways {
            match exchange(&gateway.server, &gateway.request, connections) {
                Ok(cost) => told(report, &format!("{name}, the bare server's tool"), &cost),
                // That it breaks under this load is a result too.
                Err(why) => println!("  {connections} connections, {name}: {why}"),
            }
        }
        if connections == 1 {
            let added = (behind.measured.median - direct.measured.median) / direct.measured.median;
            let metric = "1 connection: p50 added, as a multiple of the bare server's";
            report.goal(metric, "ratio", added, Goal::AtMost(1.0), Some(0.5));
        }
        if connections == 64 {
            let ratio = behind.measured.cpu / direct.measured.cpu;
            let metric = "64 connections: CPU of Toolgate as a multiple of the bare server's";
            report.goal(metric, "ratio", ratio, Goal::AtMost(1.5), Some(1.0));
        }
    }
    let memory = |server: &Server| process::memory(server.process(), "VmRSS");
    report.line(
        "memory after it all, Toolgate (baseline: the bare server)",
        "MB",
        memory(&gate.server),
        Some(memory(&bare)),
    );
    for (name, gateway) in &gateways {
        report.line(format!("memory after it all, {name}"), "MB", memory(&gateway.server), Some(memory(&bare)));
    }
    println!("{}, load {:.2}", Clock::System.now(), process::load());
    Ok(())
}

/// What is started, all of it from the folder that this program is in or beside it.
struct Programs {
    toolgate: PathBuf,
    bare: PathBuf,
    /// Where programs of others are.
    beside: PathBuf,
}

impl Programs {
    fn find() -> Result<Self, Failure> {
        let here = std::env::current_exe()?;
        let release = here.parent().ok_or("this program is in no folder")?;
        let target = release.parent().ok_or("this program is in no folder")?;
        let beside = target.join("beside");
        Ok(Self { toolgate: there(release.join("toolgate"))?, bare: there(beside.join("release/beside"))?, beside })
    }
}

fn there(path: PathBuf) -> Result<PathBuf, String> {
    let missing = format!("{} is not there; `make bench-mcp` makes it", path.display());
    path.is_file().then_some(path).ok_or(missing)
}

/// `tools/call`, in the revision that needs nothing before it.
fn call(path: &str, tool: &str, key: Option<&str>) -> Request {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    });
    let params = json!({"name": tool, "arguments": {"text": TEXT}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let headers = format!(
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {REVISION}\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
    );
    Request::of("POST", path, key, &headers, &body, EXPECTED)
}

/// Toolgate with the bare server behind it, and an operator's word that its tool does nothing to anybody.
struct Gate {
    server: Server,
    key: String,
}

impl Gate {
    fn open(program: &Path, folder: &Path, bare: &Server) -> Result<Self, Failure> {
        let data = folder.join("data").display().to_string();
        let arguments = ["serve", "--json", "--examples", "--listen", "127.0.0.1:0", "--data", &data];
        let server = Server::of(program, &arguments)?;
        let ask = |method: &str, path: &str, body: Value| -> Result<Value, Failure> {
            let request = Request::of(method, path, Some(&server.key), "", &body.to_string(), b"{");
            Ok(serde_json::from_str(&load::once(&server.address, &request)?)?)
        };
        let (host, port) = bare.address.split_once(':').ok_or("an address without a port")?;
        let opening = json!({
            "host": host, "port": port.parse::<u16>()?, "scheme": "http", "reason": "the server that is compared with",
        });
        ask("POST", "/api/v1/egress/openings", opening)?;
        let url = format!("http://{}/mcp", bare.address);
        ask("PUT", "/api/v1/upstreams/bare", json!({"name": "bare", "transport": {"kind": "http", "url": url}}))?;
        let class = json!({"egress_class": "none", "reason": "it says back what it is told"});
        ask("PUT", "/api/v1/tools/bare.echo/classification", class)?;
        let made = ask("POST", "/api/v1/keys", json!({"name": "bench", "owner": "admin"}))?;
        let key = made.get("secret").and_then(Value::as_str).ok_or("no key was made")?.to_owned();
        Ok(Self { server, key })
    }
}

/// A gateway of others in front of the bare server, without anything switched on.
struct Gateway {
    server: Server,
    request: Request,
}

impl Gateway {
    fn mcp_proxy(programs: &Programs, folder: &Path, bare: &Server) -> Result<Self, Failure> {
        let program = there(programs.beside.join("bin/mcp-proxy"))?;
        let port = free_port()?;
        let settings = folder.join("proxy.toml");
        let text = format!(
            "[proxy]\nname = \"proxy\"\nseparator = \"_\"\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {port}\n\
             [observability]\nlog_level = \"info\"\n[[backends]]\nname = \"bare\"\ntransport = \"http\"\nurl = \"http://{}/mcp\"\n",
            bare.address
        );
        std::fs::write(&settings, text)?;
        let server = Server::at(&program, &["--config", &settings.display().to_string()], port)?;
        Self::tried(server, call("/", "bare_echo", None))
    }

    fn fastmcp(programs: &Programs, bare: &Server) -> Result<Self, Failure> {
        let python = there(programs.beside.join("venv/bin/python"))?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/beside/proxy.py");
        let port = free_port()?;
        let server = Server::at(&python, &[script, &format!("http://{}/mcp", bare.address), &port.to_string()], port)?;
        Self::tried(server, call("/mcp", "echo", None))
    }

    /// One that gives no answer at all is not measured.
    fn tried(server: Server, request: Request) -> Result<Self, Failure> {
        load::once(&server.address, &request)?;
        Ok(Self { server, request })
    }
}

/// For a program that does not say which port it took.
fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
