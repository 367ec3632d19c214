//! What runs tools, wired once at the start: one runner for each `kind` of `contracts::Runner`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, broadcast, mpsc};
use toolgate_contracts::call::AttachmentKind;
use toolgate_contracts::definition::Label;
use toolgate_contracts::plugin::ReadPlugin;
use toolgate_contracts::upstream::Listing;
use toolgate_contracts::{
    Amount, Definition, Digest, ErrorCode, Fault, FaultKind, Permission, Principal, ResolvedSecret, SecretPlace,
    SecretScope, Slug, TenantId, Timestamp, ToolError, ToolResult, Upstream, UpstreamHealth,
};

use crate::call::Call;
use crate::permit::Permit;
use crate::secrets::Secrets;

/// Object-safe: runners are wired at start.
pub trait Runner: Send + Sync {
    /// Runs the call. The permit is consumed: one permit, one run. A runner listens to `call.cancel` where it can; one
    /// that does not is dropped, and for a call with effects that means that nobody knows how it ended.
    fn run(&self, permit: Permit) -> BoxFuture<'_, Outcome>;

    /// What running would do, without doing it: no permit, no secrets.
    fn plan<'a>(&'a self, _call: &'a Call) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(std::future::ready(Ok(json!({"would_run": true}))))
    }

    /// Whether it could run this tool now, for `tool preflight`; asks nobody outside for longer than a moment.
    fn ready<'a>(&'a self, _definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The same for one tenant, where what it needs is given to some and not to others.
    fn ready_for<'a>(&'a self, _tenant: &'a Slug, definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        self.ready(definition)
    }

    /// What is wrong with a definition that only its runner can tell, before it is saved. `line` of the details is one of
    /// its code.
    fn examine<'a>(&'a self, _definition: &'a Definition) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The right that a call needs beside the one to call, where whoever approves it may lend it: what it changes is then
    /// changed by their right, and by nobody's without them.
    fn borrows(&self, _definition: &Definition, _input: &Value) -> Option<Permission> {
        None
    }

    /// What a call may take, where the runner knows more of it than the definition says: it is held until it is known what
    /// the call took.
    fn foresees(&self, _tenant: TenantId, _definition: &Definition, _input: &Value) -> Option<Foreseen> {
        None
    }

    /// Why no call of this tool runs here, whatever its input; told in lists, where nobody waits.
    fn refuses(&self, _definition: &Definition) -> Option<ToolError> {
        None
    }

    fn needs(&self) -> BoxFuture<'_, Vec<Need>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// What a component says of itself, before it is installed. Only the runner of plug-ins knows.
    fn read_plugin(&self, _component: Vec<u8>) -> BoxFuture<'_, Result<ReadPlugin, Fault>> {
        Box::pin(std::future::ready(Err(no_plugins())))
    }

    /// A plug-in was removed: what was kept for it is not needed any more.
    fn forget_plugin(&self, _digest: Digest) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Where a server of others is, by what it says and by the operator's entry. Only the runner of such servers knows.
    fn upstream_place(&self, _tenant: &Slug, _upstream: &Upstream) -> Result<Digest, Fault> {
        Err(no_upstreams())
    }

    /// What a server of others offers now.
    fn list_upstream(&self, _asked: UpstreamAsked) -> BoxFuture<'_, Result<Listing, Fault>> {
        Box::pin(std::future::ready(Err(no_upstreams())))
    }

    /// What a server says that it can.
    fn upstream_capabilities(&self, _asked: UpstreamAsked) -> BoxFuture<'_, Result<Map<String, Value>, Fault>> {
        Box::pin(std::future::ready(Err(no_upstreams())))
    }

    /// All that a server lists of one kind beside its tools.
    fn list_of_upstream(&self, _asked: UpstreamAsked, _what: UpstreamList) -> BoxFuture<'_, Result<Vec<Value>, Fault>> {
        Box::pin(std::future::ready(Err(no_upstreams())))
    }

    /// What a server says of changes, of these resources too, as long as somebody listens.
    fn hear_upstream(
        &self,
        _asked: UpstreamAsked,
        _resources: Vec<String>,
    ) -> BoxFuture<'_, Result<mpsc::Receiver<UpstreamNews>, Fault>> {
        Box::pin(std::future::ready(Err(no_upstreams())))
    }

    /// How it stands with one, if anything is known here.
    fn upstream_health(&self, _tenant: TenantId, _name: &Slug) -> Option<UpstreamHealth> {
        None
    }

    /// Begins to connect somebody with a server that wants tokens: the address that a person opens in a browser.
    fn connect_upstream(&self, _asked: UpstreamAsked, _connecting: Connecting) -> BoxFuture<'_, Result<String, Fault>> {
        Box::pin(std::future::ready(Err(no_upstreams())))
    }

    /// Ends that with the address that the browser came back to: keeps the tokens, and says what they are good for.
    fn connected_upstream(
        &self,
        _asked: UpstreamAsked,
        _connecting: Connecting,
        _back: String,
    ) -> BoxFuture<'_, Result<Connection, Fault>> {
        Box::pin(std::future::ready(Err(no_upstreams())))
    }

    /// Which connection with a server is kept at a place, by a name that the next one does not have.
    fn upstream_connection<'a>(
        &'a self,
        _tenant: TenantId,
        _place: SecretPlace,
        _name: &'a Slug,
    ) -> BoxFuture<'a, Result<Option<String>, Fault>> {
        Box::pin(std::future::ready(Err(no_upstreams())))
    }

    /// A server was removed or changed: what is open to it ends.
    fn forget_upstream<'a>(&'a self, _tenant: TenantId, _name: &'a Slug) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Servers that say that they offer something else now.
    fn upstream_news(&self) -> Option<broadcast::Receiver<(TenantId, Slug)>> {
        None
    }

    /// The program ends: what was started here ends before it.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A server to be asked, and what it is given.
#[derive(Clone, Debug)]
pub struct UpstreamAsked {
    pub tenant: TenantId,
    pub tenant_slug: Slug,
    /// Who asks, where the answer is for them: whoever is spoken with apart from others asks over their own link.
    pub principal: Option<Principal>,
    pub upstream: Upstream,
    pub secrets: Arc<Secrets>,
    /// Which they are.
    pub found: Vec<ResolvedSecret>,
}

/// What a server lists beside its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamList {
    Prompts,
    Resources,
    Templates,
}

/// What a server says of itself while somebody listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamNews {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

/// Who is connected with a server.
#[derive(Clone, Debug)]
pub struct Connecting {
    /// Whose the tokens are.
    pub place: SecretPlace,
    /// Who does it.
    pub by: String,
    /// Where the browser comes back to.
    pub redirect: String,
    /// The address of a document about this server, for authorisation servers that read such.
    pub document: Option<String>,
}

/// What a connection is good for.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Connection {
    pub scope: SecretScope,
    /// Who gave the tokens.
    pub issuer: String,
    /// What they are good for, in the words of whoever gave them.
    pub granted: Option<String>,
    /// They are renewed without anybody.
    pub renews: bool,
    pub expires_at: Option<Timestamp>,
}

fn no_upstreams() -> Fault {
    let told = "servers of others cannot be reached from this server";
    Fault::new(FaultKind::Unavailable, told, "`toolgate doctor` says what is missing")
}

fn no_plugins() -> Fault {
    Fault::new(FaultKind::Unavailable, "plug-ins cannot run on this server", "`toolgate doctor` says what is missing")
}

/// What a runner needs of this machine, and what it found; for `toolgate doctor`.
#[derive(Clone, Debug)]
pub struct Need {
    pub name: &'static str,
    pub found: String,
    /// Whether what the operator asked for is there.
    pub is_met: bool,
}

/// What a call that asks a model may take at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// `None` where nobody wrote a price, which is not the same as free.
    pub cost: Option<Amount>,
    pub tokens: u64,
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    Done(Done),
    /// It failed, and for a call with effects: nothing happened, or what happened is told in the error.
    Failed(ToolError),
    /// The same where it is known what that took. It is not tried again: whoever ran it did that.
    Spent {
        error: ToolError,
        cost: Option<Amount>,
        units: u64,
    },
    /// It may have happened or not. Only for calls with effects; another's counts as failed.
    Unknown(String),
    /// Carried out by somebody else's process, or by an agent, which will report.
    HandedOver,
}

#[derive(Debug, Default)]
pub struct Done {
    pub result: ToolResult,
    pub attachments: Vec<NewAttachment>,
    /// What reading it brings beside what the definition says: of the calls that it was made of.
    pub labels: Vec<Label>,
    /// Measured; absent: as declared.
    pub cost: Option<Amount>,
    /// How many of the definition's `cost.unit` were used.
    pub units: Option<u64>,
}

#[derive(Debug)]
pub struct NewAttachment {
    pub kind: AttachmentKind,
    pub content_type: String,
    pub bytes: Vec<u8>,
}

impl Outcome {
    pub fn structured(value: Value) -> Self {
        Self::Done(Done { result: ToolResult::structured(value), ..Done::default() })
    }

    pub fn failed(code: ErrorCode, reason: &str, message: impl Into<String>) -> Self {
        Self::Failed(ToolError::because(code, reason, message))
    }
}

impl From<ToolError> for Outcome {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

/// Output that waits to be written. At the bound a runner waits.
const PENDING_BYTES_MAX: usize = 64 * 1024;
/// From here on it is written before its time.
const CROWDED_BYTES: usize = 4 * 1024;

/// Where a runner writes output as it comes. Where nobody listens it goes nowhere.
#[derive(Clone, Debug, Default)]
pub struct OutputSink(Option<Arc<Buffer>>);

#[derive(Debug, Default)]
struct Buffer {
    pending: Mutex<String>,
    /// What follows is missing.
    broken_off: AtomicBool,
    arrived: Notify,
    crowded: Notify,
    drained: Notify,
}

impl OutputSink {
    pub fn buffered() -> Self {
        Self(Some(Arc::default()))
    }

    /// Waits while too much is pending, so that a chatty tool cannot fill the memory.
    pub async fn append(&self, text: impl AsRef<str>) {
        let Some(buffer) = &self.0 else { return };
        let text = text.as_ref();
        loop {
            let drained = buffer.drained.notified();
            {
                let mut pending = buffer.pending.lock().unwrap_or_else(PoisonError::into_inner);
                if pending.is_empty() || pending.len() + text.len() <= PENDING_BYTES_MAX {
                    pending.push_str(text);
                    break;
                }
            }
            drained.await;
        }
        buffer.arrived.notify_one();
        if buffer.pending.lock().unwrap_or_else(PoisonError::into_inner).len() >= CROWDED_BYTES {
            buffer.crowded.notify_one();
        }
    }

    /// Says that what was written is not all there was: its end may be the beginning of a secret, and is not shown then.
    pub fn break_off(&self) {
        if let Some(buffer) = &self.0 {
            buffer.broken_off.store(true, Ordering::Release);
        }
    }

    pub(crate) fn is_broken_off(&self) -> bool {
        self.0.as_ref().is_some_and(|buffer| buffer.broken_off.load(Ordering::Acquire))
    }

    /// Resolves when so much waits that it should be taken soon.
    pub(crate) async fn crowded(&self) {
        match &self.0 {
            Some(buffer) => buffer.crowded.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Resolves when there is output to take.
    pub(crate) async fn arrived(&self) {
        match &self.0 {
            Some(buffer) => buffer.arrived.notified().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn take(&self) -> String {
        let Some(buffer) = &self.0 else { return String::new() };
        let taken = std::mem::take(&mut *buffer.pending.lock().unwrap_or_else(PoisonError::into_inner));
        buffer.drained.notify_waiters();
        taken
    }
}

/// The runners of this program by kind. A kind without one is a tool that cannot run here, and says so.
#[derive(Clone, Default)]
pub struct Runners(HashMap<&'static str, Arc<dyn Runner>>);

impl Runners {
    #[must_use]
    pub fn with(mut self, kind: &'static str, runner: Arc<dyn Runner>) -> Self {
        self.0.insert(kind, runner);
        self
    }

    pub(crate) async fn needs(&self) -> Vec<Need> {
        let mut needs = Vec::new();
        for runner in self.0.values() {
            needs.extend(runner.needs().await);
        }
        needs.sort_by_key(|need| need.name);
        needs
    }

    /// The runner of plug-ins.
    pub(crate) fn of_plugins(&self) -> Result<&Arc<dyn Runner>, Fault> {
        self.0.get("wasm").ok_or_else(no_plugins)
    }

    /// The runner of servers of others.
    pub(crate) fn of_upstreams(&self) -> Result<&Arc<dyn Runner>, Fault> {
        self.0.get("mcp").ok_or_else(no_upstreams)
    }

    pub(crate) async fn close(&self) {
        for runner in self.0.values() {
            runner.close().await;
        }
    }

    pub fn get(&self, definition: &Definition) -> Result<&Arc<dyn Runner>, ToolError> {
        let kind = definition.runner.kind();
        self.0.get(kind).ok_or_else(|| {
            ToolError::because(
                ErrorCode::SandboxError,
                "tier_unavailable",
                format!("tools of kind `{kind}` cannot run on this server: it has no runner for them"),
            )
        })
    }
}
