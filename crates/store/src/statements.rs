//! Every distinct text of SQL is read once: rewritten for SQLite, and judged for its tenant.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use toolgate_contracts::Fault;

use crate::error::Error;
use crate::value::Value;
use crate::{guard, sql};

/// Texts remembered. They are written in the code, or built from a few filters, so this is far away; past it all are
/// forgotten and read again as they come.
const TEXTS_MAX: usize = 4096;

pub(crate) struct Text {
    pub sqlite: String,
    pub postgres: String,
    /// What is wrong with it in a tenant's scope.
    tenant: Result<(), String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judge {
    Tenant,
    Everyone,
}

#[derive(Default)]
pub(crate) struct Texts {
    read: RwLock<HashMap<String, Arc<Text>>>,
    /// Those written in the code, found by where they lie: to hash a text costs more than all else about it.
    written: RwLock<HashMap<(usize, usize), Arc<Text>>>,
}

impl Texts {
    /// The same as [`Texts::get`] in a tenant's scope, for a text that stays where it is.
    pub fn get_written(&self, sql: &'static str) -> Result<Arc<Text>, Error> {
        let place = (sql.as_ptr().addr(), sql.len());
        if let Some(text) = self.written.read().unwrap_or_else(PoisonError::into_inner).get(&place) {
            return Ok(Arc::clone(text));
        }
        let text = self.get(sql, Judge::Tenant)?;
        self.written.write().unwrap_or_else(PoisonError::into_inner).insert(place, Arc::clone(&text));
        Ok(text)
    }

    pub fn get(&self, sql: &str, judge: Judge) -> Result<Arc<Text>, Error> {
        let known = self.read.read().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        let text = match known {
            Some(text) => text,
            None => self.take_apart(sql)?,
        };
        match (&text.tenant, judge) {
            (Err(reason), Judge::Tenant) => {
                Err(Error::Corrupt(format!("a statement may leave its tenant: {reason}: {sql}")))
            }
            _ => Ok(text),
        }
    }

    fn take_apart(&self, sql: &str) -> Result<Arc<Text>, Error> {
        let tokens = sql::tokens(sql).map_err(|what| Error::Corrupt(format!("a statement has {what}: {sql}")))?;
        let tenant = guard::check(sql, &tokens);
        let text = Arc::new(Text { sqlite: sql::for_sqlite(&tokens), postgres: sql.to_owned(), tenant });
        let mut texts = self.read.write().unwrap_or_else(PoisonError::into_inner);
        if texts.len() >= TEXTS_MAX {
            texts.clear();
        }
        texts.insert(sql.to_owned(), Arc::clone(&text));
        Ok(text)
    }
}

/// What one of the databases could not hold is refused by both.
pub(crate) fn check_values(values: &[Value]) -> Result<(), Error> {
    for value in values {
        match value {
            Value::Text(text) if text.contains('\0') => {
                let remedy = "take the character U+0000 out of the text; nothing was changed";
                return Err(Error::Unmet(Fault::invalid(
                    "a text holds the character U+0000, which cannot be stored",
                    remedy,
                )));
            }
            Value::Real(number) if !number.is_finite() => {
                return Err(Error::Corrupt(format!("the number {number} cannot be stored")));
            }
            _ => {}
        }
    }
    Ok(())
}
