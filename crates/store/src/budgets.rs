//! Budgets: reserved before, settled after, exactly, whatever replica asks.
//!
//! A reservation is one conditional statement per scope, all in the change that begins the call: either every scope has
//! room and the call begins, or nothing happened.

use serde::{Deserialize, Serialize};
use toolgate_contracts::{Amount, Fault, TenantId};

use crate::Store;
use crate::change::{Change, Expect};
use crate::error::Error;
use crate::scope::Scope;

/// What a call holds of one budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub scope: String,
    pub micros: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    pub reserved: Amount,
    pub spent: Amount,
}

impl Change {
    /// Takes `held` from its scope if the scope's sum stays within `limit`; otherwise the whole change is undone and
    /// its caller gets `full`.
    pub fn reserve(&mut self, held: &Held, limit: Amount, full: Fault) -> &mut Self {
        self.expecting(
            Expect::Rows(1, full),
            "INSERT INTO budgets (tenant_id, scope, reserved, spent)
             SELECT $1, $2, CAST($3 AS bigint), 0 WHERE CAST($3 AS bigint) <= CAST($4 AS bigint)
             ON CONFLICT (tenant_id, scope) DO UPDATE SET reserved = budgets.reserved + CAST($3 AS bigint)
             WHERE budgets.reserved + budgets.spent + CAST($3 AS bigint) <= CAST($4 AS bigint)",
            [held.scope.as_str().into(), held.micros.into(), limit.micros().into()],
        )
    }

    /// Gives back what was held and counts what was spent.
    pub fn settle(&mut self, held: &Held, spent: Amount) -> &mut Self {
        let lost = Fault::internal(format!("the budget `{}` does not hold what a call reserved", held.scope));
        self.expecting(
            Expect::Rows(1, lost),
            "UPDATE budgets SET reserved = reserved - CAST($3 AS bigint), spent = spent + CAST($4 AS bigint)
             WHERE tenant_id = $1 AND scope = $2",
            [held.scope.as_str().into(), held.micros.into(), spent.micros().into()],
        )
    }
}

impl Store {
    pub async fn balance(&self, tenant: TenantId, scope: &str) -> Result<Balance, Error> {
        let sql = "SELECT reserved, spent FROM budgets WHERE tenant_id = $1 AND scope = $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![scope.into()]).await?;
        let Some(row) = rows.first() else { return Ok(Balance::default()) };
        Ok(Balance { reserved: Amount::from_micros(row.get(0)?), spent: Amount::from_micros(row.get(1)?) })
    }
}
