//! The log, read: entries, heads, proofs, and the whole of it as lines of JSON for whoever keeps a copy.
//!
//! Nothing here writes, but a head that covers what was committed a moment ago may be signed because it is asked for.
//! Payloads are handed out only where the caller may read all calls; the log itself holds none.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contracts::{CallId, Caller, Digest, Fault, FaultKind, Page, Permission, Status, TenantId, Timestamp};
use toolgate_engine::audit::{Proved, SignedHead, Which};
use toolgate_ledger::{Head, Receipt};
use toolgate_store::audit::reading::{Payload, Placed};
use toolgate_store::cursor::ListOf;
use utoipa::{IntoParams, ToSchema};

use super::paging::{NoQuery, PageQuery, page_limit};
use crate::app::App;
use crate::extract::{By, Query};
use crate::problem::Problem;

/// Entries that one request looks at. A filter that finds less than a page within them answers with what it found and a
/// cursor to go on.
const LOOKED_AT_MAX: u64 = 10_000;
/// Entries read from the database at once.
const CHUNK_ENTRIES: u32 = 500;

/// An entry and where it stands.
#[derive(Serialize, ToSchema)]
pub struct EntryView {
    index: u64,
    /// The hash of the leaf.
    digest: Digest,
    /// Whom the entry calls `actor`, beside it: a name may change, and what was logged may not.
    actor_name: Option<String>,
    #[schema(value_type = Object)]
    entry: Value,
}

#[derive(Deserialize, Serialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct EntryQuery {
    /// What was done, such as `tool.register`; a `*` at the end stands for any rest.
    action: Option<String>,
    /// Who is answerable.
    actor: Option<String>,
    /// What it was done to.
    object: Option<String>,
    /// The earliest time, RFC 3339.
    since: Option<String>,
    /// The time before which it was.
    until: Option<String>,
    #[serde(skip_serializing)]
    cursor: Option<String>,
    #[serde(skip_serializing)]
    limit: Option<u32>,
}

struct Filter {
    query: EntryQuery,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Filter {
    fn new(query: EntryQuery) -> Result<Self, Fault> {
        let time = |name: &str, text: Option<&String>| match text {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                Fault::invalid(format!("`{name}` is `{text}`"), "write a time as 2026-11-15T10:00:00Z")
                    .at(format!("/{name}"))
            }),
        };
        let (since, until) = (time("since", query.since.as_ref())?, time("until", query.until.as_ref())?);
        Ok(Self { query, since, until })
    }

    fn fits(&self, entry: &Value) -> bool {
        let is = |member: &str, wanted: Option<&String>| wanted.is_none_or(|wanted| entry[member] == wanted.as_str());
        let at = || entry["at"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
        let action = self.query.action.as_deref().is_none_or(|wanted| match wanted.strip_suffix('*') {
            Some(start) => entry["action"].as_str().is_some_and(|action| action.starts_with(start)),
            None => entry["action"] == wanted,
        });
        action
            && is("actor", self.query.actor.as_ref())
            && is("object", self.query.object.as_ref())
            && self.since.is_none_or(|since| at().is_some_and(|at| at >= since))
            && self.until.is_none_or(|until| at().is_some_and(|at| at < until))
    }
}

/// Entries of the log, newest first.
#[utoipa::path(get, path = "/api/v1/audit/entries", tag = "audit", params(EntryQuery), responses((status = 200, body = Page<EntryView>)))]
pub async fn entries(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<EntryQuery>,
) -> Result<Json<Page<EntryView>>, Problem> {
    caller.require(&Permission::AUDIT_READ)?;
    let limit = page_limit(query.limit)? as usize;
    let bound = serde_json::to_string(&query).map_err(Fault::internal)?;
    let list = ListOf { tenant: caller.tenant, list: "audit", filter: &bound };
    let size = size_now(&app, caller.tenant).await?;
    let cursor = query.cursor.as_deref().map(|cursor| list.key(cursor)).transpose()?;
    let mut before: u64 = cursor.and_then(|key| key.parse().ok()).unwrap_or(size);
    let last = before.saturating_sub(LOOKED_AT_MAX);
    let filter = Filter::new(query)?;
    let mut items = Vec::new();
    while before > last {
        let chunk = app.store.entries_before(caller.tenant, before, CHUNK_ENTRIES).await?;
        if chunk.is_empty() {
            return Err(Fault::internal(format!("entries below {before} are gone")).into());
        }
        for placed in chunk {
            before = placed.index;
            let entry: Value = serde_json::from_str(&placed.text).map_err(Fault::internal)?;
            if filter.fits(&entry) {
                items.push(EntryView { index: placed.index, digest: placed.digest, actor_name: None, entry });
            }
            if items.len() == limit || before == last {
                break;
            }
        }
        if items.len() == limit {
            break;
        }
    }
    let actors = items.iter().filter_map(|item| item.entry["actor"].as_str());
    let names = app.engine.names(caller.tenant, actors).await?;
    for item in &mut items {
        item.actor_name = item.entry["actor"].as_str().and_then(|actor| names.of(actor));
    }
    let next_cursor = (before > 0).then(|| list.cursor(&before.to_string()));
    Ok(Json(Page { items, next_cursor }))
}

/// How many entries there are to read. A log that is damaged can still be read: that is how the damage is found.
async fn size_now(app: &App, tenant: TenantId) -> Result<u64, Fault> {
    match app.audit.sequence_now(tenant).await {
        Err(fault) if fault.kind() == FaultKind::Internal => {
            tracing::error!("{}", fault.logged().unwrap_or(fault.told()));
            Ok(app.store.audit_progress(tenant).await?.size)
        }
        size => size,
    }
}

/// One entry, its receipt, and a proof that it is in the log.
#[derive(Serialize, ToSchema)]
pub struct ProofView {
    receipt: Receipt,
    /// The entry's canonical text, whose leaf hash is the receipt's digest.
    entry: String,
    /// `c2sp.org/tlog-proof@v1`: index, path and signed checkpoint.
    proof: String,
}

impl From<Proved> for ProofView {
    fn from(Proved { receipt, entry, proof, head: _ }: Proved) -> Self {
        Self { receipt, entry, proof: proof.to_string() }
    }
}

/// Proves an entry, named by its index or its id; a call's outcome has the call's id.
#[utoipa::path(get, path = "/api/v1/audit/entries/{entry}/proof", tag = "audit", params(("entry" = String, Path)), responses((status = 200, body = ProofView), (status = 404)))]
pub async fn prove(
    State(app): State<App>,
    By(caller): By,
    Path(entry): Path<String>,
    Query(_): Query<NoQuery>,
) -> Result<Json<ProofView>, Problem> {
    caller.require(&Permission::AUDIT_READ)?;
    Ok(Json(app.audit.prove(caller.tenant, which(&entry)?).await?.into()))
}

/// The proof of a call, with what it takes to check it: whom to believe, and what opens the entry's commitments.
#[derive(Serialize, ToSchema)]
pub struct CallProof {
    #[serde(flatten)]
    proof: ProofView,
    /// The keys that verify the log's heads, as `NAME+ID+BASE64`, the one that signs now first.
    keys: Vec<String>,
    /// Absent where the payloads were erased.
    payload: Option<PayloadView>,
}

/// What an entry commits to: HMAC-SHA256 under the salt, over the word `input`, `output` or `error`, a line feed and the text.
#[derive(Serialize, ToSchema)]
pub struct PayloadView {
    /// Base64.
    salt: String,
    /// The canonical texts.
    input: Option<String>,
    output: Option<String>,
    error: Option<String>,
}

impl PayloadView {
    fn of(entry: &str, Payload { salt, input, output, error }: Payload) -> Self {
        // What was unknown may be settled since: the call then holds what the later entry commits to, not this one.
        let known = !is_of_unknown_outcome(entry);
        let (output, error) = (output.filter(|_| known), error.filter(|_| known));
        Self { salt: BASE64.encode(&salt), input, output, error }
    }
}

/// The proof of how a call ended, for whoever was found to be allowed to read that call.
pub async fn prove_call(app: &App, tenant: TenantId, call: CallId) -> Result<CallProof, Fault> {
    let proof = ProofView::from(app.audit.prove(tenant, Which::Leaf(call.into())).await?);
    let keys = app.audit.verifier_keys(tenant).await?.iter().map(ToString::to_string).collect();
    let kept = match proof.receipt.index {
        Some(index) => app.store.payloads_from(tenant, index, index + 1).await?.pop(),
        None => None,
    };
    let payload = kept.map(|(_, payload)| PayloadView::of(&proof.entry, payload));
    Ok(CallProof { proof, keys, payload })
}

/// The receipt of how a call ended, for whoever was found to be allowed to read that call.
pub async fn receipt_of_call(app: &App, tenant: TenantId, call: CallId) -> Result<Receipt, Fault> {
    app.audit.receipt(tenant, call.into()).await
}

fn which(entry: &str) -> Result<Which, Fault> {
    let index = entry.parse().ok().map(Which::Index);
    index.or_else(|| entry.parse().ok().map(Which::Leaf)).ok_or_else(|| {
        Fault::new(
            FaultKind::NotFound,
            "the log has no such entry",
            "name an entry by its index or id, or a call by its id; `toolgate audit list` shows them",
        )
    })
}

/// A head that covers every entry committed so far, as a C2SP signed note.
#[utoipa::path(get, path = "/api/v1/audit/checkpoint", tag = "audit", responses((status = 200, body = String, content_type = "text/plain")))]
pub async fn checkpoint(State(app): State<App>, By(caller): By, Query(_): Query<NoQuery>) -> Result<Response, Problem> {
    caller.require(&Permission::AUDIT_READ)?;
    let head = app.audit.checkpoint(caller.tenant).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], head.note().to_string()).into_response())
}

/// A head as it was signed.
#[derive(Serialize, ToSchema)]
pub struct CheckpointView {
    size: u64,
    root: Digest,
    at: Timestamp,
    /// The C2SP signed note.
    note: String,
}

impl From<SignedHead> for CheckpointView {
    fn from(SignedHead { head, at }: SignedHead) -> Self {
        let checkpoint = head.checkpoint();
        Self { size: checkpoint.size, root: checkpoint.root, at, note: head.note().to_string() }
    }
}

#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct CheckpointQuery {
    /// Only heads of more entries than this.
    after: u64,
    cursor: Option<String>,
    limit: Option<u32>,
}

/// The heads that were signed, smallest first.
#[utoipa::path(get, path = "/api/v1/audit/checkpoints", tag = "audit", params(CheckpointQuery), responses((status = 200, body = Page<CheckpointView>)))]
pub async fn checkpoints(
    State(app): State<App>,
    By(caller): By,
    Query(CheckpointQuery { after, cursor, limit }): Query<CheckpointQuery>,
) -> Result<Json<Page<CheckpointView>>, Problem> {
    caller.require(&Permission::AUDIT_READ)?;
    let filter = after.to_string();
    let list = ListOf { tenant: caller.tenant, list: "audit-checkpoints", filter: &filter };
    let cursor = cursor.as_deref().map(|cursor| list.key(cursor)).transpose()?;
    let after = cursor.and_then(|key| key.parse().ok()).unwrap_or(after);
    let (heads, next) = app.audit.heads(caller.tenant, after, page_limit(limit)?).await?;
    let next_cursor = next.map(|size| list.cursor(&size.to_string()));
    Ok(Json(Page { items: heads.into_iter().map(CheckpointView::from).collect(), next_cursor }))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ConsistencyQuery {
    /// The size of the older tree.
    from: u64,
    /// The size of the newer one.
    to: u64,
}

#[derive(Serialize, ToSchema)]
pub struct ConsistencyView {
    from: u64,
    to: u64,
    /// RFC 9162 §2.1.4.
    proof: Vec<Digest>,
}

/// The proof that the log of `to` entries begins with the one of `from`.
#[utoipa::path(get, path = "/api/v1/audit/consistency", tag = "audit", params(ConsistencyQuery), responses((status = 200, body = ConsistencyView)))]
pub async fn consistency(
    State(app): State<App>,
    By(caller): By,
    Query(ConsistencyQuery { from, to }): Query<ConsistencyQuery>,
) -> Result<Json<ConsistencyView>, Problem> {
    caller.require(&Permission::AUDIT_READ)?;
    let proof = app.audit.consistency(caller.tenant, from, to).await?;
    Ok(Json(ConsistencyView { from, to, proof }))
}

#[derive(Serialize, ToSchema)]
pub struct KeyView {
    log: String,
    /// As `NAME+ID+BASE64`, the one that signs now first.
    keys: Vec<String>,
}

/// The log's name and the keys that verify its heads.
#[utoipa::path(get, path = "/api/v1/audit/key", tag = "audit", responses((status = 200, body = KeyView)))]
pub async fn key(State(app): State<App>, By(caller): By, Query(_): Query<NoQuery>) -> Result<Json<KeyView>, Problem> {
    caller.require(&Permission::AUDIT_READ)?;
    let keys = app.audit.verifier_keys(caller.tenant).await?;
    let log = app.audit.origin(caller.tenant)?.to_string();
    Ok(Json(KeyView { log, keys: keys.iter().map(ToString::to_string).collect() }))
}

/// The newest head of a tenant's log.
#[derive(Serialize, ToSchema)]
pub struct HeadView {
    tenant: String,
    log: String,
    /// Null while nothing was signed.
    size: Option<u64>,
    root: Option<Digest>,
    note: Option<String>,
}

/// The newest heads of all tenants' logs for the operator, of one's own for everyone else.
#[utoipa::path(get, path = "/api/v1/audit/heads", tag = "audit", params(PageQuery), responses((status = 200, body = Page<HeadView>)))]
pub async fn heads(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<HeadView>>, Problem> {
    caller.require(&Permission::AUDIT_READ)?;
    let snapshot = app.registry.snapshot();
    let tenants = snapshot.tenants().map(|registry| (registry.tenant.slug.to_string(), registry.tenant.id));
    let seen: Vec<_> = tenants.filter(|(_, id)| caller.is_operator() || *id == caller.tenant).collect();
    let list = ListOf { tenant: caller.tenant, list: "audit-heads", filter: "" };
    let page = super::paging::page_of(seen, |(slug, _)| slug.clone(), &list, query.cursor.as_deref(), query.limit)?;
    let Page { items, next_cursor } = page;
    let mut views = Vec::with_capacity(items.len());
    for (slug, id) in items {
        let newest = app.audit.newest(id).await?;
        let checkpoint = newest.as_ref().map(Head::checkpoint);
        views.push(HeadView {
            tenant: slug,
            log: app.audit.origin(id)?.to_string(),
            size: checkpoint.map(|checkpoint| checkpoint.size),
            root: checkpoint.map(|checkpoint| checkpoint.root),
            note: newest.as_ref().map(|head| head.note().to_string()),
        });
    }
    Ok(Json(Page { items: views, next_cursor }))
}

#[derive(Clone, Copy, Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ExportQuery {
    /// The index to begin with.
    from: u64,
    /// How many entries at most; without it all that there are now.
    limit: Option<u64>,
    /// With what the entries commit to, where it was not erased. Needs `calls.read.all`.
    payloads: bool,
}

/// The log as lines of JSON, `{"index", "entry", "digest"}`, from `from` on; `entry` is the text that was hashed.
#[utoipa::path(get, path = "/api/v1/audit/export", tag = "audit", params(ExportQuery), responses((status = 200, body = String, content_type = "application/x-ndjson")))]
pub async fn export(
    State(app): State<App>,
    By(caller): By,
    Query(query): Query<ExportQuery>,
) -> Result<Response, Problem> {
    require_export(&caller, query)?;
    let size = size_now(&app, caller.tenant).await?;
    let end = query.limit.map_or(size, |limit| query.from.saturating_add(limit).min(size));
    let tenant = caller.tenant;
    // One chunk is in memory, whoever reads how slowly.
    let lines = stream::try_unfold(query.from, move |from| {
        let app = app.clone();
        async move {
            if from >= end {
                return Ok::<_, Fault>(None);
            }
            let (text, next) = chunk(&app, tenant, from, end, query.payloads).await?;
            Ok(Some((Bytes::from(text), next)))
        }
    });
    let lines = futures_util::TryStreamExt::map_err(lines, |fault: Fault| {
        tracing::error!("an export ends early: {}", fault.logged().unwrap_or(fault.told()));
        std::io::Error::other(fault.told().to_owned())
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

fn require_export(caller: &Caller, query: ExportQuery) -> Result<(), Fault> {
    caller.require(&Permission::AUDIT_READ)?;
    if query.payloads { caller.require(&Permission::CALLS_READ_ALL) } else { Ok(()) }
}

fn is_of_unknown_outcome(entry: &str) -> bool {
    let entry: Value = serde_json::from_str(entry).unwrap_or_default();
    entry["details"]["status"] == Status::OutcomeUnknown.as_str()
}

async fn chunk(app: &App, tenant: TenantId, from: u64, end: u64, payloads: bool) -> Result<(String, u64), Fault> {
    let placed = app.store.entries_from(tenant, from, end, CHUNK_ENTRIES).await?;
    let next = placed.last().map_or(end, |last| last.index + 1);
    let kept = if payloads { app.store.payloads_from(tenant, from, next).await? } else { Vec::new() };
    let mut kept = kept.into_iter().peekable();
    let mut text = String::new();
    for Placed { index, id: _, text: entry, digest } in placed {
        let mut line = json!({"index": index, "entry": entry, "digest": digest});
        if let Some((_, payload)) = kept.next_if(|(of, _)| *of == index) {
            line["payload"] = json!(PayloadView::of(&entry, payload));
        }
        text.push_str(&line.to_string());
        text.push('\n');
    }
    Ok((text, next))
}
