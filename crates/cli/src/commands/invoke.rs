//! `toolgate invoke`: an entry of a `goblins.yaml`, run through the gate as any other call.

use std::io::{IsTerminal as _, Write as _};

use serde_json::{Map, Value};
use toolgate_toolbox::yaml;

use super::call::{ended, outcome};
use super::migrate::goblins::INVOKE;
use crate::args::{Call, CallFormat, Invoke};
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, clean};

const FILE_BYTES_MAX: usize = 1024 * 1024;

pub async fn run(wanted: Invoke, client: &Client, output: &Output) -> Done {
    let entry = read(&wanted)?;
    let call = Call {
        input: Some(Value::Object(entry.args).to_string()),
        dry_run: wanted.dry_run,
        wait: wanted.wait,
        ..Call::of(entry.tool)
    };
    let envelope = ended(call, client).await?;
    let exit_code = envelope["output"]["exit_code"].as_i64().filter(|_| envelope["status"] == "completed");
    match exit_code {
        // A script ends a command line as it would have ended without the gate.
        Some(code) if !output.is_json() => {
            print(&envelope["output"])?;
            Ok(Exit::Script(u8::try_from(code).unwrap_or(1)))
        }
        code => {
            outcome::show(&envelope, CallFormat::Envelope, output)?;
            outcome::tell(&envelope, client, output).await;
            Ok(code.map_or_else(|| outcome::exit_of(&envelope), |code| Exit::Script(u8::try_from(code).unwrap_or(1))))
        }
    }
}

/// What the script printed, to where it printed it.
fn print(output: &Value) -> Result<(), Failure> {
    // As it is into a file; to a terminal nothing that a terminal would obey.
    let text = |member: &str, is_terminal: bool| {
        let text = output[member].as_str().unwrap_or_default();
        if is_terminal { clean(text) } else { text.to_owned() }
    };
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
    let printed = out.write_all(text("stdout", out.is_terminal()).as_bytes());
    let printed = printed.and_then(|()| err.write_all(text("stderr", err.is_terminal()).as_bytes()));
    printed.map_err(|error| Failure::failed(format!("cannot print: {error}"), "see `toolgate calls list`"))
}

struct Entry {
    tool: String,
    args: Map<String, Value>,
}

fn read(wanted: &Invoke) -> Result<Entry, Failure> {
    let Invoke { file, entry, dry_run: _, wait: _ } = wanted;
    let text = input::read_text(file, FILE_BYTES_MAX)?;
    let file = file.display();
    let root = yaml::value(&text).map_err(|why| Failure::usage(format!("{file}: {why}"), "correct the file"))?;
    let found = entry.split('/').try_fold(&root, |value, token| match value {
        Value::Array(items) => items.get(token.parse::<usize>().ok()?),
        other => other.get(token),
    });
    let Some(found) = found else {
        let names =
            root.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Failure::failed(format!("{file} has no entry `{entry}`"), format!("it has: {names}")));
    };
    let Some(invoke) = found.get(INVOKE) else {
        let told = format!("`{entry}` of {file} has no `{INVOKE}`");
        let remedy = match found.get("command") {
            Some(_) => format!("it is a direct command: see `toolgate migrate goblins {file}`"),
            None => format!("write one with `tool_id`, `function` and `args`, below `{INVOKE}`"),
        };
        return Err(Failure::usage(told, remedy));
    };
    entry_of(invoke)
        .map_err(|why| Failure::usage(format!("`{entry}` of {file}: {why}"), "write `tool_id`, `function` and `args`"))
}

fn entry_of(invoke: &Value) -> Result<Entry, String> {
    let members = invoke.as_object().ok_or_else(|| format!("`{INVOKE}` is not a mapping"))?;
    if let Some(unknown) = members.keys().find(|name| !["tool_id", "function", "args"].contains(&name.as_str())) {
        return Err(format!("`{unknown}` is not known there"));
    }
    let text = |name: &str| match members.get(name) {
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("`{name}` is not a text")),
        None => Ok(None),
    };
    let tool_id = text("tool_id")?.filter(|text| !text.is_empty()).ok_or("`tool_id` is missing")?;
    let tool = match text("function")?.filter(|text| !text.is_empty()) {
        Some(function) => format!("{tool_id}.{function}"),
        None => tool_id.to_owned(),
    };
    let args = match members.get("args") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(args)) => args.clone(),
        Some(_) => return Err("`args` is not a mapping".to_owned()),
    };
    Ok(Entry { tool, args })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_names_a_tool_and_its_arguments() {
        let check = |invoke: Value, expected: Result<(&str, Value), &str>| {
            let found = entry_of(&invoke).map(|entry| (entry.tool, Value::Object(entry.args)));
            assert_eq!(found, expected.map(|(tool, args)| (tool.to_owned(), args)).map_err(str::to_owned), "{invoke}");
        };
        check(
            json!({"tool_id": "monorepo_cli", "function": "run_script", "args": {"script_name": "a"}}),
            Ok(("monorepo_cli.run_script", json!({"script_name": "a"}))),
        );
        check(json!({"tool_id": "calculator"}), Ok(("calculator", json!({}))));
        check(json!({"tool_id": "a", "args": null}), Ok(("a", json!({}))));
        check(json!({"function": "b"}), Err("`tool_id` is missing"));
        check(json!({"tool_id": 1}), Err("`tool_id` is not a text"));
        check(json!({"tool_id": "a", "function_name": "b"}), Err("`function_name` is not known there"));
        check(json!({"tool_id": "a", "args": [1]}), Err("`args` is not a mapping"));
        check(json!("a"), Err("`tool_layer_invoke` is not a mapping"));
    }
}
