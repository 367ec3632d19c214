//! `toolgate audit …`: reading the log, and checking it on this side without believing the server.

mod events;
mod export;
mod folder;
mod follow;
mod kept;
mod verify;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use toolgate_contracts::{Clock, Rng};
use toolgate_ledger::{Checkpoint, Note};
use toolgate_server::{App, Running};

use super::list;
use crate::args::{AuditCommand, Entries, Export, ExportFormat, Verify};
use crate::client::Client;
use crate::code::code_tools;
use crate::connect::{Session, Taken};
use crate::failure::{Done, Failure};
use crate::input;
use crate::output::{Detail, Output, Paint, Table, items_of, text_of, time_of};

/// What needs no server, or must not go through one.
pub async fn without_client(command: &AuditCommand, session: &Session) -> Option<Done> {
    match command {
        AuditCommand::Verify(Verify { event: Some(file), event_key: Some(keys), .. }) => {
            Some(events::verify_offline(file, keys, session))
        }
        AuditCommand::Verify(Verify { event: Some(_), .. }) => None,
        AuditCommand::Verify(verify) if !verify.live => Some(verify::offline(verify, session)),
        AuditCommand::AcceptRestore => Some(accept_restore(session).await),
        _ => None,
    }
}

pub async fn run(command: AuditCommand, client: &Client, session: &Session) -> Done {
    let output = &session.output;
    match command {
        AuditCommand::List(Entries { action, actor, object, since, until, paging }) => {
            let [since, until] = [since, until].map(|moment| moment.map(|moment| moment.to_string()));
            let query = [("action", action), ("actor", actor), ("object", object), ("since", since), ("until", until)];
            list::show(&["audit", "entries"], &query, paging, (client, output), entries_table).await
        }
        AuditCommand::Show { entry } => show(&proof_of(client, &entry).await?, output),
        AuditCommand::Checkpoint => checkpoint(client, output).await,
        AuditCommand::Export(Export { format: ExportFormat::Log, since, until, .. })
            if since.is_some() || until.is_some() =>
        {
            Err(Failure::usage(
                "the log is exported whole: a part of it could not be verified",
                "leave --since and --until out, or export calls with --format tool-layer",
            ))
        }
        AuditCommand::Export(wanted) => match (wanted.format, &wanted.to) {
            (ExportFormat::Log, Some(to)) => export::run(to, wanted.payloads, client, output).await,
            (ExportFormat::ToolLayer | ExportFormat::Log, _) => events::export(&wanted, client, output).await,
        },
        AuditCommand::EventKey => events::keys(client, output).await,
        AuditCommand::Prove { call, to } => prove(&call, to.as_deref(), client, output).await,
        AuditCommand::Verify(Verify { event: Some(file), .. }) => events::verify(&file, client, session).await,
        AuditCommand::Verify(verify) => verify::live(&verify, client, session).await,
        AuditCommand::Follow(follow) => follow::run(&follow, client, output).await,
        AuditCommand::AcceptRestore => accept_restore(session).await,
    }
}

fn entries_table(entries: &Value, paint: Paint) -> String {
    let mut table = Table::new(["INDEX", "AT", "ACTOR", "ACTION", "OBJECT"]).at_least(36).drops(["AT", "ACTOR"]);
    for item in items_of(entries) {
        let entry = &item["entry"];
        let [action, object] = ["action", "object"].map(|member| text_of(entry, member));
        let name = text_of(item, "actor_name");
        let actor = if name.is_empty() { text_of(entry, "actor") } else { name };
        table.row([text_of(item, "index"), time_of(entry, "at"), actor, action, object]);
    }
    table.render(paint, "The log has no such entries.")
}

async fn proof_of(client: &Client, entry: &str) -> Result<Value, Failure> {
    client.get(&["audit", "entries", entry, "proof"], &[]).await
}

fn show(proved: &Value, output: &Output) -> Done {
    let text = proved["entry"].as_str().unwrap_or_default();
    let entry: Value = serde_json::from_str(text).unwrap_or_default();
    let value = json!({"receipt": proved["receipt"], "entry": entry});
    output.show(&value, |value, paint| {
        let (entry, receipt) = (&value["entry"], &value["receipt"]);
        let details = entry["details"].as_object().map(|details| {
            let line = |(name, _): (&String, &Value)| format!("{name}  {}", text_of(&entry["details"], name));
            crate::output::clean(&details.iter().map(line).collect::<Vec<_>>().join("\n"))
        });
        Detail::new(paint, &format!("{} {}", text_of(entry, "action"), text_of(entry, "object")))
            .field("Index", text_of(receipt, "index"))
            .field("Id", text_of(entry, "id"))
            .field("At", text_of(entry, "at"))
            .field("Actor", text_of(entry, "actor"))
            .field("Digest", text_of(receipt, "entry_digest"))
            .field("Log", text_of(receipt, "log"))
            .section("Details", &details.unwrap_or_default())
            .end()
    })
}

async fn checkpoint(client: &Client, output: &Output) -> Done {
    let note = client.text(&["audit", "checkpoint"], &[]).await?;
    let unread = |why: &dyn std::fmt::Display| {
        Failure::unreachable(format!("the server's head is not readable: {why}"), "check that it is a Toolgate server")
    };
    let read = Note::parse(note.as_bytes()).map_err(|error| unread(&error))?;
    let Checkpoint { origin, size, root } =
        Checkpoint::parse(read.unverified_text()).map_err(|broken| unread(&broken))?;
    output.show(&json!({"log": origin, "size": size, "root": root, "note": note}), |_, _| note.clone())
}

async fn prove(call: &str, to: Option<&Path>, client: &Client, output: &Output) -> Done {
    let proved = proof_of(client, call).await?;
    let Some(to) = to else {
        return output.show(&proved, |proved, _| text_of(proved, "proof"));
    };
    fs::write(to, format!("{proved}\n")).map_err(|error| folder::unwritten(to, &error))?;
    let index = text_of(&proved["receipt"], "index");
    output.say(&proved, &format!("Entry {index} and its proof are in {}.", to.display()))
}

async fn accept_restore(session: &Session) -> Done {
    let data = session.folder("accepting a restore")?;
    let folder = match session.take_folder(data).await? {
        Taken::Ours(folder) => folder,
        Taken::Served(Running { url, .. }) => {
            return Err(Failure::failed(
                format!("a server is using {}: {url}", data.display()),
                "it found nothing wrong when it started; stop it first if you restored a database under it",
            ));
        }
    };
    let app = App::open(session.config(data, &[])?, &folder.path, code_tools(), Clock::System, Rng::System).await?;
    let lost = app.note_restored("another copy of the database").await;
    app.close().await;
    drop(folder);
    let lost: Vec<Value> = lost?
        .iter()
        .map(|pinned| json!({"log": pinned.checkpoint.origin, "size": pinned.checkpoint.size, "root": pinned.checkpoint.root}))
        .collect();
    session.output.say(
        &json!({"signed_before": lost}),
        "The database holds a new log from now on, and an entry in it says why. Whoever kept heads or a copy of the log \
         before begins anew with this one.",
    )
}

/// Reads a file that is given as a head of a log.
fn read_note(path: &Path) -> Result<Vec<u8>, Failure> {
    input::read_file(path, toolgate_ledger::note::NOTE_BYTES_MAX)
}
