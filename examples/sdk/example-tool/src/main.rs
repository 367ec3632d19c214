//! A tool of one's own: the whole program, with its tests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::worker::{Error, Worker};
use toolgate_sdk::{HitlMode, Risk, Tool, ToolContext, ToolError, ToolResult};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Text {
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
    type Input = Text;
    type Output = Count;
    const NAME: &'static str = "countWordsFast";
    const DESCRIPTION: &'static str =
        "Counts the words of a text. Use it when a length matters. Do not use it to count letters.";
    const RISK: Option<Risk> = None;
    const HITL: HitlMode = HitlMode::Blocking;

    async fn execute(&self, input: Text, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.say("counting\n");
        Self::done(&Count { words: input.text.split_whitespace().count() })
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().without_time().with_ansi(false).with_writer(std::io::stderr).init();
    Worker::from_env()?.tool(CountWords)?.serve().await
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_sdk::testing::{capture_tool, context};

    use super::*;

    #[tokio::test]
    async fn words_are_counted() {
        let tool = capture_tool(CountWords).unwrap();
        let called = tool.call(json!({"text": "two words"}), &context([])).await;
        assert_eq!(called.output(), Some(&json!({"words": 2})));
        assert_eq!(called.said, "counting\n");
    }
}
