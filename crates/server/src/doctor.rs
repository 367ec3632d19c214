//! "Why is it not working", answered before anybody has to ask.

use serde::Serialize;
use toolgate_contracts::TenantId;

use crate::app::App;

#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub ok: bool,
    pub found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, ok: true, found: found.into(), remedy: None }
    }

    fn bad(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, ok: false, found: found.into(), remedy: Some(remedy.into()) }
    }
}

pub async fn checks(app: &App) -> Vec<Check> {
    let mut checks = vec![Check::good("version", env!("CARGO_PKG_VERSION")), data_folder(app)];
    checks.push(match app.store.ping().await {
        Ok(()) => Check::good("database", format!("{} answers", app.store.kind().as_str())),
        Err(error) => Check::bad("database", error.to_string(), "check that it runs and that `database` names it"),
    });
    checks.push(match app.store.migration_state().await {
        Ok(state) if state.applied == state.known => {
            Check::good("migrations", format!("{} of {}", state.applied, state.known))
        }
        Ok(state) => {
            Check::bad("migrations", format!("{} of {}", state.applied, state.known), "run `toolgate db migrate`")
        }
        Err(error) => Check::bad("migrations", error.to_string(), "use the Toolgate that made this database"),
    });
    checks.push(shadowed(app));
    checks.push(match app.store.unreadable_rows().await {
        Ok(rows) if rows.is_empty() => Check::good("rows", "all can be read"),
        Ok(rows) => {
            Check::bad("rows", format!("left out: {}", rows.join("; ")), "restore a backup, or remove the rows")
        }
        Err(error) => Check::bad("rows", error.to_string(), "restore a backup"),
    });
    let snapshot = app.registry.snapshot();
    checks.push(Check::good(
        "registry",
        format!("revision {}, {} tenants", snapshot.revision, snapshot.tenants().count()),
    ));
    checks
}

fn data_folder(app: &App) -> Check {
    let probe = app.data.join(".doctor");
    match std::fs::write(&probe, b"x").and_then(|()| std::fs::remove_file(&probe)) {
        Ok(()) => Check::good("data folder", app.data.display().to_string()),
        Err(error) => Check::bad(
            "data folder",
            format!("{}: {error}", app.data.display()),
            "check its owner, its mode and the free space",
        ),
    }
}

/// A shipped tool that came later than a tenant's own of the same name stands behind it.
fn shadowed(app: &App) -> Check {
    let snapshot = app.registry.snapshot();
    let Ok(system) = snapshot.tenant(TenantId::SYSTEM) else {
        return Check::bad("tool names", "no system tenant", "restore a backup");
    };
    let behind: Vec<_> = snapshot
        .tenants()
        .flat_map(|registry| {
            registry.tools().filter(|tool| tool.tool.tenant == registry.tenant.id).map(move |tool| (registry, tool))
        })
        .filter(|(registry, tool)| registry.tenant.id != TenantId::SYSTEM && system.find(&tool.tool.name, "").is_some())
        .map(|(registry, tool)| format!("{} in {}", tool.tool.name, registry.tenant.slug))
        .collect();
    if behind.is_empty() {
        return Check::good("tool names", "no tenant's tool hides a shared one");
    }
    Check::bad(
        "tool names",
        format!("hide shared tools: {}", behind.join(", ")),
        "register those tools under other names",
    )
}
