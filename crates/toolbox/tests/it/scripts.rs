//! `monorepo_cli.run_script`: seed 002's form of a script, by the operator's entries.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_contracts::Entries;
use toolgate_contracts::ErrorCode::{PolicyDenied, SandboxError, ValidationError};
use toolgate_engine::{Outcome, Runner as _, testing};
use toolgate_runners::{Scripts, Spawner};
use toolgate_toolbox::{Builtin, Tools};

use crate::world::{World, error, every_world, output};

const TOOL: &str = "monorepo_cli.run_script";

/// The entries of seed 002's examples.
fn with_scripts(world: &World, folder: &tempfile::TempDir) -> Builtin {
    fs::create_dir_all(folder.path().join("apps/forge-lite")).unwrap();
    let entries: Entries = serde_json::from_value(json!({"scripts": {
        "forge:benchmark": {
            "about": "Measures one target.",
            "command": ["printf", "%s ran"],
            "arguments": ["--target=[a-z]+"],
            "folder": folder.path(),
            "tenants": ["acme"],
        },
        "pnpm:build": {"command": ["/bin/pwd", "-P"], "folder": folder.path(), "tenants": ["acme"]},
        "secret": {"command": ["true"], "folder": folder.path(), "tenants": ["other"]},
    }}))
    .unwrap();
    let scripts = Scripts::new(&entries, Spawner::new().unwrap());
    Builtin::new(Tools { entries: Arc::new(entries), ..world.tools.clone() }.with_scripts(scripts))
}

async fn run(world: &World, runner: &Builtin, input: Value) -> Outcome {
    runner.run(testing::permit(world.call(TOOL, input))).await
}

#[tokio::test]
async fn both_spellings_of_a_script_s_name_run_it() {
    every_world(async |world| {
        let folder = tempfile::tempdir().unwrap();
        let runner = with_scripts(&world, &folder);
        for input in [
            json!({"script_name": "forge:benchmark", "args": ["--target=core"]}),
            json!({"name": "forge:benchmark", "args": ["--target=core"]}),
            json!({"script_name": "forge:benchmark", "name": "forge:benchmark", "args": ["--target=core"]}),
        ] {
            let mut output = output(run(&world, &runner, input).await);
            assert!(output["duration_ms"].take().is_u64());
            let expected = json!({"exit_code": 0, "stdout": "--target=core ran", "stderr": "", "duration_ms": null});
            assert_eq!(output, expected);
        }
        let built =
            output(run(&world, &runner, json!({"script_name": "pnpm:build", "working_dir": "apps/forge-lite"})).await);
        assert!(built["stdout"].as_str().unwrap().ends_with("/apps/forge-lite\n"), "{built}");

        let plan = runner.plan(&world.call(TOOL, json!({"name": "forge:benchmark", "args": ["--target=x"]}))).await;
        assert_eq!(plan.unwrap()["command"], json!(["/usr/bin/printf", "%s ran", "--target=x"]));
    })
    .await;
}

#[tokio::test]
async fn a_script_that_is_not_listed_for_the_tenant_is_denied() {
    every_world(async |world| {
        let folder = tempfile::tempdir().unwrap();
        let runner = with_scripts(&world, &folder);
        for name in ["rm", "secret", "forge:benchmark ", "../secret", "", "forge:Benchmark"] {
            let refused = error(run(&world, &runner, json!({"script_name": name})).await);
            assert_eq!((refused.code, refused.reason()), (PolicyDenied, "not_found"), "{name}");
            let expected = format!("there is no script `{name}`; there are `forge:benchmark`, `pnpm:build`");
            assert_eq!(refused.message, expected);
        }
        for (input, message) in [
            (json!({}), "`script_name`: it is missing; say which script to run"),
            (
                json!({"script_name": "a", "name": "b"}),
                "`name`: it is another name for `script_name`, and says something else; leave it out",
            ),
        ] {
            let refused = error(run(&world, &runner, input).await);
            assert_eq!((refused.code, refused.message.as_str()), (ValidationError, message));
        }
        let refused = error(run(&world, &runner, json!({"script_name": "forge:benchmark", "args": ["-x"]})).await);
        assert_eq!((refused.code, refused.reason()), (PolicyDenied, "constraint"));

        runner.ready(&world.tool(TOOL).definition).await.unwrap();
        let refused = world.runner.ready(&world.tool(TOOL).definition).await.unwrap_err();
        assert_eq!((refused.code, refused.reason()), (SandboxError, "tier_unavailable"));
    })
    .await;
}
