//! Capability tokens in the path: what they narrow, what is counted exactly, and what outlives their time.

use serde_json::{Value, json};
use toolgate_contracts::{
    Amount, CallRequest, Caller, ErrorCode, Fault, FaultKind, Id, Permission, Role, Status, TokenId, json as strict,
};
use toolgate_engine::tokens::{Minted, NewToken};
use toolgate_policy::token::MintRequest;

use crate::world::{World, error, every_world, request, statuses};

impl World {
    async fn try_mint(&self, by: &Caller, wanted: Value, agent: Option<&str>) -> Result<Minted, Fault> {
        let wanted: MintRequest = strict::decode(wanted).unwrap();
        let new = NewToken { wanted, agent: agent.map(str::to_owned), parent: None };
        self.engine.mint_token(by, new, "https://gate.test").await
    }

    /// Whoever holds a token that this caller mints.
    pub async fn holder(&self, by: &Caller, wanted: Value) -> Caller {
        let minted = self.try_mint(by, wanted, None).await.unwrap();
        self.shown(minted.row.id).await.unwrap()
    }

    async fn shown(&self, token: TokenId) -> Result<Caller, Fault> {
        self.engine.caller_by_token(self.tenant, token).await
    }

    async fn used(&self, token: TokenId) -> u32 {
        self.store.token(self.tenant, token).await.unwrap().unwrap().calls_used
    }
}

fn id_of(holder: &Caller) -> TokenId {
    holder.token.as_ref().unwrap().id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_at_once_make_exactly_as_many_as_the_token_allows() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        for tool in ["script", "note"] {
            let token = world.holder(&ada, json!({"scope": ["tool:*"], "max_calls": 100})).await;
            let asked = request(tool, json!({"key": format!("alone {tool}")}), |_| {});
            let answers = world.at_once(&token, 1000, &asked).await;
            let expected = [("completed".to_owned(), 100), ("failed max_calls".to_owned(), 900)];
            assert_eq!(statuses(&answers), expected.into(), "{tool}");
            assert_eq!(world.runner.runs(&format!("alone {tool}")), 100);
            assert_eq!(world.used(id_of(&token)).await, 100);
            let refused = answers.iter().flatten().find(|answer| answer.status == Status::Failed).unwrap();
            assert_eq!(error(refused), (ErrorCode::PolicyDenied, "max_calls"));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_count_against_their_parent_exactly() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let parent = world.holder(&ada, json!({"scope": ["tool:*"], "max_calls": 100})).await;
        let few = world.holder(&parent, json!({"scope": ["tool:script"], "max_calls": 10})).await;
        let many = world.holder(&parent, json!({"scope": ["tool:script"]})).await;
        let below = world.holder(&many, json!({"scope": ["tool:script"]})).await;
        let asked = request("script", json!({"key": "family"}), |_| {});
        let (a, b, c, d) = tokio::join!(
            world.at_once(&parent, 100, &asked),
            world.at_once(&few, 100, &asked),
            world.at_once(&many, 100, &asked),
            world.at_once(&below, 100, &asked),
        );
        let all: Vec<_> = [a, b.clone(), c, d].concat();
        assert_eq!(statuses(&all)["completed"], 100, "{:?}", statuses(&all));
        assert_eq!(world.runner.runs("family"), 100);
        assert_eq!(world.used(id_of(&parent)).await, 100);
        assert!(statuses(&b).get("completed").is_none_or(|count| *count <= 10), "{:?}", statuses(&b));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_holds_over_a_token_and_its_children_to_the_cent() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let parent = world.holder(&ada, json!({"scope": ["tool:*"], "budget": "1"})).await;
        let child = world.holder(&parent, json!({"scope": ["tool:*"], "budget": "0.3"})).await;
        let other = world.holder(&parent, json!({"scope": ["tool:*"]})).await;
        let dear = request("priced", json!({}), |_| {});
        let note = request("priced_note", json!({}), |_| {});
        let (a, b, c) = tokio::join!(
            world.at_once(&parent, 150, &dear),
            world.at_once(&child, 150, &note),
            world.at_once(&other, 150, &dear),
        );
        let all: Vec<_> = [a, b.clone(), c].concat();
        assert_eq!(statuses(&all)["completed"], 100, "{:?}", statuses(&all));
        assert_eq!(statuses(&all)["failed budget"], 350, "{:?}", statuses(&all));
        assert!(statuses(&b).get("completed").is_none_or(|count| *count <= 30), "{:?}", statuses(&b));
        let balance = world.store.balance(world.tenant, &format!("token:{}", id_of(&parent))).await.unwrap();
        assert_eq!((balance.spent, balance.reserved), ("1".parse().unwrap(), Amount::default()));
    })
    .await;
}

#[tokio::test]
async fn a_token_narrows_tools_arguments_runs_and_labels() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let run = world.run(&ada, json!({})).await;
        let token = world
            .holder(
                &ada,
                json!({"scope": ["tool:strict@^1", "tool:script"], "constraints": [
                    {"tool": "strict", "pointer": "/n", "max": 5},
                    // Defaults are there when it is asked.
                    {"tool": "strict", "pointer": "/unit", "const": "m"},
                ]}),
            )
            .await;
        let strict = |n: u32| json!({"n": n, "value": {"n": n}});
        assert_eq!(world.call_as(&token, "strict", strict(5)).await.status, Status::Completed);
        let refused = world.call_as(&token, "strict", strict(6)).await;
        assert_eq!(error(&refused), (ErrorCode::PolicyDenied, "constraint"));
        let refused = world.call_as(&token, "strict", json!({"n": 1, "unit": "km"})).await;
        assert_eq!(error(&refused), (ErrorCode::PolicyDenied, "constraint"));
        for unknown in ["reads", "strict@2.0.0", "nothing"] {
            let fault = world.send(&token, CallRequest::new(unknown, json!({}))).await.unwrap_err();
            assert_eq!(fault.kind(), FaultKind::NotFound, "{unknown}");
        }
        // Version 2 comes: the name alone means it, and the token does not cover it.
        world.publish("strict", json!({"version": "2.0.0"})).await;
        let fault = world.send(&token, CallRequest::new("strict", strict(1))).await.unwrap_err();
        assert_eq!(fault.kind(), FaultKind::NotFound);
        assert_eq!(world.call_as(&token, "strict@1.0.0", strict(1)).await.status, Status::Completed);

        let of_run = world.holder(&ada, json!({"scope": ["tool:*"], "run": run.id})).await;
        let other = world.run(&ada, json!({})).await;
        let envelope = world.call_as(&of_run, "script", json!({})).await;
        assert_eq!((envelope.status, envelope.run_id), (Status::Completed, run.id), "its run where none is named");
        let elsewhere = request("script", json!({}), |call| call.run_id = Some(other.id));
        assert_eq!(error(&world.send(&of_run, elsewhere).await.unwrap()), (ErrorCode::PolicyDenied, "scope"));
        let strangers = world.person("eve", &[Role::Member]).await;
        let fault = world.try_mint(&strangers, json!({"scope": ["tool:*"], "run": run.id}), None).await.unwrap_err();
        assert_eq!((fault.kind(), fault.pointer()), (FaultKind::NotFound, Some("/run")));

        let clean = world.holder(&ada, json!({"scope": ["tool:*"], "labels_max": ["untrusted"]})).await;
        let private = request("script", json!({}), |call| {
            call.labels = strict::decode(json!(["private"])).unwrap();
        });
        assert_eq!(error(&world.send(&clean, private).await.unwrap()), (ErrorCode::PolicyDenied, "label"));
    })
    .await;
}

#[tokio::test]
async fn minting_washes_no_label_off() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let (agent, _) = world.agent_of(&ada, "helper", json!({})).await;
        world.call_as(&ada, "cached", json!({})).await;
        let asked = world.call_as(&ada, "script", json!({})).await;
        assert!(!asked.labels.is_empty(), "the key has seen untrusted content");
        let own = world.holder(&ada, json!({"scope": ["tool:*"]})).await;
        assert_eq!(world.call_as(&own, "script", json!({})).await.labels, asked.labels, "the same context");
        let manager = world.owner();
        world.call_as(&manager, "cached", json!({})).await;
        let minted = world.try_mint(&manager, json!({"scope": ["tool:*"]}), Some("helper")).await.unwrap();
        let acting = world.shown(minted.row.id).await.unwrap();
        assert_eq!(acting.agent, Some(agent.id));
        assert_eq!(world.call_as(&acting, "script", json!({})).await.labels, asked.labels, "lent with the token");
    })
    .await;
}

#[tokio::test]
async fn a_token_has_the_rights_that_its_principal_and_its_key_have_now() {
    every_world(async |world| {
        let admin = world.person("ada", &[Role::Admin]).await;
        let token = world.holder(&admin, json!({"scope": ["tool:*"]})).await;
        for permission in Permission::ALL {
            let carried =
                [Permission::TOOLS_READ, Permission::CALLS_CREATE, Permission::CALLS_READ_OWN, Permission::TOKENS_MINT];
            assert_eq!(token.may(permission), carried.contains(permission), "{permission}");
        }
        // A tool's own word is the person's to have or not.
        let owner = world.holder(&world.owner(), json!({"scope": ["tool:*"]})).await;
        assert_eq!(world.call_as(&owner, "for_team", json!({})).await.status, Status::Completed);
        let fault = world.send(&token, CallRequest::new("for_team", json!({}))).await.unwrap_err();
        assert_eq!(fault.kind(), FaultKind::NotFound);

        // It reads what was done as the very same, and manages nobody.
        let (agent, as_agent) = world.agent_of(&admin, "helper", json!({})).await;
        let of_agent = world.call_as(&as_agent, "script", json!({})).await;
        let own = world.call_as(&admin, "script", json!({})).await;
        let stranger = world.person("eve", &[Role::Member]).await;
        let others = world.call_as(&stranger, "script", json!({})).await;
        assert!(world.engine.readable(&token, &own.id.to_string()).await.is_ok());
        for hidden in [&of_agent, &others] {
            assert!(world.engine.readable(&token, &hidden.id.to_string()).await.is_err());
        }
        let listed =
            world.engine.list_calls(&token, &toolgate_store::calls::CallFilter::default(), None, 100).await.unwrap();
        assert_eq!(listed.items.iter().map(|call| call.id).collect::<Vec<_>>(), [own.id]);
        let posing = request("script", json!({}), |call| call.agent_id = Some(agent.id.to_string()));
        assert_eq!(world.send(&token, posing).await.unwrap_err().kind(), FaultKind::NotFound);
        let run = world.run(&as_agent, json!({})).await;
        let posing = request("script", json!({}), |call| call.run_id = Some(run.id));
        assert_eq!(world.send(&token, posing).await.unwrap_err().kind(), FaultKind::NotFound);

        // A key that goes takes its tokens along.
        let toolgate_contracts::caller::Credential::ApiKey(key) = admin.credential else { unreachable!() };
        let mut change = toolgate_store::Change::new(world.tenant);
        change.revoke_key(key, world.clock.now());
        world.store.commit(change).await.unwrap();
        assert_eq!(world.shown(id_of(&token)).await.unwrap_err().kind(), FaultKind::Unauthenticated);
    })
    .await;
}

#[tokio::test]
async fn test_5_nothing_runs_with_a_token_whose_chain_was_revoked() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        for revoked in 0..3 {
            let grandparent = world.holder(&ada, json!({"scope": ["tool:*"]})).await;
            let parent = world.holder(&grandparent, json!({"scope": ["tool:*"]})).await;
            let token = world.holder(&parent, json!({"scope": ["tool:*"]})).await;
            let counted = world.holder(&parent, json!({"scope": ["tool:*"], "max_calls": 5})).await;
            assert_eq!(world.call_as(&token, "note", json!({})).await.status, Status::Completed);
            let family = [&token, &parent, &grandparent].map(id_of);
            let replica = world.replica().await;
            world.engine.revoke_token(&ada, &family[revoked].to_string()).await.unwrap();
            // Whoever was let in a moment ago, here or elsewhere, runs nothing that changes or counts.
            for world in [&world, &replica] {
                let refused = world.call_as(&token, "note", json!({"key": "revoked"})).await;
                assert_eq!(error(&refused), (ErrorCode::AuthRequired, "token_revoked"), "{revoked}");
                assert!(world.shown(family[0]).await.is_err());
                if revoked > 0 {
                    let refused = world.call_as(&counted, "script", json!({"key": "revoked"})).await;
                    assert_eq!(error(&refused), (ErrorCode::AuthRequired, "token_revoked"), "{revoked}");
                }
                let child = world.try_mint(&token, json!({"scope": ["tool:*"]}), None).await.unwrap_err();
                assert_eq!(child.kind(), FaultKind::Unauthenticated);
            }
            assert_eq!(world.runner.runs("revoked"), 0);
        }
        let unknown = world.shown(Id::new(&world.clock, &world.rng)).await.unwrap_err();
        let revoked = world.holder(&ada, json!({"scope": ["tool:*"]})).await;
        world.engine.revoke_token(&ada, &id_of(&revoked).to_string()).await.unwrap();
        let known = world.shown(id_of(&revoked)).await.unwrap_err();
        assert_eq!(unknown.problem(), known.problem(), "test 48");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_outlives_its_tokens_time_and_nothing_else() {
    every_world(async |world| {
        let (ada, ben) = world.two().await;
        let wanted = || json!({"scope": ["tool:asking", "tool:writes"], "max_calls": 1});
        let token = world.holder(&ada, wanted()).await;
        let waits = world.park(&token, "writes", json!({"key": "late"})).await;
        assert_eq!(world.used(id_of(&token)).await, 0, "what waits is counted when it runs");
        world.clock.advance(3600);
        world.approve(&ben, waits).await.unwrap();
        assert_eq!(world.ended(waits).await.status, Status::Completed);
        assert_eq!((world.runner.runs("late"), world.used(id_of(&token)).await), (1, 1));

        // Its calls are used up, it was revoked, or the one above it was.
        let spent = world.park(&token, "writes", json!({"key": "never"})).await;
        world.approve(&ben, spent).await.unwrap();
        let refused = world.ended(spent).await;
        assert_eq!((refused.status, refused.error.unwrap().reason()), (Status::Rejected, "max_calls"));
        for above in [false, true] {
            let parent = world.holder(&ada, wanted()).await;
            let child = world.holder(&parent, wanted()).await;
            let waits = world.park(&child, "writes", json!({"key": "never"})).await;
            let goes = if above { id_of(&parent) } else { id_of(&child) };
            world.engine.revoke_token(&ada, &goes.to_string()).await.unwrap();
            world.approve(&ben, waits).await.unwrap();
            let refused = world.ended(waits).await;
            assert_eq!((refused.status, refused.error.unwrap().reason()), (Status::Rejected, "token_revoked"));
        }
        assert_eq!(world.runner.runs("never"), 0);
    })
    .await;
}

#[tokio::test]
async fn every_mint_and_every_revocation_is_in_the_log() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let (agent, as_agent) = world.agent_of(&ada, "helper", json!({})).await;
        let token = world.holder(&as_agent, json!({"scope": ["tool:*"]})).await;
        world.engine.revoke_token(&token, &id_of(&token).to_string()).await.unwrap();
        let owner = world.owner();
        world.holder(&as_agent, json!({"scope": ["tool:*"]})).await;
        assert_eq!(world.engine.revoke_tokens_of_agent(&owner, "helper").await.unwrap(), 1);
        let entries = world.store.audit_entries(world.tenant, 1000).await.unwrap();
        let told = |action: &str, object: &str| {
            entries.iter().filter(|entry| entry["action"] == action && entry["object"] == object).count()
        };
        let id = id_of(&token).to_string();
        assert_eq!((told("token.mint", &id), told("token.revoke", &id)), (1, 1));
        assert_eq!(told("token.revoke_of_agent", &agent.id.to_string()), 1);
        assert!(entries.iter().all(|entry| !entry.to_string().contains("eyJ")), "no token is in the log");

        // Names that mean nothing are refused, so that nobody relies on them.
        let cases = [
            (json!({"scope": ["tool:nothing"]}), "/scope/0"),
            (json!({"scope": ["tool:script", "tool:hidden"]}), "/scope/1"),
            (json!({"scope": ["tool:older"]}), "/scope/0"),
            (
                json!({"scope": ["tool:*"], "constraints": [{"tool": "scrpt", "pointer": "/n", "max": 1}]}),
                "/constraints",
            ),
        ];
        for (wanted, pointer) in cases {
            let fault = world.try_mint(&ada, wanted.clone(), None).await.unwrap_err();
            assert_eq!(fault.pointer(), Some(pointer), "{wanted}");
        }
        let viewer = world.person("vera", &[Role::Viewer]).await;
        assert_eq!(
            world.try_mint(&viewer, json!({"scope": ["tool:*"]}), None).await.unwrap_err().kind(),
            FaultKind::Forbidden
        );
        assert_eq!(
            world.try_mint(&ada, json!({"scope": ["tool:*"]}), Some("helper")).await.unwrap_err().kind(),
            FaultKind::NotFound,
            "an agent that one does not manage is none"
        );
    })
    .await;
}

#[tokio::test]
async fn tokens_and_proofs_are_forgotten_long_after_they_could_matter() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Member]).await;
        let token = id_of(&world.holder(&ada, json!({"scope": ["tool:*"]})).await);
        let proof = toolgate_contracts::Digest::of(b"proof");
        let soon = world.clock.now().plus_seconds(61);
        for first in [true, false] {
            assert_eq!(world.store.spend_proof(world.tenant, proof, soon).await.unwrap(), first);
        }
        // Another tenant's is another one.
        assert!(world.store.spend_proof(world.neighbour, proof, soon).await.unwrap());
        world.clock.advance(24 * 60 * 60);
        world.store.forget_tokens(world.clock.now()).await.unwrap();
        assert!(world.shown(token).await.is_ok(), "a call that waits may still ask for it");
        assert_eq!(world.count("token_proofs").await, 0);
        world.clock.advance(32 * 24 * 60 * 60);
        world.store.forget_tokens(world.clock.now()).await.unwrap();
        assert!(world.shown(token).await.is_err());
        assert_eq!(world.count("tokens").await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_token_is_refused_with_what_would_have_to_change() {
    every_world(async |world| {
        let ada = world.person("ada", &[Role::Author]).await;
        world.agent_of(&ada, "helper", json!({"toolset": "assigned"})).await;
        let refused = async |wanted: Value, agent: Option<&str>| world.try_mint(&ada, wanted, agent).await.unwrap_err();
        // A tool that the agent has not got, and one that nobody has.
        let fault = refused(json!({"scope": ["tool:strict"]}), Some("helper")).await;
        assert_eq!((fault.kind(), fault.pointer()), (FaultKind::Forbidden, Some("/scope/0")));
        assert_eq!(fault.told(), "the agent `helper` does not have the tool `strict`");
        assert!(fault.remedy().contains("toolgate tool assign --tool strict --agent helper"), "{}", fault.remedy());
        let fault = refused(json!({"scope": ["tool:nothing"]}), Some("helper")).await;
        assert_eq!(fault.kind(), FaultKind::NotFound);
        // What the person must not know of is not told by way of the agent.
        let fault = refused(json!({"scope": ["tool:elsewhere"]}), Some("helper")).await;
        assert_eq!(fault.kind(), FaultKind::NotFound);

        // Arguments that the tools do not take.
        let with = |constraint: Value| json!({"scope": ["tool:strict"], "constraints": [constraint]});
        for (wanted, pointer) in [
            (with(json!({"tool": "strict", "pointer": "/unti", "const": "m"})), "/constraints/0/pointer"),
            (with(json!({"pointer": "/unti", "const": "m"})), "/constraints/0/pointer"),
        ] {
            let fault = refused(wanted.clone(), None).await;
            assert_eq!((fault.kind(), fault.pointer()), (FaultKind::Invalid, Some(pointer)), "{wanted}");
            assert_eq!(fault.told(), "`strict` has no argument `/unti`");
            let remedy = "did you mean `/unit`? its arguments are `/act`, `/n`, `/unit`, `/value`";
            assert_eq!(fault.remedy(), remedy);
        }
        // One of several tools, or any of all, may have it.
        for wanted in [
            json!({"scope": ["tool:strict", "tool:script"], "constraints": [{"pointer": "/unti", "const": "m"}]}),
            json!({"scope": ["tool:*"], "constraints": [{"pointer": "/unti", "const": "m"}]}),
            with(json!({"tool": "strict", "pointer": "/value/whatever", "const": "m"})),
        ] {
            world
                .try_mint(&ada, wanted.clone(), None)
                .await
                .unwrap_or_else(|fault| panic!("{wanted}: {}", fault.told()));
        }
    })
    .await;
}
