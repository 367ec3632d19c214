//! Secrets as rows: encrypted by the vault, whose keys this crate never sees.
//!
//! Invariant: a version of a secret is never used twice. A value that is replaced is gone with the same change; one that
//! is taken away leaves its row, which holds the version and nothing else.

use toolgate_contracts::{
    Fault, Principal, ResolvedSecret, SecretAllowed, SecretInfo, SecretPlace, TenantId, Timestamp, UserId, WorkspaceId,
};

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store, Value};

/// A value as it lies in the database.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedSecret {
    pub found: ResolvedSecret,
    /// The data key that seals it.
    pub key_id: String,
    pub ciphertext: Vec<u8>,
    pub allowed: SecretAllowed,
}

impl std::fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SealedSecret({:?})", self.found)
    }
}

/// A value that takes the place of the one before.
pub struct NewSecret<'a> {
    pub sealed: &'a SealedSecret,
    pub created_by: &'a str,
    pub created_at: Timestamp,
}

fn overtaken(name: &str) -> Fault {
    Fault::conflict(
        format!("the secret `{name}` was changed by somebody else at the same time"),
        "look at it with `toolgate secret list`, then try again",
    )
}

impl Change {
    /// The first version is inserted, a later one takes the place of the version before it and of no other.
    pub fn put_secret(&mut self, new: &NewSecret<'_>) -> &mut Self {
        let SealedSecret { found, key_id, ciphertext, allowed } = new.sealed;
        let ResolvedSecret { name, scope, scope_id, version } = found;
        let allowed = serde_json::to_string(allowed).unwrap_or_default();
        let version = i64::try_from(*version).unwrap_or(i64::MAX);
        let values: [Value; 9] = [
            scope.as_str().into(),
            (*scope_id).into(),
            name.into(),
            version.into(),
            key_id.into(),
            ciphertext.clone().into(),
            allowed.into(),
            new.created_by.into(),
            new.created_at.into(),
        ];
        if version == 1 {
            return self.then(
                "INSERT INTO secrets (tenant_id, scope, scope_id, name, version, key_id, ciphertext, allowed, created_by, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                values,
            );
        }
        self.expecting(
            Expect::Rows(1, overtaken(name)),
            "UPDATE secrets SET version = $5, key_id = $6, ciphertext = $7, allowed = $8, created_by = $9, created_at = $10
             WHERE tenant_id = $1 AND scope = $2 AND scope_id = $3 AND name = $4 AND version = $5 - 1",
            values,
        )
    }

    /// Takes the value away.
    pub fn delete_secret(&mut self, place: SecretPlace, name: &str) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("secret", name)),
            "UPDATE secrets SET key_id = NULL, ciphertext = NULL, allowed = '{}'
             WHERE tenant_id = $1 AND scope = $2 AND scope_id = $3 AND name = $4 AND key_id IS NOT NULL",
            [place.scope.as_str().into(), place.id.into(), name.into()],
        )
    }

    /// Takes every value away that a user kept.
    pub fn delete_secrets_of(&mut self, user: UserId) -> &mut Self {
        self.then(
            "UPDATE secrets SET key_id = NULL, ciphertext = NULL, allowed = '{}'
             WHERE tenant_id = $1 AND scope = 'user' AND scope_id = $2 AND key_id IS NOT NULL",
            [user.into()],
        )
    }

    /// Takes the values of these names away, wherever in the tenant they are.
    pub fn delete_secrets_named(&mut self, names: &[String; 3]) -> &mut Self {
        let [one, two, three] = names;
        self.then(
            "UPDATE secrets SET key_id = NULL, ciphertext = NULL, allowed = '{}'
             WHERE tenant_id = $1 AND name IN ($2, $3, $4) AND key_id IS NOT NULL",
            [one.into(), two.into(), three.into()],
        )
    }

    /// Gives the secret to others than before; the value stays, and so does its version.
    pub fn allow_secret(&mut self, found: &ResolvedSecret, allowed: &SecretAllowed) -> &mut Self {
        let version = i64::try_from(found.version).unwrap_or(i64::MAX);
        self.expecting(
            Expect::Rows(1, overtaken(&found.name)),
            "UPDATE secrets SET allowed = $6
             WHERE tenant_id = $1 AND scope = $2 AND scope_id = $3 AND name = $4 AND version = $5 AND key_id IS NOT NULL",
            [
                found.scope.as_str().into(),
                found.scope_id.into(),
                (&found.name).into(),
                version.into(),
                serde_json::to_string(allowed).unwrap_or_default().into(),
            ],
        )
    }

    /// Puts the same value under another data key, unless it was changed since `before` was read.
    pub fn reseal_secret(&mut self, before: &SealedSecret, key_id: &str, ciphertext: Vec<u8>) -> &mut Self {
        let version = i64::try_from(before.found.version).unwrap_or(i64::MAX);
        self.then(
            "UPDATE secrets SET key_id = $6, ciphertext = $7
             WHERE tenant_id = $1 AND scope = $2 AND scope_id = $3 AND name = $4 AND version = $5 AND key_id = $8",
            [
                before.found.scope.as_str().into(),
                before.found.scope_id.into(),
                (&before.found.name).into(),
                version.into(),
                key_id.into(),
                ciphertext.into(),
                (&before.key_id).into(),
            ],
        )
    }
}

const SEALED: &str = "SELECT name, scope, scope_id, version, key_id, ciphertext, allowed FROM secrets
    WHERE tenant_id = $1 AND key_id IS NOT NULL";

fn found(row: &Row) -> Result<ResolvedSecret, Error> {
    let version: i64 = row.get(3)?;
    Ok(ResolvedSecret {
        name: row.get(0)?,
        scope: row.parse(1)?,
        scope_id: row.get(2)?,
        version: u64::try_from(version).unwrap_or(0),
    })
}

fn sealed(row: &Row) -> Result<SealedSecret, Error> {
    Ok(SealedSecret { found: found(row)?, key_id: row.get(4)?, ciphertext: row.get(5)?, allowed: row.json(6)? })
}

impl Store {
    /// The secrets of these names in any of these places.
    pub async fn secrets_in(
        &self,
        tenant: TenantId,
        places: &[SecretPlace],
        names: &[&str],
    ) -> Result<Vec<SealedSecret>, Error> {
        if places.is_empty() || names.is_empty() {
            return Ok(Vec::new());
        }
        let mut parameters = Vec::with_capacity(2 * places.len() + names.len());
        let mut number = 1;
        let mut next = || {
            number += 1;
            format!("${number}")
        };
        let of_places: Vec<String> =
            places.iter().map(|_| format!("(scope = {} AND scope_id = {})", next(), next())).collect();
        let of_names: Vec<String> = names.iter().map(|_| next()).collect();
        for place in places {
            parameters.extend([place.scope.as_str().into(), place.id.into()]);
        }
        parameters.extend(names.iter().map(|name| (*name).into()));
        let sql = format!("{SEALED} AND ({}) AND name IN ({})", of_places.join(" OR "), of_names.join(", "));
        self.query(&Scope::Tenant(tenant), &sql, parameters).await?.iter().map(sealed).collect()
    }

    /// The newest version that a secret ever had there, whether or not its value is still there.
    pub async fn secret_version(&self, tenant: TenantId, place: SecretPlace, name: &str) -> Result<u64, Error> {
        let sql = "SELECT version FROM secrets WHERE tenant_id = $1 AND scope = $2 AND scope_id = $3 AND name = $4";
        let parameters = vec![place.scope.as_str().into(), place.id.into(), name.into()];
        let rows = self.query(&Scope::Tenant(tenant), sql, parameters).await?;
        let version: Option<i64> = rows.first().map(|row| row.get(0)).transpose()?;
        Ok(version.and_then(|version| u64::try_from(version).ok()).unwrap_or(0))
    }

    /// Every secret of the tenant, without values: by name, then from the nearest place to the widest.
    pub async fn secrets(&self, tenant: TenantId) -> Result<Vec<SecretInfo>, Error> {
        let sql = "SELECT name, scope, scope_id, version, allowed, created_by, created_at FROM secrets
             WHERE tenant_id = $1 AND key_id IS NOT NULL";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![]).await?;
        let mut secrets = rows
            .iter()
            .map(|row| {
                let ResolvedSecret { name, scope, scope_id, version } = found(row)?;
                let (allowed, created_by, created_at) = (row.json(4)?, row.get(5)?, row.get(6)?);
                Ok(SecretInfo { name, scope, scope_id, version, allowed, created_by, created_at })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        secrets.sort_by(|one, other| {
            (&one.name, one.scope, one.scope_id).cmp(&(&other.name, other.scope, other.scope_id))
        });
        Ok(secrets)
    }

    /// The workspace of somebody who has only one.
    pub async fn only_workspace(&self, tenant: TenantId, who: Principal) -> Result<Option<WorkspaceId>, Error> {
        let rows = match who {
            Principal::User(user) => {
                let sql = "SELECT workspace_id FROM workspace_members WHERE tenant_id = $1 AND user_id = $2 LIMIT 2";
                self.query(&Scope::Tenant(tenant), sql, vec![user.into()]).await?
            }
            // The owner of the folder is in all of them.
            Principal::Local(_) => {
                let sql = "SELECT id FROM workspaces WHERE tenant_id = $1 LIMIT 2";
                self.query(&Scope::Tenant(tenant), sql, vec![]).await?
            }
        };
        match rows.as_slice() {
            [only] => only.get(0).map(Some),
            _ => Ok(None),
        }
    }

    /// Secrets that lie under another data key than this, at most `limit`.
    pub async fn secrets_not_under(
        &self,
        tenant: TenantId,
        key_id: &str,
        limit: u32,
    ) -> Result<Vec<SealedSecret>, Error> {
        let sql = format!("{SEALED} AND key_id <> $2 ORDER BY scope, scope_id, name LIMIT {limit}");
        self.query(&Scope::Tenant(tenant), &sql, vec![key_id.into()]).await?.iter().map(sealed).collect()
    }
}
