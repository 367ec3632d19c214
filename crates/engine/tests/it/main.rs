//! The one path, on both databases, and what replicas share.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::large_futures, reason = "a test is one future, made once")]

mod approvals;
mod approvals_people;
mod approvals_security;
mod approvals_time;
mod audit;
mod borders;
mod cache;
#[path = "../../../vault/tests/it/encodings.rs"]
#[expect(dead_code, reason = "the redactor's own tests use all of it")]
mod encodings;
mod grants;
mod guardrails;
mod labels;
mod lending;
mod limits;
mod modes;
mod notices;
mod output;
mod path;
mod policies;
mod previews;
mod questions;
mod recovery;
mod review;
mod runs;
mod secrets;
mod shared;
mod tokens;
mod waits;
mod work;
mod world;
