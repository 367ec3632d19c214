//! Measuring and reporting: one shape for every benchmark.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

#[derive(Serialize)]
struct Line {
    bench: &'static str,
    metric: String,
    unit: &'static str,
    value: f64,
    baseline: Option<f64>,
    ratio: Option<f64>,
}

/// What a figure should be.
#[derive(Clone, Copy)]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    const fn bound(self) -> f64 {
        match self {
            Self::AtMost(bound) | Self::AtLeast(bound) => bound,
        }
    }
}

pub struct Report {
    bench: &'static str,
    lines: Vec<Line>,
}

impl Report {
    pub fn new(bench: &'static str) -> Self {
        println!("\n{bench}\n{:<84} {:>12} {:>12} {:>8}", "", "value", "baseline", "ratio");
        Self { bench, lines: Vec::new() }
    }

    pub fn line(&mut self, metric: impl Into<String>, unit: &'static str, value: f64, baseline: Option<f64>) {
        let metric = metric.into();
        let ratio = baseline.filter(|baseline| *baseline > 0.0).map(|baseline| value / baseline);
        let shown = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.2}"));
        println!(
            "{:<84} {:>12} {:>12} {:>8}",
            format!("{metric} [{unit}]"),
            shown(Some(value)),
            shown(baseline),
            shown(ratio)
        );
        self.lines.push(Line { bench: self.bench, metric, unit, value, baseline, ratio });
    }

    /// A figure with its goal as the baseline, and in the table whether it was met; `superb` is a goal beyond that.
    pub fn goal(&mut self, metric: impl Into<String>, unit: &'static str, value: f64, goal: Goal, superb: Option<f64>) {
        self.line(format!("GOAL {}", metric.into()), unit, value, Some(goal.bound()));
        let beyond = superb.map(|bound| match goal {
            Goal::AtMost(_) => Goal::AtMost(bound),
            Goal::AtLeast(_) => Goal::AtLeast(bound),
        });
        let word = match goal {
            Goal::AtMost(_) => "at most",
            Goal::AtLeast(_) => "at least",
        };
        let verdict = match (goal.is_met(value), beyond.is_some_and(|beyond| beyond.is_met(value))) {
            (_, true) => "superb",
            (true, false) => "met",
            (false, false) => "MISSED",
        };
        println!("  {verdict}: {word} {} is the goal", goal.bound());
    }

    #[expect(clippy::disallowed_methods, reason = "cargo says where its target folder is")]
    pub fn finish(self) -> std::io::Result<()> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        let folder = target.join("bench");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("{}.json", self.bench)), serde_json::to_vec_pretty(&self.lines)?)
    }
}

/// Microseconds: of the median operation, of the slowest hundredth, and of CPU per operation.
pub struct Measured {
    pub median: f64,
    pub p99: f64,
    pub cpu: f64,
}

pub fn of(mut walls: Vec<Duration>, cpu: Duration) -> Measured {
    walls.sort_unstable();
    let at = |percent: usize| walls.get(walls.len() * percent / 100).map_or(0.0, micros);
    let operations = u32::try_from(walls.len().max(1)).unwrap_or(u32::MAX);
    Measured { median: at(50), p99: at(99), cpu: micros(&cpu) / f64::from(operations) }
}

pub fn micros(duration: &Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// CPU time of this process, all threads.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

pub fn time<T>(times: usize, mut operation: impl FnMut() -> T) -> Measured {
    let mut walls = Vec::with_capacity(times);
    let cpu = cpu_time();
    for _ in 0..times {
        let start = Instant::now();
        std::hint::black_box(operation());
        walls.push(start.elapsed());
    }
    of(walls, cpu_time().saturating_sub(cpu))
}
