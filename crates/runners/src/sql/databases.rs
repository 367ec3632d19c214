//! The operator's databases: which there are for whom, what may run in them, and how a call is brought there.
//!
//! Nothing is connected before the first statement. Invariant: a name that is not for a tenant answers as if it did not
//! exist. Invariant: no message holds an address or a password.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_contracts::definition::OUTPUT_BYTES_DEFAULT;
use toolgate_contracts::entries::{DatabaseEntry, WrongEntries};
use toolgate_contracts::sql::judge::{self, Dialect, Effect, Judged};
use toolgate_contracts::sql::only_reads;
use toolgate_contracts::{Entries, Slug, ToolError};
use toolgate_engine::{Call, Outcome};
use toolgate_store::address::DatabaseAddress;

use super::postgres::Postgres;
use super::sqlite::Sqlite;
use super::table::Bounds;
use super::{Failure, denied, invalid, unavailable};

const STATEMENT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
const ROWS_MAX_DEFAULT: usize = 1_000;
const STATEMENT_BYTES_MAX: usize = 64 * 1024;
/// Lines of a plan that are shown.
const PLAN_ROWS_MAX: usize = 200;

/// Whom an error in the text of a statement concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenBy {
    /// Whoever called, in this member of the input.
    Caller(&'static str),
    Definition,
}

/// A statement that somebody wants to run.
#[derive(Clone, Debug)]
pub struct Query<'a> {
    pub database: &'a str,
    pub statement: &'a str,
    pub parameters: Vec<Parameter>,
    /// The most that it may do.
    pub effect: Effect,
    /// Fewer than the entry allows.
    pub rows_max: Option<usize>,
    pub written_by: WrittenBy,
}

/// A value and where in the input it came from.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub value: Value,
    pub pointer: String,
}

/// A statement that may run, with its bounds.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub statement: String,
    pub parameters: Vec<Parameter>,
    pub effect: Effect,
    /// What a change may name where it is only explained.
    pub named: Effect,
    pub bounds: Bounds,
    pub timeout: Duration,
    pub written_by: WrittenBy,
}

#[derive(Clone, Default)]
pub struct Databases {
    read: Arc<BTreeMap<String, Database>>,
    wrong: WrongEntries,
}

struct Database {
    entry: DatabaseEntry,
    place: Result<Place, String>,
}

enum Place {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

impl Databases {
    /// An entry that cannot be read stays, and says what is wrong with it to whoever uses it.
    pub fn new(entries: &Entries) -> Self {
        Self::beside(entries, None)
    }

    /// The same, where this server has a database of its own in a file: that one is nobody's to read by a tool.
    pub fn beside(entries: &Entries, own: Option<&Path>) -> Self {
        let databases = entries.databases.iter().map(|(name, entry)| {
            let place = Place::of(entry, own);
            if let Err(why) = &place {
                tracing::error!("the database `{name}` of the operator's entries cannot be used: {why}");
            }
            (name.clone(), Database { entry: entry.clone(), place })
        });
        Self { read: Arc::new(databases.collect()), wrong: entries.wrong.clone() }
    }

    /// The names of those that a tenant has.
    pub fn names(&self, tenant: &Slug) -> Vec<&str> {
        let theirs = self.read.iter().filter(|(_, database)| database.entry.tenants.include(tenant));
        theirs.map(|(name, _)| name.as_str()).collect()
    }

    pub async fn run(&self, call: &Call, query: Query<'_>) -> Outcome {
        let ran = async {
            let (place, work, _) = self.admitted(call, query)?;
            match place {
                Place::Sqlite(sqlite) => sqlite.run(work, &call.cancel).await,
                Place::Postgres(postgres) => postgres.run(&work, &call.cancel).await,
            }
        };
        ran.await.map_or_else(Outcome::from, Outcome::structured)
    }

    /// The statement and its parameters as they would be sent, and how the database would go about it.
    pub async fn plan(&self, call: &Call, query: Query<'_>) -> Result<Value, ToolError> {
        let name = query.database.to_owned();
        let (place, work, judged) = self.admitted(call, query)?;
        let parameters: Vec<&Value> = work.parameters.iter().map(|parameter| &parameter.value).collect();
        let mut plan = json!({
            "would_run": true,
            "database": name,
            "statement": work.statement,
            "parameters": parameters,
            "writes": work.effect == Effect::Writes,
        });
        if !judged.is_explainable {
            return Ok(plan);
        }
        let explained = Work {
            effect: Effect::Reads,
            named: work.effect,
            bounds: Bounds { rows_max: PLAN_ROWS_MAX, ..work.bounds },
            ..work
        };
        let explained = match place {
            Place::Sqlite(sqlite) => sqlite.explain(explained, &call.cancel).await,
            Place::Postgres(postgres) => postgres.explain(explained, &call.cancel).await,
        };
        match explained {
            Ok(lines) => plan["plan"] = Value::Array(lines),
            Err(Failure::Told(error)) => return Err(error),
            Err(Failure::Unknown(why)) => plan["plan_failed"] = Value::String(why),
        }
        Ok(plan)
    }

    /// Whether an entry could be used now.
    pub async fn ready(&self, name: &str) -> Result<(), ToolError> {
        let Some(database) = self.read.get(name) else {
            if let Some(why) = self.wrong.told("databases", Some(name), None) {
                return Err(unavailable(why));
            }
            return Err(unavailable(format!("there is no database `{name}` among the operator's entries")));
        };
        database.place(name)?;
        let ready = database.ready().await;
        ready.map_err(|error| ToolError { message: format!("the database `{name}`: {}", error.message), ..error })
    }

    /// One line for each entry, for `doctor`, which says beside it whose it is.
    pub async fn found(&self) -> Vec<(String, Result<(), ToolError>)> {
        let mut found = Vec::new();
        for (name, database) in self.read.iter() {
            found.push((name.clone(), database.ready().await));
        }
        found
    }

    fn admitted(&self, call: &Call, query: Query<'_>) -> Result<(&Place, Work, Judged), ToolError> {
        let Query { database: name, statement, parameters, effect, rows_max, written_by } = query;
        let database = self.named(name, &call.tenant_slug, written_by)?;
        let place = database.place(name)?;
        let told = |message: String| match written_by {
            WrittenBy::Caller(pointer) => invalid(pointer, message),
            WrittenBy::Definition => denied(format!("the tool's statement: {message}")),
        };
        if statement.len() > STATEMENT_BYTES_MAX {
            let bytes = statement.len();
            return Err(told(format!("the statement has {bytes} bytes, the limit is {STATEMENT_BYTES_MAX}")));
        }
        let judged = judge::judge(statement, place.dialect(), effect).map_err(|refusal| told(refusal.to_string()))?;
        if judged.parameters != parameters.len() {
            let (takes, given) = (judged.parameters, parameters.len());
            return Err(told(format!("it takes {takes} parameters and {given} are given; give one for each `$n`")));
        }
        let entry = &database.entry;
        if judged.is_change && !entry.writable {
            return Err(denied(format!(
                "the database `{name}` is for reading; the operator may set `writable` in its entry"
            )));
        }
        let writes = effect == Effect::Writes && entry.writable && !only_reads(statement);
        let effect = if writes { Effect::Writes } else { Effect::Reads };
        let rows_of_entry = entry.rows_max.unwrap_or(ROWS_MAX_DEFAULT);
        let bytes_max = call.tool.definition.max_output_bytes.unwrap_or(OUTPUT_BYTES_DEFAULT);
        let bounds = Bounds {
            rows_max: rows_max.unwrap_or(rows_of_entry).min(rows_of_entry),
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
        };
        let timeout = entry.statement_timeout_ms.map_or(STATEMENT_TIMEOUT_DEFAULT, Duration::from_millis);
        let work = Work {
            statement: statement.to_owned(),
            parameters,
            effect,
            named: effect,
            bounds,
            timeout: timeout.min(call.timeout),
            written_by,
        };
        Ok((place, work, judged))
    }

    fn named(&self, name: &str, tenant: &Slug, written_by: WrittenBy) -> Result<&Database, ToolError> {
        if let Some(database) = self.read.get(name).filter(|database| database.entry.tenants.include(tenant)) {
            return Ok(database);
        }
        if let Some(why) = self.wrong.told("databases", Some(name), Some(tenant)) {
            return Err(unavailable(why));
        }
        let shown: String = name.chars().take(64).collect();
        Err(match (written_by, self.names(tenant)) {
            (WrittenBy::Definition, _) => unavailable(format!(
                "the tool's database `{shown}` is not among those of this tenant; ask the operator"
            )),
            (WrittenBy::Caller(_), names) if names.is_empty() => {
                unavailable("this tenant has no database; the operator adds one to `databases` in `entries.yaml`")
            }
            (WrittenBy::Caller(_), names) => {
                invalid("/database", format!("there is no database `{shown}`; there is `{}`", names.join("`, `")))
            }
        })
    }
}

impl Database {
    fn place(&self, name: &str) -> Result<&Place, ToolError> {
        self.place
            .as_ref()
            .map_err(|why| unavailable(format!("the operator's entry for the database `{name}` cannot be used: {why}")))
    }

    async fn ready(&self) -> Result<(), ToolError> {
        match &self.place {
            Ok(Place::Sqlite(sqlite)) => sqlite.ready().await,
            Ok(Place::Postgres(postgres)) => postgres.ready().await,
            Err(why) => Err(unavailable(format!("the operator's entry cannot be used: {why}"))),
        }
    }
}

impl Place {
    fn of(entry: &DatabaseEntry, own: Option<&Path>) -> Result<Self, String> {
        let DatabaseEntry { about: _, url, password_file, writable: _, statement_timeout_ms, rows_max, tenants: _ } =
            entry;
        if *statement_timeout_ms == Some(0) || *rows_max == Some(0) {
            return Err("`statement_timeout_ms` and `rows_max` must be at least 1".to_owned());
        }
        match DatabaseAddress::read(url) {
            Ok(DatabaseAddress::Sqlite(path)) if path.is_absolute() => {
                if password_file.is_some() {
                    return Err("an SQLite file has no password; remove `password_file`".to_owned());
                }
                Ok(Self::Sqlite(Sqlite::new(path, own.map(Path::to_owned))))
            }
            Ok(DatabaseAddress::Sqlite(_)) => {
                Err("the path of an SQLite file must be whole, as in `sqlite:///srv/orders.db`".to_owned())
            }
            Ok(DatabaseAddress::Postgres(address)) => {
                let timeout = statement_timeout_ms.map_or(STATEMENT_TIMEOUT_DEFAULT, Duration::from_millis);
                Ok(Self::Postgres(Postgres::new(*address, password_file.clone(), timeout)))
            }
            Err(toolgate_store::Error::Open { message, remedy }) => Err(format!("{message}; {remedy}")),
            Err(error) => Err(error.to_string()),
        }
    }

    const fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }
}
