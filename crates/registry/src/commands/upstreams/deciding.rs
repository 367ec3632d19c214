//! What somebody decides of a server's offers: to accept them, or to refuse them.
//!
//! Invariant: a decision is about what was looked at. Does the server offer something else by then, nothing is decided.

use serde_json::{Value, json};
use toolgate_contracts::{Caller, Digest, Fault, Slug, TenantId, json as strict, unseen};
use toolgate_store::upstreams::Offer;

use super::offers::{ShownOffer, ShownOffers};
use super::taking::Step;
use super::{Decision, ReadOutcome, Registry, known};
use crate::finding::shown;

/// Of why something was refused.
const REASON_BYTES_MAX: usize = 2000;

impl Registry {
    /// What a server that is at `place` now offers and nobody has accepted.
    pub async fn upstream_offers(&self, caller: &Caller, name: &Slug, place: Digest) -> Result<ShownOffers, Fault> {
        let stored = self.upstream(caller, name)?;
        let snapshot = self.snapshot();
        let known = known(snapshot.tenant(caller.tenant)?, &stored.spec);
        let offers = self.store().offers(caller.tenant, name).await?;
        let seen = self.seen(caller.tenant, name, place, &offers).await?;
        let accepted = |tool: &str| known.get(tool).and_then(|tool| tool.tool.newest_released());
        let shown = |offer: Offer| ShownOffer::of(offer, accepted);
        Ok(ShownOffers { offers: offers.into_iter().map(shown).collect(), seen })
    }

    /// Names what is offered, and by whom. Who refused some of it is no part of that: it is the same offer.
    async fn seen(&self, tenant: TenantId, name: &Slug, place: Digest, offers: &[Offer]) -> Result<Digest, Fault> {
        let server = self.last_reading(tenant, name).await?.map(|(reading, _)| reading.server);
        let offer = |offer: &Offer| json!([offer.tool, offer.digest, offer.class, offer.replaces]);
        let offers: Vec<Value> = offers.iter().map(offer).collect();
        Ok(strict::digest(&json!({"place": place, "server": server, "offers": offers})))
    }

    /// Accepts what a server offers: all of it, or the tools that are named by the server's names. Where it is now and
    /// what it calls itself are accepted with the whole. What changed since it was looked at is not accepted.
    pub async fn accept_upstream(
        &self,
        caller: &Caller,
        name: &Slug,
        accepted: Decision<'_>,
    ) -> Result<(Vec<String>, i64), Fault> {
        let Decision { tools, place, seen } = accepted;
        let stored = self.upstream(caller, name)?;
        let snapshot = self.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let known = known(registry, &stored.spec);
        let offers = self.decided(caller, name, accepted).await?;
        let moved = tools.is_none() && stored.place != place;
        let names: Vec<String> = offers.iter().map(|offer| offer.tool.clone()).collect();
        let actor = caller.principal.to_string();
        let mut change = self.begin(
            caller,
            caller.tenant,
            "upstream.accept",
            name.as_str(),
            json!({"tools": names, "moved": moved, "seen": seen}),
        );
        if moved {
            change.accept_place(name, place);
        }
        if tools.is_none()
            && let Some((mut reading, at)) = self.last_reading(caller.tenant, name).await?
            && reading.was.take().is_some()
        {
            change.keep_reading(name, &serde_json::to_value(&reading).unwrap_or_default(), at);
        }
        for offer in offers {
            let existing = known.get(&offer.tool).copied();
            let wrong = self.refusals_of(&snapshot, registry, &offer.definition);
            if let Some(first) = wrong.first() {
                let told = format!("`{}` cannot be accepted: {}", shown(&offer.tool), first.message);
                return Err(Fault::invalid(told, first.fix.clone()));
            }
            let step = self.publication(registry, existing, offer.definition).await?;
            change.delete_offer(name, &offer.tool);
            if let Some((step, _)) = step {
                self.write(&mut change, &actor, name, Step::Publish(step));
            }
        }
        let revision = self.finish(change).await?;
        Ok((names, revision))
    }

    /// The offers that a decision is about. What changed since it was looked at is decided by nobody.
    async fn decided(&self, caller: &Caller, name: &Slug, about: Decision<'_>) -> Result<Vec<Offer>, Fault> {
        let Decision { tools, place, seen } = about;
        let mut offers = self.store().offers(caller.tenant, name).await?;
        if self.seen(caller.tenant, name, place, &offers).await? != seen {
            let told = format!("the server `{name}` offers something else than what was looked at (`seen`)");
            let remedy = format!("look at it again with `toolgate upstream show {name}`, which says what to accept");
            return Err(Fault::conflict(told, remedy).at("/seen"));
        }
        let Some(tools) = tools else {
            // Who takes or leaves the rest says nothing of what was refused.
            offers.retain(|offer| offer.refused.is_none());
            return Ok(offers);
        };
        for (index, tool) in tools.iter().enumerate() {
            if !offers.iter().any(|offer| offer.tool == *tool) {
                let told = format!("the server `{name}` offers no change of `{}`", shown(tool));
                let remedy = format!("see what it offers with `toolgate upstream show {name}`");
                return Err(Fault::invalid(told, remedy).at(format!("/tools/{index}")));
            }
        }
        offers.retain(|offer| tools.contains(&offer.tool));
        Ok(offers)
    }

    /// Refuses what a server offers: all that waits, or the tools that are named by the server's names. What was accepted
    /// goes on as it was, and what is refused stays so until the server offers something else, or somebody accepts it by
    /// its name.
    pub async fn refuse_offers(
        &self,
        caller: &Caller,
        name: &Slug,
        refused: Decision<'_>,
        reason: Option<&str>,
    ) -> Result<(Vec<String>, i64), Fault> {
        self.upstream(caller, name)?;
        let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
        if let Some(reason) = reason {
            unseen::check_text("reason", reason)?;
            if reason.len() > REASON_BYTES_MAX {
                let told = format!("`reason` has more than {REASON_BYTES_MAX} bytes");
                return Err(Fault::invalid(told, "say it in fewer words").at("/reason"));
            }
        }
        let mut offers = self.decided(caller, name, refused).await?;
        offers.retain(|offer| offer.refused.is_none());
        if offers.is_empty() {
            let told = format!("the server `{name}` offers nothing that waits for somebody");
            return Err(Fault::conflict(told, format!("see what it offers with `toolgate upstream show {name}`")));
        }
        let names: Vec<String> = offers.iter().map(|offer| offer.tool.clone()).collect();
        let told = |offer: &Offer| json!({"tool": offer.tool, "class": offer.class, "digest": offer.digest});
        let tools: Vec<Value> = offers.iter().map(told).collect();
        let details = json!({"tools": tools, "seen": refused.seen, "reason": reason});
        let mut change = self.begin(caller, caller.tenant, "upstream.refuse", name.as_str(), details);
        for offer in &offers {
            change.refuse_offer(name, offer, &caller.principal.to_string(), self.now());
        }
        if let Some((mut reading, at)) = self.last_reading(caller.tenant, name).await? {
            for tool in reading.tools.iter_mut().filter(|tool| names.contains(&tool.tool)) {
                tool.outcome = ReadOutcome::Declined;
            }
            change.keep_reading(name, &serde_json::to_value(&reading).unwrap_or_default(), at);
        }
        let revision = self.finish(change).await?;
        Ok((names, revision))
    }
}
