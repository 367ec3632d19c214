//! Signing in by a one-time link or a password, and the attempts that are counted while somebody guesses.
//!
//! Deliberately absent: locking anybody out. Whoever guesses waits longer and longer; whose password it is never more
//! than [`PERSON_MS_MAX`].

use std::net::IpAddr;

use serde_json::json;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{
    Caller, Digest, Fault, FaultKind, LoginName, Permission, Principal, SessionId, Timestamp, UserId,
};
use toolgate_store::Change;
use toolgate_store::audit::Entry;
use toolgate_store::people::UserKind;
use toolgate_store::sign_in::{Candidate, Delay, How, LinkPurpose, NewSession};

use super::require_grantable;
use crate::app::{App, FIRST_TENANT};
use crate::seal;

pub const LINK_MINUTES: i64 = 10;
const LOGIN_CHARS_MAX: usize = 254;
const USER_AGENT_CHARS_MAX: usize = 200;

/// Wrong passwords for one person before anybody waits, and how long at most.
const PERSON_FREE: u32 = 5;
const PERSON_MS_MAX: i64 = 60_000;
/// The same for a network, behind which there may be many people.
const NETWORK_FREE: u32 = 25;
const NETWORK_MS_MAX: i64 = 15 * 60_000;

/// Where a request comes from, as far as that is known.
#[derive(Clone, Debug, Default)]
pub struct Whence {
    pub address: Option<IpAddr>,
    pub user_agent: Option<String>,
    /// Who was signed in in this browser until now: a new session takes the place of theirs.
    pub present: Option<Caller>,
}

impl Whence {
    /// What is counted together: an IPv4 address, or the network that one IPv6 subscriber has.
    pub(super) fn network(&self) -> Option<String> {
        self.address.map(|address| match address.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
        })
    }

    fn shown_agent(&self) -> Option<String> {
        let agent = self.user_agent.as_deref()?;
        Some(agent.chars().filter(|c| !c.is_control()).take(USER_AGENT_CHARS_MAX).collect())
    }
}

/// The secret of a new session, and when it ends at the latest.
pub struct Begun {
    pub token: String,
    pub expires_at: Timestamp,
}

/// An attempt that was counted as wrong before anybody knows.
pub(super) struct Attempt {
    person: Digest,
    network: Option<Digest>,
}

impl App {
    /// A link that signs one user in, once. The token goes into the fragment, which no server and no log sees.
    pub async fn create_link(&self, caller: &Caller, name: &str) -> Result<(String, Timestamp), Fault> {
        let user = self.person_to_let_in(caller, name).await?;
        let now = self.clock.now();
        let expires_at = now.plus_seconds(LINK_MINUTES * 60);
        let (token, hash) = seal::token(&self.rng);
        let mut change = Change::new(caller.tenant);
        change.insert_link(LinkPurpose::SignIn, hash, user.id, now, expires_at);
        change.audit(&self.entry(
            caller,
            caller.tenant,
            "user.sign_in_link",
            &user.name,
            json!({"expires_at": expires_at}),
        ));
        self.store.commit(change).await?;
        Ok((token, expires_at))
    }

    /// A person in force, whose rights the caller has too.
    pub(super) async fn person_to_let_in(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<toolgate_store::people::User, Fault> {
        caller.require(&Permission::MEMBERS_MANAGE)?;
        let user = self.store.user(caller.tenant, name).await?.ok_or_else(|| Fault::not_found("user", name))?;
        if user.kind == UserKind::Service || user.disabled {
            let what = if user.disabled { "is disabled" } else { "is a service and does not sign in" };
            return Err(Fault::conflict(
                format!("`{}` {what}", user.name),
                "services use keys; enable a person with `toolgate user set NAME --enable`",
            ));
        }
        require_grantable(caller, &user.roles)?;
        Ok(user)
    }

    /// Whom a link signs in, and until when. Nothing is spent: whatever opens links before people do asks no more.
    pub async fn link_shown(&self, token: &str) -> Result<(Candidate, Timestamp), Fault> {
        let shown = self.store.link_shown(LinkPurpose::SignIn, seal::token_hash(token), self.clock.now()).await?;
        shown.ok_or_else(|| LinkPurpose::SignIn.spent())
    }

    /// Spends a link for a session.
    pub async fn sign_in_by_link(&self, token: &str, whence: &Whence) -> Result<Begun, Fault> {
        let hash = seal::token_hash(token);
        let (owner, _) = self.link_shown(token).await?;
        let now = self.clock.now();
        let mut change = Change::new(owner.tenant);
        change.spend_link(LinkPurpose::SignIn, hash, now);
        // Whoever has a password or a provider proves who they are by that; to others a link is all there is.
        let proves = self.ways_to_prove(&owner).await?.is_empty();
        let begun = self.begin_session(&mut change, owner.user, How::Link, whence, proves.then_some(now));
        self.note_sign_in(&mut change, &owner, How::Link);
        self.store.commit(change).await?;
        Ok(begun)
    }

    /// Signs in with a name or an e-mail address and a password.
    pub async fn sign_in_by_password(
        &self,
        login: &str,
        tenant: Option<&str>,
        password: &str,
        whence: &Whence,
    ) -> Result<Begun, Fault> {
        self.require_passwords()?;
        let login = LoginName::of(login);
        if login.as_str().chars().count() > LOGIN_CHARS_MAX {
            return Err(not_right());
        }
        let attempt = self.count_attempt(&meant(&login, tenant), whence).await?;
        let Some(person) = self.whose_password(&login, tenant, password).await? else {
            // What was typed as a name may be a password.
            tracing::info!(network = whence.network(), "a sign-in with a password was refused");
            return Err(not_right());
        };
        if tenant.is_none() && login.as_str().contains('@') {
            // The address may be another's too, elsewhere: being right here forgives nothing that was tried there.
            self.attempt_was_one(attempt).await?;
        } else {
            self.attempt_was_right(attempt).await?;
        }
        let mut change = Change::new(person.tenant);
        // Somebody may have changed it while it was compared, or ended this user.
        change.hold_password(person.user, person.password_hash.as_deref().unwrap_or_default(), not_right());
        let now = self.clock.now();
        let begun = self.begin_session(&mut change, person.user, How::Password, whence, Some(now));
        self.note_sign_in(&mut change, &person, How::Password);
        self.store.commit(change).await?;
        Ok(begun)
    }

    /// Adds a session to a change. `proved_at`: when its owner proved who they are, if the way in does.
    pub(super) fn begin_session(
        &self,
        change: &mut Change,
        user: UserId,
        how: How,
        whence: &Whence,
        proved_at: Option<Timestamp>,
    ) -> Begun {
        let expires_at = self.clock.now().plus_seconds(i64::from(self.config.number("session_hours")) * 3600);
        self.begin_session_until(change, (user, how), whence, proved_at, expires_at)
    }

    /// For a session that goes on as another, and does not last longer for it.
    pub(super) fn begin_session_until(
        &self,
        change: &mut Change,
        (user, how): (UserId, How),
        whence: &Whence,
        proved_at: Option<Timestamp>,
        expires_at: Timestamp,
    ) -> Begun {
        let now = self.clock.now();
        if let Some(present) = &whence.present {
            self.end_replaced(change, present, now);
        }
        let (token, token_hash) = seal::token(&self.rng);
        let id: SessionId = self.new_id();
        change.insert_session(NewSession {
            id,
            user,
            token_hash,
            how,
            address: whence.address.map(|address| address.to_string()),
            user_agent: whence.shown_agent(),
            at: now,
            expires_at,
            proved_at,
        });
        Begun { token, expires_at }
    }

    /// A browser has one session: the one before ends in the change that makes the next, in whatever tenant it was.
    fn end_replaced(&self, change: &mut Change, present: &Caller, now: Timestamp) {
        let Credential::BrowserSession(session) = present.credential else { return };
        let mut end = Change::new(present.tenant);
        end.revoke_session(session, now);
        let details = json!({"replaced": true});
        end.audit(&self.entry(present, present.tenant, "user.sign_out", &present.display_name, details));
        change.together_with(end);
    }

    pub(super) fn note_sign_in(&self, change: &mut Change, person: &Candidate, how: How) {
        change.audit(&self.entry_of(person, "user.sign_in", json!({"how": how})));
    }

    /// An entry about somebody by themselves, who is no caller yet.
    pub(super) fn entry_of(&self, person: &Candidate, action: &str, details: serde_json::Value) -> Entry {
        Entry {
            id: self.new_id(),
            at: self.clock.now(),
            tenant: person.tenant,
            actor: Principal::User(person.user).to_string(),
            action: action.to_owned(),
            object: person.name.clone(),
            details: details.as_object().cloned().unwrap_or_default(),
        }
    }

    /// Counts an attempt at somebody's password, or refuses it when it comes too early.
    pub(super) async fn count_attempt(&self, whose: &str, whence: &Whence) -> Result<Attempt, Fault> {
        let person = counted("person", whose);
        let network = whence.network().map(|network| counted("network", &network));
        let mut delays = vec![Delay { key: person, free: PERSON_FREE, most_ms: PERSON_MS_MAX }];
        delays.extend(network.map(|key| Delay { key, free: NETWORK_FREE, most_ms: NETWORK_MS_MAX }));
        match self.store.attempt(&delays, self.clock.now()).await? {
            None => Ok(Attempt { person, network }),
            Some(wait_ms) => Err(too_many(wait_ms)),
        }
    }

    /// Takes back the one attempt, and nothing that was counted before it.
    async fn attempt_was_one(&self, attempt: Attempt) -> Result<(), Fault> {
        for counted in [Some(attempt.person), attempt.network].into_iter().flatten() {
            self.store.network_was_right(counted, 1).await?;
        }
        Ok(())
    }

    pub(super) async fn attempt_was_right(&self, attempt: Attempt) -> Result<(), Fault> {
        Ok(self.store.attempt_was_right(attempt.person, attempt.network).await?)
    }

    /// Whether something that anybody may ask for is asked for too often: by one network, or about one person.
    pub(super) async fn asked_too_often(&self, what: &str, whose: &str, whence: &Whence) -> Result<bool, Fault> {
        let now = self.clock.now();
        if let Some(network) = whence.network() {
            let key = counted(what, &network);
            let delay = Delay { key, free: NETWORK_FREE, most_ms: NETWORK_MS_MAX };
            if let Some(wait_ms) = self.store.attempt(&[delay], now).await? {
                return Err(too_many(wait_ms));
            }
        }
        let key = counted(&format!("{what} of"), whose);
        let delay = Delay { key, free: PERSON_FREE, most_ms: NETWORK_MS_MAX };
        Ok(self.store.attempt(&[delay], now).await?.is_some())
    }
}

/// What attempts at one person are counted by: the spelling that they are looked up by, so that no other spelling is
/// another count. A name without a tenant is one of the first.
pub(super) fn meant(login: &LoginName, tenant: Option<&str>) -> String {
    let first = if login.as_str().contains('@') { "" } else { FIRST_TENANT };
    format!("{}\n{}", tenant.unwrap_or(first), login.as_str())
}

pub(super) fn counted(what: &str, whose: &str) -> Digest {
    Digest::of(format!("toolgate/attempt/1\n{what}\n{whose}").as_bytes())
}

pub(super) fn too_many(wait_ms: i64) -> Fault {
    let seconds = wait_ms.div_euclid(1000) + i64::from(wait_ms.rem_euclid(1000) > 0);
    Fault::new(
        FaultKind::RateLimited,
        "there were too many attempts",
        format!("try again in {seconds} seconds, or ask for a link to set a new password"),
    )
    .with_details(json!({"retry_after_s": seconds}))
}

/// The same whatever was wrong: who exists is nobody's business.
fn not_right() -> Fault {
    Fault::new(
        FaultKind::Unauthenticated,
        "the name or the password is not right",
        "check both; somebody in several tenants names the tenant too, and who has no password asks for a link",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_subscriber_is_one_network() {
        #[track_caller]
        fn check(address: &str, network: &str) {
            let whence = Whence { address: Some(address.parse().unwrap()), ..Whence::default() };
            assert_eq!(whence.network().unwrap(), network);
        }
        check("203.0.113.9", "203.0.113.9");
        check("::ffff:203.0.113.9", "203.0.113.9");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64");
        check("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64");
    }
}
