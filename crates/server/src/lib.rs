//! The server: REST under `/api/v1`, sign-in, health and the console's page, over the registry and the store.
//!
//! The command line uses the same router: over HTTP against a server, in process on a local data folder. So a command
//! and a request can never do different things.

pub mod api;
mod app;
mod auth;
pub mod bypass;
pub mod compat;
pub mod config;
mod console;
pub mod deliver;
mod doctor;
pub mod entries;
mod exposition;
mod extract;
mod identity;
pub mod listen;
mod mcp;
mod oauth;
pub mod otlp;
pub mod outside;
mod pages;
mod problem;
pub mod proxies;
mod seal;
mod serve;
mod sql_requests;
pub mod telemetry;
pub mod tls;
pub mod webhooks;

pub use app::{App, CodeTools, Printed};
pub use auth::LocalCaller;
pub use config::Config;
pub use exposition::Exposition;
pub use serve::{DataFolder, Ready, Running, ServeError, outer, serve};

/// What a client calls itself, for the record of the door a call came through.
pub const CLIENT_HEADER: &str = "toolgate-client";
/// Which tenant a request is about, where the caller may choose.
pub const TENANT_HEADER: &str = "toolgate-tenant";
/// As whom a page was opened: it does nothing as somebody who signed in elsewhere in the same browser.
pub const PRINCIPAL_HEADER: &str = "toolgate-principal";
/// Marks what a page asks by itself, without anybody doing anything: it keeps no session from idling out.
pub const BACKGROUND_HEADER: &str = "toolgate-background";
/// The registry's revision that holds what a caller changed.
pub const REVISION_HEADER: &str = "toolgate-revision";
