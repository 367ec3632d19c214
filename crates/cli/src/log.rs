//! The log, on standard error: a server's own, or what goes wrong inside a command on a local data folder. A server's
//! traces go to a collector beside it, if one is named.

use std::io::Write as _;

use toolgate_contracts::Fault;
use toolgate_server::Config;
use toolgate_server::config::Origin;
use toolgate_server::otlp::{self, Traces};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use crate::failure::Failure;

/// What it gives back sends the traces; end it last.
pub fn of_server(config: &Config) -> Result<Option<Traces>, Failure> {
    let filter = filter(config.get("log"))?;
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    // Each listener has its own filter, so that the one does not decide what the other hears.
    let lines = match config.get("log_format") {
        "json" => lines.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed(),
        _ => lines.with_filter(filter).boxed(),
    };
    let (collector, traces) = match config.get("otlp_endpoint") {
        "" => (None, None),
        endpoint => otlp::layer(endpoint).map(|(layer, traces)| (Some(layer), Some(traces)))?,
    };
    let installed = tracing_subscriber::registry().with(lines).with(collector).try_init();
    installed.map_err(Fault::internal)?;
    Ok(traces)
}

/// A command says what it did by itself; the log adds why something inside failed.
pub fn of_command(config: &Config) -> Result<(), Failure> {
    let set = config.settings().get("log").filter(|setting| setting.origin != Origin::Default);
    let words = set.map_or("error", |setting| setting.value.as_str());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter(words)?)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time();
    // A second data folder in one process would log like the first.
    let _ = subscriber.try_init();
    Ok(())
}

/// Says where something broke down. The words only where they stand in the program itself: what was put together while
/// it ran may hold somebody's secret.
pub fn panicked(info: &std::panic::PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let words = info.payload().downcast_ref::<&'static str>().copied().unwrap_or("(not shown: it may hold a secret)");
    let thread = std::thread::current();
    // Not by the log: that may be what broke.
    let _ = writeln!(std::io::stderr(), "thread '{}' panicked at {place}: {words}", thread.name().unwrap_or("unnamed"));
}

fn filter(words: &str) -> Result<EnvFilter, Failure> {
    EnvFilter::try_new(words).map_err(|error| {
        Failure::usage(format!("`log`: {error}"), "write `info`, or a filter such as info,toolgate_store=debug")
    })
}
