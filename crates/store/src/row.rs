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
    fn column(value: &Value) -> Option<Self>;
}

impl Row {
    pub fn get<T: Column>(&self, position: usize) -> Result<T, Error> {
        self.0
            .get(position)
            .and_then(T::column)
            .ok_or_else(|| Error::Corrupt(format!("column {position} is {:?}", self.0.get(position))))
    }

    /// A column of text in the grammar of `T`.
    pub fn parse<T: FromStr>(&self, position: usize) -> Result<T, Error> {
        let text: String = self.get(position)?;
        text.parse().map_err(|_| Error::Corrupt(format!("column {position} holds {text:?}")))
    }

    /// A column of JSON text.
    pub fn json<T: serde::de::DeserializeOwned>(&self, position: usize) -> Result<T, Error> {
        let text: String = self.get(position)?;
        serde_json::from_str(&text).map_err(|error| Error::Corrupt(format!("column {position}: {error}")))
    }
}

impl Column for bool {
    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(flag) => Some(*flag),
            Value::Int(number) => Some(*number != 0),
            _ => None,
        }
    }
}
impl Column for i64 {
    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }
}
impl Column for u32 {
    fn column(value: &Value) -> Option<Self> {
        i64::column(value)?.try_into().ok()
    }
}
impl Column for f64 {
    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Real(number) => Some(*number),
            _ => None,
        }
    }
}
impl Column for Timestamp {
    fn column(value: &Value) -> Option<Self> {
        i64::column(value).map(Self::from_millis)
    }
}
impl Column for String {
    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}
impl Column for Vec<u8> {
    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }
}
impl Column for Digest {
    fn column(value: &Value) -> Option<Self> {
        Vec::column(value)?.try_into().ok().map(Self::from_bytes)
    }
}
impl Column for Uuid {
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
    fn column(value: &Value) -> Option<Self> {
        Uuid::column(value).map(Self::from_uuid)
    }
}
impl<T: Column> Column for Option<T> {
    fn column(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            other => T::column(other).map(Some),
        }
    }
}
