//! Sleeps, and says each second how far it is, so that a watcher sees that something goes on.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Number, json};
use tokio::time::{Instant, sleep_until};
use toolgate_contracts::ToolError;
use toolgate_engine::{Call, Outcome};

use crate::builtin::{Tools, cancelled, input, invalid};

const SECONDS_MAX: u32 = 60;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    /// As it was written, so that it comes back so.
    seconds: Number,
}

pub(crate) async fn run(_tools: &Tools, call: &Call) -> Outcome {
    let (seconds, length) = match input(call).and_then(length) {
        Ok(read) => read,
        Err(error) => return error.into(),
    };
    tokio::select! {
        () = call.cancel.cancelled() => cancelled().into(),
        () = sleep(call, &seconds, length) => Outcome::structured(json!({"waited_seconds": seconds})),
    }
}

fn length(Input { seconds }: Input) -> Result<(Number, Duration), ToolError> {
    let length = seconds.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match length {
        Some(length) if length <= Duration::from_secs(SECONDS_MAX.into()) => Ok((seconds, length)),
        _ => Err(invalid("seconds", format!("{seconds} is not between 0 and {SECONDS_MAX}"))),
    }
}

async fn sleep(call: &Call, seconds: &Number, length: Duration) {
    let begun = Instant::now();
    for second in 1..SECONDS_MAX {
        let passed = Duration::from_secs(second.into());
        if passed >= length {
            break;
        }
        sleep_until(begun + passed).await;
        call.output.append(format!("{second} of {seconds} s\n")).await;
    }
    sleep_until(begun + length).await;
}
