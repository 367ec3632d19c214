//! Resources: the files that belong to calls, and how calls and runs stand. What a caller may not read is not there.

use data_encoding::BASE64;
use serde_json::{Map, Value, json};
use toolgate_contracts::{BlobId, Fault, FaultKind, RunId};

use super::tools::cursor;
use super::{Client, Surface, page, text};
use crate::wire::{RpcError, code};

pub(super) const SCHEME: &str = "toolgate://";

pub(super) fn blob_uri(id: &str) -> String {
    format!("{SCHEME}blobs/{id}")
}

pub(super) fn call_uri(id: &str) -> String {
    format!("{SCHEME}calls/{id}")
}

/// Nothing is listed by itself: a caller's calls and files are many and change with each call. Links to files come with
/// the results that they belong to; templates say how the rest is named, and their places are completed.
pub(super) fn list(client: &Client, params: &Map<String, Value>) -> Result<Value, RpcError> {
    cursor(params)?;
    Ok(page("resources", Vec::new(), None, client.revision))
}

pub(super) fn templates(client: &Client, params: &Map<String, Value>) -> Result<Value, RpcError> {
    cursor(params)?;
    let template = |path: &str, name: &str, description: &str, kind: Option<&str>| {
        let mut template = json!({"uriTemplate": format!("{SCHEME}{path}"), "name": name, "description": description});
        if let Some(kind) = kind {
            template["mimeType"] = kind.into();
        }
        template
    };
    let json_type = Some("application/json");
    let templates = vec![
        template("calls/{id}", "call", "How a call stands or ended: its envelope.", json_type),
        template("runs/{id}", "run", "A run with its calls.", json_type),
        template("blobs/{id}", "file", "A file that belongs to a call; results link to theirs.", None),
    ];
    Ok(page("resourceTemplates", templates, None, client.revision))
}

impl Surface {
    pub(super) async fn read_resource(&self, client: &Client, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let uri = text(params, "uri")?;
        let read = self.contents(client, uri).await;
        let contents = read.map_err(|fault| match fault.kind() {
            FaultKind::NotFound => {
                let not_found =
                    if client.revision.is_stateless() { code::INVALID_PARAMS } else { code::RESOURCE_NOT_FOUND };
                RpcError::new(not_found, "there is no such resource").with(json!({"uri": uri}))
            }
            _ => fault.into(),
        })?;
        let mut result = json!({"contents": [contents]});
        if client.revision.is_stateless() {
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "private".into();
        }
        Ok(result)
    }

    async fn contents(&self, client: &Client, uri: &str) -> Result<Value, Fault> {
        let unknown = || Fault::not_found("resource", uri);
        let (kind, id) = uri.strip_prefix(SCHEME).and_then(|path| path.split_once('/')).ok_or_else(unknown)?;
        let caller = &client.caller;
        let as_json = |value: Value| json!({"uri": uri, "mimeType": "application/json", "text": value.to_string()});
        match kind {
            "blobs" => {
                let id: BlobId = id.parse().map_err(|_| unknown())?;
                let attached = self.engine.attached(caller, id).await?;
                if !self.is_of_group(client, attached.tool) {
                    return Err(unknown());
                }
                Ok(match String::from_utf8(attached.bytes) {
                    Ok(text) => json!({"uri": uri, "mimeType": attached.content_type, "text": text}),
                    Err(bytes) => {
                        let bytes = BASE64.encode(bytes.as_bytes());
                        json!({"uri": uri, "mimeType": attached.content_type, "blob": bytes})
                    }
                })
            }
            "calls" => {
                let record = self.engine.readable(caller, id).await?;
                if !self.is_of_group(client, record.tool) {
                    return Err(unknown());
                }
                let envelope = self.engine.answer(caller.tenant, record.id).await?;
                self.engine.join_read(caller, &envelope.labels, &envelope.name).await?;
                Ok(as_json(json!(envelope)))
            }
            "runs" => {
                let id: RunId = id.parse().map_err(|_| unknown())?;
                let mut run = self.engine.show_run(caller, id).await?;
                // A run of other tools too is none of a group's, nor of one server's.
                let whole = run.calls.iter().all(|call| self.is_of_group(client, call.tool_id));
                if client.narrowed.is_part() && (run.calls.is_empty() || !whole) {
                    return Err(unknown());
                }
                if client.narrowed.is_part() {
                    // What was asked, and what could not be read of it, may be about any tool.
                    run.unread.clear();
                    run.runs.iter_mut().chain([&mut run.run]).for_each(|run| run.prompt = None);
                }
                Ok(as_json(json!(run)))
            }
            _ => Err(unknown()),
        }
    }
}
