//! Configuration: a file, the environment and flags, later ones winning, over one documented table of keys.

mod keys;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use toolgate_contracts::Fault;

use keys::command;
pub use keys::{KEYS, Key};

pub const CONFIG_BYTES_MAX: usize = 256 * 1024;

/// Where a value came from, for `config show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Default,
    File,
    Environment,
    Flag,
}

#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    pub value: String,
    pub origin: Origin,
}

/// INVARIANT: holds every key of [`KEYS`], each checked.
#[derive(Clone, Debug)]
pub struct Config {
    settings: BTreeMap<&'static str, Setting>,
}

/// Every problem of a configuration, not only the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<String>);

impl std::fmt::Display for Problems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl Config {
    /// Layers file over defaults, environment over file, flags over all.
    pub fn load(
        file: Option<(&Path, &[u8])>,
        variables: impl Iterator<Item = (String, String)>,
        flags: &[(&'static str, String)],
    ) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let mut settings: BTreeMap<&'static str, Setting> = KEYS
            .iter()
            .map(|key| (key.name, Setting { value: key.default.to_owned(), origin: Origin::Default }))
            .collect();
        let mut set =
            |name: &str, value: String, origin: Origin, place: String| match KEYS.iter().find(|key| key.name == name) {
                None => problems.push(format!("{place}: unknown key `{name}`{}", suggestion(name))),
                Some(key) => match (key.check)(&value) {
                    Err(problem) => problems.push(format!("{place}: `{name}`: {problem}")),
                    Ok(()) => drop(settings.insert(key.name, Setting { value, origin })),
                },
            };
        if let Some((path, bytes)) = file {
            match read_file(bytes) {
                Err(problem) => return Err(Problems(vec![format!("{}: {problem}", path.display())])),
                Ok(members) => {
                    for (name, value) in members {
                        set(&name, value, Origin::File, path.display().to_string());
                    }
                }
            }
        }
        for (variable, value) in variables {
            let Some(name) = variable.strip_prefix("TOOLGATE_") else { continue };
            let name = name.to_lowercase();
            // These belong to the command line and to tests, not to the server's table.
            if matches!(name.as_str(), "data" | "server" | "key" | "tenant" | "config") || name.starts_with("test_") {
                continue;
            }
            set(&name, value, Origin::Environment, format!("environment variable {variable}"));
        }
        for (name, value) in flags {
            set(name, value.clone(), Origin::Flag, format!("--{}", name.replace('_', "-")));
        }
        let halves = ["tls_cert", "tls_key"].map(|name| settings.get(name).is_some_and(|half| !half.value.is_empty()));
        if let [true, false] | [false, true] = halves {
            let (set, missing) = if halves[0] { ("tls_cert", "tls_key") } else { ("tls_key", "tls_cert") };
            problems.push(format!("`{set}` is set and `{missing}` is not: TLS needs both, or neither"));
        }
        let is_set = |name: &str| settings.get(name).is_some_and(|setting| !setting.value.is_empty());
        if is_set("smtp") && !is_set("mail_from") {
            problems.push("`smtp` is set and `mail_from` is not: mail needs a sender".to_owned());
        }
        if is_set("oidc_issuer") {
            let missing = ["oidc_client_id", "public_url"].into_iter().filter(|name| !is_set(name));
            problems.extend(missing.map(|name| format!("`oidc_issuer` is set and `{name}` is not")));
            if !is_set("oidc_roles") && !is_set("oidc_default_role") {
                problems.push(
                    "`oidc_issuer` is set, and neither `oidc_roles` nor `oidc_default_role` lets anybody in".to_owned(),
                );
            }
        }
        if is_set("mcp_issuers") && !is_set("public_url") {
            problems.push(
                "`mcp_issuers` is set and `public_url` is not: whom a token is for must not depend on how it came"
                    .to_owned(),
            );
        }
        let own = settings.get("public_url").map_or("", |setting| setting.value.as_str());
        let named = settings.get("mcp_issuers").map_or("", |setting| setting.value.as_str());
        if crate::oauth::issuers::read(named).is_ok_and(|issuers| issuers.iter().any(|issuer| issuer.name == own)) {
            problems.push("`mcp_issuers` names this server itself (`public_url`)".to_owned());
        }
        problems.extend(unfit_for_bypass(&settings));
        if problems.is_empty() { Ok(Self { settings }) } else { Err(Problems(problems)) }
    }

    pub fn get(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", |setting| setting.value.as_str())
    }

    pub fn number(&self, name: &str) -> u32 {
        self.get(name).parse().unwrap_or_default()
    }

    pub fn settings(&self) -> &BTreeMap<&'static str, Setting> {
        &self.settings
    }

    /// As shown to people: passwords in URLs replaced.
    pub fn shown(&self) -> BTreeMap<&'static str, Setting> {
        let mut settings = self.settings.clone();
        for name in ["database", "redis", "smtp"] {
            if let Some(setting) = settings.get_mut(name) {
                setting.value = without_password(&setting.value);
            }
        }
        for name in ["master_key", "master_key_previous", "oidc_client_secret"] {
            if let Some(setting) = settings.get_mut(name).filter(|setting| !setting.value.is_empty()) {
                "(set)".clone_into(&mut setting.value);
            }
        }
        settings
    }

    /// Where the database is: the configured one, or a file in the data folder.
    pub fn database_url(&self, data: &Path) -> String {
        match self.get("database") {
            "" => format!("sqlite://{}", data.join("toolgate.db").display()),
            url => url.to_owned(),
        }
    }

    /// The program that prints the master key, with its arguments.
    pub fn master_key_command(&self) -> Option<Vec<String>> {
        // INVARIANT: checked when it was read.
        command(self.get("master_key_command")).ok().filter(|words| !words.is_empty())
    }

    /// What replicas share, if there is more than one.
    pub fn redis_url(&self) -> Option<&str> {
        Some(self.get("redis")).filter(|url| !url.is_empty())
    }

    /// Whether the server speaks HTTPS itself.
    pub fn has_tls(&self) -> bool {
        !self.get("tls_cert").is_empty()
    }

    /// The files of certificate and key; a relative path begins in the data folder, wherever a command runs.
    pub fn tls_files(&self, data: &Path) -> Option<(PathBuf, PathBuf)> {
        self.has_tls().then(|| (data.join(self.get("tls_cert")), data.join(self.get("tls_key"))))
    }

    /// Whether people reach this server by HTTPS, spoken by itself or by a proxy before it.
    pub fn is_https(&self) -> bool {
        match self.get("public_url") {
            "" => self.has_tls(),
            url => url.starts_with("https://"),
        }
    }

    pub fn proxies(&self) -> crate::proxies::Proxies {
        // INVARIANT: checked when it was read.
        crate::proxies::Proxies::parse(self.get("trusted_proxies")).unwrap_or_default()
    }

    pub fn allowed_hosts(&self) -> Vec<String> {
        self.get("allowed_hosts")
            .split(',')
            .map(|host| host.trim().to_lowercase())
            .filter(|host| !host.is_empty())
            .collect()
    }
}

/// The platform's data folder.
pub fn default_data_folder(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let xdg = variable("XDG_DATA_HOME").filter(|path| path.starts_with('/')).map(PathBuf::from);
    xdg.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".local/share"))).map(|base| base.join("toolgate"))
}

/// The table of `docs/configuration.md`, which a test keeps equal to this.
pub fn markdown_table() -> String {
    let mut table = String::from("| key | environment | default | meaning |\n| --- | --- | --- | --- |\n");
    for key in KEYS {
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        let _ = writeln!(table, "| `{}` | `{}` | {default} | {} |", key.name, key.variable(), key.about);
    }
    table
}

/// Why the development bypass cannot be on: somebody else might reach this server.
fn unfit_for_bypass(settings: &BTreeMap<&'static str, Setting>) -> Option<String> {
    let get = |name: &str| settings.get(name).map_or("", |setting| setting.value.as_str());
    if get("dev_bypass") != "true" {
        return None;
    }
    let is_loopback = |text: &str| text.parse::<std::net::SocketAddr>().is_ok_and(|address| address.ip().is_loopback());
    let why = [
        (get("database").starts_with("postgres"), "`database` is not SQLite"),
        (!is_loopback(get("listen")), "`listen` is not a loopback address"),
        (!get("tls_cert").is_empty(), "`tls_cert` is set"),
        (!get("trusted_proxies").is_empty(), "`trusted_proxies` is set"),
        (!get("allowed_hosts").is_empty(), "`allowed_hosts` is set"),
        (!get("public_url").is_empty() && !crate::app::is_loopback(get("public_url")), "`public_url` is not loopback"),
        (!get("oidc_issuer").is_empty(), "`oidc_issuer` is set"),
    ];
    let why: Vec<&str> = why.into_iter().filter(|(holds, _)| *holds).map(|(_, why)| why).collect();
    (!why.is_empty()).then(|| format!("`dev_bypass` is on, and {}: it is for a machine of your own", why.join(", ")))
}

fn read_file(bytes: &[u8]) -> Result<Vec<(String, String)>, String> {
    if bytes.len() > CONFIG_BYTES_MAX {
        return Err(format!("the file has {} bytes, the limit is {CONFIG_BYTES_MAX}", bytes.len()));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())?;
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    let value: Value = serde_saphyr::from_str(text).map_err(|error| format!("not valid YAML: {error}"))?;
    let Value::Object(members) = value else { return Err("expected `key: value` lines".to_owned()) };
    let scalar = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Number(number) => Ok((name, number.to_string())),
        Value::Bool(flag) => Ok((name, flag.to_string())),
        _ => Err(format!("`{name}` must be a single value")),
    };
    members.into_iter().map(scalar).collect()
}

fn suggestion(name: &str) -> String {
    let near = |key: &&Key| {
        let shared = key.name.chars().filter(|c| name.contains(*c)).count();
        let distance = edit_distance(name, key.name);
        distance <= 3 || (distance <= 5 && shared > key.name.len() / 2)
    };
    KEYS.iter().filter(near).min_by_key(|key| edit_distance(name, key.name)).map_or_else(
        || "; `toolgate config show` lists all keys".to_owned(),
        |key| format!("; did you mean `{}`?", key.name),
    )
}

fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, from) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, to) in right.iter().enumerate() {
            let next = (diagonal + usize::from(from != *to)).min(row[column] + 1).min(row[column + 1] + 1);
            diagonal = std::mem::replace(&mut row[column + 1], next);
        }
    }
    row[right.len()]
}

/// Replaces the password of a URL.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{scheme}://{user}:***@{host}"),
            None => url.to_owned(),
        },
        None => url.to_owned(),
    }
}

impl From<Problems> for Fault {
    fn from(problems: Problems) -> Self {
        Self::invalid(problems.to_string(), "correct the configuration; `toolgate config check` tests it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &str, variables: &[(&str, &str)], flags: &[(&'static str, &str)]) -> Result<Config, Problems> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let flags: Vec<_> = flags.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Config::load(Some((Path::new("toolgate.yaml"), file.as_bytes())), variables, &flags)
    }

    #[test]
    fn flags_win_over_environment_over_file_over_defaults() {
        let config = load(
            "listen: 127.0.0.1:1\nlog: warn\n",
            &[("TOOLGATE_LISTEN", "127.0.0.1:2")],
            &[("listen", "127.0.0.1:3")],
        )
        .unwrap();
        assert_eq!(
            (config.get("listen"), config.get("log"), config.get("durability")),
            ("127.0.0.1:3", "warn", "auto")
        );
        assert_eq!(config.settings()["listen"].origin, Origin::Flag);
    }

    #[test]
    fn every_problem_is_told_with_a_suggestion() {
        let problems = load("listne: 1\ndurability: fast\n", &[("TOOLGATE_LOG_FROMAT", "json")], &[]).unwrap_err();
        assert_eq!(
            problems.0,
            [
                "toolgate.yaml: unknown key `listne`; did you mean `listen`?",
                "toolgate.yaml: `durability`: `fast` is not one of auto, power",
                "environment variable TOOLGATE_LOG_FROMAT: unknown key `log_fromat`; did you mean `log_format`?",
            ]
        );
        assert!(load("a: [", &[], &[]).is_err());
        assert!(load("# nothing\n", &[], &[]).is_ok());
    }

    #[test]
    fn keys_that_belong_together_are_checked_together() {
        let problems =
            load("tls_cert: a.pem\ntrusted_proxies: 10.0.0.0/8, here\notlp_endpoint: 127.0.0.1:4318\n", &[], &[]);
        assert_eq!(
            problems.unwrap_err().0,
            [
                "toolgate.yaml: `trusted_proxies`: `here` is neither an address such as 10.1.2.3 nor a network such as 10.0.0.0/8",
                "toolgate.yaml: `otlp_endpoint`: `127.0.0.1:4318` is not an address such as http://127.0.0.1:4318",
                "`tls_cert` is set and `tls_key` is not: TLS needs both, or neither",
            ]
        );
        for (file, https) in [
            ("", false),
            ("tls_cert: a\ntls_key: b\n", true),
            ("public_url: https://x\n", true),
            ("public_url: http://x\ntls_cert: a\ntls_key: b\n", false),
        ] {
            assert_eq!(load(file, &[], &[]).unwrap().is_https(), https, "{file}");
        }
    }

    #[test]
    fn the_development_bypass_is_refused_wherever_somebody_else_might_reach_the_server() {
        assert!(load("dev_bypass: true\n", &[], &[]).is_ok());
        assert!(load("dev_bypass: true\npublic_url: http://localhost:8787\nlisten: '[::1]:0'\n", &[], &[]).is_ok());
        for (line, why) in [
            ("database: postgres://db/x", "`database`"),
            ("listen: 0.0.0.0:8787", "`listen`"),
            ("listen: 192.168.1.2:8787", "`listen`"),
            ("tls_cert: a\ntls_key: b", "`tls_cert`"),
            ("trusted_proxies: 127.0.0.1", "`trusted_proxies`"),
            ("allowed_hosts: tools.example.com", "`allowed_hosts`"),
            ("public_url: https://tools.example.com", "`public_url`"),
        ] {
            let problems = load(&format!("dev_bypass: true\n{line}\n"), &[], &[]).unwrap_err().to_string();
            assert!(problems.contains("`dev_bypass` is on") && problems.contains(why), "{line}: {problems}");
            assert!(load(&format!("{line}\n"), &[], &[]).is_ok(), "{line}");
        }
    }

    #[test]
    fn other_issuers_need_to_know_what_this_server_is_called() {
        let issuers = "mcp_issuers: '[{\"issuer\": \"https://id.example.com\"}]'\n";
        let problems = load(issuers, &[], &[]).unwrap_err().to_string();
        assert!(problems.contains("`public_url`"), "{problems}");
        assert!(load(&format!("{issuers}public_url: https://tools.example.com\n"), &[], &[]).is_ok());
    }

    #[test]
    fn a_password_is_never_shown() {
        for (name, url, shown) in [
            ("database", "postgres://me:hunter2@db/x", "postgres://me:***@db/x"),
            ("redis", "redis://:hunter2@cache:6379/1", "redis://:***@cache:6379/1"),
        ] {
            let variable = format!("TOOLGATE_{}", name.to_uppercase());
            let config = load("", &[(&variable, url)], &[]).unwrap();
            assert_eq!(config.shown()[name].value, shown);
            for wrong in ["mysql://me:hunter2@db/x", "rediss://me:hunter2@db/x"] {
                let problems = load("", &[(&variable, wrong)], &[]).unwrap_err().to_string();
                assert!(!problems.contains("hunter2"), "{problems}");
            }
        }
    }

    #[test]
    fn the_documented_table_is_the_table() {
        let page = include_str!("../../../docs/configuration.md");
        assert!(page.contains(&markdown_table()), "docs/configuration.md should hold:\n{}", markdown_table());
    }
}
