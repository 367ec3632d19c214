//! `toolgate profile …`.

use serde_json::Value;

use super::list;
use crate::args::{Paging, ProfileCommand};
use crate::client::Client;
use crate::failure::{Done, Failure};
use crate::input;
use crate::output::{Detail, Output, Paint, Table, items_of, text_of};

pub async fn run(command: ProfileCommand, client: &Client, output: &Output) -> Done {
    match command {
        ProfileCommand::List(paging) => list(paging, client, output).await,
        ProfileCommand::Show { profile } => {
            let profile = client.get(&["profiles", &profile], &[]).await?;
            output.show(&profile, show)
        }
        ProfileCommand::Set { file } => {
            let profile = input::read_document(&file)?;
            let Some(name) = profile["name"].as_str().map(str::to_owned) else {
                return Err(Failure::usage(format!("{} does not name the profile", file.display()), "write `name: …`"));
            };
            let stored = client.put(&["profiles", &name], profile).await?;
            output.say(&stored, &format!("Profile {name} is set, revision {}.", text_of(&stored, "revision")))
        }
        ProfileCommand::Delete { profile } => {
            let answer = client.delete(&["profiles", &profile]).await?;
            output.say(&answer, &format!("Deleted profile {profile}."))
        }
    }
}

pub async fn list(paging: Paging, client: &Client, output: &Output) -> Done {
    list::show(&["profiles"], &[], paging, (client, output), |profiles, paint| {
        let mut table = Table::new(["NAME", "REVISION", "TIGHTENS"]).drops(["REVISION"]);
        for profile in items_of(profiles) {
            table.row([text_of(profile, "name"), text_of(profile, "revision"), tightens(profile)]);
        }
        table.render(paint, "No profiles; make one with `toolgate profile set --file FILE`.")
    })
    .await
}

/// What a profile does, in one line.
fn tightens(profile: &Value) -> String {
    let members = profile.as_object().into_iter().flatten();
    let said = members.filter(|(name, _)| !matches!(name.as_str(), "id" | "name" | "version" | "revision"));
    said.map(|(name, _)| format!("{name}={}", text_of(profile, name))).collect::<Vec<_>>().join(" ")
}

fn show(profile: &Value, paint: Paint) -> String {
    Detail::new(paint, &text_of(profile, "name"))
        .field("Id", text_of(profile, "id"))
        .field("Revision", text_of(profile, "revision"))
        .field("Asks", if profile["requires_approval"] == true { "always" } else { "" })
        .field("How", text_of(profile, "hitl"))
        .field("Per call", text_of(profile, "max_cost_per_call"))
        .field("Per run", text_of(profile, "max_cost_per_run"))
        .field("Per day", text_of(profile, "max_cost_per_day"))
        .field("Rate", text_of(profile, "rate_limit"))
        .field("Only tools", text_of(profile, "allow_tools"))
        .field("No tools", text_of(profile, "deny_tools"))
        .field("Classes", text_of(profile, "allowed_egress"))
        .field("Hosts", text_of(profile, "hosts"))
        .field("Constraints", text_of(profile, "constraints"))
        .field("Guardrails", text_of(profile, "guardrails"))
        .end()
}
