//! Permits for the tests of runners, which stand above this crate and cannot be run without one.
//!
//! Behind the feature `testing`, which only dev-dependencies may switch on: `cargo xtask tidy` refuses any other.

#![expect(clippy::panic, reason = "a test that cannot have its permit fails")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::caller::Credential;
use toolgate_contracts::definition::TIMEOUT_MS_DEFAULT;
use toolgate_contracts::{
    Caller, Clock, Id, Mode, Permissions, Principal, Rng, RunId, Slug, Source, TenantId, ToolError,
};
use toolgate_registry::snapshot::ResolvedTool;
use toolgate_vault::Secret;

use crate::call::Call;
use crate::output;
use crate::permit::Permit;
use crate::runner::OutputSink;
use crate::secrets::Secrets;
use crate::telling::Telling;
use crate::uses::Uses;

/// A lone call of the data folder's owner, as validation would have let it through.
pub fn call(tenant: TenantId, tenant_slug: Slug, tool: ResolvedTool, input: Value, clock: &Clock, rng: &Rng) -> Call {
    let id = Id::new(clock, rng);
    let caller = Caller {
        tenant,
        tenant_slug: tenant_slug.clone(),
        principal: Principal::Local(0),
        display_name: "owner".to_owned(),
        permissions: Permissions::default(),
        roles: Arc::default(),
        agent: None,
        credential: Credential::LocalFolder,
        token: None,
    };
    Call {
        id,
        call_id: format!("c_{id}"),
        tenant,
        tenant_slug,
        run: RunId::from_uuid(id.uuid()),
        in_run: false,
        step: None,
        seq: 0,
        principal: Principal::Local(0),
        caller,
        source: Source::Cli,
        agent: None,
        rights: Permissions::default(),
        mode: Mode::Execute,
        examining: false,
        timeout: Duration::from_millis(tool.definition.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)),
        tool,
        input: Arc::new(input),
        lent: None,
        beside: None,
        secrets: Vec::new(),
        created_at: clock.now(),
        cancel: CancellationToken::new(),
        output: OutputSink::default(),
        uses: Uses::default(),
        telling: Telling::default(),
    }
}

/// The permit of a first attempt, without any of the steps that a call goes through to get one.
pub fn permit(call: Call) -> Permit {
    permit_with(call, Vec::new())
}

/// The same, with secrets as if they had been found and opened.
pub fn permit_with(call: Call, secrets: Vec<Secret>) -> Permit {
    Permit::issue(Arc::new(call), 1, &Arc::new(open(secrets)), None)
        .unwrap_or_else(|| panic!("a first attempt is always permitted"))
}

/// A runner's error as the gate tells it: without these secrets, and then cut.
pub fn told(error: ToolError, secrets: Vec<Secret>) -> ToolError {
    output::redacted(error, open(secrets).redactor())
}

fn open(secrets: Vec<Secret>) -> Secrets {
    Secrets::new(secrets).unwrap_or_else(|fault| panic!("{}", fault.told()))
}

/// What a runner has written to a buffered sink since it was last asked.
pub fn written(sink: &OutputSink) -> String {
    sink.take()
}
