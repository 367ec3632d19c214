//! Search over everything that can be used, and the tree of categories.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolgate_contracts::definition::{CATEGORIES, EgressClass, Risk, ToolState};
use toolgate_contracts::{Caller, Fault, Page, Permission};
use toolgate_registry::search::Kind;
use toolgate_registry::toolset::View;
use utoipa::{IntoParams, ToSchema};

use super::paging::NoQuery;
use crate::app::App;
use crate::extract::{By, Query};
use crate::problem::Problem;

const RESULTS_DEFAULT: u32 = 5;
const RESULTS_MAX: u32 = 100;
const QUERY_CHARS_MAX: usize = 400;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SearchQuery {
    /// What is looked for, in words; typing mistakes are forgiven.
    q: String,
    /// `tool`, `skill`, `agent`, `workflow` or `prompt`.
    kind: Option<Kind>,
    limit: Option<u32>,
}

/// Seed 004's `CapabilityEntry`, with how well it fits.
#[derive(Serialize, ToSchema)]
pub struct Capability {
    pub kind: Kind,
    pub name: String,
    pub title: String,
    pub description: String,
    pub category: String,
    pub tags: Vec<String>,
    pub score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_class: Option<EgressClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
}

/// Finds tools, agents and more; only what the caller has.
#[utoipa::path(get, path = "/api/v1/search", tag = "search", params(SearchQuery), responses((status = 200, body = Page<Capability>)))]
pub async fn search(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<SearchQuery>,
) -> Result<Json<Page<Capability>>, Problem> {
    Ok(Json(Page::whole(found(&app, &caller, &query)?)))
}

/// What fits the words, best first; only what the caller has.
pub fn found(app: &App, caller: &Caller, query: &SearchQuery) -> Result<Vec<Capability>, Fault> {
    caller.require(&Permission::TOOLS_READ)?;
    let limit = query.limit.unwrap_or(RESULTS_DEFAULT);
    if !(1..=RESULTS_MAX).contains(&limit) {
        return Err(
            Fault::invalid(format!("`limit` is {limit}"), format!("ask for 1 to {RESULTS_MAX} results")).at("/limit")
        );
    }
    check_words(&query.q)?;
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let today = app.registry.now().day();
    let view = View::of(registry, caller, &today)?;
    let may_read_agents = caller.may(&Permission::AGENTS_READ);
    let resolve = |name: &str| {
        view.resolve(&name.parse().ok()?).ok().map(|(tool, _)| tool).filter(|tool| tool.state() == ToolState::Active)
    };
    let hits = registry.index().search(&query.q, limit as usize, |_, entry| {
        query.kind.is_none_or(|kind| kind == entry.kind)
            && match entry.kind {
                Kind::Tool => resolve(&entry.name).is_some(),
                Kind::Agent => may_read_agents,
                Kind::Skill => registry.skills_of(caller).any(|skill| skill.spec.name.as_str() == entry.name),
                // A token is for tools, and sees none of them elsewhere either.
                Kind::Workflow => caller.token.is_none(),
                Kind::Prompt => true,
            }
    });
    let capability = |hit: toolgate_registry::search::Hit<'_>| {
        let tool = (hit.entry.kind == Kind::Tool).then(|| resolve(&hit.entry.name)).flatten();
        Capability {
            kind: hit.entry.kind,
            name: hit.entry.name.clone(),
            title: hit.entry.title.clone(),
            description: hit.entry.description.clone(),
            category: hit.entry.category.clone(),
            tags: hit.entry.tags.clone(),
            score: hit.score,
            egress_class: tool.as_ref().map(|tool| tool.definition.class()),
            risk: tool.as_ref().map(|tool| tool.definition.effective_risk()),
        }
    };
    Ok(hits.into_iter().map(capability).collect())
}

/// Refuses what is nothing to look for, or too much.
pub fn check_words(words: &str) -> Result<(), Fault> {
    if !words.trim().is_empty() && words.chars().count() <= QUERY_CHARS_MAX {
        return Ok(());
    }
    let told = format!("`q` needs 1 to {QUERY_CHARS_MAX} characters");
    Err(Fault::invalid(told, "say in a few words what you look for").at("/q"))
}

#[derive(Serialize, ToSchema)]
pub struct Category {
    path: String,
    /// One of the thirteen that are always there.
    built_in: bool,
    /// Tools in it, those of sub-categories included.
    tools: usize,
}

/// The categories with the number of tools the caller has in each.
#[utoipa::path(get, path = "/api/v1/categories", tag = "search", responses((status = 200, body = Page<Category>)))]
pub async fn categories(
    State(app): State<App>,
    By(caller): By,
    Query(NoQuery {}): Query<NoQuery>,
) -> Result<Json<Page<Category>>, Problem> {
    caller.require(&Permission::TOOLS_READ)?;
    let snapshot = app.registry.snapshot();
    let today = app.registry.now().day();
    let view = View::of(snapshot.tenant(caller.tenant)?, &caller, &today)?;
    let mut counts: BTreeMap<String, usize> = CATEGORIES.iter().map(|path| ((*path).to_owned(), 0)).collect();
    for (tool, _) in view.tools().filter(|(tool, _)| tool.state() == ToolState::Active) {
        let path = tool.definition.effective_category();
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for end in ends {
            *counts.entry(path[..end].to_owned()).or_default() += 1;
        }
    }
    let category =
        |(path, tools): (String, usize)| Category { built_in: CATEGORIES.contains(&path.as_str()), path, tools };
    Ok(Json(Page::whole(counts.into_iter().map(category).collect())))
}
