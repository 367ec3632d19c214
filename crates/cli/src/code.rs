//! The tools that are compiled into this program, and what runs tools in it.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use toolgate_contracts::{Entries, Fault, FaultKind};
use toolgate_engine::{Runners, Wiring};
use toolgate_mcp::runner::Servers;
use toolgate_runners::{Compositions, Expressions, Plugins, Requests, Scripts, Snippets, Statements};
use toolgate_sandbox::{PythonFile, Sandbox, Settings, Spawner};
use toolgate_server::{CodeTools, Printed};
use toolgate_toolbox::{Builtin, Tools};
use zeroize::Zeroizing;

/// A key service answers within this, or not at all.
const COMMAND_PATIENCE: Duration = Duration::from_secs(30);
const PRINTED_BYTES_MAX: u64 = 1024;

pub const fn code_tools() -> CodeTools {
    CodeTools { tools: toolgate_toolbox::TOOLS, builtins: toolgate_toolbox::BUILTINS, runners, printed_by }
}

fn runners(wiring: &Wiring<'_>) -> Runners {
    let Wiring { store, data, outside, entries, .. } = *wiring;
    let requests = Arc::new(Requests::new(outside.clone()));
    let tools = Tools::new(wiring);
    let runners = Runners::default()
        .with("composition", Arc::new(Compositions::default()))
        .with("expression", Arc::new(Expressions::default()))
        .with("http", Arc::clone(&requests) as _)
        .with("openapi", requests)
        .with("sql", Arc::new(Statements::new(tools.databases.clone())));
    let runners = match Plugins::open(data, store.clone(), outside.clone()) {
        Ok(plugins) => runners.with("wasm", Arc::new(plugins)),
        Err(error) => {
            tracing::error!("tools of kind `wasm` cannot run: {}", error.message);
            runners
        }
    };
    match Spawner::new() {
        // Nothing is started before the first tool that needs it.
        Ok(spawner) => {
            let scripts = Scripts::new(entries, spawner.clone());
            for problem in scripts.problems() {
                tracing::error!("the operator's script {problem}");
            }
            let servers = Servers::new(wiring, Some(spawner.clone()));
            for problem in servers.problems() {
                tracing::error!("the operator's server {problem}");
            }
            let sandbox = Sandbox::new(spawner, sandbox_settings(entries, data));
            let snippets = Arc::new(Snippets::new(sandbox, outside.clone()));
            let tools = tools.with_snippets(Arc::clone(&snippets)).with_scripts(scripts.clone());
            runners
                .with("builtin", Arc::new(Builtin::new(tools)))
                .with("mcp", Arc::new(servers))
                .with("python", snippets)
                .with("script", Arc::new(scripts))
        }
        Err(error) => {
            tracing::error!("tools of kind `python` and `script` cannot run: {error}");
            runners.with("builtin", Arc::new(Builtin::new(tools))).with("mcp", Arc::new(Servers::new(wiring, None)))
        }
    }
}

fn sandbox_settings(entries: &Entries, data: &Path) -> Settings {
    let entry = &entries.sandbox;
    let usual = Settings::default();
    Settings {
        python: entry.python.clone(),
        libraries: entry.libraries.clone(),
        preload: entry.preload.clone(),
        concurrent: entry.concurrent.unwrap_or(usual.concurrent).max(1),
        warm: entry.warm.unwrap_or(usual.warm),
        cgroups: entry.cgroups.clone(),
        wasm: entry.wasm.as_ref().map(|pinned| PythonFile {
            file: pinned.file.clone(),
            sha256: pinned.sha256.clone(),
            cache: Some(data.join("python")),
        }),
        runsc: entry.runsc.clone(),
        gvisor_oldest: entry.gvisor.oldest.clone(),
        // Without what the operator meant it to be under, untrusted code is under less.
        refused: entries.wrong.told("sandbox", None, None),
        ..usual
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
