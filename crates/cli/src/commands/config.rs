//! `toolgate config …`.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::Client;
use crate::connect::{Place, Session};
use crate::failure::Done;
use crate::output::{Output, Table, text_of};

pub async fn show(client: &Client, output: &Output) -> Done {
    let config = client.get(&["config"], &[]).await?;
    output.show(&config, |config, paint| {
        let mut table = Table::new(["KEY", "FROM", "VALUE"]);
        for (name, setting) in config.as_object().into_iter().flatten() {
            table.row([name.clone(), text_of(setting, "origin"), text_of(setting, "value")]);
        }
        table.render(paint, "No settings.")
    })
}

/// Reads the configuration as a server or a local command would, and uses it for nothing.
pub fn check(file: Option<&Path>, session: &Session) -> Done {
    let config = match (file, &session.place) {
        (Some(file), _) => session.config_from(Some(file), &[])?,
        (None, Place::Folder(data)) => session.config(data, &[])?,
        (None, Place::Server { .. }) => session.config_from(session.config_file.as_deref(), &[])?,
    };
    let settings = serde_json::to_value(config.shown()).unwrap_or_default();
    let set = settings
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, setting): &(_, &Value)| setting["origin"] != "default")
        .count();
    session.output.say(
        &json!({"ok": true, "settings": settings}),
        &format!("The configuration is good: {set} of its keys are set, the others have their defaults."),
    )
}
