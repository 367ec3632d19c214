//! Lists of calls that console and command line ask for: pages by index, newest first.

use std::fmt::Write as _;

use serde::Serialize;
use toolgate_contracts::{
    AgentId, ApprovalId, CallId, ErrorCode, Fault, Page, Principal, RunId, Source, TenantId, Timestamp, ToolId,
};
use utoipa::ToSchema;

use super::{ApprovalStatus, Status, first_id_of};
use crate::cursor::ListOf;
use crate::error::Error;
use crate::scope::Scope;
use crate::{Kind, Row, Store, Value};

/// How many agents one query is about; the calls of more are read by several and merged.
const AGENTS_MERGED_MAX: usize = 64;

/// The columns of a list; the large ones stay on their pages.
const LISTED: &str =
    "c.tenant_id, c.id, c.call_id, c.run_id, c.step_id, c.tool_id, c.tool_version, c.agent_id, c.principal,
    c.source, c.egress_class, c.status, c.approval_status, c.created_at, c.completed_at, c.mode, c.cached, c.cost, c.error,
    c.root_run_id, c.started_at, c.approval_id";

/// A row of a list: no payloads, the joined names of seed 000's view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CallSummary {
    pub id: CallId,
    pub call_id: String,
    pub run_id: RunId,
    pub tool_id: ToolId,
    /// The tool's name, as seed 000's view calls it.
    pub tool_key: String,
    /// The tool's title, filled in by whoever has the registry.
    pub tool_name: String,
    pub tool_version: String,
    pub agent_id: Option<AgentId>,
    /// The names of both, filled in like the title; absent where there is nobody of that id any more.
    pub agent_name: Option<String>,
    pub principal: String,
    pub principal_name: Option<String>,
    pub source: String,
    pub egress_class: String,
    pub status: Status,
    pub approval_status: ApprovalStatus,
    /// What people were asked because of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    pub step_title: Option<String>,
    pub mode: String,
    pub cached: bool,
    pub cost: Option<String>,
    /// Why it failed: the code alone; the words are on the call's own page.
    pub error_code: Option<String>,
    pub root_run_id: RunId,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
}

/// Whose calls are listed.
#[derive(Clone, Debug)]
pub enum Sight {
    /// `calls.read.all`.
    Everything,
    /// The viewer's own, and those of the agents they manage.
    OwnAndManaged { viewer: Principal, agents: Vec<AgentId> },
    /// What a capability token was made for.
    Token(TokenSight),
}

/// What whoever shows a token sees: what was done as the very same, with the token's tools, in its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSight {
    pub viewer: Principal,
    /// Absent: what was done as no agent.
    pub agent: Option<AgentId>,
    /// Absent: any.
    pub run: Option<RunId>,
    /// Absent: any.
    pub tools: Option<Vec<ToolVersions>>,
}

/// A tool in some of its versions; `None`: in all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolVersions {
    pub tool: ToolId,
    pub versions: Option<Vec<String>>,
}

impl TokenSight {
    pub fn sees(&self, principal: Principal, agent: Option<AgentId>, run: RunId) -> bool {
        principal == self.viewer && agent == self.agent && self.run.is_none_or(|own| own == run)
    }

    pub fn covers(&self, tool: ToolId, version: &str) -> bool {
        let holds = |versions: &Vec<String>| versions.iter().any(|known| known == version);
        self.tools.as_ref().is_none_or(|tools| {
            tools.iter().any(|known| known.tool == tool && known.versions.as_ref().is_none_or(holds))
        })
    }

    fn condition(&self, parameters: &mut Vec<Value>) -> String {
        let Self { viewer, agent, run, tools } = self;
        let mut bind = |value: Value| {
            parameters.push(value);
            parameters.len() + 1
        };
        let mut condition = format!(" AND c.principal = ${}", bind(viewer.to_string().into()));
        let _ = match agent {
            Some(agent) => write!(condition, " AND c.agent_id = ${}", bind((*agent).into())),
            None => write!(condition, " AND c.agent_id IS NULL"),
        };
        if let Some(run) = run {
            let _ = write!(condition, " AND c.run_id = ${}", bind((*run).into()));
        }
        let Some(tools) = tools else { return condition };
        // A token whose tools are gone sees nothing.
        let mut any = vec!["1 = 0".to_owned()];
        for ToolVersions { tool, versions } in tools {
            let mut of_tool = format!("c.tool_id = ${}", bind((*tool).into()));
            if let Some(versions) = versions {
                let places: Vec<_> = versions.iter().map(|version| format!("${}", bind(version.into()))).collect();
                let _ = if places.is_empty() {
                    write!(of_tool, " AND 1 = 0")
                } else {
                    write!(of_tool, " AND c.tool_version IN ({})", places.join(", "))
                };
            }
            any.push(of_tool);
        }
        let _ = write!(condition, " AND ({})", any.join(" OR "));
        condition
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct CallFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_run: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Created at or after, and before: ids are time-ordered, so these are ranges of the same index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// A member of `metadata` and its value as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<(String, String)>,
    /// Only those that wait for a decision.
    pub pending_approval: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalStatus>,
    /// Why they failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorCode>,
    /// Who asked for them, whatever agent did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
}

impl CallFilter {
    /// The condition, in the words of the partial indexes: statuses are literals, so that a planner sees that they fit.
    ///
    /// SQLite uses a partial index only where its condition is repeated. PostgreSQL proves that it follows, and would
    /// count the repetition as a second filter and expect next to no rows.
    fn condition(&self, kind: Kind, parameters: &mut Vec<Value>) -> String {
        let Self {
            status,
            tool,
            agent,
            root_run,
            run,
            source,
            since,
            until,
            metadata,
            pending_approval,
            approval,
            error,
            principal,
        } = self;
        let mut condition = String::new();
        let mut bind = |column: &str, value: Value| {
            parameters.push(value);
            // `$1` is the tenant.
            let _ = write!(condition, " AND c.{column} = ${}", parameters.len() + 1);
        };
        if let Some(tool) = tool {
            bind("tool_id", (*tool).into());
        }
        if let Some(agent) = agent {
            bind("agent_id", (*agent).into());
        }
        if let Some(root) = root_run {
            bind("root_run_id", (*root).into());
        }
        if let Some(run) = run {
            bind("run_id", (*run).into());
        }
        if let Some(source) = source {
            bind("source", source.as_str().into());
        }
        if let Some(principal) = principal {
            bind("principal", principal.to_string().into());
        }
        if let Some(approval) = approval {
            bind("approval_status", approval.as_str().into());
        }
        let mut range = |comparison: &str, moment: &Option<Timestamp>| {
            if let Some(moment) = moment {
                parameters.push(first_id_of(*moment).into());
                let _ = write!(condition, " AND c.id {comparison} ${}", parameters.len() + 1);
            }
        };
        range(">=", since);
        range("<", until);
        if let Some((member, value)) = metadata {
            let path = match kind {
                Kind::Sqlite => format!("$.\"{member}\""),
                Kind::Postgres => member.clone(),
            };
            parameters.extend([path.into(), value.into()]);
            let (path, value) = (parameters.len(), parameters.len() + 1);
            let _ = match kind {
                Kind::Sqlite => write!(condition, " AND CAST(json_extract(c.metadata, ${path}) AS TEXT) = ${value}"),
                Kind::Postgres => write!(condition, " AND (c.metadata::json ->> ${path}::text) = ${value}"),
            };
        }
        if let Some(code) = error.and_then(|code| serde_json::to_value(code).ok()?.as_str().map(str::to_owned)) {
            parameters.push(code.into());
            let code = parameters.len() + 1;
            let _ = match kind {
                Kind::Sqlite => write!(condition, " AND json_extract(c.error, '$.code') = ${code}"),
                Kind::Postgres => write!(condition, " AND (c.error::json ->> 'code') = ${code}"),
            };
        }
        match status {
            Some(Status::Completed) => condition.push_str(" AND c.status = 'completed'"),
            Some(other) => {
                let repeated = if kind == Kind::Sqlite { " AND c.status <> 'completed'" } else { "" };
                let _ = write!(condition, " AND c.status = '{}'{repeated}", other.as_str());
            }
            None => {}
        }
        if *pending_approval {
            condition.push_str(" AND c.approval_status = 'pending'");
        }
        condition
    }
}

impl Store {
    /// One page of calls, newest first.
    pub async fn calls(
        &self,
        tenant: TenantId,
        sight: &Sight,
        filter: &CallFilter,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<CallSummary>, Fault> {
        let described = serde_json::to_string(filter).unwrap_or_default();
        let list = ListOf { tenant, list: "calls", filter: &described };
        let before = cursor.map(|cursor| list.key(cursor)).transpose()?;
        let before = before.and_then(|key| key.parse::<CallId>().ok());
        let mut items = self.call_rows(tenant, sight, filter, before, limit + 1).await?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next_cursor = if more { items.last().map(|last| list.cursor(&last.id.to_string())) } else { None };
        Ok(Page { items, next_cursor })
    }

    /// The ids of calls behind `before`, newest first; for whoever reads the calls whole.
    pub async fn call_ids(
        &self,
        tenant: TenantId,
        sight: &Sight,
        filter: &CallFilter,
        before: Option<CallId>,
        limit: u32,
    ) -> Result<Vec<CallId>, Error> {
        Ok(self.call_rows(tenant, sight, filter, before, limit).await?.into_iter().map(|call| call.id).collect())
    }

    async fn call_rows(
        &self,
        tenant: TenantId,
        sight: &Sight,
        filter: &CallFilter,
        before: Option<CallId>,
        limit: u32,
    ) -> Result<Vec<CallSummary>, Error> {
        let mut parameters = Vec::new();
        let mut condition = filter.condition(self.kind(), &mut parameters);
        if let Some(before) = before {
            parameters.push(before.into());
            let _ = write!(condition, " AND c.id < ${}", parameters.len() + 1);
        }
        let (viewer, agents) = match sight {
            Sight::Everything => {
                let source = page(&condition, "", limit);
                return self.joined(&Scope::Tenant(tenant), &source, parameters, limit).await;
            }
            Sight::Token(token) => {
                let owner = token.condition(&mut parameters);
                let scope = Scope::Viewer { tenant, viewer: token.viewer };
                return self.joined(&scope, &page(&condition, &owner, limit), parameters, limit).await;
            }
            Sight::OwnAndManaged { viewer, agents } => (*viewer, agents),
        };
        let scope = Scope::Viewer { tenant, viewer };
        // Asked about one agent, the others need not be looked at.
        let agents: Vec<AgentId> = match filter.agent {
            Some(asked) => agents.iter().copied().filter(|agent| *agent == asked).collect(),
            None => agents.clone(),
        };
        let mut own = parameters.clone();
        own.push(viewer.to_string().into());
        let mut parts = vec![page(&condition, &format!(" AND c.principal = ${}", own.len() + 1), limit)];
        let mut bound = own;
        let mut calls = Vec::new();
        let mut rest = agents.as_slice();
        // Each part is one index range, so a page costs the same whether the viewer has ten calls or a million.
        loop {
            let (now, later) = rest.split_at(rest.len().min(AGENTS_MERGED_MAX));
            rest = later;
            for agent in now {
                bound.push((*agent).into());
                parts.push(page(&condition, &format!(" AND c.agent_id = ${}", bound.len() + 1), limit));
            }
            calls.extend(self.joined(&scope, &parts.join(" UNION "), std::mem::take(&mut bound), limit).await?);
            if rest.is_empty() {
                break;
            }
            (parts, bound) = (Vec::new(), parameters.clone());
        }
        calls.sort_by_key(|call: &CallSummary| std::cmp::Reverse(call.id));
        calls.dedup_by(|left, right| left.id == right.id);
        calls.truncate(limit as usize);
        Ok(calls)
    }

    /// The rows of `source` with the names that lists show, newest first.
    async fn joined(
        &self,
        scope: &Scope,
        source: &str,
        parameters: Vec<Value>,
        limit: u32,
    ) -> Result<Vec<CallSummary>, Error> {
        let sql = format!(
            "SELECT c.id, c.call_id, c.run_id, c.tool_id, t.name, c.tool_version, c.agent_id, c.principal, c.source,
                c.egress_class, c.status, c.approval_status, s.title, c.created_at, c.completed_at, c.mode, c.cached, c.cost,
                c.error, c.root_run_id, c.started_at, c.approval_id
             FROM ({source}) c JOIN tools t ON t.id = c.tool_id
             LEFT JOIN steps s ON s.tenant_id = c.tenant_id AND s.id = c.step_id
             ORDER BY c.id DESC LIMIT {limit}"
        );
        self.query(scope, &sql, parameters).await?.iter().map(summary).collect()
    }
}

fn page(condition: &str, owner: &str, limit: u32) -> String {
    format!(
        "SELECT * FROM (SELECT {LISTED} FROM calls c WHERE c.tenant_id = $1{condition}{owner} ORDER BY c.id DESC LIMIT {limit}) page"
    )
}

fn summary(row: &Row) -> Result<CallSummary, Error> {
    let id: CallId = row.get(0)?;
    let run: RunId = row.get::<Option<RunId>>(2)?.unwrap_or(id.into());
    let error: Option<String> = row.get(18)?;
    let error = error.and_then(|text| serde_json::from_str::<toolgate_contracts::ToolError>(&text).ok());
    Ok(CallSummary {
        id,
        call_id: row.get(1)?,
        run_id: run,
        tool_id: row.get(3)?,
        tool_key: row.get(4)?,
        tool_name: row.get(4)?,
        tool_version: row.get(5)?,
        agent_id: row.get(6)?,
        agent_name: None,
        principal: row.get(7)?,
        principal_name: None,
        source: row.get(8)?,
        egress_class: row.get(9)?,
        status: row.parse(10)?,
        approval_status: row.parse(11)?,
        step_title: row.get(12)?,
        created_at: row.get(13)?,
        completed_at: row.get(14)?,
        mode: row.get(15)?,
        cached: row.get(16)?,
        cost: row.get(17)?,
        error_code: error.and_then(|error| serde_json::to_value(error.code).ok()?.as_str().map(str::to_owned)),
        root_run_id: row.get::<Option<RunId>>(19)?.unwrap_or(run),
        started_at: row.get(20)?,
        approval_id: row.get(21)?,
    })
}
