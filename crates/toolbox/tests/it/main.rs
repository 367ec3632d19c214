//! The shipped tools at the runner's edge: through the permit that the engine would give, on both databases.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod definitions;
mod files;
mod functions;
mod world;
