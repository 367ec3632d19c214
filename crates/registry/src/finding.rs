//! One problem of a definition: where it is, what is wrong, and how to put it right.
//!
//! Everything in this crate that judges a definition answers in findings, so that the command line, the
//! server and the console show the same words and a person never has to guess which line is meant.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use toolgate_contracts::unseen::is_unseen;
use utoipa::ToSchema;

/// How much of a foreign text a message quotes.
const SHOWN_CHARS_MAX: usize = 80;
/// A file that is wrong everywhere is told so, not listed for ever.
pub const FINDINGS_MAX: usize = 200;

/// Gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
    Note,
}

impl Severity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    pub severity: Severity,
    /// A dotted word such as `schema.remote-ref`; stable, so that scripts may look for it.
    #[schema(value_type = String)]
    pub code: Cow<'static, str>,
    /// JSON Pointer into the definition.
    pub pointer: String,
    /// The line in the file, counted from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    pub message: String,
    pub fix: String,
}

impl Finding {
    fn new(
        severity: Severity,
        code: &'static str,
        pointer: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let (pointer, message, fix) = (pointer.into(), message.into(), fix.into());
        Self { severity, code: Cow::Borrowed(code), pointer, line: None, message, fix }
    }

    pub fn error(
        code: &'static str,
        pointer: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Error, code, pointer, message, fix)
    }

    pub fn warning(
        code: &'static str,
        pointer: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Warning, code, pointer, message, fix)
    }

    pub fn note(
        code: &'static str,
        pointer: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Note, code, pointer, message, fix)
    }

    #[must_use]
    pub fn on_line(mut self, line: u32) -> Self {
        self.line = Some(line);
        self
    }

    /// `path:line: error[code]: message`, the place in the definition, and the remedy on a line of its own.
    pub fn show(&self, path: &str) -> String {
        let Self { severity, code, pointer, line, message, fix } = self;
        let mut text = path.to_owned();
        if let Some(line) = line {
            let _ = write!(text, ":{line}");
        }
        let _ = write!(text, ": {}[{code}]: {message}", severity.as_str());
        if !pointer.is_empty() && !message.contains(pointer.as_str()) {
            let _ = write!(text, " (at {})", shown(pointer));
        }
        if !fix.is_empty() {
            let _ = write!(text, "\n  fix: {fix}");
        }
        text
    }
}

pub fn has_errors(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Error)
}

/// In the order of the file, gravest first on one line, without repetitions.
pub fn sort(findings: &mut Vec<Finding>) {
    findings.sort_by(|left, right| {
        let key = |finding: &Finding| (finding.line.unwrap_or(u32::MAX), finding.severity);
        key(left)
            .cmp(&key(right))
            .then_with(|| left.pointer.cmp(&right.pointer))
            .then_with(|| left.code.cmp(&right.code))
    });
    findings.dedup();
}

/// Foreign text made safe to print: short, with control and invisible characters escaped.
pub fn shown(text: &str) -> String {
    let mut out: String = text.chars().take(SHOWN_CHARS_MAX).flat_map(escaped).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}

fn escaped(c: char) -> impl Iterator<Item = char> {
    let hidden = is_unseen(c);
    let (escape, plain) = if hidden { (Some(c.escape_unicode()), None) } else { (None, Some(c)) };
    escape.into_iter().flatten().chain(plain)
}

/// Suggestions in one run, and words that one suggestion is chosen from: more would take long to find.
pub const SUGGESTIONS_MAX: usize = 20;
const CANDIDATES_MAX: usize = 200;

/// The known word that was probably meant, among the first few of about its length.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > SHOWN_CHARS_MAX {
        return None;
    }
    let fold = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    let wanted = fold(word);
    let allowed = match wanted.chars().count() {
        0..=5 => 1,
        6..=12 => 2,
        _ => 3,
    };
    let letters = |text: &str| text.chars().filter(|c| !matches!(c, '_' | '-')).count();
    let length = letters(word);
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= 4 * SHOWN_CHARS_MAX && letters(candidate).abs_diff(length) <= allowed)
        .take(CANDIDATES_MAX)
        .map(|candidate| (strsim::osa_distance(&wanted, &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_like_a_compiler_s() {
        let finding =
            Finding::error("schema.remote-ref", "/input_schema/$ref", "`x` is remote", "copy it into `$defs`");
        assert_eq!(
            finding.clone().on_line(7).show("TOOL.md"),
            "TOOL.md:7: error[schema.remote-ref]: `x` is remote (at /input_schema/$ref)\n  fix: copy it into `$defs`"
        );
        assert!(finding.show("request").starts_with("request: error["));
        let again: Finding = serde_json::from_value(serde_json::to_value(&finding).unwrap()).unwrap();
        assert_eq!(again, finding);
    }

    #[test]
    fn foreign_text_cannot_steer_a_terminal() {
        assert_eq!(shown("a\u{1b}[2J\u{202e}b"), "a\\u{1b}[2J\\u{202e}b");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), 81);
    }

    #[test]
    fn the_nearest_word_is_close() {
        assert_eq!(nearest("egres_class", ["egress_class", "examples"]), Some("egress_class"));
        assert_eq!(nearest("inputSchema", ["input_schema", "output_schema"]), Some("input_schema"));
        assert_eq!(nearest("banana", ["input_schema", "output_schema"]), None);
    }
}
