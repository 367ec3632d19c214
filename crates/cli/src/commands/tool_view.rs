//! A tool as people read it.

use serde_json::Value;

use crate::output::{Detail, Paint, Table, clean, clean_line, text_of, time_of};

pub fn whole(tool: &Value, paint: Paint) -> String {
    let heading = format!("{} {} — {}", text_of(tool, "name"), text_of(tool, "version"), text_of(tool, "title"));
    Detail::new(paint, &heading)
        .about(&text_of(tool, "description"))
        .field("Class", class(tool))
        .field("Classified", classified(&tool["classification"]))
        .field("Stopped", text_of(tool, "stopped"))
        .field("Approval", approval(tool))
        .field("State", state(tool))
        .field("Category", text_of(tool, "category"))
        .field("Type", text_of(tool, "type"))
        .field("Group", text_of(tool, "group"))
        .field("Tags", text_of(tool, "tags"))
        .field("Aliases", aliases(tool))
        .field("Runner", text_of(&tool["runner"], "kind"))
        .field("Hosts", text_of(tool, "hosts"))
        .field("Limits", format!("{} ms, {} bytes", text_of(tool, "timeout_ms"), text_of(tool, "max_output_bytes")))
        .field("Needs", needs(tool))
        .field("Wire name", text_of(tool, "wire_name"))
        .field("Digest", text_of(tool, "definition_digest"))
        .field("Published", format!("{} by {}", time_of(tool, "created_at"), text_of(tool, "published_by")))
        .section("Input", &properties(&tool["input_schema"], paint))
        .section("Output", &properties(&tool["output_schema"], paint))
        .section("Examples", &examples(tool))
        .section("Documentation", &clean(&text_of(tool, "docs")))
        .end()
}

fn class(tool: &Value) -> String {
    let policy = if tool["permission_policy"] == "always_ask" { ", always asks" } else { "" };
    let sink = text_of(tool, "sink");
    let sink = if sink == "none" || sink.is_empty() { String::new() } else { format!(", sink {sink}") };
    format!(
        "{} ({}), risk {}{sink}{policy}",
        text_of(tool, "egress_class"),
        text_of(tool, "side_effects"),
        text_of(tool, "risk")
    )
}

/// What the operator says of the class, against what was declared and what the runner might do.
fn classified(said: &Value) -> String {
    if !said.is_object() {
        return String::new();
    }
    let holds = if said["holds"] == false { "; not for this version, which behaves otherwise" } else { "" };
    format!(
        "{} by {} on {} (declared {}, the runner's floor {}): {}{holds}",
        text_of(said, "egress_class"),
        text_of(said, "classified_by"),
        time_of(said, "classified_at"),
        text_of(said, "declared"),
        text_of(said, "floor"),
        text_of(said, "reason")
    )
}

/// The declared mode and the one that holds, which may be stricter.
fn approval(tool: &Value) -> String {
    if tool["requires_approval"] != true {
        return "not required".to_owned();
    }
    let hitl = &tool["hitl"];
    let declared = text_of(&hitl["declared"], "mode");
    let mode = text_of(hitl, "mode");
    let declared = match declared {
        _ if declared.is_empty() => " (the default)".to_owned(),
        _ if declared == mode => String::new(),
        _ => format!(" (declared {declared})"),
    };
    format!("required, mode {mode}{declared}, within {}", span(hitl["timeout_s"].as_u64().unwrap_or_default()))
}

/// Seconds in the largest unit that holds them without a rest.
fn span(seconds: u64) -> String {
    match seconds {
        0 => "0 s".to_owned(),
        _ if seconds.is_multiple_of(3600) => format!("{} h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

fn state(tool: &Value) -> String {
    let mut state = text_of(tool, "state");
    for (member, before) in [("message", ": "), ("remove_by", ", until "), ("replaced_by", ", use ")] {
        let text = text_of(tool, member);
        if !text.is_empty() {
            state.push_str(before);
            state.push_str(&text);
        }
    }
    let mut parts = Vec::new();
    parts.push(if tool["enabled"] == false { "switched off here".to_owned() } else { "enabled".to_owned() });
    parts.push(format!("origin {}", text_of(tool, "origin")));
    if tool["visibility"] == "internal" {
        parts.push("internal".to_owned());
    }
    if tool["override"].is_object() {
        parts.push("overridden here".to_owned());
    }
    // What a person wrote may hold commas.
    let end = if tool["message"].is_string() { "; " } else { ", " };
    format!("{state}{end}{}", parts.join(", "))
}

fn aliases(tool: &Value) -> String {
    let alias = |alias: &Value| match alias["remove_by"].as_str() {
        Some(day) => format!("{} (until {day})", text_of(alias, "name")),
        None => text_of(alias, "name"),
    };
    tool["aliases"]
        .as_array()
        .map(|aliases| aliases.iter().map(alias).collect::<Vec<_>>().join(", "))
        .unwrap_or_default()
}

fn needs(tool: &Value) -> String {
    let permission = text_of(tool, "required_permission");
    let secrets = tool["secrets"]
        .as_array()
        .map(|secrets| secrets.iter().map(|secret| format!("secret {}", text_of(secret, "name"))).collect::<Vec<_>>());
    let permission = if permission.is_empty() { None } else { Some(format!("permission {permission}")) };
    permission.into_iter().chain(secrets.into_iter().flatten()).collect::<Vec<_>>().join(", ")
}

/// The top level of a schema, one property on a line.
pub fn properties(schema: &Value, paint: Paint) -> String {
    let Some(properties) = schema["properties"].as_object() else { return String::new() };
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut table = Table::new(["FIELD", "TYPE", "", "DESCRIPTION"]).drops([""]);
    for (name, property) in properties {
        let must = if required.contains(&name.as_str()) { "required" } else { "" };
        table.row([name.clone(), kind(property), must.to_owned(), text_of(property, "description")]);
    }
    table.render(paint.narrower(2), "")
}

fn kind(property: &Value) -> String {
    match (&property["type"], &property["enum"]) {
        (_, Value::Array(words)) => words
            .iter()
            .map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join("|"),
        (Value::String(kind), _) if kind == "array" => format!("array of {}", kind_or_any(&property["items"])),
        (Value::String(kind), _) => kind.clone(),
        (Value::Array(kinds), _) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
        _ => "any".to_owned(),
    }
}

fn kind_or_any(items: &Value) -> String {
    items["type"].as_str().unwrap_or("any").to_owned()
}

fn examples(tool: &Value) -> String {
    let example = |example: &Value| {
        let output = if example["output"].is_null() { String::new() } else { format!("\n  → {}", example["output"]) };
        clean(&format!("{}\n  {}{output}", clean_line(&text_of(example, "title")), example["input"]))
    };
    tool["examples"]
        .as_array()
        .map(|examples| examples.iter().map(example).collect::<Vec<_>>().join("\n"))
        .unwrap_or_default()
}

/// The changes of a difference, one on a line.
pub fn changes(difference: &Value, paint: Paint) -> String {
    let mut table = Table::new(["CLASS", "AT", "CHANGE"]);
    for change in difference["changes"].as_array().into_iter().flatten() {
        table.row([text_of(change, "class"), text_of(change, "pointer"), text_of(change, "message")]);
    }
    table.render(paint, "")
}
