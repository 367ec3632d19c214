//! Arguments as Cedar sees them, built value by value: what a caller sends never becomes an entity, an address or a
//! date, whatever its members are called.
//!
//! Integers are `Long`, other numbers `decimal` with four places, `null` is absent, a list is `{len, items}` with
//! `items` a set, an object is a record. Which of a tool's numbers are integers its schema says, not the value: a
//! `number` is a decimal even where it is 5. Only what a policy names is built.

use std::collections::BTreeMap;

use cedar_policy::RestrictedExpression;
use serde_json::{Number, Value};

use super::json_type::{JsonType, Node};
use super::rule::Path;

const DECIMAL_PLACES: usize = 4;
/// The largest integer that every JSON reader agrees on: 2^53 − 1.
const INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// The arguments that policies name, with what a tool's schema says of them.
#[derive(Debug, Default)]
pub(super) struct Plan {
    used: bool,
    number: bool,
    members: BTreeMap<String, Plan>,
}

/// An argument that Cedar has no value for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unfit {
    /// JSON Pointer into the arguments, in the words of a policy (`/to/items`).
    pub members: Vec<String>,
    pub message: String,
}

impl Unfit {
    /// Whether a policy that names this path reads what does not fit.
    pub fn concerns(&self, path: &Path) -> bool {
        path.used && self.members.iter().zip(&path.members).all(|(unfit, named)| unfit == named)
    }
}

impl Plan {
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a Path>, input_schema: &Value) -> Self {
        let root = Node::root(input_schema);
        let mut plan = Self::default();
        for Path { members, used } in paths {
            let mut at = &mut plan;
            let mut node = Some(root);
            for member in members {
                node = node.and_then(|node| node.member(member));
                at = at.members.entry(member.clone()).or_default();
                at.number = node.is_some_and(|node| matches!(node.json_type(), Ok(Some(JsonType::Number))));
            }
            at.used |= *used;
        }
        plan
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The record `context.args`.
    pub fn record(&self, args: &Value, unfit: &mut Vec<Unfit>) -> Option<RestrictedExpression> {
        let mut place = Vec::new();
        let members = self.named(args, &mut place, unfit);
        RestrictedExpression::new_record(members).ok()
    }

    fn named<'a>(
        &'a self,
        object: &Value,
        place: &mut Vec<&'a str>,
        unfit: &mut Vec<Unfit>,
    ) -> Vec<(String, RestrictedExpression)> {
        let mut members = Vec::with_capacity(self.members.len());
        for (name, plan) in &self.members {
            if let Some(value) = object.get(name) {
                place.push(name);
                let built = plan.value(value, place, unfit);
                place.pop();
                members.extend(built.map(|built| (name.clone(), built)));
            }
        }
        members
    }

    fn value<'a>(
        &'a self,
        value: &Value,
        place: &mut Vec<&'a str>,
        unfit: &mut Vec<Unfit>,
    ) -> Option<RestrictedExpression> {
        if value.is_null() {
            return None;
        }
        if self.members.is_empty() && !self.used {
            return Some(RestrictedExpression::new_bool(true));
        }
        let built = match value {
            Value::Array(items) if !self.members.is_empty() => {
                let mut record = Vec::with_capacity(2);
                if self.members.contains_key("len") {
                    record.push(("len".to_owned(), length(items)));
                }
                if let Some(plan) = self.members.get("items") {
                    place.push("items");
                    let items = items.iter().filter_map(|item| plan.value(item, place, unfit)).collect::<Vec<_>>();
                    place.pop();
                    record.push(("items".to_owned(), RestrictedExpression::new_set(items)));
                }
                Ok(RestrictedExpression::new_record(record).ok())
            }
            Value::Object(_) if !self.members.is_empty() => {
                let members = self.named(value, place, unfit);
                Ok(RestrictedExpression::new_record(members).ok())
            }
            Value::Number(number) if self.number => decimal(number).map(Some),
            other => whole(other),
        };
        built.unwrap_or_else(|message| {
            let members = place.iter().map(|member| (*member).to_owned()).collect();
            unfit.push(Unfit { members, message });
            // Something must be there for a policy that only asks whether it is.
            Some(RestrictedExpression::new_bool(true))
        })
    }
}

/// A value whose members nobody names one by one.
fn whole(value: &Value) -> Result<Option<RestrictedExpression>, String> {
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::Bool(value) => RestrictedExpression::new_bool(*value),
        Value::String(text) => RestrictedExpression::new_string(text.clone()),
        Value::Number(number) => match integer(number) {
            Some(integer) => RestrictedExpression::new_long(integer),
            None => decimal(number)?,
        },
        Value::Array(items) => {
            let set = items.iter().filter_map(|item| whole(item).transpose()).collect::<Result<Vec<_>, _>>()?;
            let members = [("len".to_owned(), length(items)), ("items".to_owned(), RestrictedExpression::new_set(set))];
            return Ok(RestrictedExpression::new_record(members).ok());
        }
        Value::Object(object) => {
            let mut members = Vec::with_capacity(object.len());
            for (name, value) in object {
                members.extend(whole(value)?.map(|value| (name.clone(), value)));
            }
            return Ok(RestrictedExpression::new_record(members).ok());
        }
    }))
}

fn length(items: &[Value]) -> RestrictedExpression {
    RestrictedExpression::new_long(i64::try_from(items.len()).unwrap_or(i64::MAX))
}

/// `5.0` is an integer for JSON Schema, and so here.
fn integer(number: &Number) -> Option<i64> {
    if let Some(integer) = number.as_i64() {
        return Some(integer);
    }
    let float = number.as_f64()?;
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked: the value is whole and below 2^53")]
    (float.fract() == 0.0 && float.abs() <= INTEGER_MAX).then_some(float as i64)
}

fn decimal(number: &Number) -> Result<RestrictedExpression, String> {
    decimal_text(number).map(RestrictedExpression::new_decimal)
}

/// The shortest text that reads back as the same number, if it is a decimal with four places.
fn decimal_text(number: &Number) -> Result<String, String> {
    let unfit = || {
        format!(
            "`{number}` is not a decimal with at most {DECIMAL_PLACES} places between -922337203685477.5808 and \
             922337203685477.5807"
        )
    };
    let text = match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => integer.to_string(),
        (None, Some(float)) => float.to_string(),
        (None, None) => return Err(unfit()),
    };
    let (units, places) = text.split_once('.').unwrap_or((&text, "0"));
    let scaled = (places.len() <= DECIMAL_PLACES)
        .then(|| format!("{units}{places:0<DECIMAL_PLACES$}"))
        .filter(|scaled| scaled.parse::<i64>().is_ok());
    if scaled.is_none() {
        return Err(unfit());
    }
    Ok(format!("{units}.{places}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_fit_or_are_refused() {
        let check = |number: Value, expected: Option<&str>| {
            let Value::Number(number) = number else { panic!("a number") };
            assert_eq!(decimal_text(&number).ok().as_deref(), expected, "{number}");
        };
        check(json!(5), Some("5.0"));
        check(json!(-5), Some("-5.0"));
        check(json!(0.1), Some("0.1"));
        check(json!(-0.25), Some("-0.25"));
        check(json!(19.9999), Some("19.9999"));
        check(json!(19.99999), None);
        check(json!(1e-7), None);
        check(json!(1e21), None);
        check(json!(922_337_203_685_477_u64), Some("922337203685477.0"));
        check(json!(922_337_203_685_478_u64), None);
        check(json!(1.5e300), None);
    }

    #[test]
    fn whole_floats_are_integers() {
        let check = |number: Value, expected: Option<i64>| {
            let Value::Number(number) = number else { panic!("a number") };
            assert_eq!(integer(&number), expected, "{number}");
        };
        check(json!(7), Some(7));
        check(json!(7.0), Some(7));
        check(json!(-0.0), Some(0));
        check(json!(7.5), None);
        check(json!(1e300), None);
        check(json!(u64::MAX), None);
    }
}
