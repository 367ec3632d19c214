//! Tenants, workspaces and users.

use serde_json::json;
use toolgate_contracts::{AccountId, Caller, Fault, Permission, Permissions, Principal, Role, Slug, Timestamp, unseen};
use toolgate_registry::commands::FIRST_WORKSPACE;
use toolgate_store::Change;
use toolgate_store::people::{Tenant, User, UserKind, Workspace};

use super::{already, check_name, require_grantable, taken};
use crate::app::App;

pub struct NewUser {
    pub name: String,
    pub kind: UserKind,
    pub email: Option<String>,
    pub roles: Vec<Role>,
    pub permissions: Permissions,
    pub workspaces: Vec<Slug>,
}

pub struct UserEdit {
    pub roles: Option<Vec<Role>>,
    pub permissions: Option<Permissions>,
    pub workspaces: Option<Vec<Slug>>,
    pub disabled: Option<bool>,
}

impl App {
    pub async fn create_tenant(
        &self,
        caller: &Caller,
        slug: Slug,
        name: &str,
        currency: &str,
    ) -> Result<(Tenant, i64), Fault> {
        caller.require(&Permission::TENANTS_MANAGE)?;
        check_name(name)?;
        let known = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
        if !known {
            return Err(Fault::invalid(
                format!("`{currency}` is not a currency"),
                "write its three capital letters, as in USD",
            )
            .at("/currency"));
        }
        if self.registry.snapshot().tenant_by_slug(slug.as_str()).is_ok() {
            return Err(
                Fault::conflict(format!("there is a tenant `{slug}` already"), "choose another short name").at("/slug")
            );
        }
        let now = self.clock.now();
        let tenant = Tenant {
            id: self.new_id(),
            slug,
            name: name.to_owned(),
            currency: currency.to_owned(),
            open_write: false,
            limits: toolgate_contracts::TenantLimits::default(),
            settings: toolgate_contracts::TenantSettings::default(),
            policy_revision: 0,
            created_at: now,
        };
        let mut change = Change::new(tenant.id);
        change.insert_tenant(&tenant);
        let first = FIRST_WORKSPACE.parse().map_err(Fault::internal)?;
        change.insert_workspace(&Workspace {
            id: self.new_id(),
            slug: first,
            name: "Main".to_owned(),
            created_at: now,
        });
        change.audit(&self.entry(
            caller,
            tenant.id,
            "tenant.create",
            tenant.slug.as_str(),
            json!({"name": name, "currency": currency}),
        ));
        change.count_revision();
        let revision = self.registry.finish(change).await?;
        Ok((tenant, revision))
    }

    /// The tenant-wide switch that lets open tool sets hold `write` tools; they still ask.
    pub async fn set_open_write(&self, caller: &Caller, open: bool) -> Result<i64, Fault> {
        caller.require(&Permission::TOOLS_ASSIGN)?;
        let mut change = self.registry.begin(
            caller,
            caller.tenant,
            "tenant.open_write",
            caller.tenant_slug.as_str(),
            json!({"open_write": open}),
        );
        change.set_open_write(open);
        self.registry.finish(change).await
    }

    pub async fn create_workspace(&self, caller: &Caller, slug: Slug, name: &str) -> Result<Workspace, Fault> {
        caller.require(&Permission::MEMBERS_MANAGE)?;
        check_name(name)?;
        let workspace = Workspace { id: self.new_id(), slug, name: name.to_owned(), created_at: self.clock.now() };
        let object = workspace.slug.as_str();
        let mut change = self.registry.begin(caller, caller.tenant, "workspace.create", object, json!({"name": name}));
        change.insert_workspace(&workspace);
        self.registry.finish(change).await.map_err(|fault| already(fault, "workspaces_slug", "workspace", object))?;
        Ok(workspace)
    }

    pub async fn create_user(&self, caller: &Caller, new: NewUser) -> Result<User, Fault> {
        caller.require(&Permission::MEMBERS_MANAGE)?;
        let NewUser { name, kind, email, roles, permissions, workspaces } = new;
        check_name(&name)?;
        check_email(email.as_deref())?;
        let email = email.filter(|_| kind == UserKind::Person);
        require_grantable(caller, &roles)?;
        check_permissions(&permissions)?;
        let now = self.clock.now();
        let user = User {
            id: self.new_id(),
            kind,
            name,
            email,
            roles,
            permissions,
            workspaces,
            disabled: false,
            created_at: now,
        };
        let mut change = Change::new(caller.tenant);
        let account = match user.kind {
            UserKind::Service => None,
            UserKind::Person => Some(self.account_for(&mut change, &caller.tenant_slug, &user, now).await?),
        };
        change.insert_user(&user, account);
        change.audit(&self.entry(
            caller,
            caller.tenant,
            "user.create",
            &user.name,
            json!({"id": user.id, "roles": user.roles, "kind": user.kind}),
        ));
        self.store.commit(change).await.map_err(|error| match error {
            error if error.is("users_account") || error.is("users_email") => Fault::conflict(
                "this person is a member of the tenant already",
                "change their roles with `toolgate user set`",
            )
            .at("/email"),
            error => taken(error, "users_name", "user", &user.name),
        })?;
        Ok(user)
    }

    /// The account of a new member: a new one. An address is what an administrator wrote, and says nothing about who has
    /// it in other tenants; only a tenant that takes the provider's word takes it for whose an address is, too.
    pub(super) async fn account_for(
        &self,
        change: &mut Change,
        tenant: &Slug,
        user: &User,
        now: Timestamp,
    ) -> Result<AccountId, Fault> {
        if let (Some(email), Some(oidc)) = (&user.email, &self.oidc)
            && oidc.takes(tenant)
            && let Some(known) = self.store.account_vouched_for(oidc.issuer(), email).await?
        {
            return Ok(known);
        }
        let account = self.new_id();
        change.insert_account(account, &user.name, now);
        Ok(account)
    }

    pub async fn edit_user(&self, caller: &Caller, name: &str, edit: UserEdit) -> Result<User, Fault> {
        caller.require(&Permission::MEMBERS_MANAGE)?;
        let user = self.store.user(caller.tenant, name).await?.ok_or_else(|| Fault::not_found("user", name))?;
        // Nobody may take from, or lend to, somebody with more rights than their own.
        require_grantable(caller, &user.roles)?;
        let UserEdit { roles, permissions, workspaces, disabled } = edit;
        let details =
            json!({"roles": roles, "permissions": permissions, "workspaces": workspaces, "disabled": disabled});
        let mut change = Change::new(caller.tenant);
        change.audit(&self.entry(caller, caller.tenant, "user.update", &user.name, details));
        if let Some(roles) = &roles {
            require_grantable(caller, roles)?;
            change.set_roles(user.id, roles);
        }
        if let Some(permissions) = &permissions {
            check_permissions(permissions)?;
            change.set_permissions(user.id, permissions);
        }
        if let Some(workspaces) = &workspaces {
            change.set_memberships(user.id, workspaces);
        }
        if let Some(disabled) = disabled {
            if disabled && caller.user() == Some(user.id) {
                return Err(Fault::conflict("you cannot disable yourself", "ask another administrator"));
            }
            let now = self.clock.now();
            change.set_disabled(user.id, disabled.then_some(now));
            if disabled {
                change.revoke_tokens_of(Principal::User(user.id), &caller.principal.to_string(), now);
            }
        }
        self.store.commit(change).await?;
        self.forget_callers();
        let edited = self.store.user(caller.tenant, &user.id.to_string()).await?;
        edited.ok_or_else(|| Fault::internal("an edited user is gone"))
    }
}

/// Roles give the product's own rights; by word one gets only what tools demand.
pub(super) fn check_permissions(permissions: &Permissions) -> Result<(), Fault> {
    match permissions.iter().find(|permission| !permission.is_tools_own()) {
        None => Ok(()),
        Some(own) => Err(Fault::invalid(
            format!("`{own}` is a right of the product, which only a role gives"),
            "give a role that has it; permissions by word are those that tools demand",
        )
        .at("/permissions")),
    }
}

pub(super) fn check_email(email: Option<&str>) -> Result<(), Fault> {
    match email {
        Some(email)
            if email.len() > 254
                || email.split_once('@').is_none_or(|(user, host)| user.is_empty() || !host.contains('.'))
                || email.contains(' ')
                || unseen::check_seen("an address", email).is_err() =>
        {
            Err(Fault::invalid("this is not an e-mail address", "write it as name@example.com").at("/email"))
        }
        _ => Ok(()),
    }
}
