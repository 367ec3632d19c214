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

// Of the run `$2` in the tenant `$1`.
macro_rules! open_questions {
    () => {
        "FROM input_requests q WHERE q.tenant_id = $1 AND q.run_id = $2 AND q.state = 'open'"
    };
}
// A caller who goes on without the decision is not held up by it.
macro_rules! pending_calls {
    () => {
        "FROM calls c WHERE c.tenant_id = $1 AND c.run_id = $2 AND c.approval_status = 'pending' AND c.status = 'pending'
            AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.tenant_id = $1 AND a.call_id = c.id AND a.mode = 'fire_and_continue')"
    };
}

impl Change {
    /// A run that is at work waits for people from now on; `event` is `run.waiting`.
    ///
    /// To be added behind something that writes the run's row (`append_events` does): who holds the row sees every wait
    /// of the run as it is committed. A lone call's run has no row, and is not parked.
    pub fn park_run(&mut self, run: RunId, event: &NewEvent, now: Timestamp) -> &mut Self {
        self.then(
            "UPDATE runs SET state = 'waiting_human', waiting_since = $3, event_seq = event_seq + 1, updated_at = $3
             WHERE tenant_id = $1 AND id = $2 AND state IN ('queued', 'running')",
            [run.into(), now.into()],
        );
        self.append_counted(run, event, now)
    }

    /// A run that waits goes on if it waits for nobody any more; `event` is `run.resumed`. Where it stands in a change
    /// is as for [`Change::park_run`], and behind what ended the wait.
    pub fn resume_run(&mut self, run: RunId, event: &NewEvent, now: Timestamp) -> &mut Self {
        self.then(
            concat!(
                "UPDATE runs SET state = 'running', waited_ms = waited_ms + CAST($3 AS bigint) - coalesce(waiting_since, $3),
                    waiting_since = NULL, event_seq = event_seq + 1, updated_at = $3
                 WHERE tenant_id = $1 AND id = $2 AND state = 'waiting_human' AND NOT EXISTS (SELECT 1 ",
                open_questions!(),
                ") AND NOT EXISTS (SELECT 1 ",
                pending_calls!(),
                ")"
            ),
            [run.into(), now.into()],
        );
        self.append_counted(run, event, now)
    }

    /// Writes the event whose number was taken just now, if one was.
    fn append_counted(&mut self, run: RunId, event: &NewEvent, now: Timestamp) -> &mut Self {
        let text = serde_json::to_string(std::slice::from_ref(event)).unwrap_or_default();
        self.then(
            "INSERT INTO events (tenant_id, run_id, seq, last_seq, call_id, events, created_at)
             SELECT r.tenant_id, r.id, r.event_seq, r.event_seq, $3, $4, CAST($5 AS bigint)
             FROM runs r WHERE r.tenant_id = $1 AND r.id = $2 AND r.event_seq > coalesce((SELECT e.last_seq FROM events e
                WHERE e.tenant_id = $1 AND e.run_id = $2 ORDER BY e.seq DESC LIMIT 1), 0)",
            [run.into(), event.call_id.into(), text.into(), now.into()],
        )
    }
}

impl Store {
    /// Whom a run waits for.
    pub async fn open_waits(&self, tenant: TenantId, run: RunId) -> Result<OpenWaits, Error> {
        let mut counts = [0; 2];
        let queries = [concat!("SELECT count(*) ", open_questions!()), concat!("SELECT count(*) ", pending_calls!())];
        for (count, sql) in counts.iter_mut().zip(queries) {
            let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.into()]).await?;
            *count = rows.first().map_or(Ok(0), |row| row.get(0))?;
        }
        let [questions, approvals] = counts;
        Ok(OpenWaits { questions, approvals })
    }
}
