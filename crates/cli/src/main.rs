//! `toolgate`: the whole product on the command line. A command is a client of the REST API, always.

mod args;
mod client;
mod code;
mod commands;
mod connect;
mod failure;
mod input;
mod log;
mod output;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

use args::{AuditCommand, Cli, Command, Said};
use connect::{Environment, Session};
use failure::{Done, Exit, usage_problem};
use output::{Format, Output};

/// Threads for what waits for the disk or takes its time; more wait for their turn.
const BLOCKING_THREADS_MAX: usize = 64;

/// A server allocates on every thread at once, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(log::panicked));
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let environment = Environment::read();
    let colorless = environment.get("NO_COLOR").is_some() || environment.get("TERM") == Some("dumb");
    let mut cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return not_understood(error, &arguments, colorless),
    };
    let mut said = cli.global.complete(&environment);
    // Whom to follow is where to work.
    if let Command::Audit(AuditCommand::Follow(follow)) = &cli.command {
        cli.global.server = Some(follow.from.clone());
        said.server = true;
    }
    let output = Output::new(if cli.global.json { Format::Json } else { Format::Text }, colorless);
    // What `serve` prints is one line when it is ready, and nothing else.
    let problem_to_stdout = !matches!(cli.command, Command::Serve(_));
    match run(cli, said, environment, output) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            output.failure(&failure, problem_to_stdout);
            ExitCode::from(failure.exit().code())
        }
    }
}

fn run(cli: Cli, said: Said, environment: Environment, output: Output) -> Done {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().max_blocking_threads(BLOCKING_THREADS_MAX).build();
    let runtime = runtime.map_err(|error| {
        failure::Failure::failed(format!("cannot start: {error}"), "check the limits on threads and files")
    })?;
    let done = runtime.block_on(async {
        if let Some(done) = commands::offline(&cli.command, &output) {
            return done;
        }
        let session = Session::new(&cli.global, said, environment, output)?;
        commands::run(cli.command, &session).await
    });
    // Nothing of ours is left running; a reader of the database may still be winding down.
    runtime.shutdown_background();
    done
}

/// Help and version are answers; everything else clap says is an error of usage.
fn not_understood(mut error: clap::Error, arguments: &[OsString], colorless: bool) -> ExitCode {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Nothing was asked, so this is what a person wants to read, and yet nothing was done.
        let _ = output::print(&error.render().to_string());
        return ExitCode::from(Exit::Usage.code());
    }
    forget_hidden(&mut error);
    // A reader that has gone away wanted no more.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "--json") && !arguments.iter().any(|argument| argument == "serve") {
        let _ = Output::new(Format::Json, colorless).json(&usage_problem(&error.to_string()));
    }
    ExitCode::from(Exit::Usage.code())
}

/// Where a command is missing, clap lists all of them.
fn forget_hidden(error: &mut clap::Error) {
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::ValidSubcommand) {
        let hidden: Vec<_> = Cli::command()
            .get_subcommands()
            .filter(|command| command.is_hide_set())
            .map(clap::Command::get_name)
            .map(str::to_owned)
            .collect();
        let shown = names.iter().filter(|name| !hidden.contains(*name)).cloned().collect();
        error.insert(ContextKind::ValidSubcommand, ContextValue::Strings(shown));
    }
}
