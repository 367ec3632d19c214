//! Invitations: whoever administers a tenant says who is to come in and with which rights; whoever has the link says
//! how they are called and chooses a password.
//!
//! INVARIANT: an invitation gives nothing that whoever sent it may not give at that moment. Whoever shows a link that
//! is not good is told the same whatever is wrong with it, and nothing is hashed for them.

use serde_json::json;
use toolgate_contracts::{
    Caller, Fault, InvitationId, Permission, Permissions, Principal, Role, Slug, TenantId, unseen,
};
use toolgate_store::Change;
use toolgate_store::invitations::{Invitation, InvitationState, Linked, no_invitation};
use toolgate_store::people::{Tenant, User, UserKind};
use toolgate_store::sign_in::{Candidate, How};

use super::letters::Sent;
use super::people::{check_email, check_permissions};
use super::{Begun, Whence, beyond, check_name, passwords, require_grantable, taken};
use crate::app::App;
use crate::seal;

pub const INVITATION_DAYS: i64 = 7;

pub struct NewInvitation {
    pub name: String,
    pub email: Option<String>,
    pub roles: Vec<Role>,
    pub permissions: Permissions,
    pub workspaces: Vec<Slug>,
}

impl App {
    pub async fn invite(&self, caller: &Caller, new: NewInvitation, show: bool) -> Result<(Invitation, Sent), Fault> {
        caller.require(&Permission::MEMBERS_MANAGE)?;
        self.require_acceptable()?;
        let NewInvitation { name, email, roles, permissions, workspaces } = new;
        check_name(&name)?;
        check_email(email.as_deref())?;
        require_grantable(caller, &roles)?;
        check_permissions(&permissions)?;
        if roles.contains(&Role::Service) {
            return Err(
                Fault::invalid("a service is no person", "make it with `toolgate user create --service`").at("/roles")
            );
        }
        self.check_workspaces(caller.tenant, &workspaces).await?;
        let now = self.clock.now();
        let mailed = self.goes_by_mail(email.as_deref(), show);
        let invitation = Invitation {
            id: self.new_id(),
            name,
            email,
            roles,
            permissions,
            workspaces,
            invited_by: caller.display_name.clone(),
            mailed,
            created_at: now,
            expires_at: now.plus_seconds(INVITATION_DAYS * 86_400),
            state: InvitationState::Open,
        };
        let (token, hash) = seal::token(&self.rng);
        let mut change = Change::new(caller.tenant);
        change.insert_invitation(&invitation, caller.principal, hash);
        let details = json!({"id": invitation.id, "roles": invitation.roles, "mailed": mailed});
        change.audit(&self.entry(caller, caller.tenant, "invitation.create", &invitation.name, details));
        self.store.commit(change).await?;
        let sent = self.send_invitation(caller, &invitation, &token).await;
        Ok((invitation, sent))
    }

    /// Whoever accepts chooses a password: without those nobody could.
    fn require_acceptable(&self) -> Result<(), Fault> {
        self.require_passwords().map_err(|_| {
            Fault::conflict(
                "invitations end in a password, and passwords are switched off here (`password_sign_in`)",
                "people come in by the provider; or make the user and a link, with `toolgate user create` and \
                 `toolgate user sign-in-link`",
            )
        })
    }

    /// A new link, for seven more days; the one before stops. From now on it is good by the rights of whoever sends it.
    pub async fn invite_again(
        &self,
        caller: &Caller,
        id: InvitationId,
        show: bool,
    ) -> Result<(Invitation, Sent), Fault> {
        let mut invitation = self.invitation_to_touch(caller, id).await?;
        self.require_acceptable()?;
        invitation.invited_by.clone_from(&caller.display_name);
        invitation.mailed = self.goes_by_mail(invitation.email.as_deref(), show);
        invitation.expires_at = self.clock.now().plus_seconds(INVITATION_DAYS * 86_400);
        let (token, hash) = seal::token(&self.rng);
        let mut change = Change::new(caller.tenant);
        change.renew_invitation(&invitation, caller.principal, hash);
        let details = json!({"id": id, "mailed": invitation.mailed});
        change.audit(&self.entry(caller, caller.tenant, "invitation.resend", &invitation.name, details));
        self.store.commit(change).await?;
        invitation.state = InvitationState::Open;
        let sent = self.send_invitation(caller, &invitation, &token).await;
        Ok((invitation, sent))
    }

    pub async fn revoke_invitation(&self, caller: &Caller, id: InvitationId) -> Result<Invitation, Fault> {
        let mut invitation = self.invitation_to_touch(caller, id).await?;
        let mut change = Change::new(caller.tenant);
        change.revoke_invitation(id, self.clock.now());
        change.audit(&self.entry(caller, caller.tenant, "invitation.revoke", &invitation.name, json!({"id": id})));
        self.store.commit(change).await?;
        invitation.state = InvitationState::Revoked;
        Ok(invitation)
    }

    async fn invitation_to_touch(&self, caller: &Caller, id: InvitationId) -> Result<Invitation, Fault> {
        caller.require(&Permission::MEMBERS_MANAGE)?;
        let found = self.store.invitation(caller.tenant, id, self.clock.now()).await?;
        let invitation = found.ok_or_else(|| Fault::not_found("invitation", id))?;
        // Nobody sends out, or takes back, rights that they do not have.
        require_grantable(caller, &invitation.roles)?;
        Ok(invitation)
    }

    async fn check_workspaces(&self, tenant: TenantId, wanted: &[Slug]) -> Result<(), Fault> {
        let known = self.store.workspaces(tenant).await?;
        match wanted.iter().find(|slug| known.iter().all(|workspace| workspace.slug != **slug)) {
            None => Ok(()),
            Some(unknown) => Err(Fault::not_found("workspace", unknown).at("/workspaces")),
        }
    }

    async fn send_invitation(&self, caller: &Caller, invitation: &Invitation, token: &str) -> Sent {
        let url = format!("{}/invite#{token}", self.base_url());
        let Some(address) = invitation.email.as_deref().filter(|_| invitation.mailed) else {
            return Sent::shown(url);
        };
        let text = format!(
            "{} invites you to Toolgate, the gate between agents, people and their tools, in {}.\n\n\
             To choose a password and begin, open this within {INVITATION_DAYS} days:\n\n    {url}\n\n\
             The link works once. Opening it decides nothing; if you expected no invitation, leave it.\n",
            one_line(&invitation.invited_by),
            caller.tenant_slug,
        );
        self.mail_or_show(address, "Toolgate: an invitation", text, url).await
    }

    /// What the page shows to whoever has the link. Nothing is spent.
    pub async fn invitation_shown(&self, token: &str, whence: &Whence) -> Result<(Tenant, Invitation), Fault> {
        let attempt = self.count_attempt(&counted_as("shown", token), whence).await?;
        let linked = self.invitation_behind(token).await?;
        self.attempt_was_right(attempt).await?;
        self.require_passwords()?;
        let snapshot = self.registry.snapshot();
        Ok((snapshot.tenant(linked.tenant)?.tenant.clone(), linked.invitation))
    }

    /// An invitation that is good now: neither spent, revoked nor run out, and vouched for.
    async fn invitation_behind(&self, token: &str) -> Result<Linked, Fault> {
        let found = self.store.invitation_by_token(seal::token_hash(token), self.clock.now()).await?;
        let linked =
            found.filter(|linked| linked.invitation.state == InvitationState::Open).ok_or_else(no_invitation)?;
        if self.is_vouched_for(&linked).await? { Ok(linked) } else { Err(no_invitation()) }
    }

    /// Whether who sent it is in force and may still give what it gives. The owner of the data folder always may.
    async fn is_vouched_for(&self, linked: &Linked) -> Result<bool, Fault> {
        let Principal::User(inviter) = linked.inviter else { return Ok(true) };
        let Some(inviter) = self.store.user(linked.tenant, &inviter.to_string()).await? else { return Ok(false) };
        let held = Permissions::of(inviter.roles.iter().copied());
        Ok(!inviter.disabled
            && held.contains(&Permission::MEMBERS_MANAGE)
            && beyond(&linked.invitation.roles, |permission| held.contains(permission)).is_none())
    }

    /// Spends an invitation: the user comes to be, and is signed in.
    pub async fn accept_invitation(
        &self,
        token: &str,
        name: Option<&str>,
        password: &str,
        whence: &Whence,
    ) -> Result<Begun, Fault> {
        // Each try counts until one is right: whoever has a link neither makes us hash nor looks for names at will.
        let attempt = self.count_attempt(&counted_as("accepted", token), whence).await?;
        let linked = self.invitation_behind(token).await?;
        self.require_passwords()?;
        let snapshot = self.registry.snapshot();
        let tenant = &snapshot.tenant(linked.tenant)?.tenant;
        let Invitation { id, name: proposed, email, roles, permissions, workspaces, .. } = linked.invitation;
        let name = name.unwrap_or(&proposed).trim().to_owned();
        check_name(&name)?;
        // By the spelling that people sign in with: there are other signs that fold to it.
        if toolgate_contracts::LoginName::of(&name).as_str().contains('@')
            && name != proposed
            && Some(&name) != email.as_ref()
        {
            return Err(Fault::invalid("a name with `@` looks like an address", "choose a name without it").at("/name"));
        }
        passwords::check(password, &name, email.as_deref())?;
        if self.store.user(tenant.id, &name).await?.is_some_and(|other| other.name == name) {
            return Err(Fault::conflict(format!("there is a user `{name}` already"), "choose another name").at("/name"));
        }
        let kept = self.hashed(password).await?;
        // Hashing takes a while, in which rights may have been taken.
        self.invitation_behind(token).await?;
        let now = self.clock.now();
        let user = User {
            id: self.new_id(),
            kind: UserKind::Person,
            name,
            email,
            roles,
            permissions,
            workspaces,
            disabled: false,
            created_at: now,
        };
        let mut change = Change::new(tenant.id);
        change.accept_invitation(seal::token_hash(token), now);
        let account = self.account_for(&mut change, &tenant.slug, &user, now).await?;
        change.insert_user(&user, Some(account));
        change.set_password(user.id, &kept);
        let person = Candidate {
            tenant: tenant.id,
            tenant_slug: tenant.slug.clone(),
            user: user.id,
            name: user.name.clone(),
            email: user.email.clone(),
            account,
            password_hash: Some(kept),
        };
        change.audit(&self.entry_of(&person, "invitation.accept", json!({"id": id, "roles": user.roles})));
        let begun = self.begin_session(&mut change, user.id, How::Invitation, whence, Some(now));
        self.note_sign_in(&mut change, &person, How::Invitation);
        self.store.commit(change).await.map_err(|error| match error {
            error if error.is("users_account") || error.is("users_email") => Fault::conflict(
                "whoever has this e-mail address is a member of the tenant already",
                "sign in, or ask for a link to set a new password",
            ),
            error => taken(error, "users_name", "user", &user.name),
        })?;
        self.attempt_was_right(attempt).await?;
        Ok(begun)
    }
}

/// Whose attempts are counted together: those with one link, by its hash. Looking takes nothing back of what accepting
/// counted.
fn counted_as(what: &str, token: &str) -> String {
    format!("invitation {what}\n{}", seal::token_hash(token))
}

/// What goes into a mail stays on its line.
pub(super) fn one_line(text: &str) -> String {
    text.chars().filter(|c| !unseen::is_unseen(*c)).collect()
}
