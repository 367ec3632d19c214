//! The API at its edge: every test drives the router, on SQLite and on PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod agent_runs;
mod agent_runs_bad;
mod agents;
mod approvals;
mod authority;
mod calls;
mod compat;
mod compositions;
mod control;
mod delegating;
mod doors;
mod entering;
mod faces;
mod imports;
mod inputs;
mod isolation;
mod listening;
mod mcp;
mod notices;
mod oauth;
mod observing;
mod oidc;
mod openapi;
mod passage;
mod people;
mod plugins;
mod policies;
mod providers;
mod registry;
mod replicas;
mod secrets;
mod serving;
mod sessions;
mod sign_in;
mod skills;
mod sql_functions;
mod tls;
mod tokens;
mod traces;
mod upstreams;
mod vendor;
mod workflows;
mod world;
