//! The repository's files, read once; every check looks at this and not at the disk.
//!
//! The disk is walked instead of asking git, so that a tarball, a copy and another user's checkout are checked alike.

use std::io;
use std::path::Path;

/// Folders that hold what was built or fetched, never what was written.
const SKIPPED: [&str; 5] = [".git", "dist", "node_modules", "target", "venv"];
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug)]
pub struct File {
    /// From the root of the repository, with `/`.
    pub path: String,
    /// Empty for what is not text.
    pub text: String,
}

#[derive(Debug)]
pub struct Tree {
    pub files: Vec<File>,
}

impl Tree {
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        walk(root, "", &mut files)?;
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(Self { files })
    }

    /// Whether a file or a folder has this path.
    pub fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below =
            |file: &File| file.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        path.is_empty() || self.files.iter().any(below)
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

fn walk(root: &Path, folder: &str, files: &mut Vec<File>) -> io::Result<()> {
    for entry in root.join(folder).read_dir()? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            // A folder tagged as a cache is a build folder under another name.
            if !SKIPPED.contains(&name.as_str()) && !entry.path().join("CACHEDIR.TAG").exists() {
                walk(root, &path, files)?;
            }
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path())?;
            let text = if bytes.len() <= TEXT_BYTES_MAX { String::from_utf8(bytes).ok() } else { None };
            files.push(File { path, text: text.unwrap_or_default() });
        }
    }
    Ok(())
}

#[cfg(test)]
impl Tree {
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| File { path: (*path).to_owned(), text: (*text).to_owned() });
        Self { files: files.collect() }
    }
}
