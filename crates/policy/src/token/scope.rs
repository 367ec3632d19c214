//! What a token's scope names: `tool:*`, `tool:NAME`, `tool:NAME@REQUIREMENT`.
//!
//! Narrowing may put a second requirement behind the first (`tool:a@^1@>=1.2`): all of them must hold. They are never
//! joined into one, because semver lets a pre-release in as soon as any comparator of a requirement names one.

use std::fmt;
use std::str::FromStr;

use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};
use toolgate_contracts::{FoldedName, ToolName};

const PREFIX: &str = "tool:";

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
    pub(super) fn meet(&self, other: &Self) -> Option<Self> {
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
