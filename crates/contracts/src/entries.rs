//! What of a machine and around it tools may use: commands, databases, services, the sandbox. The operator writes it
//! (`entries.yaml`); a tool names an entry and never what is behind it.
//!
//! Deliberately absent: reading and watching the file, which is the server's, and what an entry does, which is its
//! runner's.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::name::Slug;

/// INVARIANT: as the operator wrote it; whoever uses an entry checks it and says what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Entries {
    /// By the name that a tool of kind `script` and `monorepo_cli.run_script` give.
    pub scripts: BTreeMap<String, ScriptEntry>,
    /// By the name that a tool of kind `sql`, `database_read` and `run_sql_write` give.
    pub databases: BTreeMap<String, DatabaseEntry>,
    /// By the name that `config_manager.update_yaml` gives.
    pub yaml_files: BTreeMap<String, YamlEntry>,
    /// By the name that a server of the transport `stdio` gives.
    pub upstreams: BTreeMap<String, UpstreamEntry>,
    pub search: Option<SearchEntry>,
    /// A server with Prometheus' HTTP API.
    pub metrics: Option<ServiceEntry>,
    /// Another server with GitHub's REST API than `https://api.github.com`.
    pub github: Option<ServiceEntry>,
    pub sandbox: SandboxEntry,
    /// What could not be read of the file. Nothing of it is above.
    #[serde(skip)]
    pub wrong: WrongEntries,
}

/// An entry that cannot be read, because a member is missing, unknown or not of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongEntry {
    /// As `scripts`, or a word that is no section.
    pub section: String,
    /// Absent: all of the section.
    pub name: Option<String>,
    pub line: Option<u64>,
    /// For the operator alone: it may show what is written there.
    pub why: String,
    /// Who would have it. Where that cannot be read either, whoever asks for it is told, and refused.
    pub tenants: Option<ForTenants>,
}

impl WrongEntry {
    /// The entry's own name within the file.
    pub fn place(&self) -> String {
        let name = self.name.iter().flat_map(|name| [".", name]);
        std::iter::once(self.section.as_str()).chain(name).collect()
    }

    /// For the operator: which it is, where and why.
    pub fn problem(&self) -> String {
        let Self { line, why, .. } = self;
        let line = line.map_or(String::new(), |line| format!(", line {line}"));
        format!("`{}`{line}: {why}", self.place())
    }

    /// For whoever asked for it.
    fn told(&self) -> String {
        let line = self.line.map_or(String::new(), |line| format!(" (line {line})"));
        format!("the operator's entry `{}`{line} cannot be read; `toolgate doctor` says why", self.place())
    }
}

/// Clones share the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrongEntries(std::sync::Arc<[WrongEntry]>);

impl WrongEntries {
    pub fn new(wrong: Vec<WrongEntry>) -> Self {
        Self(wrong.into())
    }

    pub fn all(&self) -> impl Iterator<Item = &WrongEntry> {
        self.0.iter()
    }

    /// What to tell about an entry that is not there because it cannot be read, or its whole section cannot; for nobody's
    /// tenant where none is given. One of another tenant is one that was never written.
    pub fn told(&self, section: &str, name: Option<&str>, tenant: Option<&Slug>) -> Option<String> {
        let is_it = |wrong: &&WrongEntry| {
            wrong.section == section
                && (wrong.name.is_none() || wrong.name.as_deref() == name)
                && wrong.tenants.as_ref().zip(tenant).is_none_or(|(tenants, tenant)| tenants.include(tenant))
        };
        self.all().find(is_it).map(WrongEntry::told)
    }
}

/// For which tenants an entry is. Absent: the first one, `default`; nobody else's tools reach it unnamed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ForTenants(Option<Vec<Slug>>);

impl ForTenants {
    pub fn include(&self, tenant: &Slug) -> bool {
        match &self.0 {
            Some(tenants) => tenants.contains(tenant),
            None => tenant.as_str() == "default",
        }
    }
}

/// A command that tools may start: a program and what callers may add to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The program, by its whole path or by a name that is looked up in the usual folders, and its first arguments.
    pub command: Vec<String>,
    /// Patterns, each matched against a whole argument. An argument that matches none is refused.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The variables that a caller may set, each with the pattern of its whole value.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Variables that are always set.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Variables that hold secrets of the tool whose call it is, each by the secret's name.
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
    /// Where it runs; a caller may choose a folder below it.
    pub folder: PathBuf,
    /// What to run instead where a caller only wants to see what would happen. Absent: nothing is run.
    #[serde(default)]
    pub dry_run: Option<Vec<String>>,
    #[serde(default)]
    pub timeout_s: Option<u64>,
    #[serde(default)]
    pub output_bytes_max: Option<u64>,
    #[serde(default)]
    pub tenants: ForTenants,
}

/// A process that offers tools over its standard streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The program, by its whole path or by a name that is looked up in the usual folders, and its arguments.
    pub command: Vec<String>,
    /// Variables that are always set.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Where it runs; without it in `/`.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    #[serde(default)]
    pub tenants: ForTenants,
}

/// A database that statements run in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// `postgres://…`, or `sqlite:///PATH`.
    pub url: String,
    /// A file with the password, where the address has none.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// Whether statements that write may run at all.
    #[serde(default)]
    pub writable: bool,
    #[serde(default)]
    pub statement_timeout_ms: Option<u64>,
    #[serde(default)]
    pub rows_max: Option<usize>,
    #[serde(default)]
    pub tenants: ForTenants,
}

/// A YAML file that tools may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct YamlEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    pub file: PathBuf,
    /// JSON Pointers of what may be changed, with everything below. Empty: the whole file.
    #[serde(default)]
    pub paths: Vec<String>,
    #[serde(default)]
    pub tenants: ForTenants,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchEntry {
    /// `exa`, `brave` or `searxng`.
    pub provider: String,
    /// Where it is, where that is not its usual address.
    #[serde(default)]
    pub url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceEntry {
    pub url: String,
    #[serde(default)]
    pub tenants: ForTenants,
}

/// How untrusted code is run here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxEntry {
    /// The interpreter; absent: the first of the usual places that exists.
    pub python: Option<PathBuf>,
    /// Folders of further modules, readable by all untrusted code.
    pub libraries: Vec<PathBuf>,
    /// Modules of these folders to have ready; one with native code must be named.
    pub preload: Vec<String>,
    /// How many run at once.
    pub concurrent: Option<usize>,
    /// How many wait ready.
    pub warm: Option<usize>,
    /// Folders of control groups that are ours to make groups in: one of version 2, or of version 1 one for `memory` and
    /// one for `pids`.
    pub cgroups: Vec<PathBuf>,
    /// Python as WebAssembly, for machines without user namespaces.
    pub wasm: Option<PinnedFile>,
    /// A current gVisor.
    pub runsc: Option<PathBuf>,
    pub gvisor: GvisorEntry,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GvisorEntry {
    /// The day of the oldest release that is taken, such as `20240101`; absent: a current one.
    pub oldest: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedFile {
    pub file: PathBuf,
    /// Hexadecimal.
    pub sha256: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_names_no_tenants_is_for_the_first() {
        let check = |text: &str, tenant: &str, expected: bool| {
            let entry: YamlEntry = serde_json::from_str(text).unwrap();
            assert_eq!(entry.tenants.include(&tenant.parse().unwrap()), expected, "{text} {tenant}");
        };
        check(r#"{"file":"/a"}"#, "default", true);
        check(r#"{"file":"/a"}"#, "acme", false);
        check(r#"{"file":"/a","tenants":["acme"]}"#, "acme", true);
        check(r#"{"file":"/a","tenants":["acme"]}"#, "default", false);
        check(r#"{"file":"/a","tenants":[]}"#, "default", false);
    }
}
