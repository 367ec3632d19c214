//! The nodes of a tenant's tree: read where they are kept, computed where they are not.
//!
//! Of every 256 nodes only what they join to is kept, eight levels higher: one row for 256 leaves, and their digests are
//! in the leaves themselves. A proof reads one such tile for every eight levels.

use std::collections::HashMap;

use toolgate_contracts::{Digest, TenantId};
use toolgate_ledger::Place;
use toolgate_ledger::tree::node_hash;

use super::sequence::column;
use crate::Store;
use crate::error::Error;
use crate::scope::Scope;

/// Nodes are kept at every level that is a multiple of this.
pub(super) const TILE_LEVELS: u8 = 8;
const TILE_NODES: u64 = 1 << TILE_LEVELS;

/// A run of kept nodes below one that is kept too, or of leaves.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Tile {
    level: u8,
    number: u64,
}

impl Store {
    /// The hashes of complete subtrees, as many of them as there are. They are right for a tree of at least `size`.
    pub async fn audit_nodes(
        &self,
        tenant: TenantId,
        places: impl IntoIterator<Item = Place>,
    ) -> Result<HashMap<Place, Digest>, Error> {
        let mut tiles: HashMap<Tile, Vec<Digest>> = HashMap::new();
        let mut found = HashMap::new();
        for place in places {
            let height = place.level % TILE_LEVELS;
            let level = place.level - height;
            let Some(first) = place.position.checked_mul(1 << height) else { continue };
            let tile = Tile { level, number: first / TILE_NODES };
            let nodes = match tiles.entry(tile) {
                std::collections::hash_map::Entry::Occupied(read) => read.into_mut(),
                std::collections::hash_map::Entry::Vacant(unread) => {
                    unread.insert(self.audit_tile(tenant, tile).await?)
                }
            };
            let begin = usize::try_from(first % TILE_NODES).unwrap_or(usize::MAX);
            if let Some(below) = nodes.get(begin..begin.saturating_add(1 << height)) {
                found.extend(joined(below).map(|hash| (place, hash)));
            }
        }
        Ok(found)
    }

    async fn audit_tile(&self, tenant: TenantId, tile: Tile) -> Result<Vec<Digest>, Error> {
        let Tile { level, number } = tile;
        let first = number * TILE_NODES;
        let scope = Scope::Tenant(tenant);
        let (begin, end) = (column(first)?.into(), column(first + TILE_NODES)?.into());
        let rows = if level == 0 {
            // A lookup for each row: as a join, a planner without statistics reads all leaves there are.
            let sql = "SELECT s.leaf_index, (SELECT l.digest FROM audit_leaves l
                    WHERE l.tenant_id = s.tenant_id AND l.id = s.leaf_id) FROM audit_sequence s
                WHERE s.tenant_id = $1 AND s.leaf_index >= $2 AND s.leaf_index < $3 ORDER BY s.leaf_index";
            self.query(&scope, sql, vec![begin, end]).await?
        } else {
            let sql = "SELECT position, hash FROM audit_nodes
                WHERE tenant_id = $1 AND position >= $2 AND position < $3 AND level = $4 ORDER BY position";
            self.query(&scope, sql, vec![begin, end, i64::from(level).into()]).await?
        };
        let mut nodes = Vec::with_capacity(rows.len());
        for row in &rows {
            // Behind a gap nothing is where it should be.
            let in_place = self::number(row.get(0)?)? == first + nodes.len() as u64;
            match row.get::<Option<Digest>>(1)? {
                Some(hash) if in_place => nodes.push(hash),
                _ => break,
            }
        }
        Ok(nodes)
    }
}

/// The root over as many nodes as a power of two.
fn joined(nodes: &[Digest]) -> Option<Digest> {
    let mut level = nodes.to_vec();
    while level.len() > 1 {
        level = level.chunks_exact(2).map(|pair| node_hash(&pair[0], &pair[1])).collect();
    }
    level.first().copied()
}

pub(super) fn number(column: i64) -> Result<u64, Error> {
    u64::try_from(column).map_err(|_| Error::Corrupt(format!("{column} is no size of a log")))
}
