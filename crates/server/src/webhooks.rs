//! Webhooks as they are made and changed. Whoever may edit them says where; the operator says what may be reached.
//!
//! Invariant: a secret is answered once, by the request that made it, and is in the database encrypted only.

use serde::Serialize;
use serde_json::{Map, json};
use toolgate_contracts::{
    Caller, Fault, Id, Notice, NoticeType, Permission, TenantId, Timestamp, WebhookId, WebhookState,
};
use toolgate_egress::{Purpose as Going, Url};
use toolgate_store::notices::{SealedSecrets, Webhook};
use toolgate_vault::{Key, Purpose, WebhookKey};
use utoipa::ToSchema;

use crate::app::App;
use crate::deliver::{self, sign};

/// Of a tenant: each is told of every call that it wants to hear of.
const WEBHOOKS_MAX: usize = 50;
const URL_BYTES_MAX: usize = 2048;
/// How long the secret before signs too.
pub const ROTATION_S: i64 = 24 * 60 * 60;

/// A webhook with its secret, in the one answer that has it.
#[derive(Serialize, ToSchema)]
pub struct MadeWebhook {
    #[serde(flatten)]
    pub webhook: Webhook,
    /// Shown now and never again.
    pub secret: String,
}

/// What became of a notice that was sent to see whether one arrives.
#[derive(Serialize, ToSchema)]
pub struct Trial {
    pub arrived: bool,
    /// Why it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl App {
    pub async fn webhooks(&self, caller: &Caller) -> Result<Vec<Webhook>, Fault> {
        caller.require(&Permission::WEBHOOKS_EDIT)?;
        Ok(self.store.webhooks(caller.tenant).await?)
    }

    pub async fn webhook(&self, caller: &Caller, id: &str) -> Result<Webhook, Fault> {
        caller.require(&Permission::WEBHOOKS_EDIT)?;
        let missing = || Fault::not_found("webhook", id);
        let known: WebhookId = id.parse().map_err(|_| missing())?;
        self.store.webhook(caller.tenant, known).await?.ok_or_else(missing)
    }

    pub async fn create_webhook(
        &self,
        caller: &Caller,
        url: &str,
        types: Vec<NoticeType>,
    ) -> Result<(MadeWebhook, i64), Fault> {
        caller.require(&Permission::WEBHOOKS_EDIT)?;
        let (url, types) = self.checked(caller.tenant, url, types)?;
        if self.store.webhooks(caller.tenant).await?.len() >= WEBHOOKS_MAX {
            let told = format!("the tenant has {WEBHOOKS_MAX} webhooks, which is the most");
            return Err(Fault::conflict(told, "remove one, or let one receiver pass on what it is told"));
        }
        let webhook = Webhook {
            id: self.registry.new_id(),
            url,
            types,
            state: WebhookState::Active,
            paused_because: None,
            failures: 0,
            next_at: None,
            rotated_at: None,
            created_by: caller.principal.to_string(),
            created_at: self.clock.now(),
        };
        let key = self.keyring.key(Purpose::DataKey, Some(caller.tenant)).await?;
        let secret = WebhookKey::generate(&self.rng);
        let sealed = secret.seal(&key, caller.tenant, webhook.id, &self.rng)?;
        let secrets = SealedSecrets { key_id: key.kid().to_owned(), sealed, before: None };
        let details = json!({"url": shown(&webhook.url), "types": webhook.types});
        let mut change = self.registry.begin(caller, caller.tenant, "webhook.create", &webhook.id.to_string(), details);
        change.hold_data_key(key.kid());
        change.insert_webhook(&webhook, &secrets);
        let revision = self.registry.finish(change).await?;
        Ok((MadeWebhook { webhook, secret: sign::secret_text(&secret) }, revision))
    }

    pub async fn edit_webhook(
        &self,
        caller: &Caller,
        id: &str,
        url: &str,
        types: Vec<NoticeType>,
    ) -> Result<(Webhook, i64), Fault> {
        let webhook = self.webhook(caller, id).await?;
        let (url, types) = self.checked(caller.tenant, url, types)?;
        let details = json!({"url": shown(&url), "types": types});
        let mut change = self.registry.begin(caller, caller.tenant, "webhook.update", &webhook.id.to_string(), details);
        change.edit_webhook(webhook.id, &url, &types);
        let revision = self.registry.finish(change).await?;
        Ok((Webhook { url, types, ..webhook }, revision))
    }

    pub async fn delete_webhook(&self, caller: &Caller, id: &str) -> Result<(Webhook, i64), Fault> {
        let webhook = self.webhook(caller, id).await?;
        let details = json!({"url": shown(&webhook.url)});
        let mut change = self.registry.begin(caller, caller.tenant, "webhook.delete", &webhook.id.to_string(), details);
        change.delete_webhook(webhook.id);
        let revision = self.registry.finish(change).await?;
        Ok((webhook, revision))
    }

    /// Goes on with one that was paused: what was held and what was given up is sent.
    pub async fn resume_webhook(&self, caller: &Caller, id: &str) -> Result<(Webhook, i64), Fault> {
        let webhook = self.webhook(caller, id).await?;
        // What it was saved with may have been closed since.
        self.checked(caller.tenant, &webhook.url, webhook.types.clone())?;
        let mut change =
            self.registry.begin(caller, caller.tenant, "webhook.resume", &webhook.id.to_string(), json!({}));
        change.resume_webhook(webhook.id, self.clock.now());
        let revision = self.registry.finish(change).await?;
        let resumed =
            Webhook { state: WebhookState::Active, paused_because: None, failures: 0, next_at: None, ..webhook };
        Ok((resumed, revision))
    }

    /// A new secret; the one before signs too for [`ROTATION_S`].
    pub async fn rotate_webhook(&self, caller: &Caller, id: &str) -> Result<(MadeWebhook, i64), Fault> {
        let webhook = self.webhook(caller, id).await?;
        let (tenant, now) = (caller.tenant, self.clock.now());
        let was = self.store.webhook_secrets(tenant, webhook.id).await?;
        let was = was.ok_or_else(|| Fault::not_found("webhook", id))?;
        let current = self.open_webhook_key(tenant, webhook.id, &was.key_id, &was.sealed).await?;
        let key = self.keyring.key(Purpose::DataKey, Some(tenant)).await?;
        let secret = WebhookKey::generate(&self.rng);
        let new = SealedSecrets {
            key_id: key.kid().to_owned(),
            sealed: secret.seal(&key, tenant, webhook.id, &self.rng)?,
            before: Some(current.seal(&key, tenant, webhook.id, &self.rng)?),
        };
        let mut change = self.registry.begin(caller, tenant, "webhook.rotate", &webhook.id.to_string(), json!({}));
        change.hold_data_key(key.kid());
        change.rotate_webhook(webhook.id, &was, new, now);
        let revision = self.registry.finish(change).await?;
        let webhook = Webhook { rotated_at: Some(now), ..webhook };
        Ok((MadeWebhook { webhook, secret: sign::secret_text(&secret) }, revision))
    }

    /// Sends a notice at once, and once, to see whether one arrives. Its `data.test` is true.
    pub async fn test_webhook(&self, caller: &Caller, id: &str) -> Result<Trial, Fault> {
        let webhook = self.webhook(caller, id).await?;
        let now = self.clock.now();
        let message: Id<()> = self.registry.new_id();
        let notice = Notice {
            notice_type: webhook.types.first().copied().unwrap_or(NoticeType::CallCompleted),
            id: message.to_string(),
            timestamp: now,
            tenant: caller.tenant_slug.to_string(),
            data: Map::from_iter([("test".to_owned(), true.into()), ("url".to_owned(), "/".into())]),
        };
        let keys = self.signing_keys(caller.tenant, &webhook, now).await?;
        let sent = deliver::post(self, caller.tenant, &webhook, &keys, notice).await?;
        Ok(Trial { arrived: sent.error.is_none(), error: sent.error.map(|error| error.told) })
    }

    /// The public keys that check `v1a` signatures; the first one signs.
    pub async fn webhook_keys(&self, caller: &Caller) -> Result<Vec<(String, String)>, Fault> {
        caller.require(&Permission::WEBHOOKS_EDIT)?;
        self.keyring.key(Purpose::Webhook, Some(caller.tenant)).await?;
        let keys = self.keyring.all(Purpose::Webhook, Some(caller.tenant)).await?;
        Ok(keys.iter().map(|key| (key.kid().to_owned(), sign::public_text(key))).collect())
    }

    /// What a webhook is signed with now.
    pub(crate) async fn signing_keys(
        &self,
        tenant: TenantId,
        webhook: &Webhook,
        now: Timestamp,
    ) -> Result<(Vec<WebhookKey>, std::sync::Arc<Key>), Fault> {
        let sealed = self.store.webhook_secrets(tenant, webhook.id).await?;
        let sealed = sealed.ok_or_else(|| Fault::not_found("webhook", webhook.id))?;
        let mut secrets = vec![self.open_webhook_key(tenant, webhook.id, &sealed.key_id, &sealed.sealed).await?];
        let is_recent = webhook.rotated_at.is_some_and(|at| now < at.plus_seconds(ROTATION_S));
        if let Some(before) = sealed.before.filter(|_| is_recent) {
            secrets.push(self.open_webhook_key(tenant, webhook.id, &sealed.key_id, &before).await?);
        }
        Ok((secrets, self.keyring.key(Purpose::Webhook, Some(tenant)).await?))
    }

    async fn open_webhook_key(
        &self,
        tenant: TenantId,
        id: WebhookId,
        kid: &str,
        sealed: &[u8],
    ) -> Result<WebhookKey, Fault> {
        let key = self.keyring.by_kid(Purpose::DataKey, Some(tenant), kid).await?;
        key.and_then(|key| WebhookKey::open(&key, tenant, id, sealed)).ok_or_else(|| {
            Fault::conflict(
                format!("the secret of webhook {id} does not open: its row or its key was changed"),
                "remove the webhook and add it again",
            )
        })
    }

    /// A URL that may be reached, and each type once.
    fn checked(
        &self,
        tenant: TenantId,
        url: &str,
        mut types: Vec<NoticeType>,
    ) -> Result<(String, Vec<NoticeType>), Fault> {
        if url.len() > URL_BYTES_MAX {
            let told = format!("`url` has {} bytes", url.len());
            return Err(Fault::invalid(told, format!("use at most {URL_BYTES_MAX}")).at("/url"));
        }
        let parsed = Url::parse(url).map_err(|error| {
            Fault::invalid(format!("`url` is none: {error}"), "write it as https://hooks.example.com/toolgate")
                .at("/url")
        })?;
        let way = self.outside.way(Going::Webhook, tenant, None)?;
        self.outside.connector.judge(&way, &parsed).map_err(|error| Fault::from(error).at("/url"))?;
        types.sort_unstable();
        types.dedup();
        if types.is_empty() {
            let words: Vec<_> = NoticeType::ALL.iter().map(|known| known.as_str()).collect();
            let remedy = format!("name at least one of {}", words.join(", "));
            return Err(Fault::invalid("`types` is empty, so nothing would be told", remedy).at("/types"));
        }
        Ok((parsed.to_string(), types))
    }
}

/// For the log: receivers have their own keys in paths and queries.
fn shown(url: &str) -> String {
    Url::parse(url).map(|url| url.origin().ascii_serialization()).unwrap_or_default()
}
