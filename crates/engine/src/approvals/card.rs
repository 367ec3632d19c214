//! What somebody who decides is shown. Everything on it comes from the stored rows; what an agent says about its call is
//! in `input` like any other argument, and nowhere else.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use toolgate_contracts::definition::{Approvers, HitlMode, Label};
use toolgate_contracts::unseen::is_unseen;
use toolgate_contracts::{
    AgentId, ApprovalId, ApprovalState, AskReason, CallId, Caller, Digest, Fault, Page, Permission, Principal, RunId,
    Status, Timestamp, Vote, json as strict,
};
use toolgate_store::approvals::{Approval, ApprovalFilter, CastVote, Preview, SeenBy};
use toolgate_store::calls::{CallFilter, CallRecord, CallSummary, Sight};
use utoipa::ToSchema;

use crate::engine::Engine;
use crate::names::Names;
use crate::read::sees;

/// How many approvals a token is told of by their number.
const COUNTED_OF_TOKEN_MAX: u32 = 100;

/// How far back a call of the very same caller is looked for.
const EARLIER_LOOKED_AT_MAX: u32 = 50;

/// An approval as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Card {
    #[schema(value_type = String)]
    pub id: ApprovalId,
    pub state: ApprovalState,
    pub call_id: CallId,
    pub call_status: Status,
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// `name@version`.
    pub tool: String,
    pub title: String,
    pub egress_class: String,
    pub risk: String,
    /// Who is answerable, and by which name people know them.
    pub principal: String,
    pub asked_by: String,
    #[schema(value_type = Option<String>)]
    pub agent_id: Option<AgentId>,
    pub agent: Option<String>,
    pub reasons: Vec<AskReason>,
    pub mode: HitlMode,
    /// Only a person's decision lets it run, whatever the mode.
    pub person_required: bool,
    pub need: u32,
    /// What the votes must fulfil: `[{need, from}]`.
    #[schema(value_type = Vec<Object>)]
    pub approvers: Vec<Approvers>,
    /// How many have approved, of those who may still decide.
    pub approved: u32,
    pub votes: Vec<CardVote>,
    pub round: u32,
    /// What will run, exactly.
    #[schema(value_type = Option<Object>)]
    pub input: Option<Value>,
    /// The same as text, with every character that does not show itself written out.
    pub input_shown: String,
    #[schema(value_type = String)]
    pub input_digest: Digest,
    /// Characters in the input that eyes do not see, by name.
    pub hidden_characters: Vec<String>,
    /// What was asked for, where somebody edited it.
    #[schema(value_type = Option<Object>)]
    pub proposed_input: Option<Value>,
    pub edited_by: Option<String>,
    pub edited_by_name: Option<String>,
    pub labels: Vec<Label>,
    /// Where labelled data came from.
    pub origins: Vec<String>,
    /// Hosts that the tool may reach, as far as that is known before it runs.
    pub reaches: Vec<String>,
    /// Secrets it is given: `[{name, scope, version}]`.
    #[schema(value_type = Option<Object>)]
    pub secrets: Option<Value>,
    /// What it would do, worked out when people were asked; absent where its runner cannot say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<CardPreview>,
    /// The right that whoever approves lends to this call, and so must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub borrows: Option<Permission>,
    /// The call before it of the same tool: by the same person as the same agent, else by one of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
    pub expires_at: Timestamp,
    /// Set while a kill switch holds its deadline.
    pub frozen_at: Option<Timestamp>,
    pub decided_by: Option<String>,
    pub decided_by_name: Option<String>,
    pub decided_at: Option<Timestamp>,
    pub decision_reason: Option<String>,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CardVote {
    pub voter: String,
    pub voter_name: Option<String>,
    pub vote: Vote,
    /// Whether it counts: whoever lost the right since has not voted.
    pub counts: bool,
    pub reason: Option<String>,
    pub at: Timestamp,
}

/// A dry run, as it was when people were asked. What the tool works on may have changed since.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CardPreview {
    pub at: Timestamp,
    /// What the runner would do, in its own members.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub plan: Option<Value>,
    /// Why there is no plan; the call may run all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// It was longer, and was cut.
    pub truncated: bool,
    /// Why it is not about what would run now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Earlier {
    #[schema(value_type = String)]
    pub call_id: CallId,
    pub status: Status,
    /// Who made it.
    pub principal: String,
    pub principal_name: Option<String>,
    /// The agent as which they did.
    pub agent: Option<String>,
    /// Whether it is of the same person as the same agent.
    pub same_caller: bool,
    #[schema(value_type = Option<Object>)]
    pub input: Option<Value>,
    pub at: Timestamp,
}

/// What a card is made of, before it is known who the people on it are.
struct AskedFor {
    approval: Approval,
    record: CallRecord,
    votes: Vec<CastVote>,
    principal: String,
}

impl AskedFor {
    fn people(&self) -> impl Iterator<Item = &str> {
        let Approval { decided_by, edited_by, .. } = &self.approval;
        let decided = [decided_by, edited_by].into_iter().filter_map(Option::as_deref);
        decided.chain(self.votes.iter().map(|vote| vote.voter.as_str())).chain([self.principal.as_str()])
    }
}

impl Engine {
    /// One approval, for those who may decide, and for whoever asked.
    pub async fn approval(&self, caller: &Caller, id: &str) -> Result<Card, Fault> {
        let (approval, record) = self.approval_for_decision(caller, id).await?;
        let earlier = self.earlier(caller, &record).await?;
        Ok(Card { earlier, ..self.card(caller, approval, record).await? })
    }

    /// Approvals that the caller sees; the open ones oldest first, because they wait.
    pub async fn list_approvals(
        &self,
        caller: &Caller,
        filter: &ApprovalFilter,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<Card>, Fault> {
        let filter = self.as_seen_by(caller, filter).await?;
        let page = self.store.approvals(caller.tenant, &filter, cursor, limit).await?;
        let mut seen = Vec::with_capacity(page.items.len());
        for approval in page.items {
            let Some(record) = self.store.call(caller.tenant, approval.call).await? else { continue };
            if self.sees_approval(caller, &approval, &record).await? {
                seen.push(self.asked(caller, approval, record).await?);
            }
        }
        let names = self.names(caller.tenant, seen.iter().flat_map(AskedFor::people)).await?;
        let mut items = Vec::with_capacity(seen.len());
        for asked in seen {
            items.push(self.card_of(caller, asked, &names).await?);
        }
        Ok(Page { items, next_cursor: page.next_cursor })
    }

    /// How many of a list the caller sees.
    pub async fn count_approvals(&self, caller: &Caller, filter: &ApprovalFilter) -> Result<u32, Fault> {
        if caller.token.is_some() {
            // Its page leaves out what the token is not for.
            let seen = self.list_approvals(caller, filter, None, COUNTED_OF_TOKEN_MAX).await?.items;
            return Ok(u32::try_from(seen.len()).unwrap_or(COUNTED_OF_TOKEN_MAX));
        }
        let filter = self.as_seen_by(caller, filter).await?;
        Ok(self.store.count_approvals(caller.tenant, &filter).await?)
    }

    async fn as_seen_by(&self, caller: &Caller, filter: &ApprovalFilter) -> Result<ApprovalFilter, Fault> {
        let seen_by = self.seen_by_whom(caller).await?;
        // Whoever acts as an agent sees that agent's.
        Ok(ApprovalFilter { seen_by, agent: caller.agent.or(filter.agent), ..filter.clone() })
    }

    /// As [`Engine::sees_approval`], for a whole list.
    async fn seen_by_whom(&self, caller: &Caller) -> Result<SeenBy, Fault> {
        if caller.agent.is_none() && caller.may(&Permission::APPROVALS_READ) {
            return Ok(match caller.principal {
                Principal::User(user) if !caller.may(&Permission::MEMBERS_MANAGE) => {
                    SeenBy::Member { user, own: caller.principal }
                }
                _ => SeenBy::Everybody,
            });
        }
        Ok(match self.sight_of_own(caller).await? {
            Sight::OwnAndManaged { viewer, agents } => SeenBy::Asker { own: viewer, agents },
            // What the token is not for is left out of the page.
            Sight::Token(token) => SeenBy::Asker { own: token.viewer, agents: Vec::new() },
            // INVARIANT: never of `sight_of_own`.
            Sight::Everything => SeenBy::Asker { own: caller.principal, agents: Vec::new() },
        })
    }

    /// Those who read approvals see those of their workspaces; whoever asked sees their own.
    pub(super) async fn sees_approval(
        &self,
        caller: &Caller,
        approval: &Approval,
        record: &CallRecord,
    ) -> Result<bool, Fault> {
        if caller.agent.is_none() && caller.may(&Permission::APPROVALS_READ) {
            let Some(workspace) = approval.workspace else { return Ok(true) };
            let everywhere = caller.may(&Permission::MEMBERS_MANAGE);
            return Ok(match caller.principal {
                Principal::User(user) if !everywhere => {
                    self.store.is_member(caller.tenant, user, workspace).await?
                        || sees(&self.sight_of_own(caller).await?, caller, record)
                }
                _ => true,
            });
        }
        Ok(sees(&self.sight_of_own(caller).await?, caller, record))
    }

    /// What somebody sees without the right to read everything.
    async fn sight_of_own(&self, caller: &Caller) -> Result<Sight, Fault> {
        Ok(match self.sight(caller).await? {
            Sight::Everything => Sight::OwnAndManaged { viewer: caller.principal, agents: Vec::new() },
            own @ (Sight::OwnAndManaged { .. } | Sight::Token(_)) => own,
        })
    }

    pub(super) async fn card(&self, caller: &Caller, approval: Approval, record: CallRecord) -> Result<Card, Fault> {
        let asked = self.asked(caller, approval, record).await?;
        let names = self.names(caller.tenant, asked.people()).await?;
        self.card_of(caller, asked, &names).await
    }

    async fn asked(&self, caller: &Caller, approval: Approval, record: CallRecord) -> Result<AskedFor, Fault> {
        let votes = self.store.votes(caller.tenant, approval.id, approval.round).await?;
        Ok(AskedFor { principal: record.principal.to_string(), approval, record, votes })
    }

    async fn card_of(&self, caller: &Caller, asked: AskedFor, names: &Names) -> Result<Card, Fault> {
        let AskedFor { approval, record, votes, principal } = asked;
        let tenant = caller.tenant;
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(tenant)?;
        let version = record.tool_version.parse().ok();
        let definition = registry
            .tool_by_id(record.tool)
            .and_then(|tool| tool.tool.version(&version?).map(|version| version.definition.clone()));
        let asked_by = names.of_principal(record.principal).unwrap_or_else(|| "somebody who left".to_owned());
        let name_of = |who: Option<&String>| who.and_then(|who| names.of(who));
        // Whoever reads what somebody else was about to send has seen what is in it.
        if record.input.is_some() || record.proposed_input.is_some() {
            self.join_read(caller, &approval.binding.labels, &record.tool_name).await?;
        }
        let preview = self.preview_for(caller, &approval, &record).await?;
        let counted: Vec<String> = if approval.state == ApprovalState::Open {
            self.counted(tenant, &approval, &record, &votes).await?.by
        } else {
            votes.iter().filter(|vote| vote.vote == Vote::Approve).map(|vote| vote.voter.clone()).collect()
        };
        let origins =
            if record.in_run { self.store.run(tenant, record.run).await?.map(|run| run.origins) } else { None };
        let text = record.input.as_ref().map(strict::canonical).unwrap_or_default();
        Ok(Card {
            id: approval.id,
            state: approval.state,
            call_id: record.id,
            call_status: record.status,
            run_id: record.run,
            tool: format!("{}@{}", record.tool_name, record.tool_version),
            title: definition
                .as_ref()
                .map_or_else(|| record.tool_name.clone(), |definition| definition.effective_title().to_owned()),
            egress_class: record.class.to_string(),
            risk: definition.as_ref().map(|definition| definition.effective_risk().to_string()).unwrap_or_default(),
            principal,
            asked_by,
            agent_id: record.agent,
            agent: record.agent.and_then(|id| registry.agents.get(&id)).map(|agent| agent.spec.name.to_string()),
            approvers: approval.approvers,
            reasons: approval.reasons,
            mode: approval.mode,
            person_required: approval.person_required,
            need: approval.need,
            approved: u32::try_from(counted.len()).unwrap_or(u32::MAX),
            votes: votes
                .into_iter()
                .map(|CastVote { voter, vote, reason, at }| {
                    let counts = vote == Vote::Reject || counted.contains(&voter);
                    CardVote { voter_name: names.of(&voter), voter, vote, counts, reason, at }
                })
                .collect(),
            round: approval.round,
            input_shown: shown(&text),
            hidden_characters: hidden(&text),
            input: record.input,
            input_digest: approval.input_digest,
            proposed_input: record.proposed_input,
            edited_by_name: name_of(approval.edited_by.as_ref()),
            edited_by: approval.edited_by,
            labels: approval.binding.labels,
            origins: origins
                .and_then(|origins| serde_json::from_value::<toolgate_policy::labels::Origins>(origins).ok())
                .map(|origins| origins.names().map(str::to_owned).collect())
                .unwrap_or_default(),
            reaches: definition.map(|definition| definition.hosts.clone()).unwrap_or_default(),
            secrets: approval.binding.secrets,
            preview,
            borrows: approval.binding.borrows,
            earlier: None,
            expires_at: approval.expires_at,
            frozen_at: approval.frozen_at,
            decided_by_name: name_of(approval.decided_by.as_ref()),
            decided_by: approval.decided_by,
            decided_at: approval.decided_at,
            decision_reason: approval.decision_reason,
            created_at: approval.created_at,
        })
    }

    /// What was foreseen, and whether it is still about what would run.
    async fn preview_for(
        &self,
        caller: &Caller,
        approval: &Approval,
        record: &CallRecord,
    ) -> Result<Option<CardPreview>, Fault> {
        let Some(Preview { at, input_digest, behaviour_digest, plan, failed, truncated }) = approval.preview.clone()
        else {
            return Ok(None);
        };
        let tool = self.version_of(caller.tenant, record);
        // A plan is made of what the tool reads, as its result is.
        if let Some(tool) = tool.as_ref().filter(|_| plan.is_some()) {
            let brings = crate::labels::brings(tool, false).to_vec();
            self.join_read(caller, &brings, &record.tool_name).await?;
        }
        let stale = if input_digest != approval.input_digest {
            Some("it is of another input".to_owned())
        } else if tool.is_none_or(|tool| tool.behaviour_digest != behaviour_digest) {
            Some("the tool has changed since; what is approved now does not run".to_owned())
        } else {
            None
        };
        let stale = stale.filter(|_| approval.state == ApprovalState::Open);
        Ok(Some(CardPreview { at, plan, failed, truncated, stale }))
    }

    /// The call before it of the same tool. The same person as the same agent says most about what is usual; then the
    /// same agent for somebody else, or the same person in another way.
    async fn earlier(&self, caller: &Caller, record: &CallRecord) -> Result<Option<Earlier>, Fault> {
        let principal = record.principal.to_string();
        let of_both = CallFilter {
            tool: Some(record.tool),
            agent: record.agent,
            principal: Some(record.principal),
            until: Some(record.created_at),
            ..CallFilter::default()
        };
        let of_one = CallFilter { principal: record.agent.is_none().then_some(record.principal), ..of_both.clone() };
        let is_same = |before: &CallSummary| before.principal == principal && before.agent_id == record.agent;
        let mut found = None;
        // The filters say whose; who may be shown which of them is asked below.
        for filter in [of_both, of_one] {
            let page =
                self.store.calls(caller.tenant, &Sight::Everything, &filter, None, EARLIER_LOOKED_AT_MAX).await?;
            // Its own id is a moment older than itself.
            let mut others = page.items.into_iter().filter(|before| before.id != record.id).peekable();
            let newest = others.peek().cloned();
            found = others.find(is_same).or(newest);
            if found.is_some() {
                break;
            }
        }
        let Some(summary) = found else { return Ok(None) };
        let Some(before) = self.store.call(caller.tenant, summary.id).await? else { return Ok(None) };
        // Whoever merely asked compares with what they see of others anyway; who decides, with what is usual.
        let decides = caller.agent.is_none() && caller.may(&Permission::APPROVALS_READ);
        if !is_same(&summary) && !decides && !sees(&self.sight(caller).await?, caller, &before) {
            return Ok(None);
        }
        self.join_input(caller, &before).await?;
        let names = self.names(caller.tenant, [summary.principal.as_str()]).await?;
        let snapshot = self.registry.snapshot();
        let agents = &snapshot.tenant(caller.tenant)?.agents;
        Ok(Some(Earlier {
            call_id: before.id,
            status: before.status,
            same_caller: is_same(&summary),
            principal_name: names.of(&summary.principal),
            agent: before.agent.and_then(|agent| agents.get(&agent)).map(|agent| agent.spec.name.to_string()),
            principal: summary.principal,
            input: before.input,
            at: before.created_at,
        }))
    }
}

/// The text with every character that does not show itself written out as `\u{…}`.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unseen(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

fn hidden(text: &str) -> Vec<String> {
    // Canonical JSON writes control characters as escapes already; they are counted too.
    let found: BTreeSet<char> = text.chars().filter(|character| is_unseen(*character)).collect();
    found.into_iter().map(|character| format!("U+{:04X}", u32::from(character))).collect()
}
