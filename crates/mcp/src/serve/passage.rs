//! `/mcp/NAME` of a server of others: that server as it is, by its own names, and every call of it through the gate.
//!
//! What is no tool (a resource, a prompt, a completion) is a call too, of a tool that stands for it; whoever lacks that tool
//! finds none of it here. Lists are the server's own, without what somebody hides in them.
//! Deliberately absent: what a server says to models beside its tools, and anything of another server.

mod calls;
mod holding;
mod news;

use std::collections::BTreeMap;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value, json};
use toolgate_contracts::runner::Runner;
use toolgate_contracts::unseen::is_unseen_in_text;
use toolgate_contracts::{Caller, Permission, Slug, TenantId};
use toolgate_engine::runner::UpstreamList;
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_registry::toolset::View;

pub(super) use self::calls::Form;
pub(super) use self::holding::Holding;
pub(super) use self::news::Followed;
use super::tools::{PAGE_TOOLS, cursor, rendered};
use super::{Client, LIST_TTL_MS, Stream, Surface, icons, page, resources, tasks, text};
use crate::runner::beside::{COMPLETE, GET, READ, is_beside};
use crate::wire::{Request, Revision, RpcError};

/// A client that only wants to begin is not kept waiting for a server that does not answer.
const ASKED_WITHIN: Duration = Duration::from_secs(5);

/// A server that a client came for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    /// Whose it is: the caller's tenant, or the system.
    pub owner: TenantId,
    pub name: Slug,
}

impl Through {
    /// Whether a tool is this server's.
    pub(crate) fn has(&self, tool: &ResolvedTool) -> bool {
        tool.tool.tenant == self.owner
            && matches!(&tool.definition.runner, Runner::Mcp(runner) if runner.server == self.name.as_str())
    }
}

/// The server's own name for a tool.
fn own_name(tool: &ResolvedTool) -> &str {
    match &tool.definition.runner {
        Runner::Mcp(runner) => &runner.tool,
        _ => tool.name.as_str(),
    }
}

impl Surface {
    /// The server of a name, if this caller has any of its tools: of another they do not learn that it is there.
    pub(super) fn through(&self, caller: &Caller, name: &str) -> Option<Through> {
        let name: Slug = name.parse().ok()?;
        let snapshot = self.registry.snapshot();
        [caller.tenant, TenantId::SYSTEM].into_iter().find_map(|owner| {
            snapshot.tenant(owner).ok()?.upstreams.get(&name)?;
            let through = Through { owner, name: name.clone() };
            (!self.tools_of(caller, &through).is_empty()).then_some(through)
        })
    }

    /// The tools of a server that a caller has, by the server's own names.
    fn tools_of(&self, caller: &Caller, through: &Through) -> BTreeMap<String, ResolvedTool> {
        let snapshot = self.registry.snapshot();
        let Ok(registry) = snapshot.tenant(caller.tenant) else { return BTreeMap::new() };
        let today = self.clock.now().day();
        let Ok(view) = View::of(registry, caller, &today) else { return BTreeMap::new() };
        let of_server = view.tools().map(|(tool, _)| tool).filter(|tool| through.has(tool));
        of_server.map(|tool| (own_name(&tool).to_owned(), tool)).collect()
    }

    /// Whether what the server lists is this caller's to see. A server of another tenant is asked with that tenant's
    /// secrets, so what it lists is shown to nobody else: it is read by its name.
    fn is_common(caller: &Caller, through: &Through) -> bool {
        through.owner == caller.tenant
    }

    /// Whether this client is told what changes there.
    fn shows(&self, client: &Client, through: &Through, name: &str) -> bool {
        self.has(client, through, name) && Self::is_common(&client.caller, through)
    }

    fn has(&self, client: &Client, through: &Through, name: &str) -> bool {
        self.tools_of(&client.caller, through).contains_key(name)
    }

    /// The gate's name for a tool that a client names as its server does.
    pub(super) fn name_through(&self, client: &Client, through: &Through, name: &str) -> Option<String> {
        if is_beside(name) {
            return None;
        }
        self.tools_of(&client.caller, through).get(name).map(|tool| tool.name.to_string())
    }

    pub(super) async fn pass_on(
        &self,
        client: &Client,
        through: &Through,
        request: &Request,
        stream: &Stream,
    ) -> Result<Value, RpcError> {
        let params = &request.params;
        let stateless = client.revision.is_stateless();
        let unknown = || RpcError::method_not_found(&request.method);
        let needs = |name: &str| if self.has(client, through, name) { Ok(()) } else { Err(unknown()) };
        match request.method.as_str() {
            "server/discover" if stateless => Ok(self.discovered_through(client, through).await),
            "ping" if !stateless => Ok(json!({})),
            "tools/list" => self.list_through(client, through, params),
            "tools/call" => {
                let name = text(params, "name")?;
                let name = self.name_through(client, through, name);
                let name = name.ok_or_else(|| RpcError::invalid_params("there is no such tool at this server"))?;
                let input = match params.get("arguments") {
                    None | Some(Value::Null) => json!({}),
                    Some(object @ Value::Object(_)) => object.clone(),
                    Some(_) => return Err(RpcError::invalid_params("`arguments` has to be an object")),
                };
                Box::pin(self.pass(client, request, client.request(name, input), stream, Form::Tool)).await
            }
            "prompts/list" => {
                needs(GET)?;
                self.items_through(client, through, UpstreamList::Prompts, "prompts", params).await
            }
            "resources/list" => {
                needs(READ)?;
                self.items_through(client, through, UpstreamList::Resources, "resources", params).await
            }
            "resources/templates/list" => {
                needs(READ)?;
                self.items_through(client, through, UpstreamList::Templates, "resourceTemplates", params).await
            }
            // Files of calls that were made here are ours.
            "resources/read" if text(params, "uri")?.starts_with(resources::SCHEME) => {
                self.read_resource(client, params).await
            }
            method @ (READ | GET | COMPLETE) => {
                let tools = self.tools_of(&client.caller, through);
                let name = tools.get(method).map(|tool| tool.name.to_string()).ok_or_else(unknown)?;
                let input = input_of(method, params);
                Box::pin(self.pass(client, request, client.request(name, input), stream, Form::Raw)).await
            }
            "logging/setLevel" if !stateless => self.set_level(client, params),
            "resources/subscribe" if !stateless => {
                needs(READ)?;
                self.follow_resource(client, text(params, "uri")?, true)
            }
            "resources/unsubscribe" if !stateless => {
                needs(READ)?;
                self.follow_resource(client, text(params, "uri")?, false)
            }
            "tasks/get" if stateless => self.get_task(client, params).await,
            "tasks/update" if stateless => self.update_task(client, params).await,
            "tasks/cancel" if stateless => self.cancel_task(client, params).await,
            _ => Err(unknown()),
        }
    }

    async fn discovered_through(&self, client: &Client, through: &Through) -> Value {
        let capabilities = self.capabilities_through(&client.caller, through, client.revision).await;
        json!({
            "supportedVersions": [client.revision.as_str()],
            "capabilities": capabilities,
            "instructions": super::INSTRUCTIONS,
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "private",
        })
    }

    /// What a client can do here: what the server can, as far as this caller has what stands for it.
    pub(super) async fn capabilities_through(&self, caller: &Caller, through: &Through, revision: Revision) -> Value {
        let tools = self.tools_of(caller, through);
        let mut declared = json!({"tools": {"listChanged": true}});
        // One that cannot be asked now still has the tools that were accepted of it.
        let asking = self.engine.upstream_capabilities(through.owner, &through.name, caller.principal);
        let said = match tokio::time::timeout(ASKED_WITHIN, asking).await {
            Ok(Ok(said)) => said,
            Ok(Err(fault)) => {
                tracing::warn!(upstream = %through.name, "a server behind the gate cannot be asked: {}", fault.told());
                Map::new()
            }
            Err(_) => {
                tracing::warn!(upstream = %through.name, "a server behind the gate does not say what it can");
                Map::new()
            }
        };
        let common = Self::is_common(caller, through);
        let flag =
            |name: &str, flag: &str| common && said.get(name).and_then(|of| of.get(flag)) == Some(&Value::Bool(true));
        if tools.contains_key(READ) {
            declared["resources"] =
                json!({"listChanged": flag("resources", "listChanged"), "subscribe": flag("resources", "subscribe")});
        }
        if tools.contains_key(GET) {
            declared["prompts"] = json!({"listChanged": flag("prompts", "listChanged")});
        }
        if tools.contains_key(COMPLETE) {
            declared["completions"] = json!({});
        }
        if said.contains_key("logging") {
            declared["logging"] = json!({});
        }
        if revision.is_stateless() {
            declared["extensions"] = json!({tasks::EXTENSION: {}});
        }
        declared
    }

    fn list_through(&self, client: &Client, through: &Through, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let after = cursor(params)?;
        if !client.caller.may(&Permission::TOOLS_READ) {
            return Ok(page("tools", Vec::new(), None, client.revision));
        }
        let tools = self.tools_of(&client.caller, through);
        let rest = tools.iter().filter(|(name, _)| !is_beside(name));
        let mut rest = rest.filter(|(name, _)| after.as_deref().is_none_or(|after| name.as_str() > after));
        let listed: Vec<(&String, &ResolvedTool)> = rest.by_ref().take(PAGE_TOOLS).collect();
        let next = rest.next().and(listed.last()).map(|(name, _)| BASE64URL_NOPAD.encode(name.as_bytes()));
        let named = |(name, tool): (&String, &ResolvedTool)| {
            let mut shown = rendered(tool, client.revision);
            shown["name"] = name.as_str().into();
            shown
        };
        Ok(page("tools", listed.into_iter().map(named).collect(), next, client.revision))
    }

    /// What a server lists, without what somebody hides in it.
    async fn items_through(
        &self,
        client: &Client,
        through: &Through,
        what: UpstreamList,
        member: &str,
        params: &Map<String, Value>,
    ) -> Result<Value, RpcError> {
        cursor(params)?;
        if !Self::is_common(&client.caller, through) {
            return Ok(page(member, Vec::new(), None, client.revision));
        }
        let items = self.engine.list_of_upstream(through.owner, &through.name, client.caller.principal, what).await?;
        let before = items.len();
        let items: Vec<Value> =
            items.into_iter().filter(is_plain).map(|item| in_words_of(item, client.revision)).collect();
        if items.len() < before {
            let left_out = before - items.len();
            tracing::warn!(upstream = %through.name, left_out, "{member} with hidden characters are left out");
        }
        Ok(page(member, items, None, client.revision))
    }
}

/// What a tool that stands for a method is called with.
fn input_of(method: &str, params: &Map<String, Value>) -> Value {
    let members: &[&str] = match method {
        READ => &["uri"],
        GET => &["name", "arguments"],
        _ => &["ref", "argument", "context"],
    };
    let given = members.iter().filter_map(|member| Some(((*member).to_owned(), params.get(*member)?.clone())));
    Value::Object(given.filter(|(_, value)| !value.is_null()).collect())
}

/// Whether everything in it can be seen.
fn is_plain(item: &Value) -> bool {
    let seen = |text: &str| !text.chars().any(is_unseen_in_text);
    match item {
        Value::String(text) => seen(text),
        Value::Array(items) => items.iter().all(is_plain),
        Value::Object(members) => members.iter().all(|(name, member)| seen(name) && is_plain(member)),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// An item of a list with what a revision knows.
fn in_words_of(mut item: Value, revision: Revision) -> Value {
    if let Value::Object(members) = &mut item {
        if !revision.has_structure() {
            members.shift_remove("title");
        }
        if !revision.has_icons() {
            members.shift_remove("icons");
        }
        // An address would tell somebody who looks at the list, and when.
        if let Some(Value::Array(icons)) = members.get_mut("icons") {
            icons.retain(|icon| icon.get("src").and_then(Value::as_str).and_then(icons::picture).is_some());
        }
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_hides_in_a_list_is_not_in_it() {
        assert!(is_plain(&json!({"name": "a", "description": "two\nlines", "n": [1, null, true, "\t"]})));
        for hidden in [json!({"name": "a\u{200b}b"}), json!({"x": [{"\u{e0041}": 1}]}), json!("\u{202e}")] {
            assert!(!is_plain(&hidden), "{hidden}");
        }
    }

    #[test]
    fn a_picture_in_a_list_sends_nobody_anywhere() {
        let held = json!({"src": "data:image/png;base64,AAAA", "sizes": ["16x16"]});
        let item =
            json!({"name": "a", "title": "A", "icons": [{"src": "https://example.com/a.png"}, held, {"src": 1}]});
        let shown = |revision| in_words_of(item.clone(), revision);
        assert_eq!(shown(Revision::V20260728), json!({"name": "a", "title": "A", "icons": [held]}));
        assert_eq!(shown(Revision::V20250618), json!({"name": "a", "title": "A"}));
    }

    #[test]
    fn a_method_takes_its_own_members_and_no_others() {
        let params = json!({"name": "a", "arguments": null, "_meta": {}, "requestState": "x", "uri": "b:c"});
        let params = params.as_object().unwrap();
        assert_eq!(input_of(GET, params), json!({"name": "a"}));
        assert_eq!(input_of(READ, params), json!({"uri": "b:c"}));
    }
}
