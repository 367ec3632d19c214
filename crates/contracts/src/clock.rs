//! Time and randomness, both handed in, so that a test can set the one and replay the other.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Milliseconds since the Unix epoch, written as RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1000)))
    }

    /// The calendar day, for dates that bind a whole day such as `remove_by`.
    pub fn day(self) -> String {
        self.to_string().chars().take(10).collect()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl std::str::FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<jiff::Timestamp>().map(|time| Self(time.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl utoipa::PartialSchema for Timestamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::DateTime)))
            .into()
    }
}

impl utoipa::ToSchema for Timestamp {}

/// Where every `now` comes from.
#[derive(Clone, Debug)]
pub enum Clock {
    System,
    /// A test's own time, moved by [`Clock::advance`].
    Manual(Arc<AtomicI64>),
}

impl Clock {
    pub fn manual(start: Timestamp) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(start.millis())))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that asks the system for the time")]
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp(jiff::Timestamp::now().as_millisecond()),
            Self::Manual(millis) => Timestamp(millis.load(Ordering::SeqCst)),
        }
    }

    /// Moves a manual clock; the system's clock moves by itself.
    pub fn advance(&self, seconds: i64) {
        if let Self::Manual(millis) = self {
            millis.fetch_add(seconds.saturating_mul(1000), Ordering::SeqCst);
        }
    }
}

/// Where every random byte comes from.
#[derive(Clone, Debug)]
pub enum Rng {
    System,
    /// Repeatable bytes for tests; never wired into a server.
    Seeded(Arc<Mutex<StdRng>>),
}

impl Rng {
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that asks the system for randomness")]
    pub fn fill(&self, bytes: &mut [u8]) {
        match self {
            Self::System => rand::rng().fill_bytes(bytes),
            Self::Seeded(source) => source.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes),
        }
    }

    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_reads_back_what_it_wrote() {
        let time = Timestamp::from_millis(1_794_652_800_123);
        assert_eq!(time.to_string(), "2026-11-14T10:40:00.123Z");
        assert_eq!(time.to_string().parse::<Timestamp>().unwrap(), time);
        assert_eq!(time.day(), "2026-11-14");
    }
}
