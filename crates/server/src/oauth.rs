//! Who may use `/mcp` with an OAuth access token: the small authorisation server for ordinary clients, and the tokens of
//! other issuers that the operator trusts.
//!
//! What a client is allowed is a row among the keys, good at one address alone and never with a right to decide. Clients
//! are not stored: who one is, it brings along, sealed or as a document at its own address.
//! Deliberately absent: secrets of clients, any flow but a code with PKCE, ID tokens, and sending a browser anywhere that
//! nobody decided upon.

mod client;
mod consent;
mod exchange;
mod fetch;
pub mod issuers;
mod outside;
mod redirect;

use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use serde_json::{Value, json};
use toolgate_contracts::{Caller, Digest, Fault, Permission, Permissions, TenantId};
use toolgate_egress::Url;

pub use self::client::Registered;
pub use self::consent::{Asked, Decision};
pub use self::exchange::{ACCESS_S, Granted, Refused};
use self::issuers::Issuer;
use crate::app::App;
use crate::config::Config;
use crate::proxies;

pub const AUTHORIZE: &str = "/oauth/authorize";
/// What a client may ask for, and gets where it asks for nothing that is known.
pub const SCOPES: [&str; 2] = ["tools:execute", "calls.read.own"];
/// Everything that a client sends, or a browser on its behalf.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024;

/// How long a document of a client, and a token of another issuer, are believed without looking again.
const DOCUMENT_KNOWN_FOR: Duration = Duration::from_mins(5);
const DOCUMENTS_MAX: u64 = 500;
const TOKENS_MAX: u64 = 10_000;

/// What is remembered, and whom the operator trusts.
pub struct Memory {
    pub issuers: Vec<Issuer>,
    documents: moka::sync::Cache<(TenantId, String), Arc<client::Document>>,
    /// By the digest of their text and of where they were shown.
    tokens: moka::sync::Cache<Digest, Arc<outside::Known>>,
    noted: fetch::Noted,
}

impl Memory {
    pub fn open(config: &Config) -> Result<Self, Fault> {
        let wrong =
            |problem: String| Fault::invalid(problem, "correct the configuration; `toolgate config check` tests it");
        Ok(Self {
            issuers: issuers::read(config.get("mcp_issuers")).map_err(wrong)?,
            documents: moka::sync::Cache::builder()
                .max_capacity(DOCUMENTS_MAX)
                .time_to_live(DOCUMENT_KNOWN_FOR)
                .build(),
            tokens: moka::sync::Cache::builder().max_capacity(TOKENS_MAX).time_to_live(crate::auth::KNOWN_FOR).build(),
            noted: fetch::Noted::default(),
        })
    }

    /// Whoever was let in a moment ago is looked up again.
    pub fn forget(&self) {
        self.tokens.invalidate_all();
    }
}

/// How this server was reached, and so what it calls itself to whoever reached it so.
pub fn origin_of(app: &App, request: &Parts) -> String {
    match app.config.get("public_url") {
        "" => proxies::own_origin(&request.headers, request.extensions.get()).unwrap_or_else(|| app.base_url()),
        url => url.to_owned(),
    }
}

/// The address that a token must be for to be good here.
pub fn resource(origin: &str, name: Option<&str>) -> String {
    name.map_or_else(|| format!("{origin}/mcp"), |name| format!("{origin}/mcp/{name}"))
}

/// Where a token is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub root: String,
    pub at: String,
}

impl Address {
    pub fn of(app: &App, request: &Parts, name: Option<&str>) -> Self {
        let origin = origin_of(app, request);
        Self { root: resource(&origin, None), at: resource(&origin, name) }
    }

    /// What was allowed for all of it is good for a part; what was allowed for a part is good there alone.
    pub fn admits(&self, allowed: &str) -> bool {
        allowed == self.at || allowed == self.root
    }
}

/// The protected resource, as it describes itself (RFC 9728).
pub fn resource_document(app: &App, origin: &str, name: Option<&str>) -> Value {
    let servers: Vec<&str> =
        std::iter::once(origin).chain(app.oauth.issuers.iter().map(|issuer| issuer.name.as_str())).collect();
    json!({
        "resource": resource(origin, name),
        "authorization_servers": servers,
        "scopes_supported": SCOPES,
        "bearer_methods_supported": ["header"],
        "resource_name": "Toolgate",
    })
}

/// The authorisation server, as it describes itself (RFC 8414).
pub fn server_document(origin: &str) -> Value {
    json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}{AUTHORIZE}"),
        "token_endpoint": format!("{origin}/oauth/token"),
        "registration_endpoint": format!("{origin}/oauth/register"),
        "revocation_endpoint": format!("{origin}/oauth/revoke"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "scopes_supported": SCOPES,
        "authorization_response_iss_parameter_supported": true,
        "client_id_metadata_document_supported": true,
        "protected_resources": [resource(origin, None)],
    })
}

/// What whoever is not let in is told to do (RFC 6750 and RFC 9728).
pub fn challenge(app: &App, request: &Parts, name: Option<&str>, fault: &Fault) -> Option<HeaderValue> {
    let origin = origin_of(app, request);
    let at = resource(&format!("{origin}/.well-known/oauth-protected-resource"), name);
    let mut said = format!("Bearer resource_metadata=\"{at}\"");
    let lacking = lacking_scope(fault);
    if let Some(scope) = lacking {
        said = format!("{said}, error=\"insufficient_scope\", scope=\"{}\"", quotable(scope));
    } else {
        if request.headers.contains_key(header::AUTHORIZATION) {
            said = format!("{said}, error=\"invalid_token\", error_description=\"{}\"", quotable(fault.told()));
        }
        said = format!("{said}, scope=\"{}\"", SCOPES.join(" "));
    }
    HeaderValue::from_str(&said).ok()
}

/// The scope that a good token does not have, where that is what is wrong.
pub fn lacking_scope(fault: &Fault) -> Option<&str> {
    fault.details().and_then(|details| details.get("insufficient_scope")).and_then(Value::as_str)
}

/// What may stand between quotation marks in a header.
fn quotable(text: &str) -> String {
    text.chars().filter(|c| matches!(c, ' '..='~') && !matches!(c, '"' | '\\')).take(300).collect()
}

/// What a client gets of what it asks for: at most what agents may, and the words that tools demand of this person.
fn scopes_of(caller_has: &Permissions, asked: Option<&str>) -> Vec<String> {
    let asked: Vec<&str> = asked.unwrap_or_default().split(' ').filter(|scope| SCOPES.contains(scope)).collect();
    let wanted = |scope: &&str| asked.is_empty() || asked.contains(scope);
    let words = caller_has.iter().filter(|permission| permission.is_tools_own()).map(ToString::to_string);
    SCOPES.into_iter().filter(wanted).map(str::to_owned).chain(words).collect()
}

/// A client's rights: never more than an agent's.
pub fn as_client(caller: Caller) -> Caller {
    let permissions = caller.permissions.iter().filter(|right| Permission::is_for_agents(right)).cloned().collect();
    Caller { permissions, ..caller }
}

/// The parameters of a query or a form. One that comes twice could mean two things, so it means none (RFC 6749 §3.1).
fn parameters(text: &str) -> Result<std::collections::BTreeMap<String, String>, String> {
    if text.len() > REQUEST_BYTES_MAX {
        return Err(format!("the request has {} bytes, the limit is {REQUEST_BYTES_MAX}", text.len()));
    }
    let mut carrier = Url::parse("http://localhost/").map_err(|error| error.to_string())?;
    carrier.set_query(Some(text));
    let mut found = std::collections::BTreeMap::new();
    for (name, value) in carrier.query_pairs() {
        if found.insert(name.to_string(), value.into_owned()).is_some() {
            let name: String = name.chars().take(40).flat_map(char::escape_debug).collect();
            return Err(format!("`{name}` came twice"));
        }
    }
    // Empty is absent.
    found.retain(|_, value| !value.is_empty());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_where_it_was_allowed_and_at_what_is_narrower() {
        for (allowed, at, good) in [
            ("https://a.example/mcp", "https://a.example/mcp", true),
            ("https://a.example/mcp", "https://a.example/mcp/one", true),
            ("https://a.example/mcp/one", "https://a.example/mcp/one", true),
            ("https://a.example/mcp/one", "https://a.example/mcp", false),
            ("https://a.example/mcp/one", "https://a.example/mcp/one2", false),
            ("https://a.example/mcp/one", "https://a.example/mcp/two", false),
            ("https://b.example/mcp", "https://a.example/mcp", false),
            ("https://a.example", "https://a.example/mcp", false),
        ] {
            let address = Address { root: "https://a.example/mcp".to_owned(), at: at.to_owned() };
            assert_eq!(address.admits(allowed), good, "{allowed} {at}");
        }
    }

    #[test]
    fn a_parameter_that_comes_twice_is_refused_and_an_empty_one_is_absent() {
        assert_eq!(parameters("a=1&b=&c=%20x+y").unwrap().len(), 2);
        assert_eq!(parameters("c=%20x+y").unwrap()["c"], " x y");
        assert!(parameters("a=1&a=1").is_err() && parameters("a=1&a=").is_err());
        assert!(parameters(&"x".repeat(REQUEST_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn a_client_gets_known_scopes_and_the_words_of_tools() {
        let has: Permissions = Permissions::from_scopes(["admin", "ledger.post"]).unwrap();
        assert_eq!(scopes_of(&has, None), ["tools:execute", "calls.read.own", "ledger.post"]);
        assert_eq!(scopes_of(&has, Some("tools:execute admin approvals.decide")), ["tools:execute", "ledger.post"]);
        assert_eq!(scopes_of(&has, Some("openid")), ["tools:execute", "calls.read.own", "ledger.post"]);
    }

    #[test]
    fn nothing_of_a_message_ends_the_quotation() {
        assert_eq!(quotable("a \"b\\ \r\n`c`\u{e9}"), "a b `c`");
    }
}
