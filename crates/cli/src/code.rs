//! The tools that are compiled into this program, and what runs tools in it.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use toolgate_contracts::{Fault, FaultKind};
use toolgate_engine::Runners;
use toolgate_runners::{Expressions, Requests, Snippets};
use toolgate_sandbox::{Sandbox, Spawner};
use toolgate_server::{CodeTools, Printed, Wiring};
use toolgate_toolbox::{Builtin, Tools};
use zeroize::Zeroizing;

/// A key service answers within this, or not at all.
const COMMAND_PATIENCE: Duration = Duration::from_secs(30);
const PRINTED_BYTES_MAX: u64 = 1024;

pub const fn code_tools() -> CodeTools {
    CodeTools { tools: toolgate_toolbox::TOOLS, builtins: toolgate_toolbox::BUILTINS, runners, printed_by }
}

fn runners(wiring: &Wiring<'_>) -> Runners {
    let Wiring { store, clock, rng, data, outside } = *wiring;
    let tools = Tools { store: store.clone(), clock: clock.clone(), rng: rng.clone(), files: data.join("files") };
    let runners = Runners::default()
        .with("builtin", Arc::new(Builtin::new(tools)))
        .with("expression", Arc::new(Expressions::default()))
        .with("http", Arc::new(Requests::new(outside.clone())));
    match Spawner::new() {
        // Nothing is started before the first tool that needs it.
        Ok(spawner) => {
            let sandbox = Sandbox::new(spawner, toolgate_sandbox::Settings::default());
            runners.with("python", Arc::new(Snippets::new(sandbox, outside.clone())))
        }
        Err(error) => {
            tracing::error!("tools of kind `python` cannot run: {error}");
            runners
        }
    }
}

/// Runs the program that the operator's configuration names, with its arguments and without a shell. It has this
/// process's environment and standard error, and nothing to read.
#[expect(
    clippy::disallowed_methods,
    reason = "the operator names this program; it is started once, before anything runs"
)]
fn printed_by(command: Vec<String>) -> Printed {
    Box::pin(async move {
        let (program, arguments) = command.split_first().ok_or_else(|| Fault::internal("an empty command"))?;
        let failed = |why: String| {
            let told = format!("the command of `master_key_command`, `{program}`, {why}");
            Fault::new(
                FaultKind::Unavailable,
                told,
                "run it by hand as the user who runs Toolgate, and see what it says",
            )
        };
        let mut child = tokio::process::Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(format!("cannot be started: {error}")))?;
        let stdout = child.stdout.take().ok_or_else(|| Fault::internal("a child without standard output"))?;
        let mut printed = Zeroizing::new(String::with_capacity(usize::try_from(PRINTED_BYTES_MAX).unwrap_or(0)));
        let run = async {
            stdout.take(PRINTED_BYTES_MAX).read_to_string(&mut printed).await?;
            child.wait().await
        };
        match tokio::time::timeout(COMMAND_PATIENCE, run).await {
            Ok(Ok(status)) if status.success() => Ok(printed),
            Ok(Ok(status)) => Err(failed(format!("ended with {status}"))),
            Ok(Err(error)) => Err(failed(format!("did not print text: {error}"))),
            Err(_) => Err(failed(format!("did not end within {} s", COMMAND_PATIENCE.as_secs()))),
        }
    })
}
