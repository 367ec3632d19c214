//! Words that must not stand in a file: shortcuts around errors, paths of one machine, names of registries.

use crate::files::{is_product_code, without_tests};
use crate::finding::Finding;
use crate::tree::{File, Tree};

/// Ways to end the program instead of returning an error. Clippy denies them too; this also sees code that is not
/// compiled here.
const SHORTCUTS: [&str; 5] = [".unwrap()", ".expect(\"", "panic!(", "todo!(", "unimplemented!("];

/// How far above a line its `#[expect(clippy::…)]` may stand.
const EXPECT_LINES_MAX: usize = 5;

/// Files that may name paths of a machine, as the start of their path, each with the reason.
const MACHINE_PATHS_ALLOWED: &[(&str, &str)] = &[];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        findings.extend(shortcuts(file));
        if !MACHINE_PATHS_ALLOWED.iter().any(|(start, _)| file.path.starts_with(start)) {
            findings.extend(machine_paths(file));
        }
        findings.extend(registries(file));
    }
    findings
}

fn shortcuts(file: &File) -> Vec<Finding> {
    let is_test = file.path.ends_with("/tests.rs") || file.path.contains("/tests/");
    if !is_product_code(&file.path) || is_test || file.text.contains("#![expect(clippy::") {
        return Vec::new();
    }
    let lines: Vec<&str> = without_tests(&file.text).collect();
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(shortcut) = SHORTCUTS.iter().find(|shortcut| line.contains(*shortcut)) else { continue };
        let above = &lines[index.saturating_sub(EXPECT_LINES_MAX)..index];
        let excused = above.iter().any(|line| line.contains("expect(clippy::"));
        if !line.trim_start().starts_with("//") && !excused {
            let what = format!("`{shortcut}` outside tests");
            findings.push(Finding::error(&file.path, index + 1, what, "return an error that says what to do"));
        }
    }
    findings
}

/// Folders that exist on the machine of whoever wrote the line. (Put together here so that this file has none.)
fn machine_paths(file: &File) -> Vec<Finding> {
    let homes = ["root", "work", "home", "Users"].map(|folder| format!("/{folder}/"));
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if let Some(home) = homes.iter().find(|home| names_a_path_below(line, home)) {
            let fix = "write it from the root of the repository, or use a temporary folder";
            findings.push(Finding::error(&file.path, index + 1, format!("a path below `{home}`"), fix));
        }
    }
    findings
}

/// Whether `folder` stands in `line` as the start of an absolute path, and not within a longer path or URL.
fn names_a_path_below(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + folder.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~}>*$)".contains(c))
            && after.is_some_and(|c| c.is_alphanumeric() || c == '.')
    })
}

/// Which registry packages are fetched from is each machine's own setting.
fn registries(file: &File) -> Vec<Finding> {
    let hosts = [
        ["registry", "npmjs", "org"],
        ["registry", "yarnpkg", "com"],
        ["index", "crates", "io"],
        ["static", "crates", "io"],
        ["files", "pythonhosted", "org"],
        ["deb", "debian", "org"],
    ]
    .map(|parts| parts.join("."));
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let setting = |line: &str| match name {
        ".npmrc" => line.starts_with("registry") || line.contains(":registry"),
        "package-lock.json" => line.trim_start().starts_with("\"resolved\": \"http"),
        "config.toml" => line.starts_with("[source.") || line.starts_with("[registries"),
        "pip.conf" | "requirements.txt" => line.contains("index-url"),
        _ => false,
    };
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if setting(line) || hosts.iter().any(|host| line.contains(host.as_str())) {
            let fix = "leave it out: each machine sets its own";
            findings.push(Finding::error(&file.path, index + 1, "the address of a package registry", fix));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[usize]) {
        let found: Vec<usize> = super::check(&Tree::of(&[(path, text)])).into_iter().map(|found| found.line).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn shortcuts_are_found_outside_tests_only() {
        let path = "crates/a/src/b.rs";
        check(path, "fn f() {\n    g().unwrap();\n}\n", &[2]);
        check(path, "/// g().unwrap();\nfn f() { self.expect(b':'); g().unwrap_or(1); }\n", &[]);
        check(path, "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    g().unwrap();\n}\n", &[]);
        check(path, "#[expect(clippy::panic, reason = \"a bug\")]\nfn f() { panic!(\"no\") }\n", &[]);
        check("crates/a/tests/all.rs", "g().unwrap();\n", &[]);
    }

    #[test]
    fn paths_of_a_machine_are_told_from_paths_of_a_server() {
        for home in ["root", "work", "home", "Users"] {
            check("docs/a.md", &format!("cd /{home}/x"), &[1]);
            check("docs/a.md", &format!("file:///{home}/x"), &[1]);
            check("docs/a.md", &format!("https://example.com/{home}/x and ./{home}/x and $DIR/{home}/x"), &[]);
            check("docs/a.md", &format!("`/{home}/` and `/{home}`"), &[]);
        }
    }

    #[test]
    fn registry_addresses_are_found() {
        check("a/.npmrc", "fund=false\nregistry=x\n@a:registry=x\n", &[2, 3]);
        check("a/package-lock.json", "  \"resolved\": \"https://x\"\n", &[1]);
        check("docs/a.md", &format!("https://{}.crates.io/x", "static"), &[1]);
        check("docs/a.md", "https://crates.io/crates/serde", &[]);
    }
}
