//! Plug-ins: the operator installs components, and tools name them.
//!
//! A plug-in's version never changes, like a tool's: other bytes are another version. What a definition names is pinned to
//! the bytes when it is registered, so installing a newer version changes no tool that is there.
//! Deliberately absent: reading a component. Whoever has a machine to run it in has asked it what it is.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;
use toolgate_contracts::plugin::{PluginDescription, PluginWorld, ReadPlugin};
use toolgate_contracts::runner::{Runner, Wasm};
use toolgate_contracts::{Caller, Digest, Fault, Permission, Plugin, TenantId, ToolName};

use super::Registry;
use crate::snapshot::Snapshot;

/// So many tools are named, where a plug-in is in use.
const NAMED_MAX: usize = 5;

impl Registry {
    /// Everything that is installed, all versions.
    pub fn plugins(&self, caller: &Caller) -> Result<Vec<Plugin>, Fault> {
        caller.require(&Permission::PLUGINS_INSTALL)?;
        Ok(self.snapshot().plugins.clone())
    }

    /// A plug-in by `name` (the newest version), `name@version` or digest.
    pub fn plugin(&self, caller: &Caller, reference: &str) -> Result<Plugin, Fault> {
        caller.require(&Permission::PLUGINS_INSTALL)?;
        let snapshot = self.snapshot();
        let (name, version) =
            reference.split_once('@').map_or((reference, None), |(name, version)| (name, Some(version)));
        let meant = |plugin: &&Plugin| {
            plugin.digest.to_string() == reference
                || plugin.name.as_str() == name && version.is_none_or(|version| plugin.version.to_string() == version)
        };
        snapshot.plugins.iter().find(meant).cloned().ok_or_else(|| Fault::not_found("plug-in", reference))
    }

    /// The tools that a plug-in runs, as `tenant/name@version`.
    pub fn plugin_uses(&self, caller: &Caller, digest: Digest) -> Result<Vec<String>, Fault> {
        caller.require(&Permission::PLUGINS_INSTALL)?;
        Ok(uses(&self.snapshot(), digest))
    }

    /// Installs a component that was read. The same bytes again change nothing.
    pub async fn install_plugin(
        &self,
        caller: &Caller,
        name: Option<ToolName>,
        read: ReadPlugin,
        component: Vec<u8>,
    ) -> Result<(Plugin, Option<i64>), Fault> {
        caller.require(&Permission::PLUGINS_INSTALL)?;
        let ReadPlugin { world, description } = read;
        for (member, text) in [("title", &description.title), ("description", &description.description)] {
            toolgate_contracts::unseen::check_text(member, text)?;
        }
        let plugin = Plugin {
            name: name.unwrap_or_else(|| description.name.clone()),
            version: description.version.clone(),
            digest: Digest::of(&component),
            world,
            bytes: component.len() as u64,
            description,
            installed_by: caller.principal.to_string(),
            created_at: self.now(),
        };
        let snapshot = self.snapshot();
        if let Some(known) = snapshot.plugins.iter().find(|known| known.digest == plugin.digest) {
            return if known.name == plugin.name { Ok((known.clone(), None)) } else { Err(installed_as(known)) };
        }
        let details = json!({
            "version": plugin.version, "digest": plugin.digest, "world": plugin.world, "bytes": plugin.bytes,
        });
        let mut change = self.begin(caller, TenantId::SYSTEM, "plugin.install", plugin.name.as_str(), details);
        change.insert_plugin(&plugin, component);
        let revision = self.finish(change).await.map_err(|fault| match fault.broken_rule() {
            Some("plugins_version") => Fault::conflict(
                format!("version {} of the plug-in `{}` is installed with other bytes", plugin.version, plugin.name),
                "raise the version that `describe` answers, and build it anew",
            ),
            Some("plugins_digest" | "plugins_pkey") => installed_as(&plugin),
            _ => fault,
        })?;
        Ok((plugin, Some(revision)))
    }

    /// Removes one version of a plug-in that no tool names.
    pub async fn remove_plugin(&self, caller: &Caller, reference: &str) -> Result<(Plugin, i64), Fault> {
        let plugin = self.plugin(caller, reference)?;
        if plugin.name.as_str() == reference {
            self.only_version(&plugin)?;
        }
        let in_use = |tools: Vec<String>| {
            let more = tools.len().saturating_sub(NAMED_MAX);
            let mut named = tools.into_iter().take(NAMED_MAX).collect::<Vec<_>>().join(", ");
            if more > 0 {
                named = format!("{named} and {more} more");
            }
            Fault::conflict(
                format!("version {} of the plug-in `{}` runs tools: {named}", plugin.version, plugin.name),
                "delete these tools first; a tool that was called stays, and its plug-in with it",
            )
        };
        let tools = uses(&self.snapshot(), plugin.digest);
        if !tools.is_empty() {
            return Err(in_use(tools));
        }
        let details = json!({"version": plugin.version, "digest": plugin.digest});
        let mut change = self.begin(caller, TenantId::SYSTEM, "plugin.remove", plugin.name.as_str(), details);
        change.delete_plugin(plugin.digest);
        // Somebody may have registered a tool since we looked: the database knows.
        let revision = self.finish(change).await.map_err(|fault| match fault.broken_rule() {
            Some(toolgate_store::Constraint::FOREIGN_KEY) => in_use(vec!["one that was just registered".to_owned()]),
            _ => fault,
        })?;
        Ok((plugin, revision))
    }
}

impl Registry {
    /// A name alone means one version only where there is one.
    fn only_version(&self, plugin: &Plugin) -> Result<(), Fault> {
        let snapshot = self.snapshot();
        let versions: Vec<String> = snapshot
            .plugins
            .iter()
            .filter(|other| other.name == plugin.name)
            .map(|other| format!("{}@{}", other.name, other.version))
            .collect();
        match versions.as_slice() {
            [_] => Ok(()),
            _ => Err(Fault::conflict(
                format!("several versions of the plug-in `{}` are installed", plugin.name),
                format!("name one: {}", versions.join(", ")),
            )),
        }
    }
}

fn installed_as(known: &Plugin) -> Fault {
    Fault::conflict(
        format!("the same component is installed as `{}`", known.name),
        "name that one in the definition of your tool, or remove it first",
    )
}

fn uses(snapshot: &Arc<Snapshot>, digest: Digest) -> Vec<String> {
    let mut tools = Vec::new();
    for registry in snapshot.tenants() {
        for tool in registry.tools().filter(|tool| tool.tool.tenant == registry.tenant.id) {
            for version in &tool.tool.versions {
                if matches!(&version.definition.runner, Runner::Wasm(wasm) if wasm.digest == Some(digest)) {
                    tools.push(format!("{}/{}@{}", registry.tenant.slug, tool.tool.name, version.version));
                }
            }
        }
    }
    tools.sort();
    tools
}

/// The definition of the tool that a plug-in describes, granting what it would like to have: for somebody to read, change
/// and register. Values are written as JSON, which is YAML.
pub fn plugin_tool_md(plugin: &Plugin) -> String {
    let PluginDescription { name, title, description, input_schema, output_schema, hosts, secrets, .. } =
        &plugin.description;
    let runner = Runner::Wasm(Wasm { plugin: plugin.name.to_string(), digest: None, hosts: hosts.clone() });
    let mut members = vec![
        ("name", json!(name)),
        ("title", json!(title)),
        ("description", json!(description)),
        ("egress_class", json!(runner.class_floor())),
        ("input_schema", input_schema.clone()),
    ];
    let output_schema = match plugin.world {
        PluginWorld::Tool => output_schema.clone(),
        // What a detector answers is the same for all of them.
        PluginWorld::Detector => Some(json!({
            "type": "object",
            "properties": {
                "matched": {"type": "boolean"},
                "reason": {"type": "string"},
                "paths": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["matched"],
        })),
    };
    members.extend(output_schema.map(|schema| ("output_schema", schema)));
    if !secrets.is_empty() {
        members.push(("secrets", json!(secrets)));
    }
    members.push(("runner", json!(runner)));
    let mut text = String::from("---\n");
    for (member, value) in members {
        let _ = writeln!(text, "{member}: {value}");
    }
    text.push_str("---\n");
    text
}
