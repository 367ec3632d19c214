//! `toolgate workflow …`.

use std::path::Path;

use serde_json::{Value, json};
use toolgate_registry::Finding;
use toolgate_registry::finding::has_errors;
use toolgate_registry::tool_md::{FILE_BYTES_MAX, LineMap};
use toolgate_workflows::file::{self, Written};

use super::list;
use crate::args::{Materialize, WorkflowCheck, WorkflowCommand, WorkflowPublish, WorkflowRun};
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Detail, Output, Paint, Table, clean, items_of, note, text_of, time_of};

/// How long the server is asked to wait at a time.
const WAIT_S: u64 = 30;

pub async fn run(command: WorkflowCommand, client: &Client, output: &Output) -> Done {
    match command {
        WorkflowCommand::Save { path } => save(&path, client, output).await,
        WorkflowCommand::List(paging) => list::show(&["workflows"], &[], paging, (client, output), table).await,
        WorkflowCommand::Show { workflow, revision } => {
            let query = [("revision", revision.map(|revision| revision.to_string()))];
            let shown = client.get(&["workflows", &workflow], &query).await?;
            output.show(&shown, detail)
        }
        WorkflowCommand::Check(wanted) => check(wanted, client, output).await,
        WorkflowCommand::Publish(wanted) => publish(wanted, client, output).await,
        WorkflowCommand::Remove { workflow } => {
            let answer = client.delete(&["workflows", &workflow]).await?;
            output.say(&answer, &format!("Removed workflow {workflow}."))
        }
        WorkflowCommand::Run(wanted) => begin(wanted, client, output).await,
        WorkflowCommand::Follow { run } => follow(&run, client, output).await,
        WorkflowCommand::Nodes { run, state, paging } => {
            list::show(&["runs", &run, "workflow", "nodes"], &[("state", state)], paging, (client, output), nodes).await
        }
        WorkflowCommand::Materialize(wanted) => materialize(wanted, client, output).await,
    }
}

/// A check that asks nobody.
pub fn offline(wanted: &WorkflowCheck, output: &Output) -> Done {
    match written(Path::new(&wanted.workflow))? {
        Ok(written) => {
            let findings = toolgate_workflows::check(&written.workflow, None);
            told(&wanted.workflow, findings, &written.lines, output)
        }
        Err(findings) => told(&wanted.workflow, findings, &LineMap::default(), output),
    }
}

/// Findings of a file that is no workflow are told like those of one that is.
fn written(path: &Path) -> Result<Result<Written, Vec<Finding>>, Failure> {
    Ok(file::read(&input::read_file(path, 2 * FILE_BYTES_MAX)?))
}

/// A file that is to be saved.
fn read(path: &Path) -> Result<Written, Failure> {
    written(path)?.map_err(|findings| {
        let fault = toolgate_workflows::refused(&findings);
        Failure::from(fault).about(path.display().to_string())
    })
}

async fn save(path: &Path, client: &Client, output: &Output) -> Done {
    let Written { workflow, lines, notes: _ } = read(path)?;
    let place = path.display().to_string();
    let name = workflow.name.to_string();
    let graph = serde_json::to_value(&workflow).map_err(toolgate_contracts::Fault::internal)?;
    let saved = client.put(&["workflows", &name], graph).await.map_err(|failure| failure.about(place.clone()))?;
    output.show(&saved, |saved, _| {
        let revision = text_of(saved, "revision");
        let sentence = match text_of(saved, "action").as_str() {
            "unchanged" => format!("Workflow {name} is exactly like this, in revision {revision}."),
            "replaced" => format!("Saved workflow {name}, revision {revision}."),
            _ => format!("Saved workflow {name}."),
        };
        let findings = located(&saved["findings"], &lines);
        let told = findings.iter().map(|finding| clean(&finding.show(&place)));
        std::iter::once(clean(&sentence)).chain(told).collect::<Vec<_>>().join("\n")
    })
}

async fn check(wanted: WorkflowCheck, client: &Client, output: &Output) -> Done {
    let WorkflowCheck { workflow, offline: _, revision } = wanted;
    if revision.is_none() && is_file(&workflow) {
        let written = match written(Path::new(&workflow))? {
            Ok(written) => written,
            Err(findings) => return told(&workflow, findings, &LineMap::default(), output),
        };
        let name = written.workflow.name.to_string();
        let checked = client.post(&["workflows", &name, "check"], json!({"workflow": written.workflow})).await?;
        return told(&workflow, located(&checked["findings"], &written.lines), &written.lines, output);
    }
    let checked = client.post(&["workflows", &workflow, "check"], json!({"revision": revision})).await?;
    let lines = LineMap::default();
    told(&workflow, located(&checked["findings"], &lines), &lines, output)
}

/// What could be a name and a file is a file: names have no dots and no slashes.
fn is_file(text: &str) -> bool {
    text.contains(['.', '/', '\\']) || Path::new(text).is_file()
}

fn located(findings: &Value, lines: &LineMap) -> Vec<Finding> {
    let mut findings: Vec<Finding> = serde_json::from_value(findings.clone()).unwrap_or_default();
    lines.locate(&mut findings);
    findings
}

fn told(place: &str, mut findings: Vec<Finding>, lines: &LineMap, output: &Output) -> Done {
    lines.locate(&mut findings);
    let passed = !has_errors(&findings);
    let answer = json!({"workflow": place, "passed": passed, "findings": findings});
    output.show(&answer, |_, paint| {
        let mut text: Vec<String> = findings.iter().map(|finding| clean(&finding.show(place))).collect();
        text.push(if passed {
            paint.green(&format!("{place} passes."))
        } else {
            paint.red(&format!("{place} has errors."))
        });
        text.join("\n")
    })?;
    Ok(if passed { Exit::Done } else { Exit::Failed })
}

async fn publish(wanted: WorkflowPublish, client: &Client, output: &Output) -> Done {
    let WorkflowPublish { workflow, tool, description, title, dry_run } = wanted;
    let body = json!({"tool": tool, "description": description, "title": title, "dry_run": dry_run});
    let answer = client.post(&["workflows", &workflow, "publish"], body).await?;
    output.show(&answer, |answer, _| {
        let named = format!("{}@{}", text_of(answer, "name"), text_of(answer, "version"));
        let sentence = match (text_of(answer, "action").as_str(), dry_run) {
            ("unchanged", _) => format!("Workflow {workflow} is published as {named} already."),
            (_, true) => format!("Workflow {workflow} would be published as {named}."),
            (_, false) => format!("Published workflow {workflow} as {named}."),
        };
        let findings = located(&answer["findings"], &LineMap::default());
        let told = findings.iter().map(|finding| clean(&finding.show(&workflow)));
        std::iter::once(clean(&sentence)).chain(told).collect::<Vec<_>>().join("\n")
    })
}

async fn materialize(wanted: Materialize, client: &Client, output: &Output) -> Done {
    let Materialize { call, pin, run, into } = wanted;
    let node = match (call, pin, run) {
        (Some(call), _, _) => client.post(&["calls", &call, "materialize"], json!({"workflow": into})).await?,
        (None, Some(pin), Some(run)) => {
            let body = json!({"pin": input::json_or_file(&pin, "--pin")?, "workflow": into});
            client.post(&["runs", &run, "materialize"], body).await?
        }
        _ => return Err(Failure::usage("neither a call nor a pin", "name a call, or a pin and a run")),
    };
    output.show(&node, |node, _| clean(&serde_json::to_string_pretty(node).unwrap_or_default()))
}

async fn begin(wanted: WorkflowRun, client: &Client, output: &Output) -> Done {
    let WorkflowRun { workflow, input, request_id, no_wait } = wanted;
    let (name, revision) = match workflow.split_once('@') {
        None => (workflow.as_str(), None),
        Some((name, revision)) => {
            let number: u32 = revision.parse().map_err(|_| {
                Failure::usage(format!("`{revision}` is no revision"), "write NAME@NUMBER, as in `greet@2`")
            })?;
            (name, Some(number))
        }
    };
    let input = input::json_or_file(&input, "--input")?;
    let body = json!({"input": input, "revision": revision, "request_id": request_id});
    let view = client.post(&["workflows", name, "runs"], body).await?;
    if no_wait {
        return shown(&view, output);
    }
    follow(&text_of(&view, "run_id"), client, output).await
}

/// Waits until there is nothing more to wait for but people.
async fn follow(run: &str, client: &Client, output: &Output) -> Done {
    let mut view = client.get(&["runs", run, "workflow"], &[("wait", Some("0".to_owned()))]).await?;
    while view["state"] == "running" || view["state"] == "queued" {
        view = client.get(&["runs", run, "workflow"], &[("wait", Some(WAIT_S.to_string()))]).await?;
    }
    if view["state"] == "waiting_human" {
        // Somebody may have decided just now: a look takes it up.
        view = client.get(&["runs", run, "workflow"], &[("wait", Some("1".to_owned()))]).await?;
    }
    shown(&view, output)
}

fn shown(view: &Value, output: &Output) -> Done {
    output.show(view, run_detail)?;
    if !output.is_json() && view["state"] == "waiting_human" {
        let run = text_of(view, "run_id");
        note(&format!(
            "It waits for a person: see `toolgate approvals` and `toolgate input`; `toolgate workflow follow {run}` goes on with it."
        ));
    }
    Ok(match text_of(view, "state").as_str() {
        "completed" => Exit::Done,
        "failed" | "cancelled" => Exit::Failed,
        _ => Exit::Waiting,
    })
}

fn run_detail(view: &Value, paint: Paint) -> String {
    let node = |node: &Value| {
        let error = node.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
        let text = format!("{}  {}  {}  {error}", text_of(node, "path"), text_of(node, "kind"), text_of(node, "state"));
        text.trim_end().to_owned()
    };
    let mut nodes: Vec<String> = items_of(&view["nodes"]).iter().map(node).collect();
    if !view["nodes"]["next_cursor"].is_null() {
        let counts = view["standing"].as_array().map_or(&[][..], Vec::as_slice);
        let all: u64 = counts.iter().filter_map(|one| one["count"].as_u64()).sum();
        nodes.push(format!("these are {} of {all}; by their places in the graph:", nodes.len()));
        nodes.extend(
            counts
                .iter()
                .map(|one| format!("{}  {} {}", text_of(one, "node"), text_of(one, "count"), text_of(one, "state"))),
        );
        nodes.push(format!("see them with `toolgate workflow nodes {} --all`", text_of(view, "run_id")));
    }
    let given = |member: &str| match &view[member] {
        Value::Null => String::new(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    };
    Detail::new(paint, &format!("{} (revision {})", text_of(view, "workflow"), text_of(view, "revision")))
        .field("Run", text_of(view, "run_id"))
        .field("State", text_of(view, "state"))
        .field("Reason", text_of(view, "reason"))
        .section("Nodes", &nodes.join("\n"))
        .section("Output", &given("output"))
        .end()
}

fn nodes(page: &Value, paint: Paint) -> String {
    let mut table = Table::new(["STARTED", "PATH", "KIND", "STATE", "ERROR"]).drops(["STARTED", "KIND"]).cuts("ERROR");
    for node in items_of(page) {
        let [path, kind, state] = ["path", "kind", "state"].map(|member| text_of(node, member));
        table.row([time_of(node, "started_at"), path, kind, state, text_of(&node["error"], "message")]);
    }
    table.render(paint, "No nodes.")
}

fn table(page: &Value, paint: Paint) -> String {
    let mut table = Table::new(["NAME", "REVISION", "SAVED", "DESCRIPTION"]).cuts("DESCRIPTION");
    for workflow in items_of(page) {
        table.row([
            text_of(workflow, "name"),
            text_of(workflow, "revision"),
            time_of(workflow, "updated_at"),
            text_of(workflow, "description"),
        ]);
    }
    table.render(paint, "No workflows; save one with `toolgate workflow save PATH`.")
}

fn detail(shown: &Value, paint: Paint) -> String {
    let graph = &shown["workflow"];
    let list = |member: &str| graph[member].as_array().map_or(&[][..], Vec::as_slice);
    let node = |node: &Value| {
        let of =
            ["/config/tool", "/config/agent", "/config/title"].into_iter().find_map(|at| node.pointer(at)?.as_str());
        format!("{}  {}  {}", text_of(node, "id"), text_of(node, "kind"), of.unwrap_or_default()).trim_end().to_owned()
    };
    let edge = |edge: &Value| {
        let end = |end: &Value| format!("{}.{}{}", text_of(end, "node"), text_of(end, "handle"), text_of(end, "path"));
        format!("{} -> {}", end(&edge["from"]), end(&edge["to"]))
    };
    let revisions = shown["revisions"].as_array().map_or(&[][..], Vec::as_slice);
    let revision = |one: &Value| format!("{}  {}", text_of(one, "revision"), time_of(one, "saved_at"));
    Detail::new(paint, &text_of(shown, "name"))
        .about(&text_of(shown, "description"))
        .field("Revision", text_of(graph, "revision"))
        .field("Tool", text_of(shown, "published_as"))
        .section("Inputs", &serde_json::to_string_pretty(&graph["inputs"]).unwrap_or_default())
        .section("Nodes", &list("nodes").iter().map(node).collect::<Vec<_>>().join("\n"))
        .section("Edges", &list("edges").iter().map(edge).collect::<Vec<_>>().join("\n"))
        .section("Revisions", &revisions.iter().map(revision).collect::<Vec<_>>().join("\n"))
        .end()
}
