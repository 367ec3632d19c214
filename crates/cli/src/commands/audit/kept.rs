//! The last head that this user saw of each log, and the keys that were believed then: a log that is shorter or another
//! one today is noticed, whoever shows it.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use toolgate_contracts::Digest;
use toolgate_ledger::{Head, Origin, VerifierKey};

use super::folder::unwritten;
use crate::connect::Environment;
use crate::failure::Failure;
use crate::input;

const FILE_BYTES_MAX: usize = 1024 * 1024;

/// Where heads are kept; nowhere for a user without a home.
pub struct Keeper {
    folder: Option<PathBuf>,
}

pub struct Kept {
    pub note: Vec<u8>,
    pub keys: Vec<VerifierKey>,
    pub file: PathBuf,
}

impl Keeper {
    pub fn of(environment: &Environment) -> Self {
        let configured = environment.path("XDG_CONFIG_HOME").map(PathBuf::from);
        let folder = configured.or_else(|| environment.path("HOME").map(|home| home.join(".config")));
        Self { folder: folder.map(|folder| folder.join("toolgate").join("audit")) }
    }

    /// Named by a digest: a log chooses its own name.
    fn file(&self, origin: &Origin) -> Option<PathBuf> {
        let name = Digest::of(origin.as_str().as_bytes()).to_string();
        Some(self.folder.as_ref()?.join(format!("{}.json", name.get(..32)?)))
    }

    pub fn read(&self, origin: &Origin) -> Result<Option<Kept>, Failure> {
        let Some(file) = self.file(origin).filter(|file| file.exists()) else { return Ok(None) };
        let value: Value = serde_json::from_str(&input::read_text(&file, FILE_BYTES_MAX)?).unwrap_or_default();
        let listed = value["keys"].as_array().map_or(&[][..], Vec::as_slice);
        let keys = listed.iter().map(|key| key.as_str().and_then(|key| key.parse().ok())).collect::<Option<Vec<_>>>();
        let (Some(note), Some(keys), true) = (value["note"].as_str(), keys, value["log"] == origin.as_str()) else {
            return Err(Failure::failed(
                format!("{} is not what was kept of {origin}", file.display()),
                "bring it back from a copy; without one take it away, and know that a cut log would not be noticed",
            ));
        };
        Ok(Some(Kept { note: note.as_bytes().to_vec(), keys, file }))
    }

    pub fn keep(&self, head: &Head, keys: &[VerifierKey]) -> Result<(), Failure> {
        let Some(file) = self.file(&head.checkpoint().origin) else { return Ok(()) };
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let value = json!({"log": head.checkpoint().origin, "note": head.note().to_string(), "keys": keys});
        let fresh = file.with_extension("new");
        let written = (|| {
            fs::create_dir_all(file.parent().unwrap_or(&file))?;
            fs::write(&fresh, format!("{value:#}\n"))?;
            fs::rename(&fresh, &file)
        })();
        written.map_err(|error| unwritten(&file, &error))
    }
}
