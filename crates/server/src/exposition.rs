//! `/metrics`: what is counted, as Prometheus reads it. Calls are counted by the engine, requests and the process here.

use std::fmt::Error;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use toolgate_engine::Metrics;

pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

pub struct Exposition {
    registry: Registry,
    /// What the engine counts.
    pub calls: Arc<Metrics>,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
}

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

impl Default for Exposition {
    fn default() -> Self {
        let mut registry = Registry::default();
        let calls = Arc::new(Metrics::new(&mut registry));
        let requests = Family::<RequestLabels, Counter>::default();
        registry.register("toolgate_http_requests", "Requests that were answered", requests.clone());
        let seconds = Family::<RouteLabels, Histogram, fn() -> Histogram>::new_with_constructor(seconds);
        registry.register("toolgate_http_request_seconds", "Time until the answer began", seconds.clone());
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("toolgate_build", "The program that serves", build);
        registry.register_collector(Box::new(Process));
        Self { registry, calls, requests, seconds }
    }
}

impl Exposition {
    /// `route` is one of ours, so there is an end to them.
    pub fn answered(&self, method: &'static str, route: &str, status: u16, seconds: f64) {
        let route = route.to_owned();
        self.seconds.get_or_create(&RouteLabels { route: route.clone() }).observe(seconds);
        self.requests.get_or_create(&RequestLabels { method, route, status }).inc();
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            tracing::error!("the metrics cannot be written: {error}");
        }
        text
    }
}

/// What the system says of this process, asked when somebody looks. What it does not say is left out.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut gauge = |name: &str, about: &str, value: Option<u64>| match value {
            Some(value) => {
                let gauge = ConstGauge::new(value);
                gauge.encode(encoder.encode_descriptor(name, about, None, gauge.metric_type())?)
            }
            None => Ok(()),
        };
        let Status { cpu_seconds, started, resident } = Status::read();
        gauge("process_resident_memory_bytes", "Memory in use", resident)?;
        gauge("process_open_fds", "Open files and connections", open_files())?;
        gauge("process_max_fds", "Files and connections that may be open", files_max())?;
        gauge("process_start_time_seconds", "When the process began, in Unix time", started)?;
        if let Some(seconds) = cpu_seconds {
            let counter = ConstCounter::new(seconds);
            let about = "Processor time used";
            counter.encode(encoder.encode_descriptor("process_cpu_seconds", about, None, counter.metric_type())?)?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Status {
    cpu_seconds: Option<f64>,
    started: Option<u64>,
    resident: Option<u64>,
}

impl Status {
    /// `/proc/self/stat`, whose second field holds a name in parentheses that may hold anything.
    fn read() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/self/stat");
        let fields: Vec<u64> = stat
            .rsplit_once(')')
            .map_or("", |(_, rest)| rest)
            .split_whitespace()
            .map(|field| field.parse().unwrap_or_default())
            .collect();
        // Counted from the state, which is the third field of the file.
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks = rustix::param::clock_ticks_per_second();
        let booted =
            read("/proc/stat").lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok());
        let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
        #[expect(clippy::cast_precision_loss, reason = "seconds of a process stay far below 2^52")]
        let seconds = |count: u64| count as f64 / ticks.max(1) as f64;
        Self {
            cpu_seconds: field(14).zip(field(15)).map(|(user, system)| seconds(user + system)),
            started: booted.zip(field(22)).map(|(booted, after)| booted + after / ticks.max(1)),
            resident: field(24).map(|pages| pages * page),
        }
    }
}

fn open_files() -> Option<u64> {
    // The folder that is read is open itself.
    std::fs::read_dir("/proc/self/fd").ok().and_then(|files| u64::try_from(files.count()).ok()?.checked_sub(1))
}

fn files_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_described() {
        let exposition = Exposition::default();
        exposition.answered("GET", "/healthz", 200, 0.0004);
        let text = exposition.text();
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("{name} is not in\n{text}"))
                .rsplit_once(' ')
                .unwrap()
                .1
                .parse::<f64>()
                .unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1_000_000.0);
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(value("process_open_fds") > 2.0 && value("process_max_fds") >= value("process_open_fds"));
        assert!(value("process_start_time_seconds") > 1_700_000_000.0);
        assert!(
            text.contains("toolgate_http_requests_total{method=\"GET\",route=\"/healthz\",status=\"200\"} 1"),
            "{text}"
        );
        assert!(text.contains(concat!("toolgate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1")), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
