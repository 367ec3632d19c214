//! Trusted programs that the operator named: scripts, and servers that speak over their standard streams.
//!
//! They are kept on a leash, not in a jail: a vector of arguments and never a shell, the environment that the caller
//! gives and nothing of ours, no descriptor of ours, a session and process group of their own, limits of the kernel's.
//! When the time is over, or nobody waits any more, the whole group is killed, also what ignores termination; and with it
//! what left the group and the session, which bears the child's [`Mark`].
//! Deliberately absent: namespaces. Code of tenants never runs here.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child as StdChild, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::io::AsyncWriteExt;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;

use crate::capture::Capture;
use crate::error::SandboxError;
use crate::kernel::{self, ResourceLimit};
use crate::request::OutputSink;
use crate::result::{LimitKind, Usage};
use crate::spawner::Spawner;
use crate::strays::Mark;

/// What a trusted program may use. What is `None` is not limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildLimits {
    /// For captured programs; one that is spoken with lives as long as it is held.
    pub wall: Duration,
    /// How long it may take to leave after it was asked to, before it is killed.
    pub grace: Duration,
    pub cpu: Option<Duration>,
    /// Addresses, so more than it uses.
    pub memory_bytes: Option<u64>,
    /// Standard output and standard error together; of captured programs.
    pub output_bytes: u64,
    pub open_files: Option<u64>,
    /// The largest file that it may write.
    pub file_bytes: Option<u64>,
}

impl Default for ChildLimits {
    fn default() -> Self {
        Self {
            wall: Duration::from_mins(1),
            grace: Duration::from_secs(2),
            cpu: None,
            memory_bytes: None,
            output_bytes: 1024 * 1024,
            open_files: Some(1024),
            file_bytes: None,
        }
    }
}

/// A program to start. It is looked for nowhere: the path is the program.
#[derive(Clone, Debug)]
pub struct ChildRequest {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// All of it.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs; `/` if nothing is said.
    pub folder: Option<PathBuf>,
    /// What a captured program reads on its standard input.
    pub input: Vec<u8>,
    pub limits: ChildLimits,
}

impl ChildRequest {
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: None,
            input: Vec::new(),
            limits: ChildLimits::default(),
        }
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildEnd {
    Exited(i32),
    Signalled(i32),
    /// We ended it.
    Limit(LimitKind),
    /// We ended it, because whoever wanted it did no more.
    Stopped,
}

/// What a captured program came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildOutput {
    pub end: ChildEnd,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub usage: Usage,
}

/// A running program. Dropping it kills it with everything that it started.
pub struct Child {
    // INVARIANT: `Some` until it is reaped; while it is, its process id is nobody else's.
    process: Option<StdChild>,
    pid: Pid,
    mark: Option<Mark>,
    ended: AsyncFd<OwnedFd>,
    spawner: Spawner,
}

/// A program to speak with.
pub struct Duplex {
    pub stdin: pipe::Sender,
    pub stdout: pipe::Receiver,
    pub stderr: pipe::Receiver,
    pub child: Child,
}

impl Child {
    /// Starts a program and waits for its end; `sink` is shown output as it comes.
    pub async fn capture(
        spawner: &Spawner,
        request: ChildRequest,
        sink: Option<OutputSink>,
    ) -> Result<ChildOutput, SandboxError> {
        Self::capture_until(spawner, request, sink, std::future::pending()).await
    }

    /// The same, and when `stop` comes first the group is asked to leave, and killed after its grace.
    pub async fn capture_until(
        spawner: &Spawner,
        request: ChildRequest,
        sink: Option<OutputSink>,
        stop: impl Future<Output = ()>,
    ) -> Result<ChildOutput, SandboxError> {
        let ChildLimits { wall, grace, cpu, output_bytes, .. } = request.limits;
        let input = request.input.clone();
        let started = Instant::now();
        let Duplex { mut stdin, stdout, stderr, mut child } = Self::duplex(spawner, request).await?;
        let mut capture = Capture::new(stdout, stderr, output_bytes, sink);
        let ended_by_us = {
            let speak = async {
                // Who does not read gets an error, and does not care.
                let _ = stdin.write_all(&input).await;
                let _ = stdin.shutdown().await;
                drop(stdin);
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = speak => None,
                () = capture.run() => Some(ChildEnd::Limit(LimitKind::Output)),
                () = tokio::time::sleep(wall) => Some(ChildEnd::Limit(LimitKind::Wall)),
                () = stop => Some(ChildEnd::Stopped),
                ended = child.ended() => {
                    ended?;
                    None
                }
            }
        };
        let cpu_used = kernel::cpu_of(child.pid);
        if ended_by_us.is_some() {
            child.end(grace, &mut capture).await;
        }
        let status = child.wait().await?;
        capture.drain();
        let over = capture.is_over();
        let end = match (ended_by_us, status.code(), status.signal()) {
            (Some(end), _, _) => end,
            (None, _, _) if over => ChildEnd::Limit(LimitKind::Output),
            (None, _, Some(signal)) if signal == libc::SIGXCPU => ChildEnd::Limit(LimitKind::Cpu),
            (None, _, Some(signal))
                if signal == libc::SIGKILL && cpu.zip(cpu_used).is_some_and(|(most, used)| used >= most) =>
            {
                ChildEnd::Limit(LimitKind::Cpu)
            }
            (None, _, Some(signal)) => ChildEnd::Signalled(signal),
            (None, code, None) => ChildEnd::Exited(code.unwrap_or(-1)),
        };
        let (stdout, stderr) = capture.into_parts();
        let usage = Usage { cpu: cpu_used.unwrap_or_default(), wall: started.elapsed(), peak_memory_bytes: 0 };
        Ok(ChildOutput { end, stdout, stderr, usage })
    }

    /// Starts a program to speak with.
    pub async fn duplex(spawner: &Spawner, request: ChildRequest) -> Result<Duplex, SandboxError> {
        let program = request.program.clone();
        let (mut child, stdout, stderr) = Self::start(spawner, request, Stdio::piped(), None).await?;
        let not_started = |source: io::Error| SandboxError::Program { program: program.clone(), source };
        let stdin = child.process.as_mut().and_then(|process| process.stdin.take());
        let stdin = stdin.ok_or_else(|| not_started(io::Error::other("it has no standard input")))?;
        Ok(Duplex { stdin: pipe::Sender::from_owned_fd(stdin.into()).map_err(not_started)?, stdout, stderr, child })
    }

    /// Starts a program that is spoken with through `stdin`, which may be more than a pipe, and what it prints. It gets
    /// `data_bytes` of memory of its own.
    pub(crate) async fn attached(
        spawner: &Spawner,
        request: ChildRequest,
        stdin: OwnedFd,
        data_bytes: u64,
    ) -> Result<(Self, pipe::Receiver, pipe::Receiver), SandboxError> {
        Self::start(spawner, request, stdin.into(), Some(data_bytes)).await
    }

    async fn start(
        spawner: &Spawner,
        request: ChildRequest,
        stdin: Stdio,
        data_bytes: Option<u64>,
    ) -> Result<(Self, pipe::Receiver, pipe::Receiver), SandboxError> {
        let program = request.program.clone();
        let not_started = |source: io::Error| SandboxError::Program { program: program.clone(), source };
        let mark = Mark::new();
        let keeper = spawner.clone();
        let born = move || {
            let process = spawn(request, stdin, data_bytes, mark)?;
            Ok(Born { process: Some(process), mark, spawner: keeper })
        };
        let mut born: Born = spawner.on_thread(born).await?.map_err(not_started)?;
        let gone = || not_started(io::Error::other("it was given up"));
        let mut process = born.process.take().ok_or_else(gone)?;
        let streams = (process.stdout.take(), process.stderr.take());
        let pid = Pid::from_child(&process);
        // Nobody has reaped it yet, so this is it and no other.
        let opened = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::NONBLOCK)
            .map_err(io::Error::from)
            .and_then(kernel::watch);
        let ended = match opened {
            Ok(ended) => ended,
            Err(error) => {
                end_now(pid, mark, process, spawner);
                return Err(not_started(error));
            }
        };
        let child = Self { process: Some(process), pid, mark, ended, spawner: spawner.clone() };
        let (Some(stdout), Some(stderr)) = streams else {
            return Err(not_started(io::Error::other("it has no streams")));
        };
        let stdout = pipe::Receiver::from_owned_fd(stdout.into()).map_err(not_started)?;
        let stderr = pipe::Receiver::from_owned_fd(stderr.into()).map_err(not_started)?;
        Ok((child, stdout, stderr))
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// Whether its process id is still nobody else's.
    pub(crate) fn is_held(&self) -> bool {
        self.process.is_some()
    }

    /// Asks the group to leave.
    pub fn ask_to_end(&self) {
        if self.process.is_some() {
            let _ = rustix::process::kill_process_group(self.pid, Signal::TERM);
        }
    }

    /// Kills the group.
    pub fn kill(&self) {
        if self.process.is_some() {
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Waits until it has ended, and ends what it left behind.
    pub async fn wait(&mut self) -> Result<ExitStatus, SandboxError> {
        self.ended().await?;
        // It is not reaped yet, so the group still has its number.
        self.kill();
        if let Some(mark) = self.mark
            && !mark.end().await
        {
            tracing::warn!(pid = self.pid(), "a program left processes behind that do not end");
        }
        let gone = || io::Error::other("it was waited for before");
        let mut process = self.process.take().ok_or_else(gone).map_err(SandboxError::broke("waiting"))?;
        process.wait().map_err(SandboxError::broke("waiting"))
    }

    async fn ended(&self) -> Result<(), SandboxError> {
        self.ended.readable().await.map(|mut ready| ready.retain_ready()).map_err(SandboxError::broke("waiting"))
    }

    /// Asks, waits for as long as it is given, and kills. Output is still taken, so that nobody hangs on a full pipe.
    async fn end(&self, grace: Duration, capture: &mut Capture) {
        self.ask_to_end();
        tokio::select! {
            _ = self.ended() => {}
            () = tokio::time::sleep(grace) => {}
            () = capture.discard() => {}
        }
        self.kill();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            end_now(self.pid, self.mark, process, &self.spawner);
        }
    }
}

/// A process that was started and that nobody has taken yet: who waited for it may have given up meanwhile.
struct Born {
    process: Option<StdChild>,
    mark: Option<Mark>,
    spawner: Spawner,
}

impl Drop for Born {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            end_now(Pid::from_child(&process), self.mark, process, &self.spawner);
        }
    }
}

fn end_now(pid: Pid, mark: Option<Mark>, mut process: StdChild, spawner: &Spawner) {
    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    spawner.reap(Box::new(move || {
        let left_nobody = mark.is_none_or(Mark::kill);
        left_nobody && !matches!(process.try_wait(), Ok(None))
    }));
}

/// On the thread that starts processes.
#[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
fn spawn(request: ChildRequest, stdin: Stdio, data_bytes: Option<u64>, mark: Option<Mark>) -> io::Result<StdChild> {
    let ChildRequest { program, arguments, environment, folder, input: _, limits } = request;
    let ChildLimits { cpu, memory_bytes, open_files, file_bytes, .. } = limits;
    if !program.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path of the program is not absolute"));
    }
    let whole = |time: Duration| time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1);
    let limits = [
        (libc::RLIMIT_CORE, Some(0)),
        (libc::RLIMIT_CPU, cpu.map(whole)),
        (libc::RLIMIT_AS, memory_bytes),
        (libc::RLIMIT_DATA, data_bytes),
        (libc::RLIMIT_NOFILE, open_files),
        (libc::RLIMIT_FSIZE, file_bytes),
    ];
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment)
        .current_dir(folder.as_deref().unwrap_or(Path::new("/")))
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let limited = |(resource, value): (_, Option<u64>)| {
        // Warned, it dies of a signal that says why; who ignores that has a second more.
        let more = u64::from(resource == libc::RLIMIT_CPU);
        value.map(|value| ResourceLimit { resource, warned_at: value, at_most: value + more })
    };
    let limits = limits.into_iter().filter_map(limited).chain(mark.map(Mark::limit));
    kernel::leash(&mut command, limits.collect());
    command.spawn()
}
