//! From what the operator said of a server to a place that a link can be opened at.
//!
//! Invariant: the program, its arguments and its folder are the operator's entry's; a server's own words choose none.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use toolgate_contracts::entries::UpstreamEntry;
use toolgate_contracts::upstream::{Transport, Upstream as Spec, UpstreamHeader};
use toolgate_contracts::{Digest, Entries, Fault, FaultKind, ResolvedSecret, Slug, json as strict};
use toolgate_egress::Url;
use toolgate_engine::secrets::Secrets;

use super::keeper::Holder;
use super::questions::declared_to_all;
use crate::upstream::{Era, Given, Key, Place, Upstream};
use crate::wire::Revision;

/// Where a program is looked for whose entry gives a name, and what it finds as `PATH` where the entry sets none.
const USUAL_FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// What is the same for all calls of a server as it is configured: worked out once, not for each of them.
pub struct Located {
    pub spec: Arc<Spec>,
    /// Of a server that has one.
    pub url: Option<Url>,
    pub place: Digest,
    /// Of a server at an address that is given no secret.
    plain: Option<Arc<Upstream>>,
}

impl Located {
    pub fn of(entries: &Entries, tenant: &Slug, spec: &Spec) -> Result<Self, Fault> {
        let place = place(entries, tenant, spec)?;
        let url = match &spec.transport {
            Transport::Http { url } | Transport::Sse { url } => Some(address(url)?),
            Transport::Stdio { .. } => None,
        };
        let mut located = Self { spec: Arc::new(spec.clone()), url, place, plain: None };
        if located.url.is_some() && spec.headers.iter().all(|header| header.secret.is_none()) {
            located.plain = Some(Arc::new(located.upstream(entries, tenant, &Secrets::default())?));
        }
        Ok(located)
    }

    fn upstream(&self, entries: &Entries, tenant: &Slug, secrets: &Secrets) -> Result<Upstream, Fault> {
        let spec = &self.spec;
        let place = match (&spec.transport, &self.url) {
            (Transport::Stdio { entry: name }, _) => {
                let UpstreamEntry { command, set, folder, .. } = entry(entries, tenant, name)?;
                let program = found(command).map_err(|why| unusable(name, &why))?;
                let mut words = vec![program.display().to_string()];
                words.extend(command.iter().skip(1).cloned());
                let path = (!set.contains_key("PATH")).then(|| Given::new("PATH", USUAL_FOLDERS.join(":")));
                let set = set.iter().map(|(name, value)| Given::new(name, value));
                let mut environment: Vec<Given> = path.into_iter().chain(set).collect();
                for variable in &spec.environment {
                    environment.retain(|given| given.name != variable.name);
                    environment.push(Given::new(&variable.name, value_of(secrets, &variable.secret)?));
                }
                Place::Stdio { command: words, environment, folder: folder.clone() }
            }
            (Transport::Http { .. }, Some(url)) => {
                Place::Http { url: url.clone(), headers: headers(spec, secrets, url)? }
            }
            (Transport::Sse { .. }, Some(url)) => {
                Place::Sse { url: url.clone(), headers: headers(spec, secrets, url)? }
            }
            (Transport::Http { .. } | Transport::Sse { .. }, None) => return Err(no_address()),
        };
        let given = |name| Some(Given::new(name, secrets.get(name)?.expose_text()?));
        let secrets = spec.secrets().into_iter().filter_map(given).collect();
        Ok(Upstream { era: era(spec)?, declared: declared_to_all(spec.asks), secrets, ..Upstream::new(place) })
    }
}

/// A server that can be spoken with.
pub struct Prepared {
    pub spec: Arc<Spec>,
    pub key: Key,
    pub upstream: Arc<Upstream>,
    pub place: Digest,
    /// Whose tokens it is spoken to with, where it wants some.
    pub holder: Option<Arc<Holder>>,
}

/// Whose credentials a link has: links with others are others.
pub fn credentials(found: &[ResolvedSecret]) -> Option<String> {
    let one =
        |secret: &ResolvedSecret| format!("{}:{}:{}:{}", secret.scope, secret.scope_id, secret.name, secret.version);
    let mut all: Vec<String> = found.iter().map(one).collect();
    all.sort();
    (!all.is_empty()).then(|| all.join(" "))
}

/// The address of a server that has one.
pub fn url_of(spec: &Spec) -> Result<Url, Fault> {
    match &spec.transport {
        Transport::Http { url } | Transport::Sse { url } => address(url),
        Transport::Stdio { .. } => Err(no_address()),
    }
}

fn no_address() -> Fault {
    Fault::conflict("a process has no address", "give it what it needs in `environment`")
}

/// Where a server is, without what is secret.
pub fn place(entries: &Entries, tenant: &Slug, spec: &Spec) -> Result<Digest, Fault> {
    era(spec)?;
    let value = match &spec.transport {
        Transport::Stdio { entry: name } => {
            let UpstreamEntry { about: _, command, set, folder, tenants: _ } = entry(entries, tenant, name)?;
            json!({"kind": "stdio", "entry": name, "command": command, "set": set, "folder": folder,
                "environment": spec.environment})
        }
        Transport::Http { url } => json!({"kind": "http", "url": address(url)?.as_str(), "headers": spec.headers}),
        Transport::Sse { url } => json!({"kind": "sse", "url": address(url)?.as_str(), "headers": spec.headers}),
    };
    let mut value = value;
    if let Some(auth) = &spec.auth {
        value["auth"] = json!(auth);
    }
    Ok(strict::digest(&value))
}

pub fn prepare(
    entries: &Entries,
    tenant: &Slug,
    located: &Located,
    secrets: &Secrets,
    key: Key,
) -> Result<Prepared, Fault> {
    let upstream = match &located.plain {
        Some(plain) => Arc::clone(plain),
        None => Arc::new(located.upstream(entries, tenant, secrets)?),
    };
    Ok(Prepared { spec: Arc::clone(&located.spec), key, upstream, place: located.place, holder: None })
}

fn headers(spec: &Spec, secrets: &Secrets, url: &Url) -> Result<Vec<Given>, Fault> {
    let host = url.host_str().unwrap_or_default();
    let given = |header: &UpstreamHeader| {
        let UpstreamHeader { name, secret, scheme, value } = header;
        let Some(secret) = secret else {
            return Ok(Given::new(name, value.clone().unwrap_or_default()));
        };
        if secrets.get(secret).is_some_and(|secret| !secret.may_go_to(host)) {
            let told = format!("the secret `{secret}` may not go to `{host}`");
            let remedy = format!("its owner allows it with `toolgate secret allow {secret} --host {host}`");
            return Err(Fault::new(FaultKind::Forbidden, told, remedy));
        }
        let value = value_of(secrets, secret)?;
        Ok(Given::new(name, scheme.as_ref().map_or_else(|| value.clone(), |scheme| format!("{scheme} {value}"))))
    };
    spec.headers.iter().map(given).collect()
}

fn value_of(secrets: &Secrets, name: &str) -> Result<String, Fault> {
    let told = || format!("the secret `{name}` is missing, or is no text");
    let value = secrets.get(name).and_then(|secret| secret.expose_text());
    value
        .map(str::to_owned)
        .ok_or_else(|| Fault::new(FaultKind::Conflict, told(), format!("set it with `toolgate secret set {name}`")))
}

fn era(spec: &Spec) -> Result<Era, Fault> {
    let Some(wanted) = &spec.era else { return Ok(Era::Auto) };
    let known = Revision::ALL.into_iter().find(|revision| revision.as_str() == wanted);
    known.map(Era::Only).ok_or_else(|| {
        let known: Vec<&str> = Revision::ALL.iter().map(|revision| revision.as_str()).collect();
        let told = format!("`{}` is no revision of the protocol", wanted.escape_debug());
        Fault::invalid(told, format!("write one of {}, or leave it out", known.join(", "))).at("/era")
    })
}

fn address(url: &str) -> Result<Url, Fault> {
    let wrong = |why: &str| {
        let remedy = "write it as `https://HOST/PATH`, without a name, a password or a fragment in it";
        Fault::invalid(format!("`url` {why}"), remedy).at("/transport/url")
    };
    let parsed = Url::parse(url).map_err(|_| wrong("is not an address"))?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(wrong("is not an address of the web"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() || parsed.fragment().is_some() {
        return Err(wrong("has a name, a password or a fragment"));
    }
    Ok(parsed)
}

/// An entry of another tenant is one that is not there.
fn entry<'e>(entries: &'e Entries, tenant: &Slug, name: &str) -> Result<&'e UpstreamEntry, Fault> {
    let found = entries.upstreams.get(name).filter(|entry| entry.tenants.include(tenant));
    if found.is_none()
        && let Some(told) = entries.wrong.told("upstreams", Some(name), Some(tenant))
    {
        return Err(
            Fault::new(FaultKind::Unavailable, told, "the operator corrects entries.yaml").at("/transport/entry")
        );
    }
    found.ok_or_else(|| {
        let told = format!("there is no entry `{}` below `upstreams` for this tenant", name.escape_debug());
        let remedy = "the operator adds it to entries.yaml (docs/entries.md) and starts the server again";
        Fault::invalid(told, remedy).at("/transport/entry")
    })
}

fn unusable(entry: &str, why: &str) -> Fault {
    let told = format!("the operator's entry `{entry}` cannot be started: {why}");
    Fault::new(FaultKind::Unavailable, told, "the operator corrects entries.yaml; `toolgate doctor` looks at it")
}

/// What stands in the way of starting it.
pub fn problem(entry: &UpstreamEntry) -> Option<String> {
    let folder = entry.folder.as_deref().filter(|folder| !folder.is_dir());
    let folder = folder.map(|folder| format!("`folder`, `{}`, is no folder", folder.display()));
    found(&entry.command).err().or(folder)
}

fn found(command: &[String]) -> Result<PathBuf, String> {
    let program = command.first().filter(|program| !program.is_empty()).ok_or("`command` is empty")?;
    let can_run = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if program.starts_with('/') {
        let path = PathBuf::from(program);
        return if can_run(&path) { Ok(path) } else { Err(format!("`{program}` is no program")) };
    }
    if program.contains('/') {
        return Err(format!("`{program}` is neither a whole path nor a name"));
    }
    let usual = USUAL_FOLDERS.iter().map(|folder| Path::new(folder).join(program)).find(|path| can_run(path));
    usual.ok_or_else(|| format!("`{program}` is in none of {}", USUAL_FOLDERS.join(", ")))
}
