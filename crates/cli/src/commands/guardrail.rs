//! `toolgate guardrail …`.

use serde_json::{Value, json};

use super::list;
use crate::args::GuardrailCommand;
use crate::client::Client;
use crate::failure::{Done, Failure};
use crate::input;
use crate::output::{Output, Paint, Table, clean, items_of, text_of};

pub async fn run(command: GuardrailCommand, client: &Client, output: &Output) -> Done {
    match command {
        GuardrailCommand::List(paging) => list::show(&["guardrails"], &[], paging, (client, output), table).await,
        GuardrailCommand::Set { file } => {
            let guardrail = input::read_document(&file)?;
            let Some(name) = guardrail["name"].as_str().map(str::to_owned) else {
                let told = format!("{} does not name the guardrail", file.display());
                return Err(Failure::usage(told, "write `name: …`"));
            };
            let kept = client.put(&["guardrails", &name], guardrail).await?;
            output.say(&kept, &format!("Guardrail {name} is set."))
        }
        GuardrailCommand::Rm { guardrail } => {
            let answer = client.delete(&["guardrails", &guardrail]).await?;
            output.say(&answer, &format!("Removed guardrail {guardrail}."))
        }
        GuardrailCommand::Test { file, value, tool } => {
            let guardrail = input::read_document(&file)?;
            let value = input::json_or_file(&value, "the value")?;
            let body = json!({"guardrail": guardrail, "value": value, "tool": tool});
            let finding = client.post(&["guardrails", "test"], body).await?;
            output.show(&finding, found)
        }
    }
}

fn table(page: &Value, paint: Paint) -> String {
    let mut table = Table::new(["ORDER", "NAME", "STAGE", "TOOLS", "DETECTOR", "ON MATCH"])
        .cuts("TOOLS")
        .drops(["STAGE", "DETECTOR"]);
    for view in items_of(page) {
        let kept = &view["guardrail"];
        if kept.is_null() {
            let why = format!("cannot be read, stops every call: {}", text_of(view, "broken"));
            table.row([String::new(), text_of(view, "name"), why, String::new(), String::new(), String::new()]);
            continue;
        }
        let tools = Some(text_of(kept, "tools")).filter(|tools| !tools.is_empty()).unwrap_or_else(|| "all".to_owned());
        let detector = &kept["detector"];
        let what = match text_of(detector, "kind").as_str() {
            "builtin" => text_of(detector, "name"),
            kind => format!("{kind} {}", text_of(detector, "name")),
        };
        let logged = if kept["log_only"] == true { ", only logged" } else { "" };
        table.row([
            text_of(kept, "order"),
            text_of(kept, "name"),
            text_of(kept, "stage"),
            tools,
            what,
            format!("{}{logged}", text_of(kept, "on_match")),
        ]);
    }
    table.render(paint, "No guardrails; make one with `toolgate guardrail set FILE`.")
}

fn found(finding: &Value, _: Paint) -> String {
    if finding["matched"] != true {
        return "It finds nothing.".to_owned();
    }
    let at = text_of(finding, "paths");
    let at = if at.is_empty() { at } else { format!(" at {at}") };
    clean(&format!("It matches: {}{at}.", text_of(finding, "reason")))
}
