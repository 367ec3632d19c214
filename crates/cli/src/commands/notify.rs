//! `toolgate webhook …`, `toolgate settings …`, `toolgate egress …`.

use serde_json::{Map, Value, json};

use super::list;
use crate::args::{EgressCommand, OpenHost, SettingsCommand, WebhookCommand};
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::output::{Output, Paint, Table, clean_line, items_of, note, text_of, time_of};

pub async fn webhook(command: WebhookCommand, client: &Client, output: &Output) -> Done {
    match command {
        WebhookCommand::Add { url, types } => {
            let made = client.post(&["webhooks"], json!({"url": url, "types": types})).await?;
            secret(&made, &format!("Webhook {} is told of {}.", text_of(&made, "id"), text_of(&made, "types")), output)
        }
        WebhookCommand::List(paging) => list::show(&["webhooks"], &[], paging, (client, output), webhooks).await,
        WebhookCommand::Test { webhook } => {
            let trial = client.post(&["webhooks", &webhook, "test"], json!({})).await?;
            if trial["arrived"] == true {
                return output.say(&trial, "It arrived.");
            }
            output.say(&trial, &format!("It did not arrive: {}.", text_of(&trial, "error")))?;
            Ok(Exit::Failed)
        }
        WebhookCommand::Resume { webhook } => {
            let resumed = client.post(&["webhooks", &webhook, "resume"], json!({})).await?;
            output.say(&resumed, &format!("Webhook {} goes on.", text_of(&resumed, "id")))
        }
        WebhookCommand::Rotate { webhook } => {
            let made = client.post(&["webhooks", &webhook, "rotate"], json!({})).await?;
            secret(&made, "For a day the secret before signs too.", output)
        }
        WebhookCommand::Rm { webhook } => {
            let removed = client.delete(&["webhooks", &webhook]).await?;
            output.say(&removed, &format!("Removed webhook {}.", text_of(&removed, "id")))
        }
        WebhookCommand::Deliveries { webhook, paging } => {
            list::show(&["webhooks", &webhook, "deliveries"], &[], paging, (client, output), deliveries).await
        }
        WebhookCommand::Keys => {
            let keys = client.get(&["webhooks", "keys"], &[]).await?;
            output.show(&keys, |keys, paint| {
                let mut table = Table::new(["KEY", "PUBLIC"]);
                for key in keys["keys"].as_array().into_iter().flatten() {
                    table.row([text_of(key, "kid"), text_of(key, "public_key")]);
                }
                table.render(paint, "")
            })
        }
    }
}

/// The secret alone on standard output, so that `> file` keeps exactly it.
fn secret(made: &Value, told: &str, output: &Output) -> Done {
    let done = output.show(made, |made, _| clean_line(&text_of(made, "secret")))?;
    note(&format!("{told} The secret is shown now and never again."));
    Ok(done)
}

fn webhooks(page: &Value, paint: Paint) -> String {
    let mut table =
        Table::new(["ID", "STATE", "URL", "TYPES", "PAUSED BECAUSE"]).cuts("TYPES").drops(["TYPES", "PAUSED BECAUSE"]);
    for webhook in items_of(page) {
        table.row(["id", "state", "url", "types", "paused_because"].map(|member| text_of(webhook, member)));
    }
    table.render(paint, "No webhooks; make one with `toolgate webhook add URL --type TYPE`.")
}

fn deliveries(page: &Value, paint: Paint) -> String {
    let mut table = Table::new(["WRITTEN", "TYPE", "STATE", "ATTEMPTS", "NEXT", "LAST ERROR", "ID"])
        .cuts("LAST ERROR")
        .drops(["ID", "NEXT", "ATTEMPTS"]);
    for delivery in items_of(page) {
        table.row([
            time_of(delivery, "created_at"),
            text_of(delivery, "type"),
            text_of(delivery, "state"),
            text_of(delivery, "attempts"),
            time_of(delivery, "next_at"),
            text_of(delivery, "last_error"),
            text_of(delivery, "id"),
        ]);
    }
    table.render(paint, "It was told nothing yet.")
}

pub async fn settings(command: SettingsCommand, client: &Client, output: &Output) -> Done {
    let current = client.get(&["settings"], &[]).await?;
    match command {
        SettingsCommand::Show => output.show(&current, shown),
        SettingsCommand::Set { settings } => {
            let mut changed = current.as_object().cloned().unwrap_or_default();
            for setting in &settings {
                set(&mut changed, setting)?;
            }
            let see = |failure: Failure| match failure.exit() {
                Exit::Usage => failure.hint("nothing was changed; see the settings with `toolgate settings show`"),
                _ => failure,
            };
            let saved = client.put(&["settings"], Value::Object(changed)).await.map_err(see)?;
            output.show(&saved, shown)
        }
    }
}

/// The server knows which keys there are and what they hold; here is only how a value is written on a command line.
fn set(settings: &mut Map<String, Value>, text: &str) -> Result<(), Failure> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(Failure::usage(format!("`{text}` is no setting"), "write KEY=VALUE, as in separation=true"));
    };
    let value = match (key, value) {
        (_, "none") => {
            settings.shift_remove(key);
            return Ok(());
        }
        ("hosts", list) => list.split(',').map(str::trim).filter(|host| !host.is_empty()).collect(),
        (_, "true" | "on") => Value::Bool(true),
        (_, "false" | "off") => Value::Bool(false),
        (_, text) => text.parse::<u64>().map_or_else(|_| Value::from(text), Value::from),
    };
    settings.insert(key.to_owned(), value);
    Ok(())
}

fn shown(settings: &Value, paint: Paint) -> String {
    let mut table = Table::new(["SETTING", "VALUE"]);
    for (key, _) in settings.as_object().into_iter().flatten() {
        table.row([key.clone(), text_of(settings, key)]);
    }
    table.render(paint, "")
}

pub async fn egress(command: EgressCommand, client: &Client, output: &Output) -> Done {
    match command {
        EgressCommand::Open(OpenHost { host, port, scheme, tenants, tools, reason, expires }) => {
            let some = |list: Vec<String>| if list.is_empty() { Value::Null } else { json!(list) };
            let body = json!({
                "host": host, "port": port, "scheme": scheme, "tenants": some(tenants), "tools": some(tools),
                "reason": reason, "expires_at": expires,
            });
            let opening = client.post(&["egress", "openings"], body).await?;
            let (host, port) = (text_of(&opening, "host"), text_of(&opening, "port"));
            output.say(&opening, &format!("{host}:{port} is open, as {}.", text_of(&opening, "id")))
        }
        EgressCommand::List(paging) => {
            list::show(&["egress", "openings"], &[], paging, (client, output), openings).await
        }
        EgressCommand::Close { opening } => {
            let closed = client.delete(&["egress", "openings", &opening]).await?;
            output.say(&closed, &format!("{}:{} is closed.", text_of(&closed, "host"), text_of(&closed, "port")))
        }
    }
}

fn openings(page: &Value, paint: Paint) -> String {
    let mut table = Table::new(["ID", "HOST", "PORT", "SCHEME", "FOR", "TOOLS", "UNTIL", "REASON"])
        .drops(["UNTIL", "SCHEME", "TOOLS", "FOR", "REASON"]);
    let all = |text: String| if text.is_empty() { "all".to_owned() } else { text };
    for opening in items_of(page) {
        table.row([
            text_of(opening, "id"),
            text_of(opening, "host"),
            text_of(opening, "port"),
            text_of(opening, "scheme"),
            all(text_of(opening, "tenants")),
            all(text_of(opening, "tools")),
            time_of(opening, "expires_at"),
            text_of(opening, "reason"),
        ]);
    }
    table.render(paint, "Nothing is open but public hosts.")
}
