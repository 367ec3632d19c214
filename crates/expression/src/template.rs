//! A JSON value with places: texts in it are templates, everything else stands for itself.

use serde_json::{Map, Value};

use crate::ExpressionError;
use crate::text::Text;

#[derive(Clone, Debug)]
pub enum JsonTemplate {
    Plain(Value),
    Text(Text),
    List(Vec<JsonTemplate>),
    Members(Vec<(String, JsonTemplate)>),
}

impl JsonTemplate {
    pub fn parse(value: &Value) -> Result<Self, ExpressionError> {
        Ok(match value {
            Value::String(text) => Self::Text(Text::parse(text)?),
            Value::Array(items) => Self::List(items.iter().map(Self::parse).collect::<Result<_, _>>()?),
            Value::Object(members) => Self::Members(
                members
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), Self::parse(value)?)))
                    .collect::<Result<_, ExpressionError>>()?,
            ),
            plain => Self::Plain(plain.clone()),
        })
    }

    /// `None` for a lone place whose value was not given: the member is left out.
    pub fn filled(&self, values: &Value) -> Result<Option<Value>, ExpressionError> {
        Ok(match self {
            Self::Plain(value) => Some(value.clone()),
            Self::Text(text) => text.value(values)?,
            Self::List(items) => {
                let mut filled = Vec::with_capacity(items.len());
                for item in items {
                    filled.extend(item.filled(values)?);
                }
                Some(Value::Array(filled))
            }
            Self::Members(members) => {
                let mut filled = Map::with_capacity(members.len());
                for (name, member) in members {
                    if let Some(value) = member.filled(values)? {
                        filled.insert(name.clone(), value);
                    }
                }
                Some(Value::Object(filled))
            }
        })
    }
}
