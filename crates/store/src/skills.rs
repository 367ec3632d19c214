//! Skills and every text that each of them had.
//!
//! Deliberately absent: listing. What a skill says of itself is read with the catalog, so that it and the agents of a
//! snapshot are of one time; its text is looked up by its digest when somebody wants to read it.

use toolgate_contracts::{Digest, Fault, FoldedName, Skill, Slug, TenantId, Timestamp};

use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;
use crate::value::json_text;
use crate::{Row, Store};

/// A skill as it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSkill {
    pub tenant: TenantId,
    pub spec: Skill,
    /// Of its file.
    pub digest: Digest,
    pub saved_by: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// One text of a skill, without the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillVersion {
    pub digest: Digest,
    pub saved_by: String,
    pub created_at: Timestamp,
}

/// How many texts of a skill are listed; older ones are found by their digest.
const VERSIONS_LISTED_MAX: u32 = 100;

impl Change {
    /// Creates the skill of that name, or has another text hold. A text that it had before holds again.
    pub fn put_skill(&mut self, skill: &StoredSkill, source: &str) -> &mut Self {
        let StoredSkill { tenant: _, spec, digest, saved_by, created_at, updated_at } = skill;
        let name = || spec.name.as_str().into();
        self.then(
            "INSERT INTO skills (tenant_id, name, folded, digest, created_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (tenant_id, name) DO UPDATE SET digest = excluded.digest",
            [name(), FoldedName::of(spec.name.as_str()).as_str().into(), (*digest).into(), (*created_at).into()],
        );
        self.then(
            "INSERT INTO skill_versions (tenant_id, skill, digest, spec, source, saved_by, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (tenant_id, skill, digest) DO UPDATE SET saved_by = excluded.saved_by, created_at = excluded.created_at",
            [name(), (*digest).into(), json_text(spec), source.into(), saved_by.into(), (*updated_at).into()],
        )
    }

    /// With all its texts.
    pub fn delete_skill(&mut self, name: &Slug) -> &mut Self {
        self.expecting(
            Expect::Rows(1, Fault::not_found("skill", name)),
            "DELETE FROM skills WHERE tenant_id = $1 AND name = $2",
            [name.as_str().into()],
        )
    }
}

impl Store {
    /// The file that a skill was added with, by its digest.
    pub async fn skill_source(&self, tenant: TenantId, name: &Slug, digest: Digest) -> Result<Option<String>, Error> {
        let sql = "SELECT source FROM skill_versions WHERE tenant_id = $1 AND skill = $2 AND digest = $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![name.as_str().into(), digest.into()]).await?;
        rows.first().map(|row| row.get(0)).transpose()
    }

    /// The texts of a skill, the one that was saved last first.
    pub async fn skill_versions(&self, tenant: TenantId, name: &Slug) -> Result<Vec<SkillVersion>, Error> {
        let sql = "SELECT digest, saved_by, created_at FROM skill_versions WHERE tenant_id = $1 AND skill = $2
             ORDER BY created_at DESC, digest LIMIT $3";
        let parameters = vec![name.as_str().into(), VERSIONS_LISTED_MAX.into()];
        self.query(&Scope::Tenant(tenant), sql, parameters).await?.iter().map(version).collect()
    }
}

fn version(row: &Row) -> Result<SkillVersion, Error> {
    Ok(SkillVersion { digest: row.get(0)?, saved_by: row.get(1)?, created_at: row.get(2)? })
}

pub(crate) fn stored(row: &Row) -> Result<StoredSkill, Error> {
    Ok(StoredSkill {
        tenant: row.get(0)?,
        spec: row.json(1)?,
        digest: row.get(2)?,
        saved_by: row.get(3)?,
        created_at: row.get(4)?,
        updated_at: row.get(5)?,
    })
}
