//! One process per data folder: an operating-system lock on `DIR/lock`, which ends with its process however it ends.
//!
//! The file's text is for whoever finds it locked: the holder writes where it can be reached.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::error::Error;

const FILE: &str = "lock";
/// Text that a holder may publish; a reader reads no more.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// [`DataLock::holder`] takes the lock for an instant to see whether it is free; whoever wants to keep it tries again.
const TRIES: u32 = 10;
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Held until it is dropped or the process ends.
#[derive(Debug)]
pub struct DataLock {
    file: File,
    /// How many bytes are in use, so that a shorter text covers a longer one.
    used: Mutex<usize>,
}

/// Who holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub pid: Option<u32>,
    /// What the holder published, with its `pid`.
    pub info: Map<String, Value>,
}

#[derive(Debug)]
pub enum LockError {
    Held(Held),
    /// The folder cannot be used at all.
    Folder(Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::Folder(Error::from_io("lock the data folder", &error))
    }
}

impl DataLock {
    pub fn acquire(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join(FILE);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => {
                    let used = usize::try_from(file.metadata()?.len()).unwrap_or(TEXT_BYTES_MAX);
                    let lock = Self { file, used: Mutex::new(used) };
                    lock.publish(&Map::new())?;
                    return Ok(lock);
                }
                Err(TryLockError::WouldBlock) => {
                    // Whoever published where to find it holds the folder for long; waiting would only delay the caller.
                    let held = read(&file);
                    if held.info.keys().any(|member| member != "pid") {
                        return Err(LockError::Held(held));
                    }
                    std::thread::sleep(TRY_AGAIN);
                }
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
        Err(LockError::Held(read(&file)))
    }

    /// Writes what others may know of this process; `pid` is added.
    pub fn publish(&self, info: &Map<String, Value>) -> io::Result<()> {
        let mut info = info.clone();
        info.insert("pid".to_owned(), std::process::id().into());
        let mut text = serde_json::to_vec(&info)?;
        text.push(b'\n');
        if text.len() > TEXT_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the lock's text is too long"));
        }
        // One write that covers what was there: a reader never sees half of each.
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let length = text.len();
        text.resize(length.max(*used), b' ');
        self.file.write_all_at(&text, 0)?;
        self.file.set_len(u64::try_from(length).unwrap_or(u64::MAX))?;
        *used = length;
        Ok(())
    }

    /// Who holds the lock of a folder, without wanting it.
    pub fn holder(folder: &Path) -> io::Result<Option<Held>> {
        let file = match File::open(folder.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(read(&file))),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// What cannot be read is shown as nothing: the lock itself is what counts.
fn read(file: &File) -> Held {
    // From the beginning each time: the same file is looked at again and again.
    let mut text = vec![0; TEXT_BYTES_MAX];
    let length = file.read_at(&mut text, 0).unwrap_or(0);
    let info: Map<String, Value> = serde_json::from_slice(text[..length].trim_ascii_end()).unwrap_or_default();
    let pid = info.get("pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok());
    Held { pid, info }
}
