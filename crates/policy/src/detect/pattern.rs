//! `regex`: a pattern of the tenant's own, in linear time and of bounded size.

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use toolgate_contracts::Fault;

use super::refuse;
use super::walk::{Content, Found, Leaf};

const PATTERN_BYTES_MAX: usize = 1000;
const COMPILED_BYTES_MAX: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pattern: String,
    #[serde(default)]
    case_insensitive: bool,
}

#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    pub fn new(config: &Config) -> Result<Self, Fault> {
        let Config { pattern, case_insensitive } = config;
        if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
            let told = format!("`pattern` has {} bytes; 1 to {PATTERN_BYTES_MAX} are allowed", pattern.len());
            return Err(refuse("pattern", told, "write a shorter one, or two guardrails"));
        }
        let built = RegexBuilder::new(pattern)
            .case_insensitive(*case_insensitive)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(COMPILED_BYTES_MAX)
            .nest_limit(50)
            .build();
        built.map(Self).map_err(|error| {
            let why = match error {
                regex::Error::CompiledTooBig(_) => "`pattern` is too large when compiled".to_owned(),
                _ => "`pattern` is not a regular expression".to_owned(),
            };
            let remedy = "use the syntax of Rust's `regex`: no look-around, no back-references, small repetitions";
            refuse("pattern", why, remedy).with_log(error)
        })
    }

    pub fn look(&self, leaf: &Leaf<'_>, found: &mut Found) {
        let matched = match leaf.content {
            Content::Name(text) | Content::Text(text) => self.0.is_match(text),
            Content::Number(number) => self.0.is_match(&number.to_string()),
        };
        if matched {
            found.mark("what the guardrail's pattern describes");
        }
    }
}
