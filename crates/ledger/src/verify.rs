//! Verifying a whole log from an export: every entry, every checkpoint, and the one somebody kept.
//!
//! The tree is grown anew from the entries' own texts, so nothing that the log computed is believed. One pass, and
//! memory for the right edge of the tree alone; entries and checkpoints may come from files of any length.

use std::fmt;

use toolgate_contracts::{Digest, Timestamp, json};

use crate::ENTRY_BYTES_MAX;
use crate::broken::{Broken, EntryFault};
use crate::checkpoint::{Checkpoint, Head, Origin, Trust, Witness};
use crate::tree::{Frontier, leaf_hash};

/// An entry of an exported log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    pub index: u64,
    pub text: String,
    /// The leaf hash as it was exported. Not needed, but with it a changed entry is named, not only a stretch.
    pub digest: Option<Digest>,
}

/// Verifies one log, from its first entry on or from where an earlier verification ended.
#[derive(Clone, Debug)]
pub struct Verifier {
    trust: Trust,
    kept: Option<Checkpoint>,
    start: Frontier,
}

impl Verifier {
    pub fn new(trust: Trust) -> Self {
        Self { trust, kept: None, start: Frontier::default() }
    }

    /// Demands that the log contains what `kept` covered: the last checkpoint that this verifier saw.
    #[must_use]
    pub fn keeping(mut self, kept: Checkpoint) -> Self {
        self.kept = Some(kept);
        self
    }

    /// Goes on after the entries of [`Summary::frontier`]. Checkpoints of fewer entries, a kept one too, are refused.
    #[must_use]
    pub fn resuming(mut self, start: Frontier) -> Self {
        self.start = start;
        self
    }

    /// Reads entries by index and signed checkpoints by size, each only when it is needed. An error of whoever reads
    /// ends the verification, and so does the first thing that is wrong.
    pub fn run<E: From<Broken>>(
        self,
        entries: impl IntoIterator<Item = Result<Exported, E>>,
        checkpoints: impl IntoIterator<Item = Result<Vec<u8>, E>>,
    ) -> Result<Summary, E> {
        let Self { trust, kept, start } = self;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.origin != *trust.origin()) {
            let (expected, found) = (trust.origin().clone(), kept.origin.clone());
            return Err(Broken::Origin { expected, found }.into());
        }
        if let Some(kept) = kept.as_ref().filter(|kept| kept.size < start.size()) {
            // The entries it covered are behind us: to go on would claim a comparison that nobody made.
            return Err(Broken::CheckpointOrder { before: start.size(), size: kept.size }.into());
        }
        let mut entries = entries.into_iter();
        let mut walk = Walk::new(start, kept);
        for note in checkpoints {
            let head = trust.open(&note?)?;
            walk.expect(head.checkpoint())?;
            while walk.size() < head.checkpoint().size {
                match entries.next() {
                    Some(entry) => walk.entry(&entry?)?,
                    None => return Err(walk.ended(head.checkpoint().size).into()),
                }
            }
            walk.confirm(head)?;
        }
        for entry in entries {
            walk.entry(&entry?)?;
        }
        Ok(walk.finish(trust.origin().clone())?)
    }
}

/// Where a verification stands.
struct Walk {
    frontier: Frontier,
    start: u64,
    kept: Option<Checkpoint>,
    /// The size at which the entries turned out to be others than those of the kept checkpoint.
    contradicted: Option<u64>,
    /// Up to where the entries are known to be those that were signed.
    confirmed: u64,
    checkpoints: u64,
    newest: Option<Head>,
}

impl Walk {
    fn new(frontier: Frontier, kept: Option<Checkpoint>) -> Self {
        let start = frontier.size();
        let mut walk =
            Self { frontier, start, kept, contradicted: None, confirmed: start, checkpoints: 0, newest: None };
        walk.compare_kept();
        if walk.contradicted.is_some() {
            walk.confirmed = 0;
        }
        walk
    }

    const fn size(&self) -> u64 {
        self.frontier.size()
    }

    /// A signed checkpoint must not contradict another one, whatever the entries are.
    fn expect(&self, next: &Checkpoint) -> Result<(), Broken> {
        let before = self.newest.as_ref().map(Head::checkpoint);
        for other in before.into_iter().chain(&self.kept) {
            if other.size == next.size && other.root != next.root {
                return Err(Broken::Fork { size: next.size });
            }
        }
        let before = before.map_or(self.start, |before| before.size);
        if next.size < before {
            return Err(Broken::CheckpointOrder { before, size: next.size });
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Exported) -> Result<(), Broken> {
        let Exported { index, text, digest } = entry;
        if *index != self.size() {
            return Err(Broken::Order { expected: self.size(), found: *index });
        }
        let leaf = leaf_hash(text);
        if let Some(why) = fault(text, &leaf, digest.as_ref()) {
            return Err(Broken::Entry { index: *index, why });
        }
        self.frontier.append(leaf);
        self.compare_kept();
        Ok(())
    }

    /// A difference is no error yet: whether the log was changed or forked is known when the next checkpoint, which the
    /// log has signed too, does or does not agree with the entries.
    fn compare_kept(&mut self) {
        let Some(kept) = self.kept.as_ref().filter(|kept| kept.size == self.frontier.size()) else { return };
        if kept.tree() == self.frontier.tree() {
            self.confirmed = kept.size;
        } else {
            self.contradicted = Some(kept.size);
        }
    }

    fn confirm(&mut self, head: Head) -> Result<(), Broken> {
        let size = self.size();
        if head.checkpoint().tree() != self.frontier.tree() {
            return Err(Broken::Changed { after: self.confirmed, size: self.contradicted.unwrap_or(size) });
        }
        if let Some(size) = self.contradicted {
            return Err(Broken::Fork { size });
        }
        self.confirmed = size;
        self.checkpoints += 1;
        self.newest = Some(head);
        Ok(())
    }

    /// The entries ended although `signed` of them were signed.
    fn ended(&self, signed: u64) -> Broken {
        match self.contradicted {
            Some(size) => Broken::Changed { after: self.confirmed, size },
            None => Broken::Truncated { kept: signed, size: self.size() },
        }
    }

    fn finish(self, origin: Origin) -> Result<Summary, Broken> {
        let kept = self.kept.as_ref().map(|kept| kept.size);
        if let Some(kept) = kept.filter(|kept| self.contradicted.is_some() || *kept > self.size()) {
            return Err(self.ended(kept));
        }
        if kept.is_none() && self.newest.is_none() && self.size() > self.start {
            return Err(Broken::Unsigned);
        }
        let Self { frontier, start, confirmed, checkpoints, newest, kept: _, contradicted: _ } = self;
        Ok(Summary { origin, frontier, start, confirmed, checkpoints, newest, kept })
    }
}

fn fault(text: &str, leaf: &Digest, digest: Option<&Digest>) -> Option<EntryFault> {
    if text.len() > ENTRY_BYTES_MAX {
        return Some(EntryFault::TooLarge(text.len()));
    }
    if digest.is_some_and(|digest| digest != leaf) {
        return Some(EntryFault::Digest);
    }
    let canonical = json::read(text.as_bytes(), ENTRY_BYTES_MAX).is_ok_and(|value| json::canonical(&value) == text);
    (!canonical).then_some(EntryFault::NotCanonical)
}

/// What a successful verification has shown.
#[derive(Clone, Debug)]
pub struct Summary {
    origin: Origin,
    frontier: Frontier,
    start: u64,
    confirmed: u64,
    checkpoints: u64,
    newest: Option<Head>,
    kept: Option<u64>,
}

impl Summary {
    /// How many entries there are, signed or not.
    pub const fn entries(&self) -> u64 {
        self.frontier.size()
    }

    /// How many of them a signed checkpoint covers. Nothing is known about the others.
    pub const fn confirmed(&self) -> u64 {
        self.confirmed
    }

    pub const fn checkpoints(&self) -> u64 {
        self.checkpoints
    }

    /// The newest checkpoint: to be kept until the next verification.
    pub const fn newest(&self) -> Option<&Head> {
        self.newest.as_ref()
    }

    /// Where the next verification can go on.
    pub const fn frontier(&self) -> &Frontier {
        &self.frontier
    }
}

/// For people: what was checked and, as plainly, what was not.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, frontier, start, confirmed, checkpoints, newest, kept } = self;
        let entries = frontier.size();
        writeln!(f, "log       {origin}")?;
        writeln!(f, "entries   {entries}, root {}", frontier.tree().root)?;
        if *start > 0 {
            writeln!(f, "before    {start} of them, verified earlier and not again")?;
        }
        writeln!(f, "signed    {confirmed} of them, recomputed under {checkpoints} checkpoints")?;
        if entries > *confirmed {
            writeln!(f, "unsigned  {} at the end: nothing is known about them yet", entries - confirmed)?;
        }
        match kept {
            Some(kept) => writeln!(f, "kept      the checkpoint of {kept} entries, which the log contains")?,
            None => writeln!(f, "kept      no checkpoint: entries cut off the end would not be noticed")?,
        }
        for Witness { name, at, .. } in newest.iter().flat_map(Head::witnesses) {
            let millis = i64::try_from(*at).unwrap_or(i64::MAX).saturating_mul(1000);
            writeln!(f, "witness   {name} at {}", Timestamp::from_millis(millis))?;
        }
        Ok(())
    }
}
