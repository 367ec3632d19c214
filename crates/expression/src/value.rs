//! JSON as CEL sees it, and back. Whole numbers are CEL's `int`, the few that are larger `uint`, all others `double`.

use std::collections::HashMap;
use std::sync::Arc;

use cel::Value as Cel;
use cel::objects::{Key, Map};
use serde_json::{Number, Value};

use crate::ExpressionError;

pub(crate) fn of_json(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(bool) => Cel::Bool(*bool),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Cel::Int(int),
            (None, Some(uint)) => Cel::UInt(uint),
            (None, None) => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(of_json).collect())),
        Value::Object(members) => {
            let entry = |(name, value): (&String, &Value)| (Key::String(Arc::new(name.clone())), of_json(value));
            Cel::Map(Map { map: Arc::new(members.iter().map(entry).collect::<HashMap<_, _>>()) })
        }
    }
}

/// What has no form in JSON is an error, never a guess. Members are sorted: CEL's maps have no order, and the same
/// values must give the same bytes.
pub(crate) fn to_json(value: &Cel) -> Result<Value, ExpressionError> {
    Ok(match value {
        Cel::Null => Value::Null,
        Cel::Bool(bool) => Value::Bool(*bool),
        Cel::Int(int) => Value::Number((*int).into()),
        Cel::UInt(uint) => Value::Number((*uint).into()),
        Cel::Float(double) => match Number::from_f64(*double) {
            Some(number) => Value::Number(number),
            None => {
                return Err(ExpressionError::Failed(format!(
                    "the result holds the number `{double}`, which JSON has not"
                )));
            }
        },
        Cel::String(text) => Value::String(text.as_ref().clone()),
        Cel::List(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        Cel::Map(map) => {
            let mut entries: Vec<_> = map.map.iter().map(|(key, value)| (name(key), value)).collect();
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            let mut members = serde_json::Map::with_capacity(entries.len());
            for (name, value) in entries {
                if members.insert(name.clone(), to_json(value)?).is_some() {
                    return Err(ExpressionError::Failed(format!("the result has the member `{name}` twice")));
                }
            }
            Value::Object(members)
        }
        other => {
            let kind = other.type_of();
            return Err(ExpressionError::Failed(format!(
                "the result holds a `{kind}`, which JSON has not: use `string(…)`"
            )));
        }
    })
}

fn name(key: &Key) -> String {
    match key {
        Key::String(text) => text.as_ref().clone(),
        Key::Int(int) => int.to_string(),
        Key::Uint(uint) => uint.to_string(),
        Key::Bool(bool) => bool.to_string(),
    }
}
