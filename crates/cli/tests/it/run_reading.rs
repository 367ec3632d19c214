//! Runs of agents as they are read: told while they go on, and shown afterwards.

use serde_json::Value;

use crate::program::{Home, both};

const PLAY: &str = r#"
name: play
kind: scripted
script:
  version: 1
  turns:
    - when: { last_user_contains: quick }
      say: "Done."
      repeat: 9
    - when: { last_tool: calculator }
      say: "It comes to\n  59.70."
      repeat: 9
    - say: "Let me see."
      chunks: 5
      call: [{ tool: calculator, input: { expression: "3 * 19.90" } }]
      usage: { input_tokens: 240, cached_tokens: 40, output_tokens: 18 }
      repeat: 9
"#;

fn agent(home: &Home) {
    let file = home.write("play.yaml", PLAY);
    home.ok(&["provider", "add", "--file", &file]);
    home.ok(&["agent", "create", "--name", "shop", "--model", "play/any"]);
}

#[test]
fn a_quick_run_is_told_from_its_beginning_to_its_end_with_nothing_twice() {
    both(|home| {
        agent(home);
        for _ in 0..3 {
            let ran = home.run(&["agent", "run", "shop", "What do 3 lamps cost?"]);
            assert_eq!(ran.stdout, "It comes to\n  59.70.\n", "{}", ran.stderr);
            let wanted = [
                "run.started",
                "model.requested",
                "model.completed",
                "tool.started",
                "tool.completed",
                "model.requested",
                "model.completed",
                "run.completed",
            ];
            let told: Vec<&str> = ran
                .stderr
                .lines()
                .filter_map(|line| line.split_whitespace().nth(2))
                .filter(|word| wanted.contains(word))
                .collect();
            assert_eq!(told, wanted, "{}", ran.stderr);
            assert!(ran.stderr.contains("│ Let me see."), "{}", ran.stderr);
            assert!(ran.stderr.contains("2 questions, 1 call, 240 tokens read"), "{}", ran.stderr);
        }
        let ran = home.run(&["agent", "run", "shop", "quick"]);
        assert!(ran.stderr.contains("1 question, 0 calls, "), "{}", ran.stderr);
    });
}

#[test]
fn a_run_of_an_agent_shows_what_it_was_asked_and_each_turn() {
    both(|home| {
        agent(home);
        let run = home.json(&["agent", "run", "shop", "What do 3 lamps cost?"]);
        let id = run["id"].as_str().unwrap().to_owned();
        assert!(run["traces_url"].as_str().unwrap().ends_with(&format!("/runs/{id}")), "{run:#}");
        let shown = home.ok(&["run", "show", &id]);
        let (_, turns) =
            shown.split_once("\nPrompt\n  What do 3 lamps cost?\n\nTurns\n").unwrap_or_else(|| panic!("{shown}"));
        let lines: Vec<&str> = turns.lines().take(6).collect();
        assert!(
            lines[0].starts_with(
                "  1  scripted/play (scripted: no model was asked), 240 tokens read (40 cached), 18 written, "
            ),
            "{shown}"
        );
        assert_eq!(lines[1], "     Let me see.");
        assert!(lines[2].starts_with("     → calculator completed "), "{shown}");
        assert!(lines[3].starts_with("  2  scripted/play"), "{shown}");
        assert_eq!(lines[4..6], ["     It comes to", "       59.70."], "what it said stays as it was laid out");
        assert!(shown.contains("2 turns, 1 call, 240 tokens read, 18 written, cost 0"), "{shown}");
        let told = home.ok(&["run", "show", &id, "--events"]);
        assert_eq!(told.matches('│').count(), 3, "each line that was said is one line: {told}");
        assert!(told.contains("│ Let me see.\n"), "{told}");
        let listed = home.ok(&["run", "list"]);
        assert!(listed.contains("PROMPT") && listed.contains("What do 3 lamps cost?"), "{listed}");
        let shown = home.json(&["run", "show", &id]);
        assert_eq!((&shown["kind"], &shown["prompt"]), (&"agent".into(), &"What do 3 lamps cost?".into()));
        assert_eq!(shown["turns"].as_array().map(Vec::len), Some(2), "{shown:#}");

        let plain = home.ok(&["run", "create", "--title", "Mine"]);
        let kinds = |kind: &str| -> Vec<Value> {
            home.json(&["run", "list", "--kind", kind])["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|run| run["id"].clone())
                .collect()
        };
        assert_eq!((kinds("agent"), kinds("calls")), (vec![id.into()], vec![plain.trim().into()]));
        assert!(kinds("workflow").is_empty());
    });
}

#[test]
fn what_has_no_record_is_shown_and_a_decision_says_how_the_run_goes_on() {
    let home = Home::new();
    let play = r#"
name: play
kind: scripted
script:
  version: 1
  turns:
    - call:
        - { tool: noSuchTool, input: {} }
        - { tool: write_file, input: { path: a.txt, text: hello } }
    - say: "Done."
"#;
    let file = home.write("play.yaml", play);
    home.ok(&["provider", "add", "--file", &file]);
    home.ok(&["agent", "create", "--name", "shop", "--model", "play/any"]);
    home.ok(&["tool", "assign", "--tool", "write_file", "--agent", "shop"]);
    let ran = home.run(&["agent", "run", "shop", "Write it"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let run = home.json(&["run", "list"])["items"][0]["id"].as_str().unwrap().to_owned();
    let shown = home.ok(&["run", "show", &run]);
    let (_, unread) = shown.split_once("Calls without a record\n").unwrap_or_else(|| panic!("{shown}"));
    assert!(unread.contains("noSuchTool") && unread.contains("POLICY_DENIED not_found"), "{shown}");
    let approval = home.json(&["approvals"])["items"][0]["id"].as_str().unwrap().to_owned();
    let decided = home.run(&["tool", "approve", &approval]);
    let command = format!("Go on with `toolgate run resume {run}`.");
    assert!(decided.stderr.contains(&command), "{}", decided.stderr);
    let ended = home.run(&["run", "resume", &run]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Done.\n"), "{}", ended.stderr);
}
