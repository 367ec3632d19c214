//! The program as people and scripts use it: started, given arguments, and judged by what it prints and how it ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod agent_runs;
mod approvals;
mod audit;
mod bridging;
mod caller;
mod calls;
mod commands;
mod crash;
mod database;
mod deciding;
mod docs;
mod errors;
mod folder;
mod goblins;
mod help;
mod hostile;
mod imports;
mod neighbours;
mod notices;
mod plugins;
mod program;
mod questions;
mod replay;
mod replicas;
mod run_reading;
mod secrets;
mod serving;
mod streams;
mod testing;
mod text;
mod upstreams;
mod workers;
mod workflows;
