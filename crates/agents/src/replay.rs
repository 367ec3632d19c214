//! Replay: a run of an agent as one document, and that document gone through again without a network or a database.
//!
//! A [`Bundle`] holds what a [`Conversation`](crate::Conversation) was told: plan, answers, envelopes. Told the same, it must
//! ask the same questions, tell the model the same and give the same outputs, byte for byte; [`replay`] says where it does
//! not. Under a [`Change`] (other policies, another definition of a tool, another model) it says what would be different.
//! Invariant: nothing here waits, reads a clock or rolls dice, and nothing is called. What a bundle does not hold is
//! unknown, never guessed.
//! Deliberately absent: secrets. What tools gave went through the redactor before it was kept, and of the keys there is
//! the run's alone, which tells no more than that a call's id is made from its tool and input.

mod bundle;
mod difference;
mod judging;
mod playing;
mod schemas;

pub use bundle::{
    BLOB_BYTES_MAX, BLOBS_BYTES_MAX, BUNDLE_BYTES_MAX, Bundle, BundleAgent, BundleCall, BundlePolicy, BundleRun,
    BundleSubject, BundleTurn, EVENTS_MAX, FORMAT, Facts, OfferedAs, Read, SealedBundle, Signature, Snapshot,
    SnapshotTool,
};
pub use difference::{DIFFERENCES_MAX, Difference, Replayed, UnknownDecision};
pub use judging::{Judged, judged, unsettled};
pub use playing::replay;

use toolgate_contracts::definition::Definition;
use toolgate_contracts::provider;
use toolgate_contracts::{Fault, json};
use toolgate_policy::cedar::{DEFAULT, Policies};

use crate::providers::scripted::Script;

/// What is different this time. Nothing: it is replayed as it was.
#[derive(Debug, Default)]
pub struct Change {
    /// Decide in place of those that did.
    pub policies: Option<Policies>,
    /// Each stands in for all versions of the tool of its name.
    pub tools: Vec<Definition>,
    /// Answers in place of the model.
    pub script: Option<Script>,
}

impl Change {
    /// Reads policies as they stand in a file. What they name need not exist here.
    pub fn read_policies(source: &str) -> Result<Policies, Fault> {
        Policies::load(source).map_err(|findings| {
            let first = findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
            let told = format!("the policies cannot be read: {first}");
            Fault::invalid(told, "correct them; `toolgate policy check FILE` shows all findings").at("/policy")
        })
    }

    /// The set of a tenant that has none of its own.
    pub fn default_policies() -> Result<Policies, Fault> {
        Self::read_policies(DEFAULT)
    }

    /// Reads a scripted model.
    pub fn read_script(value: serde_json::Value) -> Result<Script, Fault> {
        let script: provider::Script = json::decode(value).map_err(Fault::from)?;
        script.check()?;
        Script::read(&script)
    }
}
