//! Group commit: changes per second at 1, 8 and 64 callers, at both durabilities; the baseline is one caller.

use std::time::Instant;

use toolgate_contracts::{Clock, Id, Rng, TenantId};
use toolgate_store::audit::Entry;
use toolgate_store::people::Tenant;
use toolgate_store::{Change, Durability, Store};

use crate::report::{Report, cpu_time, micros};

const CHANGES: u32 = 4_000;

type Failure = Box<dyn std::error::Error>;

pub async fn run(report: &mut Report) -> Result<(), Failure> {
    for make in ["sqlite", "postgres"] {
        let Some(database) = crate::lists::database(make).await else { continue };
        let store = database.open().await;
        measure(report, make, &store).await?;
        store.close().await?;
    }
    Ok(())
}

async fn measure(report: &mut Report, database: &str, store: &Store) -> Result<(), Failure> {
    let (clock, rng) = (Clock::System, Rng::System);
    let tenant = TenantId::new(&clock, &rng);
    let mut change = Change::new(tenant);
    let row = Tenant {
        id: tenant,
        slug: "bench".parse()?,
        name: "Bench".into(),
        currency: "USD".into(),
        open_write: false,
        limits: toolgate_contracts::TenantLimits::default(),
        settings: toolgate_contracts::TenantSettings::default(),
        policy_revision: 0,
        created_at: clock.now(),
    };
    change.insert_tenant(&row);
    store.commit(change).await?;
    for durability in [Durability::Process, Durability::Disk] {
        let mut alone = None;
        for callers in [1_u32, 8, 64] {
            let (start, cpu) = (Instant::now(), cpu_time());
            let mut tasks = Vec::new();
            for _ in 0..callers {
                let (store, clock, rng) = (store.clone(), clock.clone(), rng.clone());
                tasks.push(tokio::spawn(async move {
                    for _ in 0..CHANGES / callers {
                        let mut change = Change::new(tenant).durability(durability);
                        change.audit(&entry(tenant, &clock, &rng));
                        store.commit(change).await?;
                    }
                    Ok::<_, toolgate_store::Error>(())
                }));
            }
            for task in tasks {
                task.await??;
            }
            let per_second = f64::from(CHANGES) / start.elapsed().as_secs_f64();
            let cpu = micros(&cpu_time().saturating_sub(cpu)) / f64::from(CHANGES);
            let base = *alone.get_or_insert(per_second);
            report.line(format!("{database}: {durability:?}, {callers} callers"), "1/s", per_second, Some(base));
            report.line(
                format!("{database}: {durability:?}, {callers} callers, CPU of this process per change"),
                "us",
                cpu,
                None,
            );
        }
    }
    Ok(())
}

fn entry(tenant: TenantId, clock: &Clock, rng: &Rng) -> Entry {
    Entry {
        id: Id::new(clock, rng),
        at: clock.now(),
        tenant,
        actor: "local:0".into(),
        action: "bench.commit".into(),
        object: "x".repeat(400),
        details: serde_json::Map::new(),
    }
}
