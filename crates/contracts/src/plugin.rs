//! Plug-ins: components that the operator installs, and what each says of itself.
//!
//! What a plug-in wants (hosts, secrets) is only its wish: what it gets stands in the definition of the tool that names it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::definition::{SecretUse, words};
use crate::digest::Digest;
use crate::name::ToolName;
use crate::runner::HostAccess;

/// More than this is no plug-in. A Python interpreter with its library fits in.
pub const COMPONENT_BYTES_MAX: usize = 64 * 1024 * 1024;

words! {
    /// Which interface a plug-in has: it runs a tool, or it examines what others are given and answer.
    PluginWorld { Tool = "tool", Detector = "detector" }
}

/// What a plug-in answers when it is asked what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginDescription {
    #[schema(value_type = String)]
    pub name: ToolName,
    #[schema(value_type = String)]
    pub version: semver::Version,
    pub title: String,
    pub description: String,
    #[schema(value_type = Object)]
    pub input_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    /// What it would like to reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostAccess>,
    /// What it would like to read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretUse>,
}

/// What was read of a component before it is installed.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadPlugin {
    pub world: PluginWorld,
    pub description: PluginDescription,
}

/// An installed plug-in, without its component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Plugin {
    /// What a tool's definition names.
    #[schema(value_type = String)]
    pub name: ToolName,
    #[schema(value_type = String)]
    pub version: semver::Version,
    /// Of the component's bytes: what runs is what has this digest, and nothing else.
    pub digest: Digest,
    pub world: PluginWorld,
    pub bytes: u64,
    pub description: PluginDescription,
    pub installed_by: String,
    pub created_at: Timestamp,
}
