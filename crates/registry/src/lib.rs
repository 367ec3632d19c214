//! The registry: what a tool is, read, judged, compared, found and shown.
//!
//! The files here take bytes or values and give values: no clock, no disk, no network, so the command line
//! (`tool test`, offline) and the server (registration) judge a definition by the same code.

pub mod finding;
pub mod floor;
pub mod lint;
pub mod render;
pub mod schema;
pub mod tool_md;
mod words;

pub use finding::{Finding, Severity};
