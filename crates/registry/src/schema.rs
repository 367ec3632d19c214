//! JSON Schemas of tools: which are accepted, what they accept, and their two dialects.
//!
//! One dialect is stored, 2020-12. A schema is complete in itself (nothing is ever fetched), bounded in size
//! and in the work it can cause, and its top level is an object, because a model fills in named arguments.

mod defaults;
mod downgrade;
mod pattern;
mod reference;
mod upgrade;
mod validator;
mod violation;
pub(crate) mod walk;
mod work;

use std::collections::BTreeSet;

use serde_json::Value;
use toolgate_contracts::json;

pub(crate) use self::defaults::fill_within;
pub use self::defaults::{DEFAULTS_MAX, TooManyDefaults, fill_defaults};
pub use self::downgrade::to_draft_07;
pub use self::reference::{JUDGEMENTS_MAX, REF_CHAIN_MAX};
pub use self::upgrade::{Converted, convert};
pub(crate) use self::validator::checks_format;
pub use self::validator::{EXPLAINING_STEPS_MAX, JUDGING_STEPS_MAX, VIOLATIONS_MAX, Validator};
pub use self::violation::{FOUND_BYTES_MAX, Violation};
pub use self::walk::{NAME_BYTES_MAX, SUBSCHEMAS_MAX};
pub(crate) use self::work::Budget;
use crate::finding::{FINDINGS_MAX, Finding, SUGGESTIONS_MAX, nearest, shown};

pub const DRAFT_2020_12: &str = "https://json-schema.org/draft/2020-12/schema";
pub const DRAFT_07: &str = "http://json-schema.org/draft-07/schema#";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Draft202012,
    Draft07,
}

impl Dialect {
    /// What `$schema` says, else `default`; an error is the name that is not known.
    pub fn of(schema: &Value, default: Self) -> Result<Self, String> {
        match schema.get("$schema") {
            None => Ok(default),
            Some(Value::String(name)) => {
                let bare = name.trim_end_matches('#').trim_start_matches("https://").trim_start_matches("http://");
                match bare {
                    "json-schema.org/draft/2020-12/schema" => Ok(Self::Draft202012),
                    "json-schema.org/draft-07/schema" => Ok(Self::Draft07),
                    _ => Err(name.clone()),
                }
            }
            Some(other) => Err(other.to_string()),
        }
    }
}

impl std::str::FromStr for Dialect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "2020-12" => Ok(Self::Draft202012),
            "draft-07" => Ok(Self::Draft07),
            other => Err(format!("`{}` is not a dialect: choose `2020-12` or `draft-07`", shown(other))),
        }
    }
}

/// Everything that keeps a schema from being stored (errors), and what is probably a mistake (warnings).
/// `at` is where the schema stands in the definition, for the pointers.
pub fn check(schema: &Value, at: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Value::Object(keywords) = schema else {
        let fix = "write a schema with `type: object` and `properties`";
        return vec![Finding::error("schema.not-object", at, "the schema is not an object", fix)];
    };
    let bytes = schema.to_string().len();
    if bytes > json::SCHEMA_BYTES_MAX {
        let message = format!("the schema has {bytes} bytes, the limit is {}", json::SCHEMA_BYTES_MAX);
        return vec![Finding::error(
            "schema.too-large",
            at,
            message,
            "describe the data more loosely; a tool's input is small",
        )];
    }
    if let Err(error) = json::check(schema, json::SCHEMA_BYTES_MAX) {
        return vec![Finding::error(
            "schema.unreadable",
            format!("{at}{}", error.pointer),
            error.message,
            "correct the value named here",
        )];
    }
    if keywords.get("type") != Some(&Value::from("object")) {
        let fix = "write `type: object` at the top level and put the arguments under `properties`";
        findings.push(Finding::error("schema.top-level", at, "the top level is not `type: object`", fix));
    }
    if Dialect::of(schema, Dialect::Draft202012) != Ok(Dialect::Draft202012) {
        let fix = format!("use `{DRAFT_2020_12}`, or leave `$schema` out");
        findings.push(Finding::error("schema.dialect", format!("{at}/$schema"), "the schema is not 2020-12", fix));
        return findings;
    }
    let places = walk::places(schema);
    if places.len() > SUBSCHEMAS_MAX {
        let message = format!("more than {SUBSCHEMAS_MAX} schemas in one");
        findings.push(Finding::error(
            "schema.too-many",
            at,
            message,
            "split the tool, or describe the parts more loosely",
        ));
        return findings;
    }
    let (graph, dangling) = reference::graph(&places, at);
    findings.extend(dangling);
    findings.extend(graph.check(&places, at));
    let mut told = Told::default();
    for place in &places {
        keyword_findings(place, at, &mut told);
    }
    findings.extend(told.errors);
    findings.extend(told.warnings);
    findings.extend(patterns(&places, at));
    if findings.iter().all(|finding| finding.severity != crate::Severity::Error) {
        findings.extend(endless_default(schema, &places, at));
    }
    findings.extend(meta(schema, at));
    // Gravest first, so that no number of warnings hides an error.
    findings.sort_by_key(|finding| finding.severity);
    findings.truncate(FINDINGS_MAX);
    findings
}

/// No more of either than is shown.
#[derive(Default)]
struct Told {
    errors: Vec<Finding>,
    warnings: Vec<Finding>,
}

fn keyword_findings(place: &walk::Place<'_>, at: &str, Told { errors, warnings }: &mut Told) {
    let Value::Object(keywords) = place.schema else { return };
    for (keyword, value) in keywords {
        if errors.len() >= FINDINGS_MAX {
            return;
        }
        let more = warnings.len() < FINDINGS_MAX;
        let pointer = format!("{at}{}/{}", place.pointer, json::escape(&shown(keyword)));
        match keyword.as_str() {
            "$id" if place.parent.is_some() => {
                let fix = "remove it and refer to the schema as `#/$defs/NAME`";
                errors.push(Finding::error(
                    "schema.id",
                    pointer,
                    "a schema inside has its own `$id`, which changes what `#` means below it",
                    fix,
                ));
            }
            "$dynamicRef" | "$dynamicAnchor" | "$recursiveRef" | "$recursiveAnchor" | "$vocabulary" => {
                let message = format!("`{keyword}` is not supported");
                errors.push(Finding::error("schema.dynamic-ref", pointer, message, "use `$ref` to `#/$defs/NAME`"));
            }
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                let long = value.as_object().into_iter().flatten().find(|(name, _)| name.len() > NAME_BYTES_MAX);
                if let Some((name, _)) = long {
                    let message = format!("the name `{}` has more than {NAME_BYTES_MAX} bytes", shown(name));
                    errors.push(Finding::error("schema.name-length", pointer, message, "shorten it"));
                }
            }
            "format" => {
                if more && let Some(name) = value.as_str().filter(|name| !checks_format(name)) {
                    let message = format!("the format `{}` is not known and will not be checked", shown(name));
                    let fix = "use a known format (date, date-time, email, uri, uuid, ipv4, blob …), or a `pattern`";
                    warnings.push(Finding::warning("schema.unknown-format", pointer, message, fix));
                }
            }
            known if walk::KEYWORDS.contains(&known) || known.starts_with("x-") => {}
            unknown if more => {
                let suggest = warnings.len() < SUGGESTIONS_MAX;
                let message = format!("`{}` is not a keyword of 2020-12 and has no effect", shown(unknown));
                warnings.push(Finding::warning(
                    "schema.unknown-keyword",
                    pointer,
                    message,
                    instead_of(unknown, suggest),
                ));
            }
            _ => {}
        }
    }
}

fn instead_of(keyword: &str, suggest: bool) -> String {
    match keyword {
        "nullable" => "write `type: [string, \"null\"]`".to_owned(),
        "example" => "write `examples:` with a list".to_owned(),
        "dependencies" => {
            "write `dependentRequired` or `dependentSchemas`, or declare draft-07 in `$schema`".to_owned()
        }
        "additionalItems" => "write `prefixItems` and `items`, or declare draft-07 in `$schema`".to_owned(),
        "id" => "write `$id`, or leave it out".to_owned(),
        "optional" => "leave the name out of `required`".to_owned(),
        "discriminator" => "give the member a `const` in each alternative".to_owned(),
        other => match suggest.then(|| nearest(other, walk::KEYWORDS)).flatten() {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "remove it, or begin its name with `x-`".to_owned(),
        },
    }
}

/// Patterns that are refused cost the most.
const PATTERN_FINDINGS_MAX: usize = 8;

fn patterns(places: &[walk::Place<'_>], at: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for place in places {
        if let Some(pattern) = place.schema.get("pattern").and_then(Value::as_str) {
            found.push((format!("{at}{}/pattern", place.pointer), pattern));
        }
        let named = place.schema.get("patternProperties").and_then(Value::as_object);
        found.extend(
            named
                .into_iter()
                .flatten()
                .map(|(name, _)| (format!("{at}{}/patternProperties", place.pointer), name.as_str())),
        );
    }
    let mut findings = Vec::new();
    let mut total = 0;
    let mut seen = BTreeSet::new();
    for (pointer, pattern) in found {
        // What does not fit was compiled as well.
        if findings.len() >= PATTERN_FINDINGS_MAX {
            break;
        }
        if total > pattern::SCHEMA_COMPILED_BYTES_MAX || !seen.insert(pattern) {
            continue;
        }
        match pattern::price(pattern) {
            Ok(bytes) => total += bytes,
            Err((message, fix)) => findings.push(Finding::error(
                "schema.pattern",
                pointer,
                format!("`{}`: {message}", shown(pattern)),
                fix,
            )),
        }
    }
    if total > pattern::SCHEMA_COMPILED_BYTES_MAX {
        let message = format!(
            "the patterns need more than {} MiB together when compiled",
            pattern::SCHEMA_COMPILED_BYTES_MAX / 1024 / 1024
        );
        findings.push(Finding::error("schema.too-many-patterns", at, message, "use fewer patterns, or simpler ones"));
    }
    findings
}

/// Defaults are filled into every call, so what they add is bounded for all of them together.
fn endless_default(schema: &Value, places: &[walk::Place<'_>], at: &str) -> Option<Finding> {
    let mut added = 0;
    let mut steps = defaults::STEPS_MAX / 5;
    for place in places {
        added += defaults::added_to_own_default(schema, place.schema, &mut steps).unwrap_or(DEFAULTS_MAX);
        if added >= DEFAULTS_MAX {
            let fix = "give the default all its members, or leave out the one that recurs";
            let pointer = format!("{at}{}/default", place.pointer);
            return Some(Finding::error(
                "schema.default-loop",
                pointer,
                "the default keeps adding to itself, or adds too much",
                fix,
            ));
        }
    }
    None
}

/// Larger schemas are not told what is wrong with them: every error is kept in memory.
const META_WEIGHT_MAX: u64 = 50_000;

/// What the language of schemas itself says about the schema.
fn meta(schema: &Value, at: &str) -> Vec<Finding> {
    let validator = jsonschema::draft202012::meta::validator();
    if validator.is_valid(schema) {
        return Vec::new();
    }
    if work::weight(schema) > META_WEIGHT_MAX {
        let message = "the schema is not valid, and too large to tell where";
        let fix = "check it in parts; see https://json-schema.org/understanding-json-schema";
        return vec![Finding::error("schema.invalid", at, message, fix)];
    }
    let errors = validator.iter_errors(schema);
    let explained = errors.flat_map(|error| violation::explain(&error, &Value::Null)).map(|wrong| {
        let tuple = wrong.pointer.ends_with("/items") && wrong.found.starts_with("the list");
        let fix = if tuple {
            "a list of schemas is a tuple: write `prefixItems`, or declare draft-07 in `$schema`"
        } else {
            "correct the keyword; see https://json-schema.org/understanding-json-schema"
        };
        Finding::error("schema.invalid", format!("{at}{}", wrong.pointer), wrong.message, fix)
    });
    let mut findings: Vec<_> = explained.take(VIOLATIONS_MAX).collect();
    findings.dedup();
    findings
}
