//! "Why is it not working", answered before anybody has to ask.

use serde::Serialize;
use toolgate_contracts::TenantId;

use crate::app::App;
use crate::tls::Pair;

/// A certificate that ends sooner is worth a word.
const CERTIFICATE_DAYS_MIN: i64 = 14;
const DAY_S: i64 = 86_400;

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
    checks.push(serving(app));
    checks.extend(certificate(app));
    if crate::bypass::is_on(&app.config) {
        let remedy = "set `dev_bypass` to false unless you develop on this machine";
        checks.push(Check::bad("approvals", crate::bypass::WARNING, remedy));
    }
    checks.push(shadowed(app));
    checks.extend(app.wrong_entries.all().map(|wrong| {
        let remedy = "correct that line of the entries (docs/entries.md), then start the server again";
        Check::bad("entry", wrong.problem(), remedy)
    }));
    checks.extend(app.engine.needs().await.into_iter().map(|need| {
        if need.is_met {
            return Check::good(need.name, need.found);
        }
        Check::bad(need.name, need.found, "correct the entry (docs/entries.md), then start the server again")
    }));
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

/// How others reach this server, and whether what the configuration says of it fits together.
fn serving(app: &App) -> Check {
    let config = &app.config;
    let url = app.base_url();
    if config.is_https() && !config.has_tls() && config.proxies().is_empty() {
        return Check::bad(
            "serving",
            format!("`public_url` is {url}, but this server speaks no TLS and trusts no proxy that does"),
            "set `tls_cert` and `tls_key`, or name the proxy in `trusted_proxies`",
        );
    }
    if config.has_tls() && !config.is_https() {
        return Check::bad(
            "serving",
            format!("`public_url` is {url}, but this server speaks TLS"),
            "write it with https://, so that links work and cookies are kept from plain connections",
        );
    }
    Check::good("serving", url)
}

fn certificate(app: &App) -> Option<Check> {
    let (cert, key) = app.config.tls_files(&app.data)?;
    let pair = match Pair::read(&cert, &key) {
        Ok(pair) => pair,
        Err(fault) => return Some(Check::bad("certificate", fault.told(), fault.remedy())),
    };
    let now = app.clock.now();
    let renew = "renew it: the files are read again when they change";
    Some(if pair.not_after <= now {
        Check::bad("certificate", format!("expired at {}", pair.not_after), renew)
    } else if pair.not_before > now {
        Check::bad("certificate", format!("holds only from {}", pair.not_before), "check the clock of this machine")
    } else if pair.not_after <= now.plus_seconds(CERTIFICATE_DAYS_MIN * DAY_S) {
        Check::bad("certificate", format!("expires soon, at {}", pair.not_after), renew)
    } else if pair.is_key_exposed {
        Check::bad("certificate", format!("everybody here can read {}", key.display()), "set its mode to 0600")
    } else {
        Check::good("certificate", format!("until {}", pair.not_after))
    })
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
