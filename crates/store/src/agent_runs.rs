//! Runs of agents that are hosted here, and the turns of their models.
//!
//! A run is at most one replica's at a time: whoever takes it says whom they take it from. Deliberately absent: what the
//! texts mean. A plan, an answer and an output are the agents' own words, kept as they were written.

use serde::{Deserialize, Serialize};
use toolgate_contracts::definition::Label;
use toolgate_contracts::{Amount, CallId, Envelope, Fault, RunId, TenantId, Timestamp};

use crate::approvals::Asker;
use crate::budgets::Held;
use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::value::json_text;
use crate::{Row, Store};

/// Runs that are looked at in one round.
pub const DUE_RUNS_MAX: u32 = 100;

/// A hosted run, as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRun {
    pub run: RunId,
    /// What the agent was given, in the agents' own words.
    pub plan: serde_json::Value,
    pub asker: Asker,
    /// The replica that is at it.
    pub holder: Option<String>,
    /// The call without whose end it cannot go on.
    pub waits_for: Option<CallId>,
    /// The call that it answers when it ends.
    pub for_call: Option<CallId>,
    /// The call that began it, whether or not it waits for the answer.
    pub begun_by: Option<CallId>,
    /// For whom it is remembered what the answer of that call has seen.
    pub reader: Option<String>,
    /// The beginning of the prompt, in one line, until it is erased; and the labels of whoever asked.
    pub asked: Option<String>,
    pub asked_labels: Vec<Label>,
    pub outputs: Option<serde_json::Value>,
    pub is_open: bool,
    /// Questions that went out and have no answer, and what they count for.
    pub unanswered: u32,
    pub unanswered_use: ModelUsed,
    pub created_at: Timestamp,
}

/// What questions to a model took, or may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsed {
    pub input: u64,
    /// Of the input, what the provider had read before.
    #[serde(default)]
    pub cached: u64,
    pub output: u64,
    /// Absent where nobody wrote a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
}

/// One question to the model. Without an answer it is on its way, or was lost on it.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentTurn {
    pub turn: u32,
    pub holds: Vec<Held>,
    /// At most.
    pub may_take: ModelUsed,
    pub answer: Option<serde_json::Value>,
    pub asides: Vec<Aside>,
    pub cost: Option<Amount>,
    pub asked_at: Timestamp,
    pub answered_at: Option<Timestamp>,
}

/// What the model was told of a call whose record says something else, or that has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aside {
    pub seq: u32,
    pub envelope: Envelope,
}

/// A run that somebody should take up, and whom they take it from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRun {
    pub tenant: TenantId,
    pub run: RunId,
    pub holder: Option<String>,
}

const COLUMNS: &str =
    "run_id, plan, asker, holder, waits_for, for_call, outputs, is_open, created_at, begun_by, reader, unanswered,
    unanswered_input, unanswered_output, unanswered_micros, asked, asked_labels";

impl Change {
    pub fn insert_agent_run(&mut self, run: &AgentRun) -> &mut Self {
        let AgentRun {
            run,
            plan,
            asker,
            holder,
            waits_for,
            for_call,
            begun_by,
            reader,
            asked,
            asked_labels,
            outputs: _,
            is_open: _,
            unanswered: _,
            unanswered_use: _,
            created_at,
        } = run;
        self.then(
            "INSERT INTO agent_runs
                (tenant_id, run_id, plan, asker, holder, waits_for, for_call, created_at, begun_by, reader, asked,
                 asked_labels)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            [
                (*run).into(),
                plan.to_string().into(),
                json_text(asker),
                holder.clone().into(),
                (*waits_for).into(),
                (*for_call).into(),
                (*created_at).into(),
                (*begun_by).into(),
                reader.clone().into(),
                asked.clone().into(),
                crate::labels::bits(asked_labels).into(),
            ],
        )
    }

    /// Takes up a run that nobody holds, or that `from` held, whose replica is gone.
    pub fn take_agent_run(&mut self, run: RunId, from: Option<&str>, holder: &str, taken: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE agent_runs SET holder = $3, waits_for = NULL
             WHERE tenant_id = $1 AND run_id = $2 AND is_open = 1 AND coalesce(holder, '') = $4",
            [run.into(), holder.into(), from.unwrap_or_default().into()],
        )
    }

    /// Lets go of a run until a call has ended; without one, until somebody takes it up.
    pub fn leave_agent_run(&mut self, run: RunId, holder: &str, waits_for: Option<CallId>) -> &mut Self {
        self.then(
            "UPDATE agent_runs SET holder = NULL, waits_for = $4 WHERE tenant_id = $1 AND run_id = $2 AND holder = $3",
            [run.into(), holder.into(), waits_for.into()],
        )
    }

    /// Nobody takes it up any more.
    pub fn close_agent_run(&mut self, run: RunId, holder: &str, outputs: &serde_json::Value, lost: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, lost),
            "UPDATE agent_runs SET is_open = 0, holder = NULL, waits_for = NULL, outputs = $3
             WHERE tenant_id = $1 AND run_id = $2 AND is_open = 1 AND holder = $4",
            [run.into(), outputs.to_string().into(), holder.into()],
        )
    }

    /// A question goes out. `lost`: another replica took the run, or somebody ended it.
    pub fn ask_turn(
        &mut self,
        (run, turn): (RunId, u32),
        holder: &str,
        (holds, may_take): (&[Held], &ModelUsed),
        now: Timestamp,
        lost: Fault,
    ) -> &mut Self {
        self.expecting(
            Expect::Rows(1, lost),
            "INSERT INTO agent_turns (tenant_id, run_id, turn, holds, asked_at, may_take)
             SELECT a.tenant_id, a.run_id, CAST($3 AS bigint), $4, CAST($5 AS bigint), $7 FROM agent_runs a
             JOIN runs r ON r.tenant_id = a.tenant_id AND r.id = a.run_id
             WHERE a.tenant_id = $1 AND a.run_id = $2 AND a.holder = $6 AND a.is_open = 1
               AND r.state NOT IN ('completed', 'failed', 'cancelled')
             ON CONFLICT (tenant_id, run_id, turn) DO UPDATE SET holds = excluded.holds, asked_at = excluded.asked_at,
                may_take = excluded.may_take
             WHERE agent_turns.answer IS NULL",
            [run.into(), turn.into(), json_text(&holds), now.into(), holder.into(), json_text(may_take)],
        )
    }

    /// What was answered, once. `lost`: another replica took the run, and asks again.
    pub fn answer_turn(
        &mut self,
        (run, turn): (RunId, u32),
        holder: &str,
        answer: &serde_json::Value,
        cost: Option<Amount>,
        now: Timestamp,
        lost: Fault,
    ) -> &mut Self {
        self.expecting(
            Expect::Rows(1, lost),
            "UPDATE agent_turns SET answer = $4, cost = $5, answered_at = $6, holds = '[]'
             WHERE tenant_id = $1 AND run_id = $2 AND turn = $3 AND answer IS NULL
               AND EXISTS (SELECT 1 FROM agent_runs a WHERE a.tenant_id = $1 AND a.run_id = $2 AND a.holder = $7)",
            [
                run.into(),
                turn.into(),
                answer.to_string().into(),
                cost.map(|cost| cost.to_string()).into(),
                now.into(),
                holder.into(),
            ],
        )
    }

    /// A question that has no answer, and of which nobody knows whether it was answered: it counts in its run as what it
    /// may have taken. `lost`: another replica took the run, and counts it.
    pub fn lose_turn(&mut self, (run, turn): (RunId, u32), holder: &str, took: &ModelUsed, lost: Fault) -> &mut Self {
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.drop_turn((run, turn), holder, lost);
        self.then(
            "UPDATE agent_runs SET unanswered = unanswered + 1,
                unanswered_input = unanswered_input + CAST($3 AS bigint),
                unanswered_output = unanswered_output + CAST($4 AS bigint),
                unanswered_micros = unanswered_micros + CAST($5 AS bigint)
             WHERE tenant_id = $1 AND run_id = $2",
            [
                run.into(),
                whole(took.input).into(),
                whole(took.output).into(),
                took.cost.unwrap_or_default().micros().into(),
            ],
        )
    }

    /// A question that was not taken holds nothing any more. `lost`: another replica took the run, and settles what was
    /// held.
    pub fn drop_turn(&mut self, (run, turn): (RunId, u32), holder: &str, lost: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, lost),
            "DELETE FROM agent_turns WHERE tenant_id = $1 AND run_id = $2 AND turn = $3 AND answer IS NULL
               AND EXISTS (SELECT 1 FROM agent_runs a WHERE a.tenant_id = $1 AND a.run_id = $2 AND a.holder = $4)",
            [run.into(), turn.into(), holder.into()],
        )
    }

    /// `lost`: another replica took the run, and knows of its own.
    pub fn put_asides(&mut self, (run, turn): (RunId, u32), holder: &str, asides: &[Aside], lost: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, lost),
            "UPDATE agent_turns SET asides = $4 WHERE tenant_id = $1 AND run_id = $2 AND turn = $3
               AND EXISTS (SELECT 1 FROM agent_runs a WHERE a.tenant_id = $1 AND a.run_id = $2 AND a.holder = $5)",
            [run.into(), turn.into(), json_text(&asides), holder.into()],
        )
    }
}

impl Store {
    pub async fn agent_run(&self, tenant: TenantId, run: RunId) -> Result<Option<AgentRun>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM agent_runs WHERE tenant_id = $1 AND run_id = $2");
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![run.into()]).await?;
        rows.first().map(agent_run).transpose()
    }

    /// Whether it is an agent's that goes on by itself: only its host calls in it.
    pub async fn is_hosted(&self, tenant: TenantId, run: RunId) -> Result<bool, Error> {
        let sql = "SELECT 1 FROM agent_runs WHERE tenant_id = $1 AND run_id = $2 AND is_open = 1";
        Ok(!self.query(&Scope::Tenant(tenant), sql, vec![run.into()]).await?.is_empty())
    }

    pub async fn agent_turns(&self, tenant: TenantId, run: RunId) -> Result<Vec<AgentTurn>, Error> {
        let sql = "SELECT turn, holds, answer, asides, cost, asked_at, answered_at, may_take FROM agent_turns
            WHERE tenant_id = $1 AND run_id = $2 ORDER BY turn";
        self.query(&Scope::Tenant(tenant), sql, vec![run.into()]).await?.iter().map(turn).collect()
    }

    /// The turns from `first` on, at most so many.
    pub async fn agent_turns_from(
        &self,
        tenant: TenantId,
        run: RunId,
        first: u32,
        limit: u32,
    ) -> Result<Vec<AgentTurn>, Error> {
        let sql = "SELECT turn, holds, answer, asides, cost, asked_at, answered_at, may_take FROM agent_turns
            WHERE tenant_id = $1 AND run_id = $2 AND turn >= $3 ORDER BY turn LIMIT $4";
        let parameters = vec![run.into(), first.into(), limit.into()];
        self.query(&Scope::Tenant(tenant), sql, parameters).await?.iter().map(turn).collect()
    }

    /// Runs that nobody living is at and that could go on, or that ended without whoever hosted them, behind `after`. Those
    /// that `own` holds are among them: it knows itself which of them it is at.
    pub async fn due_agent_runs(&self, after: Option<RunId>, own: &str, now: Timestamp) -> Result<Vec<DueRun>, Error> {
        self.due_agents("a.run_id > $1", after, own, now).await
    }

    /// The same of one run alone.
    pub async fn due_agent_run(&self, run: RunId, own: &str, now: Timestamp) -> Result<Option<DueRun>, Error> {
        Ok(self.due_agents("a.run_id = $1", Some(run), own, now).await?.pop())
    }

    async fn due_agents(
        &self,
        which: &str,
        run: Option<RunId>,
        own: &str,
        now: Timestamp,
    ) -> Result<Vec<DueRun>, Error> {
        let sql = format!(
            "SELECT a.tenant_id, a.run_id, a.holder FROM agent_runs a
            JOIN runs r ON r.tenant_id = a.tenant_id AND r.id = a.run_id
            LEFT JOIN calls c ON c.tenant_id = a.tenant_id AND c.id = a.waits_for
            WHERE a.is_open = 1 AND {which}
              AND (r.frozen_at IS NULL OR r.state IN ('completed', 'failed', 'cancelled'))
              AND (a.holder IS NULL OR a.holder = $4
                OR NOT EXISTS (SELECT 1 FROM leases l WHERE l.name = 'replica:' || a.holder AND l.expires_at > $2))
              AND (a.waits_for IS NULL OR c.id IS NULL OR c.status NOT IN ('pending', 'approved', 'running')
                OR r.state IN ('completed', 'failed', 'cancelled'))
            ORDER BY a.run_id LIMIT $3"
        );
        let run = run.unwrap_or(RunId::from_uuid(uuid::Uuid::nil()));
        let parameters = vec![run.into(), now.into(), DUE_RUNS_MAX.into(), own.into()];
        let rows = self.query(&Scope::Everyone("runs that go on are anyone's"), &sql, parameters).await?;
        rows.iter().map(|row| Ok(DueRun { tenant: row.get(0)?, run: row.get(1)?, holder: row.get(2)? })).collect()
    }
}

fn agent_run(row: &Row) -> Result<AgentRun, Error> {
    let outputs: Option<String> = row.get(6)?;
    let count = |position| -> Result<u64, Error> { Ok(u64::try_from(row.get::<i64>(position)?).unwrap_or_default()) };
    Ok(AgentRun {
        run: row.get(0)?,
        plan: row.json(1)?,
        asker: row.json(2)?,
        holder: row.get(3)?,
        waits_for: row.get(4)?,
        for_call: row.get(5)?,
        outputs: outputs.map(|_| row.json(6)).transpose()?,
        is_open: row.get::<i64>(7)? != 0,
        created_at: row.get(8)?,
        begun_by: row.get(9)?,
        reader: row.get(10)?,
        unanswered: row.get(11)?,
        unanswered_use: ModelUsed {
            input: count(12)?,
            cached: 0,
            output: count(13)?,
            cost: Some(Amount::from_micros(row.get(14)?)).filter(|cost| !cost.is_zero()),
        },
        asked: row.get(15)?,
        asked_labels: crate::labels::of_bits(row.get(16)?),
    })
}

fn turn(row: &Row) -> Result<AgentTurn, Error> {
    let (answer, cost): (Option<String>, Option<String>) = (row.get(2)?, row.get(4)?);
    Ok(AgentTurn {
        turn: row.get(0)?,
        holds: row.json(1)?,
        answer: answer.map(|_| row.json(2)).transpose()?,
        asides: row.json(3)?,
        cost: cost.map(|_| row.parse(4)).transpose()?,
        asked_at: row.get(5)?,
        answered_at: row.get(6)?,
        may_take: row.json(7)?,
    })
}
