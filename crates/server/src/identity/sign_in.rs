//! Browser sessions: begun by a one-time link, ended by signing out or by time.

use serde_json::json;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{Caller, Fault, FaultKind, Permission, Principal, SessionId, Timestamp};
use toolgate_store::Change;
use toolgate_store::audit::Entry;
use toolgate_store::people::UserKind;

use super::require_grantable;
use crate::app::App;
use crate::seal;

pub const LINK_MINUTES: i64 = 10;

impl App {
    /// A link that signs one user in, once. The token goes into the fragment, which no server and no log sees.
    pub async fn create_link(&self, caller: &Caller, name: &str) -> Result<(String, Timestamp), Fault> {
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
        let now = self.clock.now();
        let expires_at = now.plus_seconds(LINK_MINUTES * 60);
        let (token, hash) = seal::token(&self.rng);
        let mut change = Change::new(caller.tenant);
        change.insert_link(hash, user.id, now, expires_at);
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

    /// Spends a link for a session: the session's token, and when it ends at the latest.
    pub async fn sign_in(&self, token: &str) -> Result<(String, Timestamp), Fault> {
        let hash = seal::token_hash(token);
        let unknown = || {
            Fault::new(
                FaultKind::Unauthenticated,
                "this sign-in link was used already or is too old",
                "make a new one with `toolgate user sign-in-link NAME`",
            )
        };
        let holder = self.store.link_holder(hash).await?.ok_or_else(unknown)?;
        let now = self.clock.now();
        let expires_at = now.plus_seconds(i64::from(self.config.number("session_hours")) * 3600);
        let (session_token, session_hash) = seal::token(&self.rng);
        let session: SessionId = self.new_id();
        let mut change = Change::new(holder.tenant);
        change.spend_link(hash, now);
        change.insert_session(session, holder.user, session_hash, now, expires_at);
        let actor = Principal::User(holder.user);
        change.audit(&Entry {
            id: self.new_id(),
            at: now,
            tenant: holder.tenant,
            actor: actor.to_string(),
            action: "user.sign_in".to_owned(),
            object: holder.user_name,
            details: serde_json::Map::new(),
        });
        self.store.commit(change).await?;
        Ok((session_token, expires_at))
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
        Ok(())
    }
}
