//! A text file in the tenant's own folder: the shipped tool of class `write`.
//!
//! Invariant: a path is walked name by name from the tenant's folder, each opened relative to the one before and without
//! following a symbolic link, so that no check can be outrun by somebody who swaps a folder meanwhile.
//! Invariant: a file appears whole or not at all: it is written beside, brought to the disk, and put in its place.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::{ErrorCode, Rng, ToolError};
use toolgate_engine::{Call, Outcome};

use crate::builtin::{Tools, cancelled, input, invalid};

pub(crate) const FILE_BYTES_MAX: usize = 1024 * 1024;
const PATH_BYTES_MAX: usize = 1024;
const NAME_BYTES_MAX: usize = 255;
const FOLDERS_MAX: usize = 16;
/// How a file is called while it is written. Nobody may write one of that name.
const UNFINISHED: &str = ".toolgate-";

const FILE_MODE: RawMode = 0o600;
const FOLDER_MODE: RawMode = 0o700;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    text: String,
    #[serde(default)]
    overwrite: bool,
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    if call.cancel.is_cancelled() {
        return cancelled().into();
    }
    let job = match Job::new(tools, call) {
        Ok(job) => job,
        Err(error) => return error.into(),
    };
    match tokio::task::spawn_blocking(move || job.write()).await {
        Ok(Ok(Written { path, bytes, overwritten })) => {
            Outcome::structured(json!({"path": path, "bytes": bytes, "overwritten": overwritten}))
        }
        Ok(Err(Stopped::Before(error))) => error.into(),
        Ok(Err(Stopped::After(message))) => Outcome::Unknown(message),
        Err(_) => Outcome::Unknown("the thread that wrote the file ended before it was done".to_owned()),
    }
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
    files: std::path::PathBuf,
    tenant: String,
    /// INVARIANT: plain names, at least one: none is empty, `.`, `..` or holds a `/`.
    names: Vec<String>,
    input: Input,
    rng: Rng,
}

struct Written {
    path: String,
    bytes: usize,
    overwritten: bool,
}

enum Stopped {
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

impl Job {
    fn new(tools: &Tools, call: &Call) -> Result<Self, ToolError> {
        let input: Input = input(call)?;
        let bytes = input.text.len();
        if bytes > FILE_BYTES_MAX {
            let message = format!("`text`: it has {bytes} bytes, the limit is {FILE_BYTES_MAX}; write several files");
            let error = ToolError::because(ErrorCode::ValidationError, "too_large", message);
            return Err(error.with("pointer", "/text"));
        }
        Ok(Self {
            files: tools.files.clone(),
            tenant: call.tenant_slug.to_string(),
            names: names(&input.path)?,
            input,
            rng: tools.rng.clone(),
        })
    }

    fn folders(&self) -> impl Iterator<Item = &str> {
        let inside = self.names.split_last().map_or(&[][..], |(_, folders)| folders);
        std::iter::once(self.tenant.as_str()).chain(inside.iter().map(String::as_str))
    }

    fn name(&self) -> &str {
        self.names.last().map_or("", String::as_str)
    }

    fn plan(&self) -> Result<Value, ToolError> {
        let exists = match self.existing_folder()? {
            Some(folder) => self.is_there(folder.as_fd())?,
            None => false,
        };
        self.may_replace(exists)?;
        let Input { path, text, overwrite: _ } = &self.input;
        Ok(json!({"would_run": true, "path": path, "bytes": text.len(), "exists": exists}))
    }

    fn write(&self) -> Result<Written, Stopped> {
        let folder = self.made_folder()?;
        let exists = self.is_there(folder.as_fd())?;
        self.may_replace(exists)?;
        let unfinished = Unfinished::write(folder.as_fd(), &self.rng, self.input.text.as_bytes())?;
        let overwritten = if exists { unfinished.replace(self.name()) } else { unfinished.become_new(self.name()) };
        let overwritten = match overwritten {
            Ok(()) => exists,
            // It came into being since we looked.
            Err(Errno::EXIST) => {
                self.may_replace(true)?;
                unfinished.replace(self.name()).map_err(|errno| from_errno(&self.input.path, errno))?;
                true
            }
            Err(errno) => return Err(from_errno(&self.input.path, errno).into()),
        };
        drop(unfinished);
        rustix::fs::fsync(&folder).map_err(|errno| {
            let path = &self.input.path;
            Stopped::After(format!("`{path}` was written, but the disk did not confirm its name: {errno}"))
        })?;
        Ok(Written { path: self.input.path.clone(), bytes: self.input.text.len(), overwritten })
    }

    /// The folder that the file is in, if all of them are there.
    fn existing_folder(&self) -> Result<Option<OwnedFd>, ToolError> {
        let mut folder = match open_root(&self.files) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(from_errno("files", errno)),
        };
        for name in self.folders() {
            folder = match open_folder(folder.as_fd(), name) {
                Ok(inner) => inner,
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(from_errno(name, errno)),
            };
        }
        Ok(Some(folder))
    }

    /// The same, made where it is missing, each name on the disk before the next.
    fn made_folder(&self) -> Result<OwnedFd, ToolError> {
        std::fs::create_dir_all(&self.files).map_err(|error| from_io("files", &error))?;
        let mut folder = open_root(&self.files).map_err(|errno| from_errno("files", errno))?;
        for name in self.folders() {
            folder = open_or_make(folder.as_fd(), name).map_err(|errno| from_errno(name, errno))?;
        }
        Ok(folder)
    }

    /// Whether a file has the name; anything else of that name is refused.
    fn is_there(&self, folder: BorrowedFd<'_>) -> Result<bool, ToolError> {
        match rustix::fs::statat(folder, self.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => Ok(true),
                FileType::Directory => {
                    Err(invalid("path", format!("`{}` is a folder; add the name of a file", self.input.path)))
                }
                _ => Err(failed("files", format!("`{}` is no ordinary file and is left alone", self.input.path))),
            },
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(from_errno(&self.input.path, errno)),
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
            .map_err(|errno| from_errno(&name, errno))?;
        let unfinished = Self { folder, name };
        let mut file = File::from(file);
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(|error| from_io("the file", &error))?;
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

/// The operator's own folder, wherever it is.
fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn open_folder(parent: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

fn open_or_make(parent: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    match open_folder(parent, name) {
        Err(Errno::NOENT) => {}
        opened => return opened,
    }
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(FOLDER_MODE)) {
        // Somebody else just made it.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    rustix::fs::fsync(parent)?;
    open_folder(parent, name)
}

/// The names of a relative path.
fn names(path: &str) -> Result<Vec<String>, ToolError> {
    let refuse = |message: &str| Err(invalid("path", format!("{message}; expected a path such as `reports/may.md`")));
    if path.is_empty() {
        return refuse("it is empty");
    }
    if path.len() > PATH_BYTES_MAX {
        return refuse(&format!("it has {} bytes, the limit is {PATH_BYTES_MAX}", path.len()));
    }
    if path.starts_with('/') {
        return refuse("it begins with `/`, and paths are relative to the tenant's folder");
    }
    if path.ends_with('/') {
        return refuse("it ends with `/`, so it names no file");
    }
    if let Some(found) = path.chars().find(|c| c.is_control() || *c == '\\') {
        return refuse(&format!("it holds the character `{}`", found.escape_default()));
    }
    let names: Vec<String> = path.split('/').map(str::to_owned).collect();
    if names.len() > FOLDERS_MAX + 1 {
        return refuse(&format!("it has {} folders, the limit is {FOLDERS_MAX}", names.len() - 1));
    }
    for name in &names {
        match name.as_str() {
            "" => return refuse("it has an empty name between two `/`"),
            "." | ".." => return refuse(&format!("the name `{name}` is not allowed in it")),
            name if name.len() > NAME_BYTES_MAX => {
                return refuse(&format!("one of its names has {} bytes, the limit is {NAME_BYTES_MAX}", name.len()));
            }
            name if name.starts_with(UNFINISHED) => {
                return refuse(&format!("names that begin with `{UNFINISHED}` are taken"));
            }
            _ => {}
        }
    }
    Ok(names)
}

fn failed(reason: &str, message: impl Into<String>) -> ToolError {
    ToolError::because(ErrorCode::SandboxError, reason, message)
}

fn from_errno(what: &str, errno: Errno) -> ToolError {
    match errno {
        Errno::LOOP => failed("files", format!("`{what}` is a symbolic link, and none is followed")),
        // What a folder opened without following says of a link, a file or a device.
        Errno::NOTDIR => failed("files", format!("`{what}` is no folder (or a link to one, and none is followed)")),
        other => from_io(what, &other.into()),
    }
}

fn from_io(what: &str, error: &std::io::Error) -> ToolError {
    use std::io::ErrorKind;
    let told = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "the disk is full; nothing was written".to_owned(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            format!("the server may not write `{what}` in its folder of files; nothing was written")
        }
        _ => format!("`{what}` cannot be written: {error}"),
    };
    failed("disk", told)
}
