//! What time does to calls that wait: people are reminded, and what nobody decided ends. Under a kill switch the clocks
//! stand still.

use serde_json::json;
use toolgate_contracts::definition::HitlMode;
use toolgate_contracts::{
    AgentId, AgentState, ApprovalId, ApprovalState, CallId, ErrorCode, Fault, KillScope, NoticeType, TenantId,
    Timestamp, ToolError, ToolId,
};
use toolgate_store::approvals::{DUE_MAX, Due, DueApproval};
use toolgate_store::{Change, Error};

use super::BY_TIMEOUT;
use super::ending::Ending;
use crate::engine::Engine;
use crate::input::Stopped;
use crate::notify::News;

/// Where rounds over what waits stand, each behind the last one it took up; absent: at the beginning.
#[derive(Default)]
pub(crate) struct Rounds {
    over: Option<DueApproval>,
    reminders: Option<DueApproval>,
    pub(super) approved: Option<CallId>,
}

impl Rounds {
    fn of(&mut self, due: Due) -> &mut Option<DueApproval> {
        match due {
            Due::Over => &mut self.over,
            Due::Reminder => &mut self.reminders,
        }
    }
}

impl Engine {
    /// One round: reminders, expiry, votes that were counted by nobody, approved calls that nobody runs.
    pub(crate) async fn attend_approvals(&self) -> Result<(), Fault> {
        self.freeze_approvals().await?;
        let now = self.clock.now();
        for DueApproval { tenant, id, .. } in self.next_due(Due::Reminder, now).await? {
            if let Err(fault) = self.remind(tenant, id).await {
                tracing::warn!(approval = %id, "nobody is reminded: {}", fault.logged().unwrap_or(fault.told()));
            }
        }
        for DueApproval { tenant, id, .. } in self.next_due(Due::Over, now).await? {
            if let Err(fault) = Box::pin(self.expire_approval(tenant, id)).await {
                tracing::debug!(approval = %id, "not expired: {}", fault.logged().unwrap_or(fault.told()));
            }
        }
        self.resume_approved().await
    }

    /// The next of those that are due. What could not be finished comes again when the round begins anew.
    async fn next_due(&self, due: Due, now: Timestamp) -> Result<Vec<DueApproval>, Fault> {
        let after = *self.rounds().of(due);
        let page = self.store.due_approvals(due, now, after, DUE_MAX).await?;
        *self.rounds().of(due) = page.last().copied().filter(|_| page.len() == DUE_MAX as usize);
        Ok(page)
    }

    /// Whoever is stopped, by whatever, does not lose the time of those who decide.
    async fn freeze_approvals(&self) -> Result<(), Fault> {
        let snapshot = self.registry.snapshot();
        for registry in snapshot.tenants() {
            let stops = registry.kill_switches().next().is_some()
                || registry.agents.values().any(|agent| agent.state == AgentState::Frozen);
            if !stops {
                continue;
            }
            let tenant = registry.tenant.id;
            for (agent, tool) in self.store.asked_pairs(tenant).await? {
                if let Some(stopped) = self.call_stopped(tenant, agent, tool)? {
                    let mut change = Change::new(tenant);
                    change.freeze_approvals(agent, tool, stopped.since);
                    self.store.commit(change).await?;
                }
            }
        }
        for (tenant, agent, tool) in self.store.frozen_pairs().await? {
            // A tenant that is not known here yet is another replica's to look after.
            if self.call_stopped(tenant, agent, tool).is_ok_and(|stopped| stopped.is_none()) {
                let mut change = Change::new(tenant);
                change.thaw_approvals(agent, tool, self.clock.now());
                self.store.commit(change).await?;
            }
        }
        Ok(())
    }

    /// Whether calls of this tool by this agent are stopped: everything is, the agent is, or the tool is.
    pub(super) fn call_stopped(
        &self,
        tenant: TenantId,
        agent: Option<AgentId>,
        tool: ToolId,
    ) -> Result<Option<Stopped>, Fault> {
        let snapshot = self.registry.snapshot();
        let of_tool = snapshot
            .tenant(tenant)?
            .kill_switches()
            .filter(|switch| switch.scope == KillScope::Tool && switch.object == tool.uuid())
            .min_by_key(|switch| switch.set_at)
            .map(|switch| Stopped {
                since: switch.set_at,
                why: format!("the tool is stopped by a kill switch: {}", switch.reason),
            });
        Ok(self.stopped(tenant, agent)?.into_iter().chain(of_tool).min_by_key(|stopped| stopped.since))
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
        if let Some(stopped) = self.call_stopped(tenant, approval.agent, approval.tool)?
            && stopped.since < approval.expires_at
        {
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
