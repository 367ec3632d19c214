//! What was used, summed by day, agent and tool: rolled up from the log behind the calls, each call exactly once, and
//! questions to models in the commit that settles them.
//!
//! Nothing is written per call. Whoever rolls up takes the next leaves of a tenant's log, sums the calls that ended by
//! them, and moves the mark in the same transaction; of two who try at once one is refused and changes nothing. A call
//! counts on the day it began. Dry runs are no use.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value as Json;
use toolgate_contracts::{AgentId, Amount, CallId, Fault, Mode, Status, TenantId, Timestamp, ToolId};
use uuid::Uuid;

use crate::agent_runs::ModelUsed;
use crate::change::{Change, Durability, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store, Value};

/// Leaves taken in one step.
const LEAVES: u32 = 2048;
/// Calls asked for by one query; its text is the same however many there are.
const CALLS_ASKED: usize = 256;

/// Sums of calls that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageSums {
    pub calls: i64,
    /// Those that did not complete: failed, denied, rejected, cancelled.
    pub failed: i64,
    pub cached: i64,
    pub duration_ms: i64,
    pub units: i64,
    pub cost: Amount,
    /// What callers reported; kept beside, never trusted.
    pub reported: Amount,
    /// That hosted agents asked their models. What they took is in `cost`.
    pub questions: i64,
    /// Of those, the ones whose model has no price: what they cost is in no sum.
    pub unpriced: i64,
    pub input_tokens: i64,
    pub cached_tokens: i64,
    pub output_tokens: i64,
}

impl UsageSums {
    pub fn add(&mut self, more: Self) {
        let Self {
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
        } = more;
        self.calls += calls;
        self.failed += failed;
        self.cached += cached;
        self.duration_ms += duration_ms;
        self.units += units;
        self.cost = self.cost + cost;
        self.reported = self.reported + reported;
        self.questions += questions;
        self.unpriced += unpriced;
        self.input_tokens += input_tokens;
        self.cached_tokens += cached_tokens;
        self.output_tokens += output_tokens;
    }
}

/// What sums are made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageBy {
    Tenant,
    Day,
    Agent,
    Tool,
}

/// The key of one sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageKey {
    Tenant,
    Day(String),
    /// `None`: a person or a service called, and no agent.
    Agent(Option<AgentId>),
    /// `None`: a question to a model, which is of no tool.
    Tool(Option<ToolId>),
}

/// Days as `YYYY-MM-DD`, both included.
#[derive(Clone, Debug)]
pub struct UsageFilter {
    pub from: String,
    pub to: String,
    pub agent: Option<AgentId>,
    pub tool: Option<ToolId>,
}

/// What a leaf says of a call's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// It ended, and its row does not change any more.
    Ended,
    /// Nobody knows how it ended: it counts as a call, and the rest when it is settled.
    Lost,
    Settled,
}

/// The leaf's word, and the call it is about.
fn told(leaf: Uuid, entry: &Entry) -> Option<(CallId, Told)> {
    let told = match entry.action.strip_prefix("call.")? {
        "settled" => Told::Settled,
        word => match word.parse::<Status>().ok()? {
            Status::OutcomeUnknown => Told::Lost,
            status if status.is_final() => Told::Ended,
            _ => return None,
        },
    };
    let named = entry.details.as_ref().and_then(|details| details.call.as_ref());
    let call = [named, entry.object.as_ref()].into_iter().find_map(|id| id?.as_str()?.parse().ok());
    Some((call.unwrap_or_else(|| CallId::from_uuid(leaf)), told))
}

/// What of a leaf's entry is needed here; the rest is passed over.
#[derive(Deserialize)]
struct Entry {
    action: String,
    object: Option<Json>,
    details: Option<EntryDetails>,
}

#[derive(Deserialize)]
struct EntryDetails {
    call: Option<Json>,
}

/// What a call's row says of its use.
struct Used {
    agent: Uuid,
    tool: Uuid,
    dry_run: bool,
    completed: bool,
    cached: bool,
    created_at: Timestamp,
    duration_ms: i64,
    cost: Amount,
    reported: Amount,
    units: i64,
}

impl Used {
    fn read(row: &Row) -> Result<Self, Error> {
        let (started, ended): (Option<i64>, Option<i64>) = (row.get(7)?, row.get(8)?);
        let amount = |position| -> Result<Amount, Error> {
            let text: Option<String> = row.get(position)?;
            Ok(text.and_then(|text| text.parse().ok()).unwrap_or_default())
        };
        let usage: Option<String> = row.get(11)?;
        let usage: Json = usage.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Ok(Self {
            agent: row.get::<Option<Uuid>>(1)?.unwrap_or_default(),
            tool: row.get(2)?,
            dry_run: row.parse::<Mode>(3)? == Mode::DryRun,
            completed: row.parse::<Status>(4)? == Status::Completed,
            cached: row.get(5)?,
            created_at: row.get(6)?,
            duration_ms: started.zip(ended).map_or(0, |(started, ended)| (ended - started).max(0)),
            cost: amount(9)?,
            reported: amount(10)?,
            units: usage["units"].as_i64().unwrap_or_default(),
        })
    }

    fn add_to(&self, sums: &mut UsageSums, told: Told) {
        let calls = i64::from(told != Told::Settled);
        sums.add(match told {
            Told::Lost => UsageSums { calls, ..UsageSums::default() },
            Told::Ended | Told::Settled => UsageSums {
                calls,
                failed: i64::from(!self.completed),
                cached: i64::from(self.cached),
                duration_ms: self.duration_ms,
                units: self.units,
                cost: self.cost,
                reported: self.reported,
                ..UsageSums::default()
            },
        });
    }
}

impl Change {
    /// Counts a question that an agent asked its model, on the day it was asked.
    pub fn count_question(&mut self, agent: Option<AgentId>, asked_at: Timestamp, took: &ModelUsed) -> &mut Self {
        let ModelUsed { input, cached, output, cost } = *took;
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let sums = UsageSums {
            cost: cost.unwrap_or_default(),
            questions: 1,
            unpriced: i64::from(cost.is_none()),
            input_tokens: whole(input),
            cached_tokens: whole(cached),
            output_tokens: whole(output),
            ..UsageSums::default()
        };
        let agent = agent.map(toolgate_contracts::Id::uuid).unwrap_or_default();
        add_sums(self, (asked_at.day(), agent, Uuid::nil()), sums);
        self
    }
}

impl Store {
    /// Tenants whose log has leaves that were not summed yet.
    pub async fn tenants_to_sum(&self) -> Result<Vec<TenantId>, Error> {
        let scope = Scope::Everyone("sums are made for every tenant in the background");
        let sql = "SELECT tenant_id FROM audit_progress WHERE usage_size < size";
        self.query(&scope, sql, vec![]).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Sums whatever the tenant's log has in order and was not summed yet; answers how many leaves that were.
    pub async fn roll_up_usage(&self, tenant: TenantId) -> Result<u64, Error> {
        let mut taken = 0;
        loop {
            match self.roll_up_some(tenant).await? {
                0 => return Ok(taken),
                more => taken += more,
            }
        }
    }

    async fn roll_up_some(&self, tenant: TenantId) -> Result<u64, Error> {
        let scope = Scope::Tenant(tenant);
        let sql = "SELECT s.leaf_index, s.leaf_id, l.entry, p.usage_size FROM audit_progress p
             JOIN audit_sequence s ON s.tenant_id = p.tenant_id AND s.leaf_index >= p.usage_size AND s.leaf_index < p.size
             JOIN audit_leaves l ON l.tenant_id = s.tenant_id AND l.id = s.leaf_id
             WHERE p.tenant_id = $1 AND s.tenant_id = $1 AND l.tenant_id = $1 ORDER BY s.leaf_index LIMIT $2";
        let rows = self.query(&scope, sql, vec![LEAVES.into()]).await?;
        let Some(first) = rows.first() else { return Ok(0) };
        let from: i64 = first.get(3)?;
        let mut ended = Vec::new();
        for (index, row) in (from..).zip(&rows) {
            if row.get::<i64>(0)? != index {
                return Err(Error::Corrupt(format!("the log of {tenant} has no leaf {index}")));
            }
            ended.extend(told(row.get(1)?, &row.json(2)?));
        }
        let sums = self.sums_of(tenant, &ended).await?;
        let to = from + i64::try_from(rows.len()).unwrap_or_default();
        match self.commit(summing(tenant, from, to, sums)).await {
            Ok(_) => Ok(rows.len() as u64),
            // Another replica was faster; what it did not take is taken by whoever comes next.
            Err(Error::Unmet(fault)) if fault.broken_rule() == Some(RACE) => Ok(0),
            Err(error) => Err(error),
        }
    }

    async fn sums_of(&self, tenant: TenantId, ended: &[(CallId, Told)]) -> Result<Sums, Error> {
        let mut sums = Sums::new();
        for some in ended.chunks(CALLS_ASKED) {
            let mut sql =
                "SELECT id, agent_id, tool_id, mode, status, cached, created_at, started_at, completed_at, cost,
                reported_cost, usage FROM calls WHERE tenant_id = $1 AND id IN ("
                    .to_owned();
            // Filled up with the last one, so that one text serves any number.
            for place in 0..CALLS_ASKED {
                let separator = if place == 0 { "" } else { ", " };
                let _ = write!(sql, "{separator}${}", place + 2);
            }
            sql.push(')');
            let last = some.last().into_iter().cycle();
            let parameters = some.iter().chain(last).take(CALLS_ASKED).map(|(call, _)| (*call).into()).collect();
            let rows = self.query(&Scope::Tenant(tenant), &sql, parameters).await?;
            let used: HashMap<CallId, Used> =
                rows.iter().map(|row| Ok((row.get(0)?, Used::read(row)?))).collect::<Result<_, Error>>()?;
            for (call, told) in some {
                match used.get(call) {
                    Some(used) if !used.dry_run => {
                        let key = (used.created_at.day(), used.agent, used.tool);
                        used.add_to(sums.entry(key).or_default(), *told);
                    }
                    Some(_) => {}
                    None => tracing::warn!(%tenant, %call, "not summed up: the call is gone"),
                }
            }
        }
        Ok(sums)
    }

    /// Sums of a time, by the key that is asked for and in its order.
    pub async fn usage(
        &self,
        tenant: TenantId,
        by: UsageBy,
        filter: &UsageFilter,
    ) -> Result<Vec<(UsageKey, UsageSums)>, Error> {
        let key = match by {
            UsageBy::Tenant => "tenant_id",
            UsageBy::Day => "day",
            UsageBy::Agent => "agent_id",
            UsageBy::Tool => "tool_id",
        };
        let UsageFilter { from, to, agent, tool } = filter;
        let mut parameters: Vec<Value> = vec![from.into(), to.into()];
        let mut condition = String::new();
        for (column, id) in
            [("agent_id", agent.map(toolgate_contracts::Id::uuid)), ("tool_id", tool.map(toolgate_contracts::Id::uuid))]
        {
            if let Some(id) = id {
                parameters.push(id.into());
                let _ = write!(condition, " AND {column} = ${}", parameters.len() + 1);
            }
        }
        let sums = [
            "calls",
            "failed",
            "cached",
            "duration_ms",
            "units",
            "cost_micros",
            "reported_micros",
            "questions",
            "unpriced",
            "input_tokens",
            "cached_tokens",
            "output_tokens",
        ]
        .map(|column| format!("CAST(sum({column}) AS BIGINT)"))
        .join(", ");
        let sql = format!(
            "SELECT {key}, {sums} FROM usage WHERE tenant_id = $1 AND day >= $2 AND day <= $3{condition}
             GROUP BY {key} ORDER BY {key}"
        );
        let rows = self.query(&Scope::Tenant(tenant), &sql, parameters).await?;
        let sum = |row: &Row| {
            let key = match by {
                UsageBy::Tenant => UsageKey::Tenant,
                UsageBy::Day => UsageKey::Day(row.get(0)?),
                UsageBy::Agent => {
                    UsageKey::Agent(Some(row.get::<Uuid>(0)?).filter(|id| !id.is_nil()).map(AgentId::from_uuid))
                }
                UsageBy::Tool => {
                    UsageKey::Tool(Some(row.get::<Uuid>(0)?).filter(|id| !id.is_nil()).map(ToolId::from_uuid))
                }
            };
            let sums = UsageSums {
                calls: row.get(1)?,
                failed: row.get(2)?,
                cached: row.get(3)?,
                duration_ms: row.get(4)?,
                units: row.get(5)?,
                cost: Amount::from_micros(row.get(6)?),
                reported: Amount::from_micros(row.get(7)?),
                questions: row.get(8)?,
                unpriced: row.get(9)?,
                input_tokens: row.get(10)?,
                cached_tokens: row.get(11)?,
                output_tokens: row.get(12)?,
            };
            Ok((key, sums))
        };
        rows.iter().map(sum).collect()
    }
}

/// By day, agent (nil where none acted) and tool.
type Sums = BTreeMap<(String, Uuid, Uuid), UsageSums>;

/// Tells the one expected refusal from all others.
const RACE: &str = "usage_moved";

fn summing(tenant: TenantId, from: i64, to: i64, sums: Sums) -> Change {
    // Sums and mark are lost together or not at all, so the disk may wait.
    let mut change = Change::new(tenant).durability(Durability::Process);
    let lost = Fault::internal("another one summed these calls").by_rule(RACE);
    change.expecting(
        Expect::Rows(1, lost),
        "UPDATE audit_progress SET usage_size = $3 WHERE tenant_id = $1 AND usage_size = $2",
        [from.into(), to.into()],
    );
    for (key, sums) in sums {
        add_sums(&mut change, key, sums);
    }
    change
}

fn add_sums(change: &mut Change, (day, agent, tool): (String, Uuid, Uuid), sums: UsageSums) {
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
    change.then(
        "INSERT INTO usage (tenant_id, day, agent_id, tool_id, calls, failed, cached, duration_ms, units, cost_micros,
            reported_micros, questions, unpriced, input_tokens, cached_tokens, output_tokens)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
         ON CONFLICT (tenant_id, day, agent_id, tool_id) DO UPDATE SET calls = usage.calls + excluded.calls,
            failed = usage.failed + excluded.failed, cached = usage.cached + excluded.cached,
            duration_ms = usage.duration_ms + excluded.duration_ms, units = usage.units + excluded.units,
            cost_micros = usage.cost_micros + excluded.cost_micros,
            reported_micros = usage.reported_micros + excluded.reported_micros,
            questions = usage.questions + excluded.questions, unpriced = usage.unpriced + excluded.unpriced,
            input_tokens = usage.input_tokens + excluded.input_tokens,
            cached_tokens = usage.cached_tokens + excluded.cached_tokens,
            output_tokens = usage.output_tokens + excluded.output_tokens",
        [
            day.into(),
            agent.into(),
            tool.into(),
            calls.into(),
            failed.into(),
            cached.into(),
            duration_ms.into(),
            units.into(),
            cost.micros().into(),
            reported.micros().into(),
            questions.into(),
            unpriced.into(),
            input_tokens.into(),
            cached_tokens.into(),
            output_tokens.into(),
        ],
    );
}
