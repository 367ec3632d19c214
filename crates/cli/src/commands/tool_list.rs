//! `toolgate tool list` in its three forms, and the categories.

use serde_json::Value;

use super::{list, profile};
use crate::args::{Filters, List};
use crate::client::Client;
use crate::failure::{Done, Failure};
use crate::output::{Output, Paint, Table, items_of, person_of, text_of, time_of};

pub async fn run(asked: List, client: &Client, output: &Output) -> Done {
    let List { registry: _, assignments, profiles, agent, filters, all, paging } = asked;
    if profiles {
        return profile::list(paging, client, output).await;
    }
    if assignments {
        return list::show(&["assignments"], &[("agent", agent)], paging, (client, output), assignments_table).await;
    }
    let every = agent.is_none();
    let Filters { category, risk, class, state, origin, tool_type, group, tag } = filters;
    let parameters = [
        ("agent", agent),
        ("category", category),
        ("risk", risk),
        ("class", class),
        ("state", state),
        ("origin", origin),
        ("type", tool_type),
        ("group", group),
        ("tag", tag),
        ("all", all.then(|| "true".to_owned())),
        // What is stopped for now is there, and runs again. An agent's set is what it may call.
        ("stopped", every.then(|| "true".to_owned())),
    ];
    list::show(&["tools"], &parameters, paging, (client, output), |tools, paint| tools_table(tools, all, paint)).await
}

pub fn tools_table(tools: &Value, all: bool, paint: Paint) -> String {
    let nothing = "No tools here; register one with `toolgate tool register --file TOOL.md --apply`, or see those that are switched off with --all.";
    let members = ["name", "version", "egress_class", "risk", "category"];
    let is_stopped = |tool: &Value| tool["stopped"].is_string();
    if all || items_of(tools).iter().any(is_stopped) {
        let mut table = Table::new(["NAME", "VERSION", "CLASS", "RISK", "CATEGORY", "STATE", "DESCRIPTION"])
            .drops(["VERSION", "CATEGORY", "RISK", "CLASS"]);
        for tool in items_of(tools) {
            let [name, version, class, risk, category] = members.map(|member| text_of(tool, member));
            let off = match (&tool["enabled"], &tool["stopped"]) {
                (Value::Bool(false), _) => ", off",
                (_, Value::String(why)) if why.contains("kill switch") => ", stopped by the kill switch",
                (_, Value::String(_)) => ", stopped",
                _ => "",
            };
            table.row([
                name,
                version,
                class,
                risk,
                category,
                format!("{}{off}", text_of(tool, "state")),
                text_of(tool, "description"),
            ]);
        }
        return table.render(paint, nothing);
    }
    let mut table = Table::new(["NAME", "VERSION", "CLASS", "RISK", "CATEGORY", "DESCRIPTION"])
        .drops(["VERSION", "CATEGORY", "RISK"]);
    for tool in items_of(tools) {
        let [name, version, class, risk, category] = members.map(|member| text_of(tool, member));
        table.row([name, version, class, risk, category, text_of(tool, "description")]);
    }
    table.render(paint, nothing)
}

fn assignments_table(rows: &Value, paint: Paint) -> String {
    let mut table = Table::new(["AGENT", "TOOL", "PROFILE", "SINCE", "BY"]).drops(["SINCE", "BY"]);
    for row in items_of(rows) {
        table.row([
            text_of(row, "agent"),
            text_of(row, "tool"),
            text_of(row, "profile"),
            time_of(row, "created_at"),
            person_of(row, "created_by"),
        ]);
    }
    table.render(paint, "No assignments; make one with `toolgate tool assign --tool T --agent A`.")
}

pub async fn categories(client: &Client, output: &Output) -> Done {
    let categories = client.get(&["categories"], &[]).await?;
    output.show(&categories, |categories, paint| {
        let mut table = Table::new(["CATEGORY", "TOOLS"]);
        for category in items_of(categories) {
            table.row([text_of(category, "path"), text_of(category, "tools")]);
        }
        table.render(paint, "No categories.")
    })
}

/// The functions of a namespace, where the name alone is no tool.
pub async fn namespace(name: &str, all: bool, client: &Client) -> Result<Option<Value>, Failure> {
    if name.contains(['.', '@']) {
        return Ok(None);
    }
    let parameters = [("all", all.then(|| "true".to_owned()))];
    let mut tools = client.list(&["tools"], &parameters, u32::MAX).await?;
    let prefix = format!("{name}.");
    if let Some(items) = tools["items"].as_array_mut() {
        items.retain(|tool| tool["name"].as_str().is_some_and(|name| name.starts_with(&prefix)));
    }
    Ok(Some(tools).filter(|tools| !items_of(tools).is_empty()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stopped_tool_is_listed_with_what_stops_it() {
        let tool = |name: &str, stopped: Value| {
            json!({
                "name": name, "version": "1.0.0", "egress_class": "none", "risk": "safe", "category": "text",
                "state": "active", "enabled": true, "stopped": stopped, "description": "Does it.",
            })
        };
        let shown = |tools: Value| tools_table(&json!({"items": tools}), false, Paint::PLAIN);
        let plain = shown(json!([tool("echo", Value::Null)]));
        assert!(plain.contains("echo") && !plain.contains("STATE"), "{plain}");
        let stopped = json!("everything is stopped by a kill switch: leaks");
        let listed = shown(json!([tool("echo", stopped), tool("now", Value::Null)]));
        assert!(listed.contains("active, stopped by the kill switch"), "{listed}");
        assert_eq!(listed.matches("stopped by the kill switch").count(), 1, "{listed}");
        let frozen = shown(json!([tool("echo", json!("the agent `bob` is frozen"))]));
        assert!(frozen.contains("active, stopped"), "{frozen}");
    }
}
