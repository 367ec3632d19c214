//! Whether a statement in a tenant's scope keeps to its tenant, seen from its text.
//!
//! The rule: every table of the statement is tied to `$1`, directly (`t.tenant_id = $1`, `tenant_id IN ($1, …)`) or by
//! way of another table (`b.tenant_id = a.tenant_id`), and a row is inserted with `$1` as its `tenant_id`. In PostgreSQL
//! the row policies say the same once more; in SQLite this is the only place that does.
//! It catches the forgotten condition, not the malicious one: `OR TRUE` is for the reader of the code.

use std::collections::BTreeSet;

use crate::change::NO_TENANT;
use crate::sql::{Kind, Token};

/// Tables that may be joined without a tie: they have no tenant, or hold rows of the system tenant that every tenant's
/// rows refer to by id. Alone in a statement they still need a tie, or [`NO_TENANT`].
const JOINED_FREELY: [&str; 10] = [
    "accounts",
    "counters",
    "identities",
    "leases",
    "server_keys",
    "schema_versions",
    "tool_aliases",
    "tool_groups",
    "tool_versions",
    "tools",
];

/// Words after a table that are not its alias.
const NOT_AN_ALIAS: [&str; 27] = [
    "as",
    "cross",
    "except",
    "fetch",
    "for",
    "full",
    "group",
    "having",
    "inner",
    "intersect",
    "join",
    "left",
    "limit",
    "natural",
    "offset",
    "on",
    "order",
    "outer",
    "returning",
    "right",
    "select",
    "set",
    "union",
    "using",
    "values",
    "where",
    "window",
];

/// In these functions `FROM` names no table.
const FROM_IS_A_PREPOSITION: [&str; 5] = ["extract", "overlay", "position", "substring", "trim"];

/// `Err` names what is not tied to the tenant.
pub(crate) fn check(sql: &str, tokens: &[Token<'_>]) -> Result<(), String> {
    if let Some(reason) = sql.strip_prefix(NO_TENANT) {
        let named = reason.split_once("*/").is_some_and(|(reason, _)| !reason.trim().is_empty());
        return if named { Ok(()) } else { Err("it does not say why it has no tenant".into()) };
    }
    let words: Vec<String> = tokens
        .iter()
        .filter(|token| !matches!(token.kind, Kind::Space | Kind::Comment))
        .map(|token| match token.kind {
            // A literal must not look like a word.
            Kind::Literal => "''".to_owned(),
            _ => token.text.trim_matches('"').to_lowercase(),
        })
        .collect();
    Statement { words, ..Statement::default() }.check()
}

#[derive(Default)]
struct Statement {
    words: Vec<String>,
    tables: Vec<Table>,
    /// Names that the statement itself defines; what stands behind them is checked where it is written.
    defined: BTreeSet<String>,
    /// Aliases tied to `$1`.
    tied: BTreeSet<String>,
    /// Aliases tied to each other.
    pairs: Vec<(String, String)>,
    /// Ties that name no alias: each is good for one table.
    unqualified: usize,
}

struct Table {
    name: String,
    alias: String,
}

impl Statement {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    fn before(&self, at: usize, back: usize) -> &str {
        at.checked_sub(back).map_or("", |at| self.word(at))
    }

    fn check(mut self) -> Result<(), String> {
        if !matches!(self.word(0), "select" | "with" | "insert" | "update" | "delete") {
            return Err(format!("it begins with `{}`", self.word(0)));
        }
        self.find_tables()?;
        self.find_ties();
        self.verdict()
    }

    fn find_tables(&mut self) -> Result<(), String> {
        // Per open parenthesis: whether `FROM` is a preposition in it, and whether a comma begins a table.
        let mut open = vec![(false, false)];
        for at in 0..self.words.len() {
            let (preposition, in_from) = open.last().copied().unwrap_or_default();
            let mut clause = |in_from| {
                if let Some(last) = open.last_mut() {
                    last.1 = in_from;
                }
            };
            match self.word(at) {
                "(" => open.push((FROM_IS_A_PREPOSITION.contains(&self.before(at, 1)), false)),
                ")" => drop(open.pop()),
                "from" if !preposition && self.before(at, 1) != "distinct" => {
                    clause(true);
                    self.add_table(at + 1);
                }
                "join" => self.add_table(at + 1),
                "," if in_from => self.add_table(at + 1),
                "update" if !matches!(self.before(at, 1), "do" | "for" | "key") => self.add_table(at + 1),
                "into" => self.check_insert(at + 1)?,
                "where" | "on" | "using" | "group" | "order" | "set" | "returning" | "select" => clause(false),
                "as" if self.word(at + 1) == "(" => self.add_definition(at),
                _ => {}
            }
        }
        Ok(())
    }

    fn add_table(&mut self, mut at: usize) {
        while matches!(self.word(at), "only" | "lateral") {
            at += 1;
        }
        if self.word(at + 1) == "." {
            at += 2;
        }
        // A subquery is checked as it comes; a function is no table.
        if self.word(at) == "(" || self.word(at + 1) == "(" {
            return;
        }
        let name = self.word(at).to_owned();
        at += 1 + usize::from(self.word(at + 1) == "as");
        let next = self.word(at);
        let is_alias = next.starts_with(|c: char| c.is_alphabetic() || c == '_') && !NOT_AN_ALIAS.contains(&next);
        let alias = if is_alias { next.to_owned() } else { name.clone() };
        self.tables.push(Table { name, alias });
    }

    /// `WITH name AS (`, `WITH name (columns) AS (`.
    fn add_definition(&mut self, at_as: usize) {
        let mut at = at_as - 1;
        if self.word(at) == ")" {
            while at > 0 && self.word(at) != "(" {
                at -= 1;
            }
            at = at.saturating_sub(1);
        }
        self.defined.insert(self.word(at).to_owned());
    }

    /// `INTO table (tenant_id, …) VALUES ($1, …), …` or `… SELECT $1, …`.
    fn check_insert(&self, at: usize) -> Result<(), String> {
        let name = self.word(at);
        let mut at = at + 1;
        if self.word(at) == "as" {
            at += 2;
        }
        let column = tenant_column(name);
        if self.word(at) != "(" || self.word(at + 1) != column {
            return Err(format!("the first column of an insert into `{name}` is not `{column}`"));
        }
        at = self.closing(at) + 1;
        let is_tenant = |at: usize| {
            self.word(at) == "$1"
                || self.word(at) == column
                || (self.word(at + 1) == "." && self.word(at + 2) == column)
        };
        let first = match self.word(at) {
            "select" if is_tenant(at + 1) => return Ok(()),
            "values" => at + 1,
            _ => return Err(format!("an insert into `{name}` does not begin with `$1`")),
        };
        let mut tuple = first;
        while self.word(tuple) == "(" && (tuple == first || self.before(tuple, 1) == ",") {
            if self.word(tuple + 1) != "$1" {
                return Err(format!("a row inserted into `{name}` does not begin with `$1`"));
            }
            tuple = self.closing(tuple) + 2;
        }
        Ok(())
    }

    /// Where the parenthesis that opens at `at` closes.
    fn closing(&self, at: usize) -> usize {
        let mut depth = 0_usize;
        for (offset, word) in self.words.iter().skip(at).enumerate() {
            match word.as_str() {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return at + offset;
            }
        }
        self.words.len()
    }

    /// Only conditions tie: a tenant that is selected or set binds nothing.
    fn find_ties(&mut self) {
        let mut open = vec![""];
        for at in 0..self.words.len() {
            match self.word(at) {
                "(" => open.push(open.last().copied().unwrap_or_default()),
                ")" => drop(open.pop()),
                "where" | "on" => set(&mut open, "condition"),
                "using" => set(&mut open, "using"),
                "select" | "set" | "values" | "group" | "order" | "returning" | "from" | "join" | "limit" => {
                    set(&mut open, "");
                }
                "tenant_id" | "id" => match open.last().copied() {
                    Some("condition") => self.add_tie(at),
                    Some("using") if self.word(at) == "tenant_id" => self.unqualified += 1,
                    _ => {}
                },
                _ => {}
            }
        }
    }

    fn add_tie(&mut self, at: usize) {
        let alias = (self.before(at, 1) == ".").then(|| self.before(at, 2).to_owned());
        let begin = if alias.is_some() { at.saturating_sub(2) } else { at };
        let named =
            |alias: &str| self.tables.iter().find(|table| table.alias == alias).map_or("", |table| table.name.as_str());
        let only = if let [table] = self.tables.as_slice() { table.name.as_str() } else { "" };
        if self.word(at) != tenant_column(alias.as_deref().map_or(only, named)) {
            return;
        }
        let in_list = self.word(at + 1) == "in"
            && self.words[at..self.closing(at + 2).min(self.words.len())].iter().any(|word| word == "$1");
        let equal = self.word(at + 1) == "=" && self.word(at + 2) == "$1";
        let reversed = self.before(begin, 1) == "=" && self.before(begin, 2) == "$1";
        match alias {
            Some(alias) if in_list || equal || reversed => drop(self.tied.insert(alias)),
            None if in_list || equal || reversed => self.unqualified += 1,
            Some(alias) if self.word(at + 1) == "=" && self.word(at + 3) == "." => {
                let other = self.word(at + 2).to_owned();
                if self.word(at + 4) == tenant_column(named(&other)) {
                    self.pairs.push((alias, other));
                }
            }
            // Within a subquery: `tenant_id = outer.tenant_id`.
            None if self.word(at + 1) == "=" && self.word(at + 3) == "." && self.word(at + 4) == "tenant_id" => {
                self.unqualified += 1;
            }
            _ => {}
        }
    }

    fn verdict(mut self) -> Result<(), String> {
        // What is no table here is a subquery or a definition, whose own tables are checked.
        let is_table =
            |alias: &str| self.tables.iter().any(|table| table.alias == alias && !self.defined.contains(&table.name));
        let mut settled = false;
        while !settled {
            settled = true;
            for (one, other) in &self.pairs {
                for (from, to) in [(one, other), (other, one)] {
                    if (self.tied.contains(from) || !is_table(from)) && self.tied.insert(to.clone()) {
                        settled = false;
                    }
                }
            }
        }
        let untied: Vec<&Table> =
            self.tables.iter().filter(|table| is_table(&table.alias) && !self.tied.contains(&table.alias)).collect();
        let strict = untied.iter().filter(|table| !JOINED_FREELY.contains(&table.name.as_str())).count();
        let inserts = self.words.iter().any(|word| word == "into");
        let ties = self.unqualified + self.tied.len() + usize::from(inserts);
        let loose = untied.iter().find(|table| strict == 0 || !JOINED_FREELY.contains(&table.name.as_str()));
        match loose {
            Some(table) if strict > self.unqualified || ties == 0 => {
                Err(format!("`{}` is not tied to the tenant", table.name))
            }
            None if ties == 0 => Err("it names no tenant".into()),
            _ => Ok(()),
        }
    }
}

fn set<'a>(open: &mut [&'a str], clause: &'a str) {
    if let Some(last) = open.last_mut() {
        *last = clause;
    }
}

/// The column of a table that holds its tenant.
fn tenant_column(table: &str) -> &'static str {
    if table == "tenants" { "id" } else { "tenant_id" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::tokens;

    fn verdict(sql: &str) -> Result<(), String> {
        check(sql, &tokens(sql).unwrap())
    }

    #[track_caller]
    fn kept(sql: &str) {
        assert_eq!(verdict(sql), Ok(()), "{sql}");
    }

    #[track_caller]
    fn refused(sql: &str, because: &str) {
        let error = verdict(sql).expect_err(sql);
        assert!(error.contains(because), "{sql}: {error}");
    }

    #[test]
    fn a_read_ties_every_table() {
        kept("SELECT a FROM t WHERE tenant_id = $1");
        kept("SELECT a FROM t WHERE $1 = t.tenant_id AND b = $2");
        kept("select a from T as x where X.Tenant_Id = $1");
        kept("SELECT a FROM t WHERE tenant_id IN ($1, $2)");
        kept("SELECT a FROM t JOIN u ON u.tenant_id = t.tenant_id AND u.id = t.u WHERE t.tenant_id = $1");
        kept("SELECT a FROM t JOIN u USING (tenant_id, id) WHERE t.tenant_id = $1");
        kept("SELECT a FROM t LEFT JOIN accounts a ON a.id = t.account_id WHERE t.tenant_id = $1");
        kept("SELECT a, (SELECT count(*) FROM u WHERE u.tenant_id = t.tenant_id) FROM t WHERE t.tenant_id = $1");
        kept("SELECT a FROM t WHERE tenant_id = $1 AND EXISTS (SELECT 1 FROM u WHERE tenant_id = $1)");
        kept("SELECT * FROM (SELECT a FROM t WHERE t.tenant_id = $1) page JOIN tools x ON x.id = page.a");
        kept("SELECT * FROM (SELECT a FROM t WHERE t.tenant_id = $1) page JOIN u ON u.tenant_id = page.tenant_id");
        kept("WITH x AS (SELECT a FROM t WHERE tenant_id = $1) SELECT a FROM x");
        kept(
            "WITH RECURSIVE x (a) AS (SELECT a FROM t WHERE tenant_id = $1 UNION SELECT u.a FROM u JOIN x ON x.a = u.a WHERE u.tenant_id = $1) SELECT a FROM x",
        );
        kept("SELECT a FROM t, u WHERE t.tenant_id = $1 AND u.tenant_id = $1");
        kept("SELECT extract(year FROM a) FROM t WHERE tenant_id = $1 AND a IS DISTINCT FROM b");
        kept("SELECT a FROM tenants WHERE id = $1");
        kept("SELECT a FROM t JOIN tenants x ON x.id = t.tenant_id WHERE t.tenant_id = $1");
        kept("SELECT a FROM t WHERE tenant_id = $1 FOR UPDATE SKIP LOCKED");

        refused("SELECT a FROM t", "`t` is not tied");
        refused("SELECT a FROM t WHERE id = $1", "`t` is not tied");
        refused("SELECT a FROM t WHERE tenant_id = $2", "`t` is not tied");
        refused("SELECT a FROM t WHERE tenant_id <> $1", "`t` is not tied");
        refused("SELECT tenant_id = $1 FROM t", "`t` is not tied");
        refused("SELECT a FROM t WHERE b = 'tenant_id = $1'", "`t` is not tied");
        refused("SELECT a FROM t /* WHERE tenant_id = $1 */", "`t` is not tied");
        refused("SELECT a FROM t WHERE tenant_id IN ($2, $3) AND b = $1", "`t` is not tied");
        refused("SELECT a FROM t JOIN u ON u.id = t.u WHERE t.tenant_id = $1", "`u` is not tied");
        refused("SELECT a FROM t, u WHERE t.tenant_id = $1", "`u` is not tied");
        refused("SELECT a FROM t JOIN u ON u.tenant_id = t.tenant_id", "is not tied");
        refused("SELECT a FROM t WHERE tenant_id = $1 AND b IN (SELECT b FROM u)", "is not tied");
        refused("WITH x AS (SELECT a FROM t) SELECT a FROM x WHERE x.tenant_id = $1", "`t` is not tied");
        refused("SELECT a FROM tools", "`tools` is not tied");
        refused("SELECT a FROM tenants WHERE slug = $1", "`tenants` is not tied");
        refused("SELECT 1", "no tenant");
        refused("PRAGMA user_version", "begins with `pragma`");
    }

    #[test]
    fn a_write_keeps_to_its_tenant() {
        kept("INSERT INTO t (tenant_id, a) VALUES ($1, $2)");
        kept(
            "INSERT INTO t (tenant_id, a) VALUES ($1, $2), ($1, $3) ON CONFLICT (tenant_id, a) DO UPDATE SET b = excluded.b RETURNING a",
        );
        kept(
            "INSERT INTO t (tenant_id, a) SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM tools WHERE tenant_id IN ($1, $3))",
        );
        kept("INSERT INTO t (tenant_id, a) SELECT tenant_id, a FROM u WHERE tenant_id = $1");
        kept("INSERT INTO t (tenant_id, a) SELECT u.tenant_id, a FROM u WHERE u.tenant_id = $1");
        kept("INSERT INTO tenants (id, slug) VALUES ($1, $2)");
        kept("UPDATE t SET a = $2 WHERE tenant_id = $1 AND id = $3 RETURNING a");
        kept("UPDATE tenants SET a = $2 WHERE id = $1");
        kept("DELETE FROM t WHERE tenant_id = $1 AND id IN (SELECT id FROM t WHERE tenant_id = $1 LIMIT $2)");
        kept("/* no tenant: one counter */ UPDATE counters SET value = value + 1");

        refused("INSERT INTO t (a, tenant_id) VALUES ($2, $1)", "first column");
        refused("INSERT INTO t VALUES ($1, $2)", "first column");
        refused("INSERT INTO t (tenant_id, a) VALUES ($2, $1)", "begin with `$1`");
        refused("INSERT INTO t (tenant_id, a) VALUES ($1, $2), ($3, $4)", "begin with `$1`");
        refused("INSERT INTO t (tenant_id, a) SELECT $2, a FROM u WHERE tenant_id = $1", "begin with `$1`");
        refused("INSERT INTO t (tenant_id, a) SELECT $1, a FROM u", "`u` is not tied");
        refused("UPDATE t SET a = $2 WHERE id = $3", "`t` is not tied");
        refused("UPDATE t SET tenant_id = $1 WHERE id = $2", "`t` is not tied");
        refused("DELETE FROM t", "`t` is not tied");
        refused("UPDATE counters SET value = 1", "`counters` is not tied");
        refused("/* no tenant: */ DELETE FROM counters", "why it has no tenant");
        refused("-- no tenant\nDELETE FROM counters", "is not tied");
    }
}
