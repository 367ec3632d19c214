//! Names and the cut of tools: camelCase verb-noun, one purpose each, a way to list before a way to change.

use std::collections::BTreeSet;

use serde_json::Value;
use toolgate_contracts::definition::{Definition, Origin};
use toolgate_contracts::name::FoldedName;

use super::Context;
use crate::finding::{Finding, shown};
use crate::words;

/// Names that the seeds introduced in another spelling; new tools follow the rule (`compat.md` D1).
pub const GRANDFATHERED: [&str; 21] = [
    "append_note",
    "calculator",
    "database_read",
    "delete_file",
    "echo",
    "generate-image",
    "http_get",
    "http_request",
    "json_query",
    "list_files",
    "now",
    "publish_view",
    "read_file",
    "request_input",
    "run_python",
    "run_sql_write",
    "send_email",
    "submit_block_response",
    "wait",
    "web_search",
    "write_file",
];
/// What reads and writes by one switch on purpose; each counts as a write for all of it.
const MEGA_GRANDFATHERED: [&str; 2] = ["http_request", "manageTools"];
/// Clients put a prefix of their own before a name of at most 64 characters.
const NAME_CHARS_AIM: usize = 40;

const VERBS: [&str; 107] = [
    "accept",
    "activate",
    "add",
    "aggregate",
    "analyze",
    "append",
    "apply",
    "approve",
    "archive",
    "assign",
    "attach",
    "book",
    "build",
    "calculate",
    "call",
    "cancel",
    "check",
    "classify",
    "clear",
    "close",
    "compare",
    "compile",
    "compute",
    "convert",
    "copy",
    "count",
    "create",
    "deactivate",
    "delegate",
    "delete",
    "deploy",
    "describe",
    "detect",
    "disable",
    "download",
    "draft",
    "edit",
    "enable",
    "estimate",
    "evaluate",
    "execute",
    "explain",
    "export",
    "extract",
    "fetch",
    "filter",
    "find",
    "format",
    "forward",
    "generate",
    "get",
    "grant",
    "import",
    "inspect",
    "install",
    "invite",
    "invoke",
    "issue",
    "link",
    "list",
    "load",
    "look",
    "make",
    "manage",
    "merge",
    "move",
    "notify",
    "open",
    "parse",
    "post",
    "predict",
    "preview",
    "publish",
    "query",
    "read",
    "recommend",
    "record",
    "refund",
    "register",
    "reject",
    "remove",
    "rename",
    "render",
    "reply",
    "report",
    "request",
    "research",
    "resolve",
    "restore",
    "retry",
    "review",
    "revoke",
    "run",
    "save",
    "schedule",
    "score",
    "screen",
    "search",
    "select",
    "send",
    "set",
    "sign",
    "submit",
    "summarize",
    "sync",
    "translate",
    "update",
];
const MORE_VERBS: [&str; 12] =
    ["trigger", "upload", "validate", "verify", "view", "visualize", "wait", "watch", "write", "plan", "ask", "start"];

pub(super) fn check(definition: &Definition, context: &Context<'_>, findings: &mut Vec<Finding>) {
    let name = definition.name.as_str();
    let chosen_here = matches!(context.origin, Origin::Code | Origin::Tenant | Origin::Bundle);
    if chosen_here && definition.name.namespace().is_none() && !GRANDFATHERED.contains(&name) {
        spelling(name, findings);
    }
    let wire = definition.name.wire();
    if wire.chars().count() > NAME_CHARS_AIM {
        let message = format!(
            "the name has {} characters where it is sent to a model; clients add a prefix of their own to at most 64",
            wire.chars().count()
        );
        findings.push(Finding::note("naming.length", "/name", message, format!("aim for {NAME_CHARS_AIM} or fewer")));
    }
    if !MEGA_GRANDFATHERED.contains(&name) {
        mega_tool(definition, findings);
    }
    enumerator(name, context.names, findings);
}

fn spelling(name: &str, findings: &mut Vec<Finding>) {
    let words = words::split(name);
    let camel = name.chars().next().is_some_and(|first| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric());
    if !camel {
        let better = camel_case(&words);
        let fix = format!("name it `{better}`; if `{name}` is in use, keep it under `aliases`");
        findings.push(Finding::error("naming.camel", "/name", format!("`{name}` is not camelCase"), fix));
        return;
    }
    let verb = words.first().map(String::as_str).unwrap_or_default();
    if words.len() < 2 || !(VERBS.contains(&verb) || MORE_VERBS.contains(&verb)) {
        let message = format!("`{name}` does not read as a verb and a noun");
        findings.push(Finding::warning(
            "naming.verb",
            "/name",
            message,
            "say what it does to what, as in `listAgents` or `calculateRoi`",
        ));
    }
}

fn camel_case(words: &[String]) -> String {
    let mut name = String::new();
    for (index, word) in words.iter().enumerate() {
        let mut letters = word.chars();
        match letters.next() {
            Some(first) if index > 0 => name.extend(first.to_uppercase()),
            Some(first) => name.push(first),
            None => {}
        }
        name.push_str(letters.as_str());
    }
    name
}

const SELECTORS: [&str; 7] = ["action", "operation", "op", "command", "method", "verb", "mode"];
const READING: [&str; 20] = [
    "list", "get", "read", "show", "search", "find", "view", "describe", "query", "fetch", "count", "inspect",
    "status", "preview", "check", "export", "lookup", "stats", "history", "browse",
];
const WRITING: [&str; 26] = [
    "create", "add", "update", "edit", "set", "delete", "remove", "write", "send", "run", "execute", "trigger",
    "cancel", "publish", "move", "rename", "archive", "restore", "import", "insert", "post", "put", "patch", "approve",
    "assign", "append",
];

/// One tool with a switch that reads and writes needs one permission, one approval and one class for all of it.
fn mega_tool(definition: &Definition, findings: &mut Vec<Finding>) {
    let properties = definition.input_schema.get("properties").and_then(Value::as_object);
    for (name, schema) in
        properties.into_iter().flatten().filter(|(name, _)| SELECTORS.contains(&name.to_lowercase().as_str()))
    {
        let options: Vec<&str> =
            schema.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let does = |verbs: &[&str]| {
            options
                .iter()
                .copied()
                .find(|option| words::split(option).first().is_some_and(|verb| verbs.contains(&verb.as_str())))
        };
        if options.len() >= 3
            && let (Some(reads), Some(writes)) = (does(&READING), does(&WRITING))
        {
            let message = format!(
                "one tool for {} actions, some of which read (`{}`) and some of which write (`{}`)",
                options.len(),
                shown(reads),
                shown(writes)
            );
            let fix = "split it into thin tools, for example `listTasks`, `manageTask` and `triggerTask`, each with its own class, permission and annotations";
            findings.push(Finding::warning(
                "design.mega-tool",
                format!("/input_schema/properties/{}/enum", shown(name)),
                message,
                fix,
            ));
        }
    }
}

/// A model that may delete a thing must be able to find it first.
fn enumerator(name: &str, names: &BTreeSet<String>, findings: &mut Vec<Finding>) {
    let words = words::split(name);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let noun = match words.as_slice() {
        ["delete" | "update" | "manage" | "remove" | "edit", noun @ ..] | ["delegate", "to", noun @ ..] => {
            noun.concat()
        }
        _ => return,
    };
    if noun.is_empty() {
        return;
    }
    let folded: BTreeSet<FoldedName> = names.iter().map(|name| FoldedName::of(name)).collect();
    let forms = [
        noun.clone(),
        format!("{noun}s"),
        format!("{noun}es"),
        format!("{}ies", noun.trim_end_matches('y')),
        noun.trim_end_matches('s').to_owned(),
    ];
    let verbs = ["list", "search", "get", "find", "inspect", "read", "browse"];
    let found =
        verbs.iter().any(|verb| forms.iter().any(|form| folded.contains(&FoldedName::of(&format!("{verb}{form}")))));
    if !found {
        let message = format!("`{name}` changes things that no known tool lists");
        let fix =
            format!("add a read-only tool such as `list{}s`, so that a model looks before it changes", capital(&noun));
        findings.push(Finding::warning("design.enumerator", "/name", message, fix));
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}
