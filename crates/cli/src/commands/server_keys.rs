//! `toolgate keys …`: the server's own.

use serde_json::{Value, json};

use super::{counted, list};
use crate::args::KeysCommand;
use crate::client::Client;
use crate::failure::Done;
use crate::output::{Output, Paint, Table, items_of, name_of, text_of, time_of};

pub async fn run(command: KeysCommand, client: &Client, output: &Output) -> Done {
    match command {
        KeysCommand::List(paging) => list::show(&["server-keys"], &[], paging, (client, output), table).await,
        KeysCommand::Rotate { kind } => {
            let rotated = client.post(&["server-keys", &kind, "rotate"], json!({})).await?;
            output.say(&rotated, &format!("The active {kind} key is {}.", text_of(&rotated, "kids")))
        }
        KeysCommand::Rewrap => {
            let rewrapped = client.post(&["server-keys", "rewrap"], json!({})).await?;
            let keys = counted(&rewrapped["rewrapped"], "key");
            output.say(&rewrapped, &format!("Put {keys} under the present master key; all are now."))
        }
    }
}

fn table(keys: &Value, paint: Paint) -> String {
    let mut table = Table::new(["KIND", "KEY", "STATE", "MADE", "TENANT"]).drops(["MADE"]);
    for key in items_of(keys) {
        table.row([
            text_of(key, "kind"),
            text_of(key, "kid"),
            text_of(key, "state"),
            time_of(key, "created_at"),
            name_of(key, "tenant_id", "tenant"),
        ]);
    }
    table.render(paint, "No keys yet.")
}
