//! A run that another process left: taken up where it stood, with nothing done twice, and written by one replica at a time.

use serde_json::{Value, json};
use toolgate_contracts::workflow::NodeState;
use toolgate_contracts::{Fault, RunId, TenantId};
use toolgate_store::runs::Step;
use toolgate_store::workflow_runs::WorkflowNode;
use toolgate_store::{Change, Error};

use super::{node_of, over, run, save};
use crate::world::{As, World, attend, every_world};

const GONE: &str = "a replica that is gone";

pub(super) fn tenant(world: &World) -> TenantId {
    let slug = "default".parse().unwrap();
    world.app.registry.snapshot().tenants().find(|registry| registry.tenant.slug == slug).unwrap().tenant.id
}

fn lost() -> Fault {
    Fault::conflict("another replica took the run", "there is nothing to do")
}

/// Leaves a run as a process does that dies after it noted what it is about to ask for, and before it noted more.
async fn left_by_the_dead(world: &World, run: RunId, node: impl Fn(WorkflowNode) -> WorkflowNode) {
    left_by(world, run, GONE, node).await;
}

async fn left_by(world: &World, run: RunId, holder: &str, node: impl Fn(WorkflowNode) -> WorkflowNode) {
    let (tenant, store) = (tenant(world), &world.app.store);
    let stands = store.workflow_node_page(tenant, run, None, None, 50).await.unwrap().0;
    let stands = stands.into_iter().find(|node| node.state == NodeState::Waiting).unwrap();
    let mut change = Change::new(tenant);
    change.take_workflow_run(run, None, holder, lost());
    let noted = WorkflowNode { state: NodeState::Running, ended_at: None, ..node(stands) };
    change.put_workflow_node(run, holder, &noted, lost());
    store.commit(change).await.unwrap();
}

async fn scribe(world: &World) {
    let turns = json!([
        {"when": {"turn": 1}, "repeat": 9, "call": [{"tool": "write_file", "input": {"path": "it.txt", "text": "it"}}]},
        {"when": {"last_tool": "write_file"}, "repeat": 9, "say": "Written."},
    ]);
    let spec = json!({"name": "play", "kind": "scripted", "script": {"version": 1, "turns": turns}});
    world.send(&As::Owner, "PUT", "/api/v1/providers/play", spec).await.ok();
    let spec = json!({"name": "scribe", "model": "play/any", "instructions": "Be brief.", "toolset": "assigned",
        "custom_tools": ["write_file"]});
    world.send(&As::Owner, "POST", "/api/v1/agents", spec).await.ok();
    world.send(&As::Owner, "PUT", "/api/v1/agents/scribe/tools/write_file", json!({})).await.ok();
    let node = json!({"id": "write", "kind": "agent", "config": {"agent": "scribe", "prompt": "Write it."}});
    save(world, &As::Owner, &json!({"version": 1, "name": "writes", "nodes": [node]})).await.ok();
}

async fn approve_all(world: &World) {
    let asked = world.get(&As::Owner, "/api/v1/approvals?state=open").await.ok();
    for approval in asked["items"].as_array().unwrap() {
        let path = format!("/api/v1/approvals/{}/decide", approval["id"].as_str().unwrap());
        world.send(&As::Owner, "POST", &path, json!({"decision": "approve"})).await.ok();
    }
}

async fn children(world: &World, run: &Value) -> Vec<Value> {
    let shown = world.get(&As::Owner, &format!("/api/v1/runs/{}", run.as_str().unwrap())).await.ok();
    shown["runs"].as_array().unwrap().iter().map(|run| run["id"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_was_started_is_not_started_again() {
    every_world(async |world| {
        let stop = attend(&world.app);
        scribe(&world).await;
        let waits = run(&world, &As::Owner, "writes", json!({})).await;
        assert_eq!(waits["state"], "waiting_human", "{waits:#}");
        let first = node_of(&waits, "write")["child_run_id"].clone();
        let id: RunId = waits["run_id"].as_str().unwrap().parse().unwrap();
        left_by_the_dead(&world, id, |node| node).await;
        approve_all(&world).await;
        let ended = over(&world, &As::Owner, &waits["run_id"]).await;
        assert_eq!(
            (&ended["state"], &node_of(&ended, "write")["child_run_id"]),
            (&json!("completed"), &first),
            "{ended:#}"
        );
        assert_eq!(children(&world, &waits["run_id"]).await, [first]);
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_was_noted_and_never_begun_begins_under_its_id() {
    every_world(async |world| {
        let stop = attend(&world.app);
        scribe(&world).await;
        let waits = run(&world, &As::Owner, "writes", json!({})).await;
        let id: RunId = waits["run_id"].as_str().unwrap().parse().unwrap();
        let noted: RunId = world.app.registry.new_id();
        left_by_the_dead(&world, id, |node| WorkflowNode { child_run_id: Some(noted), ..node }).await;
        let mut begun = Vec::new();
        for _ in 0..30 {
            if begun.len() == 2 {
                break;
            }
            world.get(&As::Owner, &format!("/api/v1/runs/{id}/workflow?wait=1")).await.ok();
            begun = children(&world, &waits["run_id"]).await;
        }
        assert!(begun.contains(&json!(noted)), "{begun:?}");
        stop.cancel();
    })
    .await;
}

fn asks() -> Value {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "description": "So many"}}});
    let node = json!({"id": "ask", "kind": "human", "config": {"title": "How many?", "schema": schema}});
    json!({"version": 1, "name": "asks", "nodes": [node]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_was_asked_is_not_asked_again() {
    every_world(async |world| {
        save(&world, &As::Owner, &asks()).await.ok();
        // A run that is this replica's own and that nobody in it is at was lost on the way, and is taken up as well.
        for holder in [GONE, world.app.engine.replica(), ""] {
            let waits = run(&world, &As::Owner, "asks", json!({})).await;
            let id: RunId = waits["run_id"].as_str().unwrap().parse().unwrap();
            left_by(&world, id, holder, |node| node).await;
            let seen = run_again(&world, id).await;
            assert_eq!(node_of(&seen, "ask")["state"], "waiting", "{seen:#}");
            let asked = world.get(&As::Owner, &format!("/api/v1/inputs?run={id}")).await.ok();
            assert_eq!(asked["items"].as_array().unwrap().len(), 1, "{asked:#}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_run_ended_before_waits_no_more() {
    every_world(async |world| {
        let stop = attend(&world.app);
        save(&world, &As::Owner, &asks()).await.ok();
        let waits = run(&world, &As::Owner, "asks", json!({})).await;
        let path = format!("/api/v1/runs/{}/state", waits["run_id"].as_str().unwrap());
        world.send(&As::Owner, "PUT", &path, json!({"state": "cancelled"})).await.ok();
        let ended = over(&world, &As::Owner, &waits["run_id"]).await;
        let ask = node_of(&ended, "ask");
        assert_eq!((&ended["state"], &ask["state"]), (&json!("cancelled"), &json!("cancelled")), "{ended:#}");
        assert_eq!(ask["error"]["details"]["reason"], "cancelled", "{ended:#}");
        assert!(ask["ended_at"].is_string(), "{ended:#}");
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_when_its_agent_has_said_what_it_gave() {
    every_world(async |world| {
        scribe(&world).await;
        let waits = run(&world, &As::Owner, "writes", json!({})).await;
        let id: RunId = waits["run_id"].as_str().unwrap().parse().unwrap();
        let child: RunId = node_of(&waits, "write")["child_run_id"].as_str().unwrap().parse().unwrap();
        let (store, engine) = (&world.app.store, &world.app.engine);
        let path = format!("/api/v1/runs/{child}/state");
        world.send(&As::Owner, "PUT", &path, json!({"state": "cancelled"})).await.ok();
        // Nobody attends to agents here, so nobody closes it.
        assert!(store.agent_run(tenant(&world), child).await.unwrap().unwrap().is_open);
        assert_eq!(store.due_workflow_run(id, engine.replica(), engine.now()).await.unwrap(), None);
        let stop = attend(&world.app);
        let ended = over(&world, &As::Owner, &waits["run_id"]).await;
        let error = &node_of(&ended, "write")["error"];
        assert_eq!(
            (&ended["state"], &error["details"]["reason"]),
            (&json!("failed"), &json!("cancelled")),
            "{ended:#}"
        );
        stop.cancel();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_run_is_begun_with_loosens_no_bound() {
    every_world(async |world| {
        save(&world, &As::Owner, &asks()).await.ok();
        let check = async |limits: Value, calls: u32, seconds: u64| {
            let begun = json!({"input": {}, "limits": limits});
            let begun = world.send(&As::Owner, "POST", "/api/v1/workflows/asks/runs?wait=60", begun).await.ok();
            let id: RunId = begun["run_id"].as_str().unwrap().parse().unwrap();
            let kept = world.app.store.run(tenant(&world), id).await.unwrap().unwrap().limits;
            assert_eq!((kept.max_tool_calls, kept.max_wall_s), (Some(calls), Some(seconds)), "{limits}");
        };
        check(json!({}), 5000, 86400).await;
        check(json!({"max_tool_calls": 1_000_000, "max_wall_s": 1_000_000}), 5000, 86400).await;
        check(json!({"max_tool_calls": 3, "max_wall_s": 60}), 3, 60).await;
    })
    .await;
}

/// Looked at until somebody here took it up and let go of it again.
async fn run_again(world: &World, run: RunId) -> Value {
    loop {
        let seen = world.get(&As::Owner, &format!("/api/v1/runs/{run}/workflow?wait=1")).await.ok();
        let kept = world.app.store.workflow_run(tenant(world), run).await.unwrap().unwrap();
        if kept.holder.is_none() {
            return seen;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_lost_a_run_writes_nothing_into_it() {
    every_world(async |world| {
        save(&world, &As::Owner, &asks()).await.ok();
        let waits = run(&world, &As::Owner, "asks", json!({})).await;
        let id: RunId = waits["run_id"].as_str().unwrap().parse().unwrap();
        let (tenant, store) = (tenant(&world), &world.app.store);
        let mut change = Change::new(tenant);
        change.take_workflow_run(id, None, "the one that has it", lost());
        store.commit(change).await.unwrap();
        let before = (
            store.workflow_node_page(tenant, id, None, None, 50).await.unwrap().0,
            store.workflow_run(tenant, id).await.unwrap(),
        );
        let steps = store.steps(tenant, id, 100).await.unwrap();
        let is_refused = async |write: &dyn Fn(&mut Change)| {
            let mut change = Change::new(tenant);
            // Whatever else is in the change is undone with it.
            let now = world.app.engine.now();
            let title = "by the one that lost it".to_owned();
            let step = Step { id: world.app.registry.new_id(), run_id: id, agent_id: None, title, created_at: now };
            change.insert_step(&step);
            write(&mut change);
            assert!(matches!(store.commit(change).await, Err(Error::Unmet(_))));
        };
        let node = WorkflowNode { state: NodeState::Failed, ..before.0[0].clone() };
        is_refused(&|change| {
            change.put_workflow_node(id, GONE, &node, lost());
        })
        .await;
        is_refused(&|change| {
            change.close_workflow_run(id, GONE, &json!({}), lost());
        })
        .await;
        is_refused(&|change| {
            change.hold_workflow_run(id, GONE, lost());
        })
        .await;
        is_refused(&|change| {
            change.take_workflow_run(id, Some(GONE), GONE, lost());
        })
        .await;
        let mut change = Change::new(tenant);
        change.leave_workflow_run(id, GONE).give_up_workflow_run(id, GONE);
        store.commit(change).await.unwrap();
        let after = (
            store.workflow_node_page(tenant, id, None, None, 50).await.unwrap().0,
            store.workflow_run(tenant, id).await.unwrap(),
        );
        assert_eq!(after, before);
        assert_eq!(store.steps(tenant, id, 100).await.unwrap().len(), steps.len());
    })
    .await;
}
