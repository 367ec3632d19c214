//! `toolgate plugin …`.

use serde_json::{Value, json};
use toolgate_contracts::plugin::COMPONENT_BYTES_MAX;

use super::list;
use crate::args::PluginCommand;
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Detail, Output, Paint, Table, items_of, note, text_of, time_of};

pub async fn run(command: PluginCommand, client: &Client, output: &Output) -> Done {
    match command {
        PluginCommand::Install { file, name, register, grant } => {
            let component = input::read_file(&file, COMPONENT_BYTES_MAX)?;
            let said = |said: bool| said.then(|| "true".to_owned());
            let query = [("name", name), ("register", said(register)), ("grant", said(grant))];
            let installed = client.upload(&["plugins"], &query, "application/wasm", component).await?;
            told(&installed, register, output)
        }
        PluginCommand::List(paging) => list::show(&["plugins"], &[], paging, (client, output), table).await,
        PluginCommand::Show { plugin } => {
            let plugin = client.get(&["plugins", &plugin], &[]).await?;
            output.show(&plugin, detail)
        }
        PluginCommand::Remove { plugin } => {
            let removed = client.delete(&["plugins", &plugin]).await?;
            output.say(&removed, &format!("Removed {}.", named(&removed)))
        }
    }
}

/// The definition goes to standard output, where somebody may keep it; what was done is said beside it.
fn told(installed: &Value, register: bool, output: &Output) -> Done {
    let done = if installed["installed"] == json!(true) { "Installed" } else { "It was installed already:" };
    let sentence = format!("{done} {}, digest {}.", named(installed), text_of(installed, "digest"));
    if register && installed["registration"].is_null() {
        output.say(installed, &format!("{sentence}\nIt asks for:\n{}", asked_for(installed)))?;
        return Err(Failure::failed(
            "nothing was registered: the plug-in asks for hosts or secrets",
            "grant it all of that with `--register --grant`; or leave out `--register`, change the TOOL.md and register that",
        ));
    }
    if register {
        let registration = &installed["registration"];
        let (name, version) = (text_of(registration, "name"), text_of(registration, "version"));
        let outcome =
            if registration["action"] == json!("unchanged") { "was registered already" } else { "is registered" };
        output.say(installed, &format!("{sentence}\nThe tool {name}@{version} {outcome}."))?;
        for finding in registration["findings"].as_array().into_iter().flatten() {
            if finding["severity"] == json!("warning") {
                note(&format!("warning: {}; {}", text_of(finding, "message"), text_of(finding, "fix")));
            }
        }
        return Ok(Exit::Done);
    }
    output.say(installed, text_of(installed, "tool_md").trim_end())?;
    note(&sentence);
    note(
        "The text above is the definition of its tool. Look at what it grants, keep it as TOOL.md, and register it with `toolgate tool register --file TOOL.md --apply`.",
    );
    Ok(Exit::Done)
}

/// What its tool would be granted, a line each.
fn asked_for(plugin: &Value) -> String {
    let description = &plugin["description"];
    let items = |member: &str| description[member].as_array().cloned().unwrap_or_default();
    let hosts = items("hosts").into_iter().map(|access| {
        let methods: Vec<&str> = access["methods"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        format!("  to send {} to {}", methods.join(", "), text_of(&access, "host"))
    });
    let secrets = items("secrets").into_iter().map(|secret| {
        let purpose = text_of(&secret, "purpose");
        let why = if purpose.is_empty() { String::new() } else { format!(" ({purpose})") };
        format!("  to read the secret {}{why}", text_of(&secret, "name"))
    });
    hosts.chain(secrets).collect::<Vec<_>>().join("\n")
}

fn named(plugin: &Value) -> String {
    format!("{} {}", text_of(plugin, "name"), text_of(plugin, "version"))
}

fn table(page: &Value, paint: Paint) -> String {
    let mut table = Table::new(["NAME", "VERSION", "WORLD", "BYTES", "INSTALLED", "DIGEST"]).drops([
        "DIGEST",
        "INSTALLED",
        "BYTES",
    ]);
    for plugin in items_of(page) {
        table.row([
            text_of(plugin, "name"),
            text_of(plugin, "version"),
            text_of(plugin, "world"),
            text_of(plugin, "bytes"),
            time_of(plugin, "created_at"),
            text_of(plugin, "digest"),
        ]);
    }
    table.render(paint, "No plug-in is installed; see `toolgate plugin install`.")
}

fn detail(plugin: &Value, paint: Paint) -> String {
    let description = &plugin["description"];
    let listed = |value: &Value, member: &str| {
        let words: Vec<String> = value.as_array().into_iter().flatten().map(|item| text_of(item, member)).collect();
        if words.is_empty() { "none".to_owned() } else { words.join(", ") }
    };
    let tools: Vec<&str> = plugin["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    Detail::new(paint, &named(plugin))
        .field("Title", text_of(description, "title"))
        .field("Description", text_of(description, "description"))
        .field("World", text_of(plugin, "world"))
        .field("Digest", text_of(plugin, "digest"))
        .field("Would like to reach", listed(&description["hosts"], "host"))
        .field("Would like to read", listed(&description["secrets"], "name"))
        .field("Runs", if tools.is_empty() { "no tool".to_owned() } else { tools.join(", ") })
        .field("Installed", time_of(plugin, "created_at"))
        .end()
}
