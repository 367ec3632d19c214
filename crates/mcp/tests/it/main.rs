//! The protocol against servers of every revision, good ones and bad ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod upstream;
