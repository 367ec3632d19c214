//! The Model Context Protocol, both ways: any client uses the gate's tools, and any server is put behind the gate.
//!
//! `wire` is what travels; `serve` answers clients, whatever carried their messages here. Invariant: a tool runs through
//! `Engine::submit` and nowhere else, and nothing that a client sends back decides an approval.

pub mod oauth;
pub mod runner;
pub mod serve;
pub mod upstream;
mod way;
pub mod wire;
