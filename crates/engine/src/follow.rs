//! Following a run, or a whole tenant, live: what is there is read page by page, and then what comes.
//!
//! Invariant: nothing is kept for a reader who does not read. A follower asks for the next page when its reader took
//! the last one, so a slow reader holds a cursor and no memory.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::broadcast::{Receiver, error::RecvError};
use toolgate_contracts::event::{Event, EventType};
use toolgate_contracts::{CallId, Fault, RunId, TenantId};
use toolgate_store::events::{Position, ROWS_MAX, of_model};

use crate::engine::{Engine, Signal};

/// How long a follower goes without looking, for what other replicas commit.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Events of one page, parts of output included; more are read by following.
const PAGE_EVENTS_MAX: usize = 2_000;

/// Follows one run.
pub struct RunFollower {
    engine: Engine,
    tenant: TenantId,
    run: RunId,
    after: u64,
    part: (u64, Option<CallId>, u64),
    /// Calls whose beginning was given and whose end was not, as far as they may still give output.
    open: BTreeMap<CallId, Open>,
    signals: Receiver<Signal>,
}

#[derive(Clone, Copy, Default)]
struct Open {
    /// Of its beginning, behind which its output stands.
    seq: u64,
    /// The last part that was given.
    given: u64,
    ended: bool,
}

/// Follows everything in a tenant.
pub struct TenantFollower {
    engine: Engine,
    tenant: TenantId,
    after: Position,
    signals: Receiver<Signal>,
}

impl Engine {
    /// From the event behind `after` on; 0 is from the beginning.
    pub fn follow_run(&self, tenant: TenantId, run: RunId, after: u64) -> RunFollower {
        let part = (after, None, 0);
        RunFollower { engine: self.clone(), tenant, run, after, part, open: BTreeMap::new(), signals: self.signals() }
    }

    /// From `after` on; without it, from now on.
    pub async fn follow_tenant(&self, tenant: TenantId, after: Option<Position>) -> Result<TenantFollower, Fault> {
        let signals = self.signals();
        let after = match after {
            Some(after) => after,
            None => self.store().last_position(tenant).await?,
        };
        Ok(TenantFollower { engine: self.clone(), tenant, after, signals })
    }

    /// One page of a run's events behind `after`, with the parts of output that stand among them.
    pub async fn events(&self, tenant: TenantId, run: RunId, after: u64) -> Result<Vec<Event>, Fault> {
        let mut follower = self.follow_run(tenant, run, after);
        let mut events = Vec::new();
        while events.len() < PAGE_EVENTS_MAX {
            let page = follower.page().await?;
            if page.is_empty() {
                break;
            }
            events.extend(page);
        }
        Ok(events)
    }
}

impl RunFollower {
    /// What is there now and was not given yet. Empty: nothing for the moment. Dropped before it is ready, it has given
    /// nothing: where the reader is moves at the end.
    pub async fn page(&mut self) -> Result<Vec<Event>, Fault> {
        let store = self.engine.store();
        let mut page = store.events(self.tenant, self.run, self.after).await?;
        let after = page.iter().filter_map(|event| event.seq).max().unwrap_or(self.after);
        let mut open = self.open.clone();
        let model = of_model(self.run);
        for event in &page {
            match event.event_type {
                EventType::ModelRequested => {
                    open.insert(model, Open { seq: event.seq.unwrap_or(0), ..Open::default() });
                }
                EventType::ModelCompleted | EventType::ModelFailed => {
                    open.entry(model).and_modify(|open| open.ended = true);
                }
                _ => {}
            }
            let Some(call) = event.call_id else { continue };
            match event.event_type {
                EventType::ToolStarted => {
                    open.insert(call, Open { seq: event.seq.unwrap_or(0), ..Open::default() });
                }
                EventType::ToolCompleted | EventType::ToolFailed | EventType::ToolCancelled => {
                    open.entry(call).and_modify(|open| open.ended = true);
                }
                _ => {}
            }
        }
        let mut found = store.parts(self.tenant, self.run, self.part).await?;
        let all = found.len() < ROWS_MAX as usize;
        // A part stands behind an event; it is given when that event was.
        found.retain(|part| part.after_seq.is_some_and(|of| of <= after));
        let mut cursor = self.part;
        for part in &found {
            cursor = (part.after_seq.unwrap_or(0), part.call_id, part.part.unwrap_or(0));
            let Some(call) = part.call_id else { continue };
            // Of one that is not known the reader had the beginning before it came here.
            let ended = page.iter().any(|event| event.call_id == Some(call));
            let open = open.entry(call).or_insert(Open { seq: cursor.0, given: 0, ended });
            // A model is asked many times: what it said before is not of the answer that goes on.
            if open.seq == cursor.0 {
                open.given = cursor.2;
            }
        }
        if all {
            // Whatever comes behind these events now is of calls that go on, and those are asked for one by one: the
            // output of two calls comes in no order.
            cursor = (after + 1, None, 0);
            for (call, open) in &mut open {
                let more = store.parts_of(self.tenant, self.run, (open.seq, *call, open.given)).await?;
                open.given = more.last().and_then(|part| part.part).unwrap_or(open.given);
                open.ended &= more.len() < ROWS_MAX as usize;
                found.extend(more);
            }
            open.retain(|_, open| !open.ended);
        }
        for mut part in found {
            part.call_id = part.call_id.filter(|call| *call != model);
            let at = page.iter().position(|event| event.seq > part.after_seq && event.seq.is_some());
            page.insert(at.unwrap_or(page.len()), part);
        }
        (self.after, self.part, self.open) = (after, cursor, open);
        Ok(page)
    }

    /// The next page, when there is one.
    pub async fn next(&mut self) -> Result<Vec<Event>, Fault> {
        loop {
            let page = self.page().await?;
            if !page.is_empty() {
                return Ok(page);
            }
            wait(&mut self.signals, |signal| signal.tenant == self.tenant && signal.run == self.run).await;
        }
    }
}

impl TenantFollower {
    /// The next page with the place of each event, when there is one.
    pub async fn next(&mut self) -> Result<Vec<(Position, Event)>, Fault> {
        loop {
            let page = self.engine.store().tenant_events(self.tenant, self.after).await?;
            if let Some((last, _)) = page.last() {
                self.after = *last;
                return Ok(page);
            }
            wait(&mut self.signals, |signal| signal.tenant == self.tenant).await;
        }
    }
}

/// Until something was committed here that matters, or it is time to look for what others committed.
async fn wait(signals: &mut Receiver<Signal>, matters: impl Fn(&Signal) -> bool) {
    let until = tokio::time::Instant::now() + LOOK_EVERY;
    loop {
        match tokio::time::timeout_at(until, signals.recv()).await {
            Ok(Ok(signal)) if !matters(&signal) => {}
            Ok(Err(RecvError::Closed)) => tokio::time::sleep_until(until).await,
            Ok(Ok(_) | Err(RecvError::Lagged(_))) | Err(_) => return,
        }
    }
}
