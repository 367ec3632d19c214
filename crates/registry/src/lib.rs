//! The registry: what a tool is, read, judged, compared, found and shown.
//!
//! The files here take bytes or values and give values: no clock, no disk, no network, so the command line
//! (`tool test`, offline) and the server (registration) judge a definition by the same code.

pub mod classification;
pub mod commands;
pub mod deciding;
pub mod diff;
pub mod finders;
pub mod finding;
pub mod floor;
pub mod flows;
pub mod groups;
pub mod lint;
pub mod openapi;
pub mod patch;
pub mod render;
pub mod schema;
pub mod search;
pub mod skill_md;
pub mod snapshot;
pub mod subject;
pub mod tool_md;
pub mod toolset;
pub mod upstream;
mod words;

pub use finding::{Finding, Severity};
pub use snapshot::Snapshot;
