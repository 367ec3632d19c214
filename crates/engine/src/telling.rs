//! What a runner has to tell in the log of its call's run, until it is written there.
//!
//! Of a call that has a row it is written as it comes, of a quick one with its record. Either way it stands behind the
//! call's beginning and before its end. Deliberately absent: payloads. What a runner gives is in the call's result.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use toolgate_contracts::Timestamp;
use toolgate_contracts::event::{EventType, NewEvent};

use crate::call::Call;
use crate::entry::members;

#[derive(Debug, Default)]
pub struct Telling(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    waiting: Vec<NewEvent>,
    /// Written already; a lone call counts its events itself.
    written: u64,
}

impl Telling {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Vec<NewEvent> {
        std::mem::take(&mut self.kept().waiting)
    }

    /// Those that were taken and could not be written.
    pub(crate) fn put_back(&self, mut events: Vec<NewEvent>) {
        let mut kept = self.kept();
        events.append(&mut kept.waiting);
        kept.waiting = events;
    }

    pub(crate) fn wrote(&self, events: usize) {
        self.kept().written += events as u64;
    }

    pub(crate) fn written(&self) -> u64 {
        self.kept().written
    }
}

impl Call {
    /// Puts an event of this call into the log of its run.
    pub fn tell(&self, event_type: EventType, data: Value, at: Timestamp) {
        let (call_id, actor) = (Some(self.id), self.principal.to_string());
        self.telling.kept().waiting.push(NewEvent { event_type, call_id, at, actor, data: members(data) });
    }
}
