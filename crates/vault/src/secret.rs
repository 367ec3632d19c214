//! A secret value on its way to a runner.

use toolgate_contracts::SecretAllowed;
use zeroize::Zeroizing;

/// Cannot be copied, shown or written by accident; wiped when it goes.
///
/// ```compile_fail
/// fn copy(secret: &toolgate_vault::Secret) -> toolgate_vault::Secret { secret.clone() }
/// ```
/// ```compile_fail
/// fn show(secret: &toolgate_vault::Secret) -> String { secret.to_string() }
/// ```
/// ```compile_fail
/// fn write(secret: &toolgate_vault::Secret) -> String { serde_json::to_string(secret).unwrap() }
/// ```
pub struct Secret {
    name: String,
    value: Zeroizing<Vec<u8>>,
    allowed: SecretAllowed,
}

impl Secret {
    pub fn new(name: impl Into<String>, value: Vec<u8>) -> Self {
        Self { name: name.into(), value: Zeroizing::new(value), allowed: SecretAllowed::default() }
    }

    /// With what its owner lets be done with it; a new one may go nowhere.
    #[must_use]
    pub fn allowing(mut self, allowed: SecretAllowed) -> Self {
        self.allowed = allowed;
        self
    }

    pub(crate) fn opened(name: String, value: Zeroizing<Vec<u8>>, allowed: SecretAllowed) -> Self {
        Self { name, value, allowed }
    }

    /// Whether its owner lets a request to this host carry it. A host is what the connection is made to, not what an
    /// argument says.
    pub fn may_go_to(&self, host: &str) -> bool {
        self.allowed.has_host(host)
    }

    /// What its owner lets be done with it.
    pub const fn allowed(&self) -> &SecretAllowed {
        &self.allowed
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value in clear. Every caller is a place where it could get out, so the word is easy to search for.
    pub fn expose(&self) -> &[u8] {
        &self.value
    }

    /// The value in clear, if it is text.
    pub fn expose_text(&self) -> Option<&str> {
        str::from_utf8(&self.value).ok()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({})", self.name)
    }
}
