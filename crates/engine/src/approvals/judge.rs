//! A call that waited, by the rules and rights of now: steps 2 to 5 once more. Whoever edits an input and whoever is about
//! to run it ask the very same.

use serde_json::Value;
use toolgate_contracts::{Caller, ErrorCode, Fault, FaultKind, Permission, TenantId, ToolError, ToolRef};
use toolgate_policy::labels::Labels;
use toolgate_registry::snapshot::TenantRegistry;
use toolgate_store::approvals::Approval;
use toolgate_store::calls::CallRecord;
use toolgate_store::runs::Run;

use crate::admit::{Admitted, Question, Refusal};
use crate::engine::Engine;
use crate::labels::{Seen, within_run};

/// How a call that waited looks by the rules of now.
pub(super) struct Again {
    pub around: Around,
    pub admitted: Admitted,
}

/// The world around a call that waited, as it is now.
pub(super) struct Around {
    pub caller: Caller,
    pub run: Option<Run>,
    pub above: Vec<Run>,
    pub seen: Seen,
}

impl Engine {
    /// Steps 2 to 5 with this input, by the rules and rights of now.
    pub(super) async fn judge_again(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
        input: Value,
    ) -> Result<Result<Again, ToolError>, Fault> {
        let around = match self.around(tenant, approval, record).await? {
            Ok(around) => around,
            Err(error) => return Ok(Err(error)),
        };
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let now = self.clock.now();
        let today = now.day();
        let reference = exact(record)?;
        let question = self.question_again(registry, snapshot.revision, &around, record, &reference, &today);
        if let Some(error) = question.past_its_time(around.run.as_ref(), &around.above, now) {
            return Ok(Err(error));
        }
        let mut admitted = match question.answer(input) {
            Ok(admitted) => admitted,
            Err(Refusal::NotFound(..)) => return Ok(Err(gone(record))),
            Err(Refusal::Refused(refused)) => return Ok(Err(refused.error)),
        };
        let Admitted { tool, input, decision } = &mut admitted;
        // The input may be another by now, and so may what looks at it.
        if let Err(error) = Box::pin(self.examine_by_tools(&question, tool, input, decision)).await {
            return Ok(Err(error));
        }
        if let Err(error) = self.note_borrowing(&around.caller, record.mode, tool, input, decision) {
            return Ok(Err(error));
        }
        Ok(Ok(Again { around, admitted }))
    }

    pub(super) fn question_again<'a>(
        &self,
        registry: &'a TenantRegistry,
        revision: i64,
        around: &'a Around,
        record: &CallRecord,
        reference: &'a ToolRef,
        today: &'a str,
    ) -> Question<'a> {
        Question {
            registry,
            revision,
            caller: &around.caller,
            agent: record.agent.and_then(|id| registry.agents.get(&id)),
            run: around.run.as_ref().map(|run| &run.limits),
            today,
            tool: reference,
            mode: record.mode,
            source: record.source,
            now: self.clock.now(),
            depth: u32::try_from(around.above.len()).unwrap_or(u32::MAX),
            labels: around.seen.labels,
            examining: false,
        }
    }

    /// Who asked, in which run, having seen what: as of now. `Err` says why it is nothing any more.
    async fn around(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
    ) -> Result<Result<Around, ToolError>, Fault> {
        let denied = |reason: &str, message: String| ToolError::because(ErrorCode::PolicyDenied, reason, message);
        let caller = match self.caller_again(tenant, &approval.asker).await {
            Ok(caller) => caller,
            Err(fault) if fault.kind() == FaultKind::Forbidden => {
                return Ok(Err(denied("permission", fault.told().to_owned())));
            }
            // A token that was revoked, or whose key was.
            Err(fault) if fault.kind() == FaultKind::Unauthenticated => {
                return Ok(Err(ToolError::because(ErrorCode::AuthRequired, "token_revoked", fault.told())));
            }
            Err(fault) => return Err(fault),
        };
        if !caller.may(&Permission::CALLS_CREATE) {
            return Ok(Err(denied("permission", "whoever asked may not call tools any more".to_owned())));
        }
        let run = if record.in_run { self.store.run(tenant, record.run).await? } else { None };
        if run.as_ref().is_some_and(|run| run.state.is_final()) {
            return Ok(Err(denied("cancelled", "its run has ended".to_owned())));
        }
        if let Some(agent) = record.agent
            && let Err(why) = self.acts_still(&caller, agent, approval.asker.agent_by, run.as_ref()).await?
        {
            return Ok(Err(denied("permission", why)));
        }
        let above = match &run {
            Some(run) if run.parent_run_id.is_some() => self.runs_above(tenant, run).await?,
            _ => Vec::new(),
        };
        if above.iter().any(|run| run.state.is_final()) {
            return Ok(Err(denied("cancelled", "the run above its own has ended".to_owned())));
        }
        let mut seen = within_run(&*self.seen_just_now(&caller).await?, run.as_ref());
        seen.labels = seen.labels.join(Labels::from(approval.binding.labels.as_slice()));
        Ok(Ok(Around { caller, run, above, seen }))
    }
}

/// The very version that was asked for, by its canonical name.
pub(super) fn exact(record: &CallRecord) -> Result<ToolRef, Fault> {
    format!("{}@{}", record.tool_name, record.tool_version).parse().map_err(Fault::internal)
}

fn gone(record: &CallRecord) -> ToolError {
    let message = format!("`{}` is not there for whoever asked any more", record.tool_name);
    ToolError::because(ErrorCode::PolicyDenied, "not_found", message)
}
