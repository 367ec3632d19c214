//! What people allowed OAuth clients: codes on their way to a client, and the texts by which one renews what it holds.
//!
//! INVARIANT: both are kept as hashes and are good once. What a client holds is a row of `api_keys` that has a `client`,
//! so it is listed, noted and revoked like any key. Deliberately absent: clients themselves. Who they are they bring along.

use serde::{Deserialize, Serialize};
use toolgate_contracts::{AgentId, Digest, Fault, KeyId, TenantId, Timestamp, UserId};
use utoipa::ToSchema;

use crate::Store;
use crate::change::{Change, Expect};
use crate::credentials::ApiKey;
use crate::error::Error;
use crate::scope::Scope;

const BEFORE_TENANT: Scope = Scope::Everyone("whoever shows a code or a refresh token has not said of which tenant");

/// An OAuth client, by its own words: nobody vouched for its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OauthClient {
    /// What it calls itself.
    pub name: String,
    /// Where it is sent back to, or whose word its name is.
    pub host: String,
    /// A digest of its `client_id`.
    pub id: Digest,
    /// Set: another issuer's token was shown, and its `sub` is for whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
}

/// What somebody allowed, before the client took it.
#[derive(Clone, Debug)]
pub struct OauthCode {
    pub user: UserId,
    pub agent: Option<AgentId>,
    pub key: KeyId,
    pub client: OauthClient,
    pub resource: String,
    pub scopes: Vec<String>,
    pub redirect: String,
    pub challenge: Digest,
    pub expires_at: Timestamp,
    pub used_at: Option<Timestamp>,
}

/// A refresh token that was shown.
#[derive(Clone, Debug)]
pub struct OauthRefresh {
    pub tenant: TenantId,
    pub key: KeyId,
    pub expires_at: Timestamp,
    pub used_at: Option<Timestamp>,
}

/// What another issuer's token stands for here.
#[derive(Clone, Debug)]
pub struct OutsideKey {
    /// The row in force.
    pub key: Option<KeyId>,
    /// When one was last revoked.
    pub revoked_at: Option<Timestamp>,
}

impl Change {
    pub fn insert_oauth_code(&mut self, code_hash: Digest, code: &OauthCode) -> Result<&mut Self, Fault> {
        let OauthCode { user, agent, key, client, resource, scopes, redirect, challenge, expires_at, used_at: _ } =
            code;
        let client = serde_json::to_string(client).map_err(Fault::internal)?;
        let scopes = serde_json::Value::from(scopes.clone()).to_string();
        Ok(self.then(
            "INSERT INTO oauth_codes (tenant_id, code_hash, user_id, agent_id, key_id, client, resource, scopes, redirect, challenge, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            [
                code_hash.into(),
                (*user).into(),
                (*agent).into(),
                (*key).into(),
                client.into(),
                resource.into(),
                scopes.into(),
                redirect.into(),
                (*challenge).into(),
                (*expires_at).into(),
            ],
        ))
    }

    /// Once, and not after its time; what comes of it is in the same change.
    pub fn spend_oauth_code(&mut self, code_hash: Digest, at: Timestamp, spent: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, spent),
            "UPDATE oauth_codes SET used_at = $3 WHERE tenant_id = $1 AND code_hash = $2 AND used_at IS NULL AND expires_at > $3",
            [code_hash.into(), at.into()],
        )
    }

    pub fn insert_oauth_refresh(&mut self, token_hash: Digest, key: KeyId, expires_at: Timestamp) -> &mut Self {
        self.then(
            "INSERT INTO oauth_refreshes (tenant_id, token_hash, key_id, expires_at) VALUES ($1, $2, $3, $4)",
            [token_hash.into(), key.into(), expires_at.into()],
        )
    }

    pub fn spend_oauth_refresh(&mut self, token_hash: Digest, at: Timestamp, spent: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, spent),
            "UPDATE oauth_refreshes SET used_at = $3 WHERE tenant_id = $1 AND token_hash = $2 AND used_at IS NULL AND expires_at > $3",
            [token_hash.into(), at.into()],
        )
    }

    /// Gives what a client holds a new access token; the one before is worth nothing from then on.
    pub fn renew_key(&mut self, key: KeyId, secret_hash: Digest, expires_at: Timestamp, revoked: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, revoked),
            "UPDATE api_keys SET secret_hash = $3, expires_at = $4 WHERE tenant_id = $1 AND id = $2 AND client IS NOT NULL AND revoked_at IS NULL",
            [key.into(), secret_hash.into(), expires_at.into()],
        )
    }

    /// Ends what a client holds, if there is such a thing and it has not ended.
    pub fn end_client_key(&mut self, key: KeyId, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE api_keys SET revoked_at = $3 WHERE tenant_id = $1 AND id = $2 AND client IS NOT NULL AND revoked_at IS NULL",
            [key.into(), at.into()],
        )
    }

    /// Ends what every client of a tenant holds and may still take: a restored backup brings back what was ended since.
    pub fn end_all_client_keys(&mut self, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE api_keys SET revoked_at = $2 WHERE tenant_id = $1 AND client IS NOT NULL AND revoked_at IS NULL",
            [at.into()],
        );
        self.then("UPDATE oauth_codes SET used_at = $2 WHERE tenant_id = $1 AND used_at IS NULL", [at.into()])
    }

    /// For whom another issuer's tokens are shown: a row without a text that anybody could show.
    pub fn insert_outside_key(&mut self, key: &ApiKey, nobody_knows: Digest, outside: Digest) -> &mut Self {
        self.insert_key(key, nobody_knows);
        self.then("UPDATE api_keys SET outside = $3 WHERE tenant_id = $1 AND id = $2", [key.id.into(), outside.into()])
    }
}

impl Store {
    /// A code with the tenant it is of, whether or not it is good any more.
    pub async fn oauth_code(&self, code_hash: Digest) -> Result<Option<(TenantId, OauthCode)>, Error> {
        let sql = "SELECT tenant_id, user_id, agent_id, key_id, client, resource, scopes, redirect, challenge, expires_at, used_at
             FROM oauth_codes WHERE code_hash = $1";
        let rows = self.query(&BEFORE_TENANT, sql, vec![code_hash.into()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let code = OauthCode {
            user: row.get(1)?,
            agent: row.get(2)?,
            key: row.get(3)?,
            client: row.json(4)?,
            resource: row.get(5)?,
            scopes: row.json(6)?,
            redirect: row.get(7)?,
            challenge: row.get(8)?,
            expires_at: row.get(9)?,
            used_at: row.get(10)?,
        };
        Ok(Some((row.get(0)?, code)))
    }

    pub async fn oauth_refresh(&self, token_hash: Digest) -> Result<Option<OauthRefresh>, Error> {
        let sql = "SELECT tenant_id, key_id, expires_at, used_at FROM oauth_refreshes WHERE token_hash = $1";
        let rows = self.query(&BEFORE_TENANT, sql, vec![token_hash.into()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(OauthRefresh { tenant: row.get(0)?, key: row.get(1)?, expires_at: row.get(2)?, used_at: row.get(3)? }))
    }

    /// The row for whom another issuer calls so, and whether there were others before it.
    pub async fn outside_key(&self, tenant: TenantId, outside: Digest) -> Result<OutsideKey, Error> {
        let in_force = "SELECT id FROM api_keys WHERE tenant_id = $1 AND outside = $2 AND revoked_at IS NULL";
        let rows = self.query(&Scope::Tenant(tenant), in_force, vec![outside.into()]).await?;
        let key = rows.first().map(|row| row.get(0)).transpose()?;
        let ended = "SELECT max(revoked_at) FROM api_keys WHERE tenant_id = $1 AND outside = $2";
        let rows = self.query(&Scope::Tenant(tenant), ended, vec![outside.into()]).await?;
        let revoked_at = rows.first().map(|row| row.get(0)).transpose()?.flatten();
        Ok(OutsideKey { key, revoked_at })
    }
}
