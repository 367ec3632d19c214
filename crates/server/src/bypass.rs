//! The development bypass: a call that a person must approve runs without one, on a server that was started for that and
//! that nobody else can reach.
//!
//! Three walls: the configuration refuses to start such a server anywhere but on loopback and SQLite; each request is
//! judged by itself; the engine writes an entry for each use. What is refused is written down too. Deliberately absent:
//! a way to use it by a browser, an agent, a token or a batch.

use axum::http::HeaderMap;
use serde_json::{Value, json};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::{Caller, Fault, FaultKind, Role};
use toolgate_engine::Manner;
use toolgate_store::Change;

use crate::app::App;
use crate::config::Config;

/// On every answer of a server with the bypass on.
pub const WARNING_HEADER: &str = "toolgate-warning";
pub const WARNING: &str = "development bypass: calls may run without anybody's approval";
/// The member of a call's body that asks for it.
const MEMBER: &str = "bypass_approval";

/// What only a proxy, or somebody who speaks for another, sends.
const FORWARDING: [&str; 8] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-forwarded-server",
    "x-real-ip",
];

pub fn is_on(config: &Config) -> bool {
    config.get("dev_bypass") == "true"
}

/// Takes the wish for the bypass out of a call's body, and says whether it is granted. A wish that is not is no call.
pub async fn wanted(app: &App, caller: &Caller, headers: &HeaderMap, body: &mut Value) -> Result<Manner, Fault> {
    let wish = body.as_object_mut().and_then(|members| members.remove(MEMBER));
    match wish {
        None | Some(Value::Bool(false)) => return Ok(Manner::Ordinary),
        Some(Value::Bool(true)) => {}
        Some(_) => {
            let told = format!("`{MEMBER}` is neither true nor false");
            return Err(Fault::invalid(told, "leave it out").at("/bypass_approval"));
        }
    }
    let Err((why, remedy)) = judge(app, caller, headers) else { return Ok(Manner::Unasked) };
    let mut change = Change::new(caller.tenant);
    let tool = body["tool"].as_str().unwrap_or_default().chars().take(200).collect::<String>();
    change.audit(&app.entry(caller, caller.tenant, "approval.bypass_refused", &tool, json!({"why": why})));
    app.store.commit(change).await?;
    Err(Fault::new(FaultKind::Forbidden, format!("the approval is not skipped: {why}"), remedy).at("/bypass_approval"))
}

fn judge(app: &App, caller: &Caller, headers: &HeaderMap) -> Result<(), (String, &'static str)> {
    if !is_on(&app.config) {
        let remedy = "have a person approve it; to develop, start a server of your own with `dev_bypass: true`";
        return Err(("this server has no development bypass".to_owned(), remedy));
    }
    if !app.listening.get().is_some_and(|address| address.ip().is_loopback()) {
        return Err(("no server listens on this machine alone".to_owned(), "start one with `toolgate serve`"));
    }
    if let Some(name) = FORWARDING.into_iter().find(|name| headers.contains_key(*name)) {
        return Err((format!("the request was forwarded (`{name}`)"), "send it to the server itself"));
    }
    let by_key = matches!(caller.credential, Credential::ApiKey(_)) && caller.agent.is_none();
    if !by_key || !caller.roles.contains(&Role::Service) {
        let remedy = "use a key of a user with the role `service`";
        return Err((format!("{} has not the role `service`", caller.display_name), remedy));
    }
    Ok(())
}
