//! `toolgate token …`.

use std::path::Path;

use serde_json::{Value, json};
use toolgate_policy::token::{Claims, Keys, TOKEN_BYTES_MAX, read};

use super::{counted, list};
use crate::args::{TokenCommand, Wanted};
use crate::client::Client;
use crate::connect::{Place, Session};
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Detail, Output, Paint, Table, clean_line, items_of, name_of, note, person_of, text_of, time_of};

pub async fn run(command: TokenCommand, client: &Client, output: &Output) -> Done {
    match command {
        TokenCommand::Mint { wanted, agent } => {
            let mut body = body(wanted)?;
            body["agent"] = json!(agent);
            made(&client.post(&["tokens"], body).await?, output)
        }
        TokenCommand::Narrow { .. } => {
            Err(Failure::from(toolgate_contracts::Fault::internal("a command took the wrong way")))
        }
        TokenCommand::List { agent, active, paging } => {
            let query = [("agent", agent), ("active", active.then(|| "true".to_owned()))];
            list::show(&["tokens"], &query, paging, (client, output), table).await
        }
        TokenCommand::Revoke { id, agent, token_file } => {
            let id = match (id, token_file) {
                (None, Some(file)) => Some(said(&read_token(&file)?, client).await?.jti.to_string()),
                (id, _) => id,
            };
            if let Some(id) = id {
                let revoked = client.delete(&["tokens", &id]).await?;
                return output.say(&revoked, &format!("Revoked token {id}, and those made of it."));
            }
            let name = agent.clone().unwrap_or_default();
            let revoked = client.delete_with(&["tokens"], &[("agent", agent)]).await?;
            output.say(&revoked, &format!("Revoked {} of agent {name}.", counted(&revoked["revoked"], "token")))
        }
        TokenCommand::Inspect { token_file } => {
            let text = read_token(token_file.as_deref().unwrap_or(Path::new("-")))?;
            inspect(&text, client, output).await
        }
    }
}

/// With the token that is to be narrowed, and with nothing else.
pub async fn narrow(wanted: Wanted, file: Option<&Path>, session: &Session) -> Done {
    let body = body(wanted)?;
    let token = match (file, &session.acting_with, &session.place) {
        (Some(file), _, _) => Some(read_token(file)?),
        (None, Some(given), _) => Some(given.clone()),
        (None, None, Place::Server { key, .. }) => Some(key.clone()),
        (None, None, Place::Folder(_)) => session.environment.get("TOOLGATE_KEY").map(|key| key.trim().to_owned()),
    };
    let token = token.filter(|text| text.split('.').count() == 3).ok_or_else(|| {
        Failure::usage("no token to narrow is given", "name its file with --token-file, or set TOOLGATE_KEY to it")
    })?;
    let client = session.connect_with(Some(&token)).await?;
    let answer = client.post(&["tokens"], body).await;
    client.close().await;
    made(&answer?, &session.output)
}

fn read_token(file: &Path) -> Result<String, Failure> {
    Ok(input::read_text(file, TOKEN_BYTES_MAX + 2)?.trim().to_owned())
}

fn body(wanted: Wanted) -> Result<Value, Failure> {
    let Wanted { tools, constraints, max_calls, budget, expires_s, run, labels_max, jkt } = wanted;
    let scope: Vec<String> = tools.iter().map(|tool| format!("tool:{tool}")).collect();
    let constraints = input::constraints(&constraints)?;
    Ok(json!({
        "scope": scope, "constraints": constraints, "max_calls": max_calls, "budget": budget, "expires_s": expires_s,
        "run": run, "labels_max": (!labels_max.is_empty()).then_some(labels_max), "jkt": jkt,
    }))
}

/// The text alone on standard output, so that `> file` keeps exactly it.
fn made(minted: &Value, output: &Output) -> Done {
    let done = output.show(minted, |minted, _| clean_line(&text_of(minted, "token")))?;
    note(&format!(
        "Token {} ({}) lasts until {}. It is shown now and never again.",
        text_of(minted, "id"),
        text_of(minted, "scope"),
        time_of(minted, "expires_at")
    ));
    Ok(done)
}

/// What a token says that the server has signed.
async fn said(text: &str, client: &Client) -> Result<Claims, Failure> {
    let keys = Keys::from_jwks(&client.well_known("jwks.json").await?);
    read(text, &keys).map_err(|why| {
        Failure::failed(format!("this is no token of this server: {why}"), "ask for one with `toolgate token mint`")
    })
}

async fn inspect(text: &str, client: &Client, output: &Output) -> Done {
    let claims = said(text, client).await?;
    let id = claims.jti.to_string();
    // Who may not look it up is told what it says all the same.
    let info = client.get(&["tokens", &id], &[]).await.ok();
    let now = info.as_ref().map_or_else(|| "unknown".to_owned(), |info| text_of(info, "state"));
    let works = now == "active";
    let value = json!({"claims": claims, "state": now, "calls_used": info.as_ref().map(|info| &info["calls_used"])});
    output.show(&value, |_, paint| page(&claims, &now, info.as_ref(), paint))?;
    Ok(if works { Exit::Done } else { Exit::Failed })
}

fn page(claims: &Claims, state: &str, info: Option<&Value>, paint: Paint) -> String {
    let info = info.unwrap_or(&Value::Null);
    let said = serde_json::to_value(claims).unwrap_or_default();
    let joined = |member: &str| text_of(&said, member);
    // What is signed is the id; the name beside it is the server's word.
    let named = |id: &str, name: &str| match text_of(info, name) {
        name if name.is_empty() || id.is_empty() => id.to_owned(),
        name => format!("{name} ({id})"),
    };
    let constraints: Vec<String> =
        said["constraints"].as_array().into_iter().flatten().map(|one| clean_line(&one.to_string())).collect();
    let calls = claims.max_calls.map(|most| format!("{} of {most}", text_of(info, "calls_used")));
    Detail::new(paint, &format!("Token {}", claims.jti))
        .field("State", state)
        .field("Issuer", joined("iss"))
        .field("Principal", named(&joined("sub"), "principal_name"))
        .field("Agent", named(&text_of(&said["act"], "sub"), "agent_name"))
        .field("Run", joined("run"))
        .field("Scope", joined("scope"))
        .field("Calls", calls.unwrap_or_default())
        .field("Budget", joined("budget"))
        .field("Labels", joined("labels_max"))
        .field("Parent", joined("parent"))
        .field("Bound to", text_of(&said["cnf"], "jkt"))
        .field("Expires", time_of(info, "expires_at"))
        .section("Constraints", &constraints.join("\n"))
        .end()
}

/// Who acts with it.
fn whose(token: &Value) -> String {
    match token["agent_id"].as_str() {
        Some(_) => format!("agent {}", name_of(token, "agent_id", "agent_name")),
        None => person_of(token, "principal"),
    }
}

fn table(tokens: &Value, paint: Paint) -> String {
    let mut table = Table::new(["ID", "STATE", "BY", "CALLS", "EXPIRES", "SCOPE"]).drops(["CALLS", "EXPIRES", "SCOPE"]);
    for token in items_of(tokens) {
        let used = text_of(token, "calls_used");
        let most = text_of(token, "max_calls");
        table.row([
            text_of(token, "id"),
            text_of(token, "state"),
            whose(token),
            if most.is_empty() { used } else { format!("{used} of {most}") },
            time_of(token, "expires_at"),
            text_of(token, "scope"),
        ]);
    }
    table.render(paint, "No tokens; make one with `toolgate token mint --tool NAME`.")
}
