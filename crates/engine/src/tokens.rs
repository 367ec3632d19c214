//! Capability tokens: minted, narrowed, listed and revoked; and whom one stands for now.
//!
//! What a token allows is pure and in `policy`; whether it still works is in the store. Deliberately absent: reading a
//! token's text at the door, which is the server's.

use serde_json::{Value, json};
use toolgate_contracts::caller::Credential;
use toolgate_contracts::token::ChainedToken;
use toolgate_contracts::{
    AgentId, Caller, ErrorCode, Fault, FaultKind, HeldToken, Id, Permission, Permissions, Principal, Role, RunId,
    Scope, SessionId, TenantId, Timestamp, TokenId, ToolError, ToolName, ToolRef, json as strict,
};
use toolgate_policy::constraint::{Arguments, Constraints};
use toolgate_policy::token::{self, Claims, MintRequest, Root, SigningKey};
use toolgate_registry::snapshot::{ResolvedTool, TenantRegistry};
use toolgate_registry::toolset::View;
use toolgate_store::audit::Entry;
use toolgate_store::credentials::Holder;
use toolgate_store::labels::LabelContext;
use toolgate_store::runs::Run;
use toolgate_store::tokens::{TokenFilter, TokenRow};
use toolgate_store::{Change, Error};
use toolgate_vault::Purpose;

use crate::engine::Engine;
use crate::labels::{CONTEXT_S, context_of};
use crate::record::Prepared;

/// The rule by which a change says that a token, or one above it, is revoked or used up.
const REFUSED: &str = "token";

/// What is asked for.
#[derive(Clone, Debug)]
pub struct NewToken {
    pub wanted: MintRequest,
    /// Whoever shows the token acts as this agent. Absent: as whoever mints it.
    pub agent: Option<String>,
    /// The token that whoever asks has shown. Absent: that one, if it was one.
    pub parent: Option<TokenId>,
}

/// A token as it is given out: its text is in the answer and nowhere else.
#[derive(Clone, Debug)]
pub struct Minted {
    pub row: TokenRow,
    pub claims: Claims,
    pub text: String,
}

/// How a token was made: what its row needs besides the claims.
struct Made {
    claims: Claims,
    /// Above it.
    chain: Vec<TokenId>,
    key: Option<toolgate_contracts::KeyId>,
    session: Option<SessionId>,
    context: String,
}

impl Engine {
    /// Mints a token within what the caller has. Whoever shows a token makes narrower ones of it, and no others.
    pub async fn mint_token(&self, caller: &Caller, new: NewToken, issuer: &str) -> Result<Minted, Fault> {
        caller.require(&Permission::TOKENS_MINT)?;
        let NewToken { wanted, agent, parent } = new;
        let now = self.clock.now();
        let id: TokenId = Id::new(&self.clock, &self.rng);
        let agent = self.agent_of_token(caller, agent.as_deref()).await?;
        if let Some(run) = wanted.run {
            self.nameable_run(caller, run).await.map_err(|fault| fault.at("/run"))?;
        }
        self.check_names(caller, agent, &wanted, id)?;
        let made = if let Some(held) = &caller.token {
            self.narrowed(caller, held, parent, &wanted, id, now).await?
        } else if parent.is_some() {
            let told = "a narrower token is made by whoever holds the one above it";
            let remedy = "send that token as `Authorization: Bearer TOKEN`";
            return Err(Fault::new(FaultKind::Forbidden, told, remedy).at("/parent"));
        } else {
            self.first(caller, agent, &wanted, issuer, id, now).await?
        };
        let Made { claims, chain, key, session, context } = made;
        let row = TokenRow {
            id,
            parent: claims.parent,
            chain: std::iter::once(id).chain(chain.iter().copied()).collect(),
            principal: claims.sub,
            agent: claims.act.as_ref().map(|act| act.sub),
            key,
            session,
            context,
            claims: serde_json::to_value(&claims).unwrap_or_default(),
            calls_max: claims.max_calls,
            calls_used: 0,
            expires_at: claims.expires_at(),
            revoked_at: None,
            revoked_by: None,
            created_at: now,
        };
        let mut change = Change::new(caller.tenant);
        if !chain.is_empty() {
            change.hold_tokens(&chain, revoked());
        } else if let Some(session) = session {
            let ended = "this browser session has ended";
            change.hold_session(session, Fault::new(FaultKind::Unauthenticated, ended, "sign in again"));
        }
        change.insert_token(&row);
        self.lend_labels(&mut change, caller, &row, now).await?;
        let details = json!({
            "agent": row.agent, "parent": row.parent, "key": row.key, "scope": claims.scope, "run": claims.run,
            "constraints": claims.constraints.len(), "budget": claims.budget, "max_calls": claims.max_calls,
            "expires_at": row.expires_at, "bound": claims.cnf.is_some(),
        });
        change.audit(&self.token_entry(caller, "token.mint", &id.to_string(), details));
        self.store.commit(change).await?;
        let signing = self.keyring.key(Purpose::Token, None).await?;
        let text = token::sign(&claims, signing.kid(), &SigningKey::from_bytes(signing.seed()));
        Ok(Minted { row, claims, text })
    }

    /// As whom the token acts: an agent that the caller manages or is.
    async fn agent_of_token(&self, caller: &Caller, named: Option<&str>) -> Result<Option<AgentId>, Fault> {
        let Some(name) = named else { return Ok(caller.agent) };
        let unknown = || Fault::not_found("agent", name).at("/agent");
        let snapshot = self.registry.snapshot();
        let agent = snapshot.tenant(caller.tenant)?.agent(name).ok_or_else(unknown)?;
        let own = caller.agent == Some(agent.id);
        if own || (caller.agent.is_none() && self.registry.may_manage(caller, agent).await?) {
            return Ok(Some(agent.id));
        }
        Err(unknown())
    }

    /// Every tool that is named is one that the caller, or the agent, has now: a misspelt name in a constraint would
    /// constrain nothing, and nobody would notice.
    fn check_names(
        &self,
        caller: &Caller,
        agent: Option<AgentId>,
        wanted: &MintRequest,
        id: TokenId,
    ) -> Result<(), Fault> {
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(caller.tenant)?;
        let today = self.clock.now().day();
        let agent = agent.and_then(|id| registry.agents.get(&id));
        // As whoever shows it: outside. Of a child, what its parent does not cover falls away later; here only names are
        // looked at.
        let caller = Caller { token: None, credential: Credential::Token(id), ..caller.clone() };
        let view = View { registry, caller: &caller, agent, run: None, today: &today };
        let mut tools = Vec::new();
        for (index, scope) in wanted.scope.iter().enumerate() {
            if let Scope::Tool(named) = scope {
                let tool = has(&view, registry, named.name()).map_err(|fault| fault.at(format!("/scope/{index}")))?;
                tools.push(tool);
            }
        }
        let every = wanted.scope.contains(&Scope::Every);
        let mut constrained = Vec::new();
        for name in wanted.constraints.tools() {
            let unknown = || Fault::not_found("tool", name);
            let known = name.parse().map_err(|_| unknown()).and_then(|name: ToolName| has(&view, registry, &name));
            constrained.push(known.map_err(|fault| fault.at("/constraints"))?);
        }
        // Of all tools some may have an argument that these have not.
        let unnamed = if every { Unnamed::OfAny } else { Unnamed::OfThese };
        tools.extend(constrained);
        check_arguments(registry, &tools, &wanted.constraints, unnamed)
    }

    async fn first(
        &self,
        caller: &Caller,
        agent: Option<AgentId>,
        wanted: &MintRequest,
        issuer: &str,
        id: TokenId,
        now: Timestamp,
    ) -> Result<Made, Fault> {
        let (key, session, not_after) = match caller.credential {
            Credential::ApiKey(key) => {
                let found = self.store.key_by_id(caller.tenant, key).await?;
                (Some(key), None, found.and_then(|key| key.expires_at))
            }
            Credential::BrowserSession(session) => {
                (None, Some(session), self.store.session_ends(caller.tenant, session).await?)
            }
            Credential::Token(_) | Credential::DatabaseRole | Credential::LocalFolder => (None, None, None),
        };
        let root = Root {
            issuer: issuer.to_owned(),
            audience: issuer.to_owned(),
            principal: caller.principal,
            agent,
            tenant: caller.tenant,
            epoch: self.audit.epoch(),
            not_after,
        };
        let claims = token::mint(wanted, &root, id, now)?;
        let context = context_of(&Caller { agent, ..caller.clone() });
        Ok(Made { claims, chain: Vec::new(), key, session, context })
    }

    async fn narrowed(
        &self,
        caller: &Caller,
        held: &HeldToken,
        parent: Option<TokenId>,
        wanted: &MintRequest,
        id: TokenId,
        now: Timestamp,
    ) -> Result<Made, Fault> {
        if let Some(other) = parent.filter(|parent| *parent != held.id) {
            return Err(Fault::not_found("token", other).at("/parent"));
        }
        let above = self.store.token(caller.tenant, held.id).await?.ok_or_else(revoked)?;
        let claims = token::narrow(&claims_of(&above)?, wanted, id, now)?;
        Ok(Made { claims, chain: above.chain, key: above.key, session: above.session, context: above.context })
    }

    /// Who makes a token for an agent hands it what it knows: what the one has seen, the other has seen from now on.
    async fn lend_labels(
        &self,
        change: &mut Change,
        caller: &Caller,
        row: &TokenRow,
        now: Timestamp,
    ) -> Result<(), Fault> {
        if context_of(caller) == row.context {
            return Ok(());
        }
        let seen = self.seen_just_now(caller).await?;
        if seen.labels.is_empty() {
            return Ok(());
        }
        let joining = LabelContext {
            labels: seen.labels.to_vec(),
            origins: serde_json::to_value(&seen.origins).unwrap_or_default(),
            expires_at: now.plus_seconds(CONTEXT_S),
        };
        change.join_context(&row.context, &joining, now);
        self.contexts.invalidate(&(caller.tenant, row.context.clone()));
        Ok(())
    }

    /// Whom a token stands for, with the rights they have now. Its time is not looked at: that bounds asking, and a
    /// call that waits does not die with it. Unknown and revoked look alike.
    pub async fn caller_by_token(&self, tenant: TenantId, id: TokenId) -> Result<Caller, Fault> {
        let row = self.store.token(tenant, id).await?.ok_or_else(revoked)?;
        let rows = match row.chain.as_slice() {
            [_] => vec![row.clone()],
            chain => self.store.tokens_of_chain(tenant, chain).await?,
        };
        let claims = claims_of(&row)?;
        if claims.epoch != self.audit.epoch() {
            return Err(revoked());
        }
        let mut chain = Vec::with_capacity(row.chain.len());
        for id in &row.chain {
            let above = rows.iter().find(|above| above.id == *id && above.revoked_at.is_none()).ok_or_else(revoked)?;
            chain.push(ChainedToken { id: *id, ..claims_of(above)?.chained() });
        }
        let (display_name, roles, permissions) = match row.principal {
            Principal::Local(uid) => {
                let roles = vec![Role::Admin, Role::Operator];
                (format!("local user {uid}"), roles.clone(), Permissions::of(roles))
            }
            Principal::User(_) => {
                let (holder, rights) = self.holder_of(tenant, &row).await?.ok_or_else(revoked)?;
                (holder.user_name, holder.roles, rights)
            }
        };
        let permissions = permissions.iter().filter(|permission| HeldToken::may_carry(permission)).cloned().collect();
        Ok(Caller {
            tenant,
            tenant_slug: self.registry.snapshot().tenant(tenant)?.tenant.slug.clone(),
            principal: row.principal,
            display_name,
            permissions,
            roles: roles.into(),
            agent: row.agent,
            credential: Credential::Token(id),
            token: Some(std::sync::Arc::new(claims.held(chain, row.context))),
        })
    }

    /// The person behind a token with what they may: with a key between, what the key may.
    async fn holder_of(&self, tenant: TenantId, row: &TokenRow) -> Result<Option<(Holder, Permissions)>, Fault> {
        let Principal::User(user) = row.principal else { return Ok(None) };
        let Some(key) = row.key else {
            let holder = self.store.user_holder(tenant, user).await?;
            return Ok(holder.map(|holder| (holder.clone(), holder.permissions)));
        };
        let Some(found) = self.store.key_holder(key).await? else { return Ok(None) };
        if found.holder.tenant != tenant || found.holder.user != user {
            return Ok(None);
        }
        let scopes = Permissions::from_scopes(found.scopes.iter().map(String::as_str)).map_err(Fault::internal)?;
        let rights = found.holder.permissions.intersection(&scopes);
        Ok(Some((found.holder, rights)))
    }

    /// A token that the caller may know of; another looks like none.
    pub async fn readable_token(&self, caller: &Caller, id: &str) -> Result<TokenRow, Fault> {
        may_look(caller)?;
        let unknown = || Fault::not_found("token", id);
        let known = id.parse::<TokenId>().map_err(|_| unknown())?;
        let row = self.store.token(caller.tenant, known).await?.ok_or_else(unknown)?;
        if self.sees_token(caller, &row).await? { Ok(row) } else { Err(unknown()) }
    }

    async fn sees_token(&self, caller: &Caller, row: &TokenRow) -> Result<bool, Fault> {
        if let Some(held) = &caller.token {
            return Ok(row.chain.contains(&held.id));
        }
        let own = row.principal == caller.principal;
        if caller.agent.is_some() {
            return Ok(own && row.agent == caller.agent);
        }
        if own || caller.may(&Permission::KEYS_ALL) {
            return Ok(true);
        }
        let snapshot = self.registry.snapshot();
        let agent = row.agent.and_then(|id| snapshot.tenant(caller.tenant).ok()?.agents.get(&id));
        match agent {
            Some(agent) => self.registry.may_manage(caller, agent).await,
            None => Ok(false),
        }
    }

    /// Which tokens a list shows: one's own, all with `keys.all`, those of an agent that one manages; of a token, itself
    /// and those below it.
    pub async fn token_filter(&self, caller: &Caller, agent: Option<&str>) -> Result<TokenFilter, Fault> {
        may_look(caller)?;
        let mut filter = TokenFilter { agent: self.agent_of_token(caller, agent).await?, ..TokenFilter::default() };
        if let Some(held) = &caller.token {
            filter.under = Some(held.id);
        } else if agent.is_none() && !caller.may(&Permission::KEYS_ALL) || caller.agent.is_some() {
            filter.principal = Some(caller.principal);
        }
        Ok(filter)
    }

    /// Revokes a token and what is below it, at once on every replica.
    pub async fn revoke_token(&self, caller: &Caller, id: &str) -> Result<TokenRow, Fault> {
        let row = self.readable_token(caller, id).await?;
        let now = self.clock.now();
        let by = caller.principal.to_string();
        let mut change = Change::new(caller.tenant);
        change.revoke_token(row.id, &by, now);
        change.audit(&self.token_entry(caller, "token.revoke", &row.id.to_string(), json!({"agent": row.agent})));
        self.store.commit(change).await?;
        Ok(self.store.token(caller.tenant, row.id).await?.unwrap_or(row))
    }

    /// Revokes every token of an agent that the caller manages or is; tells how many.
    pub async fn revoke_tokens_of_agent(&self, caller: &Caller, agent: &str) -> Result<u64, Fault> {
        may_look(caller)?;
        let unknown = || Fault::not_found("agent", agent).at("/agent");
        // A token takes back what was made of it, not what others made.
        if caller.token.is_some() {
            return Err(unknown());
        }
        let id = self.agent_of_token(caller, Some(agent)).await?.ok_or_else(unknown)?;
        let mut change = Change::new(caller.tenant);
        change.revoke_tokens_of_agent(id, &caller.principal.to_string(), self.clock.now());
        change.audit(&self.token_entry(caller, "token.revoke_of_agent", &id.to_string(), json!({})));
        let outcome = self.store.commit(change).await?;
        Ok(outcome.changed.first().copied().unwrap_or_default())
    }

    fn token_entry(&self, caller: &Caller, action: &str, object: &str, details: Value) -> Entry {
        let mut details = crate::entry::members(details);
        details.retain(|_, value| !value.is_null());
        Entry {
            id: Id::new(&self.clock, &self.rng),
            at: self.clock.now(),
            tenant: caller.tenant,
            actor: caller.principal.to_string(),
            action: action.to_owned(),
            object: object.to_owned(),
            details,
        }
    }

    /// The refusal of a change in whose way a token stood: one of the chain is revoked, or has made its calls.
    pub(crate) async fn token_error(&self, prepared: &Prepared, error: &Error) -> Result<Option<ToolError>, Fault> {
        let ours = matches!(error, Error::Unmet(fault) if fault.broken_rule() == Some(REFUSED));
        let Some(token) = prepared.token.as_ref().filter(|_| ours) else { return Ok(None) };
        let chain: Vec<TokenId> = token.chain.iter().map(|token| token.id).collect();
        let rows = self.store.tokens_of_chain(prepared.call.tenant, &chain).await?;
        let works = |id: &TokenId| rows.iter().any(|row| row.id == *id && row.revoked_at.is_none());
        if !chain.iter().all(works) {
            let message = "the token, or one that it was made of, was revoked; ask for a new one";
            return Ok(Some(ToolError::because(ErrorCode::AuthRequired, "token_revoked", message)));
        }
        // Read after the refusal: of those that are counted, the one with the least left is the one that is used up.
        let counted = rows.iter().filter_map(|row| Some((row, row.calls_max?)));
        let full = counted.min_by_key(|(row, most)| most.saturating_sub(row.calls_used));
        let (id, most) = full.map_or((token.id, 0), |(row, most)| (row.id, most));
        let message = format!("`max_calls` of token {id} is {most}, and they were made; ask for a new token");
        Ok(Some(ToolError::because(ErrorCode::PolicyDenied, "max_calls", message).with("max_calls", most)))
    }
}

fn may_look(caller: &Caller) -> Result<(), Fault> {
    if caller.may(&Permission::KEYS_ALL) { Ok(()) } else { caller.require(&Permission::TOKENS_MINT) }
}

/// A tool of the view, by a name that policies and scopes know it by.
fn has(view: &View<'_>, registry: &TenantRegistry, name: &ToolName) -> Result<ResolvedTool, Fault> {
    let unknown = || Fault::not_found("tool", name);
    let reference = ToolRef { name: name.clone(), version: None };
    let tool = registry.resolve(&reference, view.today).ok_or_else(unknown)?;
    if !view.sees(&tool) {
        // Whoever has the tool themselves may know that their agent has not.
        let own = View { agent: None, ..*view };
        let Some(agent) = view.agent.filter(|_| own.sees(&tool)) else { return Err(unknown()) };
        let told = format!("the agent `{}` does not have the tool `{}`", agent.spec.name, tool.name);
        let assign = format!("toolgate tool assign --tool {} --agent {}", tool.name, agent.spec.name);
        let remedy = format!("assign it with `{assign}`, or leave it out of the token");
        return Err(Fault::new(FaultKind::Forbidden, told, remedy));
    }
    if tool.alias.is_some() {
        let told = format!("`{name}` is an old name of `{}`", tool.name);
        return Err(Fault::invalid(told, format!("write `{}`", tool.name)));
    }
    Ok(tool)
}

/// Of which tools a constraint that names none is.
#[derive(Clone, Copy)]
pub(crate) enum Unnamed {
    OfThese,
    OfAny,
}

/// Refuses constraints on arguments that these tools, in none of their versions, have.
pub(crate) fn check_arguments(
    registry: &TenantRegistry,
    tools: &[ResolvedTool],
    constraints: &Constraints,
    unnamed: Unnamed,
) -> Result<(), Fault> {
    let known = |tool: &ResolvedTool| {
        let names = [tool.tool.name.folded(), tool.name.folded()];
        let found = registry.tool_by_id(tool.tool.id);
        let versions = found.map(|found| found.tool.versions.clone()).unwrap_or_default();
        (tool.name.clone(), names, versions)
    };
    let known: Vec<_> = tools.iter().map(known).collect();
    let borrowed: Vec<_> = known
        .iter()
        .map(|(name, names, versions)| {
            let schemas: Vec<&Value> = versions.iter().map(|version| &version.definition.input_schema).collect();
            (name.as_str(), names.each_ref(), schemas)
        })
        .collect();
    let all: Vec<Arguments<'_>> =
        borrowed.iter().map(|(tool, names, schemas)| Arguments { tool, names, schemas }).collect();
    all.iter().try_for_each(|arguments| constraints.check_named(arguments))?;
    match unnamed {
        Unnamed::OfThese => constraints.check_unnamed(&all),
        Unnamed::OfAny => Ok(()),
    }
}

/// What a token says, from its row.
pub fn claims_of(row: &TokenRow) -> Result<Claims, Fault> {
    strict::decode(row.claims.clone())
        .map_err(|error| Fault::internal(format!("the claims of token {} cannot be read: {}", row.id, error.message)))
}

/// Unknown, revoked, of another tenant, or minted before a restore: one answer.
fn revoked() -> Fault {
    token::TokenError::Epoch.fault()
}

/// By which a change says that a token stood in its way.
pub(crate) fn token_refused() -> Fault {
    Fault::conflict("the token was revoked or is used up", "ask for a new one").by_rule(REFUSED)
}

/// A token that was made for one run is good for it and for what its calls open below it, and for no other.
pub(crate) fn other_run(token: &HeldToken, run: Option<RunId>, above: &[Run]) -> Option<ToolError> {
    let own = token.run.filter(|own| run != Some(*own) && above.iter().all(|run| run.id != *own))?;
    let message = format!("the token is for calls of run {own} and no other");
    Some(ToolError::because(ErrorCode::PolicyDenied, "scope", message).with("run_id", own.to_string()))
}
