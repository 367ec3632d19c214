//! Tenants, workspaces, accounts and users.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use toolgate_contracts::{
    AccountId, Fault, LoginName, Permissions, Role, Slug, TenantId, TenantLimits, TenantSettings, Timestamp, UserId,
    WorkspaceId,
};
use utoipa::ToSchema;

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::value::json_text;
use crate::{Row, Store};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tenant {
    pub id: TenantId,
    pub slug: Slug,
    pub name: String,
    pub currency: String,
    pub open_write: bool,
    pub limits: TenantLimits,
    pub settings: TenantSettings,
    /// Of the policies that decide; 0 is the default set.
    pub policy_revision: i64,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workspace {
    pub id: WorkspaceId,
    pub slug: Slug,
    pub name: String,
    pub created_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UserKind {
    Person,
    Service,
}

impl UserKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Service => "service",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    pub id: UserId,
    pub kind: UserKind,
    pub name: String,
    pub email: Option<String>,
    pub roles: Vec<Role>,
    /// Words that tools demand; the product's own rights come by roles.
    pub permissions: Permissions,
    pub workspaces: Vec<Slug>,
    pub disabled: bool,
    pub created_at: Timestamp,
}

impl Change {
    pub fn insert_tenant(&mut self, tenant: &Tenant) -> &mut Self {
        let Tenant { id, slug, name, currency, open_write, limits, settings, policy_revision, created_at } = tenant;
        debug_assert_eq!(*id, self.tenant);
        self.then(
            "INSERT INTO tenants (id, slug, name, currency, open_write, limits, settings, policy_revision, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            [
                slug.as_str().into(),
                name.into(),
                currency.into(),
                (*open_write).into(),
                json_text(limits),
                json_text(settings),
                (*policy_revision).into(),
                (*created_at).into(),
            ],
        )
    }

    pub fn insert_workspace(&mut self, workspace: &Workspace) -> &mut Self {
        let Workspace { id, slug, name, created_at } = workspace;
        self.then(
            "INSERT INTO workspaces (tenant_id, id, slug, name, created_at) VALUES ($1, $2, $3, $4, $5)",
            [(*id).into(), slug.as_str().into(), name.into(), (*created_at).into()],
        )
    }

    /// A person needs an account. It is one for several tenants only where a provider of identities says who they are.
    pub fn insert_account(&mut self, id: AccountId, name: &str, at: Timestamp) -> &mut Self {
        self.then(
            "/* no tenant: accounts are people, in whatever tenants */
             INSERT INTO accounts (id, name, created_at) VALUES ($1, $2, $3)",
            [id.into(), name.into(), at.into()],
        )
    }

    pub fn insert_user(&mut self, user: &User, account: Option<AccountId>) -> &mut Self {
        let User { id, kind, name, email, roles, permissions, workspaces, disabled: _, created_at } = user;
        self.then(
            "INSERT INTO users (tenant_id, id, account_id, kind, name, login, email, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            [
                (*id).into(),
                account.into(),
                kind.as_str().into(),
                name.into(),
                LoginName::of(name).as_str().into(),
                email.as_deref().map(LoginName::of).as_ref().map(LoginName::as_str).into(),
                (*created_at).into(),
            ],
        );
        self.insert_roles(*id, roles);
        self.insert_permissions(*id, permissions);
        self.insert_memberships(*id, workspaces)
    }

    pub fn set_roles(&mut self, user: UserId, roles: &[Role]) -> &mut Self {
        self.then("DELETE FROM user_roles WHERE tenant_id = $1 AND user_id = $2", [user.into()]);
        self.insert_roles(user, roles)
    }

    pub fn set_permissions(&mut self, user: UserId, permissions: &Permissions) -> &mut Self {
        self.then("DELETE FROM user_permissions WHERE tenant_id = $1 AND user_id = $2", [user.into()]);
        self.insert_permissions(user, permissions)
    }

    fn insert_permissions(&mut self, user: UserId, permissions: &Permissions) -> &mut Self {
        for permission in permissions.iter() {
            self.then(
                "INSERT INTO user_permissions (tenant_id, user_id, permission) VALUES ($1, $2, $3)",
                [user.into(), permission.as_str().into()],
            );
        }
        self
    }

    pub fn set_memberships(&mut self, user: UserId, workspaces: &[Slug]) -> &mut Self {
        self.then("DELETE FROM workspace_members WHERE tenant_id = $1 AND user_id = $2", [user.into()]);
        self.insert_memberships(user, workspaces)
    }

    fn insert_roles(&mut self, user: UserId, roles: &[Role]) -> &mut Self {
        for role in roles {
            self.then(
                "INSERT INTO user_roles (tenant_id, user_id, role) VALUES ($1, $2, $3)",
                [user.into(), role.as_str().into()],
            );
        }
        self
    }

    fn insert_memberships(&mut self, user: UserId, workspaces: &[Slug]) -> &mut Self {
        for workspace in workspaces {
            self.expecting(
                Expect::Rows(1, Fault::not_found("workspace", workspace)),
                "INSERT INTO workspace_members (tenant_id, workspace_id, user_id)
                 SELECT tenant_id, id, $2 FROM workspaces WHERE tenant_id = $1 AND slug = $3",
                [user.into(), workspace.as_str().into()],
            );
        }
        self
    }

    /// A disabled user's sessions and keys end for good: whoever is enabled again starts anew.
    pub fn set_disabled(&mut self, user: UserId, at: Option<Timestamp>) -> &mut Self {
        if let Some(at) = at {
            self.then(
                "UPDATE browser_sessions SET revoked_at = $3 WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL",
                [user.into(), at.into()],
            );
            self.then(
                "UPDATE api_keys SET revoked_at = $3 WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL",
                [user.into(), at.into()],
            );
        }
        self.then("UPDATE users SET disabled_at = $3 WHERE tenant_id = $1 AND id = $2", [user.into(), at.into()])
    }
}

const TENANT_COLUMNS: &str = "id, slug, name, currency, open_write, created_at, limits, settings, policy_revision";

pub(crate) fn tenant(row: &Row) -> Result<Tenant, Error> {
    Ok(Tenant {
        id: row.get(0)?,
        slug: row.parse(1)?,
        name: row.get(2)?,
        currency: row.get(3)?,
        open_write: row.get(4)?,
        created_at: row.get(5)?,
        limits: row.json(6)?,
        settings: row.json(7)?,
        policy_revision: row.get(8)?,
    })
}

impl Store {
    pub async fn tenants(&self) -> Result<Vec<Tenant>, Error> {
        let sql = format!("SELECT {TENANT_COLUMNS} FROM tenants ORDER BY slug");
        self.query(&Scope::Everyone("the operator's list of tenants"), &sql, vec![]).await?.iter().map(tenant).collect()
    }

    pub async fn workspaces(&self, tenant: TenantId) -> Result<Vec<Workspace>, Error> {
        let sql = "SELECT id, slug, name, created_at FROM workspaces WHERE tenant_id = $1 ORDER BY slug";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![]).await?;
        let workspace = |row: &Row| {
            Ok(Workspace { id: row.get(0)?, slug: row.parse(1)?, name: row.get(2)?, created_at: row.get(3)? })
        };
        rows.iter().map(workspace).collect()
    }

    /// Users by name, behind `after`.
    pub async fn users(&self, tenant: TenantId, after: &str, limit: u32) -> Result<Vec<User>, Error> {
        let sql = "SELECT u.id, u.kind, u.name, u.email, u.disabled_at, u.created_at FROM users u
             WHERE u.tenant_id = $1 AND u.name > $2 ORDER BY u.name LIMIT $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![after.into(), limit.into()]).await?;
        self.with_rights(tenant, rows).await
    }

    /// The names of these users, whether or not they are in force; one who is not there is left out.
    pub async fn user_names(
        &self,
        tenant: TenantId,
        users: &BTreeSet<UserId>,
    ) -> Result<HashMap<UserId, String>, Error> {
        if users.is_empty() {
            return Ok(HashMap::new());
        }
        let places: Vec<String> = (0..users.len()).map(|index| format!("${}", index + 2)).collect();
        let sql = format!("SELECT id, name FROM users WHERE tenant_id = $1 AND id IN ({})", places.join(", "));
        let rows = self.query(&Scope::Tenant(tenant), &sql, users.iter().map(|user| (*user).into()).collect()).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// A user by id, else by name, else by e-mail address.
    pub async fn user(&self, tenant: TenantId, id_or_name: &str) -> Result<Option<User>, Error> {
        let sql = "SELECT u.id, u.kind, u.name, u.email, u.disabled_at, u.created_at FROM users u
             WHERE u.tenant_id = $1 AND (u.id = $2 OR u.login = $3 OR u.email = $3)
             ORDER BY CASE WHEN u.id = $2 THEN 0 WHEN u.login = $3 THEN 1 ELSE 2 END LIMIT 1";
        let id = id_or_name.parse::<UserId>().ok();
        let rows =
            self.query(&Scope::Tenant(tenant), sql, vec![id.into(), LoginName::of(id_or_name).as_str().into()]).await?;
        Ok(self.with_rights(tenant, rows).await?.pop())
    }

    /// Whose an address is by a provider's word, where it says so of one person alone.
    pub async fn account_vouched_for(&self, issuer: &str, email: &str) -> Result<Option<AccountId>, Error> {
        let sql = "SELECT account_id FROM identities WHERE issuer = $1 AND email = $2 LIMIT 2";
        let values = vec![issuer.into(), LoginName::of(email).as_str().into()];
        let rows = self.query(&Scope::Everyone("accounts are people, in whatever tenants"), sql, values).await?;
        match rows.as_slice() {
            [only] => only.get(0).map(Some),
            _ => Ok(None),
        }
    }

    pub(crate) async fn permissions_of(&self, tenant: TenantId, user: UserId) -> Result<Permissions, Error> {
        let sql = "SELECT permission FROM user_permissions WHERE tenant_id = $1 AND user_id = $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![user.into()]).await?;
        rows.iter().map(|row| row.parse(0)).collect()
    }

    async fn with_rights(&self, tenant: TenantId, rows: Vec<Row>) -> Result<Vec<User>, Error> {
        let scope = Scope::Tenant(tenant);
        let mut users = Vec::with_capacity(rows.len());
        for row in rows {
            let id: UserId = row.get(0)?;
            let roles = self
                .query(
                    &scope,
                    "SELECT role FROM user_roles WHERE tenant_id = $1 AND user_id = $2 ORDER BY role",
                    vec![id.into()],
                )
                .await?;
            let workspaces = self
                .query(
                    &scope,
                    "SELECT w.slug FROM workspace_members m JOIN workspaces w ON w.tenant_id = m.tenant_id AND w.id = m.workspace_id
                     WHERE m.tenant_id = $1 AND m.user_id = $2 ORDER BY w.slug",
                    vec![id.into()],
                )
                .await?;
            let permissions = self.permissions_of(tenant, id).await?;
            let kind: String = row.get(1)?;
            users.push(User {
                id,
                kind: if kind == "service" { UserKind::Service } else { UserKind::Person },
                name: row.get(2)?,
                email: row.get(3)?,
                roles: roles.iter().map(|role| role.parse(0)).collect::<Result<_, _>>()?,
                permissions,
                workspaces: workspaces.iter().map(|slug| slug.parse(0)).collect::<Result<_, _>>()?,
                disabled: row.get::<Option<i64>>(4)?.is_some(),
                created_at: row.get(5)?,
            });
        }
        Ok(users)
    }
}
