//! Acceptances: the operator's word that a tool, to one host or to any, may be given data with these labels.

use serde::Serialize;
use serde_json::json;
use toolgate_contracts::{AcceptanceId, Caller, Fault, Permission};
use toolgate_policy::labels::Acceptance;
use utoipa::ToSchema;

use super::Registry;

/// An acceptance as it is kept.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct KeptAcceptance {
    pub id: AcceptanceId,
    #[serde(flatten)]
    pub acceptance: Acceptance,
}

impl Registry {
    /// What is accepted in this tenant; what cannot be read accepts nothing and is not listed.
    pub fn acceptances(&self, caller: &Caller) -> Result<Vec<KeptAcceptance>, Fault> {
        if ![Permission::TOOLS_CLASSIFY, Permission::POLICIES_EDIT].iter().any(|right| caller.may(right)) {
            caller.require(&Permission::APPROVALS_READ)?;
        }
        let snapshot = self.snapshot();
        let rows = &snapshot.tenant(caller.tenant)?.deciding.acceptances;
        let kept = rows.iter().filter_map(|row| {
            let (id, acceptance) = (row.name.parse().ok()?, serde_json::from_str(&row.text).ok()?);
            Some(KeptAcceptance { id, acceptance })
        });
        Ok(kept.collect())
    }

    /// Why is kept in the log.
    pub async fn accept_labels(
        &self,
        caller: &Caller,
        acceptance: Acceptance,
        reason: &str,
    ) -> Result<(KeptAcceptance, i64), Fault> {
        caller.require(&Permission::TOOLS_CLASSIFY)?;
        if reason.trim().is_empty() {
            let remedy = "say why this data may go there: the log keeps it";
            return Err(Fault::invalid("an acceptance needs a reason", remedy).at("/reason"));
        }
        toolgate_contracts::unseen::check_text("reason", reason)?;
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let found = registry.find(&acceptance.tool, &self.now().day()).map(|(tool, _)| tool.tool.name.clone());
        let tool = found.ok_or_else(|| Fault::not_found("tool", &acceptance.tool).at("/tool"))?;
        let acceptance = Acceptance { tool, ..acceptance };
        let same = |row: &toolgate_store::catalog::Spec| {
            serde_json::from_str::<Acceptance>(&row.text).is_ok_and(|kept| kept == acceptance)
        };
        if registry.deciding.acceptances.iter().any(same) {
            return Err(Fault::conflict("this is accepted already", "see `toolgate label acceptances`"));
        }
        let id: AcceptanceId = self.new_id();
        let spec = serde_json::to_value(&acceptance).unwrap_or_default();
        let details = json!({"acceptance": spec, "id": id, "reason": reason.trim()});
        let mut change = self.begin(caller, caller.tenant, "label.accept", acceptance.tool.as_str(), details);
        change.insert_acceptance(id, &spec.to_string(), &caller.principal.to_string(), self.now());
        let revision = self.finish(change).await?;
        Ok((KeptAcceptance { id, acceptance }, revision))
    }

    pub async fn withdraw_acceptance(&self, caller: &Caller, id: &str) -> Result<i64, Fault> {
        caller.require(&Permission::TOOLS_CLASSIFY)?;
        let unknown = || Fault::not_found("acceptance", id);
        let id: AcceptanceId = id.parse().map_err(|_| unknown())?;
        let snapshot = self.snapshot();
        let rows = &snapshot.tenant(caller.tenant)?.deciding.acceptances;
        // One that cannot be read is withdrawn like any other.
        let row = rows.iter().find(|row| row.name == id.to_string()).ok_or_else(unknown)?;
        let details = json!({"acceptance": row.text});
        let mut change = self.begin(caller, caller.tenant, "label.withdraw", &id.to_string(), details);
        change.delete_acceptance(id);
        self.finish(change).await
    }
}
