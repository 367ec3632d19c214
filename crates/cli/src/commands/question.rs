//! `toolgate input …`: questions to people, asked, waited for and answered.

use std::path::Path;

use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::call::fields;
use super::{list, tool_view};
use crate::args::{Answer, Ask, InputCommand};
use crate::client::Client;
use crate::failure::{Done, Exit};
use crate::input;
use crate::output::{Detail, Output, Paint, Table, clean, items_of, note, person_and_id, person_of, text_of, time_of};

/// How long the server is asked to wait at a time.
const WAIT_S: u64 = 30;

pub async fn run(command: InputCommand, client: &Client, output: &Output) -> Done {
    match command {
        InputCommand::List { state, all, run, paging } => {
            let query = [("state", (!all).then_some(state)), ("run", run)];
            list::show(&["inputs"], &query, paging, (client, output), table).await
        }
        InputCommand::Show { id, wait } => show(&id, wait, client, output).await,
        InputCommand::Answer(Answer { id, fields: words, value }) => {
            let base = match &value {
                Some(text) => input::json_or_file(text, "--value")?,
                None => json!({}),
            };
            let answer = if words.is_empty() {
                base
            } else {
                let question = client.get(&["inputs", &id], &[]).await?;
                fields::over(base, &words, &question["schema"], "--value")?
            };
            let question = client.post(&["inputs", &id, "answer"], json!({"answer": answer})).await?;
            output.say(&question, &format!("Answered: {}", clean(&text_of(&question, "title"))))
        }
        InputCommand::Ask(ask) => {
            let Ask { run, title, instructions, schema, expires } = ask;
            let schema = match schema.strip_prefix('@') {
                Some(file) => input::read_document(Path::new(file))?,
                None => input::json_or_file(&schema, "--schema")?,
            };
            let instructions = instructions.as_deref().map(input::text_or_file).transpose()?;
            let body = json!({"title": title, "instructions": instructions, "schema": schema, "expires_s": expires});
            let question = client.post(&["runs", &run, "inputs"], body).await?;
            // The id alone, for a script to go on with.
            output.show(&question, |question, _| text_of(question, "id"))
        }
        InputCommand::Cancel { id } => {
            let question = client.post(&["inputs", &id, "cancel"], json!({})).await?;
            output.say(&question, &format!("Took back: {}", clean(&text_of(&question, "title"))))
        }
    }
}

async fn show(id: &str, wait: Option<u32>, client: &Client, output: &Output) -> Done {
    let until = Instant::now() + Duration::from_secs(wait.unwrap_or(0).into());
    let question = loop {
        let left = until.saturating_duration_since(Instant::now()).as_secs();
        let seconds = if client.is_local() { 0 } else { left.min(WAIT_S) };
        let question = client.get(&["inputs", id], &[("wait", Some(seconds.to_string()))]).await?;
        if question["state"] != "open" || left == 0 {
            break question;
        }
        if client.is_local() {
            note("Without a server nobody can answer while this command has the data folder, so it does not wait.");
            break question;
        }
    };
    output.show(&question, whole)?;
    Ok(if wait.is_some() && question["state"] == "open" { Exit::Waiting } else { Exit::Done })
}

fn table(questions: &Value, paint: Paint) -> String {
    let mut table = Table::new(["UNTIL", "ID", "STATE", "BY", "TITLE"]).drops(["UNTIL", "BY", "STATE"]);
    for question in items_of(questions) {
        let [id, state, title] = ["id", "state", "title"].map(|member| text_of(question, member));
        table.row([time_of(question, "expires_at"), id, state, person_of(question, "asked_by"), title]);
    }
    table.render(paint, "No questions.")
}

fn whole(question: &Value, paint: Paint) -> String {
    let answer = match &question["answer"] {
        Value::Null => String::new(),
        answer => clean(&serde_json::to_string_pretty(answer).unwrap_or_default()),
    };
    Detail::new(paint, &format!("{} — {}", text_of(question, "title"), text_of(question, "state")))
        .about(&text_of(question, "instructions"))
        .field("Id", text_of(question, "id"))
        .field("Run", text_of(question, "run_id"))
        .field("Call", text_of(question, "call_id"))
        .field("Asked by", person_and_id(question, "asked_by"))
        .field("Until", time_of(question, "expires_at"))
        .field("Answered by", person_and_id(question, "answered_by"))
        .section("Fields", &tool_view::properties(&question["schema"], paint))
        .section("Answer", &answer)
        .end()
}
