//! Detectors: what guardrails look for in arguments and results.
//!
//! Builtin ones only; tools and plug-ins answer the same [`Finding`]. They know shapes, not meanings, so a match is a
//! reason to look and no proof. A reason never quotes what was found. Work is bounded: what is too large to be examined
//! matches, because nobody looked. Deliberately absent: what happens on a match, which the guardrail says.

mod hidden_characters;
mod injection;
mod pattern;
mod personal_data;
mod secrets;
mod size;
mod urls;
mod walk;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolgate_contracts::guardrail::{DetectorKind, DetectorUse};
use toolgate_contracts::{Fault, json as strict};

pub use toolgate_contracts::guardrail::Finding;
pub use walk::{DEPTH_MAX, PATHS_MAX, TEXT_BYTES_MAX, VALUES_MAX};

/// A builtin detector with its settings, read once.
#[derive(Clone, Debug)]
pub struct Detector(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Secrets(secrets::Secrets),
    PersonalData(personal_data::PersonalData),
    Injection(injection::Injection),
    HiddenCharacters(hidden_characters::HiddenCharacters),
    Urls(urls::Urls),
    Pattern(pattern::Pattern),
    Size(size::Size),
}

impl Detector {
    pub const NAMES: [&str; 7] =
        ["secrets", "personal_data", "injection", "hidden_characters", "urls", "regex", "size"];

    /// `config` is `null` or an object; a member that the detector does not know is refused with its path.
    pub fn parse(name: &str, config: &Value) -> Result<Self, Fault> {
        let kind = match name {
            "secrets" => Kind::Secrets(secrets::Secrets::new(&read(config)?)?),
            "personal_data" => Kind::PersonalData(personal_data::PersonalData::new(&read(config)?)?),
            "injection" => Kind::Injection(injection::Injection::new(&read(config)?)?),
            "hidden_characters" => Kind::HiddenCharacters(hidden_characters::HiddenCharacters::new(&read(config)?)?),
            "urls" => Kind::Urls(urls::Urls::new(read(config)?)?),
            "regex" => Kind::Pattern(pattern::Pattern::new(&read(config)?)?),
            "size" => Kind::Size(size::Size::new(read(config)?)?),
            other => {
                let shown: String = other.chars().take(80).flat_map(char::escape_debug).collect();
                let told = format!("there is no builtin detector `{shown}`");
                return Err(
                    Fault::invalid(told, format!("name one of {}", Self::NAMES.join(", "))).at("/detector/name")
                );
            }
        };
        Ok(Self(kind))
    }

    /// The builtin detector that a guardrail uses; `None` where it uses a tool or a plug-in.
    pub fn of(detector: &DetectorUse) -> Result<Option<Self>, Fault> {
        match detector.kind {
            DetectorKind::Builtin => {
                Self::parse(&detector.name, detector.config.as_ref().unwrap_or(&Value::Null)).map(Some)
            }
            DetectorKind::Tool | DetectorKind::Wasm => Ok(None),
        }
    }

    pub fn examine(&self, value: &Value) -> Finding {
        match &self.0 {
            Kind::Secrets(secrets) => walk::examine(value, |leaf, found| secrets.look(leaf, found)),
            Kind::PersonalData(data) => walk::examine(value, |leaf, found| data.look(leaf, found)),
            Kind::Injection(injection) => walk::examine(value, |leaf, found| injection.look(leaf, found)),
            Kind::HiddenCharacters(hidden) => walk::examine(value, |leaf, found| hidden.look(leaf, found)),
            Kind::Urls(urls) => walk::examine(value, |leaf, found| urls.look(leaf, found)),
            Kind::Pattern(pattern) => walk::examine(value, |leaf, found| pattern.look(leaf, found)),
            Kind::Size(size) => size.measure(value),
        }
    }
}

fn read<T: DeserializeOwned>(config: &Value) -> Result<T, Fault> {
    let config = match config {
        Value::Null => json!({}),
        Value::Object(_) => config.clone(),
        _ => {
            return Err(
                Fault::invalid("`config` is not an object", "write an object, or leave it out").at("/detector/config")
            );
        }
    };
    strict::decode(config).map_err(|error| {
        Fault::invalid(error.message, "keep to what the detector knows, or leave `config` out")
            .at(format!("/detector/config{}", error.pointer))
    })
}

fn refuse(member: &str, told: impl Into<String>, remedy: impl Into<String>) -> Fault {
    Fault::invalid(told, remedy).at(format!("/detector/config/{member}"))
}

/// The settings of a detector that knows several kinds of things.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kinds<K> {
    /// Absent: all of them.
    #[serde(default = "Option::default")]
    kinds: Option<Vec<K>>,
}

impl<K: PartialEq + Copy> Kinds<K> {
    fn chosen(&self, all: &[K]) -> Result<Vec<K>, Fault> {
        match &self.kinds {
            None => Ok(all.to_vec()),
            Some(kinds) if kinds.is_empty() => {
                Err(refuse("kinds", "`kinds` is empty, so nothing would ever match", "name some, or leave it out"))
            }
            Some(kinds) => Ok(all.iter().copied().filter(|kind| kinds.contains(kind)).collect()),
        }
    }
}

/// Compiles one of our own patterns. They are constants, and a test compiles them all.
fn compile(pattern: &str) -> Result<regex::Regex, Fault> {
    regex::RegexBuilder::new(pattern).size_limit(4 << 20).build().map_err(Fault::internal)
}

#[cfg(test)]
mod tests;
