//! `toolgate calls show --save`: large payloads as files.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::super::counted_of;
use crate::client::Client;
use crate::failure::{Done, Failure};
use crate::input::reason;
use crate::output::{Output, text_of};

const BLOBS: &str = "/api/v1/blobs/";

pub async fn save(call: &Value, folder: &Path, client: &Client, output: &Output) -> Done {
    let attachments = call["attachments"].as_array().map(Vec::as_slice).unwrap_or_default();
    if attachments.is_empty() {
        return Err(Failure::failed("the call has no attachments", "see what it has with `toolgate calls show ID`"));
    }
    let unwritten = |path: &Path, error: &std::io::Error| {
        let told = format!("cannot write {}: {}", path.display(), reason(error));
        Failure::failed(told, "choose another folder with --save")
    };
    fs::create_dir_all(folder).map_err(|error| unwritten(folder, &error))?;
    let mut files = Vec::new();
    for attachment in attachments {
        let url = text_of(attachment, "url");
        let Some(id) = url.strip_prefix(BLOBS).filter(|id| id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
        else {
            return Err(Failure::failed(format!("`{url}` is not an attachment of this server"), "read it yourself"));
        };
        let bytes = client.bytes(&["blobs", id]).await?;
        let path = folder.join(format!("{id}.{}", ending(&text_of(attachment, "content_type"))));
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(&bytes)).map_err(|error| unwritten(&path, &error))?;
        files.push(json!({"file": path.display().to_string(), "bytes": bytes.len(), "kind": attachment["kind"]}));
    }
    let told = format!("Wrote {} into {}.", counted_of(files.len(), "file"), folder.display());
    output.show(&json!({"files": files}), |value, _| {
        let names: Vec<String> =
            value["files"].as_array().into_iter().flatten().map(|file| text_of(file, "file")).collect();
        crate::output::clean(&format!("{told}\n{}", names.join("\n")))
    })
}

fn ending(content_type: &str) -> &'static str {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "application/json" => "json",
        "text/csv" => "csv",
        "text/html" => "html",
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "application/pdf" => "pdf",
        text if text.starts_with("text/") => "txt",
        _ => "bin",
    }
}
