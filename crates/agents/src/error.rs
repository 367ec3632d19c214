//! Why a model did not answer: one taxonomy for all providers, so that a run can tell what may be tried again.

use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_egress::{EgressError, Rule};
use toolgate_vault::Redactor;

/// What of an answer that says what is wrong is shown on, once the key is out of it.
pub(crate) const PREVIEW_CHARS_MAX: usize = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It is asked too often, or what was paid for is used up.
    RateLimited,
    /// It has too much to do, whoever asks.
    Overloaded,
    /// It does not take the key, or there is none.
    Unauthorized,
    /// The provider does not let the model answer this.
    Refused,
    /// It does not accept the request.
    Rejected,
    /// It has a problem of its own.
    Failed,
    /// The answer broke off before its end.
    Interrupted,
    /// The script has no turn for this request.
    ScriptExhausted,
    /// No connection, or none that lasted until an answer began.
    Network,
    /// Nothing may go out to where the provider is.
    Denied,
    /// The answer has more bytes or calls than are taken.
    TooLarge,
    /// The answer did not come or go on in time.
    TooLong,
    /// The time for the whole question was over.
    Late,
    /// The request has more than the model reads.
    Window,
    /// What came is no answer in this provider's manner.
    Unreadable,
    /// What came is no answer of a model at all: somebody else's page.
    Foreign,
    /// The request cannot be made: a parameter that is not the author's to set, a provider without an address.
    Invalid,
}

impl ErrorKind {
    /// The code of the call's or run's error and its `details.reason`.
    const fn reason(self) -> (ErrorCode, &'static str) {
        match self {
            Self::RateLimited => (ErrorCode::RateLimit, "upstream"),
            Self::Overloaded | Self::Failed => (ErrorCode::ProviderError, "upstream_5xx"),
            Self::Unauthorized => (ErrorCode::AuthRequired, "upstream"),
            Self::Refused => (ErrorCode::ProviderError, "refusal"),
            Self::Rejected => (ErrorCode::ProviderError, "upstream_4xx"),
            // What broke off and what we broke off are the same to whoever waited for an answer.
            Self::Interrupted | Self::TooLarge => (ErrorCode::ProviderError, "interrupted"),
            Self::ScriptExhausted => (ErrorCode::ProviderError, "script_exhausted"),
            Self::Network => (ErrorCode::NetworkError, "reset"),
            Self::Denied => (ErrorCode::PolicyDenied, "egress"),
            Self::TooLong | Self::Late => (ErrorCode::Timeout, "timeout"),
            Self::Window => (ErrorCode::ValidationError, "too_large"),
            Self::Unreadable | Self::Foreign => (ErrorCode::ProviderError, "output_schema"),
            Self::Invalid => (ErrorCode::ValidationError, "schema"),
        }
    }

    /// Whether the same request may be answered in a moment.
    pub const fn passes(self) -> bool {
        matches!(self, Self::RateLimited | Self::Overloaded | Self::Failed | Self::Network)
    }

    /// Whether something may have been written, and be charged: it broke off in the middle, or we did.
    pub const fn may_cost(self) -> bool {
        matches!(self, Self::Interrupted | Self::TooLarge | Self::TooLong | Self::Late | Self::Unreadable)
    }
}

/// Boxed: it is rare, and results are many.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelError(Box<Inner>);

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    kind: ErrorKind,
    error: ToolError,
    /// The provider says that trying again does not help, or we know.
    lasting: bool,
}

impl ModelError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let (code, reason) = kind.reason();
        Self(Box::new(Inner { kind, error: ToolError::because(code, reason, message), lasting: false }))
    }

    pub(crate) fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "the answer broke off before its end; ask again")
    }

    pub(crate) fn unreadable(what: impl std::fmt::Display) -> Self {
        Self::new(ErrorKind::Unreadable, format!("the provider's answer cannot be read: {what}"))
    }

    /// A run's time that was over, and not the model's.
    pub(crate) fn out_of_time(error: ToolError) -> Self {
        Self(Box::new(Inner { kind: ErrorKind::Late, error, lasting: true }))
    }

    pub(crate) fn secret(code: &str, message: String) -> Self {
        let error = ToolError::because(ErrorCode::AuthRequired, code, message);
        Self(Box::new(Inner { kind: ErrorKind::Unauthorized, error, lasting: true }))
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// As it is recorded and shown.
    pub fn error(&self) -> &ToolError {
        &self.0.error
    }

    pub fn retry_after_s(&self) -> Option<u64> {
        self.0.error.retry_after_s
    }

    /// Whether the same request may be answered in a moment.
    pub fn may_pass(&self) -> bool {
        self.0.kind.passes() && !self.0.lasting
    }

    #[must_use]
    pub(crate) fn lasting(mut self) -> Self {
        self.0.lasting = true;
        self
    }

    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: Option<u64>) -> Self {
        self.0.error.retry_after_s = seconds;
        self
    }

    /// How often it was asked, and when it may be again, also in words.
    #[must_use]
    pub(crate) fn after(mut self, tries: u32) -> Self {
        let message = &mut self.0.error.message;
        if tries > 1 {
            *message = format!("{message}; it was asked {tries} times");
        }
        if let Some(seconds) = self.0.error.retry_after_s {
            *message = format!("{message}; it says to come back in {seconds} s");
        }
        self.with("tries", tries)
    }

    /// Adds a member to `details`.
    #[must_use]
    pub(crate) fn with(mut self, member: &str, value: impl Into<serde_json::Value>) -> Self {
        self.0.error = self.0.error.with(member, value);
        self
    }

    /// Of a request that did not get an answer, or of an answer that broke off once it had `begun`.
    pub(crate) fn of(error: EgressError, begun: bool) -> Self {
        let kind = match error.rule() {
            Rule::Url | Rule::Header => ErrorKind::Invalid,
            Rule::Scheme | Rule::Port | Rule::Address | Rule::Never | Rule::Hosts | Rule::Redirect => ErrorKind::Denied,
            Rule::TooLarge => ErrorKind::TooLarge,
            Rule::Timeout => ErrorKind::TooLong,
            Rule::Reset if begun => ErrorKind::Interrupted,
            Rule::Encoding | Rule::Mail => ErrorKind::Unreadable,
            Rule::Dns | Rule::Connect | Rule::Tls | Rule::Reset | Rule::Redirects => ErrorKind::Network,
        };
        // A name that is not there and a certificate that is wrong are so a second later.
        let lasting = matches!(error.rule(), Rule::Dns | Rule::Tls | Rule::Redirects);
        let told = match kind {
            ErrorKind::Interrupted | ErrorKind::TooLarge | ErrorKind::Unreadable => {
                let mut own = Self::new(kind, error.to_string()).with("rule", error.rule().as_str());
                if let Some(host) = error.host() {
                    own = own.with("host", host);
                }
                own.0.error
            }
            _ => ToolError::from(error),
        };
        Self(Box::new(Inner { kind, error: told, lasting }))
    }

    /// Without what must not leave, in whatever encoding it is quoted, and only then cut: half a key is found by nobody.
    #[must_use]
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        let told = |text: &str| redactor.redact_text(text).chars().take(PREVIEW_CHARS_MAX).collect::<String>();
        self.0.error.message = told(&self.0.error.message);
        if let Some(serde_json::Value::Object(members)) = &mut self.0.error.details {
            for member in members.values_mut() {
                *member = match std::mem::take(member) {
                    serde_json::Value::String(text) => told(&text).into(),
                    other => redactor.redact_json(other),
                };
            }
        }
        self
    }

    /// With a text replaced wherever it is quoted: what a provider says of a key that it does not take may hold it.
    #[must_use]
    pub(crate) fn without(mut self, text: &str, shown: &str) -> Self {
        fn clean(value: &mut serde_json::Value, text: &str, shown: &str) {
            match value {
                serde_json::Value::String(quoted) if quoted.contains(text) => *quoted = quoted.replace(text, shown),
                serde_json::Value::Object(members) => members.values_mut().for_each(|value| clean(value, text, shown)),
                _ => {}
            }
        }
        if !text.is_empty() {
            self.0.error.message = self.0.error.message.replace(text, shown);
            self.0.error.details.iter_mut().for_each(|details| clean(details, text, shown));
        }
        self
    }
}

impl std::fmt::Display for ModelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.error.message)
    }
}

impl std::error::Error for ModelError {}

impl From<ModelError> for ToolError {
    fn from(error: ModelError) -> Self {
        error.0.error
    }
}
