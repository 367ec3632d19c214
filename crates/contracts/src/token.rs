//! What a capability token allows, as every check reads it: scopes, and the chain of tokens above it.
//!
//! Deliberately absent: signing, verifying and narrowing (`policy`), and whether a token was revoked or used up, which
//! only the store knows.

use std::fmt;
use std::str::FromStr;

use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::amount::Amount;
use crate::clock::Timestamp;
use crate::definition::Label;
use crate::id::{RunId, TokenId};
use crate::name::{FoldedName, ToolName};
use crate::permission::Permission;

const PREFIX: &str = "tool:";

/// How often a token may be narrowed: one that nobody narrowed has depth 0, so a chain has at most one more.
pub const DEPTH_MAX: u32 = 8;

/// A token that was believed, with those above it. Everything it says has been narrowed already: only counters, budgets
/// and revocation are asked of the whole chain.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldToken {
    pub id: TokenId,
    pub scope: Vec<Scope>,
    /// Constraints on arguments as `policy` reads them.
    pub constraints: Vec<Value>,
    /// Data with other labels does not go into a call. Absent: any.
    pub labels_max: Option<Vec<Label>>,
    /// Only calls of this run.
    pub run: Option<RunId>,
    /// Until when calls may be asked for with it.
    pub expires_at: Timestamp,
    /// The label context that its calls join: that of whoever minted the first of the chain.
    pub context: String,
    /// Itself first, then its parent, up to the one without.
    pub chain: Vec<ChainedToken>,
}

/// What is counted of each token in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainedToken {
    pub id: TokenId,
    pub budget: Option<Amount>,
    pub max_calls: Option<u32>,
}

impl HeldToken {
    /// Whether any scope names the tool: what a list shows, and what a call needs.
    pub fn covers(&self, names: &[&FoldedName], version: &Version) -> bool {
        self.scope.iter().any(|scope| scope.covers(names, version))
    }

    /// Whether every call counts against somebody's `max_calls`.
    pub fn is_counted(&self) -> bool {
        self.chain.iter().any(|token| token.max_calls.is_some())
    }

    /// What whoever shows a token may do at most, whatever its principal may: use tools, see what came of it, and make
    /// narrower tokens. It decides nothing and manages nobody.
    pub fn may_carry(permission: &Permission) -> bool {
        let using = [
            Permission::CALLS_CREATE,
            Permission::CALLS_READ_OWN,
            Permission::TOKENS_MINT,
            Permission::TOOLS_READ,
            Permission::WORK_LEASE,
        ];
        using.contains(permission) || permission.is_tools_own()
    }
}

/// What a token's scope names: `tool:*`, `tool:NAME`, `tool:NAME@REQUIREMENT`.
///
/// Narrowing may put a second requirement behind the first (`tool:a@^1@>=1.2`): all of them must hold. They are never
/// joined into one, because semver lets a pre-release in as soon as any comparator of a requirement names one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    Every,
    Tool(ToolScope),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolScope {
    name: ToolName,
    folded: FoldedName,
    /// None: every version.
    requirements: Vec<VersionReq>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a scope: write `tool:NAME`, `tool:NAME@^1.2` or `tool:*`")]
pub struct ScopeError(String);

impl ToolScope {
    pub fn name(&self) -> &ToolName {
        &self.name
    }
}

impl Scope {
    /// `names` are all the names that the tool goes by.
    pub fn covers(&self, names: &[&FoldedName], version: &Version) -> bool {
        match self {
            Self::Every => true,
            Self::Tool(ToolScope { name: _, folded, requirements }) => {
                names.contains(&folded) && requirements.iter().all(|requirement| requirement.matches(version))
            }
        }
    }

    /// What both cover, if they have anything in common.
    pub fn meet(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Every, one) | (one, Self::Every) => Some(one.clone()),
            (Self::Tool(left), Self::Tool(right)) if left.folded == right.folded => {
                let mut both = left.clone();
                both.requirements
                    .extend(right.requirements.iter().filter(|one| !left.requirements.contains(one)).cloned());
                Some(Self::Tool(both))
            }
            (Self::Tool(_), Self::Tool(_)) => None,
        }
    }
}
impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let refused = || ScopeError(text.chars().take(80).flat_map(char::escape_debug).collect());
        let named = text.strip_prefix(PREFIX).ok_or_else(refused)?;
        if named == "*" {
            return Ok(Self::Every);
        }
        let mut parts = named.split('@');
        let name: ToolName = parts.next().unwrap_or_default().parse().map_err(|_| refused())?;
        let requirements = parts.map(VersionReq::parse).collect::<Result<Vec<_>, _>>().map_err(|_| refused())?;
        Ok(Self::Tool(ToolScope { folded: name.folded(), name, requirements }))
    }
}

impl TryFrom<String> for Scope {
    type Error = ScopeError;

    fn try_from(text: String) -> Result<Self, ScopeError> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every => write!(f, "{PREFIX}*"),
            Self::Tool(ToolScope { name, folded: _, requirements }) => {
                write!(f, "{PREFIX}{name}")?;
                requirements.iter().try_for_each(|requirement| write!(f, "@{requirement}"))
            }
        }
    }
}

impl utoipa::PartialSchema for Scope {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("`tool:NAME`, `tool:NAME@REQUIREMENT` or `tool:*`"))
            .examples(["tool:web_search@^1"])
            .into()
    }
}

impl utoipa::ToSchema for Scope {}
