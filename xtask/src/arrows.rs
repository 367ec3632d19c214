//! Which crate may use which: arrows go down only, as `ARCHITECTURE.md` draws them; and what is for tests stays there.

use cargo_metadata::Metadata;

use crate::finding::{Finding, line_of};
use crate::tree::Tree;

/// What engine stands on, without `sandbox`: of the crates above engine only some may start a process.
const BELOW_ENGINE: &[&str] = &["contracts", "expression", "ledger", "egress", "store", "vault", "policy", "registry"];

/// Each crate and what it may depend on; `&[&[…]]` so that lists can share parts. From the bottom up: a crate names
/// only crates that stand before it, which a test below holds. A crate listed here need not exist yet.
const ARROWS: &[(&str, &[&[&str]])] = &[
    ("contracts", &[]),
    ("sdk", &[&["contracts"]]),
    ("expression", &[&["contracts"]]),
    ("ledger", &[&["contracts"]]),
    ("egress", &[&["contracts"]]),
    ("sandbox", &[&["contracts"]]),
    ("store", &[&["contracts", "ledger"]]),
    ("vault", &[&["contracts", "store"]]),
    ("policy", &[&["contracts"]]),
    ("registry", &[&["contracts", "expression", "egress", "store", "policy"]]),
    ("engine", &[BELOW_ENGINE, &["sandbox"]]),
    ("agents", &[BELOW_ENGINE, &["engine"]]),
    ("people", &[BELOW_ENGINE, &["engine"]]),
    ("runners", &[BELOW_ENGINE, &["engine", "sandbox"]]),
    ("mcp", &[BELOW_ENGINE, &["engine", "sandbox"]]),
    ("records", &[BELOW_ENGINE, &["engine", "agents"]]),
    ("toolbox", &[BELOW_ENGINE, &["engine", "agents", "runners"]]),
    ("workflows", &[BELOW_ENGINE, &["engine", "agents"]]),
    ("server", &[BELOW_ENGINE, &["engine", "agents", "people", "runners", "mcp", "records", "toolbox", "workflows"]]),
    (
        "cli",
        &[
            BELOW_ENGINE,
            &["sdk", "sandbox", "engine", "agents", "people", "runners", "mcp", "records", "toolbox", "workflows"],
            &["server"],
        ],
    ),
];

/// The feature under which a crate helps the tests of those above it.
const TESTING: &str = "testing";

/// The only crate with `unsafe`. It cannot take the workspace's lints, which forbid that, and repeats the others.
const UNSAFE: &str = "crates/sandbox/Cargo.toml";
/// What it must have instead: each `unsafe` says why it is sound.
const DOCUMENTED: &str = "undocumented_unsafe_blocks = \"deny\"";

/// Tools for us and examples for others, not part of the product: they may use anything.
const FREE: [&str; 3] = ["bench", "example-tool", "xtask"];

pub fn check(metadata: &Metadata, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.workspace_packages() {
        let manifest = package.manifest_path.strip_prefix(&metadata.workspace_root).unwrap_or(&package.manifest_path);
        let text = tree.text(manifest.as_str()).unwrap_or_default();
        let lints = if manifest == UNSAFE { DOCUMENTED } else { "[lints]\nworkspace = true" };
        if !text.contains(lints) {
            let fix = if manifest == UNSAFE { DOCUMENTED } else { "add `[lints]` with `workspace = true`" };
            findings.push(Finding::error(manifest.as_str(), 1, "the workspace's lints are not on", fix));
        }
        let folder = manifest.parent().and_then(|folder| folder.file_name()).unwrap_or_default();
        if FREE.contains(&folder) {
            continue;
        }
        if package.name != format!("toolgate-{folder}") {
            let what = format!("the crate in `{folder}` is called `{}`", package.name);
            findings.push(Finding::error(manifest.as_str(), 1, what, format!("call it `toolgate-{folder}`")));
        }
        if !ARROWS.iter().any(|(name, _)| *name == folder) {
            let what = format!("the crate `{folder}` has no place among the arrows");
            let fix = "add it to `ARROWS` in xtask/src/arrows.rs and to ARCHITECTURE.md";
            findings.push(Finding::error(manifest.as_str(), 1, what, fix));
            continue;
        }
        for dependency in &package.dependencies {
            let Some(to) = dependency.name.strip_prefix("toolgate-") else { continue };
            // A crate's own tests may switch on its helpers for tests.
            if to == folder && dependency.kind == cargo_metadata::DependencyKind::Development {
                continue;
            }
            if dependency.kind != cargo_metadata::DependencyKind::Development
                && dependency.features.iter().any(|feature| feature == TESTING)
            {
                let line = line_of(text, |line| line.starts_with(&dependency.name));
                let what = format!("the feature `{TESTING}` of `{to}` would be in the product");
                let fix = "name it under `[dev-dependencies]`: it makes permits and databases that only tests may have";
                findings.push(Finding::error(manifest.as_str(), line, what, fix));
            }
            if let Err((what, fix)) = arrow(folder, to) {
                let line = line_of(text, |line| line.starts_with(&dependency.name));
                findings.push(Finding::error(manifest.as_str(), line, what, fix));
            }
        }
    }
    findings
}

/// Whether `from` may depend on `to`; otherwise what is wrong, and the fix.
fn arrow(from: &str, to: &str) -> Result<(), (String, String)> {
    let allowed =
        ARROWS.iter().filter(|(name, _)| *name == from).flat_map(|(_, parts)| parts.iter().copied().flatten());
    if allowed.clone().any(|name| *name == to) {
        return Ok(());
    }
    let fix = match allowed.count() {
        0 => format!("`{from}` uses no other crate of ours: move what you need down into it"),
        _ => format!("move what `{from}` needs down, or pass it in from above (ARCHITECTURE.md)"),
    };
    Err((format!("`{from}` may not depend on `{to}`"), fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arrow_points_down() {
        for (index, (from, allowed)) in ARROWS.iter().enumerate() {
            for to in allowed.iter().flat_map(|part| part.iter()) {
                let below = ARROWS[..index].iter().any(|(name, _)| name == to);
                assert!(below, "`{from}` names `{to}`, which does not stand before it");
            }
        }
    }

    #[test]
    fn arrows_up_are_refused() {
        #[track_caller]
        fn check(from: &str, to: &str, expected: Option<&str>) {
            assert_eq!(arrow(from, to).err().map(|(what, _)| what).as_deref(), expected);
        }
        check("store", "contracts", None);
        check("cli", "server", None);
        check("contracts", "store", Some("`contracts` may not depend on `store`"));
        check("policy", "store", Some("`policy` may not depend on `store`"));
        check("toolbox", "sandbox", Some("`toolbox` may not depend on `sandbox`"));
    }
}
