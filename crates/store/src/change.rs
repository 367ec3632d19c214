//! One caller's atomic unit of writing: statements with what they must achieve.

use toolgate_contracts::{Fault, TenantId};

use crate::error::Error;
use crate::row::Row;
use crate::value::Value;

/// Begins a statement about a table that belongs to no tenant.
pub(crate) const NO_TENANT: &str = "/* no tenant:";

/// How far a change must have travelled before its caller is answered (`contracts.md` §14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Survives `kill -9` when answered, reaches the disk within a second: effect-free calls.
    Process,
    /// On the disk before it is answered: whatever has an effect or decides something.
    #[default]
    Disk,
}

/// What a statement must have done; otherwise the whole change is undone and its caller gets the fault.
pub enum Expect {
    Anything,
    /// At least one row was inserted, updated or deleted.
    Some(Fault),
    /// Exactly this many rows.
    Rows(u64, Fault),
}

impl Expect {
    /// The error of a statement that changed `rows`, if that is not what was expected.
    pub(crate) fn unmet(&self, rows: u64) -> Option<Error> {
        match self {
            Self::Some(fault) if rows == 0 => Some(Error::Unmet(fault.clone())),
            Self::Rows(expected, fault) if rows != *expected => Some(Error::Unmet(fault.clone())),
            Self::Anything | Self::Some(_) | Self::Rows(..) => None,
        }
    }
}

pub(crate) struct Statement {
    pub sql: &'static str,
    pub parameters: Vec<Value>,
    pub expect: Expect,
}

/// INVARIANT: every statement of a change is of one tenant, bound as `$1` of each. A change that took in another by
/// [`Change::together_with`] has the statements of both, each still bound to its own tenant.
pub struct Change {
    pub(crate) tenant: TenantId,
    /// Whose statements were taken in.
    pub(crate) others: Vec<TenantId>,
    pub(crate) durability: Durability,
    pub(crate) statements: Vec<Statement>,
    /// Whether it changes what callers have seen.
    pub(crate) touches_contexts: bool,
}

/// What each statement of a change returned, in order (`RETURNING` rows, and how many rows changed).
#[derive(Debug, Default)]
pub struct Outcome {
    pub changed: Vec<u64>,
    pub returned: Vec<Vec<Row>>,
}

impl Change {
    pub fn new(tenant: TenantId) -> Self {
        Self {
            tenant,
            others: Vec::new(),
            durability: Durability::Disk,
            statements: Vec::new(),
            touches_contexts: false,
        }
    }

    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Adds a statement; `$1` is the tenant, `parameters` begin at `$2`. A statement that begins with
    /// `/* no tenant: reason */` is about a table without tenants, and its parameters begin at `$1`.
    pub fn then<const N: usize>(&mut self, sql: &'static str, parameters: [Value; N]) -> &mut Self {
        self.expecting(Expect::Anything, sql, parameters)
    }

    pub fn expecting<const N: usize>(
        &mut self,
        expect: Expect,
        sql: &'static str,
        parameters: [Value; N],
    ) -> &mut Self {
        let tenant = (!sql.starts_with(NO_TENANT)).then(|| self.tenant.into());
        let parameters = tenant.into_iter().chain(parameters).collect();
        self.statements.push(Statement { sql, parameters, expect });
        self
    }

    /// Both or neither: for a person who leaves one tenant for another.
    pub fn together_with(&mut self, other: Self) -> &mut Self {
        let Self { tenant, others, durability, statements, touches_contexts } = other;
        self.others.push(tenant);
        self.others.extend(others);
        self.durability = self.durability.max(durability);
        self.statements.extend(statements);
        self.touches_contexts |= touches_contexts;
        self
    }

    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }
}
