//! Detectors: what guardrails look for in arguments and results.
//!
//! Builtin ones only; tools and plug-ins answer the same [`Finding`]. A reason never quotes what was found. Work is
//! bounded: what is too large to be examined matches, because nobody looked. Deliberately absent: what happens on a
//! match, which the guardrail says.

use serde_json::Value;
use toolgate_contracts::Fault;
pub use toolgate_contracts::guardrail::Finding;

/// A builtin detector with its settings, read once.
#[derive(Clone, Debug)]
pub struct Detector(());

impl Detector {
    pub const NAMES: [&str; 7] =
        ["secrets", "personal_data", "injection", "hidden_characters", "urls", "regex", "size"];

    /// `config` is `null` or an object; a member that the detector does not know is refused with its path.
    pub fn parse(name: &str, _config: &Value) -> Result<Self, Fault> {
        Err(Fault::invalid(format!("there is no builtin detector `{name}`"), "none yet").at("/detector/name"))
    }

    pub fn examine(&self, _value: &Value) -> Finding {
        Finding::default()
    }
}
