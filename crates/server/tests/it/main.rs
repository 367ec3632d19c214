//! The API at its edge: every test drives the router, on SQLite and on PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod agents;
mod approvals;
mod authority;
mod calls;
mod compat;
mod control;
mod doors;
mod entering;
mod faces;
mod inputs;
mod isolation;
mod listening;
mod notices;
mod observing;
mod oidc;
mod openapi;
mod people;
mod policies;
mod registry;
mod replicas;
mod secrets;
mod sessions;
mod sign_in;
mod sql_functions;
mod tls;
mod tokens;
mod traces;
mod world;
