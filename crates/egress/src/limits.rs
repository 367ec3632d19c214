//! How long and how much: every wait and every byte has an end.

use std::time::Duration;

/// Of one request. Larger ones than the default are the caller's to answer for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For each of looking up, connecting and TLS.
    pub connect: Duration,
    /// From the request to the answer's headers; a large body gets the time it needs at [`UPLOAD_BYTES_PER_S`] on top.
    pub headers: Duration,
    /// Between two pieces of a body.
    pub idle: Duration,
    pub wire_bytes_max: u64,
    pub inflated_bytes_max: u64,
    /// Inflated to wire bytes, once [`RATIO_FROM_BYTES`] came out.
    pub ratio_max: u64,
    /// Over the time we waited for pieces, once that is longer than `rate_after`.
    pub rate_bytes_per_s_min: u64,
    pub rate_after: Duration,
}

/// The slowest upload that still gets its answer.
pub const UPLOAD_BYTES_PER_S: u64 = 64 * 1024;
/// A few bytes that inflate to some hundred are no bomb.
pub const RATIO_FROM_BYTES: u64 = 64 * 1024;
/// An answer's status line and headers.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;
pub const REQUEST_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Names and values together.
pub const REQUEST_HEADER_BYTES_MAX: usize = 64 * 1024;
pub const REQUEST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
pub const HOPS_MAX: u8 = 5;

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            headers: Duration::from_secs(10),
            idle: Duration::from_secs(15),
            wire_bytes_max: 10 * 1024 * 1024,
            inflated_bytes_max: 10 * 1024 * 1024,
            ratio_max: 100,
            rate_bytes_per_s_min: 1024,
            rate_after: Duration::from_secs(10),
        }
    }
}
