//! `toolgate key …`.

use serde_json::{Value, json};

use super::list;
use crate::args::KeyCommand;
use crate::client::Client;
use crate::failure::Done;
use crate::output::{Output, Paint, Table, clean_line, items_of, note, text_of, time_of};

pub async fn run(command: KeyCommand, client: &Client, output: &Output) -> Done {
    match command {
        KeyCommand::Create { name, scopes, agent, owner, days } => {
            let made = client
                .post(&["keys"], json!({"name": name, "scopes": scopes, "agent": agent, "owner": owner, "days": days}))
                .await?;
            // The secret alone on standard output, so that `> file` keeps exactly it.
            let done = output.show(&made, |made, _| clean_line(&text_of(made, "secret")))?;
            let until = time_of(&made, "expires_at");
            let until = if until.is_empty() { "until it is revoked".to_owned() } else { format!("until {until}") };
            note(&format!("Key {name} ({}) lasts {until}. It is shown now and never again.", text_of(&made, "scopes")));
            Ok(done)
        }
        KeyCommand::List(paging) => list::show(&["keys"], &[], paging, (client, output), table).await,
        KeyCommand::Revoke { name } => {
            let revoked = client.delete(&["keys", &name]).await?;
            output.say(&revoked, &format!("Revoked key {}.", text_of(&revoked, "name")))
        }
    }
}

fn table(keys: &Value, paint: Paint) -> String {
    let mut table = Table::new(["NAME", "OWNER", "STATE", "EXPIRES", "LAST USED", "SCOPES", "ID"])
        .cuts("SCOPES")
        .drops(["ID", "EXPIRES", "LAST USED", "OWNER"]);
    for key in items_of(keys) {
        let state = match (key["revoked_at"].is_null(), key["client"].is_null()) {
            (true, true) => "active",
            (true, false) => "active (OAuth)",
            (false, _) => "revoked",
        };
        table.row([
            text_of(key, "name"),
            text_of(key, "owner_name"),
            state.to_owned(),
            time_of(key, "expires_at"),
            time_of(key, "last_used_at"),
            text_of(key, "scopes"),
            text_of(key, "id"),
        ]);
    }
    // Half an id is of no use, and a name does as well.
    table.render(paint, "No keys; make one with `toolgate key create NAME`.")
}
