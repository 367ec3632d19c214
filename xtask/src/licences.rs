//! What we build on: licences we may ship, crates we do not take, and where crates come from.

use cargo_metadata::{Metadata, Package};

use crate::finding::{Finding, line_of};
use crate::spdx;
use crate::tree::Tree;

const LOCK: &str = "Cargo.lock";

const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Zlib",
];

/// Crates we do not take, each with what to do instead.
const BANS: &[(&str, &str)] = &[
    ("aws-lc-rs", "use rustls with `ring`: one crypto provider, a small C build"),
    ("aws-lc-sys", "use rustls with `ring`: one crypto provider, a small C build"),
    ("chrono", "use `jiff`"),
    ("native-tls", "use rustls with `ring`"),
    ("openssl-sys", "use rustls with `ring`"),
    ("rsa", "use `ed25519-dalek`, or `ring` to verify: the Marvin timing attack is open in `rsa`"),
    ("serde_yaml", "use `serde-saphyr`: this one is no longer maintained"),
    ("serde_yml", "use `serde-saphyr`: this one is unsound and archived"),
];

/// Who may bring a banned crate all the same: it is inside theirs, and no code of ours sees it.
const BROUGHT: &[(&str, &str)] = &[
    // Cedar's `datetime`, without chrono's default features: no clock, no time zones of the system.
    ("chrono", "cedar-policy-core"),
    // Named by Cedar's serializer, for where somebody else brings it.
    ("chrono", "serde_with"),
];

pub fn check(metadata: &Metadata, tree: &Tree) -> Vec<Finding> {
    let lock = tree.text(LOCK).unwrap_or_default();
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let line = line_of(lock, |line| line == format!("name = \"{}\"", package.name));
        let mut found = |what: String, fix: &str| findings.push(Finding::error(LOCK, line, what, fix));
        if let Err(what) = licence(package) {
            found(what, "take another crate, or add the licence to `LICENCES` in xtask/src/licences.rs");
        }
        let banned = BANS.iter().find(|(name, _)| package.name == *name);
        if let Some((name, instead)) = banned.filter(|_| !is_only_brought(metadata, package)) {
            found(format!("`{name}` is banned (`cargo tree -i {name}` says who brings it)"), instead);
        }
        let ours = package.manifest_path.starts_with(&metadata.workspace_root);
        if !package.source.as_ref().map_or(ours, cargo_metadata::Source::is_crates_io) {
            found(format!("`{}` does not come from crates.io", package.name), "use a published version");
        }
    }
    findings
}

fn is_only_brought(metadata: &Metadata, package: &Package) -> bool {
    let nodes = metadata.resolve.as_ref().map(|resolve| resolve.nodes.as_slice()).unwrap_or_default();
    let mut bringers = nodes.iter().filter(|node| node.dependencies.contains(&package.id)).peekable();
    bringers.peek().is_some()
        && bringers.all(|node| BROUGHT.iter().any(|(name, by)| package.name == *name && metadata[&node.id].name == *by))
}

fn licence(package: &Package) -> Result<(), String> {
    let name = &package.name;
    let Some(expression) = &package.license else { return Err(format!("`{name}` names no licence")) };
    match spdx::permits(expression, LICENCES) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("`{name}` is under `{expression}`")),
        Err(error) => Err(format!("the licence `{expression}` of `{name}` cannot be read: {error}")),
    }
}
