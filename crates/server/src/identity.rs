//! Who may be a caller: tenants, users, keys and sign-in, each with the entry it leaves in the log.

mod forgetting;
mod invitations;
mod keys;
mod letters;
pub mod oidc;
pub mod passwords;
mod people;
mod sessions;
mod sign_in;

use toolgate_contracts::{Caller, Fault, FaultKind, Id, Role, TenantId};
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

/// Nobody hands out, or holds power over, rights that they do not have.
fn require_grantable(caller: &Caller, roles: &[Role]) -> Result<(), Fault> {
    let beyond = roles
        .iter()
        .find(|role| !role.permissions().iter().all(|permission| caller.may(permission) || role_is_harmless(**role)));
    match beyond {
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
    let legal =
        !name.trim().is_empty() && name.chars().count() <= NAME_CHARS_MAX && !name.chars().any(char::is_control);
    if legal {
        return Ok(());
    }
    Err(Fault::invalid(
        format!("a name has 1 to {NAME_CHARS_MAX} characters and no control characters"),
        "choose another name",
    )
    .at("/name"))
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
