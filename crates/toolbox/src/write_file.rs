//! A text file in the tenant's own folder: the shipped tool of class `write`.
//!
//! Invariant: a file appears whole or not at all: it is written beside, brought to the disk, and put in its place.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::{ErrorCode, Rng, ToolError};
use toolgate_engine::{Call, Outcome};
use toolgate_runners::http::Failure;

use crate::builtin::{Tools, input, invalid};
use crate::files::{Doing, FILE_MODE, Place, UNFINISHED, changed, failed};

pub(crate) const FILE_BYTES_MAX: usize = 1024 * 1024;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    text: String,
    #[serde(default)]
    overwrite: bool,
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    changed(call, Job::new(tools, call), Job::write).await
}

/// What would be written, and whether something is there already. Makes no folder.
pub(crate) async fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let job = Job::new(tools, call)?;
    let Ok(planned) = tokio::task::spawn_blocking(move || job.plan()).await else {
        return Err(failed("disk", "the folder could not be looked at"));
    };
    planned
}

/// One file to write, its path judged.
struct Job {
    place: Place,
    input: Input,
    rng: Rng,
}

impl Job {
    fn new(tools: &Tools, call: &Call) -> Result<Self, ToolError> {
        let input: Input = input(call)?;
        let bytes = input.text.len();
        if bytes > FILE_BYTES_MAX {
            let message = format!("`text`: it has {bytes} bytes, the limit is {FILE_BYTES_MAX}; write several files");
            let error = ToolError::because(ErrorCode::ValidationError, "too_large", message);
            return Err(error.with("pointer", "/text"));
        }
        Ok(Self { place: Place::new(tools, call, &input.path)?, input, rng: tools.rng.clone() })
    }

    fn plan(&self) -> Result<Value, ToolError> {
        let exists = match self.place.existing_folder(Doing::Write)? {
            Some(folder) => self.is_there(folder.as_fd())?,
            None => false,
        };
        self.may_replace(exists)?;
        let Input { path, text, overwrite: _ } = &self.input;
        Ok(json!({"would_run": true, "path": path, "bytes": text.len(), "exists": exists}))
    }

    fn write(&self) -> Result<Value, Failure> {
        let folder = self.place.made_folder()?;
        let exists = self.is_there(folder.as_fd())?;
        self.may_replace(exists)?;
        let unfinished = Unfinished::write(folder.as_fd(), &self.rng, self.input.text.as_bytes())?;
        let overwritten =
            if exists { unfinished.replace(self.place.name()) } else { unfinished.become_new(self.place.name()) };
        let overwritten = match overwritten {
            Ok(()) => exists,
            // It came into being since we looked.
            Err(Errno::EXIST) => {
                self.may_replace(true)?;
                unfinished
                    .replace(self.place.name())
                    .map_err(|errno| Doing::Write.stopped_by(&self.input.path, errno))?;
                true
            }
            Err(errno) => return Err(Doing::Write.stopped_by(&self.input.path, errno).into()),
        };
        drop(unfinished);
        rustix::fs::fsync(&folder).map_err(|errno| {
            let path = &self.input.path;
            Failure::Unknown(format!("`{path}` was written, but the disk did not confirm its name: {errno}"))
        })?;
        Ok(json!({"path": self.input.path, "bytes": self.input.text.len(), "overwritten": overwritten}))
    }

    /// Whether a file has the name; anything else of that name is refused.
    fn is_there(&self, folder: BorrowedFd<'_>) -> Result<bool, ToolError> {
        let path = &self.input.path;
        match self.place.found(folder, Doing::Write)? {
            None => Ok(false),
            Some(found) if found.is_file() => Ok(true),
            Some(found) if found.is_folder() => {
                Err(invalid("path", format!("`{path}` is a folder; add the name of a file")))
            }
            Some(_) => Err(failed("files", format!("`{path}` is no ordinary file and is left alone"))),
        }
    }

    fn may_replace(&self, exists: bool) -> Result<(), ToolError> {
        if exists && !self.input.overwrite {
            let path = &self.input.path;
            let fix = "choose another path, or set `overwrite` to true to replace it";
            return Err(invalid("path", format!("`{path}` exists; {fix}")));
        }
        Ok(())
    }
}

/// A file under a name of its own, which goes when this value goes.
struct Unfinished<'a> {
    folder: BorrowedFd<'a>,
    name: String,
}

impl<'a> Unfinished<'a> {
    fn write(folder: BorrowedFd<'a>, rng: &Rng, bytes: &[u8]) -> Result<Self, ToolError> {
        let name = format!("{UNFINISHED}{:016x}", u64::from_ne_bytes(rng.bytes()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, &name, flags, Mode::from_raw_mode(FILE_MODE))
            .map_err(|errno| Doing::Write.stopped_by(&name, errno))?;
        let unfinished = Self { folder, name };
        let mut file = File::from(file);
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(|error| Doing::Write.stopped_by_io("the file", &error))?;
        Ok(unfinished)
    }

    /// Takes the place of what has the name.
    fn replace(&self, name: &str) -> Result<(), Errno> {
        rustix::fs::renameat(self.folder, &self.name, self.folder, name)
    }

    /// Takes a name that nobody has.
    fn become_new(&self, name: &str) -> Result<(), Errno> {
        rustix::fs::linkat(self.folder, &self.name, self.folder, name, AtFlags::empty())
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove.
        let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
    }
}
