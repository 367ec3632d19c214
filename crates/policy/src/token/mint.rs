//! Making a token's claims: a first one from what a caller is, a child from its parent. A child is never wider.

use serde::{Deserialize, Serialize};
use toolgate_contracts::{AgentId, Amount, Fault, FaultKind, Principal, RunId, TenantId, Timestamp, TokenId};
use utoipa::ToSchema;

use super::{
    Act, Claims, Confirmation, DEPTH_MAX, LIFETIME_S_DEFAULT, LIFETIME_S_MAX, SCOPES_MAX, Scope, TOKEN_BYTES_MAX,
    canonical, seconds,
};
use crate::constraint::{CONSTRAINTS_MAX, Constraints};
use crate::labels::Labels;

/// What is asked for. Absent means as wide as the parent; without a parent, as wide as the caller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MintRequest {
    /// Of a child, what its parent does not cover falls away.
    pub scope: Vec<Scope>,
    /// A child has these and its parent's.
    #[serde(default, skip_serializing_if = "Constraints::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub constraints: Constraints,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels_max: Option<Labels>,
    /// At most 900. A child ends with its parent at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_s: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run: Option<RunId>,
    /// The thumbprint (RFC 7638) of the key that whoever shows the token must prove to hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jkt: Option<String>,
}

/// Whose token it becomes, and where it counts.
#[derive(Clone, Debug)]
pub struct Root {
    pub issuer: String,
    pub audience: String,
    pub principal: Principal,
    pub agent: Option<AgentId>,
    pub tenant: TenantId,
    pub epoch: u64,
    /// When the credential that it is minted with ends.
    pub not_after: Option<Timestamp>,
}

/// The claims of a token that has no parent. Rights are not looked at: a call needs them all the same.
pub fn mint(request: &MintRequest, root: &Root, jti: TokenId, now: Timestamp) -> Result<Claims, Fault> {
    let MintRequest { scope, constraints, budget, max_calls, labels_max, expires_s, run, jkt } = request;
    let Root { issuer, audience, principal, agent, tenant, epoch, not_after } = root;
    let iat = seconds(now);
    let exp = iat + u64::from(lifetime(*expires_s)?);
    let exp = not_after.map_or(exp, |end| exp.min(seconds(end)));
    bounded(Claims {
        iss: issuer.clone(),
        aud: audience.clone(),
        sub: *principal,
        act: agent.map(|sub| Act { sub }),
        tenant: *tenant,
        run: *run,
        scope: scope.clone(),
        constraints: constraints.clone(),
        budget: *budget,
        max_calls: *max_calls,
        labels_max: *labels_max,
        iat,
        nbf: iat,
        exp,
        jti,
        parent: None,
        depth: 0,
        epoch: *epoch,
        cnf: confirmation(jkt.as_deref())?,
    })
}

/// The claims of a child. Its budget is still to be reserved from the parent's, and its calls count against both.
pub fn narrow(parent: &Claims, request: &MintRequest, jti: TokenId, now: Timestamp) -> Result<Claims, Fault> {
    let MintRequest { scope, constraints, budget, max_calls, labels_max, expires_s, run, jkt } = request;
    if parent.depth >= DEPTH_MAX {
        let told = format!("the token was narrowed {DEPTH_MAX} times already, which is the limit");
        return Err(Fault::new(FaultKind::Forbidden, told, "narrow one of the tokens before it"));
    }
    let scope = meet(&parent.scope, scope)?;
    let budget = at_most(*budget, parent.budget, "budget")?;
    let max_calls = at_most(*max_calls, parent.max_calls, "max_calls")?;
    if let (Some(of_parent), Some(asked)) = (parent.run, *run)
        && of_parent != asked
    {
        return Err(wider("run", "the token belongs to another run"));
    }
    let iat = seconds(now).max(parent.nbf);
    let exp = (iat + u64::from(lifetime(*expires_s)?)).min(parent.exp);
    let labels_max = match (parent.labels_max, *labels_max) {
        (Some(of_parent), Some(asked)) => Some(of_parent.meet(asked)),
        (of_parent, asked) => of_parent.or(asked),
    };
    bounded(Claims {
        run: parent.run.or(*run),
        scope,
        constraints: parent.constraints.and(constraints),
        budget,
        max_calls,
        labels_max,
        iat,
        nbf: iat,
        exp,
        jti,
        parent: Some(parent.jti),
        depth: parent.depth + 1,
        cnf: confirmation(jkt.as_deref())?.or_else(|| parent.cnf.clone()),
        ..parent.clone()
    })
}

fn lifetime(asked: Option<u32>) -> Result<u32, Fault> {
    match asked.unwrap_or(LIFETIME_S_DEFAULT) {
        seconds @ 1..=LIFETIME_S_MAX => Ok(seconds),
        seconds => {
            let told = format!("`expires_s` is {seconds}; a token lives 1 to {LIFETIME_S_MAX} seconds");
            Err(Fault::invalid(told, "ask for a shorter one, and again when it has ended").at("/expires_s"))
        }
    }
}

fn meet(parent: &[Scope], asked: &[Scope]) -> Result<Vec<Scope>, Fault> {
    let mut scopes: Vec<Scope> = Vec::new();
    for both in asked.iter().flat_map(|one| parent.iter().filter_map(|of_parent| of_parent.meet(one))) {
        if !scopes.contains(&both) {
            scopes.push(both);
        }
    }
    if scopes.is_empty() && !asked.is_empty() {
        return Err(wider("scope", "the token covers nothing of what is asked for"));
    }
    Ok(scopes)
}

fn at_most<T: Copy + Ord>(asked: Option<T>, of_parent: Option<T>, member: &str) -> Result<Option<T>, Fault> {
    match (asked, of_parent) {
        (Some(asked), Some(of_parent)) if asked > of_parent => {
            Err(wider(member, &format!("`{member}` is more than the token itself has")))
        }
        (asked, of_parent) => Ok(asked.or(of_parent)),
    }
}

fn wider(member: &str, told: &str) -> Fault {
    let remedy = "ask for what the token allows, or for less; nothing can widen it";
    Fault::new(FaultKind::Forbidden, told, remedy).at(format!("/{member}"))
}

fn confirmation(jkt: Option<&str>) -> Result<Option<Confirmation>, Fault> {
    let digest =
        |text: &str| data_encoding::BASE64URL_NOPAD.decode(text.as_bytes()).is_ok_and(|bytes| bytes.len() == 32);
    match jkt {
        None => Ok(None),
        Some(text) if digest(text) => Ok(Some(Confirmation { jkt: text.to_owned() })),
        Some(_) => {
            let told = "`jkt` is not the base64url form of a SHA-256 digest";
            Err(Fault::invalid(told, "send the RFC 7638 thumbprint of the public key").at("/jkt"))
        }
    }
}

/// What a verifier would refuse is not minted.
fn bounded(claims: Claims) -> Result<Claims, Fault> {
    let Claims { scope, constraints, iat, exp, .. } = &claims;
    if scope.is_empty() || scope.len() > SCOPES_MAX {
        let told = format!("`scope` has {} entries; a token has 1 to {SCOPES_MAX}", scope.len());
        return Err(Fault::invalid(told, "name the tools, or all of them with `tool:*`").at("/scope"));
    }
    if constraints.len() > CONSTRAINTS_MAX {
        let told = format!("with its parent's the token would have {} constraints", constraints.len());
        return Err(Fault::invalid(told, format!("keep to {CONSTRAINTS_MAX}")).at("/constraints"));
    }
    if exp <= iat {
        let told = "what the token would be minted with has expired";
        return Err(Fault::new(FaultKind::Unauthenticated, told, "sign in again, or use a key that is still valid"));
    }
    // Three quarters, since base64 makes four characters of three bytes, and room for header and signature.
    if canonical(&claims).len() > TOKEN_BYTES_MAX / 4 * 3 - 512 {
        let told = "the token would be larger than a header can carry";
        return Err(Fault::new(FaultKind::TooLarge, told, "ask for fewer scopes and shorter constraints"));
    }
    Ok(claims)
}
