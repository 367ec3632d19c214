//! API keys, and whom a key or a browser session stands for. Secrets are kept only as hashes.

use serde::{Deserialize, Serialize};
use toolgate_contracts::{
    AgentId, Digest, Fault, KeyId, Permissions, Role, SessionId, Slug, TenantId, Timestamp, UserId,
};
use utoipa::ToSchema;

use crate::change::{Change, Durability, Expect};
use crate::error::Error;
use crate::oauth::OauthClient;
use crate::scope::Scope;
use crate::sign_in::How;
use crate::{Row, Store};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiKey {
    pub id: KeyId,
    pub name: String,
    pub owner: UserId,
    pub owner_name: String,
    /// Set: whoever holds the key acts as this agent.
    pub agent: Option<AgentId>,
    pub scopes: Vec<String>,
    /// Set: nobody made it; it is what an OAuth client was allowed, and good at `resource` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<OauthClient>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    pub created_at: Timestamp,
    /// Of what a client was allowed, its present access token alone.
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
}

/// What a credential stands for, as far as the database knows.
#[derive(Clone, Debug)]
pub struct Holder {
    pub tenant: TenantId,
    pub tenant_slug: Slug,
    pub user: UserId,
    pub user_name: String,
    pub roles: Vec<Role>,
    /// By roles, and by word where tools demand words of their own.
    pub permissions: Permissions,
}

#[derive(Clone, Debug)]
pub struct KeyHolder {
    pub holder: Holder,
    pub key: KeyId,
    pub secret_hash: Digest,
    pub agent: Option<AgentId>,
    pub scopes: Vec<String>,
    pub expires_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    /// Set: what an OAuth client was allowed, which is good there alone.
    pub resource: Option<String>,
}

#[derive(Clone, Debug)]
pub struct SessionHolder {
    pub holder: Holder,
    pub session: SessionId,
    pub last_seen_at: Timestamp,
    pub expires_at: Timestamp,
    pub how: How,
    pub began_at: Timestamp,
    pub proved_at: Option<Timestamp>,
}

impl Change {
    pub fn insert_key(&mut self, key: &ApiKey, secret_hash: Digest) -> &mut Self {
        let ApiKey {
            id,
            name,
            owner,
            owner_name: _,
            agent,
            scopes,
            client,
            resource,
            created_at,
            expires_at,
            revoked_at: _,
            last_used_at: _,
        } = key;
        let scopes = serde_json::Value::from(scopes.clone()).to_string();
        let client = client.as_ref().map(|client| serde_json::json!(client).to_string());
        self.then(
            "INSERT INTO api_keys (tenant_id, id, user_id, agent_id, name, secret_hash, scopes, created_at, expires_at, client, resource)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            [
                (*id).into(),
                (*owner).into(),
                (*agent).into(),
                name.into(),
                secret_hash.into(),
                scopes.into(),
                (*created_at).into(),
                (*expires_at).into(),
                client.into(),
                resource.clone().into(),
            ],
        )
    }

    pub fn revoke_key(&mut self, key: KeyId, at: Timestamp) -> &mut Self {
        self.expecting(
            Expect::Some(Fault::not_found("key", key)),
            "UPDATE api_keys SET revoked_at = $3 WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL",
            [key.into(), at.into()],
        )
    }

    pub fn touch_key(&mut self, key: KeyId, at: Timestamp) -> &mut Self {
        self.then("UPDATE api_keys SET last_used_at = $3 WHERE tenant_id = $1 AND id = $2", [key.into(), at.into()])
    }

    /// Ends a session, and with it the tokens that were minted in it.
    pub fn revoke_session(&mut self, session: SessionId, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE browser_sessions SET revoked_at = $3 WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL",
            [session.into(), at.into()],
        );
        self.revoke_tokens_of_session(session, at)
    }

    /// Holds on to a session while a token is minted in it: it is not ended until the token is there.
    pub fn hold_session(&mut self, session: SessionId, ended: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, ended),
            "UPDATE browser_sessions SET last_seen_at = last_seen_at WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL",
            [session.into()],
        )
    }

    pub fn touch_session(&mut self, session: SessionId, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE browser_sessions SET last_seen_at = $3 WHERE tenant_id = $1 AND id = $2",
            [session.into(), at.into()],
        )
    }
}

const KEYS: &str = "SELECT k.id, k.name, k.user_id, u.name, k.agent_id, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at, k.client, k.resource
     FROM api_keys k JOIN users u ON u.tenant_id = k.tenant_id AND u.id = k.user_id
     WHERE k.tenant_id = $1";

fn api_key(row: &Row) -> Result<ApiKey, Error> {
    Ok(ApiKey {
        id: row.get(0)?,
        name: row.get(1)?,
        owner: row.get(2)?,
        owner_name: row.get(3)?,
        agent: row.get(4)?,
        scopes: row.json(5)?,
        client: row.get::<Option<String>>(10)?.map(|_| row.json(10)).transpose()?,
        resource: row.get(11)?,
        created_at: row.get(6)?,
        expires_at: row.get(7)?,
        revoked_at: row.get(8)?,
        last_used_at: row.get(9)?,
    })
}

const BEFORE_TENANT: Scope = Scope::Everyone("a credential is looked up before its tenant is known");

impl Store {
    /// The key with this id, if it and its user are in force.
    pub async fn key_holder(&self, key: KeyId) -> Result<Option<KeyHolder>, Error> {
        let sql = "SELECT k.tenant_id, t.slug, u.id, u.name, k.id, k.secret_hash, k.agent_id, k.scopes, k.expires_at, k.last_used_at, k.resource
             FROM api_keys k JOIN users u ON u.tenant_id = k.tenant_id AND u.id = k.user_id JOIN tenants t ON t.id = k.tenant_id
             WHERE k.id = $1 AND k.revoked_at IS NULL AND u.disabled_at IS NULL";
        let rows = self.query(&BEFORE_TENANT, sql, vec![key.into()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(KeyHolder {
            holder: self.holder(row).await?,
            key: row.get(4)?,
            secret_hash: row.get(5)?,
            agent: row.get(6)?,
            scopes: row.json(7)?,
            expires_at: row.get(8)?,
            last_used_at: row.get(9)?,
            resource: row.get(10)?,
        }))
    }

    pub async fn session_holder(&self, token_hash: Digest) -> Result<Option<SessionHolder>, Error> {
        let sql = "SELECT s.tenant_id, t.slug, u.id, u.name, s.id, s.last_seen_at, s.expires_at, s.how, s.created_at, s.proved_at
             FROM browser_sessions s JOIN users u ON u.tenant_id = s.tenant_id AND u.id = s.user_id JOIN tenants t ON t.id = s.tenant_id
             WHERE s.token_hash = $1 AND s.revoked_at IS NULL AND u.disabled_at IS NULL";
        let rows = self.query(&BEFORE_TENANT, sql, vec![token_hash.into()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(SessionHolder {
            holder: self.holder(row).await?,
            session: row.get(4)?,
            last_seen_at: row.get(5)?,
            expires_at: row.get(6)?,
            how: row.parse(7)?,
            began_at: row.get(8)?,
            proved_at: row.get(9)?,
        }))
    }

    /// A user who is in force, whatever they show.
    pub async fn user_holder(&self, tenant: TenantId, user: UserId) -> Result<Option<Holder>, Error> {
        let sql = "SELECT u.tenant_id, t.slug, u.id, u.name FROM users u JOIN tenants t ON t.id = u.tenant_id
             WHERE u.tenant_id = $1 AND u.id = $2 AND u.disabled_at IS NULL";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![user.into()]).await?;
        match rows.first() {
            Some(row) => self.holder(row).await.map(Some),
            None => Ok(None),
        }
    }

    /// When whoever is behind a session last proved who they are.
    pub async fn session_proved(&self, tenant: TenantId, session: SessionId) -> Result<Option<Timestamp>, Error> {
        let sql = "SELECT proved_at FROM browser_sessions WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![session.into()]).await?;
        rows.first().map(|row| row.get(0)).transpose().map(Option::flatten)
    }

    /// When a session ends at the latest.
    pub async fn session_ends(&self, tenant: TenantId, session: SessionId) -> Result<Option<Timestamp>, Error> {
        let sql = "SELECT expires_at FROM browser_sessions WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![session.into()]).await?;
        rows.first().map(|row| row.get(0)).transpose()
    }

    /// Whether somebody belongs to a workspace.
    pub async fn is_member(
        &self,
        tenant: TenantId,
        user: UserId,
        workspace: toolgate_contracts::WorkspaceId,
    ) -> Result<bool, Error> {
        let sql = "SELECT 1 FROM workspace_members WHERE tenant_id = $1 AND user_id = $2 AND workspace_id = $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![user.into(), workspace.into()]).await?;
        Ok(!rows.is_empty())
    }

    async fn holder(&self, row: &Row) -> Result<Holder, Error> {
        let (tenant, user): (TenantId, UserId) = (row.get(0)?, row.get(2)?);
        let sql = "SELECT role FROM user_roles WHERE tenant_id = $1 AND user_id = $2 ORDER BY role";
        let roles = self.query(&Scope::Tenant(tenant), sql, vec![user.into()]).await?;
        let roles: Vec<Role> = roles.iter().map(|role| role.parse(0)).collect::<Result<_, _>>()?;
        let permissions = Permissions::of(roles.iter().copied()).union(&self.permissions_of(tenant, user).await?);
        Ok(Holder { tenant, tenant_slug: row.parse(1)?, user, user_name: row.get(3)?, roles, permissions })
    }

    /// Keys, newest first: those of one user, or all.
    pub async fn keys(
        &self,
        tenant: TenantId,
        owner: Option<UserId>,
        before: Option<KeyId>,
        limit: u32,
    ) -> Result<Vec<ApiKey>, Error> {
        let sql = format!("{KEYS} AND (k.user_id = $2 OR $3) AND (k.id < $4 OR $5) ORDER BY k.id DESC LIMIT $6");
        let parameters =
            vec![owner.into(), owner.is_none().into(), before.into(), before.is_none().into(), limit.into()];
        self.query(&Scope::Tenant(tenant), &sql, parameters).await?.iter().map(api_key).collect()
    }

    /// The key with this id, revoked or not.
    pub async fn key_by_id(&self, tenant: TenantId, id: KeyId) -> Result<Option<ApiKey>, Error> {
        let sql = format!("{KEYS} AND k.id = $2");
        self.query(&Scope::Tenant(tenant), &sql, vec![id.into()]).await?.first().map(api_key).transpose()
    }

    /// The keys of this name that are not revoked, newest first: each user may have one.
    pub async fn keys_by_name(&self, tenant: TenantId, name: &str) -> Result<Vec<ApiKey>, Error> {
        let sql = format!("{KEYS} AND k.name = $2 AND k.revoked_at IS NULL ORDER BY k.id DESC");
        self.query(&Scope::Tenant(tenant), &sql, vec![name.into()]).await?.iter().map(api_key).collect()
    }

    /// Notes the use of a credential; not worth waiting for the disk.
    pub async fn note_use(&self, mut change: Change) -> Result<(), Error> {
        change.durability = Durability::Process;
        self.commit(change).await.map(drop)
    }
}
