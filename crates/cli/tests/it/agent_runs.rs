//! Runs of agents with the whole program: killed in the middle of a question, and taken up by the next.

use serde_json::{Value, json};

use crate::caller::{Caller, text};
use crate::program::{Home, Server};

/// What one answer may have, held for each question: of a run with a limit at most a quarter.
const ANSWER_TOKENS: u64 = 5_000;
const MOST_TOKENS: u64 = 4 * ANSWER_TOKENS;
/// What the second answer takes. With it and a lost question there is no room for a third; without the lost one there is.
const SECOND_TOKENS: u64 = 12_000;

fn provider() -> Value {
    let note = |line: &str| json!([{"tool": "append_note", "input": {"text": line}}]);
    let prices = json!({"any": {"input": "1", "output": "1"}});
    json!({"name": "play", "kind": "scripted", "prices": prices, "script": {"version": 1, "turns": [
        {"call": note("first"), "usage": {"input_tokens": 5, "output_tokens": 5}},
        {"call": note("second"), "usage": {"output_tokens": SECOND_TOKENS}, "delay_ms": 4_000},
        {"say": "Noted."},
    ]}})
}

async fn questions(caller: &Caller, run: &str) -> usize {
    caller.events(run).await.iter().filter(|event| event["type"] == "model.requested").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_a_killed_program_lost_is_asked_again_and_paid_and_no_call_is_repeated() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    caller.send("PUT", "/providers/play", provider()).await.ok();
    let agent = json!({
        "name": "noting", "model": "play/any", "toolset": "assigned", "custom_tools": ["append_note"],
        "model_params": {"max_tokens": ANSWER_TOKENS},
    });
    caller.post("/agents", agent).await.ok();
    let asked = json!({"prompt": "Take notes.", "limits": {"max_tokens": MOST_TOKENS}});
    let begun = caller.post("/agents/noting/runs", asked.clone()).await.ok();
    let run = text(&begun["id"]).to_owned();
    while questions(&caller, &run).await < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let path = format!("/calls?run={run}");
    let before = caller.get(&path).await.ok();
    assert_eq!((before["items"].as_array().unwrap().len(), &before["items"][0]["status"]), (1, &json!("completed")));
    server.kill();

    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    let outputs = format!("/runs/{run}/outputs");
    let ended = caller.until(&outputs, |answer| answer.body["outputs"].is_object()).await.ok();
    // The second question was asked again, and answered; with the lost one counted there is no room for a third.
    let used_by = &ended["model_use"];
    assert_eq!((&ended["state"], &used_by["turns"]), (&json!("failed"), &json!(3)), "{ended:#}");
    assert_eq!(
        (&used_by["unanswered"], &used_by["output_tokens"]),
        (&json!(1), &json!(5 + ANSWER_TOKENS + SECOND_TOKENS))
    );
    let events = caller.events(&run).await;
    let reached = events.iter().find(|event| event["type"] == "limit.reached").unwrap_or_else(|| panic!("{events:#?}"));
    let used = reached["data"]["used"].as_u64().unwrap();
    let counted = ANSWER_TOKENS + SECOND_TOKENS;
    assert_eq!(reached["data"]["limit"], "max_tokens", "{reached:#}");
    assert!(used > counted && used < counted + ANSWER_TOKENS, "{used} tokens: {reached:#}");
    assert_eq!(questions(&caller, &run).await, 3, "{events:#?}");
    let failed: Vec<&Value> = events.iter().filter(|event| event["type"] == "model.failed").collect();
    assert_eq!((failed.len(), &failed[0]["data"]["turn"]), (1, &json!(1)), "{events:#?}");
    // A token costs a millionth: what was used is the same however it is counted.
    let tokens = used_by["input_tokens"].as_u64().unwrap() + used_by["output_tokens"].as_u64().unwrap();
    assert_eq!(used, tokens, "{ended:#}");
    let usage = caller.get("/usage?by=agent&agent=noting").await.ok()["items"][0].clone();
    for member in ["input_tokens", "output_tokens", "cost"] {
        assert_eq!(usage[member], used_by[member], "{member}: {usage:#}");
    }
    assert_eq!(usage["questions"], 3, "{usage:#}");
    let cost = format!("0.{tokens:06}");
    assert_eq!(used_by["cost"], cost.trim_end_matches('0'), "{ended:#}");
    let after = caller.get(&path).await.ok();
    let lines: Vec<&Value> = after["items"].as_array().unwrap().iter().map(|call| &call["id"]).collect();
    assert_eq!(lines.len(), 2, "{after:#}");
    assert!(lines.contains(&&before["items"][0]["id"]), "the finished call is the one that was made: {after:#}");
    let noted = caller.call("append_note", json!({"text": "third"})).await;
    assert_eq!(noted["output"]["line"], 3, "each note was taken once");

    // A run that nobody kills has room for all three.
    let whole = caller.post("/agents/noting/runs?wait=60", asked).await.ok();
    assert_eq!((&whole["state"], &whole["outputs"]["response"]), (&json!("completed"), &json!("Noted.")), "{whole:#}");
}

/// What ended a run by its time.
async fn out_of_time(caller: &Caller, run: &Value, most: u64) {
    assert_eq!(run["state"], "failed", "{run:#}");
    let events = caller.events(text(&run["id"])).await;
    let reached = events.iter().find(|event| event["type"] == "limit.reached").unwrap_or_else(|| panic!("{events:#?}"));
    let reached = &reached["data"];
    assert_eq!((&reached["limit"], &reached["most"]), (&json!("max_wall_s"), &json!(most)), "{reached:#}");
    assert!(reached["used"].as_u64().unwrap() >= most, "{reached:#}");
    let failed = &events.last().unwrap()["data"];
    assert_eq!((&failed["code"], &failed["reason"]), (&json!("TIMEOUT"), &json!("wall")), "{failed:#}");
    assert!(text(&run["reason"]).contains("`max_wall_s`"), "{run:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_with_its_time_whatever_it_is_at_and_so_do_the_runs_below_it() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let caller = Caller::owner(&server);
    let wait = json!([{"tool": "wait", "input": {"seconds": 20}}]);
    let ask = json!([{"tool": "delegateToAgent", "input": {"agent": "waiting", "prompt": "Wait."}}]);
    let provider = json!({"name": "play", "kind": "scripted", "script": {"version": 1, "turns": [
        {"when": {"last_user_contains": "Wait", "turn": 1}, "repeat": 9, "call": wait},
        {"when": {"last_user_contains": "Ask", "turn": 1}, "repeat": 9, "call": ask},
        {"when": {"last_user_contains": "Think"}, "repeat": 9, "say": "At last.", "delay_ms": 20_000},
        {"repeat": 9, "say": "It is done."},
    ]}});
    caller.send("PUT", "/providers/play", provider).await.ok();
    for (name, tool) in [("waiting", "wait"), ("asking", "delegateToAgent")] {
        let agent = json!({"name": name, "model": "play/any", "toolset": "assigned", "custom_tools": [tool]});
        caller.post("/agents", agent).await.ok();
    }
    for (agent, prompt) in [("waiting", "Wait."), ("waiting", "Think."), ("asking", "Ask.")] {
        let began = std::time::Instant::now();
        let asked = json!({"prompt": prompt, "limits": {"max_wall_s": 2}});
        let ended = caller.post(&format!("/agents/{agent}/runs?wait=30"), asked).await.ok();
        assert!(began.elapsed() < std::time::Duration::from_secs(12), "{prompt} {:?}", began.elapsed());
        out_of_time(&caller, &ended, 2).await;
    }
}
