//! `toolgate audit follow`: a verified copy of a server's log elsewhere, which countersigns what it saw.
//!
//! The tree is grown here from the entries themselves and compared with each head that the server signs, so that the
//! server cannot show this copy one log and somebody else another without both having heads that prove it.
//! Invariant: what the copy holds is never changed, and nothing is added to it that a head does not cover.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use data_encoding::HEXLOWER;
use serde_json::json;
use toolgate_contracts::{Clock, Rng, Timestamp};
use toolgate_ledger::{Broken, Checkpoint, Cosigner, Frontier, Head, Trust, Verifier, leaf_hash};

use super::export::{PAGE_ENTRIES, export_page, server_log};
use super::folder::{CHECKPOINTS, ENTRIES, LogFolder, Named, entry, unwritten};
use super::verify::Wrong;
use crate::args::Follow;
use crate::client::Client;
use crate::failure::{Done, Exit, Failure};
use crate::input;
use crate::output::{Output, note};

const ALARM: &str = "ALARM";
const WITNESS_KEY: &str = "witness.key";
/// Entries of a round that are not yet known to be what was signed.
const INCOMING: &str = "incoming.jsonl";
const EVERY: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_mins(1);

/// The copy, as far as it is verified.
struct Copy {
    folder: LogFolder,
    named: Named,
    cosigner: Cosigner,
    frontier: Frontier,
    newest: Option<Head>,
}

/// How a round ended.
enum Round {
    Nothing,
    Added { entries: u64, size: u64 },
}

/// Why a round did not end well.
enum Stopped {
    /// The link or the server; the next round may do.
    Failure(Failure),
    /// The server shows another log than before.
    Alarm { what: String, shown: String },
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

pub async fn run(follow: &Follow, client: &Client, output: &Output) -> Done {
    let folder = LogFolder::make(&follow.to)?;
    let alarm = folder.file(ALARM);
    if alarm.exists() {
        return Err(Failure::failed(
            format!("{} says that this log was changed, so nothing is followed", alarm.display()),
            "find out why; keep the folder, and begin a new copy in another",
        ));
    }
    let mut copy: Option<Copy> = None;
    let mut patience = EVERY;
    loop {
        let round = async {
            let copy = match &mut copy {
                Some(copy) => copy,
                none => none.insert(Copy::open(LogFolder::new(&follow.to), client).await?),
            };
            copy.round(client).await
        };
        match round.await {
            Ok(Round::Added { entries, size }) => {
                patience = EVERY;
                let line = json!({"added": entries, "size": size, "folder": follow.to.display().to_string()});
                output.show_line(&line, |_, _| format!("{size} entries, {entries} of them new; countersigned"))?;
            }
            Ok(Round::Nothing) => {
                patience = EVERY;
                if follow.once {
                    let size = copy.as_ref().map_or(0, |copy| copy.frontier.size());
                    let line = json!({"added": 0, "size": size, "folder": follow.to.display().to_string()});
                    output.show_line(&line, |_, _| format!("{size} entries, none of them new"))?;
                }
            }
            Err(Stopped::Failure(failure)) if follow.once || failure.exit() != Exit::Unreachable => {
                return Err(failure);
            }
            Err(Stopped::Failure(failure)) => {
                note(&format!("{}; trying again", failure.told()));
                patience = (patience * 2).min(RETRY_MAX);
            }
            Err(Stopped::Alarm { what, shown }) => return Err(raise(&folder, &what, &shown)),
        }
        if follow.once {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(patience).await;
    }
}

/// Writes down what was seen; nothing else of the copy changes.
fn raise(folder: &LogFolder, what: &str, shown: &str) -> Failure {
    let file = folder.file(ALARM);
    let text = format!("{}\n{what}\n\nWhat the server showed:\n\n{shown}\n", Clock::System.now());
    let written = fs::OpenOptions::new().write(true).create_new(true).open(&file).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    if let Err(error) = written {
        note(&format!("cannot write {}: {}", file.display(), input::reason(&error)));
    }
    Failure::failed(
        format!("ALARM: {what}"),
        format!(
            "the copy is as it was, and what the server showed is in {}: together they are evidence; compare with \
             others who follow this log",
            file.display()
        ),
    )
}

impl Copy {
    /// Opens a copy and verifies all of it, or begins one with the keys that the server shows.
    async fn open(folder: LogFolder, client: &Client) -> Result<Self, Stopped> {
        let named = if let Some(named) = folder.named()? {
            named
        } else {
            let named = server_log(client).await?;
            folder.name(&named)?;
            named
        };
        let cosigner = cosigner(&folder, &named)?;
        folder.whole_lines(ENTRIES)?;
        folder.whole_lines(CHECKPOINTS)?;
        let trust = trust(&named, &cosigner);
        let verified = Verifier::new(trust).run::<Wrong>(folder.entries()?, folder.checkpoints()?);
        let summary = match verified {
            Ok(summary) => summary,
            // Cut off between the first entries and the first head.
            Err(Wrong::Broken(Broken::Unsigned)) => {
                return Err(Stopped::Failure(Failure::failed(
                    format!("{} holds entries and no head that covers them", folder.path.display()),
                    "begin a copy in another folder",
                )));
            }
            Err(wrong) => {
                let failure = Failure::from(wrong);
                return Err(Stopped::Failure(Failure::failed(
                    format!("the copy in {} was changed: {}", folder.path.display(), failure.told()),
                    "compare it with the server's log, and begin a copy in another folder",
                )));
            }
        };
        let (frontier, newest) = (summary.frontier().clone(), summary.newest().cloned());
        Ok(Self { folder, named, cosigner, frontier, newest })
    }

    async fn round(&mut self, client: &Client) -> Result<Round, Stopped> {
        self.learn_keys(client).await?;
        let shown = client.text(&["audit", "checkpoint"], &[]).await?;
        let alarm = |what: String| Stopped::Alarm { what, shown: shown.clone() };
        let trust = trust(&self.named, &self.cosigner);
        let head = trust.open(shown.as_bytes()).map_err(|broken| alarm(broken.to_string()))?;
        let Checkpoint { size, .. } = *head.checkpoint();
        if let Some(kept) = self.newest.as_ref().map(Head::checkpoint) {
            if size < kept.size {
                return Err(alarm(Broken::Truncated { kept: kept.size, size }.to_string()));
            }
            if size == kept.size {
                return if head.checkpoint().root == kept.root {
                    Ok(Round::Nothing)
                } else {
                    Err(alarm(Broken::Fork { size }.to_string()))
                };
            }
        }
        let grown = self.fetch(client, &head, &alarm).await?;
        let added = grown.size().saturating_sub(self.frontier.size());
        self.keep(head, grown)?;
        Ok(Round::Added { entries: added, size })
    }

    /// A new key is told, not refused: whoever holds the server can make one, and what it signs must still continue
    /// this copy.
    async fn learn_keys(&mut self, client: &Client) -> Result<(), Stopped> {
        let shown = server_log(client).await?;
        if shown.origin != self.named.origin {
            return Err(Stopped::Alarm {
                what: format!(
                    "the server's log is now `{}`, and this is a copy of `{}`: its database was restored or replaced",
                    shown.origin, self.named.origin
                ),
                shown: shown.origin.to_string(),
            });
        }
        let new: Vec<_> = shown.keys.into_iter().filter(|key| !self.named.keys.contains(key)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for key in &new {
            note(&format!("the log has a new key: {key}"));
        }
        let mut named = self.named.clone();
        named.keys.extend(new);
        self.folder.name(&named)?;
        self.named = named;
        Ok(())
    }

    /// Takes the entries that a head covers and the copy does not have, into a file of their own, and compares.
    async fn fetch(
        &self,
        client: &Client,
        head: &Head,
        alarm: &impl Fn(String) -> Stopped,
    ) -> Result<Frontier, Stopped> {
        let incoming = self.folder.file(INCOMING);
        let _ = fs::remove_file(&incoming);
        let size = head.checkpoint().size;
        let mut grown = self.frontier.clone();
        while grown.size() < size {
            let page = export_page(client, grown.size(), PAGE_ENTRIES.min(size - grown.size()), false).await?;
            if page.is_empty() {
                return Err(alarm(Broken::Truncated { kept: size, size: grown.size() }.to_string()));
            }
            for line in page.lines() {
                let exported = entry(line).map_err(|wrong| alarm(Failure::from(wrong).told().to_owned()))?;
                if exported.index != grown.size() {
                    let broken = Broken::Order { expected: grown.size(), found: exported.index };
                    return Err(alarm(broken.to_string()));
                }
                grown.append(leaf_hash(&exported.text));
            }
            self.folder.append(INCOMING, page.as_bytes())?;
        }
        if grown.tree() != head.checkpoint().tree() {
            let broken = Broken::Changed { after: self.frontier.size(), size };
            return Err(alarm(format!("{broken}: the server signed a log that does not continue this copy")));
        }
        Ok(grown)
    }

    fn keep(&mut self, head: Head, grown: Frontier) -> Result<(), Stopped> {
        if grown.size() > self.frontier.size() {
            self.folder.append_file(ENTRIES, INCOMING)?;
        }
        let at = Clock::System.now();
        let seconds = u64::try_from(at.millis() / 1000).unwrap_or_default();
        let mut note = head.note().clone();
        note.add(self.cosigner.cosign(&head, seconds)).map_err(|error| {
            Failure::failed(
                format!("the head cannot be countersigned: {error}"),
                "see whether it has too many signatures",
            )
        })?;
        let line = line_of(&head, at, &note.to_string());
        self.folder.append(CHECKPOINTS, format!("{line}\n").as_bytes())?;
        self.frontier = grown;
        self.newest = Some(head);
        Ok(())
    }
}

fn line_of(head: &Head, at: Timestamp, note: &str) -> serde_json::Value {
    let Checkpoint { origin: _, size, root } = head.checkpoint();
    json!({"size": size, "root": root, "at": at, "note": note})
}

fn trust(named: &Named, cosigner: &Cosigner) -> Trust {
    Trust::new(named.origin.clone(), named.keys.iter().cloned().chain([cosigner.verifier().clone()]))
}

/// The copy's own key, made with it. Its public half is among the keys of the folder, so that others see who signed.
fn cosigner(folder: &LogFolder, named: &Named) -> Result<Cosigner, Failure> {
    let file = folder.file(WITNESS_KEY);
    if !file.exists() {
        let seed = HEXLOWER.encode(&Rng::System.bytes::<32>());
        let name = HEXLOWER.encode(&Rng::System.bytes::<4>());
        let text = format!("toolgate-follow/{name} {seed}\n");
        let written =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file).and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            });
        written.map_err(|error| unwritten(&file, &error))?;
    }
    let text = input::read_text(&file, 1024)?;
    let read = || {
        let (name, seed) = text.trim().split_once(' ')?;
        let seed: toolgate_contracts::Digest = seed.parse().ok()?;
        Some(Cosigner::from_seed(name.parse().ok()?, seed.as_bytes()))
    };
    let cosigner = read().ok_or_else(|| {
        Failure::failed(format!("{} is no key of a witness", file.display()), "bring it back from a copy of the folder")
    })?;
    if !named.keys.contains(cosigner.verifier()) {
        let mut named = named.clone();
        named.keys.push(cosigner.verifier().clone());
        folder.name(&named)?;
    }
    Ok(cosigner)
}
