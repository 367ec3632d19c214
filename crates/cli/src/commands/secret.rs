//! `toolgate secret …`.

use std::io::IsTerminal as _;
use std::path::Path;

use serde_json::{Value, json};
use toolgate_contracts::secret::VALUE_BYTES_MAX;

use super::{counted, list};
use crate::args::{In, SecretCommand};
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, Paint, Table, items_of, note, person_of, text_of, time_of};

pub async fn run(command: SecretCommand, client: &Client, output: &Output) -> Done {
    match command {
        SecretCommand::Set { name, place, from_file, tools, hosts, providers } => {
            let value = read_value(from_file.as_deref())?;
            let given = !(tools.is_empty() && hosts.is_empty() && providers.is_empty());
            let body = json!({
                "value": value, "workspace": place.workspace,
                "tools": given.then_some(tools), "hosts": given.then_some(hosts),
                "providers": given.then_some(providers),
            });
            let set = client.put(&["secrets", &place.scope, &name], body).await?;
            let done =
                output.say(&set, &format!("Set {name}, version {}, {}.", text_of(&set, "version"), whose(&set)))?;
            warn(&set);
            Ok(done)
        }
        SecretCommand::List(paging) => list::show(&["secrets"], &[], paging, (client, output), table).await,
        SecretCommand::Which { name, agent } => which(&name, agent.as_deref(), client, output).await,
        SecretCommand::Allow { name, place: In { scope, workspace }, tools, hosts, providers, code, only } => {
            let body = json!({
                "workspace": workspace, "tools": tools, "hosts": hosts, "providers": providers, "code": code,
                "only": only,
            });
            let secret = client.post(&["secrets", &scope, &name, "allow"], body).await?;
            let done = output.say(&secret, &format!("{name} is given to {}.", given_to(&secret)))?;
            warn(&secret);
            Ok(done)
        }
        SecretCommand::Rm { name, place: In { scope, workspace } } => {
            let gone = client.delete_with(&["secrets", &scope, &name], &[("workspace", workspace)]).await?;
            output.say(&gone, &format!("Took {name} away, {}.", whose(&gone)))
        }
        SecretCommand::Rotate { deep } => {
            let rotated = client.post(&["secrets", "rotate"], json!({"deep": deep})).await?;
            let told = if deep {
                let (values, keys) = (counted(&rotated["resealed"], "value"), counted(&rotated["ended"], "older key"));
                format!("Encrypted {values} anew under key {}; {keys} ended.", text_of(&rotated, "kid"))
            } else {
                format!("New values are encrypted under key {}.", text_of(&rotated, "kid"))
            };
            output.say(&rotated, &told)
        }
    }
}

/// As it is but for one line break at its end, which editors and `echo` add.
fn read_value(file: Option<&Path>) -> Result<String, Failure> {
    if file.is_none() && std::io::stdin().is_terminal() {
        note("Type the value, then press Ctrl-D on a line of its own.");
    }
    let mut value = input::read_text(file.unwrap_or(Path::new("-")), VALUE_BYTES_MAX + 2)?;
    if value.ends_with('\n') {
        value.pop();
        if value.ends_with('\r') {
            value.pop();
        }
    }
    Ok(value)
}

async fn which(name: &str, agent: Option<&str>, client: &Client, output: &Output) -> Done {
    let query = [("name", Some(name.to_owned())), ("agent", agent.map(str::to_owned))];
    let which = client.get(&["secrets", "which"], &query).await?;
    let found = &which["found"];
    if found.is_null() {
        output.say(&which, &format!("No scope has {name}; set it with `toolgate secret set {name}`."))?;
        return Ok(Exit::Failed);
    }
    let done = output
        .say(&which, &format!("{name}: {} key, version {}.", text_of(found, "scope"), text_of(found, "version")))?;
    warn(&which);
    Ok(done)
}

fn warn(answer: &Value) {
    for warning in answer["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        note(&format!("warning: {warning}"));
    }
}

fn whose(secret: &Value) -> String {
    match (secret["scope"].as_str(), secret["workspace"].as_str()) {
        (Some("user"), _) => "for you alone".to_owned(),
        (Some("workspace"), Some(workspace)) => format!("for the workspace {workspace}"),
        (Some("workspace"), None) => "for the workspace".to_owned(),
        _ => "for the whole organisation".to_owned(),
    }
}

fn given_to(secret: &Value) -> String {
    let words = |member: &str| -> Vec<String> {
        let list = secret["allowed"][member].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (mut tools, hosts) = (words("tools"), words("hosts"));
    // What runs code of its own stands among the tools too, unless it is a whole server.
    let servers: Vec<String> = secret["allowed"]["code"]
        .as_object()
        .map(|code| code.keys().filter(|name| !tools.contains(name)).map(|name| format!("the server {name}")).collect())
        .unwrap_or_default();
    tools.extend(servers);
    tools.extend(words("providers").iter().map(|name| format!("the provider {name}")));
    let tools = if tools.is_empty() { "no tool".to_owned() } else { tools.join(", ") };
    if hosts.is_empty() { tools } else { format!("{tools} for {}", hosts.join(", ")) }
}

fn table(secrets: &Value, paint: Paint) -> String {
    let mut table = Table::new(["NAME", "SCOPE", "VERSION", "GIVEN TO", "SET", "BY"])
        .cuts("GIVEN TO")
        .drops(["SET", "VERSION", "BY"]);
    for secret in items_of(secrets) {
        let workspace = secret["workspace"].as_str().map(|slug| format!(" {slug}")).unwrap_or_default();
        table.row([
            text_of(secret, "name"),
            format!("{}{workspace}", text_of(secret, "scope")),
            text_of(secret, "version"),
            given_to(secret),
            time_of(secret, "created_at"),
            person_of(secret, "created_by"),
        ]);
    }
    table.render(paint, "No secrets; set one with `toolgate secret set NAME`.")
}
