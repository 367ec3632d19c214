//! The interpreter of this machine: where it is, what it is made of, and the root that shows nothing but that.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::child::{Child, ChildLimits, ChildRequest};
use crate::error::SandboxError;
use crate::launch::{Bind, Launch};
use crate::process::{filter, ruleset};
use crate::request::Settings;
use crate::spawner::Spawner;

/// Where an interpreter usually is. Not the search path: that belongs to whoever started us.
const PLACES: [&str; 2] = ["/usr/bin/python3", "/usr/local/bin/python3"];
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"];
/// Where the loader of programs may be, as a folder or as a link to one.
const LOADERS: [&str; 4] = ["/lib", "/lib64", "/usr/lib64", "/lib32"];
const TIME_ZONES: &str = "/usr/share/zoneinfo";
const BOOT: &str = concat!(
    "CHANNEL = 3\n",
    include_str!("../instance.py"),
    "\n\n",
    include_str!("../native.py"),
    "\n\n",
    include_str!("boot.py")
);

/// Tells what the interpreter is made of, after it has loaded all that instances may use.
const INSPECT: &str = r#"
import json, os, sys
sys.path.extend(sys.argv[2].split("\0") if sys.argv[2] else [])
natives = []
for folder in sys.path:
    if folder.endswith("lib-dynload") and os.path.isdir(folder):
        natives += sorted({name.split(".")[0] for name in os.listdir(folder) if ".so" in name})
left_out = ("_test", "xx", "_xx", "_tkinter", "_curses", "readline", "ossaudiodev", "spwd", "nis", "_dbm", "_gdbm",
    "_asyncio", "_ssl", "_multi", "_posixshmem", "_crypt", "_lsprof", "_codecs", "_ctypes_test", "audioop", "termios")
natives = [name for name in natives if not name.startswith(left_out)]
loaded = []
for name in sys.argv[1].split() + natives:
    try:
        __import__(name)
        loaded.append(name)
    except ImportError:
        pass
with open("/proc/self/maps") as maps:
    mapped = {line.split(None, 5)[5].strip() for line in maps if line.count("/")}
print(json.dumps({
    "executable": os.path.realpath(sys._base_executable or sys.executable),
    "version": sys.version.split()[0],
    "enough": sys.version_info >= (3, 9),
    "folders": [os.path.realpath(path) for path in sys.path if os.path.isdir(path)],
    "mapped": sorted(path for path in mapped if path.startswith("/") and os.path.exists(path)),
    "loaded": loaded,
}))
"#;

/// What code is likely to use, ready before it asks. Other modules of the standard library are read when they are
/// imported; each one here makes every fork a little slower.
const PRELOAD: &str = "abc array ast base64 binascii bisect calendar cmath collections collections.abc contextlib copy csv \
    ctypes dataclasses datetime decimal enum errno fractions functools gc hashlib heapq html io itertools json math \
    numbers operator os pathlib random re resource select signal socket statistics string struct textwrap threading time \
    traceback types typing unicodedata urllib.parse uuid zlib encodings.latin_1 encodings.utf_16 encodings.ascii";

#[derive(Debug, Deserialize)]
pub struct Interpreter {
    pub executable: PathBuf,
    pub version: String,
    enough: bool,
    folders: Vec<PathBuf>,
    mapped: Vec<PathBuf>,
    loaded: Vec<String>,
}

impl Interpreter {
    /// Finds the interpreter and asks it what it is made of.
    pub async fn find(spawner: &Spawner, settings: &Settings) -> Result<Self, SandboxError> {
        let start = |why: String| SandboxError::Start { why };
        let program = match &settings.python {
            Some(path) if path.exists() => path.clone(),
            Some(path) => return Err(start(format!("there is no interpreter at `{}`", path.display()))),
            None => PLACES.into_iter().map(PathBuf::from).find(|path| path.exists()).ok_or_else(|| {
                start(format!("there is no Python at {}: install it or name one", PLACES.join(" or ")))
            })?,
        };
        let names = [PRELOAD, &settings.preload.join(" ")].join(" ");
        let libraries: Vec<_> = settings.libraries.iter().map(|path| path.to_string_lossy()).collect();
        let mut request = ChildRequest::new(&program);
        request.arguments =
            ["-I", "-S", "-B", "-c", INSPECT, &names, &libraries.join("\0")].into_iter().map(Into::into).collect();
        request.limits = ChildLimits { wall: Duration::from_secs(30), ..ChildLimits::default() };
        let end = Child::capture(spawner, request, None).await?;
        let told = end.stdout.clone();
        let mut found: Self = serde_json::from_slice(&told).map_err(|_| {
            let said = String::from_utf8_lossy(&end.stderr);
            let last = said.lines().last().unwrap_or("it said nothing").to_owned();
            start(format!("`{}` is no Python that we can use: {last}", program.display()))
        })?;
        if !found.enough {
            return Err(start(format!("Python {} is too old, 3.9 is the least", found.version)));
        }
        found.folders.extend(settings.libraries.iter().cloned());
        Ok(found)
    }

    /// What is seen inside of the machine's folders, none within another.
    pub fn seen(&self) -> BTreeSet<PathBuf> {
        let mut all: BTreeSet<PathBuf> = self.folders.iter().cloned().collect();
        all.extend(self.mapped.iter().filter_map(|path| {
            path.file_name()
                .is_some_and(|name| name.as_bytes().windows(3).any(|part| part == b".so"))
                .then(|| path.parent().map(Path::to_owned))
                .flatten()
        }));
        all.extend(LOADERS.iter().filter_map(|path| {
            let path = Path::new(path);
            // `/lib` as a real folder is bound by what was mapped from it; a loader's own folder is small.
            (path.ends_with("lib64") && path.is_dir()).then(|| path.canonicalize().ok()).flatten()
        }));
        if Path::new(TIME_ZONES).is_dir() {
            all.insert(PathBuf::from(TIME_ZONES));
        }
        all.insert(self.executable.clone());
        let outer = |path: &PathBuf| !all.iter().any(|other| other != path && path.starts_with(other));
        all.iter().filter(|path| outer(path)).cloned().collect()
    }

    /// What it is started with, and clears before it runs anything.
    pub fn environment(&self) -> [Vec<u8>; 2] {
        let libraries: BTreeSet<_> = self.mapped.iter().filter_map(|path| path.parent()).collect();
        let libraries: Vec<_> = libraries.iter().map(|path| path.as_os_str().as_bytes()).collect();
        [
            // Threads would each reserve far more addresses than they use, and the limit counts addresses.
            b"MALLOC_ARENA_MAX=1".to_vec(),
            [b"LD_LIBRARY_PATH=".as_slice(), &libraries.join(b":".as_slice())].concat(),
        ]
    }

    /// The modules to have ready.
    pub fn loaded(&self) -> &[String] {
        &self.loaded
    }

    /// The launch of the prepared interpreter.
    pub fn launch(&self, settings: &Settings, control: OwnedFd, stderr: OwnedFd) -> Result<Launch, SandboxError> {
        let start = |why: String| SandboxError::Start { why };
        let text = |text: &[u8]| CString::new(text).map_err(|_| start("a path contains a zero byte".to_owned()));
        let path = |path: &Path| text(path.as_os_str().as_bytes());
        let seen = self.seen();
        let readable: Vec<PathBuf> = seen.iter().cloned().collect();
        let ruleset = ruleset::make(&readable, &DEVICES)
            .map_err(|error| start(format!("the rules for files cannot be made: {error}")))?;

        let (mut folders, mut files, mut binds, mut links) = (BTreeSet::new(), Vec::new(), Vec::new(), Vec::new());
        for from in seen.iter().map(PathBuf::as_path).chain(DEVICES.iter().map(Path::new)) {
            if from.components().any(|part| part == Component::ParentDir) || !from.is_absolute() {
                return Err(start(format!("`{}` is no plain absolute path", from.display())));
            }
            folders.extend(from.ancestors().skip(1).filter(|path| *path != Path::new("/")).map(Path::to_owned));
            if from.is_dir() {
                folders.insert(from.to_owned());
            } else {
                files.push(path(from)?);
            }
            binds.push(Bind {
                from: text(&[b"/old", from.as_os_str().as_bytes()].concat())?,
                to: path(from)?,
                device: from.starts_with("/dev"),
            });
        }
        for (loader, says) in loader_links() {
            if !folders.contains(loader) {
                links.push((path(&says)?, path(loader)?));
            }
        }
        folders.extend(["/box", "/box/scratch"].map(PathBuf::from));

        let root = rustix::process::geteuid().is_root();
        let (uid, gid) = if root {
            (settings.uid, settings.uid)
        } else {
            (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
        };
        let base = ["/tmp", "/var/tmp", "/mnt", "/run"].into_iter().find(|base| Path::new(base).is_dir());
        let base = base.ok_or_else(|| start("there is no `/tmp` to mount on".to_owned()))?;
        let config = self.config(settings, ruleset.is_some())?;
        Ok(Launch {
            become_uid: root.then_some(uid),
            uid_map: text(format!("0 {uid} 1").as_bytes())?,
            gid_map: text(format!("0 {gid} 1").as_bytes())?,
            base: text(base.as_bytes())?,
            // A parent sorts before what is in it.
            folders: folders.iter().map(|folder| path(folder)).collect::<Result<_, _>>()?,
            files,
            links,
            binds,
            program: path(&self.executable)?,
            arguments: [
                b"python3".as_slice(),
                b"-I",
                b"-S",
                b"-B",
                b"-Xutf8",
                b"-c",
                BOOT.as_bytes(),
                config.as_bytes(),
            ]
            .into_iter()
            .map(text)
            .collect::<Result<_, _>>()?,
            environment: self.environment().iter().map(|variable| text(variable)).collect::<Result<_, _>>()?,
            control,
            stderr,
            ruleset,
        })
    }

    /// What the bootstrap is told.
    fn config(&self, settings: &Settings, landlock: bool) -> Result<String, SandboxError> {
        let hex = |program| data_encoding::HEXLOWER.encode(&filter::bytes(program));
        let filter::Programs { interpreter, instance } = filter::programs()?;
        let rlimits = [
            (libc::RLIMIT_CORE, 0),
            (libc::RLIMIT_MEMLOCK, 0),
            (libc::RLIMIT_MSGQUEUE, 0),
            (libc::RLIMIT_NICE, 0),
            (libc::RLIMIT_RTPRIO, 0),
            (libc::RLIMIT_SIGPENDING, 64),
        ];
        Ok(json!({
            "libraries": settings.libraries,
            "preload": self.loaded,
            "interpreter_filters": interpreter.iter().map(hex).collect::<Vec<_>>(),
            "instance_filter": hex(&instance),
            "rlimits": rlimits,
            "landlock": landlock,
            "scratch_access": ruleset::scratch_access(),
            "sys_close_range": libc::SYS_close_range,
            "sys_landlock_create_ruleset": libc::SYS_landlock_create_ruleset,
            "sys_landlock_add_rule": libc::SYS_landlock_add_rule,
            "sys_landlock_restrict_self": libc::SYS_landlock_restrict_self,
        })
        .to_string())
    }
}

/// Links to the folders of the loader of programs, and what they say.
pub fn loader_links() -> impl Iterator<Item = (&'static Path, PathBuf)> {
    LOADERS.map(Path::new).into_iter().filter_map(|loader| Some((loader, std::fs::read_link(loader).ok()?)))
}
