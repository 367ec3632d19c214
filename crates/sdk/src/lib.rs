//! Tools of one's own, in Rust.
//!
//! A tool is a type with an input, an output and a function. What models, people and the gate know of it follows from
//! the type: the schemas from [`Tool::Input`] and [`Tool::Output`], the rest from constants.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use toolgate_sdk::{HitlMode, Risk, Tool, ToolContext, ToolError, ToolResult};
//!
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Letter {
//!     /// Recipient's address.
//!     to: String,
//!     /// What it is about.
//!     subject: String,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Sent {
//!     /// The id under which the post office knows it.
//!     id: String,
//! }
//!
//! struct SendLetter;
//!
//! impl Tool for SendLetter {
//!     type Input = Letter;
//!     type Output = Sent;
//!     const NAME: &'static str = "sendLetter";
//!     const DESCRIPTION: &'static str = "Sends a letter. Use it when somebody asks for post. Do not use it for notes.";
//!     const RISK: Option<Risk> = Some(Risk::Critical);
//!     const HITL: HitlMode = HitlMode::Blocking;
//!
//!     async fn execute(&self, letter: Letter, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
//!         ctx.say(&format!("sending to {}\n", letter.to));
//!         Self::done(&Sent { id: format!("letter about {}", letter.subject) })
//!     }
//! }
//!
//! let definition = SendLetter::definition()?;
//! assert_eq!(definition.input_schema["properties"]["to"]["description"], "Recipient's address.");
//! # Ok::<(), toolgate_sdk::Fault>(())
//! ```
//!
//! With the feature `worker` a program serves such tools: the [`Worker`](worker::Worker) leases calls from a Toolgate
//! server, one that the gate has let through each time, carries them out and reports. With the feature `testing` there
//! is a [kit for tests](testing) that needs no server.
//!
//! Deliberately absent: anything that decides. Who may call, who is asked and what is recorded is the gate's.

mod context;
mod schema;
#[cfg(feature = "testing")]
pub mod testing;
mod tool;
#[cfg(feature = "worker")]
pub mod worker;

pub use context::{Auth, ToolContext};
pub use schema::schema_of;
pub use tool::{NoInput, Tool};
pub use toolgate_contracts::call::Content;
pub use toolgate_contracts::definition::{
    Definition, EgressClass, Example, Hitl, HitlMode, Risk, SecretUse, Sink, ToolType,
};
pub use toolgate_contracts::{CallId, ErrorCode, Fault, RunId, TenantId, ToolError, ToolName, ToolResult};

/// The crate that derives schemas, in the version that [`Tool`] is written against.
pub use schemars;
