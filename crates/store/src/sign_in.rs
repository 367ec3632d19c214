//! Ways to sign in: passwords, identities at a provider, one-time links, the sessions that come of them,
//! and how long whoever guesses must wait.
//!
//! INVARIANT: links and sessions are kept as hashes; a password only as what its hash function wrote.
//! Deliberately absent: judging a password. That takes long and is no matter of the database.

use serde::{Deserialize, Serialize};
use toolgate_contracts::{
    AccountId, Digest, Fault, FaultKind, LoginName, SessionId, Slug, TenantId, Timestamp, UserId,
};
use utoipa::ToSchema;

use crate::change::{Change, Durability, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store};

const BEFORE_TENANT: Scope = Scope::Everyone("who signs in has not said in which tenant");

/// How a browser session began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum How {
    Link,
    Password,
    Oidc,
    Invitation,
}

impl How {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Password => "password",
            Self::Oidc => "oidc",
            Self::Invitation => "invitation",
        }
    }
}

impl std::str::FromStr for How {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Link, Self::Password, Self::Oidc, Self::Invitation]
            .into_iter()
            .find(|how| how.as_str() == text)
            .ok_or(())
    }
}

/// A session as it begins.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub id: SessionId,
    pub user: UserId,
    pub token_hash: Digest,
    pub how: How,
    pub address: Option<String>,
    pub user_agent: Option<String>,
    pub at: Timestamp,
    pub expires_at: Timestamp,
    /// Absent where the way in proves nothing for what wants a fresh sign-in.
    pub proved_at: Option<Timestamp>,
}

/// A session in a list: what its owner recognises it by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    pub id: SessionId,
    pub how: How,
    pub began_at: Timestamp,
    pub seen_at: Timestamp,
    pub ends_at: Timestamp,
    /// Where it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What the browser called itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// Somebody who may sign in.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub tenant: TenantId,
    pub tenant_slug: Slug,
    pub user: UserId,
    pub name: String,
    pub email: Option<String>,
    pub account: AccountId,
    pub password_hash: Option<String>,
}

/// A membership of a person who is known by a provider's word.
#[derive(Clone, Debug)]
pub struct Known {
    pub user: UserId,
    pub name: String,
    pub disabled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPurpose {
    SignIn,
    Reset,
}

impl LinkPurpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::SignIn => "sign_in",
            Self::Reset => "reset",
        }
    }

    /// What whoever shows a link is told that is not, or no longer, one.
    pub fn spent(self) -> Fault {
        let (told, remedy) = match self {
            Self::SignIn => (
                "this sign-in link was used already or is too old",
                "make a new one with `toolgate user sign-in-link NAME`",
            ),
            Self::Reset => (
                "this link was used already or is too old",
                "ask for a new one on the sign-in page, or of an administrator",
            ),
        };
        Fault::new(FaultKind::Unauthenticated, told, remedy)
    }
}

/// How delays grow: so many failures are free, then each doubles the wait up to a bound.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    pub key: Digest,
    pub free: u32,
    pub most_ms: i64,
}

/// After this long without a failure all is forgotten.
const FAILURES_FORGOTTEN_S: i64 = 3600;

impl Change {
    pub fn insert_session(&mut self, session: NewSession) -> &mut Self {
        let NewSession { id, user, token_hash, how, address, user_agent, at, expires_at, proved_at } = session;
        self.then(
            "INSERT INTO browser_sessions (tenant_id, id, user_id, token_hash, how, address, user_agent, created_at, last_seen_at, expires_at, proved_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $10)",
            [
                id.into(),
                user.into(),
                token_hash.into(),
                how.as_str().into(),
                address.into(),
                user_agent.into(),
                at.into(),
                expires_at.into(),
                proved_at.into(),
            ],
        )
    }

    /// A proof of who one is gives the session a new token: what was known of the old one is worth nothing.
    pub fn renew_session(
        &mut self,
        session: SessionId,
        token_hash: Digest,
        proved_at: Timestamp,
        ended: Fault,
    ) -> &mut Self {
        self.expecting(
            Expect::Rows(1, ended),
            "UPDATE browser_sessions SET token_hash = $3, proved_at = $4 WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL",
            [session.into(), token_hash.into(), proved_at.into()],
        )
    }

    /// Ends a user's sessions, all but one perhaps, with the tokens that were minted in them.
    pub fn end_sessions(&mut self, user: UserId, but: Option<SessionId>, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE tokens SET revoked_at = $3, revoked_by = 'session' WHERE tenant_id = $1 AND revoked_at IS NULL AND session_id IN
                (SELECT id FROM browser_sessions WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL AND ($4 OR id <> $5))",
            [user.into(), at.into(), but.is_none().into(), but.into()],
        );
        self.then(
            "UPDATE browser_sessions SET revoked_at = $3 WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL AND ($4 OR id <> $5)",
            [user.into(), at.into(), but.is_none().into(), but.into()],
        )
    }

    /// Ends one session of a user, if it is theirs and in force.
    pub fn end_own_session(&mut self, user: UserId, session: SessionId, at: Timestamp) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("session", session)),
            "UPDATE browser_sessions SET revoked_at = $4 WHERE tenant_id = $1 AND user_id = $2 AND id = $3 AND revoked_at IS NULL",
            [user.into(), session.into(), at.into()],
        );
        self.revoke_tokens_of_session(session, at)
    }

    /// Forgets where a person's sessions came from.
    pub fn forget_session_places(&mut self, user: UserId) -> &mut Self {
        self.then(
            "UPDATE browser_sessions SET address = NULL, user_agent = NULL WHERE tenant_id = $1 AND user_id = $2",
            [user.into()],
        )
    }

    pub fn set_password(&mut self, user: UserId, hash: &str) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("user", user)),
            "UPDATE users SET password_hash = $3 WHERE tenant_id = $1 AND id = $2 AND disabled_at IS NULL AND kind = 'person'",
            [user.into(), hash.into()],
        )
    }

    /// Goes on only while the password is the one that was compared.
    pub fn hold_password(&mut self, user: UserId, hash: &str, changed: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, changed),
            "UPDATE users SET password_hash = password_hash WHERE tenant_id = $1 AND id = $2 AND password_hash = $3 AND disabled_at IS NULL",
            [user.into(), hash.into()],
        )
    }

    pub fn insert_identity(&mut self, issuer: &str, subject: &str, account: AccountId, at: Timestamp) -> &mut Self {
        self.then(
            "/* no tenant: identities are people's, in whatever tenants */
             INSERT INTO identities (issuer, subject, account_id, created_at) VALUES ($1, $2, $3, $4)",
            [issuer.into(), subject.into(), account.into(), at.into()],
        )
    }

    /// The address that a provider vouches for, as of this sign-in.
    pub fn set_vouched_for(&mut self, issuer: &str, subject: &str, email: Option<&str>) -> &mut Self {
        self.then(
            "/* no tenant: identities are people's, in whatever tenants */
             UPDATE identities SET email = $3 WHERE issuer = $1 AND subject = $2",
            [issuer.into(), subject.into(), email.map(LoginName::of).as_ref().map(LoginName::as_str).into()],
        )
    }

    pub fn insert_link(
        &mut self,
        purpose: LinkPurpose,
        token_hash: Digest,
        user: UserId,
        at: Timestamp,
        expires_at: Timestamp,
    ) -> &mut Self {
        self.then(
            "INSERT INTO sign_in_links (tenant_id, token_hash, user_id, purpose, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
            [token_hash.into(), user.into(), purpose.as_str().into(), at.into(), expires_at.into()],
        )
    }

    /// Spends a link: once, and not after its time. What it is for is done in the same change.
    pub fn spend_link(&mut self, purpose: LinkPurpose, token_hash: Digest, at: Timestamp) -> &mut Self {
        self.expecting(
            Expect::Rows(1, purpose.spent()),
            "UPDATE sign_in_links SET used_at = $3 WHERE tenant_id = $1 AND token_hash = $2 AND purpose = $4 AND used_at IS NULL AND expires_at > $3",
            [token_hash.into(), at.into(), purpose.as_str().into()],
        )
    }

    /// Spends every open link of a user: whoever was sent one before a new password keeps nothing.
    pub fn spend_links_of(&mut self, user: UserId, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE sign_in_links SET used_at = $3 WHERE tenant_id = $1 AND user_id = $2 AND used_at IS NULL",
            [user.into(), at.into()],
        )
    }
}

/// Memberships of one address that are asked when no tenant was named.
pub const PLACES_MAX: usize = 3;

const CANDIDATE: &str = "SELECT u.tenant_id, t.slug, u.id, u.name, u.email, u.account_id, u.password_hash
     FROM users u JOIN tenants t ON t.id = u.tenant_id
     WHERE u.kind = 'person' AND u.disabled_at IS NULL";

fn candidate(row: &Row) -> Result<Candidate, Error> {
    Ok(Candidate {
        tenant: row.get(0)?,
        tenant_slug: row.parse(1)?,
        user: row.get(2)?,
        name: row.get(3)?,
        email: row.get(4)?,
        account: row.get(5)?,
        password_hash: row.get(6)?,
    })
}

impl Store {
    /// Who may be meant by an e-mail address, or by a name in a tenant; at most one in each tenant, and none of them
    /// before the others. In a tenant an address goes before a name, so that nobody takes another's place by calling
    /// themselves so; without a tenant, a name is one of the tenant `first`.
    pub async fn candidates(
        &self,
        login: &LoginName,
        tenant: Option<&str>,
        first: &str,
    ) -> Result<Vec<Candidate>, Error> {
        let sql = format!(
            "{CANDIDATE} AND u.email = $1 AND (t.slug = $2 OR $3)
             ORDER BY CASE WHEN u.password_hash IS NULL THEN 1 ELSE 0 END, CASE WHEN t.slug = $2 THEN 0 ELSE 1 END, t.slug
             LIMIT {PLACES_MAX}"
        );
        let slug = tenant.unwrap_or(first);
        let values = vec![login.as_str().into(), slug.into(), tenant.is_none().into()];
        let rows = self.query(&BEFORE_TENANT, &sql, values).await?;
        let mut found: Vec<Candidate> = rows.iter().map(candidate).collect::<Result<_, _>>()?;
        let sql = format!("{CANDIDATE} AND t.slug = $1 AND u.login = $2");
        let rows = self.query(&BEFORE_TENANT, &sql, vec![slug.into(), login.as_str().into()]).await?;
        let named = rows.first().map(candidate).transpose()?;
        found.extend(named.filter(|named| found.iter().all(|other| other.tenant != named.tenant)));
        Ok(found)
    }

    /// A person in force, with what they sign in with.
    pub async fn candidate_by_id(&self, tenant: TenantId, user: UserId) -> Result<Option<Candidate>, Error> {
        let sql = format!("{CANDIDATE} AND u.tenant_id = $1 AND u.id = $2");
        let rows = self.query(&BEFORE_TENANT, &sql, vec![tenant.into(), user.into()]).await?;
        rows.first().map(candidate).transpose()
    }

    /// Whose a provider's word is.
    pub async fn identity(&self, issuer: &str, subject: &str) -> Result<Option<AccountId>, Error> {
        let sql = "SELECT account_id FROM identities WHERE issuer = $1 AND subject = $2";
        let rows = self.query(&BEFORE_TENANT, sql, vec![issuer.into(), subject.into()]).await?;
        rows.first().map(|row| row.get(0)).transpose()
    }

    /// Whether a provider knows this person.
    pub async fn has_identity(&self, issuer: &str, account: AccountId) -> Result<bool, Error> {
        let sql = "SELECT 1 FROM identities WHERE issuer = $1 AND account_id = $2";
        Ok(!self.query(&BEFORE_TENANT, sql, vec![issuer.into(), account.into()]).await?.is_empty())
    }

    pub async fn membership(&self, tenant: TenantId, account: AccountId) -> Result<Option<Known>, Error> {
        let sql = "SELECT id, name, disabled_at FROM users WHERE tenant_id = $1 AND account_id = $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![account.into()]).await?;
        let known = |row: &Row| {
            Ok(Known { user: row.get(0)?, name: row.get(1)?, disabled: row.get::<Option<i64>>(2)?.is_some() })
        };
        rows.first().map(known).transpose()
    }

    /// Where a person is a member and in force: tenant, short name and name, and who they are there.
    pub async fn memberships(&self, account: AccountId) -> Result<Vec<(TenantId, Slug, String, UserId)>, Error> {
        let sql = "SELECT t.id, t.slug, t.name, u.id FROM users u JOIN tenants t ON t.id = u.tenant_id
             WHERE u.account_id = $1 AND u.disabled_at IS NULL ORDER BY t.slug";
        let rows = self.query(&BEFORE_TENANT, sql, vec![account.into()]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.parse(1)?, row.get(2)?, row.get(3)?))).collect()
    }

    /// A user's sessions, newest first: those that are neither ended, nor run out, nor idle since `idle_since`; or all.
    pub async fn sessions_of(
        &self,
        tenant: TenantId,
        user: UserId,
        in_force: Option<(Timestamp, Timestamp)>,
    ) -> Result<Vec<SessionView>, Error> {
        let sql = "SELECT id, how, created_at, last_seen_at, expires_at, address, user_agent FROM browser_sessions
             WHERE tenant_id = $1 AND user_id = $2 AND ($3 OR (revoked_at IS NULL AND expires_at > $4 AND last_seen_at > $5))
             ORDER BY created_at DESC, id DESC LIMIT 500";
        let (now, idle_since) = in_force.unzip();
        let values = vec![user.into(), in_force.is_none().into(), now.into(), idle_since.into()];
        let rows = self.query(&Scope::Tenant(tenant), sql, values).await?;
        let view = |row: &Row| {
            Ok(SessionView {
                id: row.get(0)?,
                how: row.parse(1)?,
                began_at: row.get(2)?,
                seen_at: row.get(3)?,
                ends_at: row.get(4)?,
                address: row.get(5)?,
                agent: row.get(6)?,
            })
        };
        rows.iter().map(view).collect()
    }

    /// Whose link it is; whether it still works is decided when it is spent.
    pub async fn link_owner(
        &self,
        purpose: LinkPurpose,
        token_hash: Digest,
        now: Timestamp,
    ) -> Result<Option<Candidate>, Error> {
        Ok(self.link_shown(purpose, token_hash, now).await?.map(|(owner, _)| owner))
    }

    /// Whose link it is and until when.
    pub async fn link_shown(
        &self,
        purpose: LinkPurpose,
        token_hash: Digest,
        now: Timestamp,
    ) -> Result<Option<(Candidate, Timestamp)>, Error> {
        let sql = "SELECT tenant_id, user_id, expires_at FROM sign_in_links
             WHERE token_hash = $1 AND purpose = $2 AND used_at IS NULL AND expires_at > $3";
        let values = vec![token_hash.into(), purpose.as_str().into(), now.into()];
        let rows = self.query(&BEFORE_TENANT, sql, values).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let expires_at = row.get(2)?;
        Ok(self.candidate_by_id(row.get(0)?, row.get(1)?).await?.map(|owner| (owner, expires_at)))
    }

    /// Counts an attempt against each key before it is made, so that many at once count as many. The answer says how
    /// many milliseconds to wait where it is too early; then nothing was counted.
    pub async fn attempt(&self, delays: &[Delay], now: Timestamp) -> Result<Option<i64>, Error> {
        if delays.is_empty() {
            return Ok(None);
        }
        let too_early = || Fault::new(FaultKind::RateLimited, "too early", "wait");
        let mut change = Change::new(TenantId::SYSTEM).durability(Durability::Process);
        change.then(
            "/* no tenant: whoever guesses has none */ DELETE FROM sign_in_delays WHERE last_at < $1",
            [now.plus_seconds(-FAILURES_FORGOTTEN_S).into()],
        );
        for Delay { key, free, most_ms } in delays {
            change.expecting(
                Expect::Rows(1, too_early()),
                "/* no tenant: whoever guesses has none */
                 INSERT INTO sign_in_delays (key, failures, wait_ms, next_at, last_at) VALUES ($1, 1, 0, $2, $2)
                 ON CONFLICT (key) DO UPDATE SET failures = sign_in_delays.failures + 1,
                    wait_ms = CASE WHEN sign_in_delays.failures + 1 < $3 THEN 0 WHEN sign_in_delays.wait_ms = 0 THEN 1000
                        WHEN sign_in_delays.wait_ms * 2 > $4 THEN $4 ELSE sign_in_delays.wait_ms * 2 END,
                    next_at = $2 + CASE WHEN sign_in_delays.failures + 1 < $3 THEN 0 WHEN sign_in_delays.wait_ms = 0 THEN 1000
                        WHEN sign_in_delays.wait_ms * 2 > $4 THEN $4 ELSE sign_in_delays.wait_ms * 2 END,
                    last_at = $2
                 WHERE sign_in_delays.next_at <= $2",
                [(*key).into(), now.into(), (*free).into(), (*most_ms).into()],
            );
        }
        match self.commit(change).await {
            Ok(_) => Ok(None),
            Err(Error::Unmet(fault)) if fault.kind() == FaultKind::RateLimited => {
                let mut wait = 1;
                for delay in delays {
                    let sql = "SELECT next_at FROM sign_in_delays WHERE key = $1";
                    let rows = self.query(&BEFORE_TENANT, sql, vec![delay.key.into()]).await?;
                    if let Some(row) = rows.first() {
                        wait = wait.max(row.get::<Timestamp>(0)?.millis() - now.millis());
                    }
                }
                Ok(Some(wait))
            }
            Err(error) => Err(error),
        }
    }

    /// Takes back so many of what a network counted, which were right after all.
    pub async fn network_was_right(&self, network: Digest, times: u32) -> Result<(), Error> {
        let mut change = Change::new(TenantId::SYSTEM).durability(Durability::Process);
        change.then(
            "/* no tenant: whoever guesses has none */
             UPDATE sign_in_delays SET failures = CASE WHEN failures < $2 THEN 0 ELSE failures - $2 END,
                wait_ms = wait_ms / 2, next_at = last_at WHERE key = $1",
            [network.into(), times.into()],
        );
        self.commit(change).await.map(drop)
    }

    /// Takes back what an attempt counted that was right after all: of a person everything, of a network that one.
    pub async fn attempt_was_right(&self, person: Digest, network: Option<Digest>) -> Result<(), Error> {
        let mut change = Change::new(TenantId::SYSTEM).durability(Durability::Process);
        change.then(
            "/* no tenant: whoever guesses has none */ DELETE FROM sign_in_delays WHERE key = $1",
            [person.into()],
        );
        if let Some(network) = network {
            change.then(
                "/* no tenant: whoever guesses has none */
                 UPDATE sign_in_delays SET failures = failures - 1, wait_ms = wait_ms / 2, next_at = last_at WHERE key = $1 AND failures > 0",
                [network.into()],
            );
        }
        self.commit(change).await.map(drop)
    }
}
