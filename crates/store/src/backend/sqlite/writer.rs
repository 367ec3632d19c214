//! The one thread that writes. It takes what is queued, commits it as one transaction, and answers everyone.
//!
//! Durability: a group in which any change asks for the disk is synced by its commit. Otherwise the log is synced within
//! a second after; until then a change survives the process, not the machine.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::super::queue::{Answer, GROUP_CHANGES_MAX, Job};
use super::{errors, values};
use crate::change::{Durability, Outcome};
use crate::error::Error;

/// When the log is synced after a commit that did not: half of what is promised, the other half is for the sync itself.
const SYNC_AFTER: Duration = Duration::from_millis(500);

pub(super) enum Message {
    Change(Job),
    Run(Box<dyn FnOnce(&mut Connection) + Send>),
    Stop,
}

pub(super) struct Writer {
    connection: Connection,
    log: PathBuf,
    /// How the connection commits now.
    synced: Durability,
    /// The first commit that may not be on the disk.
    unsynced_since: Option<Instant>,
}

impl Writer {
    pub fn new(connection: Connection, database: &Path) -> Self {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        Self { connection, log: PathBuf::from(log), synced: Durability::Process, unsynced_since: None }
    }

    pub fn run(mut self, messages: &Receiver<Message>) {
        let mut stopping = false;
        loop {
            let next = if stopping { messages.try_recv().map_err(|_| RecvTimeoutError::Disconnected) } else { self.next(messages) };
            let mut group = Vec::new();
            let mut message = match next {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut run = None;
            while let Some(taken) = message.take() {
                match taken {
                    Message::Change(job) => group.push(job),
                    Message::Run(task) => run = Some(task),
                    // What was sent before the stop is behind us, what slipped in after it is still taken.
                    Message::Stop => stopping = true,
                }
                if run.is_none() && group.len() < GROUP_CHANGES_MAX {
                    message = messages.try_recv().ok();
                }
            }
            if !group.is_empty() {
                self.commit(group);
            }
            if let Some(run) = run {
                self.commit_as(Durability::Disk);
                run(&mut self.connection);
            }
            if self.unsynced_since.is_some_and(|since| since.elapsed() >= SYNC_AFTER) {
                self.sync();
            }
        }
        self.sync();
    }

    fn next(&self, messages: &Receiver<Message>) -> Result<Message, RecvTimeoutError> {
        match self.unsynced_since {
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(since) => messages.recv_timeout(SYNC_AFTER.saturating_sub(since.elapsed())),
        }
    }

    fn commit(&mut self, group: Vec<Job>) {
        match self.transaction(&group) {
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
            Err(error) => {
                for job in group {
                    job.answer(Err(error.clone()));
                }
            }
        }
    }

    /// `Err` when the transaction is gone, and with it every change of the group.
    fn transaction(&mut self, group: &[Job]) -> Result<Vec<Answer>, Error> {
        let durability = group.iter().map(|job| job.work.durability).max().unwrap_or_default();
        self.commit_as(durability);
        self.execute("BEGIN IMMEDIATE")?;
        let mut answers = Vec::with_capacity(group.len());
        for job in group {
            answers.push(self.change(job)?);
        }
        if let Err(error) = self.execute("COMMIT") {
            self.roll_back();
            return Err(match error {
                // Written, perhaps not synced: gone for this process, but a crash of the machine might bring it back.
                Error::Unavailable(message) => Error::Unconfirmed(message),
                other => other,
            });
        }
        match self.synced {
            Durability::Disk => self.unsynced_since = None,
            Durability::Process => drop(self.unsynced_since.get_or_insert_with(Instant::now)),
        }
        Ok(answers)
    }

    /// One change, undone alone if it fails.
    fn change(&self, job: &Job) -> Result<Answer, Error> {
        self.execute("SAVEPOINT one_change")?;
        let mut outcome = Outcome::default();
        let mut run = || {
            for ready in &job.work.statements {
                let (changed, returned) = values::run(&self.connection, &ready.text.sqlite, &ready.parameters)?;
                if let Some(unmet) = ready.expect.unmet(changed) {
                    return Err(unmet);
                }
                outcome.changed.push(changed);
                outcome.returned.push(returned);
            }
            Ok(())
        };
        match run() {
            Ok(()) => {
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

    fn execute(&self, sql: &str) -> Result<(), Error> {
        let run = || self.connection.prepare_cached(sql)?.raw_execute();
        run().map(drop).map_err(|error| errors::map(&self.connection, error))
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
