//! A row as it comes from either database, read by position into the types of `contracts`.

use std::str::FromStr;

use toolgate_contracts::{Digest, Id, Timestamp};
use uuid::Uuid;

use crate::error::Error;
use crate::value::Value;

#[derive(Clone, Debug, PartialEq)]
pub struct Row(pub(crate) Vec<Value>);

/// What can be read from a column. A value of another kind means the schema and the code disagree.
pub trait Column: Sized {
    /// How an error calls it.
    const KIND: &'static str;

    fn column(value: &Value) -> Option<Self>;
}

/// Errors name the column and what was expected there, never what it holds.
impl Row {
    pub fn get<T: Column>(&self, position: usize) -> Result<T, Error> {
        let value = self.0.get(position).and_then(T::column);
        value.ok_or_else(|| Error::Corrupt(format!("column {position} is not {}", T::KIND)))
    }

    fn text(&self, position: usize) -> Result<&str, Error> {
        match self.0.get(position) {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(Error::Corrupt(format!("column {position} is not {}", String::KIND))),
        }
    }

    /// A column of text in the grammar of `T`.
    pub fn parse<T: FromStr>(&self, position: usize) -> Result<T, Error> {
        let text = self.text(position)?;
        text.parse().map_err(|_| Error::Corrupt(format!("column {position} is not {}", short_name::<T>())))
    }

    /// A column of JSON text.
    pub fn json<T: serde::de::DeserializeOwned>(&self, position: usize) -> Result<T, Error> {
        let text = self.text(position)?;
        serde_json::from_str(text).map_err(|error| {
            let (line, at, kind) = (error.line(), error.column(), short_name::<T>());
            Error::Corrupt(format!("column {position} is not JSON of {kind}, seen at {line}:{at}"))
        })
    }
}

/// A type's name without its path and parameters.
fn short_name<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name)
}

impl Column for bool {
    const KIND: &'static str = "a boolean";

    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(flag) => Some(*flag),
            Value::Int(number) => Some(*number != 0),
            _ => None,
        }
    }
}
impl Column for i64 {
    const KIND: &'static str = "a number";

    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }
}
impl Column for u32 {
    const KIND: &'static str = "a number of 32 bits";

    fn column(value: &Value) -> Option<Self> {
        i64::column(value)?.try_into().ok()
    }
}
impl Column for f64 {
    const KIND: &'static str = "a real number";

    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Real(number) => Some(*number),
            _ => None,
        }
    }
}
impl Column for Timestamp {
    const KIND: &'static str = "a time";

    fn column(value: &Value) -> Option<Self> {
        i64::column(value).map(Self::from_millis)
    }
}
impl Column for String {
    const KIND: &'static str = "text";

    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone().into_owned()),
            _ => None,
        }
    }
}
impl Column for Vec<u8> {
    const KIND: &'static str = "bytes";

    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }
}
impl Column for Digest {
    const KIND: &'static str = "a digest";

    fn column(value: &Value) -> Option<Self> {
        Vec::column(value)?.try_into().ok().map(Self::from_bytes)
    }
}
impl Column for Uuid {
    const KIND: &'static str = "a UUID";

    /// SQLite keeps a UUID as its sixteen bytes.
    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Uuid(uuid) => Some(*uuid),
            Value::Bytes(bytes) => Self::from_slice(bytes).ok(),
            _ => None,
        }
    }
}
impl<K> Column for Id<K> {
    const KIND: &'static str = "an id";

    fn column(value: &Value) -> Option<Self> {
        Uuid::column(value).map(Self::from_uuid)
    }
}
impl<T: Column> Column for Option<T> {
    const KIND: &'static str = T::KIND;

    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            other => T::column(other).map(Some),
        }
    }
}
