//! Values into and out of PostgreSQL, by the type that a statement gives a parameter or a column.

use std::error::Error as StdError;
use std::fmt;

use bytes::{BufMut as _, BytesMut};
use deadpool_postgres::ClientWrapper;
use tokio_postgres::Statement;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type};

use super::STATEMENTS_MAX;
use super::errors::StatementError;
use crate::row::Row;
use crate::value::Value;

type BoxError = Box<dyn StdError + Sync + Send>;

/// Bound to a statement. Its `Debug` shows no content: the driver logs parameters when asked to log much.
struct Parameter<'a>(&'a Value);

impl fmt::Debug for Parameter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Real(_) => "real",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::Uuid(_) => "uuid",
        })
    }
}

impl ToSql for Parameter<'_> {
    fn to_sql(&self, to: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        match (self.0, to) {
            (Value::Null, _) => return Ok(IsNull::Yes),
            (Value::Bool(flag), &Type::BOOL) => out.put_u8((*flag).into()),
            (Value::Int(number), &Type::INT8) => out.put_i64(*number),
            (Value::Int(number), &Type::INT4) => out.put_i32((*number).try_into()?),
            (Value::Int(number), &Type::INT2) => out.put_i16((*number).try_into()?),
            (Value::Real(number), &Type::FLOAT8) => out.put_f64(*number),
            (Value::Text(text), &Type::JSONB) => {
                out.put_u8(1);
                out.put_slice(text.as_bytes());
            }
            (Value::Text(text), to) if is_text(to) => out.put_slice(text.as_bytes()),
            (Value::Bytes(bytes), &Type::BYTEA) => out.put_slice(bytes),
            (Value::Uuid(uuid), &Type::UUID) => out.put_slice(uuid.as_bytes()),
            (_, to) => return Err(format!("a value of kind {self:?} for a parameter of type {to}").into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, to: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        self.to_sql(to, out)
    }
}

struct Column(Value);

impl<'a> FromSql<'a> for Column {
    fn from_sql(from: &Type, raw: &'a [u8]) -> Result<Self, BoxError> {
        Ok(Self(match *from {
            Type::BOOL => Value::Bool(bool::from_sql(from, raw)?),
            Type::INT8 => Value::Int(i64::from_sql(from, raw)?),
            Type::INT4 => Value::Int(i32::from_sql(from, raw)?.into()),
            Type::INT2 => Value::Int(i16::from_sql(from, raw)?.into()),
            Type::OID => Value::Int(u32::from_sql(from, raw)?.into()),
            Type::FLOAT8 => Value::Real(f64::from_sql(from, raw)?),
            Type::FLOAT4 => Value::Real(f32::from_sql(from, raw)?.into()),
            Type::NUMERIC => numeric(raw)?,
            Type::BYTEA => Value::Bytes(raw.to_vec()),
            Type::UUID => Value::Uuid(uuid::Uuid::from_slice(raw)?),
            // The first byte is a version.
            Type::JSONB => std::str::from_utf8(raw.get(1..).unwrap_or_default())?.into(),
            _ if is_text(from) => std::str::from_utf8(raw)?.into(),
            _ => return Err(format!("a column of type {from}: cast it to one that Toolgate reads").into()),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, BoxError> {
        Ok(Self(Value::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn is_text(kind: &Type) -> bool {
    match *kind {
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN | Type::JSON => true,
        _ => matches!(kind.kind(), Kind::Enum(_)),
    }
}

/// What `sum(bigint)` and `avg` return. Whole numbers become `Int` as in SQLite where they fit, the rest `Real`; who
/// needs every digit casts to text.
fn numeric(raw: &[u8]) -> Result<Value, BoxError> {
    let word = |at: usize| raw.get(2 * at..2 * at + 2).and_then(|two| two.try_into().ok()).map(u16::from_be_bytes);
    let header = (word(0), word(1), word(2), word(3));
    let (Some(digits), Some(weight), Some(sign), Some(scale)) = header else { return Err("a short numeric".into()) };
    let weight = i32::from(weight.cast_signed());
    let negative = match sign {
        0x0000 => false,
        0x4000 => true,
        _ => return Err("a numeric that is no finite number".into()),
    };
    // Digits have base 10,000; the first counts 10,000^weight.
    let mut whole: Option<i128> = Some(0);
    let mut real = 0_f64;
    for place in 0..i32::from(digits).max(weight + 1) {
        let digit = usize::try_from(place)
            .ok()
            .filter(|place| *place < usize::from(digits))
            .and_then(|place| word(place + 4))
            .unwrap_or(0);
        if place <= weight {
            whole = whole.and_then(|whole| whole.checked_mul(10_000)?.checked_add(digit.into()));
        }
        real += f64::from(digit) * 10_000_f64.powi(weight - place);
    }
    let whole = whole.and_then(|whole| i64::try_from(if negative { -whole } else { whole }).ok());
    Ok(match whole {
        Some(whole) if scale == 0 => Value::Int(whole),
        _ => Value::Real(if negative { -real } else { real }),
    })
}

pub(super) async fn prepare(client: &ClientWrapper, sql: &str) -> Result<Statement, tokio_postgres::Error> {
    if client.statement_cache.size() >= STATEMENTS_MAX {
        client.statement_cache.clear();
    }
    client.prepare_cached(sql).await
}

/// Runs a statement: the rows it returns, and how many it changed.
pub(super) async fn run(
    client: &ClientWrapper,
    statement: &Statement,
    parameters: &[Value],
) -> Result<(u64, Vec<Row>), StatementError> {
    let parameters: Vec<Parameter<'_>> = parameters.iter().map(Parameter).collect();
    if statement.columns().is_empty() {
        return Ok((client.execute_raw(statement, parameters).await?, Vec::new()));
    }
    let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|parameter| parameter as _).collect();
    let source = client.query(statement, &parameters).await?;
    let mut rows = Vec::with_capacity(source.len());
    for row in source {
        let values: Result<Vec<Value>, _> =
            (0..row.len()).map(|at| row.try_get::<_, Column>(at).map(|column| column.0)).collect();
        rows.push(Row(values?));
    }
    Ok((u64::try_from(rows.len()).unwrap_or(u64::MAX), rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[u16], expected: Value) {
        let raw: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(numeric(&raw).unwrap(), expected);
    }

    #[test]
    fn numeric_is_whole_where_it_can_be() {
        check(&[0, 0, 0, 0], Value::Int(0));
        check(&[1, 0, 0, 0, 42], Value::Int(42));
        check(&[1, 0, 0x4000, 0, 42], Value::Int(-42));
        check(&[2, 1, 0, 0, 1, 2345], Value::Int(12_345));
        // Trailing zero digits are left out: 3 × 10,000².
        check(&[1, 2, 0, 0, 3], Value::Int(300_000_000));
        check(&[2, 0, 0, 1, 1, 5000], Value::Real(1.5));
        check(&[1, 0xffff, 0x4000, 2, 2500], Value::Real(-0.25));
        check(&[1, 0, 0, 16, 2], Value::Real(2.0));
        // i64::MIN and MAX, and one past it.
        check(&[5, 4, 0x4000, 0, 922, 3372, 368, 5477, 5808], Value::Int(i64::MIN));
        check(&[5, 4, 0, 0, 922, 3372, 368, 5477, 5807], Value::Int(i64::MAX));
        check(&[5, 4, 0, 0, 922, 3372, 368, 5477, 5808], Value::Real(9_223_372_036_854_775_808.0));
        assert!(numeric(&[0, 0, 0, 0, 0xc0, 0, 0, 0]).is_err());
        assert!(numeric(&[0]).is_err());
    }
}
