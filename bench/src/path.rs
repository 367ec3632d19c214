//! The one path, with what exists switched on: auth, schema, limits, audit, a commit before the answer.
//!
//! Over HTTP beside a bare echo of the same body in the same run, in process beside the echo's CPU time; each at several
//! numbers of callers. Ratios are the goals, because machines differ; CPU time is the steady figure on a noisy one.

pub mod dressed;
pub mod inside;
pub mod load;
pub mod process;
pub mod servers;

use std::cell::Cell;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate_contracts::Clock;
use toolgate_store::MIGRATIONS;
use toolgate_store::testing::Database;

use crate::Failure;
use crate::report::{Goal, Measured, Report, of};
use dressed::Reads;
use inside::Inside;
use load::Request;
use servers::Server;

pub const WARM_UP: Duration = Duration::from_secs(1);
pub const MEASURED: Duration = Duration::from_secs(5);
/// How long a server does nothing before its memory is called that of rest.
const REST: Duration = Duration::from_secs(10);
const TEXT_BYTES: usize = 880;

/// What an answer costs at one number of connections.
pub struct Cost {
    pub per_second: f64,
    pub measured: Measured,
}

pub fn run(report: &mut Report) -> Result<(), Failure> {
    println!("{}, load {:.2}, {} cores", Clock::System.now(), process::load(), std::thread::available_parallelism()?);
    let sqlite = Place { name: "sqlite", database: None };
    let echo = http(report, &sqlite, true)?;
    in_process(report, &sqlite, &echo)?;
    everything_on(report, &echo)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Some(database) = runtime.block_on(Database::postgres(MIGRATIONS)) {
        let echo = http(report, &Place { name: "postgres", database: Some(database) }, false)?;
        // Each durability has a database of its own, as a folder of SQLite is one.
        for durability in ["auto", "power"] {
            let Some(database) = runtime.block_on(Database::postgres(MIGRATIONS)) else { continue };
            let place = Place { name: "postgres", database: Some(database) };
            measure_inside(report, &place, durability, &echo)?;
        }
    }
    println!("{}, load {:.2}", Clock::System.now(), process::load());
    Ok(())
}

struct Place {
    name: &'static str,
    database: Option<Database>,
}

impl Place {
    fn url(&self) -> &str {
        self.database.as_ref().map_or("", |database| &database.url)
    }
}

fn input() -> Value {
    // Words of different lengths, quotes and a letter beyond ASCII, as texts have them.
    let text: String = "The quick \"brown\" fox jumps over the lazy dög; ".chars().cycle().take(TEXT_BYTES).collect();
    json!({"text": text})
}

/// Both servers in turn at each number of connections. Gives back the echo's cost at 64.
fn http(report: &mut Report, place: &Place, with_goals: bool) -> Result<Cost, Failure> {
    let body = json!({"tool": "echo", "input": input()}).to_string();
    let folder = tempfile::tempdir()?;
    let path = folder.path().to_str().ok_or("the temporary folder's name is not Unicode")?;
    let ours = Server::start(&[servers::TOOLGATE, path, place.url(), "auto", "info"])?;
    let bare = Server::start(&[servers::ECHO])?;
    let key = key(&ours)?;
    let to_ours = Request::post("/api/v1/calls", Some(&key), &body, b"\"status\":\"completed\"");
    let to_bare = Request::post("/echo", None, &body, b"\"tool\":\"echo\"");

    let name = place.name;
    let resting = process::memory(ours.process(), "VmRSS");
    std::thread::sleep(REST);
    let rested = process::memory(ours.process(), "VmRSS");
    let bare_rested = process::memory(bare.process(), "VmRSS");
    report.line(format!("{name}: memory after the start"), "MB", resting, Some(bare_rested));
    report.line(format!("{name}: memory at rest, after {} s", REST.as_secs()), "MB", rested, Some(bare_rested));
    if with_goals {
        report.goal(format!("{name}: memory at rest"), "MB", rested, Goal::AtMost(60.0), None);
    }

    let mut at_64 = None;
    for connections in [1, 8, 64, 256] {
        let echo = exchange(&bare, &to_bare, connections)?;
        let call = exchange(&ours, &to_ours, connections)?;
        let label = |what: &str| format!("{name}: HTTP, {connections} connections, {what} (baseline: bare echo)");
        report.line(label("requests"), "1/s", call.per_second, Some(echo.per_second));
        report.line(label("p50"), "us", call.measured.median, Some(echo.measured.median));
        report.line(label("p99"), "us", call.measured.p99, Some(echo.measured.p99));
        report.line(label("CPU of the server"), "us", call.measured.cpu, Some(echo.measured.cpu));
        if connections == 256 {
            report.line(
                format!("{name}: memory with 256 connections"),
                "MB",
                process::memory(ours.process(), "VmRSS"),
                Some(rested),
            );
        }
        if connections == 64 {
            if with_goals {
                let ratio = call.per_second / echo.per_second.max(1.0);
                report.goal(
                    format!("{name}: HTTP, 64 connections, requests as a part of the echo's"),
                    "ratio",
                    ratio,
                    Goal::AtLeast(0.35),
                    Some(0.5),
                );
            }
            at_64 = Some(echo);
        }
    }
    report.line(
        format!("{name}: memory, the most there was"),
        "MB",
        process::memory(ours.process(), "VmHWM"),
        Some(rested),
    );
    at_64.ok_or_else(|| "nothing was measured".into())
}

/// A key such as `toolgate key create` makes.
fn key(server: &Server) -> Result<String, Failure> {
    let body = json!({"name": "bench", "owner": "admin"}).to_string();
    let made = load::once(&server.address, &Request::post("/api/v1/keys", Some(&server.key), &body, b"\"id\""))?;
    let made: Value = serde_json::from_str(&made)?;
    let secret = made.get("secret").and_then(Value::as_str);
    Ok(secret.ok_or("no key was made")?.to_owned())
}

pub fn exchange(server: &Server, request: &Request, connections: usize) -> Result<Cost, Failure> {
    // Set from within the load, at the two ends of the time that is measured.
    let (began, ended) = (Cell::new(None), Cell::new(None));
    let now = || Some((Instant::now(), process::cpu_time(server.process())));
    let walls = load::run(&server.address, request, connections, MEASURED, || began.set(now()), || ended.set(now()))?;
    let (Some((start, before)), Some((end, after))) = (began.get(), ended.get()) else {
        return Err("nothing was measured".into());
    };
    let count = f64::from(u32::try_from(walls.len()).unwrap_or(u32::MAX));
    let per_second = count / (end - start).as_secs_f64();
    Ok(Cost { per_second, measured: of(walls, after.saturating_sub(before)) })
}

fn in_process(report: &mut Report, place: &Place, echo: &Cost) -> Result<(), Failure> {
    for durability in ["auto", "power"] {
        measure_inside(report, place, durability, echo)?;
    }
    Ok(())
}

/// What a decision costs with policies, and a call with policies and guardrails.
fn everything_on(report: &mut Report, echo: &Cost) -> Result<(), Failure> {
    let (input, folder) = (input(), tempfile::tempdir()?);
    let inside = Inside::open(folder.path(), "", "auto")?;
    let base = echo.measured.cpu;
    for (policies, reads, about, most) in [
        (20, Reads::One, "one action reads an argument", 0.6),
        (20, Reads::Both, "both actions read one", 0.8),
        (500, Reads::Both, "both actions read one", 1.0),
    ] {
        inside.dress(policies, reads, false)?;
        let steps = inside.steps(&input)?;
        let cpu = steps.standing + steps.arguments;
        let metric = format!("decision (resolve to permit), {policies} policies, {about}");
        report.line(format!("{metric}: CPU (baseline: bare echo)"), "us", cpu, Some(base));
        report.goal(format!("{metric}, as a part of the echo's"), "ratio", cpu / base, Goal::AtMost(most), None);
    }
    inside.dress(20, Reads::One, true)?;
    let cost = inside.calls(&input, 64)?;
    let label = |what: &str| format!("everything on: in process, 64 callers, {what}");
    report.line(label("calls"), "1/s", cost.per_second, None);
    report.line(label("p50"), "us", cost.measured.median, None);
    report.line(label("p99"), "us", cost.measured.p99, None);
    report.line(label("CPU (baseline: bare echo)"), "us", cost.measured.cpu, Some(base));
    report.goal(
        label("CPU as a multiple of the echo's"),
        "ratio",
        cost.measured.cpu / base,
        Goal::AtMost(2.4),
        Some(1.8),
    );
    inside.close();

    let folder = tempfile::tempdir()?;
    tokio::runtime::Runtime::new()?.block_on(dressed::prepare(folder.path()))?;
    let path = folder.path().to_str().ok_or("the temporary folder's name is not Unicode")?;
    let ours = Server::start(&[servers::TOOLGATE, path, "", "auto", "info"])?;
    let body = json!({"tool": "echo", "input": input}).to_string();
    let key = key(&ours)?;
    let request = Request::post("/api/v1/calls", Some(&key), &body, b"\"status\":\"completed\"");
    let call = exchange(&ours, &request, 64)?;
    let label = |what: &str| format!("everything on: HTTP, 64 connections, {what}");
    report.line(label("requests (baseline: bare echo)"), "1/s", call.per_second, Some(echo.per_second));
    report.line(label("p50"), "us", call.measured.median, Some(echo.measured.median));
    report.line(label("p99"), "us", call.measured.p99, Some(echo.measured.p99));
    report.line(label("CPU of the server"), "us", call.measured.cpu, Some(base));
    let part = call.per_second / echo.per_second.max(1.0);
    report.goal(label("requests as a part of the echo's"), "ratio", part, Goal::AtLeast(0.28), Some(0.4));
    Ok(())
}

fn measure_inside(report: &mut Report, place: &Place, durability: &str, echo: &Cost) -> Result<(), Failure> {
    let (name, input, folder) = (place.name, input(), tempfile::tempdir()?);
    let inside = Inside::open(folder.path(), place.url(), durability)?;
    let steps = inside.steps(&input)?;
    let mut alone = None;
    for callers in [1, 8, 64] {
        let cost = inside.calls(&input, callers)?;
        let label = |what: &str| format!("{name}: in process, {durability}, {callers} callers, {what}");
        let base = *alone.get_or_insert(cost.per_second);
        report.line(label("calls (baseline: one caller)"), "1/s", cost.per_second, Some(base));
        report.line(label("p50"), "us", cost.measured.median, None);
        report.line(label("p99"), "us", cost.measured.p99, None);
        report.line(label("CPU (baseline: bare echo)"), "us", cost.measured.cpu, Some(echo.measured.cpu));
        let admission = steps.standing + steps.arguments;
        let whole = Some(cost.measured.cpu);
        report.line(label("CPU of 2 resolve, 5 decide"), "us", steps.standing, whole);
        report.line(label("CPU of 3 validate, 4 authorize"), "us", steps.arguments, whole);
        // SQLite's writer is a thread of its own; PostgreSQL's shares those of the callers.
        let rest =
            if cost.writer > 0.0 { "CPU of 1, 6, 7, 8 and 9 before the commit" } else { "CPU of 1, 6, 7, 8 and 9" };
        report.line(label(rest), "us", cost.callers - admission, whole);
        if cost.writer > 0.0 {
            report.line(label("CPU of the commit"), "us", cost.writer, whole);
        }
        report.line(label("CPU of the log's order, usage, attendance"), "us", cost.background, whole);
        if callers == 64 && durability == "auto" && place.database.is_none() {
            report.goal(
                format!("{name}: in process, 64 callers, CPU as a multiple of the echo's"),
                "ratio",
                cost.measured.cpu / echo.measured.cpu.max(0.001),
                Goal::AtMost(1.8),
                Some(1.2),
            );
        }
    }
    inside.close();
    Ok(())
}
