//! The sandbox: chooses the weakest tier that is enough and has proved itself, and runs the code in it.
//!
//! Nothing is started before it is needed. Invariant: between a tier that has proved itself and a refusal there is
//! nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::error::SandboxError;
use crate::gvisor::GvisorTier;
use crate::probe::{self, Offer};
use crate::process::{ProcessTier, Warmth};
use crate::request::{SandboxRequest, Settings, Tier};
use crate::result::SandboxResult;
use crate::spawner::Spawner;
use crate::wasm::PythonTier;

/// More code than this is no snippet.
pub const CODE_BYTES_MAX: usize = 1024 * 1024;
pub const INPUT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long a refusal stands before the machine is asked again: it may have been short of something.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// How many containers prove a tier at the same time: each takes half a second to start.
const CONTAINERS_AT_ONCE: usize = 4;
/// The same for machines of WebAssembly, which do nothing but compute.
const MACHINES_AT_ONCE: usize = 2;

/// Clones share everything. When the last is dropped, all that runs in it is killed.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

struct Inner {
    process: ProcessTier,
    wasm: Option<PythonTier>,
    gvisor: Option<GvisorTier>,
    refused: Option<String>,
    /// In the order of [`Tier::ALL`].
    asked: [Mutex<Option<Asked>>; Tier::ALL.len()],
}

struct Asked {
    at: Instant,
    offer: Offer,
}

impl Sandbox {
    pub fn new(spawner: Spawner, settings: Settings) -> Self {
        let gvisor = settings.runsc.clone().map(|runsc| GvisorTier::new(spawner.clone(), settings.clone(), runsc));
        let wasm = settings.wasm.clone().map(|python| PythonTier::new(python, &settings));
        let refused = settings.refused.clone();
        let process = ProcessTier::new(spawner, settings);
        Self { inner: Arc::new(Inner { process, wasm, gvisor, refused, asked: Default::default() }) }
    }

    /// What each tier has proved on this machine.
    pub async fn offers(&self) -> Arc<[Offer]> {
        let mut offers = Vec::new();
        for tier in Tier::ALL {
            offers.push(self.offer(tier).await);
        }
        offers.into()
    }

    /// What a tier has proved on this machine. The first to ask waits for the proof; a tier that was refused is asked
    /// again after a while, one that was not is trusted from then on.
    async fn offer(&self, tier: Tier) -> Offer {
        let inner = &self.inner;
        if let Some(why) = &inner.refused {
            return Offer::refused(tier, why.clone());
        }
        let Some(asked) = inner.asked.get(tier as usize) else { return Offer::absent(tier) };
        let mut asked = asked.lock().await;
        if let Some(Asked { at, offer }) = asked.as_ref()
            && (offer.is_open() || at.elapsed() < ASK_AGAIN_AFTER)
        {
            return offer.clone();
        }
        let offer = match (tier, &inner.wasm, &inner.gvisor) {
            (Tier::Process, ..) => {
                let run = |request| async move { inner.process.run(&request, Warmth::Fresh).await };
                probe::prove(tier, inner.process.about().await, 1, run).await
            }
            (Tier::Wasm, Some(wasm), _) => {
                let run = |request| async move { wasm.run(&request).await };
                probe::prove(tier, wasm.about().await, MACHINES_AT_ONCE, run).await
            }
            (Tier::Gvisor, _, Some(gvisor)) => {
                let run = |request| async move { gvisor.run(&request).await };
                probe::prove(tier, gvisor.about().await, CONTAINERS_AT_ONCE, run).await
            }
            (Tier::Wasm | Tier::Gvisor | Tier::Vm, ..) => Offer::absent(tier),
        };
        *asked = Some(Asked { at: Instant::now(), offer: offer.clone() });
        offer
    }

    /// The weakest tier that is enough. None that is stronger is asked for its proof.
    pub async fn enough(&self, wanted: Option<Tier>) -> Result<Tier, SandboxError> {
        let wanted = wanted.unwrap_or(Tier::Process);
        let mut reasons = Vec::new();
        for tier in Tier::ALL.into_iter().filter(|tier| *tier >= wanted) {
            let offer = self.offer(tier).await;
            if offer.is_open() {
                return Ok(tier);
            }
            reasons.push(offer.to_string());
        }
        Err(SandboxError::NoTier { wanted, reasons: reasons.join("; ") })
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
        let tier = self.enough(request.tier).await?;
        match (tier, &self.inner.wasm, &self.inner.gvisor) {
            (Tier::Process, ..) => self.inner.process.run(request, warmth).await,
            (Tier::Wasm, Some(wasm), _) => wasm.run(request).await,
            (Tier::Gvisor, _, Some(gvisor)) => gvisor.run(request).await,
            (Tier::Wasm | Tier::Gvisor | Tier::Vm, ..) => {
                Err(SandboxError::NoTier { wanted: tier, reasons: Offer::absent(tier).to_string() })
            }
        }
    }

    /// Has everything ready that is kept ready.
    pub async fn warm_up(&self) -> Result<(), SandboxError> {
        self.offer(Tier::Process).await;
        self.inner.process.warm_up().await
    }
}
