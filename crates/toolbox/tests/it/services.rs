//! Servers on loopback that tests answer for, and the shipped tools with what an operator configured for them.

use std::sync::Arc;

use serde_json::Value;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::secret::SecretAllowed;
use toolgate_contracts::{Caller, Entries, OpeningSpec, Principal, Role, Scheme, TenantId};
use toolgate_engine::{Call, Outcome, Runner as _, testing};
use toolgate_toolbox::{Builtin, Tools};
use toolgate_vault::Secret;

pub use crate::server::{Server, answer, json_answer};
use crate::world::World;

/// What a request asks for: `GET /path?query`.
pub fn target(request: &str) -> &str {
    let line = request.lines().next().unwrap();
    line.strip_suffix(" HTTP/1.1").unwrap()
}

/// Opens a port of this machine for all, as an operator would.
pub async fn open_port(world: &World, port: u16) {
    let caller = Caller {
        tenant: TenantId::SYSTEM,
        tenant_slug: "system".parse().unwrap(),
        principal: Principal::Local(0),
        display_name: "operator".into(),
        permissions: Role::Operator.permissions().into(),
        roles: Arc::new([Role::Operator]),
        agent: None,
        credential: Credential::LocalFolder,
        token: None,
    };
    let spec = OpeningSpec {
        host: "127.0.0.1".parse().unwrap(),
        port,
        scheme: Scheme::Http,
        tenants: None,
        tools: None,
        reason: "a test".into(),
        expires_at: None,
    };
    world.tools.registry.open_host(&caller, spec).await.unwrap();
}

/// The runner with these entries.
pub fn with_entries(world: &World, entries: &Value) -> Builtin {
    let entries: Entries = serde_json::from_value(entries.clone()).unwrap();
    Builtin::new(Tools { entries: Arc::new(entries), ..world.tools.clone() })
}

/// A secret that may go to these hosts.
pub fn secret(name: &str, value: &str, hosts: &[&str]) -> Secret {
    let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
    Secret::new(name, value.as_bytes().to_vec()).allowing(SecretAllowed { hosts, ..SecretAllowed::default() })
}

pub async fn run(runner: &Builtin, call: Call, secrets: Vec<Secret>) -> Outcome {
    runner.run(testing::permit_with(call, secrets)).await
}
