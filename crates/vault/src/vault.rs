//! Tenants' secrets: sealed under the tenant's data key, looked for from the nearest place to the widest, opened one by
//! one for whoever is due.
//!
//! Invariant: a sealed value opens only in the row it was sealed for. Tenant, place, name, version and key are part of
//! what the cipher checks, so that a row moved anywhere else is as good as noise.
//! Deliberately absent: who may have a secret, and the audit's entries. Whoever changes something begins the change.

use std::sync::Arc;

use toolgate_contracts::secret::{ALLOWED_MAX, VALUE_BYTES_MAX, VALUE_BYTES_SHORT, is_secret_name};
use toolgate_contracts::{
    Clock, Fault, FaultKind, Principal, ResolvedSecret, Rng, SecretAllowed, SecretInfo, SecretPlace, TenantId,
    WorkspaceId,
};
use toolgate_store::secrets::{NewSecret, SealedSecret};
use toolgate_store::{Change, Error, Store};

use crate::envelope;
use crate::keyring::{Key, Keyring, Purpose};
use crate::secret::Secret;

const LABEL: &str = "toolgate/secret/1";
/// How often a value is put anew because somebody else was faster.
const TRIES_MAX: usize = 5;
const BATCH: u32 = 100;

#[derive(Clone)]
pub struct Vault {
    store: Store,
    keyring: Keyring,
    clock: Clock,
    rng: Rng,
}

/// A value to keep.
pub struct NewValue<'a> {
    pub place: SecretPlace,
    pub secret: &'a Secret,
    /// Absent: as the value before it was given, to nobody if there was none.
    pub allowed: Option<SecretAllowed>,
    pub by: &'a str,
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct Stored {
    pub info: SecretInfo,
    pub warnings: Vec<String>,
}

/// Where secrets are looked for on somebody's behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    pub tenant: TenantId,
    /// Who is answerable. Nobody's call has no secrets of a user.
    pub principal: Option<Principal>,
    pub workspace: Option<WorkspaceId>,
}

impl Reach {
    /// From the nearest to the widest.
    fn places(self) -> Vec<SecretPlace> {
        let user = self.principal.map(SecretPlace::of);
        let workspace = self.workspace.map(SecretPlace::workspace);
        user.into_iter().chain(workspace).chain([SecretPlace::org(self.tenant)]).collect()
    }
}

/// How far a change of the data key came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The key that seals from now on.
    pub kid: String,
    /// Values that were sealed anew.
    pub resealed: usize,
    /// Older keys that nothing lies under any more.
    pub ended: usize,
}

impl Vault {
    pub fn new(store: Store, keyring: Keyring, clock: Clock, rng: Rng) -> Self {
        Self { store, keyring, clock, rng }
    }

    /// Keeps a value; the one before it is gone with the same commit. `begin` makes the change with its entry in the
    /// log; it may be asked again.
    pub async fn put(
        &self,
        tenant: TenantId,
        new: NewValue<'_>,
        begin: impl Fn(&ResolvedSecret) -> Change,
    ) -> Result<Stored, Fault> {
        check_name(new.secret.name())?;
        self.put_any(tenant, new, begin).await
    }

    /// The same for what the server keeps for itself, such as a token that it was given: under a name that nobody else
    /// can give.
    pub async fn put_own(
        &self,
        tenant: TenantId,
        new: NewValue<'_>,
        begin: impl Fn(&ResolvedSecret) -> Change,
    ) -> Result<Stored, Fault> {
        if is_secret_name(new.secret.name()) || new.secret.name().contains('|') {
            return Err(Fault::internal("what the server keeps for itself has a name that others may give"));
        }
        self.put_any(tenant, new, begin).await
    }

    async fn put_any(
        &self,
        tenant: TenantId,
        new: NewValue<'_>,
        begin: impl Fn(&ResolvedSecret) -> Change,
    ) -> Result<Stored, Fault> {
        let NewValue { place, secret, allowed, by } = new;
        check_value(secret.expose())?;
        if let Some(allowed) = &allowed {
            check_allowed(allowed)?;
        }
        let mut key = self.keyring.key(Purpose::DataKey, Some(tenant)).await?;
        for _ in 0..TRIES_MAX {
            let before = self.find(tenant, place, secret.name()).await?;
            let version = match &before {
                Some(before) => before.found.version,
                None => self.store.secret_version(tenant, place, secret.name()).await?,
            };
            let found = ResolvedSecret {
                name: secret.name().to_owned(),
                scope: place.scope,
                scope_id: place.id,
                version: version + 1,
            };
            let kept = before.map(|before| before.allowed).unwrap_or_default();
            let sealed = SealedSecret {
                ciphertext: seal(tenant, &found, &key, secret.expose(), &self.rng)?,
                key_id: key.kid().to_owned(),
                allowed: allowed.clone().unwrap_or(kept),
                found,
            };
            let created_at = self.clock.now();
            let mut change = begin(&sealed.found);
            change.hold_data_key(key.kid());
            change.put_secret(&NewSecret { sealed: &sealed, created_by: by, created_at });
            match self.store.commit(change).await {
                Ok(_) => return Ok(stored(sealed, secret, by, created_at)),
                // Somebody put a value, or rotated the key, since it was looked at.
                Err(error) if matches!(error, Error::Unmet(_)) || error.is("secrets_pkey") => {
                    key = self.active_key(tenant).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Fault::conflict(
            format!("the secret `{}` is being changed by others at the same time", secret.name()),
            "try again",
        ))
    }

    /// The secrets of these names that this reach has, in the order of the names; the nearest place wins. Nothing is
    /// decrypted.
    pub async fn resolve(&self, reach: Reach, names: &[&str]) -> Result<Vec<SealedSecret>, Fault> {
        let places = reach.places();
        let rows = self.store.secrets_in(reach.tenant, &places, names).await?;
        let nearest = |name: &&str| {
            let place = |row: &&SealedSecret| places.iter().position(|place| *place == row.found.place());
            rows.iter().filter(|row| row.found.name == **name).min_by_key(place).cloned()
        };
        Ok(names.iter().filter_map(nearest).collect())
    }

    /// The secret of this name in one place.
    pub async fn find(&self, tenant: TenantId, place: SecretPlace, name: &str) -> Result<Option<SealedSecret>, Fault> {
        Ok(self.store.secrets_in(tenant, &[place], &[name]).await?.pop())
    }

    /// Exactly this version, if it is still there.
    pub async fn at_version(&self, tenant: TenantId, found: &ResolvedSecret) -> Result<Option<SealedSecret>, Fault> {
        Ok(self.find(tenant, found.place(), &found.name).await?.filter(|sealed| sealed.found == *found))
    }

    /// The value in clear.
    pub async fn open(&self, tenant: TenantId, sealed: &SealedSecret) -> Result<Secret, Fault> {
        let closed = |why: &str| {
            let name = &sealed.found.name;
            Fault::new(
                FaultKind::Unavailable,
                format!("the secret `{name}` does not open"),
                format!("set it again with `toolgate secret set {name}`"),
            )
            .with_log(format!("secret `{name}`, version {}: {why}", sealed.found.version))
        };
        let key = self.keyring.by_kid(Purpose::DataKey, Some(tenant), &sealed.key_id).await?;
        let key = key.ok_or_else(|| closed("its data key has ended or never was"))?;
        let value =
            envelope::decrypt(key.seed(), context(tenant, &sealed.found, key.kid()).as_bytes(), &sealed.ciphertext)
                .ok_or_else(|| closed("it was changed, or moved here from another row"))?;
        Ok(Secret::opened(sealed.found.name.clone(), value, sealed.allowed.clone()))
    }

    /// Gives a secret to others than before.
    pub async fn allow(
        &self,
        tenant: TenantId,
        before: &SealedSecret,
        allowed: &SecretAllowed,
        mut change: Change,
    ) -> Result<(), Fault> {
        check_allowed(allowed)?;
        debug_assert_eq!(change.tenant(), tenant);
        change.allow_secret(&before.found, allowed);
        self.store.commit(change).await?;
        Ok(())
    }

    /// A new data key: what is put from now on lies under it. What was there stays under the key it has.
    pub async fn rotate(&self, tenant: TenantId) -> Result<Rotation, Fault> {
        let key = self.keyring.rotate(Purpose::DataKey, Some(tenant)).await?;
        Ok(Rotation { kid: key.kid().to_owned(), resealed: 0, ended: 0 })
    }

    /// Seals every value of the tenant under the newest data key, row by row, and ends the keys that are then unused.
    /// Cut short anywhere it has lost nothing, and the next one goes on where it stopped: only when nothing is left to
    /// do does it begin with a new key.
    pub async fn rotate_deep(&self, tenant: TenantId) -> Result<Rotation, Fault> {
        let mut key = self.active_key(tenant).await?;
        if self.store.secrets_not_under(tenant, key.kid(), 1).await?.is_empty() {
            key = self.keyring.rotate(Purpose::DataKey, Some(tenant)).await?;
        }
        let mut resealed = 0;
        loop {
            let rows = self.store.secrets_not_under(tenant, key.kid(), BATCH).await?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                let secret = self.open(tenant, &row).await?;
                let ciphertext = seal(tenant, &row.found, &key, secret.expose(), &self.rng)?;
                let mut change = Change::new(tenant);
                change.hold_data_key(key.kid());
                change.reseal_secret(&row, key.kid(), ciphertext);
                let outcome = self.store.commit(change).await?;
                resealed += usize::from(outcome.changed.last() == Some(&1));
            }
        }
        let ended = self.keyring.end_unused_data_keys(tenant).await?;
        Ok(Rotation { kid: key.kid().to_owned(), resealed, ended })
    }

    /// As the database has it: another replica may have rotated it.
    async fn active_key(&self, tenant: TenantId) -> Result<Arc<Key>, Fault> {
        self.keyring.all(Purpose::DataKey, Some(tenant)).await?;
        self.keyring.key(Purpose::DataKey, Some(tenant)).await
    }
}

/// Names hold no `|`, and nothing else here does.
fn context(tenant: TenantId, found: &ResolvedSecret, kid: &str) -> String {
    let ResolvedSecret { name, scope, scope_id, version } = found;
    format!("{tenant}|{scope}|{scope_id}|{name}|{version}|{kid}|{LABEL}")
}

fn seal(tenant: TenantId, found: &ResolvedSecret, key: &Key, value: &[u8], rng: &Rng) -> Result<Vec<u8>, Fault> {
    envelope::encrypt(key.seed(), context(tenant, found, key.kid()).as_bytes(), value, rng)
        .ok_or_else(|| Fault::internal("the cipher refused to seal a secret"))
}

fn stored(sealed: SealedSecret, secret: &Secret, by: &str, created_at: toolgate_contracts::Timestamp) -> Stored {
    let mut warnings = Vec::new();
    if secret.expose().len() < VALUE_BYTES_SHORT {
        warnings.push(format!(
            "the value has fewer than {VALUE_BYTES_SHORT} bytes: in output it is taken out only where it stands as a word of its own"
        ));
    }
    if sealed.allowed.tools.is_empty() && sealed.allowed.providers.is_empty() {
        let name = secret.name();
        warnings
            .push(format!("no tool may have it yet; give it to one with `toolgate secret allow {name} --tool TOOL`"));
    }
    let SealedSecret { found: ResolvedSecret { name, scope, scope_id, version }, allowed, .. } = sealed;
    let info = SecretInfo { name, scope, scope_id, version, allowed, created_by: by.to_owned(), created_at };
    Stored { info, warnings }
}

fn check_name(name: &str) -> Result<(), Fault> {
    if is_secret_name(name) {
        return Ok(());
    }
    let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
    let remedy = "use up to 64 letters, digits, `_` and `-`, as in `SMTP_PASSWORD`";
    Err(Fault::invalid(format!("`{shown}` is not the name of a secret"), remedy).at("/name"))
}

/// Says what is wrong with a value without a word of it.
fn check_value(value: &[u8]) -> Result<(), Fault> {
    let told = match value.len() {
        0 => "the value is empty".to_owned(),
        bytes if bytes > VALUE_BYTES_MAX => format!("the value has {bytes} bytes"),
        _ if str::from_utf8(value).is_err() => "the value is not UTF-8 text".to_owned(),
        _ if value.iter().all(u8::is_ascii_whitespace) => "the value is nothing but space".to_owned(),
        _ => return Ok(()),
    };
    Err(Fault::invalid(told, format!("give 1 to {VALUE_BYTES_MAX} bytes of text")).at("/value"))
}

fn check_allowed(allowed: &SecretAllowed) -> Result<(), Fault> {
    let SecretAllowed { tools, hosts, providers, code } = allowed;
    let counts = [("tools", tools.len()), ("hosts", hosts.len()), ("providers", providers.len()), ("code", code.len())];
    for (member, count) in counts {
        if count > ALLOWED_MAX {
            let told = format!("`{member}` lists {count}");
            return Err(Fault::invalid(told, format!("list at most {ALLOWED_MAX}")).at(format!("/allowed/{member}")));
        }
    }
    Ok(())
}
