//! A question to people: what is asked, how an answer must look, and what became of it.
//!
//! An answer is data for whoever asked and nothing else: no approval and no grant ever arises from one.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::caller::Principal;
use crate::clock::Timestamp;
use crate::definition::words;
use crate::id::{CallId, InputRequestId, RunId};

/// How long a question stands unless whoever asks says otherwise, and how long at most.
pub const QUESTION_S_DEFAULT: u32 = 24 * 60 * 60;
pub const QUESTION_S_MAX: u32 = 30 * 24 * 60 * 60;
pub const QUESTION_TITLE_BYTES_MAX: usize = 300;
pub const QUESTION_INSTRUCTIONS_BYTES_MAX: usize = 16 * 1024;
/// A form that a person fills in.
pub const QUESTION_SCHEMA_BYTES_MAX: usize = 64 * 1024;
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Questions of one run that may be open at a time: more would only tire those who answer.
pub const QUESTIONS_OPEN_MAX: u32 = 20;

words! {
    InputRequestState { Open = "open", Answered = "answered", Expired = "expired", Cancelled = "cancelled" }
}

/// A question as everyone sees it who may.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InputRequest {
    pub id: InputRequestId,
    /// The run that waits for the answer.
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    #[schema(value_type = String)]
    pub asked_by: Principal,
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What an answer must match.
    #[schema(value_type = Object)]
    pub schema: Value,
    pub state: InputRequestState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub answer: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub answered_by: Option<Principal>,
    pub expires_at: Timestamp,
}

/// What a run asks.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewQuestion {
    pub title: String,
    /// What the person should know before they answer, as plain text.
    #[serde(default)]
    pub instructions: Option<String>,
    /// JSON Schema of the answer, an object.
    #[schema(value_type = Object)]
    pub schema: Value,
    /// Whole seconds until nobody waits any more, at most 30 days; a day without it.
    #[serde(default)]
    pub expires_s: Option<u32>,
    /// The call of the run that asks, if one does.
    #[serde(default)]
    pub call_id: Option<CallId>,
}
