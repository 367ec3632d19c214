//! What travels: JSON-RPC messages of four revisions, read once and kept as they came. Typed only where the gate must
//! read or change something; the rest goes on as raw JSON, so that a member nobody here knows is never lost.

mod error;
mod headers;
mod level;
mod message;
mod meta;
mod revision;

pub use error::{RpcError, code};
pub use headers::{
    ASKED_VERSION_HEADER, METHOD_HEADER, NAME_HEADER, PARAM_PREFIX, SESSION_HEADER, check_headers, encoded,
    header_value, headers_of, param_headers,
};
pub use level::Level;
pub use message::{Answer, Id, Message, Notification, Request, bytes_of, messages_of};
pub use meta::{Meta, SERVER_INFO, SUBSCRIPTION_ID};
pub use revision::Revision;
pub use toolgate_registry::upstream::annotated;
