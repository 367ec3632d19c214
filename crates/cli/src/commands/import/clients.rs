//! `toolgate import claude-desktop|claude-code|cursor|vscode FILE`: the servers of a client's file go behind the gate, and
//! the client is pointed here.
//!
//! Invariants: only what can be used through the gate leaves the file; no value that may be secret is printed; a process
//! is the operator's to allow, so without their file nothing is started that was not before.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use toolgate_contracts::{Fault, KeyId, Rng};

use super::Kind;
use super::beside::Place;
use super::document::{Document, Found, Section};
use super::entries;
use super::servers::{self, Around, Kept, Wanted};
use super::shown::{Shown, difference, snippet};
use crate::args::ImportClient;
use crate::client::Client;
use crate::commands::counted_of;
use crate::connect::{self, Session};
use crate::failure::{Done, Exit, Failure};
use crate::output::{Output, items_of, note, text_of};

const UPSTREAMS_MAX: u32 = 10_000;
const SECRETS_MAX: u32 = 100_000;
/// What the client calls us.
pub const OWN_NAME: &str = "toolgate";

/// One server of the file, and what becomes of it.
pub struct Row {
    pub found: Found,
    pub name: String,
    pub wanted: Option<Wanted>,
    pub outcome: Outcome,
    /// Why it stays, in words.
    pub why: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    New,
    /// It is behind the gate and leaves the file.
    Already,
    /// It is this gate.
    Itself,
    Left,
    /// Not asked for.
    Other,
}

impl Outcome {
    pub const fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Already => "already",
            Self::Itself => "itself",
            Self::Left => "left",
            Self::Other => "not asked for",
        }
    }

    const fn leaves(self) -> bool {
        matches!(self, Self::New | Self::Already)
    }
}

impl Row {
    fn leave(&mut self, why: impl Into<String>) {
        self.outcome = Outcome::Left;
        self.why = why.into();
    }
}

/// Whether keys stand in the file, which are perhaps to be revoked.
pub fn has_keys(wanted: &ImportClient) -> bool {
    Place::open(&wanted.file).is_ok_and(|place| !keys_in(&place.bytes).is_empty())
}

/// A file as it was before it was imported.
struct Undone {
    file: String,
    backup: String,
    /// Those that stood in it only because of the import.
    keys: Vec<KeyId>,
}

/// Puts back what was there; needs no server.
pub fn undo(wanted: &ImportClient, output: &Output) -> Done {
    put_back(wanted)?.say(&[], output)
}

/// The same, and revokes the keys that were made for the file. Where it changed since, whose keys they are is not known.
pub async fn undo_and_revoke(wanted: &ImportClient, session: &Session) -> Done {
    let undone = put_back(wanted)?;
    let mut revoked = Vec::new();
    if !wanted.force
        && !undone.keys.is_empty()
        && let Ok(client) = session.connect().await
    {
        for key in &undone.keys {
            if client.delete(&["keys", &key.to_string()]).await.is_ok() {
                revoked.push(*key);
            }
        }
        client.close().await;
    }
    undone.say(&revoked, &session.output)
}

fn put_back(wanted: &ImportClient) -> Result<Undone, Failure> {
    let place = Place::open(&wanted.file)?;
    let (backup, before) = place.undo(wanted.force)?;
    let kept = keys_in(&before);
    let keys = keys_in(&place.bytes).into_iter().filter(|key| !kept.contains(key)).collect();
    Ok(Undone { file: place.path().display().to_string(), backup: backup.display().to_string(), keys })
}

impl Undone {
    fn say(&self, revoked: &[KeyId], output: &Output) -> Done {
        let Self { file, backup, keys } = self;
        output.say(
            &json!({"file": file, "restored": true, "backup": backup, "keys": keys, "revoked": revoked}),
            &format!("{file} is as it was before it was imported."),
        )?;
        for key in keys {
            note(&if revoked.contains(key) {
                format!("Revoked the key {key}, which stood in it.")
            } else {
                format!("The key that stood in it is still one: `toolgate key revoke {key}`.")
            });
        }
        note(
            "The servers and their secrets stay behind the gate: `toolgate upstream list`, `toolgate upstream remove NAME`.",
        );
        Ok(Exit::Done)
    }
}

pub async fn run(kind: Kind, wanted: &ImportClient, session: &Session) -> Done {
    if wanted.project.is_some() && kind != Kind::ClaudeCode {
        return Err(Failure::usage("--project is of claude-code's file", "leave it out"));
    }
    let renames = renames(&wanted.renames)?;
    let place = Place::open(&wanted.file)?;
    let file = place.path().display().to_string();
    let text = std::str::from_utf8(&place.bytes)
        .map_err(|_| Failure::usage(format!("{file} is not UTF-8 text"), "name the client's own file"))?;
    let unusable =
        |why: String| Failure::usage(format!("{file} {why}"), "correct it, then try again; nothing was written");
    let document = Document::read(text).map_err(unusable)?;
    let sections = document.sections(kind, wanted.project.as_deref()).map_err(unusable)?;
    let servers = document.servers(&sections).map_err(unusable)?;

    let client = Some(session.connect().await?);
    let mut work = Work { kind, wanted, session, client, address: None, existing: BTreeMap::new() };
    let done = work.begin(servers, &renames, &place, &document, &sections).await;
    work.close().await;
    done
}

/// The keys in a file, by their ids: `tg_`, 22 characters of the id, `_`, and the secret.
fn keys_in(bytes: &[u8]) -> Vec<KeyId> {
    let text = String::from_utf8_lossy(bytes);
    let id = |rest: &str| {
        let (id, secret) = rest.split_at_checked(22)?;
        secret.starts_with('_').then_some(())?;
        let bytes = data_encoding::BASE64URL_NOPAD.decode(id.as_bytes()).ok()?;
        Some(KeyId::from_uuid(uuid::Uuid::from_slice(&bytes).ok()?))
    };
    text.split("tg_").skip(1).filter_map(id).collect()
}

fn renames(words: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut renames = BTreeMap::new();
    for word in words {
        let (key, name) = word.split_once('=').ok_or_else(|| {
            Failure::usage(format!("`{}` has no `=`", word.escape_debug()), "write it as --rename \"My Files=files\"")
        })?;
        renames.insert(key.to_owned(), name.to_owned());
    }
    Ok(renames)
}

struct Work<'a> {
    kind: Kind,
    wanted: &'a ImportClient,
    session: &'a Session,
    /// Absent only while a folder is opened again.
    client: Option<Client>,
    /// Where the server is reached, where there is one.
    address: Option<String>,
    existing: BTreeMap<String, Value>,
}

impl Work<'_> {
    fn client(&self) -> Result<&Client, Failure> {
        self.client.as_ref().ok_or_else(|| Fault::internal("the folder is not open").into())
    }

    async fn close(&mut self) {
        if let Some(client) = self.client.take() {
            client.close().await;
        }
    }

    async fn begin(
        &mut self,
        servers: Vec<Found>,
        renames: &BTreeMap<String, String>,
        place: &Place,
        document: &Document,
        sections: &[Section],
    ) -> Done {
        self.address = self.address().await;
        let listed = self.client()?.list(&["upstreams"], &[], UPSTREAMS_MAX).await?;
        self.existing = items_of(&listed).iter().map(|one| (text_of(one, "name"), one.clone())).collect();
        let mut rows = self.rows(servers, renames);
        let mut entries = self.entries(&mut rows)?;
        self.secrets(&mut rows).await?;
        let dry = self.wanted.dry_run;
        if !dry {
            self.add_entries(&mut rows, &mut entries).await?;
            for row in &mut rows {
                if row.outcome == Outcome::New {
                    self.put(row).await;
                }
            }
            // What was let in has what it needs.
            entries.retain(|name, _| rows.iter().any(|row| row.name == *name && row.outcome == Outcome::Left));
        }
        let pointer = self.pointer(&rows, sections);
        let key = if pointer.is_empty() { None } else { self.key(dry).await? };
        let own = self.own(key.as_deref())?;
        let without: Vec<(Section, String)> = rows
            .iter()
            .filter(|row| row.outcome.leaves())
            .map(|row| (row.found.section.clone(), row.found.key.clone()))
            .collect();
        let wrong =
            |why: String| Failure::failed(format!("{} {why}", place.path().display()), "nothing was written to it");
        let edited = document.edited(&without, &pointer, &own).map_err(wrong)?;
        let backup = (!dry && edited.text() != document.text())
            .then(|| place.write(edited.text().as_bytes(), key.is_some()))
            .transpose()?;

        let new = pointer.iter().map(|(section, _)| section).filter(|section| !sections.contains(section));
        let sections: Vec<Section> = sections.iter().chain(new).cloned().collect();
        let shown = Shown {
            kind: self.kind,
            file: place.path().display().to_string(),
            dry,
            rows: &rows,
            entries: &entries,
            difference: difference(document, &edited, &sections),
            snippet: snippet(self.kind, &self.own(key.as_deref().map(|_| "tg_…"))?),
            backup: backup.as_deref(),
        };
        shown.show(&self.session.output)?;
        let left = rows.iter().any(|row| row.outcome == Outcome::Left);
        Ok(if left && !dry { Exit::Failed } else { Exit::Done })
    }

    /// As clients know it: what the operator calls it, or where it was reached.
    async fn address(&self) -> Option<String> {
        let Some(Client::Remote(remote)) = &self.client else { return None };
        let config = self.client().ok()?.get(&["config"], &[]).await.unwrap_or_default();
        let public = config["public_url"]["value"].as_str().filter(|url| !url.is_empty());
        Some(format!("{}/mcp", public.unwrap_or(remote.url()).trim_end_matches('/')))
    }

    fn rows(&self, servers: Vec<Found>, renames: &BTreeMap<String, String>) -> Vec<Row> {
        let around =
            Around { kind: self.kind, environment: &self.session.environment, tenant: self.session.tenant.as_deref() };
        let mut taken: BTreeMap<String, Value> = BTreeMap::new();
        let mut rows = Vec::new();
        for found in servers {
            let name = renames.get(&found.key).cloned().or_else(|| servers::name_of(&found.key)).unwrap_or_default();
            let mut row = Row { found, name, wanted: None, outcome: Outcome::New, why: String::new() };
            let rename = |what: &str| format!("{what}; choose a name with --rename {}=NAME", shell(&row.found.key));
            if servers::is_toolgate(&row.found.server, self.address.as_deref()) {
                row.outcome = Outcome::Itself;
            } else if !(self.wanted.only.is_empty() || self.wanted.only.contains(&row.found.key)) {
                row.outcome = Outcome::Other;
            } else if row.name.is_empty() {
                let why = rename("its name has no letters that a name here may have");
                row.leave(why);
            } else {
                match servers::read(&row.name, &row.found.server, &around) {
                    Err(why) => row.leave(why),
                    // By way of a bridge.
                    Ok(read) if servers::is_toolgate(&read.spec["transport"], self.address.as_deref()) => {
                        row.outcome = Outcome::Itself;
                    }
                    Ok(read) => {
                        let differs = |other: &Value, member: &str| other[member] != read.spec[member];
                        match (self.existing.get(&row.name), taken.get(&row.name)) {
                            (Some(other), _) if differs(other, "transport") => {
                                let why = rename(&format!("another server here is called {}", row.name));
                                row.leave(why);
                            }
                            (Some(other), _) if differs(other, "headers") || differs(other, "environment") => {
                                let why = rename(&format!("{} here is given other headers or variables", row.name));
                                row.leave(why);
                            }
                            // One server in several projects is one server.
                            (None, Some(other)) if *other != row.found.server => {
                                let why = rename(&format!("another server of the file would be called {}", row.name));
                                row.leave(why);
                            }
                            (Some(other), _) => Self::standing(&mut row, other),
                            (None, _) => {}
                        }
                        taken.entry(row.name.clone()).or_insert_with(|| row.found.server.clone());
                        row.wanted = Some(read);
                    }
                }
            }
            rows.push(row);
        }
        rows
    }

    /// What is behind the gate leaves the file only if it can be used.
    fn standing(row: &mut Row, upstream: &Value) {
        let name = &row.name;
        if upstream["moved"] == json!(true) {
            row.leave(format!("it waits to be accepted: `toolgate upstream show {name}`"));
        } else if let Some(problem) = upstream["problem"].as_str() {
            row.leave(format!("it is behind the gate and cannot be read yet: {problem}"));
        } else {
            row.outcome = Outcome::Already;
        }
    }

    /// What the operator has to allow, by name. Where their file can be read, only what is not in it.
    fn entries(&self, rows: &mut [Row]) -> Result<Map<String, Value>, Failure> {
        let (present, can_read) = match self.entries_file()? {
            Some(file) => (entries::read(&file)?.1, true),
            None => (Value::Null, false),
        };
        let mut needed = Map::new();
        for row in rows.iter_mut().filter(|row| row.outcome.leaves()) {
            let Some(wanted) = &mut row.wanted else { continue };
            let Some(entry) = wanted.entry.clone() else { continue };
            match &present["upstreams"][&row.name] {
                Value::Null if row.outcome == Outcome::Already => {
                    wanted.notes.push(format!("whether it starts as {} does is the operator's to know", row.name));
                }
                Value::Null => {
                    if can_read && !self.wanted.add_entries {
                        row.leave("the operator has to allow its process: add the entry below, or run this with --add-entries");
                    }
                    needed.insert(row.name.clone(), entry);
                }
                there => {
                    if let Some(member) = differing(there, &entry) {
                        let why = format!(
                            "entries.yaml has another `{}`, with another `{member}`; choose a name with --rename",
                            row.name
                        );
                        row.leave(why);
                    }
                }
            }
        }
        Ok(needed)
    }

    /// The operator's file, where this machine has it.
    fn entries_file(&self) -> Result<Option<PathBuf>, Failure> {
        let connect::Place::Folder(data) = &self.session.place else {
            if self.wanted.add_entries {
                self.session.folder("--add-entries")?;
            }
            return Ok(None);
        };
        let config = self.session.config(data, &[])?;
        Ok(Some(match config.get("entries_file") {
            "" => data.join("entries.yaml"),
            named => PathBuf::from(named),
        }))
    }

    /// Values go to the vault if somebody says so. Where that is not said, their servers stay.
    async fn secrets(&self, rows: &mut [Row]) -> Result<(), Failure> {
        let is_new = |row: &&mut Row| row.outcome == Outcome::New;
        let kept = |row: &Row| row.wanted.as_ref().map_or(0, |wanted| wanted.secrets.len());
        let count: usize = rows.iter_mut().filter(is_new).map(|row| kept(row)).sum();
        if count == 0 {
            return Ok(());
        }
        let listed = self.client()?.list(&["secrets"], &[], SECRETS_MAX).await?;
        let of_org = items_of(&listed).iter().filter(|secret| secret["scope"] == json!("org"));
        let there: Vec<String> = of_org.map(|secret| text_of(secret, "name")).collect();
        let may = self.wanted.dry_run
            || self.wanted.take_secrets
            || ask(&format!("Keep {} in the vault?", counted_of(count, "secret")));
        for row in rows.iter_mut().filter(is_new) {
            let secrets = row.wanted.as_ref().map_or(&[][..], |wanted| &wanted.secrets);
            let present = secrets.iter().find(|kept| kept.value.is_some() && there.contains(&kept.name));
            if !secrets.is_empty() && !may {
                row.leave("it has secrets; add --take-secrets to keep them in the vault");
            } else if let Some(kept) = present.filter(|_| !self.wanted.replace_secrets) {
                let why = format!("there is a secret {} already; add --replace-secrets, or use --rename", kept.name);
                row.leave(why);
            }
        }
        Ok(())
    }

    async fn add_entries(&mut self, rows: &mut [Row], all: &mut Map<String, Value>) -> Result<(), Failure> {
        let chosen: Vec<String> =
            rows.iter().filter(|row| row.outcome == Outcome::New).map(|row| row.name.clone()).collect();
        let needed: Map<String, Value> = all
            .iter()
            .filter(|(name, _)| chosen.contains(name))
            .map(|(name, entry)| (name.clone(), entry.clone()))
            .collect();
        if !self.wanted.add_entries || needed.is_empty() {
            return Ok(());
        }
        let Some(file) = self.entries_file()? else { return Ok(()) };
        entries::add(&file, &needed)?;
        all.retain(|name, _| !needed.contains_key(name));
        note(&format!(
            "Added {} to {}.",
            counted_of(needed.len(), "entry").replace("entrys", "entries"),
            file.display()
        ));
        if self.client()?.is_local() {
            // Entries are read when a folder is opened.
            self.close().await;
            self.client = Some(self.session.connect().await?);
            return Ok(());
        }
        for row in rows.iter_mut().filter(|row| row.outcome == Outcome::New && needed.contains_key(&row.name)) {
            row.leave("its entry is there now: start the server again, then run this again");
        }
        Ok(())
    }

    /// Secrets first, because a server is read as soon as it is saved.
    async fn put(&self, row: &mut Row) {
        let Some(wanted) = &row.wanted else { return };
        let name = row.name.clone();
        let result = self.put_all(&name, wanted).await;
        match result {
            Ok(None) => {}
            Ok(Some(problem)) => row.leave(format!("it is behind the gate now and cannot be read yet: {problem}")),
            Err(failure) => row.leave(failure.told().to_owned()),
        }
    }

    /// Why it cannot be used yet, if so.
    async fn put_all(&self, name: &str, wanted: &Wanted) -> Result<Option<String>, Failure> {
        for Kept { name: secret, value, host } in &wanted.secrets {
            let Some(value) = value else { continue };
            let hosts: Vec<&String> = host.iter().collect();
            let body = json!({"value": value.as_str(), "tools": [], "hosts": hosts});
            self.client()?.put(&["secrets", "org", secret], body).await?;
        }
        let saved = self.client()?.put(&["upstreams", name], wanted.spec.clone()).await?;
        let mut missing = Vec::new();
        for Kept { name: secret, value, host } in &wanted.secrets {
            if value.is_none() {
                let host = host.as_ref().map(|host| format!(" --host {host}")).unwrap_or_default();
                missing.push(format!(
                    "set it with `toolgate secret set {secret} --scope org`, then `toolgate secret allow {secret} --scope org --code {name}{host}`"
                ));
                continue;
            }
            let hosts: Vec<&String> = host.iter().collect();
            let body = json!({"tools": [], "hosts": hosts, "code": [name], "only": false});
            self.client()?.post(&["secrets", "org", secret, "allow"], body).await?;
        }
        if !missing.is_empty() {
            return Ok(Some(format!("a secret is missing; {}; then run this again", missing.join("; "))));
        }
        if wanted.secrets.is_empty() {
            return Ok(saved["problem"].as_str().map(str::to_owned));
        }
        let read = self.client()?.post(&["upstreams", name, "refresh"], json!({})).await;
        Ok(read.err().map(|failure| failure.told().to_owned()))
    }

    /// Where the client is pointed here: wherever a server left, and where there was none at all.
    fn pointer(&self, rows: &[Row], sections: &[Section]) -> Vec<(Section, String)> {
        let has = |section: &Section, what: &dyn Fn(&Row) -> bool| {
            rows.iter().any(|row| row.found.section == *section && what(row))
        };
        let mut wanted: Vec<Section> =
            sections.iter().filter(|section| has(section, &|row| row.outcome.leaves())).cloned().collect();
        if rows.is_empty() {
            wanted.push(sections.first().cloned().unwrap_or_else(|| Document::first_section(self.kind)));
        }
        wanted.retain(|section| !has(section, &|row| row.outcome == Outcome::Itself));
        let name = |section: &Section| {
            let is_free = |name: &str| !has(section, &|row| row.found.key == name && !row.outcome.leaves());
            if is_free(OWN_NAME) { OWN_NAME.to_owned() } else { format!("{OWN_NAME}-gate") }
        };
        wanted.into_iter().map(|section| (section.clone(), name(&section))).collect()
    }

    async fn key(&self, dry: bool) -> Result<Option<String>, Failure> {
        if !self.wanted.with_key {
            return Ok(None);
        }
        if dry {
            return Ok(Some("tg_…".to_owned()));
        }
        let name = format!("{} {}", self.kind.word(), data_encoding::HEXLOWER.encode(&Rng::System.bytes::<3>()));
        let made = self.client()?.post(&["keys"], json!({"name": name})).await?;
        note(&format!(
            "Made the key {name}; it uses tools and decides nothing. It stands in the client's file, which its owner alone reads."
        ));
        Ok(Some(text_of(&made, "secret")))
    }

    /// How the client finds us: by address where it can and there is one, else by starting `toolgate mcp`.
    fn own(&self, key: Option<&str>) -> Result<Value, Failure> {
        let mut own = Map::new();
        if let Some(address) = self.address.as_deref().filter(|_| self.kind.knows_addresses() && !self.wanted.stdio) {
            if self.kind != Kind::Cursor {
                own.insert("type".to_owned(), "http".into());
            }
            own.insert("url".to_owned(), address.into());
            own.extend(key.map(|key| ("headers".to_owned(), json!({"Authorization": format!("Bearer {key}")}))));
            return Ok(own.into());
        }
        let program = std::env::current_exe().map_or_else(|_| "toolgate".to_owned(), |path| path.display().to_string());
        let mut words: Vec<String> = Vec::new();
        match &self.session.place {
            connect::Place::Folder(folder) if self.session.default_folder().as_ref() == Some(folder) => {}
            connect::Place::Folder(folder) => words.extend(["--data".to_owned(), folder.display().to_string()]),
            connect::Place::Server { url, .. } => {
                if key.is_none() {
                    return Err(Failure::usage(
                        format!(
                            "{} would start `toolgate mcp`, which needs a key for a server elsewhere",
                            self.kind.title()
                        ),
                        "add --with-key, which makes one that uses tools and decides nothing",
                    ));
                }
                words.extend(["--server".to_owned(), url.clone()]);
            }
        }
        words.extend(self.session.tenant.iter().flat_map(|tenant| ["--tenant".to_owned(), tenant.clone()]));
        words.push("mcp".to_owned());
        if self.kind == Kind::Vscode {
            own.insert("type".to_owned(), "stdio".into());
        }
        own.insert("command".to_owned(), program.into());
        own.insert("args".to_owned(), words.into());
        own.extend(key.map(|key| ("env".to_owned(), json!({"TOOLGATE_KEY": key}))));
        Ok(own.into())
    }
}

/// In what two entries would start different servers. Where programs and homes are is this machine's matter.
fn differing(one: &Value, other: &Value) -> Option<&'static str> {
    let set = |entry: &Value| {
        let all = entry["set"].as_object().into_iter().flatten();
        let own = all.filter(|(name, _)| !matches!(name.as_str(), "HOME" | "PATH"));
        own.map(|(name, value)| (name.clone(), value.clone())).collect::<BTreeMap<_, _>>()
    };
    if one["command"] != other["command"] {
        Some("command")
    } else if set(one) != set(other) {
        Some("set")
    } else {
        (one["folder"] != other["folder"]).then_some("folder")
    }
}

pub fn shell(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), std::borrow::Cow::into_owned)
}

/// Asked only where somebody is there to answer.
fn ask(question: &str) -> bool {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return false;
    }
    note(&format!("{question} [y/N]"));
    let mut line = String::new();
    io::stdin().read_line(&mut line).is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}
