//! Calls as rows: how one is first written, how it ends, and the whole of it as it is read.

mod list;
mod record;

use toolgate_contracts::agent::SideEffects;
use toolgate_contracts::definition::{EgressClass, Label};
use toolgate_contracts::{
    AgentId, ApprovalId, CallId, Digest, Fault, GrantId, Mode, Principal, RunId, Source, StepId, Timestamp, TokenId,
    ToolId, WorkspaceId,
};

use crate::Value;
use crate::change::{Change, Expect};
use crate::value::json_text;

pub use list::{CallFilter, CallSummary, Sight, TokenSight, ToolVersions};
pub use record::{CallRecord, Interrupted, Placed};
pub use toolgate_contracts::{ApprovalStatus, Status};

/// The smallest id of a moment: ids are time-ordered.
pub(crate) fn first_id_of(moment: Timestamp) -> CallId {
    let millis = u64::try_from(moment.millis()).unwrap_or(0);
    CallId::from_uuid(uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid())
}

/// A call as it is first written: as it begins, or already with its end where it had no effect and was quick.
#[derive(Clone, Debug)]
pub struct NewCall {
    pub id: CallId,
    pub call_id: String,
    /// `None` for a lone call: its run has the call's own id and no row.
    pub run: Option<RunId>,
    pub root_run: Option<RunId>,
    pub step: Option<StepId>,
    pub seq: u32,
    pub tool: ToolId,
    pub tool_version: String,
    pub agent: Option<AgentId>,
    pub workspace: Option<WorkspaceId>,
    pub principal: Principal,
    pub source: Source,
    pub mode: Mode,
    pub class: EgressClass,
    pub side_effects: SideEffects,
    pub status: Status,
    pub approval_status: ApprovalStatus,
    pub person_required: bool,
    pub approval: Option<ApprovalId>,
    /// Who let it run, where a standing grant or the development bypass did.
    pub approved_by: Option<String>,
    pub grant: Option<GrantId>,
    pub token: Option<TokenId>,
    /// `[{name, scope, version}]`.
    pub secrets: Option<String>,
    pub definition_digest: Digest,
    pub policy_revision: i64,
    pub decision: String,
    pub labels: String,
    pub metadata: Option<String>,
    pub cost_estimate: Option<String>,
    pub reserved: Option<String>,
    pub holder: Option<String>,
    pub salt: Option<[u8; 32]>,
    pub input: String,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ending: Option<Ending>,
}

/// How a call ended, as its row keeps it.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    pub output: Option<String>,
    pub error: Option<String>,
    pub attachments: Option<String>,
    pub cost: Option<String>,
    pub reported_cost: Option<String>,
    pub usage: Option<String>,
    pub attempts: u32,
    pub cached: bool,
    pub truncated: bool,
    pub at: Option<Timestamp>,
}

impl Change {
    pub fn insert_call(&mut self, call: NewCall) -> &mut Self {
        let NewCall {
            id,
            call_id,
            run,
            root_run,
            step,
            seq,
            tool,
            tool_version,
            agent,
            workspace,
            principal,
            source,
            mode,
            class,
            side_effects,
            status,
            approval_status,
            person_required,
            approval,
            approved_by,
            grant,
            token,
            secrets,
            definition_digest,
            policy_revision,
            decision,
            labels,
            metadata,
            cost_estimate,
            reserved,
            holder,
            salt,
            input,
            created_at,
            started_at,
            ending,
        } = call;
        let Ending { output, error, attachments, cost, reported_cost, usage, attempts, cached, truncated, at } =
            ending.unwrap_or_default();
        self.then(
            "INSERT INTO calls (tenant_id, id, call_id, run_id, root_run_id, step_id, seq, tool_id, tool_version, agent_id,
                workspace_id, principal, source, mode, egress_class, effect_free, status, approval_status, approval_required,
                person_required, definition_digest, policy_revision, decision, labels, metadata, cost_estimate, reserved,
                holder, salt, input, created_at, started_at, output, error, attachments, cost, reported_cost, usage, attempts,
                cached, truncated, completed_at, approval_id, approval_decided_by, grant_id, token_id, secrets)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
                $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47)",
            [
                id.into(),
                call_id.into(),
                run.into(),
                root_run.into(),
                step.into(),
                seq.into(),
                tool.into(),
                tool_version.into(),
                agent.into(),
                workspace.into(),
                principal.to_string().into(),
                Value::word(source.as_str()),
                Value::word(mode.as_str()),
                Value::word(class.as_str()),
                (side_effects != SideEffects::Writes).into(),
                Value::word(status.as_str()),
                Value::word(approval_status.as_str()),
                (approval_status != ApprovalStatus::NotRequired).into(),
                person_required.into(),
                definition_digest.into(),
                policy_revision.into(),
                decision.into(),
                labels.into(),
                metadata.into(),
                cost_estimate.into(),
                reserved.into(),
                holder.into(),
                salt.map(|salt| salt.to_vec()).into(),
                input.into(),
                created_at.into(),
                started_at.into(),
                output.into(),
                error.into(),
                attachments.into(),
                cost.into(),
                reported_cost.into(),
                usage.into(),
                attempts.into(),
                cached.into(),
                truncated.into(),
                at.into(),
                approval.into(),
                approved_by.into(),
                grant.into(),
                token.into(),
                secrets.into(),
            ],
        )
    }

    /// Ends a call that is in `from`; whoever comes second is refused with `taken`, and changes nothing.
    pub fn finish_call(&mut self, id: CallId, from: Status, to: Status, ending: Ending, taken: Fault) -> &mut Self {
        let Ending { output, error, attachments, cost, reported_cost, usage, attempts, cached, truncated, at } = ending;
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE calls SET status = $4, output = $5, error = $6, attachments = $7, cost = $8, reported_cost = $9,
                usage = $10, attempts = $11, cached = $12, truncated = $13, completed_at = $14, reserved = NULL,
                started_at = CASE WHEN $3 IN ('pending', 'approved') THEN started_at ELSE coalesce(started_at, $14) END,
                approval_status = CASE WHEN approval_status = 'pending' OR $4 = 'rejected' THEN 'rejected' ELSE approval_status END
             WHERE tenant_id = $1 AND id = $2 AND status = $3",
            [
                id.into(),
                from.as_str().into(),
                to.as_str().into(),
                output.into(),
                error.into(),
                attachments.into(),
                cost.into(),
                reported_cost.into(),
                usage.into(),
                attempts.into(),
                cached.into(),
                truncated.into(),
                at.into(),
            ],
        )
    }

    /// Nobody knows how the call ended: what it holds stays held until somebody settles it.
    pub fn lose_call(&mut self, id: CallId, error: String, attempts: u32, taken: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, taken),
            "UPDATE calls SET status = 'outcome_unknown', error = $3, attempts = $4 WHERE tenant_id = $1 AND id = $2 AND status = 'running'",
            [id.into(), error.into(), attempts.into()],
        )
    }

    /// What whoever reads its result has seen, where that is known only at its end.
    pub fn label_call(&mut self, id: CallId, labels: &[Label]) -> &mut Self {
        self.then("UPDATE calls SET labels = $3 WHERE tenant_id = $1 AND id = $2", [id.into(), json_text(&labels)])
    }

    /// Asks whoever runs the call to stop.
    pub fn request_cancel(&mut self, id: CallId, by: &str, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE calls SET cancel_requested_at = $3, cancel_requested_by = $4
             WHERE tenant_id = $1 AND id = $2 AND status = 'running' AND cancel_requested_at IS NULL",
            [id.into(), at.into(), by.into()],
        )
    }

    /// What was asked under a key was delivered; the next is another.
    pub fn forget_request(&mut self, request: &RequestKey, call: CallId) -> &mut Self {
        self.then(
            "DELETE FROM request_ids WHERE tenant_id = $1 AND principal = $2 AND request_id = $3 AND call_id = $4",
            [(&request.who).into(), (&request.request_id).into(), call.into()],
        )
    }

    /// The key means this call for as long again, if it still does.
    pub fn extend_request(&mut self, request: &RequestKey, call: CallId, now: Timestamp) -> &mut Self {
        let until = now.plus_seconds(REQUEST_ID_S);
        self.then(
            "UPDATE request_ids SET expires_at = $5 WHERE tenant_id = $1 AND principal = $2 AND request_id = $3 AND call_id = $4",
            [(&request.who).into(), (&request.request_id).into(), call.into(), until.into()],
        )
    }

    /// The key means another call from now on.
    pub fn replace_request(&mut self, request: &RequestKey, call: CallId, now: Timestamp) -> &mut Self {
        self.then(
            "DELETE FROM request_ids WHERE tenant_id = $1 AND principal = $2 AND request_id = $3",
            [(&request.who).into(), (&request.request_id).into()],
        );
        self.remember_request(request, call, now)
    }

    /// The caller's key for this call. An expired one makes room; a taken one breaks the rule `request_ids_pkey`.
    pub fn remember_request(&mut self, request: &RequestKey, call: CallId, now: Timestamp) -> &mut Self {
        let RequestKey { who, request_id, body } = request;
        self.then(
            "DELETE FROM request_ids WHERE tenant_id = $1 AND principal = $2 AND request_id = $3 AND expires_at <= $4",
            [who.into(), request_id.into(), now.into()],
        );
        self.then(
            "INSERT INTO request_ids (tenant_id, principal, request_id, body_digest, call_id, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
            [
                who.into(),
                request_id.into(),
                (*body).into(),
                call.into(),
                now.plus_seconds(REQUEST_ID_S).into(),
            ],
        )
    }

    /// The call's place in its run. A taken one breaks the rule `run_calls_pkey`.
    pub fn take_place(&mut self, run: RunId, seq: u32, call: CallId) -> &mut Self {
        let values: [Value; 3] = [run.into(), seq.into(), call.into()];
        self.then("INSERT INTO run_calls (tenant_id, run_id, seq, call_id) VALUES ($1, $2, $3, $4)", values)
    }
}

/// How long a `request_id` is remembered.
const REQUEST_ID_S: i64 = 24 * 60 * 60;

/// A caller's idempotency key with the digest of what was asked under it.
#[derive(Clone, Debug)]
pub struct RequestKey {
    /// The principal, and the agent whose key it was.
    pub who: String,
    pub request_id: String,
    pub body: Digest,
}
