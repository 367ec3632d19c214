//! Links to servers of others: processes and addresses, of every revision, each spoken with in its own manner.
//!
//! Messages are raw JSON both ways. Nothing here knows tools, permits or the registry: what may be sent, to whom what
//! comes back is shown, and how a result is judged is decided by who uses a link. Invariant: what one request brings
//! reaches whoever sent it, or nobody.

mod desk;
mod error;
mod exchange;
mod handshake;
mod health;
mod http;
mod line;
mod link;
mod paired;
mod place;
mod pool;
mod read;
mod stdio;
mod unsaid;

use toolgate_egress::events;

pub use desk::News;
pub(crate) use error::shown;
pub use error::{Challenge, LinkError};
pub use exchange::{Asked, Asker, Direct, Exchange, Outlet};
pub use handshake::Found;
pub use health::{Health, Rests};
pub(crate) use http::challenge as challenge_of;
pub use link::{Link, Listening, Wanted};
pub use place::{Bounds, Era, Given, Place, Upstream};
pub use pool::{Key, Settings, Standing, Upstreams};
