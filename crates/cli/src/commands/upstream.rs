//! `toolgate upstream …`.

use std::io::{BufRead as _, IsTerminal as _, Read as _};

use serde_json::{Map, Value, json};

use toolgate_mcp::runner::beside::{GET, READ, is_beside};

use super::import::shell;
use super::{counted_of, lines, list, tool_view, upstream_connect};
use crate::args::{AddUpstream, UpstreamCommand};
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Detail, Output, Paint, Table, clean, clean_line, items_of, note, text_of, time_of};

const SPEC_BYTES_MAX: usize = 256 * 1024;
const ANSWER_BYTES_MAX: u64 = 64;

pub async fn run(command: UpstreamCommand, client: &Client, output: &Output) -> Done {
    match command {
        UpstreamCommand::Add(add) => {
            let name = add.name.clone();
            let spec = spec(*add)?;
            let saved = client.put(&["upstreams", &name], spec).await?;
            added(&saved, output)
        }
        UpstreamCommand::List(paging) => list::show(&["upstreams"], &[], paging, (client, output), table).await,
        UpstreamCommand::Show { name } => {
            let upstream = client.get(&["upstreams", &name], &[]).await?;
            output.show(&upstream, detail)
        }
        UpstreamCommand::Test { name } => {
            let reading = client.post(&["upstreams", &name, "test"], json!({})).await?;
            output.show(&reading, read)
        }
        UpstreamCommand::Refresh { name } => {
            let reading = client.post(&["upstreams", &name, "refresh"], json!({})).await?;
            output.show(&reading, read)
        }
        UpstreamCommand::Review { name, classes, reason } => {
            classify(&name, &classes, reason.as_deref().unwrap_or_default(), client).await?;
            let review = client.get(&["upstreams", &name, "review"], &[]).await?;
            output.show(&review, suggestions)
        }
        UpstreamCommand::Accept { name, seen, tools } => {
            let seen = match seen {
                Some(seen) => seen,
                None => shown_and_asked(&name, "accept", client, output).await?,
            };
            let accepted = client.post(&["upstreams", &name, "accept"], decision(&seen, &tools)).await?;
            let count = accepted["accepted"].as_array().map_or(0, Vec::len);
            let sentence = match count {
                0 => format!("Accepted where {name} is; it offered no changes."),
                1 => format!("Accepted one change of {name}."),
                _ => format!("Accepted {count} changes of {name}."),
            };
            if let Some(problem) = accepted["problem"].as_str() {
                note(&format!("It cannot be read now: {problem}"));
            }
            output.say(&accepted, &sentence)
        }
        UpstreamCommand::Refuse { name, seen, tools, reason } => {
            let seen = match seen {
                Some(seen) => seen,
                None => shown_and_asked(&name, "refuse", client, output).await?,
            };
            let mut body = decision(&seen, &tools);
            if let Some(reason) = reason {
                body["reason"] = reason.into();
            }
            let refused = client.post(&["upstreams", &name, "refuse"], body).await?;
            let what = match refused["refused"].as_array().map_or(0, Vec::len) {
                1 => "one change".to_owned(),
                count => format!("{count} changes"),
            };
            output.say(&refused, &format!("Refused {what} of {name}; what was accepted goes on."))
        }
        UpstreamCommand::Connect { name, scope, answer } => {
            upstream_connect::run(&name, scope, answer, client, output).await
        }
        UpstreamCommand::Disconnect { name, scope } => {
            let gone = client.delete_with(&["upstreams", &name, "connection"], &[("scope", scope)]).await?;
            output.say(&gone, &format!("Disconnected {name}; whoever gave the tokens was not told."))
        }
        UpstreamCommand::Remove { name } => {
            let removed = client.delete(&["upstreams", &name]).await?;
            output.say(&removed, &format!("Removed {name}; its tools cannot be called any more."))
        }
    }
}

/// Says of tools of a server what they do. A name may be the server's own.
async fn classify(server: &str, classes: &[String], reason: &str, client: &Client) -> Result<(), Failure> {
    for class in classes {
        let (tool, class) = halves(class, '=', "--class TOOL=read_only")?;
        let whole = if tool.contains('.') { tool.to_owned() } else { format!("{server}.{tool}") };
        let said = json!({"egress_class": class, "reason": reason});
        let tool = client.put(&["tools", &whole, "classification"], said).await?;
        note(&format!("{} is {}.", text_of(&tool, "name"), text_of(&tool, "egress_class")));
    }
    Ok(())
}

/// What is accepted or refused of what was looked at.
fn decision(seen: &str, tools: &[String]) -> Value {
    let mut body = json!({"seen": seen});
    if !tools.is_empty() {
        body["tools"] = json!(tools);
    }
    body
}

/// Shows what there is to accept or refuse, and asks whether it is. Nobody is asked who is not there to look.
async fn shown_and_asked(name: &str, verb: &str, client: &Client, output: &Output) -> Result<String, Failure> {
    let upstream = client.get(&["upstreams", name], &[]).await?;
    let seen = upstream["seen"].as_str().ok_or_else(|| {
        Failure::failed(
            format!("what the server `{name}` offers cannot be decided: {}", text_of(&upstream, "problem")),
            "mend that first",
        )
    })?;
    if output.is_json() || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let remedy = format!("look at it with `toolgate upstream show {name}`, and give the digest that it names");
        return Err(Failure::usage("`--seen` is missing, and nobody is there to be asked", remedy));
    }
    output.show(&upstream, detail)?;
    note(&format!("\n{} of {name}? [y/N]", if verb == "accept" { "Accept all of this" } else { "Refuse what waits" }));
    let mut answer = String::new();
    let read = std::io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut answer);
    if read.is_err() || !matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Err(Failure::failed("nothing was changed", format!("answer `y` to {verb}")));
    }
    Ok(seen.to_owned())
}

fn spec(add: AddUpstream) -> Result<Value, Failure> {
    let AddUpstream {
        name,
        entry,
        url,
        sse,
        file,
        title,
        headers,
        secret_headers,
        secret_env,
        oauth,
        oauth_per,
        oauth_scope,
        oauth_client,
        oauth_secret,
        oauth_grant,
        tools,
        accepts,
        unprefixed,
        asks,
        apart,
        era,
        timeout_ms,
    } = add;
    if let Some(file) = file {
        let bytes = input::read_file(&file, SPEC_BYTES_MAX)?;
        let mut spec = toolgate_contracts::json::read(&bytes, SPEC_BYTES_MAX)
            .map_err(|error| Failure::usage(format!("{}: {error}", file.display()), "write one JSON object"))?;
        if let Value::Object(members) = &mut spec {
            members.entry("name").or_insert_with(|| name.into());
        }
        return Ok(spec);
    }
    let transport = match (entry, url) {
        (Some(entry), _) => json!({"kind": "stdio", "entry": entry}),
        (None, Some(url)) => json!({"kind": if sse { "sse" } else { "http" }, "url": url}),
        (None, None) => return Err(Failure::usage("neither `--entry` nor `--url`", "say where the server is")),
    };
    let mut all = Vec::new();
    for header in headers {
        let (name, value) = halves(&header, ':', "--header \"X-Team: blue\"")?;
        all.push(json!({"name": name, "value": value}));
    }
    for header in secret_headers {
        let (name, secret) = halves(&header, ':', "--secret-header \"Authorization: Bearer TOKEN_NAME\"")?;
        all.push(match secret.split_once(' ') {
            Some((scheme, secret)) => json!({"name": name, "scheme": scheme, "secret": secret.trim()}),
            None => json!({"name": name, "secret": secret}),
        });
    }
    let mut environment = Vec::new();
    for variable in secret_env {
        let (name, secret) = halves(&variable, '=', "--secret-env API_TOKEN=TOKEN_NAME")?;
        environment.push(json!({"name": name, "secret": secret}));
    }
    let auth = oauth.then(|| {
        let members = [
            ("per", oauth_per),
            ("scope", oauth_scope),
            ("client_id", oauth_client),
            ("client_secret", oauth_secret),
            ("grant", oauth_grant),
        ];
        let given = members.into_iter().filter_map(|(member, value)| Some((member.to_owned(), Value::from(value?))));
        json!({"oauth": Value::Object(given.collect())})
    });
    let mut spec = Map::new();
    spec.insert("version".into(), 1.into());
    spec.insert("name".into(), name.into());
    spec.insert("transport".into(), transport);
    let mut put = |member: &str, value: Option<Value>| spec.extend(value.map(|value| (member.to_owned(), value)));
    put("title", title.map(Value::from));
    put("era", era.map(Value::from));
    put("headers", (!all.is_empty()).then(|| all.into()));
    put("environment", (!environment.is_empty()).then(|| environment.into()));
    put("auth", auth);
    put("tools", (!tools.is_empty()).then(|| tools.into()));
    put("accepts", (!accepts.is_empty()).then(|| accepts.into()));
    put("unprefixed", unprefixed.then(|| true.into()));
    let asks: Map<String, Value> = asks
        .iter()
        .filter_map(|given| given.split_once('='))
        .map(|(what, whom)| (what.to_owned(), whom.into()))
        .collect();
    put("asks", (!asks.is_empty()).then(|| asks.into()));
    put("apart", apart.then(|| true.into()));
    put("timeout_ms", timeout_ms.map(Value::from));
    Ok(Value::Object(spec))
}

fn halves<'t>(text: &'t str, at: char, example: &str) -> Result<(&'t str, &'t str), Failure> {
    let halves = text.split_once(at).map(|(name, rest)| (name.trim(), rest.trim()));
    halves.filter(|(name, rest)| !name.is_empty() && !rest.is_empty()).ok_or_else(|| {
        Failure::usage(
            format!("`{}` has no `{at}` with something on both sides", text.escape_debug()),
            format!("write it as {example}"),
        )
    })
}

fn added(saved: &Value, output: &Output) -> Done {
    let name = text_of(saved, "name");
    let sentence = if saved["moved"] == json!(true) {
        format!(
            "Saved {name}. It is elsewhere than when it was accepted; look at it, then run `toolgate upstream accept {name}`."
        )
    } else if let Some(problem) = saved["problem"].as_str() {
        format!("Saved {name}. It cannot be read yet: {problem}")
    } else {
        let (had, refused) = counted_tools(tools_of(&saved["reading"]));
        match refused {
            0 => format!("Saved {name}: {had}."),
            refused => format!("Saved {name}: {had}; {refused} refused, see `toolgate upstream show {name}`."),
        }
    };
    output.say(saved, &sentence)?;
    Ok(Exit::Done)
}

/// What can be used of a server, in words, and how many of its tools are refused. What stands for something that is no
/// tool is not counted with them.
fn counted_tools(tools: &[Value]) -> (String, usize) {
    let is = |tool: &&Value, outcomes: &[&str]| tool["outcome"].as_str().is_some_and(|is| outcomes.contains(&is));
    let usable = tools.iter().filter(|tool| is(tool, &["new", "unchanged", "updated", "back"]));
    let (beside, own): (Vec<String>, Vec<String>) =
        usable.map(|tool| text_of(tool, "tool")).partition(|tool| is_beside(tool));
    let mut also = vec![(READ, "resources"), (GET, "prompts")];
    also.retain(|(stands, _)| beside.iter().any(|tool| tool == stands));
    let also: Vec<&str> = also.into_iter().map(|(_, what)| what).collect();
    let mut had = counted_of(own.len(), "tool");
    if !also.is_empty() {
        had = format!("{had}, and its {}", also.join(" and "));
    }
    (had, tools.iter().filter(|tool| is(tool, &["refused"])).count())
}

fn tools_of(reading: &Value) -> &[Value] {
    reading["tools"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn place_of(upstream: &Value) -> String {
    let transport = &upstream["transport"];
    match text_of(transport, "kind").as_str() {
        "stdio" => format!("entry {}", text_of(transport, "entry")),
        _ => text_of(transport, "url"),
    }
}

fn standing(upstream: &Value) -> String {
    if upstream["moved"] == json!(true) {
        "moved".to_owned()
    } else if !upstream["problem"].is_null() {
        "cannot be read".to_owned()
    } else if upstream["health"]["resting"] == json!(true) {
        "left alone".to_owned()
    } else {
        let count = |member: &str| upstream[member].as_u64().unwrap_or(0);
        let waiting = [(count("changes_offered"), "offered"), (count("tools_blocked"), "blocked")];
        let waiting: Vec<String> =
            waiting.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if waiting.is_empty() { "fine".to_owned() } else { waiting.join(", ") }
    }
}

/// Whose connections there are.
fn connected(connections: &Value) -> String {
    let scopes = connections.as_array().into_iter().flatten().map(|one| text_of(one, "scope"));
    scopes.collect::<Vec<_>>().join(", ")
}

/// What a server calls itself, and with which version.
fn called(server: &Value) -> String {
    format!("{} {}", text_of(server, "name"), text_of(server, "version")).trim().to_owned()
}

fn table(page: &Value, paint: Paint) -> String {
    let mut table = Table::new(["NAME", "WHERE", "STANDING", "TITLE"]).drops(["TITLE"]);
    for upstream in items_of(page) {
        table.row([text_of(upstream, "name"), place_of(upstream), standing(upstream), text_of(upstream, "title")]);
    }
    table.render(paint, "No server is behind the gate; see `toolgate upstream add`.")
}

fn detail(upstream: &Value, paint: Paint) -> String {
    let reading = &upstream["reading"];
    let server = &reading["server"];
    let mut text = Detail::new(paint, &text_of(upstream, "name"))
        .field("Title", text_of(upstream, "title"))
        .field("Where", place_of(upstream))
        .field("Standing", standing(upstream))
        .field("Problem", text_of(upstream, "problem"))
        .field("Calls itself", called(server))
        .field("Accepted as", called(&reading["was"]))
        .field("Speaks", text_of(reading, "revision"))
        .field("Last changed", time_of(upstream, "read_at"))
        .field("Connected", connected(&upstream["connections"]))
        .end();
    let offers = upstream["offers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !offers.is_empty() {
        let mut table = Table::new(["OFFERED", "CLASS", "INSTEAD OF", "SEEN", "REFUSED BY"]).drops(["REFUSED BY"]);
        for offer in offers {
            let before = offer["replaces"].as_str().map_or_else(|| text_of(offer, "current"), str::to_owned);
            table.row([
                text_of(offer, "tool"),
                text_of(offer, "class"),
                before,
                time_of(offer, "seen_at"),
                text_of(offer, "refused_by"),
            ]);
        }
        text = format!("{text}\n\n{}", table.render(paint, ""));
        for offer in offers {
            let changes = tool_view::changes(&offer["difference"], paint);
            let words = lines::compared(&offer["before"], &offer["after"], paint);
            for part in [changes, words].iter().filter(|part| !part.is_empty()) {
                text = format!("{text}\n\n{}\n{part}", clean(&text_of(offer, "tool")));
            }
        }
    }
    let is_waiting = offers.iter().any(|offer| offer["refused_by"].is_null())
        || upstream["moved"] == json!(true)
        || !reading["was"].is_null();
    if let Some(seen) = upstream["seen"].as_str().filter(|_| is_waiting) {
        let name = text_of(upstream, "name");
        text = format!(
            "{text}\n\nTo accept this: toolgate upstream accept {name} --seen {seen}\nTo refuse it: toolgate upstream refuse {name} --seen {seen}"
        );
    }
    let refused: Vec<String> = offers
        .iter()
        .filter(|offer| !offer["refused_by"].is_null())
        .map(|offer| format!("--tool {}", shell(&clean_line(&text_of(offer, "tool")))))
        .collect();
    if let Some(seen) = upstream["seen"].as_str().filter(|_| !refused.is_empty()) {
        let (name, tools) = (text_of(upstream, "name"), refused.join(" "));
        text = format!("{text}\n\nTo accept what was refused: toolgate upstream accept {name} {tools} --seen {seen}");
    }
    format!("{text}\n\n{}", read(reading, paint))
}

fn read(reading: &Value, paint: Paint) -> String {
    let mut table = Table::new(["TOOL", "NAME", "OUTCOME", "CLASS", "VERSION"]).drops(["VERSION"]);
    let mut said = Vec::new();
    for tool in tools_of(reading) {
        table.row([
            text_of(tool, "tool"),
            text_of(tool, "name"),
            text_of(tool, "outcome"),
            text_of(tool, "class"),
            text_of(tool, "version"),
        ]);
        for finding in tool["findings"].as_array().into_iter().flatten() {
            said.push(format!("{}: {}", text_of(tool, "tool"), text_of(finding, "message")));
        }
    }
    said.extend(reading["findings"].as_array().into_iter().flatten().map(|finding| text_of(finding, "message")));
    let table = table.render(paint, "It offers no tools.");
    if said.is_empty() { table } else { format!("{table}\n\n{}", said.join("\n")) }
}

fn suggestions(review: &Value, paint: Paint) -> String {
    let mut table = Table::new(["NAME", "CLASS", "SUGGESTED", "BECAUSE"]);
    let suggestions = review["suggestions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for suggestion in suggestions {
        table.row([
            text_of(suggestion, "name"),
            text_of(suggestion, "egress_class"),
            text_of(suggestion, "suggested"),
            text_of(suggestion, "reason"),
        ]);
    }
    let table = table.render(paint, "No tool of it claims to be milder than its class.");
    if suggestions.is_empty() {
        return table;
    }
    format!(
        "{table}\n\nA hint is a claim. Look at the tool, then: toolgate upstream review SERVER --class TOOL=CLASS --reason WHY"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_resources_and_prompts_is_not_counted_as_tools() {
        #[track_caller]
        fn check(tools: &[(&str, &str)], expected: (&str, usize)) {
            let tools: Vec<Value> =
                tools.iter().map(|(tool, outcome)| json!({"tool": tool, "outcome": outcome})).collect();
            let (had, refused) = counted_tools(&tools);
            assert_eq!((had.as_str(), refused), expected);
        }
        check(&[], ("0 tools", 0));
        check(&[("a", "new"), ("b", "refused"), ("c", "offered")], ("1 tool", 1));
        let all = [("a", "unchanged"), ("b", "back"), (READ, "new"), (GET, "new"), ("completion/complete", "new")];
        check(&all, ("2 tools, and its resources and prompts", 0));
        check(&[("a", "new"), (GET, "updated"), (READ, "refused")], ("1 tool, and its prompts", 1));
    }

    #[test]
    fn what_was_refused_can_be_accepted_by_the_line_that_is_shown() {
        let offer = |tool: &str, by: Option<&str>| json!({"tool": tool, "refused_by": by, "before": {}, "after": {}});
        let mut upstream = json!({"name": "notes", "seen": "5e", "offers": [offer("it's", Some("ada"))]});
        let shown = detail(&upstream, Paint::PLAIN);
        let line = "To accept what was refused: toolgate upstream accept notes --tool \"it's\" --seen 5e";
        assert!(shown.contains(line) && !shown.contains("To accept this"), "{shown}");
        upstream["offers"] = json!([offer("a", None)]);
        let shown = detail(&upstream, Paint::PLAIN);
        assert!(shown.contains("To accept this") && !shown.contains("refused: "), "{shown}");
    }
}
