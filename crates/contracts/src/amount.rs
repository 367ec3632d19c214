//! Money: an exact decimal with six places, written as a string.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const MICROS: i64 = 1_000_000;
/// More than anyone's budget, and far from where sums could overflow.
const WHOLE_MAX: i64 = 1_000_000_000_000;

/// Millionths of a currency unit, never negative. INVARIANT: at most [`WHOLE_MAX`] units when it comes from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i64);

impl Amount {
    pub const ZERO: Self = Self(0);

    /// Negative sums are nothing.
    pub const fn from_micros(micros: i64) -> Self {
        Self(if micros < 0 { 0 } else { micros })
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        let count = if count > i64::MAX as u64 { i64::MAX } else { count.cast_signed() };
        Self(self.0.saturating_mul(count))
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Amount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::from_micros(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Amount {
    /// As few places as say it exactly, at least two: `0.05`, `1.00`, `0.000125`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / MICROS, self.0 % MICROS);
        let digits = format!("{fraction:06}");
        let kept = digits.trim_end_matches('0').len().max(2);
        write!(f, "{whole}.{}", digits.get(..kept).unwrap_or(&digits))
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{}` is not an amount such as `0.05`", text.chars().take(40).collect::<String>());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits =
            |part: &str| !part.is_empty() && part.len() <= 13 && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) {
            return Err(refused());
        }
        if fraction.len() > 6 {
            return Err(format!("`{text}` has more than six decimal places"));
        }
        let whole: i64 = whole.parse().map_err(|_| refused())?;
        if whole > WHOLE_MAX {
            return Err(format!("`{text}` is more than {WHOLE_MAX}"));
        }
        let fraction: i64 = format!("{fraction:0<6}").parse().map_err(|_| refused())?;
        Ok(Self(whole * MICROS + fraction))
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl utoipa::PartialSchema for Amount {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("A decimal amount with at most six places, in the tenant's currency"))
            .examples(["0.05"])
            .into()
    }
}

impl utoipa::ToSchema for Amount {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_read_back_as_they_are_written() {
        for (text, micros, written) in [
            ("0.05", 50_000, "0.05"),
            ("1", 1_000_000, "1.00"),
            ("0.000125", 125, "0.000125"),
            ("12.5", 12_500_000, "12.50"),
        ] {
            let amount: Amount = text.parse().unwrap();
            assert_eq!((amount.micros(), amount.to_string().as_str()), (micros, written));
        }
        for text in ["", ".", "1.", ".5", "-1", "1e3", "0.0000001", "1,5", "+1", "9999999999999", "٣"] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_amount_survives_its_own_text(micros in 0i64..1_000_000_000_000_000) {
            let amount = Amount::from_micros(micros);
            prop_assert_eq!(amount.to_string().parse::<Amount>(), Ok(amount));
        }
    }
}
