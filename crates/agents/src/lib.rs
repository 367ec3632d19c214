//! Agents: what they ask, and what runs them.
//!
//! A [`Request`] is what a model is asked, a [`Turn`] what it says; what lies between is in [`providers`], one file each.
//! A [`Conversation`] says what comes next, as data; the [`Host`] does it, through the gate, and leaves what waits as rows.
//! Invariant: whether an answer came whole or in pieces, its [`Turn`] is the same; a piece of one is never taken for a
//! whole one.
//! Invariant: everything goes out through an [`Outlet`], and a key is in clear only in the request that carries it.
//! Deliberately absent: models' names and prices, which age and are the operator's to write.

mod bounds;
pub mod conversation;
mod error;
mod fold;
pub mod host;
mod keyless;
mod model;
pub mod models;
mod provider;
pub mod providers;
mod reading;
mod refusal;
pub mod replay;
mod retry;
mod runner;
pub mod told;
mod wire;

pub use bounds::Bounds;
pub use conversation::{Conversation, Next, Plan};
pub use error::{ErrorKind, ModelError};
pub use fold::{Delta, End, Fold};
pub use host::{
    AgentOutcome, AgentRunView, Host, ModelUse, NewAgentRun, TURN_TEXT_BYTES_MAX, TurnCall, TurnState, TurnView,
};
pub use model::{Message, Own, Request, Said, Stop, ToolAnswer, ToolCall, ToolSchema, Turn, Usage};
pub use models::{Answered, Asker, Models};
pub use provider::{Kind, Provider, ProviderSpec};
pub use reading::Reading;
pub use retry::Retries;
pub use runner::Agents;
pub use toolgate_contracts::provider::{PriceTable, Prices};
pub use wire::{Answer, Asking, Direct, Form, Outlet};
