//! What a node's own configuration says, and what is said of the tools and agents that it names.

use std::collections::{BTreeSet, HashSet};

use toolgate_contracts::ToolRef;
use toolgate_contracts::agent_outputs::AGENT_OUTPUTS;
use toolgate_contracts::workflow::{
    AgentConfig, ConditionConfig, HumanConfig, Node, NodeKind, OnError, PinStrategy, ToolConfig,
};
use toolgate_expression::{Expression, Text};
use toolgate_registry::finding::{Finding, shown};
use toolgate_registry::schema;

use super::Judge;
use crate::allowed;
use crate::around::ToolStanding;
use crate::handles::{ELSE, ERROR, VALUE};

/// The one limit that a call has by itself.
const OF_A_CALL: &str = "max_wall_s";

impl Judge<'_> {
    /// Limits that would not hold are refused: whoever wrote them counts on them.
    pub(super) fn limits(&mut self, node: &Node, at: &str) {
        if let Some(Err(fault)) = node.limits.as_ref().map(|limits| limits.check(at)) {
            self.error("workflow.limit", fault.pointer().unwrap_or(at), fault.told(), fault.remedy());
        }
        let Some(limits) = node.limits.as_ref().filter(|_| !matches!(node.kind, NodeKind::Agent(_))) else { return };
        let (kind, is_call) = (node.kind.word(), matches!(node.kind, NodeKind::Tool(_)));
        let fix = if is_call {
            "leave it out: a call is held by `max_wall_s` here, else by the limits of the run and of the tool"
        } else {
            "leave it out: nodes of kind `agent` and `tool` have limits, and the run"
        };
        let said = serde_json::to_value(limits).unwrap_or_default();
        for name in said.as_object().into_iter().flatten().map(|(name, _)| name) {
            if !(is_call && name == OF_A_CALL) {
                let message = format!("`{name}` does not hold for a node of kind `{kind}`");
                self.error("workflow.limit", format!("{at}/{name}"), message, fix);
            }
        }
    }

    pub(super) fn agent(&mut self, node: &Node, config: &AgentConfig, at: &str) {
        self.template(&config.prompt, &format!("{at}/prompt"), None);
        let mut names: HashSet<&str> = AGENT_OUTPUTS.into_iter().collect();
        if node.on_error == OnError::Data {
            names.insert(ERROR);
        }
        for (index, pin) in config.pins.iter().enumerate() {
            let at = format!("{at}/pins/{index}");
            if pin.name.is_empty() || !names.insert(&pin.name) {
                let message = format!("an output `{}` is there already", shown(&pin.name));
                let fix = format!("name it otherwise, as in `{}_result`", pin.selector.tool.replace(['.', '@'], "_"));
                self.error("workflow.pin-name", format!("{at}/name"), message, fix);
            }
            match (pin.selector.strategy, &pin.selector.call_id) {
                (PinStrategy::ByCallId, None) => {
                    let fix = "write the `call_id` of a call, or choose `latest`";
                    let message = "`by_call_id` without a `call_id` means no call";
                    self.error("workflow.pin-call", format!("{at}/selector"), message, fix);
                }
                (PinStrategy::Latest | PinStrategy::FirstSuccess, Some(_)) => {
                    let message = format!("`{}` does not look at `call_id`", pin.selector.strategy);
                    let fix = "choose `by_call_id`, or leave `call_id` out";
                    self.warn("workflow.pin-call", format!("{at}/selector/call_id"), message, fix);
                }
                (PinStrategy::ByCallId, Some(_)) | (_, None) => {}
            }
        }
        let Some(around) = self.around else { return };
        let Some(agent) = around.agent(&config.agent) else {
            let message = format!("there is no agent `{}`", shown(&config.agent));
            let fix = "list them with `toolgate agent list`; until there is one the node fails";
            self.warn("workflow.agent-missing", format!("{at}/agent"), message, fix);
            return;
        };
        for (index, tool) in config.enabled_tools.iter().flatten().enumerate() {
            self.standing(tool, &format!("{at}/enabled_tools/{index}"));
        }
        let by_limits = node.limits.as_ref().and_then(|limits| limits.enabled_tools.as_ref());
        let of_node = at.strip_suffix("/config").unwrap_or(at);
        for (index, tool) in by_limits.into_iter().flatten().enumerate() {
            self.standing(tool, &format!("{of_node}/limits/enabled_tools/{index}"));
        }
        let enabled = allowed::tools(node, config);
        for (index, pin) in config.pins.iter().enumerate() {
            let tool = &pin.selector.tool;
            let left_out = enabled.as_ref().is_some_and(|enabled| !names_it(enabled, tool));
            if left_out || !agent.has(tool) {
                let message = format!("the agent `{}` cannot call `{}` here", config.agent, shown(tool));
                let fix =
                    format!("assign it the tool; until then the pin gives what `on_missing` says: {}", pin.on_missing);
                self.warn("workflow.pin-tool", format!("{at}/pins/{index}/selector/tool"), message, fix);
            }
        }
    }

    pub(super) fn tool(&mut self, config: &ToolConfig, at: &str) {
        if !config.input.is_object() {
            let message = "what is set of the input is not an object";
            self.error("workflow.input-value", format!("{at}/input"), message, "write members and their values");
        }
        let known = self.standing(&config.tool, &format!("{at}/tool"));
        self.not_itself(&config.tool, &format!("{at}/tool"));
        for (index, secret) in config.secrets.iter().enumerate() {
            if known.as_ref().is_some_and(|tool| !tool.secrets.contains(secret)) {
                let message = format!("the tool declares no secret `{}`", shown(secret));
                let fix = "leave it out: a tool is given the secrets that it declares and no others";
                self.warn("workflow.secret", format!("{at}/secrets/{index}"), message, fix);
            }
        }
    }

    /// A workflow that is a tool does not call that tool, nor one that does.
    fn not_itself(&mut self, tool: &str, at: &str) {
        let (Some(around), Ok(reference)) = (self.around, tool.parse::<ToolRef>()) else { return };
        if let Some(way) = around.way(&reference, self.workflow) {
            let message = format!("the workflow calls itself: {} → {way}", self.workflow);
            self.error("workflow.circle", at, message, "take the node out, or call another tool");
        }
    }

    /// How a named tool stands, said where it is not as it should be.
    fn standing(&mut self, tool: &str, at: &str) -> Option<crate::around::KnownTool> {
        let reference: ToolRef = match tool.parse() {
            Ok(reference) => reference,
            Err(why) => {
                let why: toolgate_contracts::name::RefError = why;
                self.error("workflow.tool-name", at, why.to_string(), "name the tool as `name` or `name@version`");
                return None;
            }
        };
        let around = self.around?;
        let standing = around.tool(&reference);
        match &standing {
            ToolStanding::Active(_) => {}
            ToolStanding::Deprecated(_, told) => {
                let message = format!("`{reference}` is deprecated{}", because(told.message.as_deref()));
                let fix = match &told.replaced_by {
                    Some(other) => format!("use `{other}`; until then it runs"),
                    None => "use another version or tool; until then it runs".to_owned(),
                };
                self.warn("workflow.tool-deprecated", at, message, fix);
            }
            ToolStanding::Blocked(_, told) => {
                let message = format!("`{reference}` is blocked{}", because(told.message.as_deref()));
                let fix = "use another version or tool; a saved graph loads and runs, and this call is `POLICY_DENIED`";
                self.error("workflow.tool-blocked", at, message, fix);
            }
            ToolStanding::Missing => {
                let message = format!("there is no tool `{reference}` here");
                let fix = match around.meant(reference.name.as_str()) {
                    Some(meant) => format!("did you mean `{meant}`? Until there is one the call is `POLICY_DENIED`"),
                    None => {
                        "list them with `toolgate tool list`; until there is one the call is `POLICY_DENIED`".to_owned()
                    }
                };
                self.warn("workflow.tool-missing", at, message, fix);
            }
        }
        standing.known()
    }

    pub(super) fn condition(&mut self, node: &Node, config: &ConditionConfig, at: &str) {
        if config.cases.is_empty() {
            let fix = "write at least one case with `name` and `when`";
            self.error("workflow.case", format!("{at}/cases"), "there are no cases", fix);
        }
        let mut names = BTreeSet::from([ELSE]);
        if node.on_error == OnError::Data {
            names.insert(ERROR);
        }
        for (index, case) in config.cases.iter().enumerate() {
            let at = format!("{at}/cases/{index}");
            if case.name.is_empty() || !names.insert(&case.name) {
                let message = format!("an output `{}` is there already", shown(&case.name));
                self.error("workflow.case", format!("{at}/name"), message, "give each case a name of its own");
            }
            match Expression::parse(&case.when) {
                Err(why) => {
                    let fix = "write a CEL expression over `value` that is true or false";
                    self.error("workflow.expression", format!("{at}/when"), why.to_string(), fix);
                }
                Ok(expression) => {
                    for function in expression.unknown_functions() {
                        let message = format!("there is no function `{}`", shown(function));
                        let fix = "use what CEL has: comparisons, `in`, `size`, `has`, `exists` and the like";
                        self.findings.push(Finding::error("workflow.expression", format!("{at}/when"), message, fix));
                    }
                }
            }
        }
    }

    pub(super) fn human(&mut self, config: &HumanConfig, at: &str) {
        self.template(&config.title, &format!("{at}/title"), Some(VALUE));
        if let Some(instructions) = &config.instructions {
            self.template(instructions, &format!("{at}/instructions"), Some(VALUE));
        }
        if config
            .timeout_s
            .is_some_and(|seconds| !(1..=toolgate_contracts::input_request::QUESTION_S_MAX).contains(&seconds))
        {
            let fix = format!("choose 1 to {} s", toolgate_contracts::input_request::QUESTION_S_MAX);
            self.error("workflow.timeout", format!("{at}/timeout_s"), "`timeout_s` is out of range", fix);
        }
        self.findings.extend(schema::check(&config.schema, &format!("{at}/schema")));
    }

    fn template(&mut self, text: &str, at: &str, only: Option<&str>) {
        match Text::parse(text) {
            Err(why) => {
                let fix = "write text with places such as `{{ name }}`";
                self.error("workflow.template", at, why.to_string(), fix);
            }
            Ok(text) => {
                let other = text.variables().into_iter().find(|name| only.is_some_and(|only| name != only));
                if let Some(name) = other {
                    let message = format!("there is no `{}` here", shown(&name));
                    self.error("workflow.template", at, message, format!("use `{}`", only.unwrap_or_default()));
                }
            }
        }
    }
}

fn because(message: Option<&str>) -> String {
    message.map(|message| format!(": {}", shown(message))).unwrap_or_default()
}

/// Whether a list of `name` or `name@version` names a tool that is named in either way.
fn names_it(list: &[String], tool: &str) -> bool {
    let bare = |name: &str| toolgate_contracts::FoldedName::of(name.split('@').next().unwrap_or(name));
    list.iter().any(|one| bare(one) == bare(tool))
}
