//! Answers clients, whatever carried their messages here: HTTP, or the standard streams of a process.
//!
//! A request is answered by one function of who asks and what it says; nothing is remembered between two requests but
//! what is in the database or travels sealed through the client. So any replica answers any request.

mod asking;
mod called;
mod completion;
mod icons;
mod in_flight;
mod logging;
mod narrowed;
mod passage;
mod prompts;
mod resources;
mod result;
mod session;
mod stream;
mod subscriptions;
mod tasks;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolgate_contracts::{CallRequest, Caller, Clock, Fault, Rng};
use toolgate_engine::Engine;
use toolgate_registry::commands::Registry;
use toolgate_vault::{Keyring, Purpose, Sealer};

use self::in_flight::InFlight;
use self::logging::Levels;
pub use self::narrowed::Narrowed;
pub use self::passage::Through;
use self::passage::{Followed, Holding};
pub use self::session::Session;
pub use self::stream::{Messages, Questions, Stream};
use self::subscriptions::Streams;
pub use self::subscriptions::{Again, Heard, OpenStream};
use crate::wire::{Level, Meta, Request, Revision, RpcError, SERVER_INFO};

/// How long a list may be believed. It depends on who asks and may change at any moment, so not at all.
const LIST_TTL_MS: u64 = 0;

/// What answering takes.
pub struct Parts {
    pub engine: Engine,
    pub registry: Arc<Registry>,
    pub keyring: Keyring,
    pub clock: Clock,
    pub rng: Rng,
    /// How people reach this server, for the pages that they are sent to.
    pub address: Arc<dyn Fn() -> String + Send + Sync>,
    /// How long a client without a better way waits for a person before it is told `pending`.
    pub patience: Duration,
}

/// What clients of the protocol see of the gate.
#[derive(Clone)]
pub struct Surface(Arc<Inner>);

struct Inner {
    parts: Parts,
    questions: Questions,
    in_flight: InFlight,
    levels: Levels,
    streams: Streams,
    holding: Holding,
    followed: Followed,
}

impl std::ops::Deref for Surface {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0.parts
    }
}

/// Who sent a request, and what their program can do.
#[derive(Clone, Debug)]
pub struct Client {
    pub caller: Caller,
    pub revision: Revision,
    pub capabilities: Map<String, Value>,
    /// The program's own words about itself, for the record.
    pub info: Map<String, Value>,
    /// Which part of the catalogue it came for.
    pub narrowed: Narrowed,
    /// By which an older client says which of its requests it means; two clients use the same ids.
    pub session: Option<Arc<str>>,
    /// From which level on it wants to hear what this request's call writes; an older one says it for its session.
    pub log_level: Option<Level>,
}

impl Client {
    pub fn of_request(caller: Caller, narrowed: Narrowed, meta: Meta) -> Self {
        let Meta { revision, capabilities, client, log_level } = meta;
        let log_level = log_level.and_then(|level| level.parse().ok());
        Self { caller, revision, capabilities, info: client, narrowed, session: None, log_level }
    }

    /// Whether the program can be asked to open an address for its user.
    pub(crate) fn opens_addresses(&self) -> bool {
        let declared = self.capabilities.get("elicitation").and_then(|elicitation| elicitation.get("url"));
        self.revision.opens_addresses() && declared.is_some_and(Value::is_object)
    }

    /// A call as this client makes it.
    pub(crate) fn request(&self, tool: String, input: Value) -> CallRequest {
        let mut call = CallRequest::new(tool, input);
        if !self.info.is_empty() {
            call.metadata = json!({"mcp_client": self.info}).as_object().cloned();
        }
        call
    }

    /// Whether it takes a task where it asked for a result.
    pub(crate) fn takes_tasks(&self) -> bool {
        let extensions = self.capabilities.get("extensions");
        self.revision.is_stateless() && extensions.is_some_and(|extensions| extensions.get(tasks::EXTENSION).is_some())
    }
}

impl Surface {
    pub fn new(parts: Parts) -> Self {
        let (questions, in_flight, levels) = (Questions::default(), InFlight::default(), Levels::default());
        let (streams, holding, followed) = (Streams::default(), Holding::default(), Followed::default());
        Self(Arc::new(Inner { parts, questions, in_flight, levels, streams, holding, followed }))
    }

    /// What clients were asked and have not answered yet.
    pub fn questions(&self) -> &Questions {
        &self.0.questions
    }

    /// Answers one request. What it has to say before its answer goes to `stream`.
    pub async fn answer(&self, client: &Client, request: &Request, stream: &Stream) -> Result<Value, RpcError> {
        let revision = client.revision;
        let params = &request.params;
        if let Some(through) = &client.narrowed.through {
            let passed = Box::pin(self.pass_on(client, through, request, stream)).await;
            return passed.map(|result| stamped(result, revision));
        }
        let answered = match request.method.as_str() {
            "server/discover" if revision.is_stateless() => Ok(discovered()),
            "ping" if !revision.is_stateless() => Ok(json!({})),
            "tools/list" => self.list_tools(client, params),
            "tools/call" => self.call_tool(client, request, stream).await,
            "prompts/list" => self.list_prompts(client, params),
            "prompts/get" => self.get_prompt(client, params).await,
            "completion/complete" => self.complete(client, params).await,
            "logging/setLevel" if !revision.is_stateless() => self.set_level(client, params),
            "resources/list" => resources::list(client, params),
            "resources/templates/list" => resources::templates(client, params),
            "resources/read" => self.read_resource(client, params).await,
            "tasks/get" if revision.is_stateless() => self.get_task(client, params).await,
            "tasks/update" if revision.is_stateless() => self.update_task(client, params).await,
            "tasks/cancel" if revision.is_stateless() => self.cancel_task(client, params).await,
            _ => Err(RpcError::method_not_found(&request.method)),
        };
        answered.map(|result| stamped(result, revision))
    }

    /// What a client learns that begins with a handshake, and the session that it is known by afterwards.
    pub fn initialize(&self, request: &Request) -> Result<(Value, Session), RpcError> {
        let session = Session::of(&request.params)?;
        let result = json!({
            "protocolVersion": session.revision.as_str(),
            "capabilities": capabilities(session.revision),
            "serverInfo": server_info(session.revision),
            "instructions": INSTRUCTIONS,
        });
        Ok((result, session))
    }

    /// The same for a part of the catalogue.
    pub async fn initialize_at(
        &self,
        caller: &Caller,
        narrowed: &Narrowed,
        request: &Request,
    ) -> Result<(Value, Session), RpcError> {
        let (mut result, session) = self.initialize(request)?;
        if let Some(through) = &narrowed.through {
            result["capabilities"] = self.capabilities_through(caller, through, session.revision).await;
        }
        Ok((result, session))
    }

    pub(crate) async fn sealer(&self) -> Result<Sealer, Fault> {
        let key = match self.keyring.loaded(Purpose::Seal, None) {
            Some(key) => key,
            None => self.keyring.key(Purpose::Seal, None).await?,
        };
        let mut sealer = Sealer::new(&key, self.rng.clone());
        for older in self.keyring.all(Purpose::Seal, None).await? {
            if older.kid() != key.kid() {
                sealer = sealer.opening(&older);
            }
        }
        Ok(sealer)
    }
}

/// What a model is told about all of it.
const INSTRUCTIONS: &str = "Every call passes a gate: some calls wait until a person has decided. A result that says \
    `pending` is no failure: tell the user where to decide, and repeat the same call with the same arguments later; it \
    then answers with what came of the first one.";

fn discovered() -> Value {
    let supported: Vec<&str> =
        Revision::ALL.iter().filter(|revision| revision.is_stateless()).map(|revision| revision.as_str()).collect();
    json!({
        "supportedVersions": supported,
        "capabilities": capabilities(Revision::V20260728),
        "instructions": INSTRUCTIONS,
        "ttlMs": LIST_TTL_MS,
        "cacheScope": "private",
    })
}

fn capabilities(revision: Revision) -> Value {
    let mut capabilities = json!({
        "completions": {},
        "logging": {},
        "prompts": {"listChanged": true},
        "tools": {"listChanged": true},
        "resources": {"listChanged": false, "subscribe": false},
    });
    if revision.is_stateless() {
        capabilities["extensions"] = json!({tasks::EXTENSION: {}});
    }
    capabilities
}

fn server_info(revision: Revision) -> Value {
    let mut info = json!({"name": "toolgate", "version": env!("CARGO_PKG_VERSION")});
    if revision.has_structure() {
        info["title"] = "Toolgate".into();
    }
    info
}

/// The stateless revision wants to be told what kind of result it is, and whose.
fn stamped(mut result: Value, revision: Revision) -> Value {
    if revision.is_stateless()
        && let Value::Object(members) = &mut result
    {
        if !members.contains_key("resultType") {
            members.insert("resultType".into(), "complete".into());
        }
        let meta = members.entry("_meta").or_insert_with(|| json!({}));
        if let Value::Object(meta) = meta {
            meta.insert(SERVER_INFO.into(), server_info(revision));
        }
    }
    result
}

/// A page of a list that was made for this caller.
fn page(name: &str, items: Vec<Value>, next: Option<String>, revision: Revision) -> Value {
    let mut result = Map::new();
    result.insert(name.into(), items.into());
    if let Some(next) = next {
        result.insert("nextCursor".into(), next.into());
    }
    if revision.is_stateless() {
        result.insert("ttlMs".into(), LIST_TTL_MS.into());
        result.insert("cacheScope".into(), "private".into());
    }
    Value::Object(result)
}

/// A member that has to be there and be a text.
fn text<'p>(params: &'p Map<String, Value>, name: &str) -> Result<&'p str, RpcError> {
    let found = params.get(name).and_then(Value::as_str);
    found.ok_or_else(|| RpcError::invalid_params(format!("`{name}` is needed, a text")))
}
