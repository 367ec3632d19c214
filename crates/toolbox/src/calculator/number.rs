//! Numbers of the calculator: exact fractions, and rounded ones where no fraction is exact or it would grow too long.
//!
//! Invariant: whatever is asked, a number has at most [`BITS_MAX`] bits, so that each operation takes a moment at most.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One as _, Pow as _, Signed as _, ToPrimitive as _, Zero as _};
use serde_json::Value;
use toolgate_contracts::json::INTEGER_MAX;

/// A fraction beyond it is rounded. Whole numbers are below [`MAGNITUDE_BITS_MAX`] and never rounded.
const BITS_MAX: u64 = 2048;
/// What a JSON number can hold: the result is below 2^1023, about 10^308, in absolute value.
const MAGNITUDE_BITS_MAX: i64 = 1022;
/// And not closer to zero than 2^-1000.
const MAGNITUDE_BITS_MIN: i64 = -1000;
/// Significant digits of a rounded number; a JSON number shows 17.
const DIGITS: i64 = 60;
pub const EXPONENT_MAX: u32 = 1_000_000_000;
/// The root that an exponent may ask for: `1.05 ^ (1 / 365)` is a 365th one.
pub const ROOT_MAX: u32 = 1000;
/// Places of `round`, in both directions.
pub const PLACES_MAX: i64 = 300;
/// Exponents of numbers as they are written: `1e300`.
const WRITTEN_EXPONENT_MAX: i64 = 2000;
/// From 15 right digits of the guess, the right digits double each time.
const ROOT_STEPS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("division by zero")]
    DivisionByZero,
    #[error("the value has more than 307 digits before the point, which is the limit")]
    TooLarge,
    #[error("the value is closer to zero than 1e-300, which is the limit")]
    TooSmall,
    #[error("a negative number has no real root")]
    NoRealRoot,
    #[error(
        "the exponent is not supported; expected a whole number up to {EXPONENT_MAX}, or a fraction whose denominator \
         is at most {ROOT_MAX}"
    )]
    Exponent,
    #[error("the number of places is not a whole number from -{PLACES_MAX} to {PLACES_MAX}")]
    Places,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    value: BigRational,
    /// Whether something on the way here was rounded.
    rounded: bool,
}

impl Number {
    fn exact(value: BigRational) -> Result<Self, Refusal> {
        Self::bounded(value, false)
    }

    fn bounded(value: BigRational, rounded: bool) -> Result<Self, Refusal> {
        if value.is_zero() {
            return Ok(Self { value, rounded });
        }
        let magnitude = magnitude(&value);
        if magnitude > MAGNITUDE_BITS_MAX {
            return Err(Refusal::TooLarge);
        }
        if magnitude < MAGNITUDE_BITS_MIN {
            return Err(Refusal::TooSmall);
        }
        let long = value.numer().bits() + value.denom().bits() > BITS_MAX;
        if value.is_integer() || !(rounded || long) {
            return Ok(Self { value, rounded });
        }
        // 2^m has m · log10(2) digits.
        let places = DIGITS - magnitude * 30_103 / 100_000;
        Ok(Self { value: round_to(&value, places), rounded: true })
    }

    /// Digits, perhaps with a point, perhaps with an exponent; anything else is not a number.
    pub fn read(text: &str) -> Option<Result<Self, Refusal>> {
        let (digits, exponent) = match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?.into()),
            None => (text, 0_i64),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let places = i64::try_from(fraction.len()).ok()?;
        let digits: BigInt = format!("{whole}{fraction}").parse().ok()?;
        if digits.is_zero() {
            return Some(Self::exact(BigRational::zero()));
        }
        if exponent.abs() > WRITTEN_EXPONENT_MAX {
            return Some(Err(if exponent < 0 { Refusal::TooSmall } else { Refusal::TooLarge }));
        }
        Some(Self::exact(scaled(digits, exponent - places)))
    }

    pub fn negated(self) -> Self {
        Self { value: -self.value, ..self }
    }

    pub fn plus(&self, other: &Self) -> Result<Self, Refusal> {
        Self::bounded(&self.value + &other.value, self.rounded || other.rounded)
    }

    pub fn minus(&self, other: &Self) -> Result<Self, Refusal> {
        Self::bounded(&self.value - &other.value, self.rounded || other.rounded)
    }

    pub fn times(&self, other: &Self) -> Result<Self, Refusal> {
        Self::bounded(&self.value * &other.value, self.rounded || other.rounded)
    }

    pub fn over(&self, other: &Self) -> Result<Self, Refusal> {
        if other.value.is_zero() {
            return Err(Refusal::DivisionByZero);
        }
        Self::bounded(&self.value / &other.value, self.rounded || other.rounded)
    }

    /// What is left of a division; it has the sign of `other`.
    pub fn modulo(&self, other: &Self) -> Result<Self, Refusal> {
        if other.value.is_zero() {
            return Err(Refusal::DivisionByZero);
        }
        let times = (&self.value / &other.value).floor();
        Self::bounded(&self.value - times * &other.value, self.rounded || other.rounded)
    }

    pub fn power(&self, exponent: &Self) -> Result<Self, Refusal> {
        let times = exponent.value.numer().abs().to_u32().filter(|times| *times <= EXPONENT_MAX);
        let root = exponent.value.denom().to_u32().filter(|root| *root <= ROOT_MAX);
        let (Some(times), Some(root)) = (times, root) else { return Err(Refusal::Exponent) };
        if exponent.value.is_negative() && self.value.is_zero() {
            return Err(Refusal::DivisionByZero);
        }
        let base = if exponent.value.is_negative() {
            Self { value: self.value.recip(), rounded: self.rounded }
        } else {
            self.clone()
        };
        let mut power = base.root(root)?.whole_power(times)?;
        power.rounded |= exponent.rounded;
        Ok(power)
    }

    /// From the exponent's highest bit down, so that no step is further from one than the result.
    fn whole_power(&self, times: u32) -> Result<Self, Refusal> {
        let mut power = Self { value: BigRational::one(), rounded: self.rounded };
        for bit in (0..u32::BITS - times.leading_zeros()).rev() {
            power = power.times(&power)?;
            if times >> bit & 1 == 1 {
                power = power.times(self)?;
            }
        }
        Ok(power)
    }

    pub fn square_root(&self) -> Result<Self, Refusal> {
        self.root(2)
    }

    fn root(&self, degree: u32) -> Result<Self, Refusal> {
        if degree == 1 || self.value.is_zero() {
            return Ok(self.clone());
        }
        if self.value.is_negative() {
            return Err(Refusal::NoRealRoot);
        }
        let whole = |of: &BigInt| {
            let root = of.nth_root(degree);
            (root.clone().pow(degree) == *of).then_some(root)
        };
        if let (Some(numerator), Some(denominator)) = (whole(self.value.numer()), whole(self.value.denom())) {
            return Self::bounded(BigRational::new(numerator, denominator), self.rounded);
        }
        // Newton's way, from what the processor guesses. INVARIANT: bounds keep the double finite and above zero.
        let guess = self.value.to_f64().unwrap_or(1.0).powf(f64::from(degree).recip());
        let guess = BigRational::from_float(guess).unwrap_or_else(BigRational::one);
        let mut root = Self::bounded(guess, true)?;
        let (all, but_one) = (BigRational::from(BigInt::from(degree)), BigRational::from(BigInt::from(degree - 1)));
        for _ in 0..ROOT_STEPS {
            let other = self.over(&root.whole_power(degree - 1)?)?;
            root = Self::bounded((&but_one * &root.value + other.value) / &all, true)?;
        }
        Ok(root)
    }

    pub fn absolute(self) -> Self {
        Self { value: self.value.abs(), ..self }
    }

    pub fn ceiling(self) -> Self {
        Self { value: self.value.ceil(), ..self }
    }

    pub fn floor(self) -> Self {
        Self { value: self.value.floor(), ..self }
    }

    /// To so many places after the point, halves away from zero.
    pub fn round(self, places: Option<&Self>) -> Result<Self, Refusal> {
        let places = match places {
            None => 0,
            Some(places) if places.value.is_integer() => places
                .value
                .to_i64()
                .filter(|places| (-PLACES_MAX..=PLACES_MAX).contains(places))
                .ok_or(Refusal::Places)?,
            Some(_) => return Err(Refusal::Places),
        };
        Self::bounded(round_to(&self.value, places), self.rounded)
    }

    pub fn is_less_than(&self, other: &Self) -> bool {
        self.value < other.value
    }

    #[cfg(test)]
    pub fn exact_value(&self) -> Option<&BigRational> {
        (!self.rounded).then_some(&self.value)
    }

    /// The nearest JSON number, whole where the value is; beyond what every reader of JSON takes for the same, text. And
    /// the value itself where that number is not it.
    pub fn told(&self) -> (Value, Option<String>) {
        // INVARIANT: bounds keep it finite.
        let double = self.value.to_f64().unwrap_or_default();
        if self.value.abs() > BigRational::from(BigInt::from(INTEGER_MAX)) {
            return (if self.rounded { format!("{double:e}") } else { written(&self.value) }.into(), None);
        }
        let read = Self::read(&format!("{:e}", double.abs())).and_then(Result::ok);
        let is_it = read.is_some_and(|read| read.value == self.value.abs());
        let exact = (!self.rounded && !is_it).then(|| written(&self.value));
        // What has no fraction is written without one.
        let whole = if double.fract() == 0.0 { format!("{double:.0}").parse::<i64>().ok() } else { None };
        (whole.map_or_else(|| double.into(), Value::from), exact)
    }
}

/// How many bits the whole part has, within one; negative below one half.
fn magnitude(value: &BigRational) -> i64 {
    // INVARIANT: bits are counted in memory, far below 2^63.
    value.numer().bits().cast_signed() - value.denom().bits().cast_signed()
}

/// Times ten to the `exponent`.
fn scaled(value: BigInt, exponent: i64) -> BigRational {
    match exponent {
        0.. => BigRational::from(value * power_of_ten(exponent)),
        _ => BigRational::new(value, power_of_ten(exponent)),
    }
}

/// Ten to the absolute value of the exponent.
fn power_of_ten(exponent: i64) -> BigInt {
    BigInt::from(10_u32).pow(exponent.unsigned_abs())
}

/// Halves go away from zero.
fn round_to(value: &BigRational, places: i64) -> BigRational {
    let scale = power_of_ten(places);
    let (numerator, denominator) = match places {
        0.. => (value.numer() * &scale, value.denom().clone()),
        _ => (value.numer().clone(), value.denom() * &scale),
    };
    let rounded = (numerator.abs() * 2_u32 + &denominator) / (denominator * 2_u32) * numerator.signum();
    match places {
        0.. => BigRational::new(rounded, scale),
        _ => BigRational::from(rounded * scale),
    }
}

/// All digits where they end, else a fraction.
fn written(value: &BigRational) -> String {
    let (mut rest, mut places) = (value.denom().clone(), [0_i64; 2]);
    for (prime, times) in [2_u32, 5].into_iter().zip(&mut places) {
        while (&rest % prime).is_zero() {
            rest /= prime;
            *times += 1;
        }
    }
    let places = places[0].max(places[1]);
    if !rest.is_one() {
        return value.to_string();
    }
    let digits = (value.abs() * power_of_ten(places)).to_integer().to_string();
    let sign = if value.is_negative() { "-" } else { "" };
    let Ok(places @ 1..) = usize::try_from(places) else { return format!("{sign}{digits}") };
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    format!("{sign}{whole}.{fraction}")
}
