//! Why a request had no result: one variant for each thing that the caller would do something else about.
//!
//! Invariant: no message holds what the server was sent, a header's value, or what a process printed.

use std::time::Duration;

use toolgate_contracts::unseen::is_unseen;
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_egress::{EgressError, Sent};

use crate::wire::{RpcError, code};

/// What a server says that it needs before it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The address of the metadata of the protected resource. Chosen by the server: judge it before fetching it.
    pub resource_metadata: Option<String>,
    pub scope: Option<String>,
    /// `invalid_token`, `insufficient_scope` and so on.
    pub error: Option<String>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum LinkError {
    #[error("the server cannot be used as it is configured: {why}")]
    Place { why: String },
    #[error("the server's process cannot be started: {why}")]
    Start { why: String },
    /// Not reached, or not allowed to be.
    #[error("{0}")]
    Egress(EgressError),
    #[error("the server wants other credentials (status {status})")]
    AuthRequired { status: u16, challenge: Challenge },
    #[error("the server is asked too often")]
    Limited { retry_after_s: Option<u64> },
    #[error("the server has a problem of its own (status {status})")]
    Unavailable { status: u16, retry_after_s: Option<u64> },
    #[error("the server does not accept the request (status {status})")]
    Refused { status: u16 },
    /// The answer is an error.
    #[error("the server answered with error {}: {}", .0.code, shown(&.0.message))]
    Rpc(RpcError),
    #[error("no answer within {} s", .after.as_secs_f32())]
    Timeout { after: Duration, sent: Sent },
    #[error("the request was cancelled")]
    Cancelled { sent: Sent },
    #[error("the connection to the server ended: {why}")]
    Closed { why: String, sent: Sent },
    /// An older server has forgotten who we are; it did nothing.
    #[error("the server has ended the session")]
    Session,
    #[error("the server sent what cannot be read: {why}")]
    Unreadable { why: String },
    #[error("the server sent a message of more than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
    #[error("the server and the gate speak no revision in common: it speaks {spoken}")]
    Revision { spoken: String },
    /// It failed before, and is left alone for a while.
    #[error("the server failed {failures} times in a row and is left alone for another {} s; last: {last}", .rest.as_secs() + 1)]
    Resting { failures: u32, rest: Duration, last: String },
    #[error("no more than {max} {what} are open at once")]
    Full { what: &'static str, max: usize },
}

impl LinkError {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Place { .. } => "place",
            Self::Start { .. } => "start",
            Self::Egress(_) => "egress",
            Self::AuthRequired { .. } => "auth_required",
            Self::Limited { .. } => "limited",
            Self::Unavailable { .. } => "unavailable",
            Self::Refused { .. } => "refused",
            Self::Rpc(_) => "error",
            Self::Timeout { .. } => "timeout",
            Self::Cancelled { .. } => "cancelled",
            Self::Closed { .. } => "closed",
            Self::Session => "session",
            Self::Unreadable { .. } => "unreadable",
            Self::TooLarge { .. } => "too_large",
            Self::Revision { .. } => "revision",
            Self::Resting { .. } => "resting",
            Self::Full { .. } => "full",
        }
    }

    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Place { .. } => "the operator corrects the entry of the server",
            Self::Start { .. } => "the operator checks the command, its rights and its folder; nothing was sent",
            Self::Egress(_) => "check that the server runs and that its host is open to this tool",
            Self::AuthRequired { .. } => "connect to the server again, or renew its secret",
            Self::Limited { .. } => "wait and try again",
            Self::Unavailable { .. } => "try again later, or ask the server's owner",
            Self::Refused { .. } => "check the address of the server and what it was sent",
            Self::Rpc(_) => "correct what was sent, if that is the reason",
            Self::Timeout { .. } => "allow more time, or look at what the server does",
            Self::Cancelled { .. } => "send it again if it is still wanted",
            Self::Closed { .. } | Self::Session => {
                "try again; `toolgate upstream show NAME` says what the server said last"
            }
            Self::Unreadable { .. } | Self::TooLarge { .. } => "ask the server's owner",
            Self::Revision { .. } => "update the server, or this gate",
            Self::Resting { .. } => "look at the server; it is tried again by itself",
            Self::Full { .. } => "try again later, or the operator raises the limit",
        }
    }

    /// Whether the server may have acted on the request.
    pub fn sent(&self) -> Sent {
        match self {
            Self::Egress(error) => error.sent(),
            Self::Timeout { sent, .. } | Self::Cancelled { sent } | Self::Closed { sent, .. } => *sent,
            // It took nothing in, or it said that something went wrong, and not how far it had come.
            Self::Unavailable { status, .. } => {
                if *status == 503 {
                    Sent::No
                } else {
                    Sent::Perhaps
                }
            }
            Self::Unreadable { .. } | Self::TooLarge { .. } => Sent::Perhaps,
            Self::Place { .. }
            | Self::Start { .. }
            | Self::AuthRequired { .. }
            | Self::Limited { .. }
            | Self::Refused { .. }
            | Self::Rpc(_)
            | Self::Session
            | Self::Revision { .. }
            | Self::Resting { .. }
            | Self::Full { .. } => Sent::No,
        }
    }

    /// The same end as another request of the link sees it that had not been sent.
    pub(crate) fn unsent(self) -> Self {
        match self {
            Self::Closed { why, sent: _ } => Self::Closed { why, sent: Sent::No },
            Self::Unreadable { .. } | Self::TooLarge { .. } => Self::Closed { why: self.to_string(), sent: Sent::No },
            other => other,
        }
    }

    /// Whether it says something about the server's health: what it answers, even if it refuses, does not.
    pub(crate) fn is_failure(&self) -> bool {
        match self {
            Self::Start { .. }
            | Self::Unavailable { .. }
            | Self::Closed { .. }
            | Self::Unreadable { .. }
            | Self::TooLarge { .. }
            | Self::Revision { .. } => true,
            Self::Egress(error) => {
                use toolgate_egress::Rule;
                matches!(error.rule(), Rule::Dns | Rule::Connect | Rule::Tls | Rule::Reset | Rule::Timeout)
            }
            // Of a caller in a hurry it says nothing.
            Self::Timeout { after, .. } => *after >= Duration::from_secs(10),
            Self::Place { .. }
            | Self::AuthRequired { .. }
            | Self::Limited { .. }
            | Self::Refused { .. }
            | Self::Rpc(_)
            | Self::Cancelled { .. }
            | Self::Session
            | Self::Resting { .. }
            | Self::Full { .. } => false,
        }
    }
}

/// What a server says, short and without characters that do something to a terminal.
pub(crate) fn shown(text: &str) -> String {
    text.chars()
        .take(500)
        .flat_map(|letter| {
            let escaped = is_unseen(letter);
            let plain = (!escaped).then_some(letter);
            plain.into_iter().chain(escaped.then(|| letter.escape_unicode()).into_iter().flatten())
        })
        .collect()
}

impl From<LinkError> for ToolError {
    fn from(error: LinkError) -> Self {
        let message = format!("{error}; {}", error.remedy());
        let named = |code, reason| Self::because(code, reason, message.clone()).with("upstream", error.name());
        match &error {
            LinkError::Egress(inner) => inner.clone().into(),
            LinkError::Place { .. } | LinkError::Start { .. } | LinkError::Full { .. } => {
                named(ErrorCode::NetworkError, "connect")
            }
            LinkError::Resting { rest, .. } => {
                named(ErrorCode::NetworkError, "connect").retry_after(rest.as_secs().saturating_add(1))
            }
            LinkError::AuthRequired { status, challenge } => {
                let told = named(ErrorCode::AuthRequired, "upstream").with("status", *status);
                match &challenge.resource_metadata {
                    Some(address) => told.with("resource_metadata", address.as_str()),
                    None => told,
                }
            }
            LinkError::Limited { retry_after_s } => waiting(named(ErrorCode::RateLimit, "upstream"), *retry_after_s),
            LinkError::Unavailable { status, retry_after_s } => {
                waiting(named(ErrorCode::ProviderError, "upstream_5xx").with("status", *status), *retry_after_s)
            }
            LinkError::Refused { status } => named(ErrorCode::ProviderError, "upstream_4xx").with("status", *status),
            LinkError::Rpc(answer) => {
                let asked_wrongly = matches!(
                    answer.code,
                    code::INVALID_PARAMS
                        | code::METHOD_NOT_FOUND
                        | code::INVALID_REQUEST
                        | code::RESOURCE_NOT_FOUND
                        | code::HEADER_MISMATCH
                        | code::MISSING_CAPABILITY
                        | code::UNSUPPORTED_VERSION
                        | code::OPEN_ADDRESS
                );
                if asked_wrongly {
                    return named(ErrorCode::ProviderError, "upstream_4xx").with("code", answer.code);
                }
                // It answered, so how it ended is known; how far it had come by then is not.
                let told = named(ErrorCode::ProviderError, "upstream_5xx").with("code", answer.code);
                told.with("perhaps_happened", true)
            }
            LinkError::Timeout { .. } => named(ErrorCode::Timeout, "timeout"),
            LinkError::Cancelled { .. } => named(ErrorCode::PolicyDenied, "cancelled"),
            LinkError::Closed { .. } | LinkError::Session | LinkError::TooLarge { .. } => {
                named(ErrorCode::NetworkError, "reset")
            }
            LinkError::Unreadable { .. } | LinkError::Revision { .. } => {
                named(ErrorCode::ProviderError, "upstream_5xx")
            }
        }
    }
}

fn waiting(error: ToolError, retry_after_s: Option<u64>) -> ToolError {
    match retry_after_s {
        Some(seconds) => error.retry_after(seconds),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_code_reason_and_whether_something_may_have_happened() {
        #[track_caller]
        fn check(error: LinkError, code: ErrorCode, reason: &str, sent: Sent) {
            assert_eq!(error.sent(), sent, "{error}");
            let told = ToolError::from(error);
            assert_eq!((told.code, told.reason()), (code, reason), "{told:?}");
        }
        let why = || "it left".to_owned();
        check(LinkError::Start { why: why() }, ErrorCode::NetworkError, "connect", Sent::No);
        let challenge = Challenge { resource_metadata: Some("https://a.test/m".to_owned()), ..Challenge::default() };
        check(LinkError::AuthRequired { status: 401, challenge }, ErrorCode::AuthRequired, "upstream", Sent::No);
        check(LinkError::Limited { retry_after_s: Some(5) }, ErrorCode::RateLimit, "upstream", Sent::No);
        for (status, sent) in [(500, Sent::Perhaps), (502, Sent::Perhaps), (503, Sent::No)] {
            let broken = LinkError::Unavailable { status, retry_after_s: None };
            check(broken, ErrorCode::ProviderError, "upstream_5xx", sent);
        }
        check(LinkError::Refused { status: 418 }, ErrorCode::ProviderError, "upstream_4xx", Sent::No);
        let wrong = RpcError::invalid_params("no such tool");
        check(LinkError::Rpc(wrong), ErrorCode::ProviderError, "upstream_4xx", Sent::No);
        check(LinkError::Rpc(RpcError::new(-32000, "")), ErrorCode::ProviderError, "upstream_5xx", Sent::No);
        let late = LinkError::Timeout { after: Duration::from_secs(3), sent: Sent::Perhaps };
        check(late, ErrorCode::Timeout, "timeout", Sent::Perhaps);
        check(LinkError::Cancelled { sent: Sent::No }, ErrorCode::PolicyDenied, "cancelled", Sent::No);
        let closed = LinkError::Closed { why: why(), sent: Sent::Perhaps };
        check(closed.clone(), ErrorCode::NetworkError, "reset", Sent::Perhaps);
        check(closed.unsent(), ErrorCode::NetworkError, "reset", Sent::No);
        check(LinkError::Unreadable { why: why() }, ErrorCode::ProviderError, "upstream_5xx", Sent::Perhaps);
        let resting = LinkError::Resting { failures: 3, rest: Duration::from_secs(7), last: why() };
        check(resting.clone(), ErrorCode::NetworkError, "connect", Sent::No);
        assert_eq!(ToolError::from(resting).retry_after_s, Some(8));
    }
}
