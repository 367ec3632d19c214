//! Starting the program, on a folder of its own, with nothing from our own environment, and never for ever.

#![expect(clippy::disallowed_methods, reason = "a test starts the program as a person would")]

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate");
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How a command finds what it is about.
#[derive(Clone, Debug)]
enum Way {
    Folder,
    Server { url: String, key_file: PathBuf },
}

/// A person's home folder with a data folder in it.
pub struct Home {
    folder: TempDir,
    way: Way,
    variables: Vec<(String, String)>,
}

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Home {
    pub fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), way: Way::Folder, variables: Vec::new() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    pub fn is_local(&self) -> bool {
        matches!(self.way, Way::Folder)
    }

    /// Where its server is, if commands go to one.
    pub fn url(&self) -> Option<&str> {
        match &self.way {
            Way::Folder => None,
            Way::Server { url, .. } => Some(url),
        }
    }

    pub fn set(&mut self, variable: &str, value: &str) {
        self.variables.push((variable.to_owned(), value.to_owned()));
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// The program in this home, without saying where it works.
    pub fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(self.path()).env_clear().env("HOME", self.path());
        command.envs(self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare(arguments);
        match &self.way {
            Way::Folder => command.arg("--data").arg(self.data()),
            Way::Server { url, key_file } => command.args(["--server", url, "--key-file"]).arg(key_file),
        };
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(arguments).spawn().unwrap())
    }

    /// The same with text on standard input.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        finish(child)
    }

    /// What a command prints that must succeed.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    /// The one JSON value that a command prints that must succeed.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<_> = arguments.iter().copied().chain(["--json"]).collect();
        let printed = self.ok(&arguments);
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{arguments:?}: {error} in {printed}"))
    }

    /// Whether a command on the data folder is answered by a server that holds it.
    #[track_caller]
    pub fn is_served(&self) -> bool {
        self.json(&["init"])["server"].is_string()
    }

    /// The exit status and the error of a command that must fail.
    #[track_caller]
    pub fn fails(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_ne!(ran.code, 0, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stdout, "", "{arguments:?}");
        format!("{}exit {}", self.redact(&ran.stderr), ran.code)
    }

    /// Text without what differs from run to run; columns stay where they are.
    pub fn redact(&self, text: &str) -> String {
        let patterns = [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "[id]"),
            (r"\b[0-9a-f]{64}\b", "[digest]"),
            (r"\b[0-9a-f]{12}\b", "[digest]"),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d", "[time]"),
            (r"127\.0\.0\.1:\d{4,}", "[address]"),
            (r"process \d+", "process [pid]"),
            (r"\blocal:\d+", "local:[uid]"),
            (r"\blocal user \d+", "local user [uid]"),
            (r"migration \d+", "migration [n]"),
            (r"\d+ of \d+", "[n] of [n]"),
            (r"revision \d+, \d+ tenants", "revision [n], [n] tenants"),
        ];
        let text = text.replace(&self.path().display().to_string(), "[home]");
        let text = patterns.iter().fold(text, |text, (pattern, shown)| {
            let column = matches!(*shown, "[id]" | "[time]" | "[digest]");
            let pad = |found: &regex::Captures<'_>| {
                format!("{shown:<width$}", width = if column { found[0].len() } else { 0 })
            };
            regex::Regex::new(pattern).unwrap().replace_all(&text, pad).into_owned()
        });
        text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
    }
}

/// Runs a test on a local data folder, and again against a server.
#[track_caller]
pub fn both(test: impl Fn(&Home)) {
    eprintln!("on a data folder");
    test(&Home::new());
    eprintln!("against a server");
    let mut home = Home::new();
    let server = Server::start(&home, &[]);
    home.way = Way::Server { url: server.url.clone(), key_file: server.key_file.clone() };
    test(&home);
}

pub struct Server {
    child: Child,
    pub url: String,
    pub key_file: PathBuf,
    pub ready: Value,
    /// Everything it printed to standard output, once it has ended.
    rest: mpsc::Receiver<String>,
}

impl Server {
    /// Starts a server on the data folder of a home, and waits until it answers.
    pub fn start(home: &Home, flags: &[&str]) -> Self {
        let mut child = Self::command(home, flags).stderr(Stdio::inherit()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (line, first) = mpsc::channel();
        let (all, rest) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stdout.read_line(&mut text);
            let _ = line.send(text);
            let mut more = String::new();
            let _ = stdout.read_to_string(&mut more);
            let _ = all.send(more);
        });
        let line = first.recv_timeout(PATIENCE).expect("the server does not get ready");
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
        let url = ready["url"].as_str().unwrap().to_owned();
        let key_file = PathBuf::from(ready["key_file"].as_str().unwrap());
        Self { child, url, key_file, ready, rest }
    }

    pub fn command(home: &Home, flags: &[&str]) -> Command {
        let mut command = home.bare(&["serve", "--listen", "127.0.0.1:0", "--json", "--data"]);
        command.arg(home.data()).args(flags);
        command
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end; what it printed after its first line comes with it.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let status = wait(&mut self.child);
        (status, self.rest.recv_timeout(PATIENCE).unwrap())
    }

    /// How much memory it has now, in KiB.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        wait(&mut self.child);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the program does not end");
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

pub fn finish(mut child: Child) -> Ran {
    // Whoever read a part of it has taken it.
    let stdout = child.stdout.take().map(reader);
    let stderr = reader(child.stderr.take().unwrap());
    let status = wait(&mut child);
    let code = status.code().unwrap_or_else(|| panic!("ended by {status}"));
    Ran { code, stdout: stdout.map(|read| read.join().unwrap()).unwrap_or_default(), stderr: stderr.join().unwrap() }
}

fn reader(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    })
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
