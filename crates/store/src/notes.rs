//! The notebooks of `append_note`: lines that are only added.

use toolgate_contracts::{CallId, TenantId, Timestamp};

use crate::change::Change;
use crate::error::Error;
use crate::scope::Scope;
use crate::{Row, Store};

/// Each time another writer takes the number that was the next one, one of them gets on: this is how many may stand in
/// front of us.
pub const APPEND_TRIES_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNote<'a> {
    pub notebook: &'a str,
    pub text: &'a str,
    /// Adds one line, ever.
    pub call: CallId,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub notebook: String,
    /// Counted from 1 in each notebook.
    pub line: u32,
    pub text: String,
    pub created_at: Timestamp,
}

impl Store {
    /// Adds a line and answers its number, once it is on the disk.
    pub async fn append_note(&self, tenant: TenantId, note: &NewNote<'_>) -> Result<u32, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.commit(append(tenant, note)).await {
                Ok(outcome) => {
                    let row = outcome.returned.first().and_then(|rows| rows.first());
                    return row.ok_or_else(|| Error::Corrupt("a new line has no number".into()))?.get(0);
                }
                // Another replica added the line of this number at the same moment.
                Err(error) if error.is("notes_pkey") && tries < APPEND_TRIES_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The line that a call added, if it did.
    pub async fn note_of_call(&self, tenant: TenantId, call: CallId) -> Result<Option<Note>, Error> {
        let sql = "SELECT notebook, line, text, created_at FROM notes WHERE tenant_id = $1 AND call_id = $2";
        let rows = self.query(&Scope::Tenant(tenant), sql, vec![call.into()]).await?;
        rows.first().map(note).transpose()
    }
}

fn append(tenant: TenantId, note: &NewNote<'_>) -> Change {
    let NewNote { notebook, text, call, created_at } = note;
    let mut change = Change::new(tenant);
    change.then(
        "INSERT INTO notes (tenant_id, notebook, line, text, call_id, created_at)
         SELECT $1, $2, coalesce(max(line), 0) + 1, $3, $4, $5 FROM notes WHERE tenant_id = $1 AND notebook = $2
         RETURNING line",
        [(*notebook).into(), (*text).into(), (*call).into(), (*created_at).into()],
    );
    change
}

fn note(row: &Row) -> Result<Note, Error> {
    Ok(Note { notebook: row.get(0)?, line: row.get(1)?, text: row.get(2)?, created_at: row.get(3)? })
}
