//! Runners at their edge: through the permit that the engine would give, against real servers on loopback.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod bad_input;
mod http;
mod openapi;
mod python;
mod script;
mod server;
mod sql;
mod wasm;
mod world;
