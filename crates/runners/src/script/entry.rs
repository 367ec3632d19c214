//! One of the operator's commands, read once: its patterns compiled, its program and folder looked for at each use.
//!
//! Invariant: what a caller adds is judged here, whole and before anything is started.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::{Regex, RegexBuilder};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use toolgate_contracts::entries::ScriptEntry;
use toolgate_contracts::json::escape;
use toolgate_contracts::{ErrorCode, Slug, ToolError};

use super::variables::{runs_programs, set_by};
use super::{ScriptInput, Which};

/// Where a program is looked for whose entry gives a name, and what it finds as `PATH` where the entry sets none.
const USUAL_FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
const ARGUMENTS_MAX: usize = 256;
const ARGUMENT_BYTES_MAX: usize = 16 * 1024;
/// All arguments and variables together: well within what the kernel takes.
const WORDS_BYTES_MAX: usize = 256 * 1024;
const VARIABLES_MAX: usize = 64;
const FOLDER_BYTES_MAX: usize = 1024;
const PATTERNS_MAX: usize = 64;
const PATTERN_BYTES_MAX: usize = 4 * 1024;
const PATTERN_COMPILED_MAX: usize = 1024 * 1024;
const OUTPUT_BYTES_DEFAULT: u64 = 1024 * 1024;
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;
const TIMEOUT_S_MAX: u64 = 24 * 60 * 60;

pub(super) struct Entry {
    written: ScriptEntry,
    /// Or what is wrong with it.
    patterns: Result<Patterns, String>,
}

#[derive(Debug)]
struct Patterns {
    arguments: Vec<Regex>,
    variables: BTreeMap<String, Regex>,
}

/// An entry whose caller's words were admitted.
pub(super) struct Judged<'a> {
    entry: &'a Entry,
}

impl Entry {
    pub fn read(written: &ScriptEntry) -> Self {
        Self { patterns: compiled(written), written: written.clone() }
    }

    pub fn is_for(&self, tenant: &Slug) -> bool {
        self.written.tenants.include(tenant)
    }

    pub fn about(&self) -> Option<&str> {
        self.written.about.as_deref()
    }

    /// What stands in the way of running it at all.
    pub fn problem(&self) -> Option<String> {
        let folder = || {
            let folder = &self.written.folder;
            open_root(folder).err().map(|errno| format!("`folder`, `{}`: {}", folder.display(), told(errno)))
        };
        let patterns = self.patterns.as_ref().err().cloned();
        let dry_run = || self.written.dry_run.as_ref().and_then(|command| found(command).err());
        patterns.or_else(|| found(&self.written.command).err()).or_else(dry_run).or_else(folder)
    }

    pub fn first_arguments(&self, which: Which) -> &[String] {
        let command = match which {
            Which::Command => Some(&self.written.command),
            Which::DryRun => self.written.dry_run.as_ref(),
        };
        command.and_then(|command| command.get(1..)).unwrap_or_default()
    }

    pub fn has_dry_run(&self) -> bool {
        self.written.dry_run.is_some()
    }

    pub fn dry_run_program(&self) -> Result<PathBuf, String> {
        found(self.written.dry_run.as_deref().unwrap_or_default())
    }

    /// The variables that hold secrets, each with the secret's name.
    pub fn secrets(&self) -> &BTreeMap<String, String> {
        &self.written.secrets
    }

    /// All that a program finds beside secrets. What the operator sets, no caller changes.
    pub fn variables<'a>(&'a self, given: &'a BTreeMap<String, String>) -> impl Iterator<Item = (&'a str, String)> {
        let set = &self.written.set;
        let path = (!set.contains_key("PATH")).then(|| ("PATH", USUAL_FOLDERS.join(":")));
        let given = given.iter().filter(|(name, _)| !set.contains_key(*name));
        path.into_iter().chain(given.chain(set).map(|(name, value)| (name.as_str(), value.clone())))
    }

    /// The shorter of the entry's time and the call's.
    pub fn wall(&self, call: Duration) -> Duration {
        self.written.timeout_s.map_or(call, |seconds| call.min(Duration::from_secs(seconds)))
    }

    pub fn output_bytes(&self) -> u64 {
        self.written.output_bytes_max.unwrap_or(OUTPUT_BYTES_DEFAULT).min(OUTPUT_BYTES_MAX)
    }

    /// Whether the operator admits what a caller says.
    pub fn judge(&self, input: &ScriptInput) -> Result<Judged<'_>, ToolError> {
        let Patterns { arguments, variables } =
            self.patterns.as_ref().map_err(|why| super::unusable(format!("the operator's entry: {why}")))?;
        let ScriptInput { args, env, .. } = input;
        if args.len() > ARGUMENTS_MAX {
            return Err(too_large(
                "/args",
                format!("`args`: it has {} items, the limit is {ARGUMENTS_MAX}", args.len()),
            ));
        }
        if env.len() > VARIABLES_MAX {
            return Err(too_large(
                "/env",
                format!("`env`: it has {} members, the limit is {VARIABLES_MAX}", env.len()),
            ));
        }
        let bytes =
            args.iter().map(String::len).chain(env.iter().map(|(name, value)| name.len() + value.len())).sum::<usize>();
        if bytes > WORDS_BYTES_MAX {
            let message = format!("`args` and `env` have {bytes} bytes together, the limit is {WORDS_BYTES_MAX}");
            return Err(too_large("/args", message));
        }
        for (at, argument) in args.iter().enumerate() {
            let pointer = format!("/args/{at}");
            whole(&pointer, argument)?;
            if !arguments.iter().any(|pattern| pattern.is_match(argument)) {
                let message = format!(
                    "argument {at}, `{}`, matches no pattern of the operator's entry; {}",
                    shown(argument),
                    self.told_patterns()
                );
                return Err(not_admitted(pointer, message));
            }
            let program = self.written.command.first().map_or("", String::as_str);
            if let Some(name) = set_by(program, argument) {
                let message = format!(
                    "argument {at} sets `{}`, and with it what is run; no caller may, whatever the patterns say",
                    shown(name)
                );
                return Err(not_admitted(pointer, message));
            }
        }
        for (name, value) in env {
            let pointer = format!("/env/{}", escape(name));
            let Some(pattern) = variables.get(name) else {
                let named: Vec<&str> = variables.keys().map(String::as_str).collect();
                let known = if named.is_empty() { "none".to_owned() } else { format!("`{}`", named.join("`, `")) };
                let message = format!(
                    "the variable `{}` is not one that a caller may set; of those there is {known}",
                    shown(name)
                );
                return Err(not_admitted(pointer, message));
            };
            whole(&pointer, value)?;
            if !pattern.is_match(value) {
                let expected = self.written.environment.get(name).map_or("", String::as_str);
                let message = format!(
                    "the value of `{name}`, `{}`, does not match the operator's pattern `{expected}`",
                    shown(value)
                );
                return Err(not_admitted(pointer, message));
            }
        }
        Ok(Judged { entry: self })
    }

    fn told_patterns(&self) -> String {
        match self.written.arguments.as_slice() {
            [] => "it takes none".to_owned(),
            patterns => format!("expected `{}`", patterns.join("` or `")),
        }
    }
}

impl Judged<'_> {
    pub fn program(&self) -> Result<PathBuf, String> {
        found(&self.entry.written.command)
    }

    /// Where it runs: opened, so that what it is called may change.
    pub fn folder(&self, below: Option<&str>) -> Result<Folder, ToolError> {
        let written = &self.entry.written.folder;
        let root = open_root(written).map_err(|errno| {
            super::unusable(format!("the operator's folder for it cannot be opened: {}", told(errno)))
        })?;
        let Some(below) = below.filter(|below| !matches!(*below, "" | ".")) else {
            return Ok(Folder { opened: root, shown: ".".to_owned() });
        };
        if below.len() > FOLDER_BYTES_MAX {
            let message = format!("`working_dir`: it has {} bytes, the limit is {FOLDER_BYTES_MAX}", below.len());
            return Err(too_large("/working_dir", message));
        }
        let refused = |why: &str| {
            let expected = "expected a folder below the entry's, such as `apps/web`";
            not_admitted("/working_dir".to_owned(), format!("`working_dir`, `{}`: {why}; {expected}", shown(below)))
        };
        if below.starts_with('/') {
            return Err(refused("it begins with `/`"));
        }
        if below.chars().any(char::is_control) {
            return Err(refused("it holds a character that cannot be seen"));
        }
        // The kernel resolves links and `..` itself, and stops where they would lead out.
        let opened = open_below(root.as_fd(), below).map_err(|errno| match errno {
            Errno::XDEV => refused("it leads out of the entry's folder"),
            Errno::NOENT => refused("there is no such folder"),
            Errno::NOTDIR => refused("it is no folder"),
            Errno::LOOP => refused("it holds a link that may not be followed"),
            errno => refused(&told(errno)),
        })?;
        Ok(Folder { opened, shown: below.to_owned() })
    }
}

/// Where a program runs.
pub(super) struct Folder {
    opened: OwnedFd,
    shown: String,
}

impl Folder {
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.opened.as_fd()
    }

    /// Relative to the entry's folder.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

fn open_root(folder: &Path) -> Result<OwnedFd, Errno> {
    if !folder.is_absolute() {
        return Err(Errno::INVAL);
    }
    rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn open_below(root: BorrowedFd<'_>, below: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(root, below, flags, Mode::empty(), resolve) {
            // Something was renamed while the kernel looked.
            Err(Errno::AGAIN) => {}
            // A kernel before 5.6, or a filter that does not know it: then no link is followed at all.
            Err(Errno::NOSYS | Errno::PERM) => return walk_below(root, below),
            opened => return opened,
        }
    }
}

fn walk_below(root: BorrowedFd<'_>, below: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = rustix::fs::openat(root, ".", flags, Mode::empty())?;
    for name in below.split('/').filter(|name| !matches!(*name, "" | ".")) {
        if name == ".." {
            return Err(Errno::XDEV);
        }
        folder = rustix::fs::openat(&folder, name, flags, Mode::empty())?;
    }
    Ok(folder)
}

fn told(errno: Errno) -> String {
    match errno {
        Errno::NOENT => "there is no such folder".to_owned(),
        Errno::NOTDIR => "it is no folder".to_owned(),
        Errno::INVAL => "it is not a whole path".to_owned(),
        errno => std::io::Error::from(errno).to_string(),
    }
}

/// The program of a command.
fn found(command: &[String]) -> Result<PathBuf, String> {
    let name = command.first().map(String::as_str).filter(|name| !name.is_empty());
    let name = name.ok_or("its `command` is empty; expected a program and its first arguments")?;
    if command.iter().any(|word| word.contains('\0')) {
        return Err("its `command` holds the character U+0000".to_owned());
    }
    let is_program =
        |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        let path = PathBuf::from(name);
        return match path.is_absolute() {
            false => Err(format!("the program `{name}` is neither a whole path nor a name")),
            true if is_program(&path) => Ok(path),
            true => Err(format!("there is no program `{name}` on this machine")),
        };
    }
    let places = USUAL_FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    places
        .into_iter()
        .find(|path| is_program(path))
        .ok_or_else(|| format!("there is no program `{name}` in {}; give its whole path", USUAL_FOLDERS.join(", ")))
}

fn compiled(written: &ScriptEntry) -> Result<Patterns, String> {
    let ScriptEntry { arguments, environment, set, secrets, timeout_s, .. } = written;
    if arguments.len() > PATTERNS_MAX || environment.len() > VARIABLES_MAX {
        return Err(format!(
            "it has too many patterns: at most {PATTERNS_MAX} arguments and {VARIABLES_MAX} variables"
        ));
    }
    if timeout_s.is_some_and(|seconds| seconds == 0 || seconds > TIMEOUT_S_MAX) {
        return Err(format!("`timeout_s`: expected 1 to {TIMEOUT_S_MAX}"));
    }
    for name in environment.keys().chain(set.keys()).chain(secrets.keys()) {
        let is_name = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            return Err(format!("`{}` is no name of a variable", shown(name)));
        }
    }
    if let Some(name) = environment.keys().find(|name| runs_programs(name)) {
        return Err(format!(
            "`environment` lets callers set `{name}`, and with it what is run; move it to `set`, or leave it out"
        ));
    }
    if let Some(name) = secrets.keys().find(|name| set.contains_key(*name) || environment.contains_key(*name)) {
        return Err(format!("`{name}` of `secrets` is also set otherwise; leave one out"));
    }
    if let Some((name, _)) = set.iter().find(|(_, value)| value.contains('\0')) {
        return Err(format!("the value of `{name}` in `set` holds the character U+0000"));
    }
    Ok(Patterns {
        arguments: arguments.iter().map(|pattern| regex(pattern)).collect::<Result<_, _>>()?,
        variables: environment
            .iter()
            .map(|(name, pattern)| Ok((name.clone(), regex(pattern)?)))
            .collect::<Result<_, String>>()?,
    })
}

/// A pattern that matches a whole text or nothing of it.
fn regex(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("a pattern has {} bytes, the limit is {PATTERN_BYTES_MAX}", pattern.len()));
    }
    let compile = |text: &str| {
        RegexBuilder::new(text).size_limit(PATTERN_COMPILED_MAX).dfa_size_limit(PATTERN_COMPILED_MAX).build()
    };
    // By itself first: what only reads as a pattern between our brackets is none.
    let whole = compile(pattern).and_then(|_| compile(&format!(r"\A(?:{pattern})\z")));
    whole.map_err(|error| format!("the pattern `{}` cannot be used: {}", shown(pattern), shown(&error.to_string())))
}

/// That nothing of a word is lost on the way.
fn whole(pointer: &str, word: &str) -> Result<(), ToolError> {
    if word.len() > ARGUMENT_BYTES_MAX {
        let message = format!("`{}`: it has {} bytes, the limit is {ARGUMENT_BYTES_MAX}", &pointer[1..], word.len());
        return Err(too_large(pointer, message));
    }
    if word.contains('\0') {
        let message =
            format!("`{}`: it holds the character U+0000, where a word would end; leave it out", &pointer[1..]);
        return Err(ToolError::because(ErrorCode::ValidationError, "schema", message).with("pointer", pointer));
    }
    Ok(())
}

/// What a caller wrote, as it can be shown.
fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 200;
    let cut: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{more}", cut.escape_debug())
}

fn too_large(pointer: &str, message: String) -> ToolError {
    ToolError::because(ErrorCode::ValidationError, "too_large", message).with("pointer", pointer)
}

fn not_admitted(pointer: String, message: String) -> ToolError {
    ToolError::because(ErrorCode::PolicyDenied, "constraint", message).with("pointer", pointer)
}
