//! The evidence: a Merkle tree over a log's entries, signed checkpoints of it, receipts, and their verification.
//!
//! A leaf is an audit entry's canonical text. A log is named by its origin, and its checkpoints are C2SP signed notes,
//! so that tools we did not write can check them. What is promised: any change to entries that a checkpoint covers is
//! noticed by whoever kept that checkpoint. What is not: that a cut tail is noticed by somebody who kept none.
//!
//! Invariant: nothing here does I/O, reads a clock or knows where nodes are kept; they are looked up by the caller.
//! Invariant: a [`Head`] exists only where a believed key has signed, and only a head can be countersigned.

pub mod broken;
pub mod checkpoint;
pub mod commitment;
pub mod note;
pub mod receipt;
mod spelling;
pub mod statement;
pub mod tree;
pub mod verify;

pub use broken::Broken;
pub use checkpoint::{Before, Checkpoint, Head, Origin, Trust};
pub use commitment::Salt;
pub use note::{Cosigner, KeyName, Note, Signer, VerifierKey};
pub use receipt::{Proof, Receipt};
pub use tree::{Frontier, Node, Place, Plan, Tree, leaf_hash};
pub use verify::{Exported, Summary, Verifier};

/// An entry is shorter than 64 KiB, so that its length fits the two bytes that C2SP's bundles give it.
pub const ENTRY_BYTES_MAX: usize = 65_535;
