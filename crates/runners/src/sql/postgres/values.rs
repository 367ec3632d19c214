//! Columns as JSON. The driver gets values in PostgreSQL's binary form, whose meaning follows from the type; a type
//! without a meaning here is refused before the statement runs, with the cast that helps.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use jiff::civil::{Date, DateTime, Time, date};
use jiff::{SignedDuration, Span, Timestamp};
use serde_json::{Map, Value};
use tokio_postgres::types::{FromSql, Kind, Type};
use tokio_postgres::{Column, Row};
use toolgate_contracts::{ErrorCode, ToolError};

use super::super::table::{base64, document, float, integer};

/// The first day that PostgreSQL counts from.
const EPOCH: Date = date(2000, 1, 1);
const EPOCH_MICROS: i64 = 946_684_800_000_000;
const DIMENSIONS_MAX: i32 = 6;

/// Whether values of the column can be read.
pub(super) fn check(column: &Column) -> Result<(), ToolError> {
    if is_readable(column.type_()) {
        return Ok(());
    }
    let (name, of) = (column.name(), column.type_().name());
    let message = format!("the column `{name}` has the type `{of}`, which has no form in JSON; select `{name}::text`");
    Err(ToolError::because(ErrorCode::ProviderError, "upstream_4xx", message))
}

pub(super) fn of(row: &Row) -> Result<Vec<Value>, ToolError> {
    let values = row.columns().iter().enumerate().map(|(index, column)| {
        let Raw(bytes) = row.try_get(index).map_err(|error| error.to_string())?;
        bytes.map_or(Ok(Value::Null), |bytes| value(column.type_(), bytes)).map_err(|why| {
            let name = column.name();
            format!("a value of the column `{name}` cannot be read: {why}; select `{name}::text`")
        })
    });
    values
        .collect::<Result<_, String>>()
        .map_err(|message| ToolError::because(ErrorCode::ProviderError, "upstream_4xx", message))
}

/// A value as it came.
struct Raw<'a>(Option<&'a [u8]>);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, bytes: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(Some(bytes)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// How values of a type that is not made of others are written.
#[derive(Clone, Copy)]
enum Form {
    Bool,
    Integer,
    Unsigned,
    Single,
    Double,
    Numeric,
    Text,
    Byte,
    Bytes,
    Json,
    JsonBinary,
    Uuid,
    Day,
    Time,
    TimeWithZone,
    Moment,
    MomentWithZone,
    Interval,
    Network,
    Hardware,
    Bits,
    Nothing,
}

fn form(of: &Type) -> Option<Form> {
    Some(match *of {
        Type::BOOL => Form::Bool,
        Type::INT2 | Type::INT4 | Type::INT8 => Form::Integer,
        Type::OID | Type::XID | Type::CID => Form::Unsigned,
        Type::FLOAT4 => Form::Single,
        Type::FLOAT8 => Form::Double,
        Type::NUMERIC => Form::Numeric,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::XML | Type::UNKNOWN => Form::Text,
        Type::CHAR => Form::Byte,
        Type::BYTEA => Form::Bytes,
        Type::JSON => Form::Json,
        Type::JSONB => Form::JsonBinary,
        Type::UUID => Form::Uuid,
        Type::DATE => Form::Day,
        Type::TIME => Form::Time,
        Type::TIMETZ => Form::TimeWithZone,
        Type::TIMESTAMP => Form::Moment,
        Type::TIMESTAMPTZ => Form::MomentWithZone,
        Type::INTERVAL => Form::Interval,
        Type::INET | Type::CIDR => Form::Network,
        Type::MACADDR | Type::MACADDR8 => Form::Hardware,
        Type::BIT | Type::VARBIT => Form::Bits,
        Type::VOID => Form::Nothing,
        _ if of.name() == "citext" => Form::Text,
        _ => return None,
    })
}

fn is_readable(of: &Type) -> bool {
    match of.kind() {
        Kind::Enum(_) => true,
        Kind::Array(inner) | Kind::Range(inner) | Kind::Domain(inner) => is_readable(inner),
        Kind::Composite(fields) => fields.iter().all(|field| is_readable(field.type_())),
        _ => form(of).is_some(),
    }
}

fn value(of: &Type, bytes: &[u8]) -> Result<Value, String> {
    match (of.kind(), form(of)) {
        (Kind::Enum(_), _) => text(bytes),
        (Kind::Domain(inner), _) => value(inner, bytes),
        (Kind::Array(inner), _) => array(inner, bytes),
        (Kind::Range(inner), _) => range(inner, bytes),
        (Kind::Composite(fields), _) => {
            let mut bytes = Bytes(bytes);
            let mut members = Map::new();
            bytes.int4()?;
            for field in fields {
                bytes.int4()?;
                let member = bytes.sized()?.map_or(Ok(Value::Null), |bytes| value(field.type_(), bytes))?;
                members.insert(field.name().to_owned(), member);
            }
            Ok(Value::Object(members))
        }
        (_, Some(form)) => simple(form, bytes),
        (_, None) => Err(format!("the type `{}` has no form in JSON", of.name())),
    }
}

fn simple(form: Form, all: &[u8]) -> Result<Value, String> {
    let mut bytes = Bytes(all);
    Ok(match form {
        Form::Bool => Value::Bool(bytes.fixed::<1>()? != [0]),
        Form::Integer => integer(match all.len() {
            2 => i16::from_be_bytes(bytes.fixed()?).into(),
            4 => bytes.int4()?.into(),
            _ => bytes.int8()?,
        }),
        Form::Unsigned => Value::from(u32::from_be_bytes(bytes.fixed()?)),
        // By the shortest decimal that means the same: 0.1 is not 0.10000000149011612.
        Form::Single => {
            let single = f32::from_be_bytes(bytes.fixed()?);
            float(single.to_string().parse().unwrap_or(f64::from(single)))
        }
        Form::Double => float(f64::from_be_bytes(bytes.fixed()?)),
        Form::Numeric => Value::String(numeric(bytes)?),
        Form::Text => text(all)?,
        Form::Byte => {
            Value::String(bytes.fixed::<1>()?.iter().filter(|byte| **byte != 0).map(|byte| char::from(*byte)).collect())
        }
        Form::Bytes => base64(all),
        Form::Json => document(utf8(all)?),
        Form::JsonBinary => match all.split_first() {
            Some((1, rest)) => document(utf8(rest)?),
            _ => return Err(SHORT.to_owned()),
        },
        Form::Uuid => Value::String(uuid::Uuid::from_bytes(bytes.fixed()?).to_string()),
        Form::Day => match bytes.int4()? {
            i32::MAX => Value::from("infinity"),
            i32::MIN => Value::from("-infinity"),
            days => Value::String(EPOCH.checked_add(span(Span::new().try_days(days))?).map_err(far)?.to_string()),
        },
        Form::Time => Value::String(time(bytes.int8()?)),
        Form::TimeWithZone => {
            let (at, zone) = (time(bytes.int8()?), bytes.int4()?);
            let (sign, zone) = (if zone > 0 { '-' } else { '+' }, zone.unsigned_abs());
            Value::String(format!("{at}{sign}{:02}:{:02}", zone / 3600, zone / 60 % 60))
        }
        Form::Moment => match bytes.int8()? {
            i64::MAX => Value::from("infinity"),
            i64::MIN => Value::from("-infinity"),
            micros => {
                let moment: DateTime = EPOCH.to_datetime(Time::midnight());
                Value::String(moment.checked_add(SignedDuration::from_micros(micros)).map_err(far)?.to_string())
            }
        },
        Form::MomentWithZone => match bytes.int8()? {
            i64::MAX => Value::from("infinity"),
            i64::MIN => Value::from("-infinity"),
            micros => {
                let micros = micros.checked_add(EPOCH_MICROS).ok_or("it is too far away")?;
                Value::String(Timestamp::from_microsecond(micros).map_err(far)?.to_string())
            }
        },
        Form::Interval => {
            let (micros, days, months) = (bytes.int8()?, bytes.int4()?, bytes.int4()?);
            Value::String(interval(months, days, micros))
        }
        Form::Network => Value::String(network(bytes)?),
        Form::Hardware => Value::String(all.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")),
        Form::Bits => {
            let count = usize::try_from(bytes.int4()?).map_err(|_| SHORT)?;
            let bits = bytes.0.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
            Value::String(bits.take(count).map(|bit| if bit == 1 { '1' } else { '0' }).collect())
        }
        Form::Nothing => Value::Null,
    })
}

const SHORT: &str = "it ends too soon";

fn far(error: jiff::Error) -> String {
    format!("it is too far away ({error})")
}

fn span(span: Result<Span, jiff::Error>) -> Result<Span, String> {
    span.map_err(far)
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

fn text(bytes: &[u8]) -> Result<Value, String> {
    utf8(bytes).map(Value::from)
}

/// Digits to the base of 10,000, the first of them worth 10,000 to the power of the weight.
fn numeric(mut bytes: Bytes<'_>) -> Result<String, String> {
    let (count, weight) = (bytes.int2()?, i32::from(bytes.int2()?));
    let (sign, scale) = (u16::from_be_bytes(bytes.fixed()?), bytes.int2()?);
    match sign {
        0xC000 => return Ok("NaN".to_owned()),
        0xD000 => return Ok("Infinity".to_owned()),
        0xF000 => return Ok("-Infinity".to_owned()),
        _ => {}
    }
    let digits = (0..count).map(|_| bytes.int2()).collect::<Result<Vec<_>, _>>()?;
    let digit =
        |power: i32| usize::try_from(weight - power).ok().and_then(|place| digits.get(place)).copied().unwrap_or(0);
    let written = |mut text: String, power: i32| {
        let _ = write!(text, "{:04}", digit(power));
        text
    };
    let mut text = if sign == 0x4000 { "-".to_owned() } else { String::new() };
    let whole = (0..=weight.max(0)).rev().fold(String::new(), written);
    let trimmed = whole.trim_start_matches('0');
    text += if trimmed.is_empty() { "0" } else { trimmed };
    let scale = usize::try_from(scale).unwrap_or(0);
    if scale > 0 {
        let groups = i32::try_from(scale.div_ceil(4)).unwrap_or(0);
        let fraction = (1..=groups).map(|power| -power).fold(String::new(), written);
        text.push('.');
        text += &fraction[..scale];
    }
    Ok(text)
}

fn time(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    fraction(&mut text, micros % 1_000_000);
    text
}

fn fraction(text: &mut String, micros: i64) {
    if micros != 0 {
        let digits = format!("{:06}", micros.abs());
        text.push('.');
        text.push_str(digits.trim_end_matches('0'));
    }
}

/// ISO 8601, as in `P1Y2M3DT4H5M6.5S`; each part with a sign of its own.
fn interval(months: i32, days: i32, micros: i64) -> String {
    let seconds = micros / 1_000_000;
    let mut text = "P".to_owned();
    for (number, unit) in [(i64::from(months / 12), 'Y'), (i64::from(months % 12), 'M'), (days.into(), 'D')] {
        if number != 0 {
            let _ = write!(text, "{number}{unit}");
        }
    }
    if micros != 0 {
        text.push('T');
        for (number, unit) in [(seconds / 3600, 'H'), (seconds / 60 % 60, 'M')] {
            if number != 0 {
                let _ = write!(text, "{number}{unit}");
            }
        }
        if micros % 60_000_000 != 0 {
            if micros < 0 && seconds % 60 == 0 {
                text.push('-');
            }
            let _ = write!(text, "{}", seconds % 60);
            fraction(&mut text, micros % 1_000_000);
            text.push('S');
        }
    }
    if text == "P" { "PT0S".to_owned() } else { text }
}

fn network(mut bytes: Bytes<'_>) -> Result<String, String> {
    let [family, bits, is_cidr, _length] = bytes.fixed()?;
    let (address, whole) = match family {
        2 => (Ipv4Addr::from(bytes.fixed::<4>()?).to_string(), 32),
        3 => (Ipv6Addr::from(bytes.fixed::<16>()?).to_string(), 128),
        _ => return Err("its family of addresses is not known".to_owned()),
    };
    Ok(if bits == whole && is_cidr == 0 { address } else { format!("{address}/{bits}") })
}

fn array(of: &Type, bytes: &[u8]) -> Result<Value, String> {
    let mut bytes = Bytes(bytes);
    let (dimensions, _has_nulls, _type) = (bytes.int4()?, bytes.int4()?, bytes.int4()?);
    if !(0..=DIMENSIONS_MAX).contains(&dimensions) {
        return Err("it has too many dimensions".to_owned());
    }
    let mut lengths = Vec::new();
    for _ in 0..dimensions {
        let (length, _from) = (bytes.int4()?, bytes.int4()?);
        lengths.push(usize::try_from(length).map_err(|_| SHORT)?);
    }
    if lengths.is_empty() { Ok(Value::Array(Vec::new())) } else { dimension(of, &lengths, &mut bytes) }
}

fn dimension(of: &Type, lengths: &[usize], bytes: &mut Bytes<'_>) -> Result<Value, String> {
    let Some((length, inner)) = lengths.split_first() else {
        return bytes.sized()?.map_or(Ok(Value::Null), |bytes| value(of, bytes));
    };
    (0..*length).map(|_| dimension(of, inner, bytes)).collect::<Result<Vec<_>, _>>().map(Value::Array)
}

/// As PostgreSQL writes one: `[1,5)`.
fn range(of: &Type, bytes: &[u8]) -> Result<Value, String> {
    const EMPTY: u8 = 1;
    const LOWER_INCLUSIVE: u8 = 2;
    const UPPER_INCLUSIVE: u8 = 4;
    const LOWER_OPEN: u8 = 8;
    const UPPER_OPEN: u8 = 16;
    let mut bytes = Bytes(bytes);
    let [flags] = bytes.fixed()?;
    let is = |flag: u8| flags & flag != 0;
    if is(EMPTY) {
        return Ok(Value::from("empty"));
    }
    let mut bound = |is_open: bool| -> Result<String, String> {
        if is_open {
            return Ok(String::new());
        }
        Ok(match bytes.sized()?.map_or(Ok(Value::Null), |bytes| value(of, bytes))? {
            Value::String(text) => text,
            other => other.to_string(),
        })
    };
    let (lower, upper) = (bound(is(LOWER_OPEN))?, bound(is(UPPER_OPEN))?);
    let (begin, end) = (if is(LOWER_INCLUSIVE) { '[' } else { '(' }, if is(UPPER_INCLUSIVE) { ']' } else { ')' });
    Ok(Value::String(format!("{begin}{lower},{upper}{end}")))
}

/// What is left of a value. A value that ends too soon is an error, never a panic.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (first, rest) = self.0.split_first_chunk().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*first)
    }

    fn int2(&mut self) -> Result<i16, String> {
        self.fixed().map(i16::from_be_bytes)
    }

    fn int4(&mut self) -> Result<i32, String> {
        self.fixed().map(i32::from_be_bytes)
    }

    fn int8(&mut self) -> Result<i64, String> {
        self.fixed().map(i64::from_be_bytes)
    }

    /// What follows its length; `None` for NULL.
    fn sized(&mut self) -> Result<Option<&'a [u8]>, String> {
        let length = self.int4()?;
        let Ok(length) = usize::try_from(length) else { return Ok(None) };
        let (first, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        Ok(Some(first))
    }
}
