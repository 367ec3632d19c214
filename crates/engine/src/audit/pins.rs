//! Heads written down beside the database: what a database that was brought back from an older copy cannot know.
//!
//! One file for a tenant, replaced whole. A file tells that a head was signed; that the database holds at least that
//! much is checked when the server starts and before the first signature of a process.

use std::io;
use std::path::{Path, PathBuf};

use toolgate_contracts::{Fault, TenantId};
use toolgate_ledger::{Checkpoint, Note};

use super::parts_of;

const ENDING: &str = "checkpoint";

pub(super) struct Pins {
    folder: PathBuf,
}

/// A head as it was written down.
#[derive(Clone, Debug)]
pub struct Pinned {
    pub tenant: TenantId,
    pub checkpoint: Checkpoint,
    pub file: PathBuf,
    pub(super) number: i64,
}

impl Pins {
    pub fn in_folder(data: &Path) -> Self {
        Self { folder: data.join("audit").join("heads") }
    }

    pub async fn write(&self, tenant: TenantId, note: String) -> Result<(), Fault> {
        let folder = self.folder.clone();
        blocking(move || {
            std::fs::create_dir_all(&folder)?;
            let (file, fresh) = (file_of(&folder, tenant), folder.join(format!("{tenant}.new")));
            let mut written = std::fs::File::create(&fresh)?;
            io::Write::write_all(&mut written, note.as_bytes())?;
            written.sync_all()?;
            std::fs::rename(&fresh, &file)?;
            std::fs::File::open(&folder)?.sync_all()
        })
        .await?
        .map_err(|error| Fault::internal(format!("a head cannot be pinned in {}: {error}", self.folder.display())))
    }

    pub async fn read(&self) -> Result<Vec<Pinned>, Fault> {
        let folder = self.folder.clone();
        let files = blocking(move || files(&folder)).await?;
        let files = files.map_err(|error| Fault::internal(format!("{}: {error}", self.folder.display())))?;
        files.into_iter().map(|(file, bytes)| pinned(file, &bytes)).collect()
    }

    pub async fn read_one(&self, tenant: TenantId) -> Result<Option<Pinned>, Fault> {
        let file = file_of(&self.folder, tenant);
        let read = file.clone();
        match blocking(move || std::fs::read(read)).await? {
            Ok(bytes) => pinned(file, &bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Fault::internal(format!("{}: {error}", file.display()))),
        }
    }

    /// Takes all heads away: they are of a log that this database no longer holds.
    pub async fn clear(&self) -> Result<(), Fault> {
        let folder = self.folder.clone();
        let cleared =
            blocking(move || files(&folder)?.into_iter().try_for_each(|(file, _)| std::fs::remove_file(file)));
        cleared.await?.map_err(|error| Fault::internal(format!("{}: {error}", self.folder.display())))
    }
}

fn file_of(folder: &Path, tenant: TenantId) -> PathBuf {
    folder.join(format!("{tenant}.{ENDING}"))
}

fn files(folder: &Path) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let listed = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut files = Vec::new();
    for entry in listed {
        let file = entry?.path();
        if file.extension().is_some_and(|ending| ending == ENDING) {
            let bytes = std::fs::read(&file)?;
            files.push((file, bytes));
        }
    }
    files.sort();
    Ok(files)
}

/// Its signature is not looked at: whoever can change the file can take it away.
fn pinned(file: PathBuf, bytes: &[u8]) -> Result<Pinned, Fault> {
    let unreadable = || {
        Fault::conflict(
            format!("{} is no signed head of a log", file.display()),
            "bring the file back from a copy of the data folder; without one, look at the log with \
             `toolgate audit verify --live` and take the file away",
        )
    };
    let note = Note::parse(bytes).map_err(|_| unreadable())?;
    let checkpoint = Checkpoint::parse(note.unverified_text()).map_err(|_| unreadable())?;
    let (number, tenant) = parts_of(&checkpoint.origin).ok_or_else(unreadable)?;
    Ok(Pinned { tenant, checkpoint, file, number })
}

async fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    tokio::task::spawn_blocking(run).await.map_err(Fault::internal)
}
