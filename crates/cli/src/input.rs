//! Files that a command is given: read with a limit, and with words for what is wrong with them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;
use toolgate_contracts::{Fault, json};

use crate::failure::Failure;

/// A capability token is longer than a key.
const KEY_BYTES_MAX: usize = 8 * 1024 + 2;
const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;
/// How deep below a folder tools are looked for, and how many.
const TOOL_DEPTH_MAX: usize = 6;
const TOOLS_MAX: usize = 10_000;
const TOOL_FILE: &str = "TOOL.md";

/// Reads a file of at most `bytes_max`; `-` is standard input.
pub fn read_file(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let bytes = read_start(path, bytes_max.saturating_add(1))?;
    if bytes.len() > bytes_max {
        return Err(Failure::usage(
            format!("{} is larger than {bytes_max} bytes", path.display()),
            "give a smaller file",
        ));
    }
    Ok(bytes)
}

/// Reads a file, or as much of it as `bytes_max`.
pub fn read_start(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let wrong = |error: &io::Error| {
        Failure::usage(format!("cannot read {}: {}", path.display(), reason(error)), "check the path and its mode")
    };
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let read = if path == Path::new("-") {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        // A folder can be opened, but not read.
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| wrong(&error))?;
    Ok(bytes)
}

/// What the operating system said, without its number.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::AlreadyExists => "it exists already".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        _ => error.to_string(),
    }
}

pub fn read_text(path: &Path, bytes_max: usize) -> Result<String, Failure> {
    String::from_utf8(read_file(path, bytes_max)?)
        .map_err(|_| Failure::usage(format!("{} is not UTF-8 text", path.display()), "save it as UTF-8"))
}

pub fn read_key(path: &Path) -> Result<String, Failure> {
    let key = read_text(path, KEY_BYTES_MAX)?.trim().to_owned();
    if key.is_empty() {
        return Err(Failure::usage(
            format!("{} holds no key", path.display()),
            "make a key with `toolgate key create NAME`",
        ));
    }
    Ok(key)
}

/// A document of ours, as JSON or YAML.
pub fn read_document(path: &Path) -> Result<Value, Failure> {
    let text = read_text(path, DOCUMENT_BYTES_MAX)?;
    let is_json = text.trim_start().starts_with('{');
    let value = if is_json {
        json::read(text.as_bytes(), DOCUMENT_BYTES_MAX).map_err(|error| format!("not valid JSON: {error}"))
    } else {
        serde_saphyr::from_str::<Value>(&text).map_err(|error| format!("not valid YAML: {error}"))
    };
    match value {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Failure::usage(
            format!("{} does not hold `member: value` lines", path.display()),
            "see the command's help for an example",
        )),
        Err(why) => Err(Failure::usage(format!("{}: {why}", path.display()), "correct the file")),
    }
}

/// A copy that only its owner can read, on the disk; never over another file.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut source = File::open(from)?;
    let mut target = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut source, &mut target)?;
    target.sync_all()
}

/// Text from the command line, or from a file when it begins with `@`.
pub fn text_or_file(text: &str) -> Result<String, Failure> {
    match text.strip_prefix('@') {
        Some(file) => read_text(Path::new(file), DOCUMENT_BYTES_MAX),
        None => Ok(text.to_owned()),
    }
}

/// JSON from the command line, from a file when it begins with `@`, from standard input when it is `-`.
pub fn json_or_file(text: &str, flag: &str) -> Result<Value, Failure> {
    let file = if text == "-" { Some("-") } else { text.strip_prefix('@') };
    let (bytes, place) = match file {
        Some(file) => (read_file(Path::new(file), DOCUMENT_BYTES_MAX)?, format!("{flag} {file}")),
        None => (text.as_bytes().to_vec(), flag.to_owned()),
    };
    json::read(&bytes, DOCUMENT_BYTES_MAX).map_err(|error| {
        Failure::usage(format!("{place} is not valid JSON: {error}"), "quote it for the shell, or give a file as @FILE")
    })
}

/// What must hold of an input, each as `POINTER WORD VALUE` or as JSON. Which words there are is the server's to say.
pub fn constraints(texts: &[String]) -> Result<Vec<Value>, Failure> {
    texts.iter().map(|text| constraint(text)).collect()
}

fn constraint(text: &str) -> Result<Value, Failure> {
    if text == "-" || text.starts_with(['{', '@']) {
        return json_or_file(text, "--constraint");
    }
    let mut words = text.splitn(3, char::is_whitespace);
    match (words.next(), words.next(), words.next().map(str::trim)) {
        (Some(pointer), Some(word), Some(value)) if pointer.starts_with('/') && !value.is_empty() => {
            // A number, a list or a quoted text is JSON; any other text is itself.
            let value = json::read(value.as_bytes(), DOCUMENT_BYTES_MAX).unwrap_or_else(|_| value.into());
            Ok(serde_json::json!({"pointer": pointer, word: value}))
        }
        _ => Err(Failure::usage(
            format!("`{text}` is no constraint"),
            "write a pointer, a word and a value, as in '/path path_under out', '/amount max 100' or '/to enum [\"a\", \"b\"]'",
        )),
    }
}

/// The tools that a path means: the file itself, or every `TOOL.md` in a folder and below it, in the order of paths.
pub fn tool_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    find_tools(path, 0, &mut files).map_err(|error| {
        Failure::usage(format!("cannot read {}: {}", path.display(), reason(&error)), "check the folder's mode")
    })?;
    files.sort();
    if files.is_empty() {
        return Err(Failure::usage(
            format!("there is no {TOOL_FILE} in {}", path.display()),
            format!("name a {TOOL_FILE}, or a folder that holds some"),
        ));
    }
    Ok(files)
}

fn find_tools(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if kind.is_file() && entry.file_name() == TOOL_FILE && files.len() < TOOLS_MAX {
            files.push(entry.path());
        } else if kind.is_dir() && !hidden && depth < TOOL_DEPTH_MAX {
            find_tools(&entry.path(), depth + 1, files)?;
        }
    }
    Ok(())
}

/// A definition as the API takes it.
pub fn read_tool(path: &Path) -> Result<Value, Failure> {
    if path.extension().is_some_and(|extension| extension == "json") {
        let bytes = read_file(path, json::SCHEMA_BYTES_MAX)?;
        let definition = json::read(&bytes, json::SCHEMA_BYTES_MAX)
            .map_err(|error| Failure::from(Fault::from(error)).about(path.display().to_string()))?;
        return Ok(serde_json::json!({"definition": definition}));
    }
    // Read whole even when it is too large: the reader of definitions says so itself, with the limit.
    let text = read_text(path, json::SCHEMA_BYTES_MAX - 64 * 1024)?;
    Ok(serde_json::json!({"tool_md": text}))
}
