//! What a container is made from: a private folder with its description, an empty root and the state that `runsc` keeps.
//!
//! The root is read-only and shows the interpreter, its libraries and a scratch folder. gVisor adds devices and folders
//! of its own that nobody asked for: what is not needed is covered with something empty.
//! Deliberately absent: control groups. `runsc` is told to leave them alone; what holds a container is made by us.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_contracts::Rng;

use crate::error::SandboxError;
use crate::process::filter;
use crate::process::interpreter::{self, Interpreter};
use crate::request::Settings;

const BOOT: &str = concat!(
    "CHANNEL = 3\n",
    include_str!("../instance.py"),
    "\n\n",
    include_str!("../native.py"),
    "\n\n",
    include_str!("boot.py")
);
const PREFIX: &str = "toolgate-gvisor-";
/// Where there is room for folders of a moment.
const BASES: [&str; 3] = ["/tmp", "/var/tmp", "/run"];
/// The user inside, who is nobody's outside: the numbers of a container are gVisor's own.
const USER: u32 = 1000;
/// Folders and files that gVisor adds.
const COVERED_FOLDERS: [&str; 6] = ["/proc", "/sys", "/tmp", "/dev/shm", "/dev/net", "/dev/pts"];
const COVERED_FILES: [&str; 3] = ["/dev/fuse", "/dev/ptmx", "/dev/tty"];

/// Removed when nobody holds it.
#[derive(Debug)]
pub struct Bundle {
    folder: PathBuf,
    name: String,
}

impl Bundle {
    pub fn make(interpreter: &Interpreter, settings: &Settings, scratch_bytes: u64) -> Result<Self, SandboxError> {
        let failed = |error: io::Error| SandboxError::Start { why: format!("no folder for a container: {error}") };
        let base = BASES.into_iter().map(Path::new).find(|base| base.is_dir());
        let base = base.ok_or_else(|| failed(io::Error::other("there is no `/tmp`")))?;
        remove_left_over(base);
        // Nobody can have guessed it: the whole machine, and whoever shares its network, sees what a container is called.
        let mut chance = [0; 8];
        Rng::System.fill(&mut chance);
        let name = format!("{PREFIX}{}-{}", std::process::id(), data_encoding::HEXLOWER.encode(&chance));
        let folder = base.join(&name);
        // One that is there already was put there by somebody else.
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        let bundle = Self { folder, name };
        let description = bundle.description(interpreter, settings, scratch_bytes)?;
        bundle.fill(&description).map_err(failed)?;
        Ok(bundle)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the container is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    fn fill(&self, description: &Value) -> io::Result<()> {
        let root = self.folder.join("root");
        fs::create_dir(&root)?;
        fs::create_dir(self.state())?;
        fs::write(self.folder.join("empty"), [])?;
        for (loader, says) in interpreter::loader_links() {
            if let Ok(inside) = loader.strip_prefix("/") {
                let place = root.join(inside);
                fs::create_dir_all(place.parent().unwrap_or(&root))?;
                std::os::unix::fs::symlink(says, place)?;
            }
        }
        fs::write(self.folder.join("config.json"), description.to_string())
    }

    /// In the words of the Open Container Initiative.
    fn description(
        &self,
        interpreter: &Interpreter,
        settings: &Settings,
        scratch_bytes: u64,
    ) -> Result<Value, SandboxError> {
        let mut mounts = Vec::new();
        for seen in interpreter.seen() {
            let path = text(&seen)?;
            mounts.push(mount(path, "bind", path, &["rbind", "ro", "nosuid", "nodev"]));
        }
        for covered in COVERED_FOLDERS {
            let options = ["ro", "nosuid", "nodev", "noexec", "mode=0555", "size=4096"];
            mounts.push(mount(covered, "tmpfs", "none", &options));
        }
        let empty = self.folder.join("empty");
        for covered in COVERED_FILES {
            mounts.push(mount(covered, "bind", text(&empty)?, &["bind", "ro", "nosuid", "nodev", "noexec"]));
        }
        let size = format!("size={scratch_bytes}");
        mounts.push(mount("/box/scratch", "tmpfs", "scratch", &["nosuid", "nodev", "noexec", "mode=0777", &size]));
        let environment = interpreter.environment().map(|variable| String::from_utf8_lossy(&variable).into_owned());
        let config = config(interpreter, settings)?.to_string();
        let none: [&str; 0] = [];
        let namespaces = ["pid", "network", "ipc", "uts", "mount"].map(|kind| json!({"type": kind}));
        Ok(json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": {"uid": USER, "gid": USER},
                "args": [text(&interpreter.executable)?, "-I", "-S", "-B", "-Xutf8", "-c", BOOT, config],
                "env": environment,
                "cwd": "/",
                "capabilities": {
                    "bounding": none, "effective": none, "inheritable": none, "permitted": none, "ambient": none,
                },
                "noNewPrivileges": true,
                "rlimits": [{"type": "RLIMIT_CORE", "hard": 0, "soft": 0}],
            },
            "root": {"path": "root", "readonly": true},
            "hostname": "sandbox",
            "mounts": mounts,
            "linux": {"namespaces": namespaces},
        }))
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "the folder of a container cannot be removed");
        }
    }
}

fn mount(destination: &str, kind: &str, source: &str, options: &[&str]) -> Value {
    json!({"destination": destination, "type": kind, "source": source, "options": options})
}

fn text(path: &Path) -> Result<&str, SandboxError> {
    path.to_str().ok_or_else(|| SandboxError::Start { why: format!("`{}` is no path in UTF-8", path.display()) })
}

/// What the bootstrap is told. The same filters as in the tier `process`: gVisor answers for them here, and what is
/// refused is refused before it thinks about it.
fn config(interpreter: &Interpreter, settings: &Settings) -> Result<Value, SandboxError> {
    let hex = |program| data_encoding::HEXLOWER.encode(&filter::bytes(program));
    let filter::Programs { interpreter: filters, instance } = filter::programs()?;
    let filters: Vec<String> = filters.iter().chain([&instance]).map(hex).collect();
    Ok(json!({"libraries": settings.libraries, "preload": interpreter.loaded(), "filters": filters}))
}

/// Removes what a server left that was killed itself. Its containers died with it.
fn remove_left_over(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(of) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let Some(of) = of.split('-').next().and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        let user = rustix::process::geteuid().as_raw();
        let ours = entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == user);
        if ours && !Path::new("/proc").join(of.to_string()).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
