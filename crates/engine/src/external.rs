//! Tools that run in somebody else's process: offered, leased, kept alive, completed; and the reports of runtimes that
//! run tools by themselves.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::definition::OUTPUT_BYTES_DEFAULT;
use toolgate_contracts::{
    CallId, CallRequest, Caller, Envelope, ErrorCode, Fault, LeaseId, Mode, Permission, RunId, Runner as Kind, Source,
    Status, TenantId, Timestamp, ToolError, ToolId, ToolName,
};
use toolgate_store::Error;
use toolgate_store::calls::CallRecord;
use toolgate_store::{Change, Durability};
use utoipa::ToSchema;

use crate::control::Report;
use crate::engine::Engine;
use crate::permit::Permit;
use crate::record::Prepared;
use crate::runner::{Outcome, Runner};
use crate::secrets::Secrets;

/// How long a worker may be silent.
pub const LEASE_S: i64 = 60;
/// How long whoever runs a tool by themselves may take to report, unless they say that they are alive.
pub const RECORDED_S: i64 = 24 * 60 * 60;
const LOOK_EVERY: Duration = Duration::from_millis(500);
const TOOLS_MAX: usize = 100;
/// What one heartbeat may carry of a tool's output.
pub const BEAT_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// A call of an external tool is offered to workers with the commit that begins it, so there is nothing left to run
/// here. What they do is theirs; the gate let it through, and records what they say.
pub struct External;

impl Runner for External {
    fn run(&self, _permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(std::future::ready(Outcome::HandedOver))
    }
}

/// What a worker asks for.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// Names of the external tools that the worker carries out.
    pub tools: Vec<String>,
    /// Whole seconds to wait for work, 0 to 60.
    #[serde(default)]
    pub wait: Option<u64>,
}

/// Work in a worker's hands.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Leased {
    pub lease_id: LeaseId,
    pub call: LeasedCall,
    pub context: LeaseContext,
    /// Say that you are alive before then.
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LeasedCall {
    pub id: CallId,
    pub call_id: String,
    pub name: String,
    pub version: String,
    #[schema(value_type = Object)]
    pub input: Value,
    pub run_id: RunId,
    pub created_at: Timestamp,
}

/// Seed 003's `ToolContext`, as far as a worker in its own process may have it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LeaseContext {
    pub tenant_id: TenantId,
    #[schema(value_type = String)]
    pub principal: toolgate_contracts::Principal,
    pub agent_id: Option<toolgate_contracts::AgentId>,
    /// The values of the secrets that the tool declares and was given, by name.
    #[serde(skip_serializing_if = "LeasedSecrets::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub secrets: LeasedSecrets,
}

/// Values on their way to the worker, and to nobody else: shown by no other means than this answer.
#[derive(Clone, Default)]
pub struct LeasedSecrets(Arc<Secrets>);

impl LeasedSecrets {
    fn is_empty(&self) -> bool {
        self.0.iter().next().is_none()
    }
}

impl std::fmt::Debug for LeasedSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

impl Serialize for LeasedSecrets {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|secret| (secret.name(), secret.expose_text())))
    }
}

/// What a worker says with a heartbeat.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// What the tool says while it runs, in whole lines: shown at once to whoever follows the call.
    #[serde(default)]
    pub output: Option<String>,
}

/// What a heartbeat tells back.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Kept {
    pub expires_at: Timestamp,
    /// Somebody wants the call stopped: finish, and report what happened.
    pub cancel_requested: bool,
}

/// What a runtime that runs tools by itself reports (seed 000).
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolEvent {
    #[serde(rename = "type")]
    pub event_type: ToolEventType,
    /// The runtime's own id of the call.
    #[serde(alias = "callId")]
    pub call_id: String,
    /// With `tool_invocation_started`.
    #[serde(default)]
    pub tool: Option<String>,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub input: Option<Value>,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
    #[serde(default)]
    pub error: Option<String>,
    #[serde(default)]
    pub cost: Option<toolgate_contracts::Amount>,
    #[serde(default, alias = "stepId")]
    pub step_id: Option<toolgate_contracts::StepId>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolEventType {
    ToolInvocationStarted,
    ToolInvocationCompleted,
    ToolInvocationFailed,
}

impl Engine {
    /// Takes the oldest waiting call of one of these tools, or waits for one.
    pub async fn lease(&self, caller: &Caller, request: LeaseRequest) -> Result<Option<Leased>, Fault> {
        caller.require(&Permission::WORK_LEASE)?;
        let wait = request.wait.unwrap_or(0);
        if wait > toolgate_contracts::call::WAIT_S_MAX {
            return Err(Fault::invalid(format!("`wait` is {wait}"), "wait 0 to 60 whole seconds").at("/wait"));
        }
        let until = tokio::time::Instant::now() + Duration::from_secs(wait);
        let mut signals = self.signals();
        loop {
            // Asked each time: what is stopped meanwhile is not handed out.
            for tool in &self.external_tools(caller, &request.tools)? {
                if let Some(leased) = self.lease_one(caller, *tool).await? {
                    return Ok(Some(leased));
                }
            }
            let now = tokio::time::Instant::now();
            if now >= until || self.stopping.is_cancelled() {
                return Ok(None);
            }
            let _ = tokio::time::timeout_at((now + LOOK_EVERY).min(until), signals.recv()).await;
        }
    }

    /// A worker names tools that it could call itself, and that are for workers.
    fn external_tools(&self, caller: &Caller, names: &[String]) -> Result<Vec<ToolId>, Fault> {
        if names.is_empty() || names.len() > TOOLS_MAX {
            let told = format!("`tools` has {} names", names.len());
            return Err(Fault::invalid(told, format!("name 1 to {TOOLS_MAX} external tools")).at("/tools"));
        }
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let today = self.clock.now().day();
        let view = toolgate_registry::toolset::View::of(registry, caller, &today)?;
        let found = names.iter().enumerate().map(|(index, text)| {
            let unknown = || Fault::not_found("tool", text).at(format!("/tools/{index}"));
            let name: ToolName = text.parse().map_err(|_| unknown())?;
            let reference = toolgate_contracts::ToolRef { name, version: None };
            let (tool, standing) = view.resolve(&reference).map_err(|_| unknown())?;
            if let Err(stop) = standing {
                let told = stop.error().message;
                return Err(
                    Fault::conflict(told, "no work is handed out while it is stopped").at(format!("/tools/{index}"))
                );
            }
            if !matches!(tool.definition.runner, Kind::External(_)) {
                let told = format!("`{text}` is of kind `{}`", tool.definition.runner.kind());
                return Err(
                    Fault::invalid(told, "only tools of kind `external` are leased").at(format!("/tools/{index}"))
                );
            }
            Ok(tool.tool.id)
        });
        found.collect()
    }

    async fn lease_one(&self, caller: &Caller, tool: ToolId) -> Result<Option<Leased>, Fault> {
        let now = self.clock.now();
        let lease = LeaseId::new(&self.clock, &self.rng);
        let expires_at = now.plus_seconds(LEASE_S);
        let mut change = Change::new(caller.tenant);
        change.lease_work(tool, lease, caller.principal, expires_at, now);
        let outcome = self.store.commit(change).await?;
        let Some(row) = outcome.returned.first().and_then(|rows| rows.first()) else { return Ok(None) };
        let id: CallId = row.get(0)?;
        let record = self.store.call(caller.tenant, id).await?.ok_or_else(|| Fault::not_found("call", id))?;
        let secrets = match self.leased_secrets(caller.tenant, &record).await {
            Ok(secrets) => secrets,
            // It cannot be carried out, so nobody carries it out.
            Err(error) => {
                let late = crate::control::Late {
                    status: Status::Failed,
                    ended: crate::record::Ended::refused(error),
                    action: "call.failed",
                    actor: "system".to_owned(),
                    before: Vec::new(),
                };
                let lost = Fault::conflict("the lease ran out meanwhile", "lease work again");
                let end = |change: &mut Change| {
                    change.end_lease(lease, caller.principal, now, lost);
                };
                self.end_late(caller.tenant, &record, late, end).await?;
                return Ok(None);
            }
        };
        let call = LeasedCall {
            id,
            call_id: record.call_id,
            name: record.tool_name,
            version: record.tool_version,
            input: record.input.unwrap_or_default(),
            run_id: record.run,
            created_at: record.created_at,
        };
        let context =
            LeaseContext { tenant_id: caller.tenant, principal: record.principal, agent_id: record.agent, secrets };
        Ok(Some(Leased { lease_id: lease, call, context, expires_at }))
    }

    /// The secrets of a call that a worker has just taken, if the call may still have them.
    async fn leased_secrets(&self, tenant: TenantId, record: &CallRecord) -> Result<LeasedSecrets, ToolError> {
        let gone = || ToolError::because(ErrorCode::PolicyDenied, "not_found", "the tool's version is gone");
        let resolved = {
            let snapshot = self.registry.snapshot();
            let registry = snapshot.tenant(tenant).map_err(|_| gone())?;
            let tool = registry.tool_by_id(record.tool).ok_or_else(gone)?;
            let version = record.tool_version.parse().map_err(|_| gone())?;
            let version = tool.tool.version(&version).ok_or_else(gone)?;
            tool.at(version, None)
        };
        self.secrets_for_worker(tenant, record, &resolved).await.map(|opened| LeasedSecrets(opened.secrets))
    }

    /// The worker is alive and wants more time.
    pub async fn keep_alive(&self, caller: &Caller, lease: LeaseId, beat: Heartbeat) -> Result<Kept, Fault> {
        let output = beat.output.unwrap_or_default();
        if output.len() > BEAT_OUTPUT_BYTES_MAX {
            let told = format!("`output` has {} bytes", output.len());
            let remedy = format!("send at most {BEAT_OUTPUT_BYTES_MAX} with one heartbeat");
            return Err(Fault::new(toolgate_contracts::FaultKind::TooLarge, told, remedy).at("/output"));
        }
        let lost = Fault::conflict("the lease is not yours or has run out", "lease work again");
        let record = self.held_by(caller, lease).await?.ok_or_else(|| lost.clone())?;
        let now = self.clock.now();
        let seconds = if record.mode == Mode::Record { RECORDED_S } else { LEASE_S };
        let expires_at = now.plus_seconds(seconds);
        let mut change = Change::new(caller.tenant);
        change.keep_lease(lease, caller.principal, expires_at, now, lost);
        self.store.commit(change).await?;
        if !output.is_empty() {
            self.append_of_worker(caller.tenant, &record, &output).await?;
        }
        Ok(Kept { expires_at, cancel_requested: record.cancel_requested_by.is_some() })
    }

    /// Output as a worker tells it, held to what a runner's own is held to: redacted, bounded, and shown to nobody
    /// where a result is looked at first. Each telling is redacted by itself, since the next may meet another replica.
    async fn append_of_worker(&self, tenant: TenantId, record: &CallRecord, output: &str) -> Result<(), Fault> {
        let Some(tool) = self.version_of(tenant, record) else { return Ok(()) };
        // A secret that has changed meanwhile is not known any more, so nothing can be shown.
        let Some(redactor) = self.redactor_of(tenant, record).await? else { return Ok(()) };
        if self.withholds_of(tenant, record.agent, &tool) {
            return Ok(());
        }
        let after = self.store.first_event_of(tenant, record.run, record.id).await?.max(1);
        let (parts, bytes) = self.store.parts_told(tenant, record.run, after, record.id).await?;
        if bytes > tool.definition.max_output_bytes.unwrap_or(OUTPUT_BYTES_DEFAULT) {
            return Ok(());
        }
        let mut change = Change::new(tenant).durability(Durability::Process);
        let text = redactor.redact_text(output);
        change.append_part(record.run, after, record.id, parts + 1, &text, self.clock.now());
        match self.store.commit(change).await {
            Ok(_) => self.signal(tenant, record.run, Some(record.id)),
            // Told twice at once: the lease holds all the same.
            Err(error) => tracing::warn!(call = %record.id, "output of a worker is not kept: {error}"),
        }
        Ok(())
    }

    /// `record` mode: the submitter is the worker, and runs the tool only when told `running`.
    pub(crate) async fn begin_recorded(&self, mut prepared: Prepared) -> Result<Envelope, Fault> {
        let (tenant, id) = (prepared.call.tenant, prepared.call.id);
        match self.begin(&mut prepared, None).await {
            Ok(()) => self.answer(tenant, id).await,
            Err(error) => self.could_not_begin(prepared, error).await,
        }
    }

    /// Who submitted in `record` mode reports.
    pub async fn complete_recorded(&self, caller: &Caller, id: &str, report: Report) -> Result<Envelope, Fault> {
        let record = self.readable(caller, id).await?;
        if record.mode != Mode::Record {
            let told = "the call is not in `record` mode";
            return Err(Fault::conflict(told, "only whoever runs the tool reports; see `POST /api/v1/work/lease`"));
        }
        if record.status != Status::Running {
            self.note_refused_report(caller, LeaseId::from(record.id)).await?;
            return Err(Fault::conflict(
                format!("the call is {}, not running", record.status),
                "it is completed once, while it runs",
            ));
        }
        self.complete(caller, LeaseId::from(record.id), report).await
    }

    /// A report of a runtime, which names calls by its own ids.
    pub async fn ingest(&self, caller: &Caller, run: RunId, event: ToolEvent) -> Result<Envelope, Fault> {
        let run = self.own_run(caller, run).await?;
        if event.call_id.is_empty() || event.call_id.len() > 120 {
            return Err(Fault::invalid("`call_id` is empty or long", "use 1 to 120 bytes").at("/call_id"));
        }
        let request_id = format!("tool-event:{}:{}", run.id, event.call_id);
        match event.event_type {
            ToolEventType::ToolInvocationStarted => {
                let Some(tool) = event.tool else {
                    return Err(Fault::invalid("`tool` is missing", "say which tool was started").at("/tool"));
                };
                let mut request = CallRequest::new(tool, event.input.unwrap_or_else(|| serde_json::json!({})));
                request.mode = Mode::Record;
                request.run_id = Some(run.id);
                request.step_id = event.step_id;
                request.request_id = Some(request_id);
                request.metadata =
                    Some([("runtime_call_id".to_owned(), Value::from(event.call_id))].into_iter().collect());
                Box::pin(self.submit(caller, Source::Agent, request)).await
            }
            ended => {
                let key = toolgate_store::calls::RequestKey {
                    who: crate::identify::asking(caller),
                    request_id,
                    body: toolgate_contracts::Digest::of(b""),
                };
                let known = self.store.answered_request(caller.tenant, &key, self.clock.now()).await?;
                let (call, _) = known.ok_or_else(|| {
                    Fault::conflict(
                        format!("no call `{}` was started in this run", event.call_id),
                        "send `tool_invocation_started` first",
                    )
                    .at("/call_id")
                })?;
                let report = if ended == ToolEventType::ToolInvocationCompleted {
                    Report {
                        status: Status::Completed,
                        output: event.output,
                        result: None,
                        error: None,
                        cost: event.cost,
                    }
                } else {
                    let words =
                        event.error.unwrap_or_else(|| "the runtime reported a failure without words".to_owned());
                    let error = ToolError::because(ErrorCode::ProviderError, "upstream_4xx", words);
                    Report { status: Status::Failed, output: None, result: None, error: Some(error), cost: event.cost }
                };
                self.complete_recorded(caller, &call.to_string(), report).await
            }
        }
    }

    /// Work that nobody took, or whose worker fell silent.
    pub(crate) async fn expire_work(&self) -> Result<(), Fault> {
        let now = self.clock.now();
        for work in self.store.expired_work(now).await? {
            let record = self.store.call(work.tenant, work.call).await?;
            let Some(record) = record.filter(|record| !record.status.is_final()) else {
                // Its call has ended without it: it is in nobody's way any more.
                let mut change = Change::new(work.tenant);
                change.expire_work(work.call, now, Fault::conflict("kept alive meanwhile", "nothing to do"));
                let _ = self.store.commit(change).await;
                continue;
            };
            let late = late_of(&record, work.lease.is_some());
            let kept = Fault::conflict("kept alive meanwhile", "nothing to do");
            let expire = |change: &mut Change| {
                change.expire_work(work.call, now, kept);
            };
            match self.end_late(work.tenant, &record, late, expire).await {
                Ok(_) | Err(Error::Unmet(_)) => {}
                Err(error) => tracing::warn!(call = %work.call, "cannot expire work: {error}"),
            }
        }
        Ok(())
    }
}

/// What nobody took did not happen; of what a worker held, only the worker knows.
fn late_of(record: &CallRecord, leased: bool) -> crate::control::Late {
    if leased {
        return Engine::lost(record, ErrorCode::Timeout, "lease_lost", "the worker that had it fell silent");
    }
    let error =
        ToolError::because(ErrorCode::Timeout, "timeout", "no worker took the call in time; nothing was changed");
    crate::control::Late {
        status: Status::Failed,
        ended: crate::record::Ended::refused(error),
        action: "call.failed",
        actor: "system".to_owned(),
        before: Vec::new(),
    }
}
