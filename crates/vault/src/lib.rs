//! Keys, secrets and the redactor.
//!
//! One master key wraps the server's own keys, which wait in the database ([`Keyring`]); from them come call ids
//! ([`RunKey`]) and what travels sealed through clients ([`Sealer`]). [`Vault`] keeps tenants' secrets, each under its
//! tenant's data key. [`Redactor`] takes secret values, in whatever encoding, out of everything that leaves.
//! Invariant: no type here shows key or secret bytes by `Debug`, `Display` or `Serialize`, and each wipes them when it goes.
//! Deliberately absent: reading the environment (whoever starts the server hands the text in), and who may have which
//! secret (the engine asks [`toolgate_contracts::SecretAllowed`]).

mod call_id;
mod digest_key;
mod envelope;
mod keyring;
mod mac;
mod master;
mod redact;
mod seal;
mod secret;
mod vault;
mod webhook_key;

pub use call_id::RunKey;
pub use digest_key::DigestKey;
pub use keyring::{Key, KeyInfo, Keyring, Purpose};
pub use master::{FILE as MASTER_KEY_FILE, MasterKey};
pub use redact::{Redactor, RedactorStream};
pub use seal::Sealer;
pub use secret::Secret;
pub use vault::{NewValue, Reach, Rotation, Stored, Vault};
pub use webhook_key::WebhookKey;
