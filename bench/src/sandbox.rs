//! What isolation costs, beside a bare `python3 -I -S`: the first result, a fresh instance for each call, memory, and how
//! much slower code runs inside.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use toolgate_sandbox::{Ended, Limits, Sandbox, SandboxError, SandboxRequest, Settings, Spawner, Warmth};

use crate::Failure;
use crate::report::{Goal, Measured, Report, cpu_time, of};

const STARTS: usize = 60;
const CALLS: usize = 200;
/// Enough for what waits ready to be made anew, as between the calls of one agent.
const PAUSE: Duration = Duration::from_millis(25);
const WARM: usize = 2;
const PYTHON: &str = "/usr/bin/python3";

/// Each sets `result` to the seconds that it took.
const SNIPPETS: [(&str, &str); 3] = [
    (
        "arithmetic",
        "import time\nt = time.perf_counter()\nx, v = 1.0, 0.0\nfor n in range(600000):\n    a = -x / (abs(x) ** 3 + 0.1)\n    \
         v += a * 0.001\n    x += v * 0.001\nresult = time.perf_counter() - t",
    ),
    (
        "dictionaries",
        "import time\nt = time.perf_counter()\nd = {}\nfor n in range(400000): d[str(n % 5000)] = d.get(str(n % 5000), 0) + n\n\
         result = time.perf_counter() - t",
    ),
    (
        "JSON",
        "import json, time\nt = time.perf_counter()\nx = {'k%d' % n: [n, str(n), None, {'y': n / 7}] for n in range(2000)}\n\
         for n in range(30): json.loads(json.dumps(x))\nresult = time.perf_counter() - t",
    ),
];

pub async fn run(report: &mut Report) -> Result<(), Failure> {
    let bare = bare_starts()?;
    report.line("bare start: median", "us", bare.median, None);
    report.line("bare start: p99", "us", bare.p99, None);

    let started = Instant::now();
    let folder = tempfile::tempdir()?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
    let limits = Limits::default();
    let settings = Settings { libraries: vec![folder.path().to_owned()], warm: WARM, limits, ..Settings::default() };
    let sandbox = Sandbox::new(Spawner::new()?, settings);
    let request = SandboxRequest::new("result = input['n'] + 1").input(&serde_json::json!({"n": 1})).limits(limits);
    let first = sandbox.run(&request).await?;
    if first.ended != Ended::Finished(Value::from(2)) {
        return Err(format!("{:?}", first.ended).into());
    }
    let cold = crate::report::micros(&started.elapsed());
    report.line("first result, the proof of the tier included (baseline: bare start)", "us", cold, Some(bare.median));

    sandbox.warm_up().await?;
    tokio::time::sleep(PAUSE * 4).await;
    let idle = memory(folder.path());
    let warm = calls(&sandbox, &request, Warmth::Ready, PAUSE).await?;
    goals(report, "from those that wait ready", &warm, &bare, 0.05);
    let fresh = calls(&sandbox, &request, Warmth::Fresh, Duration::ZERO).await?;
    goals(report, "forked when asked for", &fresh, &bare, 0.25);
    let busy = calls(&sandbox, &request, Warmth::Ready, Duration::ZERO).await?;
    report.line("without a pause, waiting ready: median (baseline: bare start)", "us", busy.median, Some(bare.median));

    if let Some(Memory { own, share }) = idle {
        report.line("an instance that waits: memory of its own", "KiB", own, None);
        report.line("an instance that waits: memory with its part of what is shared", "KiB", share, None);
    }
    for (name, code) in SNIPPETS {
        let request = SandboxRequest::new(code).limits(limits);
        let mut inside = Vec::new();
        let mut outside = Vec::new();
        for _ in 0..7 {
            outside.push(seconds_bare(code)?);
            match sandbox.run(&request).await?.ended {
                Ended::Finished(Value::Number(number)) => inside.push(number.as_f64().unwrap_or_default()),
                ended => return Err(format!("{ended:?}").into()),
            }
        }
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or_default() * 1e3
        };
        report.line(format!("{name} inside (baseline: bare)"), "ms", median(inside), Some(median(outside)));
    }
    Ok(())
}

fn goals(report: &mut Report, how: &str, measured: &Measured, bare: &Measured, ratio: f64) {
    report.line(
        format!("a fresh instance, {how}: median (baseline: bare start)"),
        "us",
        measured.median,
        Some(bare.median),
    );
    report.line(format!("a fresh instance, {how}: p99 (baseline: bare start's)"), "us", measured.p99, Some(bare.p99));
    let part = measured.median / bare.median;
    report.goal(format!("a fresh instance, {how}, as a part of a bare start"), "", part, Goal::AtMost(ratio), None);
}

/// On a thread of the runtime, as a server's calls are.
async fn calls(
    sandbox: &Sandbox,
    request: &SandboxRequest,
    warmth: Warmth,
    pause: Duration,
) -> Result<Measured, Failure> {
    let (sandbox, request) = (sandbox.clone(), request.clone());
    let measured = tokio::spawn(async move {
        let mut walls = Vec::with_capacity(CALLS);
        let cpu = cpu_time();
        for _ in 0..CALLS {
            let started = Instant::now();
            sandbox.run_from(&request, warmth).await?;
            walls.push(started.elapsed());
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
        Ok::<_, SandboxError>(of(walls, cpu_time().saturating_sub(cpu)))
    });
    Ok(measured.await??)
}

#[expect(clippy::disallowed_methods, reason = "the baseline is a bare interpreter")]
fn python(code: &str) -> std::process::Command {
    let mut command = std::process::Command::new(PYTHON);
    command.args(["-I", "-S", "-c", code]);
    command
}

fn bare_starts() -> Result<Measured, Failure> {
    let mut walls = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let started = Instant::now();
        python("pass").status()?;
        walls.push(started.elapsed());
    }
    Ok(of(walls, Duration::ZERO))
}

fn seconds_bare(code: &str) -> Result<f64, Failure> {
    let output = python(&format!("{code}\nprint(result)")).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

struct Memory {
    own: f64,
    share: f64,
}

/// Of the instances that wait, which carry `mark` among their arguments as the interpreter does; that one is the
/// process with the most memory of its own.
fn memory(mark: &Path) -> Option<Memory> {
    let mark = mark.to_str()?.as_bytes();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if !arguments.windows(mark.len()).any(|part| part == mark) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(entry.path().join("smaps_rollup")) else { continue };
        let kilobytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok())
        };
        if let (Some(own), Some(share)) = (kilobytes("Private_Dirty:"), kilobytes("Pss:")) {
            found.push(Memory { own, share });
        }
    }
    found.sort_by(|a, b| a.own.total_cmp(&b.own));
    found.into_iter().next()
}
