//! `toolgate provider …`.

use serde_json::{Map, Value, json};

use super::list;
use crate::args::{AddProvider, ProviderCommand, SetPrices};
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Detail, Output, Paint, Table, clean, items_of, text_of, time_of};

/// What stands wherever a scripted provider shows.
const SCRIPTED: &str = "scripted: it plays a script, no model is asked";
/// More than a tenant can have.
const KNOWN_MAX: u32 = 1000;
/// What the server adds to a provider; its author does not write it.
const NOT_WRITTEN: [&str; 8] =
    ["scripted", "offered", "revision", "saved_by", "created_at", "updated_at", "agents", "action"];

pub async fn run(command: ProviderCommand, client: &Client, output: &Output) -> Done {
    match command {
        ProviderCommand::Add(wanted) => add(wanted, client, output).await,
        ProviderCommand::List(paging) => list::show(&["providers"], &[], paging, (client, output), table).await,
        ProviderCommand::Show { provider } => {
            let shown = client.get(&["providers", &provider], &[]).await?;
            output.show(&shown, detail)
        }
        ProviderCommand::Remove { provider, force } => {
            let force = force.then(|| "true".to_owned());
            let answer = client.delete_with(&["providers", &provider], &[("force", force)]).await?;
            output.say(&answer, &format!("Removed provider {provider}."))
        }
        ProviderCommand::Test { provider, model, prompt } => {
            let body = json!({"model": model, "prompt": prompt});
            let tested = client.post(&["providers", &provider, "test"], body).await?;
            output.show(&tested, outcome)?;
            Ok(if tested["error"].is_null() { Exit::Done } else { Exit::Failed })
        }
        ProviderCommand::Prices(wanted) => prices(wanted, client, output).await,
    }
}

async fn add(wanted: AddProvider, client: &Client, output: &Output) -> Done {
    let AddProvider { provider, file, kind, base_url, secret, script } = wanted;
    let spec: Map<String, Value> = if let Some(file) = file {
        let mut spec = written(input::read_document(&file)?);
        if let Some(name) = provider {
            spec.insert("name".to_owned(), name.into());
        }
        spec
    } else {
        let name = provider.unwrap_or_default();
        let script = script.as_deref().map(input::read_document).transpose()?;
        let members = [
            ("name", Some(name.clone().into())),
            ("kind", kind.map(Value::from)),
            ("base_url", base_url.map(Value::from)),
            ("secret", secret.map(Value::from)),
            ("script", script),
            ("prices", prices_of(&name, client).await?),
        ];
        members.into_iter().filter_map(|(member, value)| Some((member.to_owned(), value?))).collect()
    };
    let name = text_of(&Value::Object(spec.clone()), "name");
    let saved = client.put(&["providers", &name], Value::Object(spec)).await?;
    let what = match text_of(&saved, "action").as_str() {
        "unchanged" => format!("Provider {name} is exactly like this."),
        "replaced" => format!("Replaced provider {name}, revision {}.", text_of(&saved, "revision")),
        _ => format!("Added provider {name}."),
    };
    let sentence = if saved["scripted"] == true { format!("{what} It is {SCRIPTED}.") } else { what };
    output.say(&saved, &sentence)
}

/// What `provider show --json` printed can be edited and sent back.
fn written(document: Value) -> Map<String, Value> {
    let Value::Object(mut members) = document else { return Map::new() };
    members.retain(|name, _| !NOT_WRITTEN.contains(&name.as_str()));
    members
}

/// Of the tenant's own provider of that name, if there is one.
async fn prices_of(name: &str, client: &Client) -> Result<Option<Value>, Failure> {
    let known = client.list(&["providers"], &[], KNOWN_MAX).await?;
    let own = |one: &&Value| one["name"] == *name && one["offered"] == false;
    Ok(items_of(&known).iter().find(own).map(|one| one["prices"].clone()))
}

async fn prices(wanted: SetPrices, client: &Client, output: &Output) -> Done {
    let SetPrices { provider, model, input, cached_input, output: written_price, remove } = wanted;
    let shown = client.get(&["providers", &provider], &[]).await?;
    let Some(model) = model else {
        return output.show(&shown["prices"], price_table);
    };
    let revision = text_of(&shown, "revision");
    let mut spec = written(shown);
    let mut prices = spec.get("prices").and_then(Value::as_object).cloned().unwrap_or_default();
    let sentence = match (input, written_price) {
        (Some(input), Some(written_price)) => {
            let mut entry = json!({"input": input, "output": written_price});
            if let Some(cached) = cached_input {
                entry["cached_input"] = cached.into();
            }
            prices.insert(model.clone(), entry);
            format!("Set what {provider}/{model} costs.")
        }
        _ if remove => {
            if prices.shift_remove(&model).is_none() {
                let told = format!("`{provider}` has no price for `{model}`");
                return Err(Failure::usage(told, format!("`toolgate provider prices {provider}` shows those it has")));
            }
            format!("Took away what {provider}/{model} costs.")
        }
        _ => {
            let one = prices.get(&model).cloned().unwrap_or_default();
            let one: Map<String, Value> = [(model, one)].into_iter().filter(|(_, price)| !price.is_null()).collect();
            return output.show(&Value::Object(one), price_table);
        }
    };
    spec.insert("prices".to_owned(), prices.into());
    // Whoever changed it meanwhile is not overwritten.
    let query = [("revision", Some(revision))];
    let saved = client.put_with(&["providers", &provider], &query, Value::Object(spec)).await?;
    output.say(&saved, &sentence)
}

fn price_table(prices: &Value, paint: Paint) -> String {
    let mut table = Table::new(["MODEL", "INPUT", "CACHED INPUT", "OUTPUT"]);
    for (model, price) in prices.as_object().into_iter().flatten() {
        let cached = if price["cached_input"].is_null() { "input" } else { "cached_input" };
        table.row([model.clone(), text_of(price, "input"), text_of(price, cached), text_of(price, "output")]);
    }
    table.render(paint, "No prices; nobody knows what its models cost.")
}

fn table(page: &Value, paint: Paint) -> String {
    let mut table = Table::new(["NAME", "KIND", "WHERE", "SECRET", "PRICES"]).cuts("WHERE").drops(["PRICES"]);
    for provider in items_of(page) {
        let prices = provider["prices"].as_object().map_or(0, Map::len);
        table.row([
            text_of(provider, "name"),
            text_of(provider, "kind"),
            place(provider),
            text_of(provider, "secret"),
            prices.to_string(),
        ]);
    }
    table.render(paint, "No model providers; add one with `toolgate provider add NAME --kind KIND`.")
}

fn place(provider: &Value) -> String {
    match (provider["scripted"].as_bool(), provider["base_url"].as_str()) {
        (Some(true), _) => "a script, no model".to_owned(),
        (_, Some(url)) => url.to_owned(),
        (_, None) => "the vendor".to_owned(),
    }
}

fn detail(provider: &Value, paint: Paint) -> String {
    let scripted = provider["scripted"] == true;
    let whose = if provider["offered"] == true { "offered by the operator" } else { "" };
    let turns = provider["script"]["turns"].as_array().map_or(0, Vec::len);
    let prices = price_table(&provider["prices"], paint.narrower(2));
    Detail::new(paint, &text_of(provider, "name"))
        .about(if scripted { "Scripted: it plays a script, no model is asked." } else { "" })
        .field("Kind", text_of(provider, "kind"))
        .field("Where", place(provider))
        .field("Secret", text_of(provider, "secret"))
        .field("Turns", if scripted { turns.to_string() } else { String::new() })
        .field("Agents", text_of(provider, "agents"))
        .field("From", whose)
        .field("Saved", format!("{}, revision {}", time_of(provider, "updated_at"), text_of(provider, "revision")))
        .section("Prices of a million tokens", &prices)
        .end()
}

fn outcome(tested: &Value, _: Paint) -> String {
    let asked = format!("{}/{}", text_of(tested, "provider"), text_of(tested, "model"));
    let took = format!("{} ms", text_of(tested, "duration_ms"));
    let mut lines = Vec::new();
    let error = &tested["error"];
    if error.is_null() {
        let answer = &tested["answer"];
        let usage = &answer["usage"];
        let cost = match answer["cost"].as_str() {
            Some(cost) => format!("{cost} {}", text_of(answer, "currency")),
            None => "unknown, it has no price".to_owned(),
        };
        let tries = match answer["tries"].as_u64() {
            Some(1) | None => String::new(),
            Some(tries) => format!(" at try {tries}"),
        };
        lines.push(format!("{asked} answered in {took}{tries}."));
        lines.push(format!("Said: {}", text_of(answer, "text")));
        lines.push(format!(
            "Tokens: {} in, of these {} cached; {} out. Cost: {cost}.",
            text_of(usage, "input_tokens"),
            text_of(usage, "cached_tokens"),
            text_of(usage, "output_tokens"),
        ));
    } else {
        lines.push(format!("{asked} did not answer ({took})."));
        lines.push(format!("{}: {}", text_of(error, "code"), text_of(error, "message")));
    }
    if tested["scripted"] == true {
        lines.push(format!("This is {SCRIPTED}."));
    }
    lines.iter().map(|line| clean(line)).collect::<Vec<_>>().join("\n")
}
