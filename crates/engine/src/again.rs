//! Whoever asked, as they stand now. A call that waited is judged again with the rights its caller has when it runs, not
//! with those they had when they asked.

use serde::{Deserialize, Serialize};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{
    AgentId, Caller, Fault, FaultKind, KeyId, Permissions, Principal, Role, SessionId, TenantId, TokenId,
};

use crate::engine::Engine;

/// How a caller came in, as it is kept with a call that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    pub principal: Principal,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    pub credential: Shown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    Session(SessionId),
    Key(KeyId),
    Token(TokenId),
    DatabaseRole,
    Folder,
}

impl Asker {
    pub fn of(caller: &Caller) -> Self {
        let credential = match caller.credential {
            Credential::BrowserSession(id) => Shown::Session(id),
            Credential::ApiKey(id) => Shown::Key(id),
            Credential::Token(id) => Shown::Token(id),
            Credential::DatabaseRole => Shown::DatabaseRole,
            Credential::LocalFolder => Shown::Folder,
        };
        Self { principal: caller.principal, agent: caller.agent, credential }
    }
}

impl Engine {
    /// The caller with the rights they have now. A session may have ended meanwhile, and a key or token may have passed
    /// its time: those bound asking. A person who is gone, or a key or token that was revoked, asks for nothing any more.
    pub(crate) async fn caller_again(&self, tenant: TenantId, asker: &Asker) -> Result<Caller, Fault> {
        if let Shown::Token(id) = asker.credential {
            return self.caller_by_token(tenant, id).await;
        }
        let gone = |what: &str| Fault::new(FaultKind::Forbidden, what.to_owned(), "ask again with rights that hold");
        let snapshot = self.registry.snapshot();
        let slug = snapshot.tenant(tenant)?.tenant.slug.clone();
        let user = match asker.principal {
            Principal::Local(uid) => {
                return Ok(Caller {
                    tenant,
                    tenant_slug: slug,
                    principal: asker.principal,
                    display_name: format!("local user {uid}"),
                    permissions: Permissions::of([Role::Admin, Role::Operator]),
                    roles: [Role::Admin, Role::Operator].into(),
                    agent: asker.agent,
                    credential: Credential::LocalFolder,
                    token: None,
                });
            }
            Principal::User(user) => user,
        };
        let left = || gone("whoever asked has no account here any more");
        let (holder, scopes, credential) = match asker.credential {
            Shown::Folder | Shown::Token(_) => return Err(gone("the folder's owner is another")),
            Shown::Session(id) => {
                let holder = self.store.user_holder(tenant, user).await?.ok_or_else(left)?;
                (holder, None, Credential::BrowserSession(id))
            }
            Shown::Key(id) => {
                let found = self.store.key_holder(id).await?.filter(|found| found.holder.tenant == tenant);
                let found = found.ok_or_else(|| gone("the key with which it was asked was revoked"))?;
                (found.holder, Some(found.scopes), Credential::ApiKey(id))
            }
            Shown::DatabaseRole => {
                let holder = self.store.user_holder(tenant, user).await?.ok_or_else(left)?;
                (holder, None, Credential::DatabaseRole)
            }
        };
        let mut permissions = holder.permissions.clone();
        if let Some(scopes) = scopes {
            let scopes = Permissions::from_scopes(scopes.iter().map(String::as_str)).map_err(Fault::internal)?;
            permissions = permissions.intersection(&scopes);
        }
        if asker.agent.is_some() {
            permissions = permissions.iter().filter(|permission| permission.is_for_agents()).cloned().collect();
        }
        Ok(Caller {
            tenant,
            tenant_slug: slug,
            principal: asker.principal,
            display_name: holder.user_name,
            permissions,
            roles: holder.roles.into(),
            agent: asker.agent,
            credential,
            token: None,
        })
    }
}
