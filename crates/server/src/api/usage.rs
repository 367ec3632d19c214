//! What was used and what it cost: sums for people, billing and export.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use toolgate_contracts::{Amount, Caller, Fault, Page, Permission, TenantId, Timestamp};
use toolgate_registry::snapshot::TenantRegistry;
use toolgate_store::cursor::ListOf;
use toolgate_store::usage::{UsageBy, UsageFilter, UsageKey, UsageSums};
use utoipa::{IntoParams, ToSchema};

use super::control::may_know;
use super::paging::page_of;
use crate::app::App;
use crate::extract::{By, Query};
use crate::problem::Problem;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GroupedBy {
    #[default]
    Tool,
    Agent,
    Day,
    Tenant,
}

impl GroupedBy {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Agent => "agent",
            Self::Day => "day",
            Self::Tenant => "tenant",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageFormat {
    #[default]
    Json,
    Csv,
}

#[derive(Deserialize, Serialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// The first day, `YYYY-MM-DD` in UTC; without it the first of this month.
    from: Option<String>,
    /// The last day; without it today.
    to: Option<String>,
    by: GroupedBy,
    /// Only calls of this agent, by name or id.
    agent: Option<String>,
    /// Only calls of this tool.
    tool: Option<String>,
    /// `csv` for one text with every row; the header `Accept: text/csv` says the same.
    #[serde(skip_serializing)]
    format: UsageFormat,
    #[serde(skip_serializing)]
    cursor: Option<String>,
    #[serde(skip_serializing)]
    limit: Option<u32>,
}

/// Why a row has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unnamed {
    /// Calls that no agent made.
    NoAgent,
    /// Tools whose names the caller may not know.
    Hidden,
    /// Questions to models, which are of no tool.
    Models,
}

impl Unnamed {
    const fn as_str(self) -> &'static str {
        match self {
            Self::NoAgent => "no_agent",
            Self::Hidden => "hidden",
            Self::Models => "models",
        }
    }
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct UsageRow {
    /// The tool, agent, day or tenant; null where `unnamed` says why.
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unnamed: Option<Unnamed>,
    calls: i64,
    /// Those that did not complete: failed, denied, rejected, cancelled.
    failed: i64,
    /// Answered without running.
    cached: i64,
    duration_ms: i64,
    /// Of whatever the tools count.
    units: i64,
    /// What the server measured, or the tool declares.
    cost: Amount,
    /// What callers reported.
    reported_cost: Amount,
    currency: String,
    /// That hosted agents asked their models; what those cost is in `cost`.
    questions: i64,
    /// Of those, the ones whose model has no price: what they cost is not in `cost`.
    unpriced: i64,
    input_tokens: i64,
    /// Of the input, what the providers had read before.
    cached_tokens: i64,
    output_tokens: i64,
}

impl UsageRow {
    fn new(key: Result<String, Unnamed>, sums: UsageSums, currency: &str) -> Self {
        let (key, unnamed) = match key {
            Ok(key) => (Some(key), None),
            Err(unnamed) => (None, Some(unnamed)),
        };
        let UsageSums {
            calls,
            failed,
            cached,
            duration_ms,
            units,
            cost,
            reported,
            questions,
            unpriced,
            input_tokens,
            cached_tokens,
            output_tokens,
        } = sums;
        let (reported_cost, currency) = (reported, currency.to_owned());
        Self {
            key,
            unnamed,
            calls,
            failed,
            cached,
            duration_ms,
            units,
            cost,
            reported_cost,
            currency,
            questions,
            unpriced,
            input_tokens,
            cached_tokens,
            output_tokens,
        }
    }

    fn csv(&self) -> String {
        let Self {
            key,
            unnamed,
            calls,
            failed,
            cached,
            duration_ms,
            units,
            cost,
            reported_cost,
            currency,
            questions,
            unpriced,
            input_tokens,
            cached_tokens,
            output_tokens,
        } = self;
        let key = quoted(key.as_deref().unwrap_or_default());
        let currency = quoted(currency);
        let unnamed = unnamed.map_or("", Unnamed::as_str);
        format!(
            "{key},{calls},{failed},{cached},{duration_ms},{units},{cost},{reported_cost},{currency},\
             {questions},{input_tokens},{cached_tokens},{output_tokens},{unpriced},{unnamed}\r\n"
        )
    }
}

/// A field as RFC 4180 has it; names hold none of these characters, and nothing here depends on that.
fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Sums of the calls that have ended and of the questions that agents asked their models, of this tenant alone. Each
/// counts on the day it began.
#[utoipa::path(get, path = "/api/v1/usage", tag = "usage", params(UsageQuery), responses((status = 200, body = Page<UsageRow>)))]
pub async fn usage(
    State(app): State<App>,
    By(caller): By,
    headers: HeaderMap,
    Query(query): Query<UsageQuery>,
) -> Result<Response, Problem> {
    caller.require(&Permission::USAGE_READ)?;
    let today = app.registry.now().day();
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant(caller.tenant)?;
    let filter = filter(registry, &caller, &query, &today)?;
    let by = match query.by {
        GroupedBy::Tool => UsageBy::Tool,
        GroupedBy::Agent => UsageBy::Agent,
        GroupedBy::Day => UsageBy::Day,
        GroupedBy::Tenant => UsageBy::Tenant,
    };
    app.sum_up_usage(caller.tenant).await?;
    let sums = app.store.usage(caller.tenant, by, &filter).await?;
    let rows = named(registry, &caller, &today, sums);
    if query.format == UsageFormat::Csv || wants_csv(&headers) {
        let head = "calls,failed,cached,duration_ms,units,cost,reported_cost,currency,\
            questions,input_tokens,cached_tokens,output_tokens,unpriced,unnamed\r\n";
        let body: String = rows.iter().map(UsageRow::csv).collect();
        let text = format!("{},{head}{body}", query.by.as_str());
        return Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present")], text).into_response());
    }
    let described = serde_json::to_string(&query).unwrap_or_default();
    let list = ListOf { tenant: caller.tenant, list: "usage", filter: &described };
    // Those without a name come last.
    let by_key = |row: &UsageRow| match (&row.key, row.unnamed) {
        (Some(key), _) => key.clone(),
        (None, unnamed) => format!("\u{10ffff}{}", unnamed.map_or("", Unnamed::as_str)),
    };
    Ok(Json(page_of(rows, by_key, &list, query.cursor.as_deref(), query.limit)?).into_response())
}

impl App {
    /// Sums up every call that has ended by now, whether or not a server does so in the background.
    pub async fn sum_up_usage(&self, tenant: TenantId) -> Result<(), Fault> {
        if let Err(fault) = self.audit.sequence_now(tenant).await {
            // What has its place in the log is summed; a damaged log is the doctor's to tell.
            tracing::error!("usage lags behind: {}", fault.logged().unwrap_or(fault.told()));
        }
        self.store.roll_up_usage(tenant).await?;
        Ok(())
    }
}

fn wants_csv(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == "text/csv"))
}

fn filter(registry: &TenantRegistry, caller: &Caller, query: &UsageQuery, today: &str) -> Result<UsageFilter, Fault> {
    let agent = match &query.agent {
        Some(name) => Some(registry.agent(name).ok_or_else(|| Fault::not_found("agent", name).at("/agent"))?.id),
        None => None,
    };
    let tool = match &query.tool {
        Some(name) => {
            let found = name.parse().ok().and_then(|name| registry.find(&name, today)).map(|(tool, _)| tool);
            let known = found.filter(|tool| may_know(registry, caller, today, tool));
            Some(known.ok_or_else(|| Fault::not_found("tool", name).at("/tool"))?.tool.id)
        }
        None => None,
    };
    let first_of_month = format!("{}-01", today.get(..7).unwrap_or(today));
    let from = day(query.from.as_deref().unwrap_or(&first_of_month), "/from")?;
    let to = day(query.to.as_deref().unwrap_or(today), "/to")?;
    if from > to {
        return Err(Fault::invalid(format!("`from` is {from}, after `to`, {to}"), "exchange them").at("/from"));
    }
    Ok(UsageFilter { from, to, agent, tool })
}

fn day(text: &str, at: &str) -> Result<String, Fault> {
    let legal = text.len() == 10 && format!("{text}T00:00:00Z").parse::<Timestamp>().is_ok();
    if legal {
        return Ok(text.to_owned());
    }
    Err(Fault::invalid(format!("`{text}` is not a day"), "write it as YYYY-MM-DD").at(at))
}

/// Rows by the names that people use. What has gone keeps its id; what the caller may not know is one sum without a name.
fn named(registry: &TenantRegistry, caller: &Caller, today: &str, sums: Vec<(UsageKey, UsageSums)>) -> Vec<UsageRow> {
    let mut rows: BTreeMap<Result<String, Unnamed>, UsageSums> = BTreeMap::new();
    for (key, more) in sums {
        let name = match key {
            UsageKey::Tenant => Ok(registry.tenant.slug.to_string()),
            UsageKey::Day(day) => Ok(day),
            UsageKey::Agent(None) => Err(Unnamed::NoAgent),
            UsageKey::Tool(None) => Err(Unnamed::Models),
            UsageKey::Agent(Some(id)) => {
                Ok(registry.agents.get(&id).map_or_else(|| id.to_string(), |agent| agent.spec.name.to_string()))
            }
            UsageKey::Tool(Some(id)) => match registry.tool_by_id(id) {
                None => Ok(id.to_string()),
                Some(tool) if may_know(registry, caller, today, tool) => Ok(tool.name.to_string()),
                Some(_) => Err(Unnamed::Hidden),
            },
        };
        rows.entry(name).or_default().add(more);
    }
    rows.into_iter().map(|(name, sums)| UsageRow::new(name, sums, &registry.tenant.currency)).collect()
}
