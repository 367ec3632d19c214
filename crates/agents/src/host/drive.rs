//! A run goes on: whatever the conversation says comes next is done, until it ends or must wait.

use std::collections::hash_map::Entry;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use toolgate_contracts::call::RunState;
use toolgate_contracts::{CallId, Caller, Envelope, Fault, FaultKind, RunId, TenantId, ToolError};
use toolgate_store::agent_runs::{AgentRun, AgentTurn};
use toolgate_store::runs::Run;
use toolgate_store::{Change, Durability, Error};

use super::Host;
use crate::conversation::{Conversation, Next, Plan};
use crate::model::Turn;

/// A run in the hands of this replica.
pub(super) struct Driven {
    pub tenant: TenantId,
    pub kept: AgentRun,
    pub plan: Plan,
    pub run: Run,
    pub above: Vec<Run>,
    /// Whoever began it, as the agent, with the rights of now.
    pub caller: Caller,
    pub cancel: CancellationToken,
}

/// Why nobody is at a run any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    Ended,
    /// It goes on when this call has ended.
    Waits(CallId),
    /// It may go on later: something is stopped, or this server stops.
    Later,
    /// Another replica has it.
    Lost,
}

/// What became of something that was done.
pub(super) enum Did<T> {
    Done(T),
    /// The run ends, for this reason.
    Ends(ToolError),
    Leaves(Left),
    /// It was broken off: somebody ended the run, or this server stops.
    BrokenOff,
}

impl Host {
    /// Drives a run that this replica holds, in a task of its own.
    pub(super) fn drive_soon(&self, tenant: TenantId, run: RunId) {
        let cancel = self.0.stopping.child_token();
        match self.at().entry(run) {
            // Whoever is at it listens to the one that is there.
            Entry::Occupied(_) => return,
            Entry::Vacant(place) => _ = place.insert(cancel.clone()),
        }
        let host = self.clone();
        tokio::spawn(async move {
            let driving = std::panic::AssertUnwindSafe(Box::pin(host.drive(tenant, run, cancel))).catch_unwind();
            let left = driving.await.unwrap_or_else(|_| Err(Fault::internal("driving the run panicked")));
            let waits = host.let_go(tenant, run, left).await;
            // Only now: whoever takes it up from here on finds it let go of.
            host.at().remove(&run);
            // What it waits for may have ended just before.
            if waits {
                host.look_at(tenant, run);
            }
        });
    }

    async fn drive(&self, tenant: TenantId, id: RunId, cancel: CancellationToken) -> Result<Left, Fault> {
        let Some(kept) = self.0.store.agent_run(tenant, id).await?.filter(|kept| kept.is_open) else {
            return Ok(Left::Ended);
        };
        let plan: Plan = serde_json::from_value(kept.plan.clone()).map_err(Fault::internal)?;
        let mut conversation = Conversation::begin(&plan);
        let mut turns = self.0.store.agent_turns(tenant, id).await?.into_iter();
        let Some(run) = self.0.store.run(tenant, id).await? else { return Ok(Left::Ended) };
        let acting = self.0.engine.acting_again(tenant, &kept.asker).await;
        let caller = match acting {
            Ok(caller) => caller,
            // What is known of it is told all the same, by the server itself.
            Err(fault) if matches!(fault.kind(), FaultKind::Forbidden | FaultKind::NotFound) => {
                self.tell_rest((tenant, id), &mut conversation, None, turns).await?;
                return self.close(tenant, &kept, &run, &conversation, Some(ToolError::of(&fault))).await;
            }
            Err(fault) => return Err(fault),
        };
        let above = self.0.engine.runs_above(tenant, &run).await?;
        let mut driven = Driven { tenant, kept, plan: plan.clone(), run, above, caller, cancel };
        let mut current: Option<AgentTurn> = None;
        let mut again = false;
        // Whether somebody may have ended the run: when it is taken up, and when something was broken off. Otherwise the
        // commits say so, of a question and of a call.
        let mut look = true;
        loop {
            let next = conversation.next();
            // What was recorded is only told again; beyond it, nothing is done in a run that is over.
            let replaying =
                matches!(&next, Next::Ask(_)) && turns.as_slice().first().is_some_and(|turn| turn.answer.is_some());
            if !replaying && self.0.stopping.is_cancelled() {
                return Ok(Left::Later);
            }
            if !replaying && std::mem::take(&mut look) {
                let Some(run) = self.0.store.run(tenant, id).await? else { return Ok(Left::Ended) };
                driven.run = run;
                if driven.run.state.is_final() {
                    self.tell_rest((tenant, id), &mut conversation, current, turns).await?;
                    return self.end(&driven, &conversation, None).await;
                }
            }
            match next {
                Next::Ask(_) if replaying => {
                    let Some(turn) = turns.next() else { continue };
                    conversation.heard(&answer_of(&turn)?);
                    current = Some(turn);
                    again = true;
                }
                Next::Ask(request) => {
                    // One that went out and was not heard of again.
                    if let Some(lost) = turns.next()
                        && !self.give_up_turn(&driven, &lost).await?
                    {
                        return Ok(Left::Lost);
                    }
                    match Box::pin(self.ask(&driven, conversation.turns(), &request)).await? {
                        Did::Done(turn) => {
                            conversation.heard(&answer_of(&turn)?);
                            current = Some(turn);
                            again = false;
                        }
                        Did::Ends(error) => return self.end(&driven, &conversation, Some(error)).await,
                        Did::Leaves(left) => return Ok(left),
                        Did::BrokenOff => look = true,
                    }
                }
                Next::Call(proposed) => {
                    let (turn, asides) = current.as_ref().map_or((0, &[][..]), |turn| (turn.turn, &turn.asides[..]));
                    match Box::pin(self.call(&driven, turn, proposed, asides, again)).await? {
                        Did::Done(envelopes) => conversation.took(envelopes),
                        Did::Ends(error) => {
                            self.tell_rest((tenant, id), &mut conversation, current, turns).await?;
                            return self.end(&driven, &conversation, Some(error)).await;
                        }
                        Did::Leaves(left) => return Ok(left),
                        Did::BrokenOff => look = true,
                    }
                }
                Next::Answered => return self.end(&driven, &conversation, None).await,
                Next::Ended(error) => return self.end(&driven, &conversation, Some(error)).await,
            }
        }
    }

    /// Tells a conversation that goes on no more what was recorded of it: the rest of the answers, and of the last one the
    /// calls that have ended.
    async fn tell_rest(
        &self,
        (tenant, run): (TenantId, RunId),
        conversation: &mut Conversation<'_>,
        mut current: Option<AgentTurn>,
        mut turns: std::vec::IntoIter<AgentTurn>,
    ) -> Result<(), Fault> {
        loop {
            match conversation.next() {
                Next::Ask(_) => {
                    let Some(turn) = turns.next().filter(|turn| turn.answer.is_some()) else { return Ok(()) };
                    conversation.heard(&answer_of(&turn)?);
                    current = Some(turn);
                }
                Next::Call(proposed) => {
                    let known = current.as_ref().map_or(&[][..], |turn| &turn.asides[..]);
                    let mut ended = Vec::with_capacity(proposed.len());
                    for one in &proposed {
                        let aside = known.iter().find(|aside| aside.seq == one.seq);
                        let envelope = match aside {
                            Some(aside) => Some(aside.envelope.clone()),
                            None => self.ended_at((tenant, run), one.seq).await?,
                        };
                        ended.extend(envelope.map(|envelope| (one.seq, envelope)));
                    }
                    if ended.len() < proposed.len() {
                        conversation.took_some(ended);
                        return Ok(());
                    }
                    conversation.took(ended.into_iter().map(|(_, envelope)| envelope).collect());
                }
                Next::Answered | Next::Ended(_) => return Ok(()),
            }
        }
    }

    /// The call at this place of a run, if it has ended.
    async fn ended_at(&self, (tenant, run): (TenantId, RunId), seq: u32) -> Result<Option<Envelope>, Fault> {
        let Some(call) = self.0.store.call_at_place(tenant, run, seq).await? else { return Ok(None) };
        let envelope = self.0.engine.answer(tenant, call).await?;
        Ok(envelope.status.is_final().then_some(envelope))
    }

    /// A question without an answer is counted as what was held for it. `false`: another replica has the run.
    pub(super) async fn give_up_turn(&self, driven: &Driven, lost: &AgentTurn) -> Result<bool, Fault> {
        let mut change = Change::new(driven.tenant);
        self.lose(&mut change, &driven.run, &driven.plan.model, lost);
        let ours = self.if_ours(change).await?;
        self.0.engine.signal_run(driven.tenant, driven.run.id);
        Ok(ours)
    }

    /// Commits a change that only whoever holds the run may make. `false`: that is another replica by now.
    pub(super) async fn if_ours(&self, change: Change) -> Result<bool, Fault> {
        match self.0.store.commit(change).await {
            Ok(_) => Ok(true),
            Err(Error::Unmet(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Nobody here is at it any more. `true`: it waits for a call.
    async fn let_go(&self, tenant: TenantId, run: RunId, left: Result<Left, Fault>) -> bool {
        let waits_for = match left {
            Ok(Left::Ended | Left::Lost) => {
                self.left().remove(&run);
                self.put_off().remove(&run);
                return false;
            }
            Ok(Left::Waits(call)) => {
                self.listen_for(tenant, run);
                self.put_off().remove(&run);
                Some(call)
            }
            Ok(Left::Later) => {
                self.put_off_run(run);
                None
            }
            Err(fault) => {
                let why = fault.logged().unwrap_or(fault.told()).to_owned();
                tracing::warn!(%run, "a run does not go on for now: {why}");
                self.put_off_run(run);
                None
            }
        };
        let mut change = Change::new(tenant).durability(Durability::Process);
        change.leave_agent_run(run, self.0.engine.replica(), waits_for);
        if let Err(error) = self.0.store.commit(change).await {
            tracing::warn!(%run, "a run is not let go of: {error}");
        }
        waits_for.is_some()
    }
}

pub(super) fn elsewhere() -> Fault {
    Fault::conflict("another replica has the run", "it goes on there")
}

pub(super) fn answer_of(turn: &AgentTurn) -> Result<Turn, Fault> {
    serde_json::from_value(turn.answer.clone().unwrap_or_default()).map_err(Fault::internal)
}

pub(super) const fn ended_as(error: Option<&ToolError>) -> RunState {
    match error {
        None => RunState::Completed,
        Some(_) => RunState::Failed,
    }
}
