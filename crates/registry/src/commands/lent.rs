//! A change that a call makes with a right that people lent it: the caller stays who asked, and the log says who allowed.

use std::borrow::Cow;

use serde_json::{Value, json};
use toolgate_contracts::{ApprovalId, CallId, Caller, Permission};

/// What is lent, at most: a tenant's own tools. Whoever may hand out more does so himself.
const LENDABLE: [Permission; 3] =
    [Permission::TOOLS_TENANT_CREATE, Permission::TOOLS_TENANT_UPDATE, Permission::TOOLS_TENANT_DELETE];

/// A right that people lent to one call.
#[derive(Clone, Copy, Debug)]
pub struct LentRight<'a> {
    pub right: &'a Permission,
    pub call: CallId,
    pub approval: ApprovalId,
    /// Who approved.
    pub by: &'a [String],
}

impl LentRight<'_> {
    /// The caller with what was lent.
    pub(super) fn added_to<'c>(lent: Option<&Self>, caller: &'c Caller) -> Cow<'c, Caller> {
        let Some(lent) = lent.filter(|lent| LENDABLE.contains(lent.right) && !caller.may(lent.right)) else {
            return Cow::Borrowed(caller);
        };
        let permissions = caller.permissions.iter().chain([lent.right]).cloned().collect();
        Cow::Owned(Caller { permissions, ..caller.clone() })
    }

    /// With what the log says of it.
    pub(super) fn noted(lent: Option<&Self>, mut details: Value) -> Value {
        if let Some(Self { right, call, approval, by }) = lent {
            details["lent"] = json!({"right": right, "by": by, "approval": approval, "call": call});
        }
        details
    }
}
