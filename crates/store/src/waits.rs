//! What a run waits for: answers to its questions, and decisions about its calls.
//!
//! A run is parked with the first of them and goes on with the last, whichever kind that is, so both ask the same
//! question here. Its events say so once: parking a run that waits already, or letting go of one that still waits,
//! writes nothing.

use toolgate_contracts::event::NewEvent;
use toolgate_contracts::{RunId, TenantId, Timestamp};

use crate::Store;
use crate::change::Change;
use crate::error::Error;
use crate::scope::Scope;

/// How many people's words a run waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenWaits {
    pub questions: u32,
    pub approvals: u32,
}

impl OpenWaits {
    pub const fn is_empty(self) -> bool {
        self.questions == 0 && self.approvals == 0
    }
}

// Of the run whose id is written as `$run`, in the tenant `$1`.
macro_rules! open_questions {
    ($run:literal) => {
        concat!("FROM input_requests q WHERE q.tenant_id = $1 AND q.run_id = ", $run, " AND q.state = 'open'")
    };
}
// A caller who goes on without the decision is not held up by it.
macro_rules! pending_calls {
    ($run:literal) => {
        concat!(
            "FROM calls c WHERE c.tenant_id = $1 AND c.run_id = ",
            $run,
            " AND c.approval_status = 'pending' AND c.status = 'pending'
            AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.tenant_id = $1 AND a.call_id = c.id AND a.mode = 'fire_and_continue')"
        )
    };
}
// Whether a run waits for people itself.
macro_rules! waits {
    ($run:literal) => {
        concat!("EXISTS (SELECT 1 ", open_questions!($run), ") OR EXISTS (SELECT 1 ", pending_calls!($run), ")")
    };
}
// The run `$2` and those above it.
macro_rules! upwards {
    () => {
        "WITH RECURSIVE up (id, above) AS (
            SELECT r.id, r.parent_run_id FROM runs r WHERE r.tenant_id = $1 AND r.id = $2
            UNION
            SELECT r.id, r.parent_run_id FROM runs r JOIN up ON up.above = r.id WHERE r.tenant_id = $1
        ) SELECT id FROM up"
    };
}
// Those of them that nobody holds up any more: neither a wait of their own, nor one of a run below them.
macro_rules! free_upwards {
    () => {
        concat!(
            "WITH RECURSIVE up (id, above, held) AS (
                SELECT r.id, r.parent_run_id, CASE WHEN ",
            waits!("r.id"),
            " OR EXISTS (SELECT 1 FROM runs o WHERE o.tenant_id = $1 AND o.root_run_id = r.root_run_id
                    AND o.parent_run_id = r.id AND o.state = 'waiting_human') THEN 1 ELSE 0 END
                FROM runs r WHERE r.tenant_id = $1 AND r.id = $2
                UNION
                SELECT r.id, r.parent_run_id, CASE WHEN up.held = 1 OR ",
            waits!("r.id"),
            " OR EXISTS (SELECT 1 FROM runs o WHERE o.tenant_id = $1 AND o.root_run_id = r.root_run_id
                    AND o.parent_run_id = r.id AND o.id <> up.id AND o.state = 'waiting_human') THEN 1 ELSE 0 END
                FROM runs r JOIN up ON up.above = r.id WHERE r.tenant_id = $1
            ) SELECT id FROM up WHERE held = 0"
        )
    };
}

impl Change {
    /// A run that is at work waits for people from now on, and with it those above it, which wait for it: nobody is
    /// charged that time. `event` is `run.waiting`.
    ///
    /// To be added behind something that writes the run's row (`append_events` does): who holds the row sees every wait
    /// of the run as it is committed. A lone call's run has no row, and is not parked.
    pub fn park_run(&mut self, run: RunId, event: &NewEvent, now: Timestamp) -> &mut Self {
        self.then(
            concat!(
                "UPDATE runs SET state = 'waiting_human', waiting_since = $3, event_seq = event_seq + 1, updated_at = $3,
                    waited_ms = waited_ms + CASE WHEN frozen_at IS NULL THEN 0 ELSE CAST($3 AS bigint) - frozen_at END
                 WHERE tenant_id = $1 AND state IN ('queued', 'running') AND id IN (",
                upwards!(),
                ")"
            ),
            [run.into(), now.into()],
        );
        self.append_counted(run, event, now)
    }

    /// A run that waits goes on if it waits for nobody any more, and so do those above it; `event` is `run.resumed`.
    /// Where it stands in a change is as for [`Change::park_run`], and behind what ended the wait.
    pub fn resume_run(&mut self, run: RunId, event: &NewEvent, now: Timestamp) -> &mut Self {
        // Held before they are looked at: two runs below one may end their waits in the same moment.
        self.then(
            concat!(
                "UPDATE runs SET updated_at = $3 WHERE tenant_id = $1 AND state = 'waiting_human' AND id <> $2 AND id IN (",
                upwards!(),
                ")"
            ),
            [run.into(), now.into()],
        );
        self.then(
            concat!(
                "UPDATE runs SET state = 'running', waited_ms = waited_ms + CAST($3 AS bigint) - coalesce(waiting_since, $3),
                    waiting_since = NULL, event_seq = event_seq + 1, updated_at = $3,
                    frozen_at = CASE WHEN frozen_at IS NULL THEN NULL ELSE CAST($3 AS bigint) END
                 WHERE tenant_id = $1 AND state = 'waiting_human' AND id IN (",
                free_upwards!(),
                ")"
            ),
            [run.into(), now.into()],
        );
        self.append_counted(run, event, now)
    }

    /// Writes the event whose number was taken just now, if one was.
    pub(crate) fn append_taken(&mut self, run: RunId, event: &NewEvent, now: Timestamp) -> &mut Self {
        let text = serde_json::to_string(std::slice::from_ref(event)).unwrap_or_default();
        self.then(
            "INSERT INTO events (tenant_id, run_id, seq, last_seq, call_id, events, created_at)
             SELECT r.tenant_id, r.id, r.event_seq, r.event_seq, $3, $4, CAST($5 AS bigint)
             FROM runs r WHERE r.tenant_id = $1 AND r.id = $2 AND r.event_seq > coalesce((SELECT e.last_seq FROM events e
                WHERE e.tenant_id = $1 AND e.run_id = $2 ORDER BY e.seq DESC LIMIT 1), 0)",
            [run.into(), event.call_id.into(), text.into(), now.into()],
        )
    }

    /// The same; in the runs above it says which run it is about.
    fn append_counted(&mut self, run: RunId, event: &NewEvent, now: Timestamp) -> &mut Self {
        self.append_taken(run, event, now);
        let data = [("run_id".to_owned(), run.to_string().into())].into_iter().collect();
        let above = NewEvent { call_id: None, data, ..event.clone() };
        let text = serde_json::to_string(std::slice::from_ref(&above)).unwrap_or_default();
        self.then(
            concat!(
                "INSERT INTO events (tenant_id, run_id, seq, last_seq, events, created_at)
                 SELECT r.tenant_id, r.id, r.event_seq, r.event_seq, $3, CAST($4 AS bigint)
                 FROM runs r WHERE r.tenant_id = $1 AND r.id <> $2 AND r.id IN (",
                upwards!(),
                ") AND r.event_seq > coalesce((SELECT e.last_seq FROM events e
                    WHERE e.tenant_id = $1 AND e.run_id = r.id ORDER BY e.seq DESC LIMIT 1), 0)"
            ),
            [run.into(), text.into(), now.into()],
        )
    }
}

impl Store {
    /// Whom a run waits for.
    pub async fn open_waits(&self, tenant: TenantId, run: RunId) -> Result<OpenWaits, Error> {
        let mut counts = [0; 2];
        let queries =
            [concat!("SELECT count(*) ", open_questions!("$2")), concat!("SELECT count(*) ", pending_calls!("$2"))];
        for (count, sql) in counts.iter_mut().zip(queries) {
            let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.into()]).await?;
            *count = rows.first().map_or(Ok(0), |row| row.get(0))?;
        }
        let [questions, approvals] = counts;
        Ok(OpenWaits { questions, approvals })
    }
}
