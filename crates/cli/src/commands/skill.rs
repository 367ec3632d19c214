//! `toolgate skill …`.

use std::path::Path;

use serde_json::{Map, Value, json};
use toolgate_registry::Finding;
use toolgate_registry::skill_md::SKILL_BYTES_MAX;

use super::list;
use crate::args::SkillCommand;
use crate::client::Client;
use crate::failure::{Done, Failure};
use crate::input;
use crate::output::{Detail, Output, Paint, Table, clean, items_of, note, text_of, time_of};

const SKILL_FILE: &str = "SKILL.md";

pub async fn run(command: SkillCommand, client: &Client, output: &Output) -> Done {
    match command {
        SkillCommand::Add { path } => add(&path, client, output).await,
        SkillCommand::List(paging) => list::show(&["skills"], &[], paging, (client, output), table).await,
        SkillCommand::Show { skill, arguments, digest } if arguments.is_empty() => {
            let shown = client.get(&["skills", &skill], &[("digest", digest)]).await?;
            output.show(&shown, detail)
        }
        SkillCommand::Show { skill, arguments, digest: _ } => {
            let filled = client.post(&["skills", &skill, "fill"], json!({"arguments": given(&arguments)?})).await?;
            output.show(&filled, |filled, _| clean(&text_of(filled, "text")))
        }
        SkillCommand::Remove { skill } => {
            let answer = client.delete(&["skills", &skill]).await?;
            output.say(&answer, &format!("Removed skill {skill}."))
        }
    }
}

async fn add(path: &Path, client: &Client, output: &Output) -> Done {
    let file = if path.is_dir() { path.join(SKILL_FILE) } else { path.to_owned() };
    // Read whole even when it is too large: the reader of skills says so itself, with the limit.
    let source = input::read_text(&file, 2 * SKILL_BYTES_MAX)?;
    let place = file.display().to_string();
    let saved =
        client.post(&["skills"], json!({"source": source})).await.map_err(|failure| failure.about(place.clone()))?;
    let name = text_of(&saved, "name");
    output.show(&saved, |saved, _| {
        let sentence = match text_of(saved, "action").as_str() {
            "unchanged" => format!("Skill {name} is exactly like this."),
            "replaced" => format!("Replaced skill {name}."),
            _ => format!("Added skill {name}."),
        };
        let findings: Vec<Finding> = serde_json::from_value(saved["findings"].clone()).unwrap_or_default();
        let told = findings.iter().map(|finding| clean(&finding.show(&place)));
        std::iter::once(clean(&sentence)).chain(told).collect::<Vec<_>>().join("\n")
    })?;
    let others = if path.is_dir() { others_in(path) } else { 0 };
    if others > 0 {
        note(&format!("Only {SKILL_FILE} was taken; what else lies in the folder is not served."));
    }
    Ok(crate::failure::Exit::Done)
}

fn others_in(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter(|entry| entry.file_name() != SKILL_FILE).count()
}

fn given(arguments: &[String]) -> Result<Map<String, Value>, Failure> {
    let pair = |argument: &String| match argument.split_once('=') {
        Some((name, text)) => Ok((name.to_owned(), Value::from(text))),
        None => Err(Failure::usage(format!("`{argument}` is no argument"), "write NAME=TEXT")),
    };
    arguments.iter().map(pair).collect()
}

fn table(page: &Value, paint: Paint) -> String {
    let mut table = Table::new(["NAME", "ARGUMENTS", "DESCRIPTION"]).cuts("DESCRIPTION");
    for skill in items_of(page) {
        let arguments: Vec<String> = items(skill, "arguments").iter().map(|one| text_of(one, "name")).collect();
        table.row([text_of(skill, "name"), arguments.join(", "), text_of(skill, "description")]);
    }
    table.render(paint, "No skills; add one with `toolgate skill add PATH`.")
}

fn items<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

fn detail(skill: &Value, paint: Paint) -> String {
    let argument = |one: &Value| {
        let needed = if one["required"] == true { " (required)" } else { "" };
        let values = text_of(one, "values");
        let values = if values.is_empty() { values } else { format!(": {values}") };
        format!("{}{needed}{values}", text_of(one, "name"))
    };
    let arguments: Vec<String> = items(skill, "arguments").iter().map(argument).collect();
    let versions: Vec<String> = items(skill, "versions")
        .iter()
        .map(|one| format!("{}  {}", text_of(one, "digest"), time_of(one, "saved_at")))
        .collect();
    Detail::new(paint, &text_of(skill, "name"))
        .about(&text_of(skill, "description"))
        .field("Title", text_of(skill, "title"))
        .field("Digest", text_of(skill, "digest"))
        .field("Tools", items(skill, "tools").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
        .section("Arguments", &arguments.join("\n"))
        .section("Texts", &versions.join("\n"))
        .section("File", &text_of(skill, "source"))
        .end()
}
