//! The proof that each tier gives on this machine before anything untrusted runs in it. One miss, and it is refused.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::SandboxError;
use crate::process::{ProcessTier, Warmth};
use crate::request::{Limits, SandboxRequest, Tier};
use crate::result::{Ended, LimitKind};

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

    /// A tier that nobody has set up.
    pub(crate) fn absent(tier: Tier) -> Self {
        Self { tier, refused: Some("not configured".to_owned()), proofs: Vec::new(), notes: Vec::new() }
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
    except OSError:
        return True
    return False
";

fn trials() -> Vec<(&'static str, SandboxRequest, Expected)> {
    let limits = Limits {
        cpu: Duration::from_secs(10),
        wall: Duration::from_secs(20),
        memory_bytes: 64 << 20,
        output_bytes: 64 << 10,
        ..Limits::default()
    };
    let refused = |attempt: &str| SandboxRequest::new(REFUSED.replace("ATTEMPT", attempt)).limits(limits);
    let value = || Expected::Value(Value::Bool(true));
    let short = Limits { cpu: Duration::from_millis(60), ..limits };
    vec![
        ("opening a socket", refused("socket.socket()"), value()),
        ("forking", refused("os.fork() or os._exit(0)"), value()),
        ("executing a program", refused("os.execv('/usr/bin/env', ['env'])"), value()),
        ("reading `/etc`", refused("os.listdir('/etc')"), value()),
        ("reading `/proc`", refused("os.listdir('/proc')"), value()),
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

/// Has the process tier prove itself.
pub async fn process(tier: &ProcessTier) -> Offer {
    let mut offer = Offer { tier: Tier::Process, refused: None, proofs: Vec::new(), notes: Vec::new() };
    match tier.about().await {
        Ok(notes) => offer.notes = notes,
        Err(error) => {
            offer.refused = Some(match error {
                SandboxError::Start { why } => why,
                error => error.to_string(),
            });
            return offer;
        }
    }
    for (tried, request, expected) in trials() {
        let miss = match tier.run(&request, Warmth::Fresh).await {
            Err(error) => Some(error.to_string()),
            Ok(result) => match (&result.ended, &expected) {
                (Ended::Finished(value), Expected::Value(wanted)) if value == wanted => None,
                (Ended::Limit(limit), Expected::Limit(wanted)) if limit == wanted => None,
                (ended, _) => Some(format!("it ended with {ended:?}")),
            },
        };
        offer.proofs.push(Proof { tried, miss });
    }
    if let Some((tried, miss)) =
        offer.proofs.iter().find_map(|proof| proof.miss.as_ref().map(|miss| (proof.tried, miss)))
    {
        offer.refused = Some(format!("{tried} was not contained: {miss}"));
    }
    offer
}
