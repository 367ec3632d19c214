//! Whether and when a request is sent again. It knows no clock: errors in, waits out.

use std::time::Duration;

use toolgate_contracts::Rng;

use crate::bounds::Bounds;
use crate::error::ModelError;

/// Before the second try, if nobody says otherwise; doubled each time.
const FIRST: Duration = Duration::from_millis(500);

/// The tries of one request.
#[derive(Debug)]
pub struct Retries {
    left: u32,
    wait_max: Duration,
    next: Duration,
}

impl Retries {
    pub fn new(bounds: &Bounds) -> Self {
        Self { left: bounds.tries_max.saturating_sub(1), wait_max: bounds.wait_max, next: FIRST }
    }

    /// How long to wait before another try, or `None` if there is none: it would not help, it was tried often enough, or
    /// the provider asks for more patience than we have.
    pub fn after(&mut self, error: &ModelError, rng: &Rng) -> Option<Duration> {
        if !error.may_pass() {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        let own = self.next.min(self.wait_max);
        self.next = self.next.saturating_mul(2);
        match error.retry_after_s().map(Duration::from_secs) {
            Some(asked) if asked > self.wait_max => None,
            // Never earlier than it asks; who was told the same second does not come in the same millisecond.
            Some(asked) => Some(asked + part(FIRST, rng)),
            // Somewhere in the second half.
            None => Some(own / 2 + part(own / 2, rng)),
        }
    }
}

fn part(of: Duration, rng: &Rng) -> Duration {
    of * u32::from(u16::from_le_bytes(rng.bytes())) / u32::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn what_may_pass_is_tried_again_later_each_time_and_not_for_ever() {
        let rng = Rng::seeded(1);
        let mut retries = Retries::new(&Bounds::default());
        let error = ModelError::new(ErrorKind::Overloaded, "busy");
        for doubled in [1, 2, 4] {
            let wait = retries.after(&error, &rng).unwrap();
            assert!(wait >= FIRST * doubled / 2 && wait <= FIRST * doubled, "{wait:?}");
        }
        assert_eq!(retries.after(&error, &rng), None);
    }

    #[test]
    fn a_provider_is_given_the_time_it_asks_for_within_our_limit() {
        #[track_caller]
        fn check(kind: ErrorKind, asked: Option<u64>, expected: Option<u64>) {
            let error = ModelError::new(kind, "no").retry_after(asked);
            let wait = Retries::new(&Bounds::default()).after(&error, &Rng::seeded(1));
            assert_eq!(wait.map(|wait| wait.as_secs()), expected, "{kind:?} {asked:?}");
        }
        check(ErrorKind::RateLimited, Some(7), Some(7));
        check(ErrorKind::RateLimited, Some(60), Some(60));
        check(ErrorKind::RateLimited, Some(61), None);
        check(ErrorKind::Network, None, Some(0));
        for lasting in [ErrorKind::Unauthorized, ErrorKind::Rejected, ErrorKind::Interrupted, ErrorKind::TooLong] {
            check(lasting, Some(1), None);
        }
        let spent = ModelError::new(ErrorKind::RateLimited, "no quota").lasting();
        assert_eq!(Retries::new(&Bounds::default()).after(&spent, &Rng::seeded(1)), None);
    }
}
