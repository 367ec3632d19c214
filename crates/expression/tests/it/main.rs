//! What authors write, as they see it: values, words of errors, and that nothing runs on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod expressions;
mod texts;
