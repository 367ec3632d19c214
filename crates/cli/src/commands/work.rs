//! `toolgate work …`: external tools, carried out by hand or from a script. Nothing is started here.

use serde_json::{Value, json};

use super::calls::{report_of, reported};
use crate::args::WorkCommand;
use crate::client::Client;
use crate::failure::{Done, Exit};
use crate::output::{Detail, Output, clean, note, text_of};

pub async fn run(command: WorkCommand, client: &Client, output: &Output) -> Done {
    match command {
        WorkCommand::Lease { tools, wait } => {
            let names = tools.join(", ");
            let leased = client.post(&["work", "lease"], json!({"tools": tools, "wait": wait})).await?;
            if leased.is_null() {
                if output.is_json() {
                    output.json(&Value::Null)?;
                }
                note(&format!("No call of {names} waits."));
                return Ok(Exit::Failed);
            }
            output.show(&leased, |leased, paint| {
                let call = &leased["call"];
                let lease = text_of(leased, "lease_id");
                Detail::new(paint, &format!("{}@{}", text_of(call, "name"), text_of(call, "version")))
                    .field("Lease", &lease)
                    .field("Until", text_of(leased, "expires_at"))
                    .field("Call", text_of(call, "id"))
                    .field("For", text_of(&leased["context"], "principal"))
                    .field("Agent", text_of(&leased["context"], "agent_id"))
                    .section("Input", &clean(&serde_json::to_string_pretty(&call["input"]).unwrap_or_default()))
                    .section("Then", &format!("toolgate work complete {lease} --output JSON"))
                    .end()
            })
        }
        WorkCommand::Heartbeat { lease } => {
            let kept = client.post(&["work", &lease, "heartbeat"], json!({})).await?;
            let wanted = if kept["cancel_requested"] == true {
                " Somebody wants it stopped: finish, and report what happened."
            } else {
                ""
            };
            output.say(&kept, &format!("The lease holds until {}.{wanted}", text_of(&kept, "expires_at")))
        }
        WorkCommand::Complete { lease, report } => {
            let envelope = client.post(&["work", &lease, "complete"], report_of(report)?).await?;
            reported(&envelope, output)
        }
    }
}
