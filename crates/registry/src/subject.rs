//! Who calls and what is called, as policies see them.
//!
//! An agent is known by its name, a person and a service by theirs: names are unique in a tenant, and a policy is read
//! by people.

use std::borrow::Cow;

use toolgate_contracts::{Principal, Role};
use toolgate_policy::cedar::{Subject, SubjectKind, ToolFacts};

use crate::snapshot::ResolvedTool;
use crate::toolset::View;

/// Who calls, with the texts that a policy compares.
#[derive(Debug)]
pub struct Who<'a> {
    kind: SubjectKind,
    id: Cow<'a, str>,
    roles: &'a [Role],
    workspace: Option<&'a str>,
    owner: Option<String>,
}

impl<'a> View<'a> {
    pub fn who(&self) -> Who<'a> {
        let roles = &*self.caller.roles;
        let Some(agent) = self.agent else {
            let kind = if roles.contains(&Role::Service) { SubjectKind::Service } else { SubjectKind::User };
            let id = match self.caller.principal {
                Principal::User(_) => Cow::Borrowed(self.caller.display_name.as_str()),
                Principal::Local(_) => Cow::Owned(self.caller.principal.to_string()),
            };
            return Who { kind, id, roles, workspace: None, owner: None };
        };
        Who {
            kind: SubjectKind::Agent,
            id: Cow::Borrowed(agent.spec.name.as_str()),
            roles,
            workspace: self.registry.workspaces.get(&agent.workspace).map(|workspace| workspace.slug.as_str()),
            owner: agent.owner.map(|owner| owner.to_string()),
        }
    }
}

impl Who<'_> {
    pub fn subject(&self) -> Subject<'_> {
        let Self { kind, id, roles, workspace, owner } = self;
        Subject { kind: *kind, id, roles, workspace: *workspace, owner: owner.as_deref() }
    }
}

/// The tool as it is resolved; `version` is its version as text.
pub fn facts<'a>(tool: &'a ResolvedTool, version: &'a str) -> ToolFacts<'a> {
    let definition = &tool.definition;
    ToolFacts {
        name: tool.tool.name.as_str(),
        version,
        egress_class: definition.class(),
        risk: definition.effective_risk(),
        category: definition.category.as_deref(),
        group: definition.group.as_deref(),
        tags: &definition.tags,
        origin: tool.tool.origin,
        sink: definition.effective_sink(),
        input_schema: &definition.input_schema,
        key: tool.definition_digest,
    }
}
