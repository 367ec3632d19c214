//! What decides a call, as far as it can be said without asking anybody: Cedar policies, label rules, detectors,
//! constraints on arguments, and capability tokens.
//!
//! Invariant: no I/O and no clock of its own. The same facts always give the same answer.

pub mod audit_event;
pub mod cedar;
pub mod constraint;
pub mod detect;
pub mod labels;
pub mod response;
pub mod token;
