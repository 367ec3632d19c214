//! JSON as parameters: written as text, which PostgreSQL reads as the type that the statement gives the parameter. So a
//! number, a day or an identifier of any type arrives as exactly as the text says it, and a wrong one is the server's to
//! refuse.

use std::error::Error as StdError;

use bytes::BytesMut;
use serde_json::Value;
use tokio_postgres::Statement;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};
use toolgate_contracts::ToolError;

use super::super::databases::{Parameter, Work};
use super::super::invalid;

#[derive(Debug)]
pub(super) struct Text(Option<String>);

impl ToSql for Text {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        let Some(text) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

pub(super) fn encode(statement: &Statement, work: &Work) -> Result<Vec<Text>, ToolError> {
    let (types, given) = (statement.params(), &work.parameters);
    if types.len() != given.len() {
        let message = format!("the statement takes {} parameters and {} are given", types.len(), given.len());
        return Err(invalid("", message));
    }
    let encoded = types.iter().zip(given).map(|(of, Parameter { value, pointer })| {
        text(value, of)
            .map(Text)
            .map_err(|why| invalid(pointer, format!("`{pointer}`: {why}, and the statement takes `{}`", of.name())))
    });
    encoded.collect()
}

/// `None` for NULL, else the text; or what is wrong with the value.
fn text(value: &Value, of: &Type) -> Result<Option<String>, String> {
    if value.is_null() {
        return Ok(None);
    }
    if let Kind::Domain(inner) = of.kind() {
        return text(value, inner);
    }
    if *of == Type::JSON || *of == Type::JSONB {
        return Ok(Some(value.to_string()));
    }
    match (value, of.kind()) {
        (Value::Array(items), Kind::Array(inner)) => array(items, inner).map(Some),
        (Value::Array(_), _) => Err("a list".to_owned()),
        (Value::Object(_), _) => Err("an object".to_owned()),
        (Value::String(text), _) if *of == Type::BYTEA => match data_encoding::BASE64.decode(text.as_bytes()) {
            Ok(bytes) => Ok(Some(format!("\\x{}", data_encoding::HEXLOWER.encode(&bytes)))),
            Err(_) => Err("a text that is not base64".to_owned()),
        },
        (Value::String(text), _) if text.contains('\0') => Err("a text with a NUL character".to_owned()),
        (Value::String(text), _) => Ok(Some(text.clone())),
        (other, _) => Ok(Some(other.to_string())),
    }
}

/// A literal such as `{"a",NULL,{…}}`; lists of lists are arrays of more dimensions.
fn array(items: &[Value], of: &Type) -> Result<String, String> {
    let items = items.iter().map(|item| match item {
        Value::Array(inner) if *of != Type::JSON && *of != Type::JSONB => array(inner, of),
        item => Ok(text(item, of)?.map_or_else(|| "NULL".to_owned(), |text| quoted(&text))),
    });
    Ok(format!("{{{}}}", items.collect::<Result<Vec<_>, String>>()?.join(",")))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_written_as_their_type_reads_them() {
        #[track_caller]
        fn check(value: Value, of: Type, expected: Result<Option<&str>, &str>) {
            let found = text(&value, &of);
            assert_eq!(found, expected.map(|text| text.map(str::to_owned)).map_err(str::to_owned), "{value} {of}");
        }
        check(json!(null), Type::TEXT, Ok(None));
        check(json!(null), Type::JSONB, Ok(None));
        check(json!(true), Type::BOOL, Ok(Some("true")));
        check(json!(1.5), Type::NUMERIC, Ok(Some("1.5")));
        check(json!("12345678901234567890.5"), Type::NUMERIC, Ok(Some("12345678901234567890.5")));
        check(json!("'; drop table t --"), Type::TEXT, Ok(Some("'; drop table t --")));
        check(json!("a"), Type::JSONB, Ok(Some("\"a\"")));
        check(json!([1, {"a": null}]), Type::JSON, Ok(Some(r#"[1,{"a":null}]"#)));
        check(json!("AP8="), Type::BYTEA, Ok(Some("\\x00ff")));
        check(json!("a b"), Type::BYTEA, Err("a text that is not base64"));
        check(json!(["a", null, "b\"\\,{}"]), Type::TEXT_ARRAY, Ok(Some(r#"{"a",NULL,"b\"\\,{}"}"#)));
        check(json!([[1, 2], [3, 4]]), Type::INT4_ARRAY, Ok(Some(r#"{{"1","2"},{"3","4"}}"#)));
        check(json!([[1], {"a": 2}]), Type::JSONB_ARRAY, Ok(Some(r#"{"[1]","{\"a\":2}"}"#)));
        check(json!([]), Type::TEXT_ARRAY, Ok(Some("{}")));
        check(json!([1]), Type::INT4, Err("a list"));
        check(json!({}), Type::TEXT, Err("an object"));
        check(json!("a\0b"), Type::TEXT, Err("a text with a NUL character"));
    }
}
