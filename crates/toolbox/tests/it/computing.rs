//! `json_query`, and what `run_python` says before any sandbox is asked; the sandbox itself is `crates/runners`' to try.

use serde_json::{Value, json};
use toolgate_contracts::ErrorCode::{SandboxError, ValidationError};
use toolgate_engine::Runner as _;

use crate::world::{error, every_world};

#[tokio::test]
async fn json_is_picked_filtered_and_counted() {
    every_world(async |world| {
        let items = json!({"items": [{"name": "shoe", "price": 80}, {"name": "lace", "price": 2, "tags": ["new"]}], "total": 2});
        for (expression, expected) in [
            ("data.items.filter(i, i.price > 10).map(i, i.name)", json!(["shoe"])),
            ("data.items[1].name", json!("lace")),
            ("size(data.items) == data.total", json!(true)),
            ("data.items.filter(i, has(i.tags) && 'new' in i.tags).map(i, {'n': i.name, 'p': double(i.price) * 1.5})", json!([{"n": "lace", "p": 3.0}])),
            ("data.items.exists(i, i.name.matches('^sh'))", json!(true)),
        ] {
            world.check("json_query", json!({"data": items, "expression": expression}), json!({"result": expected})).await;
            let text = json!({"data": items.to_string(), "expression": expression});
            world.check("json_query", text, json!({"result": expected})).await;
        }
        world.check("json_query", json!({"data": "plain", "expression": "size(data)"}), json!({"result": 5})).await;
    })
    .await;
}

#[tokio::test]
async fn an_expression_is_bounded_and_says_what_is_wrong_with_it() {
    every_world(async |world| {
        let data: Value = (0..2000).collect();
        let cubed = "data.map(a, data.map(b, data.map(c, a + b + c)))";
        let spent = error(world.run(world.call("json_query", json!({"data": data, "expression": cubed}))).await);
        assert_eq!((spent.code, spent.reason()), (SandboxError, "memory"), "{}", spent.message);
        let long = format!("data{}", " + data".repeat(1000));
        for (input, part) in [
            (json!({"data": {}, "expression": "data.a"}), "what may be absent is asked for with `has(data.member)`"),
            (json!({"data": {}, "expression": "data.("}), "it is CEL over `data`"),
            (json!({"data": {}, "expression": ".items[] | .name"}), "it is CEL over `data`"),
            (json!({"data": 1, "expression": long}), "4096 at most are read"),
            (json!({"data": "{\"a\": 1, \"a\": 2}", "expression": "1"}), "a text that begins like JSON and is none"),
        ] {
            let refused = error(world.run(world.call("json_query", input.clone())).await);
            assert_eq!((refused.code, refused.reason()), (ValidationError, "schema"), "{input}: {}", refused.message);
            assert!(refused.message.contains(part), "{input}: {}", refused.message);
        }
    })
    .await;
}

#[tokio::test]
async fn python_without_a_sandbox_is_refused() {
    every_world(async |world| {
        for (input, message) in [
            (json!({"code": " "}), "`code`: it has 1 bytes; expected 1 to 262144"),
            (json!({"code": "x".repeat(262_145)}), "`code`: it has 262145 bytes; expected 1 to 262144"),
            (json!({"code": "1", "timeout_s": 61}), "`timeout_s`: 61 is not between 1 and 60"),
            (json!({"code": "1", "timeout_s": 0}), "`timeout_s`: 0 is not between 1 and 60"),
        ] {
            world.refused("run_python", input, ValidationError, "schema", message).await;
        }
        let message = "this server has no sandbox for Python; the operator reads why with `toolgate doctor`";
        world.refused("run_python", json!({"code": "result = 1"}), SandboxError, "tier_unavailable", message).await;
        let definition = world.tool("run_python").definition;
        assert_eq!(world.runner.ready(&definition).await.unwrap_err().message, message);
    })
    .await;
}
