//! The one path. Everything that can start a tool calls [`Engine::submit`]; nothing else can, because a runner takes a
//! [`Permit`] and only step 7 of the path makes one.
//!
//! Read [`submit`](Engine::submit) first, then `admit` (what is decided), `execute` (how it runs) and `record` (what is
//! kept). Invariant: nobody is answered before what they are told is committed.

pub mod admit;
mod again;
pub mod approvals;
pub mod asking;
pub mod audit;
pub mod begun;
mod blobs;
mod budgets;
pub mod call;
pub mod connections;
pub mod control;
mod engine;
mod entry;
mod execute;
pub mod external;
pub mod follow;
mod guard;
pub mod hosting;
mod identify;
pub mod input;
mod keyed;
pub mod label_views;
mod labels;
mod lending;
pub mod metrics;
pub mod names;
pub mod notify;
mod output;
pub mod outside;
pub mod permit;
pub mod preflight;
mod prepare;
pub mod read;
mod record;
mod records;
mod recovery;
mod repeat;
mod replaying;
mod reserve;
pub mod runner;
pub mod runs;
pub mod secrets;
pub mod shared;
mod submit;
pub mod telling;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tokens;
mod told;
mod upstreams;
pub mod usage;
pub mod uses;
pub mod what_if;
mod wiring;
pub mod within;

pub use audit::Audit;
pub use call::{Call, Lent};
pub use engine::{Engine, Parts, Signal};
pub use keyed::Keyed;
pub use metrics::Metrics;
pub use outside::Outside;
pub use permit::Permit;
pub use runner::{Outcome, Runner, Runners};
pub use submit::{AT_HAND, AtHand, Begun, Beside, Manner, Running, Soon};
pub use toolgate_vault::DigestKey;
pub use wiring::Wiring;
