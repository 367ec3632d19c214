//! The operator's entries: `entries.yaml`, read once at the start.
//!
//! An entry that cannot be read is told in the log, by `toolgate doctor` and to whoever asks for it; the others work.
//!
//! Invariant: a file that names commands and databases is written by the operator alone; one that others may write is
//! refused.

mod reading;

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use toolgate_contracts::{Entries, Fault};

use crate::config::Config;

const ENTRIES_BYTES_MAX: u64 = 1024 * 1024;
const USUAL_NAME: &str = "entries.yaml";

/// The entries of the configured file, or of the usual one where it exists.
pub fn load(config: &Config, data: &Path) -> Result<Entries, Fault> {
    let (path, is_named) = match config.get("entries_file") {
        "" => (data.join(USUAL_NAME), false),
        named => (data.join(named), true),
    };
    // One that cannot be looked at is not one that is absent.
    if !is_named && matches!(path.symlink_metadata(), Err(error) if error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(Entries::default());
    }
    read(&path).map_err(|why| Fault::invalid(format!("the operator's entries, {}: {why}", path.display()), REMEDY))
}

const REMEDY: &str = "correct the file and start again; docs/entries.md says what it may hold";

fn read(path: &PathBuf) -> Result<Entries, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err("it is another user's; it must belong to who runs Toolgate, or to root".to_owned());
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("others than its owner may write it; `chmod go-w` it first".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(ENTRIES_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > ENTRIES_BYTES_MAX {
        return Err(format!("it has more than {ENTRIES_BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Entries::default());
    }
    reading::read(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn entries(text: &str, mode: u32) -> Result<Entries, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(USUAL_NAME);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let config = Config::load(None, std::iter::empty(), &[]).unwrap();
        load(&config, folder.path()).map_err(|fault| fault.told().replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn what_the_operator_writes_is_read_strictly() {
        assert_eq!(entries("# nothing yet\n", 0o600), Ok(Entries::default()));
        let scripts =
            entries("scripts:\n  test:\n    command: [make, test]\n    folder: /srv\n", 0o644).unwrap().scripts;
        assert_eq!(scripts["test"].command, ["make", "test"]);
        let told = entries("scripts: {}\n", 0o666).unwrap_err();
        assert_eq!(told, "the operator's entries, FILE: others than its owner may write it; `chmod go-w` it first");
    }

    /// What is wrong, and which entries are there all the same.
    #[track_caller]
    fn check(text: &str, wrong: &[&str], right: &[&str]) {
        let read = entries(text, 0o600).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
        let problems: Vec<String> = read.wrong.all().map(toolgate_contracts::entries::WrongEntry::problem).collect();
        assert_eq!(problems.len(), wrong.len(), "{problems:#?}");
        for (problem, expected) in problems.iter().zip(wrong) {
            for words in expected.split(" … ") {
                assert!(problem.contains(words), "{problem}\nhas no\n{words}");
            }
        }
        let Entries { scripts, databases, yaml_files, upstreams, search, metrics, github, .. } = &read;
        let named = scripts.keys().chain(databases.keys()).chain(yaml_files.keys());
        let services = [("search", search.is_some()), ("metrics", metrics.is_some()), ("github", github.is_some())];
        let services = services.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name);
        let there: Vec<&str> = named.chain(upstreams.keys()).map(String::as_str).chain(services).collect();
        assert_eq!(there, right, "{text}");
    }

    #[test]
    fn a_wrong_entry_is_named_with_its_line_and_the_others_are_there() {
        let scripts = "scripts:\n  test:\n    command: [make]\n    folder: /\n    shell: true\n  other: {command: [ls], folder: /}\n";
        check(scripts, &["`scripts.test`, line 5: … shell"], &["other"]);
        let missing = "yaml_files:\n  app: {paths: []}\n  b: {file: /b}\nmetrics: {url: 'http://m'}\n";
        check(missing, &["`yaml_files.app`, line 2: … file"], &["b", "metrics"]);
        let several = "databases:\n  a:\n    url: [x]\n  b:\n    url: sqlite:///b\n    tenants: 7\nsearch: {}\n\
                       upstreams:\n  u: {command: [u]}\n";
        check(several, &["`databases.a`, line 3", "`databases.b`, line 6", "`search`, line 7: … provider"], &["u"]);
        check("scripts: [1]\nsearch: {provider: exa}\n", &["`scripts`, line 1"], &["search"]);
        check("scripts:\nsandbox: {warm: many}\ngithub: {url: 'https://g'}\n", &["`sandbox`, line 2"], &["github"]);
        // Where a number is taken for a text, it is so beside a wrong entry too.
        check("scripts:\n  a: {command: [a], folder: /, set: {PORT: '80'}}\n  b: {}\n", &["`scripts.b`"], &["a"]);
    }

    /// Left out, it would leave more allowed: untrusted code under no group, a secret sent to the usual host.
    #[test]
    fn a_word_that_is_no_section_refuses_the_file() {
        for text in ["sandbx: {concurrent: 4}\n", "scripts:\n  a: {}\ngit_hub: {url: 'https://g'}\n"] {
            let told = entries(text, 0o600).unwrap_err();
            assert!(told.contains("there is no section `") && told.contains("`sandbox`"), "{told}");
        }
    }

    #[test]
    fn what_is_no_yaml_has_no_entries() {
        for text in
            ["scripts: {a: {command: [x], folder: /}\nsearch: {provider: exa}\n", "scripts: {}\n  x: [\n", "- a\n"]
        {
            assert!(entries(text, 0o600).is_err(), "{text}");
        }
    }

    #[test]
    fn who_would_have_an_entry_is_told_that_it_cannot_be_read_and_nothing_of_what_it_holds() {
        let text = "databases:\n  a: {url: postgres://u:s3cret@h/d, writable: s3cret, tenants: [acme]}\n  b: {tenants: {}}\n\
                    github: {ulr: 'https://g', tenants: [acme]}\n";
        let wrong = entries(text, 0o600).unwrap().wrong;
        let told = |section, name, tenant: &str| wrong.told(section, name, Some(&tenant.parse().unwrap()));
        let expected = "the operator's entry `databases.a` (line 2) cannot be read; `toolgate doctor` says why";
        assert_eq!(told("databases", Some("a"), "acme").as_deref(), Some(expected));
        assert_eq!(told("databases", Some("a"), "default"), None);
        assert_eq!(told("databases", Some("c"), "acme"), None);
        // Nobody knows whose it would be.
        assert!(told("databases", Some("b"), "default").is_some());
        assert!(told("github", None, "acme").is_some());
        assert_eq!(told("github", None, "default"), None);
    }

    #[test]
    fn a_file_of_somebody_else_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(USUAL_NAME);
        std::fs::write(&path, "scripts: {}\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&path), Ok(Entries::default()));
        // Only root gives files away.
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            let told = read(&path).unwrap_err();
            assert_eq!(told, "it is another user's; it must belong to who runs Toolgate, or to root");
        }
    }

    #[test]
    fn every_example_of_the_document_is_one_that_is_read() {
        let document = include_str!("../../../docs/entries.md");
        let examples: Vec<&str> =
            document.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(examples.len() >= 5, "{}", examples.len());
        for example in examples {
            let read = entries(example, 0o600).unwrap_or_else(|problem| panic!("{problem}\n{example}"));
            assert_eq!(read.wrong.all().next(), None, "{example}");
        }
    }

    #[test]
    fn a_file_that_is_named_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::load(None, std::iter::empty(), &[("entries_file", "other.yaml".to_owned())]).unwrap();
        assert!(load(&config, folder.path()).unwrap_err().told().contains("other.yaml"));
    }
}
