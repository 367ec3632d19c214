//! `toolgate policy …`.

use std::path::Path;

use serde_json::{Value, json};
use toolgate_policy::cedar::{PolicyFinding, SOURCE_BYTES_MAX};

use super::{counted, list};
use crate::args::{PolicyCommand, TestPolicy};
use crate::client::Client;
use crate::failure::{Done, Exit};
use crate::input;
use crate::output::{Output, Paint, Table, clean, items_of, note, person_of, text_of, time_of};

pub async fn run(command: PolicyCommand, client: &Client, output: &Output) -> Done {
    match command {
        PolicyCommand::Show { revision } => {
            let shown = client.get(&["policies", &revision], &[]).await?;
            // The text alone, so that `> file` keeps exactly it.
            output.show(&shown, |shown, _| clean(text_of(shown, "source").trim_end()))?;
            let number = text_of(&shown, "revision");
            let active = if shown["active"] == true { ", which decides" } else { "" };
            note(&format!("This is revision {number}{active}."));
            Ok(Exit::Done)
        }
        PolicyCommand::List(paging) => list::show(&["policies"], &[], paging, (client, output), revisions).await,
        PolicyCommand::Check { file } => {
            let body = json!({"source": input::read_text(&file, SOURCE_BYTES_MAX)?});
            let checked = client.post(&["policies", "check"], body).await?;
            judged(&checked, &file, output, |checked| {
                let count = checked["policies"].as_array().map_or(0, Vec::len);
                format!("{}: {count} {} good.", file.display(), if count == 1 { "policy is" } else { "policies are" })
            })
        }
        PolicyCommand::Save { file, note, activate } => save(&file, note, activate, client, output).await,
        PolicyCommand::Activate { revision, expected } => {
            let body = json!({"expected_active": expected});
            let activated = client.post(&["policies", &revision, "activate"], body).await?;
            output.say(&activated, &format!("Revision {} decides.", text_of(&activated, "active")))
        }
        PolicyCommand::Test(wanted) => test(wanted, client, output).await,
    }
}

async fn save(file: &Path, note: Option<String>, activate: bool, client: &Client, output: &Output) -> Done {
    let source = input::read_text(file, SOURCE_BYTES_MAX)?;
    let mut saved = client.post(&["policies"], json!({"source": source, "note": note})).await?;
    let Some(number) = saved["saved"]["revision"].as_i64() else {
        return judged(&saved, file, output, |_| "Nothing is saved.".to_owned());
    };
    if activate {
        let activated = client.post(&["policies", &number.to_string(), "activate"], json!({})).await?;
        saved["active"] = activated["active"].clone();
    }
    judged(&saved, file, output, |_| {
        if activate {
            format!("Saved as revision {number}, which decides.")
        } else {
            format!("Saved as revision {number}; `toolgate policy activate {number}` lets it decide.")
        }
    })
}

/// Prints findings like a compiler, then one sentence; an error among them is a failure.
fn judged(answer: &Value, file: &Path, output: &Output, sentence: impl FnOnce(&Value) -> String) -> Done {
    let findings: Vec<PolicyFinding> = serde_json::from_value(answer["findings"].clone()).unwrap_or_default();
    let failed = findings.iter().any(|finding| finding.gravity == toolgate_policy::cedar::Gravity::Error);
    output.show(answer, |answer, _| {
        let mut lines: Vec<String> = findings.iter().map(|finding| finding.show(&file.display().to_string())).collect();
        lines.push(if failed { "Nothing is saved.".to_owned() } else { sentence(answer) });
        clean(&lines.join("\n"))
    })?;
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn revisions(page: &Value, paint: Paint) -> String {
    let mut table = Table::new(["REVISION", "SAVED", "BY", "ACTIVATED", "NOTE"]).drops(["ACTIVATED", "SAVED", "BY"]);
    for revision in items_of(page) {
        let active = if revision["active"] == true { " (decides)" } else { "" };
        table.row([
            format!("{}{active}", text_of(revision, "revision")),
            time_of(revision, "created_at"),
            person_of(revision, "saved_by"),
            time_of(revision, "activated_at"),
            text_of(revision, "note"),
        ]);
    }
    table.render(paint, "No revisions: the default set decides; see it with `toolgate policy show`.")
}

async fn test(wanted: TestPolicy, client: &Client, output: &Output) -> Done {
    let TestPolicy { policies, since, until, tool, agent } = wanted;
    let of_revision = matches!(policies.as_str(), "active" | "default") || policies.parse::<u32>().is_ok();
    let file = Path::new(&policies);
    let source = if of_revision { None } else { Some(input::read_text(file, SOURCE_BYTES_MAX)?) };
    let body = json!({
        "source": source, "revision": of_revision.then_some(&policies), "since": since.to_string(),
        "until": until.map(|until| until.to_string()), "tool": tool, "agent": agent,
    });
    let told = client.post(&["policies", "test"], body).await?;
    if told["ok"] == false {
        return judged(&told, file, output, |_| String::new());
    }
    output.show(&told, differences)
}

fn differences(told: &Value, paint: Paint) -> String {
    let count = |member: &str| text_of(told, member);
    let mut parts = vec![clean(&format!(
        "{}: {} newly denied, {} newly asked, {} newly allowed, {} unchanged, {} unknown.",
        counted(&told["calls"], "call"),
        count("newly_denied"),
        count("newly_asked"),
        count("newly_allowed"),
        count("unchanged"),
        count("unknown")
    ))];
    let rows = |member: &str| told[member].as_array().map(Vec::as_slice).unwrap_or_default();
    if !rows("changes").is_empty() {
        let mut table = Table::new(["NOW", "BEFORE", "CALLS", "TOOL", "AGENT", "POLICIES", "EXAMPLES"])
            .cuts("POLICIES")
            .drops(["EXAMPLES", "AGENT", "BEFORE"]);
        for row in rows("changes") {
            table.row(
                ["after", "before", "calls", "tool", "agent", "policies", "examples"]
                    .map(|member| text_of(row, member)),
            );
        }
        parts.push(table.render(paint, ""));
    }
    if !rows("unknowns").is_empty() {
        let mut table =
            Table::new(["UNKNOWN BECAUSE", "CALLS", "TOOL", "EXAMPLES"]).cuts("UNKNOWN BECAUSE").drops(["EXAMPLES"]);
        for row in rows("unknowns") {
            table.row(["why", "calls", "tool", "examples"].map(|member| text_of(row, member)));
        }
        parts.push(table.render(paint, ""));
    }
    if told["incomplete"] == true {
        parts.push("There were more calls; the newest were judged. Ask for a shorter time.".to_owned());
    }
    let notes = rows("notes").iter().filter_map(Value::as_str).map(|text| format!("- {text}"));
    parts.push(clean(&format!("To know:\n{}", notes.collect::<Vec<_>>().join("\n"))));
    parts.join("\n\n")
}
