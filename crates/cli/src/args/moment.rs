//! Times as people write them, for every `--since` and `--until`.

use std::fmt;
use std::str::FromStr;

use toolgate_contracts::{Clock, Timestamp};

/// `30m`, `12h`, `7d` or `2w` ago, the beginning of a day, or a moment in RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(Timestamp);

const UNITS: [(char, i64); 5] = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400), ('w', 7 * 86_400)];

impl Moment {
    fn read(text: &str, now: Timestamp) -> Result<Self, String> {
        let ago = || {
            let (unit, seconds) = UNITS.into_iter().find(|(unit, _)| text.ends_with(*unit))?;
            let count: i64 = text.strip_suffix(unit)?.parse::<u32>().ok()?.into();
            Some(now.plus_seconds(-count.checked_mul(seconds)?))
        };
        let at = text.parse().or_else(|_| format!("{text}T00:00:00Z").parse()).ok();
        at.or_else(ago).map(Self).ok_or_else(|| {
            "no time; write 1h, 7d or 2w for so long ago, 2026-11-15, or 2026-11-15T12:00:00Z".to_owned()
        })
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text, Clock::System.now())
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_so_long_ago_a_day_or_exact() {
        #[track_caller]
        fn check(text: &str, expected: Option<&str>) {
            let now = "2026-11-15T12:00:00Z".parse().unwrap();
            let read = Moment::read(text, now).ok().map(|moment| moment.0);
            assert_eq!(read, expected.map(|at| at.parse().unwrap()), "{text}");
        }
        check("90s", Some("2026-11-15T11:58:30Z"));
        check("30m", Some("2026-11-15T11:30:00Z"));
        check("1h", Some("2026-11-15T11:00:00Z"));
        check("7d", Some("2026-11-08T12:00:00Z"));
        check("2w", Some("2026-11-01T12:00:00Z"));
        check("2026-11-15", Some("2026-11-15T00:00:00Z"));
        check("2026-11-15T10:00:00.5Z", Some("2026-11-15T10:00:00.5Z"));
        for wrong in ["", "h", "1", "-1h", "1 h", "1y", "yesterday", "2026-13-01", "99999999999d"] {
            check(wrong, None);
        }
    }
}
