//! `toolgate serve`, `db`, `config`, `retention`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Serve the API and the console until stopped
///
/// Without a database URL everything is kept in the data folder. A one-time link that signs you in is printed when the
/// server is ready; SIGTERM or Ctrl-C lets open requests finish and ends within ten seconds.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate serve\n  toolgate serve --listen 127.0.0.1:0 --json\n  toolgate serve --database postgres://toolgate@db/toolgate --public-url https://tools.example.com"
)]
pub struct Serve {
    /// Address and port; port 0 takes a free one [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// `postgres://…` instead of SQLite in the data folder
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
    /// `redis://…` for what several replicas share
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// How people and agents reach this server; links are made from it
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// Register the tools in examples/tools of the current folder
    #[arg(long)]
    pub examples: bool,
}

#[derive(Subcommand)]
pub enum DbCommand {
    /// Show which database it is and how far it is migrated
    Status,
    /// Bring the database up to date
    Migrate,
    /// Copy an SQLite database while it is in use
    #[command(
        after_help = "With --server the file is written into `backups` of the server's data folder, and FILE is a plain name."
    )]
    Backup {
        /// A file that does not exist yet
        file: PathBuf,
    },
    /// List the roles of the database that stand for somebody
    Roles,
    /// Let a role of the database call the functions there as a user of this tenant
    #[command(
        after_help = "The functions are those of the schema `agents`; see docs/seeds/tool-invocations.md.\n\nExample:\n  toolgate db map-role billing_worker billing"
    )]
    MapRole {
        /// A login role of PostgreSQL
        role: String,
        /// The user that it stands for
        user: String,
    },
    /// Take that back
    UnmapRole { role: String },
    /// Replace the database by a backup; the replaced one is kept beside it
    Restore {
        /// A file made by `toolgate db backup`
        file: PathBuf,
    },
}

/// Check the signature of an answer of `POST /invoke`
///
/// With the keys of the server, or with a file of them, without it.
#[derive(Args)]
#[command(
    after_help = "Exit status:\n  0   the answer is signed by one of the keys\n  1   it is not\n\nExample:\n  toolgate verify-response answer.json --keys jwks.json"
)]
pub struct VerifyResponse {
    /// The answer as it came
    pub file: PathBuf,
    /// The server's `/.well-known/jwks.json`, kept in a file
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
}

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Show every setting, its value and where it came from
    Show,
    /// Check the configuration without using it
    Check {
        /// The file to check [default: what a command would use]
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// Delete old finished calls of this tenant; without --apply only say how many
#[derive(Args)]
pub struct Retention {
    /// Calls that began longer ago than this go
    #[arg(long, value_name = "N")]
    pub older_than_days: u32,
    /// Do it; without this nothing is deleted
    #[arg(long)]
    pub apply: bool,
}
