//! What replicas do in the background: say that they live, end what a dead one left, stop what somebody wants stopped,
//! give up silent workers, clear away what has expired.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::definition::TIMEOUT_MS_DEFAULT;
use toolgate_contracts::{
    CallRequest, Caller, ErrorCode, Fault, Permission, Permissions, Principal, Slug, Status, TenantId, ToolError,
};
use toolgate_registry::toolset::View;
use toolgate_store::calls::CallRecord;
use toolgate_store::{Change, Error};

use crate::control::{Late, Report};
use crate::engine::Engine;
use crate::record::Ended;

/// How long a replica is believed to live after it last said so.
const REPLICA_TTL: Duration = Duration::from_secs(15);
const LIVE_EVERY: Duration = Duration::from_secs(3);
const PROBES_AT_START: Duration = Duration::from_secs(5);
/// Of each tenant, at a start; the rest is for people, or for the next.
const PROBED_MAX: u32 = 100;
const PROBE_WAIT_MAX: Duration = Duration::from_mins(10);
const TICK: Duration = Duration::from_secs(1);
/// A call of our own that is written `running` and that nobody here runs was lost: its end could not be written.
const OWN_LOST_S: i64 = 30;
/// Rounds between two looks for what dead replicas left.
const RECOVER_EVERY: u32 = 5;
const CLEAR_EVERY: u32 = 60;
/// What was asked for by SQL is kept for whoever looks what became of it; what became a call, for as long as the call.
pub const SQL_REQUESTS_KEPT_S: i64 = 30 * 24 * 3600;

impl Engine {
    /// Says that this replica lives, and ends what others left behind. To be called before anything is served.
    /// `alone`: nobody else uses this database, so whoever ran before is gone.
    pub async fn start(&self, alone: bool) -> Result<(), Fault> {
        if alone {
            self.store.end_replicas().await?;
        }
        self.live().await?;
        Box::pin(self.recover()).await?;
        // Also what was found before by somebody who then stopped before asking.
        let lost = self.unknown().await?;
        // What happened is asked at once where whoever ran it is not at it any more. A slow probe holds nobody up.
        let (now, later): (Vec<_>, Vec<_>) = lost.into_iter().partition(|(_, _, wait)| alone || wait.is_zero());
        let _ = tokio::time::timeout(PROBES_AT_START, Box::pin(self.probe_all(now))).await;
        self.probe_later(later);
        Ok(())
    }

    /// Every call of which nobody knows how it ended, with how long it may still be at it.
    async fn unknown(&self) -> Result<Vec<(TenantId, CallRecord, Duration)>, Fault> {
        let snapshot = self.registry.snapshot();
        let mut unknown = Vec::new();
        for registry in snapshot.tenants() {
            let tenant = registry.tenant.id;
            let calls = self.store.unknown_calls(tenant, PROBED_MAX).await?;
            unknown.extend(calls.into_iter().map(|record| {
                let wait = self.time_left(tenant, &record);
                (tenant, record, wait)
            }));
        }
        Ok(unknown)
    }

    fn probe_later(&self, lost: Vec<(TenantId, CallRecord, Duration)>) {
        if lost.is_empty() {
            return;
        }
        let engine = self.clone();
        tokio::spawn(async move {
            // A replica that was only silent may still be at it: its tools' time runs out first.
            tokio::time::sleep(lost.iter().map(|(_, _, wait)| *wait).max().unwrap_or_default()).await;
            Box::pin(engine.probe_all(lost)).await;
        });
    }

    /// Keeps saying that this replica lives, by itself, as long as the engine is there: whatever else takes its time,
    /// nobody shall take its calls for lost.
    pub fn keep_living(&self) {
        let engine = std::sync::Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LIVE_EVERY).await;
                let Some(engine) = engine.upgrade().map(Self) else { return };
                if let Err(fault) = engine.live().await {
                    tracing::warn!("this replica cannot say that it lives: {}", fault.logged().unwrap_or(fault.told()));
                }
            }
        });
    }

    async fn live(&self) -> Result<(), Fault> {
        let name = format!("replica:{}", self.replica);
        self.store.take_lease(&name, &self.replica, self.clock.now(), REPLICA_TTL).await?;
        Ok(())
    }

    /// Runs until told to stop.
    pub async fn attend_background(&self, stop: CancellationToken) {
        let mut round: u32 = 0;
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(TICK) => {}
            }
            round = round.wrapping_add(1);
            // Each by itself: what cannot be done of one keeps nobody from the others.
            noted("stopping calls", self.stop_cancelled().await);
            noted("expiring work", self.expire_work().await);
            noted("approvals", self.attend_approvals().await);
            noted("questions", self.attend_questions().await);
            noted("runs", self.attend_runs().await);
            if round.is_multiple_of(RECOVER_EVERY) {
                let lost = Box::pin(self.recover()).await.map(|lost| self.probe_later(lost));
                noted("ending what others left", lost);
            }
            if round.is_multiple_of(CLEAR_EVERY) {
                noted("clearing away", self.clear_expired().await);
            }
        }
        let name = format!("replica:{}", self.replica);
        if let Err(error) = self.store.release_lease(&name, &self.replica).await {
            tracing::debug!("this replica's lease runs out by itself: {error}");
        }
    }

    /// Refuses new calls, waits for those that run, at most this long, and tells the rest to stop.
    pub async fn drain(&self, patience: Duration) {
        self.stopping.cancel();
        let until = tokio::time::Instant::now() + patience;
        while !self.running().is_empty() && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let left: Vec<_> = self.running().values().cloned().collect();
        for call in &left {
            call.cancel();
        }
        // A runner with effects was promised a moment to say how far it came.
        let until = tokio::time::Instant::now() + Duration::from_secs(crate::execute::STOPPING_S);
        while !self.running().is_empty() && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Somebody asked another replica, or this one before its row was there.
    async fn stop_cancelled(&self) -> Result<(), Fault> {
        if self.running().is_empty() {
            return Ok(());
        }
        for id in self.store.cancelled_calls(&self.replica).await? {
            if let Some(running) = self.running().get(&id) {
                running.cancel();
            }
        }
        Ok(())
    }

    /// Ends the calls of replicas that are gone: those without effects failed, of the others nobody knows, unless the
    /// tool has a probe that finds out.
    async fn recover(&self) -> Result<Vec<(TenantId, CallRecord, Duration)>, Fault> {
        let mut lost = Vec::new();
        let now = self.clock.now();
        let settled = now.plus_seconds(-OWN_LOST_S);
        for interrupted in self.store.interrupted_calls(now, &self.replica, settled).await? {
            let Some(record) = self.store.call(interrupted.tenant, interrupted.id).await? else { continue };
            if record.holder.as_deref() == Some(&self.replica) && self.running().contains_key(&record.id) {
                continue;
            }
            let late = Self::lost(&record, ErrorCode::ProviderError, "interrupted", "the server stopped while it ran");
            match self.end_late(interrupted.tenant, &record, late, |_| {}).await {
                Ok(_) => {
                    tracing::warn!(call = %record.id, tool = record.tool_name, "ended a call that a stopped server left");
                }
                // Another replica was faster, or it is that the call ended after all.
                Err(Error::Unmet(_)) => continue,
                // One whose end cannot be written keeps nobody from the others.
                Err(error) => {
                    tracing::error!(call = %record.id, "what a stopped server left is not ended yet: {error}");
                    continue;
                }
            }
            if !record.effect_free {
                let wait = self.time_left(interrupted.tenant, &record);
                lost.push((interrupted.tenant, record, wait));
            }
        }
        Ok(lost)
    }

    /// How long whoever ran it may still be at it.
    fn time_left(&self, tenant: TenantId, record: &CallRecord) -> Duration {
        let snapshot = self.registry.snapshot();
        let tool = snapshot.tenant(tenant).ok().and_then(|registry| registry.tool_by_id(record.tool));
        let timeout_ms = tool.and_then(|tool| tool.tool.newest()).and_then(|version| version.definition.timeout_ms);
        let ends =
            record.created_at.millis() + i64::try_from(timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)).unwrap_or(i64::MAX);
        let ends = ends.saturating_add(i64::try_from(REPLICA_TTL.as_millis()).unwrap_or(i64::MAX));
        let left = ends.saturating_sub(self.clock.now().millis());
        Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(PROBE_WAIT_MAX)
    }

    async fn probe_all(&self, lost: Vec<(TenantId, CallRecord, Duration)>) {
        for (tenant, record, _) in lost {
            if let Err(fault) = Box::pin(self.probe(tenant, &record)).await {
                tracing::warn!(call = %record.id, "cannot probe what happened: {}", fault.told());
            }
        }
    }

    /// Asks the tool's `verify` tool whether it happened, and settles the call by its answer.
    pub async fn probe(&self, tenant: TenantId, record: &CallRecord) -> Result<(), Fault> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let version = record.tool_version.parse().map_err(Fault::internal)?;
        let tool = registry.tool_by_id(record.tool);
        let definition = tool.and_then(|tool| tool.tool.version(&version)).map(|version| version.definition.clone());
        let Some(probe) = definition.and_then(|definition| definition.verify.clone()) else { return Ok(()) };
        let caller = Self::server_for(tenant, registry.tenant.slug.clone(), record.principal);
        let today = self.clock.now().day();
        let view = View::of(registry, &caller, &today)?;
        let reference = toolgate_contracts::ToolRef { name: probe.clone(), version: None };
        let (found, _) = view.resolve(&reference)?;
        if !crate::call::is_effect_free(&found) {
            return Err(Fault::conflict(
                format!("the probe `{probe}` changes something itself"),
                "settle the call by hand",
            ));
        }
        let input = json!({"call": record.id.to_string(), "input": record.input});
        let answer = self.submit(&caller, record.source, CallRequest::new(probe.as_str(), input)).await?;
        let happened = answer.output.as_ref().and_then(|output| output.get("happened")).and_then(Value::as_bool);
        let current = self.store.call(tenant, record.id).await?.ok_or_else(|| Fault::not_found("call", record.id))?;
        let attested = Some(format!("tool:{probe}"));
        let (status, ended) = match happened {
            None => return Ok(()),
            Some(true) => {
                let output = answer.output.as_ref().and_then(|output| output.get("output")).cloned();
                let (status, ended) = match output {
                    // Treated like what a worker reports: validated, redacted, looked at, capped.
                    Some(output) => {
                        let report = Report::completed(output);
                        self.judge_report(tenant, &current, report).await?
                    }
                    None => (Status::Completed, Ended { cost: current.cost_estimate, ..Ended::default() }),
                };
                (status, Ended { attempts: current.attempts, attested_by: attested, ..ended })
            }
            Some(false) => {
                let message =
                    format!("the server stopped before it happened, as `{probe}` found out; it can be called again");
                let error = ToolError::because(ErrorCode::ProviderError, "interrupted", message);
                (Status::Failed, Ended { attempts: current.attempts, attested_by: attested, ..Ended::refused(error) })
            }
        };
        let late = Late { status, ended, action: "call.settled", actor: format!("tool:{probe}"), before: Vec::new() };
        self.settle_as(tenant, &current, late).await.map(drop)
    }

    /// The server itself, acting for somebody: it uses tools, and may nothing else.
    pub(crate) fn server_for(tenant: TenantId, slug: Slug, principal: Principal) -> Caller {
        Caller {
            tenant,
            tenant_slug: slug,
            principal,
            display_name: "the server".to_owned(),
            permissions: Permissions::from_iter([Permission::TOOLS_READ, Permission::CALLS_CREATE]),
            roles: [].into(),
            agent: None,
            credential: Credential::LocalFolder,
            token: None,
        }
    }

    pub(crate) fn for_the_server(caller: &Caller) -> Caller {
        Self::server_for(caller.tenant, caller.tenant_slug.clone(), caller.principal)
    }

    async fn clear_expired(&self) -> Result<(), Fault> {
        let now = self.clock.now();
        for (tenant, blob) in self.store.expired_blobs(now).await? {
            let mut change = Change::new(tenant);
            change.delete_blob(blob.id);
            self.store.commit(change).await?;
            self.blobs.remove(&blob).await;
        }
        self.store.forget_requests(now).await?;
        self.store.forget_contexts(now).await?;
        self.store.forget_tokens(now).await?;
        self.store.forget_sign_ins(now).await?;
        self.store.forget_sql_requests(now.plus_seconds(-SQL_REQUESTS_KEPT_S)).await?;
        Ok(())
    }
}

fn noted(what: &str, done: Result<(), Fault>) {
    if let Err(fault) = done {
        tracing::warn!("background work, {what}: {}", fault.logged().unwrap_or(fault.told()));
    }
}
