//! One definition told to each reader: model providers, MCP, models without tool calling, and the seeds.
//!
//! Deterministic to the byte, so that providers can cache prompts: lists are sorted by name, members keep one
//! order. Names are wire names (`ToolName::wire`) wherever a provider's rules hold; the registry finds the way
//! back. What a provider cannot be told is left out here and checked by the gate all the same.

mod compat;
mod provider;
mod xml;

use serde_json::Value;
use toolgate_contracts::definition::{
    APPROVAL_TIMEOUT_S_DEFAULT, Definition, Hitl, OUTPUT_BYTES_DEFAULT, TIMEOUT_MS_DEFAULT,
};

use crate::finding::{nearest, shown};
use crate::tool_md::Originals;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The definition as a whole, with every default spelled out.
    Framework,
    Openai,
    Anthropic,
    Gemini,
    Mcp,
    /// A text for models without tool calling.
    Xml,
    /// Seed 003's `BaseTool` (C9), schemas in draft-07.
    BaseTool,
    /// Seed 001's `ToolMeta` (C15).
    Meta,
    /// Seed 001's `ToolDefinition` (C15).
    ToolDefinition,
}

impl Form {
    pub const ALL: [Self; 9] = [
        Self::Framework,
        Self::Openai,
        Self::Anthropic,
        Self::Gemini,
        Self::Mcp,
        Self::Xml,
        Self::BaseTool,
        Self::Meta,
        Self::ToolDefinition,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Framework => "framework",
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Mcp => "mcp",
            Self::Xml => "xml",
            Self::BaseTool => "base-tool",
            Self::Meta => "meta",
            Self::ToolDefinition => "tool-definition",
        }
    }
}

impl std::str::FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|form| form.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str);
            let meant = nearest(text, names).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
            format!("`{}` is not one of {}{meant}", shown(text), names.join(", "))
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Rendered {
    Json(Value),
    Text(String),
}

impl Rendered {
    /// As it is printed: JSON with indentation, text as it is.
    pub fn to_text(&self) -> String {
        match self {
            Self::Json(value) => format!("{value:#}"),
            Self::Text(text) => text.clone(),
        }
    }
}

/// `originals` are the schemas as written, where they were converted; seed 003's readers get those back.
pub fn one(definition: &Definition, form: Form, originals: &Originals) -> Rendered {
    match form {
        Form::Xml => Rendered::Text(xml::tool(definition)),
        Form::Framework => Rendered::Json(framework(definition)),
        Form::Openai => Rendered::Json(provider::openai(definition)),
        Form::Anthropic => Rendered::Json(provider::anthropic(definition)),
        Form::Gemini => Rendered::Json(provider::gemini(definition)),
        Form::Mcp => Rendered::Json(provider::mcp(definition)),
        Form::BaseTool => Rendered::Json(compat::base_tool(definition, originals)),
        Form::Meta => Rendered::Json(compat::meta(definition)),
        Form::ToolDefinition => Rendered::Json(compat::tool_definition(definition)),
    }
}

/// A list, sorted by name and version whatever the order it came in.
pub fn many<'a>(definitions: impl IntoIterator<Item = &'a Definition>, form: Form) -> Rendered {
    let mut sorted: Vec<&Definition> = definitions.into_iter().collect();
    sorted.sort_by(|left, right| left.name.cmp(&right.name).then_with(|| left.version.cmp(&right.version)));
    let originals = Originals::default();
    let parts = sorted.into_iter().map(|definition| one(definition, form, &originals));
    if form == Form::Xml {
        let tools: String = parts.map(|part| part.to_text()).collect();
        return Rendered::Text(format!("<tools>\n{tools}</tools>\n"));
    }
    let list = parts.filter_map(|part| match part {
        Rendered::Json(value) => Some(value),
        Rendered::Text(_) => None,
    });
    Rendered::Json(Value::Array(list.collect()))
}

fn framework(definition: &Definition) -> Value {
    let hitl = definition.hitl.clone().unwrap_or_default();
    let effective = Definition {
        title: Some(definition.effective_title().to_owned()),
        category: Some(definition.effective_category().to_owned()),
        tool_type: Some(definition.effective_type()),
        egress_class: Some(definition.class()),
        risk: Some(definition.effective_risk()),
        requires_approval: Some(definition.asks()),
        permission_policy: Some(definition.policy()),
        hitl: Some(Hitl {
            mode: Some(definition.hitl_mode()),
            timeout_s: hitl.timeout_s.or(Some(APPROVAL_TIMEOUT_S_DEFAULT)),
            approvers: hitl.approvers,
        }),
        annotations: Some(definition.effective_annotations()),
        cache: Some(definition.cache_policy()),
        timeout_ms: definition.timeout_ms.or(Some(TIMEOUT_MS_DEFAULT)),
        max_output_bytes: definition.max_output_bytes.or(Some(OUTPUT_BYTES_DEFAULT)),
        changes_state: Some(definition.changes_state()),
        sink: Some(definition.effective_sink()),
        visibility: Some(definition.effective_visibility()),
        ..definition.clone()
    };
    serde_json::to_value(effective).unwrap_or(Value::Null)
}
