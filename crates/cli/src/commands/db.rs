//! `toolgate db …`.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};
use toolgate_store::{Options, Store};

use crate::args::DbCommand;
use crate::client::{Client, Reached};
use crate::connect::{Place, Session, Taken};
use crate::failure::{Done, Failure};
use crate::output::{Detail, Output, text_of};

pub async fn run(command: DbCommand, client: &Client, output: &Output) -> Done {
    match command {
        DbCommand::Backup { file } => backup(&file, client, output).await,
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

/// Every command migrates what it opens; this one does only that, and says what it did.
pub async fn migrate(session: &Session) -> Done {
    let (from, to) = match &session.place {
        Place::Server { .. } => ask(session).await?,
        Place::Folder(path) => match session.take_folder(path).await? {
            // A server migrated it when it started.
            Taken::Served { .. } => ask(session).await?,
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
    let sentence = if from == to { format!("The database is up to date, at migration {to}.") } else { format!("Migrated the database from {from} to {to}.") };
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
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let answer = match client {
        Client::Local(local) => match local.app() {
            Some(app) => {
                app.store.backup(file).await?;
                json!({"file": file.display().to_string()})
            }
            None => Value::Null,
        },
        Client::Remote(remote) if remote.reached == Reached::Named => {
            if Path::new(&name) != file {
                return Err(Failure::usage(
                    format!("{} is a path, and the server writes into its own folder", file.display()),
                    "give a plain name, such as today.db",
                ));
            }
            client.post(&["db", "backup"], json!({"name": name})).await?
        }
        Client::Remote(_) => {
            if file.exists() {
                return Err(Failure::failed(format!("{} exists already", file.display()), "name a file that does not exist; a backup overwrites nothing"));
            }
            // The server knows this machine's files by its own working directory, so it writes where it knows and we move it.
            let passing = format!("cli-{}.db", std::process::id());
            let answer = client.post(&["db", "backup"], json!({"name": passing})).await?;
            let written = text_of(&answer, "file");
            move_file(Path::new(&written), file)
                .map_err(|error| Failure::failed(format!("cannot write {}: {}", file.display(), crate::input::reason(&error)), format!("the backup is in {written}")))?;
            json!({"file": file.display().to_string()})
        }
    };
    output.say(&answer, &format!("The backup is in {}.", text_of(&answer, "file")))
}

/// Also to another disk.
fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            fs::copy(from, to)?;
            fs::File::open(to)?.sync_all()?;
            fs::remove_file(from)
        }
        moved => moved,
    }
}
