//! The ledger from outside: vectors of others, every proof of small trees and every change to them, whole logs.

mod erasure;
mod logs;
mod proofs;
mod receipts;
mod vectors;
mod world;
