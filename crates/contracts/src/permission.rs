//! Rights: one dotted vocabulary for roles, API-key scopes, tokens and `required_permission` of tools.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A dotted word such as `tools.read`. Tools may demand words of their own (`entities.team.read`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String)]
pub struct Permission(Cow<'static, str>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a permission: write lower-case words joined by dots, as in `tools.read`")]
pub struct PermissionError(String);

macro_rules! permissions {
    ($($name:ident = $word:literal),* $(,)?) => {
        impl Permission {
            $(pub const $name: Self = Self(Cow::Borrowed($word));)*
            /// The words the product itself asks for.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

permissions! {
    AGENTS_MANAGE = "agents.manage",
    AGENTS_READ = "agents.read",
    AGENTS_RUN = "agents.run",
    APPROVALS_DECIDE = "approvals.decide",
    APPROVALS_READ = "approvals.read",
    AUDIT_READ = "audit.read",
    CALLS_CONFIRM = "calls.confirm",
    CALLS_CREATE = "calls.create",
    CALLS_READ_ALL = "calls.read.all",
    CALLS_READ_OWN = "calls.read.own",
    CALLS_SETTLE = "calls.settle",
    CONFIG_EDIT = "config.edit",
    DATA_RETENTION = "data.retention",
    EGRESS_OPEN = "egress.open",
    GRANTS_STANDING = "grants.standing",
    GUARDRAILS_EDIT = "guardrails.edit",
    KEYS_ALL = "keys.all",
    KEYS_OWN = "keys.own",
    KILLSWITCH = "killswitch",
    LABELS_RESET = "labels.reset",
    LIMITS_EDIT = "limits.edit",
    MEMBERS_MANAGE = "members.manage",
    PLUGINS_INSTALL = "plugins.install",
    POLICIES_EDIT = "policies.edit",
    POLICIES_LOG_ONLY = "policies.log_only",
    SECRETS_ORG = "secrets.org",
    SECRETS_USER = "secrets.user",
    SECRETS_WORKSPACE = "secrets.workspace",
    TENANTS_MANAGE = "tenants.manage",
    TOKENS_MINT = "tokens.mint",
    TOOLS_ASSIGN = "tools.assign",
    TOOLS_CLASSIFY = "tools.classify",
    TOOLS_OVERRIDE = "tools.override",
    TOOLS_READ = "tools.read",
    TOOLS_TENANT_CREATE = "tools.tenant.create",
    TOOLS_TENANT_DELETE = "tools.tenant.delete",
    TOOLS_TENANT_UPDATE = "tools.tenant.update",
    UPSTREAMS_EDIT = "upstreams.edit",
    USAGE_READ = "usage.read",
    WEBHOOKS_EDIT = "webhooks.edit",
    WORKFLOWS_EDIT = "workflows.edit",
    WORKFLOWS_RUN = "workflows.run",
    WORK_LEASE = "work.lease",
}

impl Permission {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whoever acts as an agent uses tools; it changes neither its own rights nor anybody's, whatever its key was made
    /// with.
    pub fn is_for_agents(&self) -> bool {
        let using = [
            Self::AGENTS_READ,
            Self::AGENTS_RUN,
            Self::CALLS_CREATE,
            Self::CALLS_READ_OWN,
            Self::TOKENS_MINT,
            Self::TOOLS_READ,
            Self::USAGE_READ,
            Self::WORKFLOWS_RUN,
            Self::WORK_LEASE,
        ];
        using.contains(self) || self.is_tools_own()
    }

    /// A word that a tool demands, and that the product itself gives no meaning to.
    pub fn is_tools_own(&self) -> bool {
        !Self::ALL.contains(self)
    }
}

impl FromStr for Permission {
    type Err = PermissionError;

    fn from_str(text: &str) -> Result<Self, PermissionError> {
        let legal = text.len() <= 128
            && text.split('.').all(|word| {
                !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            });
        if legal {
            Ok(Self(Cow::Owned(text.to_owned())))
        } else {
            Err(PermissionError(text.chars().take(80).collect()))
        }
    }
}

impl TryFrom<String> for Permission {
    type Error = PermissionError;

    fn try_from(text: String) -> Result<Self, PermissionError> {
        text.parse()
    }
}

impl From<Permission> for String {
    fn from(permission: Permission) -> Self {
        permission.0.into_owned()
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A set of rights. Empty means none: silence denies. Clones share it: every request carries one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(from = "BTreeSet<Permission>", into = "BTreeSet<Permission>")]
#[schema(value_type = Vec<String>)]
pub struct Permissions(Arc<BTreeSet<Permission>>);

impl From<BTreeSet<Permission>> for Permissions {
    fn from(set: BTreeSet<Permission>) -> Self {
        Self(Arc::new(set))
    }
}

impl From<Permissions> for BTreeSet<Permission> {
    fn from(permissions: Permissions) -> Self {
        Arc::unwrap_or_clone(permissions.0)
    }
}

impl Permissions {
    pub fn of(roles: impl IntoIterator<Item = Role>) -> Self {
        roles.into_iter().flat_map(Role::permissions).collect()
    }

    pub fn contains(&self, permission: &Permission) -> bool {
        self.0.contains(permission)
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.0.intersection(&other.0).cloned().collect()
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.0.union(&other.0).cloned().collect()
    }

    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Permission> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the rights behind one scope word of a key: a permission, a role, or the predefined `tools:execute`.
    pub fn from_scopes<'a>(scopes: impl IntoIterator<Item = &'a str>) -> Result<Self, PermissionError> {
        let mut set = BTreeSet::new();
        for scope in scopes {
            match (scope, scope.parse::<Role>()) {
                ("tools:execute", _) => set.extend([Permission::TOOLS_READ, Permission::CALLS_CREATE]),
                (_, Ok(role)) => set.extend(role.permissions()),
                (_, Err(_)) => drop(set.insert(scope.parse()?)),
            }
        }
        Ok(set.into())
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        permissions.into_iter().collect::<BTreeSet<_>>().into()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Viewer,
    Member,
    Approver,
    Author,
    Admin,
    Operator,
    Service,
}

impl Role {
    pub const ALL: [Self; 7] =
        [Self::Viewer, Self::Member, Self::Approver, Self::Author, Self::Admin, Self::Operator, Self::Service];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Approver => "approver",
            Self::Author => "author",
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Service => "service",
        }
    }

    pub fn permissions(self) -> BTreeSet<Permission> {
        use Permission as P;
        let (base, own): (&[Self], &[Permission]) = match self {
            Self::Viewer => (&[], &[P::TOOLS_READ, P::AGENTS_READ, P::CALLS_READ_OWN, P::USAGE_READ]),
            Self::Member => (
                &[Self::Viewer],
                &[
                    P::CALLS_CREATE,
                    P::CALLS_CONFIRM,
                    P::AGENTS_RUN,
                    P::WORKFLOWS_RUN,
                    P::SECRETS_USER,
                    P::KEYS_OWN,
                    P::TOKENS_MINT,
                ],
            ),
            Self::Approver => {
                (&[Self::Member], &[P::APPROVALS_READ, P::APPROVALS_DECIDE, P::CALLS_READ_ALL, P::CALLS_SETTLE])
            }
            Self::Author => (
                &[Self::Member],
                &[
                    P::TOOLS_TENANT_CREATE,
                    P::TOOLS_TENANT_UPDATE,
                    P::TOOLS_TENANT_DELETE,
                    P::AGENTS_MANAGE,
                    P::WORKFLOWS_EDIT,
                ],
            ),
            Self::Admin => (
                &[Self::Approver, Self::Author],
                &[
                    P::TOOLS_OVERRIDE,
                    P::TOOLS_ASSIGN,
                    P::POLICIES_EDIT,
                    P::POLICIES_LOG_ONLY,
                    P::GUARDRAILS_EDIT,
                    P::GRANTS_STANDING,
                    P::SECRETS_WORKSPACE,
                    P::SECRETS_ORG,
                    P::MEMBERS_MANAGE,
                    P::KEYS_ALL,
                    P::LIMITS_EDIT,
                    P::KILLSWITCH,
                    P::WEBHOOKS_EDIT,
                    P::AUDIT_READ,
                    P::LABELS_RESET,
                    P::DATA_RETENTION,
                ],
            ),
            Self::Operator => (
                &[],
                &[
                    P::TENANTS_MANAGE,
                    P::CONFIG_EDIT,
                    P::UPSTREAMS_EDIT,
                    P::TOOLS_CLASSIFY,
                    P::PLUGINS_INSTALL,
                    P::EGRESS_OPEN,
                    P::AUDIT_READ,
                ],
            ),
            Self::Service => (&[], &[P::TOOLS_READ, P::CALLS_CREATE, P::CALLS_READ_OWN, P::WORK_LEASE, P::TOKENS_MINT]),
        };
        let mut all: BTreeSet<Permission> = own.iter().cloned().collect();
        for role in base {
            all.extend(role.permissions());
        }
        all
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|role| role.as_str()).collect();
            format!("`{}` is not a role: choose one of {}", text.chars().take(40).collect::<String>(), names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_product_belongs_to_a_role() {
        let all = Permissions::of(Role::ALL);
        for permission in Permission::ALL {
            assert!(all.contains(permission), "{permission} is in no role");
            assert_eq!(permission.as_str().parse::<Permission>().as_ref(), Ok(permission));
        }
    }

    #[test]
    fn nobody_but_the_operator_holds_the_operator_s_rights() {
        let admin = Permissions::of([Role::Admin]);
        for permission in Role::Operator.permissions() {
            let shared = permission == Permission::AUDIT_READ;
            assert_eq!(admin.contains(&permission), shared, "{permission}");
        }
    }

    #[test]
    fn deciding_is_in_no_scope_by_default() {
        let execute = Permissions::from_scopes(["tools:execute"]).unwrap();
        assert!(!execute.contains(&Permission::APPROVALS_DECIDE));
        assert_eq!(execute.iter().count(), 2);
        assert!(Permissions::from_scopes(["Tools Read"]).is_err());
    }
}
