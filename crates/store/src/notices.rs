//! Webhooks, and what is to be told to somebody outside: written with what it tells of, sent until it arrives.
//!
//! Deliberately absent: a claim on a row. Two may send the same for a moment, and whoever is told compares ids.

use serde::Serialize;
use toolgate_contracts::{
    DeliveryId, DeliveryState, Fault, NoticeType, TenantId, Timestamp, WebhookId, WebhookState, WorkspaceId,
};
use utoipa::ToSchema;

use crate::change::{Change, Durability, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::value::json_text;
use crate::{Row, Store};

/// A webhook as it is shown: without what it is signed with.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Webhook {
    pub id: WebhookId,
    pub url: String,
    pub types: Vec<NoticeType>,
    pub state: WebhookState,
    /// Of a paused one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_because: Option<String>,
    /// Attempts that failed since something last arrived.
    pub failures: u32,
    /// While nobody answers there: when it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
    /// When it last got another secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotated_at: Option<Timestamp>,
    pub created_by: String,
    pub created_at: Timestamp,
}

/// What a webhook is signed with, encrypted under the tenant's data key `key_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSecrets {
    pub key_id: String,
    pub sealed: Vec<u8>,
    /// The secret before this one.
    pub before: Option<Vec<u8>>,
}

/// Something to be told; mail has no webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDelivery {
    pub id: DeliveryId,
    pub webhook: Option<WebhookId>,
    pub notice_type: NoticeType,
    pub body: String,
    pub at: Timestamp,
}

/// A delivery that waits for its time, or had it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Delivery {
    pub id: DeliveryId,
    #[serde(rename = "type")]
    pub notice_type: NoticeType,
    pub state: DeliveryState,
    pub attempts: u32,
    /// Of one that waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    pub created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Timestamp>,
}

/// One that is due, with what is to be sent.
#[derive(Clone, Debug)]
pub struct Due {
    pub id: DeliveryId,
    pub notice_type: NoticeType,
    pub body: String,
    pub attempts: u32,
}

/// To whom something is due: a webhook, or the mail of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Addressee {
    pub tenant: TenantId,
    pub webhook: Option<WebhookId>,
}

impl Change {
    pub fn insert_webhook(&mut self, webhook: &Webhook, secrets: &SealedSecrets) -> &mut Self {
        let Webhook { id, url, types, created_by, created_at, .. } = webhook;
        self.then(
            "INSERT INTO webhooks (tenant_id, id, url, types, key_id, sealed, created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            [
                (*id).into(),
                url.into(),
                json_text(types),
                (&secrets.key_id).into(),
                secrets.sealed.clone().into(),
                created_by.into(),
                (*created_at).into(),
            ],
        )
    }

    pub fn edit_webhook(&mut self, id: WebhookId, url: &str, types: &[NoticeType]) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("webhook", id)),
            "UPDATE webhooks SET url = $3, types = $4 WHERE tenant_id = $1 AND id = $2",
            [id.into(), url.into(), json_text(&types)],
        )
    }

    /// Refused where another got it a new secret meanwhile: `before` would not be the one in use.
    pub fn rotate_webhook(
        &mut self,
        id: WebhookId,
        was: &SealedSecrets,
        new: SealedSecrets,
        at: Timestamp,
    ) -> &mut Self {
        let SealedSecrets { key_id, sealed, before } = new;
        self.expecting(
            Expect::Rows(1, Fault::conflict("its secret was changed at the same time", "read it again")),
            "UPDATE webhooks SET key_id = $3, sealed = $4, sealed_before = $5, rotated_at = $6 WHERE tenant_id = $1 AND id = $2 AND sealed = $7",
            [id.into(), key_id.into(), sealed.into(), before.into(), at.into(), was.sealed.clone().into()],
        )
    }

    /// With everything that it was and is to be told.
    pub fn delete_webhook(&mut self, id: WebhookId) -> &mut Self {
        self.then("DELETE FROM deliveries WHERE tenant_id = $1 AND webhook_id = $2", [id.into()]);
        self.expecting(
            Expect::Rows(1, Fault::not_found("webhook", id)),
            "DELETE FROM webhooks WHERE tenant_id = $1 AND id = $2",
            [id.into()],
        )
    }

    /// What waits for it is held.
    pub fn pause_webhook(&mut self, id: WebhookId, because: &str) -> &mut Self {
        self.hold_deliveries(id);
        self.expecting(
            Expect::Rows(1, Fault::conflict("the webhook is paused already, or is gone", "nothing to do")),
            "UPDATE webhooks SET state = 'paused', paused_because = $3 WHERE tenant_id = $1 AND id = $2 AND state = 'active'",
            [id.into(), because.into()],
        )
    }

    /// What was held goes out, and what was given up is tried anew.
    pub fn resume_webhook(&mut self, id: WebhookId, now: Timestamp) -> &mut Self {
        self.then(
            "UPDATE webhooks SET state = 'active', paused_because = NULL, failures = 0, next_at = 0 WHERE tenant_id = $1 AND id = $2",
            [id.into()],
        );
        self.then(
            "UPDATE deliveries SET state = 'waiting', attempts = 0, next_at = $3 WHERE tenant_id = $1 AND webhook_id = $2 AND state IN ('held', 'failed')",
            [id.into(), now.into()],
        )
    }

    pub fn insert_delivery(&mut self, delivery: NewDelivery) -> &mut Self {
        let NewDelivery { id, webhook, notice_type, body, at } = delivery;
        let kind = if webhook.is_some() { "webhook" } else { "mail" };
        self.then(
            "INSERT INTO deliveries (tenant_id, id, kind, webhook_id, event_type, body, next_at, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $7)",
            [id.into(), kind.into(), webhook.into(), notice_type.as_str().into(), body.into(), at.into()],
        )
    }

    pub fn delivered(&mut self, id: DeliveryId, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE deliveries SET state = 'delivered', attempts = attempts + 1, delivered_at = $3, last_error = NULL WHERE tenant_id = $1 AND id = $2",
            [id.into(), at.into()],
        )
    }

    /// It did not arrive, and is tried again at `next_at`, as `body` where some of it did.
    pub fn try_delivery_again(
        &mut self,
        id: DeliveryId,
        next_at: Timestamp,
        error: &str,
        body: Option<String>,
    ) -> &mut Self {
        self.then(
            "UPDATE deliveries SET attempts = attempts + 1, next_at = $3, last_error = $4, body = COALESCE($5, body) WHERE tenant_id = $1 AND id = $2 AND state = 'waiting'",
            [id.into(), next_at.into(), error.into(), body.into()],
        )
    }

    pub fn give_delivery_up(&mut self, id: DeliveryId, error: &str) -> &mut Self {
        self.then(
            "UPDATE deliveries SET state = 'failed', attempts = attempts + 1, last_error = $3 WHERE tenant_id = $1 AND id = $2 AND state = 'waiting'",
            [id.into(), error.into()],
        )
    }

    /// Something arrived, so somebody answers there.
    pub fn webhook_answers(&mut self, id: WebhookId) -> &mut Self {
        self.then(
            "UPDATE webhooks SET failures = 0, next_at = 0 WHERE tenant_id = $1 AND id = $2 AND failures > 0",
            [id.into()],
        )
    }

    /// Something did not arrive; `next_at` where nothing else would.
    pub fn webhook_fails(&mut self, id: WebhookId, next_at: Option<Timestamp>) -> &mut Self {
        self.then(
            "UPDATE webhooks SET failures = failures + 1, next_at = COALESCE($3, next_at) WHERE tenant_id = $1 AND id = $2",
            [id.into(), next_at.into()],
        )
    }

    /// Whoever does not answer is not asked for each of its deliveries.
    pub fn delay_deliveries(&mut self, webhook: WebhookId, until: Timestamp) -> &mut Self {
        self.then(
            "UPDATE deliveries SET next_at = $3 WHERE tenant_id = $1 AND webhook_id = $2 AND state = 'waiting' AND next_at < $3",
            [webhook.into(), until.into()],
        )
    }

    /// Of a webhook that is paused.
    pub fn hold_deliveries(&mut self, webhook: WebhookId) -> &mut Self {
        self.then(
            "UPDATE deliveries SET state = 'held' WHERE tenant_id = $1 AND webhook_id = $2 AND state = 'waiting'",
            [webhook.into()],
        )
    }
}

const WEBHOOKS: &str = "SELECT id, url, types, state, paused_because, rotated_at, created_by, created_at, failures, next_at FROM webhooks WHERE tenant_id = $1";

fn webhook(row: &Row) -> Result<Webhook, Error> {
    let next_at: Timestamp = row.get(9)?;
    Ok(Webhook {
        id: row.get(0)?,
        url: row.get(1)?,
        types: row.json(2)?,
        state: row.parse(3)?,
        paused_because: row.get(4)?,
        rotated_at: row.get(5)?,
        created_by: row.get(6)?,
        created_at: row.get(7)?,
        failures: row.get(8)?,
        next_at: Some(next_at).filter(|at| at.millis() > 0),
    })
}

fn due(row: &Row) -> Result<Due, Error> {
    Ok(Due { id: row.get(0)?, notice_type: row.parse(1)?, body: row.get(2)?, attempts: row.get(3)? })
}

impl Store {
    pub async fn webhooks(&self, tenant: TenantId) -> Result<Vec<Webhook>, Error> {
        let sql = format!("{WEBHOOKS} ORDER BY id");
        self.query(&Scope::Tenant(tenant), &sql, vec![]).await?.iter().map(webhook).collect()
    }

    pub async fn webhook(&self, tenant: TenantId, id: WebhookId) -> Result<Option<Webhook>, Error> {
        let sql = format!("{WEBHOOKS} AND id = $2");
        self.query(&Scope::Tenant(tenant), &sql, vec![id.into()]).await?.first().map(webhook).transpose()
    }

    pub async fn webhook_secrets(&self, tenant: TenantId, id: WebhookId) -> Result<Option<SealedSecrets>, Error> {
        let sql = "SELECT key_id, sealed, sealed_before FROM webhooks WHERE tenant_id = $1 AND id = $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![id.into()]).await?;
        let secrets = |row: &Row| Ok(SealedSecrets { key_id: row.get(0)?, sealed: row.get(1)?, before: row.get(2)? });
        rows.first().map(secrets).transpose()
    }

    /// What a webhook was and is to be told, newest first.
    pub async fn deliveries(
        &self,
        tenant: TenantId,
        webhook: WebhookId,
        before: Option<DeliveryId>,
        limit: u32,
    ) -> Result<Vec<Delivery>, Error> {
        let before = before.unwrap_or_else(|| DeliveryId::from_uuid(uuid::Uuid::max()));
        let sql =
            "SELECT id, event_type, state, attempts, next_at, last_error, created_at, delivered_at FROM deliveries
             WHERE tenant_id = $1 AND webhook_id = $2 AND id < $3 ORDER BY id DESC LIMIT $4";
        let values = vec![webhook.into(), before.into(), limit.into()];
        let rows = self.query(&Scope::Tenant(tenant), sql, values).await?;
        let delivery = |row: &Row| {
            let state = row.parse(2)?;
            let next_at: Timestamp = row.get(4)?;
            Ok(Delivery {
                id: row.get(0)?,
                notice_type: row.parse(1)?,
                state,
                attempts: row.get(3)?,
                next_at: (state == DeliveryState::Waiting).then_some(next_at),
                last_error: row.get(5)?,
                created_at: row.get(6)?,
                delivered_at: row.get(7)?,
            })
        };
        rows.iter().map(delivery).collect()
    }

    /// To whom something is due.
    pub async fn due_addressees(&self, now: Timestamp, limit: u32) -> Result<Vec<Addressee>, Error> {
        let sql =
            "SELECT DISTINCT tenant_id, webhook_id FROM deliveries WHERE state = 'waiting' AND next_at <= $1 LIMIT $2";
        let scope = Scope::Everyone("whatever is to be sent, whoever's");
        let rows = self.query(&scope, sql, vec![now.into(), limit.into()]).await?;
        rows.iter().map(|row| Ok(Addressee { tenant: row.get(0)?, webhook: row.get(1)? })).collect()
    }

    /// What is due to one, what was tried least often first: a message that is refused stands in no other's way.
    pub async fn due_deliveries(&self, to: Addressee, now: Timestamp, limit: u32) -> Result<Vec<Due>, Error> {
        let scope = Scope::Tenant(to.tenant);
        let rows = if let Some(webhook) = to.webhook {
            let sql = "SELECT id, event_type, body, attempts FROM deliveries
                 WHERE tenant_id = $1 AND webhook_id = $2 AND state = 'waiting' AND next_at <= $3 ORDER BY attempts, id LIMIT $4";
            self.query(&scope, sql, vec![webhook.into(), now.into(), limit.into()]).await?
        } else {
            let sql = "SELECT id, event_type, body, attempts FROM deliveries
                 WHERE tenant_id = $1 AND webhook_id IS NULL AND state = 'waiting' AND next_at <= $2 ORDER BY attempts, id LIMIT $3";
            self.query(&scope, sql, vec![now.into(), limit.into()]).await?
        };
        rows.iter().map(due).collect()
    }

    /// Forgets what was delivered, given up or held, and was written before `before`. Some of it at a time.
    pub async fn forget_deliveries(&self, before: Timestamp) -> Result<(), Error> {
        let sql = "SELECT DISTINCT tenant_id FROM deliveries WHERE state <> 'waiting' AND created_at < $1 LIMIT 100";
        let rows = self.query(&Scope::Everyone("what is old, whoever's"), sql, vec![before.into()]).await?;
        for row in &rows {
            let mut change = Change::new(row.get(0)?).durability(Durability::Process);
            change.then(
                "DELETE FROM deliveries WHERE tenant_id = $1 AND state <> 'waiting' AND created_at < $2",
                [before.into()],
            );
            self.commit(change).await?;
        }
        Ok(())
    }

    /// Addresses of the people in force who have one of these roles and, if a workspace is named, are in it.
    pub async fn mail_addresses(
        &self,
        tenant: TenantId,
        roles: [&str; 2],
        workspace: Option<WorkspaceId>,
    ) -> Result<Vec<String>, Error> {
        let [one, other] = roles;
        let sql = "SELECT DISTINCT u.email FROM users u
             JOIN user_roles r ON r.tenant_id = u.tenant_id AND r.user_id = u.id
             LEFT JOIN workspace_members m ON m.tenant_id = u.tenant_id AND m.user_id = u.id AND m.workspace_id = $4
             WHERE u.tenant_id = $1 AND u.disabled_at IS NULL AND u.email IS NOT NULL AND r.role IN ($2, $3)
               AND ($5 OR m.user_id IS NOT NULL) ORDER BY u.email LIMIT 200";
        let values = vec![one.into(), other.into(), workspace.into(), workspace.is_none().into()];
        let rows = self.query(&Scope::Tenant(tenant), sql, values).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }
}
