//! `read_file`, `list_files` and `delete_file`: what they tell and take, and everything that they leave alone.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};
use toolgate_contracts::ErrorCode::{PolicyDenied, SandboxError, ValidationError};
use toolgate_engine::{Outcome, Runner as _};

use crate::world::{World, error, every_world};

/// The tenant's folder with these files in it.
fn filled(world: &World, files: &[(&str, &[u8])]) -> PathBuf {
    let own = world.files.join("acme");
    fs::create_dir_all(&own).unwrap();
    for (path, bytes) in files {
        fs::create_dir_all(own.join(path).parent().unwrap()).unwrap();
        fs::write(own.join(path), bytes).unwrap();
    }
    own
}

fn paths(listed: &Value) -> Vec<&str> {
    listed["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn text_is_read_in_pieces_that_fit_together() {
    every_world(async |world| {
        filled(&world, &[("reports/may.md", "# Mai „ä“\n".as_bytes()), ("empty", b"")]);
        let whole = json!({"path": "reports/may.md", "bytes": 15, "offset": 0, "read": 15, "text": "# Mai „ä“\n"});
        world.check("read_file", json!({"path": "reports/may.md"}), whole).await;
        world
            .check(
                "read_file",
                json!({"path": "empty"}),
                json!({"path": "empty", "bytes": 0, "offset": 0, "read": 0, "text": ""}),
            )
            .await;
        let mut text = String::new();
        let mut offset = Some(0);
        while let Some(at) = offset {
            let input = json!({"path": "reports/may.md", "offset": at, "limit": 4});
            let piece = world.output("read_file", input).await;
            text += piece["text"].as_str().unwrap_or_else(|| panic!("{piece}"));
            offset = piece["next_offset"].as_u64();
        }
        assert_eq!(text, "# Mai „ä“\n");
        for (input, message) in [
            (
                json!({"path": "reports/may.md", "offset": 16}),
                "`offset`: 16 is beyond the end of `reports/may.md`, which has 15 bytes",
            ),
            (json!({"path": "empty", "limit": 0}), "`limit`: 0 is not between 1 and 1048576; read a file in pieces"),
            (
                json!({"path": "empty", "limit": 1_048_577}),
                "`limit`: 1048577 is not between 1 and 1048576; read a file in pieces",
            ),
            (
                json!({"path": "gone"}),
                "`path`: there is no `gone` in the tenant's folder; `list_files` tells what there is",
            ),
            (
                json!({"path": "no/where"}),
                "`path`: there is no `no/where` in the tenant's folder; `list_files` tells what there is",
            ),
            (json!({"path": "reports"}), "`path`: `reports` is a folder; `list_files` tells what is in it"),
        ] {
            world.refused("read_file", input, ValidationError, "schema", message).await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_no_text_is_attached() {
    every_world(async |world| {
        let large: Vec<u8> = (0..20_000_u32).map(|n| n.to_le_bytes()[0] | 0x80).collect();
        filled(&world, &[("a.png", b"\x89PNG\r\n\x1a\nxyz"), ("large", &large), ("latin", b"caf\xe9"), ("nul", b"a\0b")]);
        let run = async |path: &str| match world.run(world.call("read_file", json!({"path": path}))).await {
            Outcome::Done(done) => (done.result.structured.unwrap(), done.attachments),
            other => panic!("{other:?}"),
        };
        let (output, attached) = run("a.png").await;
        let expected = json!({
            "path": "a.png", "bytes": 11, "offset": 0, "read": 11, "base64": "iVBORw0KGgp4eXo=", "content_type": "image/png",
        });
        assert_eq!(output, expected);
        assert_eq!((attached[0].content_type.as_str(), attached[0].bytes.len()), ("image/png", 11));
        let (output, attached) = run("large").await;
        assert_eq!((&output["base64"], &output["content_type"]), (&Value::Null, &json!("application/octet-stream")));
        assert_eq!(attached[0].bytes, large);
        for path in ["latin", "nul"] {
            assert_eq!(run(path).await.0["content_type"], "application/octet-stream", "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn folders_are_listed_to_a_depth_with_what_names_hide() {
    every_world(async |world| {
        let nothing = json!({"path": ".", "entries": [], "truncated": false});
        world.check("list_files", json!({}), nothing).await;
        let message = "`path`: there is no `a` in the tenant's folder; `list_files` tells what there is";
        world.refused("list_files", json!({"path": "a"}), ValidationError, "schema", message).await;

        let own = filled(
            &world,
            &[
                ("b.txt", b"12345"),
                ("a/c/d", b"1"),
                ("a/e", b""),
                ("inv\u{202e}fdp.exe", b""),
                (".toolgate-00", b"half"),
            ],
        );
        fs::write(own.join(std::ffi::OsStr::new("x")), "").unwrap();
        symlink("/etc", own.join("link")).unwrap();
        let listed = world.output("list_files", json!({})).await;
        assert_eq!(paths(&listed), ["a", "b.txt", "inv\u{202e}fdp.exe", "link", "x"]);
        let entry = |name: &str| {
            listed["entries"].as_array().unwrap().iter().find(|entry| entry["path"] == name).unwrap().clone()
        };
        assert_eq!((&entry("b.txt")["kind"], &entry("b.txt")["bytes"]), (&json!("file"), &json!(5)));
        assert_eq!((&entry("a")["kind"], &entry("link")["kind"]), (&json!("folder"), &json!("link")));
        let note = "the name holds characters that cannot be seen: inv\\u{202e}fdp.exe";
        assert_eq!(entry("inv\u{202e}fdp.exe")["note"], note);

        let deep = world.output("list_files", json!({"depth": 3})).await;
        assert_eq!(paths(&deep), ["a", "a/c", "a/c/d", "a/e", "b.txt", "inv\u{202e}fdp.exe", "link", "x"]);
        let below = world.output("list_files", json!({"path": "a", "depth": 1})).await;
        assert_eq!(paths(&below), ["a/c", "a/e"]);
        let cut = world.output("list_files", json!({"limit": 2})).await;
        assert_eq!((paths(&cut).len(), &cut["truncated"]), (2, &json!(true)));
        for (input, message) in [
            (json!({"depth": 17}), "`depth`: 17 is not between 1 and 16"),
            (json!({"limit": 0}), "`limit`: 0 is not between 1 and 1000; list a folder below"),
        ] {
            world.refused("list_files", input, ValidationError, "schema", message).await;
        }
        let message = "`link` is no folder (or a link to one, and none is followed)";
        world.refused("list_files", json!({"path": "link"}), SandboxError, "files", message).await;
    })
    .await;
}

#[tokio::test]
async fn what_is_deleted_is_told_before_and_after() {
    every_world(async |world| {
        let own = filled(&world, &[("a/b/one", b"12345"), ("a/two", b"1"), ("keep", b"x")]);
        let plan = async |input: Value| world.runner.plan(&world.call("delete_file", input)).await;
        assert_eq!(
            plan(json!({"path": "a", "recursive": true})).await.unwrap(),
            json!({"would_run": true, "path": "a", "kind": "folder", "files": 2, "folders": 2, "bytes": 6, "named": ["b", "b/one", "two"]})
        );
        let message =
            "`path`: `a` is a folder that is not empty; delete what is in it first, or set `recursive` to true";
        assert_eq!(plan(json!({"path": "a"})).await.unwrap_err().message, message);
        world.refused("delete_file", json!({"path": "a"}), ValidationError, "schema", message).await;
        assert!(own.join("a/b/one").exists(), "a plan and a refusal delete nothing");

        let file = json!({"path": "a/two", "kind": "file", "files": 1, "folders": 0, "bytes": 1});
        world.check("delete_file", json!({"path": "a/two"}), file).await;
        let folder = json!({"path": "a", "kind": "folder", "files": 1, "folders": 2, "bytes": 5});
        world.check("delete_file", json!({"path": "a", "recursive": true}), folder).await;
        assert!(!own.join("a").exists() && own.join("keep").exists());
        fs::create_dir(own.join("hollow")).unwrap();
        let hollow = json!({"path": "hollow", "kind": "folder", "files": 0, "folders": 1, "bytes": 0});
        world.check("delete_file", json!({"path": "hollow"}), hollow).await;
        let message = "`path`: there is no `a` in the tenant's folder; `list_files` tells what there is";
        world.refused("delete_file", json!({"path": "a"}), ValidationError, "schema", message).await;

        let call = world.call("delete_file", json!({"path": "keep"}));
        call.cancel.cancel();
        let cancelled = error(world.run(call).await);
        assert_eq!((cancelled.code, cancelled.reason()), (PolicyDenied, "cancelled"));
        assert!(own.join("keep").exists());
    })
    .await;
}

#[tokio::test]
async fn no_path_and_no_link_leads_out_of_the_tenant_s_folder() {
    every_world(async |world| {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "untouched").unwrap();
        let own = filled(&world, &[("folder/file", b"x")]);
        fs::create_dir_all(world.files.join("other")).unwrap();
        fs::write(world.files.join("other/theirs"), "x").unwrap();
        symlink(outside.path(), own.join("out")).unwrap();
        symlink(outside.path(), own.join("folder/out")).unwrap();
        symlink(outside.path().join("secret"), own.join("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, own.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
        for path in [
            "..",
            "../other/theirs",
            "a/../../x",
            "/etc/passwd",
            "./x",
            "a//b",
            "a\\..\\x",
            "a\u{0}b",
            "a\nb",
            "%2e%2e/%00",
            "",
            "out/secret",
            "folder/out/secret",
            "link",
            "link/x",
            "out",
            "pipe",
            ".toolgate-00",
            "..%2fother%2ftheirs",
            "．．/other",
        ] {
            for (tool, input) in [
                ("read_file", json!({"path": path})),
                ("list_files", json!({"path": path})),
                ("delete_file", json!({"path": path, "recursive": true})),
            ] {
                let refused = error(world.run(world.call(tool, input)).await);
                assert!(matches!(refused.code, ValidationError | SandboxError), "{tool} {path:?}: {refused:?}");
                assert!(!refused.message.contains("untouched"), "{refused:?}");
            }
        }
        // A folder that holds what is left alone stays whole.
        let refused = error(world.run(world.call("delete_file", json!({"path": "folder", "recursive": true}))).await);
        assert_eq!(refused.message, "`folder/out` is no ordinary file, so the folder is left alone");
        assert!(own.join("folder/file").exists() && own.join("pipe").exists() && own.join("link").is_symlink());
        assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "untouched");
        assert_eq!(fs::read_to_string(world.files.join("other/theirs")).unwrap(), "x");
    })
    .await;
}
