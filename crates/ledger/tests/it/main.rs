//! The ledger from outside: vectors of others, every proof of small trees and every change to them, whole logs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod erasure;
mod logs;
mod proofs;
mod receipts;
mod vectors;
mod world;
