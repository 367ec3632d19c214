//! Skills: instructions with places for arguments, which clients offer their users and agents are given.
//!
//! Deliberately absent: the text itself. It is kept beside, by its digest, and read when somebody wants it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::name::{Slug, ToolName};

/// What a skill says of itself: the front matter of its `SKILL.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Skill {
    #[schema(value_type = String)]
    pub name: Slug,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for, and when to use it.
    pub description: String,
    /// Absent or empty: the text has no places and is given as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<SkillArgument>,
    /// Those that its text speaks of. They give nobody a tool, and take none away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub tools: Vec<ToolName>,
    /// The address of a picture, `https` or `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
}

/// What stands in a place of the text. Every argument is a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillArgument {
    /// A letter or `_`, then letters, digits and `_`.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub required: bool,
    /// The only values that it takes; empty: any text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}
