//! Why a request did not go out or its answer did not come in: which rule, about which host, and what to do.
//!
//! Invariant: no message holds a path, a query, a header value or an address that a name resolved to.

use std::fmt;

use toolgate_contracts::id::OpeningId;
use toolgate_contracts::{ErrorCode, Fault, FaultKind, ToolError};

/// The rule that was broken, as it is shown in `details.rule`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The URL cannot be used: no host, port 0, a user or a password in it, a placeholder filled so that it leaves its place.
    Url,
    /// A header or a method that only the connector sets, or that is none.
    Header,
    /// Neither `https`, nor `http` to a host that was opened for it.
    Scheme,
    Port,
    /// The host has an address that is closed.
    Address,
    /// A metadata service, or a form of address through which one could be reached.
    Never,
    /// Not on the closed list of the tool, the tenant or the profile.
    Hosts,
    /// A redirect would have carried a write elsewhere, or left `https`.
    Redirect,
    Dns,
    Connect,
    Tls,
    Reset,
    /// More than the most that are followed, or one that cannot be read.
    Redirects,
    Timeout,
    TooLarge,
    Encoding,
    /// The relay did not take the mail.
    Mail,
}

impl Rule {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Header => "header",
            Self::Scheme => "scheme",
            Self::Port => "port",
            Self::Address => "address",
            Self::Never => "never",
            Self::Hosts => "hosts",
            Self::Redirect => "redirect",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Reset => "reset",
            Self::Redirects => "redirects",
            Self::Timeout => "timeout",
            Self::TooLarge => "too_large",
            Self::Encoding => "encoding",
            Self::Mail => "mail",
        }
    }

    /// The code of the call's error and its `details.reason`.
    const fn reason(self) -> (ErrorCode, &'static str) {
        match self {
            Self::Url | Self::Header => (ErrorCode::ValidationError, "schema"),
            Self::Scheme | Self::Port | Self::Address | Self::Never | Self::Hosts | Self::Redirect => {
                (ErrorCode::PolicyDenied, "egress")
            }
            Self::Dns => (ErrorCode::NetworkError, "dns"),
            Self::Connect => (ErrorCode::NetworkError, "connect"),
            Self::Tls => (ErrorCode::NetworkError, "tls"),
            // We broke it off ourselves; to the caller the answer did not come in either way.
            Self::Reset | Self::TooLarge | Self::Encoding => (ErrorCode::NetworkError, "reset"),
            Self::Redirects => (ErrorCode::NetworkError, "redirects"),
            Self::Timeout => (ErrorCode::Timeout, "timeout"),
            Self::Mail => (ErrorCode::ProviderError, "upstream_5xx"),
        }
    }
}

/// Whether the other side may have acted on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Nothing of it left this machine: it can be tried again without doubling an effect.
    No,
    /// Some or all of it left; whether it was acted on is not known.
    Perhaps,
}

#[derive(Clone, Debug)]
pub struct EgressError(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    rule: Rule,
    told: String,
    remedy: String,
    host: Option<String>,
    logged: Option<String>,
    sent: Sent,
    openings: Vec<OpeningId>,
}

impl EgressError {
    pub(crate) fn new(rule: Rule, told: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (told, remedy) = (told.into(), remedy.into());
        Self(Box::new(Inner { rule, told, remedy, host: None, logged: None, sent: Sent::No, openings: Vec::new() }))
    }

    /// There is no way out at all: whose it would be is gone, or closed itself to hosts that cannot be read.
    pub fn no_way(fault: &Fault) -> Self {
        Self::new(Rule::Hosts, fault.told(), fault.remedy())
    }

    pub(crate) fn of(mut self, host: impl fmt::Display) -> Self {
        self.0.host = Some(host.to_string());
        self
    }

    pub(crate) fn with_log(mut self, logged: impl fmt::Display) -> Self {
        self.0.logged = Some(logged.to_string());
        self
    }

    pub(crate) fn perhaps_sent(mut self) -> Self {
        self.0.sent = Sent::Perhaps;
        self
    }

    pub(crate) fn with_openings(mut self, openings: Vec<OpeningId>) -> Self {
        self.0.openings = openings;
        self
    }

    /// The same in other words: without what whoever sent the request knows to be secret. A host that a redirect names
    /// is the other side's choice.
    #[must_use]
    pub fn with_words(self, change: impl Fn(String) -> String) -> Self {
        let Inner { rule, told, remedy, host, logged, sent, openings } = *self.0;
        let (told, remedy, host, logged) = (change(told), change(remedy), host.map(&change), logged.map(&change));
        Self(Box::new(Inner { rule, told, remedy, host, logged, sent, openings }))
    }

    pub fn rule(&self) -> Rule {
        self.0.rule
    }

    pub fn told(&self) -> &str {
        &self.0.told
    }

    pub fn remedy(&self) -> &str {
        &self.0.remedy
    }

    pub fn host(&self) -> Option<&str> {
        self.0.host.as_deref()
    }

    /// For the log only: addresses, and what the libraries below said.
    pub fn logged(&self) -> Option<&str> {
        self.0.logged.as_deref()
    }

    pub fn sent(&self) -> Sent {
        self.0.sent
    }

    /// Openings that were used before it failed; each is to be audited.
    pub fn openings(&self) -> &[OpeningId] {
        &self.0.openings
    }
}

impl fmt::Display for EgressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.0.told, self.0.remedy)
    }
}

impl std::error::Error for EgressError {}

impl From<EgressError> for ToolError {
    fn from(error: EgressError) -> Self {
        let (code, reason) = error.0.rule.reason();
        let told = Self::because(code, reason, error.to_string()).with("rule", error.0.rule.as_str());
        match error.0.host {
            Some(host) => told.with("host", host),
            None => told,
        }
    }
}

impl From<EgressError> for Fault {
    fn from(error: EgressError) -> Self {
        let kind = match error.0.rule.reason().0 {
            ErrorCode::ValidationError => FaultKind::Invalid,
            ErrorCode::PolicyDenied => FaultKind::Forbidden,
            _ => FaultKind::Unavailable,
        };
        let Inner { rule: _, told, remedy, host: _, logged, sent: _, openings: _ } = *error.0;
        let fault = Self::new(kind, told, remedy);
        match logged {
            Some(logged) => fault.with_log(logged),
            None => fault,
        }
    }
}
