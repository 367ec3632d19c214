//! The right to run one call once. Step 7 makes it, a runner consumes it, and there is no other way to either.
//!
//! Invariant: a [`Permit`] is made in [`Permit::issue`] and nowhere else; that function is this crate's own.
//! Invariant: a call with effects is permitted once. Only the engine's retry loop asks twice, and for such a call it is
//! refused here, whatever that loop thinks.

use std::fmt;
use std::sync::Arc;

use crate::call::Call;
use crate::engine::Engine;
use crate::secrets::Secrets;

/// ```compile_fail
/// // Nobody outside can make one:
/// fn forge(call: std::sync::Arc<toolgate_engine::Call>) -> toolgate_engine::Permit {
///     toolgate_engine::Permit { call, attempt: 1, secrets: Default::default(), engine: None }
/// }
/// ```
/// ```compile_fail
/// // nor by the crate's own way,
/// fn ask(call: std::sync::Arc<toolgate_engine::Call>) -> Option<toolgate_engine::Permit> {
///     toolgate_engine::Permit::issue(call, 1, &Default::default(), None)
/// }
/// ```
/// ```compile_fail
/// // nor make two of one,
/// fn copy(permit: &toolgate_engine::Permit) -> toolgate_engine::Permit {
///     permit.clone()
/// }
/// ```
/// ```compile_fail
/// // nor run with one twice.
/// async fn twice(runner: &dyn toolgate_engine::Runner, permit: toolgate_engine::Permit) {
///     runner.run(permit).await;
///     runner.run(permit).await;
/// }
/// ```
/// ```
/// // What works: run once with the one that was given.
/// async fn once(runner: &dyn toolgate_engine::Runner, permit: toolgate_engine::Permit) {
///     runner.run(permit).await;
/// }
/// ```
#[must_use]
pub struct Permit {
    call: Arc<Call>,
    attempt: u32,
    secrets: Arc<Secrets>,
    engine: Option<Engine>,
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("call", &self.call.id).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

impl Permit {
    /// `None` where a second attempt could be a second effect.
    pub(crate) fn issue(
        call: Arc<Call>,
        attempt: u32,
        secrets: &Arc<Secrets>,
        engine: Option<&Engine>,
    ) -> Option<Self> {
        (attempt == 1 || call.is_effect_free()).then(|| Self {
            call,
            attempt,
            secrets: Arc::clone(secrets),
            engine: engine.cloned(),
        })
    }

    pub fn call(&self) -> &Arc<Call> {
        &self.call
    }

    /// The secrets that the tool declares and was given, open. Every use is a place where one could get out.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The gate that issued it. What a call asks of it in turn goes the whole path again, as its caller.
    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    /// Counted from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}
