//! `size`: how many bytes, how deep, how many values. Counts only, and stops when it knows.

use serde::Deserialize;
use serde_json::Value;
use toolgate_contracts::Fault;
use toolgate_contracts::guardrail::Finding;

use super::refuse;
use super::walk::{DEPTH_MAX, listed};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Of the value as JSON without spaces.
    #[serde(default)]
    bytes: Option<u64>,
    /// A text alone has depth 0, a list of texts 1.
    #[serde(default)]
    depth: Option<u64>,
    /// Members and elements of everything in it.
    #[serde(default)]
    items: Option<u64>,
}

impl Size {
    pub fn new(config: Self) -> Result<Self, Fault> {
        let Self { bytes, depth, items } = &config;
        if bytes.is_none() && depth.is_none() && items.is_none() {
            return Err(refuse("", "no limit is set, so nothing would ever match", "set `bytes`, `depth` or `items`"));
        }
        Ok(config)
    }

    pub fn measure(&self, value: &Value) -> Finding {
        let mut counts = Counts::default();
        counts.add(value, 0);
        let above = |limit: Option<u64>, count: u64| limit.is_some_and(|limit| count > limit);
        let reasons: Vec<_> = [
            (above(self.bytes, counts.bytes), "larger"),
            (above(self.depth, counts.depth), "nested deeper"),
            (above(self.items, counts.items), "of more parts"),
        ]
        .into_iter()
        .filter_map(|(above, word)| above.then_some(word))
        .collect();
        let matched = !reasons.is_empty();
        let reason = matched.then(|| format!("the value is {} than allowed", listed(&reasons)));
        Finding { matched, reason, paths: if matched { vec![String::new()] } else { Vec::new() } }
    }
}

#[derive(Default)]
struct Counts {
    bytes: u64,
    depth: u64,
    items: u64,
}

impl Counts {
    fn add(&mut self, value: &Value, depth: usize) {
        self.depth = self.depth.max(depth as u64);
        let wrapped = |count: usize| 2 + (count as u64).saturating_sub(1);
        match value {
            Value::Null => self.bytes += 4,
            Value::Bool(is) => self.bytes += if *is { 4 } else { 5 },
            Value::Number(number) => self.bytes += number.to_string().len() as u64,
            Value::String(text) => self.bytes += written(text),
            // What is nested deeper than any value that was read strictly is deep enough for every limit.
            Value::Array(_) | Value::Object(_) if depth > DEPTH_MAX => self.depth = u64::MAX,
            Value::Array(items) => {
                self.items += items.len() as u64;
                self.bytes += wrapped(items.len());
                for item in items {
                    self.add(item, depth + 1);
                }
            }
            Value::Object(members) => {
                self.items += members.len() as u64;
                self.bytes += wrapped(members.len());
                for (name, member) in members {
                    self.bytes += written(name) + 1;
                    self.add(member, depth + 1);
                }
            }
        }
    }
}

/// As JSON has it, with quotes and escapes.
fn written(text: &str) -> u64 {
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..0x20 => 5,
        _ => 0_u64,
    });
    text.len() as u64 + 2 + escapes.sum::<u64>()
}
