//! The kind `script`: the operator's commands, what callers may add to them, and that nothing of them is left.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate_contracts::ErrorCode::{PolicyDenied, SandboxError, Timeout, ValidationError};
use toolgate_contracts::{Entries, ToolError};
use toolgate_engine::runner::OutputSink;
use toolgate_engine::{Call, Outcome, Runner as _, testing};
use toolgate_runners::Scripts;
use toolgate_sandbox::Spawner;
use toolgate_vault::Secret;

use crate::world::{World, done, every_world, failed};

struct Tried<'a> {
    world: &'a World,
    scripts: Scripts,
    folder: tempfile::TempDir,
}

impl<'a> Tried<'a> {
    /// One entry, `it`, whose folder is a fresh one; `FOLDER` in the words of its members stands for it.
    fn new(world: &'a World, entry: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = entry.to_string().replace("FOLDER", folder.path().to_str().unwrap());
        let mut entry: Value = serde_json::from_str(&text).unwrap();
        entry["folder"] = json!(folder.path());
        if entry.get("tenants").is_none() {
            entry["tenants"] = json!(["acme"]);
        }
        let entries: Entries = serde_json::from_value(json!({"scripts": {"it": entry}})).unwrap();
        Self { world, scripts: Scripts::new(&entries, Spawner::new().unwrap()), folder }
    }

    /// An entry that runs a script of the shell's: the operator may, callers cannot reach it.
    fn sh(world: &'a World, script: &str, mut entry: Value) -> Self {
        entry["command"] = json!(["/bin/sh", "FOLDER/.script"]);
        let tried = Self::new(world, &entry);
        fs::write(tried.folder.path().join(".script"), script).unwrap();
        tried
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn call(&self, input: Value) -> Call {
        self.world.call(&json!({"kind": "script", "entry": "it"}), input)
    }

    async fn run(&self, input: Value) -> Outcome {
        toolgate_engine::Runner::run(&self.scripts, testing::permit(self.call(input))).await
    }

    async fn output(&self, input: Value) -> Value {
        done(self.run(input).await).result.structured.unwrap()
    }

    async fn stdout(&self, input: Value) -> String {
        let output = self.output(input.clone()).await;
        assert_eq!((&output["exit_code"], &output["stderr"]), (&json!(0), &json!("")), "{input}: {output}");
        output["stdout"].as_str().unwrap().to_owned()
    }

    async fn refused(&self, input: Value) -> ToolError {
        failed(self.run(input).await)
    }

    async fn plan(&self, input: Value) -> Result<Value, ToolError> {
        toolgate_engine::Runner::plan(&self.scripts, &self.call(input)).await
    }
}

fn pointer(error: &ToolError) -> &str {
    error.details.as_ref().unwrap()["pointer"].as_str().unwrap()
}

/// Waits until none of these processes runs; one that waits to be reaped by somebody else does not.
async fn assert_gone(pids: &[&str]) {
    let runs = |pid: &&&str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with(['Z', 'X']))
    };
    let until = Instant::now() + Duration::from_secs(30);
    while let Some(pid) = pids.iter().find(runs) {
        assert!(Instant::now() < until, "{pid} still runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn lines_of(path: &Path, count: usize) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() >= count && text.ends_with('\n') {
            return text.lines().map(str::to_owned).collect();
        }
        assert!(Instant::now() < until, "{}: {text}", path.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_secret_stands_in_the_variable_that_the_entry_names_for_it() {
    every_world(async |world| {
        let secrets = json!({"secrets": {"TOKEN": "deploy_key"}, "environment": {"LEVEL": "[a-z]+"}});
        let tried = Tried::sh(&world, "printf '%s|%s' \"${TOKEN-none}\" \"${LEVEL-none}\"", secrets);
        let run = async |names: &[&str], given: bool| {
            let call = tried.world.call_of(&json!({"kind": "script", "entry": "it"}), json!({}), |definition| {
                let declared: Vec<Value> = names.iter().map(|name| json!({"name": name, "required": false})).collect();
                definition.secrets = serde_json::from_value(json!(declared)).unwrap();
            });
            let ready = toolgate_engine::Runner::ready(&tried.scripts, &call.tool.definition).await;
            let secrets = if given { vec![Secret::new("deploy_key", b"the value".to_vec())] } else { Vec::new() };
            let outcome = toolgate_engine::Runner::run(&tried.scripts, testing::permit_with(call, secrets)).await;
            (ready, outcome)
        };
        let stdout = |outcome: Outcome| done(outcome).result.structured.unwrap()["stdout"].clone();
        assert_eq!(stdout(run(&["deploy_key"], true).await.1), "the value|none");
        assert_eq!(stdout(run(&["deploy_key"], false).await.1), "none|none");
        assert_eq!(stdout(run(&[], false).await.1), "none|none");
        // One that the entry has no place for reaches nobody, and nobody finds that out by chance.
        let (ready, outcome) = run(&["deploy_key", "other"], true).await;
        for error in [ready.unwrap_err(), failed(outcome)] {
            assert_eq!((error.code, error.reason()), (SandboxError, "tier_unavailable"));
            assert!(error.message.contains("no variable for the secret `other`"), "{}", error.message);
        }
        // A caller does not set it, and who plans is shown its name.
        assert_eq!(tried.refused(json!({"env": {"TOKEN": "mine"}})).await.reason(), "constraint");
        assert!(tried.plan(json!({})).await.unwrap()["env"].as_array().unwrap().contains(&json!("TOKEN")));
        for (members, word) in [
            (json!({"secrets": {"LEVEL": "a"}, "set": {"LEVEL": "x"}}), "set otherwise"),
            (json!({"secrets": {"A B": "a"}}), "no name of a variable"),
        ] {
            let problems = Tried::sh(&world, "true", members).scripts.problems();
            assert!(problems[0].contains(word), "{problems:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn arguments_are_a_vector_and_no_shell_reads_them() {
    every_world(async |world| {
        let tried = Tried::new(&world, &json!({"command": ["printf", "%s|", "first"], "arguments": ["(?s).*"]}));
        let words = [
            "--target=core",
            "$(touch made)",
            "`touch made`",
            "; touch made",
            "&& x",
            "*",
            "~",
            "a b",
            "'",
            "\"",
            "\n",
            "",
            "ä",
        ];
        let expected: String = ["first"].iter().chain(&words).flat_map(|word| [*word, "|"]).collect();
        assert_eq!(tried.stdout(json!({"args": words})).await, expected);
        assert!(!tried.path("made").exists());
    })
    .await;
}

#[tokio::test]
async fn the_environment_is_what_the_entry_says_and_nothing_of_ours() {
    every_world(async |world| {
        let entry = json!({
            "command": ["/usr/bin/env"],
            "environment": {"LEVEL": "[a-z]+", "MODE": "x|y"},
            "set": {"HOME": "/nowhere", "MODE": "fixed"},
        });
        let tried = Tried::new(&world, &entry);
        let variables = async |env: Value| {
            let mut lines: Vec<String> = tried.stdout(json!({"env": env})).await.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let path = "PATH=/usr/local/bin:/usr/bin:/bin";
        assert_eq!(variables(json!({})).await, ["HOME=/nowhere", "MODE=fixed", path]);
        let given = json!({"LEVEL": "debug", "MODE": "x"});
        assert_eq!(variables(given).await, ["HOME=/nowhere", "LEVEL=debug", "MODE=fixed", path], "what is set stays");

        for (env, at) in [
            (json!({"LD_PRELOAD": "/tmp/x.so"}), "/env/LD_PRELOAD"),
            (json!({"PATH": "/tmp"}), "/env/PATH"),
            (json!({"HOME": "/root"}), "/env/HOME"),
            (json!({"level": "debug"}), "/env/level"),
            (json!({"LEVEL ": "debug"}), "/env/LEVEL "),
            (json!({"A=B": "x"}), "/env/A=B"),
            (json!({"LEVEL": "DEBUG"}), "/env/LEVEL"),
            (json!({"LEVEL": "debug\nPATH=/tmp"}), "/env/LEVEL"),
            (json!({"LEVEL": ""}), "/env/LEVEL"),
        ] {
            let error = tried.refused(json!({"env": env})).await;
            assert_eq!((error.code, error.reason(), pointer(&error)), (PolicyDenied, "constraint", at), "{env}");
        }
        // What sets variables by its arguments is judged by the same names, however wide the operator's pattern.
        let tried = Tried::new(&world, &json!({"command": ["/usr/bin/env"], "arguments": [".*"]}));
        assert!(tried.stdout(json!({"args": ["LEVEL=debug"]})).await.contains("LEVEL=debug"));
        for argument in ["LD_PRELOAD=/tmp/x.so", "PATH=/tmp", "BASH_ENV=x", "GIT_SSH_COMMAND=x"] {
            let error = tried.refused(json!({"args": ["A=b", argument]})).await;
            assert_eq!((error.code, pointer(&error)), (PolicyDenied, "/args/1"), "{argument}");
        }
    })
    .await;
}

#[tokio::test]
async fn arguments_outside_the_entry_s_patterns_start_nothing() {
    every_world(async |world| {
        let entry = json!({"arguments": ["--target=(core|web)", "-v", "[a-z]+\\.txt", "a|ab"]});
        let tried = Tried::sh(&world, "touch started; echo \"$@\"", entry);
        for argument in [
            "-oProxyCommand=touch made",
            "--upload-pack=x",
            "--target=core;touch made",
            "--target=core\n--evil",
            "--target=core\n",
            "x--target=core",
            "--target=",
            "--TARGET=core",
            "-vv",
            "-",
            "--",
            "",
            "../x.txt",
            "x.txt\u{202e}",
            "abc",
            "－v",
        ] {
            let error = tried.refused(json!({"args": ["-v", argument]})).await;
            let found = (error.code, error.reason(), pointer(&error));
            assert_eq!(found, (PolicyDenied, "constraint", "/args/1"), "{argument:?}: {}", error.message);
            assert!(error.message.contains("--target=(core|web)"), "{}", error.message);
            assert_eq!(tried.plan(json!({"args": ["-v", argument]})).await.unwrap_err(), error);
        }
        for (input, reason, at) in [
            (json!({"args": ["-v\u{0}"]}), "schema", "/args/0"),
            (json!({"args": ["x".repeat(16 * 1024 + 1)]}), "too_large", "/args/0"),
            (json!({"args": vec!["-v"; 257]}), "too_large", "/args"),
            (json!({"args": "-v"}), "schema", "/args"),
            (json!({"args": [1]}), "schema", "/args/0"),
            (json!({"command": ["rm"]}), "schema", "/command"),
        ] {
            let error = tried.refused(input).await;
            assert_eq!(
                (error.code, error.reason(), pointer(&error)),
                (ValidationError, reason, at),
                "{}",
                error.message
            );
        }
        assert!(!tried.path("started").exists());
        // Each is matched as a whole, so that the order of alternatives does not matter.
        assert_eq!(
            tried.stdout(json!({"args": ["ab", "-v", "--target=web", "x.txt"]})).await,
            "ab -v --target=web x.txt\n"
        );
    })
    .await;
}

#[tokio::test]
async fn no_working_folder_leads_out_of_the_entry_s() {
    every_world(async |world| {
        let tried = Tried::new(&world, &json!({"command": ["/bin/pwd", "-P"]}));
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir_all(tried.path("apps/web")).unwrap();
        fs::write(tried.path("file"), "x").unwrap();
        symlink(outside.path(), tried.path("out")).unwrap();
        symlink("..", tried.path("up")).unwrap();
        symlink("apps/web", tried.path("within")).unwrap();
        symlink("/proc/self/root/etc", tried.path("magic")).unwrap();
        symlink("loop", tried.path("loop")).unwrap();
        let root = tried.folder.path().canonicalize().unwrap();
        for (folder, expected) in [
            (None, ""),
            (Some("."), ""),
            (Some("apps/web"), "/apps/web"),
            (Some("./apps//web/"), "/apps/web"),
            (Some("apps/../apps/web"), "/apps/web"),
            (Some("within"), "/apps/web"),
        ] {
            let stdout = tried.stdout(json!({"working_dir": folder})).await;
            assert_eq!(stdout.trim_end(), format!("{}{expected}", root.display()), "{folder:?}");
        }
        for folder in [
            "..",
            "../",
            "apps/../..",
            "apps/../../apps",
            "../../../../../../etc",
            "/etc",
            "//etc",
            "/",
            "out",
            "out/.",
            "up",
            "up/up",
            "magic",
            "loop",
            "file",
            "nowhere",
            "..%2f..",
            "%2e%2e/%2e%2e",
            "..\\..",
            "．．/．．",
            "..\u{0}",
            "apps\nweb",
            "~",
            "$HOME",
            "file:///etc",
            "/proc/self/cwd",
        ] {
            let error = tried.refused(json!({"working_dir": folder})).await;
            let found = (error.code, error.reason(), pointer(&error));
            assert_eq!(found, (PolicyDenied, "constraint", "/working_dir"), "{folder:?}: {}", error.message);
            assert!(!error.message.contains(root.to_str().unwrap()), "{}", error.message);
        }
        let error = tried.refused(json!({"working_dir": "x".repeat(1025)})).await;
        assert_eq!((error.code, error.reason()), (ValidationError, "too_large"));
    })
    .await;
}

#[tokio::test]
async fn whoever_swaps_a_folder_meanwhile_gains_nothing() {
    every_world(async |world| {
        let tried = Tried::new(&world, &json!({"command": ["/bin/pwd", "-P"]}));
        let outside = tempfile::tempdir().unwrap();
        let (folder, aside) = (tried.path("folder"), tried.path("aside"));
        fs::create_dir(&folder).unwrap();
        symlink(outside.path(), &aside).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let swapping = std::thread::spawn({
            let (over, third) = (Arc::clone(&over), tried.path("third"));
            move || {
                while !over.load(Ordering::SeqCst) {
                    fs::rename(&folder, &third).unwrap();
                    fs::rename(&aside, &folder).unwrap();
                    fs::rename(&third, &aside).unwrap();
                }
            }
        });
        let root = tried.folder.path().canonicalize().unwrap();
        for _ in 0..60 {
            match tried.run(json!({"working_dir": "folder"})).await {
                Outcome::Done(done) => {
                    let output = done.result.structured.unwrap();
                    let stdout = output["stdout"].as_str().unwrap();
                    assert!(stdout.starts_with(root.to_str().unwrap()), "{output}");
                }
                Outcome::Failed(error) => assert_eq!(error.reason(), "constraint", "{}", error.message),
                other => panic!("{other:?}"),
            }
        }
        over.store(true, Ordering::SeqCst);
        swapping.join().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_script_that_ends_by_itself_has_an_exit_code_and_its_output() {
    every_world(async |world| {
        let check = async |script: &str, exit_code: i32, stdout: &str, stderr: &str| {
            let tried = Tried::sh(&world, script, json!({}));
            let mut call = tried.call(json!({}));
            call.output = OutputSink::buffered();
            let shown = call.output.clone();
            let outcome = toolgate_engine::Runner::run(&tried.scripts, testing::permit(call)).await;
            let output = done(outcome).result.structured.unwrap();
            assert!(output["duration_ms"].is_u64(), "{output}");
            let found = (output["exit_code"].as_i64().unwrap(), &output["stdout"], &output["stderr"]);
            assert_eq!(found, (exit_code.into(), &json!(stdout), &json!(stderr)), "{script}");
            let shown = testing::written(&shown);
            assert!(shown.contains(stdout) && shown.contains(stderr), "{script}: {shown}");
            assert_eq!(shown.len(), stdout.len() + stderr.len(), "{script}: {shown}");
        };
        check("echo one; echo two >&2", 0, "one\n", "two\n").await;
        check("echo no >&2; exit 3", 3, "", "no\n").await;
        check("kill -9 $$", 137, "", "").await;
        check("printf 'a\\377b\\303\\244\\303'", 0, "a\u{fffd}bä\u{fffd}", "").await;
        check("cat; echo done", 0, "done\n", "").await;
        // What it leaves behind ends with it, and does not keep us waiting.
        check("sleep 1000 & echo left", 0, "left\n", "").await;
    })
    .await;
}

#[tokio::test]
async fn output_comes_while_a_script_still_runs() {
    every_world(async |world| {
        let tried = Tried::sh(&world, "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last", json!({}));
        let mut call = tried.call(json!({}));
        call.output = OutputSink::buffered();
        let shown = call.output.clone();
        let run = toolgate_engine::Runner::run(&tried.scripts, testing::permit(call));
        let watch = async {
            let mut seen = String::new();
            while !seen.contains("first\n") {
                tokio::time::sleep(Duration::from_millis(10)).await;
                seen += &testing::written(&shown);
            }
            fs::write(tried.path("go"), "").unwrap();
        };
        let (outcome, ()) = tokio::join!(run, watch);
        assert_eq!(done(outcome).result.structured.unwrap()["stdout"], json!("first\nlast\n"));
    })
    .await;
}

#[tokio::test]
async fn endless_output_is_stopped_at_its_limit() {
    every_world(async |world| {
        let script = "echo $$ > pids; while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done";
        let tried = Tried::sh(&world, script, json!({"output_bytes_max": 10_000}));
        let Outcome::Unknown(told) = tried.run(json!({})).await else { panic!("it was stopped") };
        assert!(told.contains("more than 10000 bytes"), "{told}");
        let pids = lines_of(&tried.path("pids"), 1).await;
        assert_gone(&[&pids[0]]).await;
    })
    .await;
}

#[tokio::test]
async fn processes_that_ignore_termination_are_gone_all_the_same() {
    const STUBBORN: &str = "trap '' TERM INT HUP
(trap '' TERM INT HUP; while :; do sleep 1000; done) &
echo $! > pids
sh -c 'trap \"\" TERM; echo $$ >> pids; sleep 1000 & echo $! >> pids; wait' &
echo $$ >> pids
while :; do sleep 1000; done";
    every_world(async |world| {
        let tried = Tried::sh(&world, STUBBORN, json!({"timeout_s": 1}));
        let Outcome::Unknown(told) = tried.run(json!({})).await else { panic!("nobody knows what it did") };
        assert_eq!(told, "`it` was stopped after 1 s, the limit of its time; what it had done by then is not known");
        let pids = lines_of(&tried.path("pids"), 4).await;
        assert_gone(&pids.iter().map(String::as_str).collect::<Vec<_>>()).await;

        // The same when somebody cancels, and when nobody waits any more.
        let tried = Tried::sh(&world, STUBBORN, json!({}));
        let call = tried.call(json!({}));
        let cancel = call.cancel.clone();
        let stop = async {
            let pids = lines_of(&tried.path("pids"), 4).await;
            cancel.cancel();
            pids
        };
        let (outcome, pids) = tokio::join!(toolgate_engine::Runner::run(&tried.scripts, testing::permit(call)), stop);
        assert!(matches!(&outcome, Outcome::Unknown(told) if told.contains("cancelled")), "{outcome:?}");
        assert_gone(&pids.iter().map(String::as_str).collect::<Vec<_>>()).await;

        let written = tried.path("pids");
        fs::remove_file(&written).unwrap();
        let pids = tokio::select! {
            outcome = tried.run(json!({})) => panic!("{outcome:?}"),
            pids = lines_of(&written, 4) => pids,
        };
        assert_gone(&pids.iter().map(String::as_str).collect::<Vec<_>>()).await;

        let call = tried.call(json!({}));
        call.cancel.cancel();
        let cancelled = failed(toolgate_engine::Runner::run(&tried.scripts, testing::permit(call)).await);
        assert_eq!((cancelled.code, cancelled.reason()), (PolicyDenied, "cancelled"), "nothing was started");
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_starts_only_what_the_entry_has_for_that() {
    every_world(async |world| {
        let entry = json!({"arguments": ["-v"], "environment": {"LEVEL": "x"}, "timeout_s": 5});
        let tried = Tried::sh(&world, "touch started", entry.clone());
        let input = json!({"args": ["-v"], "env": {"LEVEL": "x"}});
        let script = tried.path(".script");
        let expected = json!({
            "would_run": true,
            "command": ["/bin/sh", script, "-v"],
            "env": ["PATH", "LEVEL"],
            "working_dir": ".",
            "timeout_ms": 5000,
        });
        assert_eq!(tried.plan(input.clone()).await.unwrap(), expected);
        let mut dry = input.clone();
        dry["dry_run"] = json!(true);
        let nothing = json!({"exit_code": 0, "stdout": "", "stderr": "", "duration_ms": 0, "plan": expected});
        assert_eq!(tried.output(dry.clone()).await, nothing);
        assert!(!tried.path("started").exists());

        let mut with_command = entry;
        with_command["dry_run"] = json!(["printf", "would %s"]);
        let tried = Tried::sh(&world, "touch started", with_command);
        assert_eq!(tried.plan(input).await.unwrap()["dry_run"]["stdout"], "would -v");
        let output = tried.output(dry).await;
        assert_eq!((&output["stdout"], &output["plan"]["would_run"]), (&json!("would -v"), &json!(true)));
        assert!(!tried.path("started").exists());

        // It counts as reading, so it fails where a run would be unknown.
        let tried = Tried::sh(&world, "", json!({"dry_run": ["sleep", "1000"], "timeout_s": 1}));
        let error = tried.plan(json!({})).await.unwrap_err();
        assert_eq!((error.code, error.reason()), (Timeout, "wall"), "{}", error.message);
    })
    .await;
}

#[tokio::test]
async fn an_entry_of_another_tenant_is_one_that_is_not_there() {
    every_world(async |world| {
        let check = async |tenants: Value, entry: &str, message: &str| {
            let tried = Tried::new(&world, &json!({"command": ["true"], "tenants": tenants}));
            let call = world.call(&json!({"kind": "script", "entry": entry}), json!({}));
            let error = failed(toolgate_engine::Runner::run(&tried.scripts, testing::permit(call)).await);
            assert_eq!((error.code, error.reason()), (PolicyDenied, "not_found"));
            assert_eq!(error.message, message);
        };
        let none = "the operator has allowed none to this tenant";
        check(json!(["other"]), "it", &format!("there is no script `it`; {none}")).await;
        check(json!(null), "it", &format!("there is no script `it`; {none}")).await;
        check(json!(["other"]), "nothing", &format!("there is no script `nothing`; {none}")).await;
        check(json!(["acme"]), "nothing", "there is no script `nothing`; there are `it`").await;
    })
    .await;
}

#[tokio::test]
async fn what_the_operator_got_wrong_is_told_before_a_call() {
    every_world(async |world| {
        let check = async |mut entry: Value, problem: &str| {
            if entry.get("command").is_none() {
                entry["command"] = json!(["true"]);
            }
            let tried = Tried::new(&world, &entry);
            let call = tried.call(json!({}));
            let problems = tried.scripts.problems();
            let found = problems.first().map_or("", String::as_str);
            assert!(found.starts_with(problem), "{found}");
            let ready = tried.scripts.ready(&call.tool.definition).await;
            let needs = tried.scripts.needs().await;
            if problem.is_empty() {
                ready.unwrap();
                assert_eq!(needs[0].found, "1 can be run");
            } else {
                assert_eq!((needs[0].name, needs[0].found.as_str()), ("script", found));
                let error = ready.unwrap_err();
                assert_eq!((error.code, error.reason()), (SandboxError, "tier_unavailable"), "{}", error.message);
                let error = failed(tried.run(json!({})).await);
                assert_eq!((error.code, error.reason()), (SandboxError, "tier_unavailable"), "{}", error.message);
            }
        };
        check(json!({"arguments": ["--a", "[a-z]{1,10}"]}), "").await;
        check(json!({"arguments": ["("]}), "`it`: the pattern `(` cannot be used").await;
        check(json!({"arguments": ["a)|(?:.*"]}), "`it`: the pattern `a)|(?:.*` cannot be used").await;
        check(json!({"arguments": ["(?x)a # c"]}), "`it`: the pattern `(?x)a # c` cannot be used").await;
        check(json!({"arguments": ["(a{1000}){1000}"]}), "`it`: the pattern `(a{1000}){1000}` cannot be used").await;
        check(json!({"arguments": ["a".repeat(5000)]}), "`it`: a pattern has 5000 bytes, the limit is 4096").await;
        check(json!({"environment": {"LD_PRELOAD": ".*"}}), "`it`: `environment` lets callers set `LD_PRELOAD`").await;
        check(json!({"environment": {"PATH": ".*"}}), "`it`: `environment` lets callers set `PATH`").await;
        check(json!({"environment": {"NODE_OPTIONS": "a"}}), "`it`: `environment` lets callers set `NODE_OPTIONS`")
            .await;
        check(json!({"environment": {"A B": ".*"}}), "`it`: `A B` is no name of a variable").await;
        check(json!({"command": []}), "`it`: its `command` is empty").await;
        check(json!({"command": ["no-such-program"]}), "`it`: there is no program `no-such-program` in /usr").await;
        check(json!({"command": ["/no/such/program"]}), "`it`: there is no program `/no/such/program`").await;
        check(json!({"command": ["./relative"]}), "`it`: the program `./relative` is neither a whole path nor a name")
            .await;
        check(json!({"command": ["/etc/passwd"]}), "`it`: there is no program `/etc/passwd`").await;
        check(json!({"timeout_s": 0}), "`it`: `timeout_s`: expected 1 to 86400").await;

        let entries = json!({"scripts": {"it": {"command": ["true"], "folder": "/no/such"}}});
        let scripts = Scripts::new(&serde_json::from_value(entries).unwrap(), Spawner::new().unwrap());
        assert_eq!(scripts.problems(), ["`it`: `folder`, `/no/such`: there is no such folder"]);
        let none = Scripts::new(&Entries::default(), Spawner::new().unwrap());
        assert!(none.needs().await.is_empty());
        let call = world.call(&json!({"kind": "script", "entry": "it"}), json!({}));
        let error = none.ready(&call.tool.definition).await.unwrap_err();
        assert_eq!((error.code, error.reason()), (PolicyDenied, "not_found"), "{}", error.message);
    })
    .await;
}
