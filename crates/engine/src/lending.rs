//! Rights that are lent with an approval: what a call changes in the gate itself needs a right that no agent has, and the
//! person who approves exactly this call has it.
//!
//! Invariant: a right is lent for one call, by people who hold it when they approve and when it runs, through a credential
//! that carries it. A token borrows nothing: nothing widens it. What no person decides (a mode, a standing grant, the
//! bypass, a detector, a dry run) lends nothing either.

use toolgate_contracts::{Caller, ErrorCode, Fault, FaultKind, Mode, Permission, Permissions, ToolError};
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_store::approvals::Approval;

use crate::admit::Decision;
use crate::engine::Engine;

impl Engine {
    /// Notes the right that whoever approves must lend. Nobody is asked for what cannot be lent.
    pub(crate) fn note_borrowing(
        &self,
        caller: &Caller,
        mode: Mode,
        tool: &ResolvedTool,
        input: &serde_json::Value,
        decision: &mut Decision,
    ) -> Result<(), ToolError> {
        let (Mode::Execute, Some(asking)) = (mode, decision.asking.as_mut()) else { return Ok(()) };
        let Ok(runner) = self.runners.get(&tool.definition) else { return Ok(()) };
        let Some(right) = runner.borrows(&tool.definition, input).filter(|right| !caller.may(right)) else {
            return Ok(());
        };
        if caller.token.is_some() {
            let message = format!("this needs the permission `{right}`, and a token is never lent one");
            return Err(ToolError::because(ErrorCode::PolicyDenied, "permission", message)
                .with("remedy", "call with a key: a person who holds the permission may then approve the call"));
        }
        asking.borrows = Some(right);
        asking.person_required = true;
        asking.standing = false;
        Ok(())
    }
}

/// That whoever approves has what they lend.
pub(crate) fn may_lend(held: &Permissions, approval: &Approval) -> Result<(), Fault> {
    match missing(held, approval) {
        None => Ok(()),
        Some(right) => Err(Fault::new(
            FaultKind::Forbidden,
            format!("approving lends this call the permission `{right}`, which you do not have"),
            format!("somebody who has `{right}` approves it, or you reject it"),
        )),
    }
}

pub(crate) fn lends(held: &Permissions, approval: &Approval) -> bool {
    missing(held, approval).is_none()
}

fn missing<'a>(held: &Permissions, approval: &'a Approval) -> Option<&'a Permission> {
    approval.binding.borrows.as_ref().filter(|right| !held.contains(right))
}
