//! Who may decide. Asked when somebody votes, again when votes are counted, and again when the call is about to run:
//! whoever lost the right meanwhile has not voted.

use toolgate_contracts::caller::Credential;
use toolgate_contracts::definition::{Approvers, Origin};
use toolgate_contracts::{
    AgentId, Caller, Fault, FaultKind, Permission, Permissions, Principal, Role, TenantId, ToolId, Vote,
};
use toolgate_store::approvals::{Approval, CastVote, Shown};
use toolgate_store::calls::CallRecord;

use crate::engine::Engine;
use crate::lending::lends;

/// How recently somebody must have signed in to approve what is critical, where the tenant wants that.
const STEP_UP_S: i64 = 5 * 60;

/// A person as far as deciding goes: who they are and what they may, whatever they show.
pub(super) struct Person {
    pub principal: Principal,
    pub name: String,
    pub permissions: Permissions,
    pub roles: Vec<Role>,
}

/// Whose call of what is decided on, as far as somebody may be too close to it.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub principal: Principal,
    pub agent: Option<AgentId>,
    pub tool: ToolId,
    pub version: &'a str,
    pub edited_by: Option<&'a str>,
}

/// As whom somebody decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum As {
    Approver,
    /// Whoever pressed Run in a browser confirms what they asked for themselves.
    Asker,
}

impl Engine {
    /// Whether this caller may decide now; `Err` says why not. Whoever may not even see it is told that there is none.
    pub(super) async fn may_decide(
        &self,
        caller: &Caller,
        approval: &Approval,
        record: &CallRecord,
    ) -> Result<As, Fault> {
        let forbidden = |told: &str, remedy: &str| Fault::new(FaultKind::Forbidden, told.to_owned(), remedy.to_owned());
        if caller.agent.is_some() || matches!(caller.credential, Credential::Token(_)) {
            return Err(forbidden("an agent decides nothing", "a person with `approvals.decide` decides"));
        }
        let person = Person {
            principal: caller.principal,
            name: caller.display_name.clone(),
            permissions: caller.permissions.clone(),
            roles: caller.roles.to_vec(),
        };
        let confirms =
            matches!(caller.credential, Credential::BrowserSession(_)) && is_asker(&person, approval, record);
        let as_whom = match self.standing_of(caller.tenant, &person, approval, record).await? {
            Ok(As::Asker) if !confirms => {
                caller.require(&Permission::APPROVALS_DECIDE)?;
                As::Approver
            }
            Ok(as_whom) => as_whom,
            Err(why) => return Err(why),
        };
        Ok(as_whom)
    }

    /// Whether a person may decide on this call, as they stand now.
    pub(super) async fn standing_of(
        &self,
        tenant: TenantId,
        person: &Person,
        approval: &Approval,
        record: &CallRecord,
    ) -> Result<Result<As, Fault>, Fault> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let separated = approval.separation || registry.tenant.settings.separation;
        let decides = person.permissions.contains(&Permission::APPROVALS_DECIDE);
        let confirms = person.permissions.contains(&Permission::CALLS_CONFIRM) && is_asker(person, approval, record);
        if !decides && (!confirms || separated) {
            let told = format!("deciding needs the permission `{}`", Permission::APPROVALS_DECIDE);
            return Ok(Err(Fault::new(FaultKind::Forbidden, told, "ask somebody with the role `approver`")));
        }
        let as_whom = if decides { As::Approver } else { As::Asker };
        if let (Some(workspace), Principal::User(user)) = (approval.workspace, person.principal)
            && as_whom == As::Approver
            && !person.permissions.contains(&Permission::MEMBERS_MANAGE)
            && !self.store.is_member(tenant, user, workspace).await?
        {
            return Ok(Err(Fault::not_found("approval", approval.id)));
        }
        let asked = Asked {
            principal: record.principal,
            agent: record.agent,
            tool: record.tool,
            version: &record.tool_version,
            edited_by: approval.edited_by.as_deref(),
        };
        if separated && let Some(why) = self.conflict_of_interest(tenant, person, &asked)? {
            let told = format!("{why}, and this tenant separates asking from deciding");
            return Ok(Err(Fault::new(FaultKind::Forbidden, told, "somebody else with `approvals.decide` decides")));
        }
        let demands = &approval.approvers;
        let named = demands.iter().all(|demand| demand.from.is_empty())
            || demands.iter().any(|demand| is_among(person, demand));
        if !named {
            let whom: Vec<&str> = demands.iter().flat_map(|demand| demand.from.iter().map(String::as_str)).collect();
            let told = format!("this is for {} to decide", whom.join(" or "));
            return Ok(Err(Fault::new(FaultKind::Forbidden, told, "ask one of them")));
        }
        Ok(Ok(as_whom))
    }

    /// Why somebody is too close to the call to decide on it.
    pub(super) fn conflict_of_interest(
        &self,
        tenant: TenantId,
        person: &Person,
        asked: &Asked<'_>,
    ) -> Result<Option<String>, Fault> {
        let Asked { principal, agent, tool, version, edited_by } = *asked;
        let who = person.principal.to_string();
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let owns = agent.and_then(|id| registry.agents.get(&id)).and_then(|agent| agent.owner);
        let wrote = registry.tool_by_id(tool).filter(|tool| tool.tool.origin != Origin::Code).and_then(|tool| {
            let version = version.parse().ok()?;
            tool.tool.version(&version).map(|version| version.published_by.clone())
        });
        Ok(if person.principal == principal {
            Some(format!("{} asked for it", person.name))
        } else if owns.is_some_and(|owner| Principal::User(owner) == person.principal) {
            Some(format!("{} owns the agent that asks", person.name))
        } else if edited_by == Some(&who) {
            Some(format!("{} edited the input", person.name))
        } else if wrote.as_deref() == Some(&who) {
            Some(format!("{} wrote the tool", person.name))
        } else {
            None
        })
    }

    /// Where the tenant wants it, approving what is critical needs a sign-in of a moment ago.
    pub(super) async fn check_step_up(&self, caller: &Caller, record: &CallRecord) -> Result<(), Fault> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        if !registry.tenant.settings.step_up_critical {
            return Ok(());
        }
        let version = record.tool_version.parse().map_err(Fault::internal)?;
        let tool = registry.tool_by_id(record.tool).and_then(|tool| tool.tool.version(&version).cloned());
        let critical = tool.is_none_or(|version| {
            version.definition.effective_risk() == toolgate_contracts::definition::Risk::Critical
        });
        if !critical {
            return Ok(());
        }
        let now = self.clock.now();
        let fresh = match caller.credential {
            Credential::BrowserSession(session) => {
                let proved = self.store.session_proved(caller.tenant, session).await?;
                proved.is_some_and(|proved| now <= proved.plus_seconds(STEP_UP_S))
            }
            Credential::ApiKey(_) | Credential::Token(_) | Credential::DatabaseRole | Credential::LocalFolder => false,
        };
        if fresh {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::Forbidden,
            "the tool is critical, and this tenant wants a fresh sign-in for that",
            "sign in again in the browser and decide within five minutes",
        )
        .with_details(serde_json::json!({"step_up": true})))
    }

    /// A voter as they stand now; `None` when they are gone.
    pub(super) async fn person(&self, tenant: TenantId, voter: &str) -> Result<Option<Person>, Fault> {
        let Ok(principal) = voter.parse::<Principal>() else { return Ok(None) };
        Ok(match principal {
            Principal::Local(uid) => Some(Person {
                principal,
                name: format!("local user {uid}"),
                permissions: Permissions::of([Role::Admin, Role::Operator]),
                roles: vec![Role::Admin, Role::Operator],
            }),
            Principal::User(user) => self.store.user_holder(tenant, user).await?.map(|holder| Person {
                principal,
                name: holder.user_name,
                permissions: holder.permissions,
                roles: holder.roles,
            }),
        })
    }

    /// Of the votes of this round, the approving ones of those who may still decide; and whether they are enough.
    pub(super) async fn counted(
        &self,
        tenant: TenantId,
        approval: &Approval,
        record: &CallRecord,
        votes: &[CastVote],
    ) -> Result<Counted, Fault> {
        let mut people = Vec::new();
        for vote in votes.iter().filter(|vote| vote.vote == Vote::Approve) {
            let Some(person) = self.person(tenant, &vote.voter).await? else { continue };
            if lends(&person.permissions, approval)
                && self.standing_of(tenant, &person, approval, record).await?.is_ok()
            {
                people.push(person);
            }
        }
        let met = approval.approvers.iter().all(|demand| {
            let among = people.iter().filter(|person| demand.from.is_empty() || is_among(person, demand)).count();
            among >= demand.need.max(1) as usize
        });
        let enough = !people.is_empty() && people.len() >= approval.need as usize && met;
        Ok(Counted { by: people.into_iter().map(|person| person.principal.to_string()).collect(), enough })
    }
}

/// Votes that count.
pub(super) struct Counted {
    /// Who approved, and may still decide.
    pub by: Vec<String>,
    pub enough: bool,
}

/// Whether they asked themselves, at a browser: what a key or a token asked for waits for somebody who may decide.
fn is_asker(person: &Person, approval: &Approval, record: &CallRecord) -> bool {
    let at_browser = matches!(approval.asker.credential, Shown::Session(_));
    at_browser && person.principal == record.principal && record.agent.is_none()
}

/// By role or by id. Names are no proof: whoever may give out names could give a second person the first one's.
pub(super) fn is_among(person: &Person, demand: &Approvers) -> bool {
    demand.from.iter().any(|word| match word.strip_prefix("role:") {
        Some(role) => person.roles.iter().any(|held| held.as_str() == role),
        None => *word == person.principal.to_string(),
    })
}
