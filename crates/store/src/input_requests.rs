//! Questions to people. One is closed once: by an answer, by time, or because nobody needs it any more.

use serde_json::Value as Json;
use toolgate_contracts::input_request::QUESTIONS_OPEN_MAX;
use toolgate_contracts::{
    AgentId, CallId, Fault, InputRequest, InputRequestId, InputRequestState, Page, Principal, RunId, TenantId,
    Timestamp,
};

use crate::calls::{Sight, first_id_of};
use crate::change::{Change, Expect};
use crate::cursor::ListOf;
use crate::error::Error;
use crate::retention::RETENTION_BATCH_ROWS;
use crate::scope::Scope;
use crate::{Row, Store, Value};

/// A question as it is kept: what everyone sees, and what decides who does.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub request: InputRequest,
    /// The agent that asked, or for which the run is.
    pub agent: Option<AgentId>,
    /// Whose run it is.
    pub run_principal: Principal,
    pub closed_at: Option<Timestamp>,
    /// Since when its deadline stands still.
    pub frozen_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub salt: Option<Vec<u8>>,
}

/// Which questions a list is about.
#[derive(Clone, Debug)]
pub struct QuestionFilter {
    pub sight: Sight,
    /// A narrow credential sees what was asked in this name, as this agent or as none, and nothing else.
    pub asked_as: Option<(Principal, Option<AgentId>)>,
    pub state: Option<InputRequestState>,
    pub run: Option<RunId>,
}

const COLUMNS: &str =
    "q.id, q.run_id, q.call_id, q.asked_by, q.title, q.instructions, q.input_schema, q.state, q.answer,
    q.answered_by, q.expires_at, q.agent_id, r.principal, q.closed_at, q.frozen_at, q.created_at, q.salt";
const TABLES: &str = "input_requests q JOIN runs r ON r.tenant_id = q.tenant_id AND r.id = q.run_id";

/// What stands where a question's words were.
pub const ERASED: &str = "[erased]";

impl Change {
    /// Adds a question to a run that is at work or waits; one that has ended or is frozen is refused with `ended`, one
    /// that has as many open questions as it may with `too_many`.
    pub fn ask_question(&mut self, question: &Question, ended: Fault, too_many: Fault) -> &mut Self {
        let Question { request, agent, run_principal: _, closed_at: _, frozen_at: _, created_at, salt } = question;
        let InputRequest {
            id,
            run_id,
            call_id,
            asked_by,
            title,
            instructions,
            schema,
            state: _,
            answer: _,
            answered_by: _,
            expires_at,
        } = request;
        // The run's row first, as everywhere: whoever holds it sees all its questions.
        self.expecting(
            Expect::Rows(1, ended),
            "UPDATE runs SET updated_at = $3
             WHERE tenant_id = $1 AND id = $2 AND state IN ('queued', 'running', 'waiting_human')",
            [(*run_id).into(), (*created_at).into()],
        );
        self.expecting(
            Expect::Rows(1, too_many),
            "INSERT INTO input_requests (tenant_id, id, run_id, call_id, agent_id, asked_by, title, instructions, input_schema,
                salt, expires_at, created_at)
             SELECT r.tenant_id, $2, r.id, $4, $5, $6, $7, $8, $9, $10, CAST($11 AS bigint), CAST($12 AS bigint)
             FROM runs r WHERE r.tenant_id = $1 AND r.id = $3 AND (SELECT count(*) FROM input_requests q
                WHERE q.tenant_id = $1 AND q.run_id = $3 AND q.state = 'open') < CAST($13 AS bigint)",
            [
                (*id).into(),
                (*run_id).into(),
                (*call_id).into(),
                (*agent).into(),
                asked_by.to_string().into(),
                title.into(),
                instructions.clone().into(),
                schema.to_string().into(),
                salt.clone().into(),
                (*expires_at).into(),
                (*created_at).into(),
                QUESTIONS_OPEN_MAX.into(),
            ],
        )
    }

    /// Answers an open question in its time; whoever comes too late is refused with `taken`.
    pub fn answer_question(
        &mut self,
        id: InputRequestId,
        answer: &str,
        by: Principal,
        now: Timestamp,
        taken: Fault,
    ) -> &mut Self {
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE input_requests SET state = 'answered', answer = $3, answered_by = $4, closed_at = $5, frozen_at = NULL
             WHERE tenant_id = $1 AND id = $2 AND state = 'open' AND (frozen_at IS NOT NULL OR expires_at > $5)",
            [id.into(), answer.into(), by.to_string().into(), now.into()],
        )
    }

    /// Ends an open question without an answer.
    pub fn cancel_question(&mut self, id: InputRequestId, now: Timestamp, taken: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE input_requests SET state = 'cancelled', closed_at = $3, frozen_at = NULL
             WHERE tenant_id = $1 AND id = $2 AND state = 'open'",
            [id.into(), now.into()],
        )
    }

    /// A run that has ended waits for nobody.
    pub fn cancel_questions_of(&mut self, run: RunId, now: Timestamp) -> &mut Self {
        self.then(
            "UPDATE input_requests SET state = 'cancelled', closed_at = $3, frozen_at = NULL
             WHERE tenant_id = $1 AND run_id = $2 AND state = 'open'",
            [run.into(), now.into()],
        )
    }

    /// Ends a question whose time is over; one that was closed or frozen meanwhile is refused with `taken`.
    pub fn expire_question(&mut self, id: InputRequestId, now: Timestamp, taken: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE input_requests SET state = 'expired', closed_at = $3
             WHERE tenant_id = $1 AND id = $2 AND state = 'open' AND frozen_at IS NULL AND expires_at <= $3",
            [id.into(), now.into()],
        )
    }

    /// The deadlines of questions by this agent, or by none, stand still since then; what was over before stays over.
    pub fn freeze_questions(&mut self, agent: Option<AgentId>, since: Timestamp) -> &mut Self {
        self.then(
            "UPDATE input_requests SET frozen_at = CASE WHEN created_at > $3 THEN created_at ELSE $3 END
             WHERE tenant_id = $1 AND state = 'open' AND frozen_at IS NULL AND expires_at > $3
                AND (agent_id = $2 OR ($4 AND agent_id IS NULL))",
            [agent.into(), since.into(), agent.is_none().into()],
        )
    }

    /// And go on where they stood.
    pub fn thaw_questions(&mut self, agent: Option<AgentId>, now: Timestamp) -> &mut Self {
        self.then(
            "UPDATE input_requests SET expires_at = expires_at + ($3 - frozen_at), frozen_at = NULL
             WHERE tenant_id = $1 AND state = 'open' AND frozen_at IS NOT NULL
                AND (agent_id = $2 OR ($4 AND agent_id IS NULL))",
            [agent.into(), now.into(), agent.is_none().into()],
        )
    }

    /// Deletes at most one batch of closed questions that were asked before `moment`.
    pub fn forget_questions_before(&mut self, moment: Timestamp) -> &mut Self {
        self.then(
            "DELETE FROM input_requests WHERE tenant_id = $1 AND id IN (SELECT id FROM input_requests
                WHERE tenant_id = $1 AND id < $2 AND state <> 'open' ORDER BY id LIMIT $3)",
            [first_id_of(moment).into(), RETENTION_BATCH_ROWS.into()],
        )
    }

    /// Removes what a person asked and answered, of closed questions: rows and the log stay. Of another's question the
    /// words are not theirs; the answer is, and so it is if they got it.
    pub fn erase_questions_of(&mut self, person: Principal) -> &mut Self {
        let person = || Value::from(person.to_string());
        self.then(
            "UPDATE input_requests SET answer = NULL, salt = NULL
             WHERE tenant_id = $1 AND state <> 'open' AND answer IS NOT NULL AND (answered_by = $2 OR asked_by = $2)",
            [person()],
        );
        self.then(
            "UPDATE input_requests SET title = $3, instructions = NULL, input_schema = $4, salt = NULL
             WHERE tenant_id = $1 AND state <> 'open' AND asked_by = $2 AND title <> $3",
            [person(), ERASED.into(), r#"{"type":"object"}"#.into()],
        )
    }
}

impl Store {
    pub async fn question(&self, tenant: TenantId, id: InputRequestId) -> Result<Option<Question>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE q.tenant_id = $1 AND q.id = $2");
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![id.into()]).await?;
        rows.first().map(question).transpose()
    }

    /// Questions, newest first; the open ones oldest first, because they wait.
    pub async fn questions(
        &self,
        tenant: TenantId,
        filter: &QuestionFilter,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<Question>, Fault> {
        let QuestionFilter { sight, asked_as, state, run } = filter;
        let about = format!("{state:?} {run:?}");
        let list = ListOf { tenant, list: "inputs", filter: &about };
        let open = *state == Some(InputRequestState::Open);
        let mut conditions = vec!["q.tenant_id = $1".to_owned()];
        let mut parameters: Vec<Value> = Vec::new();
        let mut bind = |value: Value| {
            parameters.push(value);
            parameters.len() + 1
        };
        if let Some(after) = cursor.map(|cursor| list.key(cursor)).transpose()? {
            let after = after.parse::<InputRequestId>().map_err(Fault::internal)?;
            conditions.push(format!("q.id {} ${}", if open { '>' } else { '<' }, bind(after.into())));
        }
        if let Some(run) = run {
            conditions.push(format!("q.run_id = ${}", bind((*run).into())));
        }
        match state {
            // A literal, so that the partial index is seen to fit.
            Some(InputRequestState::Open) => conditions.push("q.state = 'open'".to_owned()),
            Some(state) => conditions.push(format!("q.state = ${}", bind(state.as_str().into()))),
            None => {}
        }
        if let Some((owner, agent)) = asked_as {
            conditions.push(format!("q.asked_by = ${}", bind(owner.to_string().into())));
            conditions.push(match agent {
                Some(agent) => format!("q.agent_id = ${}", bind((*agent).into())),
                None => "q.agent_id IS NULL".to_owned(),
            });
        } else if let Sight::OwnAndManaged { viewer, agents } = sight {
            let viewer = bind(viewer.to_string().into());
            let mut seen = vec![format!("q.asked_by = ${viewer} OR r.principal = ${viewer}")];
            seen.extend(agents.iter().map(|agent| format!("q.agent_id = ${}", bind((*agent).into()))));
            conditions.push(format!("({})", seen.join(" OR ")));
        }
        let order = if open { "ASC" } else { "DESC" };
        let sql = format!(
            "SELECT {COLUMNS} FROM {TABLES} WHERE {} ORDER BY q.id {order} LIMIT {}",
            conditions.join(" AND "),
            limit + 1
        );
        let rows = self.query(&Scope::Tenant(tenant), &sql, parameters).await?;
        let mut items = rows.iter().map(question).collect::<Result<Vec<_>, Error>>()?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next_cursor = if more { items.last().map(|last| list.cursor(&last.request.id.to_string())) } else { None };
        Ok(Page { items, next_cursor })
    }

    /// Questions whose time is over, whoever's.
    pub async fn overdue_questions(&self, now: Timestamp) -> Result<Vec<(TenantId, InputRequestId)>, Error> {
        let sql = "SELECT tenant_id, id FROM input_requests
            WHERE state = 'open' AND frozen_at IS NULL AND expires_at <= $1 ORDER BY expires_at LIMIT 500";
        let rows = self.query(&Scope::Everyone("questions that ran out of time"), sql, vec![now.into()]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Whose deadlines stand still, whoever's.
    pub async fn frozen_questions(&self) -> Result<Vec<(TenantId, Option<AgentId>)>, Error> {
        let sql =
            "SELECT DISTINCT tenant_id, agent_id FROM input_requests WHERE state = 'open' AND frozen_at IS NOT NULL";
        let rows = self.query(&Scope::Everyone("questions whose deadlines stand still"), sql, vec![]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Which agents, or none, wait for answers by a deadline that does not stand still.
    pub async fn askers(&self, tenant: TenantId) -> Result<Vec<Option<AgentId>>, Error> {
        let sql = "SELECT DISTINCT agent_id FROM input_requests
            WHERE tenant_id = $1 AND state = 'open' AND frozen_at IS NULL";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub async fn count_questions_before(&self, tenant: TenantId, moment: Timestamp) -> Result<i64, Error> {
        let sql = "SELECT count(*) FROM input_requests WHERE tenant_id = $1 AND id < $2 AND state <> 'open'";
        self.count_questions(tenant, sql, first_id_of(moment).into()).await
    }

    /// Closed questions that hold something of a person.
    pub async fn count_questions_of(&self, tenant: TenantId, person: Principal) -> Result<i64, Error> {
        let sql = "SELECT count(*) FROM input_requests WHERE tenant_id = $1 AND state <> 'open'
            AND ((answer IS NOT NULL AND (answered_by = $2 OR asked_by = $2)) OR (asked_by = $2 AND title <> '[erased]'))";
        self.count_questions(tenant, sql, person.to_string().into()).await
    }

    /// Questions of a person that wait, of which nothing can be erased yet.
    pub async fn count_open_questions_of(&self, tenant: TenantId, person: Principal) -> Result<i64, Error> {
        let sql = "SELECT count(*) FROM input_requests WHERE tenant_id = $1 AND state = 'open' AND asked_by = $2";
        self.count_questions(tenant, sql, person.to_string().into()).await
    }

    async fn count_questions(&self, tenant: TenantId, sql: &str, parameter: Value) -> Result<i64, Error> {
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![parameter]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    /// What a person asked or answered, oldest first, behind `after`.
    pub async fn questions_of(
        &self,
        tenant: TenantId,
        person: Principal,
        after: Option<InputRequestId>,
        limit: u32,
    ) -> Result<Vec<Question>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM {TABLES} WHERE q.tenant_id = $1 AND (q.asked_by = $2 OR q.answered_by = $2)
                AND q.id > $3 ORDER BY q.id LIMIT $4"
        );
        let after = after.unwrap_or(InputRequestId::from_uuid(uuid::Uuid::nil()));
        let parameters = vec![person.to_string().into(), after.into(), limit.into()];
        let rows = self.query(&Scope::Tenant(tenant), &sql, parameters).await?;
        rows.iter().map(question).collect()
    }
}

fn question(row: &Row) -> Result<Question, Error> {
    let answer: Option<String> = row.get(8)?;
    let answer = answer.map(|_| row.json::<Json>(8)).transpose()?;
    let answered_by: Option<String> = row.get(9)?;
    let answered_by = answered_by.map(|_| row.parse(9)).transpose()?;
    let call_id: Option<CallId> = row.get(2)?;
    Ok(Question {
        request: InputRequest {
            id: row.get(0)?,
            run_id: row.get(1)?,
            call_id,
            asked_by: row.parse(3)?,
            title: row.get(4)?,
            instructions: row.get(5)?,
            schema: row.json(6)?,
            state: row.parse(7)?,
            answer,
            answered_by,
            expires_at: row.get(10)?,
        },
        agent: row.get(11)?,
        run_principal: row.parse(12)?,
        closed_at: row.get(13)?,
        frozen_at: row.get(14)?,
        created_at: row.get(15)?,
        salt: row.get(16)?,
    })
}
