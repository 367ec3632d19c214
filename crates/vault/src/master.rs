//! The master key: the one secret that is not in the database.
//!
//! Everything else is wrapped by it, so it is made once, kept in a file that its owner alone reads, and is the same on
//! all replicas. Deliberately absent: writing over a key that is there, and repairing its mode; both are a person's.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use data_encoding::{BASE32_NOPAD, BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use rustix::fs::OFlags;
use toolgate_contracts::{Fault, FaultKind, Rng};
use zeroize::{Zeroize as _, Zeroizing};

/// The name of the file in a data folder.
pub const FILE: &str = "master.key";
const KEY_BYTES: usize = 32;
/// A key takes 64 characters; a file with more than this holds something else.
const FILE_BYTES_MAX: u64 = 1024;

pub struct MasterKey(Zeroizing<[u8; KEY_BYTES]>);

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey")
    }
}

/// Whether a link at the end of the path is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    /// The operator named the path: orchestrators mount secrets as links.
    Followed,
    /// Nobody but us puts files into the data folder.
    Refused,
}

impl MasterKey {
    /// The key of a data folder, made if there is none. Two processes that make it at once end with the same key.
    pub fn in_folder(folder: &Path, rng: &Rng) -> Result<Self, Fault> {
        let path = folder.join(FILE);
        match read(&path, Links::Refused) {
            Err(Unread::Missing) => {}
            read => return read.map_err(|unread| unread.fault(&path)),
        }
        make(folder, &path, rng).map_err(|error| Unread::Io(error).fault(&path))?;
        read(&path, Links::Refused).map_err(|unread| unread.fault(&path))
    }

    /// The key in a file that must be there.
    pub fn from_file(path: &Path) -> Result<Self, Fault> {
        read(path, Links::Followed).map_err(|unread| unread.fault(path))
    }

    /// 32 bytes as 64 hexadecimal digits, or as base64 of either alphabet, padded or not.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        decode(text.trim()).map(Self).ok_or_else(|| {
            let told = "the master key is not 32 bytes as 64 hexadecimal digits or as base64";
            Fault::invalid(told, "give the key as it is in master.key; a new one is made by `openssl rand -hex 32`")
        })
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

fn decode(text: &str) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    [HEXLOWER_PERMISSIVE, BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD].iter().find_map(|encoding| {
        let decoded = Zeroizing::new(encoding.decode(text.as_bytes()).ok()?);
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        (decoded.len() == KEY_BYTES).then(|| key.copy_from_slice(&decoded))?;
        Some(key)
    })
}

enum Unread {
    Missing,
    Link,
    NoFile,
    Mode(u32),
    Content,
    Io(io::Error),
}

impl Unread {
    fn fault(self, path: &Path) -> Fault {
        let path = path.display();
        let fault = |told, remedy: &str| Fault::new(FaultKind::Unavailable, told, remedy);
        match self {
            Self::Missing => fault(
                format!("there is no master key `{path}`"),
                "restore the file from where you keep it, or name another",
            ),
            Self::Link => fault(
                format!("the master key `{path}` is a symbolic link"),
                "put the file itself there; to keep it elsewhere, name that file in the configuration",
            ),
            Self::NoFile => fault(format!("the master key `{path}` is not a file"), "put a file there"),
            Self::Mode(mode) => fault(
                format!("the master key `{path}` has mode {mode:04o}; only its owner may read it"),
                "run `chmod 600` on it; if others could read it, rotate the master key",
            ),
            Self::Content => fault(
                format!("the master key `{path}` does not hold 32 bytes as 64 hexadecimal digits or as base64"),
                "restore the file from where you keep it; a new key opens nothing that the old one wrapped",
            ),
            Self::Io(error) => fault(
                format!("cannot read or make the master key `{path}`: {error}"),
                "check the owner and the mode of the file and its folder",
            ),
        }
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn read(path: &Path, links: Links) -> Result<MasterKey, Unread> {
    // Not blocking: a pipe in place of the file would wait for a writer.
    let mut flags = OFlags::NONBLOCK;
    if links == Links::Refused {
        flags |= OFlags::NOFOLLOW;
    }
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Unread::Missing,
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Unread::Link,
        _ => Unread::Io(error),
    })?;
    // Of the open file, so that nobody changes it in between.
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(Unread::NoFile);
    }
    let mode = found.mode() & 0o7777;
    if !matches!(mode, 0o600 | 0o400) {
        return Err(Unread::Mode(mode));
    }
    let mut text = Zeroizing::new(String::with_capacity(usize::try_from(FILE_BYTES_MAX).unwrap_or(0)));
    match file.take(FILE_BYTES_MAX).read_to_string(&mut text) {
        Ok(_) => decode(text.trim()).map(MasterKey).ok_or(Unread::Content),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Unread::Content),
        Err(error) => Err(error.into()),
    }
}

/// Written whole under another name and on the disk before it gets its own: nobody ever reads half a key, and what was
/// wrapped by a key is never there without it. Linked, not renamed, so that a key which came first stays.
fn make(folder: &Path, path: &Path, rng: &Rng) -> io::Result<()> {
    let mut key: [u8; KEY_BYTES] = rng.bytes();
    let text = Zeroizing::new(HEXLOWER.encode(&key) + "\n");
    key.zeroize();
    let fresh = folder.join(format!("{FILE}.{}.new", BASE32_NOPAD.encode(&rng.bytes::<10>()).to_ascii_lowercase()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    let linked =
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| {
            match std::fs::hard_link(&fresh, path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                linked => linked,
            }
        });
    std::fs::remove_file(&fresh)?;
    linked?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[test]
    fn a_folder_gets_its_key_once() {
        let folder = TempDir::new().unwrap();
        let made = MasterKey::in_folder(folder.path(), &Rng::seeded(1)).unwrap();
        let again = MasterKey::in_folder(folder.path(), &Rng::seeded(2)).unwrap();
        let by_path = MasterKey::from_file(&folder.path().join(FILE)).unwrap();
        assert_eq!(made.bytes(), again.bytes());
        assert_eq!(made.bytes(), by_path.bytes());
        assert_eq!(format!("{made:?}"), "MasterKey");
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()).collect();
        assert_eq!(files.len(), 1, "nothing is left beside it");
        assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    }

    #[test]
    fn many_who_make_it_at_once_have_the_same() {
        let folder = TempDir::new().unwrap();
        let keys = std::thread::scope(|scope| {
            let makers: Vec<_> =
                (0..8).map(|_| scope.spawn(|| MasterKey::in_folder(folder.path(), &Rng::System))).collect();
            makers.into_iter().map(|maker| *maker.join().unwrap().unwrap().bytes()).collect::<Vec<_>>()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
    }

    #[test]
    fn a_key_is_read_in_any_usual_spelling() {
        let bytes: [u8; 32] = std::array::from_fn(|at| u8::try_from(at * 8 + 7).unwrap());
        let hex = HEXLOWER.encode(&bytes);
        for text in [
            hex.clone(),
            hex.to_uppercase(),
            format!("  {hex}\r\n"),
            BASE64.encode(&bytes),
            BASE64_NOPAD.encode(&bytes),
            BASE64URL.encode(&bytes),
            BASE64URL_NOPAD.encode(&bytes),
        ] {
            assert_eq!(MasterKey::parse(&text).unwrap().bytes(), &bytes, "{text}");
        }
        for text in ["", "x", &hex[1..], &format!("{hex}00"), &hex.replace('7', "g"), &BASE64.encode(&bytes[1..])] {
            let fault = MasterKey::parse(text).unwrap_err();
            assert!(text.len() < 2 || !fault.told().contains(text), "a key is never told: {fault:?}");
        }
    }

    #[track_caller]
    fn refused(path: &Path, because: &str) {
        let in_folder = MasterKey::in_folder(path.parent().unwrap(), &Rng::seeded(1)).unwrap_err();
        assert!(in_folder.told().contains(because), "{}", in_folder.told());
    }

    #[test]
    fn a_file_that_others_read_or_that_is_no_key_is_refused() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(FILE);
        let write = |text: &str, mode| {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for mode in [0o600, 0o400] {
            write(HEX, mode);
            MasterKey::in_folder(folder.path(), &Rng::seeded(1)).unwrap();
            MasterKey::from_file(&path).unwrap();
        }
        for mode in [0o644, 0o640, 0o660, 0o700, 0o4600] {
            write(HEX, mode);
            refused(&path, &format!("mode {mode:04o}"));
            MasterKey::from_file(&path).unwrap_err();
        }
        for text in ["", "not a key", &HEX[2..], &HEX.repeat(40)] {
            write(text, 0o600);
            refused(&path, "does not hold 32 bytes");
        }
        std::fs::write(&path, [0xff; 40]).unwrap();
        refused(&path, "does not hold 32 bytes");

        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        refused(&path, "is not a file");
        std::fs::remove_dir(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        refused(&path, "is not a file");
    }

    #[test]
    fn a_link_is_followed_only_where_the_operator_names_it() {
        let folder = TempDir::new().unwrap();
        let (path, target) = (folder.path().join(FILE), folder.path().join("mounted"));
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let dangling = MasterKey::in_folder(folder.path(), &Rng::seeded(1)).unwrap_err();
        assert!(dangling.told().contains("symbolic link"), "{}", dangling.told());
        assert!(!target.exists(), "nothing is made through a link");
        std::fs::write(&target, HEX).unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600)).unwrap();
        let refused = MasterKey::in_folder(folder.path(), &Rng::seeded(1)).unwrap_err();
        assert!(refused.told().contains("symbolic link"), "{}", refused.told());
        MasterKey::from_file(&path).unwrap();
        let missing = MasterKey::from_file(&folder.path().join("elsewhere")).unwrap_err();
        assert!(missing.told().contains("there is no master key"), "{}", missing.told());
    }
}
