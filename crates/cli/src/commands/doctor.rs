//! `toolgate doctor`: the server's own checks, and what can be said when there is none to ask.

use serde_json::{Value, json};

use crate::client::{Client, Reached};
use crate::connect::{Place, Session};
use crate::failure::{Done, Exit, Failure};
use crate::output::{Paint, Table, text_of};

pub async fn run(session: &Session) -> Done {
    let mut checks = vec![];
    if let Place::Folder(data) = &session.place {
        checks.push(match session.config(data, &[]) {
            Ok(_) => good("configuration", "every key is known"),
            Err(failure) => bad("configuration", &failure),
        });
    }
    let configured = checks.iter().all(|check| check["ok"] == true);
    match session.connect().await {
        Ok(client) => {
            checks.push(place(&client, session));
            checks.extend(ask(&client).await);
            client.close().await;
        }
        Err(failure) if configured => checks.push(bad(name_of_place(session), &failure)),
        // Told already.
        Err(_) => {}
    }
    let all_good = checks.iter().all(|check| check["ok"] == true);
    session.output.show(&json!({"checks": checks}), show)?;
    Ok(if all_good { Exit::Done } else { Exit::Failed })
}

async fn ask(client: &Client) -> Vec<Value> {
    match client.get(&["doctor"], &[]).await {
        Ok(mut answer) => match answer["checks"].take() {
            Value::Array(checks) => checks,
            _ => vec![],
        },
        Err(failure) => vec![bad("server", &failure)],
    }
}

fn place(client: &Client, session: &Session) -> Value {
    match client {
        Client::Local(_) => good("place", &format!("{}, in this process", shown(session))),
        Client::Remote(remote) => match &remote.reached {
            Reached::Named => good("place", remote.url()),
            Reached::Holding { folder, .. } => {
                good("place", &format!("{}, which holds {}", remote.url(), folder.display()))
            }
        },
    }
}

fn shown(session: &Session) -> String {
    match &session.place {
        Place::Server { url, .. } => url.clone(),
        Place::Folder(path) => path.display().to_string(),
    }
}

const fn name_of_place(session: &Session) -> &'static str {
    match session.place {
        Place::Server { .. } => "server",
        Place::Folder(_) => "data",
    }
}

fn good(name: &str, found: &str) -> Value {
    json!({"name": name, "ok": true, "found": found})
}

fn bad(name: &str, failure: &Failure) -> Value {
    let cause = failure.cause.as_ref().map(|cause| format!(" ({cause})")).unwrap_or_default();
    json!({"name": name, "ok": false, "found": format!("{}{cause}", failure.told()), "remedy": failure.remedy()})
}

fn show(answer: &Value, paint: Paint) -> String {
    let mut table = Table::new(["", "CHECK", "FOUND"]);
    let checks = answer["checks"].as_array().into_iter().flatten();
    let mut remedies = String::new();
    for check in checks {
        let ok = check["ok"] == true;
        table.row([if ok { "ok" } else { "!!" }.to_owned(), text_of(check, "name"), text_of(check, "found")]);
        if !ok {
            remedies.push_str(&crate::output::clean(&format!(
                "\n!! {}: {}\n   hint: {}",
                text_of(check, "name"),
                text_of(check, "found"),
                text_of(check, "remedy")
            )));
        }
    }
    format!("{}\n{remedies}", table.render(paint, "Nothing was checked."))
}
