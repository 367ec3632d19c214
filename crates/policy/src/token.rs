//! Capability tokens: minted, narrowed and checked.
