//! The one path. Everything that can start a tool calls [`Engine::submit`]; nothing else can, because a runner takes a
//! [`Permit`] and only step 7 of the path makes one.

pub mod call;
pub mod permit;
pub mod runner;

pub use call::Call;
pub use permit::Permit;
pub use runner::{Outcome, Runner, Runners};
