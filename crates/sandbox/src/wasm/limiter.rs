//! How much memory an instance may have, all its memories and tables together.

use wasmtime::ResourceLimiter;

/// What an element of a table costs us.
const ELEMENT_BYTES: usize = 16;
/// A component is put together of several modules; none is of thousands.
const PARTS_MAX: usize = 256;

pub struct Limiter {
    left: usize,
    /// The most there was.
    pub peak: u64,
    taken: usize,
    /// More was wanted at least once.
    pub refused: bool,
}

impl Limiter {
    pub fn new(bytes_max: u64) -> Self {
        Self { left: usize::try_from(bytes_max).unwrap_or(usize::MAX), peak: 0, taken: 0, refused: false }
    }

    /// From now on there is so much, beyond what was taken before.
    pub fn begin(&mut self, bytes_max: u64) {
        self.left = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        self.refused = false;
    }

    fn take(&mut self, bytes: usize) -> bool {
        let Some(left) = self.left.checked_sub(bytes) else {
            self.refused = true;
            return false;
        };
        self.left = left;
        self.taken += bytes;
        self.peak = self.peak.max(self.taken as u64);
        true
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Its own bound is the component's own matter.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        Ok(self.take(desired.saturating_sub(current)))
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        Ok(self.take(desired.saturating_sub(current).saturating_mul(ELEMENT_BYTES)))
    }

    fn instances(&self) -> usize {
        PARTS_MAX
    }

    fn tables(&self) -> usize {
        PARTS_MAX
    }

    fn memories(&self) -> usize {
        PARTS_MAX
    }
}
