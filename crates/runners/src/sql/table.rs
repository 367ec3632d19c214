//! What a statement gave back, as JSON within its bounds: collected row by row, so that nothing larger is ever held.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value, json};
use toolgate_contracts::ToolError;
use toolgate_contracts::json::{self as strict, INTEGER_MAX};

use super::too_large;

/// What surrounds the rows.
const FRAME_BYTES: usize = 256;
/// A JSON value of a column stands three levels deep, in a result that may have 64.
const DEPTH_MAX: usize = 60;

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub rows_max: usize,
    pub bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    More,
    Full,
}

pub(super) struct Table {
    columns: Vec<String>,
    rows: Vec<Value>,
    bytes: usize,
    truncated: bool,
    bounds: Bounds,
}

impl Table {
    pub fn new<'a>(columns: impl Iterator<Item = &'a str>, bounds: Bounds) -> Self {
        let bounds = Bounds { bytes_max: bounds.bytes_max.saturating_sub(FRAME_BYTES), ..bounds };
        Self { columns: unique(columns), rows: Vec::new(), bytes: 0, truncated: false, bounds }
    }

    /// Adds a row while there is room; the first that does not fit says that there were more.
    pub fn push(&mut self, values: impl Iterator<Item = Value>) -> Result<Room, ToolError> {
        if self.truncated || self.rows.len() >= self.bounds.rows_max {
            self.truncated = true;
            return Ok(Room::Full);
        }
        let row: Map<String, Value> = self.columns.iter().cloned().zip(values).collect();
        let row = Value::Object(row);
        let bytes = row.to_string().len() + 1;
        if self.bytes + bytes > self.bounds.bytes_max {
            if self.rows.is_empty() {
                return Err(self.one_is_too_large(bytes));
            }
            self.truncated = true;
            return Ok(Room::Full);
        }
        self.bytes += bytes;
        self.rows.push(row);
        Ok(Room::More)
    }

    fn one_is_too_large(&self, bytes: usize) -> ToolError {
        let most = self.bounds.bytes_max;
        too_large(format!(
            "one row has {bytes} bytes as JSON, and the output may have {most}; select fewer columns, or parts of them with `substr`"
        ))
    }

    /// How many rows may still come, by what the ones before were like.
    pub fn wanted(&self) -> usize {
        const FIRST: usize = 8;
        const MOST: usize = 256;
        let average = match self.rows.len() {
            0 => return FIRST,
            rows => (self.bytes / rows).max(1),
        };
        let by_bytes = (self.bounds.bytes_max - self.bytes) / average + 1;
        let by_rows = self.bounds.rows_max - self.rows.len() + 1;
        by_bytes.min(by_rows).clamp(1, MOST)
    }

    /// `affected`: how many rows a change concerned, where that is more than what it gave back.
    pub fn finish(self, affected: Option<u64>) -> Value {
        let rows = self.rows.len() as u64;
        json!({"rows": self.rows, "row_count": affected.map_or(rows, |affected| affected.max(rows)), "truncated": self.truncated})
    }
}

/// A JSON object has each name once: the second `id` becomes `id_2`.
fn unique<'a>(columns: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    columns
        .map(|name| {
            let candidates = std::iter::once(name.to_owned()).chain((2..).map(|number| format!("{name}_{number}")));
            let free = candidates.into_iter().find(|candidate| !taken.contains(candidate)).unwrap_or_default();
            taken.insert(free.clone());
            free
        })
        .collect()
}

/// Text beyond what every reader of JSON holds exactly.
pub(super) fn integer(value: i64) -> Value {
    if value.unsigned_abs() > INTEGER_MAX { Value::String(value.to_string()) } else { Value::from(value) }
}

/// The same for a double; `NaN` and the infinities are text too.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the range is checked first")]
pub(super) fn float(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() <= INTEGER_MAX as f64 {
        return Value::from(value as i64);
    }
    match Number::from_f64(value).filter(|_| value.fract() != 0.0) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => Value::from("NaN"),
        None if value.is_infinite() => Value::from(if value > 0.0 { "Infinity" } else { "-Infinity" }),
        None => Value::from(format!("{value:e}")),
    }
}

/// A JSON column is what it holds; one that not every reader reads alike is its text.
pub(super) fn document(text: &str) -> Value {
    match strict::read(text.as_bytes(), text.len()) {
        Ok(value) if depth(&value) <= DEPTH_MAX => value,
        _ => Value::from(text),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

pub(super) fn base64(bytes: &[u8]) -> Value {
    Value::String(data_encoding::BASE64.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_a_name_of_its_own() {
        let check = |names: &[&str], expected: &[&str]| assert_eq!(unique(names.iter().copied()), expected);
        check(&["a", "b"], &["a", "b"]);
        check(&["a", "a", "a"], &["a", "a_2", "a_3"]);
        check(&["a", "a_2", "a"], &["a", "a_2", "a_3"]);
        check(&["", ""], &["", "_2"]);
    }

    #[test]
    fn numbers_are_numbers_while_every_reader_holds_them() {
        assert_eq!(integer(9_007_199_254_740_991), json!(9_007_199_254_740_991_i64));
        assert_eq!(integer(-9_007_199_254_740_992), json!("-9007199254740992"));
        assert_eq!(integer(i64::MIN), json!("-9223372036854775808"));
        for (value, expected) in [
            (1.0, json!(1)),
            (-0.0, json!(0)),
            (0.1, json!(0.1)),
            (5e-324, json!(5e-324)),
            (1e300, json!("1e300")),
            (f64::NAN, json!("NaN")),
            (f64::INFINITY, json!("Infinity")),
            (f64::NEG_INFINITY, json!("-Infinity")),
        ] {
            assert_eq!(float(value), expected);
        }
    }

    #[test]
    fn a_document_that_readers_differ_about_is_its_text() {
        assert_eq!(document(r#"{"a": [1, 2.5]}"#), json!({"a": [1, 2.5]}));
        for text in [
            r#"{"a": 12345678901234567890}"#,
            r#"{"a": 1, "a": 2}"#,
            &"[".repeat(61),
            &format!("{}{}", "[".repeat(61), "]".repeat(61)),
        ] {
            assert_eq!(document(text), json!(text));
        }
    }

    #[test]
    fn rows_are_collected_within_their_bounds() {
        let check = |rows_max: usize, bytes_max: usize, expected: (usize, bool)| {
            let bytes_max = bytes_max + FRAME_BYTES;
            let mut table = Table::new(["a"].into_iter(), Bounds { rows_max, bytes_max });
            for number in 0..5 {
                table.push(std::iter::once(json!(number))).unwrap();
            }
            let value = table.finish(None);
            assert_eq!((value["rows"].as_array().unwrap().len(), value["truncated"] == json!(true)), expected);
        };
        check(5, 1000, (5, false));
        check(4, 1000, (4, true));
        check(9, 20, (2, true));
        let mut table = Table::new(["a"].into_iter(), Bounds { rows_max: 9, bytes_max: FRAME_BYTES + 9 });
        let error = table.push(std::iter::once(json!("a long text"))).unwrap_err();
        assert_eq!(error.reason(), "too_large");
        assert_eq!(Table::new([].into_iter(), Bounds { rows_max: 9, bytes_max: 9 }).finish(Some(3))["row_count"], 3);
    }
}
