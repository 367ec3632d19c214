//! The definition of a tool: one shape that drives the form, every model provider's schema, MCP, REST, the command line and the checks.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::agent::SideEffects;
use crate::amount::Amount;
use crate::digest::Digest;
use crate::json;
use crate::name::{Slug, ToolName};
use crate::permission::Permission;
use crate::runner::Runner;

pub const TIMEOUT_MS_DEFAULT: u64 = 30_000;
pub const TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1000;
pub const OUTPUT_BYTES_DEFAULT: u64 = 2 * 1024 * 1024;
pub const OUTPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;
pub const APPROVAL_TIMEOUT_S_DEFAULT: u64 = 24 * 60 * 60;

/// The thirteen categories of seed 004; others are free.
pub const CATEGORIES: [&str; 13] = [
    "system",
    "communication",
    "data",
    "data/visualization",
    "data/exploration",
    "data/management",
    "development",
    "development/execution",
    "development/project",
    "research",
    "creative",
    "media",
    "productivity",
];

/// Members that hold payloads or schemas, in which `null` is a value and not an absence.
pub const OPAQUE_MEMBERS: [&str; 14] = [
    "input_schema",
    "output_schema",
    "input",
    "output",
    "form",
    "view",
    "config",
    "args",
    "body",
    "metadata",
    "structured",
    "app_data",
    "schema",
    "answer",
];

macro_rules! words {
    ($(#[doc = $about:literal])* $name:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $(#[serde(rename = $word)] $variant),* }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }

        // By hand: the derive does not see through the macro to the words, and would list the variants.
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let about: &[&str] = &[$($about.trim_ascii()),*];
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some(about.join("\n")).filter(|about| !about.is_empty()))
                    .enum_values(Some(Self::ALL.iter().map(|word| word.as_str())))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text).ok_or_else(|| {
                    let words: Vec<_> = Self::ALL.iter().map(|word| word.as_str()).collect();
                    let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
                    format!("`{shown}` is not one of {}", words.join(", "))
                })
            }
        }
    };
}
pub(crate) use words;

words! {
    /// The source of truth for effects, mildest first.
    EgressClass { None = "none", ReadOnly = "read_only", Write = "write" }
}
words! {
    /// Mildest first.
    Risk { Safe = "safe", Sensitive = "sensitive", Critical = "critical" }
}
words! {
    /// `open`: the destination or query is free text, so reading is sending. Mildest first.
    Sink { None = "none", Fixed = "fixed", Open = "open" }
}
words! { PermissionPolicy { Auto = "auto", AlwaysAsk = "always_ask" } }
words! {
    /// How a call waits for a person, strictest first.
    HitlMode { Blocking = "blocking", ContinueOnTimeout = "continue_on_timeout", FireAndContinue = "fire_and_continue" }
}
words! { CachePolicy { None = "none", Ttl = "ttl", Forever = "forever" } }
words! { CacheScope { Principal = "principal", Workspace = "workspace", Tenant = "tenant" } }
words! { Visibility { External = "external", Internal = "internal" } }
words! { Origin { Code = "code", Tenant = "tenant", Upstream = "upstream", Openapi = "openapi", Bundle = "bundle" } }
words! { ToolState { Active = "active", Deprecated = "deprecated", Blocked = "blocked" } }
words! { ToolType { Api = "api", Code = "code", Data = "data", Search = "search", Utility = "utility" } }
words! {
    SectionType { Summary = "summary", Table = "table", Chart = "chart", Radar = "radar", Ranking = "ranking", Custom = "custom" }
}
words! {
    /// The least isolation a tool accepts, weakest first.
    SandboxTier { Process = "process", Namespace = "namespace", Wasm = "wasm", Gvisor = "gvisor", Vm = "vm" }
}

impl EgressClass {
    pub const fn default_risk(self) -> Risk {
        match self {
            Self::None => Risk::Safe,
            Self::ReadOnly => Risk::Sensitive,
            Self::Write => Risk::Critical,
        }
    }
}

/// What an author writes. Absent members take the defaults of `contracts.md` §1 through the methods below,
/// so that a definition reads back as it was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    #[schema(value_type = String)]
    pub name: ToolName,
    /// Absent only in a file: tenant-made tools are counted by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub version: Option<semver::Version>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub docs: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub tool_type: Option<ToolType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[schema(value_type = Object)]
    pub input_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_class: Option<EgressClass>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_approval: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_policy: Option<PermissionPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hitl: Option<Hitl>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub idempotent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CachePolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_ttl_s: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_permission: Option<Permission>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretUse>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes_state: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<Sink>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// Allow-list of tenant slugs; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<Slug>,
    /// A system tool that stays hidden in a tenant until it is enabled there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub opt_in: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Alias>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub input_less: bool,
    /// The tool that settles an unknown outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub verify: Option<ToolName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxTier>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_sections: Vec<OutputSection>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub form: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub view: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub collaborative: bool,
    /// The name of a tool, or an expression over the submissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub aggregate: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelRules>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Example>,
    pub runner: Runner,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Hitl {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<HitlMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<Approvers>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Approvers {
    #[serde(default = "one")]
    pub need: u32,
    pub from: Vec<String>,
}

const fn one() -> u32 {
    1
}

/// MCP hints. They steer user interfaces and never widen rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Annotations {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl Annotations {
    /// The hints that are known.
    pub const NAMES: [&'static str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretUse {
    pub name: String,
    #[serde(default = "yes")]
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}

const fn yes() -> bool {
    true
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Alias {
    #[schema(value_type = String)]
    pub name: ToolName,
    /// The last day on which the old name works, `YYYY-MM-DD`; absent: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputSection {
    pub key: String,
    pub label: String,
    #[serde(rename = "type")]
    pub section_type: SectionType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Value>,
}

/// A declared price; a measured price wins. Amounts are decimal strings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_call: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_unit: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
}

words! {
    /// Information-flow labels; their join is the union.
    Label { Untrusted = "untrusted", Private = "private", Sensitive = "sensitive" }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelRules {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adds: Vec<Label>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clears: Vec<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in: Option<Vec<Label>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Example {
    pub title: String,
    #[schema(value_type = Object)]
    pub input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
}

/// Members that only a reader sees: a change voids no grant.
const READ_ONLY_MEMBERS: [&str; 9] =
    ["title", "description", "icon", "docs", "category", "tags", "examples", "form", "view"];

impl Definition {
    /// The effective class: what was declared, never below what the runner does.
    pub fn class(&self) -> EgressClass {
        self.egress_class.unwrap_or(EgressClass::None)
    }

    pub fn effective_risk(&self) -> Risk {
        self.risk.unwrap_or(self.class().default_risk())
    }

    /// `write` always asks, whatever was written; the database holds the same rule.
    pub fn asks(&self) -> bool {
        self.class() == EgressClass::Write
            || self.requires_approval == Some(true)
            || self.effective_risk() == Risk::Critical
    }

    pub fn policy(&self) -> PermissionPolicy {
        self.permission_policy.unwrap_or(PermissionPolicy::Auto)
    }

    pub fn hitl_mode(&self) -> HitlMode {
        self.hitl.as_ref().and_then(|hitl| hitl.mode).unwrap_or(HitlMode::Blocking)
    }

    pub fn changes_state(&self) -> bool {
        self.changes_state.unwrap_or(self.class() == EgressClass::Write)
    }

    /// Seed 003's word, `writes` also for tools that change the tenant's own records.
    pub fn effects(&self) -> SideEffects {
        match self.class() {
            _ if self.changes_state() => SideEffects::Writes,
            EgressClass::Write => SideEffects::Writes,
            EgressClass::ReadOnly => SideEffects::Reads,
            EgressClass::None => SideEffects::None,
        }
    }

    pub fn side_effects(&self) -> &'static str {
        self.effects().as_str()
    }

    pub fn effective_sink(&self) -> Sink {
        self.sink.unwrap_or_default_for(&self.runner)
    }

    pub fn effective_type(&self) -> ToolType {
        self.tool_type.unwrap_or_else(|| self.runner.tool_type(self.category.as_deref()))
    }

    pub fn effective_title(&self) -> &str {
        self.title.as_deref().unwrap_or(self.name.as_str())
    }

    pub fn effective_category(&self) -> &str {
        self.category.as_deref().unwrap_or("system")
    }

    pub fn effective_visibility(&self) -> Visibility {
        self.visibility.unwrap_or(Visibility::External)
    }

    pub fn cache_policy(&self) -> CachePolicy {
        if self.changes_state() { CachePolicy::None } else { self.cache.unwrap_or(CachePolicy::None) }
    }

    /// The hints that follow from the class, unless the author said otherwise.
    pub fn effective_annotations(&self) -> Annotations {
        let said = self.annotations.unwrap_or_default();
        Annotations {
            read_only_hint: said.read_only_hint.or(Some(!self.changes_state())),
            destructive_hint: said.destructive_hint.or(Some(self.class() == EgressClass::Write)),
            idempotent_hint: said.idempotent_hint.or(Some(self.idempotent || !self.changes_state())),
            open_world_hint: said.open_world_hint.or(Some(self.class() != EgressClass::None)),
        }
    }

    /// Everything that can change behaviour or what a model reads: a change is drift.
    pub fn definition_digest(&self) -> Digest {
        json::digest(&self.content(&["version"]))
    }

    /// What a grant binds: leaves out what only a reader sees.
    pub fn behaviour_digest(&self) -> Digest {
        let mut content = self.content(&["version"]);
        if let Value::Object(members) = &mut content {
            members.retain(|key, _| !READ_ONLY_MEMBERS.contains(&key.as_str()));
            for schema in ["input_schema", "output_schema"] {
                if let Some(schema) = members.get_mut(schema) {
                    strip_prose(schema);
                }
            }
            // Which edition of its document an operation came from is for readers, and so is which words a server used.
            if let Some(Value::Object(runner)) = members.get_mut("runner")
                && matches!(self.runner, Runner::Openapi(_) | Runner::Mcp(_))
            {
                runner.shift_remove("digest");
            }
        }
        json::digest(&content)
    }

    fn content(&self, without: &[&str]) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or(Value::Null);
        if let Value::Object(members) = &mut value {
            members.retain(|key, _| !without.contains(&key.as_str()));
            // Effective values, so that writing a default down is no change.
            members.insert("egress_class".into(), self.class().as_str().into());
            members.insert("risk".into(), self.effective_risk().as_str().into());
            members.insert("requires_approval".into(), self.asks().into());
            members.insert("sink".into(), self.effective_sink().as_str().into());
        }
        value
    }
}

trait OrDerived {
    fn unwrap_or_default_for(self, runner: &Runner) -> Sink;
}

impl OrDerived for Option<Sink> {
    /// May only be raised above what the runner implies.
    fn unwrap_or_default_for(self, runner: &Runner) -> Sink {
        self.map_or(runner.sink_floor(), |said| said.max(runner.sink_floor()))
    }
}

/// Titles and descriptions inside a schema are for readers; a property that happens to have such a name is not.
fn strip_prose(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|key, value| {
                !matches!(key.as_str(), "title" | "description" | "examples" | "$comment") || value.is_object()
            });
            members.iter_mut().filter(|(key, _)| !matches!(key.as_str(), "const" | "enum" | "default")).for_each(
                |(key, value)| {
                    if matches!(key.as_str(), "properties" | "$defs" | "patternProperties" | "dependentSchemas") {
                        if let Value::Object(named) = value {
                            named.values_mut().for_each(strip_prose);
                        }
                    } else {
                        strip_prose(value);
                    }
                },
            );
        }
        Value::Array(items) => items.iter_mut().for_each(strip_prose),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(extra: Value) -> Definition {
        let mut value = json!({
            "name": "send_email", "version": "1.0.0", "description": "Send a message.",
            "input_schema": {"type": "object", "properties": {"title": {"type": "string", "description": "old"}}},
            "egress_class": "write", "runner": {"kind": "external"},
        });
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json::decode(value).unwrap()
    }

    #[test]
    fn what_only_a_reader_sees_voids_no_grant_but_is_drift() {
        let old = definition(json!({}));
        let better = definition(json!({"description": "Send a message to one person.",
            "input_schema": {"type": "object", "properties": {"title": {"type": "string", "description": "new"}}}}));
        assert_eq!(old.behaviour_digest(), better.behaviour_digest());
        assert_ne!(old.definition_digest(), better.definition_digest());
    }

    #[test]
    fn a_property_named_title_is_behaviour() {
        let old = definition(json!({}));
        let other =
            definition(json!({"input_schema": {"type": "object", "properties": {"title": {"type": "number"}}}}));
        let without = definition(json!({"input_schema": {"type": "object", "properties": {}}}));
        assert_ne!(old.behaviour_digest(), other.behaviour_digest());
        assert_ne!(old.behaviour_digest(), without.behaviour_digest());
    }

    #[test]
    fn writing_a_default_down_is_no_change() {
        let said = definition(json!({"risk": "critical", "requires_approval": true}));
        assert_eq!(definition(json!({})).definition_digest(), said.definition_digest());
        assert!(definition(json!({"requires_approval": false})).asks(), "write always asks");
    }

    #[test]
    fn an_unknown_member_is_refused_with_its_path() {
        let mut value = serde_json::to_value(definition(json!({}))).unwrap();
        value["hitl"] = json!({"mod": "blocking"});
        let error = json::decode::<Definition>(value).unwrap_err();
        assert_eq!(error.pointer, "/hitl/mod");
    }
}
