//! `completion/complete`: what may stand in an argument of a prompt, or in the place of a resource's address.

use serde_json::{Map, Value, json};
use toolgate_contracts::{Fault, Permission};
use toolgate_store::calls::CallFilter;
use toolgate_store::runs::RunFilter;

use super::resources::SCHEME;
use super::{Client, Surface, text};
use crate::wire::RpcError;

/// What the protocol allows in one answer.
const VALUES_MAX: usize = 100;
/// The newest calls or runs, among which ids are looked for.
const LOOKED_AT: u32 = 100;

impl Surface {
    pub(super) async fn complete(&self, client: &Client, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let object = |name: &str| {
            let found = params.get(name).and_then(Value::as_object);
            found.ok_or_else(|| RpcError::invalid_params(format!("`{name}` is needed, an object")))
        };
        let (about, argument) = (object("ref")?, object("argument")?);
        let (name, begun) = (text(argument, "name")?, text(argument, "value")?);
        let known = match text(about, "type")? {
            "ref/prompt" => self.values_of(client, text(about, "name")?, name)?,
            "ref/resource" => self.ids_of(client, text(about, "uri")?, name).await?,
            _ => return Err(RpcError::invalid_params("`ref.type` is `ref/prompt` or `ref/resource`")),
        };
        let begun = begun.to_lowercase();
        let fitting: Vec<String> = known.into_iter().filter(|value| value.to_lowercase().starts_with(&begun)).collect();
        let (total, more) = (fitting.len(), fitting.len() > VALUES_MAX);
        let values: Vec<String> = fitting.into_iter().take(VALUES_MAX).collect();
        Ok(json!({"completion": {"values": values, "total": total, "hasMore": more}}))
    }

    fn values_of(&self, client: &Client, prompt: &str, argument: &str) -> Result<Vec<String>, RpcError> {
        if client.narrowed.group.is_some() {
            return Err(Fault::not_found("skill", prompt).into());
        }
        let skill = self.registry.skill(&client.caller, prompt)?;
        let found = skill.spec.arguments.iter().find(|known| known.name == argument);
        let unknown = || RpcError::invalid_params(format!("the prompt `{prompt}` has no argument of that name"));
        Ok(found.ok_or_else(unknown)?.values.clone())
    }

    /// Of calls and runs that the caller may read; files are linked by results and are not guessed.
    async fn ids_of(&self, client: &Client, template: &str, place: &str) -> Result<Vec<String>, RpcError> {
        let unknown = || RpcError::invalid_params("there is no such template, or it has no such place");
        let kind = template.strip_prefix(SCHEME).and_then(|path| path.strip_suffix("/{id}")).ok_or_else(unknown)?;
        if place != "id" {
            return Err(unknown());
        }
        let caller = &client.caller;
        if !caller.may(&Permission::CALLS_READ_OWN) && !caller.may(&Permission::CALLS_READ_ALL) {
            return Ok(Vec::new());
        }
        match kind {
            "calls" => {
                let page = self.engine.list_calls(caller, &CallFilter::default(), None, LOOKED_AT).await?;
                let calls = page.items.iter().filter(|call| self.is_of_group(client, call.tool_id));
                Ok(calls.map(|call| call.id.to_string()).collect())
            }
            // A run is of many tools, so a group of some has none.
            "runs" if client.narrowed.group.is_none() => {
                let page = self.engine.list_runs(caller, RunFilter::default(), None, LOOKED_AT).await?;
                Ok(page.items.iter().map(|run| run.run.id.to_string()).collect())
            }
            "runs" | "blobs" => Ok(Vec::new()),
            _ => Err(unknown()),
        }
    }
}
