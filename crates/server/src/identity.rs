//! Tenants, users, keys and sign-in: who may be a caller.

use serde_json::json;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{
    AgentId, Caller, Fault, FaultKind, Id, KeyId, Permission, Permissions, Principal, Role, SessionId, Slug, TenantId,
    Timestamp,
};
use toolgate_registry::commands::FIRST_WORKSPACE;
use toolgate_store::Change;
use toolgate_store::audit::Entry;
use toolgate_store::credentials::ApiKey;
use toolgate_store::people::{Tenant, User, UserKind, Workspace};

use crate::app::App;
use crate::seal;

pub const LINK_MINUTES: i64 = 10;
pub const NAME_CHARS_MAX: usize = 120;
const KEY_DAYS_MAX: u32 = 3650;

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

pub struct NewKey {
    pub name: String,
    /// Absent: the caller's own key.
    pub owner: Option<String>,
    pub agent: Option<String>,
    pub scopes: Vec<String>,
    pub days: Option<u32>,
}

impl App {
    fn new_id<K>(&self) -> Id<K> {
        Id::new(&self.clock, &self.rng)
    }

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
        let account = match (&user.kind, &user.email) {
            (UserKind::Service, _) => None,
            (UserKind::Person, Some(email)) => match self.store.account_by_email(email).await? {
                Some(known) => Some(known),
                None => Some(self.add_account(&mut change, &user, now)),
            },
            (UserKind::Person, None) => Some(self.add_account(&mut change, &user, now)),
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
            error if error.is("users_account") => Fault::conflict(
                "this person is a member of the tenant already",
                "change their roles with `toolgate user set`",
            )
            .at("/email"),
            error => taken(error, "users_name", "user", &user.name),
        })?;
        Ok(user)
    }

    fn add_account(&self, change: &mut Change, user: &User, now: Timestamp) -> toolgate_contracts::AccountId {
        let account = self.new_id();
        change.insert_account(account, user.email.as_deref(), &user.name, now);
        account
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
            change.set_disabled(user.id, disabled.then(|| self.clock.now()));
        }
        self.store.commit(change).await?;
        let edited = self.store.user(caller.tenant, &user.id.to_string()).await?;
        edited.ok_or_else(|| Fault::internal("an edited user is gone"))
    }

    /// Makes a key. Its text is in the answer and nowhere else.
    pub async fn create_key(&self, caller: &Caller, new: NewKey) -> Result<(ApiKey, String), Fault> {
        let NewKey { name, owner, agent, scopes, days } = new;
        check_name(&name)?;
        let own = caller.user().map(|user| user.to_string());
        let owner_name = owner.clone().or(own).unwrap_or_else(|| crate::app::FIRST_USER.to_owned());
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
        let beyond: Vec<_> = wanted
            .iter()
            .filter(|permission| !held.contains(permission) || !caller.may(permission))
            .map(ToString::to_string)
            .collect();
        if !beyond.is_empty() {
            return Err(Fault::new(
                FaultKind::Forbidden,
                format!("a key holds at most its owner's rights and yours: {} is beyond them", beyond.join(", ")),
                "leave those scopes out",
            )
            .at("/scopes"));
        }
        let agent = match &agent {
            Some(name) => Some(
                self.registry
                    .snapshot()
                    .tenant(caller.tenant)?
                    .agent(name)
                    .ok_or_else(|| Fault::not_found("agent", name).at("/agent"))?
                    .id,
            ),
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
        let sight = if all { None } else { caller.user() };
        let keys = self.store.keys(caller.tenant, sight, None, 10_000).await?;
        let id = id_or_name.parse::<KeyId>().ok();
        let key =
            keys.into_iter().find(|key| key.revoked_at.is_none() && (Some(key.id) == id || key.name == id_or_name));
        let key = key.ok_or_else(|| Fault::not_found("key", id_or_name))?;
        let mut change = Change::new(caller.tenant);
        change.revoke_key(key.id, self.clock.now());
        change.audit(&self.entry(caller, caller.tenant, "key.revoke", &key.name, json!({"id": key.id})));
        self.store.commit(change).await?;
        Ok(key)
    }

    /// A link that signs one user in, once. The token goes into the fragment, which no server and no log sees.
    pub async fn create_link(&self, caller: &Caller, name: &str) -> Result<(String, Timestamp), Fault> {
        caller.require(&Permission::MEMBERS_MANAGE)?;
        let user =
            self.store.user(caller.tenant, name).await?.filter(|user| user.kind == UserKind::Person && !user.disabled);
        let user = user.ok_or_else(|| Fault::not_found("user", name))?;
        require_grantable(caller, &user.roles)?;
        let now = self.clock.now();
        let expires_at = now.plus_seconds(LINK_MINUTES * 60);
        let (token, hash) = seal::token(&self.rng);
        let mut change = Change::new(caller.tenant);
        change.insert_link(hash, user.id, now, expires_at);
        change.audit(&self.entry(
            caller,
            caller.tenant,
            "user.sign_in_link",
            &user.name,
            json!({"expires_at": expires_at}),
        ));
        self.store.commit(change).await?;
        Ok((token, expires_at))
    }

    /// Spends a link for a session: the session's token, and when it ends at the latest.
    pub async fn sign_in(&self, token: &str) -> Result<(String, Timestamp), Fault> {
        let hash = seal::token_hash(token);
        let unknown = || {
            Fault::new(
                FaultKind::Unauthenticated,
                "this sign-in link was used already or is too old",
                "make a new one with `toolgate user sign-in-link NAME`",
            )
        };
        let holder = self.store.link_holder(hash).await?.ok_or_else(unknown)?;
        let now = self.clock.now();
        let expires_at = now.plus_seconds(i64::from(self.config.number("session_hours")) * 3600);
        let (session_token, session_hash) = seal::token(&self.rng);
        let session: SessionId = self.new_id();
        let mut change = Change::new(holder.tenant);
        change.spend_link(hash, now);
        change.insert_session(session, holder.user, session_hash, now, expires_at);
        let actor = Principal::User(holder.user);
        change.audit(&Entry {
            id: self.new_id(),
            at: now,
            tenant: holder.tenant,
            actor: actor.to_string(),
            action: "user.sign_in".to_owned(),
            object: holder.user_name,
            details: serde_json::Map::new(),
        });
        self.store.commit(change).await?;
        Ok((session_token, expires_at))
    }

    pub async fn sign_out(&self, caller: &Caller) -> Result<(), Fault> {
        let Credential::BrowserSession(session) = caller.credential else {
            return Err(Fault::invalid(
                "only a browser session can be signed out",
                "revoke a key with `toolgate key revoke`",
            ));
        };
        let mut change = Change::new(caller.tenant);
        change.revoke_session(session, self.clock.now());
        change.audit(&self.entry(caller, caller.tenant, "user.sign_out", &caller.display_name, json!({})));
        self.store.commit(change).await?;
        Ok(())
    }

    /// Erases what a person sent and got; the trace says that it was done, and to how many calls.
    pub async fn erase_person(&self, caller: &Caller, name: &str, apply: bool) -> Result<i64, Fault> {
        caller.require(&Permission::DATA_RETENTION)?;
        let user = self.store.user(caller.tenant, name).await?.ok_or_else(|| Fault::not_found("user", name))?;
        let person = Principal::User(user.id);
        let count = self.store.count_calls_of(caller.tenant, person).await?;
        if apply {
            let mut change = Change::new(caller.tenant);
            change.erase_payloads_of(person);
            change.audit(&self.entry(
                caller,
                caller.tenant,
                "person.erase",
                &person.to_string(),
                json!({"calls": count}),
            ));
            self.store.commit(change).await?;
        }
        Ok(count)
    }

    /// Deletes finished calls that began more than `days` ago; the log keeps a tombstone.
    pub async fn retain(&self, caller: &Caller, days: u32, apply: bool) -> Result<i64, Fault> {
        caller.require(&Permission::DATA_RETENTION)?;
        let before = self.clock.now().plus_seconds(-i64::from(days) * 86_400);
        let mut count = self.store.count_calls_before(caller.tenant, before).await?;
        if apply {
            let announced = json!({"before": before, "calls": count});
            let mut change = Change::new(caller.tenant);
            change.audit(&self.entry(caller, caller.tenant, "retention.delete", "calls", announced));
            self.store.commit(change).await?;
            count = 0;
            loop {
                let mut batch = Change::new(caller.tenant);
                batch.forget_calls_before(before);
                let deleted = self.store.commit(batch).await?.changed.first().copied().unwrap_or(0);
                count += i64::try_from(deleted).unwrap_or(0);
                if deleted == 0 {
                    break;
                }
            }
        }
        Ok(count)
    }

    pub fn entry(
        &self,
        caller: &Caller,
        tenant: TenantId,
        action: &str,
        object: &str,
        details: serde_json::Value,
    ) -> Entry {
        let details = match details {
            serde_json::Value::Object(details) => details,
            _ => serde_json::Map::new(),
        };
        Entry {
            id: self.new_id(),
            at: self.clock.now(),
            tenant,
            actor: caller.principal.to_string(),
            action: action.to_owned(),
            object: object.to_owned(),
            details,
        }
    }
}

/// Nobody hands out, or holds power over, rights that they do not have.
fn require_grantable(caller: &Caller, roles: &[Role]) -> Result<(), Fault> {
    let beyond = roles
        .iter()
        .find(|role| !role.permissions().iter().all(|permission| caller.may(permission) || role_is_harmless(**role)));
    match beyond {
        None => Ok(()),
        Some(role) => Err(Fault::new(
            FaultKind::Forbidden,
            format!("the role `{role}` has rights that {} does not have", caller.display_name),
            "ask somebody who has that role",
        )
        .at("/roles")),
    }
}

/// A service works leases, which administrators themselves do not; they may still appoint one.
fn role_is_harmless(role: Role) -> bool {
    role == Role::Service
}

/// Roles give the product's own rights; by word one gets only what tools demand.
fn check_permissions(permissions: &Permissions) -> Result<(), Fault> {
    match permissions.iter().find(|permission| !permission.is_tools_own()) {
        None => Ok(()),
        Some(own) => Err(Fault::invalid(
            format!("`{own}` is a right of the product, which only a role gives"),
            "give a role that has it; permissions by word are those that tools demand",
        )
        .at("/permissions")),
    }
}

fn check_name(name: &str) -> Result<(), Fault> {
    let legal =
        !name.trim().is_empty() && name.chars().count() <= NAME_CHARS_MAX && !name.chars().any(char::is_control);
    if legal {
        return Ok(());
    }
    Err(Fault::invalid(
        format!("a name has 1 to {NAME_CHARS_MAX} characters and no control characters"),
        "choose another name",
    )
    .at("/name"))
}

fn check_email(email: Option<&str>) -> Result<(), Fault> {
    match email {
        Some(email)
            if email.len() > 254
                || email.split_once('@').is_none_or(|(user, host)| user.is_empty() || !host.contains('.'))
                || email.chars().any(|c| c.is_control() || c.is_whitespace()) =>
        {
            Err(Fault::invalid("this is not an e-mail address", "write it as name@example.com").at("/email"))
        }
        _ => Ok(()),
    }
}

fn taken(error: toolgate_store::Error, constraint: &str, what: &str, name: &str) -> Fault {
    already(error.into(), constraint, what, name)
}

/// Says in words that a name is taken, where the database's rule says so.
fn already(fault: Fault, constraint: &str, what: &str, name: &str) -> Fault {
    if fault.broken_rule() == Some(constraint) {
        return Fault::conflict(format!("there is a {what} `{name}` already"), "choose another name").at("/name");
    }
    fault
}
