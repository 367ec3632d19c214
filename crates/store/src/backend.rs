//! The two databases behind one [`Store`]. What differs between them is below; what is the same is here.

pub(crate) mod postgres;
mod queue;
mod sqlite;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toolgate_contracts::Clock;

use crate::change::{Change, Durability, NO_TENANT, Outcome};
use crate::error::Error;
use crate::migrate::{MIGRATIONS, Migration, MigrationState};
use crate::row::Row;
use crate::scope::Scope;
use crate::statements::{Judge, Texts, check_values};
use crate::url::{self, Target};
use crate::value::Value;

use queue::{Ready, Work};

/// Changes that are queued or being committed. At the bound a caller waits for a place, at most [`PATIENCE`], and is
/// then told that the database is unavailable; its change was not taken.
pub const QUEUE_CHANGES_MAX: usize = 1024;
/// Connections that read. At the bound a reader waits like a writer does.
pub const CONNECTIONS_MAX: usize = 8;
/// How long a caller waits for a place in the queue or for a connection.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long a query may take.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the queries of one snapshot may take together.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a caller waits for the answer to a change that the writer has taken. The writer's own limits are shorter:
/// this one is for a disk that hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);
/// How long another process may hold SQLite's write lock, or a migration elsewhere PostgreSQL's.
const MIGRATION_TIMEOUT: Duration = Duration::from_mins(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }
}

/// The `durability` of the configuration (`contracts.md` §14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Configured {
    /// Each change says for itself.
    #[default]
    Auto,
    /// Every change is on the disk before it is answered.
    Power,
}

#[derive(Clone)]
pub struct Options {
    /// `sqlite:///folder/file.db` or `postgres://user:password@host/database`.
    pub url: String,
    pub durability: Configured,
    pub connections: usize,
    pub queue: usize,
    pub patience: Duration,
    pub migrations: &'static [Migration],
    pub clock: Clock,
}

impl Options {
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            durability: Configured::Auto,
            connections: CONNECTIONS_MAX,
            queue: QUEUE_CHANGES_MAX,
            patience: PATIENCE,
            migrations: MIGRATIONS,
            clock: Clock::System,
        }
    }
}

/// An open database. Clones share it.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Backend,
    texts: Texts,
    durability: Configured,
}

enum Backend {
    Sqlite(Box<sqlite::Sqlite>),
    Postgres(Box<postgres::Postgres>),
}

impl Store {
    /// Opens the database, and creates an SQLite file that is not there; its folder must be. Does not migrate.
    pub async fn open(options: Options) -> Result<Self, Error> {
        let durability = options.durability;
        let backend = match url::parse(&options.url)? {
            Target::Sqlite(path) => Backend::Sqlite(Box::new(sqlite::Sqlite::open(path, options).await?)),
            Target::Postgres(target) => Backend::Postgres(Box::new(postgres::Postgres::open(*target, options).await?)),
        };
        Ok(Self { shared: Arc::new(Shared { backend, texts: Texts::default(), durability }) })
    }

    pub fn kind(&self) -> Kind {
        match &self.shared.backend {
            Backend::Sqlite(_) => Kind::Sqlite,
            Backend::Postgres(_) => Kind::Postgres,
        }
    }

    /// The file that the database is in, where it is one.
    pub fn file(&self) -> Option<&Path> {
        match &self.shared.backend {
            Backend::Sqlite(sqlite) => Some(sqlite.path()),
            Backend::Postgres(_) => None,
        }
    }

    /// Brings the schema up to date. Several processes may try at once: one runs, the others find it done.
    pub async fn migrate(&self) -> Result<MigrationState, Error> {
        match &self.shared.backend {
            Backend::Sqlite(sqlite) => sqlite.migrate().await,
            Backend::Postgres(postgres) => postgres.migrate().await,
        }
    }

    pub async fn migration_state(&self) -> Result<MigrationState, Error> {
        match &self.shared.backend {
            Backend::Sqlite(sqlite) => sqlite.migration_state().await,
            Backend::Postgres(postgres) => postgres.migration_state().await,
        }
    }

    /// Reads. In a tenant's scope `$1` is the tenant and `parameters` begin at `$2`, unless the text begins with
    /// `/* no tenant: reason */`; in [`Scope::Everyone`] they begin at `$1`. What was committed before is seen.
    pub async fn query(&self, scope: &Scope, sql: &str, parameters: Vec<Value>) -> Result<Vec<Row>, Error> {
        let judge = if scope.tenant().is_some() { Judge::Tenant } else { Judge::Everyone };
        let text = self.shared.texts.get(sql, judge)?;
        let tenant = scope.tenant().filter(|_| !sql.starts_with(NO_TENANT)).map(Value::from);
        let parameters: Vec<Value> = tenant.into_iter().chain(parameters).collect();
        check_values(&parameters)?;
        match &self.shared.backend {
            Backend::Sqlite(sqlite) => sqlite.query(text, parameters).await,
            Backend::Postgres(postgres) => postgres.query(scope, &text, &parameters).await,
        }
    }

    /// Reads several queries without parameters of their own, all as of one moment: what is committed meanwhile is seen
    /// by none of them.
    pub(crate) async fn query_all(&self, scope: &Scope, sql: &[&str]) -> Result<Vec<Vec<Row>>, Error> {
        let judge = if scope.tenant().is_some() { Judge::Tenant } else { Judge::Everyone };
        let tenant = scope.tenant().map(Value::from);
        let mut queries = Vec::with_capacity(sql.len());
        for sql in sql {
            let tenant = tenant.clone().filter(|_| !sql.starts_with(NO_TENANT));
            queries.push((self.shared.texts.get(sql, judge)?, tenant.into_iter().collect::<Vec<Value>>()));
        }
        match &self.shared.backend {
            Backend::Sqlite(sqlite) => sqlite.query_all(queries).await,
            Backend::Postgres(postgres) => postgres.query_all(scope, &queries).await,
        }
    }

    /// Writes: all statements of the change or none. Many callers' changes share one transaction, each with its own
    /// outcome. Once a change is queued it is carried out even if its caller goes away.
    pub async fn commit(&self, change: Change) -> Result<Outcome, Error> {
        let Change { tenant, others, durability, statements, touches_contexts } = change;
        if statements.is_empty() {
            return Ok(Outcome::default());
        }
        let mut ready = Vec::with_capacity(statements.len());
        for statement in statements {
            check_values(&statement.parameters)?;
            let text = self.shared.texts.get_written(statement.sql)?;
            ready.push(Ready { text, parameters: statement.parameters, expect: statement.expect });
        }
        let durability = match self.shared.durability {
            Configured::Auto => durability,
            Configured::Power => Durability::Disk,
        };
        self.queue().submit(Work { tenant, others, durability, statements: ready, touches_contexts }).await
    }

    /// A count of this process's changes to what callers have seen, where nobody else can have changed it: what was read at
    /// a count is true as long as the count is the same. None while such a change is being committed: some read it by then
    /// and others do not.
    pub fn context_changes(&self) -> Option<u64> {
        match &self.shared.backend {
            Backend::Sqlite(sqlite) => sqlite.context_changes(),
            Backend::Postgres(_) => None,
        }
    }

    fn queue(&self) -> &queue::Queue {
        match &self.shared.backend {
            Backend::Sqlite(sqlite) => &sqlite.queue,
            Backend::Postgres(postgres) => &postgres.queue,
        }
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), Error> {
        self.query(&Scope::Everyone("asks nothing of anyone"), "SELECT 1", vec![]).await.map(drop)
    }

    /// Takes no more changes, commits those that are queued, and ends the writer. Clones of the store answer
    /// `Unavailable` from then on.
    pub async fn close(self) -> Result<(), Error> {
        match &self.shared.backend {
            Backend::Sqlite(sqlite) => sqlite.close().await,
            Backend::Postgres(postgres) => postgres.close().await,
        }
    }

    /// Copies the database into a new file while it is in use. PostgreSQL has its own tools for that.
    pub async fn backup(&self, to: &Path) -> Result<(), Error> {
        match &self.shared.backend {
            Backend::Sqlite(sqlite) => sqlite.backup(to).await,
            Backend::Postgres(_) => Err(Error::Open {
                message: "a PostgreSQL database is not backed up by Toolgate".into(),
                remedy: "use `pg_dump --format=custom`, or your provider's snapshots".into(),
            }),
        }
    }

    /// For tests of a full disk: the SQLite file may not grow past this many pages; 0 lifts the limit.
    #[cfg(feature = "testing")]
    pub async fn limit_pages(&self, pages: u32) -> Result<(), Error> {
        match &self.shared.backend {
            Backend::Sqlite(sqlite) => sqlite.limit_pages(pages).await,
            Backend::Postgres(_) => Ok(()),
        }
    }
}

/// For tests: runs SQL as the user of the URL, past everything above.
#[cfg(feature = "testing")]
pub(crate) async fn execute_as_owner(url: &str, sql: &str) -> Result<(), Error> {
    match url::parse(url)? {
        Target::Sqlite(path) => sqlite::execute_as_owner(path, sql.to_owned()).await,
        Target::Postgres(target) => postgres::execute_as_owner(*target, sql).await,
    }
}
