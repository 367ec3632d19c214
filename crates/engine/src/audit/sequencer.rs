//! The work in the background: leaves get their indexes while there is activity, heads are signed each second of it.
//!
//! In PostgreSQL the holder of a tenant's lease does it, so that replicas do not work for nothing; that they do no harm
//! is the compare-and-set's business. Idle, it asks the database one question a second.

use std::sync::PoisonError;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::sync::MutexGuard;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::{Fault, TenantId};
use toolgate_store::Kind;
use toolgate_store::audit::sequence::Unsettled;

use super::{Audit, Log};

/// Between two rounds while there is activity.
const BUSY: Duration = Duration::from_millis(200);
/// Between two looks while there is none.
const IDLE: Duration = Duration::from_secs(1);
/// Between two heads of one log.
const SIGN_EVERY: Duration = Duration::from_secs(1);
/// Between two entries about heads of one log.
pub(super) const NOTE_EVERY: Duration = Duration::from_mins(1);
/// A replica that ended without a word is replaced after this.
const LEASE: Duration = Duration::from_secs(10);
/// Logs that are looked after at once.
const LOGS_AT_ONCE: usize = 8;

pub struct Sequencer(Audit);

impl Sequencer {
    pub const fn new(audit: Audit) -> Self {
        Self(audit)
    }

    /// Works until `stop`; then signs what there is, writes it into the system's log, and gives its leases back.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            let busy = match self.round().await {
                Ok(busy) => busy,
                Err(fault) => {
                    tracing::error!("the log is not sequenced: {}", fault.logged().unwrap_or(fault.told()));
                    false
                }
            };
            let rest = async {
                if busy {
                    tokio::time::sleep(BUSY).await;
                } else {
                    let _ = tokio::time::timeout(IDLE, self.0.0.wake.notified()).await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = rest => {}
            }
        }
        self.finish().await;
    }

    /// One look at all logs; `true` where there was something to do here.
    pub async fn round(&self) -> Result<bool, Fault> {
        let unsettled = self.0.0.store.audit_unsettled().await?;
        let worked = stream::iter(unsettled).map(|log| self.settle(log)).buffer_unordered(LOGS_AT_ONCE);
        let worked = worked.fold(false, |any, one| std::future::ready(any || one)).await;
        self.note_heads(Some(NOTE_EVERY)).await;
        Ok(worked)
    }

    async fn settle(&self, Unsettled { tenant, waiting, unsigned: _ }: Unsettled) -> bool {
        let log = self.0.log(tenant);
        let mut log = log.lock().await;
        let due = log.signed_at.is_none_or(|at| at.elapsed() >= SIGN_EVERY);
        let done = async {
            if !self.hold(tenant, &mut log).await? {
                return Ok(false);
            }
            if due {
                self.0.sign(tenant, &mut log).await?;
            } else if waiting {
                self.0.sequence(tenant, &mut log).await?;
            }
            Ok::<_, Fault>(true)
        };
        done.await.unwrap_or_else(|fault| {
            tracing::error!(%tenant, "{}", fault.logged().unwrap_or(fault.told()));
            false
        })
    }

    async fn hold(&self, tenant: TenantId, log: &mut MutexGuard<'_, Log>) -> Result<bool, Fault> {
        let inner = &self.0.0;
        if inner.store.kind() == Kind::Sqlite {
            return Ok(true);
        }
        let now = Instant::now();
        if log.leased_until.is_some_and(|until| until > now + LEASE / 2) {
            return Ok(true);
        }
        let held = inner.store.take_lease(&lease_of(tenant), &inner.holder, inner.clock.now(), LEASE).await?;
        log.leased_until = held.then(|| now + LEASE);
        Ok(held)
    }

    /// Heads that were signed here and are not yet in the system's log, of logs that had none there for so long.
    async fn note_heads(&self, every: Option<Duration>) {
        for tenant in self.known() {
            let log = self.0.log(tenant);
            // Somebody is at work on it: next time.
            let Ok(mut log) = log.try_lock() else { continue };
            let due = every.is_none_or(|every| log.noted_at.is_none_or(|at| at.elapsed() >= every));
            if due && log.unnoted.is_some() {
                self.0.note_head(tenant, &mut log).await;
            }
        }
    }

    async fn finish(&self) {
        for tenant in self.known().into_iter().filter(|tenant| *tenant != TenantId::SYSTEM) {
            self.sign_last(tenant).await;
        }
        self.note_heads(None).await;
        // After the heads of all others, which it holds.
        self.sign_last(TenantId::SYSTEM).await;
    }

    async fn sign_last(&self, tenant: TenantId) {
        let log = self.0.log(tenant);
        let mut log = log.lock().await;
        let held = self.hold(tenant, &mut log).await.unwrap_or(false);
        if !held {
            return;
        }
        let signed = async {
            self.0.catch_up(tenant, &mut log).await?;
            self.0.sign(tenant, &mut log).await
        };
        if let Err(fault) = signed.await {
            tracing::error!(%tenant, "{}", fault.logged().unwrap_or(fault.told()));
        }
        if log.leased_until.take().is_some()
            && let Err(error) = self.0.0.store.release_lease(&lease_of(tenant), &self.0.0.holder).await
        {
            tracing::warn!("a lease is not given back: {error}");
        }
    }

    fn known(&self) -> Vec<TenantId> {
        let logs = self.0.0.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known: Vec<_> = logs.keys().copied().collect();
        known.sort();
        known
    }
}

fn lease_of(tenant: TenantId) -> String {
    format!("audit:{tenant}")
}
