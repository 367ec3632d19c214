//! The sandbox: chooses the weakest tier that is enough and has proved itself, and runs the code in it.
//!
//! Nothing is started before it is needed. Invariant: between `process`, then `wasm`, and a refusal there is nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::error::SandboxError;
use crate::probe::{self, Offer};
use crate::process::{ProcessTier, Warmth};
use crate::request::{SandboxRequest, Settings, Tier};
use crate::result::SandboxResult;
use crate::spawner::Spawner;

/// More code than this is no snippet.
pub const CODE_BYTES_MAX: usize = 1024 * 1024;
pub const INPUT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long a refusal stands before the machine is asked again: it may have been short of something.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Clones share everything. When the last is dropped, all that runs in it is killed.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

struct Inner {
    process: ProcessTier,
    offers: Mutex<Option<Asked>>,
}

struct Asked {
    at: Instant,
    offers: Arc<[Offer]>,
}

impl Sandbox {
    pub fn new(spawner: Spawner, settings: Settings) -> Self {
        Self { inner: Arc::new(Inner { process: ProcessTier::new(spawner, settings), offers: Mutex::new(None) }) }
    }

    /// What each tier has proved on this machine. The first to ask waits for the proof; a tier that was refused is asked
    /// again after a while, one that was not is trusted from then on.
    pub async fn offers(&self) -> Arc<[Offer]> {
        let mut asked = self.inner.offers.lock().await;
        if let Some(Asked { at, offers }) = asked.as_ref()
            && (offers.iter().any(Offer::is_open) || at.elapsed() < ASK_AGAIN_AFTER)
        {
            return Arc::clone(offers);
        }
        let process = probe::process(&self.inner.process).await;
        let others = [Tier::Wasm, Tier::Gvisor, Tier::Vm].map(Offer::absent);
        let offers: Arc<[Offer]> = [process].into_iter().chain(others).collect();
        *asked = Some(Asked { at: Instant::now(), offers: Arc::clone(&offers) });
        offers
    }

    /// Runs code in the weakest tier that is enough. Dropping the future kills what runs.
    pub async fn run(&self, request: &SandboxRequest) -> Result<SandboxResult, SandboxError> {
        self.run_from(request, Warmth::Ready).await
    }

    /// Runs code as [`Sandbox::run`] does, and says where its instance comes from.
    pub async fn run_from(&self, request: &SandboxRequest, warmth: Warmth) -> Result<SandboxResult, SandboxError> {
        let sizes =
            [("the code", request.code.len(), CODE_BYTES_MAX), ("the input", request.input.len(), INPUT_BYTES_MAX)];
        for (what, bytes, max) in sizes {
            if bytes > max {
                return Err(SandboxError::TooLarge { what, bytes, max });
            }
        }
        let wanted = request.tier.unwrap_or(Tier::Process);
        let offers = self.offers().await;
        match offers.iter().find(|offer| offer.tier >= wanted && offer.is_open()).map(|offer| offer.tier) {
            Some(Tier::Process) => self.inner.process.run(request, warmth).await,
            Some(Tier::Wasm | Tier::Gvisor | Tier::Vm) | None => {
                let reasons: Vec<String> =
                    offers.iter().filter(|offer| offer.tier >= wanted).map(ToString::to_string).collect();
                Err(SandboxError::NoTier { wanted, reasons: reasons.join("; ") })
            }
        }
    }

    /// Has everything ready that is kept ready.
    pub async fn warm_up(&self) -> Result<(), SandboxError> {
        self.offers().await;
        self.inner.process.warm_up().await
    }
}
