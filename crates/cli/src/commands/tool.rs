//! `toolgate tool …`: dispatch, and what changes a tool.

use serde_json::{Map, Value, json};

use super::{register, search, tool_list, tool_show};
use crate::args::{OverrideCommand, StateChange, ToolCommand};
use crate::client::Client;
use crate::failure::{Done, Failure};
use crate::input;
use crate::output::{Output, text_of};

pub async fn run(command: ToolCommand, client: &Client, output: &Output) -> Done {
    match command {
        ToolCommand::List(list) => tool_list::run(list, client, output).await,
        ToolCommand::Show { name, form, all } => tool_show::run(&name, form, all, client, output).await,
        ToolCommand::Search { query, limit } => {
            search::run(client, output, &query, Some("tool".to_owned()), limit).await
        }
        ToolCommand::Categories => tool_list::categories(client, output).await,
        ToolCommand::Test { path } => super::tool_test::run(&path, output),
        ToolCommand::Register { file, apply } => register::run(&file, apply, client, output).await,
        ToolCommand::Enable(switch) => set_enabled(&switch.name, true, switch.everyone, client, output).await,
        ToolCommand::Disable(switch) => set_enabled(&switch.name, false, switch.everyone, client, output).await,
        ToolCommand::Activate { name } => {
            let change = StateChange { name, message: None, remove_by: None, replaced_by: None };
            set_state(change, "active", client, output).await
        }
        ToolCommand::Deprecate(change) => set_state(change, "deprecated", client, output).await,
        ToolCommand::Block(change) => set_state(change, "blocked", client, output).await,
        ToolCommand::Override(OverrideCommand::Set { name, changes, file }) => {
            let patch = match file {
                Some(file) => input::read_document(&file)?,
                None => patch(&changes)?,
            };
            let tool = client.put(&["tools", &name, "override"], patch).await?;
            output.say(&tool, &format!("{} is overridden in this tenant.", text_of(&tool, "name")))
        }
        ToolCommand::Override(OverrideCommand::Clear { name }) => {
            let tool = client.delete(&["tools", &name, "override"]).await?;
            output.say(&tool, &format!("{} has no override in this tenant.", text_of(&tool, "name")))
        }
        ToolCommand::Delete { name } => {
            let answer = client.delete(&["tools", &name]).await?;
            output.say(&answer, &format!("Deleted {name}."))
        }
        ToolCommand::Assign { tool, agent, profile } => {
            let answer = client.put(&["agents", &agent, "tools", &tool], json!({"profile": profile})).await?;
            let under = profile.map(|profile| format!(" under profile {profile}")).unwrap_or_default();
            output.say(&answer, &format!("{agent} has {tool}{under}."))
        }
        ToolCommand::Revoke { tool, agent } => {
            let answer = client.delete(&["agents", &agent, "tools", &tool]).await?;
            output.say(&answer, &format!("{tool} is no longer assigned to {agent}."))
        }
        ToolCommand::Versions { name } => tool_show::versions(&name, client, output).await,
        ToolCommand::Diff { name, from, to } => tool_show::diff(&name, from, to, client, output).await,
    }
}

async fn set_enabled(name: &str, enabled: bool, everyone: bool, client: &Client, output: &Output) -> Done {
    let tool = client.put(&["tools", name, "enabled"], json!({"enabled": enabled, "everyone": everyone})).await?;
    let state = if enabled { "enabled" } else { "disabled" };
    let reach = if everyone { "for every tenant that has not said otherwise" } else { "in this tenant" };
    output.say(&tool, &format!("{} is {state} {reach}.", text_of(&tool, "name")))
}

async fn set_state(change: StateChange, state: &str, client: &Client, output: &Output) -> Done {
    let StateChange { name, message, remove_by, replaced_by } = change;
    let body = json!({"state": state, "message": message, "remove_by": remove_by, "replaced_by": replaced_by});
    let tool = client.put(&["tools", &name, "state"], body).await?;
    output.say(&tool, &format!("{name} is {state}."))
}

/// Members whose value is a word even when it looks like a number or a list.
const TEXTS: [&str; 6] = ["name", "title", "permission_policy", "risk", "visibility", "required_permission"];

/// `KEY=VALUE …` as the override's JSON; `a.b=c` sets a member inside.
fn patch(changes: &[String]) -> Result<Value, Failure> {
    let mut patch = Map::new();
    for change in changes {
        let Some((key, text)) = change.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(Failure::usage(format!("`{change}` is not KEY=VALUE"), "write for example risk=critical"));
        };
        let value = value(key, text);
        match key.split_once('.') {
            None => drop(patch.insert(key.to_owned(), value)),
            Some((outer, inner)) => {
                let members = patch.entry(outer).or_insert_with(|| json!({}));
                members[inner] = value;
            }
        }
    }
    Ok(Value::Object(patch))
}

fn value(key: &str, text: &str) -> Value {
    let parsed = || serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    match key {
        _ if TEXTS.contains(&key) => Value::from(text),
        "hosts" if !text.starts_with('[') => text.split(',').map(str::trim).filter(|host| !host.is_empty()).collect(),
        _ => parsed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_become_the_members_of_an_override() {
        let changes = [
            "title=12",
            "requires_approval=true",
            "timeout_ms=500",
            "hosts=a.test, b.test",
            "hitl.mode=blocking",
            "hitl.timeout_s=60",
        ];
        let patch = patch(&changes.map(str::to_owned)).unwrap();
        assert_eq!(
            patch,
            json!({"title": "12", "requires_approval": true, "timeout_ms": 500, "hosts": ["a.test", "b.test"], "hitl": {"mode": "blocking", "timeout_s": 60}})
        );
    }

    #[test]
    fn what_is_no_change_is_refused() {
        for change in ["risk", "=x", ""] {
            assert!(patch(&[change.to_owned()]).is_err(), "{change}");
        }
    }
}
