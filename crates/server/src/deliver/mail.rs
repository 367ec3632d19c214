//! Mail to those who decide: that something waits, and how to get to it.
//!
//! Invariant: a mail holds no argument, and its link decides nothing. It leads to the page where a signed-in person
//! decides; whatever reads mail before people do may open it.

use serde::{Deserialize, Serialize};
use toolgate_contracts::{Digest, Fault, Notice, NoticeType, Role, TenantId, WorkspaceId};
use toolgate_egress::mail::{Mail, Mailer};
use toolgate_store::Change;
use toolgate_store::notices::Due;

use super::{Courier, RETRY_AFTER_S};
use crate::app::App;

/// As `toolgate_engine::notify` writes it.
#[derive(Serialize, Deserialize)]
struct Letter {
    notice: Notice,
    workspace: Option<WorkspaceId>,
    /// Digests of the addresses that have it already.
    sent: Vec<String>,
}

impl Courier {
    pub(super) async fn mail(&self, tenant: TenantId, due: Vec<Due>) -> Result<bool, Fault> {
        for due in due {
            let mut change = Change::new(tenant);
            match self.send_letter(tenant, &due).await {
                Ok(None) => {
                    change.delivered(due.id, self.app.clock.now());
                }
                Ok(Some((error, letter))) => match RETRY_AFTER_S.get(due.attempts as usize) {
                    Some(after) => {
                        let body = serde_json::to_string(&letter).map_err(Fault::internal)?;
                        change.try_delivery_again(
                            due.id,
                            self.app.clock.now().plus_seconds(*after),
                            &error,
                            Some(body),
                        );
                    }
                    None => {
                        change.give_delivery_up(due.id, &error);
                    }
                },
                Err(fault) => {
                    tracing::warn!(delivery = %due.id, "no mail: {}", fault.logged().unwrap_or(fault.told()));
                    change.give_delivery_up(due.id, fault.told());
                }
            }
            self.app.store.commit(change).await?;
        }
        Ok(true)
    }

    /// To everybody who decides now and does not have it yet; what went wrong, if anything did.
    async fn send_letter(&self, tenant: TenantId, due: &Due) -> Result<Option<(String, Letter)>, Fault> {
        let mut letter: Letter = serde_json::from_str(&due.body).map_err(Fault::internal)?;
        let Some(mailer) = &self.app.mailer else {
            return Err(Fault::conflict("no mail relay is configured", "set `smtp` and `mail_from`"));
        };
        let roles = [Role::Approver.as_str(), Role::Admin.as_str()];
        let addresses = self.app.store.mail_addresses(tenant, roles, letter.workspace).await?;
        if addresses.is_empty() {
            return Err(Fault::conflict(
                "nobody who decides there has an e-mail address",
                "give approvers of the workspace one with `toolgate user create`",
            ));
        }
        let mut failed = None;
        for address in addresses {
            let known = Digest::of(address.as_bytes()).to_string();
            if letter.sent.contains(&known) {
                continue;
            }
            match send(&self.app, mailer, &address, &letter.notice, &known).await {
                Ok(()) => letter.sent.push(known),
                Err(error) => failed = Some(error),
            }
        }
        Ok(failed.map(|error| (error, letter)))
    }
}

async fn send(app: &App, mailer: &Mailer, address: &str, notice: &Notice, known: &str) -> Result<(), String> {
    let (subject, text) = written(app, notice);
    let host = app.base_url();
    let host = host.split_once("://").map_or("toolgate", |(_, host)| host).replace([':', '[', ']', '/'], "-");
    let copy: String = known.chars().take(16).collect();
    let mail = Mail {
        from: app.config.get("mail_from").to_owned(),
        to: vec![address.to_owned()],
        cc: Vec::new(),
        subject,
        text,
        message_id: format!("{}.{copy}@{host}", notice.id),
    };
    mailer.send(&mail).await.map_err(|error| error.to_string())
}

/// Subject and text. Ids, the tool's name and the tenant's are ours; nothing else of the call is said.
fn written(app: &App, notice: &Notice) -> (String, String) {
    let member = |name: &str| notice.data.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    let (tool, tenant) = (member("tool"), &notice.tenant);
    let (subject, first, command) = match notice.notice_type {
        NoticeType::InputRequested => (
            "Toolgate: a question waits for an answer".to_owned(),
            format!("A run in {tenant} asks people a question and waits for the answer."),
            format!("toolgate input show {}", member("input_request_id")),
        ),
        NoticeType::ApprovalReminder => (
            format!("Toolgate: {tool} still waits for approval"),
            format!("A call of {tool} in {tenant} still waits for somebody to decide, and ends soon without."),
            format!("toolgate approvals show {}", member("approval_id")),
        ),
        _ => (
            format!("Toolgate: {tool} waits for approval"),
            format!("A call of {tool} in {tenant} waits for somebody to decide."),
            format!("toolgate approvals show {}", member("approval_id")),
        ),
    };
    let way = match app.shared_url() {
        Some(base) => format!("{base}{}", member("url")),
        None => command,
    };
    (subject, format!("{first}\n\nTo look at it and decide:\n\n    {way}\n\nNothing is decided by opening this.\n"))
}
