//! A call that waits for a person: why it is asked, how, and what was decided.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::definition::words;

words! {
    ApprovalState {
        Open = "open", Approved = "approved", Rejected = "rejected", Expired = "expired", Cancelled = "cancelled"
    }
}
words! { Vote { Approve = "approve", Reject = "reject" } }

words! {
    /// What makes a call one that a person must see.
    AskCode {
        Write = "write", RequiresApproval = "requires_approval", AlwaysAsk = "always_ask", Critical = "critical",
        Profile = "profile", Policy = "policy", Label = "label", Guardrail = "guardrail"
    }
}

/// One reason why a person is asked. All of them stand on the card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AskReason {
    pub code: AskCode,
    /// In words, for whoever decides.
    pub text: String,
    /// Which policy, label rule, guardrail or profile says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}
