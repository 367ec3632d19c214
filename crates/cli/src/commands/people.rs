//! `toolgate tenant …`, `user`, `workspace`, `person`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{counted, list, with_questions};
use crate::args::{EditUser, NewUser, PersonCommand, TenantCommand, UserCommand, WorkspaceCommand};
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::output::{Detail, Output, Paint, Table, clean_line, items_of, note, print, text_of, time_of};

pub async fn tenant(command: TenantCommand, client: &Client, output: &Output) -> Done {
    match command {
        TenantCommand::List(paging) => list::show(&["tenants"], &[], paging, (client, output), tenants_table).await,
        TenantCommand::Create { slug, name, currency } => {
            let tenant = client.post(&["tenants"], json!({"slug": slug, "name": name, "currency": currency})).await?;
            output.say(&tenant, &format!("Created tenant {slug}. Work in it with --tenant {slug}."))
        }
        TenantCommand::Set { open_write } => {
            let me = client.get(&["me"], &[]).await?;
            let slug = text_of(&me, "tenant");
            let tenant = client.patch(&["tenants", &slug], json!({"open_write": open_write == "on"})).await?;
            let effect = if open_write == "on" {
                "have `write` tools too; they still ask"
            } else {
                "have no `write` tools unless assigned"
            };
            output.say(&tenant, &format!("In tenant {slug}, agents with an open tool set {effect}."))
        }
    }
}

fn tenants_table(tenants: &Value, paint: Paint) -> String {
    let mut table =
        Table::new(["TENANT", "CURRENCY", "OPEN WRITE", "SINCE", "ID", "NAME"]).drops(["ID", "SINCE", "CURRENCY"]);
    for tenant in items_of(tenants) {
        let open = if tenant["open_write"] == true { "on" } else { "off" };
        table.row([
            text_of(tenant, "slug"),
            text_of(tenant, "currency"),
            open.to_owned(),
            time_of(tenant, "created_at"),
            text_of(tenant, "id"),
            text_of(tenant, "name"),
        ]);
    }
    table.render(paint, "No tenants.")
}

pub async fn user(command: UserCommand, client: &Client, output: &Output) -> Done {
    match command {
        UserCommand::List(paging) => list::show(&["users"], &[], paging, (client, output), users_table).await,
        UserCommand::Create(NewUser { name, email, roles, permissions, workspaces, service }) => {
            let kind = service.then_some("service");
            let body = json!({"name": name, "kind": kind, "email": email, "roles": given(roles), "permissions": given(permissions), "workspaces": given(workspaces)});
            let user = client.post(&["users"], body).await?;
            output.say(&user, &format!("Created user {} with {}.", text_of(&user, "name"), text_of(&user, "roles")))
        }
        UserCommand::Show { name } => {
            let user = client.get(&["users", &name], &[]).await?;
            output.show(&user, show_user)
        }
        UserCommand::Set(EditUser { name, roles, permissions, workspaces, disable, enable }) => {
            let disabled = if disable || enable { Some(disable) } else { None };
            if roles.is_empty() && permissions.is_empty() && workspaces.is_empty() && disabled.is_none() {
                return Err(Failure::usage("nothing to change", "give --role, --workspace, --disable or --enable"));
            }
            let body = json!({"roles": given(roles), "permissions": given(permissions), "workspaces": given(workspaces), "disabled": disabled});
            let user = client.patch(&["users", &name], body).await?;
            output.show(&user, show_user)
        }
        UserCommand::Reset { name, show } => super::sign_in::reset(&name, show, client, output).await,
        UserCommand::SignInLink { name } => {
            let link = client.post(&["users", &name, "sign-in-link"], json!({})).await?;
            let done = output.show(&link, |link, _| clean_line(&text_of(link, "url")))?;
            note(&format!("It signs {name} in once, until {} UTC.", time_of(&link, "expires_at")));
            if matches!(client, Client::Local(_)) {
                note("No server is running on this data folder; start one with `toolgate serve` before it is used.");
            }
            Ok(done)
        }
    }
}

/// A list that was not given is not sent.
pub fn given(list: Vec<String>) -> Option<Vec<String>> {
    Some(list).filter(|list| !list.is_empty())
}

fn users_table(users: &Value, paint: Paint) -> String {
    let mut table = Table::new(["NAME", "KIND", "ROLES", "WORKSPACES", "STATE", "E-MAIL"])
        .cuts("ROLES")
        .drops(["WORKSPACES", "KIND"]);
    for user in items_of(users) {
        let state = if user["disabled"] == true { "disabled" } else { "active" };
        let [name, kind, roles, workspaces, email] =
            ["name", "kind", "roles", "workspaces", "email"].map(|member| text_of(user, member));
        table.row([name, kind, roles, workspaces, state.to_owned(), email]);
    }
    table.render(paint, "No users; create one with `toolgate user create NAME`.")
}

fn show_user(user: &Value, paint: Paint) -> String {
    Detail::new(paint, &text_of(user, "name"))
        .field("Id", text_of(user, "id"))
        .field("Kind", text_of(user, "kind"))
        .field("State", if user["disabled"] == true { "disabled" } else { "active" })
        .field("Roles", text_of(user, "roles"))
        .field("Permissions", text_of(user, "permissions"))
        .field("Workspaces", text_of(user, "workspaces"))
        .field("E-mail", text_of(user, "email"))
        .field("Since", time_of(user, "created_at"))
        .end()
}

pub async fn workspace(command: WorkspaceCommand, client: &Client, output: &Output) -> Done {
    match command {
        WorkspaceCommand::List(paging) => {
            list::show(&["workspaces"], &[], paging, (client, output), workspaces_table).await
        }
        WorkspaceCommand::Create { slug, name } => {
            let workspace = client.post(&["workspaces"], json!({"slug": slug, "name": name})).await?;
            output.say(&workspace, &format!("Created workspace {slug}."))
        }
    }
}

fn workspaces_table(workspaces: &Value, paint: Paint) -> String {
    let mut table = Table::new(["WORKSPACE", "SINCE", "ID", "NAME"]).drops(["ID", "SINCE"]);
    for workspace in items_of(workspaces) {
        table.row([
            text_of(workspace, "slug"),
            time_of(workspace, "created_at"),
            text_of(workspace, "id"),
            text_of(workspace, "name"),
        ]);
    }
    table.render(paint, "No workspaces.")
}

pub async fn person(command: PersonCommand, client: &Client, output: &Output) -> Done {
    let (name, apply) = match command {
        PersonCommand::Export { name, to } => return export(&name, to, client, output).await,
        PersonCommand::Erase { name, apply } => (name, apply),
    };
    let answer = client.post(&["users", &name, "erase"], json!({"apply": apply})).await?;
    let calls = with_questions(counted(&answer["calls"], "call"), &answer);
    if apply {
        return output.say(
            &answer,
            &format!("Erased what {name} sent and got in {calls}; the record that they happened stays."),
        );
    }
    output.say(&answer, &format!("{calls} of {name} hold what was sent or got."))?;
    note("Nothing was erased. To erase it, add --apply.");
    Ok(Exit::Done)
}

async fn export(name: &str, to: Option<PathBuf>, client: &Client, output: &Output) -> Done {
    let lines = client.text(&["users", name, "export"], &[]).await?;
    let Some(file) = to else {
        return print(&lines).map(|()| Exit::Done);
    };
    let mut options = std::fs::OpenOptions::new();
    let written = std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), 0o600)
        .open(&file)
        .and_then(|mut opened| std::io::Write::write_all(&mut opened, lines.as_bytes()));
    written.map_err(|error| {
        Failure::failed(
            format!("cannot write {}: {error}", file.display()),
            "name a file that does not exist, in a folder that does",
        )
    })?;
    let things = lines.lines().count();
    let answer = json!({"user": name, "file": file.display().to_string(), "lines": things});
    output.say(&answer, &format!("Wrote what is kept of {name} to {}: {things} lines of JSON.", file.display()))
}
