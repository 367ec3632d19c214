//! The tools that ship with Toolgate: their definitions, their functions, and what each function does whatever its
//! definition says.
//!
//! Invariant: [`builtin`]'s table is the only list of them.
//! Invariant: a function reads its input itself. A tenant may write a definition of its own for any function, with
//! another schema, so that the schema of the shipped one has not been held when the function runs.

mod append_note;
mod builtin;
mod calculator;
mod echo;
mod find_note;
mod now;
mod sign_text;
mod wait;
mod write_file;

pub use builtin::{BUILTINS, Builtin, TOOLS, Tools};
