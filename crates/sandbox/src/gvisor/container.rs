//! One container and one run in it. It is never used twice, and when nobody holds it nothing of it is left: no process, no
//! folder, no control group.

use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tokio::net::UnixStream;

use crate::capture::Capture;
use crate::child::{Child, ChildLimits, ChildRequest};
use crate::dialogue;
use crate::error::SandboxError;
use crate::gvisor::bundle::Bundle;
use crate::gvisor::members::Members;
use crate::process::group::Group;
use crate::process::interpreter::Interpreter;
use crate::request::{Limits, SandboxRequest, Settings, Tier};
use crate::result::{Ended, LimitKind, SandboxResult, Usage};
use crate::spawner::Spawner;

/// What each process of gVisor may have of its own, beside the memory that code sees.
const OWN_BYTES_MAX: u64 = 512 << 20;
/// What gVisor needs for a container beside what code may have, and how many threads it starts for it.
const AROUND_BYTES: u64 = 192 << 20;
const AROUND_PROCESSES: u64 = 512;
/// How long the word about an end that has happened may take.
const LAST_WORD: Duration = Duration::from_secs(5);
/// How often it is looked at what is used, at most and at least.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(100);

/// How containers are made here.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    pub spawner: &'a Spawner,
    pub settings: &'a Settings,
    pub interpreter: &'a Interpreter,
    pub runsc: &'a Path,
    pub platform: &'a str,
}

pub struct Container {
    channel: UnixStream,
    capture: Capture,
    running: Running,
}

/// What must be ended.
struct Running {
    child: Child,
    root: Pid,
    members: Members,
    // INVARIANT: `Some` until it is dropped.
    left: Option<(Bundle, Group)>,
    spawner: Spawner,
}

impl Container {
    /// Starts one, and waits until all its barriers stand.
    pub async fn start(way: Way<'_>, request: &SandboxRequest) -> Result<Self, SandboxError> {
        let Way { spawner, settings, interpreter, runsc, platform } = way;
        let Limits { memory_bytes, output_bytes, scratch_bytes, processes, .. } = request.limits;
        let broke = || SandboxError::broke("preparing a container");
        let bundle = Bundle::make(interpreter, settings, scratch_bytes)?;
        let memory = memory_bytes.saturating_add(scratch_bytes).saturating_add(AROUND_BYTES);
        let group = Group::with(&settings.cgroups, memory, processes.saturating_add(AROUND_PROCESSES))?;
        let (ours, theirs) = StdUnixStream::pair().map_err(broke())?;
        ours.set_nonblocking(true).map_err(broke())?;
        let mut child = ChildRequest::new(runsc);
        child.arguments = ["--network=none", "--ignore-cgroups", "--overlay2=none"].map(Into::into).to_vec();
        child.arguments.push(format!("--platform={platform}").into());
        child.arguments.extend(["--root".into(), bundle.state().into()]);
        if !rustix::process::geteuid().is_root() {
            child.arguments.push("--rootless".into());
        }
        child.arguments.extend(["run".into(), "--bundle".into(), bundle.folder().into(), bundle.name().into()]);
        child.limits = ChildLimits { open_files: None, ..ChildLimits::default() };
        let (child, stdout, stderr) = Child::attached(spawner, child, theirs.into(), OWN_BYTES_MAX).await?;
        let root = Pid::from_raw(child.pid()).ok_or_else(|| broke()(io::Error::other("it has no process id")))?;
        let left = Some((bundle, group));
        let running = Running { child, root, members: Members::default(), left, spawner: spawner.clone() };
        let mut container = Self {
            channel: UnixStream::from_std(ours).map_err(broke())?,
            capture: Capture::new(stdout, stderr, output_bytes, request.output.clone()),
            running,
        };
        if let Err(why) = dialogue::ready(&mut container.channel).await {
            return Err(SandboxError::Start { why: container.complaint(why) });
        }
        container.running.hold()?;
        Ok(container)
    }

    /// What `runsc` said last, if it said something.
    fn complaint(mut self, why: String) -> String {
        self.capture.drain();
        let (_, stderr) = self.capture.into_parts();
        let said = String::from_utf8_lossy(&stderr);
        said.lines().rfind(|line| !line.trim().is_empty()).map_or(why, |line| line.trim().to_owned())
    }

    /// Hands over the code and waits for how it ends; dropping the future ends it.
    pub async fn run(self, request: &SandboxRequest) -> Result<SandboxResult, SandboxError> {
        let limits = &request.limits;
        let Self { mut channel, mut capture, mut running } = self;
        let started = Instant::now();
        let (cpu_before, held_before) = (running.members.cpu(), running.members.held_bytes());
        // gVisor counts a thread that waits for a processor as one that has it, so its own limit is further away than ours.
        let spare = limits.cpu.saturating_mul(u32::try_from(limits.processes).unwrap_or(u32::MAX)) + LAST_WORD;
        let mut ended = {
            let speak = dialogue::run(&mut channel, request, spare);
            // The order matters when several are ready: an answer counts before a limit that is reached just then.
            tokio::select! {
                biased;
                ended = speak => ended,
                () = capture.run() => Some(Ended::Limit(LimitKind::Output)),
                limit = over(&running.members, limits, cpu_before, held_before) => Some(Ended::Limit(limit)),
                () = tokio::time::sleep(limits.wall) => Some(Ended::Limit(LimitKind::Wall)),
            }
        };
        // While they are still there, so that the figures are their own.
        running.members.held_bytes();
        let usage = Usage {
            cpu: running.members.cpu().saturating_sub(cpu_before),
            wall: started.elapsed(),
            peak_memory_bytes: running.members.peak_bytes(),
        };
        if ended.is_none()
            && let Ok(Ok(status)) = tokio::time::timeout(LAST_WORD, running.child.wait()).await
        {
            ended = Some(fate(status, &usage, limits));
        }
        capture.drain();
        drop(running);
        if capture.is_over() {
            ended = Some(Ended::Limit(LimitKind::Output));
        }
        let ended = ended.unwrap_or_else(|| Ended::Died { how: "it left its channel".to_owned() });
        let (stdout, stderr) = capture.into_parts();
        Ok(SandboxResult { tier: Tier::Gvisor, ended, stdout, stderr, usage })
    }
}

impl Running {
    /// Takes hold of all processes, before they have seen anything hostile.
    fn hold(&mut self) -> Result<(), SandboxError> {
        self.members = Members::of(self.root);
        if let Some((_, group)) = &self.left {
            for pid in self.members.pids() {
                group.admit(pid.as_raw_pid())?;
            }
        }
        Ok(())
    }
}

impl Drop for Running {
    /// `runsc` would only do the same: what it keeps of a container is in the folder, and nothing is mounted that others
    /// see. Each process is killed by itself; what is started meanwhile asked the kernel to be killed with its parent.
    fn drop(&mut self) {
        let mut all = vec![std::mem::take(&mut self.members)];
        if self.child.is_held() {
            all.push(Members::of(self.root));
        }
        self.child.kill();
        for members in &all {
            members.kill();
        }
        let mut left = self.left.take();
        self.spawner.reap(Box::new(move || {
            let gone = all.iter().all(Members::are_gone);
            if gone {
                // Now nobody writes into the folder any more, and nobody is in the group.
                left.take();
            }
            gone
        }));
    }
}

/// Returns when more is used than may be. Processor time cannot be used faster than by all threads at once.
async fn over(members: &Members, limits: &Limits, cpu_before: Duration, held_before: u64) -> LimitKind {
    let threads = u32::try_from(limits.processes).unwrap_or(u32::MAX).max(1);
    // Limits inside name what they stop; this is for what gVisor itself needs in order to serve.
    let bytes_max = held_before.saturating_add(limits.memory_bytes).saturating_add(limits.scratch_bytes) + AROUND_BYTES;
    loop {
        let left = limits.cpu.saturating_sub(members.cpu().saturating_sub(cpu_before));
        if left.is_zero() {
            return LimitKind::Cpu;
        }
        if members.held_bytes() > bytes_max {
            return LimitKind::Memory;
        }
        tokio::time::sleep((left / threads).clamp(LOOK_MIN, LOOK_MAX)).await;
    }
}

/// What the way in which it ended says. `runsc` leaves as the code did, and says of a signal what a shell says.
fn fate(status: ExitStatus, usage: &Usage, limits: &Limits) -> Ended {
    let full = usage.peak_memory_bytes >= limits.memory_bytes / 10 * 9;
    let Some(code) = status.code() else {
        return if full {
            Ended::Limit(LimitKind::Memory)
        } else {
            Ended::Died { how: format!("the container broke: {status}") }
        };
    };
    match code - 128 {
        libc::SIGKILL | libc::SIGXCPU if usage.cpu >= limits.cpu => Ended::Limit(LimitKind::Cpu),
        libc::SIGKILL | libc::SIGSEGV | libc::SIGABRT | libc::SIGBUS if full => Ended::Limit(LimitKind::Memory),
        signal if signal > 0 => Ended::Died { how: format!("signal {signal} ended it") },
        _ => Ended::Died { how: format!("it left with status {code}") },
    }
}
