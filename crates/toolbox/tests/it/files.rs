//! `write_file`: what it writes, and everything that it must not.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};
use toolgate_contracts::ErrorCode::{PolicyDenied, SandboxError, ValidationError};
use toolgate_contracts::ToolError;
use toolgate_engine::Runner as _;
use toolgate_toolbox::{Builtin, Tools};

use crate::world::{World, error, every_world, output};

fn writing(path: &str, text: &str) -> Value {
    json!({"path": path, "text": text, "overwrite": false})
}

fn replacing(path: &str, text: &str) -> Value {
    json!({"path": path, "text": text, "overwrite": true})
}

fn written(path: &str, bytes: usize, overwritten: bool) -> Value {
    json!({"path": path, "bytes": bytes, "overwritten": overwritten})
}

async fn plan(world: &World, input: Value) -> Result<Value, ToolError> {
    world.runner.plan(&world.call("write_file", input)).await
}

/// Every name below a folder, sorted.
fn everything(folder: &Path) -> Vec<String> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
        for entry in folder.read_dir().unwrap().map(Result::unwrap) {
            found.push(entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if entry.file_type().unwrap().is_dir() {
                walk(root, &entry.path(), found);
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}

#[tokio::test]
async fn a_file_is_written_whole_for_its_owner_alone() {
    every_world(async |world| {
        let path = world.files.join("acme/reports/2026/may.md");
        assert_eq!(
            plan(&world, writing("reports/2026/may.md", "# Mai „")).await.unwrap(),
            json!({"would_run": true, "path": "reports/2026/may.md", "bytes": 9, "exists": false})
        );
        assert!(!world.files.exists(), "a plan makes nothing");

        let input = json!({"path": "reports/2026/may.md", "text": "# Mai „"});
        world.check("write_file", input, written("reports/2026/may.md", 9, false)).await;
        assert_eq!(fs::read_to_string(&path).unwrap(), "# Mai „");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));

        let message =
            "`path`: `reports/2026/may.md` exists; choose another path, or set `overwrite` to true to replace it";
        let again = writing("reports/2026/may.md", "other");
        world.refused("write_file", again.clone(), ValidationError, "schema", message).await;
        assert_eq!(plan(&world, again).await.unwrap_err().message, message);
        assert_eq!(fs::read_to_string(&path).unwrap(), "# Mai „");

        let over = replacing("reports/2026/may.md", "other");
        assert_eq!(plan(&world, over.clone()).await.unwrap()["exists"], true);
        assert_eq!(fs::read_to_string(&path).unwrap(), "# Mai „", "a plan writes nothing");
        world.check("write_file", over, written("reports/2026/may.md", 5, true)).await;
        assert_eq!(fs::read_to_string(&path).unwrap(), "other");

        world.check("write_file", replacing("empty", ""), written("empty", 0, false)).await;
        let expected = ["acme", "acme/empty", "acme/reports", "acme/reports/2026", "acme/reports/2026/may.md"];
        assert_eq!(everything(&world.files), expected, "nothing unfinished is left");
    })
    .await;
}

#[tokio::test]
async fn no_path_leads_out_of_the_tenant_s_folder() {
    every_world(async |world| {
        let expected = "expected a path such as `reports/may.md`";
        let long = "x".repeat(256);
        let deep = "a/".repeat(17) + "b";
        for (path, why) in [
            ("", "it is empty"),
            ("/etc/passwd", "it begins with `/`, and paths are relative to the tenant's folder"),
            ("../other/x", "the name `..` is not allowed in it"),
            ("a/../../x", "the name `..` is not allowed in it"),
            ("a/..", "the name `..` is not allowed in it"),
            ("./x", "the name `.` is not allowed in it"),
            ("a//x", "it has an empty name between two `/`"),
            ("a/", "it ends with `/`, so it names no file"),
            ("a\\..\\x", "it holds the character `\\\\`"),
            ("a\u{0}b", "it holds the character `\\u{0}`"),
            ("a\nb", "it holds the character `\\n`"),
            (".toolgate-1", "names that begin with `.toolgate-` are taken"),
            (long.as_str(), "one of its names has 256 bytes, the limit is 255"),
            (deep.as_str(), "it has 17 folders, the limit is 16"),
        ] {
            let message = format!("`path`: {why}; {expected}");
            world.refused("write_file", writing(path, "x"), ValidationError, "schema", &message).await;
            assert_eq!(plan(&world, writing(path, "x")).await.unwrap_err().message, message);
        }
        assert!(!world.files.exists(), "nothing was made");
    })
    .await;
}

#[tokio::test]
async fn no_symbolic_link_is_followed() {
    every_world(async |world| {
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        fs::write(&secret, "untouched").unwrap();
        world.check("write_file", writing("folder/file", "x"), written("folder/file", 1, false)).await;
        let own = world.files.join("acme");
        symlink(outside.path(), own.join("out")).unwrap();
        symlink(outside.path(), own.join("folder/out")).unwrap();
        symlink(&secret, own.join("link")).unwrap();
        symlink("nowhere", own.join("dangling")).unwrap();
        symlink("folder", own.join("within")).unwrap();

        for path in ["out/secret", "out/new", "folder/out/new", "within/file", "link/x", "link", "dangling", "out"] {
            for input in [writing(path, "changed"), replacing(path, "changed")] {
                let planned = plan(&world, input.clone()).await.unwrap_err();
                let refused = error(world.run(world.call("write_file", input)).await);
                assert_eq!((refused.code, refused.reason()), (SandboxError, "files"), "{path}: {}", refused.message);
                assert_eq!(planned, refused, "{path}");
            }
        }
        assert_eq!(fs::read_to_string(&secret).unwrap(), "untouched");
        assert_eq!(everything(outside.path()), ["secret"]);
        assert_eq!(fs::read_to_string(own.join("folder/file")).unwrap(), "x");

        // The folder of the tenant itself may be a link no more than those in it.
        fs::rename(&own, world.files.join("moved")).unwrap();
        symlink(outside.path(), &own).unwrap();
        let refused = error(world.run(world.call("write_file", writing("new", "x"))).await);
        assert_eq!((refused.code, refused.reason()), (SandboxError, "files"));
        assert_eq!(everything(outside.path()), ["secret"]);
    })
    .await;
}

#[tokio::test]
async fn a_hard_link_is_replaced_and_what_it_shared_is_not_changed() {
    every_world(async |world| {
        world.check("write_file", writing("first", "one"), written("first", 3, false)).await;
        let own = world.files.join("acme");
        fs::hard_link(own.join("first"), own.join("second")).unwrap();
        world.check("write_file", replacing("second", "two"), written("second", 3, true)).await;
        assert_eq!(fs::read_to_string(own.join("first")).unwrap(), "one");
        assert_eq!(fs::metadata(own.join("second")).unwrap().nlink(), 1);
    })
    .await;
}

#[tokio::test]
async fn what_is_no_file_is_left_alone() {
    every_world(async |world| {
        world.check("write_file", writing("folder/file", "x"), written("folder/file", 1, false)).await;
        let message = "`path`: `folder` is a folder; add the name of a file";
        world.refused("write_file", replacing("folder", "x"), ValidationError, "schema", message).await;
        let message = "`file` is no folder (or a link to one, and none is followed)";
        world.refused("write_file", writing("folder/file/x", "x"), SandboxError, "files", message).await;

        let most = "ä".repeat(512 * 1024);
        world.check("write_file", writing("most", &most), written("most", 1024 * 1024, false)).await;
        let message = "`text`: it has 1048577 bytes, the limit is 1048576; write several files";
        world.refused("write_file", writing("more", &(most + "x")), ValidationError, "too_large", message).await;

        let call = world.call("write_file", writing("cancelled", "x"));
        call.cancel.cancel();
        let cancelled = error(world.run(call).await);
        assert_eq!((cancelled.code, cancelled.reason()), (PolicyDenied, "cancelled"));
        assert!(!world.files.join("acme/cancelled").exists());
    })
    .await;
}

#[tokio::test]
async fn of_many_that_write_one_new_file_one_does() {
    every_world(async |world| {
        let calls = (0..16).map(|number| world.call("write_file", writing("one", &format!("{number:02}"))));
        let mut tasks = tokio::task::JoinSet::new();
        for call in calls {
            let runner = world.runner.clone();
            tasks.spawn(async move { runner.run(toolgate_engine::testing::permit(call)).await });
        }
        let outcomes = tasks.join_all().await;
        let done = outcomes.into_iter().filter(|outcome| matches!(outcome, toolgate_engine::Outcome::Done(_)));
        let done: Vec<Value> = done.map(output).collect();
        assert_eq!(done, [written("one", 2, false)]);
        assert_eq!(everything(&world.files), ["acme", "acme/one"]);
    })
    .await;
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_told() {
    every_world(async |world| {
        fs::write(world.files.parent().unwrap().join("blocked"), "a file").unwrap();
        let files = world.files.parent().unwrap().join("blocked/files");
        let runner = Builtin::new(Tools { files, ..world.tools.clone() });
        let call = world.call("write_file", writing("x", "x"));
        let refused = error(runner.run(toolgate_engine::testing::permit(call)).await);
        assert_eq!((refused.code, refused.reason()), (SandboxError, "disk"), "{}", refused.message);
    })
    .await;
}
