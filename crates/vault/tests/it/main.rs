//! The vault from outside: keys on both databases, ids and seals, and secrets in every encoding and split.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod encodings;
mod ids;
mod keys;
mod redaction;
mod secrets;
mod streams;
