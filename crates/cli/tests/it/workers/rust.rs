//! The worker of the tests, in Rust: the same two tools as in the other languages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::{ErrorCode, Risk, Tool, ToolContext, ToolError, ToolResult};

use super::Worker;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Words {
    /// The text to count in.
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Count {
    /// How many words there are.
    words: usize,
}

struct CountWords;

impl Tool for CountWords {
    type Input = Words;
    type Output = Count;
    const NAME: &'static str = "countWords";
    const DESCRIPTION: &'static str =
        "Counts the words of a text. Use it when a length matters. Do not use it for letters.";

    async fn execute(&self, input: Words, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.say("counting\n");
        Self::done(&Count { words: input.text.split_whitespace().count() })
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum How {
    Context,
    Leak,
    Error,
    Crash,
    Shape,
    Wait,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Try {
    /// What to try.
    how: How,
}

#[derive(Serialize, JsonSchema)]
struct Tried {
    /// What came of it.
    text: String,
}

struct CheckThings;

impl Tool for CheckThings {
    type Input = Try;
    type Output = Tried;
    const NAME: &'static str = "checkThings";
    const DESCRIPTION: &'static str =
        "Tries one thing that a tool may do. Use it when a worker is tested. Do not use it otherwise.";
    const RISK: Option<Risk> = Some(Risk::Sensitive);
    const SECRETS: &'static [&'static str] = &["WORKER_KEY"];

    async fn execute(&self, input: Try, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        match input.how {
            How::Context => {
                let names: Vec<_> = ctx.auth.names().collect();
                Self::done(&Tried { text: format!("{} {} {ctx:?}", ctx.tenant_id, names.join(",")) })
            }
            How::Leak => {
                let secret = ctx.auth.require("WORKER_KEY")?;
                ctx.say(&format!("{secret}\n"));
                Self::done(&Tried { text: secret.to_owned() })
            }
            How::Error => {
                let error = ToolError::because(ErrorCode::RateLimit, "upstream", "too many letters today");
                Err(error.retry_after(7))
            }
            How::Crash => panic!("something broke"),
            How::Shape => Ok(ToolResult::structured(serde_json::json!({"words": 3}))),
            How::Wait => {
                ctx.say("waiting\n");
                ctx.cancelled().await;
                Err(ToolContext::stopped())
            }
        }
    }
}

pub fn worker(url: &str, key: &str) -> toolgate_sdk::worker::Worker {
    toolgate_sdk::worker::Worker::new(url, key).tool(CountWords).unwrap().tool(CheckThings).unwrap()
}

/// In a thread with a runtime of its own, as in a process of its own.
pub fn start(url: &str, key: &str) -> Worker {
    let worker = worker(url, key);
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let stopped = async {
            let _ = stopped.await;
        };
        runtime.block_on(worker.serve_until(stopped)).unwrap();
    });
    Worker::Here(thread, stop)
}
