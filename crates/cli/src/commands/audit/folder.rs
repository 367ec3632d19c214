//! A log in a folder: what `audit export` and `audit follow` write and `audit verify` reads.
//!
//! `log.json` names the log and its keys, `entries.jsonl` holds the entries by index, `checkpoints.jsonl` the signed heads
//! by size. Lines are only added; a last line without its end was cut off while it was written, and is written anew.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use serde_json::{Value, json};
use toolgate_contracts::Digest;
use toolgate_ledger::{Exported, Origin, Salt, VerifierKey};

use super::verify::Wrong;
use crate::failure::Failure;
use crate::input;

const FORMAT: &str = "toolgate/audit-export/1";
const LOG: &str = "log.json";
const LOG_BYTES_MAX: usize = 1024 * 1024;
pub const ENTRIES: &str = "entries.jsonl";
pub const CHECKPOINTS: &str = "checkpoints.jsonl";

/// A folder that holds a log.
pub struct LogFolder {
    pub path: PathBuf,
}

/// Which log it is, and by whose keys it is verified.
#[derive(Clone, Debug)]
pub struct Named {
    pub origin: Origin,
    pub keys: Vec<VerifierKey>,
}

impl LogFolder {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub fn make(path: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(|error| unwritten(path, &error))?;
        Ok(Self::new(path))
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// `None` where the folder holds no log yet.
    pub fn named(&self) -> Result<Option<Named>, Failure> {
        let file = self.file(LOG);
        if !file.exists() {
            return Ok(None);
        }
        let text = input::read_text(&file, LOG_BYTES_MAX)?;
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let wrong = |what: &str| {
            Failure::failed(format!("{} {what}", file.display()), "get the folder anew with `toolgate audit export`")
        };
        if value["format"] != FORMAT {
            return Err(wrong(&format!("is not `{FORMAT}`")));
        }
        let origin = value["log"].as_str().and_then(|log| log.parse().ok()).ok_or_else(|| wrong("names no log"))?;
        let listed = value["keys"].as_array().map_or(&[][..], Vec::as_slice);
        let keys = listed.iter().map(|key| key.as_str().and_then(|key| key.parse().ok()));
        let keys = keys.collect::<Option<_>>().ok_or_else(|| wrong("holds a key that is none"))?;
        Ok(Some(Named { origin, keys }))
    }

    /// Replaces the file whole.
    pub fn name(&self, Named { origin, keys }: &Named) -> Result<(), Failure> {
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let text = format!("{:#}\n", json!({"format": FORMAT, "log": origin, "keys": keys}));
        let (file, fresh) = (self.file(LOG), self.file("log.json.new"));
        fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &file)).map_err(|error| unwritten(&file, &error))
    }

    /// How many whole lines a file has. What was cut off behind them is taken away.
    pub fn whole_lines(&self, name: &str) -> Result<u64, Failure> {
        let path = self.file(name);
        let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            file => file.map_err(|error| unwritten(&path, &error))?,
        };
        let counted = (|| {
            let (mut lines, mut bytes, mut line) = (0, 0, Vec::new());
            let mut reader = BufReader::new(&mut file);
            while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
                lines += 1;
                bytes += line.len() as u64;
                line.clear();
            }
            drop(reader);
            file.set_len(bytes)?;
            Ok(lines)
        })();
        counted.map_err(|error: io::Error| unwritten(&path, &error))
    }

    /// Adds lines, on the disk when this returns.
    pub fn append(&self, name: &str, lines: &[u8]) -> Result<(), Failure> {
        let path = self.file(name);
        let written = OpenOptions::new().create(true).append(true).open(&path).and_then(|mut file| {
            file.write_all(lines)?;
            file.sync_all()
        });
        written.map_err(|error| unwritten(&path, &error))
    }

    /// Adds all lines of another file of this folder and takes that one away.
    pub fn append_file(&self, name: &str, from: &str) -> Result<(), Failure> {
        let (path, from) = (self.file(name), self.file(from));
        let moved = (|| {
            let mut to = OpenOptions::new().create(true).append(true).open(&path)?;
            let before = to.seek(SeekFrom::End(0))?;
            let copied = io::copy(&mut File::open(&from)?, &mut to).and_then(|_| to.sync_all());
            if copied.is_err() {
                to.set_len(before)?;
            }
            copied?;
            fs::remove_file(&from)
        })();
        moved.map_err(|error| unwritten(&path, &error))
    }

    pub fn entries(&self) -> Result<impl Iterator<Item = Result<Exported, Wrong>> + use<>, Failure> {
        Ok(self.lines(ENTRIES)?.map(|line| entry(&line?)))
    }

    pub fn checkpoints(&self) -> Result<impl Iterator<Item = Result<Vec<u8>, Wrong>> + use<>, Failure> {
        Ok(self.lines(CHECKPOINTS)?.map(|line| note(&line?)))
    }

    /// A file that is not there has no lines.
    fn lines(&self, name: &str) -> Result<impl Iterator<Item = Result<String, Wrong>> + use<>, Failure> {
        let path = self.file(name);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            file => Some(file.map_err(|error| unread(&path, &error))?),
        };
        let read = move |line: io::Result<String>| line.map_err(|error| Wrong::Failure(unread(&path, &error)));
        Ok(file.into_iter().flat_map(|file| BufReader::new(file).lines()).map(read))
    }
}

/// An entry from its line; what it commits to is compared where it is there.
pub fn entry(line: &str) -> Result<Exported, Wrong> {
    let wrong = |what: &str| Wrong::Line(format!("a line of the entries {what}"));
    let value: Value = serde_json::from_str(line).map_err(|_| wrong("is not JSON"))?;
    let index = value["index"].as_u64().ok_or_else(|| wrong("has no index"))?;
    let text = value["entry"].as_str().ok_or_else(|| wrong("has no entry"))?.to_owned();
    let digest = match &value["digest"] {
        Value::Null => None,
        digest => Some(digest.as_str().and_then(|digest| digest.parse().ok()).ok_or_else(|| wrong("has no digest"))?),
    };
    compare_payload(index, &text, &value["payload"])?;
    Ok(Exported { index, text, digest })
}

/// Whether what calls were given and gave is what the entry commits to. What was erased is not there.
fn compare_payload(index: u64, text: &str, payload: &Value) -> Result<(), Wrong> {
    if payload.is_null() {
        return Ok(());
    }
    let salt = payload["salt"].as_str().and_then(|salt| BASE64.decode(salt.as_bytes()).ok());
    let salt: [u8; 32] = salt
        .and_then(|salt| salt.try_into().ok())
        .ok_or_else(|| Wrong::Line(format!("the payload of entry {index} has no salt")))?;
    let salt = Salt::from_bytes(salt);
    let details = serde_json::from_str::<Value>(text).map(|mut entry| entry["details"].take()).unwrap_or_default();
    for what in ["input", "output", "error"] {
        let committed = details[what].as_str().and_then(|digest| digest.parse::<Digest>().ok());
        let (Some(committed), Some(shown)) = (committed, payload[what].as_str()) else { continue };
        if salt.commit_named(what, shown) != committed {
            return Err(Wrong::Line(format!("the {what} shown with entry {index} is not the one that it commits to")));
        }
    }
    Ok(())
}

pub fn note(line: &str) -> Result<Vec<u8>, Wrong> {
    let value: Value = serde_json::from_str(line).unwrap_or_default();
    let note = value["note"].as_str().ok_or_else(|| Wrong::Line("a line of the checkpoints has no note".to_owned()))?;
    Ok(note.as_bytes().to_vec())
}

pub fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(
        format!("cannot write {}: {}", path.display(), input::reason(error)),
        "check the folder, its mode and the free space",
    )
}

fn unread(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read {}: {}", path.display(), input::reason(error)), "check the path and its mode")
}
