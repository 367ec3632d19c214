//! The connector against real sockets on loopback, and nothing beyond: the numbers are those of the security tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod bypass;
mod limits;
mod mail;
mod pool;
mod ranges;
mod rebinding;
mod redirects;
mod spellings;
mod templates;
mod tls;
mod world;
