//! Values against a schema: what the engine asks of every call's input and every tool's output.
//!
//! No document is ever fetched, patterns run in linear time, formats are checked, and an answer never takes
//! long: whether a value is valid is memoised by the library, and why it is not is only told where the number
//! of ways to be wrong is bounded.

use jsonschema::{Draft, PatternOptions, ValidationOptions};
use serde_json::Value;

use super::pattern::COMPILED_BYTES_MAX;
use super::reference::{self, Cost};
use super::violation::{self, Violation};
use super::walk;
use crate::finding::{Finding, shown};

/// More than a caller can read; the rest comes when these are corrected.
pub const VIOLATIONS_MAX: usize = 20;
/// How many judgements an explanation may take.
const EXPLANATION_MAX: u64 = 100_000;

/// Formats that are ours: a file that was uploaded before the call.
const BLOB_FORMAT: &str = "blob";

/// A compiled schema. Made from a schema that [`super::check`] let through.
#[derive(Debug)]
pub struct Validator {
    compiled: jsonschema::Validator,
    schema: Value,
    cost: Cost,
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
        let cost = reference::graph(&walk::places(&schema), "").0.cost();
        Ok(Self { compiled, schema, cost })
    }

    pub fn is_valid(&self, value: &Value) -> bool {
        self.compiled.is_valid(value)
    }

    /// Everything that is wrong, up to [`VIOLATIONS_MAX`]; empty for a valid value.
    pub fn validate(&self, value: &Value) -> Vec<Violation> {
        if self.compiled.is_valid(value) {
            return Vec::new();
        }
        if self.explanation_cost(value) > EXPLANATION_MAX {
            return vec![Violation::too_deep(value)];
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
        violations
    }

    /// Each level of a recursive schema multiplies the ways to be wrong.
    fn explanation_cost(&self, value: &Value) -> u64 {
        if self.cost.branching <= 1 {
            return self.cost.judgements;
        }
        let depth = u32::try_from(depth(value)).unwrap_or(u32::MAX);
        self.cost.branching.saturating_pow(depth).saturating_mul(self.cost.judgements)
    }
}

fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 1)];
    while let Some((value, level)) = open.pop() {
        deepest = deepest.max(level);
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(members) => open.extend(members.values().map(|member| (member, level + 1))),
            _ => {}
        }
    }
    deepest
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
