//! Which of the operator's openings a call went through, until the log has them.
//!
//! A call whose record is one commit at its end says it in the entry of that end: the use is committed with what it is a use
//! of, and costs no commit of its own. A crash before that forgets the call whole, as it may. From the moment a call has a
//! row, and after its end, each use is an entry `egress.use` of its own at once: then a crash leaves something to explain.

use std::sync::{Mutex, PoisonError};

use serde_json::json;
use toolgate_contracts::{Clock, Id, OpeningId, Rng};
use toolgate_egress::Purpose;
use toolgate_store::Change;
use toolgate_store::audit::Entry;

use crate::call::Call;
use crate::entry::members;

/// `None`: each use is written at once.
#[derive(Debug, Default)]
pub struct Uses(Mutex<Option<Vec<OpeningId>>>);

impl Uses {
    /// Of a call that has no row.
    pub(crate) fn until_the_end() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }

    /// Keeps them for the entry of the call's end. `false`: whoever used them has to write them.
    pub(crate) fn keep(&self, openings: &[OpeningId]) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(kept) = kept.as_mut() else { return false };
        for opening in openings {
            if !kept.contains(opening) {
                kept.push(*opening);
            }
        }
        true
    }

    /// What was kept, for whoever writes it now; from here on nothing is.
    pub(crate) fn take(&self) -> Vec<OpeningId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}

/// An entry for each.
pub(crate) fn note(change: &mut Change, call: &Call, openings: &[OpeningId], clock: &Clock, rng: &Rng) {
    for opening in openings {
        let details = json!({"for": Purpose::Tool.as_str(), "call": call.id, "tool": call.tool.tool.name});
        change.audit(&Entry {
            id: Id::new(clock, rng),
            at: clock.now(),
            tenant: call.tenant,
            actor: call.principal.to_string(),
            action: "egress.use".to_owned(),
            object: opening.to_string(),
            details: members(details),
        });
    }
}
