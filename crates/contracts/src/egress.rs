//! What the operator opens to the connector: hosts that are refused to everybody otherwise. Here are only the words;
//! whether a request may go out is decided in the crate `egress`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::definition::words;
use crate::id::OpeningId;
use crate::name::{Slug, ToolName};

pub const REASON_CHARS_MAX: usize = 500;
const NAME_CHARS_MAX: usize = 253;
const LABEL_CHARS_MAX: usize = 63;

words! { Scheme { Https = "https", Http = "http" } }

impl Scheme {
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

/// A name, an address or a network. INVARIANT: a name is in lower case as DNS has it, and is no spelling of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HostPattern {
    Name(String),
    Address(IpAddr),
    Network(IpNet),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no host: write a name as DNS has it (`wiki.internal`), an address (`10.0.0.5`) or a network (`10.0.0.0/24`), without scheme and port"
)]
pub struct HostPatternError(String);

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, HostPatternError> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Address(address));
        }
        if let Ok(network) = text.parse::<IpNet>() {
            return Ok(Self::Network(network.trunc()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if is_name(&name) {
            Ok(Self::Name(name))
        } else {
            Err(HostPatternError(text.chars().take(80).flat_map(char::escape_debug).collect()))
        }
    }
}

/// A name that every reader of URLs takes for a name: the last label of an address is a number.
fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=LABEL_CHARS_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    name.len() <= NAME_CHARS_MAX && name.split('.').all(label) && !is_number
}

impl TryFrom<String> for HostPattern {
    type Error = HostPatternError;

    fn try_from(text: String) -> Result<Self, HostPatternError> {
        text.parse()
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        pattern.to_string()
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
            Self::Network(network) => network.fmt(f),
        }
    }
}

impl utoipa::PartialSchema for HostPattern {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("A name, an address or a network (`10.0.0.0/24`)."))
            .into()
    }
}

impl ToSchema for HostPattern {}

/// What the operator writes to open a host. Metadata services and our own listening ports stay closed whatever it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpeningSpec {
    pub host: HostPattern,
    pub port: u16,
    #[serde(default = "https")]
    pub scheme: Scheme,
    /// Absent: for every tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<Slug>>,
    /// Absent: for every tool, and for webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub tools: Option<Vec<ToolName>>,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

const fn https() -> Scheme {
    Scheme::Https
}

/// An opening as it is stored. It is never changed, only made and closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Opening {
    #[schema(value_type = String)]
    pub id: OpeningId,
    #[serde(flatten)]
    pub spec: OpeningSpec,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json;

    #[test]
    fn a_host_is_a_name_an_address_or_a_network() {
        #[track_caller]
        fn check(text: &str, expected: Option<&str>) {
            assert_eq!(text.parse::<HostPattern>().ok().map(|host| host.to_string()).as_deref(), expected, "{text}");
        }
        check("Wiki.Internal.", Some("wiki.internal"));
        check("xn--bcher-kva.example", Some("xn--bcher-kva.example"));
        check("10.0.0.5", Some("10.0.0.5"));
        check("[::1]", Some("::1"));
        check("10.0.0.7/24", Some("10.0.0.0/24"));
        check("fd12::/16", Some("fd12::/16"));
        for wrong in ["", ".", "a..b", "127.1", "2130706433", "0x7f.0x1", "*.a.test", "a.test:80", "http://a.test"] {
            check(wrong, None);
        }
        check("bücher.example", None);
        check("10.0.0.0/33", None);
    }

    #[test]
    fn an_opening_reads_back_what_it_wrote() {
        let written = json!({
            "id": "00000000-0000-0000-0000-000000000001", "host": "10.0.0.0/24", "port": 8080, "scheme": "http",
            "tenants": ["acme"], "tools": ["wiki_read"], "reason": "the wiki", "expires_at": "2027-01-01T00:00:00.000Z"
        });
        let opening: Opening = json::decode(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&opening).unwrap(), written);
        let short: OpeningSpec = json::decode(json!({"host": "a.test", "port": 443, "reason": "r"})).unwrap();
        assert_eq!((short.scheme, short.tenants), (Scheme::Https, None));
        assert!(json::decode::<OpeningSpec>(json!({"host": "a", "port": 1, "reason": "r", "all": true})).is_err());
    }
}
