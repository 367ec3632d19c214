//! Whoever asked, as they stand now. A call that waited is judged again with the rights its caller has when it runs, not
//! with those they had when they asked.

use toolgate_contracts::caller::Credential;
use toolgate_contracts::{AgentId, Caller, Fault, FaultKind, Permissions, Principal, Role, TenantId};
use toolgate_store::approvals::{AgentBy, Asker, Shown};
use toolgate_store::runs::Run;

use crate::engine::Engine;
use crate::submit::Asked;

/// By which right a call is an agent's.
pub(crate) fn agent_by(asked: &Asked) -> Option<AgentBy> {
    asked.agent.map(|_| match (asked.caller.agent, &asked.request.agent_id) {
        (Some(_), _) => AgentBy::Credential,
        (None, Some(_)) => AgentBy::Management,
        (None, None) => AgentBy::Run,
    })
}

impl Engine {
    /// The caller with the rights they have now. A session may have ended meanwhile, and a token may have passed its time:
    /// those bound asking. A person who is gone, a key that was revoked or has passed its time, or a token that was
    /// revoked, asks for nothing any more.
    pub(crate) async fn caller_again(&self, tenant: TenantId, asker: &Asker) -> Result<Caller, Fault> {
        if let Shown::Token(id) = asker.credential {
            return self.caller_by_token(tenant, id).await;
        }
        let gone = |what: &str| Fault::new(FaultKind::Forbidden, what.to_owned(), "ask again with rights that hold");
        let snapshot = self.registry.snapshot();
        let slug = snapshot.tenant(tenant)?.tenant.slug.clone();
        // As an agent nobody has more than agents may have, whoever they are.
        let as_asked = |permissions: Permissions| match asker.agent {
            None => permissions,
            Some(_) => permissions.iter().filter(|permission| permission.is_for_agents()).cloned().collect(),
        };
        let user = match asker.principal {
            Principal::Local(uid) => {
                return Ok(Caller {
                    tenant,
                    tenant_slug: slug,
                    principal: asker.principal,
                    display_name: format!("local user {uid}"),
                    permissions: as_asked(Permissions::of([Role::Admin, Role::Operator])),
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
                if found.expires_at.is_some_and(|at| at <= self.clock.now()) {
                    return Err(gone("the key with which it was asked has expired"));
                }
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
        Ok(Caller {
            tenant,
            tenant_slug: slug,
            principal: asker.principal,
            display_name: holder.user_name,
            permissions: as_asked(permissions),
            roles: holder.roles.into(),
            agent: asker.agent,
            credential,
            token: None,
        })
    }

    /// Whether somebody may still act as this agent, by the right by which they did. `Err` says why not.
    pub(crate) async fn acts_still(
        &self,
        caller: &Caller,
        agent: AgentId,
        by: Option<AgentBy>,
        run: Option<&Run>,
    ) -> Result<Result<(), String>, Fault> {
        let snapshot = self.registry.snapshot();
        // Without its agent it would be another's call, with other tools and no profile.
        let Some(known) = snapshot.tenant(caller.tenant)?.agents.get(&agent) else {
            return Ok(Err("the agent that asked was deleted".to_owned()));
        };
        let acts = match (by, run) {
            (Some(AgentBy::Credential), _) => caller.agent == Some(agent),
            (Some(AgentBy::Management), _) => caller.agent.is_none() && self.registry.may_manage(caller, known).await?,
            (Some(AgentBy::Run), Some(run)) => match self.own_run(caller, run.id).await {
                Ok(_) => run.agent_id == Some(agent),
                Err(fault) if fault.kind() == FaultKind::NotFound => false,
                Err(fault) => return Err(fault),
            },
            (Some(AgentBy::Run), None) | (None, _) => false,
        };
        let name = &known.spec.name;
        Ok(if acts { Ok(()) } else { Err(format!("whoever asked may not act as the agent {name} any more")) })
    }
}
