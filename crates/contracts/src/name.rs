//! Names of tools: their grammar, the folded key that keeps look-alikes apart, and the wire name providers accept.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use unicode_security::skeleton;

use crate::digest::Digest;

pub const PART_CHARS_MAX: usize = 64;
/// What OpenAI's and Anthropic's name rules allow.
pub const WIRE_CHARS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{shown}` is not a tool name: a part is a letter followed by at most 63 letters, digits, `_` or `-`, and a name is one part or two joined by a dot"
)]
pub struct Error {
    shown: String,
}

/// INVARIANT: `part` or `part.part`, each `[A-Za-z][A-Za-z0-9_-]{0,63}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(String);

impl ToolName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace before the dot: seed 002's `tool_id`, an upstream's server id.
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once('.').map(|(namespace, _)| namespace)
    }

    pub fn folded(&self) -> FoldedName {
        FoldedName::of(&self.0)
    }

    /// A name every model provider accepts. Readable where that stays unambiguous, otherwise with a hashed tail;
    /// the registry keeps the way back.
    pub fn wire(&self) -> String {
        let plain = match self.0.split_once('.') {
            None if !self.0.contains("__") => Some(self.0.clone()),
            Some((first, second)) if joins_cleanly(first, second) => Some(format!("{first}__{second}")),
            _ => None,
        };
        plain.filter(|name| name.len() <= WIRE_CHARS_MAX).unwrap_or_else(|| {
            let tail = HEXLOWER.encode(&Digest::of(self.0.as_bytes()).as_bytes()[..5]);
            let head: String = self.0.replace('.', "_").chars().take(WIRE_CHARS_MAX - tail.len() - 2).collect();
            format!("{head}--{tail}")
        })
    }
}

/// Whether `first__second` can be split again in only one way.
fn joins_cleanly(first: &str, second: &str) -> bool {
    !first.contains("__") && !second.contains("__") && !first.ends_with('_') && !second.starts_with('_')
}

fn is_part(part: &str) -> bool {
    part.len() <= PART_CHARS_MAX
        && part.starts_with(|first: char| first.is_ascii_alphabetic())
        && part.chars().all(|next| next.is_ascii_alphanumeric() || next == '_' || next == '-')
}

impl FromStr for ToolName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let legal = match text.split_once('.') {
            None => is_part(text),
            Some((first, second)) => is_part(first) && is_part(second),
        };
        if legal {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error { shown: text.chars().take(80).flat_map(char::escape_debug).collect() })
        }
    }
}

impl TryFrom<String> for ToolName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<ToolName> for String {
    fn from(name: ToolName) -> Self {
        name.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl utoipa::PartialSchema for ToolName {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .pattern(Some(r"^[A-Za-z][A-Za-z0-9_-]{0,63}(\.[A-Za-z][A-Za-z0-9_-]{0,63})?$"))
            .into()
    }
}

impl utoipa::ToSchema for ToolName {}

/// The key under which two spellings of one name meet: case, `_`, `-` and UTS 39 confusables folded, the dot kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FoldedName(String);

impl FoldedName {
    pub fn of(name: &str) -> Self {
        let lower: String = name.chars().filter(|c| *c != '_' && *c != '-').flat_map(char::to_lowercase).collect();
        // The skeleton is case-sensitive (`I` looks like `l`, `i` does not), so after folding case the classes
        // that only capitals connect are joined by hand.
        let folded = skeleton(&lower).flat_map(char::to_lowercase).map(|c| match c {
            'i' | '1' => 'l',
            '0' => 'o',
            other => other,
        });
        Self(folded.collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `name` or `name@version`, as a caller writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRef {
    pub name: ToolName,
    pub version: Option<semver::Version>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefError {
    #[error(transparent)]
    Name(#[from] Error),
    #[error("`{0}` is not a version: write all three numbers, as in `name@1.2.0`")]
    Version(String),
}

impl FromStr for ToolRef {
    type Err = RefError;

    fn from_str(text: &str) -> Result<Self, RefError> {
        match text.split_once('@') {
            None => Ok(Self { name: text.parse()?, version: None }),
            Some((name, version)) => Ok(Self {
                name: name.parse()?,
                version: Some(version.parse().map_err(|_| RefError::Version(version.chars().take(40).collect()))?),
            }),
        }
    }
}

impl fmt::Display for ToolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => self.name.fmt(f),
        }
    }
}

/// The short name of a tenant, workspace, agent, profile, group or key: `[a-z0-9][a-z0-9-]{0,62}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a short name: use 1 to 63 lower-case letters, digits and `-`, not beginning with `-`")]
pub struct SlugError(String);

impl Slug {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Slug {
    type Err = SlugError;

    fn from_str(text: &str) -> Result<Self, SlugError> {
        let legal = (1..=63).contains(&text.len())
            && !text.starts_with('-')
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if legal {
            Ok(Self(text.to_owned()))
        } else {
            Err(SlugError(text.chars().take(80).flat_map(char::escape_debug).collect()))
        }
    }
}

impl TryFrom<String> for Slug {
    type Error = SlugError;

    fn try_from(text: String) -> Result<Self, SlugError> {
        text.parse()
    }
}

impl From<Slug> for String {
    fn from(slug: Slug) -> Self {
        slug.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl utoipa::PartialSchema for Slug {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .pattern(Some("^[a-z0-9][a-z0-9-]{0,62}$"))
            .into()
    }
}

impl utoipa::ToSchema for Slug {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_follow_the_grammar() {
        for name in ["calculator", "webSearch", "generate-image", "monorepo_cli.run_script", "a.b"] {
            assert_eq!(name.parse::<ToolName>().unwrap().as_str(), name);
        }
        for name in ["", "1st", "a.b.c", ".a", "a.", "a b", "sеnd", "_x", &"x".repeat(65)] {
            assert!(name.parse::<ToolName>().is_err(), "{name}");
        }
    }

    #[test]
    fn spellings_of_one_name_fold_together() {
        let same = |left: &str, right: &str| FoldedName::of(left) == FoldedName::of(right);
        assert!(same("webSearch", "web_search"));
        assert!(same("WEB-SEARCH", "web_search"));
        assert!(same("getID", "get_id"));
        assert!(same("Iist_tools", "listTools"), "capital I looks like small l");
        assert!(same("t00l", "tool"));
        assert!(same("send_email", "sеnd_email"), "cyrillic е");
        assert!(!same("a.b", "ab"), "the dot is kept");
        assert!(!same("read_file", "list_files"));
    }

    #[test]
    fn wire_names_are_readable_where_they_can_be() {
        let wire = |name: &str| name.parse::<ToolName>().unwrap().wire();
        assert_eq!(wire("calculator"), "calculator");
        assert_eq!(wire("monorepo_cli.run_script"), "monorepo_cli__run_script");
        assert_ne!(wire("a__b"), wire("a.b"));
        assert_ne!(wire("a_.b"), wire("a._b".replace("._", ".x").as_str()));
        let long = format!("{}.{}", "a".repeat(64), "b".repeat(64));
        assert_eq!(wire(&long).len(), WIRE_CHARS_MAX);
    }

    #[test]
    fn a_reference_names_a_whole_version() {
        assert_eq!("a.b@1.2.0".parse::<ToolRef>().unwrap().to_string(), "a.b@1.2.0");
        assert!("a@1".parse::<ToolRef>().is_err());
        assert!("a@^1.0.0".parse::<ToolRef>().is_err());
        assert!("a@".parse::<ToolRef>().is_err());
    }

    proptest! {
        #[test]
        fn every_wire_name_is_legal_and_unique(
            left in "[A-Za-z][A-Za-z0-9_-]{0,63}(\\.[A-Za-z][A-Za-z0-9_-]{0,63})?",
            right in "[A-Za-z][A-Za-z0-9_-]{0,63}(\\.[A-Za-z][A-Za-z0-9_-]{0,63})?",
        ) {
            let (left, right): (ToolName, ToolName) = (left.parse().unwrap(), right.parse().unwrap());
            prop_assert!(left.wire().len() <= WIRE_CHARS_MAX);
            prop_assert!(left.wire().bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            prop_assert_eq!(left.wire() == right.wire(), left == right);
        }
    }
}
