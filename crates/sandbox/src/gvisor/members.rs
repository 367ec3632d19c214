//! The processes of a container as the machine's kernel sees them: `runsc`, the one that serves files, gVisor's kernel and
//! what it runs code in. What code uses, they use, and how much that is nobody inside can hide.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::kernel;

#[derive(Debug)]
struct Member {
    pid: Pid,
    /// Of this very process, also when its number is another's.
    descriptor: OwnedFd,
}

#[derive(Debug, Default)]
pub struct Members {
    all: Vec<Member>,
    /// The file that gVisor keeps the memory of code in. Not all of it need be mapped anywhere, so this tells more than
    /// what processes hold. Absent where we may not look.
    memory: Option<OwnedFd>,
    peak: AtomicU64,
}

impl Members {
    /// A process and all that descend from it.
    pub fn of(root: Pid) -> Self {
        let mut parents = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            let Some(pid) = pid else { continue };
            if let Some(parent) = parent_of(pid) {
                parents.push((pid, parent));
            }
        }
        let mut pids = vec![root];
        let mut next = 0;
        while let Some(parent) = pids.get(next).copied() {
            pids.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
            next += 1;
        }
        let held = |pid: Pid| {
            let descriptor = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
            Some(Member { pid, descriptor })
        };
        let all: Vec<Member> = pids.into_iter().filter_map(held).collect();
        let memory = all.iter().find_map(|member| memory_of(member.pid));
        Self { all, memory, peak: AtomicU64::new(0) }
    }

    pub fn pids(&self) -> impl Iterator<Item = Pid> {
        self.all.iter().map(|member| member.pid)
    }

    /// The processor time that they have used together.
    pub fn cpu(&self) -> Duration {
        self.pids().filter_map(kernel::cpu_of).sum()
    }

    /// The memory that they hold: what is their own added up, and once what they share, the memory of code.
    pub fn held_bytes(&self) -> u64 {
        let (mut own, mut shared) = (0, 0);
        for pid in self.pids() {
            let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap_or_default();
            let bytes = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
            };
            own += bytes("RssAnon:");
            shared = shared.max(bytes("RssShmem:"));
        }
        if let Some(Ok(about)) = self.memory.as_ref().map(rustix::fs::fstat) {
            shared = shared.max(u64::try_from(about.st_blocks).unwrap_or(0) * 512);
        }
        self.peak.fetch_max(own + shared, Ordering::Relaxed);
        own + shared
    }

    /// The most that was seen to be held.
    pub fn peak_bytes(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    pub fn kill(&self) {
        for member in &self.all {
            let _ = rustix::process::pidfd_send_signal(&member.descriptor, Signal::KILL);
        }
    }

    /// Whether all of them have ended.
    pub fn are_gone(&self) -> bool {
        self.all.iter().all(|member| {
            let mut ended = [PollFd::from_borrowed_fd(member.descriptor.as_fd(), PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            matches!(rustix::event::poll(&mut ended, Some(&now)), Ok(1))
        })
    }
}

fn memory_of(pid: Pid) -> Option<OwnedFd> {
    let folder = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid())).ok()?;
    let memory = folder.flatten().map(|entry| entry.path()).find(|path| {
        std::fs::read_link(path).is_ok_and(|names| names.to_string_lossy().contains("memfd:runsc-memory"))
    })?;
    rustix::fs::open(memory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    // The name before it may contain anything, a parenthesis too.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_is_a_member_of_its_parent_and_uses_something() {
        let own = rustix::process::getpid();
        let parent = parent_of(own).unwrap();
        assert_eq!(Some(parent), rustix::process::getppid());
        assert!(Members::of(parent).pids().any(|pid| pid == own));
        let members = Members::of(own);
        assert!(!members.are_gone());
        let held = members.held_bytes();
        assert!(held > 0 && members.peak_bytes() >= held, "{held}");
    }
}
