//! What was read of a definition once, kept by the digest of its behaviour: a template is parsed once, not per call.

use std::sync::Arc;

use moka::sync::Cache;
use toolgate_contracts::{Digest, ToolError};
use toolgate_registry::snapshot::ResolvedTool;

const KEPT_MAX: u64 = 1_000;

pub(crate) struct Compiled<T>(Cache<Digest, Arc<T>>);

impl<T: Send + Sync + 'static> Compiled<T> {
    pub fn new() -> Self {
        Self(Cache::new(KEPT_MAX))
    }

    /// What `read` made of this very behaviour; errors are not kept.
    pub fn of(&self, tool: &ResolvedTool, read: impl FnOnce() -> Result<T, ToolError>) -> Result<Arc<T>, ToolError> {
        if let Some(known) = self.0.get(&tool.behaviour_digest) {
            return Ok(known);
        }
        let made = Arc::new(read()?);
        self.0.insert(tool.behaviour_digest, Arc::clone(&made));
        Ok(made)
    }
}
