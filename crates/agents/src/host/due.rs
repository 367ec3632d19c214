//! Runs that nobody is at and that could go on: found by a look at the database, and at once where this replica hears of
//! what they waited for.

use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::call::RunState;
use toolgate_contracts::{Fault, RunId, TenantId, Timestamp};
use toolgate_store::agent_runs::{DUE_RUNS_MAX, DueRun};
use toolgate_store::{Change, Durability, Error};

use super::Host;
use super::drive::elsewhere;

/// For what other replicas did.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Runs of this replica at the same time; the rest waits for the next look.
const DRIVEN_MAX: usize = 512;
/// A replica that died is known to be gone by then.
const GONE_AFTER: Duration = Duration::from_mins(1);
const PUT_OFF_S: i64 = 1;
const PUT_OFF_S_MAX: i64 = 60;
/// Runs that wait and are heard of at once; what is forgotten beyond is found by a look.
const LEFT_MAX: usize = 10_000;

/// A run that could not go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct PutOff {
    until: Timestamp,
    times: u32,
}

impl Host {
    /// Takes up whatever could go on, until told to stop.
    pub async fn attend(&self, stop: CancellationToken) {
        let mut signals = self.0.engine.signals();
        let mut after = None;
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = look.tick() => match self.take_up(after).await {
                    Ok(last) => after = last,
                    Err(fault) => tracing::warn!("runs that could go on are not looked for: {}", fault.told()),
                },
                signal = signals.recv() => match signal {
                    Ok(signal) => {
                        let tenant = self.left().get(&signal.run).copied();
                        if let Some(tenant) = tenant {
                            self.look_at(tenant, signal.run);
                        }
                        // What is of one call does not end the run.
                        if signal.call.is_none() {
                            self.stop_if_over(signal.tenant, signal.run).await;
                        }
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => break,
                },
            }
        }
        self.stop().await;
    }

    /// Ends what is in flight here; other replicas, or the next start, take it up.
    pub async fn stop(&self) {
        self.0.stopping.cancel();
        // What is at hand is let go of in a moment; a server that stops does not wait longer than that.
        for _ in 0..100 {
            if self.at().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A run of ours that somebody ended: whatever it asks is not needed any more.
    async fn stop_if_over(&self, tenant: TenantId, run: RunId) {
        let Some(cancel) = self.at().get(&run).cloned() else { return };
        let state = self.0.engine.run_state(tenant, run).await;
        if state.is_ok_and(|state| state.is_some_and(RunState::is_final)) {
            cancel.cancel();
        }
    }

    async fn take_up(&self, after: Option<RunId>) -> Result<Option<RunId>, Fault> {
        let now = self.0.engine.now();
        // One that was due for that long and is not found any more was ended by others.
        self.put_off().retain(|_, put_off| put_off.until.plus_seconds(PUT_OFF_S_MAX) > now);
        let due = self.0.store.due_agent_runs(after, self.0.engine.replica(), now).await?;
        let last = due.last().map(|due| due.run).filter(|_| due.len() == DUE_RUNS_MAX as usize);
        for due in due {
            let is_early = self.put_off().get(&due.run).is_some_and(|put_off| put_off.until > now);
            if is_early || self.at().contains_key(&due.run) || self.at().len() >= DRIVEN_MAX {
                continue;
            }
            self.take(due).await?;
        }
        Ok(last)
    }

    async fn take(&self, due: DueRun) -> Result<(), Fault> {
        let DueRun { tenant, run, holder } = due;
        let mut change = Change::new(tenant).durability(Durability::Process);
        change.take_agent_run(run, holder.as_deref(), self.0.engine.replica(), elsewhere());
        match self.0.store.commit(change).await {
            Ok(_) => {
                // Whoever left it may know of agents and tools that were not heard of here yet.
                self.0.registry.refresh().await?;
                self.left().remove(&run);
                self.drive_soon(tenant, run);
                Ok(())
            }
            Err(Error::Unmet(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Something happened in a run that waits: perhaps it can go on.
    pub(super) fn look_at(&self, tenant: TenantId, run: RunId) {
        let host = self.clone();
        tokio::spawn(async move {
            if let Err(fault) = host.take_one(tenant, run).await {
                tracing::warn!(%run, "a run is not taken up: {}", fault.told());
            }
        });
    }

    /// Takes up a run that could go on. Whether it is worth another look: it is open and another replica holds it, which
    /// may be gone.
    async fn take_one(&self, tenant: TenantId, run: RunId) -> Result<bool, Fault> {
        if self.at().contains_key(&run) {
            return Ok(false);
        }
        if let Some(due) = self.0.store.due_agent_run(run, self.0.engine.replica(), self.0.engine.now()).await? {
            self.take(due).await?;
            return Ok(false);
        }
        let kept = self.0.store.agent_run(tenant, run).await?;
        let is_open = kept.as_ref().is_some_and(|kept| kept.is_open);
        if !is_open {
            self.left().remove(&run);
        }
        Ok(is_open && kept.is_some_and(|kept| kept.holder.is_some()))
    }

    /// The same, until whoever is at it lets go, or has not lived for so long that it is known to be gone: a program that
    /// serves nobody looks for no runs by itself.
    pub(super) fn look_until_taken(&self, tenant: TenantId, run: RunId) {
        let host = self.clone();
        tokio::spawn(async move {
            let looked = async {
                while host.take_one(tenant, run).await? {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                Ok::<_, Fault>(())
            };
            tokio::select! {
                looked = looked => if let Err(fault) = looked {
                    tracing::warn!(%run, "a run is not taken up: {}", fault.told());
                },
                () = host.0.stopping.cancelled() => {}
                () = tokio::time::sleep(GONE_AFTER) => {}
            }
        });
    }

    /// A run waits, and is looked at as soon as something happens in it.
    pub(super) fn listen_for(&self, tenant: TenantId, run: RunId) {
        let mut left = self.left();
        if left.len() >= LEFT_MAX {
            left.clear();
        }
        left.insert(run, tenant);
    }

    /// Tried again a little later each time.
    pub(super) fn put_off_run(&self, run: RunId) {
        let now = self.0.engine.now();
        let mut put_off = self.put_off();
        let times = put_off.get(&run).map_or(0, |put_off| put_off.times + 1);
        let wait = (PUT_OFF_S << times.min(6)).min(PUT_OFF_S_MAX);
        put_off.insert(run, PutOff { until: now.plus_seconds(wait), times });
    }
}
