//! The contract of the store, on both databases: with tables of its own, so that it holds whatever the product's are.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod catalog;
mod changes;
mod closing;
mod crash;
mod cut;
mod failures;
mod files;
mod lists;
mod lock;
mod migrations;
mod notes;
mod notices;
mod product;
mod providers;
mod rules;
mod schema;
mod scopes;
mod sign_in;
mod speed;
mod usage;
mod values;
