//! What a graph is judged by that is not in it: which tools and agents there are for whoever asks.

use serde_json::Value;
use toolgate_contracts::definition::ToolState;
use toolgate_contracts::{Caller, Fault, ToolRef};
use toolgate_registry::finding::nearest;
use toolgate_registry::snapshot::{ResolvedTool, TenantRegistry};
use toolgate_registry::toolset::View;
use toolgate_store::catalog::Lifecycle;

pub trait Around {
    fn tool(&self, reference: &ToolRef) -> ToolStanding;
    /// The name of a tool that was probably meant.
    fn meant(&self, _tool: &str) -> Option<String> {
        None
    }
    /// An agent that the caller may name.
    fn agent(&self, name: &str) -> Option<AgentTools<'_>>;
    /// The way from a tool to a workflow, through what the tool calls; absent where none leads there.
    fn way(&self, _tool: &ToolRef, _workflow: &str) -> Option<String> {
        None
    }
}

/// What a check needs to know of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownTool {
    pub input: Value,
    pub output: Option<Value>,
    /// Names that it declares.
    pub secrets: Vec<String>,
}

/// Unknown, hidden and disabled look alike, as they do to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolStanding {
    Active(KnownTool),
    Deprecated(KnownTool, Lifecycle),
    Blocked(KnownTool, Lifecycle),
    Missing,
}

impl ToolStanding {
    pub fn known(self) -> Option<KnownTool> {
        match self {
            Self::Active(tool) | Self::Deprecated(tool, _) | Self::Blocked(tool, _) => Some(tool),
            Self::Missing => None,
        }
    }
}

/// Which tools an agent can have.
pub struct AgentTools<'a>(Box<dyn Fn(&str) -> bool + 'a>);

impl<'a> AgentTools<'a> {
    pub fn new(has: impl Fn(&str) -> bool + 'a) -> Self {
        Self(Box::new(has))
    }

    pub fn has(&self, tool: &str) -> bool {
        (self.0)(tool)
    }
}

/// The tools of a tenant as a caller has them.
pub struct OfCaller<'a> {
    view: View<'a>,
}

impl<'a> OfCaller<'a> {
    pub fn new(registry: &'a TenantRegistry, caller: &'a Caller, today: &'a str) -> Result<Self, Fault> {
        Ok(Self { view: View::of(registry, caller, today)? })
    }
}

impl Around for OfCaller<'_> {
    fn tool(&self, reference: &ToolRef) -> ToolStanding {
        match self.view.resolve(reference) {
            Ok((tool, _)) => standing(&tool),
            Err(_) => ToolStanding::Missing,
        }
    }

    fn meant(&self, tool: &str) -> Option<String> {
        let known: Vec<String> = self.view.tools().map(|(tool, _)| tool.name.to_string()).collect();
        nearest(tool, known.iter().map(String::as_str)).map(str::to_owned)
    }

    fn agent(&self, name: &str) -> Option<AgentTools<'_>> {
        let agent = self.view.registry.agent(name)?;
        let view = View { agent: Some(agent), ..self.view };
        Some(AgentTools::new(move |tool| tool.parse().is_ok_and(|reference: ToolRef| view.resolve(&reference).is_ok())))
    }

    fn way(&self, tool: &ToolRef, workflow: &str) -> Option<String> {
        toolgate_registry::flows::way_to(self.view.registry, self.view.today, tool, workflow)
    }
}

fn standing(tool: &ResolvedTool) -> ToolStanding {
    let definition = &tool.definition;
    let known = KnownTool {
        input: definition.input_schema.clone(),
        output: definition.output_schema.clone(),
        secrets: definition.secrets.iter().map(|secret| secret.name.clone()).collect(),
    };
    let lifecycle = tool.version.lifecycle.clone();
    match tool.state() {
        ToolState::Active => ToolStanding::Active(known),
        ToolState::Deprecated => ToolStanding::Deprecated(known, lifecycle),
        ToolState::Blocked => ToolStanding::Blocked(known, lifecycle),
    }
}
