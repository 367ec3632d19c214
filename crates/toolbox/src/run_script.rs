//! A command that the operator named, by its name: `monorepo_cli.run_script`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use toolgate_contracts::{ErrorCode, Slug, ToolError};
use toolgate_engine::secrets::Secrets;
use toolgate_engine::{Call, Outcome};
use toolgate_runners::{ScriptInput, Scripts};

use crate::builtin::{Tools, input, invalid, to_mend};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default)]
    script_name: Option<String>,
    /// What `script_name` is called elsewhere.
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    working_dir: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    match asked(tools, call) {
        // Which entry it is the caller says: no secret is for whatever they choose.
        Ok((scripts, name, input)) => scripts.run(call, &name, input, &Secrets::default()).await,
        Err(error) => error.into(),
    }
}

pub(crate) async fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let (scripts, name, input) = asked(tools, call)?;
    scripts.plan(call, &name, input).await
}

/// Whether this server starts programs at all, and this tenant has any to start.
pub(crate) fn ready(tools: &Tools, tenant: Option<&Slug>) -> Result<(), ToolError> {
    let scripts = scripts(tools)?;
    if tenant.is_none_or(|tenant| scripts.of(tenant).next().is_some()) {
        return Ok(());
    }
    let message = "there is no script to run: the operator has allowed none to this tenant";
    let error = ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message);
    Err(to_mend(error, "scripts", Some("NAME")))
}

fn asked<'a>(tools: &'a Tools, call: &Call) -> Result<(&'a Scripts, String, ScriptInput), ToolError> {
    let Input { script_name, name, args, env, working_dir, dry_run } = input(call)?;
    let name = match (script_name, name) {
        (Some(script_name), Some(name)) if script_name != name => {
            return Err(invalid("name", "it is another name for `script_name`, and says something else; leave it out"));
        }
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => return Err(invalid("script_name", "it is missing; say which script to run")),
    };
    Ok((scripts(tools)?, name, ScriptInput { args, env, working_dir, dry_run }))
}

fn scripts(tools: &Tools) -> Result<&Scripts, ToolError> {
    tools.scripts.as_ref().ok_or_else(|| {
        let message = "this server starts no programs; its log says why";
        ToolError::because(ErrorCode::SandboxError, "tier_unavailable", message)
    })
}
