//! Writing a client's file so that it is whole at every moment, and taking that back to the last byte.
//!
//! A backup lies beside the file. Its name ends with the digest of what was written, so that whether the file is still
//! that is a matter of its own bytes, and imports that came one after another are taken back one by one.

use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use toolgate_contracts::{Digest, Rng};

use crate::failure::Failure;
use crate::input;

/// Some clients keep their whole history in it.
pub const FILE_BYTES_MAX: usize = 32 * 1024 * 1024;
const DIGITS: usize = 16;

/// A client's file, wherever links lead to it.
pub struct Place {
    real: PathBuf,
    before: Metadata,
    pub bytes: Vec<u8>,
}

impl Place {
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let wrong = |error: &io::Error| {
            let told = format!("cannot read {}: {}", path.display(), input::reason(error));
            Failure::usage(told, "name the client's own file; where there is none, start the client once")
        };
        let real = std::fs::canonicalize(path).map_err(|error| wrong(&error))?;
        let before = std::fs::metadata(&real).map_err(|error| wrong(&error))?;
        if !before.is_file() {
            return Err(Failure::usage(
                format!("{} is no ordinary file", real.display()),
                "name the client's own file",
            ));
        }
        if before.nlink() > 1 {
            let told = format!("{} has another name, which would stay as it is", real.display());
            return Err(Failure::usage(told, "it is a hard link: make it a file of its own"));
        }
        let bytes = input::read_file(&real, FILE_BYTES_MAX)?;
        Ok(Self { real, before, bytes })
    }

    pub fn path(&self) -> &Path {
        &self.real
    }

    /// Keeps what was there, and writes; with a key in it, for its owner's eyes only. Where the file changed in the
    /// meantime nothing is written.
    pub fn write(&self, bytes: &[u8], with_key: bool) -> Result<PathBuf, Failure> {
        let wrong = |error: io::Error| {
            let told = format!("cannot write beside {}: {}", self.real.display(), input::reason(&error));
            Failure::failed(told, "check the mode of its folder; the file is as it was")
        };
        let backup = self.backup(bytes).map_err(wrong)?;
        let mode = if with_key { self.mode() & 0o600 } else { self.mode() };
        if let Err(failure) = self.put(bytes, mode) {
            // Of nothing that happened.
            let _ = std::fs::remove_file(&backup);
            return Err(failure);
        }
        Ok(backup)
    }

    fn backup(&self, written: &[u8]) -> io::Result<PathBuf> {
        let name = self.beside(&marked(written));
        let made = self.create(&name, &self.bytes, 0o600);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let again = self.beside(&format!("{}-{}", marked(written), random()));
                self.create(&again, &self.bytes, 0o600).map(|()| again)
            }
            made => made.map(|()| name),
        }
    }

    /// Writes what the file shall be from now on.
    pub fn replace(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.put(bytes, self.mode())
    }

    fn mode(&self) -> u32 {
        self.before.permissions().mode() & 0o7777
    }

    fn put(&self, bytes: &[u8], mode: u32) -> Result<(), Failure> {
        let wrong = |error: &io::Error| {
            let told = format!("cannot write {}: {}", self.real.display(), input::reason(error));
            Failure::failed(told, "check its mode and that of its folder; the file is as it was")
        };
        let new = self.beside(&format!("new-{}", random()));
        let written = self.create(&new, bytes, mode);
        let replaced = written.map_err(|error| wrong(&error)).and_then(|()| {
            if input::read_file(&self.real, FILE_BYTES_MAX)? != self.bytes {
                let told = format!("{} changed while this ran", self.real.display());
                return Err(Failure::failed(told, "end the client, then try again"));
            }
            std::fs::rename(&new, &self.real).map_err(|error| wrong(&error))
        });
        if replaced.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        // The name is on the disk when its folder is.
        let folder = self.real.parent().and_then(|folder| File::open(folder).ok());
        let _ = folder.map(|folder| folder.sync_all());
        replaced
    }

    /// Never over another file, of the owner that the file has, and on the disk.
    fn create(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (self.before.uid(), self.before.gid()) {
            std::os::unix::fs::fchown(&file, Some(self.before.uid()), Some(self.before.gid()))?;
        }
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn beside(&self, mark: &str) -> PathBuf {
        let mut name = self.real.file_name().unwrap_or_default().to_owned();
        name.push(format!(".toolgate-{mark}"));
        self.real.with_file_name(name)
    }

    /// Puts back what was there before the last import, to the byte. Only where the file is as that left it, unless told.
    /// Gives that beside the backup's path.
    pub fn undo(&self, anyway: bool) -> Result<(PathBuf, Vec<u8>), Failure> {
        let mine = marked(&self.bytes);
        let backups = self.backups();
        let found = backups.iter().find(|(_, mark)| anyway || mark.starts_with(&mine));
        let Some((backup, _)) = found else {
            return Err(if backups.is_empty() {
                let told = format!("no import of {} is there to be taken back", self.real.display());
                Failure::failed(told, "look for a file beside it whose name has `.toolgate-`")
            } else {
                let told = format!("{} changed since it was imported", self.real.display());
                Failure::failed(told, "add --force to put back what was there before, and lose what came since")
            });
        };
        let before = input::read_file(backup, FILE_BYTES_MAX)?;
        self.replace(&before)?;
        let _ = std::fs::remove_file(backup);
        Ok((backup.clone(), before))
    }

    /// The newest first.
    fn backups(&self) -> Vec<(PathBuf, String)> {
        let beginning = self.beside("");
        let beginning = beginning.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let folder = self.real.parent().and_then(|folder| std::fs::read_dir(folder).ok());
        let mut found: Vec<(SystemTime, PathBuf, String)> = Vec::new();
        for entry in folder.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let mark = name.to_str().and_then(|name| name.strip_prefix(beginning)).unwrap_or_default();
            let digits = mark.get(..DIGITS).is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            // Only what is a file itself: a link could have been laid there.
            if let Ok(metadata) = entry.metadata()
                && digits
                && metadata.is_file()
                && metadata.uid() == self.before.uid()
            {
                found.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path(), mark.to_owned()));
            }
        }
        found.sort_by(|a, b| b.cmp(a));
        found.into_iter().map(|(_, path, mark)| (path, mark)).collect()
    }
}

/// A new file that its owner alone may read.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn marked(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string().chars().take(DIGITS).collect()
}

fn random() -> String {
    data_encoding::HEXLOWER.encode(&Rng::System.bytes::<4>())
}
