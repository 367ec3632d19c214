//! A value becomes a `Definition`, or the list of everything that keeps it from becoming one.
//!
//! serde stops at the first error. Here each error is noted, its cause taken out of the value (or a stand-in
//! put in its place), and the reading repeated, so that an author corrects a file once and not ten times.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use toolgate_contracts::definition::Definition;
use toolgate_contracts::json as strict;
use toolgate_contracts::runner::{self, Runner};

use crate::finding::{Finding, nearest, shown};

const REPAIRS_MAX: usize = 50;

const RUNNER_KINDS: [&str; 15] = [
    "builtin",
    "http",
    "openapi",
    "script",
    "sql",
    "python",
    "wasm",
    "prompt",
    "task",
    "composition",
    "workflow",
    "expression",
    "record",
    "mcp",
    "external",
];

/// Words other systems use, and ours for the same.
const FOREIGN_WORDS: [(&str, &str); 14] = [
    ("parameters", "input_schema"),
    ("args_schema", "input_schema"),
    ("returns", "output_schema"),
    ("side_effects", "egress_class"),
    ("slug", "name"),
    ("tenantSlugs", "tenants"),
    ("outputSections", "output_sections"),
    ("permission", "required_permission"),
    ("hitl_mode", "hitl: {mode: …}"),
    ("hitl_timeout_seconds", "hitl: {timeout_s: …}"),
    ("timeout", "timeout_ms"),
    ("implementation", "runner"),
    ("execute", "runner"),
    ("alias", "aliases"),
];

/// Reads a definition from a strictly read object without nulls. An empty list of findings means it is there.
pub(super) fn definition(mut members: Map<String, Value>) -> Result<Definition, Vec<Finding>> {
    let mut findings = Vec::new();
    // The two large members cannot be of a wrong type, so they are kept out of the repeated reading.
    let input_schema = members.insert("input_schema".into(), json!({}));
    let output_schema = members.remove("output_schema");
    if input_schema.is_none() {
        findings.push(missing("input_schema", ""));
    }
    let runner = if let Some(value) = members.insert("runner".into(), json!({"kind": "external"})) {
        self::runner(value, &mut findings)
    } else {
        findings.push(missing("runner", ""));
        None
    };
    let definition: Option<Definition> = repaired(Value::Object(members), "", &mut findings);
    match (definition, runner, input_schema) {
        (Some(definition), Some(runner), Some(input_schema)) if findings.is_empty() => {
            Ok(Definition { input_schema, output_schema, runner, ..definition })
        }
        _ => Err(findings),
    }
}

/// By kind, because a tagged union loses the path of an error inside it.
fn runner(value: Value, findings: &mut Vec<Finding>) -> Option<Runner> {
    let Value::Object(mut members) = value else {
        let fix = format!("write `runner:` with `kind:` under it; kinds: {}", RUNNER_KINDS.join(", "));
        findings.push(Finding::error("member.type", "/runner", "`runner` is not a mapping", fix));
        return None;
    };
    let kind = members.remove("kind");
    let Some(kind) = kind.as_ref().and_then(Value::as_str) else {
        let fix = format!("choose one of {}", RUNNER_KINDS.join(", "));
        findings.push(Finding::error("member.missing", "/runner", "`kind` is missing, or is not a word", fix));
        return None;
    };
    let rest = Value::Object(members);
    match kind {
        "builtin" => repaired(rest, "/runner", findings).map(Runner::Builtin),
        "http" => repaired(rest, "/runner", findings).map(Runner::Http),
        "openapi" => repaired(rest, "/runner", findings).map(Runner::Openapi),
        "script" => repaired(rest, "/runner", findings).map(Runner::Script),
        "sql" => repaired(rest, "/runner", findings).map(Runner::Sql),
        "python" => repaired(rest, "/runner", findings).map(Runner::Python),
        "wasm" => repaired(rest, "/runner", findings).map(Runner::Wasm),
        "prompt" => repaired(rest, "/runner", findings).map(Runner::Prompt),
        "task" => repaired(rest, "/runner", findings).map(Runner::Task),
        "composition" => repaired::<runner::Composition>(rest, "/runner", findings).map(Runner::Composition),
        "workflow" => repaired(rest, "/runner", findings).map(Runner::Workflow),
        "expression" => repaired(rest, "/runner", findings).map(Runner::Expression),
        "record" => repaired(rest, "/runner", findings).map(Runner::Record),
        "mcp" => repaired(rest, "/runner", findings).map(Runner::Mcp),
        "external" => repaired(rest, "/runner", findings).map(Runner::External),
        other => {
            let message = format!("`{}` is not a kind of runner", shown(other));
            findings.push(Finding::error("member.value", "/runner/kind", message, suggestion(other, &RUNNER_KINDS)));
            None
        }
    }
}

/// Reads until it succeeds or nothing more can be taken out.
fn repaired<T: DeserializeOwned>(value: Value, at: &str, findings: &mut Vec<Finding>) -> Option<T> {
    let mut patient = Patient { value, taken: Vec::new() };
    for _ in 0..REPAIRS_MAX {
        let error = match strict::decode(patient.value.clone()) {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        let missing = error.message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
        let written = patient.as_written(&error.pointer);
        let own_doing = missing.is_some_and(|member| patient.took(&format!("{written}/{member}")));
        if !own_doing {
            findings.push(explain(&strict::Error { pointer: written, ..error.clone() }, at));
        }
        match missing {
            Some(member) if error.pointer.is_empty() => patient.insert(member, stand_in(member)?),
            None if error.pointer.is_empty() => return None,
            _ => {
                patient.take(&error.pointer)?;
                if let Some(stand_in) = stand_in(&error.pointer[1..]) {
                    patient.insert(&error.pointer[1..], stand_in);
                }
            }
        }
    }
    None
}

/// A value under repair, and what was taken out of it, by pointers as they were at the time.
struct Patient {
    value: Value,
    taken: Vec<Taken>,
}

struct Taken {
    /// Where it was in the text, before anything was taken out.
    written: String,
    /// The list and the place in it, when it was an item: what came after has moved up.
    item: Option<(String, usize)>,
}

impl Patient {
    fn insert(&mut self, member: &str, new: Value) {
        if let Value::Object(members) = &mut self.value {
            members.insert(member.to_owned(), new);
        }
    }

    fn take(&mut self, pointer: &str) -> Option<()> {
        let written = self.as_written(pointer);
        let (parent, token) = pointer.rsplit_once('/')?;
        let token = token.replace("~1", "/").replace("~0", "~");
        let item = match self.value.pointer_mut(parent)? {
            Value::Object(members) => members.shift_remove(&token).map(|_| None)?,
            Value::Array(items) => {
                let index: usize = token.parse().ok().filter(|index| *index < items.len())?;
                items.remove(index);
                Some((parent.to_owned(), index))
            }
            _ => return None,
        };
        self.taken.push(Taken { written, item });
        Some(())
    }

    fn took(&self, written: &str) -> bool {
        self.taken.iter().any(|taken| taken.written == written)
    }

    /// The pointer into what the author wrote.
    fn as_written(&self, pointer: &str) -> String {
        self.taken.iter().rev().filter_map(|taken| taken.item.as_ref()).fold(
            pointer.to_owned(),
            |pointer, (list, index)| {
                let rest = pointer.strip_prefix(list.as_str()).and_then(|rest| rest.strip_prefix('/'));
                let place = rest.map(|rest| {
                    rest.split_once('/').map_or((rest, String::new()), |(place, rest)| (place, format!("/{rest}")))
                });
                match place.and_then(|(place, rest)| place.parse().ok().map(|place: usize| (place, rest))) {
                    Some((place, rest)) if place >= *index => format!("{list}/{}{rest}", place + 1),
                    _ => pointer,
                }
            },
        )
    }
}

/// For members that must be there, so that the reading can go on; the findings keep it from being used.
fn stand_in(member: &str) -> Option<Value> {
    match member {
        "name" => Some(json!("unnamed")),
        "url" => Some(json!("https://example.invalid/")),
        "method" => Some(json!("GET")),
        "mode" => Some(json!("direct")),
        "description" | "function" | "document" | "operation" | "path" | "entry" | "connection" | "statement"
        | "code" | "plugin" | "template" | "task" | "cel" | "entity_type" | "server" | "tool" => Some(json!("")),
        "steps" => Some(json!([])),
        _ => None,
    }
}

fn missing(member: &str, at: &str) -> Finding {
    let fix = match member {
        "name" => "add `name: verbNoun`, for example `name: sendEmail`".to_owned(),
        "description" => "add `description:` that tells a model when to use the tool and when not".to_owned(),
        "input_schema" => {
            "add `input_schema:` with `type: object` and `properties`; for no input also `input_less: true`".to_owned()
        }
        "runner" => format!("add `runner:` with `kind:`, one of {}", RUNNER_KINDS.join(", ")),
        other => format!("add `{}:`", shown(other)),
    };
    Finding::error("member.missing", at, format!("`{}` is missing", shown(member)), fix)
}

fn explain(error: &strict::Error, at: &str) -> Finding {
    let strict::Error { pointer, message } = error;
    let place = format!("{at}{pointer}");
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if message.starts_with("missing field") {
        return missing(quoted.first().copied().unwrap_or_default(), &place);
    }
    if message.starts_with("unknown field") {
        let (word, known) = quoted.split_first().map_or(("", [].as_slice()), |(word, known)| (*word, known));
        let told = format!("`{}` is not a known member", shown(word));
        return Finding::error("member.unknown", place, told, suggestion(word, known));
    }
    if message.contains("` is not one of `") {
        let (word, known) = quoted.split_first().map_or(("", [].as_slice()), |(word, known)| (*word, known));
        let told = format!("`{}` is not one of {}", shown(word), known.join(", "));
        let meant = nearest(word, known.iter().copied()).map(|meant| format!("did you mean `{meant}`?"));
        return Finding::error("member.value", place, told, meant.unwrap_or_else(|| "choose one of them".to_owned()));
    }
    if let Some((expected, got)) = message.strip_prefix("expected ").and_then(|rest| rest.split_once(", got ")) {
        let told = format!("expected {}, got {}", shown(expected), shown(got));
        // A number that is none of those that fit is of the right type.
        let fits = got.starts_with("the number") && expected.contains("number");
        let code = if fits { "member.value" } else { "member.type" };
        return Finding::error(code, place, told, retyping(got, expected));
    }
    if place.starts_with("/cost/per_") {
        let fix = "write a decimal number in quotes, as in `\"0.002\"`";
        return Finding::error("cost.amount", place, shown_long(message), fix);
    }
    let fix = if place == "/version" {
        "write all three numbers in quotes, as in `version: \"1.0.0\"`"
    } else {
        "correct the value"
    };
    Finding::error("member.value", place, shown_long(message), fix)
}

fn retyping(got: &str, expected: &str) -> &'static str {
    if expected.contains("`true`") {
        "write `true` or `false`, without quotes"
    } else if got.starts_with("the number") && (expected.contains("text") || expected.contains("version")) {
        "put it in quotes"
    } else if expected.contains("whole number") {
        "write a whole number, without quotes"
    } else if expected.contains("list") {
        "write a list: one `- item` per line, or `[a, b]`"
    } else if expected.contains("object") {
        "write a mapping: `key: value` lines, indented"
    } else {
        "write a value of that type"
    }
}

fn suggestion(word: &str, known: &[&str]) -> String {
    let foreign = FOREIGN_WORDS.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours);
    let meant = foreign.or_else(|| nearest(word, known.iter().copied()));
    match (meant, known) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, []) => "remove it".to_owned(),
        (None, known) => format!("remove it; known here: {}", known.join(", ")),
    }
}

/// Messages of our own types explain a grammar and may be longer than a quoted word.
fn shown_long(message: &str) -> String {
    message.chars().take(400).map(|c| if toolgate_contracts::unseen::is_unseen(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(value: Value, expected: &[(&str, &str)]) -> Vec<Finding> {
        let Value::Object(members) = value else { panic!("an object") };
        let findings = definition(members).expect_err("findings");
        let mut found: Vec<_> = findings.iter().map(|f| (f.code.as_ref(), f.pointer.as_str())).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
        findings
    }

    fn valid() -> Value {
        json!({"name": "sendEmail", "description": "Send.", "input_schema": {"type": "object"},
            "runner": {"kind": "http", "method": "POST", "url": "https://a.test/"}})
    }

    fn with(extra: Value) -> Value {
        let mut value = valid();
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        value
    }

    #[test]
    fn a_complete_definition_has_no_findings() {
        let Value::Object(members) = valid() else { unreachable!() };
        let definition = definition(members).unwrap();
        assert_eq!(definition.runner.kind(), "http");
        assert_eq!(definition.input_schema, json!({"type": "object"}));
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let value = with(json!({
            "name": "a b", "egress_clas": "write", "risk": "dangerous", "timeout_ms": "soon", "idempotent": "yes",
            "hitl": {"mod": "blocking", "timeout_s": -1}, "aliases": [{"nam": "x"}, {"name": "ok"}, {"name": "1"}],
            "version": 1.5, "cost": {"per_call": "2e3"}, "runner": {"kind": "http", "metod": "GET", "url": 7},
        }));
        let findings = finds(
            value,
            &[
                ("cost.amount", "/cost/per_call"),
                ("member.missing", "/aliases/0"),
                ("member.missing", "/runner"),
                ("member.type", "/idempotent"),
                ("member.type", "/runner/url"),
                ("member.type", "/timeout_ms"),
                ("member.type", "/version"),
                ("member.unknown", "/aliases/0/nam"),
                ("member.unknown", "/egress_clas"),
                ("member.unknown", "/hitl/mod"),
                ("member.unknown", "/runner/metod"),
                ("member.value", "/aliases/2/name"),
                ("member.value", "/hitl/timeout_s"),
                ("member.value", "/name"),
                ("member.value", "/risk"),
            ],
        );
        let fix = |pointer: &str| &findings.iter().find(|f| f.pointer == pointer).unwrap().fix;
        assert_eq!(fix("/egress_clas"), "did you mean `egress_class`?");
        assert_eq!(fix("/runner/metod"), "did you mean `method`?");
        assert_eq!(fix("/idempotent"), "write `true` or `false`, without quotes");
        assert_eq!(fix("/version"), "put it in quotes");
    }

    #[test]
    fn what_must_be_there_is_named_with_an_example() {
        finds(
            json!({}),
            &[("member.missing", ""), ("member.missing", ""), ("member.missing", ""), ("member.missing", "")],
        );
        finds(with(json!({"runner": {"kind": "shell", "command": "rm"}})), &[("member.value", "/runner/kind")]);
        finds(with(json!({"runner": {}})), &[("member.missing", "/runner")]);
        finds(with(json!({"runner": "http"})), &[("member.type", "/runner")]);
        let findings = finds(with(json!({"parameters": {}})), &[("member.unknown", "/parameters")]);
        assert_eq!(findings[0].fix, "did you mean `input_schema`?");
    }

    #[test]
    fn every_kind_of_runner_is_known_here() {
        for kind in RUNNER_KINDS {
            let mut findings = Vec::new();
            let _ = runner(json!({"kind": kind}), &mut findings);
            assert!(findings.iter().all(|f| f.pointer != "/runner/kind"), "{kind}: {findings:?}");
        }
    }
}
