//! A call on its way: what was resolved, validated and decided, and what a runner may know of it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::agent::SideEffects;
use toolgate_contracts::{
    AgentId, ApprovalId, CallId, Caller, Mode, Permission, Permissions, Principal, ResolvedSecret, RunId, Slug, Source,
    StepId, TenantId, Timestamp,
};
use toolgate_registry::snapshot::ResolvedTool;

use crate::runner::OutputSink;
use crate::submit::Beside;
use crate::telling::Telling;
use crate::uses::Uses;

/// INVARIANT: `input` is what validation let through, with defaults filled in; nothing changes it afterwards.
#[derive(Debug)]
pub struct Call {
    pub id: CallId,
    /// Deterministic within a run; all attempts share it.
    pub call_id: String,
    pub tenant: TenantId,
    pub tenant_slug: Slug,
    /// The run of a lone call has the call's id.
    pub run: RunId,
    /// Whether that run stands for itself, so that other calls may be in it.
    pub in_run: bool,
    pub step: Option<StepId>,
    pub seq: u32,
    /// Who asked, with all of their rights: what the call asks of the gate in turn it asks as them.
    pub caller: Caller,
    pub source: Source,
    pub principal: Principal,
    pub agent: Option<AgentId>,
    /// What the caller may do: results are not shared across different rights.
    pub rights: Permissions,
    pub mode: Mode,
    /// Asked by a guardrail: no detector looks at it in turn, and nobody has seen what it answers.
    pub examining: bool,
    pub tool: ResolvedTool,
    pub input: Arc<Value>,
    /// The right that people lent it with their approval; nothing else sets it.
    pub lent: Option<Lent>,
    /// From whoever began it, if they still wait.
    pub beside: Option<Beside>,
    /// Which secrets it was asked with: what it is given when it runs is these or none.
    pub secrets: Vec<ResolvedSecret>,
    pub timeout: Duration,
    pub created_at: Timestamp,
    /// Cancelled when somebody asks it to stop, and when its time is over.
    pub cancel: CancellationToken,
    /// Where output goes as it comes; the result itself is returned.
    pub output: OutputSink,
    /// The openings that it went through.
    pub uses: Uses,
    /// What its runner tells in the log of its run.
    pub telling: Telling,
}

/// A right that a call has because people approved it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lent {
    pub right: Permission,
    pub approval: ApprovalId,
    /// Who approved; each of them holds the right.
    pub by: Vec<String>,
}

impl Call {
    /// Neither `write` nor `changes_state`: it may be repeated, cached, and forgotten by a crash.
    pub fn is_effect_free(&self) -> bool {
        is_effect_free(&self.tool)
    }
}

pub fn is_effect_free(tool: &ResolvedTool) -> bool {
    tool.definition.effects() != SideEffects::Writes
}
