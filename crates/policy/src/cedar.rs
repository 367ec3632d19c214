//! Cedar policies of one tenant: compiled once when a revision is activated, asked for every call.
//!
//! There are two actions. `call`: no permit, or a forbid, denies. `call_unattended`: no permit, or a forbid, asks a
//! person. A policy that errs denies, under either action.
//!
//! What depends only on who calls and which tool is evaluated once for each such pair and kept; a call evaluates what
//! reads its arguments, labels, door, depth or time, and nothing where no policy does. [`Policies::decide_plainly`]
//! evaluates everything with Cedar's own authorizer instead: it is the oracle that the short way is tested against.
//!
//! Deliberately absent: I/O, a clock, and any rule that a policy could loosen. That a `write` waits for a person is the
//! engine's, whatever a policy permits.

mod annotation;
mod arguments;
mod check;
mod finding;
mod json_type;
mod judgement;
mod pair;
mod plain;
mod rule;
mod set;
mod source;
mod vocabulary;
mod words;

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::caller::Source;
use toolgate_contracts::definition::{EgressClass, Label, Origin, Risk, Sink};
use toolgate_contracts::{Digest, Role, Timestamp};
use utoipa::ToSchema;

pub(crate) use finding::nearest;
pub use finding::{Gravity, PolicyFinding};
pub use judgement::{Ask, Call, Judgement, PolicyFault, PolicyHit, Unattended};
pub use set::Summary;
pub use vocabulary::{KnownPerson, KnownTool, Vocabulary};

use pair::Pair;
use set::Set;

/// What a tenant may write.
pub const SOURCE_BYTES_MAX: usize = 512 * 1024;
pub const POLICIES_MAX: usize = 2_000;
/// Words and signs in one policy (texts and commas not counted), and brackets within brackets: what reads a policy
/// recurses.
pub const POLICY_WORDS_MAX: usize = 1_000;
pub const NESTING_MAX: usize = 32;
/// What reading the largest policy may take, whatever the thread has: a debug build takes some KiB for each sign.
const READ_STACK_BYTES: usize = 32 * 1024 * 1024;
/// Pairs of caller and tool whose standing part is kept; beyond it the least used are computed again.
const PAIRS_MAX: u64 = 16_384;

/// The set of a fresh tenant: what the tool set allows may be called, and runs without asking unless the tool, a
/// profile, a guardrail or a label asks.
pub const DEFAULT: &str = r#"// Whatever a tool set allows may be called.
@id("default-call")
permit (principal, action == Action::"call", resource);

// No policy asks a person. Tools that write ask all the same.
@id("default-unattended")
permit (principal, action == Action::"call_unattended", resource);
"#;

/// The two questions that policies answer for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[schema(as = PolicyAction)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Call,
    CallUnattended,
}

impl Action {
    pub const ALL: [Self; 2] = [Self::Call, Self::CallUnattended];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::CallUnattended => "call_unattended",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubjectKind {
    User,
    Agent,
    Service,
}

impl SubjectKind {
    pub const ALL: [Self; 3] = [Self::User, Self::Agent, Self::Service];

    /// The type of the principal in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Agent => "Agent",
            Self::Service => "Service",
        }
    }
}

/// Who calls, as policies see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subject<'a> {
    pub kind: SubjectKind,
    pub id: &'a str,
    pub roles: &'a [Role],
    pub workspace: Option<&'a str>,
    /// Who answers for an agent or a service.
    pub owner: Option<&'a str>,
}

/// A tool as it is resolved for this caller, as policies see it.
#[derive(Clone, Copy, Debug)]
pub struct ToolFacts<'a> {
    /// The canonical name, never an alias or another spelling.
    pub name: &'a str,
    pub version: &'a str,
    pub egress_class: EgressClass,
    pub risk: Risk,
    pub category: Option<&'a str>,
    pub group: Option<&'a str>,
    pub tags: &'a [String],
    pub origin: Origin,
    pub sink: Sink,
    /// Says which of the numbers are integers.
    pub input_schema: &'a Value,
    /// Stands for `input_schema`: another schema has another key.
    pub key: Digest,
}

/// What of a call is neither its caller nor its tool.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    pub labels: &'a [Label],
    pub source: Source,
    pub depth: u32,
    pub now: Timestamp,
    /// As they will run: with defaults filled in, checked against the tool's schema.
    pub args: &'a Value,
}

/// What policies would read of a call by this caller of this tool. Where a record does not hold one of these, what they
/// would have decided is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub labels: bool,
    pub source: bool,
    pub depth: bool,
    pub now: bool,
    /// JSON Pointers of the arguments.
    pub args: Vec<String>,
}

/// A checked set and what there is to say about it.
#[derive(Debug)]
pub struct Compiled {
    pub policies: Policies,
    pub warnings: Vec<PolicyFinding>,
    /// Saving it needs the permission `policies.log_only`.
    pub uses_log_only: bool,
}

/// The policies of one tenant.
pub struct Policies {
    /// Or why there is none: then everything is denied.
    set: Result<Set, String>,
    pairs: Cache<u64, Arc<Pair>>,
    hasher: std::hash::RandomState,
}

impl Policies {
    /// Reads a set and checks it strictly against what there is: tools, arguments, roles, agents, groups, workspaces.
    pub fn compile(source: &str, vocabulary: &Vocabulary<'_>) -> Result<Compiled, Vec<PolicyFinding>> {
        let (set, mut findings) = stacker::grow(READ_STACK_BYTES, || {
            let (set, mut findings) = Set::read(source)?;
            // Whoever mends the one error is told of the next one now.
            let whole = !is_refused(&findings);
            findings.extend(check::check(source, &set, whole, vocabulary));
            Ok::<_, Vec<PolicyFinding>>((set, findings))
        })?;
        finding::sort(&mut findings);
        if is_refused(&findings) {
            return Err(findings);
        }
        let uses_log_only = set.uses_log_only();
        Ok(Compiled { policies: Self::new(Ok(set)), warnings: findings, uses_log_only })
    }

    /// Reads a set that was checked when it was activated. What has changed since is no reason to refuse it: a policy
    /// about a tool that is gone decides nothing, one about an argument that is gone errs and denies.
    pub fn load(source: &str) -> Result<Self, Vec<PolicyFinding>> {
        let (set, mut findings) = stacker::grow(READ_STACK_BYTES, || Set::read(source))?;
        if is_refused(&findings) {
            finding::sort(&mut findings);
            return Err(findings);
        }
        Ok(Self::new(Ok(set)))
    }

    /// Stands for a set that could not be had: every call is denied with `policy_error`.
    pub fn broken(why: impl Into<String>) -> Self {
        Self::new(Err(why.into()))
    }

    fn new(set: Result<Set, String>) -> Self {
        Self { set, pairs: Cache::new(PAIRS_MAX), hasher: std::hash::RandomState::new() }
    }

    /// What the policies say of a call.
    pub fn decide(&self, subject: &Subject<'_>, tool: &ToolFacts<'_>, circumstances: &Circumstances<'_>) -> Judgement {
        match &self.set {
            Ok(set) => self.pair(set, subject, tool).judge(set, circumstances),
            Err(why) => Judgement::broken(why),
        }
    }

    /// The same answer by evaluating every policy with Cedar's authorizer.
    pub fn decide_plainly(
        &self,
        subject: &Subject<'_>,
        tool: &ToolFacts<'_>,
        circumstances: &Circumstances<'_>,
    ) -> Judgement {
        match &self.set {
            Ok(set) => plain::decide(set, subject, tool, circumstances),
            Err(why) => Judgement::broken(why),
        }
    }

    /// Whether `call` is denied whatever arguments, labels and time: then the tool is not listed.
    pub fn never_allows(&self, subject: &Subject<'_>, tool: &ToolFacts<'_>) -> bool {
        self.set.as_ref().map_or(true, |set| self.pair(set, subject, tool).never_allows())
    }

    pub fn needs(&self, subject: &Subject<'_>, tool: &ToolFacts<'_>) -> Needs {
        self.set.as_ref().map(|set| self.pair(set, subject, tool).needs(set)).unwrap_or_default()
    }

    /// The policies, in the order of the text.
    pub fn summaries(&self) -> Vec<Summary> {
        self.set.as_ref().map(Set::summaries).unwrap_or_default()
    }

    fn pair(&self, set: &Set, subject: &Subject<'_>, tool: &ToolFacts<'_>) -> Arc<Pair> {
        let key = pair::hash(&self.hasher, subject, tool);
        if let Some(pair) = self.pairs.get(&key).filter(|pair| pair.is_of(subject, tool)) {
            return pair;
        }
        let pair = Arc::new(Pair::settle(set, subject, tool));
        self.pairs.insert(key, Arc::clone(&pair));
        pair
    }
}

fn is_refused(findings: &[PolicyFinding]) -> bool {
    findings.iter().any(|finding| finding.gravity == Gravity::Error)
}

impl std::fmt::Debug for Policies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policies").field("policies", &self.set.as_ref().map(Set::len)).finish_non_exhaustive()
    }
}
