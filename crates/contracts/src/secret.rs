//! Secrets as everything but the vault knows them: where they are kept, who may have them, which version was found.
//!
//! Invariant: no type here holds a value.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::caller::Principal;
use crate::clock::Timestamp;
use crate::definition::words;
use crate::digest::Digest;
use crate::egress::HostPattern;
use crate::id::{PlaceId, TenantId, UserId, WorkspaceId};
use crate::name::{Slug, ToolName};

pub const NAME_CHARS_MAX: usize = 64;
pub const VALUE_BYTES_MAX: usize = 16 * 1024;
/// A shorter value is found in output only where it stands as a word of its own.
pub const VALUE_BYTES_SHORT: usize = 8;
/// Tools, hosts and pins of one secret, each.
pub const ALLOWED_MAX: usize = 200;

words! {
    /// Where a secret is kept, in the order in which it is looked for.
    SecretScope { User = "user", Workspace = "workspace", Org = "org" }
}

/// Whether a text may name a secret: letters, digits, `_` and `-`, as in `SMTP_PASSWORD`.
pub fn is_secret_name(text: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// One user's secrets, one workspace's, or the tenant's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretPlace {
    pub scope: SecretScope,
    pub id: PlaceId,
}

impl SecretPlace {
    pub const fn user(user: UserId) -> Self {
        Self { scope: SecretScope::User, id: PlaceId::from_uuid(user.uuid()) }
    }

    /// Of whoever is answerable. The owner of a data folder is no user of the tenant and has a place of their own.
    pub fn of(principal: Principal) -> Self {
        match principal {
            Principal::User(user) => Self::user(user),
            Principal::Local(uid) => {
                Self { scope: SecretScope::User, id: PlaceId::from_uuid(Uuid::from_u128(u128::from(uid))) }
            }
        }
    }

    pub const fn workspace(workspace: WorkspaceId) -> Self {
        Self { scope: SecretScope::Workspace, id: PlaceId::from_uuid(workspace.uuid()) }
    }

    pub const fn org(tenant: TenantId) -> Self {
        Self { scope: SecretScope::Org, id: PlaceId::from_uuid(tenant.uuid()) }
    }
}

/// To whom the owner of a secret gives it. What is not listed does not get it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SecretAllowed {
    /// Names of tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub tools: Vec<ToolName>,
    /// Names and addresses to which a request may carry it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostPattern>,
    /// Names of model providers whose key it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub providers: Vec<Slug>,
    /// Tools that see the value in code of their own, each with the digest of the behaviour it was given to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub code: BTreeMap<ToolName, Digest>,
}

impl SecretAllowed {
    /// Whether a request to `host` may carry it: the name itself, never one below it, or the address itself.
    pub fn has_host(&self, host: &str) -> bool {
        let Ok(host) = host.parse::<HostPattern>() else { return false };
        self.hosts.iter().any(|allowed| match (allowed, &host) {
            (HostPattern::Network(network), HostPattern::Address(address)) => network.contains(&plain(*address)),
            (HostPattern::Address(allowed), HostPattern::Address(address)) => plain(*allowed) == plain(*address),
            (allowed, host) => allowed == host && !matches!(host, HostPattern::Network(_)),
        })
    }
}

/// `::ffff:10.0.0.5` is 10.0.0.5.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// A secret as it was found: where, and in which version. What a call records, a card shows and a grant binds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolvedSecret {
    pub name: String,
    pub scope: SecretScope,
    /// The user, the workspace or the tenant.
    pub scope_id: PlaceId,
    pub version: u64,
}

impl ResolvedSecret {
    pub const fn place(&self) -> SecretPlace {
        SecretPlace { scope: self.scope, id: self.scope_id }
    }
}

/// A secret as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretInfo {
    pub name: String,
    pub scope: SecretScope,
    pub scope_id: PlaceId,
    /// Counts up with every new value and never begins again.
    pub version: u64,
    pub allowed: SecretAllowed,
    pub created_by: String,
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test 35 of the rules, as far as it concerns hosts.
    #[test]
    fn a_secret_goes_to_the_hosts_its_owner_listed_and_to_no_other() {
        let hosts = ["api.example.com", "10.0.0.5", "fd12::/64"].map(|host| host.parse().unwrap());
        let allowed = SecretAllowed { hosts: hosts.to_vec(), ..SecretAllowed::default() };
        for host in ["api.example.com", "API.Example.Com.", "10.0.0.5", "::ffff:10.0.0.5", "[fd12::1]"] {
            assert!(allowed.has_host(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "evil.api.example.com",
            "api.example.com.evil.test",
            "api-example.com",
            "api.example.com:443",
            "https://api.example.com",
            "api.example.com@evil.test",
            "10.0.0.6",
            "0x0a.0.0.5",
            "fd12:0:0:1::1",
            "fd12::/64",
            "fd12::/65",
        ] {
            assert!(!allowed.has_host(host), "{host}");
        }
        assert!(!SecretAllowed::default().has_host("api.example.com"), "nothing listed is nothing allowed");
    }

    #[test]
    fn a_name_is_a_word() {
        for name in ["K", "SMTP_PASSWORD", "a-b", &"x".repeat(64)] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["", "a b", "a.b", "ключ", "a|b", "a\0", &"x".repeat(65)] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
