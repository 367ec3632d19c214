//! Tokens for servers of others, kept in the vault: whose they are, when they are renewed, and how they leave.
//!
//! Invariant: a token goes to the address that it was given for, and to no other. It is renewed by one at a time, in this
//! process by a lock and among processes by a lease: a renewal that came twice would end the whole connection where the
//! other side takes each renewal token once. Whoever waited finds what the one before them kept.
//! Deliberately absent: the caller's own credentials. Nothing of them is known here.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;
use futures_util::future::BoxFuture;
use serde_json::json;
use toolgate_contracts::upstream::{ConnectionOf, OauthGrant, UpstreamOauth};
use toolgate_contracts::{Clock, Fault, Principal, Rng, SecretAllowed, SecretPlace, Slug, TenantId, Upstream as Spec};
use toolgate_egress::{EgressError, HeaderName, HeaderValue, Purpose, Request, Response, StatusCode, Url};
use toolgate_engine::connections::kept_as;
use toolgate_engine::secrets::Secrets;
use toolgate_engine::{Outside, Wiring};
use toolgate_store::audit::Entry;
use toolgate_store::{Change, Store};
use toolgate_vault::{NewValue, Redactor, Secret, Vault};
use zeroize::Zeroizing;

use crate::oauth::{self, Authority, Challenge, Client, Known, OauthError, Registering, Tokens, with_more};
use crate::upstream::{Outlet, challenge_of};

/// How long one process may take to renew a token before another tries.
const RENEWED_WITHIN: Duration = Duration::from_mins(1);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
const NAME: &str = "Toolgate";
/// Tokens that were sent for one holder and are looked for in what comes back. No call sends nearly as many; the oldest go.
const SENT_MAX: usize = 64;

/// The tokens that really went out for one holder, while a call or a link is there that may hear of them.
#[derive(Clone, Default)]
pub struct SentTokens(Arc<Mutex<VecDeque<Zeroizing<String>>>>);

impl SentTokens {
    fn list(&self) -> MutexGuard<'_, VecDeque<Zeroizing<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, token: &str) {
        let mut list = self.list();
        if list.iter().any(|sent| sent.as_str() == token) {
            return;
        }
        if list.len() >= SENT_MAX {
            list.pop_front();
        }
        list.push_back(Zeroizing::new(token.to_owned()));
    }

    pub fn all(&self) -> Vec<Zeroizing<String>> {
        self.list().iter().cloned().collect()
    }

    /// What takes them out of everything that is told.
    pub fn redactor(&self) -> Result<Redactor, Fault> {
        let all = self.all();
        Redactor::of_values(all.iter().map(|token| ("token", token.as_bytes())))
    }
}

pub struct Keeper {
    vault: Vault,
    store: Store,
    clock: Clock,
    rng: Rng,
    outside: Outside,
    /// Tells this process from others.
    replica: String,
    renewing: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Why there are no tokens, as authorisation servers said it the last time.
    problems: Mutex<HashMap<String, String>>,
    /// By holder.
    sent: Mutex<HashMap<String, SentTokens>>,
}

/// Whose tokens for which server.
#[derive(Clone)]
pub struct Holder {
    pub tenant: TenantId,
    pub server: Slug,
    pub place: SecretPlace,
    pub address: Url,
    pub oauth: UpstreamOauth,
    /// Of the client that the operator registered, and where it may go.
    pub secret: Option<(Zeroizing<String>, SecretAllowed)>,
    pub sent: SentTokens,
}

fn key_of(tenant: TenantId, server: &Slug) -> String {
    format!("oauth:{tenant}:{server}:")
}

impl Holder {
    /// Whose connection a call of this principal takes, where the server wants tokens; nobody's: the organisation's.
    pub fn of(
        tenant: TenantId,
        principal: Option<Principal>,
        spec: &Spec,
        url: &Url,
        secrets: &Secrets,
    ) -> Option<Self> {
        let oauth = spec.oauth()?.clone();
        let own = principal.filter(|_| oauth.per == ConnectionOf::User).map(SecretPlace::of);
        let secret = oauth.client_secret.as_deref().and_then(|name| secrets.get(name));
        let secret = secret
            .and_then(|secret| Some((Zeroizing::new(secret.expose_text()?.to_owned()), secret.allowed().clone())));
        let place = own.unwrap_or_else(|| SecretPlace::org(tenant));
        let sent = SentTokens::default();
        Some(Self { tenant, server: spec.name.clone(), place, address: url.clone(), oauth, secret, sent })
    }

    fn key(&self) -> String {
        let Self { tenant, server, place, .. } = self;
        format!("{}{}:{}", key_of(*tenant, server), place.scope, place.id)
    }

    /// The client that the operator registered, if its secret may go to where tokens are had.
    pub(super) fn registered(&self, authority: &Authority) -> Result<Option<(&str, Option<&str>)>, OauthError> {
        let Some(id) = self.oauth.client_id.as_deref() else { return Ok(None) };
        let host = authority.token_endpoint.host_str().unwrap_or_default();
        match (&self.secret, &self.oauth.client_secret) {
            (Some((_, allowed)), Some(name)) if !allowed.has_host(host) => Err(OauthError::Wrong(format!(
                "the secret `{name}` may not go to `{host}`; its owner allows it with `toolgate secret allow {name} --host {host}`"
            ))),
            (Some((secret, _)), _) => Ok(Some((id, Some(secret.as_str())))),
            (None, Some(name)) => Err(OauthError::Wrong(format!("the secret `{name}` is missing, or is no text"))),
            (None, None) => Ok(Some((id, None))),
        }
    }
}

/// Tokens, and which of those that were kept there.
pub type Kept = (Tokens, u64);

/// Why there are none.
pub enum NoTokens {
    Oauth(OauthError),
    Fault(Fault),
}

impl From<Fault> for NoTokens {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<OauthError> for NoTokens {
    fn from(error: OauthError) -> Self {
        Self::Oauth(error)
    }
}

impl Keeper {
    pub fn new(wiring: &Wiring<'_>) -> Self {
        Self {
            vault: wiring.vault.clone(),
            store: wiring.store.clone(),
            clock: wiring.clock.clone(),
            rng: wiring.rng.clone(),
            outside: wiring.outside.clone(),
            replica: HEXLOWER.encode(&wiring.rng.bytes::<16>()),
            renewing: Mutex::default(),
            problems: Mutex::default(),
            sent: Mutex::default(),
        }
    }

    /// The same for all who hold the same: what one call sent, another may hear on the link that they share.
    pub fn holding(&self, mut holder: Holder) -> Arc<Holder> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let key = holder.key();
        if !sent.contains_key(&key) {
            sent.retain(|_, tokens| Arc::strong_count(&tokens.0) > 1);
        }
        holder.sent = sent.entry(key).or_default().clone();
        Arc::new(holder)
    }

    /// What takes the tokens out that went to a server for anybody.
    pub fn redactor_of(&self, tenant: TenantId, server: &Slug) -> Result<Redactor, Fault> {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let whose = key_of(tenant, server);
        let of_server = sent.iter().filter(|(key, _)| key.starts_with(&whose));
        let all: Vec<Zeroizing<String>> = of_server.flat_map(|(_, tokens)| tokens.all()).collect();
        Redactor::of_values(all.iter().map(|token| ("token", token.as_bytes())))
    }

    fn problems(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why there are no tokens for somebody, where an authorisation server said it.
    pub fn problem(&self, holder: &Holder) -> Option<String> {
        self.problems().get(&holder.key()).cloned()
    }

    pub fn rng(&self) -> &Rng {
        &self.rng
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The way to authorisation servers.
    pub fn way(&self, tenant: TenantId) -> Asking {
        Asking { outside: self.outside.clone(), tenant }
    }

    /// What is kept under a name, if it is there and is what it should be.
    pub async fn read<T: serde::de::DeserializeOwned>(
        &self,
        holder: &Holder,
        name: &str,
    ) -> Result<Option<(T, u64)>, Fault> {
        self.read_at(holder.tenant, holder.place, name).await
    }

    async fn read_at<T: serde::de::DeserializeOwned>(
        &self,
        tenant: TenantId,
        place: SecretPlace,
        name: &str,
    ) -> Result<Option<(T, u64)>, Fault> {
        let Some(sealed) = self.vault.find(tenant, place, name).await? else { return Ok(None) };
        let opened = self.vault.open(tenant, &sealed).await?;
        Ok(serde_json::from_slice(opened.expose()).ok().map(|kept| (kept, sealed.found.version)))
    }

    /// Which connection is kept there, if one is.
    pub async fn connection(
        &self,
        tenant: TenantId,
        place: SecretPlace,
        server: &Slug,
    ) -> Result<Option<String>, Fault> {
        let kept: Option<(Tokens, u64)> = self.read_at(tenant, place, &kept_as(server)).await?;
        Ok(kept.map(|(tokens, _)| tokens.connection.clone()))
    }

    pub async fn write<T: serde::Serialize + Sync>(
        &self,
        holder: &Holder,
        name: &str,
        value: &T,
        by: &str,
        entry: Option<(&str, serde_json::Value)>,
    ) -> Result<u64, Fault> {
        let secret = Secret::new(name, serde_json::to_vec(value).map_err(Fault::internal)?);
        let new = NewValue { place: holder.place, secret: &secret, allowed: None, by };
        let begin = |_: &_| {
            let mut change = Change::new(holder.tenant);
            if let Some((action, details)) = &entry {
                change.audit(&Entry {
                    id: toolgate_contracts::Id::new(&self.clock, &self.rng),
                    at: self.clock.now(),
                    tenant: holder.tenant,
                    actor: by.to_owned(),
                    action: (*action).to_owned(),
                    object: holder.server.to_string(),
                    details: details.as_object().cloned().unwrap_or_default(),
                });
            }
            change
        };
        Ok(self.vault.put_own(holder.tenant, new, begin).await?.info.version)
    }

    pub async fn remove(&self, holder: &Holder, name: &str) -> Result<(), Fault> {
        let mut change = Change::new(holder.tenant);
        change.delete_secret(holder.place, name);
        self.store.commit(change).await?;
        Ok(())
    }

    async fn kept(&self, holder: &Holder) -> Result<Option<Kept>, Fault> {
        let kept: Option<Kept> = self.read(holder, &kept_as(&holder.server)).await?;
        // For another address it was given, and there it stays.
        Ok(kept.filter(|(tokens, _)| tokens.address == holder.address.as_str()))
    }

    /// The tokens that there are, renewed where they are about to end.
    pub async fn current(self: &Arc<Self>, holder: &Holder) -> Result<Option<Kept>, NoTokens> {
        match self.kept(holder).await? {
            Some(kept) if !kept.0.is_over(self.clock.now()) => Ok(Some(kept)),
            Some((tokens, _)) => self.renewed(holder, Some(&tokens), None).await,
            None if holder.oauth.grant == OauthGrant::ClientCredentials => self.renewed(holder, None, None).await,
            None => Ok(None),
        }
    }

    /// Others than `before`: what somebody else got meanwhile, or what is had now. `more` is a scope that it lacked.
    pub async fn renewed(
        self: &Arc<Self>,
        holder: &Holder,
        before: Option<&Tokens>,
        more: Option<&str>,
    ) -> Result<Option<Kept>, NoTokens> {
        let key = holder.key();
        let lock = {
            let mut renewing = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
            renewing.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(renewing.entry(key.clone()).or_default())
        };
        let alone = lock.lock_owned().await;
        let other = async || {
            let (kept, now) = (self.kept(holder).await?, self.clock.now());
            let is_other = |tokens: &Tokens| before.is_none_or(|before| before.access_token != tokens.access_token);
            let found = kept.as_ref().is_some_and(|(tokens, _)| is_other(tokens) && !tokens.is_over(now));
            Ok::<_, Fault>(if found { Ok(kept) } else { Err(kept) })
        };
        loop {
            if let Ok(kept) = other().await? {
                return Ok(kept);
            }
            let now = self.clock.now();
            if self.store.take_lease(&key, &self.replica, now, RENEWED_WITHIN).await.map_err(Fault::from)? {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        // Whoever had the lease before may have kept others a moment ago.
        let kept = match other().await? {
            Ok(kept) => {
                self.store.release_lease(&key, &self.replica).await.map_err(Fault::from)?;
                return Ok(kept);
            }
            Err(kept) => kept,
        };
        // To its end, even if whoever wanted it gives up: what the other side gave and nobody kept would be lost.
        let (keeper, holder, more) = (Arc::clone(self), holder.clone(), more.map(str::to_owned));
        let renewing = tokio::spawn(async move {
            let renewed = keeper.renew(&holder, kept, more.as_deref()).await;
            let released = keeper.store.release_lease(&key, &keeper.replica).await;
            drop(alone);
            released.map_err(Fault::from)?;
            renewed
        });
        renewing.await.map_err(Fault::internal)?
    }

    async fn renew(&self, holder: &Holder, kept: Option<Kept>, more: Option<&str>) -> Result<Option<Kept>, NoTokens> {
        let (way, now) = (self.way(holder.tenant), self.clock.now());
        let next = match holder.oauth.grant {
            OauthGrant::ClientCredentials => {
                let had = kept.as_ref().and_then(|(tokens, _)| tokens.scope.clone());
                Some(self.by_secret(&way, holder, had.as_deref(), more).await?)
            }
            OauthGrant::Code => match &kept {
                None => None,
                Some((tokens, _)) => match oauth::refresh(&way, tokens, now).await {
                    Err(error) if error.ends_grant() => {
                        tracing::info!(upstream = %holder.server, "a connection has ended: {error}");
                        // It is good for nothing any more, and is not asked with again.
                        let mut over = tokens.clone();
                        over.refresh_token = None;
                        self.write(holder, &kept_as(&holder.server), &over, "system", None).await?;
                        None
                    }
                    renewed => renewed?,
                },
            },
        };
        let Some(mut next) = next else { return Ok(None) };
        if let Some((before, version)) = kept {
            let there = self.kept(holder).await?;
            // Meanwhile somebody disconnected, or connected anew: that stays.
            if there.as_ref().is_none_or(|(_, now)| *now != version) {
                return Ok(there);
            }
            next.wanted.clone_from(&before.wanted);
            next.connection.clone_from(&before.connection);
        }
        let version = self.write(holder, &kept_as(&holder.server), &next, "system", None).await?;
        Ok(Some((next, version)))
    }

    async fn by_secret(
        &self,
        way: &Asking,
        holder: &Holder,
        had: Option<&str>,
        more: Option<&str>,
    ) -> Result<Tokens, OauthError> {
        let authority =
            oauth::discover(way, &holder.address, &Challenge::default(), holder.oauth.issuer.as_deref()).await?;
        let known = Known { registered: holder.registered(&authority)?, ..Known::default() };
        let registering = Registering { name: NAME, redirect: "", scope: None };
        let client = oauth::client_for(way, &authority, &known, &registering).await?;
        let scope = holder.oauth.scope.clone().or_else(|| had.map(str::to_owned));
        let scope = scope.or_else(|| (!authority.scopes.is_empty()).then(|| authority.scopes.join(" ")));
        let scope = more.map(|more| with_more(scope.as_deref(), more)).or(scope);
        oauth::by_secret(way, &authority, &client, scope.as_deref(), self.clock.now()).await
    }

    /// The server wants more than the token is good for: whoever connects next is asked for that too.
    async fn note_wanted(&self, holder: &Holder, kept: &Kept, scope: &str) -> Result<(), Fault> {
        // As they are now: others may have renewed them while the server thought about it.
        let Some((tokens, _)) = self.kept(holder).await?.filter(|(now, _)| now.access_token == kept.0.access_token)
        else {
            return Ok(());
        };
        let wanted = with_more(tokens.wanted.as_deref(), scope);
        if tokens.wanted.as_deref() == Some(wanted.as_str()) {
            return Ok(());
        }
        let mut next = tokens;
        next.wanted = Some(wanted);
        self.write(holder, &kept_as(&holder.server), &next, "system", None).await.map(drop)
    }

    /// A client of before, for the same server.
    pub async fn client_before(&self, holder: &Holder) -> Result<Option<Client>, Fault> {
        let of_org = Holder { place: SecretPlace::org(holder.tenant), ..holder.clone() };
        Ok(self.read(&of_org, &client_name(&holder.server)).await?.map(|(client, _)| client))
    }

    pub async fn keep_client(&self, holder: &Holder, client: &Client, by: &str) -> Result<(), Fault> {
        let of_org = Holder { place: SecretPlace::org(holder.tenant), ..holder.clone() };
        let entry = ("upstream.register", json!({"issuer": client.issuer, "client_id": client.id}));
        self.write(&of_org, &client_name(&holder.server), client, by, Some(entry)).await.map(drop)
    }
}

fn client_name(server: &Slug) -> String {
    format!("oauth-client:{server}")
}

/// The way out to authorisation servers of a tenant's servers.
pub struct Asking {
    outside: Outside,
    tenant: TenantId,
}

impl Outlet for Asking {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, EgressError>> {
        Box::pin(async move {
            let way =
                self.outside.way(Purpose::Discovery, self.tenant, None).map_err(|fault| EgressError::no_way(&fault))?;
            let answer = self.outside.connector.send(&way, request).await;
            let openings = match &answer {
                Ok(answer) => answer.openings.as_slice(),
                Err(error) => error.openings(),
            };
            if let Err(fault) = self.outside.note_use_of(self.tenant, "system", Purpose::Discovery, openings).await {
                tracing::error!("an opening was used and not noted: {}", fault.logged().unwrap_or(fault.told()));
            }
            answer
        })
    }
}

/// Another way out, with the token of whoever it is for.
pub struct Authorised {
    pub inner: Arc<dyn Outlet>,
    pub keeper: Arc<Keeper>,
    pub holder: Arc<Holder>,
}

impl Authorised {
    /// Once, and once more with another token where the first was not taken: what was refused did nothing.
    async fn sent(&self, request: Request) -> Result<Response, EgressError> {
        let Self { inner, keeper, holder } = self;
        if request.url.origin() != holder.address.origin() {
            return inner.send(request).await;
        }
        let current = keeper.current(holder).await;
        let Some(kept) = self.or_none(current)? else {
            // It says itself what it wants.
            return inner.send(request).await;
        };
        // Before it goes: whatever becomes of it, the other side may have it.
        holder.sent.add(&kept.0.access_token);
        let answer = inner.send(bearing(request.clone(), &kept.0)).await?;
        let more = match answer.status {
            StatusCode::UNAUTHORIZED => None,
            StatusCode::FORBIDDEN => {
                let challenge = challenge_of(&answer.headers);
                let lacks = challenge.error.as_deref() == Some("insufficient_scope");
                let Some(scope) = challenge.scope.filter(|_| lacks) else { return Ok(answer) };
                let fault = keeper.note_wanted(holder, &kept, &scope).await.err();
                if let Some(fault) = fault {
                    tracing::warn!(upstream = %holder.server, "what a server wants is not kept: {}", fault.told());
                }
                // Somebody has to say yes to more.
                if holder.oauth.grant == OauthGrant::Code {
                    return Ok(answer);
                }
                Some(scope)
            }
            _ => return Ok(answer),
        };
        let renewed = keeper.renewed(holder, Some(&kept.0), more.as_deref()).await;
        match self.or_none(renewed)? {
            Some((tokens, _)) if tokens.access_token != kept.0.access_token => {
                drop(answer);
                holder.sent.add(&tokens.access_token);
                inner.send(bearing(request, &tokens)).await
            }
            _ => Ok(answer),
        }
    }
}

impl Authorised {
    /// What was refused to us is no token; why is told with what the server says without one.
    fn or_none(&self, kept: Result<Option<Kept>, NoTokens>) -> Result<Option<Kept>, EgressError> {
        let Self { keeper, holder, .. } = self;
        match kept {
            Ok(kept) => {
                keeper.problems().remove(&holder.key());
                Ok(kept)
            }
            Err(NoTokens::Oauth(OauthError::Egress(error))) => Err(error),
            Err(NoTokens::Oauth(error)) => {
                keeper.problems().insert(holder.key(), error.to_string());
                Ok(None)
            }
            Err(NoTokens::Fault(fault)) => Err(EgressError::no_way(&fault)),
        }
    }
}

impl Outlet for Authorised {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, EgressError>> {
        Box::pin(self.sent(request))
    }

    fn bore(&self) -> Vec<Zeroizing<String>> {
        let mut bore = self.inner.bore();
        bore.extend(self.holder.sent.all());
        bore
    }
}

fn bearing(request: Request, tokens: &Tokens) -> Request {
    let value = Zeroizing::new(format!("Bearer {}", tokens.access_token));
    match HeaderValue::from_str(&value) {
        Ok(value) => request.with_secret(HeaderName::from_static("authorization"), value),
        Err(_) => request,
    }
}
