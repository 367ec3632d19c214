//! `toolgate tool …`: dispatch, and what changes a tool.

use serde_json::{Value, json};

use super::{approvals, calls, control, preflight, register, search, tool_list, tool_override, tool_show};
use crate::args::{Approve, Reject, StateChange, ToolCommand};
use crate::client::Client;
use crate::failure::Done;
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
        ToolCommand::Classify(command) => control::classify(command, client, output).await,
        ToolCommand::Override(command) => tool_override::run(command, client, output).await,
        ToolCommand::Delete { name } => {
            let answer = client.delete(&["tools", &name]).await?;
            output.say(&answer, &format!("Deleted {name}."))
        }
        ToolCommand::Assign { tool, agent, profile } => assign(&tool, &agent, profile, client, output).await,
        ToolCommand::Revoke { tool, agent } => {
            let answer = client.delete(&["agents", &agent, "tools", &tool]).await?;
            output.say(&answer, &format!("{tool} is no longer assigned to {agent}."))
        }
        ToolCommand::Approve { id, input, reason, standing } => {
            let approve = Approve { ids: vec![id], input, reason, standing, wait: 30 };
            approvals::approve(approve, client, output).await
        }
        ToolCommand::Reject { id, reason } => approvals::reject(Reject { ids: vec![id], reason }, client, output).await,
        ToolCommand::Preflight { name } => preflight::run(&name, client, output).await,
        ToolCommand::Invocations(wanted) => calls::invocations(wanted, client, output).await,
        ToolCommand::Versions { name, paging } => tool_show::versions(&name, paging, client, output).await,
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
    let reach = if tool["shared"] == true { " for every tenant (a shared tool)" } else { "" };
    output.say(&tool, &format!("{name} is {state}{reach}.{}", changed(&name, &tool["changed_versions"])))
}

/// Which versions a change was about, where its name did not say.
fn changed(name: &str, versions: &Value) -> String {
    let Some(versions) = versions.as_array().filter(|_| !name.contains('@')) else { return String::new() };
    let words: Vec<_> = versions.iter().filter_map(Value::as_str).collect();
    match words.as_slice() {
        [] => " No version changed.".to_owned(),
        [one] => format!(" Version: {one}."),
        many => format!(" Versions: {}.", many.join(", ")),
    }
}

async fn assign(tool: &str, agent: &str, profile: Option<String>, client: &Client, output: &Output) -> Done {
    let answer = client.put(&["agents", agent, "tools", tool], json!({"profile": profile})).await?;
    let under = profile.map(|profile| format!(" under profile {profile}")).unwrap_or_default();
    let sentence = match standing(tool, agent, client).await {
        Some(standing) if standing["has"] == true => format!("{agent} has {tool}{under}."),
        Some(standing) => {
            let why = text_of(&standing, "why");
            format!("{tool} is assigned to {agent}{under}, but {agent} does not have it: {why}.")
        }
        None => format!("{tool} is assigned to {agent}{under}."),
    };
    output.say(&answer, &sentence)
}

/// Whether the agent has a tool, and why. Who may assign need not be allowed to read: then nothing is known.
async fn standing(tool: &str, agent: &str, client: &Client) -> Option<Value> {
    // It may have been named by another spelling, an alias or an id.
    let named = client.get(&["tools", tool], &[("all", Some("true".to_owned()))]).await.ok();
    let name = named.map_or_else(|| tool.to_owned(), |named| text_of(&named, "name"));
    let mut tools = client.get(&["agents", agent, "tools"], &[]).await.ok()?;
    let found = tools["items"].as_array_mut()?.iter_mut().find(|item| item["name"] == name)?;
    Some(found.take())
}
