//! `toolgate db restore`: a backup takes the place of the database, which is kept beside it.
//!
//! Invariant: at every instant either the old database or the new one is whole under its name, and the old one is whole
//! under its second name before anything is taken from the first.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use toolgate_contracts::{Clock, Rng};
use toolgate_server::{App, Running};
use toolgate_store::{MigrationState, Options, Scope, Store};

use crate::code::code_tools;
use crate::connect::{Session, Taken};
use crate::failure::{Done, Failure};
use crate::input;

/// What SQLite keeps beside a database that is in use.
const COMPANIONS: [&str; 2] = ["-wal", "-shm"];

pub async fn run(file: &Path, session: &Session) -> Done {
    let data = session.folder("restoring")?;
    let folder = match session.take_folder(data).await? {
        Taken::Ours(folder) => folder,
        Taken::Served(Running { url, .. }) => {
            return Err(Failure::failed(
                format!("a server is using {}: {url}", data.display()),
                "stop it first; nothing was changed",
            ));
        }
    };
    let config = session.config(data, &[])?;
    let url = config.database_url(data);
    let Some(database) = url.strip_prefix("sqlite://").map(PathBuf::from) else {
        return Err(Failure::usage("the database is PostgreSQL, which Toolgate does not restore", "use `pg_restore`"));
    };
    let fresh = beside(&database, ".restoring");
    let state = match examine(file, &fresh).await {
        Ok(state) => state,
        Err(failure) => {
            discard(&fresh);
            return Err(failure);
        }
    };
    let kept = replace(&database, &fresh).map_err(|error| {
        Failure::failed(
            format!("cannot replace {}: {}", database.display(), input::reason(&error)),
            "check the folder's mode and the free space; the database is as it was",
        )
    })?;
    // Brings an older backup up to date.
    let app = App::open(config, &folder.path, code_tools(), Clock::System, Rng::System).await?;
    app.note_restored(&file.display().to_string()).await?;
    app.close().await;
    drop(folder);
    let kept = kept.map(|kept| kept.display().to_string());
    let value = json!({"database": database.display().to_string(), "from": file.display().to_string(), "kept": kept, "migration": state.applied});
    let aside = kept.map_or_else(
        || "There was no database before.".to_owned(),
        |kept| format!("The one before is kept as {kept}."),
    );
    session.output.say(&value, &format!("Restored {} from {}. {aside}", database.display(), file.display()))
}

/// Copies the backup beside the database and looks at the copy: the file that was given is only read.
async fn examine(file: &Path, fresh: &Path) -> Result<MigrationState, Failure> {
    if fs::metadata(beside(file, "-wal")).is_ok_and(|log| log.len() > 0) {
        return Err(Failure::failed(
            format!(
                "{} was copied while it was in use: a part of it is in {}",
                file.display(),
                beside(file, "-wal").display()
            ),
            "restore a file made by `toolgate db backup`; nothing was changed",
        ));
    }
    discard(fresh);
    input::copy(file, fresh).map_err(|error| {
        Failure::usage(
            format!("cannot read {}: {}", file.display(), input::reason(&error)),
            "check the path and the free space",
        )
    })?;
    let foreign = |why: &str| {
        // What was looked at is the copy; what was given is the file.
        let why = why.replace(&fresh.display().to_string(), &file.display().to_string());
        Failure::failed(
            format!("{} is not a backup of Toolgate: {why}", file.display()),
            "restore a file made by `toolgate db backup`; nothing was changed",
        )
    };
    let store = Store::open(Options::new(format!("sqlite://{}", fresh.display())))
        .await
        .map_err(|error| foreign(&error.to_string()))?;
    let state = store.migration_state().await;
    let damage = damage(&store).await;
    store.close().await?;
    match (state, damage) {
        (Err(error), _) => Err(error.into()),
        (Ok(_), Err(error)) => Err(foreign(&error.to_string())),
        (Ok(_), Ok(Some(damage))) => Err(foreign(&format!("it is damaged ({damage})"))),
        (Ok(state), Ok(None)) if state.applied == 0 => Err(foreign("it has no history of migrations")),
        (Ok(state), Ok(None)) => Ok(state),
    }
}

/// What SQLite finds wrong with the file, if anything.
async fn damage(store: &Store) -> Result<Option<String>, toolgate_store::Error> {
    let rows = store
        .query(
            &Scope::Everyone("the file is checked before it is anybody's"),
            "SELECT quick_check FROM pragma_quick_check LIMIT 1",
            vec![],
        )
        .await?;
    let found: Option<String> = rows.first().map(|row| row.get(0)).transpose()?;
    Ok(found.filter(|found| found != "ok"))
}

/// Puts the new file in the place of the old one; answers where the old one is kept.
fn replace(database: &Path, fresh: &Path) -> io::Result<Option<PathBuf>> {
    let folder = database.parent().map(Path::to_path_buf).unwrap_or_default();
    let kept = if database.exists() { Some(free_name(database)?) } else { None };
    if let Some(kept) = &kept {
        second_name(database, kept)?;
        for companion in COMPANIONS {
            let from = beside(database, companion);
            if from.exists() {
                second_name(&from, &beside(kept, companion))?;
            }
        }
        File::open(&folder)?.sync_all()?;
        // A log of the old database must not be replayed onto the new one.
        for companion in COMPANIONS {
            match fs::remove_file(beside(database, companion)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    fs::rename(fresh, database)?;
    File::open(&folder)?.sync_all()?;
    Ok(kept)
}

fn free_name(database: &Path) -> io::Result<PathBuf> {
    let names = (1..10_000).map(|n| beside(database, &format!(".before-restore-{n}")));
    names
        .into_iter()
        .find(|name| !name.exists())
        .ok_or_else(|| io::Error::other("too many restored databases are kept"))
}

/// A second name for a file, or a copy where the file system knows no second names.
fn second_name(from: &Path, to: &Path) -> io::Result<()> {
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    input::copy(from, to)
}

fn discard(fresh: &Path) {
    for name in std::iter::once(fresh.to_path_buf()).chain(COMPANIONS.map(|companion| beside(fresh, companion))) {
        // Often there is none.
        let _ = fs::remove_file(name);
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
