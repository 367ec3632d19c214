//! A control group around the interpreter and all that is forked from it: what a limit for each process cannot hold,
//! their sum, is held here. Only where the operator names folders that are ours to make groups in.
//!
//! Both generations of control groups work: one folder of version 2, or of version 1 one for each controller.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::SandboxError;
use crate::request::Settings;

static NEXT: AtomicU64 = AtomicU64::new(1);
/// What the interpreter itself takes, and the kernel for it.
const BASE_BYTES: u64 = 128 << 20;
const BASE_PROCESSES: u64 = 16;

/// The files in which each generation keeps a limit.
const MEMORY: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];
const SWAP: [&str; 1] = ["memory.swap.max"];
const PROCESSES: [&str; 1] = ["pids.max"];

#[derive(Debug, Default)]
pub struct Group {
    folders: Vec<PathBuf>,
}

impl Group {
    /// A group for the interpreter and as many instances as there may be at once.
    pub fn make(settings: &Settings) -> Result<Self, SandboxError> {
        let instances = u64::try_from(settings.concurrent + settings.warm).unwrap_or(u64::MAX);
        let each = settings.limits.memory_bytes.saturating_add(settings.limits.scratch_bytes);
        let memory = each.saturating_mul(instances).saturating_add(BASE_BYTES);
        let processes = settings.limits.processes.saturating_mul(instances).saturating_add(BASE_PROCESSES);
        Self::with(&settings.cgroups, memory, processes)
    }

    /// Makes the group and sets its limits. A folder that takes none of them was named by mistake.
    pub fn with(parents: &[PathBuf], memory: u64, processes: u64) -> Result<Self, SandboxError> {
        let mut group = Self::default();
        for parent in parents {
            let failed = |what: &str, error: io::Error| SandboxError::Start {
                why: format!("{what} in the control group `{}`: {error}", parent.display()),
            };
            remove_left_over(parent);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = parent.join(format!("toolgate-{}-{number}", std::process::id()));
            fs::create_dir(&folder).map_err(|error| failed("cannot make a group", error))?;
            group.folders.push(folder.clone());
            let mut taken = false;
            for (files, limit) in [(&MEMORY[..], memory), (&PROCESSES[..], processes), (&SWAP[..], 0)] {
                for file in files.iter().map(|name| folder.join(name)).filter(|file| file.exists()) {
                    fs::write(&file, limit.to_string()).map_err(|error| failed("cannot set a limit", error))?;
                    taken = true;
                }
            }
            if !taken {
                let error = io::Error::other("neither `memory` nor `pids` is a controller there");
                return Err(failed("cannot set a limit", error));
            }
        }
        Ok(group)
    }

    /// Whoever is in it forks into it.
    pub fn admit(&self, process: i32) -> Result<(), SandboxError> {
        for folder in &self.folders {
            fs::write(folder.join("cgroup.procs"), process.to_string()).map_err(|error| SandboxError::Start {
                why: format!("cannot put the interpreter into the control group `{}`: {error}", folder.display()),
            })?;
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in &self.folders {
            // Where its last process is still ending, whoever comes after us removes it.
            let _ = fs::remove_dir(folder);
        }
    }
}

fn remove_left_over(parent: &Path) {
    // One whose maker lives may be about to be used.
    let left_over = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let maker =
            name.to_str().and_then(|name| name.strip_prefix("toolgate-")).and_then(|rest| rest.split('-').next());
        maker.is_some_and(|process| !Path::new("/proc").join(process).exists())
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten().filter(left_over) {
        // One that somebody is in cannot be removed.
        let _ = fs::remove_dir(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_control_group_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { cgroups: vec![folder.path().to_owned()], ..Settings::default() };
        let told = Group::make(&settings).unwrap_err().to_string();
        assert!(
            told.contains("neither `memory` nor `pids`") && told.contains(folder.path().to_str().unwrap()),
            "{told}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }
}
