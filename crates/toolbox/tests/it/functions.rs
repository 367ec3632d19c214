//! What each function answers and refuses.

use serde_json::json;
use toolgate_contracts::ErrorCode::{AuthRequired, PolicyDenied, SandboxError, ValidationError};
use toolgate_contracts::{CallId, Runner};
use toolgate_engine::Runner as _;
use toolgate_engine::runner::OutputSink;
use toolgate_engine::testing::written;

use crate::world::{error, every_world, output};

#[tokio::test]
async fn small_functions_answer() {
    every_world(async |world| {
        world.check("calculator", json!({"expression": "(3 + 4) * 2.5"}), json!({"result": 17.5})).await;
        world.check("calculator", json!({"expression": "0.1 + 0.2"}), json!({"result": 0.3})).await;
        let message =
            "`expression`: at character 4: expected a number, a function or `(`, but the expression ends here";
        world.refused("calculator", json!({"expression": "2 +"}), ValidationError, "schema", message).await;

        let text = json!({"text": "ein „Wort“\n\u{0} 🦀"});
        world.check("echo", text.clone(), text).await;

        let utc = json!({"time": "2026-11-15T10:00:00.000Z", "time_zone": "UTC"});
        world.check("now", json!({}), utc.clone()).await;
        world.check("now", json!({"time_zone": "UTC"}), utc).await;
        let tokyo = json!({"time": "2026-11-15T19:00:00.000+09:00", "time_zone": "Asia/Tokyo"});
        world.check("now", json!({"time_zone": "Asia/Tokyo"}), tokyo).await;
        let message = "`time_zone`: `Mars/Olympus` is no IANA time zone; expected a name such as `Europe/Berlin`";
        world.refused("now", json!({"time_zone": "Mars/Olympus"}), ValidationError, "schema", message).await;
        world.clock.advance(3600);
        assert_eq!(world.output("now", json!({})).await["time"], "2026-11-15T11:00:00.000Z");
    })
    .await;
}

#[tokio::test]
async fn a_text_is_signed_by_a_key_that_is_never_told() {
    every_world(async |world| {
        let signed = world.output("signText", json!({"text": "hello"})).await;
        let other = world.output("signText", json!({"text": "hello!"})).await;
        assert_ne!(signed["signature"], other["signature"]);
        assert_eq!(signed["signature"].as_str().unwrap().len(), 64);
        let undeclared = world.call_of_own("signText", json!({"text": "hello"}), |own| own.secrets.clear());
        let refused = error(world.run(undeclared).await);
        assert_eq!((refused.code, refused.reason()), (AuthRequired, "secret_missing"));
        let call = world.call("signText", json!({"text": "hello"}));
        assert_eq!(world.runner.plan(&call).await.unwrap(), json!({"would_run": true}), "who plans has no key");
    })
    .await;
}

#[tokio::test]
async fn a_definition_of_the_tenant_s_own_is_held_to_what_the_function_takes() {
    every_world(async |world| {
        let call = world.call_of_own("calculator", json!({"formula": "1 + 1"}), |_| {});
        let refused = error(world.run(call).await);
        assert_eq!((refused.code, refused.reason()), (ValidationError, "schema"));
        assert!(refused.message.contains("unknown field `formula`"), "{}", refused.message);

        let missing = |definition: &mut toolgate_contracts::Definition| {
            let Runner::Builtin(builtin) = &mut definition.runner else { panic!() };
            builtin.function = "rm".to_owned();
        };
        let call = world.call_of_own("echo", json!({}), missing);
        let message = "there is no builtin function `rm` in this build; ask for another tool";
        assert_eq!(world.runner.ready(&call.tool.definition).await.unwrap_err().message, message);
        assert_eq!(world.runner.plan(&call).await.unwrap_err().message, message);
        let refused = error(world.run(call).await);
        assert_eq!((refused.code, refused.reason()), (SandboxError, "tier_unavailable"));

        let call = world.call("echo", json!({"text": "x"}));
        assert_eq!(world.runner.plan(&call).await.unwrap(), json!({"would_run": true}));
    })
    .await;
}

#[tokio::test]
async fn waiting_says_how_far_it_is_and_can_be_cancelled() {
    every_world(async |world| {
        let sink = OutputSink::buffered();
        let mut call = world.call("wait", json!({"seconds": 1.1}));
        call.output = sink.clone();
        assert_eq!(output(world.run(call).await), json!({"waited_seconds": 1.1}));
        assert_eq!(written(&sink), "1 of 1.1 s\n");

        world.check("wait", json!({"seconds": 0}), json!({"waited_seconds": 0})).await;

        let call = world.call("wait", json!({"seconds": 60}));
        let cancel = call.cancel.clone();
        let (outcome, ()) = tokio::join!(world.run(call), async {
            tokio::task::yield_now().await;
            cancel.cancel();
        });
        let cancelled = error(outcome);
        assert_eq!((cancelled.code, cancelled.reason()), (PolicyDenied, "cancelled"));

        for seconds in [json!(-1), json!(60.5), json!(1e300)] {
            let message = format!("`seconds`: {seconds} is not between 0 and 60");
            world.refused("wait", json!({"seconds": seconds}), ValidationError, "schema", &message).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_note_is_appended_once_and_found_by_its_call() {
    every_world(async |world| {
        let call = world.call("append_note", json!({"notebook": "main", "text": "Ask about the invoice"}));
        let (first, input) = (call.id, (*call.input).clone());
        let written = json!({"notebook": "main", "line": 1});
        assert_eq!(output(world.run(call).await), written);
        world.check("append_note", json!({"text": "no notebook named"}), json!({"notebook": "main", "line": 2})).await;
        let other = json!({"notebook": "Ideen 🦀", "text": "x"});
        world.check("append_note", other, json!({"notebook": "Ideen 🦀", "line": 1})).await;

        let found = json!({"happened": true, "output": written});
        world.check("findNote", json!({"call": first, "input": input}), found.clone()).await;
        world.check("findNote", json!({"call": first, "input": null}), found).await;
        let never: CallId = world.new_id();
        world.check("findNote", json!({"call": never, "input": {}}), json!({"happened": false})).await;
        let message = "`call`: it is not the id of a call; expected a UUID";
        world.refused("findNote", json!({"call": "c_1"}), ValidationError, "schema", message).await;

        // The same call again is what no path allows, and the database has the last word.
        let mut again = world.call("append_note", json!({"text": "again"}));
        again.id = first;
        let refused = error(world.run(again).await);
        assert!(refused.message.contains("`notes_call`"), "{}", refused.message);
        world.check("append_note", json!({"text": "third"}), json!({"notebook": "main", "line": 3})).await;

        for (input, message) in [
            (json!({"text": ""}), "`text`: it has 0 characters; expected 1 to 10000"),
            (json!({"text": "x".repeat(10_001)}), "`text`: it has 10001 characters; expected 1 to 10000"),
            (json!({"text": "a\u{0}b"}), "`text`: it holds the character U+0000; leave it out"),
            (json!({"text": "x", "notebook": ""}), "`notebook`: it has 0 characters; expected 1 to 64"),
        ] {
            world.refused("append_note", input, ValidationError, "schema", message).await;
        }
    })
    .await;
}
