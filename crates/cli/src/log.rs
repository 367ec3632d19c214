//! The log, on standard error: a server's own, or what goes wrong inside a command on a local data folder.

use toolgate_contracts::Fault;
use toolgate_server::Config;
use toolgate_server::config::Origin;
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

pub fn of_server(config: &Config) -> Result<(), Failure> {
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter(config.get("log"))?)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    let installed = match config.get("log_format") {
        "json" => subscriber.json().try_init(),
        _ => subscriber.try_init(),
    };
    installed.map_err(|error| Fault::internal(error).into())
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

fn filter(words: &str) -> Result<EnvFilter, Failure> {
    EnvFilter::try_new(words).map_err(|error| {
        Failure::usage(format!("`log`: {error}"), "write `info`, or a filter such as info,toolgate_store=debug")
    })
}
