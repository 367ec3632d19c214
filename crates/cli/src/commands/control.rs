//! `toolgate limits …`, `toolgate killswitch …`, `toolgate usage`, `toolgate tool classify`.

use serde_json::{Map, Value, json};
use toolgate_contracts::FoldedName;

use super::list;
use crate::args::{Classify, KillTarget, KillswitchCommand, LimitsCommand, SetLimits, Usage, UsageFormat};
use crate::client::{Client, Parameter};
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Detail, Output, Paint, Table, clean, items_of, person_of, print, text_of, time_of};

pub async fn limits(command: LimitsCommand, client: &Client, output: &Output) -> Done {
    match command {
        LimitsCommand::Show => {
            let limits = client.get(&["limits"], &[]).await?;
            output.show(&limits, shown)
        }
        LimitsCommand::Set(set) => {
            let limits = if let Some(file) = &set.file {
                input::read_document(file)?
            } else {
                let mut limits = client.get(&["limits"], &[]).await?.as_object().cloned().unwrap_or_default();
                apply(&mut limits, *set)?;
                Value::Object(limits)
            };
            let limits = client.put(&["limits"], limits).await?;
            output.show(&limits, shown)
        }
        LimitsCommand::Clear => {
            let limits = client.put(&["limits"], json!({})).await?;
            output.say(&limits, "This tenant has no limits of its own.")
        }
    }
}

fn apply(limits: &mut Map<String, Value>, set: SetLimits) -> Result<(), Failure> {
    let SetLimits {
        file: _,
        rate,
        agent_rate,
        budget,
        max_parallel,
        max_iterations,
        max_tool_calls,
        max_tokens,
        max_wall_s,
        max_depth,
        max_output_bytes,
        side_effects,
        tool,
        tool_rate,
        tool_budget,
    } = set;
    change(limits, "rate_limit", rate.as_deref().map(rate_limit))?;
    change(limits, "agent_rate_limit", agent_rate.as_deref().map(rate_limit))?;
    change(limits, "max_budget", budget.map(|amount| Ok(Value::from(amount))))?;
    change(limits, "max_parallel", max_parallel.as_deref().map(number))?;
    for (name, most) in [
        ("max_iterations", max_iterations),
        ("max_tool_calls", max_tool_calls),
        ("max_tokens", max_tokens),
        ("max_wall_s", max_wall_s),
        ("max_depth", max_depth),
        ("max_output_bytes", max_output_bytes),
    ] {
        change(limits, name, most.as_deref().map(number))?;
    }
    // `none` is a ceiling of its own.
    match side_effects.as_deref() {
        None => {}
        Some("any") => drop(limits.shift_remove("side_effects")),
        Some(ceiling) => drop(limits.insert("side_effects".to_owned(), ceiling.into())),
    }
    let Some(name) = tool else { return Ok(()) };
    if tool_rate.is_none() && tool_budget.is_none() {
        let told = format!("what `{name}` shall be limited to is not said");
        return Err(Failure::usage(told, "add --tool-rate or --tool-budget"));
    }
    let mut tools = limits.get("tools").and_then(Value::as_object).cloned().unwrap_or_default();
    // In whatever spelling it was named.
    let known = tools.keys().find(|known| FoldedName::of(known) == FoldedName::of(&name)).cloned();
    let name = known.unwrap_or(name);
    let mut of_tool = tools.get(&name).and_then(Value::as_object).cloned().unwrap_or_default();
    change(&mut of_tool, "rate_limit", tool_rate.as_deref().map(rate_limit))?;
    change(&mut of_tool, "max_budget", tool_budget.map(|amount| Ok(Value::from(amount))))?;
    if of_tool.is_empty() {
        tools.shift_remove(&name);
    } else {
        tools.insert(name, Value::Object(of_tool));
    }
    limits.insert("tools".to_owned(), Value::Object(tools));
    Ok(())
}

/// Sets a member that was named; `none` takes it away.
fn change(members: &mut Map<String, Value>, name: &str, value: Option<Result<Value, Failure>>) -> Result<(), Failure> {
    match value.transpose()? {
        None => {}
        Some(value) if value.is_null() || value == "none" => drop(members.shift_remove(name)),
        Some(value) => drop(members.insert(name.to_owned(), value)),
    }
    Ok(())
}

fn rate_limit(text: &str) -> Result<Value, Failure> {
    if text == "none" {
        return Ok(Value::Null);
    }
    let parts = text.split_once('/').and_then(|(count, per_s)| {
        let (count, per_s): (u32, u32) = (count.trim().parse().ok()?, per_s.trim().parse().ok()?);
        Some(json!({"count": count, "per_s": per_s}))
    });
    parts.ok_or_else(|| Failure::usage(format!("`{text}` is not a rate"), "write COUNT/SECONDS, as in 100/60, or none"))
}

fn number(text: &str) -> Result<Value, Failure> {
    if text == "none" {
        return Ok(Value::Null);
    }
    let number: Option<u64> = text.parse().ok();
    number.map(Value::from).ok_or_else(|| Failure::usage(format!("`{text}` is not a number"), "write one, or none"))
}

fn shown(limits: &Value, paint: Paint) -> String {
    if limits.as_object().is_some_and(Map::is_empty) {
        return "This tenant has no limits of its own; set some with `toolgate limits set`.".to_owned();
    }
    let mut table = Table::new(["TOOL", "RATE", "BUDGET"]);
    for (name, limit) in limits["tools"].as_object().into_iter().flatten() {
        table.row([name.clone(), rate(&limit["rate_limit"]), text_of(limit, "max_budget")]);
    }
    let tools = if limits["tools"].is_object() { table.render(paint.narrower(2), "") } else { String::new() };
    Detail::new(paint, "Limits of this tenant")
        .field("Rate", rate(&limits["rate_limit"]))
        .field("Each agent", rate(&limits["agent_rate_limit"]))
        .field("Budget", with_period(&text_of(limits, "max_budget")))
        .field("At once", text_of(limits, "max_parallel"))
        .field("Effects", text_of(limits, "side_effects"))
        .field("Output", with_unit(limits, "max_output_bytes", "bytes a call"))
        .field("Each run", of_runs(limits))
        .section("Tools", &tools)
        .end()
}

fn of_runs(limits: &Value) -> String {
    let parts = [
        ("max_iterations", "questions"),
        ("max_tool_calls", "calls"),
        ("max_tokens", "tokens"),
        ("max_wall_s", "s"),
        ("max_depth", "runs deep"),
    ];
    let words = parts.iter().map(|(name, unit)| with_unit(limits, name, unit));
    words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ")
}

fn with_unit(limits: &Value, name: &str, unit: &str) -> String {
    let most = text_of(limits, name);
    if most.is_empty() { most } else { format!("{most} {unit}") }
}

fn with_period(amount: &str) -> String {
    if amount.is_empty() { String::new() } else { format!("{amount} a month") }
}

fn rate(limit: &Value) -> String {
    match (limit["count"].as_u64(), limit["per_s"].as_u64()) {
        (Some(count), Some(per_s)) => format!("{count} in {per_s} s"),
        _ => String::new(),
    }
}

pub async fn killswitch(command: KillswitchCommand, client: &Client, output: &Output) -> Done {
    match command {
        KillswitchCommand::List(paging) => {
            list::show(&["kill-switches"], &[], paging, (client, output), |switches, paint| {
                let mut table = Table::new(["SCOPE", "NAME", "SINCE", "BY", "REASON"]).drops(["SINCE", "BY"]);
                for switch in items_of(switches) {
                    let by =
                        if switch["everyone"] == true { "operator".to_owned() } else { person_of(switch, "set_by") };
                    let since = time_of(switch, "set_at");
                    table.row([
                        text_of(switch, "scope"),
                        text_of(switch, "name"),
                        since,
                        by,
                        text_of(switch, "reason"),
                    ]);
                }
                table.render(paint, "Nothing is stopped.")
            })
            .await
        }
        KillswitchCommand::On { target, reason } => switch(target, true, Some(reason), client, output).await,
        KillswitchCommand::Off { target, reason } => switch(target, false, reason, client, output).await,
    }
}

async fn switch(target: KillTarget, on: bool, reason: Option<String>, client: &Client, output: &Output) -> Done {
    let (scope, name) = match target {
        KillTarget { agent: Some(agent), .. } => ("agent", Some(agent)),
        KillTarget { tool: Some(tool), .. } => ("tool", Some(tool)),
        KillTarget { .. } => ("tenant", None),
    };
    let body = json!({"scope": scope, "name": name, "on": on, "reason": reason});
    let answer = client.put(&["kill-switches"], body).await?;
    let state = if on { "is stopped: no new call runs" } else { "goes on" };
    output.say(&answer, &format!("The {scope} {} {state}.", text_of(&answer, "name")))
}

pub async fn classify(command: Classify, client: &Client, output: &Output) -> Done {
    let Classify { name, class, reason, changes_state, clear, of } = command;
    if clear {
        let tool = client.delete_with(&["tools", &name, "classification"], &[("tenant", of)]).await?;
        let class = text_of(&tool, "egress_class");
        return output
            .say(&tool, &format!("{} has the class of its definition again: {class}.", text_of(&tool, "name")));
    }
    let body = json!({"egress_class": class, "changes_state": changes_state, "reason": reason, "tenant": of});
    let tool = client.put(&["tools", &name, "classification"], body).await?;
    let asks = if tool["requires_approval"] == true { "a call asks a person" } else { "a call asks nobody" };
    let (name, class) = (text_of(&tool, "name"), text_of(&tool, "egress_class"));
    output.say(&tool, &format!("{name} is {class}; {asks}."))
}

pub async fn usage(usage: Usage, client: &Client, output: &Output) -> Done {
    let Usage { from, to, by, agent, tool, format, paging } = usage;
    let heading = match by.as_str() {
        "agent" => "AGENT",
        "day" => "DAY",
        "tenant" => "TENANT",
        _ => "TOOL",
    };
    let mut query: Vec<Parameter<'_>> =
        vec![("from", from), ("to", to), ("by", Some(by)), ("agent", agent), ("tool", tool)];
    match format {
        UsageFormat::Csv if !output.is_json() => {
            query.push(("format", Some("csv".to_owned())));
            print(&clean(&client.text(&["usage"], &query).await?.replace("\r\n", "\n")))?;
            Ok(Exit::Done)
        }
        UsageFormat::Json => {
            let page = client.list(&["usage"], &query, paging.limit).await?;
            output.json(&page)?;
            Ok(Exit::Done)
        }
        UsageFormat::Table | UsageFormat::Csv => {
            list::show(&["usage"], &query, paging, (client, output), |usage, paint| table(usage, heading, paint)).await
        }
    }
}

fn table(usage: &Value, heading: &'static str, paint: Paint) -> String {
    let mut table = Table::new([
        heading,
        "CALLS",
        "FAILED",
        "CACHED",
        "SECONDS",
        "UNITS",
        "QUESTIONS",
        "TOKENS",
        "COST",
        "REPORTED",
    ])
    .cuts(heading)
    .drops(["UNITS", "CACHED", "REPORTED", "SECONDS", "TOKENS"]);
    let mut unpriced = 0;
    for row in items_of(usage) {
        let key = text_of(row, "key");
        let key = match row["unnamed"].as_str() {
            None => key,
            Some("models") => "(questions to models)".to_owned(),
            Some("hidden") => "(tools that you may not know)".to_owned(),
            Some(_) => "(no agent)".to_owned(),
        };
        let money = |member: &str| format!("{} {}", text_of(row, member), text_of(row, "currency"));
        unpriced += row["unpriced"].as_u64().unwrap_or_default();
        let cost = match super::run::cost_of(row).as_str() {
            "unknown" => "unknown".to_owned(),
            known => format!("{known} {}", text_of(row, "currency")),
        };
        let ms = row["duration_ms"].as_i64().unwrap_or_default();
        table.row([
            key,
            text_of(row, "calls"),
            text_of(row, "failed"),
            text_of(row, "cached"),
            format!("{}.{:03}", ms / 1000, ms % 1000),
            text_of(row, "units"),
            text_of(row, "questions"),
            (row["input_tokens"].as_i64().unwrap_or_default() + row["output_tokens"].as_i64().unwrap_or_default())
                .to_string(),
            cost,
            money("reported_cost"),
        ]);
    }
    let table = table.render(paint, "Nothing was used in that time.");
    if unpriced == 0 {
        return table;
    }
    let questions = if unpriced == 1 { "1 question was" } else { &format!("{unpriced} questions were") };
    format!("{table}\n\n{questions} to models without a price; write one with `toolgate provider prices`.")
}
