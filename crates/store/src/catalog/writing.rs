//! Writing the registry's rows: each function adds what it does to a [`Change`].

use serde_json::Value as Json;
use toolgate_contracts::definition::{EgressClass, Risk};
use toolgate_contracts::{
    AgentId, Definition, Digest, Fault, FoldedName, Profile, ProfileId, Runner, TenantId, Timestamp, ToolId, ToolName,
    VersionId, json,
};

use super::{Alias, Assignment, Lifecycle, StoredAgent, Tool, Version};
use crate::change::{Change, Expect, Outcome};
use crate::value::json_text;

/// What `tools` repeats of the newest version, for seed 000's guard and for whoever reads by SQL.
#[derive(Clone, Copy, Debug)]
pub struct Guarded {
    pub class: EgressClass,
    pub asks: bool,
    pub risk: Risk,
}

impl From<&Definition> for Guarded {
    fn from(definition: &Definition) -> Self {
        Self { class: definition.class(), asks: definition.asks(), risk: definition.effective_risk() }
    }
}

impl Change {
    /// Counts the revision up; the new number is the last row returned (see [`Outcome::revision`]).
    pub fn count_revision(&mut self) -> &mut Self {
        self.then(
            "/* no tenant: one counter for the registry */ UPDATE counters SET value = value + 1 WHERE name = 'registry' RETURNING value",
            [],
        )
    }

    /// Refused when the tenant or the system already has a tool or an alias of that folded name.
    pub fn insert_tool(&mut self, tool: &Tool, guarded: Guarded) -> &mut Self {
        let Tool { tenant: _, id, name, origin, created_at } = tool;
        let Guarded { class, asks, risk } = guarded;
        self.expecting(
            Expect::Rows(1, name_taken(name)),
            "INSERT INTO tools (tenant_id, id, name, folded, origin, egress_class, requires_approval, risk, created_at)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
             WHERE NOT EXISTS (SELECT 1 FROM tools WHERE tenant_id IN ($1, $10) AND folded = $4)
               AND NOT EXISTS (SELECT 1 FROM tool_aliases WHERE tenant_id IN ($1, $10) AND folded = $4)
               AND NOT EXISTS (SELECT 1 FROM tool_overrides WHERE tenant_id = $1 AND renamed = $4)",
            [
                (*id).into(),
                name.as_str().into(),
                name.folded().as_str().into(),
                origin.as_str().into(),
                class.as_str().into(),
                asks.into(),
                risk.as_str().into(),
                (*created_at).into(),
                TenantId::SYSTEM.into(),
            ],
        )
    }

    /// Adds a version; its schemas are kept by content.
    pub fn insert_version(&mut self, version: &Version) -> &mut Self {
        let Version {
            tenant: _,
            id,
            tool,
            version,
            definition,
            source,
            definition_digest,
            behaviour_digest,
            lifecycle,
            published_by,
            created_at,
        } = version;
        let input = self.insert_schema(&definition.input_schema, *created_at);
        let output = definition.output_schema.as_ref().map(|schema| self.insert_schema(schema, *created_at));
        let mut body = serde_json::to_value(definition).unwrap_or_default();
        if let Json::Object(members) = &mut body {
            members.shift_remove("output_schema");
            members.insert("input_schema".into(), Json::Bool(true));
        }
        let plugin = match &definition.runner {
            Runner::Wasm(wasm) => wasm.digest,
            _ => None,
        };
        let Lifecycle { state, message, remove_by, replaced_by } = lifecycle;
        let used = format!("version {version} of `{}` was published before with another definition", definition.name);
        self.expecting(
            Expect::Rows(1, Fault::conflict(used, "leave `version` out, or write a higher one").at("/version")),
            "INSERT INTO tool_versions (tenant_id, id, tool_id, version, definition, input_schema, output_schema, source,
                definition_digest, behaviour_digest, state, message, remove_by, replaced_by, published_by, created_at, plugin)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $18
             WHERE NOT EXISTS (SELECT 1 FROM tool_tombstones WHERE tenant_id = $1 AND folded = $17 AND version = $4
                AND definition_digest <> $9)",
            [
                (*id).into(),
                (*tool).into(),
                version.to_string().into(),
                body.to_string().into(),
                input.into(),
                output.into(),
                source.clone().into(),
                (*definition_digest).into(),
                (*behaviour_digest).into(),
                state.as_str().into(),
                message.clone().into(),
                remove_by.clone().into(),
                replaced_by.clone().into(),
                published_by.into(),
                (*created_at).into(),
                definition.name.folded().as_str().into(),
                plugin.into(),
            ],
        )
    }

    fn insert_schema(&mut self, schema: &Json, at: Timestamp) -> Digest {
        // Found by its canonical form, kept in its author's order, which is the order of the form people fill in.
        let (text, digest) = (schema.to_string(), json::digest(schema));
        self.then(
            "INSERT INTO schema_versions (tenant_id, digest, schema_text, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (tenant_id, digest) DO NOTHING",
            [digest.into(), text.into(), at.into()],
        );
        digest
    }

    pub fn guard_tool(&mut self, tool: ToolId, guarded: Guarded) -> &mut Self {
        let Guarded { class, asks, risk } = guarded;
        self.then(
            "UPDATE tools SET egress_class = $3, requires_approval = $4, risk = $5 WHERE tenant_id = $1 AND id = $2",
            [tool.into(), class.as_str().into(), asks.into(), risk.as_str().into()],
        )
    }

    pub fn set_lifecycle(&mut self, version: VersionId, lifecycle: &Lifecycle) -> &mut Self {
        let Lifecycle { state, message, remove_by, replaced_by } = lifecycle;
        self.then(
            "UPDATE tool_versions SET state = $3, message = $4, remove_by = $5, replaced_by = $6, was_state = NULL, was_message = NULL
             WHERE tenant_id = $1 AND id = $2",
            [
                version.into(),
                state.as_str().into(),
                message.clone().into(),
                remove_by.clone().into(),
                replaced_by.clone().into(),
            ],
        )
    }

    /// Blocks a version for as long as its server does not offer it; where it stood is kept beside.
    pub fn block_gone(&mut self, version: VersionId, message: &str) -> &mut Self {
        self.then(
            "UPDATE tool_versions SET was_state = state, was_message = message, state = 'blocked', message = $3
             WHERE tenant_id = $1 AND id = $2 AND state <> 'blocked'",
            [version.into(), message.into()],
        )
    }

    /// Puts a version that was gone back to where it stood.
    pub fn unblock_gone(&mut self, version: VersionId) -> &mut Self {
        self.then(
            "UPDATE tool_versions SET state = was_state, message = was_message, was_state = NULL, was_message = NULL
             WHERE tenant_id = $1 AND id = $2 AND state = 'blocked' AND was_state IS NOT NULL",
            [version.into()],
        )
    }

    /// Refused by the database while calls or other rows name it. Its versions are remembered.
    pub fn delete_tool(&mut self, tool: ToolId, at: Timestamp) -> &mut Self {
        self.then(
            "INSERT INTO tool_tombstones (tenant_id, folded, version, definition_digest, deleted_at)
             SELECT v.tenant_id, t.folded, v.version, v.definition_digest, $3
             FROM tool_versions v JOIN tools t ON t.tenant_id = v.tenant_id AND t.id = v.tool_id
             WHERE v.tenant_id = $1 AND v.tool_id = $2 ON CONFLICT (tenant_id, folded, version) DO NOTHING",
            [tool.into(), at.into()],
        );
        self.then("DELETE FROM tools WHERE tenant_id = $1 AND id = $2", [tool.into()])
    }

    pub fn set_enabled(&mut self, tool: ToolId, enabled: bool, by: &str, at: Timestamp) -> &mut Self {
        self.then(
            "INSERT INTO tool_overrides (tenant_id, tool_id, enabled, updated_by, updated_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (tenant_id, tool_id) DO UPDATE SET enabled = excluded.enabled, revision = tool_overrides.revision + 1,
                updated_by = excluded.updated_by, updated_at = excluded.updated_at",
            [tool.into(), enabled.into(), by.into(), at.into()],
        )
    }

    /// Sets a tenant's patch. Renaming takes a name, which must be free like a new tool's.
    pub fn set_patch(
        &mut self,
        tool: ToolId,
        patch: &Json,
        renamed: Option<&ToolName>,
        by: &str,
        at: Timestamp,
    ) -> &mut Self {
        let folded = renamed.map(|name| name.folded().as_str().to_owned());
        let taken = renamed.map_or_else(|| Fault::internal("an override was not written"), name_taken);
        self.expecting(
            Expect::Rows(1, taken),
            "INSERT INTO tool_overrides (tenant_id, tool_id, patch, renamed, updated_by, updated_at)
             SELECT $1, $2, $3, $4, $5, $6
             WHERE NOT EXISTS (SELECT 1 FROM tools WHERE tenant_id IN ($1, $7) AND folded = $4 AND id <> $2)
               AND NOT EXISTS (SELECT 1 FROM tool_aliases WHERE tenant_id IN ($1, $7) AND folded = $4)
               AND NOT EXISTS (SELECT 1 FROM tool_overrides WHERE tenant_id = $1 AND renamed = $4 AND tool_id <> $2)
             ON CONFLICT (tenant_id, tool_id) DO UPDATE SET patch = excluded.patch, renamed = excluded.renamed,
                revision = tool_overrides.revision + 1, updated_by = excluded.updated_by, updated_at = excluded.updated_at",
            [
                tool.into(),
                json::canonical(patch).into(),
                folded.into(),
                by.into(),
                at.into(),
                TenantId::SYSTEM.into(),
            ],
        )
    }

    /// Same refusal as for a tool: an old name must not shadow another tool.
    pub fn insert_alias(&mut self, alias: &Alias, at: Timestamp) -> &mut Self {
        let Alias { tenant: _, name, tool, remove_by, visibility } = alias;
        self.expecting(
            Expect::Rows(1, name_taken(name)),
            "INSERT INTO tool_aliases (tenant_id, folded, name, tool_id, remove_by, visibility, created_at)
             SELECT $1, $2, $3, $4, $5, $6, $7
             WHERE NOT EXISTS (SELECT 1 FROM tools WHERE tenant_id IN ($1, $8) AND folded = $2)
               AND NOT EXISTS (SELECT 1 FROM tool_aliases WHERE tenant_id IN ($1, $8) AND folded = $2)
               AND NOT EXISTS (SELECT 1 FROM tool_overrides WHERE tenant_id = $1 AND renamed = $2)",
            [
                name.folded().as_str().into(),
                name.as_str().into(),
                (*tool).into(),
                remove_by.clone().into(),
                visibility.as_str().into(),
                at.into(),
                TenantId::SYSTEM.into(),
            ],
        )
    }

    pub fn delete_aliases(&mut self, tool: ToolId) -> &mut Self {
        self.then("DELETE FROM tool_aliases WHERE tenant_id = $1 AND tool_id = $2", [tool.into()])
    }

    pub fn insert_group_member(&mut self, group: &str, tool: &FoldedName) -> &mut Self {
        self.then(
            "INSERT INTO tool_groups (tenant_id, name, tool_folded) VALUES ($1, $2, $3) ON CONFLICT (tenant_id, name, tool_folded) DO NOTHING",
            [group.into(), tool.as_str().into()],
        )
    }

    pub fn upsert_agent(&mut self, agent: &StoredAgent, at: Timestamp) -> &mut Self {
        let StoredAgent { tenant: _, id, workspace, owner, profile, spec, state, revision } = agent;
        self.expecting(
            Expect::Rows(1, changed_meanwhile("agent", spec.name.as_str())),
            "INSERT INTO agents (tenant_id, id, name, workspace_id, owner_id, profile_id, spec, state, revision, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)
             ON CONFLICT (tenant_id, id) DO UPDATE SET name = excluded.name, workspace_id = excluded.workspace_id,
                profile_id = excluded.profile_id, spec = excluded.spec, state = excluded.state, revision = excluded.revision,
                updated_at = excluded.updated_at WHERE agents.revision = excluded.revision - 1",
            [
                (*id).into(),
                spec.name.as_str().into(),
                (*workspace).into(),
                (*owner).into(),
                (*profile).into(),
                json_text(spec),
                state.as_str().into(),
                (*revision).into(),
                at.into(),
            ],
        )
    }

    pub fn delete_agent(&mut self, agent: AgentId) -> &mut Self {
        self.then("DELETE FROM agents WHERE tenant_id = $1 AND id = $2", [agent.into()])
    }

    pub fn upsert_profile(&mut self, id: ProfileId, profile: &Profile, revision: u32, at: Timestamp) -> &mut Self {
        self.expecting(
            Expect::Rows(1, changed_meanwhile("profile", profile.name.as_str())),
            "INSERT INTO profiles (tenant_id, id, name, spec, revision, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $6)
             ON CONFLICT (tenant_id, id) DO UPDATE SET name = excluded.name, spec = excluded.spec, revision = excluded.revision,
                updated_at = excluded.updated_at WHERE profiles.revision = excluded.revision - 1",
            [id.into(), profile.name.as_str().into(), json_text(profile), revision.into(), at.into()],
        )
    }

    pub fn delete_profile(&mut self, profile: ProfileId) -> &mut Self {
        self.then("DELETE FROM profiles WHERE tenant_id = $1 AND id = $2", [profile.into()])
    }

    pub fn upsert_assignment(&mut self, assignment: &Assignment) -> &mut Self {
        let Assignment { tenant: _, agent, tool, profile, created_by, created_at } = assignment;
        self.then(
            "INSERT INTO assignments (tenant_id, agent_id, tool_id, profile_id, created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (tenant_id, agent_id, tool_id) DO UPDATE SET profile_id = excluded.profile_id",
            [(*agent).into(), (*tool).into(), (*profile).into(), created_by.into(), (*created_at).into()],
        )
    }

    pub fn delete_assignment(&mut self, agent: AgentId, tool: ToolId) -> &mut Self {
        self.expecting(
            Expect::Some(Fault::not_found("assignment", tool)),
            "DELETE FROM assignments WHERE tenant_id = $1 AND agent_id = $2 AND tool_id = $3",
            [agent.into(), tool.into()],
        )
    }

    pub fn set_open_write(&mut self, open: bool) -> &mut Self {
        self.then("UPDATE tenants SET open_write = $2 WHERE id = $1", [open.into()])
    }
}

impl Outcome {
    /// The registry's revision after a change that counted it.
    pub fn revision(&self) -> Option<i64> {
        self.returned.iter().rev().find_map(|rows| rows.first()).and_then(|row| row.get(0).ok())
    }
}

fn name_taken(name: &ToolName) -> Fault {
    Fault::conflict(
        format!("the name `{name}` is taken, or looks like one that is"),
        "choose another name, or register a new version of the tool that has it",
    )
    .at("/name")
}

fn changed_meanwhile(what: &str, name: &str) -> Fault {
    Fault::conflict(
        format!("the {what} `{name}` was changed by somebody else meanwhile"),
        "read it again and repeat your change",
    )
}
