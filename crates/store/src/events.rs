//! A run's log: appended with what it tells, numbered without a gap, read from any place on.
//!
//! The events of one change share a row. A run with a row of its own counts its events there, in the same
//! transaction; a lone call's run is written by one process alone, which counts for itself.

use serde_json::Value as Json;
use toolgate_contracts::event::{Event, EventType, NewEvent};
use toolgate_contracts::{CallId, RunId, TenantId, Timestamp};

use crate::change::Change;
use crate::error::Error;
use crate::runs::Run;
use crate::scope::Scope;
use crate::{Kind, Row, Store};

/// Where the next events of a run go.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// The run has a row that counts.
    Counted,
    /// A lone call: the first of these events has this number.
    At(u64),
}

/// Where a follower of a whole tenant is: behind this row, in the order of commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub commit: i64,
    pub run: RunIdBytes,
    pub seq: u64,
}

/// Orders runs within one commit; zero is before all.
pub type RunIdBytes = u128;

impl Position {
    pub fn text(self) -> String {
        format!("{}-{:032x}-{}", self.commit, self.run, self.seq)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '-');
        let commit = parts.next()?.parse().ok()?;
        let run = u128::from_str_radix(parts.next()?, 16).ok()?;
        Some(Self { commit, run, seq: parts.next()?.parse().ok()? })
    }
}

impl Change {
    pub fn append_events(
        &mut self,
        run: RunId,
        place: Place,
        call: Option<CallId>,
        events: &[NewEvent],
        at: Timestamp,
    ) -> &mut Self {
        if events.is_empty() {
            return self;
        }
        let count = i64::try_from(events.len()).unwrap_or(i64::MAX);
        let text = serde_json::to_string(events).unwrap_or_default();
        match place {
            Place::At(seq) => {
                let first = i64::try_from(seq).unwrap_or(i64::MAX);
                self.then(
                    "INSERT INTO events (tenant_id, run_id, seq, last_seq, call_id, events, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
                    [run.into(), first.into(), (first + count - 1).into(), call.into(), text.into(), at.into()],
                )
            }
            Place::Counted => {
                self.then(
                    "UPDATE runs SET event_seq = event_seq + $3, updated_at = $4 WHERE tenant_id = $1 AND id = $2",
                    [run.into(), count.into(), at.into()],
                );
                self.then(
                    "INSERT INTO events (tenant_id, run_id, seq, last_seq, call_id, events, created_at)
                     SELECT r.tenant_id, r.id, r.event_seq - CAST($3 AS bigint) + 1, r.event_seq, $4, $5, CAST($6 AS bigint)
                     FROM runs r WHERE r.tenant_id = $1 AND r.id = $2",
                    [run.into(), count.into(), call.into(), text.into(), at.into()],
                )
            }
        }
    }

    /// Output as it came, after the event `after_seq` of the run.
    pub fn append_part(
        &mut self,
        run: RunId,
        after_seq: u64,
        call: CallId,
        part: u64,
        text: &str,
        at: Timestamp,
    ) -> &mut Self {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.then(
            "INSERT INTO event_parts (tenant_id, run_id, after_seq, call_id, part, text, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
            [run.into(), number(after_seq).into(), call.into(), number(part).into(), text.into(), at.into()],
        )
    }
}

/// Under which id the words of a run's model are kept as they come: the run's own with every bit turned, which no call has.
/// (The run's own id is that of a lone call.)
pub fn of_model(run: RunId) -> CallId {
    CallId::from_uuid(uuid::Uuid::from_u128(!run.uuid().as_u128()))
}

/// Rows read at once; each holds a few events.
pub const ROWS_MAX: u32 = 200;

impl Store {
    /// The events of a run behind `after`, in order, at most a page; parts of output among them.
    pub async fn events(&self, tenant: TenantId, run: RunId, after: u64) -> Result<Vec<Event>, Error> {
        let scope = Scope::Tenant(tenant);
        let behind = i64::try_from(after).unwrap_or(i64::MAX);
        let sql = "SELECT run_id, seq, events FROM events
            WHERE tenant_id = $1 AND run_id = $2 AND last_seq > $3 ORDER BY seq LIMIT $4";
        let rows = self.query(&scope, sql, vec![run.into(), behind.into(), ROWS_MAX.into()]).await?;
        let mut events = Vec::new();
        for row in &rows {
            events.extend(unpacked(row)?.into_iter().filter(|event| event.seq.is_some_and(|seq| seq > after)));
        }
        Ok(events)
    }

    /// The newest events of one type that are of no recorded call, oldest first: of a run, or of the whole tree if it is a
    /// root.
    pub async fn events_without_call(
        &self,
        tenant: TenantId,
        run: &Run,
        event_type: EventType,
        limit: u32,
    ) -> Result<Vec<Event>, Error> {
        let runs = if run.root_run_id == run.id {
            "run_id IN (SELECT r.id FROM runs r WHERE r.tenant_id = $1 AND r.root_run_id = $2)"
        } else {
            "run_id = $2"
        };
        let sql = format!(
            "SELECT run_id, seq, events FROM events
             WHERE tenant_id = $1 AND {runs} AND call_id IS NULL AND events LIKE $3
             ORDER BY created_at DESC, seq DESC LIMIT $4"
        );
        let named = serde_json::to_value(event_type).unwrap_or_default();
        let parameters = vec![run.id.into(), format!("%{named}%").into(), limit.into()];
        let rows = self.query(&Scope::Tenant(tenant), &sql, parameters).await?;
        let mut events = Vec::new();
        for row in rows.iter().rev() {
            let of_type = |event: &Event| event.event_type == event_type && event.call_id.is_none();
            events.extend(unpacked(row)?.into_iter().filter(of_type));
        }
        Ok(events)
    }

    /// Output of a run as it came: the parts behind `after` (an `after_seq`, a call and a part number).
    pub async fn parts(
        &self,
        tenant: TenantId,
        run: RunId,
        after: (u64, Option<CallId>, u64),
    ) -> Result<Vec<Event>, Error> {
        let (seq, call, part) = after;
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let call = call.unwrap_or(CallId::from_uuid(uuid::Uuid::nil()));
        let sql = "SELECT after_seq, call_id, part, text, created_at FROM event_parts
            WHERE tenant_id = $1 AND run_id = $2
              AND (after_seq > $3 OR (after_seq = $3 AND (call_id > $4 OR (call_id = $4 AND part > $5))))
            ORDER BY after_seq, call_id, part LIMIT $6";
        let parameters = vec![run.into(), number(seq).into(), call.into(), number(part).into(), ROWS_MAX.into()];
        let rows = self.query(&Scope::Tenant(tenant), sql, parameters).await?;
        rows.iter().map(|row| output(run, row)).collect()
    }

    /// Output of one call behind `part`; it stands behind the event `after_seq`.
    pub async fn parts_of(
        &self,
        tenant: TenantId,
        run: RunId,
        (after_seq, call, part): (u64, CallId, u64),
    ) -> Result<Vec<Event>, Error> {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let sql = "SELECT after_seq, call_id, part, text, created_at FROM event_parts
            WHERE tenant_id = $1 AND run_id = $2 AND after_seq = $3 AND call_id = $4 AND part > $5 ORDER BY part LIMIT $6";
        let parameters = vec![run.into(), number(after_seq).into(), call.into(), number(part).into(), ROWS_MAX.into()];
        let rows = self.query(&Scope::Tenant(tenant), sql, parameters).await?;
        rows.iter().map(|row| output(run, row)).collect()
    }

    /// How many parts of a call's output are kept behind the event `after_seq`, and how many bytes they are.
    pub async fn parts_told(
        &self,
        tenant: TenantId,
        run: RunId,
        after_seq: u64,
        call: CallId,
    ) -> Result<(u64, u64), Error> {
        let sql = "SELECT coalesce(max(part), 0), CAST(coalesce(sum(octet_length(text)), 0) AS bigint) FROM event_parts
            WHERE tenant_id = $1 AND run_id = $2 AND after_seq = $3 AND call_id = $4";
        let after = i64::try_from(after_seq).unwrap_or(i64::MAX);
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.into(), after.into(), call.into()]).await?;
        let Some(row) = rows.first() else { return Ok((0, 0)) };
        let number = |at: usize| -> Result<u64, Error> { Ok(u64::try_from(row.get::<i64>(at)?).unwrap_or_default()) };
        Ok((number(0)?, number(1)?))
    }

    /// The number of a call's first event in its run.
    pub async fn first_event_of(&self, tenant: TenantId, run: RunId, call: CallId) -> Result<u64, Error> {
        let sql = "SELECT coalesce(min(seq), 0) FROM events WHERE tenant_id = $1 AND run_id = $2 AND call_id = $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.into(), call.into()]).await?;
        let first: i64 = rows.first().map_or(Ok(0), |row| row.get(0))?;
        Ok(u64::try_from(first).unwrap_or_default())
    }

    /// The number of the last event of a run that has a row of its own.
    pub async fn last_event_of(&self, tenant: TenantId, run: RunId) -> Result<u64, Error> {
        let sql = "SELECT event_seq FROM runs WHERE tenant_id = $1 AND id = $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.into()]).await?;
        let last: i64 = rows.first().map_or(Ok(0), |row| row.get(0))?;
        Ok(u64::try_from(last).unwrap_or_default())
    }

    /// The tenant's events behind `after`, in the order of their commits, each with where it stands.
    pub async fn tenant_events(&self, tenant: TenantId, after: Position) -> Result<Vec<(Position, Event)>, Error> {
        let Position { commit, run, seq } = after;
        // A row of a transaction that may still be open is not shown, so nothing can appear before what was read.
        let sql = match self.kind() {
            Kind::Sqlite => {
                "SELECT run_id, seq, events, rowid FROM events
                 WHERE tenant_id = $1 AND rowid >= $2 AND (rowid > $2 OR last_seq > $4) AND $3 IS NOT NULL
                 ORDER BY rowid LIMIT $5"
            }
            Kind::Postgres => {
                "SELECT run_id, seq, events, position::text::bigint FROM events
                 WHERE tenant_id = $1 AND position >= $2::bigint::text::xid8 AND position < pg_snapshot_xmin(pg_current_snapshot())
                   AND (position > $2::bigint::text::xid8 OR run_id > $3 OR (run_id = $3 AND last_seq > $4))
                 ORDER BY position, run_id, seq LIMIT $5"
            }
        };
        let run = RunId::from_uuid(uuid::Uuid::from_u128(run));
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        let parameters = vec![commit.into(), run.into(), seq.into(), ROWS_MAX.into()];
        let rows = self.query(&Scope::Tenant(tenant), sql, parameters).await?;
        let mut events = Vec::new();
        for row in &rows {
            let commit: i64 = row.get(3)?;
            for event in unpacked(row)? {
                let at = Position { commit, run: event.run_id.uuid().as_u128(), seq: event.seq.unwrap_or(0) };
                let seen = match self.kind() {
                    Kind::Sqlite => (at.commit, at.seq) <= (after.commit, after.seq),
                    Kind::Postgres => at <= after,
                };
                if !seen {
                    events.push((at, event));
                }
            }
        }
        Ok(events)
    }

    /// The number of a run's last event.
    pub async fn last_event(&self, tenant: TenantId, run: RunId) -> Result<u64, Error> {
        let sql = "SELECT coalesce(max(last_seq), 0) FROM events WHERE tenant_id = $1 AND run_id = $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![run.into()]).await?;
        let last: i64 = rows.first().map_or(Ok(0), |row| row.get(0))?;
        Ok(u64::try_from(last).unwrap_or_default())
    }

    /// Where the tenant's events end now.
    pub async fn last_position(&self, tenant: TenantId) -> Result<Position, Error> {
        let sql = match self.kind() {
            Kind::Sqlite => "SELECT coalesce(max(rowid), 0) FROM events WHERE tenant_id = $1",
            Kind::Postgres => {
                "SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1) FROM tenants WHERE id = $1"
            }
        };
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![]).await?;
        let commit = rows.first().map_or(Ok(0), |row| row.get(0))?;
        Ok(Position { commit, run: u128::MAX, seq: u64::from(u32::MAX) })
    }
}

fn unpacked(row: &Row) -> Result<Vec<Event>, Error> {
    let run: RunId = row.get(0)?;
    let first: i64 = row.get(1)?;
    let events: Vec<NewEvent> = row.json(2)?;
    let first = u64::try_from(first).unwrap_or_default();
    Ok((first..)
        .zip(events)
        .map(|(seq, NewEvent { event_type, call_id, at, actor, data })| Event {
            seq: Some(seq),
            after_seq: None,
            part: None,
            run_id: run,
            call_id,
            event_type,
            at,
            actor,
            data,
        })
        .collect())
}

fn output(run: RunId, row: &Row) -> Result<Event, Error> {
    let number = |at: usize| -> Result<u64, Error> { Ok(u64::try_from(row.get::<i64>(at)?).unwrap_or_default()) };
    let text: String = row.get(3)?;
    let call: CallId = row.get(1)?;
    Ok(Event {
        seq: None,
        after_seq: Some(number(0)?),
        part: Some(number(2)?),
        run_id: run,
        call_id: Some(call),
        event_type: if call == of_model(run) { EventType::ModelDelta } else { EventType::ToolOutputAppended },
        at: row.get(4)?,
        actor: String::new(),
        data: [("text".to_owned(), Json::from(text))].into_iter().collect(),
    })
}
