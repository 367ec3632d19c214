//! `toolgate agent …`.

use serde_json::{Map, Value, json};

use super::list;
use crate::args::{AgentCommand, AgentFields};
use crate::client::Client;
use crate::failure::{Done, Failure};
use crate::input;
use crate::output::{Detail, Output, Paint, Table, clean, items_of, note, text_of};

/// What the server adds to an agent; its author does not write it.
const NOT_WRITTEN: [&str; 7] = ["id", "owner", "state", "revision", "tools", "effective_limits", "findings"];

pub async fn run(command: AgentCommand, client: &Client, output: &Output) -> Done {
    match command {
        AgentCommand::Create { file, name, fields } => {
            let mut spec = match file {
                Some(file) => input::read_document(&file)?,
                None => json!({}),
            };
            if let Some(name) = name {
                spec["name"] = name.into();
            }
            set_fields(&mut spec, fields)?;
            let agent = client.post(&["agents"], spec).await?;
            let done = output.say(&agent, &format!("Created agent {}.", text_of(&agent, "name")))?;
            warn(&agent);
            Ok(done)
        }
        AgentCommand::Update { agent, file, fields } => update(&agent, file, fields, client, output).await,
        AgentCommand::List(paging) => list::show(&["agents"], &[], paging, (client, output), table).await,
        AgentCommand::Show { agent, tools, why } => {
            let mut shown = client.get(&["agents", &agent], &[]).await?;
            if tools || why {
                let mut page = client.get(&["agents", &agent, "tools"], &[]).await?;
                if !why && let Some(items) = page["items"].as_array_mut() {
                    items.retain(|tool| tool["has"] == true);
                }
                shown["tools"] = page["items"].take();
            }
            output.show(&shown, |agent, paint| show(agent, why, paint))
        }
        AgentCommand::Run(new) => super::agent_run::start(new, client, output).await,
        AgentCommand::Delete { agent } => {
            let answer = client.delete(&["agents", &agent]).await?;
            output.say(&answer, &format!("Deleted agent {agent}."))
        }
        AgentCommand::Freeze { agent } => {
            let frozen = client.put(&["agents", &agent, "state"], json!({"state": "frozen"})).await?;
            output.say(&frozen, &format!("{agent} is frozen: it has no tools until `toolgate agent unfreeze {agent}`."))
        }
        AgentCommand::Unfreeze { agent } => {
            let active = client.put(&["agents", &agent, "state"], json!({"state": "active"})).await?;
            output.say(&active, &format!("{agent} is active."))
        }
    }
}

async fn update(
    agent: &str,
    file: Option<std::path::PathBuf>,
    fields: AgentFields,
    client: &Client,
    output: &Output,
) -> Done {
    let current = client.get(&["agents", agent], &[]).await?;
    let mut spec = match file {
        Some(file) => input::read_document(&file)?,
        None => current.clone(),
    };
    if let Some(members) = spec.as_object_mut() {
        // So that what `agent show --json` printed can be edited and sent back; a workspace in a file may be another one.
        members.retain(|name, member| {
            !NOT_WRITTEN.contains(&name.as_str()) && (name != "workspace" || *member != current["workspace"])
        });
        members.entry("name").or_insert_with(|| current["name"].clone());
    }
    set_fields(&mut spec, fields)?;
    // A name may be given as an id, and only the name is in the definition.
    let name = text_of(&current, "name");
    if spec["name"] != current["name"] {
        return Err(Failure::usage(
            format!("the file names the agent `{}`, not `{name}`", text_of(&spec, "name")),
            "an agent's name cannot change: create another one",
        ));
    }
    let updated = client.put(&["agents", &name], spec).await?;
    let done = output.say(&updated, &format!("Updated agent {name}, revision {}.", text_of(&updated, "revision")))?;
    warn(&updated);
    Ok(done)
}

/// What is worth saying of an agent that was kept all the same.
fn warn(agent: &Value) {
    for finding in agent["findings"].as_array().into_iter().flatten() {
        note(&format!("warning: {}; {}", text_of(finding, "message"), text_of(finding, "fix")));
    }
}

fn set_fields(spec: &mut Value, fields: AgentFields) -> Result<(), Failure> {
    let AgentFields { title, description, model, instructions, toolset, groups, tools, skills, profile, workspace } =
        fields;
    let instructions = instructions.as_deref().map(input::text_or_file).transpose()?;
    let texts = [
        ("title", title),
        ("description", description),
        ("model", model),
        ("instructions", instructions),
        ("toolset", toolset),
        ("profile", profile),
        ("workspace", workspace),
    ];
    let mut members: Map<String, Value> =
        texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into()))).collect();
    let lists = [("tool_groups", groups), ("custom_tools", tools), ("skills", skills)];
    members.extend(
        lists.into_iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| (name.to_owned(), list.into())),
    );
    if let Some(spec) = spec.as_object_mut() {
        spec.extend(members);
    }
    Ok(())
}

fn table(agents: &Value, paint: Paint) -> String {
    let mut table =
        Table::new(["NAME", "MODEL", "TOOLS", "STATE", "PROFILE", "TITLE"]).drops(["PROFILE", "MODEL", "TOOLS"]);
    for agent in items_of(agents) {
        table.row(["name", "model", "toolset", "state", "profile", "title"].map(|member| text_of(agent, member)));
    }
    table.render(paint, "No agents; create one with `toolgate agent create --name NAME`.")
}

fn show(agent: &Value, why: bool, paint: Paint) -> String {
    let title = text_of(agent, "title");
    let heading =
        if title.is_empty() { text_of(agent, "name") } else { format!("{} — {title}", text_of(agent, "name")) };
    Detail::new(paint, &heading)
        .about(&text_of(agent, "description"))
        .field("Id", text_of(agent, "id"))
        .field("State", format!("{}, revision {}", text_of(agent, "state"), text_of(agent, "revision")))
        .field("Model", text_of(agent, "model"))
        .field("Tool set", text_of(agent, "toolset"))
        .field("Groups", text_of(agent, "tool_groups"))
        .field("Tools", text_of(agent, "custom_tools"))
        .field("Skills", text_of(agent, "skills"))
        .field("Profile", text_of(agent, "profile"))
        .field("Limits", limits(&agent["effective_limits"]))
        .field("Owner", text_of(agent, "owner"))
        .field("Workspace", text_of(agent, "workspace"))
        .section("Instructions", &clean(&text_of(agent, "instructions")))
        .section(if why { "Tools, in or out, and why" } else { "Tools" }, &tools(agent, why, paint))
        .end()
}

fn limits(limits: &Value) -> String {
    let pairs = limits.as_object().into_iter().flatten().map(|(name, value)| match value {
        Value::String(text) => format!("{name} {text}"),
        other => format!("{name} {other}"),
    });
    pairs.collect::<Vec<_>>().join(", ")
}

fn tools(agent: &Value, why: bool, paint: Paint) -> String {
    let Some(tools) = agent["tools"].as_array() else { return String::new() };
    if why {
        let mut table = Table::new(["", "TOOL", "CLASS", "WHY"]).drops(["CLASS"]);
        for tool in tools {
            let has = if tool["has"] == true { "in" } else { "out" };
            table.row([has.to_owned(), text_of(tool, "name"), text_of(tool, "egress_class"), text_of(tool, "why")]);
        }
        return table.render(paint.narrower(2), "There are no tools.");
    }
    let mut table = Table::new(["TOOL", "VERSION", "CLASS"]);
    for tool in tools {
        table.row(["name", "version", "egress_class"].map(|member| text_of(tool, member)));
    }
    table.render(paint.narrower(2), "It has no tools; `--why` says why.")
}
