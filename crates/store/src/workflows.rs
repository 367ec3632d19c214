//! Workflows and every graph that each of them had.
//!
//! Deliberately absent: what a graph means. It is kept as it was written, and read by whoever runs it.

use toolgate_contracts::workflow::WorkflowUses;
use toolgate_contracts::{Digest, Fault, FoldedName, Slug, TenantId, Timestamp};

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::value::json_text;
use crate::{Row, Store};

/// A workflow without its graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredWorkflow {
    pub name: Slug,
    pub description: Option<String>,
    pub revision: u32,
    pub saved_by: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A workflow as the catalog has it: what it is for, and what the revision that holds asks of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldWorkflow {
    pub tenant: TenantId,
    pub name: Slug,
    pub description: Option<String>,
    pub revision: u32,
    pub uses: WorkflowUses,
}

/// One graph of a workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowRevision {
    pub revision: u32,
    pub graph: serde_json::Value,
    pub digest: Digest,
    pub saved_by: String,
    pub created_at: Timestamp,
}

/// How many revisions of a workflow are listed; older ones are found by their number.
const REVISIONS_LISTED_MAX: u32 = 100;

const COLUMNS: &str = "name, description, revision, saved_by, created_at, updated_at";

impl Change {
    /// Creates the workflow of that name, or has the next revision hold. `changed`: somebody was faster.
    pub fn put_workflow(
        &mut self,
        workflow: &StoredWorkflow,
        (graph, uses): (&serde_json::Value, &WorkflowUses),
        digest: Digest,
        changed: Fault,
    ) -> &mut Self {
        let StoredWorkflow { name, description, revision, saved_by, created_at, updated_at } = workflow;
        self.expecting(
            Expect::Rows(1, changed),
            "INSERT INTO workflows (tenant_id, name, folded, description, revision, saved_by, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (tenant_id, name) DO UPDATE SET description = excluded.description,
                revision = excluded.revision, saved_by = excluded.saved_by, updated_at = excluded.updated_at
             WHERE workflows.revision = excluded.revision - 1",
            [
                name.as_str().into(),
                FoldedName::of(name.as_str()).as_str().into(),
                description.clone().into(),
                (*revision).into(),
                saved_by.into(),
                (*created_at).into(),
                (*updated_at).into(),
            ],
        );
        self.then(
            "INSERT INTO workflow_revisions (tenant_id, workflow, revision, graph, uses, digest, saved_by, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            [
                name.as_str().into(),
                (*revision).into(),
                graph.to_string().into(),
                json_text(uses),
                digest.into(),
                saved_by.into(),
                (*updated_at).into(),
            ],
        )
    }

    /// With all its revisions. Runs that were begun keep their own graph.
    pub fn delete_workflow(&mut self, name: &Slug) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("workflow", name)),
            "DELETE FROM workflows WHERE tenant_id = $1 AND name = $2",
            [name.as_str().into()],
        )
    }
}

impl Store {
    /// By name.
    pub async fn workflows(&self, tenant: TenantId) -> Result<Vec<StoredWorkflow>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM workflows WHERE tenant_id = $1 ORDER BY name");
        self.query(&Scope::Tenant(tenant), &sql, Vec::new()).await?.iter().map(stored).collect()
    }

    pub async fn workflow(&self, tenant: TenantId, name: &str) -> Result<Option<StoredWorkflow>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM workflows WHERE tenant_id = $1 AND name = $2");
        self.query(&Scope::Tenant(tenant), &sql, vec![name.into()]).await?.first().map(stored).transpose()
    }

    pub async fn workflow_revision(
        &self,
        tenant: TenantId,
        name: &str,
        revision: u32,
    ) -> Result<Option<WorkflowRevision>, Error> {
        let sql = "SELECT revision, graph, digest, saved_by, created_at FROM workflow_revisions
            WHERE tenant_id = $1 AND workflow = $2 AND revision = $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![name.into(), revision.into()]).await?;
        rows.first().map(graph).transpose()
    }

    /// The newest first.
    pub async fn workflow_revisions(&self, tenant: TenantId, name: &str) -> Result<Vec<WorkflowRevision>, Error> {
        let sql = "SELECT revision, '{}', digest, saved_by, created_at FROM workflow_revisions
            WHERE tenant_id = $1 AND workflow = $2 ORDER BY revision DESC LIMIT $3";
        let parameters = vec![name.into(), REVISIONS_LISTED_MAX.into()];
        self.query(&Scope::Tenant(tenant), sql, parameters).await?.iter().map(graph).collect()
    }
}

pub(crate) fn held(row: &Row) -> Result<HeldWorkflow, Error> {
    Ok(HeldWorkflow {
        tenant: row.get(0)?,
        name: row.parse(1)?,
        description: row.get(2)?,
        revision: row.get(3)?,
        uses: row.json(4)?,
    })
}

fn stored(row: &Row) -> Result<StoredWorkflow, Error> {
    Ok(StoredWorkflow {
        name: row.parse(0)?,
        description: row.get(1)?,
        revision: row.get(2)?,
        saved_by: row.get(3)?,
        created_at: row.get(4)?,
        updated_at: row.get(5)?,
    })
}

fn graph(row: &Row) -> Result<WorkflowRevision, Error> {
    Ok(WorkflowRevision {
        revision: row.get(0)?,
        graph: row.json(1)?,
        digest: row.get(2)?,
        saved_by: row.get(3)?,
        created_at: row.get(4)?,
    })
}
