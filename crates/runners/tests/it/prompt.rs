//! The kinds `prompt` and `task`: what would be asked or made is shown with the call's input, and nothing is.

use serde_json::{Value, json};
use toolgate_contracts::ErrorCode;
use toolgate_engine::{Runner as _, testing};
use toolgate_registry::tool_md;
use toolgate_runners::Unasked;

use crate::world::{every_world, failed};

/// The runner of an example.
fn example(name: &str) -> Value {
    let path = format!("{}/../../examples/runners/{name}/TOOL.md", env!("CARGO_MANIFEST_DIR"));
    let authored = tool_md::parse(&std::fs::read(path).unwrap()).unwrap();
    serde_json::to_value(authored.definition.runner).unwrap()
}

#[tokio::test]
async fn a_dry_run_shows_the_text_with_the_call_s_input() {
    every_world(async |world| {
        let shown = async |runner: &Value, input: Value| Unasked::default().plan(&world.call(runner, input)).await;
        let prompt = example("summarizeText");
        let plan = shown(&prompt, json!({"text": "{{ text }}", "sentences": 3})).await.unwrap();
        let asked = plan["would_ask"]["prompt"].as_str().unwrap();
        assert!(asked.starts_with("Sum up the text below in at most 3 sentences.\n"), "{asked}");
        assert!(asked.trim_end().ends_with("\n{{ text }}"), "an argument is no template: {asked}");
        let plan = shown(&prompt, json!({"text": "x", "sentences": 1, "for_whom": "Ada"})).await.unwrap();
        assert!(plan["would_ask"]["prompt"].as_str().unwrap().contains("1 sentences for Ada.\n"), "{plan}");

        let task = example("reviewContract");
        let input = json!({"contract": "lease.pdf", "by": "2027-01-15", "questions": ["Why?", "Until when?"]});
        let plan = shown(&task, input).await.unwrap();
        let made = "Read lease.pdf and say by 2027-01-15 what is unusual in it.\n- Why?\n- Until when?\n";
        assert_eq!(plan, json!({"would_make": {"task": made, "wait": false}}));
        let error = shown(&json!({"kind": "task", "task": "For {{ whom }}"}), json!({})).await.unwrap_err();
        assert_eq!((error.code, error.reason()), (ErrorCode::SandboxError, "exception"), "{}", error.message);
    })
    .await;
}

#[tokio::test]
async fn neither_runs_and_both_say_so_beforehand() {
    every_world(async |world| {
        for runner in [example("summarizeText"), example("reviewContract")] {
            let unasked = Unasked::default();
            let call = world.call(&runner, json!({"text": "x", "sentences": 1, "contract": "x", "by": "x"}));
            let told = unasked.refuses(&call.tool.definition).unwrap();
            assert_eq!(unasked.ready(&call.tool.definition).await.unwrap_err(), told);
            assert_eq!(failed(unasked.run(testing::permit(call)).await), told);
            assert_eq!((told.code, told.reason()), (ErrorCode::SandboxError, "tier_unavailable"));
        }
    })
    .await;
}
