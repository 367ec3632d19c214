//! Runs of agents: what the loop costs beside the calls that it makes, what a thousand that wait for people cost in memory,
//! and how soon one goes on when somebody has decided.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_agents::NewAgentRun;
use toolgate_contracts::{AgentState, ApprovalState, CallRequest, Caller, Clock, Principal, Rng, RunId, Source};
use toolgate_engine::approvals::Choice;
use toolgate_engine::runs::NewRun;
use toolgate_registry::commands::AgentDraft;
use toolgate_server::App;
use toolgate_store::approvals::ApprovalFilter;

use crate::Failure;
use crate::approvals::resident;
use crate::lists::database;
use crate::path::dressed::administrator;
use crate::path::inside::told;
use crate::path::servers::{CODE, configuration};
use crate::report::{Goal, Report, cpu_time, micros, of};

const RUNS: usize = 100;
const TURNS: usize = 9;
const PARKED: usize = 1_000;
const PARKED_BY_ONE: usize = 900;
/// By each decision.
const RESUMED: usize = 50;
const TURN_CPU_US_MAX: f64 = 1_000.0;
const PARKED_MIB_MAX: f64 = 64.0;
const RESUMED_US_MAX: f64 = 1_000_000.0;
const PATIENCE: Duration = Duration::from_mins(1);

pub async fn run(report: &mut Report) -> Result<(), Failure> {
    for make in ["sqlite", "postgres"] {
        let Some(database) = database(make).await else { continue };
        let folder = tempfile::tempdir()?;
        let config = configuration(&database.url, "auto")?;
        let app = App::open(config, folder.path(), CODE, Clock::System, Rng::System).await.map_err(told)?;
        let stop = CancellationToken::new();
        let (host, engine) = (app.host.clone(), app.engine.clone());
        let until = stop.clone();
        tokio::spawn(async move { host.attend(until).await });
        let until = stop.clone();
        tokio::spawn(async move { engine.attend_background(until).await });
        Box::pin(measure(report, make, &app)).await?;
        stop.cancel();
        app.close().await;
    }
    Ok(())
}

async fn measure(report: &mut Report, make: &str, app: &App) -> Result<(), Failure> {
    let owner = administrator(app)?;
    let sum = json!([{"tool": "calculator", "input": {"expression": "1 + 1"}}]);
    let mut turns: Vec<Value> = (0..TURNS).map(|turn| json!({"when": {"turn": turn + 1}, "call": sum})).collect();
    turns.push(json!({"when": {"turn": TURNS + 1}, "say": "done"}));
    agent(app, &owner, "counting", json!(turns)).await?;
    let calls = bare_calls(app, &owner).await?;
    let (began, cpu) = (Instant::now(), cpu_time());
    for _ in 0..RUNS {
        let run = start(app, &owner, "counting").await?;
        ended(app, &owner, run).await?;
    }
    let questions = f64::from(u32::try_from(RUNS * (TURNS + 1))?);
    let wall = micros(&began.elapsed()) / questions;
    let cpu = micros(&cpu_time().saturating_sub(cpu)) / questions;
    report.line(format!("{make}: a turn with one call, wall"), "us", wall, None);
    report.line(format!("{make}: a turn with one call, CPU (baseline: the call alone)"), "us", cpu, Some(calls));
    report.goal(format!("{make}: the loop, CPU for each turn"), "us", cpu - calls, Goal::AtMost(TURN_CPU_US_MAX), None);

    let write =
        json!([{"call": [{"tool": "write_file", "input": {"path": "a.txt", "text": "x"}}]}, {"say": "written"}]);
    agent(app, &owner, "writing", write).await?;
    let before = resident()?;
    let mut parked = Vec::with_capacity(PARKED);
    for n in 0..PARKED {
        let asking = Caller { principal: Principal::Local(u32::try_from(n / PARKED_BY_ONE)?), ..owner.clone() };
        let run = start(app, &asking, "writing").await?;
        let seen = app.host.when_left(&asking, run, PATIENCE).await.map_err(told)?;
        if seen.run.state.as_str() != "waiting_human" {
            return Err(format!("a run did not park: {:?}", seen.run.reason).into());
        }
        parked.push((asking, run));
    }
    let grown = (resident()? - before).max(0.0) / 1024.0;
    report.goal(format!("{make}: memory of 1,000 parked runs"), "MiB", grown, Goal::AtMost(PARKED_MIB_MAX), None);
    // Rejected, the model is told so; approved, the call runs first.
    for (decision, what) in [("reject", "a rejection"), ("approve", "an approval, with the call,")] {
        let walls = Box::pin(resume(app, &owner, &parked, decision)).await?;
        let slowest = walls.iter().map(micros).fold(0.0, f64::max);
        report.line(
            format!("{make}: from {what} to the end of the run, median"),
            "us",
            of(walls, Duration::ZERO).median,
            None,
        );
        report.goal(
            format!("{make}: from {what} to the end of the run, slowest"),
            "us",
            slowest,
            Goal::AtMost(RESUMED_US_MAX),
            None,
        );
    }
    Ok(())
}

async fn agent(app: &App, owner: &Caller, name: &str, turns: Value) -> Result<(), Failure> {
    let provider = json!({"name": name, "kind": "scripted", "script": {"version": 1, "turns": turns}});
    app.registry.put_provider(owner, serde_json::from_value(provider)?, None).await.map_err(told)?;
    let spec =
        json!({"name": name, "model": format!("{name}/any"), "toolset": "assigned", "custom_tools": ["calculator"]});
    let draft = AgentDraft { spec: serde_json::from_value(spec)?, state: AgentState::Active };
    app.registry.put_agent(owner, draft).await.map_err(told)?;
    let snapshot = app.registry.snapshot();
    let write: toolgate_contracts::ToolRef = "write_file".parse()?;
    let found = snapshot.tenant(owner.tenant).map_err(told)?.resolve(&write, "2026-01-01");
    let tool = found.ok_or("no write_file")?.tool.name.clone();
    app.registry.assign(owner, name, &tool, None).await.map_err(told)?;
    Ok(())
}

async fn start(app: &App, caller: &Caller, agent: &str) -> Result<RunId, Failure> {
    let new = NewAgentRun { prompt: "Go.".to_owned(), ..NewAgentRun::default() };
    Box::pin(app.host.start(caller, agent, new)).await.map_err(told)
}

async fn ended(app: &App, caller: &Caller, run: RunId) -> Result<(), Failure> {
    let seen = app.host.when_left(caller, run, PATIENCE).await.map_err(told)?;
    if seen.run.state.as_str() == "completed" { Ok(()) } else { Err(format!("{:?}", seen.run.reason).into()) }
}

/// CPU of the same calls in runs of their own, made by nobody's model.
async fn bare_calls(app: &App, owner: &Caller) -> Result<f64, Failure> {
    let cpu = cpu_time();
    for _ in 0..RUNS {
        let run = app.engine.open_run(owner, NewRun::default()).await.map_err(told)?;
        for _ in 0..TURNS {
            let call = CallRequest::new("calculator", json!({"expression": "1 + 1"}));
            let call = CallRequest { run_id: Some(run.id), ..call };
            app.engine.submit(owner, Source::Agent, call).await.map_err(told)?;
        }
    }
    Ok(micros(&cpu_time().saturating_sub(cpu)) / f64::from(u32::try_from(RUNS * TURNS)?))
}

async fn resume(
    app: &App,
    owner: &Caller,
    parked: &[(Caller, RunId)],
    decision: &str,
) -> Result<Vec<Duration>, Failure> {
    let open = ApprovalFilter { state: Some(ApprovalState::Open), ..ApprovalFilter::default() };
    let page = app.engine.list_approvals(owner, &open, None, u32::try_from(RESUMED)?).await.map_err(told)?;
    let mut walls = Vec::with_capacity(RESUMED);
    for card in page.items {
        let choice: Choice = serde_json::from_value(
            json!({"decision": decision, "reason": "a benchmark", "input_digest": card.input_digest}),
        )?;
        let (caller, run) = parked.iter().find(|(_, run)| *run == card.run_id).ok_or("a card of no run")?;
        let began = Instant::now();
        Box::pin(app.engine.decide(owner, &card.id.to_string(), choice, Duration::ZERO)).await.map_err(told)?;
        loop {
            let seen = app.host.when_left(caller, *run, Duration::from_millis(20)).await.map_err(told)?;
            if let Some(outputs) = &seen.outputs {
                let went_well = outputs.last_tool.is_some();
                if went_well != (decision == "approve") {
                    return Err(format!("the call did not do what was decided: {decision}").into());
                }
                break;
            }
            if began.elapsed() > PATIENCE {
                return Err("a run does not go on".into());
            }
        }
        walls.push(began.elapsed());
    }
    Ok(walls)
}
