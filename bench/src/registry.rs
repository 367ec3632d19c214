//! What a change of configuration costs where there are 10,000 tools: reading the catalog and building the snapshot.

use std::time::Instant;

use serde_json::json;
use toolgate_contracts::definition::Origin;
use toolgate_contracts::{Clock, Definition, Id, Rng, TenantId, json as strict};
use toolgate_registry::Snapshot;
use toolgate_store::catalog::{Guarded, Lifecycle, Tool, Version};
use toolgate_store::people::Tenant;
use toolgate_store::{Change, Store};

use crate::report::{Report, cpu_time, micros};

type Failure = Box<dyn std::error::Error>;

pub async fn run(report: &mut Report) -> Result<(), Failure> {
    for make in ["sqlite", "postgres"] {
        let Some(database) = crate::lists::database(make).await else { continue };
        let store = database.open().await;
        let mut base = None;
        for tools in [100_u32, 10_000] {
            fill(&store, tools).await?;
            let (start, cpu) = (Instant::now(), cpu_time());
            let catalog = store.catalog().await?;
            let read = micros(&start.elapsed());
            let snapshot = Snapshot::build(catalog);
            let listed: usize = snapshot.tenants().map(|tenant| tenant.tools().count()).sum();
            let whole = micros(&start.elapsed());
            let spent = micros(&cpu_time().saturating_sub(cpu));
            let (read_base, whole_base) = *base.get_or_insert((read, whole));
            report.line(
                format!("{make}: read a catalog of {listed} tools (baseline: 100)"),
                "us",
                read,
                Some(read_base),
            );
            report.line(format!("{make}: read it, build the snapshot and its names"), "us", whole, Some(whole_base));
            report.line(format!("{make}: CPU of that"), "us", spent, None);
        }
        store.close().await?;
    }
    Ok(())
}

async fn fill(store: &Store, tools: u32) -> Result<(), Failure> {
    let (clock, rng) = (Clock::System, Rng::System);
    let tenant = TenantId::new(&clock, &rng);
    let now = clock.now();
    let mut change = Change::new(tenant);
    let slug = format!("bench{tools}").parse()?;
    change.insert_tenant(&Tenant {
        id: tenant,
        slug,
        name: "B".into(),
        currency: "USD".into(),
        open_write: false,
        limits: toolgate_contracts::TenantLimits::default(),
        settings: toolgate_contracts::TenantSettings::default(),
        policy_revision: 0,
        created_at: now,
    });
    store.commit(change).await?;
    for batch in (0..tools).collect::<Vec<_>>().chunks(500) {
        let mut change = Change::new(tenant);
        for number in batch {
            let definition = definition(*number)?;
            let id = Id::new(&clock, &rng);
            let row = Tool { tenant, id, name: definition.name.clone(), origin: Origin::Tenant, created_at: now };
            change.insert_tool(&row, Guarded::from(&definition));
            change.insert_version(&Version {
                tenant,
                id: Id::new(&clock, &rng),
                tool: id,
                version: semver::Version::new(1, 0, 0),
                definition_digest: definition.definition_digest(),
                behaviour_digest: definition.behaviour_digest(),
                definition,
                source: None,
                lifecycle: Lifecycle::ACTIVE,
                published_by: "bench".into(),
                created_at: now,
            });
        }
        store.commit(change).await?;
    }
    Ok(())
}

fn definition(number: u32) -> Result<Definition, Failure> {
    Ok(strict::decode(json!({
        "name": format!("readThing{number}"), "version": "1.0.0",
        "description": "Reads one thing by its number. Use it when the number is known. Do not use it to search.",
        "tags": ["thing", "read"], "category": "data/management", "egress_class": "read_only",
        "input_schema": {"type": "object", "additionalProperties": false, "required": ["id"], "properties": {
            "id": {"type": "string", "description": format!("The number of thing {number}."), "maxLength": 40},
            "part": {"type": "string", "description": "Only this part.", "enum": ["head", "body"]}}},
        "output_schema": {"type": "object", "properties": {"title": {"type": "string", "description": "Its title."}}},
        "runner": {"kind": "http", "method": "GET", "url": "https://things.example.com/{{ id }}"},
    }))?)
}
