//! Where everything is kept: SQLite on one machine, PostgreSQL for many, behind one [`Store`].
//!
//! Writing is data: a caller builds a [`Change`], the writer commits many callers' changes in one transaction, and
//! each is told its own outcome after the commit. Nothing here awaits a caller while a transaction is open.
//! Invariant: every statement names its tenant as `$1`, or says why it crosses tenants (see [`Scope`]).

pub mod address;
pub mod agent_runs;
pub mod approvals;
pub mod audit;
mod backend;
pub mod blobs;
pub mod budgets;
pub mod calls;
pub mod catalog;
mod change;
pub mod credentials;
pub mod cursor;
mod error;
pub mod events;
pub mod files;
pub mod grants;
mod guard;
pub mod guardrails;
pub mod handed;
pub mod input_requests;
pub mod invitations;
pub mod labels;
pub mod leases;
pub mod lock;
mod migrate;
pub mod notes;
pub mod notices;
pub mod oauth;
pub mod openings;
pub mod people;
pub mod plugins;
pub mod policies;
pub mod providers;
pub mod retention;
mod row;
pub mod runs;
mod scope;
pub mod secrets;
pub mod server_keys;
pub mod sign_in;
pub mod skills;
mod sql;
pub mod sql_requests;
mod statements;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tokens;
pub mod upstreams;
mod url;
pub mod usage;
mod value;
pub mod waits;
pub mod work;
pub mod workflow_runs;
pub mod workflows;

pub use change::{Change, Durability, Expect, Outcome};
pub use error::{Constraint, Error};
pub use migrate::{MIGRATIONS, Migration, MigrationState};
pub use row::Row;
pub use scope::Scope;
pub use value::Value;

pub use backend::{CONNECTIONS_MAX, Configured, Kind, Options, PATIENCE, QUEUE_CHANGES_MAX, Store};
