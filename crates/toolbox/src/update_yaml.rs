//! Changes of the YAML files that the operator named: `config_manager.update_yaml`, and what was changed:
//! `config_manager.list_changes`.
//!
//! Invariant: a file is changed under a lock, whole or not at all, and not before the change is kept in the database.
//! Invariant: what is outside of an entry's `paths` has the same value after a change as before, whatever was asked.

mod file;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::entries::YamlEntry;
use toolgate_contracts::json::escape;
use toolgate_contracts::{CallId, Digest, ErrorCode, Slug, ToolError};
use toolgate_engine::{Call, DigestKey, Outcome};
use toolgate_store::files::{FileChange, NewFileChange};

use self::file::{Held, Stopped};
use crate::builtin::{Tools, cancelled, database, input, invalid, to_mend};
use crate::yaml::{self, Refused};

const POINTER_BYTES_MAX: usize = 1024;
const LISTED_MAX: u32 = 100;
/// Lines around a change, where the whole file may be changed and so be seen.
const CONTEXT_LINES: usize = 3;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The name of an entry.
    path: String,
    operation: Operation,
    #[serde(default)]
    key: Option<String>,
    #[serde(default, deserialize_with = "given")]
    value: Option<Value>,
    #[serde(default, deserialize_with = "given")]
    patch: Option<Value>,
    /// What `revert` takes back.
    #[serde(default)]
    change: Option<CallId>,
    #[serde(default)]
    expected_digest: Option<Digest>,
    #[serde(default)]
    dry_run: bool,
}

/// Null is a value that can be given.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Operation {
    Set,
    Delete,
    Merge,
    Revert,
}

impl Operation {
    const fn word(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Delete => "delete",
            Self::Merge => "merge",
            Self::Revert => "revert",
        }
    }
}

/// What is done to the text, its parts checked.
enum Edit {
    Set { key: String, value: Value },
    Delete { key: String },
    Merge { key: String, patch: Value },
    Revert { change: FileChange, earlier: String },
}

/// How a file is named by what is in it. Of one that may not be seen whole a bare digest would let anybody who sees a part
/// try the rest at home.
enum Sum {
    Bare,
    Keyed(DigestKey),
}

impl Sum {
    async fn of(tools: &Tools, call: &Call, entry: &YamlEntry) -> Result<Self, ToolError> {
        if entry.paths.is_empty() {
            return Ok(Self::Bare);
        }
        let key = tools.keyed.digests(call.tenant, "yaml_files").await;
        Ok(Self::Keyed(key.map_err(|fault| database(&fault))?))
    }

    fn digest(&self, text: &str) -> Digest {
        match self {
            Self::Bare => Digest::of(text.as_bytes()),
            Self::Keyed(key) => key.digest(text.as_bytes()),
        }
    }
}

/// A change that was worked out and not made.
struct Worked {
    before: String,
    after: String,
    before_digest: Digest,
    after_digest: Digest,
    difference: String,
}

impl Worked {
    fn is_change(&self) -> bool {
        self.before != self.after
    }

    fn told(&self, input: &Input) -> Value {
        json!({
            "path": input.path,
            "operation": input.operation.word(),
            "changed": self.is_change(),
            "before": self.before_digest,
            "after": self.after_digest,
            "difference": self.difference,
        })
    }
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    match change(tools, call).await {
        Ok(output) => Outcome::structured(output),
        Err(Stopped::Before(error)) => error.into(),
        Err(Stopped::After(message)) => Outcome::Unknown(message),
    }
}

/// What would change; nothing is kept and nothing is locked.
pub(crate) async fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let input: Input = input(call)?;
    let entry = entry(tools, call, &input.path)?.clone();
    let edit = edit(tools, call, &input).await?;
    let sum = Sum::of(tools, call, &entry).await?;
    let (worked, input) = blocking(move || {
        let text = Held::look(&entry.file)?;
        Ok((work_out(&entry, &input, &edit, &sum, text)?, input))
    })
    .await?;
    let mut plan = worked.told(&input);
    plan["would_run"] = Value::from(true);
    Ok(plan)
}

async fn change(tools: &Tools, call: &Call) -> Result<Value, Stopped> {
    let input: Input = input(call)?;
    let entry = entry(tools, call, &input.path)?.clone();
    let edit = edit(tools, call, &input).await?;
    if input.dry_run {
        return Ok(plan(tools, call).await?);
    }
    if call.cancel.is_cancelled() {
        return Err(cancelled().into());
    }
    let reverts = match &edit {
        Edit::Revert { change, .. } => Some(change.call),
        _ => None,
    };
    let sum = Sum::of(tools, call, &entry).await?;
    let (held, worked, input) = {
        let (timeout, cancel, rng) = (call.timeout, call.cancel.clone(), tools.rng.clone());
        // A large file takes its time to read and to compare, too.
        blocking(move || {
            let (held, text) = Held::lock(&entry.file, timeout, &cancel, rng)?;
            Ok((held, work_out(&entry, &input, &edit, &sum, text)?, input))
        })
        .await?
    };
    let mut output = worked.told(&input);
    if !worked.is_change() {
        return Ok(output);
    }
    let changed_by = call.principal.to_string();
    let new = NewFileChange {
        call: call.id,
        entry: &input.path,
        operation: input.operation.word(),
        reverts,
        changed_by: &changed_by,
        before: worked.before_digest,
        after: worked.after_digest,
        difference: &worked.difference,
        earlier: &worked.before,
        created_at: tools.clock.now(),
    };
    // Whether or not this is confirmed, the file has not been touched.
    tools.store.begin_file_change(call.tenant, &new).await.map_err(|error| database(&error.into()))?;
    let written = blocking_held(held, worked).await;
    let is_done = !matches!(written, Err(Stopped::Before(_)));
    if let Err(error) = tools.store.end_file_change(call.tenant, call.id, is_done).await {
        // The digests still tell.
        tracing::warn!(call = %call.id, "how a change of `{}` ended is not kept: {error}", input.path);
    }
    written?;
    output["change"] = json!(call.id);
    Ok(output)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(file::failed("disk", "the thread that read the file ended before it was done")),
    }
}

async fn blocking_held(held: Held, worked: Worked) -> Result<(), Stopped> {
    match tokio::task::spawn_blocking(move || held.replace(&worked.before, &worked.after)).await {
        Ok(done) => done,
        Err(_) => Err(Stopped::After("the thread that wrote the file ended before it was done".to_owned())),
    }
}

/// Whether this tenant has any file at all; of nobody's there is nothing to say.
pub(crate) fn ready(tools: &Tools, tenant: Option<&Slug>) -> Result<(), ToolError> {
    let mut entries = tools.entries.yaml_files.values();
    if tenant.is_none_or(|tenant| entries.any(|entry| entry.tenants.include(tenant))) {
        return Ok(());
    }
    let message = "there is no file to change: the operator has allowed none to this tenant";
    let error = ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message);
    Err(to_mend(error, "yaml_files", Some("NAME")))
}

/// Why files of the operator's entries cannot be changed, each under its entry's name.
pub(crate) fn problems(files: &BTreeMap<String, YamlEntry>) -> Vec<String> {
    let problem = |(name, entry): (&String, &YamlEntry)| {
        let error = Held::look(&entry.file).err()?;
        Some(format!("the operator's entry `{name}`: {}", error.message))
    };
    files.iter().filter_map(problem).collect()
}

/// An entry of another tenant is one that is not there.
fn entry<'a>(tools: &'a Tools, call: &Call, name: &str) -> Result<&'a YamlEntry, ToolError> {
    let files = &tools.entries.yaml_files;
    if let Some(entry) = files.get(name).filter(|entry| entry.tenants.include(&call.tenant_slug)) {
        return Ok(entry);
    }
    if let Some(why) = tools.entries.wrong.told("yaml_files", Some(name), Some(&call.tenant_slug)) {
        let error = ToolError::because(ErrorCode::SandboxError, "tier_unavailable", why).with("pointer", "/path");
        return Err(to_mend(error, "yaml_files", Some(name)));
    }
    let of_tenant = files.iter().filter(|(_, entry)| entry.tenants.include(&call.tenant_slug));
    let known: Vec<&str> = of_tenant.map(|(name, _)| name.as_str()).take(20).collect();
    let known = if known.is_empty() {
        "the operator has allowed none to this tenant".to_owned()
    } else {
        format!("there are `{}`", known.join("`, `"))
    };
    let message = format!("there is no file `{}`; {known}", name.escape_debug());
    let error = ToolError::because(ErrorCode::PolicyDenied, "not_found", message).with("pointer", "/path");
    Err(to_mend(error, "yaml_files", Some(name)))
}

/// That each operation has what it needs and nothing else.
async fn edit(tools: &Tools, call: &Call, input: &Input) -> Result<Edit, ToolError> {
    let Input { operation, key, value, patch, change, .. } = input;
    let word = operation.word();
    let unused = match operation {
        Operation::Set => [("patch", patch.is_some()), ("change", change.is_some()), ("", false)],
        Operation::Delete => [("value", value.is_some()), ("patch", patch.is_some()), ("change", change.is_some())],
        Operation::Merge => [("value", value.is_some()), ("change", change.is_some()), ("", false)],
        Operation::Revert => [("key", key.is_some()), ("value", value.is_some()), ("patch", patch.is_some())],
    };
    if let Some((member, _)) = unused.into_iter().find(|(_, is_given)| *is_given) {
        return Err(invalid(member, format!("`{word}` takes none; leave it out")));
    }
    if let Some(key) = key.as_ref().filter(|key| key.len() > POINTER_BYTES_MAX) {
        return Err(invalid("key", format!("it has {} bytes, the limit is {POINTER_BYTES_MAX}", key.len())));
    }
    let needs = |member: &str| invalid(member, format!("`{word}` needs it"));
    Ok(match operation {
        Operation::Set => Edit::Set {
            key: key.clone().ok_or_else(|| needs("key"))?,
            value: value.clone().ok_or_else(|| needs("value"))?,
        },
        Operation::Delete => Edit::Delete { key: key.clone().ok_or_else(|| needs("key"))? },
        Operation::Merge => {
            Edit::Merge { key: key.clone().unwrap_or_default(), patch: patch.clone().ok_or_else(|| needs("patch"))? }
        }
        Operation::Revert => {
            let id = change.ok_or_else(|| needs("change"))?;
            let missing = || invalid("change", format!("there is no change `{id}` of `{}`", input.path));
            let found = tools.store.file_change(call.tenant, id).await.map_err(|error| database(&error.into()))?;
            let (change, earlier) = found.filter(|(change, _)| change.entry == input.path).ok_or_else(missing)?;
            let earlier = earlier.ok_or_else(|| {
                invalid("change", format!("the file as it was before `{id}` is no longer kept; its difference is"))
            })?;
            Edit::Revert { change, earlier }
        }
    })
}

fn work_out(entry: &YamlEntry, input: &Input, edit: &Edit, sum: &Sum, before: String) -> Result<Worked, ToolError> {
    let digest = sum.digest(&before);
    if let Some(expected) = input.expected_digest.filter(|expected| *expected != digest) {
        let message = format!("the file has changed: its digest is `{digest}`, not `{expected}`; look at it again");
        return Err(invalid("expected_digest", message));
    }
    let refused = |member: &'static str| {
        move |refused| match refused {
            Refused::Place(why) => invalid(member, why),
            Refused::File(why) => unreadable(&why),
        }
    };
    let after = match edit {
        Edit::Set { key, value } => {
            admit(entry, key)?;
            yaml::set(&before, key, value).map_err(refused("key"))?
        }
        Edit::Delete { key } => {
            admit(entry, key)?;
            yaml::delete(&before, key).map_err(refused("key"))?
        }
        Edit::Merge { key, patch } => {
            // Each place that is named, changed or not: that nothing changes would tell what is there.
            let mut named = Vec::new();
            named_places(patch, key.clone(), &mut named);
            for place in &named {
                admit(entry, place)?;
            }
            yaml::merge(&before, key, patch).map_err(refused("patch"))?
        }
        Edit::Revert { change, earlier } => {
            if change.after != digest && input.expected_digest.is_none() {
                let message = format!(
                    "the file has changed since `{}`; to put it back all the same, give its digest now, `{digest}`, \
                     as `expected_digest`",
                    change.call
                );
                return Err(invalid("change", message));
            }
            earlier.clone()
        }
    };
    let bytes_max = file::FILE_BYTES_MAX;
    if u64::try_from(after.len()).unwrap_or(u64::MAX) > bytes_max {
        let message = format!("the file would have {} bytes, the limit is {bytes_max}", after.len());
        return Err(ToolError::because(ErrorCode::ValidationError, "too_large", message));
    }
    let now = yaml::value(&before).map_err(|why| unreadable(&why))?;
    let then = yaml::value(&after).map_err(|why| unreadable(&why))?;
    let mut places = Vec::new();
    differing(&now, &then, String::new(), &mut places);
    for place in &places {
        admit(entry, place)?;
    }
    let difference = if entry.paths.is_empty() {
        let diff = similar::TextDiff::from_lines(&before, &after);
        diff.unified_diff().context_radius(CONTEXT_LINES).header(&input.path, &input.path).to_string()
    } else {
        by_places(&input.path, &places, &now, &then, before != after)
    };
    Ok(Worked { before_digest: digest, after_digest: sum.digest(&after), before, after, difference })
}

/// A difference by places instead of lines: on a line there may be more than what may be changed, and so be seen.
fn by_places(name: &str, places: &[String], now: &Value, then: &Value, is_change: bool) -> String {
    let mut text = if is_change { format!("--- {name}\n+++ {name}\n") } else { String::new() };
    for place in places {
        let _ = writeln!(text, "@@ {place} @@");
        let sides = [('-', now), ('+', then)].map(|(sign, whole)| (sign, whole.pointer(place)));
        for (sign, value) in sides {
            let Some(value) = value else { continue };
            let shown = serde_json::to_string_pretty(value).unwrap_or_default();
            for line in shown.lines() {
                let _ = writeln!(text, "{sign}{line}");
            }
        }
    }
    if is_change && places.is_empty() {
        text.push_str("@@ only comments or layout @@\n");
    }
    text
}

fn unreadable(why: &str) -> ToolError {
    let message = format!("the file cannot be changed by this tool: {why}");
    ToolError::because(ErrorCode::ValidationError, "unreadable", message).with("pointer", "/path")
}

/// That a place is at or below one that the operator lists.
fn admit(entry: &YamlEntry, place: &str) -> Result<(), ToolError> {
    let below =
        |path: &String| place.strip_prefix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if entry.paths.is_empty() || entry.paths.iter().any(below) {
        return Ok(());
    }
    let place = if place.is_empty() { "the whole file" } else { place };
    let message = format!(
        "`{}` may not be changed; the operator allows `{}` and what is below",
        place.escape_debug(),
        entry.paths.join("`, `")
    );
    Err(ToolError::because(ErrorCode::PolicyDenied, "constraint", message).with("pointer", "/key"))
}

/// The places that a merge patch says something about.
fn named_places(patch: &Value, at: String, places: &mut Vec<String>) {
    match patch {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                named_places(member, format!("{at}/{}", escape(name)), places);
            }
        }
        _ => places.push(at),
    }
}

/// The places at which two values differ, as deep as can be said.
fn differing(before: &Value, after: &Value, at: String, places: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let gone = before.keys().filter(|key| !after.contains_key(*key));
            places.extend(gone.map(|key| format!("{at}/{}", escape(key))));
            for (key, after) in after {
                let place = format!("{at}/{}", escape(key));
                match before.get(key) {
                    Some(before) => differing(before, after, place, places),
                    None => places.push(place),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (number, (before, after)) in before.iter().zip(after).enumerate() {
                differing(before, after, format!("{at}/{number}"), places);
            }
        }
        _ if before == after => {}
        _ => places.push(at),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    path: String,
    #[serde(default)]
    limit: Option<u32>,
}

/// What was changed in a file by calls of this tenant.
pub(crate) async fn list(tools: &Tools, call: &Call) -> Outcome {
    match listed(tools, call).await {
        Ok(output) => Outcome::structured(output),
        Err(error) => error.into(),
    }
}

async fn listed(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let Listed { path, limit } = input(call)?;
    entry(tools, call, &path)?;
    let limit = limit.unwrap_or(20);
    if !(1..=LISTED_MAX).contains(&limit) {
        return Err(invalid("limit", format!("it is {limit}; expected 1 to {LISTED_MAX}")));
    }
    let found = tools.store.file_changes(call.tenant, &path, limit).await;
    let found = found.map_err(|error| database(&error.into()))?;
    let told = |change: FileChange| {
        let FileChange { call, operation, reverts, changed_by, before, after, difference, state, created_at, .. } =
            change;
        let mut told = json!({
            "change": call,
            "operation": operation,
            "state": state,
            "changed_by": changed_by,
            "changed_at": created_at,
            "before": before,
            "after": after,
            "difference": difference,
        });
        if let Some(reverts) = reverts {
            told["reverts"] = json!(reverts);
        }
        told
    };
    let changes: Vec<Value> = found.into_iter().map(told).collect();
    Ok(json!({"path": path, "changes": changes}))
}
