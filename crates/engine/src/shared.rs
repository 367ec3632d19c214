//! What replicas share: rates, results, and who is running the same thing already. In memory for one replica, in Redis
//! (or Valkey) for several.
//!
//! Invariant: nothing here is a record. All of it may be lost at any moment, and then a limit is stricter and a tool
//! runs once more than it had to.
//! Invariant: no call waits for Redis longer than [`link::ANSWER_MS_MAX`], and none fails for it.
//! Not here: flights across replicas. Two replicas may run the same effect-free tool at the same moment; the second
//! one's result replaces the first's. Not here either: TLS to Redis, its cluster and its sentinels.

pub mod cache;
pub mod flight;
pub mod link;
pub mod rates;

use std::sync::Arc;

use toolgate_contracts::{Fault, ToolError};

pub use cache::{CacheKey, CacheParts, Cached, KeptAttachment, Results, SecretUsed, Sharing};
pub use flight::{Flight, Flights, Follower, Leader};
pub use rates::{Quota, Rates, Refused};

use link::Link;

/// What those get who joined another's flight: its answer as it would be kept, or its failure.
pub type Answer = Result<Arc<Cached>, ToolError>;

pub struct Shared {
    pub rates: Rates,
    pub results: Results,
    pub flights: Flights<Answer>,
}

impl Shared {
    /// For one replica.
    pub fn memory() -> Self {
        Self { rates: Rates::memory(), results: Results::memory(), flights: Flights::default() }
    }

    /// A Redis that cannot be reached is a warning: it may come later. An address that none can have is a fault.
    pub async fn open(redis_url: Option<&str>) -> Result<Self, Fault> {
        let Some(url) = redis_url else { return Ok(Self::memory()) };
        let link = Arc::new(Link::open(url).await?);
        Ok(Self { rates: Rates::redis(link.clone()), results: Results::redis(link), flights: Flights::default() })
    }
}
