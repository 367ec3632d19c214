//! The few kinds of value that cross into SQL. Both databases hold the same: ids as UUIDs, times as milliseconds,
//! JSON as text (so that stored bytes are the bytes that were judged).

use std::borrow::Cow;

use serde::Serialize;
use toolgate_contracts::{Digest, Id, Timestamp, json};
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(Cow<'static, str>),
    Bytes(Vec<u8>),
    Uuid(Uuid),
}

impl Value {
    /// A word that is written in the code.
    pub const fn word(word: &'static str) -> Self {
        Self::Text(Cow::Borrowed(word))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}
impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}
impl From<Timestamp> for Value {
    fn from(value: Timestamp) -> Self {
        Self::Int(value.millis())
    }
}
impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(Cow::Owned(value.to_owned()))
    }
}
impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}
impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::Text(Cow::Owned(value.clone()))
    }
}
impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(value)
    }
}
impl From<Digest> for Value {
    fn from(value: Digest) -> Self {
        Self::Bytes(value.as_bytes().to_vec())
    }
}
impl<K> From<Id<K>> for Value {
    fn from(value: Id<K>) -> Self {
        Self::Uuid(value.uuid())
    }
}
impl From<Uuid> for Value {
    fn from(value: Uuid) -> Self {
        Self::Uuid(value)
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// What is kept as JSON, in its canonical form.
pub(crate) fn json_text(value: &impl Serialize) -> Value {
    json::canonical(&serde_json::to_value(value).unwrap_or_default()).into()
}
