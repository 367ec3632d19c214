//! What runners may be made of, opened once at the start by whoever opens the engine.

use std::path::Path;
use std::sync::Arc;

use toolgate_contracts::{Clock, Entries, Rng};
use toolgate_egress::mail::Mailer;
use toolgate_registry::commands::Registry;
use toolgate_store::Store;
use toolgate_vault::Vault;

use crate::keyed::Keyed;
use crate::outside::Outside;

#[derive(Clone, Copy)]
pub struct Wiring<'a> {
    pub store: &'a Store,
    pub clock: &'a Clock,
    pub rng: &'a Rng,
    /// The data folder.
    pub data: &'a Path,
    pub registry: &'a Arc<Registry>,
    /// The way out, for what reaches services.
    pub outside: &'a Outside,
    /// The operator's relay, where there is one.
    pub mailer: Option<&'a Mailer>,
    /// Digests that nobody outside can make.
    pub keyed: &'a Keyed,
    /// What the server keeps for itself and for others, encrypted.
    pub vault: &'a Vault,
    /// What the operator lets tools use.
    pub entries: &'a Arc<Entries>,
}
