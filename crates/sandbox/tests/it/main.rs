//! The sandbox on this machine: what runs, what each limit does, and everything that must not be possible.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod children;
mod escapes;
mod gvisor;
mod limits;
mod plugins;
mod python_wasm;
mod runs;
mod world;
