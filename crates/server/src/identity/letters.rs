//! Mail with a one-time link in it: over the operator's relay where there is one, otherwise the link is shown to whoever
//! asked for it.
//!
//! INVARIANT: what reads mail before people do may open the link; the token is in its fragment and spent by a POST alone.

use serde_json::json;
use toolgate_contracts::{Caller, Digest, Fault, Id, LoginName, Slug, Timestamp};
use toolgate_egress::mail::Mail;
use toolgate_store::Change;
use toolgate_store::sign_in::{Candidate, LinkPurpose};

use super::invitations::one_line;
use super::sign_in::meant;
use super::{Whence, passwords};
use crate::app::{App, FIRST_TENANT};
use crate::seal;

const RESET_MINUTES: i64 = 60;

/// Where a link went.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Shown once, where it was not mailed.
    pub url: Option<String>,
    pub mailed_to: Option<String>,
    /// Why it is shown although it should have gone by mail.
    pub mail_failed: Option<String>,
}

impl Sent {
    pub(super) fn shown(url: String) -> Self {
        Self { url: Some(url), ..Self::default() }
    }
}

impl App {
    /// Whether a link for somebody goes by mail.
    pub(super) fn goes_by_mail(&self, address: Option<&str>, show: bool) -> bool {
        self.mailer.is_some() && address.is_some() && !show
    }

    /// Mails a link; where that fails, whoever asked for it is shown it, with the reason.
    pub(super) async fn mail_or_show(&self, address: &str, subject: &str, text: String, url: String) -> Sent {
        match self.mail(address, subject, text).await {
            Ok(()) => Sent { mailed_to: Some(address.to_owned()), ..Sent::default() },
            Err(error) => {
                tracing::warn!("a link was not mailed: {error}");
                Sent { url: Some(url), mailed_to: None, mail_failed: Some(error) }
            }
        }
    }

    async fn mail(&self, address: &str, subject: &str, text: String) -> Result<(), String> {
        let Some(mailer) = &self.mailer else { return Err("no mail relay is configured".to_owned()) };
        let host = self.base_url();
        let host = host.split_once("://").map_or("toolgate", |(_, host)| host).replace([':', '[', ']', '/'], "-");
        let id: Id<()> = self.new_id();
        let mail = Mail {
            from: self.config.get("mail_from").to_owned(),
            to: vec![address.to_owned()],
            cc: Vec::new(),
            subject: subject.to_owned(),
            text,
            message_id: format!("{id}@{host}"),
        };
        mailer.send(&mail).await.map_err(|error| error.to_string())
    }

    /// A link to set a new password, made by an administrator.
    pub async fn create_reset(&self, caller: &Caller, name: &str, show: bool) -> Result<(Sent, Timestamp), Fault> {
        let user = self.person_to_let_in(caller, name).await?;
        self.require_passwords()?;
        let now = self.clock.now();
        let expires_at = now.plus_seconds(RESET_MINUTES * 60);
        let (token, hash) = seal::token(&self.rng);
        let by_mail = self.goes_by_mail(user.email.as_deref(), show);
        let mut change = Change::new(caller.tenant);
        change.insert_link(LinkPurpose::Reset, hash, user.id, now, expires_at);
        let details = json!({"expires_at": expires_at, "mailed": by_mail});
        change.audit(&self.entry(caller, caller.tenant, "user.reset_link", &user.name, details));
        self.store.commit(change).await?;
        let url = self.reset_url(&token);
        let sent = match user.email.as_deref().filter(|_| by_mail) {
            Some(address) => {
                self.mail_or_show(address, RESET_SUBJECT, reset_text(&user.name, &caller.tenant_slug, &url), url).await
            }
            None => Sent::shown(url),
        };
        Ok((sent, expires_at))
    }

    /// Somebody who cannot sign in asks for a link. What comes of it is said to nobody but the address that is known,
    /// and is done after the answer, so that the answer takes equally long.
    pub async fn ask_for_reset(&self, login: &str, tenant: Option<&str>, whence: &Whence) -> Result<(), Fault> {
        self.require_passwords()?;
        let login = LoginName::of(login);
        if self.asked_too_often("reset", &meant(&login, tenant), whence).await? {
            return Ok(());
        }
        let (app, tenant) = (self.clone(), tenant.map(str::to_owned));
        tokio::spawn(async move {
            if let Err(fault) = app.mail_reset(&login, tenant.as_deref()).await {
                tracing::warn!("a link to set a password was not sent: {}", fault.logged().unwrap_or(fault.told()));
            }
        });
        Ok(())
    }

    /// A link for each tenant where the address is somebody's: which of them forgot is theirs to say.
    async fn mail_reset(&self, login: &LoginName, tenant: Option<&str>) -> Result<(), Fault> {
        for person in self.store.candidates(login, tenant, FIRST_TENANT).await? {
            self.mail_reset_to(&person).await?;
        }
        Ok(())
    }

    async fn mail_reset_to(&self, person: &Candidate) -> Result<(), Fault> {
        let Some(address) = person.email.clone().filter(|_| self.mailer.is_some()) else {
            tracing::info!(user = %person.user, "no link to set a password: there is no relay or no address");
            return Ok(());
        };
        let now = self.clock.now();
        let (token, hash) = seal::token(&self.rng);
        let expires_at = now.plus_seconds(RESET_MINUTES * 60);
        let mut change = Change::new(person.tenant);
        change.insert_link(LinkPurpose::Reset, hash, person.user, now, expires_at);
        change.audit(&self.entry_of(person, "user.reset_link", json!({"expires_at": expires_at, "mailed": true})));
        self.store.commit(change).await?;
        let text = reset_text(&person.name, &person.tenant_slug, &self.reset_url(&token));
        self.mail(&address, RESET_SUBJECT, text).await.map_err(|error| Fault::internal(format!("mail: {error}")))
    }

    /// Spends a link for a new password. Whoever was signed in is no longer.
    pub async fn finish_reset(&self, token: &str, password: &str) -> Result<(), Fault> {
        let hash: Digest = seal::token_hash(token);
        let now = self.clock.now();
        let owner = self.store.link_owner(LinkPurpose::Reset, hash, now).await?.ok_or_else(no_link)?;
        self.require_passwords()?;
        let Candidate { tenant, user, name, email, .. } = &owner;
        passwords::check(password, name, email.as_deref())?;
        let kept = self.hashed(password).await?;
        let mut change = Change::new(*tenant);
        change.spend_link(LinkPurpose::Reset, hash, now);
        change.set_password(*user, &kept);
        change.end_sessions(*user, None, now);
        change.spend_links_of(*user, now);
        change.audit(&self.entry_of(&owner, "user.reset", json!({})));
        self.store.commit(change).await?;
        self.forget_callers();
        Ok(())
    }

    fn reset_url(&self, token: &str) -> String {
        format!("{}/reset#{token}", self.base_url())
    }
}

const RESET_SUBJECT: &str = "Toolgate: set a new password";

fn reset_text(name: &str, tenant: &Slug, url: &str) -> String {
    let name = one_line(name);
    format!(
        "Somebody asked for a new password for {name} in {tenant}.\n\nTo set one, open this within an hour:\n\n    {url}\n\n\
         The link works once and ends all sessions. If it was not you, leave it: nothing changes by opening it.\n"
    )
}

fn no_link() -> Fault {
    LinkPurpose::Reset.spent()
}
