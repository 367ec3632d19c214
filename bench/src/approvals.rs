//! Calls that wait for people: 10,000 of them are rows, so they cost little memory; a page of them and a decision cost the
//! same whether fifty wait or ten thousand.

use std::time::{Duration, Instant};

use serde_json::json;
use toolgate_contracts::{ApprovalState, CallRequest, Caller, Clock, Principal, Rng, Source, Status};
use toolgate_engine::approvals::Choice;
use toolgate_server::App;
use toolgate_store::approvals::ApprovalFilter;

use crate::Failure;
use crate::lists::database;
use crate::path::dressed::administrator;
use crate::path::inside::told;
use crate::path::servers::{CODE, configuration};
use crate::report::{Goal, Report, cpu_time, micros, of};

const FEW: usize = 50;
const PARKED: usize = 10_000;
const ASKED_BY_ONE: usize = 900;
const PAGES: usize = 200;
const DECIDED: usize = 500;
/// More than this for each call that waits would be a call kept in memory.
const BYTES_EACH_MAX: f64 = 2_000.0;

pub async fn run(report: &mut Report) -> Result<(), Failure> {
    for make in ["sqlite", "postgres"] {
        let Some(database) = database(make).await else { continue };
        let folder = tempfile::tempdir()?;
        let config = configuration(&database.url, "auto")?;
        let app = App::open(config, folder.path(), CODE, Clock::System, Rng::System).await.map_err(told)?;
        Box::pin(measure(report, make, &app)).await?;
        app.close().await;
    }
    Ok(())
}

async fn measure(report: &mut Report, make: &str, app: &App) -> Result<(), Failure> {
    let owner = administrator(app)?;
    park(app, &owner, FEW).await?;
    let few = page(app, &owner).await?;
    let before = resident()?;
    let (began, cpu) = (Instant::now(), cpu_time());
    park(app, &owner, PARKED).await?;
    let (wall, cpu) = (began.elapsed(), cpu_time().saturating_sub(cpu));
    let after = resident()?;
    let each = |spent: Duration, count: usize| micros(&spent) / f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    report.line(format!("{make}: park, wall"), "us", each(wall, PARKED), None);
    report.line(format!("{make}: park, CPU"), "us", each(cpu, PARKED), None);
    let grown = (after - before).max(0.0) * 1024.0 / f64::from(u32::try_from(PARKED)?);
    report.goal(
        format!("{make}: memory for each of 10,000 parked calls"),
        "bytes",
        grown,
        Goal::AtMost(BYTES_EACH_MAX),
        None,
    );
    let many = page(app, &owner).await?;
    report.line(format!("{make}: a page of 50 that wait, 10,000 parked (baseline: 50 parked)"), "us", many, Some(few));
    let decided = Box::pin(decide(app, &owner)).await?;
    report.line(format!("{make}: approve and run, wall, one after the other"), "us", decided.0, None);
    report.line(format!("{make}: approve and run, CPU"), "us", decided.1, None);
    Ok(())
}

async fn park(app: &App, caller: &Caller, count: usize) -> Result<(), Failure> {
    for n in 0..count {
        // One caller may have a thousand calls that wait; these are of a dozen.
        let asking = Principal::Local(u32::try_from(n / ASKED_BY_ONE)?);
        let caller = &Caller { principal: asking, ..caller.clone() };
        let input = json!({"path": format!("{n}.txt"), "text": "x".repeat(200)});
        let request = CallRequest { wait: Some(0), ..CallRequest::new("write_file", input) };
        let envelope = app.engine.submit(caller, Source::Api, request).await.map_err(told)?;
        if envelope.status != Status::Pending {
            return Err(format!("a call did not park: {:?}", envelope.error).into());
        }
    }
    Ok(())
}

/// Microseconds of the median page.
async fn page(app: &App, caller: &Caller) -> Result<f64, Failure> {
    let open = ApprovalFilter { state: Some(ApprovalState::Open), ..ApprovalFilter::default() };
    let mut walls = Vec::with_capacity(PAGES);
    for _ in 0..PAGES {
        let began = Instant::now();
        app.engine.list_approvals(caller, &open, None, 50).await.map_err(told)?;
        walls.push(began.elapsed());
    }
    Ok(of(walls, Duration::ZERO).median)
}

/// Microseconds of a decision with its run: the median, and CPU.
async fn decide(app: &App, caller: &Caller) -> Result<(f64, f64), Failure> {
    let open = ApprovalFilter { state: Some(ApprovalState::Open), ..ApprovalFilter::default() };
    let mut walls = Vec::with_capacity(DECIDED);
    let page = app.engine.list_approvals(caller, &open, None, u32::try_from(DECIDED)?).await.map_err(told)?;
    let cpu = cpu_time();
    for card in page.items {
        let choice: Choice = serde_json::from_value(json!({"decision": "approve"}))?;
        let began = Instant::now();
        let wait = Duration::from_secs(10);
        Box::pin(app.engine.decide(caller, &card.id.to_string(), choice, wait)).await.map_err(told)?;
        walls.push(began.elapsed());
    }
    let measured = of(walls, cpu_time().saturating_sub(cpu));
    Ok((measured.median, measured.cpu))
}

/// What this process holds, in KiB.
pub fn resident() -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
