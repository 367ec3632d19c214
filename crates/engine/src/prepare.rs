//! The record of a call, as far as it is known before it runs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::definition::{TIMEOUT_MS_DEFAULT, ToolState};
use toolgate_contracts::{AgentId, CallId, CallRequest, Fault, RunId, TenantId, json};
use toolgate_ledger::Salt;
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_store::runs::Run;

use crate::admit::Decision;
use crate::call::Call;
use crate::engine::Engine;
use crate::record::{Consent, Prepared};
use crate::reserve::TimeOver;
use crate::runner::OutputSink;
use crate::submit::{Asked, Manner};
use crate::telling::Telling;
use crate::uses::Uses;

impl Engine {
    /// No call runs longer than its run may.
    pub(crate) fn within_time_of(
        &self,
        timeout: Duration,
        run: Option<&Run>,
        above: &[Run],
        (tenant, agent): (TenantId, Option<AgentId>),
    ) -> Duration {
        let Some(run) = run else { return timeout };
        let snapshot = self.registry.snapshot();
        let agent = agent.and_then(|id| snapshot.tenant(tenant).ok()?.agents.get(&id));
        let of_agent = agent.and_then(|agent| agent.spec.limits.max_wall_s);
        TimeOver::of(run, above, of_agent).map_or(timeout, |over| over.left(self.clock.now()).min(timeout))
    }

    /// The record of a call, as far as it is known before it runs.
    pub(crate) async fn prepare(
        &self,
        asked: Asked,
        tool: ResolvedTool,
        input: Value,
        decision: Decision,
        seq: u32,
    ) -> Result<Prepared, Fault> {
        let Asked { caller, source, request, tool: _, agent, run, above, key, wait: _, seen, manner, beside } = asked;
        let CallRequest { step_id, mode, timeout_ms, metadata, .. } = request;
        let id = CallId::new(&self.clock, &self.rng);
        let run_id = run.as_ref().map_or(RunId::from(id), |run| run.id);
        let canonical = json::canonical(&input);
        let run_key = self.run_key(caller.tenant, run_id).await?;
        let call_id = run_key.call_id(&format!("{}@{}", tool.tool.name, tool.version.version), &canonical, seq);
        let declared = tool.definition.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT);
        let timeout = Duration::from_millis(timeout_ms.map_or(declared, |asked| asked.min(declared)));
        let timeout = self.within_time_of(timeout, run.as_ref(), &above, (caller.tenant, agent));
        let snapshot = self.registry.snapshot();
        let workspace = agent
            .and_then(|id| snapshot.tenant(caller.tenant).ok()?.agents.get(&id).map(|agent| agent.workspace))
            .or_else(|| run.as_ref().and_then(|run| run.workspace_id));
        let warnings = warnings(&tool);
        let decision = Decision { origins: seen.origins.clone(), ..decision };
        let secrets = self.secrets_of(caller.tenant, caller.principal, workspace, mode, &tool).await?;
        let brings = crate::labels::brings(&tool, !secrets.is_empty());
        let (context, token) = (crate::labels::context_of(&caller), caller.token.clone());
        let kept_secrets = crate::secrets::text(&secrets);
        let call = Call {
            id,
            call_id,
            tenant: caller.tenant,
            tenant_slug: caller.tenant_slug.clone(),
            run: run_id,
            in_run: run.is_some(),
            step: step_id,
            seq,
            principal: caller.principal,
            agent,
            rights: caller.permissions.clone(),
            caller,
            source,
            mode,
            examining: manner == Manner::Examining,
            tool,
            input: Arc::new(input),
            lent: None,
            beside,
            secrets,
            timeout,
            created_at: self.clock.now(),
            cancel: CancellationToken::new(),
            output: OutputSink::buffered(),
            uses: Uses::until_the_end(),
            telling: Telling::default(),
        };
        Ok(Prepared {
            began: call.created_at,
            call: Arc::new(call),
            source,
            workspace,
            decision,
            input: canonical,
            metadata: metadata.map(|members| Value::Object(members).to_string()),
            seen,
            brings,
            context,
            consent: Consent::NotAsked,
            token,
            secrets: kept_secrets,
            events_before: 0,
            above: above.iter().map(|run| run.id).collect(),
            request: key,
            output_bytes_max: run.as_ref().and_then(|run| run.limits.max_output_bytes),
            root_run: run.map(|run| run.root_run_id),
            holds: Vec::new(),
            estimate: None,
            salt: Salt::from_bytes(self.rng.bytes()),
            warnings,
        })
    }
}

fn warnings(tool: &ResolvedTool) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(alias) = &tool.alias {
        let until = alias.remove_by.as_ref().map(|day| format!(", which works until {day}")).unwrap_or_default();
        warnings.push(format!("`{}` is an old name of `{}`{until}", alias.name, tool.name));
    }
    if tool.state() == ToolState::Deprecated {
        let lifecycle = &tool.version.lifecycle;
        let message = lifecycle.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
        let instead = lifecycle.replaced_by.as_ref().map(|name| format!("; use `{name}`")).unwrap_or_default();
        warnings.push(format!("`{}@{}` is deprecated{message}{instead}", tool.name, tool.version.version));
    }
    warnings
}
