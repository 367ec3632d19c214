//! A scripted model as it is written: turns that are played instead of a model, for tests, demonstrations and replay.
//!
//! Deliberately absent: the templates. They are texts here and are read where they are filled in.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{Stop, Usage};
use crate::fault::Fault;

pub const TURNS_MAX: usize = 1000;
pub const CHUNKS_MAX: usize = 1000;
pub const DELAY_MS_MAX: u64 = 60_000;

/// The first turn that fits and is not used up answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Script {
    pub version: u32,
    pub turns: Vec<ScriptTurn>,
}

/// Texts are templates over `prompt` (what the conversation began with) and `tools` (what each tool gave last).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptTurn {
    #[serde(default, skip_serializing_if = "ScriptWhen::is_always")]
    pub when: ScriptWhen,
    /// How often it may answer; once where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub say: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub call: Vec<ScriptCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// In how many pieces it is heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<usize>,
    /// Before each piece.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<ScriptFail>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptCall {
    pub tool: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Object)]
    pub input: Value,
}

/// All that is said must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptWhen {
    /// Which answer of the conversation it is, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_user_contains: Option<String>,
    /// The tool whose result came last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_tool: Option<String>,
    /// Whether that was an error, or words within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
}

impl ScriptWhen {
    fn is_always(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum LastError {
    Any(bool),
    Contains(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptFail {
    /// Of the answer; 0 for a connection that is not made.
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
    /// It begins to answer and breaks off after so many pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_chunks: Option<usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Script {
    /// What can be said of it without reading templates. Places are those within the script.
    pub fn check(&self) -> Result<(), Fault> {
        let Self { version, turns } = self;
        if *version != 1 {
            let told = format!("scripts of version {version} are not known");
            return Err(Fault::invalid(told, "write `version: 1`").at("/version"));
        }
        if turns.is_empty() || turns.len() > TURNS_MAX {
            let told = format!("the script has {} turns, between 1 and {TURNS_MAX} are expected", turns.len());
            return Err(Fault::invalid(told, "write the turns that it plays").at("/turns"));
        }
        turns.iter().enumerate().try_for_each(|(at, turn)| turn.check().map_err(|f| f.below(&format!("/turns/{at}"))))
    }
}

impl ScriptTurn {
    fn check(&self) -> Result<(), Fault> {
        let Self { when: _, repeat: _, say, call, usage: _, stop, chunks, delay_ms, fail } = self;
        let wrong = |member: &str, told: String| Err(Fault::invalid(told, "correct the script").at(member));
        if say.is_none() && call.is_empty() && fail.is_none() && stop.is_none() {
            return wrong("/say", "the turn neither says, calls nor fails".to_owned());
        }
        if chunks.is_some_and(|chunks| !(1..=CHUNKS_MAX).contains(&chunks)) {
            return wrong("/chunks", format!("between 1 and {CHUNKS_MAX} pieces are expected"));
        }
        if *delay_ms > DELAY_MS_MAX {
            return wrong("/delay_ms", format!("at most {DELAY_MS_MAX} are expected"));
        }
        if fail.as_ref().is_some_and(|fail| (1..300).contains(&fail.status) || fail.status > 599) {
            return wrong("/fail/status", "it is no status that fails".to_owned());
        }
        Ok(())
    }
}
