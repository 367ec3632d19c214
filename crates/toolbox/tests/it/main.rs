//! The shipped tools at the runner's edge: through the permit that the engine would give, on both databases.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod catalog;
mod computing;
mod databases;
mod definitions;
mod file_tools;
mod files;
mod functions;
mod lookups;
mod mail;
mod requests;
mod scripts;
#[path = "../../../runners/tests/it/server.rs"]
mod server;
mod services;
mod world;
mod yaml_files;
