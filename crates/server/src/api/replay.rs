//! Runs of agents as replay bundles, and what would come of them now.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::Value;
use toolgate_agents::replay::{Change, Read, Replayed, SealedBundle, replay};
use toolgate_contracts::{Caller, Fault, RunId};
use toolgate_registry::tool_md;
use utoipa::ToSchema;

use super::runs::run_id;
use crate::app::App;
use crate::extract::{Body, By};
use crate::problem::Problem;

/// A run of an agent that has ended, as one signed document that can be replayed without this server. It holds every call
/// of the run, for whoever may read them; policies only for who may read those.
#[utoipa::path(get, path = "/api/v1/runs/{run}/bundle", tag = "agents", params(("run" = String, Path)), responses((status = 200, body = SealedBundle), (status = 403), (status = 404), (status = 409)))]
pub async fn bundle(
    State(app): State<App>,
    By(caller): By,
    Path(run): Path<String>,
) -> Result<Json<SealedBundle>, Problem> {
    Ok(Json(Box::pin(app.host.bundle(&caller, run_id(&run)?)).await?))
}

/// Under which policies decisions are made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ReplayAgainst)]
pub enum Against {
    /// Those that decided then.
    #[default]
    Recorded,
    /// Those that decide in this tenant now.
    Now,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReplayRequest)]
pub struct Wanted {
    /// A run of this tenant.
    #[serde(default)]
    run: Option<RunId>,
    /// Or the text of a bundle that this tenant's log signed.
    #[serde(default)]
    bundle: Option<String>,
    #[serde(default)]
    against: Against,
    /// Cedar policies in place of those that decided.
    #[serde(default)]
    policy: Option<String>,
    /// A `TOOL.md`: what was asked of its tool is judged by its schema.
    #[serde(default)]
    tool: Option<String>,
    /// A scripted model in place of the recorded one.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    script: Option<Value>,
}

/// Goes through a run again and says where it parts from what was recorded. Nothing is called and nothing changes.
#[utoipa::path(post, path = "/api/v1/replay", tag = "agents", request_body = Wanted, responses((status = 200, body = Replayed), (status = 404), (status = 409)))]
pub async fn again(
    State(app): State<App>,
    By(caller): By,
    Body(wanted): Body<Wanted>,
) -> Result<Json<Replayed>, Problem> {
    let change = Box::pin(change(&app, &caller, &wanted)).await?;
    let bundle = match (wanted.run, wanted.bundle) {
        (Some(run), None) => Box::pin(app.host.bundle(&caller, run)).await?.bundle,
        (None, Some(text)) => {
            caller.require(&toolgate_contracts::Permission::CALLS_READ_OWN)?;
            let read = Read::from_text(text.as_bytes()).map_err(|fault| fault.below("/bundle"))?;
            let keys = app.audit.verifier_keys(caller.tenant).await?;
            read.signed_by(&keys).map_err(|fault| fault.below("/bundle"))?;
            read.bundle
        }
        _ => return Err(Fault::invalid("neither a run nor a bundle, or both", "name one of them").at("/run").into()),
    };
    // It is no more than some milliseconds for a long run, and nobody else's turn meanwhile.
    let replayed = tokio::task::spawn_blocking(move || replay(&bundle, &change)).await.map_err(Fault::internal)?;
    Ok(Json(replayed))
}

async fn change(app: &App, caller: &Caller, wanted: &Wanted) -> Result<Change, Fault> {
    let policies = match (&wanted.policy, wanted.against) {
        (Some(_), Against::Now) => {
            return Err(Fault::invalid("`policy` and `against: now` at once", "give one of them").at("/against"));
        }
        (Some(source), Against::Recorded) => Some(Change::read_policies(source)?),
        (None, Against::Now) => {
            let (_, _, source) = app.registry.policy_text(caller, "active").await?;
            Some(Change::read_policies(&source)?)
        }
        (None, Against::Recorded) => None,
    };
    let tools = match &wanted.tool {
        None => Vec::new(),
        Some(text) => match tool_md::parse(text.as_bytes()) {
            Ok(authored) => vec![authored.definition],
            Err(findings) => {
                let first = findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
                let told = format!("the definition cannot be read: {first}");
                return Err(Fault::invalid(told, "`toolgate tool test FILE` shows all findings").at("/tool"));
            }
        },
    };
    let script = match &wanted.script {
        None => None,
        Some(script) => Some(Change::read_script(script.clone()).map_err(|fault| fault.below("/script"))?),
    };
    Ok(Change { policies, tools, script })
}
