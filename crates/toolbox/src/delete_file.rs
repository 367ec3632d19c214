//! Takes a file or a folder out of the tenant's own files, for good.
//!
//! Deliberately absent: anything but files and folders. A link, a pipe or a device was put there by somebody with other
//! means, and is left to them; a folder that holds one stays whole.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{AtFlags, Dir};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::ToolError;
use toolgate_engine::{Call, Outcome};
use toolgate_runners::http::Failure;

use crate::builtin::{Tools, input, invalid};
use crate::files::{Doing, Found, Place, changed, failed, found, missing, open_folder};

/// Of one call, files and folders together.
const ENTRIES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 32;
/// Named in a plan; the rest is counted.
const NAMED_MAX: usize = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    #[serde(default)]
    recursive: bool,
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    changed(call, Job::new(tools, call), Job::delete).await
}

/// What would go.
pub(crate) async fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let job = Job::new(tools, call)?;
    let planned = tokio::task::spawn_blocking(move || job.looked_at().map(|(_, found, tree)| job.told(found, &tree)));
    let mut plan = planned.await.unwrap_or_else(|_| Err(failed("disk", "the folder could not be looked at")))?;
    plan["would_run"] = json!(true);
    Ok(plan)
}

struct Job {
    place: Place,
    is_recursive: bool,
}

/// What is in a folder, counted.
#[derive(Default)]
struct Tree {
    files: usize,
    folders: usize,
    bytes: u64,
    /// The first few, relative to what is deleted.
    named: Vec<String>,
}

impl Job {
    fn new(tools: &Tools, call: &Call) -> Result<Self, ToolError> {
        let Input { path, recursive } = input(call)?;
        Ok(Self { place: Place::new(tools, call, &path)?, is_recursive: recursive })
    }

    fn told(&self, found: Found, tree: &Tree) -> Value {
        let path = &self.place.path;
        if found.is_file() {
            return json!({"path": path, "kind": "file", "files": 1, "folders": 0, "bytes": found.bytes});
        }
        let Tree { files, folders, bytes, named } = tree;
        let mut told = json!({"path": path, "kind": "folder", "files": files, "folders": folders + 1, "bytes": bytes});
        if !named.is_empty() {
            told["named"] = json!(named);
        }
        told
    }

    /// What has the path, if it may go, and what goes with it.
    fn looked_at(&self) -> Result<(std::os::fd::OwnedFd, Found, Tree), ToolError> {
        let path = &self.place.path;
        let folder = self.place.existing_folder(Doing::Delete)?.ok_or_else(|| missing(path))?;
        let found = self.place.found(folder.as_fd(), Doing::Delete)?.ok_or_else(|| missing(path))?;
        let mut tree = Tree::default();
        if found.is_folder() {
            let itself = open_folder(folder.as_fd(), self.place.name())
                .map_err(|errno| Doing::Delete.stopped_by(path, errno))?;
            self.count(itself.as_fd(), "", 1, &mut tree)?;
            let holds = tree.files + tree.folders;
            if holds > 0 && !self.is_recursive {
                let fix = "delete what is in it first, or set `recursive` to true";
                return Err(invalid("path", format!("`{path}` is a folder that is not empty; {fix}")));
            }
        } else if !found.is_file() {
            return Err(failed("files", format!("`{path}` is no ordinary file and is left alone")));
        }
        Ok((folder, found, tree))
    }

    fn count(&self, folder: BorrowedFd<'_>, below: &str, level: usize, tree: &mut Tree) -> Result<(), ToolError> {
        let path = &self.place.path;
        if level > DEPTH_MAX {
            let fix = "delete a folder further down first";
            return Err(failed("files", format!("`{path}` has more than {DEPTH_MAX} levels of folders; {fix}")));
        }
        for name in entries(folder).map_err(|errno| Doing::Delete.stopped_by(path, errno))? {
            let inner = found(folder, &*name).map_err(|errno| Doing::Delete.stopped_by(path, errno))?;
            let told = format!("{below}{}", name.to_string_lossy());
            if tree.named.len() < NAMED_MAX {
                tree.named.push(told.clone());
            }
            if inner.is_folder() {
                tree.folders += 1;
                let opened = open_folder(folder, &*name).map_err(|errno| Doing::Delete.stopped_by(path, errno))?;
                self.count(opened.as_fd(), &format!("{told}/"), level + 1, tree)?;
            } else if inner.is_file() {
                tree.files += 1;
                tree.bytes = tree.bytes.saturating_add(inner.bytes);
            } else {
                let what = format!("`{path}/{told}` is no ordinary file");
                return Err(failed("files", format!("{what}, so the folder is left alone")));
            }
            if tree.files + tree.folders > ENTRIES_MAX {
                let fix = "delete a folder further down first";
                return Err(failed("files", format!("`{path}` holds more than {ENTRIES_MAX} entries; {fix}")));
            }
        }
        Ok(())
    }

    fn delete(&self) -> Result<Value, Failure> {
        let (folder, found, tree) = self.looked_at()?;
        let (path, name) = (&self.place.path, self.place.name());
        let mut gone = 0;
        let mut delete = || {
            if found.is_file() {
                return rustix::fs::unlinkat(&folder, name, AtFlags::empty());
            }
            empty(open_folder(folder.as_fd(), name)?.as_fd(), 1, &mut gone)?;
            rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR)
        };
        delete().map_err(|errno| match gone {
            0 => Failure::Told(Doing::Delete.stopped_by(path, errno)),
            gone => Failure::Unknown(format!("{gone} entries of `{path}` are deleted, and then it stopped: {errno}")),
        })?;
        rustix::fs::fsync(&folder).map_err(|errno| {
            Failure::Unknown(format!("`{path}` was deleted, but the disk did not confirm it: {errno}"))
        })?;
        let mut told = self.told(found, &tree);
        if let Some(members) = told.as_object_mut() {
            members.remove("named");
        }
        Ok(told)
    }
}

/// Deletes what is in a folder. A link that came since it was looked at goes itself, never what it leads to.
fn empty(folder: BorrowedFd<'_>, level: usize, gone: &mut usize) -> Result<(), Errno> {
    if level > DEPTH_MAX {
        return Err(Errno::LOOP);
    }
    for name in entries(folder)? {
        let flags = if found(folder, &*name)?.is_folder() {
            empty(open_folder(folder, &*name)?.as_fd(), level + 1, gone)?;
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        rustix::fs::unlinkat(folder, &*name, flags)?;
        *gone += 1;
    }
    Ok(())
}

/// The names in a folder, sorted, at most one more than may be deleted.
fn entries(folder: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let is_itself = |name: &CStr| matches!(name.to_bytes(), b"." | b"..");
    let mut names = Vec::new();
    let mut dir = Dir::read_from(folder)?;
    while let Some(entry) = dir.read() {
        let entry = entry?;
        if !is_itself(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
        if names.len() > ENTRIES_MAX {
            break;
        }
    }
    names.sort();
    Ok(names)
}
