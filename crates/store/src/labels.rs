//! What runs and callers have seen. Labels are bits here, so that two who join at the same time lose nothing.

use serde_json::Value as Json;
use toolgate_contracts::definition::Label;
use toolgate_contracts::{RunId, TenantId, Timestamp};

use crate::change::{Change, Durability};
use crate::error::Error;
use crate::scope::Scope;
use crate::{Store, Value};

const fn bit(label: Label) -> i64 {
    match label {
        Label::Untrusted => 1,
        Label::Private => 2,
        Label::Sensitive => 4,
    }
}

pub(crate) fn bits(labels: &[Label]) -> i64 {
    labels.iter().fold(0, |bits, label| bits | bit(*label))
}

pub(crate) fn of_bits(bits: i64) -> Vec<Label> {
    Label::ALL.iter().copied().filter(|label| bits & bit(*label) != 0).collect()
}

/// What a caller without runs has seen, over calls.
#[derive(Clone, Debug)]
pub struct LabelContext {
    pub labels: Vec<Label>,
    pub origins: Json,
    pub expires_at: Timestamp,
}

impl Change {
    pub fn join_run_labels(&mut self, run: RunId, labels: &[Label], origins: &Json) -> &mut Self {
        self.then(
            "UPDATE runs SET labels = labels | $3, origins = $4 WHERE tenant_id = $1 AND id = $2",
            [run.into(), bits(labels).into(), origins.to_string().into()],
        )
    }

    /// Joins what a caller has seen; what is too old is forgotten first.
    pub fn join_context(&mut self, context: &str, seen: &LabelContext, now: Timestamp) -> &mut Self {
        let LabelContext { labels, origins, expires_at } = seen;
        let values: [Value; 5] =
            [context.into(), bits(labels).into(), origins.to_string().into(), (*expires_at).into(), now.into()];
        self.touches_contexts = true;
        self.then(
            "INSERT INTO label_contexts (tenant_id, context, labels, origins, expires_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (tenant_id, context) DO UPDATE SET origins = excluded.origins, expires_at = excluded.expires_at,
                labels = CASE WHEN label_contexts.expires_at <= $6 THEN excluded.labels
                    ELSE label_contexts.labels | excluded.labels END",
            values,
        )
    }

    pub fn reset_context(&mut self, context: &str) -> &mut Self {
        self.touches_contexts = true;
        self.then("DELETE FROM label_contexts WHERE tenant_id = $1 AND context = $2", [context.into()])
    }
}

impl Store {
    pub async fn label_context(
        &self,
        tenant: TenantId,
        context: &str,
        now: Timestamp,
    ) -> Result<Option<LabelContext>, Error> {
        let sql = "SELECT labels, origins, expires_at FROM label_contexts
            WHERE tenant_id = $1 AND context = $2 AND expires_at > $3";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![context.into(), now.into()]).await?;
        rows.first()
            .map(|row| {
                Ok(LabelContext { labels: of_bits(row.get(0)?), origins: row.json(1)?, expires_at: row.get(2)? })
            })
            .transpose()
    }

    /// All that is remembered of a tenant's callers.
    pub async fn label_contexts(&self, tenant: TenantId, now: Timestamp) -> Result<Vec<(String, LabelContext)>, Error> {
        let sql = "SELECT context, labels, origins, expires_at FROM label_contexts
            WHERE tenant_id = $1 AND expires_at > $2 ORDER BY context LIMIT 1000";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![now.into()]).await?;
        rows.iter()
            .map(|row| {
                let seen =
                    LabelContext { labels: of_bits(row.get(1)?), origins: row.json(2)?, expires_at: row.get(3)? };
                Ok((row.get(0)?, seen))
            })
            .collect()
    }

    /// Forgets what is too old, of every tenant.
    pub async fn forget_contexts(&self, now: Timestamp) -> Result<(), Error> {
        let sql = "SELECT DISTINCT tenant_id FROM label_contexts WHERE expires_at <= $1 LIMIT 100";
        let rows = self.query(&Scope::Everyone("what has expired, whoever's"), sql, vec![now.into()]).await?;
        for row in &rows {
            let mut change = Change::new(row.get(0)?).durability(Durability::Process);
            change.then("DELETE FROM label_contexts WHERE tenant_id = $1 AND expires_at <= $2", [now.into()]);
            change.touches_contexts = true;
            self.commit(change).await?;
        }
        Ok(())
    }
}
