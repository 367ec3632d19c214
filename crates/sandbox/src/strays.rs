//! What a trusted program started and let go: processes that left its group and its session, as daemons do.
//!
//! Every child is marked with a limit of its own that limits nothing: the time for which a real-time process may run
//! without a pause, set to a number of years that nobody else has. Whatever descends from it inherits that, over every fork
//! and every program; it cannot be raised again, and nobody lowers it by mistake. So all that a child left is found by
//! looking for its number in `/proc`, and needs no control group.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Resource, Signal};
use toolgate_contracts::Rng;

use crate::kernel::ResourceLimit;

/// In microseconds, more than thirty years: no process is ever stopped by it.
const LEAST: u64 = 1 << 50;
const MOST: u64 = 1 << 62;
/// How often we look again for what was being started while we looked, and how long we wait in between.
const ROUNDS: usize = 500;
const PAUSE: Duration = Duration::from_millis(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    /// `None` where somebody has limited us so much that there is no room for one.
    pub fn new() -> Option<Self> {
        let most = rustix::process::getrlimit(Resource::Rttime).maximum.unwrap_or(MOST).min(MOST);
        let room = most.checked_sub(LEAST).filter(|room| *room > 0)?;
        let mut chance = [0; 8];
        Rng::System.fill(&mut chance);
        Some(Self(LEAST + u64::from_le_bytes(chance) % room))
    }

    pub fn limit(self) -> ResourceLimit {
        ResourceLimit { resource: libc::RLIMIT_RTTIME, warned_at: self.0, at_most: self.0 }
    }

    /// Kills all that bears it. Whether there was nobody.
    pub fn kill(self) -> bool {
        let mut nobody = true;
        let own = rustix::process::getpid();
        for pid in processes().filter(|pid| *pid != own && self.is_on(*pid)) {
            // Looked at once more when it is held: its number may have become another's.
            let held: Option<OwnedFd> = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok();
            let Some(held) = held.filter(|_| self.is_on(pid)) else { continue };
            // What we may not end, because it became somebody else's, is nobody that could be waited for.
            if rustix::process::pidfd_send_signal(&held, Signal::KILL).is_ok() {
                nobody = false;
            }
        }
        nobody
    }

    /// Kills all that bears it until there is nobody. Whether that was reached.
    pub async fn end(self) -> bool {
        for _ in 0..ROUNDS {
            if self.kill() {
                return true;
            }
            tokio::time::sleep(PAUSE).await;
        }
        false
    }

    /// Whether a process bears it that has not ended.
    fn is_on(self, pid: Pid) -> bool {
        let file = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_pid())).ok();
        let limits = file("limits").unwrap_or_default();
        let bears = marked(&limits) == Some(self.0);
        // The name before the state may contain anything, a parenthesis too.
        bears
            && file("stat")
                .and_then(|stat| stat.rsplit_once(") ")?.1.chars().next())
                .is_some_and(|state| !matches!(state, 'Z' | 'X'))
    }
}

/// The limit that marks, as the kernel tells it.
fn marked(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_differ_and_are_read_as_the_kernel_tells_them() {
        assert_ne!(Mark::new(), Mark::new());
        let text = "Max realtime priority     0                    0                    \n\
                    Max realtime timeout      1125899906842625     1125899906842625     us        \n";
        assert_eq!(marked(text), Some((1 << 50) + 1));
        assert_eq!(marked("Max realtime timeout      unlimited            unlimited            us"), None);
        let own = std::fs::read_to_string("/proc/self/limits").unwrap();
        assert!(own.contains("Max realtime timeout"), "{own}");
    }
}
