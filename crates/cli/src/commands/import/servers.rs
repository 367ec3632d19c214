//! What a server in a client's file is: where it is, what it is given, and which of that is secret.
//!
//! Invariant: what is not plainly harmless is taken for a secret. Better a word too many in the vault than a key in a
//! listing.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::Kind;
use crate::connect::Environment;

/// What a name here may have.
const NAME_CHARS_MAX: usize = 40;
/// Longer than any word that people write, and as long as the shortest keys.
const RANDOM_CHARS_MIN: usize = 20;
/// Letters alone, which may be words without a space, are longer before they are taken for a key.
const LETTERS_MIN: usize = 32;
/// How often random text goes from small letters to large ones or to digits at least; names of things do it less often.
const TURNS_MIN: usize = 6;
const PLAIN_CHARS_MAX: usize = 200;
/// Where programs are looked for anyway.
const USUAL_FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// Where the file was written: what its variables mean.
pub struct Around<'a> {
    pub kind: Kind,
    pub environment: &'a Environment,
    pub tenant: Option<&'a str>,
}

/// A value that goes to the vault.
pub struct Kept {
    pub name: String,
    /// Absent where only the client, or a person, knows it.
    pub value: Option<Zeroizing<String>>,
    /// Where a header takes it.
    pub host: Option<String>,
}

/// A server as it would be behind the gate.
pub struct Wanted {
    /// The body of `PUT /upstreams/NAME`.
    pub spec: Value,
    /// What the operator allows, where it is a process.
    pub entry: Option<Value>,
    pub secrets: Vec<Kept>,
    /// What is not taken over, or must be known.
    pub notes: Vec<String>,
}

enum Place {
    Process { command: Vec<String>, variables: Vec<(String, Filled)>, folder: Option<String> },
    Address { url: String, is_sse: bool, headers: Vec<(String, Filled)> },
}

/// A text whose variables are filled in.
#[derive(Debug, PartialEq)]
struct Filled {
    text: String,
    /// What nobody here knows.
    missing: Vec<String>,
}

/// Members that say where a server is, and those that mean nothing behind a gate.
const KNOWN: [&str; 12] = [
    "type",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "disabled",
    "name",
    "description",
    "gallery",
    "version",
];
/// Members without which a server would be another.
const NEEDED: [&str; 6] = ["envFile", "headersHelper", "auth", "oauth", "serverUrl", "httpUrl"];

/// The name it has here, where one can be made.
pub fn name_of(key: &str) -> Option<String> {
    let mut name = String::new();
    for c in key.chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let name: String =
        name.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).chars().take(NAME_CHARS_MAX).collect();
    let name = name.trim_end_matches('-');
    (!name.is_empty()).then(|| name.to_owned())
}

/// Whether it is this very gate: by its program, by its address, or by a key of ours.
pub fn is_toolgate(server: &Value, address: Option<&str>) -> bool {
    let command = server["command"].as_str().and_then(|command| Path::new(command).file_name()?.to_str());
    let mut words = server["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if command == Some("toolgate") && words.any(|word| word == "mcp") {
        return true;
    }
    let headers = server["headers"].as_object().into_iter().flatten();
    let mut values = headers.filter_map(|(_, value)| value.as_str());
    let url = server["url"].as_str().unwrap_or_default();
    let is_ours =
        |address: &str| url == address || url.strip_prefix(address).is_some_and(|rest| rest.starts_with(['/', '?']));
    address.is_some_and(is_ours) || values.any(|value| value.starts_with("Bearer tg_"))
}

/// Why it stays where it is, or what would become of it.
pub fn read(name: &str, server: &Value, around: &Around<'_>) -> Result<Wanted, String> {
    let members = server.as_object().ok_or("it is no object")?;
    if members.get("disabled") == Some(&Value::Bool(true)) {
        return Err("it is switched off".to_owned());
    }
    if let Some(needed) = NEEDED.iter().find(|needed| members.contains_key(**needed)) {
        return Err(format!("it has `{needed}`, which only its client understands"));
    }
    let mut notes = Vec::new();
    let unknown: Vec<&str> = members.keys().map(String::as_str).filter(|member| !KNOWN.contains(member)).collect();
    if !unknown.is_empty() {
        notes.push(format!("not taken over: {}", unknown.join(", ")));
    }
    match place(server, around)? {
        Place::Process { command, variables, folder } => process(name, command, variables, folder, notes, around),
        Place::Address { url, is_sse, headers } => address(name, &url, is_sse, headers, notes),
    }
}

fn place(server: &Value, around: &Around<'_>) -> Result<Place, String> {
    let kind = server["type"].as_str().unwrap_or_default();
    let has = |member: &str| server[member].as_str().is_some_and(|text| !text.is_empty());
    match kind {
        "stdio" | "" if has("command") => {
            let command = words(server, around)?;
            let variables = pairs(&server["env"], "env", around)?;
            if let Some(bridged) = bridged(&command, &variables)? {
                return Ok(bridged);
            }
            let folder = server["cwd"].as_str().map(|folder| known(folder, "cwd", around)).transpose()?;
            Ok(Place::Process { command, variables, folder })
        }
        "http" | "sse" | "streamable-http" | "streamableHttp" | "" if has("url") => Ok(Place::Address {
            url: known(server["url"].as_str().unwrap_or_default(), "url", around)?,
            is_sse: kind == "sse",
            headers: pairs(&server["headers"], "headers", around)?,
        }),
        "" => Err("it has neither `command` nor `url`".to_owned()),
        other => Err(format!("its `type` is `{}`", other.escape_debug())),
    }
}

fn words(server: &Value, around: &Around<'_>) -> Result<Vec<String>, String> {
    let command = known(server["command"].as_str().unwrap_or_default(), "command", around)?;
    let mut words = vec![command];
    match &server["args"] {
        Value::Null => {}
        Value::Array(arguments) => {
            for argument in arguments {
                words.push(known(argument.as_str().ok_or("its `args` are not all texts")?, "args", around)?);
            }
        }
        _ => return Err("its `args` are no list".to_owned()),
    }
    Ok(words)
}

fn pairs(value: &Value, member: &str, around: &Around<'_>) -> Result<Vec<(String, Filled)>, String> {
    let members = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Object(members) => members,
        _ => return Err(format!("its `{member}` is no object")),
    };
    let mut pairs = Vec::new();
    for (name, value) in members {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Array(_) | Value::Object(_) => return Err(format!("`{name}` of its `{member}` is no text")),
        };
        pairs.push((name.clone(), fill(&text, around)?));
    }
    Ok(pairs)
}

/// A text that must be known here and now.
fn known(text: &str, member: &str, around: &Around<'_>) -> Result<String, String> {
    let Filled { text, missing } = fill(text, around)?;
    match missing.first() {
        None => Ok(text),
        Some(name) => Err(format!("its `{member}` names `{name}`, which is not set here")),
    }
}

/// Fills in what a client would, as far as that can be known outside of it.
fn fill(text: &str, around: &Around<'_>) -> Result<Filled, String> {
    let mut filled = Filled { text: String::new(), missing: Vec::new() };
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((variable, after)) = after.split_once('}') else { break };
        filled.text.push_str(before);
        rest = after;
        let (name, default) = match around.kind {
            Kind::ClaudeDesktop => {
                let _ = write!(filled.text, "${{{variable}}}");
                continue;
            }
            Kind::ClaudeCode => {
                variable.split_once(":-").map_or((variable, None), |(name, default)| (name, Some(default)))
            }
            Kind::Cursor | Kind::Vscode => match variable.split_once(':') {
                Some(("env", name)) => (name, None),
                Some(("input", _)) if around.kind == Kind::Vscode => {
                    filled.missing.push(format!("${{{variable}}}"));
                    continue;
                }
                None if variable == "userHome" => ("HOME", None),
                _ => return Err(format!("it names `${{{}}}`, which only its client knows", variable.escape_debug())),
            },
        };
        match around.environment.get(name).or(default) {
            Some(value) => filled.text.push_str(value),
            None => filled.missing.push(format!("${{{variable}}}")),
        }
    }
    filled.text.push_str(rest);
    Ok(filled)
}

/// `npx mcp-remote URL` stands in for an address in clients that know none; behind the gate it is that address.
fn bridged(command: &[String], variables: &[(String, Filled)]) -> Result<Option<Place>, String> {
    let is_bridge = |word: &String| word == "mcp-remote" || word.starts_with("mcp-remote@");
    let Some(at) = command.iter().position(is_bridge) else { return Ok(None) };
    let starter = command.first().and_then(|program| Path::new(program).file_name()?.to_str()).unwrap_or_default();
    let mut words = command.iter().skip(at + 1);
    let url = match words.next() {
        Some(url) if matches!(starter, "npx" | "bunx" | "pnpx") && url.starts_with("http") => url.clone(),
        _ => return Ok(None),
    };
    let mut headers = Vec::new();
    let mut is_sse = false;
    while let Some(word) = words.next() {
        match (word.as_str(), words.next()) {
            ("--header", Some(header)) => {
                let (name, value) = header.split_once(':').ok_or("its `--header` has no `:`")?;
                headers.push((name.trim().to_owned(), with_variables(value.trim(), variables)));
            }
            ("--transport", Some(transport)) => is_sse = transport.starts_with("sse"),
            // What it can do beside is for the bridge itself.
            _ => return Ok(None),
        }
    }
    Ok(Some(Place::Address { url, is_sse, headers }))
}

fn with_variables(text: &str, variables: &[(String, Filled)]) -> Filled {
    let mut filled = Filled { text: text.to_owned(), missing: Vec::new() };
    for (name, value) in variables {
        let word = format!("${{{name}}}");
        if filled.text.contains(&word) {
            filled.text = filled.text.replace(&word, &value.text);
            filled.missing.extend(value.missing.iter().cloned());
        }
    }
    filled
}

fn process(
    name: &str,
    mut command: Vec<String>,
    variables: Vec<(String, Filled)>,
    folder: Option<String>,
    mut notes: Vec<String>,
    around: &Around<'_>,
) -> Result<Wanted, String> {
    let program = program(command.first().map(String::as_str).unwrap_or_default(), around.environment)?;
    let mut set = Map::new();
    set.extend(around.environment.get("HOME").map(|home| ("HOME".to_owned(), home.into())));
    let beside = program.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    if !USUAL_FOLDERS.contains(&beside.as_str()) {
        set.insert("PATH".to_owned(), format!("{beside}:{}", USUAL_FOLDERS.join(":")).into());
    }
    if let Some(first) = command.first_mut() {
        *first = program.display().to_string();
    }
    if !are_plain(&command) {
        notes.push(
            "an argument looks like a secret: it stands in the operator's file, and in the list of processes"
                .to_owned(),
        );
    }
    let mut environment = Vec::new();
    let mut secrets = Vec::new();
    for (variable, Filled { text, missing }) in variables {
        if missing.is_empty() && is_plain(&variable, &text) {
            set.insert(variable, text.into());
            continue;
        }
        let secret = secret_name(name, &variable);
        environment.push(json!({"name": variable, "secret": secret}));
        let value = missing.is_empty().then(|| Zeroizing::new(text));
        secrets.push(Kept { name: secret, value, host: None });
    }
    let mut entry = Map::new();
    entry.insert("about".to_owned(), format!("From {}.", around.kind.title()).into());
    entry.insert("command".to_owned(), command.into());
    if !set.is_empty() {
        entry.insert("set".to_owned(), set.into());
    }
    if let Some(folder) = folder {
        if !folder.starts_with('/') {
            return Err("its `cwd` is no whole path".to_owned());
        }
        entry.insert("folder".to_owned(), folder.into());
    }
    entry.extend(around.tenant.map(|tenant| ("tenants".to_owned(), json!([tenant]))));
    let mut spec = json!({"version": 1, "name": name, "transport": {"kind": "stdio", "entry": name}});
    if !environment.is_empty() {
        spec["environment"] = environment.into();
    }
    Ok(Wanted { spec, entry: Some(entry.into()), secrets, notes })
}

/// As the client would find it.
fn program(command: &str, environment: &Environment) -> Result<PathBuf, String> {
    let told = || format!("its program `{}` is not found", command.escape_debug());
    if command.starts_with('/') {
        return Ok(PathBuf::from(command));
    }
    if command.contains('/') {
        return Err("its program is named by a part of its path".to_owned());
    }
    let folders = environment.get("PATH").unwrap_or_default().split(':').chain(USUAL_FOLDERS);
    folders
        .filter(|folder| folder.starts_with('/'))
        .map(|folder| Path::new(folder).join(command))
        .find(|path| path.is_file())
        .ok_or_else(told)
}

fn address(
    name: &str,
    url: &str,
    is_sse: bool,
    headers: Vec<(String, Filled)>,
    notes: Vec<String>,
) -> Result<Wanted, String> {
    let parsed = reqwest::Url::parse(url).map_err(|_| "its `url` is no address")?;
    if !is_plain_address(&parsed) {
        return Err("its address has what looks like a secret, and addresses are shown; add it by hand".to_owned());
    }
    let host = parsed.host_str().map(str::to_owned);
    let mut all = Vec::new();
    let mut secrets = Vec::new();
    for (header, Filled { text, missing }) in headers {
        if missing.is_empty() && is_plain(&header, &text) {
            all.push(json!({"name": header, "value": text}));
            continue;
        }
        // `Bearer` is no secret.
        let (scheme, value) = match text.split_once(' ') {
            Some((scheme, value)) if scheme.chars().all(|c| c.is_ascii_alphabetic()) => (Some(scheme), value.trim()),
            _ => (None, text.as_str()),
        };
        let of = if header.eq_ignore_ascii_case("authorization") { "TOKEN" } else { header.as_str() };
        let secret = secret_name(name, of);
        all.push(match scheme {
            Some(scheme) => json!({"name": header, "scheme": scheme, "secret": secret}),
            None => json!({"name": header, "secret": secret}),
        });
        let value = missing.is_empty().then(|| Zeroizing::new(value.to_owned()));
        secrets.push(Kept { name: secret, value, host: host.clone() });
    }
    let kind = if is_sse { "sse" } else { "http" };
    let mut spec = json!({"version": 1, "name": name, "transport": {"kind": kind, "url": url}});
    if !all.is_empty() {
        spec["headers"] = all.into();
    }
    Ok(Wanted { spec, entry: None, secrets, notes })
}

/// `GITHUB_TOKEN` for the variable `TOKEN` of `github`, and for its `GITHUB_TOKEN`.
fn secret_name(server: &str, of: &str) -> String {
    let word = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric(), "_").to_ascii_uppercase();
    let (server, of) = (word(server), word(of));
    if of.starts_with(&format!("{server}_")) { of } else { format!("{server}_{of}") }
}

/// Parts of names whose values are nobody else's business.
const SECRET_WORDS: [&str; 15] = [
    "token",
    "secret",
    "passw",
    "passphrase",
    "pwd",
    "key",
    "credential",
    "auth",
    "cookie",
    "session",
    "dsn",
    "bearer",
    "private",
    "connection",
    "signature",
];
/// Words that say it only where they stand alone.
const SECRET_PARTS: [&str; 6] = ["pat", "pass", "pin", "otp", "jwt", "sas"];
/// How keys of well-known services begin.
const KEY_BEGINNINGS: [&str; 20] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xox",
    "akia",
    "eyj",
    "tg_",
    "hf_",
    "npm_",
    "pypi-",
    "ya29.",
    "aiza",
    "lin_api_",
    "ntn_",
];

/// Whether everybody may see the value of a member, a variable, a header, or of what follows a flag.
pub fn is_plain(member: &str, value: &str) -> bool {
    if value.is_empty() || matches!(value, "true" | "false") {
        return true;
    }
    let member = member.to_ascii_lowercase();
    if value.starts_with("--")
        && let Some((flag, value)) = value.split_once('=')
    {
        return is_plain(flag, value);
    }
    // A flag is the name of what follows, whatever stands before it.
    let is_flag = value.starts_with('-') && value.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    if SECRET_WORDS.iter().any(|word| member.contains(word))
        || member.split(['_', '-', '.']).any(|part| SECRET_PARTS.contains(&part))
    {
        return is_flag;
    }
    if value.chars().count() > PLAIN_CHARS_MAX {
        return false;
    }
    if let Ok(url) = reqwest::Url::parse(value)
        && url.has_host()
    {
        return is_plain_address(&url);
    }
    value.split_whitespace().all(is_word)
}

fn are_plain(words: &[String]) -> bool {
    let before = std::iter::once("").chain(words.iter().map(String::as_str));
    before.zip(words).all(|(before, word)| is_plain(before, word))
}

fn is_word(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let usual = |c: char| c.is_alphanumeric() || "@/._:+-~,=%".contains(c);
    if !text.chars().all(usual) || KEY_BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning)) {
        return false;
    }
    !text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))).any(is_random)
}

/// What nobody writes by hand: a UUID, or a long text whose letters and digits follow no words.
fn is_random(token: &str) -> bool {
    let runs = || token.split(['-', '_']);
    if uuid::Uuid::try_parse(token).is_ok() {
        return true;
    }
    let is_long = |run: &str| {
        let has = |what: fn(&u8) -> bool| run.bytes().any(|byte| what(&byte));
        run.len() >= LETTERS_MIN || (run.len() >= RANDOM_CHARS_MIN && has(u8::is_ascii_digit))
    };
    if runs().any(is_long) {
        return true;
    }
    let kinds: Vec<u8> = runs().flat_map(str::bytes).map(kind_of).collect();
    let turns = kinds.windows(2).filter(|pair| pair.first() != pair.last()).count();
    kinds.len() >= RANDOM_CHARS_MIN && turns >= TURNS_MIN
}

fn kind_of(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => b'0',
        b'A'..=b'Z' => b'A',
        _ => b'a',
    }
}

fn is_plain_address(url: &reqwest::Url) -> bool {
    url.username().is_empty()
        && url.password().is_none()
        && url.query_pairs().all(|(name, value)| is_plain(&name, &value))
        && url.path().split('/').all(is_word)
}

/// An entry as it may be shown.
pub fn shown_entry(entry: &Value) -> Value {
    let mut shown = entry.clone();
    let mut before = String::new();
    for word in shown["command"].as_array_mut().into_iter().flatten() {
        let text = word.as_str().unwrap_or_default().to_owned();
        if !is_plain(&before, &text) {
            *word = super::document::HIDDEN.into();
        }
        before = text;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(kind: Kind, environment: &Environment) -> Around<'_> {
        Around { kind, environment, tenant: None }
    }

    fn environment() -> Environment {
        Environment::of(&[("HOME", "/u/ada"), ("PATH", "/usr/bin"), ("ISSUES", "s3cret")])
    }

    #[track_caller]
    fn spec(kind: Kind, server: Value) -> Value {
        let environment = environment();
        let wanted = read("issues", &server, &around(kind, &environment)).unwrap();
        let secrets: Vec<Value> = wanted
            .secrets
            .iter()
            .map(|kept| json!([kept.name, kept.value.as_ref().map(|value| value.as_str()), kept.host]))
            .collect();
        json!({"spec": wanted.spec, "entry": wanted.entry, "secrets": secrets})
    }

    #[test]
    fn secrets_leave_the_file_and_plain_words_stay() {
        let read = spec(
            Kind::ClaudeDesktop,
            json!({"command": "/opt/issues", "args": ["--verbose"], "env": {"API_KEY": "hunter2", "LEVEL": "debug", "PORT": 80}}),
        );
        assert_eq!(read["spec"]["environment"], json!([{"name": "API_KEY", "secret": "ISSUES_API_KEY"}]));
        assert_eq!(read["secrets"], json!([["ISSUES_API_KEY", "hunter2", null]]));
        let set =
            json!({"HOME": "/u/ada", "PATH": "/opt:/usr/local/bin:/usr/bin:/bin", "LEVEL": "debug", "PORT": "80"});
        assert_eq!(read["entry"]["set"], set);
        assert_eq!(read["entry"]["command"], json!(["/opt/issues", "--verbose"]));

        let read = spec(
            Kind::Cursor,
            json!({"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${env:ISSUES}", "X-Team": "blue"}}),
        );
        let headers = json!([
            {"name": "Authorization", "scheme": "Bearer", "secret": "ISSUES_TOKEN"}, {"name": "X-Team", "value": "blue"},
        ]);
        assert_eq!(read["spec"]["headers"], headers);
        assert_eq!(read["secrets"], json!([["ISSUES_TOKEN", "s3cret", "a.example"]]));
    }

    #[test]
    fn what_only_a_person_knows_is_a_secret_without_a_value() {
        let server = json!({"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${input:key}"}});
        assert_eq!(spec(Kind::Vscode, server)["secrets"], json!([["ISSUES_TOKEN", null, "a.example"]]));
        let server =
            json!({"type": "http", "url": "https://${HOST:-a.example}/mcp", "headers": {"X-Api-Key": "${NOWHERE}"}});
        let read = spec(Kind::ClaudeCode, server);
        assert_eq!(read["spec"]["transport"]["url"], "https://a.example/mcp");
        assert_eq!(read["secrets"], json!([["ISSUES_X_API_KEY", null, "a.example"]]));
    }

    #[test]
    fn a_bridge_to_an_address_is_that_address() {
        let server = json!({
            "command": "npx",
            "args": ["-y", "mcp-remote@latest", "https://a.example/sse", "--transport", "sse-only", "--header", "Authorization:${AUTH}"],
            "env": {"AUTH": "Bearer hunter2"},
        });
        let read = spec(Kind::ClaudeDesktop, server);
        assert_eq!(read["spec"]["transport"], json!({"kind": "sse", "url": "https://a.example/sse"}));
        assert_eq!(read["secrets"], json!([["ISSUES_TOKEN", "hunter2", "a.example"]]));
        assert_eq!(read["entry"], Value::Null);
    }

    #[test]
    fn what_cannot_be_the_same_here_stays_where_it_is() {
        let environment = environment();
        let check = |kind: Kind, server: Value, why: &str| {
            let left = read("a", &server, &around(kind, &environment)).err().unwrap_or_default();
            assert!(left.contains(why), "{server}: {left}");
        };
        check(Kind::Vscode, json!({"command": "/bin/a", "args": ["${workspaceFolder}"]}), "only its client");
        check(Kind::Vscode, json!({"command": "/bin/a", "args": ["${input:x}"]}), "not set here");
        check(Kind::Vscode, json!({"command": "/bin/a", "envFile": ".env"}), "envFile");
        check(Kind::Cursor, json!({"command": "/bin/a", "disabled": true}), "switched off");
        check(Kind::Cursor, json!({"command": "./a"}), "part of its path");
        check(Kind::Cursor, json!({"command": "no-program-of-that-name"}), "not found");
        check(Kind::Cursor, json!({"command": "/bin/a", "cwd": "x"}), "whole path");
        check(Kind::Cursor, json!({"type": "ws", "url": "wss://a"}), "`ws`");
        check(Kind::Cursor, json!({"url": "https://a.example/mcp?api_key=hunter2"}), "secret");
        check(Kind::Cursor, json!({"url": "https://u:p@a.example/mcp"}), "secret");
        check(Kind::Cursor, json!({"url": "https://a.example/s/0123456789abcdef0123456789abcdef/mcp"}), "secret");
        check(Kind::Cursor, json!({}), "neither");
        check(Kind::Cursor, json!([]), "no object");
        check(Kind::Cursor, json!({"command": "/bin/a", "args": "x"}), "no list");
    }

    #[test]
    fn names_are_made_of_what_people_wrote() {
        for (key, name) in [("GitHub", "github"), ("My Files (2)", "my-files-2"), ("7zip", "zip"), ("a__b", "a-b")] {
            assert_eq!(name_of(key).as_deref(), Some(name));
        }
        assert_eq!(name_of("文"), None);
        assert_eq!(name_of(&"x".repeat(90)).map(|name| name.len()), Some(NAME_CHARS_MAX));
    }

    #[test]
    fn plain_is_only_what_is_plainly_harmless() {
        let plain = [
            ("LEVEL", "debug"),
            ("args", "-y"),
            ("args", "@scope/server-files@1.2.3"),
            ("DIR", "/u/ada/My Files"),
            ("URL", "https://a.example/v1?page=2"),
            ("--root", "/srv"),
            ("TOKEN", ""),
            ("--api-key", "--verbose"),
            ("DATE", "2026-11-16T10:00:00Z"),
            ("args", "--port=80"),
            ("args", "@modelcontextprotocol/server-filesystem@2025.11.18"),
            ("MODEL", "claude-3-5-sonnet-20241022-v2"),
            ("MODEL", "gpt-4o-mini-2024-07-18"),
            ("COMPASS", "north"),
        ];
        for (member, value) in plain {
            assert!(is_plain(member, value), "{member}={value}");
        }
        let secret = [
            ("API_KEY", "x"),
            ("TOKEN", "1234"),
            ("--password", "hunter2"),
            ("args", "--token=x"),
            ("X", "ghp_abc"),
            ("X", "0123456789abcdef0123"),
            ("X", "https://u:p@a.example"),
            ("X", "{\"a\": 1}"),
            ("GH_PAT", "x"),
            ("X", "postgres://u:p@db/x"),
            ("X", "a;b"),
            ("PROJECT", "3f2504e0-4f89-41d3-9a0c-0305e82c3301"),
            ("args", "3F2504E0-4F89-41D3-9A0C-0305E82C3301"),
            ("X", "aB3-dE6_fG9hJ2kL4mN5pQ"),
            ("X", "qWzRtYpLkJhGfDsAxCvB"),
            ("X", "12345678901234567890"),
            ("X", "abcdefghijklmnopqrstuvwxyzabcdefgh"),
            ("DB_PASS", "x"),
            ("LOGIN_PIN", "12"),
        ];
        for (member, value) in secret {
            assert!(!is_plain(member, value), "{member}={value}");
        }
    }

    #[test]
    fn the_gate_is_known_by_its_program_its_address_and_its_keys() {
        let ours = "http://127.0.0.1:8787/mcp";
        for server in [
            json!({"command": "/usr/bin/toolgate", "args": ["--data", "x", "mcp"]}),
            json!({"url": ours}),
            json!({"url": "http://127.0.0.1:8787/mcp/desk"}),
            json!({"url": "https://elsewhere.example/mcp", "headers": {"Authorization": "Bearer tg_x"}}),
        ] {
            assert!(is_toolgate(&server, Some(ours)), "{server}");
        }
        for server in [json!({"command": "toolgate"}), json!({"url": "http://127.0.0.1:8787/mcpx"}), json!({})] {
            assert!(!is_toolgate(&server, Some(ours)), "{server}");
        }
    }
}
