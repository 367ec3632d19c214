//! The server's own keys, as rows: wrapped by the master key, which this crate never sees.
//!
//! Deliberately absent: deleting. What a key signed or sealed must stay checkable, so a key only changes its state.

use toolgate_contracts::{Fault, TenantId, Timestamp};

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// The one that makes things.
    Active,
    /// What it made is still good; it makes nothing new.
    Retiring,
    /// What it made is no longer good.
    Retired,
}

impl KeyState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Retiring => "retiring",
            Self::Retired => "retired",
        }
    }
}

impl std::str::FromStr for KeyState {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Active, Self::Retiring, Self::Retired].into_iter().find(|state| state.as_str() == text).ok_or(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// What the key is for, as a word.
    pub kind: String,
    pub kid: String,
    pub tenant: Option<TenantId>,
    pub wrapped: Vec<u8>,
    pub state: KeyState,
    pub created_at: Timestamp,
}

impl WrappedKey {
    /// Whether `error` says that another key of this kind and tenant is active already.
    pub fn lost_the_race(error: &Error) -> bool {
        error.is("server_keys_active") || error.is("server_keys_active_global")
    }
}

impl Change {
    pub fn insert_server_key(&mut self, key: &WrappedKey) -> &mut Self {
        let WrappedKey { kind, kid, tenant, wrapped, state, created_at } = key;
        self.then(
            "/* no tenant: some keys are the server's own */
             INSERT INTO server_keys (kind, kid, tenant_id, wrapped, state, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
            [
                kind.into(),
                kid.into(),
                (*tenant).into(),
                wrapped.clone().into(),
                state.as_str().into(),
                (*created_at).into(),
            ],
        )
    }

    /// The active key steps back for a new one, which the same change inserts.
    pub fn retire_server_key(&mut self, kind: &str, kid: &str) -> &mut Self {
        let overtaken = Fault::conflict(
            format!("the {kind} key was rotated by another server at the same time"),
            "nothing was changed here; rotate again if you want one more",
        );
        self.expecting(
            Expect::Rows(1, overtaken),
            "/* no tenant: a key is named by its kind and id */
             UPDATE server_keys SET state = 'retiring' WHERE kind = $1 AND kid = $2 AND state = 'active'",
            [kind.into(), kid.into()],
        )
    }

    /// What it made is no longer good.
    pub fn end_server_key(&mut self, kind: &str, kid: &str) -> &mut Self {
        self.then(
            "/* no tenant: a key is named by its kind and id */
             UPDATE server_keys SET state = 'retired' WHERE kind = $1 AND kid = $2 AND state = 'retiring'",
            [kind.into(), kid.into()],
        )
    }

    /// Ends a tenant's data key, unless a secret still lies under it.
    pub fn end_data_key(&mut self, kid: &str) -> &mut Self {
        self.then(
            "UPDATE server_keys SET state = 'retired'
             WHERE tenant_id = $1 AND kind = 'data_key' AND kid = $2 AND state = 'retiring'
             AND NOT EXISTS (SELECT 1 FROM secrets s WHERE s.tenant_id = $1 AND s.key_id = $2)
             AND NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.tenant_id = $1 AND w.key_id = $2)",
            [kid.into()],
        )
    }

    /// What this change seals is sealed under the key that is active when it is committed: nobody ends a key below it.
    pub fn hold_data_key(&mut self, kid: &str) -> &mut Self {
        let rotated = Fault::conflict("the tenant's data key was rotated meanwhile", "try again");
        self.expecting(
            Expect::Rows(1, rotated),
            "UPDATE server_keys SET state = 'active'
             WHERE tenant_id = $1 AND kind = 'data_key' AND kid = $2 AND state = 'active'",
            [kid.into()],
        )
    }

    /// Puts a key under another master key, unless somebody did so since `key` was read.
    pub fn rewrap_server_key(&mut self, key: &WrappedKey, wrapped: Vec<u8>) -> &mut Self {
        self.then(
            "/* no tenant: a key is named by its kind and id */
             UPDATE server_keys SET wrapped = $4 WHERE kind = $1 AND kid = $2 AND wrapped = $3",
            [(&key.kind).into(), (&key.kid).into(), key.wrapped.clone().into(), wrapped.into()],
        )
    }
}

const KEYS: &str = "SELECT kind, kid, tenant_id, wrapped, state, created_at FROM server_keys";
/// Times may be equal, ids are not.
const NEWEST_FIRST: &str = "ORDER BY created_at DESC, kid DESC";
const BY_SERVER: Scope = Scope::Everyone("the server opens its own keys, for whichever tenant");

fn wrapped_key(row: &Row) -> Result<WrappedKey, Error> {
    Ok(WrappedKey {
        kind: row.get(0)?,
        kid: row.get(1)?,
        tenant: row.get(2)?,
        wrapped: row.get(3)?,
        state: row.parse(4)?,
        created_at: row.get(5)?,
    })
}

impl Store {
    /// All keys in whatever state, newest first.
    pub async fn server_keys(&self) -> Result<Vec<WrappedKey>, Error> {
        let sql = format!("{KEYS} {NEWEST_FIRST}");
        self.query(&BY_SERVER, &sql, vec![]).await?.iter().map(wrapped_key).collect()
    }

    /// The keys of one kind and tenant in whatever state, newest first.
    pub async fn server_keys_of(&self, kind: &str, tenant: Option<TenantId>) -> Result<Vec<WrappedKey>, Error> {
        let (sql, parameters) = match tenant {
            Some(tenant) => {
                (format!("{KEYS} WHERE kind = $1 AND tenant_id = $2 {NEWEST_FIRST}"), vec![kind.into(), tenant.into()])
            }
            None => (format!("{KEYS} WHERE kind = $1 AND tenant_id IS NULL {NEWEST_FIRST}"), vec![kind.into()]),
        };
        self.query(&BY_SERVER, &sql, parameters).await?.iter().map(wrapped_key).collect()
    }
}
