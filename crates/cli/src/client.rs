//! The API as commands see it: over HTTP against a server, or in process on a local data folder.
//!
//! Both end in the same router, so a command is written once and cannot do different things.

mod follow;
mod local;
mod remote;

use axum::http::{HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use toolgate_contracts::page::PAGE_ITEMS_MAX;

use crate::failure::Failure;

pub use follow::{Follower, Sse};
pub use local::Local;
pub use remote::{Reached, Remote, Unanswered};

const PREFIX: &str = "/api/v1";
/// How this program calls itself in `toolgate_server::CLIENT_HEADER`.
const CLIENT: &str = "cli";
/// What a path segment or a query value may hold as it is.
const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'@');
/// An answer larger than this is not one of ours.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

pub enum Client {
    Remote(Remote),
    Local(Box<Local>),
}

/// A parameter of a query; one without a value is left out.
pub type Parameter<'a> = (&'a str, Option<String>);

impl Client {
    pub async fn get(&self, path: &[&str], query: &[Parameter<'_>]) -> Result<Value, Failure> {
        self.send(Method::GET, path, query, None).await
    }

    pub async fn post(&self, path: &[&str], body: Value) -> Result<Value, Failure> {
        self.send(Method::POST, path, &[], Some(body)).await
    }

    pub async fn put(&self, path: &[&str], body: Value) -> Result<Value, Failure> {
        self.send(Method::PUT, path, &[], Some(body)).await
    }

    pub async fn put_with(&self, path: &[&str], query: &[Parameter<'_>], body: Value) -> Result<Value, Failure> {
        self.send(Method::PUT, path, query, Some(body)).await
    }

    pub async fn patch(&self, path: &[&str], body: Value) -> Result<Value, Failure> {
        self.send(Method::PATCH, path, &[], Some(body)).await
    }

    pub async fn delete(&self, path: &[&str]) -> Result<Value, Failure> {
        self.send(Method::DELETE, path, &[], None).await
    }

    pub async fn delete_with(&self, path: &[&str], query: &[Parameter<'_>]) -> Result<Value, Failure> {
        self.send(Method::DELETE, path, query, None).await
    }

    /// An answer that is text and not JSON.
    pub async fn text(&self, path: &[&str], query: &[Parameter<'_>]) -> Result<String, Failure> {
        let (status, bytes) = self.exchange(Method::GET, path, query, None).await?;
        match (status, String::from_utf8(bytes)) {
            (200..=299, Ok(text)) => Ok(text),
            (status, refused) => {
                answer(status, refused.unwrap_or_default().as_bytes())?;
                Err(Failure::unreachable("the answer is no text", "check that the URL is a Toolgate server's"))
            }
        }
    }

    /// Sends a file as it is.
    pub async fn upload(
        &self,
        path: &[&str],
        query: &[Parameter<'_>],
        content_type: &'static str,
        bytes: Vec<u8>,
    ) -> Result<Value, Failure> {
        let target = target(path, query)?;
        let (status, bytes) = match self {
            Self::Remote(remote) => remote.upload(&target, content_type, bytes).await?,
            Self::Local(local) => local.upload(&target, content_type, bytes).await?,
        };
        answer(status, &bytes)
    }

    /// What stands beside the API, at an address that is the same everywhere.
    pub async fn well_known(&self, name: &str) -> Result<Value, Failure> {
        let target = format!("/.well-known/{name}");
        let (status, bytes) = match self {
            Self::Remote(remote) => remote.send(Method::GET, &target, None).await?,
            Self::Local(local) => local.send(Method::GET, &target, None).await?,
        };
        answer(status, &bytes)
    }

    /// An answer that is a file.
    pub async fn bytes(&self, path: &[&str]) -> Result<Vec<u8>, Failure> {
        let (status, bytes) = self.exchange(Method::GET, path, &[], None).await?;
        if (200..=299).contains(&status) {
            return Ok(bytes);
        }
        answer(status, &bytes)?;
        Err(Failure::unreachable(format!("the answer (status {status}) is no file"), "try again"))
    }

    /// Follows a run from its first event on.
    pub fn follow(&self, run: &str) -> Result<Follower<'_>, Failure> {
        Ok(Follower::of_run(self, run, target(&["runs", run, "events"], &[])?))
    }

    /// Follows everything that happens in the tenant from now on.
    pub fn follow_tenant(&self) -> Result<Follower<'_>, Failure> {
        Ok(Follower::of_tenant(self, target(&["events"], &[])?))
    }

    /// Whether tools run in this very process, which nobody else can reach then.
    pub const fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// A list over as many pages as `limit` items need, as one page.
    pub async fn list(&self, path: &[&str], query: &[Parameter<'_>], limit: u32) -> Result<Value, Failure> {
        let mut items: Vec<Value> = Vec::new();
        let begin = query.iter().find(|(name, _)| *name == "cursor");
        let mut cursor: Option<String> = begin.and_then(|(_, cursor)| cursor.clone());
        let query: Vec<_> = query.iter().filter(|(name, _)| *name != "cursor").cloned().collect();
        loop {
            let missing = limit.saturating_sub(u32::try_from(items.len()).unwrap_or(u32::MAX));
            let mut query = query.clone();
            query.push(("limit", Some(missing.min(PAGE_ITEMS_MAX).to_string())));
            query.push(("cursor", cursor.take()));
            let mut page = self.get(path, &query).await?;
            match page["items"].take() {
                Value::Array(more) => items.extend(more),
                _ => {
                    return Err(Failure::unreachable(
                        "the server's answer is not a list",
                        "check that the URL is a Toolgate server's",
                    ));
                }
            }
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            let enough = u32::try_from(items.len()).is_ok_and(|count| count >= limit);
            if cursor.is_none() || enough {
                return Ok(json!({"items": items, "next_cursor": cursor}));
            }
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[Parameter<'_>],
        body: Option<Value>,
    ) -> Result<Value, Failure> {
        let (status, bytes) = self.exchange(method, path, query, body).await?;
        answer(status, &bytes)
    }

    async fn exchange(
        &self,
        method: Method,
        path: &[&str],
        query: &[Parameter<'_>],
        body: Option<Value>,
    ) -> Result<(u16, Vec<u8>), Failure> {
        let target = target(path, query)?;
        // A null member would say nothing; left out, the body reads as a person would write it.
        let body = body.map(without_nulls);
        match self {
            Self::Remote(remote) => remote.send(method, &target, body).await,
            Self::Local(local) => local.send(method, &target, body).await,
        }
    }

    /// Ends the use of a local data folder: what was written is on the disk and the lock is free.
    pub async fn close(self) {
        match self {
            Self::Remote(_) => {}
            Self::Local(local) => local.close().await,
        }
    }
}

/// How a key or token is shown.
fn bearer(key: &str) -> Result<HeaderValue, Failure> {
    let mut bearer = HeaderValue::from_str(&format!("Bearer {key}"))
        .map_err(|_| Failure::usage("the key holds characters that no key has", "give the key as it was printed"))?;
    bearer.set_sensitive(true);
    Ok(bearer)
}

/// A name as one segment of a path.
pub fn segment(name: &str) -> String {
    utf8_percent_encode(name, &PLAIN).to_string()
}

fn target(path: &[&str], query: &[Parameter<'_>]) -> Result<String, Failure> {
    let mut target = PREFIX.to_owned();
    for segment in path {
        // Such a segment would mean another path.
        if matches!(*segment, "" | "." | "..") {
            return Err(Failure::usage(format!("`{segment}` is not a name"), "name what you mean"));
        }
        target.push('/');
        target.extend(utf8_percent_encode(segment, &PLAIN));
    }
    let mut separator = '?';
    for (name, value) in query {
        if let Some(value) = value {
            target.push(separator);
            target.push_str(name);
            target.push('=');
            target.extend(utf8_percent_encode(value, &PLAIN));
            separator = '&';
        }
    }
    Ok(target)
}

fn without_nulls(mut body: Value) -> Value {
    if let Value::Object(members) = &mut body {
        members.retain(|_, member| !member.is_null());
    }
    body
}

fn answer(status: u16, bytes: &[u8]) -> Result<Value, Failure> {
    let value = if bytes.is_empty() { Some(Value::Null) } else { serde_json::from_slice::<Value>(bytes).ok() };
    match (status, value) {
        (200..=299, Some(value)) => Ok(value),
        (400..=599, Some(problem)) if problem["detail"].is_string() => Err(Failure::answered(status, problem)),
        (status, _) => Err(Failure::unreachable(
            format!("the answer (status {status}) does not come from Toolgate"),
            "check the address: it must be a Toolgate server's, without a path",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_their_segment() {
        let query = [("q", Some("a b&c".to_owned())), ("kind", None), ("limit", Some("5".to_owned()))];
        assert_eq!(target(&["tools", "a.b@1.0.0"], &[]).unwrap(), "/api/v1/tools/a.b@1.0.0");
        assert_eq!(
            target(&["users", "Ada / ../x?é"], &query).unwrap(),
            "/api/v1/users/Ada%20%2F%20..%2Fx%3F%C3%A9?q=a%20b%26c&limit=5"
        );
        for name in ["", ".", ".."] {
            assert!(target(&["tools", name], &[]).is_err());
        }
    }

    #[test]
    fn what_does_not_speak_like_toolgate_is_not_taken_for_it() {
        assert!(answer(200, b"{}").is_ok());
        assert!(answer(204, b"").is_ok());
        let refused = answer(404, br#"{"detail": "no tool"}"#).unwrap_err();
        assert_eq!(refused.told(), "no tool");
        for (status, body) in [(200, "<html>"), (404, "<html>"), (404, "{}"), (301, "{}"), (502, "bad gateway")] {
            assert_eq!(
                answer(status, body.as_bytes()).unwrap_err().exit(),
                crate::failure::Exit::Unreachable,
                "{status} {body}"
            );
        }
    }
}
