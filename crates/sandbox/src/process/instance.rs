//! One instance and one run in it. It is never used twice.

use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use crate::capture::Capture;
use crate::dialogue;
use crate::error::SandboxError;
use crate::kernel;
use crate::process::zygote::{Born, Exit, Made, Zygote};
use crate::request::{Limits, SandboxRequest, Tier};
use crate::result::{Ended, LimitKind, SandboxResult, Usage};

/// How long the word about a death that has happened may take.
const LAST_WORD: Duration = Duration::from_secs(5);
/// How often processor time is looked at, at most and at least.
const LOOK_MIN: Duration = Duration::from_millis(5);
const LOOK_MAX: Duration = Duration::from_millis(500);

pub struct Instance {
    channel: UnixStream,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    process: Process,
    exit: oneshot::Receiver<Exit>,
    // What the instance was forked from lives at least as long.
    _zygote: Arc<Zygote>,
}

/// The process of an instance: killed when nobody holds it.
struct Process {
    descriptor: OwnedFd,
    pid: Pid,
}

impl Process {
    fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.descriptor, Signal::KILL);
    }

    /// The most memory it had at once.
    fn peak_memory_bytes(&self) -> Option<u64> {
        let text = told(&format!("/proc/{}/status", self.pid.as_raw_pid())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Instance {
    /// Has one born, and waits until all its barriers stand.
    pub async fn prepare(zygote: Arc<Zygote>, scratch_bytes: u64, made: Made) -> Result<Self, SandboxError> {
        let broke = || SandboxError::broke("preparing an instance");
        let (ours, theirs) = StdUnixStream::pair().map_err(broke())?;
        ours.set_nonblocking(true).map_err(broke())?;
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from);
        let (stdout, stdout_theirs) = pipe().map_err(broke())?;
        let (stderr, stderr_theirs) = pipe().map_err(broke())?;
        let descriptors = [theirs.into(), stdout_theirs, stderr_theirs];
        let Born { process, exit } = zygote.order(scratch_bytes, made, descriptors).await.map_err(broke())?;
        let pid = pid_of(&process).map_err(broke())?;
        let mut instance = Self {
            channel: UnixStream::from_std(ours).map_err(broke())?,
            stdout: pipe::Receiver::from_owned_fd(stdout).map_err(broke())?,
            stderr: pipe::Receiver::from_owned_fd(stderr).map_err(broke())?,
            process: Process { descriptor: process, pid },
            exit,
            _zygote: zygote,
        };
        dialogue::ready(&mut instance.channel).await.map_err(|why| SandboxError::Start { why })?;
        Ok(instance)
    }

    /// Whether it still waits for its run.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.exit.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }

    /// Hands over the code and waits for how it ends; dropping the future kills it.
    pub async fn run(self, request: &SandboxRequest) -> Result<SandboxResult, SandboxError> {
        let SandboxRequest { limits, output, .. } = request;
        let Self { mut channel, stdout, stderr, process, mut exit, _zygote } = self;
        let started = Instant::now();
        let cpu_before = kernel::cpu_of(process.pid).unwrap_or_default();
        let mut capture = Capture::new(stdout, stderr, limits.output_bytes, output.clone());
        let mut ended = {
            let speak = dialogue::run(&mut channel, request, cpu_before);
            // The order matters when several are ready: an answer counts before a limit that is reached just then.
            tokio::select! {
                biased;
                ended = speak => ended,
                () = capture.run() => Some(Ended::Limit(LimitKind::Output)),
                limit = over(process.pid, limits, started, cpu_before) => Some(Ended::Limit(limit)),
            }
        };
        let wall = started.elapsed();
        // While it is still there, so that the figures are its own.
        let mut usage = Usage {
            cpu: kernel::cpu_of(process.pid).unwrap_or_default().saturating_sub(cpu_before),
            wall,
            peak_memory_bytes: process.peak_memory_bytes().unwrap_or_default(),
        };
        process.kill();
        capture.drain();
        if ended.is_none()
            && let Ok(Ok(exit)) = tokio::time::timeout(LAST_WORD, &mut exit).await
        {
            usage.cpu = exit.cpu.saturating_sub(cpu_before);
            usage.peak_memory_bytes = exit.peak_memory_bytes;
            ended = Some(fate(exit, &usage, limits));
        }
        if capture.is_over() {
            ended = Some(Ended::Limit(LimitKind::Output));
        }
        let ended = ended.unwrap_or_else(|| Ended::Died { how: "it is not known how".to_owned() });
        let (stdout, stderr) = capture.into_parts();
        Ok(SandboxResult { tier: Tier::Process, ended, stdout, stderr, usage })
    }
}

/// The beginning of what the kernel tells in a file, in one read: what we look for stands in the first lines, and a file
/// that has no size is otherwise read a few bytes at a time.
fn told(path: &str) -> io::Result<String> {
    let mut bytes = [0; 4096];
    let count = std::fs::File::open(path)?.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()).into_owned())
}

/// The process id of a descriptor, as we see it.
fn pid_of(descriptor: &OwnedFd) -> io::Result<Pid> {
    let text = told(&format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd()))?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:")).and_then(|text| text.trim().parse().ok());
    number.and_then(Pid::from_raw).ok_or_else(|| io::Error::other("an instance ended before it began"))
}

/// Returns when the processor time or the time altogether is used up. Processor time cannot be used faster than by all
/// threads at once. Both are one timer: a run that is over in a moment wakes nobody else for them.
async fn over(pid: Pid, limits: &Limits, started: Instant, before: Duration) -> LimitKind {
    let threads = u32::try_from(limits.processes).unwrap_or(u32::MAX).max(1);
    loop {
        let left_of_wall = limits.wall.saturating_sub(started.elapsed());
        if left_of_wall.is_zero() {
            return LimitKind::Wall;
        }
        // Gone: how it ended is told by others.
        let look = kernel::cpu_of(pid).map(|used| limits.cpu.saturating_sub(used.saturating_sub(before)));
        let until = match look {
            Some(left) if left.is_zero() => return LimitKind::Cpu,
            Some(left) => (left / threads).clamp(LOOK_MIN, LOOK_MAX).min(left_of_wall),
            None => left_of_wall,
        };
        tokio::time::sleep(until).await;
    }
}

/// What the way in which it ended says.
fn fate(exit: Exit, usage: &Usage, limits: &Limits) -> Ended {
    let (signal, code) = (exit.status & 0x7f, exit.status >> 8 & 0xff);
    let full = usage.peak_memory_bytes >= limits.memory_bytes / 10 * 9;
    match signal {
        libc::SIGKILL if usage.cpu >= limits.cpu => Ended::Limit(LimitKind::Cpu),
        libc::SIGKILL | libc::SIGSEGV | libc::SIGABRT | libc::SIGBUS if full => Ended::Limit(LimitKind::Memory),
        0 => Ended::Died { how: format!("it left with status {code}") },
        signal => Ended::Died { how: format!("signal {signal} ended it") },
    }
}
