//! One problem of a policy set: where it is, what is wrong, and how to put it right.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How much of a policy's text a message quotes.
const SHOWN_CHARS_MAX: usize = 80;

/// Gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gravity {
    /// The set is not saved.
    Error,
    Warning,
}

impl Gravity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyFinding {
    pub gravity: Gravity,
    /// A dotted word such as `policy.unknown-tool`; stable, so that scripts may look for it.
    #[schema(value_type = String)]
    pub code: Cow<'static, str>,
    /// The policy's `@id`, or its place, where one policy is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Counted from one.
    pub line: u32,
    /// Characters, counted from one.
    pub column: u32,
    pub message: String,
    pub remedy: String,
}

impl PolicyFinding {
    /// `path:line:column: error[code]: message (policy)`, and the remedy on a line of its own.
    pub fn show(&self, path: &str) -> String {
        let Self { gravity, code, policy, line, column, message, remedy } = self;
        let policy = policy.as_ref().map(|policy| format!(" (policy `{}`)", shown(policy))).unwrap_or_default();
        format!("{path}:{line}:{column}: {}[{code}]: {message}{policy}\n  fix: {remedy}", gravity.as_str())
    }
}

/// In the order of the text, without repetitions.
pub(super) fn sort(findings: &mut Vec<PolicyFinding>) {
    findings.sort_by(|left, right| {
        let key = |finding: &PolicyFinding| (finding.line, finding.column, finding.gravity);
        key(left).cmp(&key(right)).then_with(|| (&left.code, &left.message).cmp(&(&right.code, &right.message)))
    });
    findings.dedup();
}

/// Foreign text made safe to print.
pub(super) fn shown(text: &str) -> String {
    let mut out: String = text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}

/// The known word that was probably meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > SHOWN_CHARS_MAX {
        return None;
    }
    let allowed = match word.chars().count() {
        0..=4 => 1,
        5..=12 => 2,
        _ => 3,
    };
    known
        .into_iter()
        .filter(|known| known.len().abs_diff(word.len()) <= allowed)
        .map(|known| (strsim::osa_distance(word, known), known))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, known)| known)
}
