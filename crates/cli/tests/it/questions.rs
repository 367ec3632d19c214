//! Questions from the command line: asked, waited for, answered, and there again after a crash.

use serde_json::{Value, json};

use crate::commands::Tour;
use crate::program::{Home, Server, both, finish};

const LAMP: &str = "type: object
additionalProperties: false
required: [lamp]
properties:
  lamp: {type: string, enum: [hall, desk], description: Which of the two.}
  count: {type: integer, minimum: 1, default: 1}
";

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_else(|| panic!("no {member} in {value}")).to_owned()
}

fn run(home: &Home) -> String {
    text(&home.json(&["run", "create", "--title", "Ticket 42"]), "id")
}

fn ask(home: &Home, run: &str) -> String {
    let schema = format!("@{}", home.write("lamp.yaml", LAMP));
    text(&home.json(&["input", "ask", "--run", run, "--title", "Which lamp?", "--schema", &schema]), "id")
}

/// Every command of this part once, with `--json`.
pub fn tour(tour: &mut Tour<'_>) {
    let run = run(tour.home);
    let schema = format!("@{}", tour.home.write("lamp.yaml", LAMP));
    let asking = ["input", "ask", "--run", &run, "--title", "Which lamp?", "--schema", &schema, "--expires", "600"];
    let asked = tour.ok(&asking);
    let id = text(&asked, "id");
    assert_eq!(tour.ok(&["input", "list", "--run", &run])["items"], json!([asked]));
    assert_eq!(tour.run(&["input", "show", &id, "--wait", "0"], 3)["state"], "open");
    tour.run(&["input", "answer", &id, "lamp=attic"], 2);
    let answered = tour.ok(&["input", "answer", &id, "lamp=hall", "--value", r#"{"count": 3}"#]);
    assert_eq!(answered["answer"], json!({"lamp": "hall", "count": 3}));
    assert_eq!(tour.ok(&["input", "show", &id, "--wait", "60"]), answered);
    tour.run(&["input", "answer", &id, "lamp=desk"], 1);
    let again = text(&tour.ok(&asking), "id");
    assert_eq!(tour.ok(&["input", "cancel", &again])["state"], "cancelled");
    assert_eq!(tour.ok(&["input", "list", "--all", "--run", &run])["items"].as_array().unwrap().len(), 2);
    assert_eq!(tour.ok(&["input", "list", "--state", "answered"])["items"][0]["id"], id.as_str());
}

#[test]
fn a_question_is_shown_to_a_person() {
    both(|home| {
        let run = run(home);
        let id = ask(home, &run);
        insta::allow_duplicates! {
            insta::assert_snapshot!(home.redact(&home.ok(&["input", "show", &id])), @r"
            Which lamp? — open

              Id        [id]
              Run       [id]
              Asked by  local user [uid] (local:[uid])
              Until     [time]

            Fields
              FIELD  TYPE                 DESCRIPTION
              lamp   hall|desk  required  Which of the two.
              count  integer
            ");
            insta::assert_snapshot!(home.fails(&["input", "answer", &id, "lamp=attic"]), @r#"
            error: `/lamp` must be one of "hall", "desk", got the text "attic"
              at /answer/lamp
              hint: correct the answer and send it again; the question is still open
            exit 2
            "#);
            insta::assert_snapshot!(home.ok(&["input", "answer", &id, "lamp=hall"]), @"Answered: Which lamp?");
            insta::assert_snapshot!(home.redact(&home.ok(&["input", "show", &id])), @r#"
            Which lamp? — answered

              Id           [id]
              Run          [id]
              Asked by     local user [uid] (local:[uid])
              Until        [time]
              Answered by  local user [uid] (local:[uid])

            Fields
              FIELD  TYPE                 DESCRIPTION
              lamp   hall|desk  required  Which of the two.
              count  integer

            Answer
              {
                "count": 1,
                "lamp": "hall"
              }
            "#);
            insta::assert_snapshot!(home.fails(&["input", "show", "nothing"]), @r"
            error: no question `nothing`
              hint: list what there is with `toolgate input list`
            exit 1
            ");
            insta::assert_snapshot!(home.ok(&["input", "list"]), @"No questions.");
        }
        let late = home.fails(&["input", "answer", &id, "lamp=desk"]);
        assert!(late.starts_with("error: the question was answered by local:[uid] at "), "{late}");
        assert!(late.ends_with("exit 1"), "{late}");
    });
}

#[test]
fn whoever_waits_is_told_and_a_question_outlives_a_crash() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let run = run(&home);
    let (first, second) = (ask(&home, &run), ask(&home, &run));
    let waiting = home.command(&["input", "show", &first, "--wait", "120", "--json"]).spawn().unwrap();
    home.ok(&["input", "answer", &first, "lamp=hall"]);
    let told = finish(waiting);
    assert_eq!(told.code, 0, "{}", told.stderr);
    assert_eq!(serde_json::from_str::<Value>(&told.stdout).unwrap()["answer"]["lamp"], "hall");

    server.kill();
    let server = Server::start(&home, &[]);
    assert!(home.is_served());
    assert_eq!(home.json(&["run", "show", &run])["state"], "waiting_human", "it waits as before");
    let answers = ["answered", "open"];
    for (id, state) in [&first, &second].into_iter().zip(answers) {
        assert_eq!(home.json(&["input", "show", id])["state"], state);
    }
    home.ok(&["input", "answer", &second, "lamp=desk"]);
    assert_eq!(home.json(&["run", "show", &run])["state"], "running");
    server.kill();
    assert_eq!(home.json(&["input", "show", &second])["answer"]["lamp"], "desk", "what was answered is on the disk");
}
