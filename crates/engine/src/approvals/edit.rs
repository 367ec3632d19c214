//! Approving with another input: it is judged like a new one and put up in a new round. Earlier votes were for something
//! else, and the proposal is kept.

use serde_json::{Value, json};
use toolgate_contracts::{Caller, Digest, Fault, Id, ToolError, json as strict};
use toolgate_store::approvals::{Approval, Edited};
use toolgate_store::audit::Entry;
use toolgate_store::calls::CallRecord;
use toolgate_store::{Change, Error};

use super::Choice;
use super::decide::already;
use super::judge::Again;
use super::resume::waiting_call;
use crate::admit::Decision;
use crate::engine::Engine;
use crate::entry::members;
use crate::lending::may_lend;

/// What an edit came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// Whoever edited has approved it too.
    Voted,
    /// Asking and deciding are separated: somebody else must approve what was edited.
    NeedsAnother,
}

impl Engine {
    /// Another input: judged like a new one, and then decided on. Earlier votes were for something else.
    pub(super) async fn edit(
        &self,
        caller: &Caller,
        approval: &Approval,
        record: &CallRecord,
        input: Value,
        choice: &Choice,
    ) -> Result<Edit, Fault> {
        let tenant = caller.tenant;
        let Again { around, admitted } =
            self.judge_again(tenant, approval, record, input).await?.map_err(would_be_refused)?;
        let planned = waiting_call(approval, record, &around.caller, admitted.tool.clone(), admitted.input.clone());
        let preview = Box::pin(self.foresee(&planned)).await.map_err(would_be_refused)?;
        let text = strict::canonical(&admitted.input);
        // What is decided on is what was judged now: another input under the rules and the labels of now.
        let mut binding = approval.binding.clone();
        binding.input_digest = Digest::of(text.as_bytes());
        binding.labels = around.seen.labels.to_vec();
        binding.policy_revision = admitted.decision.policy;
        let by = caller.principal.to_string();
        let mut edited = Approval {
            round: approval.round + 1,
            input_digest: binding.input_digest,
            edited_by: Some(by.clone()),
            binding,
            preview,
            ..approval.clone()
        };
        if let Some(asking) = &admitted.decision.asking {
            edited.reasons.clone_from(&asking.reasons);
            edited.need = asking.need();
            edited.approvers.clone_from(&asking.approvers);
            edited.mode = asking.mode;
            edited.binding.mode = asking.mode;
            edited.person_required |= asking.person_required;
        }
        edited.binding.borrows = admitted.decision.asking.as_ref().and_then(|asking| asking.borrows.clone());
        // Where asking and deciding are separated, whoever edits has asked; somebody else decides.
        let snapshot = self.registry.snapshot();
        let separated = edited.separation || snapshot.tenant(tenant)?.tenant.settings.separation;
        if !separated {
            may_lend(&caller.permissions, &edited)?;
        }
        let now = self.clock.now();
        let mut change = Change::new(tenant);
        let decision = Decision { origins: around.seen.origins.clone(), ..admitted.decision };
        let decision = serde_json::to_string(&decision).unwrap_or_default();
        let brings = crate::labels::brings(&admitted.tool, approval.binding.secrets.is_some());
        let labels = around.seen.labels.join(brings).to_vec();
        change.edit_call(&edited, &Edited { input: &text, decision: &decision, labels }, already(approval));
        let salt = self.salt_of(record);
        change.audit(&Entry {
            id: Id::new(&self.clock, &self.rng),
            at: now,
            tenant,
            actor: by,
            action: "approval.edited".to_owned(),
            object: approval.id.to_string(),
            details: members(json!({
                "call": record.id, "round": edited.round,
                "input": crate::entry::commitment(&salt, "input", &text),
            })),
        });
        match self.store.commit(change).await {
            Ok(_) => {}
            Err(Error::Unmet(fault)) => return Err(self.decided_meanwhile(tenant, approval.id, fault).await),
            Err(error) => return Err(error.into()),
        }
        let record = self.store.call(tenant, record.id).await?.ok_or_else(|| Fault::not_found("call", record.id))?;
        self.signal(tenant, record.run, Some(record.id));
        if separated {
            return Ok(Edit::NeedsAnother);
        }
        self.vote(caller, &edited, &record, choice.reason.as_deref()).await?;
        Ok(Edit::Voted)
    }
}

fn would_be_refused(error: ToolError) -> Fault {
    let told = format!("the edited input would be refused: {}", error.message);
    let fault = Fault::invalid(told, "correct it, or reject the call").at("/input");
    // Where in the input, for whoever shows it as a form.
    match error.details {
        Some(details) => fault.with_details(details),
        None => fault,
    }
}
