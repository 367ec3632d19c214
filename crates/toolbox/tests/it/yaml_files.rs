//! `config_manager.update_yaml`: what it changes, what it keeps about that, and everything that it must not change.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_contracts::ErrorCode::{PolicyDenied, SandboxError, ValidationError};
use toolgate_contracts::{Digest, Entries, ToolError};
use toolgate_engine::{Outcome, Runner as _, testing};
use toolgate_toolbox::{Builtin, Tools};

use crate::world::{World, error, every_world, output};

const TOOL: &str = "config_manager.update_yaml";
const TEXT: &str = "# The app.\nname: app # keep\nlimits:\n  # cores\n  cpu: 1\n  memory: 2\ntoken: hidden\n";

struct Tried<'a> {
    world: &'a World,
    runner: Arc<Builtin>,
    file: PathBuf,
    folder: tempfile::TempDir,
}

impl<'a> Tried<'a> {
    /// `app` may be changed everywhere, `limits` below two places, `secret` by another tenant.
    fn new(world: &'a World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("app.yaml");
        fs::write(&file, TEXT).unwrap();
        let entries: Entries = serde_json::from_value(json!({"yaml_files": {
            "app": {"file": file, "tenants": ["acme"]},
            "limits": {"file": file, "paths": ["/limits", "/labels/team"], "tenants": ["acme"]},
            "gone": {"file": folder.path().join("gone.yaml"), "tenants": ["acme"]},
            "relative": {"file": "app.yaml", "tenants": ["acme"]},
            "link": {"file": folder.path().join("link.yaml"), "tenants": ["acme"]},
            "folder": {"file": folder.path(), "tenants": ["acme"]},
            "secret": {"file": file, "tenants": ["other"]},
        }}))
        .unwrap();
        let runner = Arc::new(Builtin::new(Tools { entries: Arc::new(entries), ..world.tools.clone() }));
        Self { world, runner, file, folder }
    }

    async fn run(&self, input: Value) -> Outcome {
        self.runner.run(testing::permit(self.world.call(TOOL, input))).await
    }

    async fn output(&self, input: Value) -> Value {
        output(self.run(input).await)
    }

    async fn refused(&self, input: Value) -> ToolError {
        let before = self.text();
        let refused = error(self.run(input).await);
        assert_eq!(self.text(), before, "a refusal changes nothing");
        refused
    }

    async fn plan(&self, input: Value) -> Result<Value, ToolError> {
        self.runner.plan(&self.world.call(TOOL, input)).await
    }

    async fn changes(&self, path: &str) -> Vec<Value> {
        let call = self.world.call("config_manager.list_changes", json!({"path": path}));
        let mut output = output(self.runner.run(testing::permit(call)).await);
        serde_json::from_value(output["changes"].take()).unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = self.folder.path().read_dir().unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn setting(key: &str, value: Value) -> Value {
    json!({"path": "app", "operation": "set", "key": key, "value": value})
}

fn digest(text: &str) -> Value {
    json!(Digest::of(text.as_bytes()))
}

#[tokio::test]
async fn a_change_keeps_comments_order_and_rights_and_is_kept() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        fs::set_permissions(&tried.file, fs::Permissions::from_mode(0o640)).unwrap();
        let after = TEXT.replace("cpu: 1", "cpu: 4");
        let difference =
            "--- app\n+++ app\n@@ -2,6 +2,6 @@\n name: app # keep\n limits:\n   # cores\n-  cpu: 1\n+  cpu: 4\n   memory: 2\n token: hidden\n";
        let mut expected = json!({
            "path": "app",
            "operation": "set",
            "changed": true,
            "before": digest(TEXT),
            "after": digest(&after),
            "difference": difference,
            "would_run": true,
        });
        let input = setting("/limits/cpu", json!(4));
        assert_eq!(tried.plan(input.clone()).await.unwrap(), expected);
        let mut dry = input.clone();
        dry["dry_run"] = json!(true);
        assert_eq!(tried.output(dry).await, expected);
        assert_eq!(tried.text(), TEXT, "a dry run changes nothing");
        assert_eq!(tried.changes("app").await, [] as [Value; 0]);

        let call = world.call(TOOL, input.clone());
        let id = json!(call.id);
        expected.as_object_mut().unwrap().remove("would_run");
        expected["change"] = id.clone();
        assert_eq!(output(tried.runner.run(testing::permit(call)).await), expected);
        assert_eq!(tried.text(), after);
        assert_eq!(fs::metadata(&tried.file).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(tried.names(), ["app.yaml"], "nothing unfinished is left");

        let changes = tried.changes("app").await;
        assert_eq!(changes.len(), 1);
        let kept = json!({
            "change": id,
            "operation": "set",
            "state": "done",
            "changed_by": "local:0",
            "changed_at": changes[0]["changed_at"],
            "before": digest(TEXT),
            "after": digest(&after),
            "difference": difference,
        });
        assert_eq!(changes[0], kept);

        let again = tried.output(input).await;
        assert_eq!((&again["changed"], again.get("change")), (&json!(false), None), "nothing to do");
        assert_eq!(tried.changes("app").await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn set_delete_and_merge_do_what_they_say() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let check = async |input: Value, after: &str| {
            tried.output(input.clone()).await;
            assert_eq!(tried.text(), after, "{input}");
        };
        let operation = |operation: &str, more: Value| {
            let mut input = json!({"path": "app", "operation": operation});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            input
        };
        check(setting("/labels", json!({"team": "core"})), &format!("{TEXT}labels:\n  team: core\n")).await;
        check(operation("delete", json!({"key": "/labels"})), TEXT).await;
        let patch = json!({"limits": {"memory": null, "cpu": 8}, "token": null});
        let after = "# The app.\nname: app # keep\nlimits:\n  # cores\n  cpu: 8\n";
        check(operation("merge", json!({"patch": patch})), after).await;
        check(setting("/name", Value::Null), &after.replace("name: app", "name: null")).await;
    })
    .await;
}

#[tokio::test]
async fn a_change_is_taken_back_unless_the_file_has_changed_since() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let first = tried.output(setting("/limits/cpu", json!(4))).await["change"].clone();
        let second = tried.output(setting("/name", json!("other"))).await["change"].clone();
        let now = tried.text();
        let reverting = |change: &Value| json!({"path": "app", "operation": "revert", "change": change});

        let refused = tried.refused(reverting(&first)).await;
        assert_eq!((refused.code, refused.reason()), (ValidationError, "schema"));
        assert!(refused.message.contains(&format!("`{}`", Digest::of(now.as_bytes()))), "{}", refused.message);

        let back = tried.output(reverting(&second)).await;
        assert_eq!(tried.text(), TEXT.replace("cpu: 1", "cpu: 4"));
        let changes = tried.changes("app").await;
        let kept = changes.iter().find(|change| change["change"] == back["change"]).unwrap();
        assert_eq!((&kept["operation"], &kept["reverts"]), (&json!("revert"), &second));

        // A revert is a change, and is taken back like one.
        tried.output(reverting(&back["change"])).await;
        assert_eq!(tried.text(), now);

        let mut forced = reverting(&first);
        forced["expected_digest"] = digest("something else");
        assert!(tried.refused(forced.clone()).await.message.contains("the file has changed"));
        forced["expected_digest"] = digest(&now);
        tried.output(forced).await;
        assert_eq!(tried.text(), TEXT, "all that came after is gone too, as was asked");

        for change in [json!(world.new_id::<toolgate_contracts::id::CallKind>()), json!("x")] {
            assert_eq!(tried.refused(reverting(&change)).await.code, ValidationError);
        }
        let other = json!({"path": "limits", "operation": "revert", "change": first});
        let refused = tried.refused(other).await;
        assert!(refused.message.starts_with("`change`: there is no change `"), "of another entry: {}", refused.message);
    })
    .await;
}

#[tokio::test]
async fn nothing_outside_of_the_entry_s_places_is_changed_or_shown() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let input = |more: Value| {
            let mut input = json!({"path": "limits"});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            input
        };
        for more in [
            json!({"operation": "set", "key": "/name", "value": 1}),
            json!({"operation": "set", "key": "", "value": {"limits": {}}}),
            json!({"operation": "set", "key": "/limitsx", "value": 1}),
            json!({"operation": "set", "key": "/labels", "value": {"team": "x", "other": "y"}}),
            json!({"operation": "set", "key": "/limits/../name", "value": 1}),
            json!({"operation": "delete", "key": "/token"}),
            json!({"operation": "merge", "patch": {"limits": {"cpu": 2}, "name": "x"}}),
            json!({"operation": "merge", "patch": {"token": null}}),
            // That nothing changes would tell what is there.
            json!({"operation": "merge", "patch": {"token": "hidden"}}),
            json!({"operation": "merge", "patch": {"limits": {"cpu": 1}, "name": "app"}}),
            json!({"operation": "merge", "patch": {"absent": null}}),
            json!({"operation": "merge", "patch": {"token": {}}}),
        ] {
            let refused = tried.refused(input(more.clone())).await;
            // A path that goes up is a key that is not there.
            let expected = if more["key"] == "/limits/../name" { ValidationError } else { PolicyDenied };
            assert_eq!(refused.code, expected, "{more}: {}", refused.message);
            assert_eq!(tried.plan(input(more)).await.unwrap_err(), refused);
        }
        let planned =
            tried.plan(input(json!({"operation": "set", "key": "/limits/memory", "value": 3}))).await.unwrap();
        let difference = planned["difference"].as_str().unwrap();
        assert_eq!(difference, "--- limits\n+++ limits\n@@ /limits/memory @@\n-2\n+3\n", "nothing around it is shown");
        // Nor can what is around it be tried at home.
        assert!(
            planned["before"] != digest(TEXT) && planned["after"] != digest(&TEXT.replace("memory: 2", "memory: 3"))
        );
        let mut known = input(json!({"operation": "set", "key": "/limits/memory", "value": 3}));
        known["expected_digest"] = digest(TEXT);
        assert_eq!(tried.plan(known.clone()).await.unwrap_err().code, ValidationError, "a guess is not confirmed");
        known["expected_digest"] = planned["before"].clone();
        tried.plan(known).await.unwrap();
        // On a line of its own or not.
        let flow = "{token: hidden, limits: {cpu: 1}, labels: {team: a, owner: hidden}}\n";
        fs::write(&tried.file, flow).unwrap();
        let team = json!({"operation": "set", "key": "/labels/team", "value": "b"});
        let shown = tried.output(input(team)).await;
        assert_eq!(shown["difference"], "--- limits\n+++ limits\n@@ /labels/team @@\n-\"a\"\n+\"b\"\n");
        assert_eq!(tried.text(), flow.replace("team: a", "team: b"));
        assert!(
            !json!(tried.changes("limits").await).to_string().contains("hidden"),
            "and nothing of it is kept to be read"
        );
        let taken_back = input(json!({"operation": "revert", "change": shown["change"]}));
        tried.output(taken_back).await;
        assert_eq!(tried.text(), flow);
        fs::write(&tried.file, TEXT).unwrap();
        tried.output(input(json!({"operation": "merge", "patch": {"limits": {"cpu": 2, "disk": 1}}}))).await;
        assert_eq!(tried.text(), TEXT.replace("cpu: 1", "cpu: 2").replace("memory: 2\n", "memory: 2\n  disk: 1\n"));
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_not_listed_for_the_tenant_is_denied() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let known = "there are `app`, `folder`, `gone`, `limits`, `link`, `relative`";
        let own = tried.file.to_str().unwrap().to_owned();
        for path in ["secret", "other", "../app", "/etc/passwd", "app.yaml", "app\u{0}", "%61pp", "APP", own.as_str()] {
            let input = json!({"path": path, "operation": "set", "key": "/a", "value": 1});
            let refused = tried.refused(input).await;
            let expected = format!("there is no file `{}`; {known}", path.escape_debug());
            assert_eq!(
                (refused.code, refused.reason(), refused.message.as_str()),
                (PolicyDenied, "not_found", &*expected)
            );
            let remedy = refused.details.unwrap()["remedy"].to_string();
            assert!(remedy.contains("entries.yaml") && remedy.contains("toolgate doctor"), "{remedy}");
            let call = world.call("config_manager.list_changes", json!({"path": path}));
            assert_eq!(error(tried.runner.run(testing::permit(call)).await).reason(), "not_found");
        }
    })
    .await;
}

#[tokio::test]
async fn what_an_operation_does_not_take_or_lacks_is_told() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        for (more, message) in [
            (json!({"operation": "set", "key": "/a"}), "`value`: `set` needs it"),
            (json!({"operation": "set", "value": 1}), "`key`: `set` needs it"),
            (json!({"operation": "delete"}), "`key`: `delete` needs it"),
            (json!({"operation": "delete", "key": "/a", "value": null}), "`value`: `delete` takes none; leave it out"),
            (json!({"operation": "merge"}), "`patch`: `merge` needs it"),
            (json!({"operation": "merge", "patch": {}, "value": 1}), "`value`: `merge` takes none; leave it out"),
            (json!({"operation": "revert"}), "`change`: `revert` needs it"),
            (json!({"operation": "set", "key": "a", "value": 1}), "`key`: `a` is no JSON Pointer; it begins with `/`"),
            (json!({"operation": "set", "key": "/x/y", "value": 1}), "`key`: there is nothing at `/x`; set that first"),
            (json!({"operation": "delete", "key": "/x"}), "`key`: there is nothing at `/x`"),
        ] {
            let mut input = json!({"path": "app"});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let refused = tried.refused(input).await;
            assert_eq!((refused.code, refused.message.as_str()), (ValidationError, message), "{more}");
        }
    })
    .await;
}

#[tokio::test]
async fn files_that_cannot_be_changed_safely_are_left_alone() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        for (text, why) in [
            ("a: &x 1\nb: *x\n", "line 1: an anchor"),
            ("a: 1\n---\nb: 2\n", "line 2: a second document"),
            ("a: 1\na: 2\n", "line 2: the key `a` appears twice"),
            ("a: !secret x\n", "line 1: a tag"),
            ("a: [1\n", "line 1: "),
        ] {
            fs::write(&tried.file, text).unwrap();
            let refused = tried.refused(setting("/a", json!(3))).await;
            assert_eq!((refused.code, refused.reason()), (ValidationError, "unreadable"), "{}", refused.message);
            let expected = format!("the file cannot be changed by this tool: {why}");
            assert!(refused.message.starts_with(&expected), "{}", refused.message);
        }
        for bytes in [&b"a: \xff\n"[..], &vec![b'#'; 1024 * 1024 + 1]] {
            fs::write(&tried.file, bytes).unwrap();
            let refused = error(tried.run(setting("/a", json!(3))).await);
            assert_eq!((refused.code, refused.reason()), (SandboxError, "files"), "{}", refused.message);
            assert_eq!(fs::read(&tried.file).unwrap(), bytes);
        }
        fs::write(&tried.file, TEXT).unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret.yaml"), "a: 1\n").unwrap();
        symlink(outside.path().join("secret.yaml"), tried.folder.path().join("link.yaml")).unwrap();
        for path in ["gone", "relative", "link", "folder"] {
            let refused = tried.refused(json!({"path": path, "operation": "set", "key": "/a", "value": 3})).await;
            assert_eq!((refused.code, refused.reason()), (SandboxError, "files"), "{path}: {}", refused.message);
            assert!(!refused.message.contains(tried.folder.path().to_str().unwrap()), "{}", refused.message);
        }
        assert_eq!(fs::read_to_string(outside.path().join("secret.yaml")).unwrap(), "a: 1\n");
        assert_eq!(tried.changes("app").await, [] as [Value; 0]);
    })
    .await;
}

#[tokio::test]
async fn changes_at_the_same_time_come_one_after_another() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        fs::write(&tried.file, "list: []\n").unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..12 {
            let call = world.call(TOOL, setting("/list/-", json!(number)));
            let runner = Arc::clone(&tried.runner);
            tasks.spawn(async move { output(runner.run(testing::permit(call)).await) });
        }
        tasks.join_all().await;
        let text = tried.text();
        let mut numbers: Vec<i32> = text
            .trim()
            .trim_start_matches("list: [")
            .trim_end_matches(']')
            .split(", ")
            .map(|n| n.parse().unwrap())
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..12).collect::<Vec<_>>());
        let changes = tried.changes("app").await;
        assert!(changes.iter().all(|change| change["state"] == "done") && changes.len() == 12);
        // Each began where another ended.
        let befores: std::collections::BTreeSet<String> =
            changes.iter().map(|change| change["before"].to_string()).collect();
        assert_eq!(befores.len(), 12);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_was_cancelled_begins_no_change() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let call = world.call(TOOL, setting("/limits/cpu", json!(4)));
        call.cancel.cancel();
        let cancelled = error(tried.runner.run(testing::permit(call)).await);
        assert_eq!((cancelled.code, cancelled.reason()), (PolicyDenied, "cancelled"));
        assert_eq!(tried.changes("app").await, [] as [Value; 0]);
    })
    .await;
}

#[tokio::test]
async fn what_no_entry_gives_to_a_tenant_is_not_ready_for_it() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let tools = ["config_manager.update_yaml", "database_read", "run_sql_write", "metrics_api.query_gauge"];
        for name in tools {
            let definition = world.tool(name).definition;
            let is_theirs = name == "config_manager.update_yaml";
            let ready = tried.runner.ready_for(&world.slug, &definition).await;
            assert_eq!(ready.is_ok(), is_theirs, "{name}: {ready:?}");
            let refused = tried.runner.ready_for(&"nobody".parse().unwrap(), &definition).await.unwrap_err();
            let remedy = refused.details.unwrap()["remedy"].to_string();
            assert!(remedy.contains("`entries.yaml`") && remedy.contains("`toolgate doctor`"), "{name}: {remedy}");
        }
    })
    .await;
}

#[tokio::test]
async fn doctor_is_told_of_the_files_that_cannot_be_changed() {
    every_world(async |world| {
        let needs = Tried::new(&world).runner.needs().await;
        let (wrong, whole): (Vec<_>, Vec<_>) = needs.into_iter().partition(|need| !need.is_met);
        let starts = ["folder", "gone", "link", "relative"].map(|name| format!("the operator's entry `{name}`: "));
        assert_eq!(wrong.len(), starts.len());
        for (need, start) in wrong.iter().zip(starts) {
            assert!(need.found.starts_with(&start), "{}", need.found);
        }
        assert_eq!(whole.iter().map(|need| need.found.as_str()).collect::<Vec<_>>(), ["3 can be changed"]);
    })
    .await;
}
