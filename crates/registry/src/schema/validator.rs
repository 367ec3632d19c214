//! Values against a schema: what the engine asks of every call's input and every tool's output.
//!
//! No document is ever fetched, patterns run in linear time, formats are checked, and an answer never takes
//! long: the work is counted before it is done. A value that would take too much is refused, and why a value
//! is not valid is only told where telling is cheap.

use jsonschema::{Draft, PatternOptions, ValidationOptions};
use serde_json::Value;

use super::pattern::COMPILED_BYTES_MAX;
use super::reference;
use super::violation::{self, Violation};
use super::walk;
use super::work::{Budget, Work};
use crate::finding::{Finding, shown};

/// More than a caller can read; the rest comes when these are corrected.
pub const VIOLATIONS_MAX: usize = 20;
/// Steps that judging one value may take: well under a second.
pub const JUDGING_STEPS_MAX: u64 = 20_000_000;
/// Steps that telling everything that is wrong may take; each may keep an error in memory.
pub const EXPLAINING_STEPS_MAX: u64 = 250_000;

/// Formats that are ours: a file that was uploaded before the call.
const BLOB_FORMAT: &str = "blob";

/// A compiled schema. Made from a schema that [`super::check`] let through.
#[derive(Debug)]
pub struct Validator {
    compiled: jsonschema::Validator,
    schema: Value,
    work: Work,
}

/// Shared by all calls of a tool.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Validator>();
};

impl Validator {
    pub fn new(schema: &Value) -> Result<Self, Finding> {
        let mut schema = schema.clone();
        if let Value::Object(keywords) = &mut schema {
            // Names of the document, which would change what `#` means.
            keywords.shift_remove("$id");
            keywords.shift_remove("$schema");
        }
        let compiled = options().build(&schema).map_err(|error| {
            let pointer = error.instance_path().as_str().to_owned();
            let fix = "run `toolgate tool test` on the definition; it explains what is wrong";
            Finding::error("schema.invalid", pointer, shown(&error.to_string()), fix)
        })?;
        let places = walk::places(&schema);
        let work = Work::new(&places, &reference::graph(&places, "").0);
        Ok(Self { compiled, schema, work })
    }

    /// `false` as well for a value that would take more than [`JUDGING_STEPS_MAX`].
    pub fn is_valid(&self, value: &Value) -> bool {
        let mut budget = Budget::new(JUDGING_STEPS_MAX);
        self.work.judging(value, &mut budget).is_some() && self.compiled.is_valid(value)
    }

    /// Everything that is wrong, up to [`VIOLATIONS_MAX`]; empty for a valid value.
    pub fn validate(&self, value: &Value) -> Vec<Violation> {
        let judged = self.validate_within(value, &mut Budget::new(JUDGING_STEPS_MAX));
        judged.unwrap_or_else(|| vec![Violation::too_large(value)])
    }

    /// The same for one of several values that share a budget; `None` once it is spent.
    pub(crate) fn validate_within(&self, value: &Value, budget: &mut Budget) -> Option<Vec<Violation>> {
        self.work.judging(value, budget)?;
        if self.compiled.is_valid(value) {
            return Some(Vec::new());
        }
        let mut explaining = Budget::new(EXPLAINING_STEPS_MAX.min(budget.left));
        let before = explaining.left;
        let told = self.work.explaining(value, &mut explaining);
        budget.left -= before - explaining.left;
        if told.is_none() {
            return Some(vec![Violation::unexplained(value)]);
        }
        let mut violations: Vec<_> = self
            .compiled
            .iter_errors(value)
            .flat_map(|error| violation::explain(&error, &self.schema))
            .take(VIOLATIONS_MAX)
            .collect();
        violations
            .sort_by(|left, right| left.pointer.cmp(&right.pointer).then_with(|| left.message.cmp(&right.message)));
        violations.dedup();
        Some(violations)
    }
}

fn options() -> ValidationOptions<'static> {
    options_with(COMPILED_BYTES_MAX)
}

/// The one way in which schemas are compiled, with a limit on each pattern.
pub(super) fn options_with(pattern_bytes_max: usize) -> ValidationOptions<'static> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .with_pattern_options(PatternOptions::regex().size_limit(pattern_bytes_max))
        .should_validate_formats(true)
        .with_format(BLOB_FORMAT, |text: &str| text.strip_prefix("blob:").is_some_and(|id| !id.is_empty()))
}

/// Whether a `format` is checked; another is an annotation.
pub(crate) fn checks_format(name: &str) -> bool {
    options().is_known_format(Draft::Draft202012, name)
}
