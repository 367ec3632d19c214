//! The names by which people know each other, for lists that hold ids: one question to the database for a whole list.
//! Deliberately absent: whether a name may be shown. Whoever sees an id sees the name.

use std::collections::HashMap;

use toolgate_contracts::{Fault, Principal, TenantId, UserId};

use crate::engine::Engine;

/// The names of those who were asked for.
#[derive(Debug, Default)]
pub struct Names {
    users: HashMap<UserId, String>,
}

impl Names {
    /// The name of a principal as it is written; nothing for one who is not there, and for what is no principal, such as
    /// `system:timeout`.
    pub fn of(&self, who: &str) -> Option<String> {
        self.of_principal(who.parse().ok()?)
    }

    pub fn of_principal(&self, who: Principal) -> Option<String> {
        match who {
            Principal::Local(uid) => Some(format!("local user {uid}")),
            Principal::User(user) => self.users.get(&user).cloned(),
        }
    }
}

impl Engine {
    /// The names of all these at once, whatever else stands among them.
    pub async fn names<'a>(
        &self,
        tenant: TenantId,
        whom: impl IntoIterator<Item = &'a str> + Send,
    ) -> Result<Names, Fault> {
        let users = whom
            .into_iter()
            .filter_map(|text| match text.parse() {
                Ok(Principal::User(user)) => Some(user),
                _ => None,
            })
            .collect();
        Ok(Names { users: self.store.user_names(tenant, &users).await? })
    }
}
