//! The two servers that are compared, each in a process of its own, so that its CPU time and memory are its alone:
//! Toolgate with everything that `toolgate serve` switches on, and a bare axum that reads JSON and writes it back.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolgate_engine::{Runners, Wiring};
use toolgate_server::{CodeTools, Config, DataFolder, Printed, ServeError};
use toolgate_toolbox::{Builtin, Tools};
use tracing_subscriber::EnvFilter;

use crate::Failure;

/// The first argument of a process that is one of the servers.
pub const TOOLGATE: &str = "path-server";
pub const ECHO: &str = "path-echo";

const STARTING_LOOKS_MAX: usize = 200;
const STARTING_PAUSE: Duration = Duration::from_millis(50);

pub const CODE: CodeTools =
    CodeTools { tools: toolgate_toolbox::TOOLS, builtins: toolgate_toolbox::BUILTINS, runners, printed_by };

fn printed_by(_: Vec<String>) -> Printed {
    Box::pin(async { Err(toolgate_contracts::Fault::internal("a benchmark starts no program for its key")) })
}

fn runners(wiring: &Wiring<'_>) -> Runners {
    Runners::default().with("builtin", Arc::new(Builtin::new(Tools::new(wiring))))
}

/// A server in another process. It ends when this value does, and when this process does.
pub struct Server {
    child: Child,
    pub address: String,
    /// The folder's key, where it has one.
    pub key: String,
}

impl Server {
    /// This program itself, to tell its CPU time from the load's.
    pub fn start(arguments: &[&str]) -> Result<Self, Failure> {
        Self::of(&std::env::current_exe()?, arguments)
    }

    /// A program that says in its first line where it listens, as `address` or `url`.
    pub fn of(program: &Path, arguments: &[&str]) -> Result<Self, Failure> {
        let mut child = spawn(program, arguments, Stdio::piped())?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or("the server has no output")?;
        BufReader::new(output).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).map_err(|_| format!("{} did not start", program.display()))?;
        let text = |name: &str| ready.get(name).and_then(Value::as_str).map(str::to_owned);
        let address = text("address").or_else(|| Some(text("url")?.trim_start_matches("http://").to_owned()));
        let key = match text("key_file") {
            Some(file) => std::fs::read_to_string(file)?.trim().to_owned(),
            None => text("key").unwrap_or_default(),
        };
        Ok(Self { child, address: address.unwrap_or_default(), key })
    }

    /// A program that was told where to listen and says nothing of it.
    pub fn at(program: &Path, arguments: &[&str], port: u16) -> Result<Self, Failure> {
        let child = spawn(program, arguments, Stdio::null())?;
        let server = Self { child, address: format!("127.0.0.1:{port}"), key: String::new() };
        for _ in 0..STARTING_LOOKS_MAX {
            if TcpStream::connect(&server.address).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(STARTING_PAUSE);
        }
        Err(format!("{} did not start", program.display()).into())
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its input tells it to stop, or the signal does.
        drop(self.child.stdin.take());
        if let Some(process) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(process, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "what is compared are processes")]
fn spawn(program: &Path, arguments: &[&str], output: Stdio) -> std::io::Result<Child> {
    // Its log goes where it costs what a log costs and nobody keeps it.
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(output).stderr(Stdio::null()).spawn()
}

/// Until the process that started this one closes our input, or is gone.
async fn told_to_stop() {
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let _ = ended.await;
}

/// `path-server FOLDER DATABASE DURABILITY LOG`.
pub async fn toolgate(arguments: &[String]) -> Result<(), Failure> {
    let [folder, database, durability, log] = arguments else { return Err("FOLDER DATABASE DURABILITY LOG".into()) };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(log)?)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init()
        .map_err(|error| error.to_string())?;
    let config = configuration(database, durability)?;
    let mut folder = DataFolder::take(folder.as_ref()).map_err(|error| match error {
        ServeError::Held { .. } => "the folder is held".to_owned(),
        ServeError::Fault(fault) => fault.told().to_owned(),
    })?;
    let ready = |ready: toolgate_server::Ready| {
        let key = std::fs::read_to_string(&ready.key_file).unwrap_or_default();
        let address = ready.url.trim_start_matches("http://");
        println!("{}", json!({"address": address, "key": key.trim()}));
    };
    let served = toolgate_server::serve(config, &mut folder, CODE, told_to_stop(), async |_| Ok(()), ready);
    served.await.map_err(|fault| fault.logged().unwrap_or(fault.told()).to_owned().into())
}

pub fn configuration(database: &str, durability: &str) -> Result<Config, Failure> {
    let flags = [
        ("listen", "127.0.0.1:0".to_owned()),
        ("database", database.to_owned()),
        ("durability", durability.to_owned()),
    ];
    let flags: Vec<_> = flags.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    Config::load(None, std::iter::empty(), &flags).map_err(|problems| problems.to_string().into())
}

/// `path-echo`: parses and serialises, and nothing else.
pub async fn echo() -> Result<(), Failure> {
    async fn answer(Json(body): Json<Value>) -> Json<Value> {
        Json(body)
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", json!({"address": listener.local_addr()?.to_string()}));
    let served = axum::serve(listener, Router::new().route("/echo", post(answer)));
    tokio::select! {
        ended = served.into_future() => Ok(ended?),
        () = told_to_stop() => Ok(()),
    }
}
