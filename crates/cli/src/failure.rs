//! How a command ends: its exit status, and what a person is told when it could not be done.

use serde_json::{Value, json};
use toolgate_contracts::{Fault, FaultKind};
use toolgate_registry::Finding;

/// The exit status of `contracts.md` §13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    Failed,
    Usage,
    /// A person has to decide, or it goes on.
    Waiting,
    Unreachable,
    NoRight,
    /// Of `tool preflight`.
    Transient,
    NeedsPerson,
    UnknownTool,
    /// Of `invoke`: as the script ended.
    Script(u8),
}

/// Printed by `toolgate --help` and in the manual.
pub const EXIT_STATUS: &str = "\
Exit status:
  0   done
  1   it failed, was refused, or what was named is not there
  2   usage or configuration: the command, a file or a setting is not understood
  3   waiting for a person, or still running
  4   the server or the database cannot be reached
  5   no right: the key is missing, unknown, or may not do this

With --json an error is also one JSON object (RFC 9457) on standard output.";

impl Exit {
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Waiting => 3,
            Self::Unreachable => 4,
            Self::NoRight => 5,
            Self::Transient => 10,
            Self::NeedsPerson => 11,
            Self::UnknownTool => 12,
            Self::Script(code) => code,
        }
    }
}

pub type Done = Result<Exit, Failure>;

/// A refusal, from the API or from this side of it: both are the same `problem+json`.
#[derive(Clone, Debug)]
pub struct Failure {
    status: u16,
    pub problem: Box<Value>,
    /// The inside, told only where the reader owns the data folder.
    pub cause: Option<String>,
    /// The file that findings are about.
    pub file: Option<String>,
}

impl Failure {
    /// What the API answered instead of a result.
    pub fn answered(status: u16, problem: Value) -> Self {
        Self { status, problem: Box::new(problem), cause: None, file: None }
    }

    pub fn usage(told: impl Into<String>, remedy: impl Into<String>) -> Self {
        Fault::invalid(told, remedy).into()
    }

    pub fn failed(told: impl Into<String>, remedy: impl Into<String>) -> Self {
        Fault::conflict(told, remedy).into()
    }

    pub fn unreachable(told: impl Into<String>, remedy: impl Into<String>) -> Self {
        Fault::new(FaultKind::Unavailable, told, remedy).into()
    }

    #[must_use]
    pub fn about(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Other words for what to do.
    #[must_use]
    pub fn hint(mut self, remedy: impl Into<String>) -> Self {
        self.problem["remedy"] = Value::String(remedy.into());
        self
    }

    pub const fn is_not_found(&self) -> bool {
        self.status == 404
    }

    pub fn exit(&self) -> Exit {
        match self.status {
            // A definition with errors is a failed test, not a mistyped command.
            400 if !self.findings().is_empty() => Exit::Failed,
            400 => Exit::Usage,
            401 | 403 => Exit::NoRight,
            502..=504 => Exit::Unreachable,
            _ => Exit::Failed,
        }
    }

    pub fn told(&self) -> &str {
        self.problem["detail"].as_str().unwrap_or("the answer says nothing")
    }

    pub fn remedy(&self) -> &str {
        self.problem["remedy"].as_str().unwrap_or_default()
    }

    pub fn findings(&self) -> Vec<Finding> {
        serde_json::from_value(self.problem["details"]["findings"].clone()).unwrap_or_default()
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self {
            status: fault.kind().status(),
            problem: Box::new(fault.problem()),
            cause: fault.logged().map(str::to_owned),
            file: None,
        }
    }
}

impl From<toolgate_store::Error> for Failure {
    fn from(error: toolgate_store::Error) -> Self {
        Fault::from(error).into()
    }
}

/// What clap did not understand, in the shape of every other refusal. `list` shows what could have been named.
pub fn usage_problem(message: &str, list: Option<&str>) -> Value {
    // What is missing stands on lines of its own.
    let words = message.lines().take_while(|line| !line.is_empty()).map(str::trim).collect::<Vec<_>>().join(" ");
    let told = words.trim_start_matches("error: ");
    let remedy = list
        .map_or_else(|| "see `toolgate --help`".to_owned(), |list| format!("see what there is with `toolgate {list}`"));
    let problem = Fault::invalid(told, remedy).problem();
    if told.is_empty() { json!({}) } else { problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_an_exit_status() {
        let exit = |status| Failure::answered(status, json!({"detail": "x"})).exit();
        let expected =
            [(400, Exit::Usage), (401, Exit::NoRight), (403, Exit::NoRight), (404, Exit::Failed), (409, Exit::Failed)];
        assert_eq!(expected.map(|(status, _)| exit(status)), expected.map(|(_, exit)| exit));
        let expected = [(413, Exit::Failed), (429, Exit::Failed), (500, Exit::Failed), (503, Exit::Unreachable)];
        assert_eq!(expected.map(|(status, _)| exit(status)), expected.map(|(_, exit)| exit));
    }

    #[test]
    fn a_refused_definition_is_a_failure_and_not_a_mistyped_command() {
        let finding = Finding::error("schema.type", "/input_schema", "no", "write one");
        let problem = json!({"detail": "x", "details": {"findings": [finding]}});
        assert_eq!(Failure::answered(400, problem).exit(), Exit::Failed);
    }
}
