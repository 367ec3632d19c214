//! `tools/list`: exactly what this caller may call, by the function that judges the call.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value, json};
use toolgate_contracts::{Digest, Permission, ToolRef, json as strict};
use toolgate_registry::finders;
use toolgate_registry::render::{Form, Rendered, one};
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_registry::tool_md::Originals;
use toolgate_registry::toolset::View;

use super::called::named;
use super::{Client, Surface, icons, page, result};
use crate::wire::{Revision, RpcError, annotated};

pub(super) const CALL_TOOL: &str = "call_tool";
/// The tools that find others.
const SEARCH: &str = "searchTools";
const DESCRIBE: &str = "describeTool";
/// Many clients never ask for a second page.
pub(super) const PAGE_TOOLS: usize = 500;

impl Surface {
    pub(super) fn list_tools(&self, client: &Client, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let after = cursor(params)?;
        let tools = self.visible_tools(client)?;
        let rest = tools.iter().filter(|tool| after.as_deref().is_none_or(|after| tool.name.as_str() > after));
        let listed: Vec<&ResolvedTool> = rest.take(PAGE_TOOLS + 1).collect();
        let next = (listed.len() > PAGE_TOOLS).then(|| listed.get(PAGE_TOOLS - 1)).flatten();
        let next = next.map(|last| BASE64URL_NOPAD.encode(last.name.as_str().as_bytes()));
        let mut items: Vec<Value> =
            listed.iter().take(PAGE_TOOLS).map(|tool| rendered(tool, client.revision)).collect();
        if client.narrowed.by_search && client.caller.may(&Permission::TOOLS_READ) {
            items.insert(0, call_tool(client.revision));
        }
        Ok(page("tools", items, next, client.revision))
    }

    /// All pages of it in short.
    pub(super) fn digest_of_tools(&self, client: &Client) -> Option<Digest> {
        let tools = self.visible_tools(client).ok()?;
        Some(strict::digest(&tools.iter().map(|tool| rendered(tool, client.revision)).collect()))
    }

    /// What a client is shown, by name, so that two lists of the same tools are the same bytes.
    fn visible_tools(&self, client: &Client) -> Result<Vec<ResolvedTool>, RpcError> {
        if !client.caller.may(&Permission::TOOLS_READ) {
            return Ok(Vec::new());
        }
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(client.caller.tenant)?;
        let today = self.clock.now().day();
        let view = View::of(registry, &client.caller, &today)?;
        let mut tools: Vec<ResolvedTool> =
            view.tools().map(|(tool, _)| tool).filter(|tool| client.narrowed.has(registry, tool)).collect();
        if client.narrowed.by_search {
            let finder = |name: &str| registry.resolve(&name.parse().ok()?, &today);
            tools = [SEARCH, DESCRIBE].into_iter().filter_map(finder).collect();
        }
        tools.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(tools)
    }

    /// What finds tools where the list is searched instead of read. It is a part of the list: whoever may read that has it,
    /// it shows no more than is in it, and it is recorded no more than a list is.
    pub(super) fn find(&self, client: &Client, params: &Map<String, Value>) -> Result<Option<Value>, RpcError> {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        if !client.narrowed.by_search || ![SEARCH, DESCRIBE].contains(&name) {
            return Ok(None);
        }
        client.caller.require(&Permission::TOOLS_READ)?;
        let (_, mut input) = named(params)?;
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(client.caller.tenant)?;
        let (caller, today) = (&client.caller, self.clock.now().day());
        let shows = |tool: &ResolvedTool| client.narrowed.has(registry, tool);
        let found = if name == SEARCH {
            finders::search(registry, caller, &today, shows, &input)
        } else {
            if let Some(Value::String(name)) = input.get_mut("name") {
                *name = self.meant(client, name);
            }
            finders::describe(registry, caller, &today, shows, &input)
        };
        Ok(Some(result::uncalled(found, client.revision)))
    }

    /// The way back from a name as lists spell it. What is spelled otherwise stays as it is.
    pub(super) fn meant(&self, client: &Client, name: &str) -> String {
        if let Some(through) = &client.narrowed.through {
            return self.name_through(client, through, name).unwrap_or_else(|| name.to_owned());
        }
        let snapshot = self.registry.snapshot();
        let Ok(registry) = snapshot.tenant(client.caller.tenant) else { return name.to_owned() };
        let today = self.clock.now().day();
        let is_known = |reference: ToolRef| registry.resolve(&reference, &today).is_some();
        if name.parse().is_ok_and(is_known) {
            return name.to_owned();
        }
        registry.by_wire_name(name).map_or_else(|| name.to_owned(), |tool| tool.tool.name.to_string())
    }

    /// The arguments of a tool that its schema wants repeated in headers.
    pub fn repeated_in_headers(&self, client: &Client, name: &str) -> Vec<(String, String)> {
        let found = || {
            let reference: ToolRef = self.meant(client, name).parse().ok()?;
            let snapshot = self.registry.snapshot();
            let registry = snapshot.tenant(client.caller.tenant).ok()?;
            let today = self.clock.now().day();
            let view = View::of(registry, &client.caller, &today).ok()?;
            let (tool, _) = view.resolve(&reference).ok()?;
            annotated(&tool.definition.input_schema)
        };
        found().unwrap_or_default()
    }
}

/// What calls any tool that the others find: by its own name, as if it had been called itself.
fn call_tool(revision: Revision) -> Value {
    let mut tool = json!({
        "name": CALL_TOOL,
        "description": "Calls a tool by its name. Use it for what `searchTools` finds, with the arguments that `describeTool` \
            shows. Do not guess names or arguments.",
        "inputSchema": {
            "type": "object",
            "required": ["name", "arguments"],
            "additionalProperties": false,
            "properties": {
                "name": {"type": "string", "description": "The tool's name, as it was found."},
                "arguments": {"type": "object", "description": "What the tool is called with."},
            },
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true},
    });
    if revision.has_structure() {
        tool["title"] = "Call a tool".into();
    }
    if let Some(icons) = icons::of("play").filter(|_| revision.has_icons()) {
        tool["icons"] = icons;
    }
    tool
}

pub(super) fn rendered(tool: &ResolvedTool, revision: Revision) -> Value {
    let Rendered::Json(mut shown) = one(&tool.definition, Form::Mcp, &Originals::default()) else {
        return Value::Null;
    };
    if let Value::Object(members) = &mut shown {
        members.insert("name".into(), tool.name.wire().into());
        if revision.has_icons()
            && let Some(icons) = tool.definition.icon.as_deref().and_then(icons::of)
        {
            members.insert("icons".into(), icons);
        }
        // Older revisions know objects only.
        let object = members.get("outputSchema").is_some_and(|schema| schema.get("type") == Some(&"object".into()));
        if !revision.has_structure() {
            members.remove("title");
        }
        if !revision.has_structure() || (!revision.is_stateless() && !object) {
            members.remove("outputSchema");
        }
    }
    shown
}

/// Where a list goes on; what was not given out here is refused.
pub(super) fn cursor(params: &Map<String, Value>) -> Result<Option<String>, RpcError> {
    let refused = || RpcError::invalid_params("`cursor` is not one that was given out here; begin again without it");
    match params.get("cursor") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => {
            let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| refused())?;
            String::from_utf8(bytes).map(Some).map_err(|_| refused())
        }
        Some(_) => Err(refused()),
    }
}
