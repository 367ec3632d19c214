//! A tenant with everything switched on: policies of which some read an argument, and guardrails on arguments and
//! results. What a call costs then is what a careful tenant pays.

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{Caller, Clock, Permissions, Principal, Rng, Role, json as strict};
use toolgate_policy::cedar::DEFAULT;
use toolgate_server::App;

use super::inside::told;
use crate::Failure;

/// Which of the two actions have a policy that reads an argument of `echo`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    One,
    Both,
}

/// The default two, policies about others, and those that read the argument.
fn policies(count: usize, reads: Reads) -> String {
    let mut text = DEFAULT.to_owned();
    text.push_str(
        "@id(\"asks\") forbid (principal, action == Action::\"call_unattended\", resource == Tool::\"echo\") when \
         { context.args.text like \"*wire the money*\" };\n",
    );
    let mut written = 3;
    if reads == Reads::Both {
        text.push_str(
            "@id(\"denies\") forbid (principal, action == Action::\"call\", resource == Tool::\"echo\") when \
             { context.args.text like \"*rm -rf*\" };\n",
        );
        written += 1;
    }
    for number in written..count {
        let _ = match number % 3 {
            0 => writeln!(
                text,
                "@id(\"p{number}\") forbid (principal, action == Action::\"call\", resource == Tool::\"write_file\") \
                 when {{ context.args.path like \"*/{number}/*\" }};"
            ),
            1 => writeln!(
                text,
                "@id(\"p{number}\") forbid (principal, action == Action::\"call\", resource) when \
                 {{ principal.id == \"somebody {number}\" }};"
            ),
            _ => writeln!(
                text,
                "@id(\"p{number}\") forbid (principal, action == Action::\"call_unattended\", resource) when \
                 {{ resource.risk == \"critical\" && resource.category == \"category{number}\" }};"
            ),
        };
    }
    text
}

fn guardrails() -> [Value; 3] {
    let one = |name: &str, stage: &str, detector: &str| {
        json!({"version": 1, "name": name, "order": 1, "stage": stage, "on_match": "tripwire", "log_only": false,
            "detector": {"kind": "builtin", "name": detector}})
    };
    [
        one("no-secrets", "TOOL_CALL", "secrets"),
        one("nothing-hidden", "TOOL_CALL", "hidden_characters"),
        one("no-injection", "TOOL_RESULT", "injection"),
    ]
}

/// Whoever owns the folder of a bench, in its first tenant.
pub fn administrator(app: &App) -> Result<Caller, Failure> {
    let snapshot = app.registry.snapshot();
    let tenant = &snapshot.tenant_by_slug("default").map_err(told)?.tenant;
    Ok(Caller {
        tenant: tenant.id,
        tenant_slug: tenant.slug.clone(),
        principal: Principal::Local(0),
        display_name: "local user 0".to_owned(),
        permissions: Permissions::of([Role::Admin, Role::Operator]),
        roles: [Role::Admin, Role::Operator].into(),
        agent: None,
        credential: Credential::LocalFolder,
        token: None,
    })
}

/// Activates this many policies.
pub async fn decide_by(app: &App, count: usize, reads: Reads) -> Result<(), Failure> {
    let caller = administrator(app)?;
    let (judged, saved) = app.registry.save_policies(&caller, &policies(count, reads), None).await.map_err(told)?;
    let shown = || judged.findings.iter().map(|finding| finding.show("bench")).collect::<Vec<_>>().join("\n");
    let revision = saved.ok_or_else(shown)?.revision;
    app.registry.activate_policies(&caller, revision, None).await.map_err(told)?;
    Ok(())
}

pub async fn guard(app: &App) -> Result<(), Failure> {
    let caller = administrator(app)?;
    for guardrail in guardrails() {
        let guardrail = strict::decode(guardrail).map_err(|error| error.message)?;
        app.registry.put_guardrail(&caller, guardrail).await.map_err(told)?;
    }
    Ok(())
}

/// Opens a folder, dresses its tenant, and leaves it to a server.
pub async fn prepare(folder: &std::path::Path) -> Result<(), Failure> {
    let config = super::servers::configuration("", "auto")?;
    let app = App::open(config, folder, super::servers::CODE, Clock::System, Rng::System).await.map_err(told)?;
    decide_by(&app, 20, Reads::One).await?;
    guard(&app).await?;
    app.close().await;
    Ok(())
}
