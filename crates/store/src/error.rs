//! What can go wrong in the database, as types; and how a caller is told.

use toolgate_contracts::{Fault, FaultKind};

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A named rule of the schema refused the change.
    #[error("the database refused: {0}")]
    Constraint(Constraint),
    /// A statement did not achieve what its change demands.
    #[error("{}", .0.told())]
    Unmet(Fault),
    #[error("cannot open the database: {message}")]
    Open { message: String, remedy: String },
    #[error("the database was written by a newer Toolgate (migration {found}, this program knows {known})")]
    Newer { found: u32, known: u32 },
    #[error("migration {number} in the database differs from the one in this program")]
    Altered { number: u32 },
    #[error("the disk is full")]
    Full,
    #[error("the data folder cannot be written")]
    ReadOnly,
    /// Nothing was changed.
    #[error("the database did not answer: {0}")]
    Unavailable(String),
    /// The answer to a commit was lost on its way: the change may have been kept or not. Never tried again here.
    #[error("the database did not confirm the change: {0}")]
    Unconfirmed(String),
    #[error("the database holds something unexpected: {0}")]
    Corrupt(String),
}

/// The name of a constraint or of a trigger's rule, as the migrations write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint(pub String);

impl Constraint {
    /// Every foreign key: SQLite does not say which it was, so neither database does.
    pub const FOREIGN_KEY: &'static str = "foreign_key";

    /// The name in a trigger's `rule: name`.
    pub(crate) fn of_rule(message: &str) -> Option<&str> {
        message.strip_prefix("rule: ").map(|rule| rule.split_whitespace().next().unwrap_or(rule))
    }
}

impl std::fmt::Display for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error {
    /// What the file system said, while we tried to `do_what`.
    pub(crate) fn from_io(do_what: &str, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full,
            ErrorKind::NotFound => Self::Open {
                message: format!("cannot {do_what}: the folder does not exist"),
                remedy: "create the folder, or name another".into(),
            },
            ErrorKind::NotADirectory => Self::Open {
                message: format!("cannot {do_what}: its folder is a file"),
                remedy: "name a folder".into(),
            },
            _ => Self::Open {
                message: format!("cannot {do_what}: {error}"),
                remedy: "check the folder, then try again".into(),
            },
        }
    }

    /// Whether the named rule refused.
    pub fn is(&self, constraint: &str) -> bool {
        matches!(self, Self::Constraint(Constraint(name)) if name == constraint)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let unavailable = |told: &str, remedy: &str| Self::new(FaultKind::Unavailable, told, remedy);
        match error {
            Error::Unmet(fault) => fault,
            Error::Constraint(ref constraint) => {
                let told = format!("the database's rule `{constraint}` does not allow this");
                Self::conflict(told, "nothing was changed; see docs/database.md for the rule")
                    .by_rule(constraint.to_string())
                    .with_log(&error)
            }
            Error::Open { message, remedy } => Self::new(FaultKind::Unavailable, message, remedy),
            Error::Newer { .. } => {
                unavailable(&error.to_string(), "start the newer Toolgate, or restore a backup made by this one")
            }
            Error::Altered { .. } => unavailable(&error.to_string(), "use the Toolgate that made this database"),
            Error::Full => unavailable("the disk is full; nothing was changed", "free some space and try again"),
            Error::ReadOnly => unavailable(
                "the data folder cannot be written; nothing was changed",
                "check its owner, its mode and whether the disk is mounted read-only",
            ),
            Error::Unavailable(inner) => unavailable(
                "the database does not answer; nothing was changed",
                "check that it runs (`toolgate doctor`), then try again",
            )
            .with_log(inner),
            Error::Unconfirmed(inner) => unavailable(
                "the database did not confirm the change; it may have been made or not",
                "look whether it was made before trying again",
            )
            .with_log(inner),
            Error::Corrupt(inner) => Self::internal(inner),
        }
    }
}
