//! The few questions to the kernel that no safe interface asks, and what a trusted child does before it executes.

#![expect(unsafe_code, reason = "clocks of other processes and steps between fork and execve have no safe interface")]

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::unix::AsyncFd;

/// The processor time that all threads of a process have used.
pub fn cpu_of(pid: Pid) -> Option<Duration> {
    let mut clock = 0;
    // SAFETY: the clock is ours to be written.
    let found = unsafe { libc::clock_getcpuclockid(pid.as_raw_pid(), &raw mut clock) };
    if found != 0 {
        return None;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is ours to be written.
    let read = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if read != 0 {
        return None;
    }
    Some(Duration::new(time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?))
}

/// A limit of the kernel's for a child: which, how much it is warned at, and how much is the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    pub resource: libc::__rlimit_resource_t,
    pub warned_at: u64,
    pub at_most: u64,
}

/// Puts a child on its leash: a session and group of its own, killed when the thread that starts it ends, no core
/// dumps, its limits, and no descriptor of ours beyond the three standard ones.
pub fn leash(command: &mut Command, limits: Vec<ResourceLimit>) {
    let before = move || -> io::Result<()> {
        // SAFETY: plain system call.
        done(unsafe { libc::setsid() })?;
        let killed = libc::c_ulong::from(libc::SIGKILL.unsigned_abs());
        // SAFETY: plain system call.
        done(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, killed, 0, 0, 0) })?;
        for ResourceLimit { resource, warned_at, at_most } in &limits {
            let limit = libc::rlimit { rlim_cur: *warned_at, rlim_max: *at_most };
            // SAFETY: the limit is valid for the call.
            done(unsafe { libc::setrlimit(*resource, &raw const limit) })?;
        }
        // Marked, not closed: the standard library still reports errors through one of them.
        // SAFETY: plain system call.
        let marked = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        if marked < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: `before` makes system calls only; what it reads was allocated before the fork.
    unsafe { command.pre_exec(before) };
}

fn done(returned: libc::c_int) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the runtime watch a descriptor.
pub fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is the same open descriptor until it is dropped.
    let watched = unsafe { AsyncFd::register(descriptor) };
    watched.map_err(|error| error.into_parts().1)
}
