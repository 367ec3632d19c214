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
    let mut cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return not_understood(error, &arguments, &environment),
    };
    let mut said = cli.global.complete(&environment);
    // Whom to follow is where to work.
    if let Command::Audit(AuditCommand::Follow(follow)) = &cli.command {
        cli.global.server = Some(follow.from.clone());
        said.server = true;
    }
    let output = Output::new(if cli.global.json { Format::Json } else { Format::Text }, &environment);
    // What `serve` prints is one line when it is ready, and nothing else.
    let problem_to_stdout = !matches!(cli.command, Command::Serve(_) | Command::Mcp { .. });
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
fn not_understood(mut error: clap::Error, arguments: &[OsString], environment: &Environment) -> ExitCode {
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
    let missing = error.kind() == ErrorKind::MissingRequiredArgument;
    let list = list_beside(&Cli::command(), arguments).filter(|_| missing);
    if let Some(list) = &list {
        output::note(&format!("  hint: see what there is with `toolgate {list}`"));
    }
    if arguments.iter().any(|argument| argument == "--json") && !arguments.iter().any(|argument| argument == "serve") {
        let _ = Output::new(Format::Json, environment).json(&usage_problem(&error.to_string(), list.as_deref()));
    }
    ExitCode::from(Exit::Usage.code())
}

/// The list of what a command is about, where it has one: whoever left an id out does not know it.
fn list_beside(program: &clap::Command, arguments: &[OsString]) -> Option<String> {
    let words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let (mut command, mut path) = (program, Vec::new());
    for word in words {
        if let Some(below) = command.find_subcommand(word) {
            path.push((command, below.get_name()));
            command = below;
        }
    }
    let (above, name) = path.pop()?;
    if matches!(name, "approve" | "reject") {
        return Some("approvals".to_owned());
    }
    // Something new has no place in a list yet.
    let about_one = command.get_positionals().any(clap::Arg::is_required_set);
    let makes = matches!(name, "create" | "set" | "add" | "open" | "save");
    let list = above.find_subcommand("list").filter(|_| about_one && !makes)?;
    let words = path.iter().map(|(_, name)| *name).chain([list.get_name()]);
    Some(words.collect::<Vec<_>>().join(" "))
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
