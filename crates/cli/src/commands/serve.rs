//! `toolgate serve`.

use std::path::Path;
use std::sync::atomic::Ordering;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use toolgate_contracts::Fault;
use toolgate_server::{App, Config, Ready};

use super::register;
use crate::args::Serve;
use crate::client::{Client, Local};
use crate::code::code_tools;
use crate::connect::{Session, Taken};
use crate::failure::{Done, Exit, Failure};
use crate::log;
use crate::output::{Detail, Output, note};

const EXAMPLES: &str = "examples/tools";

pub async fn run(serve: Serve, session: &Session) -> Done {
    let Serve { listen, database, redis, public_url, examples } = serve;
    let data = session.folder("serving")?;
    let flags = [("listen", listen), ("database", database), ("redis", redis), ("public_url", public_url)];
    let flags: Vec<_> = flags.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let config = session.config(data, &flags)?;
    let traces = log::of_server(&config)?;
    let done = serve_with(config, examples, session).await;
    if let Some(traces) = traces {
        traces.end().await;
    }
    done
}

async fn serve_with(config: Config, examples: bool, session: &Session) -> Done {
    let data = session.folder("serving")?;
    let mut folder = match session.take_folder(data).await? {
        Taken::Ours(folder) => folder,
        Taken::Served(running) => {
            return Err(Failure::failed(
                format!("a server is using {} already: {}", data.display(), running.url),
                "use that one, stop it first, or choose another folder with --data",
            ));
        }
    };
    let output = session.output;
    let mut signals = Signals::new()?;
    let (tell, told) = tokio::sync::oneshot::channel::<()>();
    let stop = async move {
        // Never sent only if this function has ended.
        let _ = told.await;
    };
    let before = async |app: &App| {
        if examples {
            app.demonstration.store(true, Ordering::Relaxed);
            let client = Client::Local(Box::new(Local::lent(app)));
            register::examples(Path::new(EXAMPLES), &client, &output).await;
        }
        Ok::<(), Fault>(())
    };
    let shown = folder.path.clone();
    let commands = match &session.given {
        Some(given) if session.default_folder().as_deref() != Some(data) => {
            format!("toolgate --data {} tool list", quoted(&given.display().to_string()))
        }
        _ => String::new(),
    };
    let served = toolgate_server::serve(config, &mut folder, code_tools(), stop, before, |ready| {
        announce(&ready, &shown, &commands, &output);
    });
    tokio::pin!(served);
    tokio::select! {
        ended = &mut served => return ended.map(|()| Exit::Done).map_err(Failure::from),
        () = signals.next() => {}
    }
    tracing::debug!("stopping");
    note("Stopping: open requests may finish. Once more stops at once.");
    let _ = tell.send(());
    tokio::select! {
        ended = &mut served => ended?,
        () = signals.next() => note("Stopped with requests open."),
    }
    Ok(Exit::Done)
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let wrong = |error: std::io::Error| {
            Failure::failed(format!("cannot listen for signals: {error}"), "check the limits of the process")
        };
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(wrong)?,
            interrupt: signal(SignalKind::interrupt()).map_err(wrong)?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// A word as a shell takes it.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn announce(ready: &Ready, data: &Path, commands: &str, output: &Output) {
    let Ready { url, sign_in_url, key_file } = ready;
    tracing::debug!(url, "ready");
    let value = json!({"url": url, "sign_in_url": sign_in_url, "key_file": key_file});
    // A reader that has gone away is no reason not to serve.
    let _ = output.show_line(&value, |_, paint| {
        Detail::new(paint, concat!("Toolgate ", env!("CARGO_PKG_VERSION"), " is ready"))
            .field("Address", url)
            .field("Sign in", sign_in_url)
            .field("", "(works once, within ten minutes)")
            .field("Key file", key_file.display().to_string())
            .field("Data", data.display().to_string())
            .field("Commands", commands)
            .field("Stop", "Ctrl-C")
            .end()
    });
}
