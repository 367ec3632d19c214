//! How callers, tools and circumstances become Cedar's values.

use std::collections::{HashMap, HashSet};

use cedar_policy::{Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, RestrictedExpression};
use toolgate_contracts::Role;

use super::arguments::{Plan, Unfit};
use super::rule::{Name, Reads};
use super::{Action, Circumstances, Subject, ToolFacts};

/// Kinds of things that principals and tools belong to.
pub(super) const ROLE: &str = "Role";
pub(super) const WORKSPACE: &str = "Workspace";
pub(super) const GROUP: &str = "Group";
pub(super) const TOOL: &str = "Tool";

pub(super) fn subject_name(subject: &Subject<'_>) -> Name {
    Name::new(subject.kind.as_str(), subject.id)
}

pub(super) fn subject_parents(subject: &Subject<'_>) -> Vec<Name> {
    let roles = subject.roles.iter().map(|role| Name::new(ROLE, role.as_str()));
    roles.chain(subject.workspace.map(|workspace| Name::new(WORKSPACE, workspace))).collect()
}

pub(super) fn tool_name(tool: &ToolFacts<'_>) -> Name {
    Name::new(TOOL, tool.name)
}

pub(super) fn tool_parents(tool: &ToolFacts<'_>) -> Vec<Name> {
    tool.group.map(|group| Name::new(GROUP, group)).into_iter().collect()
}

/// `Kind::"id"` for Cedar. The kinds are words of this file, which are names for Cedar too.
pub(super) fn uid(name: &Name) -> Result<EntityUid, String> {
    let kind: EntityTypeName = name.kind.parse().map_err(|error: cedar_policy::ParseErrors| error.to_string())?;
    Ok(EntityUid::from_type_name_and_id(kind, EntityId::new(&name.id)))
}

pub(super) fn action(action: Action) -> Result<EntityUid, String> {
    uid(&Name::new("Action", action.as_str()))
}

/// The two things that a request is about.
pub(super) struct Parties {
    pub principal: EntityUid,
    pub resource: EntityUid,
    pub entities: Entities,
}

impl Parties {
    pub fn new(subject: &Subject<'_>, tool: &ToolFacts<'_>) -> Result<Self, String> {
        let Subject { kind: _, id, roles, workspace, owner } = subject;
        let roles = RestrictedExpression::new_set(roles.iter().copied().map(Role::as_str).map(text));
        let mut attributes = vec![("id", text(id)), ("roles", roles)];
        attributes.extend(workspace.map(|workspace| ("workspace", text(workspace))));
        attributes.extend(owner.map(|owner| ("owner", text(owner))));
        let principal = entity(&subject_name(subject), attributes, &subject_parents(subject))?;

        let ToolFacts { name: _, version, egress_class, risk, category, group, tags, origin, sink, .. } = tool;
        let mut attributes = vec![
            ("version", text(version)),
            ("egress_class", text(egress_class.as_str())),
            ("risk", text(risk.as_str())),
            ("tags", RestrictedExpression::new_set(tags.iter().map(|tag| text(tag)))),
            ("origin", text(origin.as_str())),
            ("sink", text(sink.as_str())),
        ];
        attributes.extend(category.map(|category| ("category", text(category))));
        attributes.extend(group.map(|group| ("group", text(group))));
        let resource = entity(&tool_name(tool), attributes, &tool_parents(tool))?;

        let (principal_uid, resource_uid) = (principal.uid(), resource.uid());
        let entities = Entities::from_entities([principal, resource], None).map_err(|error| error.to_string())?;
        Ok(Self { principal: principal_uid, resource: resource_uid, entities })
    }
}

fn text(text: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(text.to_owned())
}

fn entity(name: &Name, attributes: Vec<(&str, RestrictedExpression)>, parents: &[Name]) -> Result<Entity, String> {
    let attributes: HashMap<String, RestrictedExpression> =
        attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let parents = parents.iter().map(uid).collect::<Result<HashSet<_>, _>>()?;
    Entity::new(uid(name)?, attributes, parents).map_err(|error| error.to_string())
}

/// The context with what is read, and the arguments that Cedar has no value for.
pub(super) fn context(
    reads: &Reads,
    plan: &Plan,
    circumstances: &Circumstances<'_>,
) -> Result<(Context, Vec<Unfit>), String> {
    let Circumstances { labels, source, depth, now, args } = circumstances;
    let mut unfit = Vec::new();
    let mut pairs = Vec::with_capacity(5);
    if reads.labels {
        let labels = labels.iter().map(|label| text(label.as_str()));
        pairs.push(("labels".to_owned(), RestrictedExpression::new_set(labels)));
    }
    if reads.source {
        pairs.push(("source".to_owned(), text(source.as_str())));
    }
    if reads.depth {
        pairs.push(("depth".to_owned(), RestrictedExpression::new_long(i64::from(*depth))));
    }
    if reads.now {
        pairs.push(("now".to_owned(), RestrictedExpression::new_datetime(now.to_string())));
    }
    if !plan.is_empty() {
        pairs.extend(plan.record(args, &mut unfit).map(|args| ("args".to_owned(), args)));
    }
    let context = Context::from_pairs(pairs).map_err(|error| error.to_string())?;
    Ok((context, unfit))
}

impl Reads {
    pub(super) fn join(&mut self, other: &Self) {
        let Self { labels, source, depth, now, args, whole, action, context } = other;
        self.labels |= labels;
        self.source |= source;
        self.depth |= depth;
        self.now |= now;
        self.whole |= whole;
        self.action |= action;
        self.context |= context;
        self.args.extend(args.iter().cloned());
    }
}
