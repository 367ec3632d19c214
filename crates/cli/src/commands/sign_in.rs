//! `toolgate invitation …`, `session` and `user reset`.

use serde_json::{Value, json};

use super::{list, people};
use crate::args::{InvitationCommand, NewInvitation, SessionCommand, Whose};
use crate::client::Client;
use crate::failure::Done;
use crate::output::{Output, Paint, Table, clean_line, items_of, note, text_of, time_of};

pub async fn invitation(command: InvitationCommand, client: &Client, output: &Output) -> Done {
    match command {
        InvitationCommand::Create(NewInvitation { name, email, roles, permissions, workspaces, show }) => {
            let body = json!({
                "name": name, "email": email, "roles": people::given(roles), "permissions": people::given(permissions),
                "workspaces": people::given(workspaces), "show": show,
            });
            let sent = client.post(&["invitations"], body).await?;
            let until = time_of(&sent["invitation"], "expires_at");
            told(&sent, &format!("It lets {name} in once, until {until} UTC."), client, output)
        }
        InvitationCommand::List(paging) => {
            list::show(&["invitations"], &[], paging, (client, output), invitations).await
        }
        InvitationCommand::Resend { id, show } => {
            let sent = client.post(&["invitations", &id, "resend"], json!({"show": show})).await?;
            let (name, until) = (text_of(&sent["invitation"], "name"), time_of(&sent["invitation"], "expires_at"));
            told(
                &sent,
                &format!("It lets {name} in once, until {until} UTC. The link before no longer does."),
                client,
                output,
            )
        }
        InvitationCommand::Revoke { id } => {
            let revoked = client.delete(&["invitations", &id]).await?;
            output.say(&revoked, &format!("Revoked the invitation of {}.", text_of(&revoked, "name")))
        }
    }
}

pub async fn reset(name: &str, show: bool, client: &Client, output: &Output) -> Done {
    let sent = client.post(&["users", name, "reset"], json!({"show": show})).await?;
    let until = time_of(&sent, "expires_at");
    told(&sent, &format!("With it {name} sets a new password, once, until {until} UTC."), client, output)
}

/// Prints a link, or where it went.
fn told(sent: &Value, what: &str, client: &Client, output: &Output) -> Done {
    let done = output.show(sent, |sent, _| match sent["mailed_to"].as_str() {
        Some(address) => format!("Mailed a link to {}.", clean_line(address)),
        None => clean_line(&text_of(sent, "url")),
    })?;
    note(what);
    if let Some(why) = sent["mail_failed"].as_str() {
        note(&format!("It was not mailed: {}.", clean_line(why)));
    }
    if matches!(client, Client::Local(_)) {
        note("No server is running on this data folder; start one with `toolgate serve` before it is used.");
    }
    Ok(done)
}

fn invitations(invitations: &Value, paint: Paint) -> String {
    let mut table = Table::new(["ID", "NAME", "STATE", "ROLES", "UNTIL", "BY", "E-MAIL"])
        .cuts("ROLES")
        .drops(["BY", "UNTIL", "E-MAIL"]);
    for one in items_of(invitations) {
        let [id, name, state, roles, by, email] =
            ["id", "name", "state", "roles", "invited_by", "email"].map(|member| text_of(one, member));
        table.row([id, name, state, roles, time_of(one, "expires_at"), by, email]);
    }
    table.render(paint, "No invitations; make one with `toolgate invitation create NAME`.")
}

pub async fn session(command: SessionCommand, client: &Client, output: &Output) -> Done {
    match command {
        SessionCommand::List { whose, paging } => {
            list::show(&place(&whose, None), &[], paging, (client, output), sessions_table).await
        }
        SessionCommand::End { id, whose } => {
            client.delete(&place(&whose, Some(&id))).await?;
            output.say(&json!({"session": id, "ended": true}), &format!("Ended session {id}."))
        }
        SessionCommand::EndAll(whose) => {
            client.delete(&place(&whose, None)).await?;
            let name = whose.user.as_deref().unwrap_or("you");
            let (user, text) = (whose.user.as_deref(), format!("Ended all browser sessions of {name}."));
            output.say(&json!({"user": user, "ended": true}), &text)
        }
    }
}

fn place<'a>(whose: &'a Whose, id: Option<&'a str>) -> Vec<&'a str> {
    let base = match &whose.user {
        Some(user) => vec!["users", user, "sessions"],
        None => vec!["sessions"],
    };
    base.into_iter().chain(id).collect()
}

fn sessions_table(sessions: &Value, paint: Paint) -> String {
    let mut table =
        Table::new(["ID", "BY", "BEGAN", "SEEN", "UNTIL", "FROM", "BROWSER"]).cuts("BROWSER").drops(["SEEN", "UNTIL"]);
    for one in items_of(sessions) {
        let [id, how, from, browser] = ["id", "how", "address", "agent"].map(|member| text_of(one, member));
        let [began, seen, until] = ["began_at", "seen_at", "ends_at"].map(|member| time_of(one, member));
        table.row([id, how, began, seen, until, from, browser]);
    }
    table.render(paint, "No browser sessions.")
}
