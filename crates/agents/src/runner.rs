//! The kinds `prompt` and `task`: a question to a model, or an agent that is asked, as a tool.
//!
//! Invariant: an agent that is asked has no right that its caller lacks, stands in a run below the caller's, and is bound by
//! what binds that one.
//! Deliberately absent: waiting for an agent in memory. A call that an agent answers is handed over to its run, which ends
//! the call when it ends itself, on whichever replica that is.

mod answer;
mod asking;
mod handing;
mod tasks;

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolgate_contracts::runner::{Prompt, PromptMode};
use toolgate_contracts::{Definition, ErrorCode, ProviderKind, Runner as Kind, Slug, TenantId, ToolError};
use toolgate_engine::runner::Foreseen;
use toolgate_engine::{Call, Outcome, Permit, Runner};
use toolgate_expression::Text;

use crate::host::{Host, WeakHost};

/// Runs both kinds, once it knows who hosts agents; before that it only shows what it would ask.
#[derive(Clone, Default)]
pub struct Agents(Arc<OnceLock<WeakHost>>);

impl Agents {
    /// Who hosts agents here. Said once; the host is not kept by this.
    pub fn hosted_by(&self, host: &Host) {
        let _ = self.0.set(host.weak());
        host.engine().hosted_by(Arc::new(self.clone()));
    }

    fn host(&self) -> Option<Host> {
        self.0.get().and_then(WeakHost::get)
    }

    fn host_for(&self, definition: &Definition) -> Result<Host, ToolError> {
        self.host().ok_or_else(|| nobody(definition))
    }
}

impl Runner for Agents {
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let call = permit.call();
            let host = match self.host_for(&call.tool.definition) {
                Ok(host) => host,
                Err(error) => return error.into(),
            };
            match &call.tool.definition.runner {
                Kind::Prompt(prompt) if prompt.mode == PromptMode::Agent => {
                    let agent = prompt.agent.as_deref().unwrap_or_default();
                    handing::hand_over(&host, call, agent, &prompt.template).await
                }
                Kind::Prompt(prompt) => asking::ask(&host, call, prompt).await,
                Kind::Task(task) if task.wait => {
                    let agent = task.agent.as_deref().unwrap_or_default();
                    handing::hand_over(&host, call, agent, &task.task).await
                }
                Kind::Task(task) => handing::begin(&host, call, task).await,
                _ => other_kind(&call.tool.definition).into(),
            }
        })
    }

    fn plan<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(std::future::ready(shown(call)))
    }

    fn foresees(&self, tenant: TenantId, definition: &Definition, input: &Value) -> Option<Foreseen> {
        let Kind::Prompt(prompt) = &definition.runner else { return None };
        if prompt.mode == PromptMode::Agent {
            return None;
        }
        asking::foreseen(&self.host()?, tenant, definition, prompt, input)
    }

    fn refuses(&self, definition: &Definition) -> Option<ToolError> {
        self.host_for(definition).err()
    }

    fn ready<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(self.host_for(definition).map(drop)))
    }

    /// Whether the model is one that this tenant has; agents are named by arguments too, and looked for then.
    fn ready_for<'a>(&'a self, tenant: &'a Slug, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        let ready = self.host_for(definition).and_then(|host| match &definition.runner {
            Kind::Prompt(prompt) if prompt.mode != PromptMode::Agent => {
                let snapshot = host.registry().snapshot();
                let known = snapshot.tenants().find(|registry| registry.tenant.slug == *tenant);
                known.map_or(Ok(()), |registry| asking::model(&host, registry.tenant.id, prompt).map(drop))
            }
            _ => Ok(()),
        });
        Box::pin(std::future::ready(ready))
    }
}

/// What would be asked or made, with the call's input.
fn shown(call: &Call) -> Result<Value, ToolError> {
    let definition = &call.tool.definition;
    let named = |name: &Option<String>| name.as_deref().map(|name| rendered(name, &call.input)).transpose();
    match &definition.runner {
        Kind::Prompt(Prompt { mode, template, model, skill, agent }) => {
            let mut plan = json!({"mode": mode, "prompt": rendered(template, &call.input)?});
            let agent = named(agent)?;
            for (member, name) in [("model", model), ("skill", skill), ("agent", &agent)] {
                if let Some(name) = name {
                    plan[member] = name.as_str().into();
                }
            }
            Ok(json!({"would_ask": plan}))
        }
        Kind::Task(task) => {
            let mut plan = json!({"task": rendered(&task.task, &call.input)?, "wait": task.wait});
            if let Some(agent) = named(&task.agent)? {
                plan["agent"] = agent.into();
            }
            Ok(json!({"would_make": plan}))
        }
        _ => Err(other_kind(definition)),
    }
}

fn rendered(template: &str, input: &Value) -> Result<String, ToolError> {
    let text = Text::parse(template).and_then(|text| text.render(input));
    text.map_err(|error| {
        ToolError::because(ErrorCode::SandboxError, "exception", format!("the tool's template: {error}"))
    })
}

/// Said by a script, which no model said.
fn is_scripted(kind: ProviderKind) -> bool {
    kind == ProviderKind::Scripted
}

fn nobody(definition: &Definition) -> ToolError {
    let kind = definition.runner.kind();
    let message = format!(
        "tools of kind `{kind}` cannot run on this server: it asks no model; a dry run shows what it would ask"
    );
    ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message)
}

fn other_kind(definition: &Definition) -> ToolError {
    let message = format!("the tool is of kind `{}`, which no model answers", definition.runner.kind());
    ToolError::because(ErrorCode::SandboxError, "exception", message)
}
