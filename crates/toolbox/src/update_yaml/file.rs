//! A file of the operator's on the disk: held while it is changed, replaced whole.
//!
//! Invariant: the file is reached from its folder, which is opened once, and is never reached through a link: the folders
//! before it are the operator's to choose, the file itself is what the entry says.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::{ErrorCode, Rng, ToolError};

use crate::builtin::cancelled;

pub const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// How long somebody else's change is waited for.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_EVERY: Duration = Duration::from_millis(20);

pub(super) enum Stopped {
    /// Nothing was written.
    Before(ToolError),
    /// The file is in its place, but perhaps not on the disk.
    After(String),
}

impl From<ToolError> for Stopped {
    fn from(error: ToolError) -> Self {
        Self::Before(error)
    }
}

/// A file that nobody else changes while this value lives. Whoever does not ask for the lock is noticed, not stopped.
pub(super) struct Held {
    /// The lock is on its folder: the file itself is another one after each change.
    folder: OwnedFd,
    name: String,
    stat: Stat,
    rng: Rng,
}

impl Held {
    /// The text, without holding it.
    pub fn look(file: &Path) -> Result<String, ToolError> {
        let (folder, name) = open_folder(file)?;
        read(&folder, &name).map(|(text, _)| text)
    }

    pub fn lock(
        file: &Path,
        timeout: Duration,
        cancel: &CancellationToken,
        rng: Rng,
    ) -> Result<(Self, String), ToolError> {
        let (folder, name) = open_folder(file)?;
        let until = Instant::now() + timeout.min(LOCK_PATIENCE);
        loop {
            match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if cancel.is_cancelled() => return Err(cancelled()),
                Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(LOCK_EVERY),
                Err(Errno::WOULDBLOCK) => {
                    return Err(failed("files", "another change of a file in that folder is not done yet; try again"));
                }
                Err(errno) => return Err(stopped("locked", errno)),
            }
        }
        let (text, stat) = read(&folder, &name)?;
        Ok((Self { folder, name, stat, rng }, text))
    }

    /// Puts a new text in the place of the one that was read, with the same owner and rights.
    pub fn replace(self, before: &str, after: &str) -> Result<(), Stopped> {
        let name = format!(".toolgate-{:016x}", u64::from_ne_bytes(self.rng.bytes()));
        let unfinished = Unfinished { folder: &self.folder, name: &name };
        self.write(&name, after)?;
        let (now, _) = read(&self.folder, &self.name)?;
        if now != before {
            return Err(failed("files", "somebody else changed the file meanwhile; nothing was written").into());
        }
        rustix::fs::renameat(&self.folder, &name, &self.folder, &self.name)
            .map_err(|errno| stopped("written", errno))?;
        drop(unfinished);
        // A descriptor that may only name the folder cannot bring it to the disk.
        rustix::fs::fsync(self.folder.as_fd())
            .map_err(|errno| Stopped::After(format!("the file was changed, but the disk did not confirm it: {errno}")))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), ToolError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let told = |errno| stopped("written", errno);
        let file = rustix::fs::openat(&self.folder, name, flags, Mode::from_raw_mode(0o600)).map_err(told)?;
        let made = rustix::fs::fstat(&file).map_err(told)?;
        if (made.st_uid, made.st_gid) != (self.stat.st_uid, self.stat.st_gid) {
            let owner = Some(rustix::process::Uid::from_raw(self.stat.st_uid));
            let group = Some(rustix::process::Gid::from_raw(self.stat.st_gid));
            rustix::fs::fchown(&file, owner, group).map_err(|errno| match errno {
                Errno::PERM => failed("files", "the file belongs to somebody else, and the server cannot keep it so"),
                errno => told(errno),
            })?;
        }
        rustix::fs::fchmod(&file, Mode::from_raw_mode(self.stat.st_mode & 0o7777)).map_err(told)?;
        let mut file = File::from(file);
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| failed("disk", format!("the file cannot be written: {error}")))
    }
}

/// Goes when this value goes; after a rename there is nothing left to remove.
struct Unfinished<'a> {
    folder: &'a OwnedFd,
    name: &'a str,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(self.folder, self.name, AtFlags::empty());
    }
}

fn open_folder(file: &Path) -> Result<(OwnedFd, String), ToolError> {
    let name = file.file_name().and_then(|name| name.to_str());
    let (Some(folder), Some(name), true) = (file.parent(), name, file.is_absolute()) else {
        return Err(failed("files", "the operator's entry does not name a file by its whole path"));
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty()).map_err(|errno| stopped("reached", errno))?;
    Ok((folder, name.to_owned()))
}

fn read(folder: &OwnedFd, name: &str) -> Result<(String, Stat), ToolError> {
    // Without waiting for whoever is at the other end of a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::LOOP => failed("files", "the file is a symbolic link, and none is followed"),
        errno => stopped("read", errno),
    })?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| stopped("read", errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(failed("files", "the operator's entry names no ordinary file"));
    }
    let mut bytes = Vec::new();
    let read = File::from(file).take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| failed("disk", format!("the file cannot be read: {error}")))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(failed("files", format!("the file has more than {FILE_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| failed("files", "the file is not UTF-8"))?;
    Ok((text, stat))
}

/// What a caller is told has no path of the server's in it.
pub(super) fn failed(reason: &str, message: impl Into<String>) -> ToolError {
    ToolError::because(ErrorCode::SandboxError, reason, message)
}

fn stopped(done: &str, errno: Errno) -> ToolError {
    let error = std::io::Error::from(errno);
    match errno {
        Errno::NOENT => failed("files", "the file that the operator's entry names is not there"),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            failed("files", format!("the server may not have the file {done}: {error}; nothing was written"))
        }
        _ => failed("disk", format!("the file cannot be {done}: {error}")),
    }
}
