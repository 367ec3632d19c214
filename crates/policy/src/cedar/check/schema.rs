//! The Cedar schema of one policy: the words that are the same for all, and the arguments that it names, with the types
//! that the tools of its scope give them.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::pst::{self, BinaryOp, Expr, Literal, Var};
use serde_json::{Map, Value, json};

use crate::cedar::finding::{nearest, shown};
use crate::cedar::json_type::{JsonType, Node};
use crate::cedar::rule::{self, Path, Reads, Scope};
use crate::cedar::vocabulary::{KnownTool, Lexicon};
use crate::cedar::words::{GROUP, ROLE, TOOL, WORKSPACE};
use crate::cedar::{Action, SubjectKind};

/// Which tools a policy is about.
pub(super) enum Reach<'a> {
    /// These and no others: an argument that each of them demands is there.
    Named(Vec<&'a KnownTool<'a>>),
    /// These today, others tomorrow: no argument is certain.
    Open(Vec<&'a KnownTool<'a>>),
}

impl<'a> Reach<'a> {
    pub fn of(template: &pst::Template, lexicon: &Lexicon<'a>) -> Self {
        let found = |names: &BTreeSet<String>| {
            names.iter().filter_map(|name| lexicon.tools.get(name.as_str()).copied()).collect()
        };
        let all = || lexicon.tools.values().copied();
        let scope = rule::rules(0, template).ok().and_then(|rules| rules.into_iter().next()).map(|rule| rule.resource);
        if let Some(Scope::Eq(name)) = &scope {
            return Self::Named(found(&BTreeSet::from([name.id.clone()])));
        }
        // A condition narrows what comes after it.
        for conjunct in rule::conjuncts(template) {
            if !rule::reads(&conjunct).args.is_empty() {
                break;
            }
            if let Some(names) = narrowed(&conjunct) {
                return Self::Named(found(&names));
            }
        }
        match scope {
            Some(Scope::In(name) | Scope::IsIn(_, name)) if name.kind == GROUP => {
                Self::Open(all().filter(|tool| tool.group == Some(name.id.as_str())).collect())
            }
            _ => Self::Open(all().collect()),
        }
    }

    pub fn tools(&self) -> &[&'a KnownTool<'a>] {
        match self {
            Self::Named(tools) | Self::Open(tools) => tools,
        }
    }

    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }
}

/// The tools that `resource == Tool::"a" || resource in [Tool::"b"]` leaves.
fn narrowed(expr: &Expr) -> Option<BTreeSet<String>> {
    let tools = |expr: &Expr| -> Option<BTreeSet<String>> {
        let one = |expr: &Expr| match expr {
            Expr::Literal(Literal::EntityUID(uid)) if rule::name(uid).kind == TOOL => Some(rule::name(uid).id),
            _ => None,
        };
        match expr {
            Expr::Set(members) => members.iter().map(|member| one(member)).collect(),
            other => one(other).map(|name| BTreeSet::from([name])),
        }
    };
    let is_resource = |expr: &Expr| matches!(expr, Expr::Var(Var::Resource));
    match expr {
        Expr::BinaryOp { op: BinaryOp::Or, left, right } => {
            let mut all = narrowed(left)?;
            all.extend(narrowed(right)?);
            Some(all)
        }
        Expr::BinaryOp { op: BinaryOp::Eq | BinaryOp::In, left, right } if is_resource(left) => tools(right),
        Expr::BinaryOp { op: BinaryOp::Eq, left, right } if is_resource(right) => tools(left),
        _ => None,
    }
}

/// The type of `context.args` for one policy.
pub(super) struct Typed {
    pub record: Value,
    /// Which arguments are decimals, for a remedy.
    pub decimals: Vec<String>,
    /// The word that is meant, what is wrong, and the remedy.
    pub problems: Vec<(String, String, String)>,
}

#[derive(Default)]
struct Tree {
    used: bool,
    members: BTreeMap<String, Tree>,
}

pub(super) fn arguments(template: &pst::Template, reach: &Reach<'_>) -> Typed {
    let mut reads = Reads::default();
    for expr in rule::conjuncts(template) {
        reads.join(&rule::reads(&expr));
    }
    let mut tree = Tree::default();
    for Path { members, used } in &reads.args {
        let mut at = &mut tree;
        for member in members {
            at = at.members.entry(member.clone()).or_default();
        }
        at.used |= used;
    }
    let schemas: Vec<Node<'_>> =
        reach.tools().iter().flat_map(|tool| tool.input_schemas.iter().map(|schema| Node::root(schema))).collect();
    let mut typing = Typing { open: reach.is_open(), decimals: Vec::new(), problems: Vec::new() };
    let attributes = typing.members(&tree, &schemas, "");
    let Typing { decimals, problems, .. } = typing;
    Typed { record: record(attributes), decimals, problems }
}

struct Typing {
    open: bool,
    decimals: Vec<String>,
    problems: Vec<(String, String, String)>,
}

impl Typing {
    fn members(&mut self, tree: &Tree, nodes: &[Node<'_>], place: &str) -> Map<String, Value> {
        let mut attributes = Map::new();
        for (name, tree) in &tree.members {
            let path = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
            let found: Vec<Node<'_>> = nodes.iter().filter_map(|node| node.member(name)).collect();
            if found.is_empty() {
                let known = nodes.iter().flat_map(|node| node.members());
                let remedy = match nearest(name, known) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => "`toolgate tool show NAME` lists a tool's arguments".into(),
                };
                let message = format!("no tool that this policy is about has the argument `{}`", shown(&path));
                self.problems.push((name.clone(), message, remedy));
                continue;
            }
            let certain = !self.open && nodes.iter().all(|node| node.always_has(name));
            if let Some(mut one) = self.one(name, tree, &found, &path) {
                if let Some(one) = one.as_object_mut() {
                    one.insert("required".into(), certain.into());
                }
                attributes.insert(name.clone(), one);
            }
        }
        attributes
    }

    fn one(&mut self, name: &str, tree: &Tree, found: &[Node<'_>], path: &str) -> Option<Value> {
        if !tree.used && tree.members.is_empty() {
            return Some(json!({"type": "Boolean"}));
        }
        let shown_path = shown(path);
        let mut problem = |message: String, remedy: String| self.problems.push((name.to_owned(), message, remedy));
        let narrow = || "narrow the policy to tools that agree: `resource == Tool::\"NAME\"`".to_owned();
        let mut types = BTreeSet::new();
        for node in found {
            let Ok(Some(one)) = node.json_type() else {
                let message = format!("the argument `{shown_path}` has no single type in its tool's schema");
                let remedy = "give it one `type` in the tool's schema, or ask only whether it is there (`has`)";
                problem(message, remedy.into());
                return None;
            };
            types.insert(one);
        }
        let mut types = types.into_iter();
        let (Some(json_type), None) = (types.next(), types.next()) else {
            let words: BTreeSet<_> =
                found.iter().filter_map(|node| node.json_type().ok().flatten()).map(JsonType::as_str).collect();
            let words: Vec<_> = words.into_iter().collect();
            problem(format!("the argument `{shown_path}` is {} depending on the tool", words.join(" or ")), narrow());
            return None;
        };
        let scalar = |json_type: JsonType| match json_type {
            JsonType::Boolean => Some(json!({"type": "Boolean"})),
            JsonType::Integer => Some(json!({"type": "Long"})),
            JsonType::Number => Some(json!({"type": "Extension", "name": "decimal"})),
            JsonType::String => Some(json!({"type": "String"})),
            JsonType::Array | JsonType::Object => None,
        };
        match json_type {
            JsonType::Object if tree.used => {
                let message =
                    format!("the argument `{shown_path}` is an object, which a policy does not see as one value");
                problem(message, format!("name a member: `context.args.{shown_path}.NAME`"));
                None
            }
            JsonType::Object => Some(record(self.members(tree, found, path))),
            JsonType::Array => {
                let strange = tree.members.keys().find(|member| !matches!(member.as_str(), "len" | "items"));
                if tree.used || strange.is_some() {
                    let message =
                        format!("the argument `{shown_path}` is a list, which a policy sees as `len` and `items`");
                    let remedy = format!(
                        "write `context.args.{shown_path}.len > 3` or `context.args.{shown_path}.items.contains(…)`"
                    );
                    problem(message, remedy);
                    return None;
                }
                let mut attributes = Map::new();
                if tree.members.contains_key("len") {
                    attributes.insert("len".into(), json!({"type": "Long"}));
                }
                if let Some(items) = tree.members.get("items") {
                    let elements: Option<BTreeSet<_>> = found
                        .iter()
                        .map(|node| node.member("items").and_then(|node| node.json_type().ok().flatten()))
                        .collect();
                    let element = elements.filter(|all| all.len() == 1).and_then(|all| scalar(*all.first()?));
                    let Some(element) = element else {
                        let message =
                            format!("the items of `{shown_path}` are not all texts, numbers or booleans of one type");
                        problem(message, format!("only `context.args.{shown_path}.len` can be asked for"));
                        return None;
                    };
                    if !items.members.is_empty() {
                        let message = format!("the items of `{shown_path}` are a set, which has no members");
                        problem(message, format!("write `context.args.{shown_path}.items.contains(…)`"));
                        return None;
                    }
                    attributes.insert("items".into(), json!({"type": "Set", "element": element}));
                }
                Some(record(attributes))
            }
            _ if !tree.members.is_empty() => {
                problem(
                    format!("the argument `{shown_path}` is of type {}, which has no members", json_type.as_str()),
                    format!("name it alone: `context.args.{shown_path}`"),
                );
                None
            }
            json_type => {
                if json_type == JsonType::Number {
                    self.decimals.push(path.to_owned());
                }
                scalar(json_type)
            }
        }
    }
}

fn record(attributes: Map<String, Value>) -> Value {
    json!({"type": "Record", "attributes": attributes})
}

/// The schema with `args` of this type.
pub(super) fn whole(args: Value) -> Value {
    let text = || json!({"type": "String"});
    let texts = || json!({"type": "Set", "element": {"type": "String"}});
    let perhaps = || json!({"type": "String", "required": false});
    let principal = json!({
        "memberOfTypes": [ROLE, WORKSPACE],
        "shape": {"type": "Record", "attributes": {
            "id": text(), "roles": texts(), "workspace": perhaps(), "owner": perhaps(),
        }},
    });
    let mut entities = Map::new();
    for kind in SubjectKind::ALL {
        entities.insert(kind.as_str().into(), principal.clone());
    }
    for kind in [ROLE, WORKSPACE, GROUP] {
        entities.insert(kind.into(), json!({}));
    }
    entities.insert(
        TOOL.into(),
        json!({
            "memberOfTypes": [GROUP],
            "shape": {"type": "Record", "attributes": {
                "version": text(), "egress_class": text(), "risk": text(), "category": perhaps(), "group": perhaps(),
                "tags": texts(), "origin": text(), "sink": text(),
            }},
        }),
    );
    let action = json!({"appliesTo": {
        "principalTypes": SubjectKind::ALL.map(SubjectKind::as_str),
        "resourceTypes": [TOOL],
        "context": {"type": "Record", "attributes": {
            "labels": texts(), "source": text(), "depth": {"type": "Long"},
            "now": {"type": "Extension", "name": "datetime"}, "args": args,
        }},
    }});
    let actions: Map<String, Value> =
        Action::ALL.into_iter().map(|name| (name.as_str().to_owned(), action.clone())).collect();
    json!({"": {"entityTypes": entities, "actions": actions}})
}
