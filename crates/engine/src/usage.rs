//! Summing up what was used, in the background: never on a call's own way, exactly once for each call.
//!
//! Every replica may do it; the store lets one of them win. What reads the sums sums up first, so this only keeps that
//! short.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolgate_store::{Error, Store};

/// How far the sums may lag behind the log.
const EVERY: Duration = Duration::from_secs(5);

/// Sums up until told to stop.
pub async fn follow(store: Store, stop: CancellationToken) {
    loop {
        if let Err(error) = roll_up(&store).await {
            // The database may be away for a while; nothing is lost, it is summed later.
            tracing::warn!("usage is not summed up: {error}");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// Sums up whatever the logs of all tenants have in order.
pub async fn roll_up(store: &Store) -> Result<(), Error> {
    for tenant in store.tenants_to_sum().await? {
        store.roll_up_usage(tenant).await?;
    }
    Ok(())
}
