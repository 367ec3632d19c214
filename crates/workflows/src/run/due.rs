//! Runs that could go on and nobody is at: found by a look at the database, and at once where this replica hears of what
//! they waited for.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::{Fault, RunId, TenantId, Timestamp};
use toolgate_store::workflow_runs::DueWorkflow;
use toolgate_store::{Change, Error};

use super::drive::Left;
use crate::Workflows;

/// Runs that one replica is at; the rest is left to the next round, or to others.
pub(crate) const RUNS_AT_ONCE_MAX: usize = 64;
/// Runs that wait and are heard of at once; more are found by a round.
const LEFT_MAX: usize = 10_000;
/// For what other replicas did.
const ROUND: Duration = Duration::from_secs(1);
/// How long a run that could not go on is left alone: so long at first, twice as long each time, and at most so long.
const PUT_OFF_S: i64 = 1;
const PUT_OFF_S_MAX: i64 = 300;

/// A run that could not go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PutOff {
    until: Timestamp,
    times: u32,
}

impl PutOff {
    /// After another failure at `now`.
    fn again(before: Option<Self>, now: Timestamp) -> Self {
        let times = before.map_or(0, |before| before.times.saturating_add(1));
        let wait = PUT_OFF_S.checked_shl(times).filter(|wait| (1..PUT_OFF_S_MAX).contains(wait));
        Self { until: now.plus_seconds(wait.unwrap_or(PUT_OFF_S_MAX)), times }
    }
}

impl Workflows {
    /// Takes up what could go on and nobody is at, until told to stop.
    pub async fn attend(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(ROUND) => {}
            }
            if let Err(fault) = self.take_up_due().await {
                tracing::warn!("workflows are not taken up: {}", fault.logged().unwrap_or(fault.told()));
            }
        }
    }

    /// One round over what is due.
    async fn take_up_due(&self) -> Result<(), Fault> {
        let now = self.engine().now();
        // One that was due for that long and is not found any more was ended by others.
        self.put_off().retain(|_, put_off| put_off.until.plus_seconds(PUT_OFF_S_MAX) > now);
        let mut after = None;
        loop {
            let due =
                self.registry().store().due_workflow_runs(after, self.engine().replica(), self.engine().now()).await?;
            let Some(last) = due.last().map(|due| due.run) else { return Ok(()) };
            for one in due {
                let run = one.run;
                // The others do not wait for it.
                if let Err(fault) = self.take(one).await {
                    tracing::warn!(%run, "a workflow is not taken up: {}", fault.logged().unwrap_or(fault.told()));
                    self.put_off_run(run);
                }
            }
            after = Some(last);
        }
    }

    /// Takes up one run, if it is due.
    pub(super) async fn take_up_one(&self, run: RunId) -> Result<(), Fault> {
        match self.registry().store().due_workflow_run(run, self.engine().replica(), self.engine().now()).await? {
            Some(due) => self.take(due).await,
            None => Ok(()),
        }
    }

    async fn take(&self, due: DueWorkflow) -> Result<(), Fault> {
        let DueWorkflow { tenant, run, holder } = due;
        let now = self.engine().now();
        let is_early = self.put_off().get(&run).is_some_and(|put_off| put_off.until > now);
        if is_early || self.stopping().is_cancelled() || self.at().contains(&run) {
            return Ok(());
        }
        let mut change = Change::new(tenant);
        let taken = Fault::conflict("another replica was faster", "there is nothing to do");
        change.take_workflow_run(run, holder.as_deref(), self.engine().replica(), taken);
        match self.registry().store().commit(change).await {
            Ok(_) => {
                self.left().retain(|_, left| *left != run);
                // Whoever left it may know of tools and agents that were not heard of here yet.
                self.registry().refresh().await?;
                self.drive_soon(tenant, run);
                Ok(())
            }
            Err(Error::Unmet(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Drives a run that is ours in a task of its own, unless one is at it.
    pub(super) fn drive_soon(&self, tenant: TenantId, run: RunId) {
        if !self.at().insert(run) {
            return;
        }
        let (workflows, places): (Self, Arc<Semaphore>) = (self.clone(), self.places());
        tokio::spawn(async move {
            let Ok(_place) = places.acquire_owned().await else { return };
            let driving = AssertUnwindSafe(Box::pin(workflows.drive(tenant, run))).catch_unwind().await;
            let left = driving.unwrap_or_else(|_| Err(Fault::internal("driving the run panicked")));
            if left.is_ok() {
                workflows.put_off().remove(&run);
            }
            if let Err(fault) = &left {
                workflows.put_off_run(run);
                tracing::warn!(%run, "a workflow stands still: {}", fault.logged().unwrap_or(fault.told()));
                // Whoever finds it tries again, this replica a little later each time.
                let mut change = Change::new(tenant);
                change.give_up_workflow_run(run, workflows.engine().replica());
                if let Err(error) = workflows.registry().store().commit(change).await {
                    tracing::warn!(%run, "a workflow cannot be let go: {error}");
                }
            }
            // Only now: whoever takes it up from here on finds it let go of.
            workflows.at().remove(&run);
            // What it waits for may have ended just before.
            if let Ok(Left::Waits) = left {
                workflows.look_at(run);
            }
        });
    }

    fn put_off_run(&self, run: RunId) {
        let now = self.engine().now();
        let mut all = self.put_off();
        let before = all.get(&run).copied();
        all.insert(run, PutOff::again(before, now));
    }

    /// A run waits, and can perhaps go on when something happens in one of these.
    pub(super) fn listen_for(&self, run: RunId, happens_in: Vec<RunId>) {
        {
            let mut left = self.left();
            // Those that other replicas took are among them. A round finds whatever is forgotten here.
            if left.len() > LEFT_MAX {
                left.clear();
            }
            left.extend(happens_in.into_iter().map(|other| (other, run)));
        }
        if !self.begins_to_listen() {
            return;
        }
        let (weak, mut signals, stopping) = (self.weak(), self.engine().signals(), self.stopping().clone());
        tokio::spawn(async move {
            loop {
                let signal = tokio::select! {
                    () = stopping.cancelled() => return,
                    signal = signals.recv() => signal,
                };
                let Some(workflows) = weak.get() else { return };
                match signal {
                    Ok(signal) => {
                        let waits = workflows.left().get(&signal.run).copied();
                        if let Some(run) = waits {
                            workflows.look_at(run);
                        }
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        });
    }

    /// Something happened in a run that waits: perhaps it can go on.
    pub(super) fn look_at(&self, run: RunId) {
        let workflows = self.clone();
        tokio::spawn(async move {
            if let Err(fault) = workflows.take_up_one(run).await {
                tracing::warn!(%run, "a workflow is not taken up: {}", fault.logged().unwrap_or(fault.told()));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_cannot_go_on_is_left_alone_longer_each_time_up_to_a_ceiling() {
        let now = Timestamp::from_millis(0);
        let mut put_off = None;
        let mut waits = Vec::new();
        for _ in 0..80 {
            let again = PutOff::again(put_off, now);
            waits.push(again.until.millis() / 1000);
            put_off = Some(again);
        }
        assert_eq!(waits[..10], [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert!(waits[10..].iter().all(|wait| *wait == 300), "{waits:?}");
    }
}
