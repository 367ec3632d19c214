//! Databases for tests: each test gets its own, in SQLite and in PostgreSQL, and leaves nothing behind.
//!
//! PostgreSQL is used when `TOOLGATE_TEST_POSTGRES` names a server and a user who may create databases and roles.
//! Without it that half is skipped with a line on standard error; in continuous integration (`CI=true`) it fails.

#![expect(clippy::panic, reason = "a test that cannot have its database fails")]

use std::path::Path;

use tempfile::TempDir;
use toolgate_contracts::{Rng, TenantId, TenantLimits, TenantSettings, Timestamp};

use crate::backend::{self, Kind, Options, Store};
use crate::error::Error;
use crate::migrate::{MIGRATIONS, Migration};
use crate::people::Tenant;

/// Runs a test on a fresh, migrated store of each kind.
pub async fn every_store(test: impl AsyncFn(Store)) {
    every_database(MIGRATIONS, async |database| test(database.open().await).await).await;
}

/// The same for a test that opens its database itself, perhaps with other migrations.
pub async fn every_database(migrations: &'static [Migration], test: impl AsyncFn(&Database)) {
    for database in [Database::sqlite(migrations), Database::postgres(migrations).await].into_iter().flatten() {
        eprintln!("with {:?}", database.kind);
        test(&database).await;
    }
}

/// A tenant that nobody has set anything of.
///
/// # Panics
/// Where `slug` is no short name.
pub fn tenant(id: TenantId, slug: &str, at: Timestamp) -> Tenant {
    Tenant {
        id,
        slug: slug.parse().unwrap_or_else(|error| panic!("{slug}: {error}")),
        name: slug.to_owned(),
        currency: "USD".to_owned(),
        open_write: false,
        limits: TenantLimits::default(),
        settings: TenantSettings::default(),
        policy_revision: 0,
        created_at: at,
    }
}

/// An empty database that lives as long as this value.
pub struct Database {
    pub kind: Kind,
    pub url: String,
    migrations: &'static [Migration],
    folder: Option<TempDir>,
    dropped_by: Option<Administrator>,
}

struct Administrator {
    url: String,
    database: String,
}

impl Database {
    pub fn sqlite(migrations: &'static [Migration]) -> Option<Self> {
        let folder = TempDir::new().unwrap_or_else(|error| panic!("no folder for a test: {error}"));
        let url = format!("sqlite://{}", folder.path().join("toolgate.db").display());
        Some(Self { kind: Kind::Sqlite, url, migrations, folder: Some(folder), dropped_by: None })
    }

    /// `None` where there is no server.
    pub async fn postgres(migrations: &'static [Migration]) -> Option<Self> {
        let server = postgres_url()?;
        let name = format!("toolgate_test_{:016x}", u64::from_ne_bytes(Rng::System.bytes()));
        if let Err(error) = backend::execute_as_owner(&server, &format!("CREATE DATABASE {name}")).await {
            panic!("no database for a test: {error}");
        }
        let url = with_database(&server, &name);
        let dropped_by = Some(Administrator { url: server, database: name });
        Some(Self { kind: Kind::Postgres, url, migrations, folder: None, dropped_by })
    }

    pub fn options(&self) -> Options {
        Options { migrations: self.migrations, ..Options::new(&self.url) }
    }

    /// A migrated store.
    pub async fn open(&self) -> Store {
        let opened = async {
            let store = Store::open(self.options()).await?;
            store.migrate().await?;
            Ok::<_, Error>(store)
        };
        opened.await.unwrap_or_else(|error| panic!("no store for a test: {error:?}"))
    }

    /// Runs SQL past the store, as the owner of the tables: what somebody could do who has the database.
    pub async fn execute(&self, sql: &str) -> Result<(), Error> {
        backend::execute_as_owner(&self.url, sql).await
    }

    /// The folder of an SQLite file.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(TempDir::path)
    }
}

/// Runs SQL past the store on any database, as the owner of the tables.
pub async fn execute_as_owner(url: &str, sql: &str) -> Result<(), Error> {
    backend::execute_as_owner(url, sql).await
}

impl Drop for Database {
    fn drop(&mut self) {
        let Some(Administrator { url, database }) = self.dropped_by.take() else { return };
        // On a thread of its own: this may be the end of a test that panicked within a runtime.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| error.to_string())?;
            let drop = format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)");
            runtime.block_on(backend::execute_as_owner(&url, &drop)).map_err(|error| error.to_string())
        });
        if let Ok(Err(error)) = dropped.join() {
            eprintln!("a test's database remains: {error}");
        }
    }
}

/// The server for tests, or `None` where it is right to go on without.
#[expect(clippy::disallowed_methods, reason = "a test has no configuration but its environment")]
pub fn postgres_url() -> Option<String> {
    match std::env::var("TOOLGATE_TEST_POSTGRES") {
        Ok(url) if !url.is_empty() => Some(url),
        _ if std::env::var("CI").is_ok_and(|ci| ci == "true") => panic!("TOOLGATE_TEST_POSTGRES is not set, and CI is"),
        _ => {
            eprintln!("TOOLGATE_TEST_POSTGRES is not set: not tested with PostgreSQL");
            None
        }
    }
}

fn with_database(server: &str, database: &str) -> String {
    let (address, query) =
        server.split_once('?').map_or((server, String::new()), |(address, query)| (address, format!("?{query}")));
    let (scheme, address) = address.split_once("://").unwrap_or(("postgres", address));
    let host = address.split_once('/').map_or(address, |(host, _)| host);
    format!("{scheme}://{host}/{database}{query}")
}
