//! A call's secrets: found when it is asked, shown and bound by scope and version; opened when it runs, for the runner
//! alone; and known to the redactor of everything that leaves.
//!
//! Invariant: what is opened is what was bound. A secret that is gone, newer, or now found nearer fails the call; it
//! never falls through to another scope.
//! Invariant: a tool gets a secret only if the secret's owner lists the tool, and a tool that is somebody's code only in
//! the behaviour that it had when it was listed.
//! Deliberately absent: hosts. Whoever makes a connection asks [`Secret::may_go_to`](toolgate_vault::Secret::may_go_to).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_contracts::definition::SecretUse;
use toolgate_contracts::secret::VALUE_BYTES_MAX;
use toolgate_contracts::{
    Caller, Definition, Digest, ErrorCode, Fault, FaultKind, Mode, Permission, Principal, ResolvedSecret, Runner,
    SecretScope, TenantId, ToolError, ToolName, WorkspaceId,
};
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_store::calls::CallRecord;
use toolgate_store::secrets::SealedSecret;
use toolgate_vault::{Reach, Redactor, Secret, Vault};

use crate::call::Call;
use crate::engine::Engine;
use crate::record::Prepared;
use crate::shared::SecretUsed;

/// The values of one call, open. They go when the last who holds them does.
#[derive(Debug, Default)]
pub struct Secrets {
    all: Vec<Secret>,
    redactor: Redactor,
}

impl Secrets {
    pub(crate) fn new(all: Vec<Secret>) -> Result<Self, Fault> {
        Ok(Self { redactor: Redactor::new(&all)?, all })
    }

    /// The declared secret of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Secret> {
        self.all.iter().find(|secret| secret.name() == name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Secret> {
        self.all.iter()
    }

    /// For a runner that has to cut what it was told, whose end is missing.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The beginning of a text that somebody else wrote, for a runner that shows no more of it. Secrets go out of it first:
    /// of one that is cut nobody finds the rest. An error needs no cutting, the gate cuts it behind its own redactor.
    pub fn beginning(&self, text: &str, chars_max: usize) -> String {
        self.redactor.redact_text(text).chars().take(chars_max).collect()
    }
}

/// What a call was given, and what must not leave with its output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened {
    pub secrets: Arc<Secrets>,
    pub redactor: Redactor,
}

/// Which secret a name means for somebody.
#[derive(Clone, Debug, serde::Serialize, utoipa::ToSchema)]
pub struct Which {
    pub name: String,
    /// Absent: none of the places has it.
    pub found: Option<ResolvedSecret>,
    pub warnings: Vec<String>,
}

/// A secret that a tool declares, and where a call by the caller would find it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct SecretStanding {
    pub name: String,
    pub required: bool,
    pub purpose: Option<String>,
    /// Absent: none of the places has it.
    pub scope: Option<SecretScope>,
    /// Its owner lists this tool as it is.
    pub given: bool,
}

impl Engine {
    pub fn vault(&self) -> &Vault {
        &self.0.vault
    }

    /// The secrets that a call of this tool would be given, by the tool's declaration. Nothing is decrypted; one that is
    /// required and missing is not in the list, and the call says so when it is due.
    pub(crate) async fn secrets_of(
        &self,
        tenant: TenantId,
        principal: Principal,
        workspace: Option<WorkspaceId>,
        mode: Mode,
        tool: &ResolvedTool,
    ) -> Result<Vec<ResolvedSecret>, Fault> {
        // Who plans gets none, and who records runs the tool by other means.
        if tool.definition.secrets.is_empty() || mode != Mode::Execute {
            return Ok(Vec::new());
        }
        let sealed = self.find_secrets(tenant, principal, workspace, tool).await?;
        Ok(sealed.into_iter().map(|sealed| sealed.found).collect())
    }

    async fn find_secrets(
        &self,
        tenant: TenantId,
        principal: Principal,
        workspace: Option<WorkspaceId>,
        tool: &ResolvedTool,
    ) -> Result<Vec<SealedSecret>, Fault> {
        let reach = self.reach_of(tenant, principal, workspace).await?;
        let declared = &tool.definition.secrets;
        let names: Vec<&str> = declared.iter().map(|secret| secret.name.as_str()).collect();
        let mut sealed = self.0.vault.resolve(reach, &names).await?;
        let place = self.place_of(tool);
        // What a tool can do without it does without where the owner did not list it.
        sealed.retain(|sealed| {
            let required = declared.iter().any(|secret| secret.required && secret.name == sealed.found.name);
            required || may_have(sealed, tool, place).is_ok()
        });
        Ok(sealed)
    }

    /// Whoever names no workspace and has only one means that one.
    async fn reach_of(
        &self,
        tenant: TenantId,
        principal: Principal,
        workspace: Option<WorkspaceId>,
    ) -> Result<Reach, Fault> {
        let workspace = match workspace {
            Some(workspace) => Some(workspace),
            None => self.store.only_workspace(tenant, principal).await?,
        };
        Ok(Reach { tenant, principal: Some(principal), workspace })
    }

    /// Opens what a call was bound to, right before its runner has it.
    pub(crate) async fn open_secrets(&self, call: &Call, workspace: Option<WorkspaceId>) -> Result<Opened, ToolError> {
        if call.tool.definition.secrets.is_empty() {
            return Ok(Opened::default());
        }
        let sealed = self.due_secrets(call.tenant, call.principal, workspace, &call.tool, &call.secrets).await?;
        if matches!(call.tool.definition.runner, Runner::External(_)) {
            // A worker gets them with its lease.
            return Ok(Opened::default());
        }
        self.open_sealed(call.tenant, &sealed).await.map_err(|fault| told(&fault))
    }

    /// What is due to a call: everything required is there and given to this tool, and all is as it was bound.
    async fn due_secrets(
        &self,
        tenant: TenantId,
        principal: Principal,
        workspace: Option<WorkspaceId>,
        tool: &ResolvedTool,
        bound: &[ResolvedSecret],
    ) -> Result<Vec<SealedSecret>, ToolError> {
        let sealed = self.find_secrets(tenant, principal, workspace, tool).await.map_err(|fault| told(&fault))?;
        let place = self.place_of(tool);
        for declared in tool.definition.secrets.iter().filter(|secret| secret.required) {
            match sealed.iter().find(|sealed| sealed.found.name == declared.name) {
                Some(sealed) => may_have(sealed, tool, place)?,
                None => return Err(missing(&declared.name, tool)),
            }
        }
        let found: Vec<&ResolvedSecret> = sealed.iter().map(|sealed| &sealed.found).collect();
        match bound.iter().find(|bound| !found.contains(bound)) {
            Some(bound) => {
                let now = found.iter().find(|found| found.name == bound.name).copied();
                Err(changed(bound.name.as_str(), Some(bound), now))
            }
            None => match found.iter().find(|found| !bound.contains(found)) {
                Some(found) => Err(changed(found.name.as_str(), None, Some(found))),
                None => Ok(sealed),
            },
        }
    }

    pub(crate) async fn open_sealed(&self, tenant: TenantId, sealed: &[SealedSecret]) -> Result<Opened, Fault> {
        let mut secrets = Vec::with_capacity(sealed.len());
        for sealed in sealed {
            secrets.push(self.0.vault.open(tenant, sealed).await?);
        }
        let secrets = Secrets::new(secrets)?;
        Ok(Opened { redactor: secrets.redactor().clone(), secrets: Arc::new(secrets) })
    }

    /// For a worker who has just leased this call.
    pub(crate) async fn secrets_for_worker(
        &self,
        tenant: TenantId,
        record: &CallRecord,
        tool: &ResolvedTool,
    ) -> Result<Opened, ToolError> {
        if tool.definition.secrets.is_empty() || record.mode != Mode::Execute {
            return Ok(Opened::default());
        }
        let bound = bound(record);
        let sealed = self.due_secrets(tenant, record.principal, record.workspace, tool, &bound).await?;
        self.open_sealed(tenant, &sealed).await.map_err(|fault| told(&fault))
    }

    /// What must not leave with what others report of a call. `None`: a value it was given is gone, so nobody can tell
    /// whether a report holds it.
    pub(crate) async fn redactor_of(&self, tenant: TenantId, record: &CallRecord) -> Result<Option<Redactor>, Fault> {
        let mut sealed = Vec::new();
        for found in bound(record) {
            match self.0.vault.at_version(tenant, &found).await? {
                Some(one) => sealed.push(one),
                None => return Ok(None),
            }
        }
        Ok(Some(self.open_sealed(tenant, &sealed).await?.redactor))
    }

    /// Why a call of this tool would fail for want of a secret, for `tool preflight`.
    pub(crate) async fn secrets_wanting(&self, caller: &Caller, tool: &ResolvedTool) -> Result<Vec<String>, Fault> {
        let wanting = self.wanting(caller.tenant, caller.principal, self.workspace_of_agent(caller), tool).await?;
        Ok(wanting.into_iter().map(|error| error.message).collect())
    }

    /// How each of these tools stands with the secrets it declares, for a list of them: looked up once for all. Who may
    /// not call is told nothing.
    pub async fn secret_standings(
        &self,
        caller: &Caller,
        tools: &[ResolvedTool],
    ) -> Result<Vec<Vec<SecretStanding>>, Fault> {
        let declared = tools.iter().flat_map(|tool| &tool.definition.secrets).map(|secret| secret.name.as_str());
        let names: Vec<&str> = declared.collect::<BTreeSet<_>>().into_iter().collect();
        if names.is_empty() || !caller.may(&Permission::CALLS_CREATE) {
            return Ok(vec![Vec::new(); tools.len()]);
        }
        let reach = self.reach_of(caller.tenant, caller.principal, self.workspace_of_agent(caller)).await?;
        let sealed = self.0.vault.resolve(reach, &names).await?;
        let standing = |tool: &ResolvedTool| {
            let place = self.place_of(tool);
            let of = |declared: &SecretUse| {
                let found = sealed.iter().find(|sealed| sealed.found.name == declared.name);
                SecretStanding {
                    name: declared.name.clone(),
                    required: declared.required,
                    purpose: declared.purpose.clone(),
                    scope: found.map(|sealed| sealed.found.scope),
                    given: found.is_some_and(|sealed| may_use(sealed, tool, place).is_ok()),
                }
            };
            tool.definition.secrets.iter().map(of).collect()
        };
        Ok(tools.iter().map(standing).collect())
    }

    /// The first secret that this call lacks.
    pub(crate) async fn wanting_of(&self, prepared: &Prepared) -> Result<Option<ToolError>, Fault> {
        let call = &prepared.call;
        if call.mode != Mode::Execute {
            return Ok(None);
        }
        let wanting = self.wanting(call.tenant, call.principal, prepared.workspace, &call.tool).await?;
        Ok(wanting.into_iter().next())
    }

    /// Required secrets that are missing, or whose owner does not give them to this tool.
    pub(crate) async fn wanting(
        &self,
        tenant: TenantId,
        principal: Principal,
        workspace: Option<WorkspaceId>,
        tool: &ResolvedTool,
    ) -> Result<Vec<ToolError>, Fault> {
        if tool.definition.secrets.is_empty() {
            return Ok(Vec::new());
        }
        let sealed = self.find_secrets(tenant, principal, workspace, tool).await?;
        let place = self.place_of(tool);
        let required = tool.definition.secrets.iter().filter(|secret| secret.required);
        let wanting =
            required.filter_map(|declared| match sealed.iter().find(|sealed| sealed.found.name == declared.name) {
                Some(sealed) => may_use(sealed, tool, place).err(),
                None => Some(missing(&declared.name, tool)),
            });
        Ok(wanting.collect())
    }

    fn workspace_of_agent(&self, caller: &Caller) -> Option<WorkspaceId> {
        let snapshot = self.registry.snapshot();
        snapshot.tenant(caller.tenant).ok()?.agents.get(&caller.agent?).map(|agent| agent.workspace)
    }

    /// Which secret a name means for this caller, or for an agent of theirs.
    pub async fn which_secret(&self, caller: &Caller, name: &str, agent: Option<&str>) -> Result<Which, Fault> {
        caller.require(&Permission::CALLS_CREATE)?;
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let agent = self.acting_agent(caller, registry, agent, None).await?;
        let workspace = agent.and_then(|id| registry.agents.get(&id)).map(|agent| agent.workspace);
        let reach = self.reach_of(caller.tenant, caller.principal, workspace).await?;
        let found = self.0.vault.resolve(reach, &[name]).await?.pop().map(|sealed| sealed.found);
        let mut warnings = Vec::new();
        if found.as_ref().is_some_and(|found| found.scope == SecretScope::Org) {
            warnings.push("the whole organisation's: every call of a listed tool by anybody here uses it".to_owned());
        }
        Ok(Which { name: name.to_owned(), found, warnings })
    }
}

/// The secrets that a call was bound to when it was asked.
pub(crate) fn bound(record: &CallRecord) -> Vec<ResolvedSecret> {
    record.secrets.as_ref().and_then(|list| serde_json::from_value(list.clone()).ok()).unwrap_or_default()
}

/// As a record keeps them; `None` for none.
pub(crate) fn text(secrets: &[ResolvedSecret]) -> Option<String> {
    (!secrets.is_empty()).then(|| serde_json::to_string(secrets).unwrap_or_default())
}

/// As the key of a kept result lists them.
pub(crate) fn used(secrets: &[ResolvedSecret]) -> Vec<SecretUsed> {
    let used = |found: &ResolvedSecret| SecretUsed {
        scope: found.scope.to_string(),
        scope_id: found.scope_id.to_string(),
        name: found.name.clone(),
        version: found.version,
    };
    secrets.iter().map(used).collect()
}

/// Code that somebody may change sees the value itself; everything else is ours and only sends it where it may go.
pub fn is_code(definition: &Definition) -> bool {
    match &definition.runner {
        Runner::Python(_) | Runner::Script(_) | Runner::Wasm(_) | Runner::External(_) | Runner::Mcp(_) => true,
        Runner::Builtin(_)
        | Runner::Http(_)
        | Runner::Openapi(_)
        | Runner::Sql(_)
        | Runner::Prompt(_)
        | Runner::Task(_)
        | Runner::Composition(_)
        | Runner::Workflow(_)
        | Runner::Expression(_)
        | Runner::Record(_) => false,
    }
}

/// Whether the secret's owner lists the tool as it is. One that is given to a server of others, at the place where that
/// was accepted, is given to all of its tools.
fn may_have(sealed: &SealedSecret, tool: &ResolvedTool, place: Option<Digest>) -> Result<(), ToolError> {
    let (name, canonical) = (&sealed.found.name, &tool.tool.name);
    if let (Runner::Mcp(runner), Some(place)) = (&tool.definition.runner, place)
        && runner.server.parse().is_ok_and(|server: ToolName| sealed.allowed.code.get(&server) == Some(&place))
    {
        return Ok(());
    }
    let scope = sealed.found.scope;
    let refused = |why: String| {
        let error = ToolError::because(ErrorCode::AuthRequired, "secret_not_allowed", why);
        error.with("secret", name.as_str()).with("scope", scope.as_str())
    };
    if !sealed.allowed.tools.contains(canonical) {
        return Err(refused(format!(
            "the secret `{name}` of the scope `{scope}` is not given to `{canonical}`; its owner gives it with `toolgate secret allow {name} --scope {scope} --tool {canonical}`"
        )));
    }
    if is_code(&tool.definition) && sealed.allowed.code.get(canonical) != Some(&tool.behaviour_digest) {
        return Err(refused(format!(
            "the secret `{name}` of the scope `{scope}` was not given to the code of `{canonical}` as it is now; its owner looks at the code and gives it with `toolgate secret allow {name} --scope {scope} --code {canonical}`"
        )));
    }
    Ok(())
}

/// The same, and whether it may go where the tool's request goes, as far as that is known before one is made. Whoever makes
/// the connection asks all the same.
fn may_use(sealed: &SealedSecret, tool: &ResolvedTool, place: Option<Digest>) -> Result<(), ToolError> {
    may_have(sealed, tool, place)?;
    let (name, scope) = (&sealed.found.name, sealed.found.scope);
    match host_of(&tool.definition).filter(|host| !sealed.allowed.has_host(host)) {
        None => Ok(()),
        Some(host) => {
            let message = format!(
                "the secret `{name}` of the scope `{scope}` may not go to `{host}`; its owner allows it with `toolgate secret allow {name} --scope {scope} --host {host}`"
            );
            let error = ToolError::because(ErrorCode::AuthRequired, "secret_not_allowed", message);
            Err(error.with("secret", name.as_str()).with("scope", scope.as_str()).with("host", host))
        }
    }
}

/// The one host of a tool of kind `http`, in whose address nothing may change it.
fn host_of(definition: &Definition) -> Option<String> {
    let toolgate_contracts::Runner::Http(http) = &definition.runner else { return None };
    let url = url::Url::parse(&http.url).ok()?;
    url.host_str().map(str::to_owned)
}

fn missing(name: &str, tool: &ResolvedTool) -> ToolError {
    let tool = &tool.tool.name;
    let message = format!(
        "`{tool}` needs the secret `{name}`, which neither the caller nor the workspace nor the organisation has; set it with `toolgate secret set {name} --tool {tool}`"
    );
    ToolError::because(ErrorCode::AuthRequired, "secret_missing", message).with("secret", name)
}

fn changed(name: &str, bound: Option<&ResolvedSecret>, found: Option<&ResolvedSecret>) -> ToolError {
    let shown = |secret: &ResolvedSecret| json!({"scope": secret.scope, "version": secret.version});
    let message = format!(
        "the secret `{name}` is not the one with which this call was asked: it was changed meanwhile; ask again"
    );
    ToolError::because(ErrorCode::AuthRequired, "secret_missing", message)
        .with("secret", name)
        .with("asked_with", bound.map_or(Value::Null, shown))
        .with("found", found.map_or(Value::Null, shown))
}

/// What a caller is told where the vault itself failed.
fn told(fault: &Fault) -> ToolError {
    tracing::error!("secrets: {}", fault.logged().unwrap_or(fault.told()));
    let message = format!("{}; {}", fault.told(), fault.remedy());
    match fault.kind() {
        FaultKind::Unavailable if fault.logged().is_none() => {
            ToolError::because(ErrorCode::ProviderError, "interrupted", message)
        }
        _ => ToolError::because(ErrorCode::AuthRequired, "secret_missing", message),
    }
}

const _: () = assert!(VALUE_BYTES_MAX <= 64 * 1024, "a redactor is made for each call");
