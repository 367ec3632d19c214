//! A policy taken apart: whom and what its scope names, what it reads, and which part of its condition can be known
//! without a call.
//!
//! A condition is a chain of `&&` from left to right. Its first members that read no context are the guard, evaluated
//! once for a principal and a tool; the rest is the residue, evaluated for each call. Cedar evaluates in the same order
//! and stops at the first that is false or errs, so the split changes no answer.

use std::collections::BTreeSet;
use std::str::FromStr as _;
use std::sync::Arc;

use cedar_policy::Expression;
use cedar_policy::pst::{
    self, ActionConstraint, BinaryOp, EntityOrSlot, Expr, PrincipalConstraint, ResourceConstraint, UnaryOp, Var,
};

use super::Action;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Permit,
    Forbid,
}

/// `Kind::"id"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub kind: String,
    pub id: String,
}

impl Name {
    pub fn new(kind: &str, id: &str) -> Self {
        Self { kind: kind.to_owned(), id: id.to_owned() }
    }
}

/// What a scope says of the principal or of the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Any,
    Is(String),
    Eq(Name),
    In(Name),
    IsIn(String, Name),
    /// Cedar may grow a form that is not known here: then the policy does not load.
    Unknown,
}

impl Scope {
    /// Whether this one, who also belongs to `parents`, is meant.
    pub fn covers(&self, one: &Name, parents: &[Name]) -> bool {
        let within = |name: &Name| one == name || parents.contains(name);
        match self {
            Self::Any => true,
            Self::Is(kind) => one.kind == *kind,
            Self::Eq(name) => one == name,
            Self::In(name) => within(name),
            Self::IsIn(kind, name) => one.kind == *kind && within(name),
            Self::Unknown => false,
        }
    }
}

/// What of a call an expression reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reads {
    pub labels: bool,
    pub source: bool,
    pub depth: bool,
    pub now: bool,
    pub args: BTreeSet<Path>,
    /// The context or all arguments as one value, which nobody names one by one.
    pub whole: bool,
    pub action: bool,
    /// Anything of the context at all.
    pub context: bool,
}

/// An argument that a policy names: the members from `context.args` on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path {
    pub members: Vec<String>,
    /// Its value is read, not only whether it is there.
    pub used: bool,
}

impl Path {
    /// `/to/len` is the argument `/to`.
    pub fn pointer(&self) -> String {
        let mut pointer = String::new();
        for member in &self.members {
            pointer.push('/');
            pointer.push_str(&member.replace('~', "~0").replace('/', "~1"));
        }
        pointer
    }
}

/// One policy under one or both actions.
pub(super) struct Rule {
    /// Its place in the set.
    pub policy: usize,
    pub effect: Effect,
    pub actions: Vec<Action>,
    pub principal: Scope,
    pub resource: Scope,
    pub guard: Option<Expression>,
    pub residue: Option<Expression>,
    /// What the residue reads.
    pub reads: Reads,
}

impl Rule {
    /// The action of the request that its condition is evaluated in: only a rule of one action may read it.
    pub fn asked_as(&self) -> Action {
        self.actions.first().copied().unwrap_or(Action::Call)
    }
}

/// Which of the two actions a policy is about.
pub(super) fn actions(template: &pst::Template) -> Vec<Action> {
    let is = |uid: &pst::EntityUID, action: Action| {
        let name = name(uid);
        name.kind == "Action" && name.id == action.as_str()
    };
    let covered = |action: &Action| match &template.action {
        ActionConstraint::Any => true,
        ActionConstraint::Eq(uid) => is(uid, *action),
        ActionConstraint::In(uids) => uids.iter().any(|uid| is(uid, *action)),
    };
    Action::ALL.into_iter().filter(covered).collect()
}

/// The rules of a policy: one, or one for each action where the condition reads which it is.
pub(super) fn rules(policy: usize, template: &pst::Template) -> Result<Vec<Rule>, String> {
    let conjuncts = conjuncts(template);
    let is_static = |expr: &Arc<Expr>| !reads(expr).context;
    let border = conjuncts.iter().position(|expr| !is_static(expr)).unwrap_or(conjuncts.len());
    let (guard, residue) = conjuncts.split_at(border);
    let mut read = Reads::default();
    for expr in residue {
        walk(expr, &mut read);
    }
    let reads_action = conjuncts.iter().any(|expr| reads(expr).action);
    let actions = actions(template);
    let groups: Vec<Vec<Action>> =
        if reads_action { actions.into_iter().map(|action| vec![action]).collect() } else { vec![actions] };
    let effect = match template.effect {
        pst::Effect::Permit => Effect::Permit,
        pst::Effect::Forbid => Effect::Forbid,
    };
    let scopes = (principal(&template.principal), resource(&template.resource));
    if scopes.0 == Scope::Unknown || scopes.1 == Scope::Unknown {
        return Err("its scope has a form that is not known here".into());
    }
    let mut rules = Vec::new();
    for actions in groups.into_iter().filter(|actions| !actions.is_empty()) {
        rules.push(Rule {
            policy,
            effect,
            actions,
            principal: scopes.0.clone(),
            resource: scopes.1.clone(),
            guard: joined(guard)?,
            residue: joined(residue)?,
            reads: read.clone(),
        });
    }
    Ok(rules)
}

/// The members of the condition, in the order in which Cedar evaluates them.
pub(super) fn conjuncts(template: &pst::Template) -> Vec<Arc<Expr>> {
    fn split(expr: &Arc<Expr>, into: &mut Vec<Arc<Expr>>) {
        if let Expr::BinaryOp { op: BinaryOp::And, left, right } = &**expr {
            split(left, into);
            split(right, into);
        } else {
            into.push(Arc::clone(expr));
        }
    }
    let mut all = Vec::new();
    for clause in template.clauses() {
        match clause {
            pst::Clause::When(expr) => split(expr, &mut all),
            pst::Clause::Unless(expr) => {
                all.push(Arc::new(Expr::UnaryOp { op: UnaryOp::Not, expr: Arc::clone(expr) }));
            }
        }
    }
    all
}

/// The expression that Cedar evaluates. It is made by way of its text, which is read back and compared: what is
/// evaluated is what was written.
fn joined(conjuncts: &[Arc<Expr>]) -> Result<Option<Expression>, String> {
    let Some(whole) =
        conjuncts.iter().cloned().reduce(|left, right| Arc::new(Expr::BinaryOp { op: BinaryOp::And, left, right }))
    else {
        return Ok(None);
    };
    let text = whole.to_string();
    let again = cedar_policy::Policy::parse(None, format!("permit(principal, action, resource) when {{ {text} }};"))
        .map_err(|error| error.to_string())?
        .to_pst()
        .map_err(|error| error.to_string())?;
    let read: Vec<Arc<Expr>> = self::conjuncts(again.body());
    let same = read.len() == conjuncts.len() && read.iter().zip(conjuncts).all(|(read, written)| read == written);
    if !same {
        return Err(format!("its condition does not read back as it was written: `{text}`"));
    }
    Expression::from_str(&text).map(Some).map_err(|error| error.to_string())
}

pub(super) fn reads(expr: &Expr) -> Reads {
    let mut all = Reads::default();
    walk(expr, &mut all);
    all
}

fn walk(expr: &Expr, all: &mut Reads) {
    if let Some(path) = context_path(expr) {
        note(all, &path, true);
        return;
    }
    match expr {
        Expr::HasAttr { expr: of, attrs } => match context_path(of) {
            Some(mut path) => {
                path.extend(attrs.iter().map(ToString::to_string));
                note(all, &path, false);
            }
            None => walk(of, all),
        },
        Expr::Var(Var::Action) => all.action = true,
        _ => children(expr).into_iter().for_each(|child| walk(child, all)),
    }
}

fn note(all: &mut Reads, path: &[String], used: bool) {
    all.context = true;
    match path.first().map(String::as_str) {
        None => all.whole |= used,
        Some("labels") => all.labels = true,
        Some("source") => all.source = true,
        Some("depth") => all.depth = true,
        Some("now") => all.now = true,
        Some("args") if path.len() == 1 => all.whole |= used,
        Some("args") => {
            all.args.insert(Path { members: path[1..].to_vec(), used });
        }
        // Not there: Cedar's own evaluation says so, and the error denies.
        Some(_) => {}
    }
}

/// `context.a.b` as its members; `None` for anything else.
fn context_path(expr: &Expr) -> Option<Vec<String>> {
    match expr {
        Expr::Var(Var::Context) => Some(Vec::new()),
        Expr::GetAttr { expr: of, attr } => {
            let mut path = context_path(of)?;
            path.push(attr.to_string());
            Some(path)
        }
        _ => None,
    }
}

/// The expressions that one is made of. A form that is not known here has been refused by [`is_known`].
pub(super) fn children(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::UnaryOp { expr, .. }
        | Expr::GetAttr { expr, .. }
        | Expr::HasAttr { expr, .. }
        | Expr::Like { expr, .. } => {
            vec![expr]
        }
        Expr::BinaryOp { left, right, .. } => vec![left, right],
        Expr::Is { expr, in_expr, .. } => std::iter::once(&**expr).chain(in_expr.as_deref()).collect(),
        Expr::IfThenElse { cond, then_expr, else_expr } => vec![cond, then_expr, else_expr],
        Expr::Set(members) => members.iter().map(|member| &**member).collect(),
        Expr::Record(members) => members.values().map(|member| &**member).collect(),
        _ => Vec::new(),
    }
}

/// Whether everything in it is a form that is known here, so that nothing it reads is overlooked.
pub(super) fn is_known(expr: &Expr) -> bool {
    let known = matches!(
        expr,
        Expr::Literal(_)
            | Expr::Var(_)
            | Expr::UnaryOp { .. }
            | Expr::BinaryOp { .. }
            | Expr::GetAttr { .. }
            | Expr::HasAttr { .. }
            | Expr::Like { .. }
            | Expr::Is { .. }
            | Expr::IfThenElse { .. }
            | Expr::Set(_)
            | Expr::Record(_)
    );
    known && children(expr).into_iter().all(is_known)
}

pub(super) fn name(uid: &pst::EntityUID) -> Name {
    Name { kind: uid.ty.to_string(), id: uid.eid.to_string() }
}

fn principal(constraint: &PrincipalConstraint) -> Scope {
    match constraint {
        PrincipalConstraint::Any => Scope::Any,
        PrincipalConstraint::Is(kind) => Scope::Is(kind.to_string()),
        PrincipalConstraint::Eq(EntityOrSlot::Entity(uid)) => Scope::Eq(name(uid)),
        PrincipalConstraint::In(EntityOrSlot::Entity(uid)) => Scope::In(name(uid)),
        PrincipalConstraint::IsIn(kind, EntityOrSlot::Entity(uid)) => Scope::IsIn(kind.to_string(), name(uid)),
        _ => Scope::Unknown,
    }
}

fn resource(constraint: &ResourceConstraint) -> Scope {
    match constraint {
        ResourceConstraint::Any => Scope::Any,
        ResourceConstraint::Is(kind) => Scope::Is(kind.to_string()),
        ResourceConstraint::Eq(EntityOrSlot::Entity(uid)) => Scope::Eq(name(uid)),
        ResourceConstraint::In(EntityOrSlot::Entity(uid)) => Scope::In(name(uid)),
        ResourceConstraint::IsIn(kind, EntityOrSlot::Entity(uid)) => Scope::IsIn(kind.to_string(), name(uid)),
        _ => Scope::Unknown,
    }
}
