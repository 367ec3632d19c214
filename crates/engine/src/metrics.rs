//! What is counted of calls, for `/metrics`. Cheap enough for the one path: a known set of labels is found without a
//! lock and without memory, and then it is one addition.
//!
//! Deliberately absent: tenants and callers. A label for each would be a row for each, and would tell everyone who may
//! read the numbers who works here.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use toolgate_contracts::call::Status;
use toolgate_contracts::{ErrorCode, Source};

/// Tools with rows of their own; later ones are counted together under [`OTHER`].
pub const TOOLS_MAX: usize = 1000;
/// Reasons of a denial likewise.
pub const REASONS_MAX: usize = 64;
pub const OTHER: &str = "other";

/// From a tool that computes to one that waits for a slow service.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    tool: String,
    status: &'static str,
    code: &'static str,
    source: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolLabels {
    tool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

/// How a call ended, as far as it is a label.
type Ending = (Status, Option<ErrorCode>, Source);

/// What was found for one tool before. The few endings that a tool has are looked through one by one.
struct Tool {
    seconds: Histogram,
    endings: ArcSwap<Vec<(Ending, Counter)>>,
}

pub struct Metrics {
    calls: Family<CallLabels, Counter>,
    seconds: Family<ToolLabels, Histogram, fn() -> Histogram>,
    tools: ArcSwap<HashMap<Box<str>, Arc<Tool>>>,
    denials: Family<ReasonLabels, Counter>,
    reasons: ArcSwap<HashMap<Box<str>, Counter>>,
    running: Gauge,
    hits: Counter,
    misses: Counter,
}

/// Counts as running until it is dropped, however the call ends.
#[must_use]
pub struct RunningCall(Gauge);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

impl Metrics {
    pub fn new(registry: &mut Registry) -> Self {
        let calls = Family::<CallLabels, Counter>::default();
        registry.register("toolgate_calls", "Calls that ended, by tool, status, error code and door", calls.clone());
        let seconds = Family::<ToolLabels, Histogram, fn() -> Histogram>::new_with_constructor(seconds);
        registry.register("toolgate_call_seconds", "Time from submission to end of a call", seconds.clone());
        let denials = Family::<ReasonLabels, Counter>::default();
        registry.register("toolgate_denials", "Calls that were denied, by reason", denials.clone());
        let running = Gauge::default();
        registry.register("toolgate_calls_running", "Calls that run now", running.clone());
        let cache = Family::<ResultLabels, Counter>::default();
        registry.register("toolgate_cache", "Results looked for in the cache", cache.clone());
        Self {
            calls,
            seconds,
            tools: ArcSwap::default(),
            denials,
            reasons: ArcSwap::default(),
            running,
            hits: cache.get_or_create_owned(&ResultLabels { result: "hit" }),
            misses: cache.get_or_create_owned(&ResultLabels { result: "miss" }),
        }
    }

    /// A call begins to run. Keep what this returns until it ends.
    pub fn call_started(&self) -> RunningCall {
        self.running.inc();
        RunningCall(self.running.clone())
    }

    /// `tool` is the name of a tool that exists: what a caller made up is nobody's row.
    pub fn call_finished(&self, tool: &str, status: Status, code: Option<ErrorCode>, source: Source, seconds: f64) {
        let tools = self.tools.load();
        let found = match tools.get(tool) {
            Some(found) => Arc::clone(found),
            None => self.add_tool(tool),
        };
        found.seconds.observe(seconds);
        let ending = (status, code, source);
        let endings = found.endings.load();
        match endings.iter().find(|(known, _)| *known == ending) {
            Some((_, counter)) => drop(counter.inc()),
            None => self.add_ending(tool, &found, ending),
        }
    }

    /// A call was refused before it ran; `reason` is the error's.
    pub fn denied(&self, reason: &str) {
        let reasons = self.reasons.load();
        if let Some(counter) = reasons.get(reason) {
            counter.inc();
            return;
        }
        let shown = if reasons.len() < REASONS_MAX { reason } else { OTHER };
        let counter = self.denials.get_or_create_owned(&ReasonLabels { reason: shown.to_owned() });
        counter.inc();
        if !reasons.contains_key(shown) {
            self.reasons.rcu(|known| with(known, shown, &counter));
        }
    }

    pub fn cache(&self, hit: bool) {
        if hit { &self.hits } else { &self.misses }.inc();
    }

    /// Two callers may both add it: both get what the family holds, which is one.
    fn add_tool(&self, tool: &str) -> Arc<Tool> {
        let tools = self.tools.load();
        let shown = if tools.len() < TOOLS_MAX { tool } else { OTHER };
        if let Some(found) = tools.get(shown) {
            return Arc::clone(found);
        }
        let seconds = self.seconds.get_or_create_owned(&ToolLabels { tool: shown.to_owned() });
        let fresh = Arc::new(Tool { seconds, endings: ArcSwap::default() });
        self.tools.rcu(|known| with(known, shown, &fresh));
        fresh
    }

    fn add_ending(&self, tool: &str, found: &Tool, ending: Ending) {
        let (status, code, source) = ending;
        let shown = if self.tools.load().contains_key(tool) { tool } else { OTHER };
        let labels = CallLabels {
            tool: shown.to_owned(),
            status: status.as_str(),
            code: code.map_or("", code_label),
            source: source.as_str(),
        };
        let counter = self.calls.get_or_create_owned(&labels);
        counter.inc();
        found.endings.rcu(|known| {
            let mut endings = Vec::clone(known);
            if !endings.iter().any(|(known, _)| *known == ending) {
                endings.push((ending, counter.clone()));
            }
            endings
        });
    }
}

/// The map with one more; a name that came meanwhile stays as it is.
fn with<T: Clone>(known: &HashMap<Box<str>, T>, name: &str, value: &T) -> HashMap<Box<str>, T> {
    let mut more = known.clone();
    more.entry(name.into()).or_insert_with(|| value.clone());
    more
}

const fn code_label(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::ValidationError => "VALIDATION_ERROR",
        ErrorCode::Timeout => "TIMEOUT",
        ErrorCode::RateLimit => "RATE_LIMIT",
        ErrorCode::PolicyDenied => "POLICY_DENIED",
        ErrorCode::AuthRequired => "AUTH_REQUIRED",
        ErrorCode::ProviderError => "PROVIDER_ERROR",
        ErrorCode::NetworkError => "NETWORK_ERROR",
        ErrorCode::SandboxError => "SANDBOX_ERROR",
        ErrorCode::Unknown => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn what_ended_is_counted_by_its_labels() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        for _ in 0..3 {
            metrics.call_finished("echo", Status::Completed, None, Source::Api, 0.002);
        }
        metrics.call_finished("echo", Status::Failed, Some(ErrorCode::Timeout), Source::Mcp, 40.0);
        metrics.denied("not_found");
        metrics.cache(true);
        let running = metrics.call_started();
        let text = shown(&registry);
        for line in [
            "toolgate_calls_total{tool=\"echo\",status=\"completed\",code=\"\",source=\"api\"} 3",
            "toolgate_calls_total{tool=\"echo\",status=\"failed\",code=\"TIMEOUT\",source=\"mcp\"} 1",
            "toolgate_call_seconds_bucket{le=\"0.0025\",tool=\"echo\"} 3",
            "toolgate_call_seconds_count{tool=\"echo\"} 4",
            "toolgate_denials_total{reason=\"not_found\"} 1",
            "toolgate_cache_total{result=\"hit\"} 1",
            "toolgate_cache_total{result=\"miss\"} 0",
            "toolgate_calls_running 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        drop(running);
        assert!(shown(&registry).contains("toolgate_calls_running 0"));
    }

    #[test]
    fn names_without_end_do_not_make_rows_without_end() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        for number in 0..TOOLS_MAX + 500 {
            metrics.call_finished(&format!("tool_{number}"), Status::Completed, None, Source::Cli, 0.001);
            metrics.denied(&format!("reason_{number}"));
        }
        let text = shown(&registry);
        assert!(
            text.contains("toolgate_calls_total{tool=\"other\",status=\"completed\",code=\"\",source=\"cli\"} 500")
        );
        assert_eq!(text.matches("toolgate_call_seconds_count{").count(), TOOLS_MAX + 1);
        assert_eq!(text.matches("toolgate_denials_total{").count(), REASONS_MAX + 1);
    }

    #[test]
    fn no_addition_is_lost_between_threads() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..2000 {
                        let tool = ["a", "b", "c"][number % 3];
                        metrics.call_finished(tool, Status::Completed, None, Source::Api, 0.0);
                    }
                });
            }
        });
        let text = shown(&registry);
        let counted: u64 = text
            .lines()
            .filter_map(|line| line.strip_prefix("toolgate_calls_total{")?.rsplit_once(' '))
            .map(|(_, count)| count.parse::<u64>().unwrap())
            .sum();
        assert_eq!(counted, 8000, "{text}");
    }
}
