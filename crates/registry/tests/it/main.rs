//! The pure half of the registry from outside: whole files, hostile schemas, properties, golden renderings.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod files;
mod golden;
mod hostile;
mod properties;
