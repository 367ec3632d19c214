//! Importing an OpenAPI document: what each of its operations would be here, and, when told to, the change.
//!
//! Invariant: nothing is removed. An operation that is gone from its document is told, and deprecated where that is
//! asked for; what is registered goes on as it is until a new version of it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use toolgate_contracts::definition::{EgressClass, Origin, ToolState};
use toolgate_contracts::runner::{Method, Openapi, Runner};
use toolgate_contracts::{Caller, Definition, Digest, Fault, Permission, ToolName};
use toolgate_store::Change;
use toolgate_store::audit::Entry;
use toolgate_store::catalog::Lifecycle;
use utoipa::ToSchema;

use super::Registry;
use super::register::{Publication, Registration, RegistrationAction, lapsing, plan};
use crate::diff::Difference;
use crate::finding::{Finding, has_errors};
use crate::lint;
use crate::openapi::{self, Choice, Document, Made, Place};
use crate::snapshot::{Snapshot, TenantTool};

/// What an import is told to do with what it finds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Importing {
    /// Without it nothing is written.
    pub apply: bool,
    /// Marks as outgoing what is no longer in the document, or deprecated there.
    pub deprecate_gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImportOutcome {
    New,
    Unchanged,
    /// A new version; `difference` says by how much.
    Changed,
    /// Registered from this document before, and no longer in it, or deprecated in it.
    Gone,
    /// Deprecated in the document and not registered here.
    Skipped,
    /// The findings say why.
    Refused,
}

/// What becomes, or would become, of one operation.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ImportedOperation {
    /// `operationId`, or method and path.
    pub operation: String,
    pub method: Method,
    pub path: String,
    /// The tool.
    pub name: Option<String>,
    pub egress_class: Option<EgressClass>,
    pub outcome: ImportOutcome,
    /// The newest version before.
    pub current: Option<String>,
    pub version: Option<String>,
    pub difference: Difference,
    pub findings: Vec<Finding>,
    pub applied: bool,
}

/// What an import did, or would do. Operations that were not chosen are not in it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Import {
    /// What the document is known by here.
    pub document: String,
    pub title: String,
    /// The API's own version.
    pub api_version: String,
    /// SHA-256 of the document.
    pub digest: Digest,
    pub operations: Vec<ImportedOperation>,
    /// Of the document as a whole.
    pub findings: Vec<Finding>,
    pub applied: bool,
    /// The registry's revision that has it.
    pub revision: Option<i64>,
}

/// A document that cannot be read, as it is told.
pub fn refused_document(findings: Vec<Finding>) -> Fault {
    let first = findings.first();
    let line = first.and_then(|finding| finding.line).map(|line| format!(" in line {line}")).unwrap_or_default();
    let told = format!(
        "the document cannot be read{line}: {}",
        first.map(|finding| finding.message.as_str()).unwrap_or_default()
    );
    let remedy = first.map(|finding| finding.fix.clone()).unwrap_or_default();
    Fault::invalid(told, remedy).at("/document").with_details(json!({"reason": "schema", "findings": findings}))
}

/// A choice that the document does not have.
fn refused_choice(findings: Vec<Finding>) -> Fault {
    let first = findings.first();
    let of = |text: fn(&Finding) -> &String| first.map(text).cloned().unwrap_or_default();
    let (told, remedy, pointer) = (of(|one| &one.message), of(|one| &one.fix), of(|one| &one.pointer));
    Fault::invalid(told, remedy).at(pointer).with_details(json!({"reason": "schema", "findings": findings}))
}

/// A tool that came from the document before.
struct Known<'s> {
    tool: &'s TenantTool,
    operation: &'s Openapi,
    class: EgressClass,
    version: String,
}

impl Registry {
    /// Whether the caller may import at all; asked before anything is fetched or read.
    pub fn may_import(&self, caller: &Caller) -> Result<(), Fault> {
        caller.require(&Permission::TOOLS_TENANT_CREATE)?;
        caller.require(&Permission::TOOLS_TENANT_UPDATE)
    }

    /// Says what importing a document would change; writes only with `apply`, and then all that is not refused at once.
    pub async fn import(
        &self,
        caller: &Caller,
        document: Arc<Document>,
        choice: Choice,
        importing: Importing,
    ) -> Result<Import, Fault> {
        self.may_import(caller)?;
        let snapshot = self.snapshot();
        let name = choice.named(&document);
        let before = known(&snapshot, caller, &name, choice.prefix.as_deref())?;
        let names: BTreeMap<Place, ToolName> = before
            .iter()
            .map(|known| {
                let Openapi { method, path, .. } = known.operation;
                (openapi::place(*method, path), known.tool.tool.name.clone())
            })
            .collect();
        let read = {
            let document = Arc::clone(&document);
            move || openapi::imported(&document, &choice, &names)
        };
        // A large document takes a while, and others do not wait for it.
        let imported = tokio::task::spawn_blocking(read).await.map_err(Fault::internal)?.map_err(refused_choice)?;
        let mut import = Import {
            document: name,
            title: document.title.clone(),
            api_version: document.version.clone(),
            digest: document.digest,
            operations: Vec::new(),
            findings: imported.findings,
            applied: false,
            revision: None,
        };
        let mut publications = Vec::new();
        let (mut deprecated, mut present) = (Vec::new(), Vec::new());
        for operation in imported.operations {
            let openapi::Operation { operation, method, path, name, made, findings } = operation;
            let mut row = ImportedOperation {
                operation,
                method,
                path,
                name: name.as_ref().map(ToString::to_string),
                egress_class: None,
                outcome: ImportOutcome::Refused,
                current: None,
                version: None,
                difference: Difference::default(),
                findings,
                applied: false,
            };
            match made {
                Made::NotChosen => {
                    present.extend(name);
                    continue;
                }
                Made::Deprecated => {
                    deprecated.extend(name);
                    row.outcome = ImportOutcome::Skipped;
                }
                Made::Refused => present.extend(name),
                Made::Definition(definition) => {
                    present.extend(name);
                    let publication =
                        self.judge_operation(&snapshot, caller, *definition, &import.document, &mut row).await?;
                    publications.extend(publication);
                }
            }
            import.operations.push(row);
            tokio::task::yield_now().await;
        }
        let gone = tell_gone(&before, &present, &deprecated, &mut import.operations);
        if !importing.apply {
            return Ok(import);
        }
        self.write_import(caller, &mut import, publications, if importing.deprecate_gone { gone } else { Vec::new() })
            .await?;
        Ok(import)
    }

    /// What registering one definition would do, told in `row`; the publication where there is something to write.
    async fn judge_operation<'s>(
        &self,
        snapshot: &'s Snapshot,
        caller: &Caller,
        mut definition: Definition,
        document: &str,
        row: &mut ImportedOperation,
    ) -> Result<Option<(Option<&'s TenantTool>, Definition)>, Fault> {
        row.egress_class = Some(definition.class());
        let existing = match self.may_register(snapshot, caller, &definition) {
            Ok(existing) => existing,
            // A name that a shared tool has; anything else concerns the whole import.
            Err(fault) if fault.kind() == toolgate_contracts::FaultKind::Conflict => {
                row.findings.push(taken(&definition, "another tool"));
                return Ok(None);
            }
            Err(fault) => return Err(fault),
        };
        let newest = existing.and_then(|tool| tool.tool.newest_released());
        if let Some(newest) = newest {
            match &newest.published.definition.runner {
                Runner::Openapi(before) if before.document == document => {
                    same_edition(&mut definition, &newest.published.definition);
                }
                Runner::Openapi(before) => {
                    row.findings.push(taken(&definition, &format!("a tool from `{}`", before.document)));
                    return Ok(None);
                }
                _ => {
                    row.findings.push(taken(&definition, "a tool of another kind"));
                    return Ok(None);
                }
            }
        }
        let refusals = self.judge(snapshot, caller.tenant, &definition, |definition, context| {
            lint::refusals(definition, context.known)
        })?;
        if has_errors(&refusals) {
            row.findings.extend(refusals);
            return Ok(None);
        }
        row.findings.extend(existing.and_then(|tool| lapsing(&definition, tool)));
        let used = self.store().tombstones(caller.tenant, &definition.name.folded()).await?;
        let Registration { action, current, version, difference, .. } = plan(&definition, existing, &used, Vec::new())?;
        (row.current, row.version, row.difference) = (current, Some(version), difference);
        row.outcome = match action {
            RegistrationAction::Create => ImportOutcome::New,
            RegistrationAction::Update => ImportOutcome::Changed,
            RegistrationAction::Unchanged => ImportOutcome::Unchanged,
        };
        if action == RegistrationAction::Unchanged
            && newest.is_some_and(|version| version.lifecycle.state == ToolState::Deprecated)
        {
            let message = format!("`{}` is deprecated here, and in the document again", definition.name);
            let fix = format!("run `toolgate tool activate {}`", definition.name);
            row.findings.push(Finding::note("openapi.back", "", message, fix));
        }
        Ok((action != RegistrationAction::Unchanged).then_some((existing, definition)))
    }

    async fn write_import(
        &self,
        caller: &Caller,
        import: &mut Import,
        publications: Vec<(Option<&TenantTool>, Definition)>,
        gone: Vec<&TenantTool>,
    ) -> Result<(), Fault> {
        if publications.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let details = json!({
            "digest": import.digest, "version": import.api_version,
            "registered": publications.len(), "deprecated": gone.len(),
        });
        let mut change = self.begin(caller, caller.tenant, "tool.import", &import.document, details);
        let by = caller.principal.to_string();
        let mut rows: BTreeMap<String, &mut ImportedOperation> =
            import.operations.iter_mut().filter_map(|row| Some((row.name.clone()?, row))).collect();
        for (existing, definition) in publications {
            let Some(row) = rows.get_mut(definition.name.as_str()) else { continue };
            let version: semver::Version =
                row.version.as_deref().unwrap_or_default().parse().map_err(Fault::internal)?;
            let details = json!({
                "version": version, "class": row.difference.class, "definition_digest": definition.definition_digest(),
                "document": import.document,
            });
            self.note(&mut change, caller, "tool.register", &definition.name, details);
            let (tool, said) =
                (existing.map(|tool| tool.tool.id), existing.and_then(|tool| tool.tool.classification.clone()));
            let (origin, source) = (Origin::Openapi, None);
            self.publish(&mut change, Publication { tool, said, origin, definition, version, source, by: &by });
            row.applied = true;
        }
        let lifecycle = Lifecycle {
            state: ToolState::Deprecated,
            message: Some(format!("the operation is gone from {}", import.document).chars().take(200).collect()),
            ..Lifecycle::ACTIVE
        };
        for tool in gone {
            let active = tool.tool.versions.iter().filter(|version| version.lifecycle.state == ToolState::Active);
            let versions: Vec<_> = active.collect();
            let names: Vec<_> = versions.iter().map(|version| version.version.to_string()).collect();
            let details = json!({"versions": names, "message": lifecycle.message});
            self.note(&mut change, caller, "tool.deprecate", &tool.tool.name, details);
            for version in versions {
                change.set_lifecycle(version.id, &lifecycle);
            }
            if let Some(row) = rows.get_mut(tool.tool.name.as_str()) {
                row.applied = true;
            }
        }
        import.revision = Some(self.finish(change).await?);
        import.applied = true;
        Ok(())
    }

    /// A line in the log beside the one that the change began with.
    fn note(&self, change: &mut Change, caller: &Caller, action: &str, tool: &ToolName, details: serde_json::Value) {
        change.audit(&Entry {
            id: self.new_id(),
            at: self.now(),
            tenant: caller.tenant,
            actor: caller.principal.to_string(),
            action: action.to_owned(),
            object: tool.to_string(),
            details: details.as_object().cloned().unwrap_or_default(),
        });
    }
}

/// The caller's tools that came from the document, under the same prefix.
fn known<'s>(
    snapshot: &'s Snapshot,
    caller: &Caller,
    document: &str,
    prefix: Option<&str>,
) -> Result<Vec<Known<'s>>, Fault> {
    let tools = snapshot.tenant(caller.tenant)?.tools();
    let own = tools.filter(|tool| tool.tool.tenant == caller.tenant && tool.tool.origin == Origin::Openapi);
    let known = own.filter_map(|tool| {
        let newest = tool.tool.newest_released()?;
        match &newest.published.definition.runner {
            Runner::Openapi(operation) if operation.document == document && tool.tool.name.namespace() == prefix => {
                let (class, version) = (newest.published.definition.class(), newest.version.to_string());
                Some(Known { tool, operation, class, version })
            }
            _ => None,
        }
    });
    Ok(known.collect())
}

/// A definition that only a later edition of the document made different is none: it keeps the edition it came from.
fn same_edition(definition: &mut Definition, before: &Definition) {
    let (Runner::Openapi(old), Runner::Openapi(new)) = (&before.runner, &definition.runner) else { return };
    let edition = Openapi { digest: old.digest, ..new.clone() };
    let candidate = Definition { runner: Runner::Openapi(edition), ..definition.clone() };
    if candidate.definition_digest() == before.definition_digest() {
        *definition = candidate;
    }
}

/// Adds a row for each tool whose operation is no longer to be had; answers those that could be deprecated.
fn tell_gone<'s>(
    before: &[Known<'s>],
    present: &[ToolName],
    deprecated: &[ToolName],
    rows: &mut Vec<ImportedOperation>,
) -> Vec<&'s TenantTool> {
    let mut gone = Vec::new();
    for known in before {
        let name = &known.tool.tool.name;
        if present.contains(name) {
            continue;
        }
        let is_deprecated = deprecated.contains(name);
        if is_deprecated {
            // One row for one tool.
            rows.retain(|row| row.outcome != ImportOutcome::Skipped || row.name.as_deref() != Some(name.as_str()));
        }
        let active = known.tool.tool.versions.iter().any(|version| version.lifecycle.state == ToolState::Active);
        let message = match (is_deprecated, active) {
            (true, _) => format!("`{name}` is deprecated in the document"),
            (false, true) => format!("`{name}` is no longer in the document"),
            (false, false) => format!("`{name}` is no longer in the document, and not active here"),
        };
        let fix =
            format!("it goes on as it is; `--deprecate-gone` or `toolgate tool deprecate {name}` marks it as outgoing");
        let Openapi { operation, method, path, .. } = known.operation;
        let row = ImportedOperation {
            operation: operation.clone(),
            method: *method,
            path: path.clone(),
            name: Some(name.to_string()),
            egress_class: Some(known.class),
            outcome: ImportOutcome::Gone,
            current: Some(known.version.clone()),
            version: None,
            difference: Difference::default(),
            findings: vec![Finding::warning("openapi.gone", "", message, fix)],
            applied: false,
        };
        rows.push(row);
        if active {
            gone.push(known.tool);
        }
    }
    gone
}

fn taken(definition: &Definition, by: &str) -> Finding {
    let message = format!("the name `{}` is taken by {by}", definition.name);
    let fix = "choose a prefix for the names (`--prefix billing`); if it is the same document under another name, give that (`--document`)";
    Finding::error("openapi.name-taken", "/name", message, fix)
}
