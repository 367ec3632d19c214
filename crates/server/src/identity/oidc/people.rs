//! Who comes in by a provider's word: the user is made at the first sign-in, and has at each the roles of their groups.
//!
//! INVARIANT: the provider's word counts in `oidc_tenant` and in the tenants of `oidc_other_tenants`, and nowhere else.
//! A person of the provider is the account of its `iss` and `sub`. A member whom an administrator made has an account of
//! their own, whatever their address: the provider does not sign into it, and it does not become one with the
//! provider's. Only where a tenant takes the provider's word is a member made with an address that the provider vouches
//! for, of one person alone, that person. So a tenant learns nothing, by an address, about who has it elsewhere.

use serde_json::{Value, json};
use toolgate_contracts::{AccountId, Fault, LoginName, Role, TenantId, UserId, unseen};
use toolgate_registry::commands::FIRST_WORKSPACE;
use toolgate_store::Change;
use toolgate_store::people::{User, UserKind};
use toolgate_store::sign_in::{Candidate, How, Known};

use super::id_token::Said;
use super::{Oidc, Refusal};
use crate::app::App;
use crate::identity::people::check_email;
use crate::identity::{Begun, NAME_CHARS_MAX, Whence};

/// Names that are tried for somebody new, before one is made up.
const NAMES_TRIED: u32 = 20;
/// Two first sign-ins at once may want the same name or be the same person: the later one looks again.
const TRIES: u32 = 3;

impl App {
    /// Lets somebody in whom the provider knows.
    pub(super) async fn let_in(&self, oidc: &Oidc, said: &Said, whence: &Whence) -> Result<Begun, Refusal> {
        let snapshot = self.registry.snapshot();
        let tenant = snapshot.tenant_by_slug(oidc.tenant.as_str())?.tenant.id;
        let roles = oidc.roles_of(&said.claims);
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match self.try_to_let_in(oidc, tenant, &roles, said, whence).await {
                Err(Refusal::Fault(fault)) if fault.broken_rule().is_some() && tries > 0 => {}
                done => return done,
            }
        }
    }

    async fn try_to_let_in(
        &self,
        oidc: &Oidc,
        tenant: TenantId,
        roles: &[Role],
        said: &Said,
        whence: &Whence,
    ) -> Result<Begun, Refusal> {
        let account = self.store.identity(&oidc.issuer, &said.subject).await?;
        let known = match account {
            Some(account) => self.store.membership(tenant, account).await?,
            None => None,
        };
        if known.as_ref().is_some_and(|known| known.disabled) {
            return Err(Refusal::Disabled);
        }
        if roles.is_empty() {
            tracing::info!(issuer = oidc.issuer, "somebody without a group that has a role was refused");
            if let (Some(known), Some(account)) = (&known, account) {
                self.take_roles(oidc, tenant, account, known).await?;
            }
            return Err(Refusal::NoRole);
        }
        let mut change = Change::new(tenant);
        let (user, name, account) = match (known, account) {
            (Some(Known { user, name, .. }), Some(account)) => {
                self.follow_groups(&mut change, oidc, &person(oidc, tenant, user, &name, account), roles).await?;
                (user, name, account)
            }
            (_, account) => self.make_user(&mut change, oidc, tenant, roles, said, account).await?,
        };
        change.set_vouched_for(&oidc.issuer, &said.subject, verified_email(&said.claims).as_deref());
        let begun = self.begin_session(&mut change, user, How::Oidc, whence, said.proved_at);
        self.note_sign_in(&mut change, &person(oidc, tenant, user, &name, account), How::Oidc);
        self.store.commit(change).await?;
        self.forget_callers();
        Ok(begun)
    }

    async fn follow_groups(
        &self,
        change: &mut Change,
        oidc: &Oidc,
        person: &Candidate,
        roles: &[Role],
    ) -> Result<(), Fault> {
        let had = self.store.user(person.tenant, &person.user.to_string()).await?.map(|user| user.roles);
        let mut had = had.unwrap_or_default();
        let mut will: Vec<Role> = roles.to_vec();
        had.sort_unstable_by_key(|role| role.as_str());
        will.sort_unstable_by_key(|role| role.as_str());
        if had != will {
            change.set_roles(person.user, roles);
            let details = json!({"roles": roles, "by": oidc.issuer});
            change.audit(&self.entry_of(person, "user.update", details));
        }
        Ok(())
    }

    /// Whoever is in none of the groups any more has no rights left, here and in what was begun before.
    async fn take_roles(&self, oidc: &Oidc, tenant: TenantId, account: AccountId, known: &Known) -> Result<(), Fault> {
        let person = person(oidc, tenant, known.user, &known.name, account);
        let mut change = Change::new(tenant);
        change.set_roles(known.user, &[]);
        change.end_sessions(known.user, None, self.clock.now());
        change.audit(&self.entry_of(&person, "user.update", json!({"roles": [], "by": oidc.issuer})));
        self.store.commit(change).await?;
        self.forget_callers();
        Ok(())
    }

    async fn make_user(
        &self,
        change: &mut Change,
        oidc: &Oidc,
        tenant: TenantId,
        roles: &[Role],
        said: &Said,
        account: Option<AccountId>,
    ) -> Result<(UserId, String, AccountId), Fault> {
        let now = self.clock.now();
        let name = self.free_name(tenant, &said.claims).await?;
        // An address is kept where the provider vouches for it and nobody else here has it: it is for mail, and proves
        // nothing.
        let email = match verified_email(&said.claims) {
            Some(email) if self.store.user(tenant, &email).await?.is_none() => Some(email),
            _ => None,
        };
        let account = account.unwrap_or_else(|| {
            let account = self.new_id();
            change.insert_account(account, &name, now);
            change.insert_identity(&oidc.issuer, &said.subject, account, now);
            account
        });
        let user = User {
            id: self.new_id(),
            kind: UserKind::Person,
            name,
            email,
            roles: roles.to_vec(),
            permissions: toolgate_contracts::Permissions::default(),
            workspaces: vec![FIRST_WORKSPACE.parse().map_err(Fault::internal)?],
            disabled: false,
            created_at: now,
        };
        change.insert_user(&user, Some(account));
        let person = person(oidc, tenant, user.id, &user.name, account);
        let details = json!({"id": user.id, "roles": user.roles, "kind": user.kind, "by": oidc.issuer});
        change.audit(&self.entry_of(&person, "user.create", details));
        Ok((user.id, user.name, account))
    }

    /// A name like the one the provider gives, that nobody in the tenant has.
    async fn free_name(&self, tenant: TenantId, claims: &Value) -> Result<String, Fault> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let wanted = ["preferred_username", "name", "email"].into_iter().filter_map(text);
        let wanted = wanted.map(plain_name).find(|name| !name.is_empty()).unwrap_or_else(|| "user".to_owned());
        if self.store.user(tenant, &wanted).await?.is_none() {
            return Ok(wanted);
        }
        for number in 2..NAMES_TRIED {
            let name = format!("{wanted}-{number}");
            if self.store.user(tenant, &name).await?.is_none() {
                return Ok(name);
            }
        }
        let id: UserId = self.new_id();
        Ok(format!("{wanted}-{id}"))
    }
}

fn person(oidc: &Oidc, tenant: TenantId, user: UserId, name: &str, account: AccountId) -> Candidate {
    Candidate {
        tenant,
        tenant_slug: oidc.tenant.clone(),
        user,
        name: name.to_owned(),
        email: None,
        account,
        password_hash: None,
    }
}

/// Without what looks like an address: somebody could give themselves another's.
fn plain_name(text: &str) -> String {
    // Other signs fold to `@` in what people sign in with.
    let folded = LoginName::of(text);
    let text = match text.split_once('@') {
        Some((mailbox, _)) => mailbox,
        None if folded.as_str().contains('@') => folded.as_str().split('@').next().unwrap_or_default(),
        None => text,
    };
    let seen = text.chars().map(|c| if unseen::is_blank(c) { ' ' } else { c }).filter(|c| !unseen::is_unseen(*c));
    let name: String = seen.take(NAME_CHARS_MAX - 40).collect();
    name.trim().to_owned()
}

fn verified_email(claims: &Value) -> Option<String> {
    let verified = matches!(claims.get("email_verified"), Some(Value::Bool(true)));
    let email = claims.get("email").and_then(Value::as_str).filter(|_| verified)?;
    let email = LoginName::of(email).as_str().to_owned();
    check_email(Some(&email)).is_ok().then_some(email)
}
