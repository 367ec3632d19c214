//! The session in which a document's commands run: its own data folder, its own working folder, its own servers.

#![expect(
    clippy::disallowed_methods,
    reason = "a test starts the program as a person would, and asks where programs are"
)]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::matching::compare;
use super::script::{Command, Script, Step};

const COMMAND_MAX: Duration = Duration::from_mins(2);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The address that documents name.
const ADDRESS: &str = "127.0.0.1:8787";
/// The port that documents name for what a reader serves themselves.
const PORT: &str = "8901";
/// What a reader builds with cargo in a document, and where it then is; here it is built with these tests.
const EXAMPLE: &str = "target/debug/example-tool";

pub struct Shell {
    folder: TempDir,
    data: TempDir,
    /// What `export` set.
    variables: Vec<(String, String)>,
    server: Option<Server>,
    workers: Vec<Worker>,
    /// A free port, in the place of the one that documents name.
    port: String,
}

struct Server {
    process: Child,
    log: PathBuf,
    /// Where it really listens.
    address: String,
}

struct Worker {
    process: Child,
    command: String,
    log: PathBuf,
}

struct Ended {
    printed: String,
    exit: Option<i32>,
}

impl Shell {
    /// `None` where a program is missing that documents use and tests do not demand.
    pub fn open(script: &Script) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let data = TempDir::new().unwrap();
        for name in ["examples", "sdk"] {
            copy(&super::root().join(name), &folder.path().join(name)).unwrap();
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        if script.uses(EXAMPLE) {
            let example = folder.path().join(EXAMPLE);
            std::fs::create_dir_all(example.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(programs().join("examples/example-tool"), example).unwrap();
        }
        let shell = Self { folder, data, variables: Vec::new(), server: None, workers: Vec::new(), port };
        if script.uses("curl") && shell.run("command -v curl").unwrap().exit != Some(0) {
            eprintln!("curl is not installed: this document's session is not tested");
            return None;
        }
        Some(shell)
    }

    pub fn take(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::File { path, text, .. } => {
                let path = self.folder.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap_or(self.folder.path()))
                    .map_err(|error| error.to_string())?;
                std::fs::write(path, self.as_it_is(text)).map_err(|error| error.to_string())
            }
            Step::Command(command) if command.text.starts_with("export ") => self.export(&command.text),
            Step::Command(command) => self.command(command),
            Step::Server(command) => self.serve(command),
            Step::Worker(command) => self.work(command),
        }
    }

    fn command(&self, command: &Command) -> Result<(), String> {
        let Command { text, shown, exit, .. } = command;
        let ended = self.run(text)?;
        let told = |problem: String| format!("`{text}`: {problem}\n--- it printed\n{}---", ended.printed);
        if ended.exit != Some(*exit) {
            return Err(told(format!("ended with {:?} instead of {exit}", ended.exit)));
        }
        if shown.is_empty() { Ok(()) } else { compare(shown, &ended.printed).map_err(told) }
    }

    /// A variable for the commands after it.
    fn export(&mut self, text: &str) -> Result<(), String> {
        let (name, _) = text["export ".len()..].split_once('=').ok_or("`export` needs NAME=VALUE")?;
        // Beside what the commands within it tell the reader.
        let ended = self.run(&format!("{text}\nprintf %s \"${name}\" > .value"))?;
        if ended.exit != Some(0) {
            return Err(format!("`{text}` failed: {}", ended.printed));
        }
        self.variables.push((name.to_owned(), self.as_documented(&read(&self.folder.path().join(".value")))));
        Ok(())
    }

    fn run(&self, text: &str) -> Result<Ended, String> {
        let log = self.folder.path().join(".printed");
        let mut process = self.start(text, &log)?;
        let begun = Instant::now();
        let status = loop {
            match process.try_wait().map_err(|error| error.to_string())? {
                Some(status) => break status,
                None if begun.elapsed() > COMMAND_MAX => {
                    let _ = process.kill();
                    return Err(format!("`{text}` did not end"));
                }
                None => std::thread::sleep(LOOK_AGAIN),
            }
        };
        let printed = self.as_documented(&read(&log));
        Ok(Ended { printed, exit: status.code() })
    }

    fn start(&self, text: &str, log: &Path) -> Result<Child, String> {
        let output = File::create(log).map_err(|error| error.to_string())?;
        let errors = output.try_clone().map_err(|error| error.to_string())?;
        let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap_or_default());
        Process::new("sh")
            .arg("-c")
            .arg(self.as_it_is(text))
            .current_dir(self.folder.path())
            .env_clear()
            .envs([("PATH", path.as_str()), ("LANG", "C.UTF-8"), ("TZ", "UTC"), ("TERM", "dumb")])
            .env("HOME", self.folder.path())
            .env("TOOLGATE_DATA", self.data.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("`sh` cannot be started: {error}"))
    }

    fn as_documented(&self, printed: &str) -> String {
        let printed = printed.replace(&self.port, PORT);
        match &self.server {
            Some(server) => printed.replace(&server.address, ADDRESS),
            None => printed,
        }
    }

    /// What a document says, with the addresses of this session.
    fn as_it_is(&self, documented: &str) -> String {
        let text = documented.replace(PORT, &self.port);
        match &self.server {
            Some(server) => text.replace(ADDRESS, &server.address),
            None => text,
        }
    }

    /// Starts a process beside the session and waits until it has printed what is shown.
    fn work(&mut self, command: &Command) -> Result<(), String> {
        let log = self.folder.path().join(format!(".worker{}", self.workers.len()));
        let process = self.start(&format!("exec {}", command.text), &log)?;
        self.workers.push(Worker { process, command: command.text.clone(), log: log.clone() });
        let begun = Instant::now();
        loop {
            let printed = self.as_documented(&read(&log));
            let ready = compare(&command.shown, &printed);
            if ready.is_ok() {
                return Ok(());
            }
            let ended = self.workers.last_mut().and_then(|worker| worker.process.try_wait().ok().flatten());
            if ended.is_some() || begun.elapsed() > COMMAND_MAX {
                return Err(format!("`{}` {ended:?}: {ready:?}\n--- it printed\n{printed}---", command.text));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Starts a server on a free port and waits until it has printed what is shown.
    fn serve(&mut self, command: &Command) -> Result<(), String> {
        let text = format!("TOOLGATE_LISTEN=127.0.0.1:0 exec {}", command.text.replace(ADDRESS, "127.0.0.1:0"));
        let log = self.folder.path().join(".server");
        let mut process = self.start(&text, &log)?;
        let begun = Instant::now();
        loop {
            let printed = read(&log);
            let address = address(&printed);
            let documented =
                address.as_ref().map_or_else(|| printed.clone(), |real| printed.replace(real.as_str(), ADDRESS));
            let ready = compare(&command.shown, &documented);
            if let (Ok(()), Some(address)) = (&ready, address) {
                self.server = Some(Server { process, log, address });
                return Ok(());
            }
            let ended = process.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || begun.elapsed() > COMMAND_MAX {
                let _ = process.kill();
                return Err(format!("`{}` {ended:?}: {ready:?}\n--- it printed\n{printed}---", command.text));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// A server that was told to end ends well.
    pub fn close(mut self) -> Result<(), String> {
        for mut worker in std::mem::take(&mut self.workers) {
            end(&mut worker.process, &worker.command, &worker.log)?;
        }
        let Some(mut server) = self.server.take() else { return Ok(()) };
        end(&mut server.process, "the server", &server.log)
    }
}

/// Tells a process to end, and waits until it has.
fn end(process: &mut Child, what: &str, log: &Path) -> Result<(), String> {
    let pid = i32::try_from(process.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).map_err(|error| error.to_string())?;
    }
    let begun = Instant::now();
    while begun.elapsed() < COMMAND_MAX {
        if let Some(status) = process.try_wait().map_err(|error| error.to_string())? {
            return if status.success() { Ok(()) } else { Err(format!("{what} ended with {status}\n{}", read(log))) };
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Err(format!("{what} did not end when it was told to"))
}

/// Where this build's programs are.
fn programs() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_toolgate")).parent().unwrap_or(Path::new("/"))
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn read(log: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned()
}

/// The first `127.0.0.1:PORT` that was printed.
fn address(printed: &str) -> Option<String> {
    let host = "127.0.0.1:";
    let start = printed.find(host)?;
    let port: String = printed[start + host.len()..].chars().take_while(char::is_ascii_digit).collect();
    (!port.is_empty()).then(|| format!("{host}{port}"))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in from.read_dir()? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
