//! How a server does: what went wrong last, how often in a row, and whether it is left alone for a while.
//!
//! The rule is without a clock of its own: a moment goes in, a decision comes out.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolgate_contracts::{Clock, Timestamp};

use super::error::LinkError;

/// When a server is left alone, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rests {
    /// Failures in a row from which on it is.
    pub from: u32,
    /// Doubled with each failure after that.
    pub first: Duration,
    pub most: Duration,
}

impl Default for Rests {
    fn default() -> Self {
        Self { from: 3, first: Duration::from_secs(1), most: Duration::from_mins(2) }
    }
}

impl Rests {
    fn after(&self, failures: u32) -> Option<Duration> {
        let over = failures.checked_sub(self.from)?;
        Some(self.first.saturating_mul(1_u32.checked_shl(over.min(20)).unwrap_or(u32::MAX)).min(self.most))
    }
}

/// What an operator is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    pub failures_in_a_row: u32,
    pub last_success_at: Option<Timestamp>,
    /// The name of the error, and what it said.
    pub last_error: Option<(&'static str, String)>,
    pub last_error_at: Option<Timestamp>,
    /// The last that a process complained about when it ended. It may hold anything: for the operator alone.
    pub complaint: Option<String>,
    /// Links opened so far.
    pub opened: u64,
    pub is_resting: bool,
}

pub struct Pulse {
    clock: Clock,
    rests: Rests,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    health: Health,
    resting_until: Option<Instant>,
    /// When the last failure was counted: what had begun before that failed with it.
    counted: Option<Instant>,
}

impl Pulse {
    pub fn new(clock: Clock, rests: Rests) -> Self {
        Self { clock, rests, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn succeeded(&self) {
        let mut state = self.state();
        state.health.failures_in_a_row = 0;
        state.health.last_success_at = Some(self.clock.now());
        state.resting_until = None;
    }

    pub fn opened(&self) {
        self.state().health.opened += 1;
    }

    pub fn complained(&self, complaint: String) {
        self.state().health.complaint = Some(complaint);
    }

    /// Takes in how something failed that had begun at some time. What the server answered, and what nobody sent, is no
    /// failure of it; what was under way at once fails once.
    pub fn failed(&self, error: &LinkError, began: Instant) {
        self.failed_at(error, began, Instant::now());
    }

    fn failed_at(&self, error: &LinkError, began: Instant, now: Instant) {
        let at = self.clock.now();
        let mut state = self.state();
        if !matches!(error, LinkError::Cancelled { .. } | LinkError::Resting { .. } | LinkError::Full { .. }) {
            state.health.last_error = Some((error.name(), error.to_string()));
            state.health.last_error_at = Some(at);
        }
        if error.is_failure() && state.counted.is_none_or(|counted| counted <= began) {
            state.counted = Some(now);
            state.health.failures_in_a_row = state.health.failures_in_a_row.saturating_add(1);
            state.resting_until = self.rests.after(state.health.failures_in_a_row).map(|rest| now + rest);
        }
    }

    /// Whether it may be tried now. After a rest one may, and the others wait for how that goes.
    pub fn admit(&self) -> Result<(), LinkError> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Result<(), LinkError> {
        let mut state = self.state();
        let Some(until) = state.resting_until else { return Ok(()) };
        let failures = state.health.failures_in_a_row;
        if let Some(rest) = until.checked_duration_since(now).filter(|rest| !rest.is_zero()) {
            let last = state.health.last_error.as_ref().map_or_else(String::new, |(_, text)| text.clone());
            return Err(LinkError::Resting { failures, rest, last });
        }
        state.resting_until = self.rests.after(failures).map(|rest| now + rest);
        Ok(())
    }

    pub fn health(&self) -> Health {
        let state = self.state();
        let is_resting = state.resting_until.is_some_and(|until| until > Instant::now());
        Health { is_resting, ..state.health.clone() }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_egress::Sent;

    use super::*;
    use crate::wire::RpcError;

    fn pulse() -> Pulse {
        let rests = Rests { from: 2, first: Duration::from_secs(1), most: Duration::from_secs(4) };
        Pulse::new(Clock::manual(Timestamp::from_millis(1000)), rests)
    }

    fn failure() -> LinkError {
        LinkError::Closed { why: "it left".to_owned(), sent: Sent::No }
    }

    #[test]
    fn a_server_that_fails_again_and_again_is_left_alone_for_longer_and_longer() {
        let (pulse, start) = (pulse(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        pulse.failed_at(&failure(), start, start);
        pulse.admit_at(start).unwrap();
        pulse.failed_at(&failure(), start, start);
        assert!(matches!(pulse.admit_at(start), Err(LinkError::Resting { failures: 2, .. })));
        // After the rest, one tries; the next one waits for how it went.
        pulse.admit_at(at(1)).unwrap();
        pulse.admit_at(at(1)).unwrap_err();
        pulse.failed_at(&failure(), at(1), at(1));
        pulse.admit_at(at(2)).unwrap_err();
        pulse.admit_at(at(3)).unwrap();
        for _ in 0..40 {
            pulse.failed_at(&failure(), at(3), at(3));
        }
        pulse.admit_at(at(6)).unwrap_err();
        pulse.admit_at(at(7)).unwrap();
        pulse.succeeded();
        pulse.admit_at(at(7)).unwrap();
        let health = pulse.health();
        assert_eq!((health.failures_in_a_row, health.is_resting), (0, false));
        assert_eq!(health.last_error.unwrap().0, "closed");
    }

    #[test]
    fn what_was_under_way_at_once_fails_once() {
        let (pulse, start) = (pulse(), Instant::now());
        let later = start + Duration::from_secs(1);
        for _ in 0..100 {
            pulse.failed_at(&failure(), start, later);
        }
        assert_eq!(pulse.health().failures_in_a_row, 1);
        pulse.failed_at(&failure(), later, later);
        assert_eq!(pulse.health().failures_in_a_row, 2);
    }

    #[test]
    fn what_a_server_answers_is_no_failure_of_it() {
        let (pulse, now) = (pulse(), Instant::now());
        for error in [
            LinkError::Rpc(RpcError::invalid_params("no")),
            LinkError::AuthRequired { status: 401, challenge: crate::upstream::Challenge::default() },
            LinkError::Limited { retry_after_s: None },
            LinkError::Refused { status: 404 },
            LinkError::Cancelled { sent: Sent::Perhaps },
            LinkError::Timeout { after: Duration::from_millis(5), sent: Sent::Perhaps },
        ] {
            for _ in 0..10 {
                pulse.failed_at(&error, now, now);
            }
            pulse.admit_at(now).unwrap();
        }
    }
}
