//! The shape of source files: first lines, sizes, names, one test binary per crate.

use crate::finding::Finding;
use crate::tree::{File, Tree};

const LINES_NOTED: usize = 500;
const LINES_MAX: usize = 1000;

/// Files that may be longer than `LINES_MAX`, each with the reason.
const LONG: &[(&str, &str)] = &[
    ("console/src/api/schema.d.ts", "made from docs/openapi.json when the console is built"),
    (
        "crates/store/migrations/0001_foundation.sql",
        "the whole schema in one text until there is a release to migrate from",
    ),
];

/// Endings of files that people write and read.
const CODE: [&str; 7] = ["css", "js", "mjs", "rs", "sql", "ts", "tsx"];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 6] = ["common", "core", "helpers", "misc", "util", "utils"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        findings.extend(size(file));
        if is_product_code(&file.path) {
            findings.extend(head(file));
            findings.extend(name(file));
        }
    }
    findings.extend(test_binaries(tree));
    findings
}

/// Whether this is Rust under `crates/*/src`.
pub fn is_product_code(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("crates") && parts.nth(1) == Some("src") && has_ending(path, &["rs"])
}

/// The lines of a Rust file before its inline tests.
pub fn without_tests(text: &str) -> impl Iterator<Item = &str> {
    let tests = text.find("\n#[cfg(test)]\nmod ").filter(|start| {
        let module = text[*start..].lines().nth(2).unwrap_or_default();
        module.ends_with('{')
    });
    text[..tests.unwrap_or(text.len())].lines()
}

fn has_ending(path: &str, endings: &[&str]) -> bool {
    path.rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending))
}

fn size(file: &File) -> Option<Finding> {
    let File { path, text } = file;
    let lines = without_tests(text).count();
    if lines <= LINES_NOTED || !has_ending(path, &CODE) || LONG.iter().any(|(long, _)| long == path) {
        return None;
    }
    let what = format!("{lines} lines without tests");
    if lines > LINES_MAX {
        let fix =
            format!("split it by subject below {LINES_MAX}, or add it to `LONG` in xtask/src/files.rs with a reason");
        return Some(Finding::error(path, 1, what, fix));
    }
    Some(Finding::note(path, 1, what, "split it when it has two subjects"))
}

fn head(file: &File) -> Option<Finding> {
    let fix = "say first what this file is for and what it deliberately leaves out";
    let missing = !file.text.starts_with("//!");
    missing.then(|| Finding::error(&file.path, 1, "the first line is not a `//!` comment", fix))
}

fn name(file: &File) -> Option<Finding> {
    let path = file.path.trim_end_matches(".rs");
    let empty = path.split('/').skip(3).find(|part| EMPTY_NAMES.contains(part))?;
    Some(Finding::error(&file.path, 1, format!("a module called `{empty}`"), "name it after the thing inside"))
}

/// Each file directly in `crates/*/tests` is linked as a program of its own; one is enough, with modules in a folder.
fn test_binaries(tree: &Tree) -> Vec<Finding> {
    let crate_of = |file: &File| {
        let parts: Vec<&str> = file.path.split('/').collect();
        match parts.as_slice() {
            ["crates", name, "tests", test] if has_ending(test, &["rs"]) => Some((*name).to_owned()),
            _ => None,
        }
    };
    let tests: Vec<(String, &File)> = tree.files.iter().filter_map(|file| Some((crate_of(file)?, file))).collect();
    let second = |pair: &[(String, &File)]| {
        let what = format!("a second test binary of `{}`", pair[0].0);
        let fix = format!("make it a module of {}: each binary links everything again", pair[0].1.path);
        (pair[0].0 == pair[1].0).then(|| Finding::error(&pair[1].1.path, 1, what, fix))
    };
    tests.windows(2).filter_map(second).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let found: Vec<String> = super::check(&Tree::of(&[(path, text)])).into_iter().map(|found| found.what).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_first_line_says_what_a_file_is_for() {
        check("crates/store/src/pool.rs", "//! The pool.\n", &[]);
        check("crates/store/src/pool.rs", "use std::io;\n", &["the first line is not a `//!` comment"]);
        check("crates/store/tests/all.rs", "use std::io;\n", &[]);
    }

    #[test]
    fn length_is_counted_without_inline_tests() {
        let tests = format!("\n#[cfg(test)]\nmod tests {{\n{}}}\n", "// x\n".repeat(2000));
        check("crates/a/src/b.rs", &format!("//! B.\n{tests}"), &[]);
        check("crates/a/src/b.rs", &format!("//! B.\n{}", "// x\n".repeat(700)), &["701 lines without tests"]);
        check(
            "crates/a/src/b.rs",
            &format!("//! B.\n#[cfg(test)]\nmod tests;\n{}", "// x\n".repeat(500)),
            &["503 lines without tests"],
        );
        check("docs/long.md", &"x\n".repeat(2000), &[]);
    }

    #[test]
    fn names_mean_something() {
        check("crates/a/src/utils/x.rs", "//! X.", &["a module called `utils`"]);
        check("crates/a/src/core.rs", "//! X.", &["a module called `core`"]);
        check("crates/a/src/score.rs", "//! X.", &[]);
    }

    #[test]
    fn a_crate_has_one_test_binary() {
        let tree = Tree::of(&[
            ("crates/a/tests/all.rs", ""),
            ("crates/a/tests/all/one.rs", ""),
            ("crates/a/tests/more.rs", ""),
            ("crates/b/tests/all.rs", ""),
        ]);
        let found: Vec<String> = test_binaries(&tree).into_iter().map(|found| found.path).collect();
        assert_eq!(found, ["crates/a/tests/more.rs"]);
    }
}
