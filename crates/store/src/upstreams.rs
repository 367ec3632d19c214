//! Servers of others, what reading them brought, and what they offer that nobody has accepted yet.
//!
//! Deliberately absent: listing the servers. They are read with the catalog, so that they and the tools of a snapshot are
//! of one time; what was read of them changes far more often and is looked up.

use serde_json::Value as Json;
use toolgate_contracts::{Definition, Digest, DriftClass, Fault, Slug, TenantId, Timestamp, Upstream};

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::value::json_text;
use crate::{Row, Store};

#[derive(Clone, Debug, PartialEq)]
pub struct StoredUpstream {
    pub tenant: TenantId,
    pub spec: Upstream,
    /// Where it was, and how it was started, when that was accepted.
    pub place: Digest,
    pub saved_by: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What a server offers in place of what was accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The server's own name of the tool.
    pub tool: String,
    pub definition: Definition,
    /// Of the tool as the server describes it now.
    pub digest: Digest,
    pub class: DriftClass,
    /// The tool that is gone and seems to have this name now.
    pub replaces: Option<String>,
    pub seen_at: Timestamp,
    /// Who said no to exactly this, and when.
    pub refused: Option<(String, Timestamp)>,
}

/// That somebody said no to exactly this.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub tenant: TenantId,
    pub upstream: Slug,
    /// The server's own name of the tool.
    pub tool: String,
    pub digest: Digest,
}

impl Change {
    /// Creates the server of that name, or replaces how it is reached; where it was accepted stays.
    pub fn put_upstream(&mut self, upstream: &StoredUpstream) -> &mut Self {
        let StoredUpstream { tenant: _, spec, place, saved_by, created_at, updated_at } = upstream;
        self.then(
            "INSERT INTO upstreams (tenant_id, name, folded, spec, place, saved_by, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (tenant_id, name) DO UPDATE SET spec = excluded.spec, saved_by = excluded.saved_by,
                updated_at = excluded.updated_at",
            [
                spec.name.as_str().into(),
                spec.folded().as_str().into(),
                json_text(spec),
                (*place).into(),
                saved_by.into(),
                (*created_at).into(),
                (*updated_at).into(),
            ],
        )
    }

    /// Somebody looked at where it is now.
    pub fn accept_place(&mut self, upstream: &Slug, place: Digest) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("upstream", upstream)),
            "UPDATE upstreams SET place = $3 WHERE tenant_id = $1 AND name = $2",
            [upstream.as_str().into(), place.into()],
        )
    }

    pub fn delete_upstream(&mut self, upstream: &Slug) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("upstream", upstream)),
            "DELETE FROM upstreams WHERE tenant_id = $1 AND name = $2",
            [upstream.as_str().into()],
        )
    }

    /// Keeps what reading it brought. It may have been removed meanwhile.
    pub fn keep_reading(&mut self, upstream: &Slug, reading: &Json, at: Timestamp) -> &mut Self {
        self.then(
            "UPDATE upstreams SET reading = $3, read_at = $4 WHERE tenant_id = $1 AND name = $2",
            [upstream.as_str().into(), reading.to_string().into(), at.into()],
        )
    }

    /// Keeps an offer. That it was refused goes on only where it is the very same.
    pub fn put_offer(&mut self, upstream: &Slug, offer: &Offer) -> &mut Self {
        let Offer { tool, definition, digest, class, replaces, seen_at, refused: _ } = offer;
        self.then(
            "INSERT INTO upstream_offers (tenant_id, upstream, tool, definition, digest, class, replaces, seen_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (tenant_id, upstream, tool) DO UPDATE SET definition = excluded.definition,
                digest = excluded.digest, class = excluded.class, replaces = excluded.replaces, seen_at = excluded.seen_at,
                refused_by = CASE WHEN upstream_offers.digest = excluded.digest THEN upstream_offers.refused_by END,
                refused_at = CASE WHEN upstream_offers.digest = excluded.digest THEN upstream_offers.refused_at END",
            [
                upstream.as_str().into(),
                tool.into(),
                json_text(definition),
                (*digest).into(),
                class.as_str().into(),
                replaces.clone().into(),
                (*seen_at).into(),
            ],
        )
    }

    /// Says no to exactly this.
    pub fn refuse_offer(&mut self, upstream: &Slug, offer: &Offer, by: &str, at: Timestamp) -> &mut Self {
        let changed = Fault::conflict(
            format!("the server `{upstream}` offers something else by now"),
            "look at it again with `toolgate upstream show`",
        );
        self.expecting(
            Expect::Rows(1, changed),
            "UPDATE upstream_offers SET refused_by = $5, refused_at = $6
             WHERE tenant_id = $1 AND upstream = $2 AND tool = $3 AND digest = $4",
            [upstream.as_str().into(), offer.tool.as_str().into(), offer.digest.into(), by.into(), at.into()],
        )
    }

    pub fn delete_offer(&mut self, upstream: &Slug, tool: &str) -> &mut Self {
        self.then(
            "DELETE FROM upstream_offers WHERE tenant_id = $1 AND upstream = $2 AND tool = $3",
            [upstream.as_str().into(), tool.into()],
        )
    }
}

impl Store {
    /// What a server offers and nobody has accepted, what was refused included, by the server's names.
    pub async fn offers(&self, tenant: TenantId, upstream: &Slug) -> Result<Vec<Offer>, Error> {
        let sql = "SELECT tool, definition, digest, class, replaces, seen_at, refused_by, refused_at
             FROM upstream_offers
             WHERE tenant_id = $1 AND upstream = $2 ORDER BY tool";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![upstream.as_str().into()]).await?;
        rows.iter().map(offer).collect()
    }

    /// What came of reading a server the last time, and when.
    pub async fn reading(&self, tenant: TenantId, upstream: &Slug) -> Result<Option<(Json, Timestamp)>, Error> {
        let sql = "SELECT reading, read_at FROM upstreams WHERE tenant_id = $1 AND name = $2 AND reading IS NOT NULL";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![upstream.as_str().into()]).await?;
        rows.first().map(|row| Ok((row.json(0)?, row.get(1)?))).transpose()
    }
}

fn offer(row: &Row) -> Result<Offer, Error> {
    Ok(Offer {
        tool: row.get(0)?,
        definition: row.json(1)?,
        digest: row.get(2)?,
        class: row.parse(3)?,
        replaces: row.get(4)?,
        seen_at: row.get(5)?,
        refused: row.get::<Option<String>>(6)?.zip(row.get(7)?),
    })
}

pub(crate) fn stored(row: &Row) -> Result<StoredUpstream, Error> {
    Ok(StoredUpstream {
        tenant: row.get(0)?,
        spec: row.json(1)?,
        place: row.get(2)?,
        saved_by: row.get(3)?,
        created_at: row.get(4)?,
        updated_at: row.get(5)?,
    })
}

pub(crate) fn refusal(row: &Row) -> Result<Refusal, Error> {
    Ok(Refusal { tenant: row.get(0)?, upstream: row.parse(1)?, tool: row.get(2)?, digest: row.get(3)? })
}
