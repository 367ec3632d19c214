//! Databases for tests: each test gets its own, in SQLite and in PostgreSQL, and leaves nothing behind but, on a PostgreSQL
//! server, the one that the next are copied from.
//!
//! PostgreSQL is used when `TOOLGATE_TEST_POSTGRES` names a server and a user who may create databases and roles.
//! Without it that half is skipped with a line on standard error; in continuous integration (`CI=true`) it fails.

#![expect(clippy::panic, reason = "a test that cannot have its database fails")]

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use toolgate_contracts::{Rng, TenantId, TenantLimits, TenantSettings, Timestamp};

use crate::backend::{self, Kind, Options, Store};
use crate::error::Error;
use crate::migrate::{MIGRATIONS, Migration, checksum};
use crate::people::Tenant;

/// How often, and after how long, a database is tried again that somebody is still leaving.
const TRIES_MAX: usize = 100;
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// Runs a test on a fresh, migrated store of each kind.
pub async fn every_store(test: impl AsyncFn(Store)) {
    every_migrated(async |database| test(database.open().await).await).await;
}

/// The same for a test that opens its database itself, with our migrations.
pub async fn every_migrated(test: impl AsyncFn(&Database)) {
    let databases = [Database::sqlite(MIGRATIONS), Database::migrated_postgres().await];
    each(databases, test).await;
}

/// The same where the database is empty, perhaps with other migrations.
pub async fn every_database(migrations: &'static [Migration], test: impl AsyncFn(&Database)) {
    each([Database::sqlite(migrations), Database::postgres(migrations).await], test).await;
}

async fn each(databases: [Option<Database>; 2], test: impl AsyncFn(&Database)) {
    for database in databases.into_iter().flatten() {
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
        let name = new_name();
        if let Err(error) = backend::execute_as_owner(&server, &format!("CREATE DATABASE {name}")).await {
            panic!("no database for a test: {error}");
        }
        Some(Self::on(server, name, migrations))
    }

    /// The same with our migrations run, which takes a second where it is not copied from one in which they were. That
    /// one is made by the first test that finds none, and stays on the server for those that follow.
    pub async fn migrated_postgres() -> Option<Self> {
        let server = postgres_url()?;
        let (name, template) = (new_name(), template_name());
        let copy = format!("CREATE DATABASE {name} TEMPLATE {template}");
        // Of several tests that find none at once, each migrates one of its own and one is in time.
        let mut own: Option<Self> = None;
        let mut tries = 0;
        while let Err(error) = backend::execute_as_owner(&server, &copy).await {
            tries += 1;
            assert!(tries < TRIES_MAX, "no database for a test: {error}");
            if own.is_none() {
                let made = Self::postgres(MIGRATIONS).await?;
                drop(made.open().await);
                own = Some(made);
            }
            let Some(Administrator { database, .. }) = own.as_ref().and_then(|own| own.dropped_by.as_ref()) else {
                break;
            };
            let rename = format!("ALTER DATABASE {database} RENAME TO {template}");
            if backend::execute_as_owner(&server, &rename).await.is_err() {
                // Who has just left is still there for a moment.
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
        // What is said about a database itself is not copied with it.
        let rights =
            format!("REVOKE CONNECT ON DATABASE {name} FROM PUBLIC; GRANT CONNECT ON DATABASE {name} TO CURRENT_USER");
        let database = Self::on(server.clone(), name, MIGRATIONS);
        if let Err(error) = backend::execute_as_owner(&server, &rights).await {
            panic!("a test's database is open to everybody: {error}");
        }
        Some(database)
    }

    fn on(server: String, name: String, migrations: &'static [Migration]) -> Self {
        let url = with_database(&server, &name);
        let dropped_by = Some(Administrator { url: server, database: name });
        Self { kind: Kind::Postgres, url, migrations, folder: None, dropped_by }
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

fn new_name() -> String {
    format!("toolgate_test_{:016x}", u64::from_ne_bytes(Rng::System.bytes()))
}

/// Named after what was run in it, so that a test never meets the schema of another time.
fn template_name() -> String {
    let all: String = MIGRATIONS.iter().map(|migration| migration.sql(Kind::Postgres)).collect();
    let checksum = checksum(&all);
    format!("toolgate_template_{}", checksum.get(..16).unwrap_or(&checksum))
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
