//! Calls and runs as people read them.

use insta::{allow_duplicates, assert_snapshot};
use regex::Regex;

use super::{envelope, text};
use crate::program::{Home, both};

/// Without what differs from run to run, also of calls.
fn steady(home: &Home, printed: &str) -> String {
    let patterns = [
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "[moment]"),
        (r"(?m)^( *)\d\d:\d\d:\d\d\.\d{3}", "$1[moment]"),
        (r"c_[a-z2-7]{26}", "[call_id]"),
        (r"toolgate/[0-9a-f]+/[0-9a-f-]+", "[log]"),
        (r"(entry \d+|not numbered yet) of", "entry [n] of"),
        (r" +\d+ µs", " [n] µs"),
        (r"\d+ ms", "[n] ms"),
        (r"\d+\.\d{3} s", "[n] s"),
        (r"duration_ms=\d+", "duration_ms=[n]"),
        (r#""index":(null|\d+)"#, r#""index":[n]"#),
        (r"revision \d+", "revision [n]"),
    ];
    let text = patterns.iter().fold(printed.to_owned(), |text, (pattern, shown)| {
        Regex::new(pattern).unwrap().replace_all(&text, *shown).into_owned()
    });
    let text = home.redact(&text);
    let text = Regex::new(r#"(\[(?:id|digest)\]) +(["`,])"#).unwrap().replace_all(&text, "$1$2").into_owned();
    Regex::new(" {2,}(\\S)").unwrap().replace_all(&text, "  $1").into_owned()
}

#[test]
fn calls_and_runs_are_readable() {
    both(|home| {
        allow_duplicates! {
            assert_snapshot!(home.ok(&["calls", "list"]), @"No calls yet; make one with `toolgate call NAME FIELD=VALUE`.");
            assert_snapshot!(home.ok(&["run", "list"]), @"No runs; open one with `toolgate run create --title TITLE`.");
            assert_snapshot!(home.ok(&["calls", "list", "--status", "failed"]), @"No such calls; leave a filter out to see more.");
        }
        let run = home.ok(&["run", "create", "--title", "Ticket 42", "--max-calls", "9"]);
        let run = run.trim();
        let step = home.ok(&["run", "step", run, "--title", "Look it up"]);
        envelope(home, &["calculator", "expression=1/4", "--run", run, "--step", step.trim(), "--meta", "pr_id=42"], 0);
        let failed = envelope(home, &["echo", "txt=1", "--run", run], 1);
        allow_duplicates! {
            assert_snapshot!(steady(home, &home.ok(&["calls", "list"])), @r"
            WHEN  ID  TOOL  STATUS  TOOK  BY
            [time]  [id]  echo@1.0.0  failed VALIDATION_ERROR  local user [uid]
            [time]  [id]  calculator@1.0.0  completed  [n] ms  local user [uid]
            ");
            assert_snapshot!(steady(home, &home.ok(&["calls", "show", &text(&failed, "id")])), @r#"
            echo@1.0.0 — failed

              Id  [id]
              Call  [call_id]
              Run  [id], call 1
              By  local user [uid] (local:[uid])
              From  cli
              Began  [moment]
              Ended  [moment]
              Class  none
              Approval  not required
              Receipt  entry [n] of [log], digest [digest]

            Input
              {
              "txt": 1
              }

            Error
              the input does not fit the tool's schema in 2 places [VALIDATION_ERROR, schema]
              text: expected a string (What to return.), got nothing
              txt: expected one of the members text, got a member `txt`; did you mean `text`?
              hint: see its fields with `toolgate tool show echo`

            Decision
              deny at validate: user-facing (registry revision [n])
              resolve [n] µs
            "#);
            assert_snapshot!(steady(home, &home.ok(&["run", "show", run, "--events", "--spans"])), @r"
            Ticket 42 — running

              Id  [id]
              Kind  calls
              By  local user [uid] (local:[uid])
              Limits  max_tool_calls 9
              Began  [moment]
              Changed  [moment]
              Took  2 calls, cost 0.00, [n] s

            Steps
              BEGAN  ID  AGENT  TITLE
              [time]  [id]  Look it up

            Calls
              WHEN  ID  TOOL  STATUS  TOOK  BY
              [time]  [id]  echo@1.0.0  failed VALIDATION_ERROR  local user [uid]
              [time]  [id]  calculator@1.0.0  completed  [n] ms  local user [uid]

            Events
              [moment]  1 run.started title=Ticket 42
              [moment]  2 step.started step_id=[id]  title=Look it up
              [moment]  3 tool.started tool=calculator version=1.0.0
              [moment]  4 tool.completed tool=calculator status=completed duration_ms=[n]
              [moment]  5 tool.failed tool=echo status=failed code=VALIDATION_ERROR reason=schema duration_ms=[n]

            Spans
              calculator@1.0.0 completed
              ├─ resolve [n] µs
              ├─ validate [n] µs
              ├─ authorize [n] µs
              ├─ decide [n] µs
              ├─ reserve [n] µs
              └─ run [n] µs
              echo@1.0.0 failed
              └─ resolve [n] µs
            ");
        }
        let first = home.json(&["calls", "list", "--status", "completed"]);
        let shown = home.ok(&["calls", "show", &text(&first["items"][0], "id")]);
        allow_duplicates! {
            assert_snapshot!(steady(home, &shown), @r#"
            calculator@1.0.0 — completed

              Id  [id]
              Call  [call_id]
              Run  [id], call 0
              Step  Look it up
              By  local user [uid] (local:[uid])
              From  cli
              Began  [moment]
              Ended  [moment]
              Took  [n] ms
              Class  none
              Metadata  {"pr_id":"42"}
              Approval  not required
              Receipt  entry [n] of [log], digest [digest]

            Input
              {
              "expression": "1/4"
              }

            Output
              {
              "result": 0.25
              }

            Decision
              allow: user-facing (registry revision [n])
              resolve [n] µs
              validate [n] µs
              authorize [n] µs
              decide [n] µs
              reserve [n] µs
              run [n] µs
            "#);
        }
    });
}

#[test]
fn a_call_that_did_not_work_says_why_and_what_to_do() {
    both(|home| {
        let told = |arguments: &[&str]| {
            let ran = home.run(&[&["call"], arguments].concat());
            format!("$ toolgate call {}\n{}exit {}", arguments.join(" "), steady(home, &ran.stderr), ran.code)
        };
        let session = [
            told(&["wait", "seconds=soon", "minutes=1"]),
            told(&["calculater", "expression=1"]),
            told(&["write_file", "path=a.txt", "text=hello"]),
            told(&["calculator", "expression=1/0"]),
            told(&["echo", "text"]),
            told(&["echo", "text=a", "text=b"]),
            told(&["echo", "--input", "[1"]),
        ];
        allow_duplicates! {
            assert_snapshot!(session.join("\n"), @r#"
            $ toolgate call wait seconds=soon minutes=1
            error: the input does not fit the tool's schema in 2 places [VALIDATION_ERROR, schema]
              minutes: expected one of the members seconds, got a member `minutes`; leave it out
              seconds: expected a number, got the text "soon"
              hint: see its fields with `toolgate tool show wait`
            exit 1
            $ toolgate call calculater expression=1
            error: no tool `calculater`
              hint: did you mean `calculator`? See `toolgate tool list`
            exit 1
            $ toolgate call write_file path=a.txt text=hello
            It waits for a person; see `toolgate approvals show [id]`.
            exit 3
            $ toolgate call calculator expression=1/0
            error: `expression`: at character 2: division by zero [VALIDATION_ERROR, schema]
              hint: see its fields with `toolgate tool show calculator`
            exit 1
            $ toolgate call echo text
            error: `text` is not FIELD=VALUE
              hint: write for example text=hello, or give the whole input with --input
            exit 2
            $ toolgate call echo text=a text=b
            error: `text` is given twice
              hint: give it once; only a list takes several
            exit 2
            $ toolgate call echo --input [1
            error: --input is not valid JSON: EOF while parsing a list at line 1 column 2 at `/1`
              hint: quote it for the shell, or give a file as @FILE
            exit 2
            "#);
        }
    });
}

#[test]
fn formats_are_for_programs() {
    both(|home| {
        let printed = |arguments: &[&str]| steady(home, &home.run(&[&["call"], arguments].concat()).stdout);
        allow_duplicates! {
            assert_snapshot!(printed(&["calculator", "expression=6*7"]), @r#"{"id":"[id]","status":"completed","run_id":"[id]","call_id":"[call_id]","name":"calculator","version":"1.0.0","input":{"expression":"6*7"},"output":{"result":42},"t_start":"[moment]","t_end":"[moment]","receipt":{"entry_digest":"[digest]","log":"[log]","index":[n]}}"#);
            assert_snapshot!(printed(&["calculator", "expression=6*7", "--format", "output"]), @r#"{"result":42}"#);
            assert_snapshot!(printed(&["calculator", "expression=6*7", "--format", "tool-result"]), @r#"{"content":[{"type":"text","text":"{\"result\":42}"}],"is_error":false,"app_data":{"id":"[id]","call_id":"[call_id]","status":"completed"}}"#);
            assert_snapshot!(printed(&["calculator", "expression=6/0", "--format", "tool-result"]), @r#"{"content":[{"type":"text","text":"VALIDATION_ERROR: `expression`: at character 2: division by zero"}],"is_error":true,"app_data":{"id":"[id]","call_id":"[call_id]","status":"failed"}}"#);
        }
    });
}

#[test]
fn the_help_of_a_call_explains_its_fields() {
    assert_snapshot!(Home::new().ok(&["call", "-h"]), @r"
    Call a tool and print how it ended

    Usage: toolgate call [OPTIONS] <TOOL> [FIELD=VALUE]...

    Arguments:
      <TOOL>            NAME or NAME@VERSION
      [FIELD=VALUE]...  Fields of the input, over those of --input

    Options:
          --input <JSON>       The whole input: JSON, @FILE, or - for standard input
          --dry-run            Everything but the effect
          --record             Run the tool yourself and report with `toolgate calls complete`; for
                               external tools
          --run <ID>           The run that the call belongs to
          --step <ID>          The step of that run
          --agent <NAME>       Call as this agent, with no more rights than it has (name or id)
          --request-id <ID>    The same id again within 24 hours answers the first call instead of
                               making another
          --wait <SECONDS>     Wait at most so many seconds for the end [default: until it ended or a
                               person must decide]
          --no-wait            Do not wait
          --force-no-approval  Run it without the approval it needs: on a development server
                               (`dev_bypass`), with a key of the role `service`
          --timeout-ms <MS>    Shorten the tool's time limit
          --meta <KEY=VALUE>   Something to find the call by later; may be repeated
          --label <LABEL>      Say what kind of data the input holds; may be repeated [possible values:
                               untrusted, private, sensitive]
          --format <FORMAT>    What to print [default: envelope] [possible values: envelope, output,
                               tool-result]
      -h, --help               Print help (see more with '--help')

    Where and how:
          --data <DIR>       Work on this data folder [default: the platform's data folder] [env:
                             TOOLGATE_DATA]
          --server <URL>     Work on the server at this address, with a key [env: TOOLGATE_SERVER]
          --key <KEY>        The API key for --server; other users of this machine can see it here, so
                             prefer the variable or --key-file [env: TOOLGATE_KEY]
          --key-file <FILE>  A file that holds the API key for --server
          --tenant <SLUG>    The tenant to work in [env: TOOLGATE_TENANT]
          --config <FILE>    The configuration file [default: toolgate.yaml in the data folder, if it is
                             there] [env: TOOLGATE_CONFIG]
          --json             Print one JSON value instead of text for people

    Fields:
      FIELD=VALUE   read as the tool's schema says: text, a number, true, false, or JSON
      FIELD=@FILE   the text of a file
      FIELD:=JSON   JSON, whatever the schema says
      a.b=VALUE     a member of the object `a`; a list takes its field several times

    Exit status:
      0   completed (with --record: told to go ahead)
      1   failed, denied or cancelled
      3   waiting for a person, or still running

    Examples:
      toolgate call calculator expression='2 * 21'
      toolgate call send_email --input @mail.json --dry-run
      toolgate call echo text=hello --format output
    ");
}
