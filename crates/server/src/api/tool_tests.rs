//! Seed 001's way to change a tool and to try it: `PATCH`, `test` and `test/stream`. A try is an ordinary call by the
//! caller, through the one path; only its metadata says what it was for.

use std::convert::Infallible;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_contracts::definition::Origin;
use toolgate_contracts::event::{Event, EventType};
use toolgate_contracts::{CallRequest, Caller, Envelope, Fault, TenantId};
use toolgate_engine::follow::RunFollower;
use toolgate_registry::commands::{Registration, Submitted};
use toolgate_registry::patch::Patch;
use utoipa::ToSchema;

use super::calls::{Answered, source_of};
use super::tools::{after, found, tool_name};
use crate::app::App;
use crate::extract::{Body, By, Changed};
use crate::problem::Problem;

/// What a try of a tool is given.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestRequest {
    #[serde(default)]
    #[schema(value_type = Object)]
    input: Map<String, Value>,
    /// Everything but the effect.
    #[serde(default)]
    dry_run: bool,
}

impl TestRequest {
    fn call(self, tool: String, wait: Option<u64>) -> CallRequest {
        let mode = if self.dry_run { toolgate_contracts::Mode::DryRun } else { toolgate_contracts::Mode::Execute };
        let metadata = [("test".to_owned(), Value::Bool(true))].into_iter().collect();
        CallRequest { mode, wait, metadata: Some(metadata), ..CallRequest::new(tool, Value::Object(self.input)) }
    }
}

/// Tries a tool: an ordinary call, marked `test` in its metadata.
#[utoipa::path(post, path = "/api/v1/tools/{tool}/test", tag = "tools", params(("tool" = String, Path)), request_body = TestRequest, responses((status = 200, body = Envelope), (status = 202, body = Envelope)))]
pub async fn test(
    State(app): State<App>,
    By(caller): By,
    Path(tool): Path<String>,
    headers: HeaderMap,
    Body(request): Body<TestRequest>,
) -> Result<Answered, Problem> {
    let source = source_of(&caller, &headers);
    Ok(Answered(app.engine.submit(&caller, source, request.call(tool, None)).await?))
}

/// Tries a tool and follows it: its events as they come, then `result` with the envelope.
#[utoipa::path(post, path = "/api/v1/tools/{tool}/test/stream", tag = "tools", params(("tool" = String, Path)), request_body = TestRequest, responses((status = 200, body = String, content_type = "text/event-stream")))]
pub async fn test_stream(
    State(app): State<App>,
    By(caller): By,
    Path(tool): Path<String>,
    headers: HeaderMap,
    Body(request): Body<TestRequest>,
) -> Result<Response, Problem> {
    let source = source_of(&caller, &headers);
    let envelope = app.engine.submit(&caller, source, request.call(tool, Some(0))).await?;
    let follower = app.engine.follow_run(caller.tenant, envelope.run_id, 0);
    let streaming =
        Streaming { app, tenant: caller.tenant, envelope, follower, waiting: Vec::new(), told: Told::Nothing };
    let events = stream::unfold(streaming, |mut streaming| async move {
        let event = streaming.next().await?;
        Some((Ok::<_, Infallible>(event), streaming))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    /// The event behind which nothing comes without a person.
    End,
    Result,
}

struct Streaming {
    app: App,
    tenant: TenantId,
    envelope: Envelope,
    follower: RunFollower,
    /// The last first.
    waiting: Vec<Event>,
    told: Told,
}

impl Streaming {
    async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some(event) = self.waiting.pop() {
                if is_last(event.event_type) {
                    self.told = Told::End;
                }
                let data = serde_json::to_string(&event).unwrap_or_default();
                return Some(Sent::default().event(event.event_type.as_str()).data(data));
            }
            match self.told {
                Told::Result => return None,
                Told::End => {
                    self.told = Told::Result;
                    let envelope = self.app.engine.answer(self.tenant, self.envelope.id).await.ok()?;
                    let data = serde_json::to_string(&envelope).unwrap_or_default();
                    return Some(Sent::default().event("result").data(data));
                }
                Told::Nothing => {}
            }
            if self.app.draining.load(std::sync::atomic::Ordering::Relaxed) {
                return None;
            }
            match self.follower.next().await {
                Ok(page) => self.waiting = page.into_iter().rev().collect(),
                Err(fault) => {
                    tracing::debug!("a try's stream ends: {}", fault.logged().unwrap_or(fault.told()));
                    return None;
                }
            }
        }
    }
}

/// It ended, or it waits for a person, which may take days.
fn is_last(event: EventType) -> bool {
    matches!(
        event,
        EventType::ToolCompleted | EventType::ToolFailed | EventType::ToolCancelled | EventType::ToolNeedsApproval
    )
}

/// Changes members of a tool: a new version of one's own, an override of a shared one.
///
/// The body is merged into the definition, or into the override (RFC 7396): a member with a value replaces, `null` takes
/// away.
#[utoipa::path(patch, path = "/api/v1/tools/{tool}", tag = "tools", params(("tool" = String, Path)), request_body = Object, responses((status = 200, body = Object), (status = 404)))]
pub async fn edit(
    State(app): State<App>,
    By(caller): By,
    Path(name): Path<String>,
    body: axum::body::Bytes,
) -> Result<Response, Problem> {
    let read = toolgate_contracts::json::read(&body, crate::extract::BODY_BYTES_MAX).map_err(Fault::from)?;
    let Value::Object(changes) = read else {
        return Err(Fault::invalid("the body is no object", "send the members that change").into());
    };
    let tool = found(&app, &caller, &name, caller.may(&toolgate_contracts::Permission::TOOLS_OVERRIDE))?;
    if tool.tool.origin == Origin::Code || tool.tool.tenant != caller.tenant {
        return overridden(&app, &caller, &name, &tool, changes).await;
    }
    let mut definition = serde_json::to_value(tool.version.published.definition.as_ref()).map_err(Fault::internal)?;
    // The server counts versions by what changed.
    if let Value::Object(members) = &mut definition {
        members.shift_remove("version");
    }
    merge(&mut definition, Value::Object(changes));
    if definition["name"].as_str() != Some(tool.version.published.definition.name.as_str()) {
        let told = "a tool keeps its name";
        return Err(Fault::invalid(told, "register the other name, with this one among its `aliases`")
            .at("/name")
            .into());
    }
    let registration: Registration =
        app.registry.register(&caller, &Submitted::Json(definition.to_string().into_bytes()), true).await?;
    match registration.revision {
        Some(revision) => Ok(after(&app, &caller, &name, revision)?.into_response()),
        None => Ok(Json(super::tool_views::whole(&tool, &caller)).into_response()),
    }
}

async fn overridden(
    app: &App,
    caller: &Caller,
    name: &str,
    tool: &toolgate_registry::snapshot::ResolvedTool,
    changes: Map<String, Value>,
) -> Result<Response, Problem> {
    let mut patch = json!(tool.patch.as_ref());
    merge(&mut patch, Value::Object(changes));
    let patch: Patch = toolgate_contracts::json::decode(patch).map_err(Fault::from)?;
    let revision = app.registry.set_override(caller, &tool_name(name)?, &patch).await?;
    after(app, caller, name, revision).map(Changed::into_response)
}

/// RFC 7396.
fn merge(into: &mut Value, changes: Value) {
    let Value::Object(changes) = changes else {
        *into = changes;
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    let Value::Object(members) = into else { return };
    for (name, change) in changes {
        if change.is_null() {
            members.shift_remove(&name);
        } else {
            merge(members.entry(name).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_replaces_adds_and_takes_away() {
        // From RFC 7396, appendix A.
        for (target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut value = target.clone();
            merge(&mut value, patch);
            assert_eq!(value, result, "{target}");
        }
    }
}
