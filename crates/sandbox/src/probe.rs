//! The proof that each tier gives on this machine before anything untrusted runs in it. One miss, and it is refused.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::SandboxError;
use crate::request::{Limits, SandboxRequest, Tier};
use crate::result::{Ended, LimitKind, SandboxResult};

/// What one thing that must not be possible came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// What was tried.
    pub tried: &'static str,
    /// Why it counts as a miss; `None` if it was contained.
    pub miss: Option<String>,
}

/// What a tier is on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offer {
    pub tier: Tier,
    /// Why it cannot be had; `None` if it can.
    pub refused: Option<String>,
    pub proofs: Vec<Proof>,
    /// What is worth knowing about it.
    pub notes: Vec<String>,
}

impl Offer {
    pub fn is_open(&self) -> bool {
        self.refused.is_none()
    }

    /// A tier that nobody has set up, or that this program does not have.
    pub(crate) fn absent(tier: Tier) -> Self {
        let why = match tier {
            Tier::Vm => "left out of this version; use `gvisor`, or a worker on a machine of its own",
            Tier::Process | Tier::Wasm | Tier::Gvisor => "not configured",
        };
        Self::refused(tier, why.to_owned())
    }

    pub(crate) fn refused(tier: Tier, why: String) -> Self {
        Self { tier, refused: Some(why), proofs: Vec::new(), notes: Vec::new() }
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.refused {
            None => write!(f, "`{}` is there", self.tier),
            Some(why) => write!(f, "`{}` is not there: {why}", self.tier),
        }
    }
}

/// What a trial must end with.
enum Expected {
    Value(Value),
    Limit(LimitKind),
}

/// Tries to reach out; says `true` if it was refused.
const REFUSED: &str = "
def main(input):
    import os, socket
    try:
        ATTEMPT
    except REFUSAL:
        return True
    return False
";

/// How a tier refuses. In a WebAssembly machine there is not even a name for what it has not.
const fn refusal(tier: Tier) -> &'static str {
    match tier {
        Tier::Wasm => "(OSError, AttributeError)",
        Tier::Process | Tier::Gvisor | Tier::Vm => "OSError",
    }
}

fn trials(tier: Tier) -> Vec<(&'static str, SandboxRequest, Expected)> {
    let limits = Limits {
        cpu: Duration::from_secs(10),
        wall: Duration::from_secs(20),
        memory_bytes: 64 << 20,
        output_bytes: 64 << 10,
        ..Limits::default()
    };
    let refused = |attempt: &str| {
        let code = REFUSED.replace("ATTEMPT", attempt).replace("REFUSAL", refusal(tier));
        SandboxRequest::new(code).limits(limits)
    };
    let value = || Expected::Value(Value::Bool(true));
    let short = Limits { cpu: Duration::from_millis(60), ..limits };
    vec![
        ("opening a socket", refused("socket.socket()"), value()),
        ("forking", refused("os.fork() or os._exit(0)"), value()),
        ("executing a program", refused("os.execv('/usr/bin/env', ['env'])"), value()),
        ("reading `/etc`", refused("os.listdir('/etc')"), value()),
        ("reading `/proc`", refused("os.listdir('/proc/1')"), value()),
        ("writing outside the scratch folder", refused("open('/box/x', 'w')"), value()),
        ("killing its process group", refused("os.kill(0, 9)"), value()),
        ("killing everybody", refused("os.kill(-1, 9)"), value()),
        (
            "inheriting an environment or descriptors",
            SandboxRequest::new(
                "import os\nopen_ones = []\nfor number in range(256):\n    try:\n        os.fstat(number)\n        \
                 open_ones.append(number)\n    except OSError:\n        pass\nresult = [open_ones, dict(os.environ)]",
            )
            .limits(Limits { open_files: 512, ..limits }),
            Expected::Value(json!([[0, 1, 2, 3], {}])),
        ),
        (
            "taking too much memory",
            SandboxRequest::new("data = bytearray(1 << 30)").limits(limits),
            Expected::Limit(LimitKind::Memory),
        ),
        (
            "taking too much processor time",
            SandboxRequest::new("while True: pass").limits(short),
            Expected::Limit(LimitKind::Cpu),
        ),
        (
            "writing too much",
            SandboxRequest::new("while True: print('x' * 1000)").limits(limits),
            Expected::Limit(LimitKind::Output),
        ),
        ("computing", SandboxRequest::new("result = 6 * 7").limits(limits), Expected::Value(json!(42))),
    ]
}

/// Has a tier prove itself: `about` says what it is, `run` runs code in it. So many trials run at once.
pub async fn prove<F: Future<Output = Result<SandboxResult, SandboxError>>>(
    tier: Tier,
    about: Result<Vec<String>, SandboxError>,
    at_once: usize,
    run: impl Fn(SandboxRequest) -> F,
) -> Offer {
    let mut offer = Offer { tier, refused: None, proofs: Vec::new(), notes: Vec::new() };
    match about {
        Ok(notes) => offer.notes = notes,
        Err(error) => {
            offer.refused = Some(match error {
                SandboxError::Start { why } => why,
                error => error.to_string(),
            });
            return offer;
        }
    }
    let mut proofs = Vec::new();
    for (tried, request, expected) in trials(tier) {
        proofs.push(proof(tried, run(request), expected));
    }
    offer.proofs = futures_util::stream::iter(proofs).buffered(at_once).collect().await;
    if let Some((tried, miss)) =
        offer.proofs.iter().find_map(|proof| proof.miss.as_ref().map(|miss| (proof.tried, miss)))
    {
        offer.refused = Some(format!("{tried} was not contained: {miss}"));
    }
    offer
}

async fn proof(
    tried: &'static str,
    running: impl Future<Output = Result<SandboxResult, SandboxError>>,
    expected: Expected,
) -> Proof {
    let miss = match running.await {
        Err(error) => Some(error.to_string()),
        Ok(result) => match (&result.ended, &expected) {
            (Ended::Finished(value), Expected::Value(wanted)) if value == wanted => None,
            (Ended::Limit(limit), Expected::Limit(wanted)) if limit == wanted => None,
            (ended, _) => Some(format!("it ended with {ended:?}")),
        },
    };
    Proof { tried, miss }
}
