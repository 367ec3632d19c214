//! Who calls: the principal who is answerable, with the rights of the credential that was shown.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::definition::words;
use crate::fault::{Fault, FaultKind};
use crate::id::{AgentId, KeyId, SessionId, TenantId, TokenId, UserId};
use crate::name::Slug;
use crate::permission::{Permission, Permissions, Role};
use crate::token::HeldToken;

words! {
    /// Through which door a call came.
    Source {
        Web = "web", Agent = "agent", Api = "api", Mcp = "mcp",
        Cli = "cli", Workflow = "workflow", Embed = "embed", Schedule = "schedule"
    }
}

/// Who is answerable. Written as `user:ID` or `local:UID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Principal {
    User(UserId),
    /// The operating-system user who owns the data folder.
    Local(u32),
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(id) => write!(f, "user:{id}"),
            Self::Local(uid) => write!(f, "local:{uid}"),
        }
    }
}

impl FromStr for Principal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.split_once(':') {
            Some(("user", id)) => id.parse().ok().map(Self::User),
            Some(("local", uid)) => uid.parse().ok().map(Self::Local),
            _ => None,
        };
        parsed.ok_or_else(|| format!("`{text}` is not a principal"))
    }
}

impl Serialize for Principal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Principal {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What was shown at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    BrowserSession(SessionId),
    ApiKey(KeyId),
    /// A capability token.
    Token(TokenId),
    /// A role of the database, through the functions that it may call there.
    DatabaseRole,
    /// In-process use of a local data folder.
    LocalFolder,
}

/// INVARIANT: made only where a credential was checked; everything below trusts it.
#[derive(Clone, Debug)]
pub struct Caller {
    pub tenant: TenantId,
    pub tenant_slug: Slug,
    pub principal: Principal,
    /// Shown to people; never a right.
    pub display_name: String,
    pub permissions: Permissions,
    /// For policies and approvers; rights are in `permissions`.
    pub roles: Arc<[Role]>,
    /// The agent for which a key was made: every call with it is this agent's.
    pub agent: Option<AgentId>,
    pub credential: Credential,
    /// What a capability token allows, where one was shown.
    pub token: Option<Arc<HeldToken>>,
}

impl Caller {
    /// The owner of the folder has every word that a tool may demand; the product's own rights are as listed.
    pub fn may(&self, permission: &Permission) -> bool {
        let owns = self.credential == Credential::LocalFolder || matches!(self.principal, Principal::Local(_));
        self.permissions.contains(permission) || (owns && permission.is_tools_own())
    }

    pub fn require(&self, permission: &Permission) -> Result<(), Fault> {
        if self.may(permission) {
            return Ok(());
        }
        let who = match self.credential {
            Credential::ApiKey(_) => "this key",
            Credential::Token(_) => "this token",
            Credential::BrowserSession(_) | Credential::DatabaseRole | Credential::LocalFolder => &self.display_name,
        };
        Err(Fault::new(
            FaultKind::Forbidden,
            format!("this needs the permission `{permission}`, which {who} does not have"),
            "ask an administrator for a role that has it, or use a key with that scope",
        ))
    }

    pub fn user(&self) -> Option<UserId> {
        match self.principal {
            Principal::User(user) => Some(user),
            Principal::Local(_) => None,
        }
    }

    pub fn is_operator(&self) -> bool {
        self.may(&Permission::TENANTS_MANAGE)
    }
}
