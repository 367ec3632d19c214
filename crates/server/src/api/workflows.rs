//! Workflows: graphs of tools, agents and questions to people, as they are kept and judged.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::call::WAIT_S_MAX;
use toolgate_contracts::workflow::{Node, NodeState};
use toolgate_contracts::{Fault, Page, PinnedHandle, Timestamp, Workflow};
use toolgate_registry::Finding;
use toolgate_registry::commands::Registration;
use toolgate_registry::finding::has_errors;
use toolgate_store::cursor::ListOf;
use toolgate_store::workflow_runs::WorkflowNode;
use toolgate_store::workflows::StoredWorkflow;
use toolgate_workflows::{
    NewWorkflowRun, NodesWanted, PublishWorkflow, Saved, Shown, WorkflowAction, WorkflowRunView, file, refused,
};
use utoipa::{IntoParams, ToSchema};

use super::control::may_know;
use super::paging::{PageQuery, page_limit, page_of};
use super::runs::run_id;
use crate::app::App;
use crate::extract::{Body, By, Changed, Query};
use crate::problem::Problem;

#[derive(Serialize, ToSchema)]
pub struct WorkflowView {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The one that holds.
    revision: u32,
    saved_by: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl WorkflowView {
    fn new(kept: StoredWorkflow) -> Self {
        let StoredWorkflow { name, description, revision, saved_by, created_at, updated_at } = kept;
        Self { name: name.to_string(), description, revision, saved_by, created_at, updated_at }
    }
}

#[derive(Serialize, ToSchema)]
pub struct ShownWorkflow {
    #[serde(flatten)]
    kept: WorkflowView,
    /// The tool that was made of it, where the caller may know its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    published_as: Option<String>,
    /// As it holds, or as it was in the revision that was asked for.
    workflow: Workflow,
    /// What it was, the newest first.
    revisions: Vec<ShownRevision>,
}

#[derive(Serialize, ToSchema)]
pub struct ShownRevision {
    revision: u32,
    #[schema(value_type = String)]
    digest: toolgate_contracts::Digest,
    saved_by: String,
    saved_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
pub struct SavedWorkflow {
    #[serde(flatten)]
    kept: WorkflowView,
    action: WorkflowAction,
    findings: Vec<Finding>,
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct RevisionQuery {
    /// An earlier one, by its number.
    revision: Option<u32>,
}

#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckWorkflow {
    /// A graph that is not saved; without it the saved one is checked.
    #[schema(value_type = Option<Workflow>)]
    workflow: Option<Value>,
    /// Of the saved one.
    revision: Option<u32>,
}

#[derive(Serialize, ToSchema)]
pub struct CheckedWorkflow {
    /// Whether there is no error among the findings.
    passed: bool,
    findings: Vec<Finding>,
}

#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MaterializeCall {
    /// The workflow that the node is for, whose ids it does not take.
    workflow: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MaterializePin {
    pin: PinnedHandle,
    /// The workflow that the node is for, whose ids it does not take.
    #[serde(default)]
    workflow: Option<String>,
}

/// The workflows of the tenant, by name.
#[utoipa::path(get, path = "/api/v1/workflows", tag = "workflows", params(PageQuery), responses((status = 200, body = Page<WorkflowView>)))]
pub async fn list(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<WorkflowView>>, Problem> {
    let workflows = app.workflows.list(&caller).await?.into_iter().map(WorkflowView::new).collect();
    let list = ListOf { tenant: caller.tenant, list: "workflows", filter: "" };
    let key = |view: &WorkflowView| view.name.clone();
    Ok(Json(page_of(workflows, key, &list, query.cursor.as_deref(), query.limit)?))
}

/// One workflow with its graph, and which revisions it had.
#[utoipa::path(get, path = "/api/v1/workflows/{workflow}", tag = "workflows", params(("workflow" = String, Path), RevisionQuery), responses((status = 200, body = ShownWorkflow), (status = 404)))]
pub async fn show(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(query): Query<RevisionQuery>,
) -> Result<Json<ShownWorkflow>, Problem> {
    let Shown { kept, workflow, revisions } = app.workflows.show(&caller, &name, query.revision).await?;
    let snapshot = app.registry.snapshot();
    let (registry, today) = (snapshot.tenant(caller.tenant)?, app.registry.now().day());
    let tool = app.workflows.published_as(&caller, &name)?.and_then(|tool| tool.parse().ok());
    let tool = tool.and_then(|tool| registry.find(&tool, &today)).map(|(tool, _)| tool);
    let known = tool.filter(|tool| may_know(registry, &caller, &today, tool));
    let published_as = known.map(|tool| tool.tool.name.to_string());
    let revision = |one: toolgate_store::workflows::WorkflowRevision| ShownRevision {
        revision: one.revision,
        digest: one.digest,
        saved_by: one.saved_by,
        saved_at: one.created_at,
    };
    let revisions = revisions.into_iter().map(revision).collect();
    Ok(Json(ShownWorkflow { kept: WorkflowView::new(kept), published_as, workflow, revisions }))
}

/// As a file is read: `null` is the word where one is expected.
fn read(graph: Value) -> Result<Workflow, Fault> {
    file::read_value(graph).map_err(|finding| refused(&[finding]))
}

/// Saves a graph: the workflow's first, or its next revision. The same graph again changes nothing.
#[utoipa::path(put, path = "/api/v1/workflows/{workflow}", tag = "workflows", params(("workflow" = String, Path)), request_body = Workflow, responses((status = 200, body = SavedWorkflow), (status = 400), (status = 409)))]
pub async fn put(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(graph): Body<Value>,
) -> Result<Response, Problem> {
    caller.require(&toolgate_contracts::Permission::WORKFLOWS_EDIT)?;
    let workflow = read(graph)?;
    if workflow.name.as_str() != name {
        let told = format!("the graph's name is `{}`, and it was sent to `{name}`", workflow.name);
        return Err(Fault::invalid(told, "send it to the address with its own name").at("/name").into());
    }
    let Saved { kept, workflow: _, action, findings, revision } = app.workflows.save(&caller, workflow).await?;
    let saved = SavedWorkflow { kept: WorkflowView::new(kept), action, findings };
    Ok(match revision {
        Some(revision) => Changed(saved, revision).into_response(),
        None => Json(saved).into_response(),
    })
}

/// Removes a workflow with all its revisions. Runs that were begun go on.
#[utoipa::path(delete, path = "/api/v1/workflows/{workflow}", tag = "workflows", params(("workflow" = String, Path)), responses((status = 200, body = Object), (status = 404)))]
pub async fn delete(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
) -> Result<Changed<Value>, Problem> {
    let revision = app.workflows.remove(&caller, &name).await?;
    Ok(Changed(json!({"deleted": name}), revision))
}

/// What is found about a saved graph, or about one that is sent along, by the tools and agents that the caller has.
#[utoipa::path(post, path = "/api/v1/workflows/{workflow}/check", tag = "workflows", params(("workflow" = String, Path)), request_body = CheckWorkflow, responses((status = 200, body = CheckedWorkflow), (status = 400), (status = 404)))]
pub async fn check(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(CheckWorkflow { workflow, revision }): Body<CheckWorkflow>,
) -> Result<Json<CheckedWorkflow>, Problem> {
    let workflow = match workflow {
        Some(graph) => read(graph).map_err(|fault| fault.below("/workflow"))?,
        None => app.workflows.show(&caller, &name, revision).await?.workflow,
    };
    let findings = app.workflows.check(&caller, &workflow)?;
    Ok(Json(CheckedWorkflow { passed: !has_errors(&findings), findings }))
}

/// Registers the tool that a workflow is, or its next version: what it takes and gives are the workflow's, in the revision
/// that holds, and it owns up to what its strongest node does.
#[utoipa::path(post, path = "/api/v1/workflows/{workflow}/publish", tag = "workflows", params(("workflow" = String, Path)), request_body = PublishWorkflow, responses((status = 200, body = Registration), (status = 400), (status = 404), (status = 409)))]
pub async fn publish(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Body(how): Body<PublishWorkflow>,
) -> Result<Response, Problem> {
    let registration = Box::pin(app.workflows.publish(&caller, &name, how)).await?;
    Ok(match registration.revision {
        Some(revision) => Changed(registration, revision).into_response(),
        None => Json(registration).into_response(),
    })
}

/// A node that does what a recorded call did: the same tool at the same version, with the same input and secrets by name.
#[utoipa::path(post, path = "/api/v1/calls/{call}/materialize", tag = "workflows", params(("call" = String, Path)), request_body = MaterializeCall, responses((status = 200, body = Node), (status = 400), (status = 404)))]
pub async fn materialize_call(
    State(app): State<App>,
    By(caller): By,
    Path(call): Path<String>,
    Body(MaterializeCall { workflow }): Body<MaterializeCall>,
) -> Result<Json<Node>, Problem> {
    Ok(Json(app.workflows.materialize_call(&caller, &call, workflow.as_deref()).await?))
}

/// The same for the call of a run that a pin means.
#[utoipa::path(post, path = "/api/v1/runs/{run}/materialize", tag = "workflows", params(("run" = String, Path)), request_body = MaterializePin, responses((status = 200, body = Node), (status = 400), (status = 404)))]
pub async fn materialize_pin(
    State(app): State<App>,
    By(caller): By,
    Path(run): Path<String>,
    Body(MaterializePin { pin, workflow }): Body<MaterializePin>,
) -> Result<Json<Node>, Problem> {
    Ok(Json(app.workflows.materialize_pin(&caller, run_id(&run)?, &pin, workflow.as_deref()).await?))
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Whole seconds, 0 to 60, until it is over or waits for people; past it the answer is the run as it then is.
    wait: Option<u64>,
}

impl WaitQuery {
    fn until(&self) -> Result<tokio::time::Instant, Fault> {
        let wait = self.wait.unwrap_or_default();
        if wait > WAIT_S_MAX {
            let told = format!("`wait` is {wait}");
            return Err(Fault::invalid(told, format!("wait 0 to {WAIT_S_MAX} whole seconds")).at("/wait"));
        }
        Ok(tokio::time::Instant::now() + std::time::Duration::from_secs(wait))
    }
}

/// Begins a run of a workflow. It is a run like others: followed, shown and cancelled as one, by the id in the answer.
#[utoipa::path(post, path = "/api/v1/workflows/{workflow}/runs", tag = "workflows", params(("workflow" = String, Path), WaitQuery), request_body = NewWorkflowRun, responses((status = 200, body = WorkflowRunView), (status = 400), (status = 404)))]
pub async fn run(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    Query(query): Query<WaitQuery>,
    Body(new): Body<NewWorkflowRun>,
) -> Result<Json<WorkflowRunView>, Problem> {
    let until = query.until()?;
    let run = Box::pin(app.workflows.run(&caller, &name, new)).await?;
    Ok(Json(Box::pin(app.workflows.when_settled(&caller, run, until)).await?))
}

/// How a run of a workflow stands, with the first page of its nodes: what arrived at each and what it gave.
#[utoipa::path(get, path = "/api/v1/runs/{run}/workflow", tag = "workflows", params(("run" = String, Path), WaitQuery), responses((status = 200, body = WorkflowRunView), (status = 404)))]
pub async fn stands(
    State(app): State<App>,
    By(caller): By,
    Path(run): Path<String>,
    Query(query): Query<WaitQuery>,
) -> Result<Json<WorkflowRunView>, Problem> {
    let (run, until) = (run_id(&run)?, query.until()?);
    Ok(Json(Box::pin(app.workflows.when_settled(&caller, run, until)).await?))
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct NodesQuery {
    /// Only those that stand so.
    #[param(value_type = Option<NodeState>)]
    state: Option<NodeState>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// 1 to 500; 50 without it. A page has fewer where they hold much.
    limit: Option<u32>,
}

/// The nodes of a workflow's run, in the order in which they began: what arrived at each and what it gave.
#[utoipa::path(get, path = "/api/v1/runs/{run}/workflow/nodes", tag = "workflows", params(("run" = String, Path), NodesQuery), responses((status = 200, body = Page<WorkflowNode>), (status = 400), (status = 404)))]
pub async fn nodes(
    State(app): State<App>,
    By(caller): By,
    Path(run): Path<String>,
    Query(NodesQuery { state, cursor, limit }): Query<NodesQuery>,
) -> Result<Json<Page<WorkflowNode>>, Problem> {
    let limit = Some(page_limit(limit)?);
    let wanted = NodesWanted { state, cursor: cursor.as_deref(), limit };
    Ok(Json(app.workflows.nodes(&caller, run_id(&run)?, wanted).await?))
}
