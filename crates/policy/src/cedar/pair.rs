//! A caller and a tool: what the policies say of them whatever the call, and what is left to ask for each call.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use cedar_policy::{Context, EntityUid, EvalResult, Expression, Request, eval_expression};
use toolgate_contracts::definition::{EgressClass, Origin, Risk, Sink};
use toolgate_contracts::{Digest, Role};

use super::arguments::{Plan, Unfit};
use super::judgement::{Call, Event, Judgement, Outcome};
use super::rule::{Effect, Path, Reads, Rule};
use super::set::Set;
use super::words::{self, Parties};
use super::{Action, Circumstances, Needs, Subject, SubjectKind, ToolFacts};

pub(super) struct Pair {
    owned: Owned,
    settled: Vec<Event>,
    /// Without anything left to ask it holds for every call.
    judgement: Judgement,
    residue: Option<Residue>,
    never_allows: bool,
}

/// What must be evaluated for each call.
struct Residue {
    /// Places of the rules, in the order of the set.
    rules: Vec<usize>,
    parties: Parties,
    /// The requests differ in this alone.
    actions: [EntityUid; 2],
    /// Whether a rule is evaluated under `call_unattended`.
    asks_unattended: bool,
    reads: Reads,
    plan: Plan,
}

/// Everything that a pair depends on: compared before it is used, so that two that share a hash share nothing else.
struct Owned {
    kind: SubjectKind,
    id: Box<str>,
    roles: Box<[Role]>,
    workspace: Option<Box<str>>,
    owner: Option<Box<str>>,
    name: Box<str>,
    version: Box<str>,
    class: EgressClass,
    risk: Risk,
    category: Option<Box<str>>,
    group: Option<Box<str>>,
    tags: Box<[String]>,
    origin: Origin,
    sink: Sink,
    key: Digest,
}

impl Owned {
    fn new(subject: &Subject<'_>, tool: &ToolFacts<'_>) -> Self {
        let Subject { kind, id, roles, workspace, owner } = *subject;
        let ToolFacts { name, version, egress_class, risk, category, group, tags, origin, sink, input_schema: _, key } =
            *tool;
        Self {
            kind,
            id: id.into(),
            roles: roles.into(),
            workspace: workspace.map(Into::into),
            owner: owner.map(Into::into),
            name: name.into(),
            version: version.into(),
            class: egress_class,
            risk,
            category: category.map(Into::into),
            group: group.map(Into::into),
            tags: tags.into(),
            origin,
            sink,
            key,
        }
    }

    fn is_of(&self, subject: &Subject<'_>, tool: &ToolFacts<'_>) -> bool {
        let Self {
            kind,
            id,
            roles,
            workspace,
            owner,
            name,
            version,
            class,
            risk,
            category,
            group,
            tags,
            origin,
            sink,
            key,
        } = self;
        *kind == subject.kind
            && **id == *subject.id
            && **roles == *subject.roles
            && workspace.as_deref() == subject.workspace
            && owner.as_deref() == subject.owner
            && *key == tool.key
            && **name == *tool.name
            && **version == *tool.version
            && *class == tool.egress_class
            && *risk == tool.risk
            && category.as_deref() == tool.category
            && group.as_deref() == tool.group
            && **tags == *tool.tags
            && *origin == tool.origin
            && *sink == tool.sink
    }
}

/// Where a pair is kept.
pub(super) fn hash(hasher: &RandomState, subject: &Subject<'_>, tool: &ToolFacts<'_>) -> u64 {
    let mut state = hasher.build_hasher();
    subject.hash(&mut state);
    let ToolFacts { name, version, egress_class, risk, category, group, tags, origin, sink, input_schema: _, key } =
        tool;
    (name, version, egress_class, risk, category, group).hash(&mut state);
    (tags, origin, sink, key).hash(&mut state);
    state.finish()
}

impl Pair {
    /// Evaluates what can be known without a call.
    pub fn settle(set: &Set, subject: &Subject<'_>, tool: &ToolFacts<'_>) -> Self {
        let owned = Owned::new(subject, tool);
        match Self::try_settle(set, subject, tool) {
            Ok((settled, residue)) => {
                let judgement = Judgement::of(set, owned.class, settled.iter());
                let never_allows = never_allows(set, &judgement, residue.as_ref());
                Self { owned, settled, judgement, residue, never_allows }
            }
            Err(why) => {
                let judgement = Judgement::broken(&why);
                Self { owned, settled: Vec::new(), judgement, residue: None, never_allows: true }
            }
        }
    }

    fn try_settle(
        set: &Set,
        subject: &Subject<'_>,
        tool: &ToolFacts<'_>,
    ) -> Result<(Vec<Event>, Option<Residue>), String> {
        let (principal, principal_parents) = (words::subject_name(subject), words::subject_parents(subject));
        let (resource, resource_parents) = (words::tool_name(tool), words::tool_parents(tool));
        let applies = |rule: &Rule| {
            rule.principal.covers(&principal, &principal_parents) && rule.resource.covers(&resource, &resource_parents)
        };
        let about: Vec<_> = set.about(tool.name).filter(|(_, rule)| applies(rule)).collect();
        let mut settled = Vec::new();
        if about.iter().all(|(_, rule)| rule.guard.is_none() && rule.residue.is_none()) {
            for (_, rule) in about {
                note(&mut settled, rule, &Outcome::Holds);
            }
            return Ok((settled, None));
        }
        let parties = Parties::new(subject, tool)?;
        let actions = [words::action(Action::Call)?, words::action(Action::CallUnattended)?];
        let requests = Requests::new(&parties, &actions, Context::empty(), Both::Made)?;
        let mut open = Vec::new();
        for (place, rule) in about {
            let outcome = rule.guard.as_ref().map_or(Ok(true), |guard| requests.holds(rule, guard));
            match (outcome, &rule.residue) {
                (Ok(false), _) => {}
                (Ok(true), Some(_)) => open.push(place),
                (Ok(true), None) => note(&mut settled, rule, &Outcome::Holds),
                (Err(message), _) => note(&mut settled, rule, &Outcome::Errs { message, argument: None }),
            }
        }
        if open.is_empty() {
            return Ok((settled, None));
        }
        let mut reads = Reads::default();
        let mut asks_unattended = false;
        for rule in open.iter().filter_map(|place| set.rules.get(*place)) {
            reads.join(&rule.reads);
            asks_unattended |= rule.asked_as() == Action::CallUnattended;
        }
        let plan = Plan::new(&reads.args, tool.input_schema);
        Ok((settled, Some(Residue { rules: open, parties, actions, asks_unattended, reads, plan })))
    }

    pub fn is_of(&self, subject: &Subject<'_>, tool: &ToolFacts<'_>) -> bool {
        self.owned.is_of(subject, tool)
    }

    pub const fn never_allows(&self) -> bool {
        self.never_allows
    }

    pub fn needs(&self, set: &Set) -> Needs {
        let Some(Residue { rules, .. }) = &self.residue else { return Needs::default() };
        let mut reads = Reads::default();
        rules.iter().filter_map(|place| set.rules.get(*place)).for_each(|rule| reads.join(&rule.reads));
        let mut args: Vec<String> = reads.args.iter().map(Path::pointer).collect();
        args.dedup();
        Needs { labels: reads.labels, source: reads.source, depth: reads.depth, now: reads.now, args }
    }

    pub fn judge(&self, set: &Set, circumstances: &Circumstances<'_>) -> Judgement {
        let Some(residue) = &self.residue else { return self.judgement.clone() };
        match residue.events(set, circumstances) {
            Ok(events) if events.is_empty() => self.judgement.clone(),
            Ok(mut events) => {
                events.extend(self.settled.iter().cloned());
                events.sort_by_key(|event| (event.policy, event.action));
                Judgement::of(set, self.owned.class, events.iter())
            }
            Err(why) => Judgement::broken(&why),
        }
    }
}

impl Residue {
    fn events(&self, set: &Set, circumstances: &Circumstances<'_>) -> Result<Vec<Event>, String> {
        let Self { rules, parties, actions, asks_unattended, reads, plan } = self;
        let (context, unfit) = words::context(reads, plan, circumstances)?;
        let both = if *asks_unattended { Both::Made } else { Both::NotNeeded };
        let requests = Requests::new(parties, actions, context, both)?;
        let mut events = Vec::new();
        for rule in rules.iter().filter_map(|place| set.rules.get(*place)) {
            if let Some(outcome) = unfit_outcome(rule, &unfit) {
                note(&mut events, rule, &outcome);
                continue;
            }
            let Some(residue) = &rule.residue else { continue };
            match requests.holds(rule, residue) {
                Ok(true) => note(&mut events, rule, &Outcome::Holds),
                Ok(false) => {}
                Err(message) => note(&mut events, rule, &Outcome::Errs { message, argument: None }),
            }
        }
        Ok(events)
    }
}

/// A rule that reads an argument which Cedar has no value for errs.
pub(super) fn unfit_outcome(rule: &Rule, unfit: &[Unfit]) -> Option<Outcome> {
    let first = unfit.iter().find(|unfit| rule.reads.args.iter().any(|path| unfit.concerns(path)))?;
    let pointer = Path { members: first.members.clone(), used: true }.pointer();
    let message = format!("the argument `{pointer}` does not fit: {}", first.message);
    Some(Outcome::Errs { message, argument: Some(pointer) })
}

fn note(events: &mut Vec<Event>, rule: &Rule, outcome: &Outcome) {
    let event = |action: &Action| Event { policy: rule.policy, action: *action, outcome: outcome.clone() };
    events.extend(rule.actions.iter().map(event));
}

enum Both {
    Made,
    NotNeeded,
}

/// The request under either action.
struct Requests<'a> {
    parties: &'a Parties,
    call: Request,
    unattended: Option<Request>,
}

impl<'a> Requests<'a> {
    fn new(parties: &'a Parties, actions: &[EntityUid; 2], context: Context, both: Both) -> Result<Self, String> {
        let request = |action: &EntityUid, context: Context| {
            Request::new(parties.principal.clone(), action.clone(), parties.resource.clone(), context, None)
                .map_err(|error| error.to_string())
        };
        let [call, unattended] = actions;
        let unattended = match both {
            Both::Made => Some(request(unattended, context.clone())?),
            Both::NotNeeded => None,
        };
        Ok(Self { parties, call: request(call, context)?, unattended })
    }

    fn holds(&self, rule: &Rule, expression: &Expression) -> Result<bool, String> {
        let request = match (rule.asked_as(), &self.unattended) {
            (Action::CallUnattended, Some(unattended)) => unattended,
            _ => &self.call,
        };
        match eval_expression(request, &self.parties.entities, expression) {
            Ok(EvalResult::Bool(holds)) => Ok(holds),
            Ok(_) => Err("the condition is not a boolean".into()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Certain only where no call could change it: an error, a forbid, or no permit that a call could bring.
fn never_allows(set: &Set, judgement: &Judgement, residue: Option<&Residue>) -> bool {
    match &judgement.call {
        Call::Allowed => false,
        Call::Errored { .. } | Call::Denied { .. } => true,
        Call::NoPermit => {
            let open = residue.into_iter().flat_map(|residue| &residue.rules).filter_map(|place| set.rules.get(*place));
            !open.into_iter().any(|rule| rule.effect == Effect::Permit && rule.actions.contains(&Action::Call))
        }
    }
}
