//! Workflows from outside: what a graph is, what is found wrong with it, and that nothing around it changes its shape.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod checks;
mod stable;
mod surroundings;
