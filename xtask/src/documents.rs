//! Documents tell the truth: the commands, paths and links in them exist.

use crate::COMMANDS;
use crate::commands::{Commands, Targets, is_placeholder};
use crate::finding::Finding;
use crate::markdown::{Piece, pieces};
use crate::tree::Tree;

const COMMANDS_FILE: &str = "docs/commands.txt";

/// What starts like this in backticks is a path of this repository.
const FOLDERS: [&str; 10] =
    [".ci/", ".config/", "bench/", "console/", "crates/", "docs/", "examples/", "scripts/", "tests/", "xtask/"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let known = Known {
        tree,
        targets: Targets::read(tree.text("Makefile").unwrap_or_default()),
        commands: tree.text(COMMANDS_FILE).map(Commands::read),
    };
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_document(&file.path)) {
        for (line, piece) in pieces(&file.text) {
            let problems = match &piece {
                Piece::Span(text) => known.check_words(text),
                Piece::Shell(line) => line
                    .split(" | ")
                    .flat_map(|part| part.split("&&"))
                    .flat_map(|part| known.check_words(part))
                    .collect(),
                Piece::Link(target) => known.check_link(&file.path, target).into_iter().collect(),
            };
            findings.extend(problems.into_iter().map(|(what, fix)| Finding::error(&file.path, line, what, fix)));
        }
    }
    findings
}

/// Markdown for readers: at the root, and all of `docs/`.
pub fn is_document(path: &str) -> bool {
    path.strip_suffix(".md").is_some_and(|stem| !stem.contains('/') || stem.starts_with("docs/"))
}

type Problem = (String, String);

struct Known<'a> {
    tree: &'a Tree,
    targets: Targets,
    commands: Option<Commands>,
}

impl Known<'_> {
    /// Checks a command line, or a path alone.
    fn check_words(&self, text: &str) -> Vec<Problem> {
        let typed = text.split_whitespace().take_while(|word| *word != "#");
        let words: Vec<&str> = typed.skip_while(|word| is_setting(word)).collect();
        let mut problems: Vec<Problem> = words.iter().filter_map(|word| self.check_path(word)).collect();
        let (command, fix) = match words.as_slice() {
            ["make", rest @ ..] => (self.targets.check(rest), "name a target of the Makefile, or add it".to_owned()),
            ["cargo", "xtask", task, ..] if !is_placeholder(task) && !COMMANDS.contains(task) => {
                (Err(format!("`cargo xtask {task}` does not exist")), "name a command of xtask/src/main.rs".to_owned())
            }
            ["toolgate", rest @ ..] if !rest.is_empty() => match &self.commands {
                Some(commands) => (commands.check(rest), format!("name a command of {COMMANDS_FILE}")),
                None => {
                    (Err(format!("{COMMANDS_FILE} is missing")), "list the commands there, one on each line".to_owned())
                }
            },
            _ => (Ok(()), String::new()),
        };
        problems.extend(command.err().map(|what| (what, fix)));
        problems
    }

    fn check_path(&self, word: &str) -> Option<Problem> {
        let word =
            word.trim_start_matches("./").trim_matches(['(', ')', ',', ';', '"', '\'']).trim_end_matches(['.', ':']);
        if !FOLDERS.iter().any(|folder| word.starts_with(folder)) {
            return None;
        }
        // `file.rs:12` and `file.rs#L12` point into a file.
        let path = word.split([':', '#']).next().unwrap_or(word);
        let fixed: Vec<&str> = path.split('/').take_while(|part| !is_placeholder(part)).collect();
        let fixed = fixed.join("/");
        // What is made from the sources is there once it was made.
        let mut ignored = self.tree.text(".gitignore").unwrap_or_default().lines();
        let is_made = ignored.any(|line| line.strip_prefix('/').is_some_and(|made| fixed.starts_with(made)));
        let missing = !is_made && !self.tree.exists(&fixed);
        missing.then(|| (format!("`{path}` does not exist"), "correct the path".to_owned()))
    }

    fn check_link(&self, document: &str, target: &str) -> Option<Problem> {
        let path = target.split(['#', '?']).next().unwrap_or_default();
        let is_elsewhere = path.split('/').next().is_some_and(|start| start.contains(':'));
        if path.is_empty() || is_elsewhere {
            return None;
        }
        let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
        let found = resolve(folder, path).is_some_and(|path| self.tree.exists(&path));
        (!found).then(|| {
            (format!("the link to `{target}` leads nowhere"), "correct it, from the document's folder".to_owned())
        })
    }
}

/// `NAME=value` before a command.
fn is_setting(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
}

/// A link's target from the root of the repository; `None` when it leaves the repository.
pub fn resolve(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = if path.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().filter(|part| !part.is_empty())?;
            }
            _ => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(document: &str, expected: &[&str]) {
        let tree = Tree::of(&[
            ("Makefile", "test: ## x\n"),
            ("README.md", ""),
            ("docs/guide/start.md", document),
            ("docs/commands.txt", "serve\ntool list\n"),
            ("crates/store/src/lib.rs", ""),
            ("scripts/setup", ""),
        ]);
        let found: Vec<String> = super::check(&tree).into_iter().map(|found| found.what).collect();
        assert_eq!(found, expected, "{document}");
    }

    #[test]
    fn commands_must_exist() {
        check("`make test`, `toolgate tool list`, `toolgate`, `cargo xtask tidy`, `make`", &[]);
        check("```sh\nmake test  # and no more\n```", &[]);
        check("`make x`", &["`make x` does not exist"]);
        check("`cargo xtask x`", &["`cargo xtask x` does not exist"]);
        check("```sh\nA=1 toolgate serve | toolgate tool drop\n```", &["`toolgate tool drop` does not exist"]);
        check("```sh\nscripts/setup && scripts/teardown\n```", &["`scripts/teardown` does not exist"]);
    }

    #[test]
    fn paths_must_exist() {
        check(
            "`crates/store`, `crates/store/src/lib.rs:3`, `crates/<name>/src`, `crates/*/Cargo.toml`, `crates/NAME`",
            &[],
        );
        check(
            "`crates/stores`, `docs/nothing.md` and `a/b`",
            &["`crates/stores` does not exist", "`docs/nothing.md` does not exist"],
        );
    }

    #[test]
    fn links_must_lead_somewhere() {
        check("[a](../../README.md#top) [b](#here) [c](https://example.com/x) [d](../) [e](/scripts/setup)", &[]);
        check(
            "[a](README.md) [b](../../../x.md)",
            &["the link to `README.md` leads nowhere", "the link to `../../../x.md` leads nowhere"],
        );
    }
}
