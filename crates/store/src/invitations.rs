//! Invitations, by which new users come in: what each will have, and what became of it.
//!
//! INVARIANT: the token is kept as a hash, and is good once.

use serde::{Deserialize, Serialize};
use toolgate_contracts::{
    Digest, Fault, FaultKind, InvitationId, Permissions, Principal, Role, Slug, TenantId, Timestamp,
};
use utoipa::ToSchema;

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::value::json_text;
use crate::{Row, Store};

/// What a new user will have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvitedRights {
    pub roles: Vec<Role>,
    pub permissions: Permissions,
    pub workspaces: Vec<Slug>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum InvitationState {
    Open,
    Accepted,
    Revoked,
    Expired,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invitation {
    pub id: InvitationId,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    pub roles: Vec<Role>,
    pub permissions: Permissions,
    pub workspaces: Vec<Slug>,
    /// Whoever invites, by name.
    pub invited_by: String,
    /// Whether the link went by mail; otherwise whoever made it was shown it.
    pub mailed: bool,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub state: InvitationState,
}

/// What is behind a link: the invitation, its tenant, and who vouches for it. Who that is is told to nobody.
#[derive(Clone, Debug)]
pub struct Linked {
    pub tenant: TenantId,
    pub inviter: Principal,
    pub invitation: Invitation,
}

impl Change {
    pub fn insert_invitation(&mut self, invitation: &Invitation, inviter: Principal, token_hash: Digest) -> &mut Self {
        let Invitation {
            id,
            name,
            email,
            roles,
            permissions,
            workspaces,
            invited_by,
            mailed,
            created_at,
            expires_at,
            state: _,
        } = invitation;
        let rights =
            InvitedRights { roles: roles.clone(), permissions: permissions.clone(), workspaces: workspaces.clone() };
        self.then(
            "INSERT INTO invitations (tenant_id, id, token_hash, name, email, rights, invited_by, inviter, mailed, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            [
                (*id).into(),
                token_hash.into(),
                name.into(),
                email.clone().into(),
                json_text(&rights),
                invited_by.into(),
                inviter.to_string().into(),
                (*mailed).into(),
                (*created_at).into(),
                (*expires_at).into(),
            ],
        )
    }

    /// A new link for an invitation that is still open or ran out; the one before stops. Whoever sends it vouches for it.
    pub fn renew_invitation(&mut self, invitation: &Invitation, inviter: Principal, token_hash: Digest) -> &mut Self {
        let Invitation { id, invited_by, mailed, expires_at, .. } = invitation;
        self.expecting(
            Expect::Rows(1, closed()),
            "UPDATE invitations SET token_hash = $3, invited_by = $4, inviter = $5, mailed = $6, expires_at = $7
             WHERE tenant_id = $1 AND id = $2 AND accepted_at IS NULL AND revoked_at IS NULL",
            [
                (*id).into(),
                token_hash.into(),
                invited_by.into(),
                inviter.to_string().into(),
                (*mailed).into(),
                (*expires_at).into(),
            ],
        )
    }

    pub fn revoke_invitation(&mut self, invitation: InvitationId, at: Timestamp) -> &mut Self {
        self.expecting(
            Expect::Rows(1, closed()),
            "UPDATE invitations SET revoked_at = $3 WHERE tenant_id = $1 AND id = $2 AND accepted_at IS NULL AND revoked_at IS NULL",
            [invitation.into(), at.into()],
        )
    }

    /// Spends an invitation; the user is made in the same change.
    pub fn accept_invitation(&mut self, token_hash: Digest, at: Timestamp) -> &mut Self {
        self.expecting(
            Expect::Rows(1, no_invitation()),
            "UPDATE invitations SET accepted_at = $3
             WHERE tenant_id = $1 AND token_hash = $2 AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > $3",
            [token_hash.into(), at.into()],
        )
    }

    /// Of a database that was restored: what was accepted or withdrawn since must not be open again.
    pub(crate) fn revoke_all_invitations(&mut self, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE invitations SET revoked_at = $2 WHERE tenant_id = $1 AND accepted_at IS NULL AND revoked_at IS NULL",
            [at.into()],
        )
    }
}

fn closed() -> Fault {
    Fault::conflict(
        "the invitation was accepted or revoked already",
        "make a new one with `toolgate invitation create`",
    )
}

/// What whoever shows a link is told that is not good, whatever the reason.
pub fn no_invitation() -> Fault {
    Fault::new(
        FaultKind::Unauthenticated,
        "this invitation is not, or no longer, valid",
        "ask an administrator of the tenant for a new invitation; one works once, within seven days",
    )
}

const INVITATIONS: &str = "SELECT i.id, i.name, i.email, i.rights, i.invited_by, i.mailed, i.created_at, i.expires_at, i.accepted_at, i.revoked_at
     FROM invitations i";

fn invitation(row: &Row, now: Timestamp) -> Result<Invitation, Error> {
    let InvitedRights { roles, permissions, workspaces } = row.json(3)?;
    let expires_at: Timestamp = row.get(7)?;
    let (accepted, revoked): (Option<i64>, Option<i64>) = (row.get(8)?, row.get(9)?);
    let state = match (accepted, revoked) {
        (Some(_), _) => InvitationState::Accepted,
        (None, Some(_)) => InvitationState::Revoked,
        (None, None) if expires_at <= now => InvitationState::Expired,
        (None, None) => InvitationState::Open,
    };
    Ok(Invitation {
        id: row.get(0)?,
        name: row.get(1)?,
        email: row.get(2)?,
        roles,
        permissions,
        workspaces,
        invited_by: row.get(4)?,
        mailed: row.get(5)?,
        created_at: row.get(6)?,
        expires_at,
        state,
    })
}

impl Store {
    pub async fn invitations(
        &self,
        tenant: TenantId,
        before: Option<InvitationId>,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Invitation>, Error> {
        let sql = format!("{INVITATIONS} WHERE i.tenant_id = $1 AND (i.id < $2 OR $3) ORDER BY i.id DESC LIMIT $4");
        let values = vec![before.into(), before.is_none().into(), limit.into()];
        let rows = self.query(&Scope::Tenant(tenant), &sql, values).await?;
        rows.iter().map(|row| invitation(row, now)).collect()
    }

    pub async fn invitation(
        &self,
        tenant: TenantId,
        id: InvitationId,
        now: Timestamp,
    ) -> Result<Option<Invitation>, Error> {
        let sql = format!("{INVITATIONS} WHERE i.tenant_id = $1 AND i.id = $2");
        let rows = self.query(&Scope::Tenant(tenant), &sql, vec![id.into()]).await?;
        rows.first().map(|row| invitation(row, now)).transpose()
    }

    /// The invitation behind a link.
    pub async fn invitation_by_token(&self, token_hash: Digest, now: Timestamp) -> Result<Option<Linked>, Error> {
        let sql = "SELECT tenant_id, id, inviter FROM invitations WHERE token_hash = $1";
        let rows = self
            .query(&Scope::Everyone("a link is looked up before its tenant is known"), sql, vec![token_hash.into()])
            .await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (tenant, inviter): (TenantId, Principal) = (row.get(0)?, row.parse(2)?);
        let invitation = self.invitation(tenant, row.get(1)?, now).await?;
        Ok(invitation.map(|invitation| Linked { tenant, inviter, invitation }))
    }
}
