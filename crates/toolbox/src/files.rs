//! The folder of files that each tenant has on the server, and how a path in it is reached.
//!
//! Invariant: a path is walked name by name from the tenant's folder, each opened relative to the one before and without
//! following a symbolic link, so that no check can be outrun by somebody who swaps a folder meanwhile.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use serde_json::Value;
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_engine::{Call, Outcome};
use toolgate_runners::http::Failure;

use crate::builtin::{Tools, cancelled, invalid};

const PATH_BYTES_MAX: usize = 1024;
const NAME_BYTES_MAX: usize = 255;
pub(crate) const FOLDERS_MAX: usize = 16;
/// How a file is called while it is written. Nobody may name one of those.
pub(crate) const UNFINISHED: &str = ".toolgate-";

pub(crate) const FILE_MODE: RawMode = 0o600;
const FOLDER_MODE: RawMode = 0o700;

/// What is done to a file, for what is told when it cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Read,
    Write,
    Delete,
}

impl Doing {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Read => ("read", "read"),
            Self::Write => ("write", "written"),
            Self::Delete => ("delete", "deleted"),
        }
    }

    pub fn stopped_by(self, what: &str, errno: Errno) -> ToolError {
        match errno {
            Errno::LOOP => failed("files", format!("`{what}` is a symbolic link, and none is followed")),
            // What a folder opened without following says of a link, a file or a device.
            Errno::NOTDIR => failed("files", format!("`{what}` is no folder (or a link to one, and none is followed)")),
            Errno::NOENT => missing(what),
            other => self.stopped_by_io(what, &other.into()),
        }
    }

    pub fn stopped_by_io(self, what: &str, error: &std::io::Error) -> ToolError {
        use std::io::ErrorKind;
        let (to_do, done) = self.words();
        let told = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => format!("the disk is full; nothing was {done}"),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                format!("the server may not {to_do} `{what}` in its folder of files; nothing was {done}")
            }
            _ => format!("`{what}` cannot be {done}: {error}"),
        };
        failed("disk", told)
    }
}

pub(crate) fn failed(reason: &str, message: impl Into<String>) -> ToolError {
    ToolError::because(ErrorCode::SandboxError, reason, message)
}

/// Changes files on a thread that may block. Where that thread breaks nobody knows how far it came.
pub(crate) async fn changed<J: Send + 'static>(
    call: &Call,
    job: Result<J, ToolError>,
    change: fn(&J) -> Result<Value, Failure>,
) -> Outcome {
    if call.cancel.is_cancelled() {
        return cancelled().into();
    }
    let job = match job {
        Ok(job) => job,
        Err(error) => return error.into(),
    };
    match tokio::task::spawn_blocking(move || change(&job)).await {
        Ok(ended) => ended.map_or_else(Outcome::from, Outcome::structured),
        Err(_) => Outcome::Unknown("the thread that changed the files ended before it was done".to_owned()),
    }
}

/// That nothing has this name.
pub(crate) fn missing(path: &str) -> ToolError {
    invalid("path", format!("there is no `{path}` in the tenant's folder; `list_files` tells what there is"))
}

/// A path in a tenant's folder, judged.
pub(crate) struct Place {
    files: PathBuf,
    tenant: String,
    pub path: String,
    /// INVARIANT: plain names: none is empty, `.`, `..` or holds a `/`. Empty only for the tenant's folder itself.
    names: Vec<String>,
}

impl Place {
    pub fn new(tools: &Tools, call: &Call, path: &str) -> Result<Self, ToolError> {
        Ok(Self {
            files: tools.files.clone(),
            tenant: call.tenant_slug.to_string(),
            path: path.to_owned(),
            names: names(path)?,
        })
    }

    /// The same, with `.` for the tenant's folder itself.
    pub fn of_folder(tools: &Tools, call: &Call, path: &str) -> Result<Self, ToolError> {
        if path != "." {
            return Self::new(tools, call, path);
        }
        let (files, tenant) = (tools.files.clone(), call.tenant_slug.to_string());
        Ok(Self { files, tenant, path: path.to_owned(), names: Vec::new() })
    }

    /// The last name.
    pub fn name(&self) -> &str {
        self.names.last().map_or("", String::as_str)
    }

    fn folders(&self) -> impl Iterator<Item = &str> {
        let inside = self.names.split_last().map_or(&[][..], |(_, folders)| folders);
        std::iter::once(self.tenant.as_str()).chain(inside.iter().map(String::as_str))
    }

    /// The folder that the last name is in, if all of them are there.
    pub fn existing_folder(&self, doing: Doing) -> Result<Option<OwnedFd>, ToolError> {
        let mut folder = match open_root(&self.files) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(doing.stopped_by("files", errno)),
        };
        for name in self.folders() {
            folder = match open_folder(folder.as_fd(), name) {
                Ok(inner) => inner,
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(doing.stopped_by(name, errno)),
            };
        }
        Ok(Some(folder))
    }

    /// The same, made where it is missing, each name on the disk before the next.
    pub fn made_folder(&self) -> Result<OwnedFd, ToolError> {
        let doing = Doing::Write;
        std::fs::create_dir_all(&self.files).map_err(|error| doing.stopped_by_io("files", &error))?;
        let mut folder = open_root(&self.files).map_err(|errno| doing.stopped_by("files", errno))?;
        for name in self.folders() {
            folder = open_or_make(folder.as_fd(), name).map_err(|errno| doing.stopped_by(name, errno))?;
        }
        Ok(folder)
    }

    /// The folder that the path itself names.
    pub fn itself(&self, doing: Doing) -> Result<Option<OwnedFd>, ToolError> {
        let Some(folder) = self.existing_folder(doing)? else { return Ok(None) };
        if self.names.is_empty() {
            return Ok(Some(folder));
        }
        match open_folder(folder.as_fd(), self.name()) {
            Ok(itself) => Ok(Some(itself)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(doing.stopped_by(&self.path, errno)),
        }
    }

    /// What has the last name, not followed.
    pub fn found(&self, folder: BorrowedFd<'_>, doing: Doing) -> Result<Option<Found>, ToolError> {
        match found(folder, self.name()) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(doing.stopped_by(&self.path, errno)),
        }
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub kind: FileType,
    pub bytes: u64,
    pub modified_millis: i64,
}

impl From<Stat> for Found {
    fn from(stat: Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            modified_millis: stat.st_mtime.saturating_mul(1000),
        }
    }
}

impl Found {
    pub fn is_file(self) -> bool {
        self.kind == FileType::RegularFile
    }

    pub fn is_folder(self) -> bool {
        self.kind == FileType::Directory
    }

    pub const fn word(self) -> &'static str {
        match self.kind {
            FileType::RegularFile => "file",
            FileType::Directory => "folder",
            FileType::Symlink => "link",
            _ => "other",
        }
    }
}

pub(crate) fn found(folder: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<Found, Errno> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(Found::from)
}

/// The operator's own folder, wherever it is.
fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

pub(crate) fn open_folder(parent: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
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
