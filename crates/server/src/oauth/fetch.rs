//! Documents of others: of clients about themselves, and of issuers about their keys. By the one connector, bounded, and
//! never where a redirect leads.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_contracts::{Id, OpeningId, TenantId, Timestamp, json as strict};
use toolgate_egress::{HeaderName, HeaderValue, Purpose, Request, Url};
use toolgate_store::Change;
use toolgate_store::audit::Entry;

use crate::app::App;

const PATIENCE: Duration = Duration::from_secs(10);
const OPENING_NOTED_EVERY_S: i64 = 3600;

/// When an opening was last written into the log.
pub type Noted = Mutex<HashMap<(TenantId, OpeningId), Timestamp>>;

impl App {
    /// `Err` says why there is none, for the log or for whoever may know.
    pub(super) async fn oauth_document(&self, tenant: TenantId, url: Url, bytes_max: usize) -> Result<Value, String> {
        let way = self.outside.way(Purpose::Discovery, tenant, None).map_err(|fault| fault.told().to_owned())?;
        let mut request = Request::get(url);
        request.timeout = PATIENCE;
        request.headers.insert(HeaderName::from_static("accept"), HeaderValue::from_static("application/json"));
        let answer = self.outside.connector.send(&way, request).await.map_err(|error| error.told().to_owned())?;
        self.note_oauth_openings(tenant, &answer.openings).await;
        if answer.status != toolgate_egress::StatusCode::OK {
            return Err(format!("it answers {}", answer.status));
        }
        let bytes = answer.bytes_max(bytes_max).await.map_err(|error| error.told().to_owned())?;
        strict::read(&bytes, bytes_max).map_err(|_| "what it answers is not JSON".to_owned())
    }

    /// That a place was reached because the operator opened its host is in the log, once an hour.
    async fn note_oauth_openings(&self, tenant: TenantId, openings: &[OpeningId]) {
        let now = self.clock.now();
        let mut change = Change::new(tenant);
        for opening in openings {
            let mut noted = self.oauth.noted.lock().unwrap_or_else(PoisonError::into_inner);
            if noted.get(&(tenant, *opening)).is_some_and(|last| now < last.plus_seconds(OPENING_NOTED_EVERY_S)) {
                continue;
            }
            noted.insert((tenant, *opening), now);
            change.audit(&Entry {
                id: Id::new(&self.clock, &self.rng),
                at: now,
                tenant,
                actor: "system:oauth".to_owned(),
                action: "egress.use".to_owned(),
                object: opening.to_string(),
                details: json!({"for": "oauth"}).as_object().cloned().unwrap_or_default(),
            });
        }
        if !change.is_empty()
            && let Err(error) = self.store.commit(change).await
        {
            tracing::error!("an opening was used and not noted: {error}");
        }
    }
}
