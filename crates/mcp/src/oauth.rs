//! Tokens for servers of others: where they are to be had, who we are there, and how a person's yes or our own secret
//! becomes one.
//!
//! Everything leaves by an [`Outlet`]; whoever makes one judges where requests may go. Invariant: what an authorisation
//! server gave is used with that one alone, by the name that it has for itself; a token is for one server (`resource`)
//! and is never shown to another. Nothing of a caller's goes into any request here.
//! Deliberately absent: keeping tokens, which is whoever's that holds them, and the browser.

mod asked;
mod client;
mod discovery;
mod grant;

use std::fmt;

use serde::{Deserialize, Serialize};
use toolgate_contracts::{Fault, FaultKind, Timestamp};
use toolgate_egress::EgressError;
use zeroize::Zeroize as _;

pub use self::client::{Client, ClientAuth, Known, Registering, client_for};
pub use self::discovery::{Authority, discover};
pub use self::grant::{Answer, Attempt, Wanting, begin, by_secret, finish, refresh, scope_for, with_more};
#[doc(no_inline)]
pub use crate::upstream::{Challenge, Outlet};

/// Of what is answered here.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Of a token, a code, a scope.
const TEXT_BYTES_MAX: usize = 8 * 1024;
/// A token this near to its end is renewed before it is used.
pub const EARLY_S: i64 = 30;

#[derive(Clone, Debug, thiserror::Error)]
pub enum OauthError {
    #[error("{0}")]
    Egress(EgressError),
    /// Something that a server says of itself cannot be used.
    #[error("{0}")]
    Wrong(String),
    /// It was asked, and said no. Its own words are shortened and safe to show.
    #[error("the authorisation server refuses: {error}{}", described(.description.as_deref()))]
    Refused { error: String, description: Option<String> },
}

fn described(description: Option<&str>) -> String {
    description.map(|description| format!(" ({description})")).unwrap_or_default()
}

impl OauthError {
    /// Whether what it was asked with is good for nothing any more. Everything else may pass: a server that is down, a
    /// client's secret that is wrong for an hour.
    pub fn ends_grant(&self) -> bool {
        matches!(self, Self::Refused { error, .. } if error == "invalid_grant")
    }

    pub fn fault(&self, server: &str) -> Fault {
        let told = format!("no token for the server `{server}` is to be had: {self}");
        match self {
            Self::Egress(error) => Fault::new(FaultKind::Unavailable, told, error.remedy().to_owned()),
            Self::Wrong(_) => Fault::conflict(told, "ask the server's owner"),
            Self::Refused { .. } => {
                Fault::conflict(told, format!("connect again with `toolgate upstream connect {server}`"))
            }
        }
    }
}

pub(crate) fn wrong(why: impl Into<String>) -> OauthError {
    OauthError::Wrong(why.into())
}

/// What an authorisation server gave for one server, and everything that it takes to renew it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    pub access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// What it is good for; what was asked for where nothing else was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// What the server said since that it wants besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// Tells this connection from one that somebody made after it; renewing keeps it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub connection: String,
    /// Who gave it.
    pub issuer: String,
    pub token_endpoint: String,
    /// What it is for, in the words of the server's metadata.
    pub resource: String,
    /// The address that it is sent to, and no other.
    pub address: String,
    pub client: Client,
}

impl Tokens {
    /// Whether it has run out or is about to.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now.plus_seconds(EARLY_S))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({} for {})", self.issuer, self.resource)
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        self.access_token.zeroize();
        self.refresh_token.zeroize();
    }
}

/// What another's server says, short and safe to show.
pub(crate) fn shown(text: &str) -> String {
    crate::upstream::shown(&text.chars().take(200).collect::<String>())
}
