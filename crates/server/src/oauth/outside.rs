//! An access token of another issuer, shown at `/mcp`: whose it is, and whom it stands for.
//!
//! INVARIANT: it is for us by its audience, of an issuer that the operator named, and gives an agent's rights at most.
//! For each client of each person there is a row among the keys, so that what came by it is told apart and can be taken
//! back: tokens that were made before that are refused from then on.
//! Deliberately absent: tokens that only hold with a proof (`cnf`), since the proof is not asked for here; and opaque
//! tokens, which one would have to ask the issuer about.

use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};
use toolgate_contracts::{Caller, Digest, Fault, FaultKind, KeyId, TenantId, Timestamp, UserId, json as strict};
use toolgate_store::Change;
use toolgate_store::credentials::ApiKey;
use toolgate_store::oauth::OauthClient;

use super::issuers::{Issuer, Whom};
use super::{Address, scopes_of};
use crate::app::App;
use crate::identity::oidc::id_token::{self, SKEW_S, Wrong};

const TOKEN_BYTES_MAX: usize = 16 * 1024;
const TEXT_BYTES_MAX: usize = 255;

/// A token that was let in a moment ago.
pub struct Known {
    expires_at: Timestamp,
    caller: Caller,
}

/// What a token says that was checked.
struct Said {
    subject: String,
    client: String,
    issued_at: Option<Timestamp>,
    expires_at: Timestamp,
    claims: Value,
}

impl App {
    /// The issuer that a token says it is of, if it is one that the operator named. Nothing of it is believed by that.
    pub(crate) fn named_issuer(&self, token: &str) -> Option<&Issuer> {
        if self.oauth.issuers.is_empty() || token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let payload = BASE64URL_NOPAD.decode(token.split('.').nth(1)?.as_bytes()).ok()?;
        let claims = strict::read(&payload, TOKEN_BYTES_MAX).ok()?;
        let named = claims.get("iss")?.as_str()?;
        self.oauth.issuers.iter().find(|issuer| issuer.name == named)
    }

    /// Whom a token stands for at this address.
    pub(crate) async fn outside_caller(
        &self,
        issuer: &Issuer,
        token: &str,
        shown_at: &Address,
    ) -> Result<Caller, Fault> {
        let fingerprint = Digest::of(format!("{}\n{token}", shown_at.at).as_bytes());
        let now = self.clock.now();
        if let Some(known) = self.oauth.tokens.get(&fingerprint) {
            return if known.expires_at > now { Ok(known.caller.clone()) } else { Err(refused("has run out")) };
        }
        let said = self.said(issuer, token, shown_at).await?;
        let (tenant, user) = self.person_of(issuer, &said).await?;
        let key = self.outside_row(issuer, tenant, user, &said, &shown_at.root).await?;
        let caller = crate::auth::client_caller(self, key).await?;
        let known = Known { expires_at: said.expires_at, caller: caller.clone() };
        self.oauth.tokens.insert(fingerprint, Arc::new(known));
        Ok(caller)
    }

    async fn said(&self, issuer: &Issuer, token: &str, shown_at: &Address) -> Result<Said, Fault> {
        let unreachable = |why: String| {
            Fault::new(
                FaultKind::Unavailable,
                "the keys of the token's issuer cannot be read now",
                "try again later; an operator finds the reason in the server's log",
            )
            .with_log(format!("{}: {why}", issuer.name))
        };
        let keys = self.keys_of(issuer, false).await.map_err(unreachable)?;
        let opened = match id_token::opened(token, &keys) {
            Err(Wrong::Signature) => {
                let keys = self.keys_of(issuer, true).await.map_err(unreachable)?;
                id_token::opened(token, &keys)
            }
            opened => opened,
        };
        let (head, claims) = opened.map_err(|wrong| match wrong {
            Wrong::Signature => refused("is signed by no key of its issuer"),
            Wrong::Other(what) => refused(what),
        })?;
        let said = checked(issuer, &head, claims, shown_at, self.clock.now()).map_err(refused)?;
        if let Some(scope) = &issuer.scope
            && !has_scope(&said.claims, scope)
        {
            let told = format!("the access token lacks the scope `{scope}`");
            let fault = Fault::new(FaultKind::Forbidden, told, "ask its issuer for a token with that scope");
            return Err(fault.with_details(json!({"insufficient_scope": scope})));
        }
        Ok(said)
    }

    async fn person_of(&self, issuer: &Issuer, said: &Said) -> Result<(TenantId, UserId), Fault> {
        let nobody = || refused("is for nobody who is known here");
        let snapshot = self.registry.snapshot();
        let tenant = snapshot.tenant_by_slug(issuer.tenant.as_str()).map_err(|_| nobody())?.tenant.id;
        let user = match &issuer.whom {
            Whom::Subject => {
                let account = self.store.identity(&issuer.name, &said.subject).await?.ok_or_else(nobody)?;
                let known = self.store.membership(tenant, account).await?;
                known.filter(|known| !known.disabled).ok_or_else(nobody)?.user
            }
            Whom::Claim(claim) => {
                let vouched = said.claims.get("email_verified") == Some(&Value::Bool(true));
                if claim == "email" && !vouched {
                    return Err(refused("has an address that its issuer does not vouch for (`email_verified`)"));
                }
                let named = said.claims.get(claim).and_then(Value::as_str);
                let named = named.filter(|name| (1..=TEXT_BYTES_MAX).contains(&name.len())).ok_or_else(nobody)?;
                let user = self.store.user(tenant, named).await?;
                // An id of ours is no name that somebody else gives.
                let user = user.filter(|user| !user.disabled && user.id.to_string() != named);
                user.ok_or_else(nobody)?.id
            }
        };
        Ok((tenant, user))
    }

    /// The row that stands for a client of a person at an issuer; made when it comes for the first time.
    async fn outside_row(
        &self,
        issuer: &Issuer,
        tenant: TenantId,
        user: UserId,
        said: &Said,
        root: &str,
    ) -> Result<KeyId, Fault> {
        let names = json!([issuer.name, said.subject, said.client, user]).to_string();
        let outside = Digest::of(format!("toolgate/outside/1\n{names}").as_bytes());
        // Another request may make it at the same time: then it is there.
        for _ in 0..2 {
            let known = self.store.outside_key(tenant, outside).await?;
            if known.revoked_at.is_some() && known.revoked_at >= said.issued_at {
                return Err(refused("was made before what it stands for was revoked here"));
            }
            if let Some(key) = known.key {
                return Ok(key);
            }
            let holder = self.store.user_holder(tenant, user).await?.ok_or_else(|| refused("is for nobody here"))?;
            let host = toolgate_egress::Url::parse(&issuer.name).ok();
            let host = host.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
            let name: String = said.client.chars().filter(char::is_ascii_graphic).take(60).collect();
            let client = OauthClient {
                name: if name.is_empty() { host.clone() } else { name },
                host,
                id: Digest::of(said.client.as_bytes()),
                issuer: Some(issuer.name.clone()),
            };
            let key = ApiKey {
                id: toolgate_contracts::Id::new(&self.clock, &self.rng),
                name: format!("{} {}", client.name, data_encoding::HEXLOWER.encode(&self.rng.bytes::<3>())),
                owner: user,
                owner_name: holder.user_name.clone(),
                agent: None,
                scopes: scopes_of(&holder.permissions, None),
                resource: Some(root.to_owned()),
                client: Some(client),
                created_at: self.clock.now(),
                expires_at: None,
                revoked_at: None,
                last_used_at: None,
            };
            let mut change = Change::new(tenant);
            // A hash of what nobody was told: no text opens this row.
            change.insert_outside_key(&key, Digest::from_bytes(self.rng.bytes::<32>()), outside);
            let details =
                json!({"id": key.id, "owner": user, "scopes": key.scopes, "issuer": issuer.name, "oauth": true});
            change.audit(&self.client_entry(tenant, user, "key.create", &key.name, details));
            match self.store.commit(change).await {
                Ok(_) => return Ok(key.id),
                Err(error) if error.is("api_keys_outside") || error.is("api_keys_name") => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Fault::internal("a row for another issuer's token is neither there nor can it be made"))
    }
}

fn refused(what: &str) -> Fault {
    Fault::new(
        FaultKind::Unauthenticated,
        format!("the access token {what}"),
        "get a new one from its issuer, made for this address (`resource`); or use a key (`toolgate key create`)",
    )
}

/// The claims of a token whose signature was checked.
fn checked(
    issuer: &Issuer,
    head: &Value,
    claims: Value,
    shown_at: &Address,
    now: Timestamp,
) -> Result<Said, &'static str> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let kind = head.get("typ").map(|kind| kind.as_str().unwrap_or_default().to_ascii_lowercase());
    // What is signed for another purpose says so.
    if kind.is_some_and(|kind| !matches!(kind.as_str(), "jwt" | "at+jwt" | "application/at+jwt")) {
        return Err("is of another kind (`typ`)");
    }
    if claims.get("nonce").is_some() || claims.get("at_hash").is_some() {
        return Err("is an ID token, which says who somebody is and not what may be used");
    }
    if claims.get("cnf").is_some() {
        return Err("holds with a proof alone (`cnf`), which is not asked for here");
    }
    if text("iss") != Some(issuer.name.as_str()) {
        return Err("is of another issuer");
    }
    let audience: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let for_us = |named: &&str| {
        let bare = named.strip_suffix('/').unwrap_or(named);
        shown_at.admits(bare) || issuer.audiences.iter().any(|known| known == named)
    };
    if !audience.iter().any(for_us) {
        return Err("is for another audience");
    }
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_i64().filter(|at| (0..1 << 40).contains(at)).map(Some).ok_or("has a time that is none"),
    };
    let seconds = now.millis().div_euclid(1000);
    let expires = time("exp")?.ok_or("has no `exp`")?;
    if expires <= seconds - SKEW_S || time("nbf")?.is_some_and(|from| from > seconds + SKEW_S) {
        return Err("has run out, or does not hold yet");
    }
    let issued = time("iat")?;
    if issued.is_some_and(|issued| issued > seconds + SKEW_S) {
        return Err("was made in the future");
    }
    let fitting = |text: &&str| (1..=TEXT_BYTES_MAX).contains(&text.len());
    let subject = text("sub").filter(fitting).ok_or("does not say whom it is about (`sub`)")?.to_owned();
    let client = text("client_id").or_else(|| text("azp")).filter(fitting).unwrap_or_default().to_owned();
    let moment = |seconds: i64| Timestamp::from_millis(seconds * 1000);
    Ok(Said { subject, client, issued_at: issued.map(moment), expires_at: moment(expires + SKEW_S), claims })
}

/// A scope among those that a token has: a text with spaces (`scope`), or a list or text (`scp`).
fn has_scope(claims: &Value, wanted: &str) -> bool {
    let among = |value: &Value| match value {
        Value::String(text) => text.split(' ').any(|scope| scope == wanted),
        Value::Array(several) => several.iter().any(|scope| scope == wanted),
        _ => false,
    };
    ["scope", "scp"].iter().filter_map(|name| claims.get(name)).any(among)
}
