//! `toolgate audit verify`: a folder, a proof, or the log of a server as it is now. Nothing that the log computed is
//! believed; what is believed is a key, and the head that was seen last.

use std::path::Path;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolgate_ledger::{
    Broken, Checkpoint, Exported, Head, Origin, Proof, Receipt, Summary, Trust, Verifier, VerifierKey, note,
};

use super::export::{Checkpoints, PAGE_ENTRIES, export_page, server_log};
use super::folder::{LogFolder, Named, entry, note as note_of};
use super::kept::Keeper;
use super::read_note;
use crate::args::Verify;
use crate::client::Client;
use crate::connect::Session;
use crate::failure::{Done, Failure};
use crate::input;
use crate::output::{Output, clean};

const PROOF_FILE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Lines on their way from the server to the verifier.
const UNDER_WAY: usize = 2 * 500;

/// Why a verification ended early.
#[derive(Debug)]
pub enum Wrong {
    Broken(Broken),
    /// What the ledger does not know of: a line that is none, or a payload that is another.
    Line(String),
    /// Nothing is known of the log: it could not be read.
    Failure(Failure),
}

impl From<Broken> for Wrong {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Broken(broken) => Self::failed(broken.to_string(), broken.remedy()),
            Wrong::Line(what) => Self::failed(what, "compare with a copy from elsewhere, and keep this one"),
            Wrong::Failure(failure) => failure,
        }
    }
}

/// Whom to believe and what the log must contain.
struct Demand {
    trust: Trust,
    keys: Vec<VerifierKey>,
    kept: Vec<Checkpoint>,
    keeper: Keeper,
}

impl Demand {
    /// Keys that were given are believed, and those of the last time; where there are neither, those that come with the
    /// log. A key that appears later is believed only when it is given: whoever shows the log can make one.
    fn new(verify: &Verify, named: Named, session: &Session) -> Result<Self, Failure> {
        let Named { origin, keys: own } = named;
        let keeper = Keeper::of(&session.environment);
        let before = keeper.read(&origin)?;
        let mut keys = parse_keys(&verify.verifiers)?;
        keys.extend(before.iter().flat_map(|before| before.keys.iter().cloned()));
        // A witness that comes with the log is no more than a name: what it signed must fit, and proves nothing alone.
        let first = keys.is_empty();
        for key in own {
            if first || (key.kind() == note::Kind::Witness && !keys.contains(&key)) {
                keys.push(key);
            }
        }
        let trust = Trust::new(origin, keys.iter().cloned());
        let mut kept = Vec::new();
        if let Some(before) = &before {
            let old = Trust::new(trust.origin().clone(), before.keys.iter().cloned());
            let head = old
                .open(&before.note)
                .map_err(|broken| Failure::failed(format!("{}: {broken}", before.file.display()), broken.remedy()))?;
            kept.push(head.checkpoint().clone());
        }
        if let Some(file) = &verify.checkpoint {
            let head = trust
                .open(&read_note(file)?)
                .map_err(|broken| Failure::failed(format!("{}: {broken}", file.display()), broken.remedy()))?;
            kept.push(head.checkpoint().clone());
        }
        kept.sort_by_key(|checkpoint| checkpoint.size);
        Ok(Self { trust, keys, kept, keeper })
    }

    /// The verifier compares one kept head; the largest says most, and the others are looked at first.
    fn verifiers(&self) -> Vec<Verifier> {
        let verifier = Verifier::new(self.trust.clone());
        match self.kept.as_slice() {
            [] => vec![verifier],
            kept => kept.iter().map(|kept| verifier.clone().keeping(kept.clone())).collect(),
        }
    }

    fn done(&self, summary: &Summary, output: &Output) -> Done {
        let seen = self.kept.iter().map(|kept| kept.size).max().unwrap_or_default();
        if let Some(head) = summary.newest().filter(|head| head.checkpoint().size >= seen) {
            self.keeper.keep(head, &self.keys)?;
        }
        let newest = summary.newest().map(Head::checkpoint);
        let value = json!({
            "log": self.trust.origin(), "entries": summary.entries(), "signed": summary.confirmed(),
            "checkpoints": summary.checkpoints(), "kept": self.kept.last().map(|kept| kept.size),
            "size": newest.map(|newest| newest.size), "root": newest.map(|newest| newest.root),
            "keys": self.keys.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        output.show(&value, |_, _| clean(&format!("The log verifies.\n\n{summary}")))
    }
}

fn parse_keys(texts: &[String]) -> Result<Vec<VerifierKey>, Failure> {
    let parse = |text: &String| {
        text.parse().map_err(|error: note::Error| {
            Failure::usage(format!("--verifier `{text}`: {error}"), "copy it from `toolgate audit verify --json`")
        })
    };
    texts.iter().map(parse).collect()
}

pub fn offline(verify: &Verify, session: &Session) -> Done {
    let path = verify.path.as_deref().unwrap_or(Path::new(""));
    if path.is_file() {
        return proof(verify, path, session);
    }
    let folder = LogFolder::new(path);
    let named = folder.named()?.ok_or_else(|| {
        Failure::usage(
            format!("{} holds no exported log", path.display()),
            "name a folder made by `toolgate audit export` or `follow`, or a file made by `toolgate audit prove --to`",
        )
    })?;
    let demand = Demand::new(verify, named, session)?;
    let mut summary = None;
    for verifier in demand.verifiers() {
        summary = Some(verifier.run::<Wrong>(folder.entries()?, folder.checkpoints()?)?);
    }
    match summary {
        Some(summary) => demand.done(&summary, &session.output),
        None => Err(Failure::failed("nothing was verified", "name a folder")),
    }
}

/// An entry with its proof, in a file.
fn proof(verify: &Verify, path: &Path, session: &Session) -> Done {
    let text = input::read_text(path, PROOF_FILE_BYTES_MAX)?;
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    let unreadable = || {
        Failure::usage(
            format!("{} is no proof of an entry", path.display()),
            "make one with `toolgate audit prove CALL --to FILE`",
        )
    };
    let receipt: Receipt = serde_json::from_value(value["receipt"].clone()).map_err(|_| unreadable())?;
    let (Some(entry), Some(proof)) = (value["entry"].as_str(), value["proof"].as_str()) else {
        return Err(unreadable());
    };
    let origin: Origin = receipt.log.clone();
    let mut keys = parse_keys(&verify.verifiers)?;
    if keys.is_empty() {
        keys = Keeper::of(&session.environment).read(&origin)?.map(|kept| kept.keys).unwrap_or_default();
    }
    if keys.is_empty() {
        return Err(Failure::usage(
            format!("no key of {origin} is known here"),
            "give it with --verifier, from a source you trust; `toolgate audit verify` of the log itself remembers it",
        ));
    }
    if !receipt.is_for(entry) {
        return Err(Failure::failed("the entry is not the one of the receipt", "get a new proof for this entry"));
    }
    let proof = Proof::parse(proof.as_bytes()).map_err(Wrong::from)?;
    let head = receipt.verify(&proof, &Trust::new(origin.clone(), keys)).map_err(Wrong::from)?;
    let (index, size) = (proof.index(), head.checkpoint().size);
    let sentence = format!("Entry {index} is in the log {origin}, under a signed head of {size} entries.");
    session.output.say(&json!({"log": origin, "index": index, "size": size, "entry": entry}), &sentence)
}

/// The log itself, entry by entry as the server sends it.
pub async fn live(verify: &Verify, client: &Client, session: &Session) -> Done {
    let demand = Demand::new(verify, server_log(client).await?, session)?;
    // So that the newest entries are covered too. Where it cannot be signed, what is there tells why.
    let signed = client.text(&["audit", "checkpoint"], &[]).await;
    let mut summary = None;
    for verifier in demand.verifiers() {
        summary = Some(stream(verifier, client).await?);
    }
    let (Some(summary), Ok(_)) = (&summary, &signed) else {
        return Err(signed.err().unwrap_or_else(|| Failure::failed("nothing was verified", "try again")));
    };
    demand.done(summary, &session.output)
}

async fn stream(verifier: Verifier, client: &Client) -> Result<Summary, Failure> {
    let (to_entries, mut entries) = mpsc::channel::<Result<Exported, Wrong>>(UNDER_WAY);
    let (to_notes, mut notes) = mpsc::channel::<Result<Vec<u8>, Wrong>>(UNDER_WAY);
    let verified = tokio::task::spawn_blocking(move || {
        let entries = std::iter::from_fn(move || entries.blocking_recv());
        verifier.run(entries, std::iter::from_fn(move || notes.blocking_recv()))
    });
    let send_entries = async move {
        let mut next = 0;
        loop {
            let page = match export_page(client, next, PAGE_ENTRIES, false).await {
                Ok(page) if page.is_empty() => return,
                Ok(page) => page,
                Err(failure) => return drop(to_entries.send(Err(Wrong::Failure(failure))).await),
            };
            next += PAGE_ENTRIES;
            for line in page.lines() {
                // The verifier has seen enough.
                if to_entries.send(entry(line)).await.is_err() {
                    return;
                }
            }
        }
    };
    let send_notes = async move {
        let mut pages = Checkpoints::after(0);
        loop {
            let page = match pages.next(client).await {
                Ok(Some(page)) => page,
                Ok(None) => return,
                Err(failure) => return drop(to_notes.send(Err(Wrong::Failure(failure))).await),
            };
            for head in page {
                if to_notes.send(note_of(&head.to_string())).await.is_err() {
                    return;
                }
            }
        }
    };
    let (verified, (), ()) = tokio::join!(verified, send_entries, send_notes);
    let verified = verified.map_err(|error| Failure::from(toolgate_contracts::Fault::internal(error)))?;
    Ok(verified?)
}
