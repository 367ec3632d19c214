//! What runs tools that are not compiled in: one file for each kind, each an `engine::Runner`.
//!
//! A runner gets a call that was validated, decided and permitted, and answers what became of it. Invariant: whatever
//! leaves the machine goes through `engine::Outside`, and a secret goes only where its owner lets it go.
//! Deliberately absent: deciding, recording, redacting and capping, which are the path's.

mod compiled;
mod composition;
mod expression;
mod failure;
mod host;
pub mod http;
mod openapi;
mod python;
mod script;
mod sql;
mod wasm;

pub use composition::Compositions;
pub use expression::Expressions;
pub use http::Requests;
pub use python::Snippets;
pub use script::{ScriptInput, Scripts, runs_programs};
pub use sql::{Databases, Parameter, Query, Statements, WrittenBy};
/// Whoever makes [`Scripts`] needs one.
pub use toolgate_sandbox::Spawner;
pub use wasm::Plugins;
