//! What time does to calls that wait: people are reminded, and what nobody decided ends. Under a kill switch the clocks
//! stand still.

use serde_json::json;
use toolgate_contracts::definition::HitlMode;
use toolgate_contracts::{ApprovalId, ApprovalState, ErrorCode, Fault, NoticeType, TenantId, ToolError};
use toolgate_store::{Change, Error};

use super::BY_TIMEOUT;
use super::decide::Ending;
use crate::engine::Engine;
use crate::notify::News;

impl Engine {
    /// One round: reminders, expiry, votes that were counted by nobody, approved calls that nobody runs.
    pub(crate) async fn attend_approvals(&self) -> Result<(), Fault> {
        let now = self.clock.now();
        for (tenant, id) in self.store.approvals_to_remind(now).await? {
            self.remind(tenant, id).await?;
        }
        for (tenant, id) in self.store.overdue_approvals(now).await? {
            if let Err(fault) = Box::pin(self.expire_approval(tenant, id)).await {
                tracing::debug!(approval = %id, "not expired: {}", fault.told());
            }
        }
        self.resume_approved().await
    }

    async fn remind(&self, tenant: TenantId, id: ApprovalId) -> Result<(), Fault> {
        let Some(approval) = self.store.approval(tenant, id).await? else { return Ok(()) };
        let Some(record) = self.store.call(tenant, approval.call).await? else { return Ok(()) };
        let now = self.clock.now();
        let mut change = Change::new(tenant);
        change.note_reminder(id, now, Fault::conflict("reminded already", "nothing is to be done"));
        let snapshot = self.registry.snapshot();
        let news =
            News::of_approval(NoticeType::ApprovalReminder, id, record.id, record.run, &record.tool_name, "pending");
        self.tell(&mut change, snapshot.tenant(tenant)?, news.in_workspace(approval.workspace));
        match self.store.commit(change).await {
            Ok(_) | Err(Error::Unmet(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn expire_approval(&self, tenant: TenantId, id: ApprovalId) -> Result<(), Fault> {
        let Some(approval) = self.store.approval(tenant, id).await? else { return Ok(()) };
        let Some(record) = self.store.call(tenant, approval.call).await? else { return Ok(()) };
        if approval.state != ApprovalState::Open {
            return Ok(());
        }
        // Two may have voted in one moment, and the last of them may have stopped before counting.
        if approval.need > 1 {
            self.count_votes(tenant, id).await?;
        }
        let continues = approval.mode == HitlMode::ContinueOnTimeout;
        if continues && !approval.person_required && !record.person_required {
            return self.approve_by_mode(tenant, id, BY_TIMEOUT).await;
        }
        let reason = if continues { "approval_timeout" } else { "expired" };
        let message = "nobody decided in time; nothing was changed, and it can be asked again";
        let error = ToolError::because(ErrorCode::PolicyDenied, reason, message)
            .with("waited_until", json!(approval.expires_at));
        let ending =
            Ending { state: ApprovalState::Expired, by: BY_TIMEOUT, reason: Some("nobody decided in time"), error };
        self.end_waiting(tenant, &approval, &record, ending, |_, _| {}).await
    }
}
