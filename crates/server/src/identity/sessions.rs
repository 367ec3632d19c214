//! Sessions that are there: which they are, ending them, proving once more who one is, and one's own password.

use serde_json::json;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{Caller, Fault, FaultKind, Permission, SessionId, TenantId, Timestamp, UserId};
use toolgate_store::Change;
use toolgate_store::sign_in::{Candidate, How, SessionView};

use super::{Begun, Whence, passwords, require_grantable};
use crate::app::App;
use crate::seal;

/// How long a proof of who one is counts as fresh.
pub const FRESH_S: i64 = 5 * 60;

/// What somebody can prove who they are with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    Password,
    Oidc,
}

impl App {
    pub(super) async fn ways_to_prove(&self, person: &Candidate) -> Result<Vec<Proof>, Fault> {
        let mut ways = Vec::new();
        if person.password_hash.is_some() && self.has_passwords() {
            ways.push(Proof::Password);
        }
        if let Some(oidc) = &self.oidc
            && oidc.takes(&person.tenant_slug)
            && self.store.has_identity(oidc.issuer(), person.account).await?
        {
            ways.push(Proof::Oidc);
        }
        Ok(ways)
    }

    /// What the person behind a session may prove themselves with.
    pub async fn proofs_of(&self, caller: &Caller) -> Result<Vec<Proof>, Fault> {
        let person = self.person_behind(caller).await?;
        self.ways_to_prove(&person).await
    }

    /// Refuses a browser session whose owner proved long ago who they are, and could again. Keys and tokens are proofs
    /// of their own; who has neither password nor provider has nothing to prove it with.
    pub async fn require_fresh(&self, caller: &Caller) -> Result<(), Fault> {
        let Credential::BrowserSession(session) = caller.credential else { return Ok(()) };
        let proved = self.store.session_proved(caller.tenant, session).await?;
        let now = self.clock.now();
        if proved.is_some_and(|proved| now <= proved.plus_seconds(FRESH_S)) || self.proofs_of(caller).await?.is_empty()
        {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::Forbidden,
            "this needs a sign-in of the last five minutes",
            "confirm with your password or your provider, and send it again",
        )
        .with_details(json!({"step_up": true})))
    }

    /// A person's sessions in force. The owner of the data folder has none.
    pub async fn sessions(&self, caller: &Caller, name: Option<&str>) -> Result<Vec<SessionView>, Fault> {
        if name.is_none() && caller.credential == Credential::LocalFolder {
            return Ok(Vec::new());
        }
        let user = self.whose_sessions(caller, name).await?;
        let now = self.clock.now();
        let idle = i64::from(self.config.number("session_idle_minutes")) * 60;
        Ok(self.store.sessions_of(caller.tenant, user, Some((now, now.plus_seconds(-idle)))).await?)
    }

    /// Ends one of one's own sessions, or of a named person's.
    pub async fn end_session(&self, caller: &Caller, name: Option<&str>, session: SessionId) -> Result<(), Fault> {
        let user = self.whose_sessions(caller, name).await?;
        let mut change = Change::new(caller.tenant);
        change.end_own_session(user, session, self.clock.now());
        let details = json!({"session": session, "user": user});
        change.audit(&self.entry(caller, caller.tenant, "session.end", &session.to_string(), details));
        self.store.commit(change).await?;
        self.forget_callers();
        Ok(())
    }

    /// Ends all sessions of oneself, or of a named person.
    pub async fn end_sessions(&self, caller: &Caller, name: Option<&str>) -> Result<(), Fault> {
        let user = self.whose_sessions(caller, name).await?;
        let mut change = Change::new(caller.tenant);
        change.end_sessions(user, None, self.clock.now());
        let object = name.unwrap_or(&caller.display_name);
        change.audit(&self.entry(caller, caller.tenant, "session.end_all", object, json!({"user": user})));
        self.store.commit(change).await?;
        self.forget_callers();
        Ok(())
    }

    async fn whose_sessions(&self, caller: &Caller, name: Option<&str>) -> Result<UserId, Fault> {
        let Some(name) = name else {
            return own_user(caller);
        };
        caller.require(&Permission::MEMBERS_MANAGE)?;
        let user = self.store.user(caller.tenant, name).await?.ok_or_else(|| Fault::not_found("user", name))?;
        require_grantable(caller, &user.roles)?;
        Ok(user.id)
    }

    pub async fn sign_out(&self, caller: &Caller) -> Result<(), Fault> {
        let Credential::BrowserSession(session) = caller.credential else {
            return Err(Fault::invalid(
                "only a browser session can be signed out",
                "revoke a key with `toolgate key revoke`",
            ));
        };
        let mut change = Change::new(caller.tenant);
        change.revoke_session(session, self.clock.now());
        change.audit(&self.entry(caller, caller.tenant, "user.sign_out", &caller.display_name, json!({})));
        self.store.commit(change).await?;
        self.forget_callers();
        Ok(())
    }

    /// Proves with the password who one is; the session goes on under a new secret.
    pub async fn step_up(&self, caller: &Caller, password: &str, whence: &Whence) -> Result<Begun, Fault> {
        let (session, person) = self.session_and_person(caller).await?;
        self.require_passwords()?;
        if person.password_hash.is_none() {
            return Err(Fault::conflict(
                "you have no password to confirm with",
                "confirm with your provider, or sign in by a new link",
            ));
        }
        self.require_password(&person, password, whence, "/password").await?;
        self.renewed(caller, session, "password", self.clock.now()).await
    }

    /// Gives a session a new secret after its owner proved who they are, at `proved_at`: it is fresh from then on, not
    /// from now, so that a provider's word lasts no longer than a password's.
    pub(super) async fn renewed(
        &self,
        caller: &Caller,
        session: SessionId,
        by: &str,
        proved_at: Timestamp,
    ) -> Result<Begun, Fault> {
        let (token, hash) = seal::token(&self.rng);
        let mut change = Change::new(caller.tenant);
        change.renew_session(session, hash, proved_at, ended());
        change.audit(&self.entry(caller, caller.tenant, "user.step_up", &caller.display_name, json!({"by": by})));
        self.store.commit(change).await?;
        let expires_at = self.store.session_ends(caller.tenant, session).await?.ok_or_else(ended)?;
        Ok(Begun { token, expires_at })
    }

    /// Changes one's own password. The other sessions end; this one goes on under a new secret.
    pub async fn change_password(
        &self,
        caller: &Caller,
        present: Option<&str>,
        password: &str,
        whence: &Whence,
    ) -> Result<Begun, Fault> {
        let (session, person) = self.session_and_person(caller).await?;
        self.require_passwords()?;
        if person.password_hash.is_some() {
            let present = present.ok_or_else(|| {
                Fault::invalid("the present password is missing", "send it as `present`").at("/present")
            })?;
            self.require_password(&person, present, whence, "/present").await?;
        } else {
            // A first password is a lasting way in: who could prove otherwise who they are does so first.
            self.require_fresh(caller).await?;
        }
        passwords::check(password, &person.name, person.email.as_deref())?;
        let kept = self.hashed(password).await?;
        let (token, hash) = seal::token(&self.rng);
        let now = self.clock.now();
        let mut change = Change::new(caller.tenant);
        change.set_password(person.user, &kept);
        change.end_sessions(person.user, Some(session), now);
        change.spend_links_of(person.user, now);
        change.renew_session(session, hash, now, ended());
        change.audit(&self.entry(caller, caller.tenant, "user.password", &person.name, json!({})));
        self.store.commit(change).await?;
        self.forget_callers();
        let expires_at = self.store.session_ends(caller.tenant, session).await?.ok_or_else(ended)?;
        Ok(Begun { token, expires_at })
    }

    async fn require_password(
        &self,
        person: &Candidate,
        password: &str,
        whence: &Whence,
        pointer: &str,
    ) -> Result<(), Fault> {
        let attempt = self.count_attempt(&format!("confirm\n{}", person.user), whence).await?;
        if self.fits(password, person.password_hash.clone()).await? {
            return self.attempt_was_right(attempt).await;
        }
        Err(Fault::new(FaultKind::Unauthenticated, "the password is not right", "check it and try again").at(pointer))
    }

    /// Moves a session to another tenant of the same person. Only a provider says who somebody is in every tenant; a
    /// password or a link was made in one of them, and opens that one alone.
    pub async fn change_tenant(&self, caller: &Caller, slug: &str, whence: &Whence) -> Result<Begun, Fault> {
        let (session, person) = self.session_and_person(caller).await?;
        if slug == caller.tenant_slug.as_str() {
            return Err(Fault::conflict("this is the tenant you are in", "go on as you are"));
        }
        let places = self.tenants_of(caller, &person).await?;
        let unknown = || Fault::not_found("tenant", slug);
        let (tenant, _, _, user) =
            places.into_iter().find(|(_, known, ..)| known.as_str() == slug).ok_or_else(unknown)?;
        let expires_at = self.store.session_ends(caller.tenant, session).await?.ok_or_else(ended)?;
        let there = self.store.candidate_by_id(tenant, user).await?.ok_or_else(unknown)?;
        let mut change = Change::new(tenant);
        // The session it goes on from is ended in the same change. Not fresh: nobody proved anything just now.
        let whence = Whence { present: Some(caller.clone()), ..whence.clone() };
        let begun = self.begin_session_until(&mut change, (user, How::Oidc), &whence, None, expires_at);
        self.note_sign_in(&mut change, &there, How::Oidc);
        self.store.commit(change).await?;
        self.forget_callers();
        Ok(begun)
    }

    /// Where a session may go: its own tenant, and after a provider's word the others of the same person.
    pub async fn tenants_of_session(
        &self,
        caller: &Caller,
        how: How,
    ) -> Result<Vec<(toolgate_contracts::Slug, String)>, Fault> {
        let person = self.person_behind(caller).await?;
        let places = if how == How::Oidc { self.places_by_provider(person.account).await? } else { Vec::new() };
        let mut shown: Vec<_> = places.into_iter().map(|(_, slug, name, _)| (slug, name)).collect();
        if shown.is_empty() {
            let snapshot = self.registry.snapshot();
            let tenant = &snapshot.tenant(caller.tenant)?.tenant;
            shown.push((tenant.slug.clone(), tenant.name.clone()));
        }
        Ok(shown)
    }

    async fn tenants_of(
        &self,
        caller: &Caller,
        person: &Candidate,
    ) -> Result<Vec<(TenantId, toolgate_contracts::Slug, String, UserId)>, Fault> {
        let Credential::BrowserSession(session) = caller.credential else { return Ok(Vec::new()) };
        let now = self.clock.now();
        let own = self.store.sessions_of(caller.tenant, person.user, Some((now, Timestamp::from_millis(0)))).await?;
        let by_provider = own.iter().any(|view| view.id == session && view.how == How::Oidc);
        if by_provider { self.places_by_provider(person.account).await } else { Ok(Vec::new()) }
    }

    async fn session_and_person(&self, caller: &Caller) -> Result<(SessionId, Candidate), Fault> {
        let Credential::BrowserSession(session) = caller.credential else {
            return Err(Fault::new(
                FaultKind::Forbidden,
                "only somebody who is signed in in a browser does this",
                "sign in in a browser; whoever has no way in gets one with `toolgate user reset NAME`",
            ));
        };
        Ok((session, self.person_behind(caller).await?))
    }

    async fn person_behind(&self, caller: &Caller) -> Result<Candidate, Fault> {
        self.store.candidate_by_id(caller.tenant, own_user(caller)?).await?.ok_or_else(ended)
    }
}

/// Who asks about themselves: at a browser, or by a key that may do with keys what its owner may. No agent does.
fn own_user(caller: &Caller) -> Result<UserId, Fault> {
    let by_key = matches!(caller.credential, Credential::ApiKey(_)) && caller.agent.is_none();
    if by_key {
        caller.require(&Permission::KEYS_OWN)?;
    } else if !matches!(caller.credential, Credential::BrowserSession(_) | Credential::LocalFolder) {
        return Err(Fault::new(
            FaultKind::Forbidden,
            "sessions are people's",
            "sign in in a browser, or use a key of your own",
        ));
    }
    caller.user().ok_or_else(|| {
        Fault::conflict("the owner of the data folder has no sessions", "name a user, as in `--user NAME`")
    })
}

fn ended() -> Fault {
    Fault::new(FaultKind::Unauthenticated, "the session has ended", "sign in again")
}
