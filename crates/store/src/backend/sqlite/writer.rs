//! The one thread that writes. It takes what is queued, commits it as one transaction, and answers everyone.
//!
//! Durability: a group in which any change asks for the disk is synced by its commit. Otherwise the log is synced within
//! a second after; until then a change survives the process, not the machine.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, Statement};

use super::super::queue::{Answer, GROUP_CHANGES_MAX, Job, Ready};
use super::{errors, values};
use crate::change::{Durability, Outcome};
use crate::error::Error;
use crate::row::Row;
use crate::statements::Text;

/// When the log is synced after a commit that did not: half of what is promised, the other half is for the sync itself.
const SYNC_AFTER: Duration = Duration::from_millis(500);

/// From how many changes at once on a group is worth a short rest, and how long that is.
const CROWD_CHANGES: usize = 4;
const GATHER: Duration = Duration::from_micros(100);
/// After a refused change, so many groups are written with a savepoint for each change. A savepoint copies every page
/// that it touches, so as long as nothing is refused there is none.
const CAREFUL_GROUPS: u32 = 16;
/// Prepared statements kept; past it all are forgotten and prepared again as they come.
const STATEMENTS_MAX: usize = 256;

/// How a group is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    /// All or none.
    Together,
    /// Each change can be undone alone.
    Each,
}

enum Refused {
    /// The transaction is gone, for a reason that is nobody's own.
    All(Error),
    /// One change was refused, and it was not written with care.
    One,
}

pub(super) enum Message {
    Change(Job),
    Run(Box<dyn FnOnce(&Connection) + Send>),
    Stop,
}

/// Writes what comes until it is told to stop.
pub(super) fn run(connection: &Connection, database: &Path, messages: &Receiver<Message>, context_changes: &AtomicU64) {
    Writer::new(connection, database, context_changes).run(messages);
}

struct Writer<'c> {
    connection: &'c Connection,
    /// By where their texts lie, which they keep there.
    statements: HashMap<usize, (Arc<Text>, Statement<'c>)>,
    log: PathBuf,
    /// How the connection commits now.
    synced: Durability,
    /// The first commit that may not be on the disk.
    unsynced_since: Option<Instant>,
    /// How many changes the group before had, and whether this one was waited for already.
    last_group: usize,
    gathered: bool,
    /// Groups that are written with care, because one before held a change that was refused.
    careful: u32,
    /// Of what callers have seen: counted before and after a commit of them, so it is odd while one is under way.
    context_changes: &'c AtomicU64,
}

impl<'c> Writer<'c> {
    fn new(connection: &'c Connection, database: &Path, context_changes: &'c AtomicU64) -> Self {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        Self {
            connection,
            statements: HashMap::new(),
            log: PathBuf::from(log),
            synced: Durability::Process,
            unsynced_since: None,
            last_group: 0,
            gathered: false,
            careful: 0,
            context_changes,
        }
    }

    fn run(mut self, messages: &Receiver<Message>) {
        let mut stopping = false;
        while !stopping {
            let mut group = Vec::new();
            let mut message = match self.next(messages) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut run = None;
            while let Some(taken) = message.take() {
                match taken {
                    Message::Change(job) => group.push(job),
                    Message::Run(task) => run = Some(task),
                    // Nothing comes behind it.
                    Message::Stop => stopping = true,
                }
                if run.is_none() && group.len() < GROUP_CHANGES_MAX {
                    message = messages.try_recv().ok();
                }
                if message.is_none() && run.is_none() && self.more_will_come(group.len()) {
                    message = messages.try_recv().ok();
                }
            }
            self.gathered = false;
            if !group.is_empty() {
                self.commit(group);
            }
            if let Some(run) = run {
                self.commit_as(Durability::Disk);
                run(self.connection);
            }
            if self.unsynced_since.is_some_and(|since| since.elapsed() >= SYNC_AFTER) {
                self.sync();
            }
        }
        self.sync();
    }

    /// Where many write at once, those who were answered a moment ago are about to come back: a short rest lets them
    /// share a commit, which costs each of them less. Whoever writes alone never waits.
    fn more_will_come(&mut self, taken: usize) -> bool {
        if self.gathered || self.last_group < CROWD_CHANGES || taken >= self.last_group {
            return false;
        }
        self.gathered = true;
        std::thread::sleep(GATHER);
        true
    }

    fn next(&self, messages: &Receiver<Message>) -> Result<Message, RecvTimeoutError> {
        match self.unsynced_since {
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(since) => messages.recv_timeout(SYNC_AFTER.saturating_sub(since.elapsed())),
        }
    }

    fn commit(&mut self, group: Vec<Job>) {
        self.last_group = group.len();
        let durability = group.iter().map(|job| job.work.durability).max().unwrap_or_default();
        self.commit_as(durability);
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            answer_all(group, &error);
            return;
        }
        let written = match self.careful.checked_sub(1) {
            None => match self.transaction(&group, Care::Together) {
                // One of them was refused. Nothing was kept, so the others are written again, each on its own.
                Err(Refused::One) => {
                    self.careful = CAREFUL_GROUPS;
                    self.execute("BEGIN IMMEDIATE")
                        .map_err(Refused::All)
                        .and_then(|()| self.transaction(&group, Care::Each))
                }
                written => written,
            },
            Some(left) => {
                self.careful = left;
                self.transaction(&group, Care::Each)
            }
        };
        let written = written.map_err(|refused| match refused {
            Refused::All(error) => error,
            Refused::One => Error::Unavailable("a change was refused and the group not written".into()),
        });
        match written {
            Ok(answers) => {
                for (job, answer) in group.into_iter().zip(answers) {
                    job.answer(answer);
                }
            }
            // Nothing was kept. It may be the fault of one of them, such as one that does not fit on the disk.
            Err(_) if group.len() > 1 => {
                for job in group {
                    self.commit(vec![job]);
                }
            }
            Err(error) => answer_all(group, &error),
        }
    }

    /// `Err` when the transaction is gone, and with it every change of the group.
    fn transaction(&mut self, group: &[Job], care: Care) -> Result<Vec<Answer>, Refused> {
        let mut answers = Vec::with_capacity(group.len());
        for job in group {
            match care {
                Care::Each => answers.push(self.change(job).map_err(Refused::All)?),
                Care::Together => match self.statements(job) {
                    Ok(outcome) => answers.push(Ok(outcome)),
                    Err(error) if self.connection.is_autocommit() => return Err(Refused::All(error)),
                    Err(_) => {
                        self.roll_back();
                        return Err(Refused::One);
                    }
                },
            }
        }
        let touches_contexts = group.iter().any(|job| job.work.touches_contexts);
        if touches_contexts {
            self.context_changes.fetch_add(1, Ordering::AcqRel);
        }
        let committed = self.execute("COMMIT");
        // Whatever became of it: what was read before may be old now.
        if touches_contexts {
            self.context_changes.fetch_add(1, Ordering::AcqRel);
        }
        if let Err(error) = committed {
            self.roll_back();
            return Err(Refused::All(match error {
                // Written, perhaps not synced: gone for this process, but a crash of the machine might bring it back.
                Error::Unavailable(message) => Error::Unconfirmed(message),
                other => other,
            }));
        }
        match self.synced {
            Durability::Disk => self.unsynced_since = None,
            Durability::Process => drop(self.unsynced_since.get_or_insert_with(Instant::now)),
        }
        Ok(answers)
    }

    /// One change, undone alone if it fails.
    fn change(&mut self, job: &Job) -> Result<Answer, Error> {
        self.execute("SAVEPOINT one_change")?;
        match self.statements(job) {
            Ok(outcome) => {
                self.execute("RELEASE one_change")?;
                Ok(Ok(outcome))
            }
            // Some errors, such as a full disk, end the whole transaction.
            Err(error) if self.connection.is_autocommit() => Err(error),
            Err(error) => {
                let undone = self.execute("ROLLBACK TO one_change").and_then(|()| self.execute("RELEASE one_change"));
                if let Err(lost) = undone {
                    self.roll_back();
                    return Err(lost);
                }
                Ok(Err(error))
            }
        }
    }

    fn statements(&mut self, job: &Job) -> Result<Outcome, Error> {
        let count = job.work.statements.len();
        let mut outcome = Outcome { changed: Vec::with_capacity(count), returned: Vec::with_capacity(count) };
        for ready in &job.work.statements {
            let (changed, returned) = self.statement(ready)?;
            if let Some(unmet) = ready.expect.unmet(changed) {
                return Err(unmet);
            }
            outcome.changed.push(changed);
            outcome.returned.push(returned);
        }
        Ok(outcome)
    }

    /// Found by where its text lies: to hash a long text twice, as a cache by texts does, costs as much as a small insert.
    fn statement(&mut self, Ready { text, parameters, .. }: &Ready) -> Result<(u64, Vec<Row>), Error> {
        let place = Arc::as_ptr(text).addr();
        if !self.statements.contains_key(&place) {
            if self.statements.len() >= STATEMENTS_MAX {
                self.statements.clear();
            }
            let prepared =
                self.connection.prepare(&text.sqlite).map_err(|error| errors::map(self.connection, error))?;
            self.statements.insert(place, (Arc::clone(text), prepared));
        }
        let Some((text, statement)) = self.statements.get_mut(&place) else {
            return Err(Error::Corrupt(format!("a statement was not prepared: {}", text.sqlite)));
        };
        values::run_prepared(self.connection, statement, &text.sqlite, parameters)
    }

    fn execute(&self, sql: &str) -> Result<(), Error> {
        let run = || self.connection.prepare_cached(sql)?.raw_execute();
        run().map(drop).map_err(|error| errors::map(self.connection, error))
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    fn commit_as(&mut self, durability: Durability) {
        if self.synced == durability {
            return;
        }
        let word = match durability {
            Durability::Disk => "FULL",
            Durability::Process => "NORMAL",
        };
        match self.connection.pragma_update(None, "synchronous", word) {
            Ok(()) => self.synced = durability,
            // Only possible within a transaction, where we never are.
            Err(error) => tracing::error!(%error, "SQLite did not change its durability"),
        }
    }

    /// Brings to the disk what was committed without. Closing this handle drops no lock: SQLite locks other files.
    fn sync(&mut self) {
        if self.unsynced_since.take().is_none() {
            return;
        }
        let Err(error) = File::open(&self.log).and_then(|log| log.sync_data()) else { return };
        tracing::error!(%error, "the database's log could not be synced; copying it into the database instead");
        // After a failed sync the system may have forgotten that the pages are not on the disk: write them elsewhere.
        let copied = self.connection.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get::<_, i64>(0));
        if !matches!(copied, Ok(0)) {
            tracing::error!(?copied, "what was committed in the last second is not known to be on the disk");
            self.unsynced_since = Some(Instant::now());
        }
    }
}

fn answer_all(group: Vec<Job>, error: &Error) {
    for job in group {
        job.answer(Err(error.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use toolgate_contracts::TenantId;
    use uuid::Uuid;

    use super::*;
    use crate::backend::queue::{Queue, Ready, Work};
    use crate::change::Expect;
    use crate::statements::{Judge, Texts};
    use Durability::{Disk, Process};

    /// Jobs that ask for these durabilities, whose callers have gone away.
    async fn jobs(durabilities: &[Durability], touches_contexts: bool) -> Vec<Job> {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let take = Arc::clone(&taken);
        let send = move |job| {
            take.lock().unwrap().push(job);
            Ok(())
        };
        let queue = Queue::new(8, Duration::from_secs(1), Box::new(send));
        for durability in durabilities {
            let text = Texts::default().get("INSERT INTO t (tenant_id) VALUES ($1)", Judge::Tenant).unwrap();
            let tenant = TenantId::from_uuid(Uuid::nil());
            let statements = vec![Ready { text, parameters: vec![tenant.into()], expect: Expect::Anything }];
            let work = Work { tenant, others: Vec::new(), durability: *durability, statements, touches_contexts };
            let _ = tokio::time::timeout(Duration::ZERO, queue.submit(work)).await;
        }
        std::mem::take(&mut *taken.lock().unwrap())
    }

    #[tokio::test]
    async fn a_group_is_synced_if_any_of_it_asks_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let connection = super::super::file::open_writer(&path).unwrap();
        connection.execute_batch("CREATE TABLE t (tenant_id BLOB)").unwrap();
        let changes = AtomicU64::new(0);
        let mut writer = Writer::new(&connection, &path, &changes);
        let synchronous = |writer: &Writer<'_>| {
            writer.connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0)).unwrap()
        };
        for (group, full, unsynced) in [
            (&[Process][..], 1, true),
            (&[Disk], 2, false),
            (&[Process, Process], 1, true),
            (&[Process, Disk, Process], 2, false),
            (&[Process], 1, true),
        ] {
            writer.commit(jobs(group, false).await);
            assert_eq!((synchronous(&writer), writer.unsynced_since.is_some()), (full, unsynced), "{group:?}");
        }
        writer.sync();
        assert!(writer.unsynced_since.is_none());
        let count: i64 = writer.connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 8);
    }

    #[tokio::test]
    async fn a_commit_of_what_callers_have_seen_is_counted_before_anybody_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut connection = super::super::file::open_writer(&path).unwrap();
        connection.execute_batch("CREATE TABLE t (tenant_id BLOB)").unwrap();
        let changes = Arc::new(AtomicU64::new(0));
        let (counted, at_commits) = (Arc::clone(&changes), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&at_commits);
        let hook = move || {
            seen.lock().unwrap().push(counted.load(Ordering::Acquire));
            false
        };
        connection.commit_hook(Some(hook)).unwrap();
        let mut writer = Writer::new(&connection, &path, &changes);
        for touches_contexts in [false, true, true] {
            writer.commit(jobs(&[Process], touches_contexts).await);
        }
        assert_eq!((at_commits.lock().unwrap().as_slice(), changes.load(Ordering::Acquire)), (&[0, 1, 3][..], 4));
    }
}
