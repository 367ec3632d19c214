//! What runs a tool: a tagged union on `kind`, and the class floor that follows from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::definition::{EgressClass, Sink, ToolType, words};
use crate::digest::Digest;

/// Commands, connections and servers are named entries of the operator's configuration, never spelled out here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Runner {
    Builtin(Builtin),
    Http(Http),
    Openapi(Openapi),
    Script(Script),
    Sql(Sql),
    Python(Python),
    Wasm(Wasm),
    Prompt(Prompt),
    Task(Task),
    Composition(Composition),
    Workflow(WorkflowRunner),
    Expression(Expression),
    Record(Record),
    Mcp(Mcp),
    External(External),
}

words! {
    Method { Get = "GET", Head = "HEAD", Post = "POST", Put = "PUT", Patch = "PATCH", Delete = "DELETE" }
}

impl Method {
    const fn floor(self) -> EgressClass {
        match self {
            Self::Get | Self::Head => EgressClass::ReadOnly,
            Self::Post | Self::Put | Self::Patch | Self::Delete => EgressClass::Write,
        }
    }
}

/// A function compiled into Toolgate; its class is its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Builtin {
    pub function: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub method: Method,
    /// A template; a parameter may not change scheme, host or port.
    pub url: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub body: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<HttpAuth>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pagination: Option<Pagination>,
    /// A CEL expression over `{status, headers, body}` that makes the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpAuth {
    /// The name of a secret in `secrets`.
    pub secret: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The query parameter that carries it, where no header does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pagination {
    /// JSON Pointer of the items in one page.
    pub items: String,
    /// JSON Pointer of the next page's address or token.
    pub next: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pages: Option<u32>,
}

/// One operation of an imported OpenAPI document, with everything that its request is made of: the document itself is
/// not read again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Openapi {
    /// Where the document came from.
    pub document: String,
    /// SHA-256 of the document as it was when the operation came from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    pub operation: String,
    pub method: Method,
    /// Scheme, host, port and what stands before the path of every operation.
    pub server: String,
    /// With a place such as `{id}` for each argument in it.
    pub path: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<OperationParameter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<OperationBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<HttpAuth>,
    /// The media type that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
}

words! { ParameterPlace { Path = "path", Query = "query", Header = "header" } }
words! {
    /// How a value is written into its place: OpenAPI's words, and `json` for a parameter whose content is JSON.
    ParameterStyle {
        Simple = "simple",
        Label = "label",
        Matrix = "matrix",
        Form = "form",
        SpaceDelimited = "spaceDelimited",
        PipeDelimited = "pipeDelimited",
        DeepObject = "deepObject",
        Json = "json",
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationParameter {
    pub name: String,
    #[serde(rename = "in")]
    pub place: ParameterPlace,
    /// The member of the input that fills it, where that has another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
    /// Without it `form` in a query, else `simple`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<ParameterStyle>,
    /// Without it true for `form` and `deepObject`, else false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explode: Option<bool>,
}

impl OperationParameter {
    pub fn argument(&self) -> &str {
        self.argument.as_deref().unwrap_or(&self.name)
    }

    pub fn effective_style(&self) -> ParameterStyle {
        self.style.unwrap_or(match self.place {
            ParameterPlace::Query => ParameterStyle::Form,
            ParameterPlace::Path | ParameterPlace::Header => ParameterStyle::Simple,
        })
    }

    pub fn explodes(&self) -> bool {
        let by_style = matches!(self.effective_style(), ParameterStyle::Form | ParameterStyle::DeepObject);
        self.explode.unwrap_or(by_style)
    }
}

/// What the request carries: either some members of the input, or one of them as the whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationBody {
    /// JSON, `application/x-www-form-urlencoded`, `multipart/form-data` or text.
    pub content_type: String,
    /// The member of the input that is the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
    /// The members of the input that are the body's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Which members of the body are files, given in base64: for `multipart/form-data`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Whether a body goes out that has no member.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Script {
    pub entry: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Sql {
    pub connection: String,
    pub statement: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Python {
    pub code: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostAccess>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wasm {
    /// The name of an installed plug-in.
    pub plugin: String,
    /// Of its component. Absent only in a file: registering pins the newest version of the plug-in, so that a grant for
    /// this behaviour is one for these bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostAccess>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostAccess {
    pub host: String,
    pub methods: Vec<Method>,
}

words! { PromptMode { Direct = "direct", Skill = "skill", Agent = "agent" } }

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    pub mode: PromptMode,
    pub template: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// What is to be done, with places for arguments.
    pub task: String,
    /// Who does it: an agent's name, which may have places too. Absent only in a file that is not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default)]
    pub wait: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Composition {
    pub steps: Vec<CompositionStep>,
    /// A CEL expression over `{input, steps}`; absent: the last step's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompositionStep {
    pub id: String,
    /// `name` or `name@version`.
    pub tool: String,
    /// Texts in it have places for `input.NAME` and for `steps.ID`, the output of an earlier step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub input: BTreeMap<String, Value>,
    /// Earlier steps that must have ended. Absent: the one before; empty: none, so that it begins at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
}

/// A saved workflow, whose run answers the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowRunner {
    /// By name.
    pub workflow: String,
    /// The graph that runs, whatever is saved later. Absent only in a file: the one that holds when it is registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Expression {
    /// CEL over `input`.
    pub cel: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub entity_type: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    pub server: String,
    /// By the server's own name for it.
    pub tool: String,
    /// SHA-256 of the tool as the server described it when that was accepted. Absent only in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// Run in somebody's own process, by lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct External {}

impl Runner {
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Builtin(_) => "builtin",
            Self::Http(_) => "http",
            Self::Openapi(_) => "openapi",
            Self::Script(_) => "script",
            Self::Sql(_) => "sql",
            Self::Python(_) => "python",
            Self::Wasm(_) => "wasm",
            Self::Prompt(_) => "prompt",
            Self::Task(_) => "task",
            Self::Composition(_) => "composition",
            Self::Workflow(_) => "workflow",
            Self::Expression(_) => "expression",
            Self::Record(_) => "record",
            Self::Mcp(_) => "mcp",
            Self::External(_) => "external",
        }
    }

    /// The mildest class registration accepts. A builtin's is its function's own, a composition's its strongest
    /// step's and a workflow's its strongest node's: they are looked up by the registry, so here they start at `none`.
    pub fn class_floor(&self) -> EgressClass {
        match self {
            Self::Builtin(_)
            | Self::Composition(_)
            | Self::Workflow(_)
            | Self::Expression(_)
            | Self::Record(_)
            | Self::Task(_) => EgressClass::None,
            Self::Prompt(_) => EgressClass::ReadOnly,
            Self::Http(http) => http.method.floor(),
            Self::Openapi(operation) => operation.method.floor(),
            Self::Sql(sql) => statement_floor(&sql.statement),
            Self::Python(Python { hosts, .. }) | Self::Wasm(Wasm { hosts, .. }) => {
                let methods = hosts.iter().flat_map(|host| &host.methods);
                methods.map(|method| method.floor()).max().unwrap_or(EgressClass::None)
            }
            Self::Script(_) | Self::Mcp(_) | Self::External(_) => EgressClass::Write,
        }
    }

    /// `open` where the destination or the query is free text.
    pub fn sink_floor(&self) -> Sink {
        match self {
            Self::Builtin(_)
            | Self::Composition(_)
            | Self::Workflow(_)
            | Self::Expression(_)
            | Self::Record(_)
            | Self::Task(_) => Sink::None,
            Self::Http(http) if host_is_template(&http.url) => Sink::Open,
            Self::Http(_) | Self::Openapi(_) | Self::Sql(_) | Self::Script(_) | Self::Prompt(_) => Sink::Fixed,
            Self::Python(Python { hosts, .. }) | Self::Wasm(Wasm { hosts, .. }) => {
                if hosts.is_empty() {
                    Sink::None
                } else {
                    Sink::Fixed
                }
            }
            Self::Mcp(_) | Self::External(_) => Sink::Open,
        }
    }

    /// Seed 003's five words (D3).
    pub fn tool_type(&self, category: Option<&str>) -> ToolType {
        match self {
            _ if category.is_some_and(|path| path == "search" || path.starts_with("research")) => ToolType::Search,
            Self::Http(_) | Self::Openapi(_) | Self::Mcp(_) | Self::External(_) => ToolType::Api,
            Self::Python(_) | Self::Script(_) | Self::Wasm(_) => ToolType::Code,
            Self::Sql(_) | Self::Record(_) => ToolType::Data,
            _ if category.is_some_and(|path| path.split('/').next() == Some("data")) => ToolType::Data,
            Self::Builtin(_)
            | Self::Prompt(_)
            | Self::Task(_)
            | Self::Composition(_)
            | Self::Workflow(_)
            | Self::Expression(_) => ToolType::Utility,
        }
    }
}

fn statement_floor(statement: &str) -> EgressClass {
    if crate::sql::only_reads(statement) { EgressClass::ReadOnly } else { EgressClass::Write }
}

fn host_is_template(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    authority.split(['/', '?']).next().is_some_and(|host| host.contains('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn floor(runner: &str, expected: EgressClass) {
        let runner: Runner = serde_json::from_str(runner).unwrap();
        assert_eq!(runner.class_floor(), expected, "{runner:?}");
    }

    #[test]
    fn the_class_floor_follows_from_the_runner() {
        floor(r#"{"kind":"http","method":"GET","url":"https://a.test/"}"#, EgressClass::ReadOnly);
        floor(r#"{"kind":"http","method":"POST","url":"https://a.test/"}"#, EgressClass::Write);
        floor(r#"{"kind":"sql","connection":"c","statement":"select 1"}"#, EgressClass::ReadOnly);
        floor(r#"{"kind":"sql","connection":"c","statement":"SELECT * INTO x FROM y"}"#, EgressClass::Write);
        floor(
            r#"{"kind":"sql","connection":"c","statement":"with x as (delete from y returning 1) select * from x"}"#,
            EgressClass::Write,
        );
        floor(r#"{"kind":"python","code":""}"#, EgressClass::None);
        floor(r#"{"kind":"python","code":"","hosts":[{"host":"a.test","methods":["GET"]}]}"#, EgressClass::ReadOnly);
        floor(
            r#"{"kind":"wasm","plugin":"p","hosts":[{"host":"a.test","methods":["GET","POST"]}]}"#,
            EgressClass::Write,
        );
        let operation = |method: &str| {
            format!(
                r#"{{"kind":"openapi","document":"d","operation":"o","method":"{method}","server":"https://a.test","path":"/"}}"#
            )
        };
        floor(&operation("HEAD"), EgressClass::ReadOnly);
        floor(&operation("DELETE"), EgressClass::Write);
        floor(r#"{"kind":"external"}"#, EgressClass::Write);
        floor(r#"{"kind":"script","entry":"build"}"#, EgressClass::Write);
        floor(r#"{"kind":"expression","cel":"1"}"#, EgressClass::None);
    }

    #[test]
    fn a_runner_names_an_entry_never_a_command() {
        assert!(serde_json::from_str::<Runner>(r#"{"kind":"script","entry":"x","command":["rm"]}"#).is_err());
        assert!(serde_json::from_str::<Runner>(r#"{"kind":"shell"}"#).is_err());
    }

    #[test]
    fn a_free_destination_is_an_open_sink() {
        let runner: Runner =
            serde_json::from_str(r#"{"kind":"http","method":"GET","url":"https://{{ host }}/"}"#).unwrap();
        assert_eq!(runner.sink_floor(), Sink::Open);
    }
}
