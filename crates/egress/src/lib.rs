//! The one way out of the server: webhooks, mail, tools that fetch, imports and discovery all go through here.
//!
//! A request names on whose behalf it goes ([`Way`]); where it may go is judged for the name, for every address of the
//! name, and again for every redirect. Invariant: whoever connects to a place that somebody else chose does it here.
//! Deliberately absent: proxies, HTTP/2, cookies, retries of writes, and any reading of the environment.

pub mod address;
mod body;
mod connector;
mod dial;
mod error;
pub mod events;
pub mod limits;
pub mod mail;
mod pool;
mod request;
mod resolve;
mod target;
mod template;
mod way;

pub use bytes::Bytes;
pub use connector::{Connector, Dialled, Response, Settings};
pub use dial::Trust;
pub use error::{EgressError, Rule, Sent};
pub use hyper::header::{HeaderMap, HeaderName, HeaderValue};
pub use hyper::{Method, StatusCode};
pub use limits::Limits;
pub use request::{Effect, Packing, Redirects, Request, header};
pub use resolve::{Addresses, Resolve, SystemResolver};
pub use template::{Template, TemplateError, URL_BYTES_MAX};
pub use url::Url;
pub use way::{Endpoint, HostList, Openings, Purpose, Way};
