//! `toolgate label …`.

use serde_json::{Value, json};

use super::{counted, list};
use crate::args::LabelCommand;
use crate::client::Client;
use crate::failure::Done;
use crate::output::{Output, Paint, Table, clean, items_of, text_of, time_of};

pub async fn run(command: LabelCommand, client: &Client, output: &Output) -> Done {
    match command {
        LabelCommand::Contexts(paging) => {
            list::show(&["labels", "contexts"], &[], paging, (client, output), contexts).await
        }
        LabelCommand::Reset { context } => {
            let reset = client.post(&["labels", "reset"], json!({"context": context})).await?;
            output.say(&reset, &format!("Forgotten: {} had seen {} data.", context, text_of(&reset, "labels")))
        }
        LabelCommand::Accept { tool, host, labels, reason } => {
            let body = json!({"tool": tool, "host": host, "accepts": labels, "reason": reason});
            let kept = client.post(&["labels", "acceptances"], body).await?;
            let to = host.map(|host| format!(" to {host}")).unwrap_or_default();
            let (tool, accepts) = (text_of(&kept, "tool"), text_of(&kept, "accepts"));
            output.say(&kept, &format!("{tool}{to} accepts {accepts} data, as {}.", text_of(&kept, "id")))
        }
        LabelCommand::Acceptances(paging) => {
            list::show(&["labels", "acceptances"], &[], paging, (client, output), acceptances).await
        }
        LabelCommand::Withdraw { acceptance } => {
            let answer = client.delete(&["labels", "acceptances", &acceptance]).await?;
            output.say(&answer, &format!("Withdrew {acceptance}."))
        }
        LabelCommand::Asks { since } => {
            let since = since.to_string();
            let asks = client.get(&["labels", "asks"], &[("since", Some(since))]).await?;
            output.show(&asks, shown)
        }
    }
}

fn contexts(page: &Value, paint: Paint) -> String {
    let mut table =
        Table::new(["LABELS", "FROM", "UNTIL", "AGENT", "CONTEXT"]).cuts("FROM").drops(["UNTIL", "FROM", "AGENT"]);
    for context in items_of(page) {
        table.row([
            text_of(context, "labels"),
            origins(&context["origins"]),
            time_of(context, "forgotten_at"),
            text_of(context, "agent"),
            text_of(context, "context"),
        ]);
    }
    table.render(paint, "Nobody has seen anything that is labelled.")
}

/// `http_get, mail_read and others`.
pub fn origins(origins: &Value) -> String {
    let others = if origins["others"] == true { " and others" } else { "" };
    format!("{}{others}", text_of(origins, "names"))
}

fn acceptances(page: &Value, paint: Paint) -> String {
    let mut table = Table::new(["TOOL", "HOST", "ACCEPTS", "ID"]).cuts("ACCEPTS").drops(["ACCEPTS"]);
    for kept in items_of(page) {
        let host = Some(text_of(kept, "host")).filter(|host| !host.is_empty()).unwrap_or_else(|| "any".to_owned());
        table.row([text_of(kept, "tool"), host, text_of(kept, "accepts"), text_of(kept, "id")]);
    }
    table.render(paint, "Nothing is accepted; see `toolgate label accept --help`.")
}

fn shown(asks: &Value, paint: Paint) -> String {
    let number = |member: &str| text_of(asks, member);
    let mut parts = vec![clean(&format!(
        "{} in {} since {}: {} of 100 calls.",
        counted(&asks["asks"], "ask"),
        counted(&asks["calls"], "call"),
        time_of(asks, "since"),
        number("per_100_calls")
    ))];
    let rows = |member: &str| asks[member].as_array().map(Vec::as_slice).unwrap_or_default();
    if !rows("by_rule").is_empty() {
        let mut table = Table::new(["REASON", "BY", "ASKS", "PER 100 CALLS"]).cuts("BY").drops(["PER 100 CALLS"]);
        for row in rows("by_rule") {
            table.row(["code", "by", "asks", "per_100_calls"].map(|member| text_of(row, member)));
        }
        parts.push(table.render(paint, ""));
        let mut table = Table::new(["TOOL", "CALLS", "ASKS", "PER 100 CALLS"]).cuts("TOOL").drops(["PER 100 CALLS"]);
        for row in rows("by_tool") {
            table.row(["tool", "calls", "asks", "per_100_calls"].map(|member| text_of(row, member)));
        }
        parts.push(table.render(paint, ""));
    }
    let hints: Vec<String> =
        rows("hints").iter().map(|hint| clean(&format!("Hint: {}.", text_of(hint, "text")))).collect();
    if !hints.is_empty() {
        parts.push(hints.join("\n"));
    }
    parts.join("\n\n")
}
