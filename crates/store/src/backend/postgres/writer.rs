//! The one task that writes: what is queued becomes one transaction, sent without waiting in between.
//!
//! A group whose every change succeeds costs two round trips: the statements, then the commit. If any fails, the group
//! is run again with a savepoint around each change, so that only those that fail are undone.
//! Invariant: a group is run again only while its `COMMIT` has not been sent.

use std::collections::BTreeSet;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::Statement;

use super::super::queue::{Answer, GROUP_CHANGES_MAX, Job};
use super::errors::StatementError;
use super::session::{Connector, begin_writing};
use super::{errors, pipeline, values};
use crate::change::Outcome;
use crate::error::Error;

/// How often a change is tried again that another transaction was in the way of.
const DEADLOCK_TRIES_MAX: u32 = 5;
/// How long the statements of a group may take together, and then its commit. The server gives up earlier.
const GROUP_TIMEOUT: Duration = Duration::from_secs(45);

pub(super) enum Message {
    Change(Job),
    /// The role that serves may be another now.
    Reconnect,
    Stop,
}

pub(super) struct Writer {
    connector: Connector,
    client: Option<ClientWrapper>,
}

/// Why a group has no answers.
enum Lost {
    /// Before its commit was sent: nothing was kept.
    Before(Error, Again),
    /// The commit was refused: nothing was kept.
    Refused(Error),
    /// The commit was sent and its answer did not come.
    Unconfirmed(String),
}

/// Whether a new connection may help.
#[derive(PartialEq, Eq)]
enum Again {
    Yes,
    No,
}

/// Whether there is something to commit.
#[derive(PartialEq, Eq)]
enum End {
    Open,
    Undone,
}

/// What came of a group that was run as one.
enum Run {
    /// Each change has its answer.
    Whole(Vec<Answer>),
    /// One of several failed, and the transaction with it.
    Broken,
}

impl Writer {
    pub fn new(connector: Connector) -> Self {
        Self { connector, client: None }
    }

    pub async fn run(mut self, mut messages: UnboundedReceiver<Message>) {
        while let Some(message) = messages.recv().await {
            let mut message = Some(message);
            let mut group = Vec::new();
            while let Some(taken) = message.take() {
                match taken {
                    Message::Change(job) => group.push(job),
                    Message::Reconnect => self.client = None,
                    // Nothing comes behind it.
                    Message::Stop => messages.close(),
                }
                if group.len() < GROUP_CHANGES_MAX {
                    message = messages.try_recv().ok();
                }
            }
            if !group.is_empty() {
                self.commit(group).await;
            }
        }
    }

    async fn commit(&mut self, group: Vec<Job>) {
        let mut result = self.attempt(&group).await;
        if matches!(&result, Err(Lost::Before(_, Again::Yes))) {
            // The connection was gone, perhaps for long: nothing was sent over it that could have been kept.
            result = self.attempt(&group).await;
        }
        let refused = match result {
            Ok(answers) => {
                for (job, answer) in group.into_iter().zip(answers) {
                    let answer = self.out_of_the_way(&job, answer).await;
                    job.answer(answer);
                }
                return;
            }
            Err(Lost::Before(error, _) | Lost::Refused(error)) => error,
            Err(Lost::Unconfirmed(message)) => Error::Unconfirmed(message),
        };
        for job in group {
            job.answer(Err(refused.clone()));
        }
    }

    /// Two replicas that write to the same rows in other orders stand in each other's way, and one of them is sent off.
    /// Nothing of its change was kept, so it is tried again, alone.
    async fn out_of_the_way(&mut self, job: &Job, mut answer: Answer) -> Answer {
        for _ in 0..DEADLOCK_TRIES_MAX {
            if !matches!(&answer, Err(Error::Unavailable(why)) if why.starts_with(errors::IN_THE_WAY)) {
                break;
            }
            answer = match self.attempt(std::slice::from_ref(job)).await {
                Ok(mut answers) => answers.pop().unwrap_or(answer),
                Err(Lost::Before(error, _) | Lost::Refused(error)) => Err(error),
                Err(Lost::Unconfirmed(message)) => Err(Error::Unconfirmed(message)),
            };
        }
        answer
    }

    /// Runs the group on the connection that there is, or a new one; what is not sound afterwards is dropped.
    async fn attempt(&mut self, group: &[Job]) -> Result<Vec<Answer>, Lost> {
        let client = match self.client.take() {
            Some(client) if !client.is_closed() => client,
            _ => self.connector.serve().await.map_err(|error| Lost::Before(unavailable(error), Again::No))?,
        };
        let result = transact(&client, group).await;
        if matches!(result, Ok(_) | Err(Lost::Refused(_))) {
            self.client = Some(client);
        }
        result
    }
}

/// To a caller a server that cannot be connected to is one that does not answer.
fn unavailable(error: Error) -> Error {
    match error {
        Error::Open { message, .. } => Error::Unavailable(message),
        other => other,
    }
}

async fn transact(client: &ClientWrapper, group: &[Job]) -> Result<Vec<Answer>, Lost> {
    let statements = async {
        let prepared = prepare(client, group).await?;
        let answers = match run_whole(client, group, &prepared).await? {
            Run::Whole(answers) => answers,
            Run::Broken => {
                client.batch_execute("ROLLBACK").await.map_err(lost_before)?;
                run_apart(client, group, &prepared).await?
            }
        };
        let end = if answers.iter().all(Result::is_err) { End::Undone } else { End::Open };
        if end == End::Undone {
            client.batch_execute("ROLLBACK").await.map_err(lost_before)?;
        }
        Ok((answers, end))
    };
    let (answers, end) = match tokio::time::timeout(GROUP_TIMEOUT, statements).await {
        Ok(answers) => answers?,
        Err(_) => return Err(Lost::Before(Error::Unavailable("the changes took too long".into()), Again::No)),
    };
    if end == End::Undone {
        return Ok(answers);
    }
    // One `NOTIFY toolgate` for the whole group belongs here, once replicas listen.
    match tokio::time::timeout(GROUP_TIMEOUT, client.batch_execute("COMMIT")).await {
        Ok(Ok(())) => Ok(answers),
        Ok(Err(error)) if error.as_db_error().is_some() && !pipeline::is_lost(&error) => {
            Err(Lost::Refused(errors::map(&error)))
        }
        Ok(Err(error)) => Err(Lost::Unconfirmed(errors::whole(&error))),
        Err(_) => Err(Lost::Unconfirmed("no answer to a commit".into())),
    }
}

fn lost_before(error: tokio_postgres::Error) -> Lost {
    let again = if pipeline::is_lost(&error) { Again::Yes } else { Again::No };
    Lost::Before(errors::map(&error), again)
}

/// The statements of each change, or why it cannot be run at all.
type Prepared = Vec<Result<Vec<Statement>, Error>>;

/// Outside of the transaction, where a text that PostgreSQL does not understand harms only its own change.
async fn prepare(client: &ClientWrapper, group: &[Job]) -> Result<Prepared, Lost> {
    let mut prepared = Vec::with_capacity(group.len());
    for job in group {
        let mut statements = Vec::with_capacity(job.work.statements.len());
        let mut refused = None;
        for ready in &job.work.statements {
            match values::prepare(client, &ready.text.postgres).await {
                Ok(statement) => statements.push(statement),
                Err(error) if pipeline::is_lost(&error) => return Err(lost_before(error)),
                Err(error) => {
                    refused = Some(errors::map(&error));
                    break;
                }
            }
        }
        prepared.push(refused.map_or(Ok(statements), Err));
    }
    Ok(prepared)
}

fn begin(group: &[Job]) -> String {
    let tenants: BTreeSet<_> =
        group.iter().flat_map(|job| job.work.others.iter().copied().chain([job.work.tenant])).collect();
    let durability = group.iter().map(|job| job.work.durability).max().unwrap_or_default();
    begin_writing(&tenants, durability)
}

/// Sends everything, then listens.
async fn run_whole(client: &ClientWrapper, group: &[Job], prepared: &Prepared) -> Result<Run, Lost> {
    let begin = begin(group);
    let begun = pipeline::send(client.batch_execute(&begin)).await;
    let mut sent = Vec::with_capacity(group.len());
    for (job, statements) in group.iter().zip(prepared) {
        sent.push(match statements {
            Ok(statements) => Ok(send_all(client, job, statements).await),
            Err(error) => Err(error.clone()),
        });
    }
    begun.answer().await.map_err(lost_before)?;
    let mut answers = Vec::with_capacity(group.len());
    let mut broken = false;
    for (job, sent) in group.iter().zip(sent) {
        // Also after a failure every answer is heard: the connection must be quiet before it is used again.
        match sent {
            Err(refused) => answers.push(Err(refused)),
            Ok(sent) => match hear(job, sent).await? {
                Ok(outcome) => answers.push(Ok(outcome)),
                Err(error) => {
                    broken = group.len() > 1;
                    answers.push(Err(error));
                }
            },
        }
    }
    Ok(if broken { Run::Broken } else { Run::Whole(answers) })
}

/// One change after the other, each undone alone if it fails; still one transaction and one commit.
async fn run_apart(client: &ClientWrapper, group: &[Job], prepared: &Prepared) -> Result<Vec<Answer>, Lost> {
    client.batch_execute(&begin(group)).await.map_err(lost_before)?;
    let mut answers = Vec::with_capacity(group.len());
    for (job, statements) in group.iter().zip(prepared) {
        let statements = match statements {
            Ok(statements) => statements,
            Err(refused) => {
                answers.push(Err(refused.clone()));
                continue;
            }
        };
        let saved = pipeline::send(client.batch_execute("SAVEPOINT one_change")).await;
        let sent = send_all(client, job, statements).await;
        saved.answer().await.map_err(lost_before)?;
        let answer = hear(job, sent).await?;
        let end = match &answer {
            Ok(_) => "RELEASE SAVEPOINT one_change",
            Err(_) => "ROLLBACK TO SAVEPOINT one_change; RELEASE SAVEPOINT one_change",
        };
        client.batch_execute(end).await.map_err(lost_before)?;
        answers.push(answer);
    }
    Ok(answers)
}

type Row = (u64, Vec<crate::row::Row>);
type Sent<'a> = pipeline::Sent<std::pin::Pin<Box<dyn Future<Output = Result<Row, StatementError>> + Send + 'a>>>;

async fn send_all<'a>(client: &'a ClientWrapper, job: &'a Job, statements: &'a [Statement]) -> Vec<Sent<'a>> {
    let mut sent: Vec<Sent<'a>> = Vec::with_capacity(statements.len());
    for (ready, statement) in job.work.statements.iter().zip(statements) {
        let request: std::pin::Pin<Box<dyn Future<Output = _> + Send + 'a>> =
            Box::pin(values::run(client, statement, &ready.parameters));
        sent.push(pipeline::send(request).await);
    }
    sent
}

/// The answers of one change: the inner error is its own, the outer one the connection's.
async fn hear(job: &Job, sent: Vec<Sent<'_>>) -> Result<Answer, Lost> {
    let mut outcome = Outcome::default();
    let mut failed: Option<Error> = None;
    for (ready, sent) in job.work.statements.iter().zip(sent) {
        let heard = sent.answer().await;
        match heard {
            Err(StatementError(error)) if pipeline::is_lost(&error) => return Err(lost_before(error)),
            // The first error is the cause; those after it only say that the transaction has failed.
            Err(error) => drop(failed.get_or_insert_with(|| error.mapped())),
            Ok((changed, rows)) => {
                if failed.is_none() {
                    failed = ready.expect.unmet(changed);
                }
                outcome.changed.push(changed);
                outcome.returned.push(rows);
            }
        }
    }
    Ok(failed.map_or(Ok(outcome), Err))
}
