//! API keys: made within the rights of who makes and who owns them, shown once, revoked at once.

use serde_json::json;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{AgentId, Caller, Fault, FaultKind, KeyId, Permission, Permissions};
use toolgate_registry::commands::FIRST_USER;
use toolgate_store::Change;
use toolgate_store::credentials::ApiKey;
use toolgate_store::people::User;

use super::{check_name, require_grantable, taken};
use crate::app::App;
use crate::seal;

const KEY_DAYS_MAX: u32 = 3650;

pub struct NewKey {
    pub name: String,
    /// Absent: the caller's own key.
    pub owner: Option<String>,
    pub agent: Option<String>,
    pub scopes: Vec<String>,
    pub days: Option<u32>,
}

impl App {
    /// Makes a key. Its text is in the answer and nowhere else.
    pub async fn create_key(&self, caller: &Caller, new: NewKey) -> Result<(ApiKey, String), Fault> {
        let NewKey { name, owner, agent, scopes, days } = new;
        check_name(&name)?;
        // Before anybody is looked up: who is there is not told to whoever makes no keys.
        if !caller.may(&Permission::KEYS_OWN) {
            caller.require(&Permission::KEYS_ALL)?;
        }
        let own = caller.user().map(|user| user.to_string());
        let owner_name = owner.clone().or(own).unwrap_or_else(|| FIRST_USER.to_owned());
        let owner = self
            .store
            .user(caller.tenant, &owner_name)
            .await?
            .ok_or_else(|| Fault::not_found("user", &owner_name).at("/owner"))?;
        caller.require(if caller.user() == Some(owner.id) { &Permission::KEYS_OWN } else { &Permission::KEYS_ALL })?;
        let scopes =
            if scopes.is_empty() { vec!["tools:execute".to_owned(), "calls.read.own".to_owned()] } else { scopes };
        let wanted = Permissions::from_scopes(scopes.iter().map(String::as_str)).map_err(|error| {
            Fault::invalid(error.to_string(), "give permissions, roles or tools:execute").at("/scopes")
        })?;
        let held = Permissions::of(owner.roles.iter().copied()).union(&owner.permissions);
        let own = caller.user() == Some(owner.id);
        if !own {
            // Whoever makes somebody a key lends that person's rights to its holder.
            require_grantable(caller, &owner.roles)?;
        }
        if let Some(unknown) = wanted.iter().find(|permission| permission.is_tools_own() && !held.contains(permission))
        {
            return Err(Fault::invalid(
                format!("`{unknown}` is no scope that {} has", owner.name),
                "give permissions, roles or tools:execute; words that tools demand must be the owner's first",
            )
            .at("/scopes"));
        }
        let within = |permission: &Permission| held.contains(permission) && (!own || caller.may(permission));
        let beyond: Vec<_> = wanted.iter().filter(|permission| !within(permission)).map(ToString::to_string).collect();
        if !beyond.is_empty() {
            let whose = if own { "yours" } else { "its owner's" };
            return Err(Fault::new(
                FaultKind::Forbidden,
                format!("a key holds at most {whose}: {} is beyond that", beyond.join(", ")),
                "leave those scopes out",
            )
            .at("/scopes"));
        }
        let for_people: Vec<_> =
            wanted.iter().filter(|permission| !permission.is_for_agents()).map(ToString::to_string).collect();
        if agent.is_some() && !for_people.is_empty() {
            return Err(Fault::new(
                FaultKind::Forbidden,
                format!("a key made for an agent never holds {}: that is for people", for_people.join(", ")),
                "leave those scopes out (`tools:execute` and `calls.read.own` are what an agent needs), or make a key \
                 without `agent`",
            )
            .at("/scopes"));
        }
        let agent = match &agent {
            Some(name) => Some(self.managed_agent(caller, name).await?),
            None => None,
        };
        if days.is_some_and(|days| days == 0 || days > KEY_DAYS_MAX) {
            return Err(Fault::invalid(
                "a key lasts from 1 day to 3650 days",
                "give a number between, or leave it out",
            )
            .at("/days"));
        }
        let expires_in = days.map(|days| i64::from(days) * 86_400);
        self.insert_key(caller, name, owner, agent, scopes, expires_in).await
    }

    /// Whoever holds a key of an agent acts as the agent, so making one needs the right to manage it.
    pub(crate) async fn managed_agent(&self, caller: &Caller, name: &str) -> Result<AgentId, Fault> {
        let unknown = || Fault::not_found("agent", name).at("/agent");
        let snapshot = self.registry.snapshot();
        let agent = snapshot.tenant(caller.tenant)?.agent(name).ok_or_else(unknown)?;
        if self.registry.may_manage(caller, agent).await? { Ok(agent.id) } else { Err(unknown()) }
    }

    /// The key that lies in the data folder; see [`crate::auth::FOLDER_OWNER_SCOPE`].
    pub async fn create_folder_key(&self, caller: &Caller, owner: &str) -> Result<String, Fault> {
        let owner = self.store.user(caller.tenant, owner).await?.ok_or_else(|| Fault::not_found("user", owner))?;
        let name = format!("key file {}", data_encoding::HEXLOWER.encode(&self.rng.bytes::<4>()));
        let scopes = vec![crate::auth::FOLDER_OWNER_SCOPE.to_owned()];
        self.insert_key(caller, name, owner, None, scopes, None).await.map(|(_, text)| text)
    }

    async fn insert_key(
        &self,
        caller: &Caller,
        name: String,
        owner: User,
        agent: Option<AgentId>,
        scopes: Vec<String>,
        expires_in_s: Option<i64>,
    ) -> Result<(ApiKey, String), Fault> {
        let now = self.clock.now();
        let key = ApiKey {
            id: self.new_id(),
            name,
            owner: owner.id,
            owner_name: owner.name,
            agent,
            scopes,
            client: None,
            resource: None,
            created_at: now,
            expires_at: expires_in_s.map(|seconds| now.plus_seconds(seconds)),
            revoked_at: None,
            last_used_at: None,
        };
        let (text, hash) = seal::key(key.id, &self.rng);
        let mut change = Change::new(caller.tenant);
        change.insert_key(&key, hash);
        let details = json!({"id": key.id, "owner": key.owner, "scopes": key.scopes, "expires_at": key.expires_at, "agent": key.agent});
        change.audit(&self.entry(caller, caller.tenant, "key.create", &key.name, details));
        self.store.commit(change).await.map_err(|error| taken(error, "api_keys_name", "key", &key.name))?;
        Ok((key, text))
    }

    /// Revokes by id or by name: one's own, or any with `keys.all`.
    pub async fn revoke_key(&self, caller: &Caller, id_or_name: &str) -> Result<ApiKey, Fault> {
        let all = caller.may(&Permission::KEYS_ALL);
        if !all {
            caller.require(&Permission::KEYS_OWN)?;
        }
        let found = match id_or_name.parse::<KeyId>() {
            Ok(id) => self.store.key_by_id(caller.tenant, id).await?.into_iter().collect(),
            Err(_) => self.store.keys_by_name(caller.tenant, id_or_name).await?,
        };
        let within = |key: &ApiKey| key.revoked_at.is_none() && (all || Some(key.owner) == caller.user());
        let mut keys: Vec<ApiKey> = found.into_iter().filter(within).collect();
        if keys.len() > 1 {
            let owners: Vec<_> = keys.iter().map(|key| format!("{} ({})", key.id, key.owner_name)).collect();
            return Err(Fault::conflict(
                format!("several keys are called `{id_or_name}`: {}", owners.join(", ")),
                "name the one you mean by its id",
            ));
        }
        let key = keys.pop();
        // The folder's key is the folder's: only its owner takes it away.
        let folder = |key: &ApiKey| key.scopes.iter().any(|scope| scope == crate::auth::FOLDER_OWNER_SCOPE);
        let key = key
            .filter(|key| !folder(key) || caller.credential == Credential::LocalFolder)
            .ok_or_else(|| Fault::not_found("key", id_or_name))?;
        let mut change = Change::new(caller.tenant);
        let now = self.clock.now();
        change.revoke_key(key.id, now);
        change.revoke_tokens_of_key(key.id, &caller.principal.to_string(), now);
        change.audit(&self.entry(caller, caller.tenant, "key.revoke", &key.name, json!({"id": key.id})));
        self.store.commit(change).await?;
        self.forget_callers();
        Ok(key)
    }
}
