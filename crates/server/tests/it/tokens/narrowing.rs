//! A child is never wider than its parent (test 4 of `security.md` §11).

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use toolgate_contracts::TokenId;

use super::shown;
use crate::world::{As, every_world, send, with_settings};

/// What a token would allow, as the API answers: each of these calls is tried without effect.
async fn admitted(router: &axum::Router, who: &As) -> Vec<bool> {
    let mut admitted = Vec::new();
    for tool in ["echo", "calculator", "now"] {
        let inputs = [
            json!({}),
            json!({"text": "a"}),
            json!({"text": "b"}),
            json!({"expression": "1+1"}),
            json!({"expression": "2*3"}),
        ];
        for input in inputs {
            let body = json!({"tool": tool, "input": input, "mode": "dry_run"});
            let answer = send(router.clone(), who, "POST", "/api/v1/calls", body).await;
            admitted.push(answer.status == 200 && answer.body["status"] == "completed");
        }
    }
    admitted
}

fn any_request() -> impl Strategy<Value = Value> {
    let scopes = ["tool:*", "tool:echo", "tool:calculator@^1", "tool:calculator@>=2", "tool:now", "tool:echo@=1.0.0"];
    let constraints = [
        json!({"tool": "calculator", "pointer": "/expression", "const": "1+1"}),
        json!({"tool": "calculator", "pointer": "/expression", "enum": ["1+1", "2*3"]}),
        json!({"pointer": "/expression", "prefix": "2"}),
        json!({"tool": "echo", "pointer": "/text", "enum": ["b", "c"]}),
        json!({"tool": "now", "pointer": "/zone", "const": "UTC"}),
    ];
    (
        prop::sample::subsequence(scopes.to_vec(), 1..=3),
        prop::sample::subsequence(constraints.to_vec(), 0..=2),
        prop::option::of(0..4_u32),
        prop::option::of(0..4_u32),
        prop::option::of(1..=900_u32),
        prop::option::of(prop::sample::subsequence(vec!["untrusted", "private", "sensitive"], 0..=3)),
    )
        .prop_map(|(scope, constraints, max_calls, budget, expires_s, labels)| {
            let mut wanted = json!({"scope": scope, "constraints": constraints});
            let mut set = |member: &str, value: Option<Value>| {
                if let Some(value) = value {
                    wanted[member] = value;
                }
            };
            set("max_calls", max_calls.map(Into::into));
            set("budget", budget.map(|units| json!(units.to_string())));
            set("expires_s", expires_s.map(Into::into));
            set("labels_max", labels.map(|labels| json!(labels)));
            wanted
        })
}

#[test]
fn test_4_no_child_is_wider_than_its_parent() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    let (app, _folder) = runtime.block_on(with_settings(&[]));
    let router = app.router();
    let mint = async |who: &As, body: &Value| send(router.clone(), who, "POST", "/api/v1/tokens", body.clone()).await;
    runtime.block_on(async {
        let all = mint(&As::Owner, &json!({"scope": ["tool:*"]})).await.ok();
        assert!(
            admitted(&router, &shown(&all)).await.iter().filter(|may| **may).count() >= 5,
            "there is something to narrow"
        );
    });
    let mut runner = TestRunner::new(ProptestConfig { cases: 24, ..ProptestConfig::default() });
    runner
        .run(&prop::collection::vec(any_request(), 2..5), |requests| {
            runtime.block_on(async {
                // A constraint on what none of its tools takes is refused.
                let first = mint(&As::Owner, &requests[0]).await;
                prop_assume!(first.status != 400);
                let mut parent = first.ok();
                for request in &requests[1..] {
                    let child = mint(&shown(&parent), request).await;
                    if [400, 403].contains(&child.status) {
                        continue;
                    }
                    let child = child.ok();
                    let pairs = admitted(&router, &shown(&child)).await.into_iter();
                    for (child_may, parent_may) in pairs.zip(admitted(&router, &shown(&parent)).await) {
                        prop_assert!(!child_may || parent_may, "{child:#}\nis wider than\n{parent:#}");
                    }
                    let no_more = |member: &str| match (&child[member], &parent[member]) {
                        (_, Value::Null) => true,
                        (Value::Number(has), Value::Number(most)) => has.as_u64() <= most.as_u64(),
                        (Value::String(has), Value::String(most)) => {
                            has.parse::<f64>().unwrap() <= most.parse::<f64>().unwrap()
                        }
                        _ => false,
                    };
                    prop_assert!(no_more("max_calls") && no_more("budget"), "{child:#}\n{parent:#}");
                    let at = |token: &Value| token["expires_at"].as_str().unwrap().to_owned();
                    prop_assert!(at(&child) <= at(&parent));
                    prop_assert_eq!(child["depth"].as_u64(), parent["depth"].as_u64().map(|depth| depth + 1));
                    prop_assert_eq!(&child["principal"], &parent["principal"]);
                    let listed = |token: &Value| token["constraints"].as_array().unwrap().clone();
                    prop_assert!(
                        listed(&parent).iter().all(|one| listed(&child).contains(one)),
                        "constraints only grow"
                    );
                    parent = child;
                }
                Ok(())
            })
        })
        .unwrap();
    runtime.block_on(app.close());
}

#[tokio::test]
async fn test_4_narrowing_is_for_holders_and_ends_at_its_depth() {
    every_world(async |world| {
        let root = world.mint(&As::Owner, json!({"scope": ["tool:echo"], "max_calls": 3})).await;
        let refused = |body: Value| {
            let world = &world;
            let root = shown(&root);
            async move { world.send(&root, "POST", "/api/v1/tokens", body).await }
        };
        let wider = [
            (json!({"scope": ["tool:calculator"]}), "/scope"),
            (json!({"scope": ["tool:echo"], "max_calls": 4}), "/max_calls"),
            (json!({"scope": ["tool:echo"], "expires_s": 901}), "/expires_s"),
            (json!({"scope": ["tool:echo"], "parent": TokenId::new(&world.clock, &world.app.rng)}), "/parent"),
            (json!({"scope": ["tool:echo"], "agent": "nobody"}), "/agent"),
            (json!({"scope": ["echo"]}), "/scope/0"),
            (json!({"scope": []}), "/scope"),
        ];
        for (body, pointer) in wider {
            let answer = refused(body.clone()).await;
            assert!((400..500).contains(&answer.status), "{body}");
            assert_eq!(answer.body["pointer"], pointer, "{:#}", answer.body);
        }
        let by_owner = json!({"scope": ["tool:echo"], "parent": root["id"]});
        world.send(&As::Owner, "POST", "/api/v1/tokens", by_owner).await.refused(403);
        let mut last = root;
        for depth in 1..=8 {
            last = world.mint(&shown(&last), json!({"scope": ["tool:*"], "parent": last["id"]})).await;
            assert_eq!((&last["depth"], &last["scope"]), (&json!(depth), &json!(["tool:echo"])));
        }
        world.send(&shown(&last), "POST", "/api/v1/tokens", json!({"scope": ["tool:*"]})).await.refused(403);
        // The whole chain counts.
        for left in [true, true, true, false] {
            let answer = world.call(&shown(&last), "echo", json!({"text": "t"})).await.ok();
            assert_eq!(answer["status"], if left { "completed" } else { "failed" }, "{answer:#}");
        }
    })
    .await;
}
