//! What a tenant has decided about how it works. Absent means the default.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How long an approval is waited for, unless the tool or a policy says otherwise.
pub const APPROVAL_EXPIRES_S_DEFAULT: u64 = 24 * 60 * 60;
/// How long before its end people are reminded; of a shorter wait, half.
pub const REMIND_BEFORE_S_DEFAULT: u64 = 60 * 60;
/// How often one run may ask people; what is above is denied.
pub const ASKS_PER_RUN_MAX_DEFAULT: u32 = 50;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TenantSettings {
    /// Nobody decides on a call they asked for, own the agent of, edited, or whose tool they wrote.
    pub separation: bool,
    pub approval_expires_s: u64,
    pub remind_before_s: u64,
    pub asks_per_run_max: u32,
    /// Whether a standing grant may stand for a decision on a `critical` tool.
    pub standing_grants_for_critical: bool,
    /// Approving a `critical` call needs a fresh sign-in.
    pub step_up_critical: bool,
    /// Whoever may decide is told by mail, where the server has a relay.
    pub mail_approvers: bool,
    /// The only hosts that tools of this tenant may reach; absent: public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// `PROVIDER/MODEL` for prompts that name no model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
}

impl Default for TenantSettings {
    fn default() -> Self {
        Self {
            separation: false,
            approval_expires_s: APPROVAL_EXPIRES_S_DEFAULT,
            remind_before_s: REMIND_BEFORE_S_DEFAULT,
            asks_per_run_max: ASKS_PER_RUN_MAX_DEFAULT,
            standing_grants_for_critical: false,
            step_up_critical: false,
            mail_approvers: true,
            hosts: None,
            default_model: None,
        }
    }
}
