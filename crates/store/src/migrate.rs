//! The schema's history: numbered texts that are run once, in order, and never again.
//!
//! Forward only. What was run is remembered with its checksum, so that a database never runs under a program that
//! thinks differently about it: a newer database and an altered migration are both refused.

use sha2::{Digest as _, Sha256};

use crate::backend::Kind;
use crate::error::Error;

/// One step of the schema. `common` is run first, then the database's own text, in one transaction.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub number: u32,
    pub name: &'static str,
    /// Types are written `{uuid}`, `{bool}`, `{int}`, `{bytes}`, `{real}`; `{strict}` ends a table, and `{late}` a foreign
    /// key that SQLite judges at the commit.
    pub common: &'static str,
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

/// Toolgate's own schema.
pub const MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "foundation",
    common: concat!(
        include_str!("../migrations/0001_foundation.sql"),
        include_str!("../migrations/0001_foundation.calls.sql")
    ),
    sqlite: include_str!("../migrations/0001_foundation.sqlite.sql"),
    postgres: include_str!("../migrations/0001_foundation.postgres.sql"),
}];

/// The table that remembers, in the words of `common`.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS migrations (
    number {int} NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at {int} NOT NULL
) {strict}";
pub(crate) const APPLIED: &str = "SELECT number, checksum FROM migrations ORDER BY number";

/// How far a database has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationState {
    /// The highest number that was run; 0 for an empty database.
    pub applied: u32,
    /// The highest number that this program knows.
    pub known: u32,
}

impl MigrationState {
    pub fn is_current(self) -> bool {
        self.applied == self.known
    }
}

impl Migration {
    /// The text that a database runs.
    pub(crate) fn sql(&self, kind: Kind) -> String {
        let own = match kind {
            Kind::Sqlite => self.sqlite,
            Kind::Postgres => self.postgres,
        };
        format!("{}\n{own}", spelled(self.common, kind))
    }
}

/// `common` text in the words of one database.
pub(crate) fn spelled(common: &str, kind: Kind) -> String {
    let spelling = |sqlite: &'static str, postgres: &'static str| match kind {
        Kind::Sqlite => sqlite,
        Kind::Postgres => postgres,
    };
    common
        .replace("{uuid}", spelling("BLOB", "uuid"))
        .replace("{bool}", spelling("INTEGER", "boolean"))
        .replace("{int}", spelling("INTEGER", "bigint"))
        .replace("{bytes}", spelling("BLOB", "bytea"))
        .replace("{real}", spelling("REAL", "double precision"))
        .replace("{strict}", spelling("STRICT", ""))
        .replace(" {late}", spelling(" DEFERRABLE INITIALLY DEFERRED", ""))
        .replace("{by_id}", spelling("STRICT", "PARTITION BY RANGE (id)"))
        .replace("{by_run}", spelling("STRICT", "PARTITION BY RANGE (run_id)"))
}

/// The checksum of what was run, in hexadecimal.
pub(crate) fn checksum(sql: &str) -> String {
    use std::fmt::Write as _;
    Sha256::digest(sql.as_bytes()).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A row of the table that remembers.
pub(crate) struct Applied {
    pub number: u32,
    pub checksum: String,
}

/// Compares what was run with what is known; `Err` if they do not belong together.
pub(crate) fn state(applied: &[Applied], known: &[Migration], kind: Kind) -> Result<MigrationState, Error> {
    let last = known.last().map_or(0, |migration| migration.number);
    let found = applied.iter().map(|row| row.number).max().unwrap_or(0);
    if found > last {
        return Err(Error::Newer { found, known: last });
    }
    for migration in known.iter().take_while(|migration| migration.number <= found) {
        let number = migration.number;
        let row = applied.iter().find(|row| row.number == number).ok_or(Error::Altered { number })?;
        if row.checksum != checksum(&migration.sql(kind)) {
            return Err(Error::Altered { number });
        }
    }
    Ok(MigrationState { applied: found, known: last })
}

/// The one to run next.
pub(crate) fn next(state: MigrationState, known: &'static [Migration]) -> Option<&'static Migration> {
    known.iter().find(|migration| migration.number > state.applied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_up_and_types_are_spelled_per_database() {
        assert!(MIGRATIONS.windows(2).all(|pair| pair[0].number < pair[1].number));
        let common = "a {uuid}, b {bool}, c {int}, d {bytes}, e {real} DEFAULT '{}') {strict}";
        assert_eq!(spelled(common, Kind::Sqlite), "a BLOB, b INTEGER, c INTEGER, d BLOB, e REAL DEFAULT '{}') STRICT");
        assert_eq!(
            spelled(common, Kind::Postgres),
            "a uuid, b boolean, c bigint, d bytea, e double precision DEFAULT '{}') "
        );
    }

    #[test]
    fn the_checksum_covers_what_a_database_runs_and_nothing_else() {
        let one = Migration { number: 1, name: "one", common: "SELECT 1;", sqlite: "a", postgres: "b" };
        let other = Migration { postgres: "c", ..one };
        assert_eq!(checksum(&one.sql(Kind::Sqlite)), checksum(&other.sql(Kind::Sqlite)));
        assert_ne!(checksum(&one.sql(Kind::Postgres)), checksum(&other.sql(Kind::Postgres)));
    }
}
