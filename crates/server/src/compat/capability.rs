//! Seed 004's `CapabilityEntry`, and its words for risks and ways of asking.

use serde::Serialize;
use toolgate_contracts::definition::{HitlMode, Risk};
use toolgate_registry::search::Kind;
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct CapabilityEntry {
    pub name: String,
    pub description: String,
    pub kind: Kind,
    pub tags: Vec<String>,
}

/// `SAFE`, `SENSITIVE` or `CRITICAL`.
pub const fn risk_word(risk: Risk) -> &'static str {
    match risk {
        Risk::Safe => "SAFE",
        Risk::Sensitive => "SENSITIVE",
        Risk::Critical => "CRITICAL",
    }
}

/// `BLOCKING`, `CONTINUE_ON_TIMEOUT` or `FIRE_AND_CONTINUE`.
pub const fn mode_word(mode: HitlMode) -> &'static str {
    match mode {
        HitlMode::Blocking => "BLOCKING",
        HitlMode::ContinueOnTimeout => "CONTINUE_ON_TIMEOUT",
        HitlMode::FireAndContinue => "FIRE_AND_CONTINUE",
    }
}
