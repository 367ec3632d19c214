//! Constraints on arguments.
