//! Models as they are asked and heard: recorded answers of real providers, made-up ones of every form, and servers that
//! behave badly.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod bodies;
mod forms;
mod recorded;
mod replay;
mod scripted;
mod sending;
mod told;
mod world;
