//! `toolgate replay`: a run gone through again from its bundle, without a server, and where it parts from what was recorded.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use toolgate_agents::replay::{BUNDLE_BYTES_MAX, Change, Difference, Read, Replayed, replay};
use toolgate_contracts::json::SCHEMA_BYTES_MAX;
use toolgate_ledger::VerifierKey;
use toolgate_policy::cedar::SOURCE_BYTES_MAX;
use toolgate_registry::tool_md::{self, FILE_BYTES_MAX};

use super::counted_of;
use crate::args::Replay;
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, Paint, clean, print};

/// `toolgate run export`.
pub async fn export(run: &str, to: Option<&Path>, client: &Client, output: &Output) -> Done {
    let text = client.bytes(&["runs", run, "bundle"]).await?;
    let read = Read::from_text(&text)?;
    let Some(to) = to else {
        print(&String::from_utf8_lossy(&text))?;
        return Ok(Exit::Done);
    };
    let unwritten =
        |error: &std::io::Error| Failure::failed(format!("{}: {}", to.display(), input::reason(error)), "name another");
    let mut options = std::fs::OpenOptions::new();
    // What agents were told is nobody else's.
    let file = options.write(true).create_new(true).mode(0o600).open(to);
    file.and_then(|mut file| file.write_all(&text).and_then(|()| file.write_all(b"\n")))
        .map_err(|error| unwritten(&error))?;
    let value = json!({"file": to.display().to_string(), "run": run, "bytes": text.len(), "digest": read.digest});
    let (turns, calls) = (read.bundle.turns.len(), read.bundle.calls.len());
    let told = format!(
        "Wrote {} ({}, {}). Replay it with `toolgate replay {}`.",
        to.display(),
        counted_of(turns, "question"),
        counted_of(calls, "call"),
        to.display()
    );
    output.say(&value, &told)
}

pub fn run(wanted: &Replay, output: &Output) -> Done {
    let Replay { file, policy, tools, script, verifiers } = wanted;
    let shown = file.display().to_string();
    let read = Read::from_text(&input::read_file(file, BUNDLE_BYTES_MAX)?)
        .map_err(|fault| Failure::from(fault).about(shown.clone()))?;
    let believed: Vec<VerifierKey> = verifiers.iter().map(|key| key_of(key)).collect::<Result<_, Failure>>()?;
    let key = read.signed_by(&believed).map_err(|fault| Failure::from(fault).about(shown))?;
    let change = Change {
        policies: policy.as_deref().map(policies_of).transpose()?,
        tools: tools.iter().map(|file| definition_of(file)).collect::<Result<_, Failure>>()?,
        script: script.as_deref().map(script_of).transpose()?,
    };
    let replayed = replay(&read.bundle, &change);
    let mut value = serde_json::to_value(&replayed).map_err(toolgate_contracts::Fault::internal)?;
    value["signed_by"] = json!(key.to_string());
    value["believed"] = json!(!believed.is_empty());
    output.show(&value, |_, paint| told(&replayed, &key, !believed.is_empty(), paint))?;
    Ok(if replayed.equal { Exit::Done } else { Exit::Failed })
}

fn told(replayed: &Replayed, key: &VerifierKey, is_believed: bool, paint: Paint) -> String {
    let mut lines = Vec::new();
    let compared = format!(
        "{}, {}, {} and the outputs",
        counted_of(replayed.turns as usize, "question"),
        counted_of(replayed.calls as usize, "call"),
        counted_of(replayed.decisions as usize, "decision")
    );
    match replayed.differences.split_first() {
        None => lines.push(format!("{}: {compared} are what was recorded.", paint.green("Equal"))),
        Some((first, others)) => {
            lines.push(format!("{}: {}.", paint.red("Different"), clean(&first.told)));
            lines.extend(values(first));
            if !others.is_empty() {
                lines.push(format!("And {}:", counted_of(others.len(), "more difference")));
                lines.extend(others.iter().map(|other| format!("  {}: {}", clean(&other.at), clean(&other.told))));
            }
        }
    }
    for unknown in &replayed.unknown {
        let (tool, why) = (clean(&unknown.tool), clean(&unknown.why));
        lines.push(format!("Not known: the decision on call {} of `{tool}`: {why}.", unknown.seq));
    }
    lines.extend(replayed.notes.iter().map(|note| format!("Note: {}.", clean(note))));
    lines.push(if is_believed {
        format!("Signed by {} ({}).", clean(key.name().as_str()), key.id())
    } else {
        format!(
            "Signed by {} ({}), as the bundle says itself; give --verifier one of the `keys` that `toolgate audit verify --live --json` prints to be sure.",
            clean(key.name().as_str()),
            key.id()
        )
    });
    lines.join("\n")
}

fn values(difference: &Difference) -> [String; 3] {
    let text = |value: &Value| clean(&value.to_string());
    [
        format!("  at        {}", clean(&difference.at)),
        format!("  recorded  {}", text(&difference.recorded)),
        format!("  replayed  {}", text(&difference.replayed)),
    ]
}

fn key_of(text: &str) -> Result<VerifierKey, Failure> {
    let remedy = "give a key as `toolgate audit verify --live --json` prints it: NAME+ID+BASE64";
    text.parse().map_err(|_| Failure::usage(format!("`{text}` is no key"), remedy))
}

fn policies_of(file: &Path) -> Result<toolgate_policy::cedar::Policies, Failure> {
    let text = input::read_text(file, SOURCE_BYTES_MAX)?;
    Change::read_policies(&text).map_err(|fault| Failure::from(fault).about(file.display().to_string()))
}

fn definition_of(file: &Path) -> Result<toolgate_contracts::definition::Definition, Failure> {
    let authored = if file.extension().is_some_and(|extension| extension == "json") {
        tool_md::parse_json(&input::read_file(file, SCHEMA_BYTES_MAX)?)
    } else {
        tool_md::parse(&input::read_start(file, FILE_BYTES_MAX + 1)?)
    };
    authored.map(|authored| authored.definition).map_err(|findings| {
        let first = findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
        let told = format!("{}: {first}", file.display());
        Failure::usage(told, format!("`toolgate tool test {}` shows all findings", file.display()))
    })
}

/// A script alone, or the provider that plays it.
fn script_of(file: &Path) -> Result<toolgate_agents::providers::scripted::Script, Failure> {
    let mut value = input::read_document(file)?;
    if let Some(script) = value.get_mut("script").filter(|script| script.is_object()) {
        value = script.take();
    }
    Change::read_script(value).map_err(|fault| Failure::from(fault).about(file.display().to_string()))
}
