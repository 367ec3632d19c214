//! What a server was sent in secret and says back where it fails: in the words of an error, in what it wants before it
//! answers, in what its process complained about. It is taken out before anybody keeps, shows or logs it, and before it
//! is cut short: half a secret is still one.

use toolgate_vault::Redactor;
use zeroize::Zeroizing;

use super::error::{Challenge, LinkError};
use super::exchange::Outlet;
use super::place::{Given, Upstream};
use crate::wire::RpcError;

/// An error without what the server was given, and without what went out by these ways.
pub fn without(error: LinkError, upstream: &Upstream, outlets: &[&dyn Outlet]) -> LinkError {
    let tokens: Vec<Zeroizing<String>> = outlets.iter().flat_map(|outlet| outlet.bore()).collect();
    if upstream.secrets.is_empty() && tokens.is_empty() {
        return error;
    }
    let given = upstream.secrets.iter().map(|Given { name, value }| (name.as_str(), value.as_str()));
    let known: Vec<(&str, &str)> = given.chain(tokens.iter().map(|token| ("token", token.as_str()))).collect();
    // A host is told in small letters, however the server wrote it.
    let small = |(name, value): &(_, &str)| (*name, Zeroizing::new(value.to_ascii_lowercase()));
    let small: Vec<(&str, Zeroizing<String>)> = known.iter().map(small).collect();
    let all = known.iter().copied().chain(small.iter().map(|(name, value)| (*name, value.as_str())));
    match Redactor::of_values(all.map(|(name, value)| (name, value.as_bytes()))) {
        Ok(redactor) => redacted(error, &redactor),
        Err(_) => LinkError::Unreadable { why: UNTOLD.to_owned() },
    }
}

/// What takes out of a process's complaints what it was given.
pub fn of_complaints(upstream: &Upstream) -> Result<Redactor, LinkError> {
    let given = upstream.secrets.iter().map(|Given { name, value }| (name.as_str(), value.as_bytes()));
    Redactor::of_values(given).map_err(|_| LinkError::Place { why: "its secrets are too large".to_owned() })
}

const UNTOLD: &str = "what it said could not be kept apart from secrets";

fn redacted(error: LinkError, redactor: &Redactor) -> LinkError {
    let text = |text: String| redactor.redact_text(&text).into_owned();
    match error {
        LinkError::Rpc(RpcError { code, message, data }) => {
            let data = data.map(|data| redactor.redact_json(data));
            LinkError::Rpc(RpcError { code, message: text(message), data })
        }
        LinkError::AuthRequired { status, challenge: Challenge { resource_metadata, scope, error } } => {
            let challenge = Challenge {
                resource_metadata: resource_metadata.map(text),
                scope: scope.map(text),
                error: error.map(text),
            };
            LinkError::AuthRequired { status, challenge }
        }
        LinkError::Place { why } => LinkError::Place { why: text(why) },
        LinkError::Start { why } => LinkError::Start { why: text(why) },
        LinkError::Closed { why, sent } => LinkError::Closed { why: text(why), sent },
        LinkError::Unreadable { why } => LinkError::Unreadable { why: text(why) },
        LinkError::Revision { spoken } => LinkError::Revision { spoken: text(spoken) },
        LinkError::Resting { failures, rest, last } => LinkError::Resting { failures, rest, last: text(last) },
        // It names the host that a redirect goes to.
        LinkError::Egress(error) => LinkError::Egress(error.with_words(text)),
        // They hold no words of the server.
        LinkError::Limited { .. }
        | LinkError::Unavailable { .. }
        | LinkError::Refused { .. }
        | LinkError::Timeout { .. }
        | LinkError::Cancelled { .. }
        | LinkError::Session
        | LinkError::TooLarge { .. }
        | LinkError::Full { .. } => error,
    }
}
