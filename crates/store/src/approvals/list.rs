//! Approvals as lists, each for somebody's eyes.

use serde::Serialize;
use toolgate_contracts::{
    AgentId, ApprovalId, ApprovalState, Fault, Page, Principal, TenantId, ToolId, UserId, WorkspaceId,
};

use super::{Approval, approval};
use crate::cursor::ListOf;
use crate::error::Error;
use crate::scope::Scope;
use crate::{Store, Value};

/// Which approvals a list is about.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ApprovalFilter {
    pub state: Option<ApprovalState>,
    pub tool: Option<ToolId>,
    pub agent: Option<AgentId>,
    pub workspace: Option<WorkspaceId>,
    pub seen_by: SeenBy,
}

/// Whose eyes a list is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub enum SeenBy {
    #[default]
    Everybody,
    /// What belongs to no workspace or to one of this user's, and what they asked for themselves.
    Member { user: UserId, own: Principal },
    /// What this one asked for, or one of these agents did.
    Asker { own: Principal, agents: Vec<AgentId> },
}

impl Store {
    /// Approvals, newest first; the open ones oldest first, because they wait.
    pub async fn approvals(
        &self,
        tenant: TenantId,
        filter: &ApprovalFilter,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<Approval>, Fault> {
        let text = serde_json::to_string(filter).unwrap_or_default();
        let list = ListOf { tenant, list: "approvals", filter: &text };
        let after = cursor.map(|cursor| list.key(cursor)).transpose()?;
        let open = filter.state == Some(ApprovalState::Open);
        let (mut condition, mut parameters) = conditions(filter);
        if let Some(after) = after.and_then(|key| key.parse::<ApprovalId>().ok()) {
            parameters.push(after.into());
            let beyond = if open { "id >" } else { "id <" };
            condition = format!("{condition} AND {beyond} ${}", parameters.len() + 1);
        }
        let order = if open { "ASC" } else { "DESC" };
        let sql = format!(
            concat!("SELECT ", columns!(), " FROM approvals WHERE tenant_id = $1{} ORDER BY id {} LIMIT {}"),
            condition,
            order,
            limit + 1
        );
        let rows = self.query(&Scope::Tenant(tenant), &sql, parameters).await?;
        let mut items = rows.iter().map(approval).collect::<Result<Vec<_>, Error>>()?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next_cursor = if more { items.last().map(|last| list.cursor(&last.id.to_string())) } else { None };
        Ok(Page { items, next_cursor })
    }

    /// How many of a list there are.
    pub async fn count_approvals(&self, tenant: TenantId, filter: &ApprovalFilter) -> Result<u32, Error> {
        let (condition, parameters) = conditions(filter);
        let sql = format!("SELECT count(*) FROM approvals WHERE tenant_id = $1{condition}");
        let rows = self.query(&Scope::Tenant(tenant), &sql, parameters).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }
}

/// A filter as a condition behind `tenant_id = $1`, with its parameters from `$2` on.
fn conditions(filter: &ApprovalFilter) -> (String, Vec<Value>) {
    let ApprovalFilter { state, tool, agent, workspace, seen_by } = filter;
    let mut parts = Vec::new();
    let mut parameters: Vec<Value> = Vec::new();
    let mut bind = |value: Value| {
        parameters.push(value);
        format!("${}", parameters.len() + 1)
    };
    match state {
        // A literal, so that the partial index is seen to fit.
        Some(ApprovalState::Open) => parts.push(" AND state = 'open'".to_owned()),
        Some(state) => parts.push(format!(" AND state = {}", bind(state.as_str().into()))),
        None => {}
    }
    if let Some(tool) = tool {
        parts.push(format!(" AND tool_id = {}", bind((*tool).into())));
    }
    if let Some(agent) = agent {
        parts.push(format!(" AND agent_id = {}", bind((*agent).into())));
    }
    if let Some(workspace) = workspace {
        parts.push(format!(" AND workspace_id = {}", bind((*workspace).into())));
    }
    let asked_by = |own: &str| {
        format!(
            "call_id IN (SELECT c.id FROM calls c WHERE c.tenant_id = $1 AND c.id = approvals.call_id AND c.principal = {own})"
        )
    };
    match seen_by {
        SeenBy::Everybody => {}
        SeenBy::Member { user, own } => {
            let (user, own) = (bind((*user).into()), bind(own.to_string().into()));
            let member =
                format!("SELECT m.workspace_id FROM workspace_members m WHERE m.tenant_id = $1 AND m.user_id = {user}");
            let own = asked_by(&own);
            parts.push(format!(" AND (workspace_id IS NULL OR workspace_id IN ({member}) OR {own})"));
        }
        SeenBy::Asker { own, agents } => {
            let own = asked_by(&bind(own.to_string().into()));
            let agents: Vec<String> = agents.iter().map(|agent| bind((*agent).into())).collect();
            let managed =
                if agents.is_empty() { String::new() } else { format!(" OR agent_id IN ({})", agents.join(", ")) };
            parts.push(format!(" AND ({own}{managed})"));
        }
    }
    (parts.concat(), parameters)
}
