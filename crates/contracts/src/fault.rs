//! Errors: what a call ends with (`ToolError`), and what a request is refused with (`Fault`).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Closed: finer reasons go to `details.reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    ValidationError,
    Timeout,
    RateLimit,
    PolicyDenied,
    AuthRequired,
    ProviderError,
    NetworkError,
    SandboxError,
    Unknown,
}

/// The finer reasons of each code, in `details.reason`. Closed too: what is not here is not said.
pub const REASONS: [(ErrorCode, &[&str]); 8] = [
    (ErrorCode::ValidationError, &["schema", "unreadable", "mode", "too_large"]),
    (ErrorCode::Timeout, &["timeout", "wall", "lease_lost"]),
    (ErrorCode::RateLimit, &["rate", "asks", "upstream"]),
    (
        ErrorCode::PolicyDenied,
        &[
            "not_found",
            "blocked",
            "permission",
            "scope",
            "constraint",
            "profile",
            "policy",
            "policy_error",
            "guardrail",
            "label",
            "side_effects",
            "max_tool_calls",
            "max_iterations",
            "max_depth",
            "max_calls",
            "budget",
            "frozen",
            "egress",
            "approval_required",
            "approval_pending",
            "approval_timeout",
            "rejected",
            "expired",
            "cancelled",
            "result_withheld",
        ],
    ),
    (ErrorCode::AuthRequired, &["secret_missing", "secret_not_allowed", "token_expired", "token_revoked", "upstream"]),
    (
        ErrorCode::ProviderError,
        &[
            "upstream_4xx",
            "upstream_5xx",
            "output_schema",
            "refusal",
            "script_exhausted",
            "interrupted",
            "outcome_unknown",
        ],
    ),
    (ErrorCode::NetworkError, &["dns", "connect", "tls", "reset", "redirects"]),
    (
        ErrorCode::SandboxError,
        &["memory", "cpu", "processes", "files", "disk", "output", "exception", "tier_unavailable"],
    ),
];

/// How a call failed. Failures are data: they reach the model, which may correct itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolError {
    pub code: ErrorCode,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
}

impl ToolError {
    /// `reason` is one of [`REASONS`].
    pub fn because(code: ErrorCode, reason: &str, message: impl Into<String>) -> Self {
        debug_assert!(
            REASONS.iter().any(|(of, reasons)| *of == code && reasons.contains(&reason)),
            "`{reason}` is no reason of {code:?}"
        );
        Self { code, message: message.into(), details: Some(json!({"reason": reason})), retry_after_s: None }
    }

    /// Somebody called it off, and it did nothing more.
    pub fn cancelled() -> Self {
        Self::because(ErrorCode::PolicyDenied, "cancelled", "the call was cancelled")
    }

    /// A refused request in the form of a failed call.
    pub fn of(fault: &Fault) -> Self {
        let mut details = json!({"remedy": fault.remedy()});
        // The reasons of a code are a closed list; a fault that has none of them says none.
        match fault.kind() {
            FaultKind::Forbidden | FaultKind::NotFound | FaultKind::TooLarge => {
                details["reason"] = fault.kind().reason().into();
            }
            FaultKind::RateLimited => details["reason"] = "rate".into(),
            _ => {}
        }
        if let Some(reason) = fault.details().and_then(|details| details.get("reason")) {
            details["reason"] = reason.clone();
        }
        if let Some(pointer) = fault.pointer() {
            details["pointer"] = pointer.into();
        }
        Self {
            code: fault.kind().code(),
            message: fault.told().to_owned(),
            details: Some(details),
            retry_after_s: None,
        }
    }

    /// Adds a member to `details`.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        if let Value::Object(members) = self.details.get_or_insert_with(|| json!({})) {
            members.insert(member.to_owned(), value.into());
        }
        self
    }

    /// Of a limit that was reached: the `member` by which it is set, what it allows, and how much of that was used.
    #[must_use]
    pub fn at_limit(self, member: &str, most: impl Into<Value>, used: impl Into<Value>) -> Self {
        self.with("member", member).with("limit", most).with("used", used)
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    pub fn reason(&self) -> &str {
        self.details.as_ref().and_then(|details| details.get("reason")).and_then(Value::as_str).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The request cannot be read or does not say something possible.
    Invalid,
    Unauthenticated,
    Forbidden,
    NotFound,
    Conflict,
    TooLarge,
    RateLimited,
    /// The database or the disk does not let us go on; nothing was changed.
    Unavailable,
    /// A bug of ours.
    Internal,
}

impl FaultKind {
    pub const fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::TooLarge => 413,
            Self::RateLimited => 429,
            Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }

    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Invalid | Self::Conflict | Self::TooLarge => ErrorCode::ValidationError,
            Self::Unauthenticated => ErrorCode::AuthRequired,
            Self::Forbidden | Self::NotFound => ErrorCode::PolicyDenied,
            Self::RateLimited => ErrorCode::RateLimit,
            Self::Unavailable => ErrorCode::ProviderError,
            Self::Internal => ErrorCode::Unknown,
        }
    }

    /// The word after `type: …/errors/` and in `details.reason`.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "permission",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::TooLarge => "too_large",
            Self::RateLimited => "rate",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Invalid => "The request is not valid",
            Self::Unauthenticated => "Sign in or send a key",
            Self::Forbidden => "Not permitted",
            Self::NotFound => "Not found",
            Self::Conflict => "In conflict with what is there",
            Self::TooLarge => "Too large",
            Self::RateLimited => "Too many requests",
            Self::Unavailable => "Temporarily unavailable",
            Self::Internal => "Internal error",
        }
    }
}

/// A refused request. What the caller is told and what we log are two fields, so that `{}` cannot leak the inside.
#[derive(Debug, Clone)]
pub struct Fault(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: FaultKind,
    told: String,
    remedy: String,
    pointer: Option<String>,
    details: Option<Value>,
    logged: Option<String>,
    rule: Option<String>,
}

impl Fault {
    pub fn new(kind: FaultKind, told: impl Into<String>, remedy: impl Into<String>) -> Self {
        let inner = Inner {
            kind,
            told: told.into(),
            remedy: remedy.into(),
            pointer: None,
            details: None,
            logged: None,
            rule: None,
        };
        Self(Box::new(inner))
    }

    pub fn invalid(told: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(FaultKind::Invalid, told, remedy)
    }

    pub fn conflict(told: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(FaultKind::Conflict, told, remedy)
    }

    /// Hidden, foreign and unknown things answer alike.
    pub fn not_found(what: &str, name: impl fmt::Display) -> Self {
        let name: String = name.to_string().chars().take(120).flat_map(char::escape_debug).collect();
        let remedy = match what {
            "call" => "list what there is with `toolgate calls list`".to_owned(),
            "approval" => "list what there is with `toolgate approvals`".to_owned(),
            "policy revision" => "list what there is with `toolgate policy list`".to_owned(),
            "opening" => "list what there is with `toolgate egress list`".to_owned(),
            "agent or group of tools" => "list the agents with `toolgate agent list`; one has to be yours".to_owned(),
            "plug-in" => "list what there is with `toolgate plugin list`".to_owned(),
            "acceptance" => "list what there is with `toolgate label acceptances`".to_owned(),
            "question" => "list what there is with `toolgate input list`".to_owned(),
            "kill switch" => "list what there is with `toolgate killswitch list`".to_owned(),
            "step" => "see the run's steps with `toolgate run show RUN`".to_owned(),
            "blob" => {
                "see the call's attachments with `toolgate calls show CALL`; they are kept for thirty days".to_owned()
            }
            "assignment" => "list what there is with `toolgate tool list --assignments`".to_owned(),
            "tool group" => "name a group that a tool declares, or one of the built-in ones".to_owned(),
            other => format!("list what there is with `toolgate {other} list`"),
        };
        Self::new(FaultKind::NotFound, format!("no {what} `{name}`"), remedy)
    }

    pub fn internal(logged: impl fmt::Display) -> Self {
        let mut fault = Self::new(
            FaultKind::Internal,
            "something went wrong inside Toolgate; nothing was changed",
            "see the server's log, and report it if it happens again",
        );
        fault.0.logged = Some(logged.to_string());
        fault
    }

    /// Which member of the request is meant, as a JSON Pointer.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.0.pointer = Some(pointer.into());
        self
    }

    /// Of a part: its place is within `prefix`.
    #[must_use]
    pub fn below(mut self, prefix: &str) -> Self {
        self.0.pointer = Some(format!("{prefix}{}", self.0.pointer.unwrap_or_default()));
        self
    }

    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.0.details = Some(details);
        self
    }

    #[must_use]
    pub fn with_log(mut self, logged: impl fmt::Display) -> Self {
        self.0.logged = Some(logged.to_string());
        self
    }

    /// Which named rule of the database refused, so that whoever knows the case can say it in words.
    #[must_use]
    pub fn by_rule(mut self, rule: impl Into<String>) -> Self {
        self.0.rule = Some(rule.into());
        self
    }

    pub fn broken_rule(&self) -> Option<&str> {
        self.0.rule.as_deref()
    }

    pub fn kind(&self) -> FaultKind {
        self.0.kind
    }

    pub fn told(&self) -> &str {
        &self.0.told
    }

    pub fn remedy(&self) -> &str {
        &self.0.remedy
    }

    pub fn pointer(&self) -> Option<&str> {
        self.0.pointer.as_deref()
    }

    pub fn details(&self) -> Option<&Value> {
        self.0.details.as_ref()
    }

    pub fn logged(&self) -> Option<&str> {
        self.0.logged.as_deref()
    }

    /// RFC 9457 `application/problem+json`.
    pub fn problem(&self) -> Value {
        let Inner { kind, told, remedy, pointer, details, logged: _, rule: _ } = &*self.0;
        let mut problem = json!({
            "type": format!("/docs/errors/{}", kind.reason()),
            "title": kind.title(),
            "status": kind.status(),
            "detail": told,
            "code": kind.code(),
            "remedy": remedy,
        });
        if let Some(pointer) = pointer {
            problem["pointer"] = json!(pointer);
        }
        if let Some(details) = details {
            problem["details"] = details.clone();
        }
        problem
    }
}

impl From<crate::json::Error> for Fault {
    fn from(error: crate::json::Error) -> Self {
        let crate::json::Error { pointer, message } = error;
        let fault = Self::invalid(message, "correct the request and send it again; nothing was changed");
        if pointer.is_empty() { fault } else { fault.at(pointer) }
    }
}
