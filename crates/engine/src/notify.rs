//! Telling somebody outside: what is to be told is written in the change that makes it true, so that nothing is told that
//! did not happen, and nothing that happened is forgotten. Sending is the server's (`deliver`).
//!
//! Invariant: a notice holds ids, words of ours and a link; never an argument, an output or a message of a tool.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};
use toolgate_contracts::{
    ApprovalId, CallId, Fault, Id, InputRequestId, Mode, Notice, NoticeType, RunId, Slug, Source, Status, TenantId,
    Timestamp, ToolError, WorkspaceId,
};
use toolgate_ledger::Head;
use toolgate_registry::snapshot::TenantRegistry;
use toolgate_store::Change;
use toolgate_store::notices::NewDelivery;

use crate::engine::Engine;

/// Whoever runs into a limit runs into it again and again: of one limit is told this often.
const LIMIT_TOLD_EVERY_S: i64 = 60;
/// Refusals that say that a limit was reached, by their reasons.
const LIMITS: [&str; 7] = ["rate", "asks", "budget", "max_tool_calls", "max_calls", "max_iterations", "max_depth"];

/// What is known here about telling.
#[derive(Default)]
pub(crate) struct Telling {
    /// There is a relay, so mail goes out.
    mails: AtomicBool,
    /// When a tenant was last told of a limit.
    limits: Mutex<HashMap<(TenantId, &'static str), Timestamp>>,
}

/// Something that happened, as far as it is told outside.
#[derive(Clone, Debug)]
pub struct News {
    notice_type: NoticeType,
    data: Map<String, Value>,
    /// Mail goes to those who decide in this workspace; without one, to all who decide.
    workspace: Option<WorkspaceId>,
}

impl News {
    fn new(notice_type: NoticeType, data: Value) -> Self {
        let data = match data {
            Value::Object(mut members) => {
                members.retain(|_, value| !value.is_null());
                members
            }
            _ => Map::new(),
        };
        Self { notice_type, data, workspace: None }
    }

    pub fn of_call(notice_type: NoticeType, call: CallId, run: RunId, tool: &str, status: Status) -> Self {
        let url = format!("/calls/{call}");
        Self::new(notice_type, json!({"call_id": call, "run_id": run, "tool": tool, "status": status, "url": url}))
    }

    /// `status` is a word of the approval's: `pending`, `approved`, `rejected`, `expired`.
    pub fn of_approval(
        notice_type: NoticeType,
        approval: ApprovalId,
        call: CallId,
        run: RunId,
        tool: &str,
        status: &str,
    ) -> Self {
        let url = format!("/approvals/{approval}");
        Self::new(
            notice_type,
            json!({"call_id": call, "run_id": run, "approval_id": approval, "tool": tool, "status": status, "url": url}),
        )
    }

    pub fn of_question(request: InputRequestId, run: RunId, call: Option<CallId>) -> Self {
        let url = format!("/questions/{request}");
        Self::new(
            NoticeType::InputRequested,
            json!({"input_request_id": request, "call_id": call, "run_id": run, "status": "open", "url": url}),
        )
    }

    /// A server of others changed by itself: a tool of it, or where it is.
    pub(crate) fn of_drift(upstream: &Slug, tool: Option<&str>, class: &str) -> Self {
        let url = format!("/upstreams/{upstream}");
        Self::new(NoticeType::UpstreamDrifted, json!({"upstream": upstream, "tool": tool, "status": class, "url": url}))
    }

    fn of_checkpoint(head: &Head) -> Self {
        let checkpoint = head.checkpoint();
        Self::new(
            NoticeType::AuditCheckpoint,
            json!({"log": checkpoint.origin, "size": checkpoint.size, "root": checkpoint.root, "url": "/audit"}),
        )
    }

    /// Where those who are told by mail decide.
    #[must_use]
    pub fn in_workspace(mut self, workspace: Option<WorkspaceId>) -> Self {
        self.workspace = workspace;
        self
    }

    fn is_mailed(&self) -> bool {
        matches!(
            self.notice_type,
            NoticeType::ApprovalRequested | NoticeType::ApprovalReminder | NoticeType::InputRequested
        )
    }
}

/// The end of a call, as far as it is told.
pub(crate) struct End<'a> {
    pub call: CallId,
    pub run: RunId,
    pub tool: &'a str,
    pub mode: Mode,
    pub source: Source,
    pub status: Status,
    pub error: Option<&'a ToolError>,
    /// It ran, and ends now: it was not refused, and its outcome was not unknown before.
    pub ran: bool,
    pub began: Timestamp,
}

impl Engine {
    /// Whether mail goes out at all; without a relay none is written.
    pub fn send_mail(&self, mails: bool) {
        self.telling.mails.store(mails, Ordering::Relaxed);
    }

    /// Adds to the change that makes it true what is to be told of it, and to whom. Of the tenant of `registry`, which
    /// must be the change's.
    pub fn tell(&self, change: &mut Change, registry: &TenantRegistry, news: News) {
        debug_assert_eq!(change.tenant(), registry.tenant.id);
        for webhook in registry.deciding.wants(news.notice_type) {
            let (id, notice) = self.notice(registry, &news);
            let body = serde_json::to_string(&notice).unwrap_or_default();
            let at = notice.timestamp;
            let notice_type = news.notice_type;
            change.insert_delivery(NewDelivery { id, webhook: Some(*webhook), notice_type, body, at });
        }
        let mails = self.telling.mails.load(Ordering::Relaxed) && registry.tenant.settings.mail_approvers;
        if mails && news.is_mailed() {
            let (id, notice) = self.notice(registry, &news);
            let body = json!({"notice": notice, "workspace": news.workspace, "sent": []}).to_string();
            let (at, notice_type) = (notice.timestamp, news.notice_type);
            change.insert_delivery(NewDelivery { id, webhook: None, notice_type, body, at });
        }
    }

    /// Each receiver's has an id of its own, which stays when it is sent again.
    fn notice(&self, registry: &TenantRegistry, news: &News) -> (toolgate_contracts::DeliveryId, Notice) {
        let id = Id::new(&self.clock, &self.rng);
        let notice = Notice {
            notice_type: news.notice_type,
            id: id.to_string(),
            timestamp: self.clock.now(),
            tenant: registry.tenant.slug.to_string(),
            data: news.data.clone(),
        };
        (id, notice)
    }

    /// What the end of a call tells. Costs a look at an empty list where a tenant has no webhook.
    pub(crate) fn tell_of_end(&self, change: &mut Change, end: &End<'_>, now: Timestamp) {
        let snapshot = self.registry.snapshot();
        let Ok(registry) = snapshot.tenant(change.tenant()) else { return };
        if registry.deciding.webhooks.is_empty() || end.mode == Mode::DryRun {
            return;
        }
        let End { call, run, tool, mode: _, source, status, error, ran, began } = *end;
        let notice_type = match status {
            Status::Completed => Some(NoticeType::CallCompleted),
            Status::Failed => Some(NoticeType::CallFailed),
            Status::OutcomeUnknown => Some(NoticeType::CallOutcomeUnknown),
            _ => None,
        };
        if let Some(notice_type) = notice_type {
            self.tell(change, registry, News::of_call(notice_type, call, run, tool, status));
        }
        let limit = error.and_then(|error| LIMITS.into_iter().find(|limit| *limit == error.reason()));
        if let Some(limit) = limit.filter(|_| status == Status::Failed)
            && self.is_news(change.tenant(), limit, now)
        {
            let mut news = News::of_call(NoticeType::LimitReached, call, run, tool, status);
            news.data.insert("limit".to_owned(), limit.into());
            self.tell(change, registry, news);
        }
        if ran {
            let mut news = News::of_call(NoticeType::ToolRun, call, run, tool, status);
            let outcome = if status == Status::Completed { "success" } else { "error" };
            news.data.insert("status".to_owned(), outcome.into());
            news.data.insert("source".to_owned(), source_word(source).into());
            news.data.insert("duration_ms".to_owned(), (now.millis() - began.millis()).into());
            self.tell(change, registry, news);
        }
    }

    fn is_news(&self, tenant: TenantId, limit: &'static str, now: Timestamp) -> bool {
        let mut told = self.telling.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let last = told.get(&(tenant, limit));
        if last.is_some_and(|last| now < last.plus_seconds(LIMIT_TOLD_EVERY_S)) {
            return false;
        }
        told.insert((tenant, limit), now);
        true
    }

    /// Tells of a new head of a tenant's log. It is signed already, so this is a change of its own; where it is cut off,
    /// the next head is told.
    pub async fn tell_of_checkpoint(&self, tenant: TenantId, head: &Head) -> Result<(), Fault> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let mut change = Change::new(tenant);
        self.tell(&mut change, registry, News::of_checkpoint(head));
        if !change.is_empty() {
            self.store.commit(change).await?;
        }
        Ok(())
    }
}

/// Where a call came from, in the three words of an analytics event.
const fn source_word(source: Source) -> &'static str {
    match source {
        Source::Web | Source::Embed => "web",
        Source::Agent | Source::Mcp | Source::Workflow | Source::Schedule => "agent",
        Source::Api | Source::Cli => "api",
    }
}
