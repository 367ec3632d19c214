//! Why nothing ran. How a run went is a result, never an error.

use std::io;
use std::path::PathBuf;

use toolgate_contracts::{ErrorCode, ToolError};

use crate::request::Tier;

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("no sandbox on this machine is at least `{wanted}`: {reasons}")]
    NoTier { wanted: Tier, reasons: String },
    #[error("the sandbox cannot be started: {why}")]
    Start { why: String },
    #[error("the request is too large: {what} has {bytes} bytes, at most {max} are possible")]
    TooLarge { what: &'static str, bytes: usize, max: usize },
    #[error("the component cannot be used: {why}")]
    Component { why: String },
    #[error("the limit `{limit}` cannot be {value}: {why}")]
    Limit { limit: &'static str, value: String, why: &'static str },
    #[error("`{}` cannot be started: {source}", program.display())]
    Program { program: PathBuf, source: io::Error },
    #[error("the sandbox broke while {doing}: {source}")]
    Broke { doing: &'static str, source: io::Error },
}

impl SandboxError {
    pub(crate) fn broke(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Broke { doing, source }
    }

    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoTier { .. } | Self::Start { .. } => "`toolgate doctor` says what this machine lacks; nothing ran",
            Self::TooLarge { .. } => "send less",
            Self::Component { .. } => {
                "build a component of the world `tool` or `detector` of `toolgate:plugin@1.0.0`: `docs/plugins.md` says how"
            }
            Self::Limit { .. } => "choose another value",
            Self::Program { .. } => "check the path and its rights in the configuration; nothing ran",
            Self::Broke { .. } => "try again; if it stays, `toolgate doctor` says more",
        }
    }
}

impl From<SandboxError> for ToolError {
    fn from(error: SandboxError) -> Self {
        let message = format!("{error}; {}", error.remedy());
        match error {
            SandboxError::TooLarge { .. } => Self::because(ErrorCode::ValidationError, "too_large", message),
            SandboxError::Limit { .. } => Self::because(ErrorCode::ValidationError, "schema", message),
            SandboxError::NoTier { .. }
            | SandboxError::Component { .. }
            | SandboxError::Start { .. }
            | SandboxError::Program { .. }
            | SandboxError::Broke { .. } => Self::because(ErrorCode::SandboxError, "tier_unavailable", message),
        }
    }
}
