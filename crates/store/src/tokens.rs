//! Capability tokens as rows: whether they still work, how often they were used, and which proofs were shown.
//!
//! What a token allows is in its signed text; the claims are kept here once more for lists and for calls that waited.
//! Invariant: use and revocation are one statement over a token and all above it, in the change that begins a call, so
//! no replica runs a call with a token that another has revoked or used up.

use std::fmt::Write as _;

use serde_json::Value as Json;
use toolgate_contracts::token::DEPTH_MAX;
use toolgate_contracts::{AgentId, Digest, Fault, KeyId, Principal, SessionId, TenantId, Timestamp, TokenId};

use crate::change::{Change, Durability, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store, Value};

/// A token and those above it.
const CHAIN_MAX: usize = DEPTH_MAX as usize + 1;
/// How long a token is kept after its time: a call that waits for a person asks for it when it runs.
const KEPT_S: i64 = 31 * 24 * 60 * 60;

#[derive(Clone, Debug, PartialEq)]
pub struct TokenRow {
    pub id: TokenId,
    pub parent: Option<TokenId>,
    /// Itself first, then its parent, up to the one without.
    pub chain: Vec<TokenId>,
    pub principal: Principal,
    pub agent: Option<AgentId>,
    /// The key that minted the first of the chain; with it goes the token.
    pub key: Option<KeyId>,
    /// The browser session that did; with it goes the token too.
    pub session: Option<SessionId>,
    /// The label context of whoever minted the first of the chain.
    pub context: String,
    pub claims: Json,
    pub calls_max: Option<u32>,
    pub calls_used: u32,
    pub expires_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
    pub revoked_by: Option<String>,
    pub created_at: Timestamp,
}

/// Whose tokens are listed. What is absent is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenFilter {
    pub principal: Option<Principal>,
    pub agent: Option<AgentId>,
    /// This one and those below it.
    pub under: Option<TokenId>,
    /// Only those that work at this moment.
    pub working_at: Option<Timestamp>,
}

/// The ids of a chain, filled up with its first: one statement for chains of every length.
fn filled(chain: &[TokenId]) -> [Value; CHAIN_MAX] {
    let first = chain.first().copied();
    std::array::from_fn(|index| chain.get(index).copied().or(first).into())
}

impl Change {
    pub fn insert_token(&mut self, token: &TokenRow) -> &mut Self {
        let TokenRow {
            id, parent, chain, principal, agent, key, session, context, claims, calls_max, expires_at, ..
        } = token;
        self.then(
            "INSERT INTO tokens (tenant_id, id, parent_id, chain, principal, agent_id, key_id, session_id, context, claims, calls_max,
                expires_at, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
            [
                (*id).into(),
                (*parent).into(),
                crate::value::json_text(chain),
                principal.to_string().into(),
                (*agent).into(),
                (*key).into(),
                (*session).into(),
                context.into(),
                crate::value::json_text(claims),
                calls_max.map(i64::from).into(),
                (*expires_at).into(),
                token.created_at.into(),
            ],
        )
    }

    /// Counts one call against a token and all above it, if none of them is revoked or used up.
    pub fn use_tokens(&mut self, chain: &[TokenId], refused: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(chain.len() as u64, refused),
            "UPDATE tokens SET calls_used = calls_used + 1
             WHERE tenant_id = $1 AND id IN ($2, $3, $4, $5, $6, $7, $8, $9, $10)
             AND revoked_at IS NULL AND (calls_max IS NULL OR calls_used < calls_max)",
            filled(chain),
        )
    }

    /// Holds on to a token and all above it while a child is made: none of them is revoked until it is there.
    pub fn hold_tokens(&mut self, chain: &[TokenId], refused: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(chain.len() as u64, refused),
            "UPDATE tokens SET calls_used = calls_used
             WHERE tenant_id = $1 AND id IN ($2, $3, $4, $5, $6, $7, $8, $9, $10) AND revoked_at IS NULL",
            filled(chain),
        )
    }

    /// Revokes a token and what is below it.
    pub fn revoke_token(&mut self, id: TokenId, by: &str, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE tokens SET revoked_at = $3, revoked_by = $4 WHERE tenant_id = $1 AND revoked_at IS NULL AND id IN (
                WITH RECURSIVE below (id) AS (
                    SELECT a.id FROM tokens a WHERE a.tenant_id = $1 AND a.id = $2
                    UNION SELECT c.id FROM tokens c JOIN below b ON c.parent_id = b.id WHERE c.tenant_id = $1)
                SELECT id FROM below)",
            [id.into(), at.into(), by.into()],
        )
    }

    pub fn revoke_tokens_of_agent(&mut self, agent: AgentId, by: &str, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE tokens SET revoked_at = $3, revoked_by = $4 WHERE tenant_id = $1 AND agent_id = $2 AND revoked_at IS NULL",
            [agent.into(), at.into(), by.into()],
        )
    }

    /// What was minted with a key goes with it.
    pub fn revoke_tokens_of_key(&mut self, key: KeyId, by: &str, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE tokens SET revoked_at = $3, revoked_by = $4 WHERE tenant_id = $1 AND key_id = $2 AND revoked_at IS NULL",
            [key.into(), at.into(), by.into()],
        )
    }

    /// What was minted in a browser session goes with it.
    pub(crate) fn revoke_tokens_of_session(&mut self, session: SessionId, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE tokens SET revoked_at = $3, revoked_by = $4 WHERE tenant_id = $1 AND session_id = $2 AND revoked_at IS NULL",
            [session.into(), at.into(), format!("session:{session}").into()],
        )
    }

    pub fn revoke_tokens_of(&mut self, principal: Principal, by: &str, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE tokens SET revoked_at = $3, revoked_by = $4 WHERE tenant_id = $1 AND principal = $2 AND revoked_at IS NULL",
            [principal.to_string().into(), at.into(), by.into()],
        )
    }

    /// All of the tenant's: what a restored database says of them may have been revoked since.
    pub fn revoke_all_tokens(&mut self, by: &str, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE tokens SET revoked_at = $2, revoked_by = $3 WHERE tenant_id = $1 AND revoked_at IS NULL",
            [at.into(), by.into()],
        )
    }
}

const TOKENS: &str = "SELECT t.id, t.parent_id, t.chain, t.principal, t.agent_id, t.key_id, t.session_id, t.context, t.claims, t.calls_max, t.calls_used,
     t.expires_at, t.revoked_at, t.revoked_by, t.created_at FROM tokens t WHERE t.tenant_id = $1";

fn token(row: &Row) -> Result<TokenRow, Error> {
    Ok(TokenRow {
        id: row.get(0)?,
        parent: row.get(1)?,
        chain: row.json(2)?,
        principal: row.parse(3)?,
        agent: row.get(4)?,
        key: row.get(5)?,
        session: row.get(6)?,
        context: row.get(7)?,
        claims: row.json(8)?,
        calls_max: row.get(9)?,
        calls_used: row.get(10)?,
        expires_at: row.get(11)?,
        revoked_at: row.get(12)?,
        revoked_by: row.get(13)?,
        created_at: row.get(14)?,
    })
}

impl Store {
    pub async fn token(&self, tenant: TenantId, id: TokenId) -> Result<Option<TokenRow>, Error> {
        let sql = format!("{TOKENS} AND t.id = $2");
        self.query(&Scope::Tenant(tenant), &sql, vec![id.into()]).await?.first().map(token).transpose()
    }

    /// Those of a chain that are there, in no order.
    pub async fn tokens_of_chain(&self, tenant: TenantId, chain: &[TokenId]) -> Result<Vec<TokenRow>, Error> {
        let sql = format!("{TOKENS} AND t.id IN ($2, $3, $4, $5, $6, $7, $8, $9, $10)");
        self.query(&Scope::Tenant(tenant), &sql, filled(chain).into()).await?.iter().map(token).collect()
    }

    /// Newest first.
    pub async fn tokens(
        &self,
        tenant: TenantId,
        filter: &TokenFilter,
        before: Option<TokenId>,
        limit: u32,
    ) -> Result<Vec<TokenRow>, Error> {
        let TokenFilter { principal, agent, under, working_at } = filter;
        let mut sql = TOKENS.to_owned();
        let mut parameters: Vec<Value> = Vec::new();
        let mut and = |condition: &str, value: Value| {
            parameters.push(value);
            let _ = write!(sql, " AND {}", condition.replace("$?", &format!("${}", parameters.len() + 1)));
        };
        if let Some(principal) = principal {
            and("t.principal = $?", principal.to_string().into());
        }
        if let Some(agent) = agent {
            and("t.agent_id = $?", (*agent).into());
        }
        if let Some(under) = under {
            and("t.chain LIKE $?", format!("%\"{under}\"%").into());
        }
        if let Some(now) = working_at {
            and("t.revoked_at IS NULL AND t.expires_at > $?", (*now).into());
        }
        if let Some(before) = before {
            and("t.id < $?", before.into());
        }
        parameters.push(limit.into());
        let _ = write!(sql, " ORDER BY t.id DESC LIMIT ${}", parameters.len() + 1);
        self.query(&Scope::Tenant(tenant), &sql, parameters).await?.iter().map(token).collect()
    }

    /// Remembers a proof of possession; `false` where it was shown before. A replay within the second that a power cut
    /// may take back would still be for the very same request.
    pub async fn spend_proof(&self, tenant: TenantId, proof: Digest, forget_after: Timestamp) -> Result<bool, Error> {
        let mut change = Change::new(tenant).durability(Durability::Process);
        change.then(
            "INSERT INTO token_proofs (tenant_id, proof, expires_at) VALUES ($1, $2, $3)
             ON CONFLICT (tenant_id, proof) DO NOTHING",
            [proof.to_string().into(), forget_after.into()],
        );
        Ok(self.commit(change).await?.changed.first() == Some(&1))
    }

    /// Forgets tokens long past their time, and proofs that could not be shown again anyway.
    pub async fn forget_tokens(&self, now: Timestamp) -> Result<(), Error> {
        let long_ago = now.plus_seconds(-KEPT_S);
        let sql = "SELECT DISTINCT tenant_id FROM tokens WHERE expires_at <= $1
             UNION SELECT DISTINCT tenant_id FROM token_proofs WHERE expires_at <= $2";
        let everyone = Scope::Everyone("what has expired, whoever's");
        for row in &self.query(&everyone, sql, vec![long_ago.into(), now.into()]).await? {
            let mut change = Change::new(row.get(0)?).durability(Durability::Process);
            change.then("DELETE FROM tokens WHERE tenant_id = $1 AND expires_at <= $2", [long_ago.into()]);
            change.then("DELETE FROM token_proofs WHERE tenant_id = $1 AND expires_at <= $2", [now.into()]);
            self.commit(change).await?;
        }
        Ok(())
    }
}
