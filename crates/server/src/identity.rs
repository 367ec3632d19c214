//! Who may be a caller: tenants, users, keys and sign-in, each with the entry it leaves in the log.

mod forgetting;
mod invitations;
mod keys;
mod letters;
pub mod oidc;
pub mod passwords;
mod people;
mod places;
mod sessions;
mod sign_in;

use toolgate_contracts::{Caller, Fault, FaultKind, Id, Permission, Role, TenantId, unseen};
use toolgate_store::audit::Entry;

use crate::app::App;

pub use forgetting::Erased;
pub use invitations::NewInvitation;
pub use keys::NewKey;
pub use letters::Sent;
pub use people::{NewUser, UserEdit};
pub use sessions::{FRESH_S, Proof};
pub use sign_in::{Begun, Whence};

pub const NAME_CHARS_MAX: usize = 120;

impl App {
    fn new_id<K>(&self) -> Id<K> {
        Id::new(&self.clock, &self.rng)
    }

    /// Whoever was let in a moment ago is looked up again: their rights have changed.
    pub(crate) fn forget_callers(&self) {
        self.callers.invalidate_all();
        self.tokens.invalidate_all();
        self.oauth.forget();
    }

    pub fn has_passwords(&self) -> bool {
        self.config.get("password_sign_in") == "true"
    }

    /// Where passwords are switched off, none is set, asked for or sent a link for either.
    pub(crate) fn require_passwords(&self) -> Result<(), Fault> {
        if self.has_passwords() {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::Forbidden,
            "passwords are switched off here (`password_sign_in`)",
            "sign in with the provider that the sign-in page names, or by a link of an administrator",
        ))
    }

    pub fn entry(
        &self,
        caller: &Caller,
        tenant: TenantId,
        action: &str,
        object: &str,
        details: serde_json::Value,
    ) -> Entry {
        let details = match details {
            serde_json::Value::Object(details) => details,
            _ => serde_json::Map::new(),
        };
        Entry {
            id: self.new_id(),
            at: self.clock.now(),
            tenant,
            actor: caller.principal.to_string(),
            action: action.to_owned(),
            object: object.to_owned(),
            details,
        }
    }
}

/// The first role with rights that somebody, of whom `may` tells, does not have.
fn beyond(roles: &[Role], may: impl Fn(&Permission) -> bool) -> Option<Role> {
    let within = |role: Role| role_is_harmless(role) || role.permissions().iter().all(&may);
    roles.iter().copied().find(|role| !within(*role))
}

/// Nobody hands out, or holds power over, rights that they do not have.
fn require_grantable(caller: &Caller, roles: &[Role]) -> Result<(), Fault> {
    match beyond(roles, |permission| caller.may(permission)) {
        None => Ok(()),
        Some(role) => Err(Fault::new(
            FaultKind::Forbidden,
            format!("the role `{role}` has rights that {} does not have", caller.display_name),
            "ask somebody who has that role",
        )
        .at("/roles")),
    }
}

/// A service works leases, which administrators themselves do not; they may still appoint one.
fn role_is_harmless(role: Role) -> bool {
    role == Role::Service
}

fn check_name(name: &str) -> Result<(), Fault> {
    unseen::check_name(name, NAME_CHARS_MAX).map_err(|fault| fault.at("/name"))
}

fn taken(error: toolgate_store::Error, constraint: &str, what: &str, name: &str) -> Fault {
    already(error.into(), constraint, what, name)
}

/// Says in words that a name is taken, where the database's rule says so.
fn already(fault: Fault, constraint: &str, what: &str, name: &str) -> Fault {
    if fault.broken_rule() == Some(constraint) {
        return Fault::conflict(format!("there is a {what} `{name}` already"), "choose another name").at("/name");
    }
    fault
}
