//! `toolgate db …`.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::json;
use toolgate_store::{Options, Store};

use crate::args::DbCommand;
use crate::client::{Client, Reached};
use crate::connect::{Place, Session, Taken};
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Detail, Output, Table, items_of, note, text_of};

pub async fn run(command: DbCommand, client: &Client, output: &Output) -> Done {
    match command {
        DbCommand::Backup { file } => backup(&file, client, output).await,
        DbCommand::Roles => roles(client, output).await,
        DbCommand::MapRole { role, user } => map_role(&role, &user, client, output).await,
        DbCommand::UnmapRole { role } => {
            let answer = client.delete(&["db", "roles", &role]).await?;
            output.say(&answer, &format!("The role {role} stands for nobody any more."))
        }
        DbCommand::Status | DbCommand::Migrate | DbCommand::Restore { .. } => {
            let database = client.get(&["db"], &[]).await?;
            output.show(&database, |database, paint| {
                Detail::new(paint, &text_of(database, "url"))
                    .field("Kind", text_of(database, "kind"))
                    .field("Migrations", format!("{} of {}", text_of(database, "applied"), text_of(database, "known")))
                    .end()
            })
        }
    }
}

async fn roles(client: &Client, output: &Output) -> Done {
    let roles = client.get(&["db", "roles"], &[]).await?;
    output.show(&roles, |roles, paint| {
        let mut table = Table::new(["ROLE", "USER", "MAPPED BY"]);
        for role in items_of(roles) {
            table.row(["role", "user", "mapped_by"].map(|member| text_of(role, member)));
        }
        table.render(paint, "No role stands for anybody; see `toolgate db map-role`.")
    })
}

async fn map_role(role: &str, user: &str, client: &Client, output: &Output) -> Done {
    let answer = client.put(&["db", "roles", role], json!({"user": user})).await?;
    output.say(&answer, &format!("The role {role} stands for {} from now on.", text_of(&answer, "user")))?;
    note(&format!(
        "To let it in, the database's owner says: GRANT CONNECT ON DATABASE … TO \"{role}\"; GRANT toolgate_sql TO \"{role}\";"
    ));
    Ok(Exit::Done)
}

/// Every command migrates what it opens; this one does only that, and says what it did.
pub async fn migrate(session: &Session) -> Done {
    let (from, to) = match &session.place {
        Place::Server { .. } => ask(session).await?,
        Place::Folder(path) => match session.take_folder(path).await? {
            // A server migrated it when it started.
            Taken::Served(_) => ask(session).await?,
            Taken::Ours(folder) => {
                let config = session.config(path, &[])?;
                let store = Store::open(Options::new(config.database_url(path))).await?;
                let before = store.migration_state().await;
                let after = store.migrate().await;
                store.close().await?;
                drop(folder);
                (before?.applied, after?.applied)
            }
        },
    };
    let sentence = if from == to {
        format!("The database is up to date, at migration {to}.")
    } else {
        format!("Migrated the database from {from} to {to}.")
    };
    session.output.say(&json!({"from": from, "to": to}), &sentence)
}

async fn ask(session: &Session) -> Result<(u32, u32), Failure> {
    let client = session.connect().await?;
    let database = client.get(&["db"], &[]).await;
    client.close().await;
    let applied = database?["applied"].as_u64().and_then(|applied| u32::try_from(applied).ok()).unwrap_or_default();
    Ok((applied, applied))
}

/// On this machine FILE is a path; on a server elsewhere it is a name in that server's folder for backups.
async fn backup(file: &Path, client: &Client, output: &Output) -> Done {
    let elsewhere = matches!(client, Client::Remote(remote) if remote.reached == Reached::Named);
    let answer = if elsewhere {
        let name = file.to_str().filter(|name| !name.contains('/')).ok_or_else(|| {
            Failure::usage(
                format!("{} is a path, and the server writes into its own folder", file.display()),
                "give a plain name, such as today.db",
            )
        })?;
        client.post(&["db", "backup"], json!({"name": name})).await?
    } else {
        let wrong = |error: &io::Error, remedy: &str| {
            Failure::failed(format!("cannot write {}: {}", file.display(), input::reason(error)), remedy)
        };
        if file.exists() {
            return Err(wrong(
                &io::ErrorKind::AlreadyExists.into(),
                "name a file that does not exist; a backup overwrites nothing",
            ));
        }
        // Written where the server may write, and moved from there: the two may work in different folders.
        let answer =
            client.post(&["db", "backup"], json!({"name": format!("unfinished-{}.db", std::process::id())})).await?;
        let written = text_of(&answer, "file");
        move_file(Path::new(&written), file)
            .map_err(|error| wrong(&error, &format!("the backup itself is good, in {written}")))?;
        json!({"file": file})
    };
    output.say(&answer, &format!("The backup is in {}.", text_of(&answer, "file")))
}

/// Never over another file, also to another disk.
fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
            return Err(error);
        }
        Err(_) => input::copy(from, to)?,
        Ok(()) => {}
    }
    fs::remove_file(from)
}
