//! Leases: which process does a piece of background work. There is no leader, and a process that ends without a word
//! loses its leases by time alone.
//!
//! A lease saves work, it does not guard anything: clocks of two machines differ, so two may hold one for a moment. What
//! must not happen twice is a compare-and-set of its own.

use std::time::Duration;

use toolgate_contracts::{TenantId, Timestamp};

use crate::Store;
use crate::change::{Change, Durability};
use crate::error::Error;

impl Store {
    /// Takes a lease that is free or has run out, or prolongs one's own; `false` where another holds it.
    pub async fn take_lease(&self, name: &str, holder: &str, now: Timestamp, ttl: Duration) -> Result<bool, Error> {
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        let until = Timestamp::from_millis(now.millis().saturating_add(ttl));
        let mut change = Change::new(TenantId::SYSTEM).durability(Durability::Process);
        change.then(
            "/* no tenant: leases are the processes' own */
             INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, $3)
             ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
             WHERE leases.holder = excluded.holder OR leases.expires_at <= $4",
            [name.into(), holder.into(), until.into(), now.into()],
        );
        let outcome = self.commit(change).await?;
        Ok(outcome.changed.first() == Some(&1))
    }

    /// Gives back a lease that is one's own.
    pub async fn release_lease(&self, name: &str, holder: &str) -> Result<(), Error> {
        let mut change = Change::new(TenantId::SYSTEM).durability(Durability::Process);
        change.then(
            "/* no tenant: leases are the processes' own */ DELETE FROM leases WHERE name = $1 AND holder = $2",
            [name.into(), holder.into()],
        );
        self.commit(change).await.map(drop)
    }
}
