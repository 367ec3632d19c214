//! How often a function may be asked in one tenant, whatever limits the tenant has beside.
//!
//! It keeps what is behind a function from being flooded, and is no budget: each replica counts by itself, in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use toolgate_contracts::{ErrorCode, TenantId, Timestamp, ToolError};

const MINUTE_MS: i64 = 60_000;

/// Clones share everything.
#[derive(Clone)]
pub struct Pace {
    per_minute: u32,
    /// When each tenant's minute began, and what was asked in it. A minute that is over is forgotten.
    asked: Arc<Mutex<HashMap<TenantId, (Timestamp, u32)>>>,
}

impl Pace {
    pub fn new(per_minute: u32) -> Self {
        Self { per_minute, asked: Arc::default() }
    }

    pub fn take(&self, tenant: TenantId, now: Timestamp) -> Result<(), ToolError> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|_, (began, _)| (0..MINUTE_MS).contains(&(now.millis() - began.millis())));
        let (began, count) = asked.entry(tenant).or_insert((now, 0));
        if *count < self.per_minute {
            *count += 1;
            return Ok(());
        }
        let left_ms = MINUTE_MS - (now.millis() - began.millis());
        let seconds = u64::try_from(left_ms).unwrap_or(0).div_ceil(1000);
        let message = format!(
            "it was asked {} times within a minute, which is all that a tenant may; wait {seconds} s",
            self.per_minute
        );
        Err(ToolError::because(ErrorCode::RateLimit, "rate", message).retry_after(seconds))
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contracts::{Clock, Rng};

    use super::*;

    #[test]
    fn a_tenant_asks_so_often_in_a_minute_and_then_waits() {
        let start = Timestamp::from_millis(1_794_736_800_000);
        let (clock, rng) = (Clock::manual(start), Rng::seeded(7));
        let (acme, other) = (TenantId::new(&clock, &rng), TenantId::new(&clock, &rng));
        let pace = Pace::new(2);
        let at = |ms: i64| Timestamp::from_millis(start.millis() + ms);
        let wait = |tenant, ms| pace.clone().take(tenant, at(ms)).err().map(|error| error.retry_after_s.unwrap());
        assert_eq!(
            [wait(acme, 0), wait(acme, 10), wait(acme, 20), wait(acme, 59_999)],
            [None, None, Some(60), Some(1)]
        );
        assert_eq!(wait(other, 20), None, "each for itself");
        assert_eq!([wait(acme, 60_000), wait(acme, 60_001), wait(acme, 60_002)], [None, None, Some(60)]);
        // A clock that was set back takes nobody's turn away.
        assert_eq!(wait(acme, 10), None);
    }
}
