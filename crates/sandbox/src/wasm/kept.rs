//! Compiled code on the disk, so that what was compiled once need not be compiled after the next start.
//!
//! Compiled code is trusted without being looked at, so it is taken only from a folder that is ours and that nobody else
//! can write to, only from this very build of the engine, and only with the digest that was written beside it.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use toolgate_contracts::Digest;
use wasmtime::component::Component;
use wasmtime::{Engine, Module};

use super::said;

/// Without a folder, nothing is kept.
pub struct Kept {
    folder: Option<PathBuf>,
    engine: Engine,
}

impl Kept {
    pub fn new(folder: Option<PathBuf>, engine: Engine) -> Self {
        Self { folder, engine }
    }

    pub fn component(&self, digest: Digest) -> Option<Component> {
        #[expect(unsafe_code, reason = "compiled code is trusted as it is")]
        // SAFETY: the bytes are those that `Component::serialize` gave us: they lie in a folder that only our own user can
        // write to, under a name made of this engine's settings, and have the digest that we wrote with them.
        self.taken(digest, "component", |code| unsafe { Component::deserialize(&self.engine, code) })
    }

    pub fn module(&self, digest: Digest) -> Option<Module> {
        #[expect(unsafe_code, reason = "compiled code is trusted as it is")]
        // SAFETY: as above, of `Module::serialize`; the name says that it is a module.
        self.taken(digest, "module", |code| unsafe { Module::deserialize(&self.engine, code) })
    }

    pub fn keep_component(&self, digest: Digest, component: &Component) {
        self.keep(digest, "component", || component.serialize());
    }

    pub fn keep_module(&self, digest: Digest, module: &Module) {
        self.keep(digest, "module", || module.serialize());
    }

    pub fn forget(&self, digest: Digest) {
        for kind in ["component", "module"] {
            if let Some(file) = self.file(digest, kind) {
                // It may never have been there.
                let _ = fs::remove_file(file);
            }
        }
    }

    fn taken<T>(
        &self,
        digest: Digest,
        kind: &str,
        deserialize: impl FnOnce(Vec<u8>) -> wasmtime::Result<T>,
    ) -> Option<T> {
        let file = self.file(digest, kind)?;
        let code = match read(&file) {
            Ok(code) => code?,
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "compiled code cannot be read; it is compiled anew");
                return None;
            }
        };
        deserialize(code)
            .inspect_err(|error| {
                tracing::warn!(file = %file.display(), %error, "compiled code is of no use; it is compiled anew");
            })
            .ok()
    }

    /// Without it the next start is slower, and nothing else.
    fn keep(&self, digest: Digest, kind: &str, serialize: impl FnOnce() -> wasmtime::Result<Vec<u8>>) {
        let Some(file) = self.file(digest, kind) else { return };
        let kept = serialize()
            .map_err(|error| said(&error))
            .and_then(|code| write(&file, &code).map_err(|error| error.to_string()));
        if let Err(error) = kept {
            tracing::warn!(file = %file.display(), error, "compiled code cannot be kept");
        }
    }

    /// Named by what was compiled and by everything that code of this engine depends on: its version, its settings, the
    /// machine.
    fn file(&self, digest: Digest, kind: &str) -> Option<PathBuf> {
        let mut hasher = DefaultHasher::new();
        self.engine.precompile_compatibility_hash().hash(&mut hasher);
        kind.hash(&mut hasher);
        let folder = self.folder.as_ref()?;
        Some(folder.join(format!("{digest}-{:016x}.code", hasher.finish())))
    }
}

/// The code without its digest; `None` if there is none, or if it is not what was written.
fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let folder = file.parent().unwrap_or(file);
    for (path, what) in [(folder, "its folder"), (file, "it")] {
        match fs::metadata(path) {
            Ok(found) if found.uid() != rustix::process::geteuid().as_raw() => {
                return Err(io::Error::other(format!("{what} belongs to somebody else")));
            }
            Ok(found) if found.permissions().mode() & 0o077 != 0 => {
                return Err(io::Error::other(format!("others may write to {what}, or read it")));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let mut bytes = fs::read(file)?;
    if bytes.len() < 32 {
        return Ok(None);
    }
    let code = bytes.split_off(32);
    Ok((Digest::of(&code).as_bytes().as_slice() == bytes.as_slice()).then_some(code))
}

/// Under its name only when it is whole.
fn write(file: &Path, code: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(file);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Several may write the same at once.
    let unfinished = file.with_extension(format!("{}.new", std::process::id()));
    let mut written = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    written.write_all(Digest::of(code).as_bytes())?;
    written.write_all(code)?;
    written.sync_all()?;
    fs::rename(&unfinished, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest module there is.
    const EMPTY: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn compiled_code_is_taken_only_where_it_is_ours_and_whole() {
        let data = tempfile::tempdir().unwrap();
        let folder = data.path().join("code");
        let engine = Engine::default();
        let (digest, module) = (Digest::of(EMPTY), Module::new(&engine, EMPTY).unwrap());
        let kept = Kept::new(Some(folder.clone()), engine);
        assert!(kept.module(digest).is_none(), "there is none yet");
        kept.keep_module(digest, &module);
        assert!(kept.module(digest).is_some());
        assert!(kept.component(digest).is_none(), "a module is no component");
        let other = wasmtime::Config::new().epoch_interruption(true).clone();
        let other = Kept::new(Some(folder.clone()), Engine::new(&other).unwrap());
        assert!(other.module(digest).is_none(), "of another engine");

        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(&folder, 0o755);
        assert!(kept.module(digest).is_none(), "others may look into the folder");
        mode(&folder, 0o700);
        let [file] =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>().try_into().unwrap();
        mode(&file, 0o666);
        assert!(kept.module(digest).is_none(), "others may write to the file");
        mode(&file, 0o600);
        assert!(kept.module(digest).is_some());
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(1), None).unwrap();
            assert!(kept.module(digest).is_none(), "it belongs to somebody else");
            std::os::unix::fs::chown(&file, Some(0), None).unwrap();
        }
        let mut code = fs::read(&file).unwrap();
        *code.last_mut().unwrap() ^= 1;
        fs::write(&file, code).unwrap();
        assert!(kept.module(digest).is_none(), "a bit is another");
        kept.forget(digest);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}
