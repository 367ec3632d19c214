//! Delivering: what was written to be told is sent until it arrives, through the connector alone.
//!
//! At least once: a copy may be sent again after a crash, under the same id. Of the replicas one delivers at a time, by a
//! lease; a webhook that does not answer costs the others nothing but a place. Deliberately absent: order, and reading
//! what a receiver answers beyond its status.

mod mail;
pub mod sign;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::{Fault, Id, Notice, OpeningId, TenantId, Timestamp, WebhookId, WebhookState, json};
use toolgate_egress::{Bytes, HeaderValue, Method, Purpose, Request, StatusCode, Url};
use toolgate_store::audit::Entry;
use toolgate_store::notices::{Addressee, Due, Webhook};
use toolgate_store::{Change, Kind};
use toolgate_vault::{Key, WebhookKey};

use crate::app::App;

/// How long after which failed attempt the next one comes, in seconds; after the last the webhook is paused. The table
/// of `docs/notifications.md`.
pub const RETRY_AFTER_S: [i64; 7] = [5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 10 * 3600];
/// For one notice, from looking the name up to the answer's status.
const TIMEOUT: Duration = Duration::from_secs(15);
const LEASE: &str = "deliveries";
const LEASE_TTL: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Receivers that are being told at the same time, and notices on their way to one of them.
const RECEIVERS_AT_ONCE_MAX: usize = 64;
const NOTICES_AT_ONCE_MAX: usize = 4;
const BATCH: u32 = 32;
const ADDRESSEES_MAX: u32 = 1000;
/// What was delivered or given up is kept for whoever looks for it.
const KEPT_S: i64 = 30 * 24 * 3600;
/// Rounds between two looks for what is old.
const FORGET_EVERY: u32 = 7200;
/// The use of an opening is noted once for so long: a note makes the log grow, and of its growth is told again.
const USE_NOTED_EVERY_S: i64 = 3600;
const ACTOR: &str = "system";

/// Sends what is due. One for a server.
pub struct Courier {
    app: App,
    holder: String,
    /// When the use of an opening for a webhook was last noted.
    noted: Mutex<HashMap<(OpeningId, WebhookId), Timestamp>>,
}

/// What became of one attempt.
pub(crate) struct Sent {
    pub error: Option<NotArrived>,
    /// Without which it would not have gone out.
    openings: Vec<OpeningId>,
}

pub(crate) struct NotArrived {
    pub told: String,
    /// Nobody answers there, so others need not be tried now.
    is_down: bool,
    /// The receiver wants nothing more.
    is_gone: bool,
}

impl Courier {
    pub fn new(app: App) -> Self {
        // An SQLite file is ours alone, so a lease that a killed server left is ours too.
        let holder = match app.store.kind() {
            Kind::Sqlite => "alone".to_owned(),
            Kind::Postgres => format!("{:016x}", u64::from_be_bytes(app.rng.bytes())),
        };
        Self { app, holder, noted: Mutex::default() }
    }

    /// Runs until told to stop. What is on its way then is sent again by whoever goes on.
    pub async fn run(self, stop: CancellationToken) {
        let courier = Arc::new(self);
        let mut receivers: JoinSet<Addressee> = JoinSet::new();
        let mut busy: Vec<Addressee> = Vec::new();
        let mut round: u32 = 0;
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(LOOK_EVERY) => {}
                Some(done) = receivers.join_next() => {
                    match done {
                        Ok(done) => busy.retain(|to| *to != done),
                        Err(error) => {
                            tracing::error!("a delivery broke off: {error}");
                            if receivers.is_empty() { busy.clear(); }
                        }
                    }
                    continue;
                }
            }
            round = round.wrapping_add(1);
            match courier.due(round).await {
                Err(fault) => tracing::warn!("deliveries: {}", fault.logged().unwrap_or(fault.told())),
                Ok(due) => {
                    for to in due.into_iter().filter(|to| !busy.contains(to)).collect::<Vec<_>>() {
                        if receivers.len() >= RECEIVERS_AT_ONCE_MAX {
                            break;
                        }
                        busy.push(to);
                        let courier = Arc::clone(&courier);
                        receivers.spawn(async move {
                            courier.serve(to).await;
                            to
                        });
                    }
                }
            }
        }
        receivers.shutdown().await;
        if let Err(error) = courier.app.store.release_lease(LEASE, &courier.holder).await {
            tracing::debug!("the lease on deliveries runs out by itself: {error}");
        }
    }

    /// To whom something is due, if it is ours to send.
    async fn due(&self, round: u32) -> Result<Vec<Addressee>, Fault> {
        let (store, now) = (&self.app.store, self.app.clock.now());
        if !store.take_lease(LEASE, &self.holder, now, LEASE_TTL).await? {
            return Ok(Vec::new());
        }
        if round.is_multiple_of(FORGET_EVERY) {
            store.forget_deliveries(now.plus_seconds(-KEPT_S)).await?;
        }
        Ok(store.due_addressees(now, ADDRESSEES_MAX).await?)
    }

    /// Everything that is due now, one receiver after the other, whoever else may be at it.
    pub async fn deliver_due(&self) -> Result<(), Fault> {
        for to in self.app.store.due_addressees(self.app.clock.now(), ADDRESSEES_MAX).await? {
            self.serve(to).await;
        }
        Ok(())
    }

    /// Sends one receiver what is due, until nothing is or it does not answer.
    async fn serve(&self, to: Addressee) {
        loop {
            match self.batch(to).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(fault) => {
                    tracing::warn!(tenant = %to.tenant, "a delivery: {}", fault.logged().unwrap_or(fault.told()));
                    return;
                }
            }
        }
    }

    /// Whether there may be more.
    async fn batch(&self, to: Addressee) -> Result<bool, Fault> {
        let now = self.app.clock.now();
        let due = self.app.store.due_deliveries(to, now, BATCH).await?;
        if due.is_empty() {
            return Ok(false);
        }
        let Some(id) = to.webhook else {
            return self.mail(to.tenant, due).await;
        };
        let Some(webhook) = self.app.store.webhook(to.tenant, id).await? else { return Ok(false) };
        if webhook.state == WebhookState::Paused {
            // It was paused after somebody had looked whom to tell.
            let mut change = Change::new(to.tenant);
            change.hold_deliveries(id);
            self.app.store.commit(change).await?;
            return Ok(false);
        }
        if let Some(next_at) = webhook.next_at.filter(|next_at| now < *next_at) {
            // Nobody answers there; what was written since waits with the rest.
            let mut change = Change::new(to.tenant);
            change.delay_deliveries(id, next_at);
            self.app.store.commit(change).await?;
            return Ok(false);
        }
        let keys = self.app.signing_keys(to.tenant, &webhook, now).await?;
        let (webhook, keys) = (&webhook, &keys);
        let mut readable = Vec::with_capacity(due.len());
        for due in due {
            match read(&due) {
                Ok(notice) => readable.push((due, notice)),
                Err(why) => self.give_up(to.tenant, &due, &why).await?,
            }
        }
        let mut sending = stream::iter(readable)
            .map(|(due, notice)| async move {
                let sent = post(&self.app, to.tenant, webhook, keys, notice).await;
                (due, sent)
            })
            .buffer_unordered(NOTICES_AT_ONCE_MAX);
        let mut failures = webhook.failures;
        while let Some((due, sent)) = sending.next().await {
            if !self.note(to.tenant, webhook, &due, sent?, &mut failures).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One that will never be sent, whoever receives it: the others go on.
    async fn give_up(&self, tenant: TenantId, due: &Due, why: &str) -> Result<(), Fault> {
        tracing::error!(delivery = %due.id, "a delivery is given up: {why}");
        let mut change = Change::new(tenant);
        change.give_delivery_up(due.id, why);
        self.app.store.commit(change).await?;
        Ok(())
    }

    /// Writes down what became of one; `false` where the receiver is to be left alone for now.
    async fn note(
        &self,
        tenant: TenantId,
        webhook: &Webhook,
        due: &Due,
        sent: Sent,
        failures: &mut u32,
    ) -> Result<bool, Fault> {
        let now = self.app.clock.now();
        let Sent { error, openings } = sent;
        let mut change = Change::new(tenant);
        self.note_openings(&mut change, webhook, &openings, now);
        let Some(NotArrived { told, is_down, is_gone }) = error else {
            change.delivered(due.id, now);
            if std::mem::take(failures) > 0 {
                change.webhook_answers(webhook.id);
            }
            self.app.store.commit(change).await?;
            return Ok(true);
        };
        // A receiver that does not answer is tried by the table for all that it is to be told, another for each.
        let tried = if is_down { *failures } else { due.attempts };
        *failures += 1;
        let retry = RETRY_AFTER_S.get(tried as usize).filter(|_| !is_gone);
        let Some(after) = retry else {
            change.give_delivery_up(due.id, &told);
            change.webhook_fails(webhook.id, None);
            self.app.store.commit(change).await?;
            // Who takes everything but this one is told the rest.
            let is_dead = *failures as usize > RETRY_AFTER_S.len();
            if is_gone || is_dead {
                self.pause(tenant, webhook.id, &told).await?;
            }
            return Ok(!is_gone && !is_dead);
        };
        let next_at = now.plus_seconds(*after);
        change.try_delivery_again(due.id, next_at, &told, None);
        change.webhook_fails(webhook.id, is_down.then_some(next_at));
        if is_down {
            change.delay_deliveries(webhook.id, next_at);
        }
        self.app.store.commit(change).await?;
        Ok(!is_down)
    }

    async fn pause(&self, tenant: TenantId, webhook: WebhookId, because: &str) -> Result<(), Fault> {
        let mut change = Change::new(tenant);
        change.audit(&self.entry(tenant, "webhook.pause", webhook.to_string(), serde_json::json!({"reason": because})));
        change.count_revision();
        change.pause_webhook(webhook, because);
        match self.app.registry.finish(change).await {
            Ok(_) => tracing::warn!(%webhook, "a webhook is paused: {because}"),
            // Another gave up at the same time, or it was removed.
            Err(fault) if fault.kind() == toolgate_contracts::FaultKind::Conflict => {}
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    fn note_openings(&self, change: &mut Change, webhook: &Webhook, openings: &[OpeningId], now: Timestamp) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        for opening in openings {
            let last = noted.get(&(*opening, webhook.id));
            if last.is_some_and(|last| now < last.plus_seconds(USE_NOTED_EVERY_S)) {
                continue;
            }
            noted.insert((*opening, webhook.id), now);
            let details = serde_json::json!({"for": Purpose::Webhook.as_str(), "webhook": webhook.id});
            change.audit(&self.entry(change.tenant(), "egress.use", opening.to_string(), details));
        }
    }

    fn entry(&self, tenant: TenantId, action: &str, object: String, details: Value) -> Entry {
        Entry {
            id: Id::new(&self.app.clock, &self.app.rng),
            at: self.app.clock.now(),
            tenant,
            actor: ACTOR.to_owned(),
            action: action.to_owned(),
            object,
            details: details.as_object().cloned().unwrap_or_default(),
        }
    }
}

/// What is to be told, or why that cannot be.
fn read(due: &Due) -> Result<Notice, String> {
    let unreadable = |why: String| format!("what was to be told cannot be read: {why}");
    let notice: Notice =
        serde_json::from_str(&due.body).map_err(|error| unreadable(json::spoken(&error.to_string())))?;
    // It goes into a header.
    HeaderValue::from_str(&notice.id)
        .map_err(|_| unreadable("its id holds characters that no header has".to_owned()))?;
    Ok(notice)
}

/// Signs a notice and sends it once. The link in it is made whole here: where a server is found may change.
pub(crate) async fn post(
    app: &App,
    tenant: TenantId,
    webhook: &Webhook,
    (secrets, key): &(Vec<WebhookKey>, Arc<Key>),
    mut notice: Notice,
) -> Result<Sent, Fault> {
    if let Some(Value::String(url)) = notice.data.get_mut("url") {
        url.insert_str(0, &app.base_url());
    }
    let now = app.clock.now();
    let body = serde_json::to_string(&notice).map_err(Fault::internal)?;
    let signatures = sign::signatures(&notice.id, now, &body, secrets, key);
    let url = Url::parse(&webhook.url).map_err(Fault::internal)?;
    let mut request = Request::new(Method::POST, url);
    request.timeout = TIMEOUT;
    request.body = Bytes::from(body);
    let timestamp = sign::seconds(now).to_string();
    for (name, value) in [
        ("content-type", "application/json"),
        ("webhook-id", notice.id.as_str()),
        ("webhook-timestamp", timestamp.as_str()),
        ("webhook-signature", signatures.as_str()),
    ] {
        let value = HeaderValue::from_str(value).map_err(Fault::internal)?;
        request.headers.insert(name, value);
    }
    let way = app.outside.way(Purpose::Webhook, tenant, None)?;
    Ok(match app.outside.connector.send(&way, request).await {
        Ok(response) => Sent { error: judged(response.status), openings: response.openings },
        Err(error) => {
            let told = error.to_string();
            Sent {
                error: Some(NotArrived { told, is_down: true, is_gone: false }),
                openings: error.openings().to_vec(),
            }
        }
    })
}

/// What a receiver's answer means. A redirect is none: whoever moved is told to say so in the webhook's URL.
fn judged(status: StatusCode) -> Option<NotArrived> {
    let told = match status.as_u16() {
        200..300 => return None,
        300..400 => format!("the receiver answered {status}: redirects are not followed, correct the webhook's URL"),
        410 => format!("the receiver answered {status}: it wants nothing more"),
        _ => format!("the receiver answered {status}"),
    };
    // Another notice would be refused alike, but for what is wrong with this one alone.
    let is_down = !status.is_client_error() || matches!(status.as_u16(), 401 | 403 | 404 | 407 | 408 | 425 | 429);
    Some(NotArrived { told, is_down, is_gone: status == StatusCode::GONE })
}
