//! What a client does without a browser: takes what it was allowed, renews it, and gives it back.
//!
//! INVARIANT: a code and a refresh token are good once. One that comes back was stolen, from the client or by it: what
//! came of it ends, for whoever holds it.

use serde_json::json;
use subtle::ConstantTimeEq as _;
use toolgate_contracts::{Digest, Fault, FaultKind, KeyId, Principal, TenantId, UserId};
use toolgate_store::Change;
use toolgate_store::audit::Entry;
use toolgate_store::credentials::ApiKey;
use toolgate_store::oauth::OauthCode;

use super::parameters;
use crate::app::App;
use crate::seal;

/// How long an access token lasts, and how long one may go without renewing it.
pub const ACCESS_S: i64 = 3600;
const REFRESH_S: i64 = 30 * 86_400;
const VERIFIER_BYTES: std::ops::RangeInclusive<usize> = 43..=128;

/// Why a client gets nothing, in the words of RFC 6749, RFC 7009 and RFC 7591.
#[derive(Debug)]
pub struct Refused {
    pub error: &'static str,
    pub told: String,
    /// What broke here, where it was not the client.
    pub fault: Option<Fault>,
}

impl Refused {
    pub fn new(error: &'static str, told: impl Into<String>) -> Self {
        Self { error, told: told.into(), fault: None }
    }

    fn grant(told: &str) -> Self {
        Self::new("invalid_grant", told)
    }

    fn request(told: impl Into<String>) -> Self {
        Self::new("invalid_request", told)
    }
}

impl<E: Into<Fault>> From<E> for Refused {
    fn from(error: E) -> Self {
        let fault = error.into();
        Self { error: "server_error", told: fault.told().to_owned(), fault: Some(fault) }
    }
}

pub struct Granted {
    pub access: String,
    pub refresh: String,
    pub scopes: Vec<String>,
}

impl App {
    /// `/oauth/token`.
    pub async fn oauth_token(&self, form: &str) -> Result<Granted, Refused> {
        let said = parameters(form).map_err(Refused::request)?;
        let get = |name: &str| said.get(name).map(String::as_str);
        let need = |name: &'static str| get(name).ok_or_else(|| Refused::request(format!("`{name}` is missing")));
        match need("grant_type")? {
            "authorization_code" => {
                let verifier = need("code_verifier")?;
                let shown = Shown {
                    client: Digest::of(need("client_id")?.as_bytes()),
                    redirect: need("redirect_uri")?,
                    verifier,
                    resource: get("resource"),
                };
                self.take(need("code")?, &shown).await
            }
            "refresh_token" => {
                let client = Digest::of(need("client_id")?.as_bytes());
                self.renew(need("refresh_token")?, client, get("resource")).await
            }
            _ => Err(Refused::new(
                "unsupported_grant_type",
                "`grant_type` is neither `authorization_code` nor `refresh_token`",
            )),
        }
    }

    async fn take(&self, code: &str, shown: &Shown<'_>) -> Result<Granted, Refused> {
        let bad =
            || Refused::grant("the code is unknown, was used already, is too old, or was given to another client");
        let hash = seal::token_hash(code);
        let (tenant, found) = self.store.oauth_code(hash).await?.ok_or_else(bad)?;
        let now = self.clock.now();
        if found.used_at.is_some() {
            self.end_client_key(tenant, found.user, found.key, "the code came back").await?;
            return Err(bad());
        }
        if found.expires_at <= now || !shown.fits(&found) {
            return Err(bad());
        }
        if shown.resource.is_some_and(|asked| !is_same(asked, &found.resource)) {
            return Err(Refused::new("invalid_target", "`resource` is another than was allowed"));
        }
        // Whoever was disabled since allows nothing any more.
        let holder = self.store.user_holder(tenant, found.user).await?.ok_or_else(bad)?;
        let OauthCode { user, agent, key, client, resource, scopes, .. } = found;
        let suffix = data_encoding::HEXLOWER.encode(&self.rng.bytes::<3>());
        let (access, access_hash) = seal::key(key, &self.rng);
        let (refresh, refresh_hash) = seal::token(&self.rng);
        let row = ApiKey {
            id: key,
            name: format!("{} {suffix}", client.name),
            owner: user,
            owner_name: holder.user_name,
            agent,
            scopes: scopes.clone(),
            client: Some(client),
            resource: Some(resource.clone()),
            created_at: now,
            expires_at: Some(now.plus_seconds(ACCESS_S)),
            revoked_at: None,
            last_used_at: None,
        };
        let mut change = Change::new(tenant);
        change.spend_oauth_code(hash, now, spent());
        change.insert_key(&row, access_hash);
        change.insert_oauth_refresh(refresh_hash, key, now.plus_seconds(REFRESH_S));
        let details =
            json!({"id": key, "owner": user, "scopes": scopes, "agent": agent, "resource": resource, "oauth": true});
        change.audit(&self.client_entry(tenant, user, "key.create", &row.name, details));
        if !self.committed(change).await? {
            // Two came with it at once.
            self.end_client_key(tenant, user, key, "the code came back").await?;
            return Err(bad());
        }
        Ok(Granted { access, refresh, scopes })
    }

    async fn renew(&self, token: &str, client: Digest, resource: Option<&str>) -> Result<Granted, Refused> {
        let bad = || Refused::grant("the refresh token is unknown, was used already, is too old, or was revoked");
        let hash = seal::token_hash(token);
        let found = self.store.oauth_refresh(hash).await?.ok_or_else(bad)?;
        let now = self.clock.now();
        let row = self.store.key_by_id(found.tenant, found.key).await?.ok_or_else(bad)?;
        if found.used_at.is_some() {
            self.end_client_key(found.tenant, row.owner, row.id, "a refresh token came back").await?;
            return Err(bad());
        }
        let own = row.client.as_ref().is_some_and(|known| seal::same(&known.id, &client));
        if found.expires_at <= now || row.revoked_at.is_some() || !own {
            return Err(bad());
        }
        if resource.is_some_and(|asked| !row.resource.as_deref().is_some_and(|known| is_same(asked, known))) {
            return Err(Refused::new("invalid_target", "`resource` is another than was allowed"));
        }
        let (access, access_hash) = seal::key(row.id, &self.rng);
        let (refresh, refresh_hash) = seal::token(&self.rng);
        let mut change = Change::new(found.tenant);
        change.spend_oauth_refresh(hash, now, spent());
        change.renew_key(row.id, access_hash, now.plus_seconds(ACCESS_S), spent());
        change.insert_oauth_refresh(refresh_hash, row.id, now.plus_seconds(REFRESH_S));
        if !self.committed(change).await? {
            self.end_client_key(found.tenant, row.owner, row.id, "a refresh token came back").await?;
            return Err(bad());
        }
        self.callers.invalidate(&row.id);
        Ok(Granted { access, refresh, scopes: row.scopes })
    }

    /// `/oauth/revoke`: whoever holds a token may give it back, and with it all that was allowed. What is no token is
    /// none any more either.
    pub async fn oauth_revoke(&self, form: &str) -> Result<(), Refused> {
        let said = parameters(form).map_err(Refused::request)?;
        let Some(token) = said.get("token") else { return Err(Refused::request("`token` is missing")) };
        if let Some((id, shown)) = seal::parse_key(token) {
            let found = self.store.key_holder(id).await?;
            // A key that somebody made is not a client's to revoke.
            let own = found.filter(|found| found.resource.is_some() && seal::same(&found.secret_hash, &shown));
            if let Some(found) = own {
                let (tenant, user) = (found.holder.tenant, found.holder.user);
                self.end_client_key(tenant, user, id, "the client gave it back").await?;
            }
            return Ok(());
        }
        if let Some(found) = self.store.oauth_refresh(seal::token_hash(token)).await?
            && let Some(row) = self.store.key_by_id(found.tenant, found.key).await?
        {
            self.end_client_key(found.tenant, row.owner, row.id, "the client gave it back").await?;
        }
        Ok(())
    }

    async fn end_client_key(&self, tenant: TenantId, user: UserId, key: KeyId, why: &str) -> Result<(), Fault> {
        let Some(row) = self.store.key_by_id(tenant, key).await?.filter(|row| row.revoked_at.is_none()) else {
            return Ok(());
        };
        let mut change = Change::new(tenant);
        change.end_client_key(key, self.clock.now());
        change.audit(&self.client_entry(tenant, user, "key.revoke", &row.name, json!({"id": key, "because": why})));
        self.store.commit(change).await?;
        self.forget_callers();
        Ok(())
    }

    /// `false`: what was to be spent was spent.
    async fn committed(&self, change: Change) -> Result<bool, Fault> {
        match self.store.commit(change).await.map_err(Fault::from) {
            Ok(_) => Ok(true),
            Err(fault) if fault.kind() == FaultKind::Conflict && fault.told() == SPENT => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    pub(super) fn client_entry(
        &self,
        tenant: TenantId,
        user: UserId,
        action: &str,
        object: &str,
        details: serde_json::Value,
    ) -> Entry {
        Entry {
            id: toolgate_contracts::Id::new(&self.clock, &self.rng),
            at: self.clock.now(),
            tenant,
            actor: Principal::User(user).to_string(),
            action: action.to_owned(),
            object: object.to_owned(),
            details: details.as_object().cloned().unwrap_or_default(),
        }
    }
}

/// What a client shows beside its code.
struct Shown<'a> {
    client: Digest,
    redirect: &'a str,
    verifier: &'a str,
    resource: Option<&'a str>,
}

impl Shown<'_> {
    /// Whether the code was given to this client, by what it alone knows.
    fn fits(&self, code: &OauthCode) -> bool {
        let legal = VERIFIER_BYTES.contains(&self.verifier.len())
            && self.verifier.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
        let redirect: bool = self.redirect.as_bytes().ct_eq(code.redirect.as_bytes()).into();
        let knows = seal::same(&Digest::of(self.verifier.as_bytes()), &code.challenge);
        legal && redirect && knows && seal::same(&self.client, &code.client.id)
    }
}

fn is_same(asked: &str, known: &str) -> bool {
    asked.strip_suffix('/').unwrap_or(asked) == known
}

const SPENT: &str = "it was used already";

fn spent() -> Fault {
    Fault::conflict(SPENT, "sign in again")
}
