//! What a listing means for a server's tools, tool by tool: the steps that a change is written in, and what is told of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use toolgate_contracts::definition::ToolState;
use toolgate_contracts::{Definition, Digest, DriftClass, Fault, ToolId, ToolName, Upstream};
use toolgate_store::catalog::Classification;
use toolgate_store::upstreams::Offer;

use super::{ReadOutcome, ReadTool, Registry, is_ours};
use crate::finding::Finding;
use crate::snapshot::{Snapshot, TenantRegistry, TenantTool, Tool};
use crate::upstream::{self, RefusedTool, Taken};

/// A version on its way into the registry.
pub(super) struct Published {
    pub tool: Option<ToolId>,
    pub said: Option<Arc<Classification>>,
    pub class: &'static str,
    pub definition: Box<Definition>,
    pub version: semver::Version,
}

/// What a reading writes.
pub(super) enum Step {
    Publish(Published),
    Offer(Box<Offer>),
    Withdraw(String),
    Block(Arc<Tool>),
    Unblock(Arc<Tool>),
}

pub(super) struct Taking<'a> {
    pub registry: &'a Registry,
    pub snapshot: &'a Snapshot,
    pub tenant: &'a TenantRegistry,
    pub spec: &'a Upstream,
    pub known: BTreeMap<String, &'a TenantTool>,
    pub offers: BTreeMap<String, Offer>,
    pub steps: Vec<Step>,
    pub tools: Vec<ReadTool>,
    pub drifted: Vec<(Option<String>, String)>,
}

impl Taking<'_> {
    pub async fn judge(&mut self, listed: &[Value]) -> Result<(), Fault> {
        let names = self.known.iter().map(|(original, tool)| (original.clone(), tool.tool.name.clone())).collect();
        let upstream::Read { taken, refused, offered } = upstream::read(self.spec, listed, &names);
        for RefusedTool { tool, findings } in refused {
            let name = self.known.get(&tool).map(|known| known.tool.name.to_string());
            self.tools.push(ReadTool {
                tool,
                name,
                outcome: ReadOutcome::Refused,
                class: None,
                version: None,
                findings,
            });
        }
        let present: BTreeSet<&str> =
            taken.iter().map(|taken| taken.tool.as_str()).chain(offered.iter().map(String::as_str)).collect();
        let gone: Vec<(String, &TenantTool)> = self
            .known
            .iter()
            .filter(|(original, _)| !present.contains(original.as_str()) || !self.spec.takes(original))
            .map(|(original, tool)| (original.clone(), *tool))
            .collect();
        let stale: Vec<String> =
            self.offers.keys().filter(|tool| !taken.iter().any(|taken| taken.tool == **tool)).cloned().collect();
        self.steps.extend(stale.into_iter().map(Step::Withdraw));
        for taken in taken {
            match self.known.get(&taken.tool).copied() {
                Some(tool) => self.known_tool(tool, taken).await?,
                None => self.new_tool(taken, &gone).await?,
            }
            tokio::task::yield_now().await;
        }
        for (original, tool) in gone {
            let is_callable = tool.tool.versions.iter().any(|version| version.lifecycle.state != ToolState::Blocked);
            if is_callable {
                self.steps.push(Step::Block(Arc::clone(&tool.tool)));
            }
            self.tell(original, Some(&tool.tool.name), ReadOutcome::Gone, None, None, Vec::new());
        }
        Ok(())
    }

    async fn new_tool(&mut self, taken: Taken, gone: &[(String, &TenantTool)]) -> Result<(), Fault> {
        let Taken { tool, digest, definition, findings } = taken;
        let refusals = self.registry.refusals_of(self.snapshot, self.tenant, &definition);
        let name = definition.name.clone();
        if !refusals.is_empty() {
            self.tell(tool, None, ReadOutcome::Refused, None, None, refusals);
            return Ok(());
        }
        if self.is_refused(&tool, &digest) {
            self.tell(tool, None, ReadOutcome::Declined, Some(DriftClass::Rename), None, findings);
            return Ok(());
        }
        let renamed = gone.iter().find(|(_, old)| {
            old.tool
                .newest_released()
                .is_some_and(|old| upstream::may_be_renamed(&old.published.definition, &definition))
        });
        if let Some((old, _)) = renamed
            && !self.spec.accepts.contains(&DriftClass::Rename)
        {
            let offer = Offer {
                tool: tool.clone(),
                definition,
                digest,
                class: DriftClass::Rename,
                replaces: Some(old.clone()),
                seen_at: self.registry.now(),
                refused: None,
            };
            self.offer(offer, &name, findings);
            return Ok(());
        }
        let publication = self.registry.publication(self.tenant, None, definition).await?;
        if self.offers.contains_key(&tool) {
            self.steps.push(Step::Withdraw(tool.clone()));
        }
        if let Some((published, version)) = publication {
            self.steps.push(Step::Publish(published));
            self.tell(tool, Some(&name), ReadOutcome::New, None, Some(version), findings);
        }
        Ok(())
    }

    async fn known_tool(&mut self, existing: &TenantTool, taken: Taken) -> Result<(), Fault> {
        let Taken { tool, digest, definition, findings } = taken;
        let Some(current) = existing.tool.newest_released() else { return Ok(()) };
        let name = existing.tool.name.clone();
        let was_gone = existing.tool.versions.iter().any(|version| is_ours(&version.lifecycle, &self.spec.name));
        if was_gone {
            self.steps.push(Step::Unblock(Arc::clone(&existing.tool)));
        }
        let drift = upstream::drift(&current.published.definition, &definition);
        let class = drift.map(|(class, _)| class);
        // Whoever said no to exactly this said more than whoever says yes to its class.
        let refused = self.is_refused(&tool, &digest);
        let taking = class.is_none_or(|class| self.spec.accepts.contains(&class) && !refused);
        // What the operator said meanwhile of the server holds at once, whatever the server says.
        let next =
            if taking { definition.clone() } else { upstream::as_said_now(&current.published.definition, &definition) };
        let refusals = self.registry.refusals_of(self.snapshot, self.tenant, &next);
        if !refusals.is_empty() {
            self.tell(tool, Some(&name), ReadOutcome::Refused, class, None, refusals);
            return Ok(());
        }
        let publication = self.registry.publication(self.tenant, Some(existing), next).await?;
        let version = publication.as_ref().map(|(_, version)| version.clone());
        let updated = publication.is_some();
        self.steps.extend(publication.map(|(published, _)| Step::Publish(published)));
        match class {
            Some(class) if !taking => {
                let seen_at = self.registry.now();
                let offer = Offer { tool, definition, digest, class, replaces: None, seen_at, refused: None };
                self.offer(offer, &name, findings);
            }
            _ => {
                if self.offers.contains_key(&tool) {
                    self.steps.push(Step::Withdraw(tool.clone()));
                }
                let outcome = match (was_gone, updated) {
                    (true, _) => ReadOutcome::Back,
                    (false, true) => ReadOutcome::Updated,
                    (false, false) => ReadOutcome::Unchanged,
                };
                self.tell(tool, Some(&name), outcome, class, version, findings);
            }
        }
        Ok(())
    }

    /// Whether somebody said no to exactly this.
    fn is_refused(&self, tool: &str, digest: &Digest) -> bool {
        self.offers.get(tool).is_some_and(|before| before.refused.is_some() && before.digest == *digest)
    }

    /// Keeps an offer, and whether it is news.
    fn offer(&mut self, offer: Offer, name: &ToolName, findings: Vec<Finding>) {
        let is_news = self.offers.get(&offer.tool).is_none_or(|before| before.digest != offer.digest);
        let refused = self.is_refused(&offer.tool, &offer.digest);
        let outcome = if refused { ReadOutcome::Declined } else { ReadOutcome::Offered };
        self.tell(offer.tool.clone(), Some(name), outcome, Some(offer.class), None, findings);
        if is_news {
            self.drifted.push((Some(name.to_string()), offer.class.to_string()));
            self.steps.push(Step::Offer(Box::new(offer)));
        }
    }

    fn tell(
        &mut self,
        tool: String,
        name: Option<&ToolName>,
        outcome: ReadOutcome,
        class: Option<DriftClass>,
        version: Option<String>,
        findings: Vec<Finding>,
    ) {
        self.tools.push(ReadTool { tool, name: name.map(ToString::to_string), outcome, class, version, findings });
    }
}
