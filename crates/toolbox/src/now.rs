//! The moment, by the program's clock, told in a zone of the caller's choice.

use std::future::{Ready, ready};

use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::json;
use toolgate_contracts::{Timestamp, ToolError};
use toolgate_engine::{Call, Outcome};

use crate::builtin::{Tools, input, invalid};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default = "utc")]
    time_zone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

pub(crate) fn run(tools: &Tools, call: &Call) -> Ready<Outcome> {
    ready(match input(call).and_then(|Input { time_zone }| told(tools.clock.now(), &time_zone)) {
        Ok((time, time_zone)) => Outcome::structured(json!({"time": time, "time_zone": time_zone})),
        Err(error) => error.into(),
    })
}

/// The moment in RFC 3339, and the zone's name as the database of zones spells it.
fn told(now: Timestamp, zone: &str) -> Result<(String, String), ToolError> {
    if zone.eq_ignore_ascii_case("UTC") {
        return Ok((now.to_string(), utc()));
    }
    let zone = TimeZone::get(zone).map_err(|_| {
        let zone: String = zone.chars().take(64).flat_map(char::escape_debug).collect();
        invalid("time_zone", format!("`{zone}` is no IANA time zone; expected a name such as `Europe/Berlin`"))
    })?;
    let time = jiff::Timestamp::from_millisecond(now.millis())
        .map_err(|_| invalid("time_zone", "the clock of this server is outside of the calendar"))?
        .to_zoned(zone.clone());
    let name = zone.iana_name().map_or_else(utc, str::to_owned);
    Ok((time.strftime("%Y-%m-%dT%H:%M:%S.%3f%:z").to_string(), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(zone: &str, expected: Result<(&str, &str), &str>) {
        let now = Timestamp::from_millis(1_794_736_800_007);
        let told = told(now, zone).map_err(|error| error.message);
        let told = told.as_ref().map(|(time, zone)| (time.as_str(), zone.as_str())).map_err(String::as_str);
        assert_eq!(told, expected);
    }

    #[test]
    fn a_moment_is_told_in_the_zone_that_was_asked_for() {
        check("UTC", Ok(("2026-11-15T10:00:00.007Z", "UTC")));
        check("utc", Ok(("2026-11-15T10:00:00.007Z", "UTC")));
        check("Europe/Berlin", Ok(("2026-11-15T11:00:00.007+01:00", "Europe/Berlin")));
        check("america/st_johns", Ok(("2026-11-15T06:30:00.007-03:30", "America/St_Johns")));
        check("Asia/Kathmandu", Ok(("2026-11-15T15:45:00.007+05:45", "Asia/Kathmandu")));
        for zone in ["Europe/Berln", "", "../../etc/passwd", "/etc/localtime", "+01:00", "CET-1CEST"] {
            let message =
                format!("`time_zone`: `{zone}` is no IANA time zone; expected a name such as `Europe/Berlin`");
            check(zone, Err(&message));
        }
    }
}
