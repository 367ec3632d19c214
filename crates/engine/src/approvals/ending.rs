//! Waits that end without a run: turned down, rejected, expired, taken back. The call, its approval and whatever was
//! granted for it end in one commit.

use serde_json::json;
use toolgate_contracts::event::{EventType, NewEvent};
use toolgate_contracts::{ApprovalState, CallId, ErrorCode, Fault, NoticeType, Status, TenantId, Timestamp, ToolError};
use toolgate_store::approvals::{Approval, Verdict};
use toolgate_store::calls::CallRecord;
use toolgate_store::{Change, Error};

use super::decide::already;
use crate::control::Late;
use crate::engine::Engine;
use crate::entry::members;
use crate::notify::News;
use crate::record::Ended;

/// How a wait ends without a run.
pub(super) struct Ending<'a> {
    pub state: ApprovalState,
    pub by: &'a str,
    pub reason: Option<&'a str>,
    pub error: ToolError,
}

impl Engine {
    /// Ends a call that waits without running it, with its approval.
    pub(super) async fn end_waiting(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
        ending: Ending<'_>,
        more: impl FnOnce(&mut Change, Timestamp),
    ) -> Result<(), Fault> {
        let Ending { state, by, reason, error } = ending;
        let now = self.clock.now();
        let status = if state == ApprovalState::Cancelled { Status::Cancelled } else { Status::Rejected };
        let (event_type, notice) = match state {
            ApprovalState::Expired => (EventType::ApprovalExpired, NoticeType::ApprovalExpired),
            ApprovalState::Rejected => (EventType::ApprovalRejected, NoticeType::ApprovalDecided),
            _ => (EventType::ApprovalDecided, NoticeType::ApprovalDecided),
        };
        let data = members(json!({"approval_id": approval.id, "state": state, "tool": record.tool_name}));
        let event = NewEvent { event_type, call_id: Some(record.id), at: now, actor: by.to_owned(), data };
        let late = Late {
            status,
            ended: Ended::refused(error),
            action: if status == Status::Cancelled { "call.cancelled" } else { "call.rejected" },
            actor: by.to_owned(),
            before: vec![event],
        };
        let taken = already(approval);
        let verdict = Verdict { state, by, reason, at: now };
        let told = News::of_approval(notice, approval.id, record.id, record.run, &record.tool_name, state.as_str());
        let ended = self
            .end_late(tenant, record, late, |change| {
                more(change, now);
                if state == ApprovalState::Expired {
                    change.expire_approval(approval.id, &verdict, taken);
                } else {
                    change.decide_approval(approval.id, approval.round, &verdict, taken);
                }
                change.note_rejection(record.id, by, reason.unwrap_or_default());
                change.void_grants(record.id, by, now);
                change.audit(&self.decision_entry(tenant, approval, record, by, state, now));
                let snapshot = self.registry.snapshot();
                if let Ok(registry) = snapshot.tenant(tenant) {
                    self.tell(change, registry, told.in_workspace(approval.workspace));
                }
            })
            .await;
        match ended {
            Ok(_) => Ok(()),
            Err(Error::Unmet(fault)) => Err(self.decided_meanwhile(tenant, approval.id, fault).await),
            Err(error) => Err(error.into()),
        }
    }

    /// It was approved, and may not run by now: that is its end, and the reason is told.
    pub(super) async fn turn_down(&self, tenant: TenantId, record: &CallRecord, error: ToolError) -> Result<(), Fault> {
        let late = Late {
            status: Status::Rejected,
            ended: Ended::refused(error),
            action: "call.rejected",
            actor: "system".to_owned(),
            before: Vec::new(),
        };
        let now = self.clock.now();
        match self.end_late(tenant, record, late, |change| void(change, record.id, now)).await {
            Ok(_) | Err(Error::Unmet(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A granted call whose first commit was refused has not begun: a budget without room ends it, all else is that
    /// somebody was faster.
    pub(crate) async fn granted_but_not_begun(
        &self,
        tenant: TenantId,
        call: CallId,
        no_room: Option<ToolError>,
    ) -> Result<(), Fault> {
        let (Some(error), Some(record)) = (no_room, self.store.call(tenant, call).await?) else { return Ok(()) };
        self.turn_down(tenant, &record, error).await
    }

    /// Takes back a call that waits, or that was approved and does not run yet.
    pub(crate) async fn cancel_parked(&self, tenant: TenantId, record: &CallRecord, by: &str) -> Result<(), Fault> {
        let Some(approval) = self.store.approval_of(tenant, record.id).await? else { return Ok(()) };
        let message = "the call was cancelled while it waited; nothing was changed";
        let error = ToolError::because(ErrorCode::PolicyDenied, "cancelled", message);
        if approval.state == ApprovalState::Open {
            let ending = Ending { state: ApprovalState::Cancelled, by, reason: None, error };
            return self.end_waiting(tenant, &approval, record, ending, |_, _| {}).await;
        }
        let late = Late {
            status: Status::Cancelled,
            ended: Ended::refused(error),
            action: "call.cancelled",
            actor: by.to_owned(),
            before: Vec::new(),
        };
        let now = self.clock.now();
        match self.end_late(tenant, record, late, |change| void(change, record.id, now)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn void(change: &mut Change, call: CallId, now: Timestamp) {
    change.void_grants(call, "system", now);
}
