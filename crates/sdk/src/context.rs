//! What a tool is given beside its arguments: for whom it runs, the secrets it declared, and whether it is still wanted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use toolgate_contracts::{ErrorCode, TenantId, ToolError};

/// What waits to be told. Beyond it a tool says too much to be followed, and the rest is left out.
pub(crate) const SAID_BYTES_MAX: usize = 64 * 1024;
const LEFT_OUT: &str = "…\n";

/// The values of the secrets that the tool declares, by name. Printed, it shows the names alone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Auth(BTreeMap<String, String>);

impl Auth {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of a secret without which the tool cannot go on.
    pub fn require(&self, name: &str) -> Result<&str, ToolError> {
        self.get(name).ok_or_else(|| {
            let told = format!("the secret `{name}` was not given to this call");
            ToolError::because(ErrorCode::AuthRequired, "secret_missing", told)
        })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Auth {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(secrets: I) -> Self {
        Self(secrets.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// For whom a call runs, and the way back to whoever follows it.
#[derive(Clone, Debug)]
pub struct ToolContext {
    pub auth: Auth,
    pub tenant_id: TenantId,
    /// The call's id within its run, the same for each attempt.
    pub call_id: String,
    /// Who is answerable, such as `user:ID`.
    pub principal: String,
    /// The agent that acts for them, if one does.
    pub agent_id: Option<String>,
    pub(crate) cancel: CancellationToken,
    pub(crate) said: Said,
}

impl ToolContext {
    /// A context of its own, for tests and for tools that call each other.
    ///
    /// ```
    /// let tenant = "01930000-0000-7000-8000-000000000001".parse().unwrap();
    /// let ctx = toolgate_sdk::ToolContext::new(tenant, [("API_KEY", "k-123")].into_iter().collect());
    /// assert_eq!(ctx.auth.get("API_KEY"), Some("k-123"));
    /// assert!(!format!("{ctx:?}").contains("k-123"), "a value is never printed");
    /// ```
    pub fn new(tenant_id: TenantId, auth: Auth) -> Self {
        Self {
            auth,
            tenant_id,
            call_id: String::new(),
            principal: String::new(),
            agent_id: None,
            cancel: CancellationToken::new(),
            said: Said::default(),
        }
    }

    /// Tells whoever follows the call how it goes on: whole lines, at once.
    pub fn say(&self, text: &str) {
        self.said.append(text);
    }

    /// Whether somebody wants the call stopped.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Resolves when somebody wants the call stopped.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Stops what looks at this context.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// The error with which a tool ends that stopped because it was asked to, having changed nothing.
    pub fn stopped() -> ToolError {
        ToolError::because(ErrorCode::PolicyDenied, "cancelled", "it was stopped; nothing was changed")
    }
}

/// What a tool has said and nobody has taken yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said(Arc<Mutex<String>>);

impl Said {
    fn append(&self, text: &str) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() + text.len() + LEFT_OUT.len() <= SAID_BYTES_MAX {
            said.push_str(text);
        } else if !said.ends_with(LEFT_OUT) {
            said.push_str(LEFT_OUT);
        }
    }

    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_bounded() {
        let said = Said::default();
        for _ in 0..10_000 {
            said.append("a line of output\n");
        }
        let taken = said.take();
        assert!(taken.len() <= SAID_BYTES_MAX && taken.ends_with(LEFT_OUT), "{}", taken.len());
        assert_eq!(said.take(), "");
    }
}
