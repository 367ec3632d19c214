//! Where somebody else's database is, read by the same rules as the address of ours: the same forms, the same meaning of
//! `sslmode`, no password in any message.
//!
//! Deliberately absent: connecting. Whoever reaches such a database bounds what it answers.

use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::backend::postgres::tls;
use crate::error::Error;
use crate::url::{self, Target};

pub enum DatabaseAddress {
    Sqlite(PathBuf),
    Postgres(Box<PostgresAddress>),
}

pub struct PostgresAddress {
    pub config: Config,
    pub tls: MakeRustlsConnect,
    /// `user@host:port/database`, for messages.
    pub shown: String,
}

impl DatabaseAddress {
    pub fn read(url: &str) -> Result<Self, Error> {
        match url::parse(url)? {
            Target::Sqlite(path) => Ok(Self::Sqlite(path)),
            Target::Postgres(target) => {
                let url::Postgres { config, trust, shown } = *target;
                Ok(Self::Postgres(Box::new(PostgresAddress { config, tls: tls::connector(&trust)?, shown })))
            }
        }
    }
}
