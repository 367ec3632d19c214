//! Which SQL a tool may send: one statement, of a kind that is a query or a change, without what reaches past tables.
//!
//! A statement is read here as far as its words: quotes, comments and marks, as its database will read them. What a
//! reading cannot see (what a function does, whether a name exists) is held by the database itself: by a transaction
//! that only reads, by a role that may do little, by SQLite's authorizer. Nothing here is the only guard of anything.

use std::fmt;

/// How a text is read: quotes and comments differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Postgres,
    Sqlite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Reads,
    Writes,
}

/// What begins a statement that reads. PostgreSQL's `show` reads settings.
const READING: &[&str] = &["explain", "select", "show", "table", "values", "with"];

/// What begins a statement that changes rows, tables or rights. Everything else is no statement for a tool: sessions,
/// transactions, files and programs are not its to touch.
const WRITING: &[&str] = &[
    "alter", "analyze", "call", "comment", "create", "delete", "drop", "grant", "insert", "merge", "refresh",
    "reindex", "replace", "revoke", "truncate", "update",
];

/// What begins a statement whose plan can be shown.
const EXPLAINABLE: &[&str] = &["delete", "insert", "merge", "replace", "select", "table", "update", "values", "with"];

/// Functions that reach past the database's tables: files, other servers, other sessions, settings of the session; and
/// those that run a text as a statement, by which all of these could be reached.
const REFUSED_FUNCTIONS: &[&str] = &[
    "connectby",
    "fts3_tokenizer",
    "lo_export",
    "lo_import",
    "load_extension",
    "pg_cancel_backend",
    "pg_promote",
    "pg_reload_conf",
    "pg_rotate_logfile",
    "pg_stat_file",
    "pg_switch_wal",
    "pg_terminate_backend",
    "set_config",
    "ts_rewrite",
    "ts_stat",
];
const REFUSED_PREFIXES: &[&str] = &[
    "crosstab",
    // These run a text as a statement, which nobody has judged.
    "cursor_to_xml",
    "database_to_xml",
    "dblink",
    "pg_advisory_",
    "pg_create_",
    "pg_file_",
    "pg_logical_",
    "pg_ls_",
    "pg_read_",
    "pg_replication_",
    "pg_try_advisory_",
    "pg_wal_",
    "query_to_xml",
    "schema_to_xml",
    "table_to_xml",
];

/// Why a statement is not sent. Displayed it says what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Empty,
    Several,
    /// A quote or comment that does not end.
    Open(&'static str),
    /// What no database reads as it is written.
    Unreadable(&'static str),
    Kind(String),
    /// It begins like a change, where only reading is allowed.
    Change(String),
    Function(String),
    /// A parameter that has no number.
    Named(String),
    /// `?` and `$1` in one statement.
    Mixed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is no statement; write one"),
            Self::Several => f.write_str("more than one statement; send one, without anything after its `;`"),
            Self::Open(what) => write!(f, "{what} does not end; close it"),
            Self::Unreadable(what) => write!(f, "{what}; write it without"),
            Self::Kind(word) => write!(
                f,
                "a statement that begins with `{word}` is not run; use a query, or a change of rows or tables"
            ),
            Self::Change(word) => write!(f, "`{word}` changes the database, and this only reads"),
            Self::Function(name) => {
                write!(f, "the function `{name}` reaches past the tables of the database and is not run; leave it out")
            }
            Self::Named(name) => write!(f, "the parameter `{name}` has no number; write `$1`, `$2` and so on"),
            Self::Mixed => f.write_str("`?` and `$1` in one statement; use `$1`, `$2` and so on"),
        }
    }
}

/// A statement that may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// How many parameters it takes.
    pub parameters: usize,
    /// Whether `EXPLAIN` before it makes a statement.
    pub is_explainable: bool,
    /// It begins like a change. A query may change something too, by its functions or in a `WITH`.
    pub is_change: bool,
}

pub fn judge(statement: &str, dialect: Dialect, effect: Effect) -> Result<Judged, Refusal> {
    let pieces = pieces(statement, dialect)?;
    let mut pieces = pieces.as_slice();
    while let [rest @ .., Piece::Mark(';')] = pieces {
        pieces = rest;
    }
    if pieces.is_empty() {
        return Err(Refusal::Empty);
    }
    if pieces.contains(&Piece::Mark(';')) && !is_trigger(pieces) {
        return Err(Refusal::Several);
    }
    let first = match pieces.iter().find(|piece| **piece != Piece::Mark('(')) {
        Some(Piece::Word(word)) => word.as_str(),
        _ => return Err(Refusal::Kind(statement.trim().chars().take(16).collect())),
    };
    let is_change = WRITING.contains(&first);
    match effect {
        _ if READING.contains(&first) => {}
        Effect::Writes if is_change => {}
        Effect::Reads if is_change => return Err(Refusal::Change(first.to_owned())),
        _ => return Err(Refusal::Kind(first.chars().take(32).collect())),
    }
    for pair in pieces.windows(2) {
        if let [Piece::Word(name) | Piece::Quoted(name), Piece::Mark('(')] = pair
            && is_refused(name)
        {
            return Err(Refusal::Function(name.clone()));
        }
    }
    Ok(Judged { parameters: parameters(pieces)?, is_explainable: EXPLAINABLE.contains(&first), is_change })
}

/// What both databases refuse, for a definition whose database is not known yet; else how many parameters it takes, where
/// both agree.
pub fn judge_anywhere(statement: &str) -> Result<Option<usize>, Refusal> {
    let readings = [Dialect::Postgres, Dialect::Sqlite].map(|dialect| judge(statement, dialect, Effect::Writes));
    match readings {
        [Err(refusal), Err(_)] => Err(refusal),
        [Ok(one), Ok(other)] if one.parameters == other.parameters => Ok(Some(one.parameters)),
        _ => Ok(None),
    }
}

/// The statements inside a trigger end with `;` each.
fn is_trigger(pieces: &[Piece]) -> bool {
    let word = |index: usize| match pieces.get(index) {
        Some(Piece::Word(word)) => word.as_str(),
        _ => "",
    };
    let after_create = if matches!(word(1), "temp" | "temporary") { word(2) } else { word(1) };
    let begins = pieces.iter().position(|piece| matches!(piece, Piece::Word(word) if word == "begin"));
    let first_end = pieces.iter().position(|piece| *piece == Piece::Mark(';'));
    word(0) == "create"
        && after_create == "trigger"
        && begins.zip(first_end).is_some_and(|(begins, end)| begins < end)
        && matches!(pieces.last(), Some(Piece::Word(word)) if word == "end")
}

fn is_refused(name: &str) -> bool {
    let name = name.to_lowercase();
    REFUSED_FUNCTIONS.contains(&name.as_str()) || REFUSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn parameters(pieces: &[Piece]) -> Result<usize, Refusal> {
    let numbered = pieces.iter().filter_map(|piece| match piece {
        Piece::Parameter(number) => Some(*number),
        _ => None,
    });
    let unnumbered = pieces.iter().filter(|piece| **piece == Piece::Place).count();
    match numbered.max() {
        Some(_) if unnumbered > 0 => Err(Refusal::Mixed),
        Some(most) => Ok(most),
        None => Ok(unnumbered),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// In lower case.
    Word(String),
    Quoted(String),
    /// A text or a number.
    Opaque,
    /// `$1`.
    Parameter(usize),
    /// `?`.
    Place,
    Mark(char),
}

fn pieces(statement: &str, dialect: Dialect) -> Result<Vec<Piece>, Refusal> {
    if statement.contains('\0') {
        return Err(Refusal::Unreadable("the statement holds a NUL character"));
    }
    let mut reader = Reader { rest: statement, dialect };
    let mut pieces = Vec::new();
    while let Some(c) = reader.rest.chars().next() {
        if let Some(piece) = reader.next_piece(c, &pieces)? {
            pieces.push(piece);
        }
    }
    Ok(pieces)
}

struct Reader<'a> {
    rest: &'a str,
    dialect: Dialect,
}

impl<'a> Reader<'a> {
    fn next_piece(&mut self, c: char, before: &[Piece]) -> Result<Option<Piece>, Refusal> {
        if c.is_whitespace() {
            self.rest = self.rest.trim_start();
        } else if self.rest.starts_with("--") {
            self.rest = self.rest.split_once(['\n', '\r']).map_or("", |(_, rest)| rest);
        } else if self.rest.starts_with("/*") {
            self.comment()?;
        } else {
            return self.visible(c, before).map(Some);
        }
        Ok(None)
    }

    fn visible(&mut self, c: char, before: &[Piece]) -> Result<Piece, Refusal> {
        match (c, self.dialect) {
            ('\'', _) => {
                let escapes = matches!(before.last(), Some(Piece::Word(word)) if word == "e");
                self.text(escapes && self.dialect == Dialect::Postgres)
            }
            ('"', _) => {
                let hidden = matches!(before, [.., Piece::Word(word), Piece::Mark('&')] if word == "u");
                if hidden && self.dialect == Dialect::Postgres {
                    return Err(Refusal::Unreadable("a name is written with `U&`"));
                }
                self.quoted('"')
            }
            ('`', Dialect::Sqlite) => self.quoted('`'),
            ('[', Dialect::Sqlite) => self.quoted(']'),
            ('$', Dialect::Postgres) => self.dollar(),
            ('$' | ':' | '@' | '#', Dialect::Sqlite) => self.variable(),
            ('?', Dialect::Sqlite) => {
                self.rest = &self.rest[1..];
                let digits = self.take(|c| c.is_ascii_digit());
                if digits.is_empty() { Ok(Piece::Place) } else { number(digits, digits) }
            }
            _ if c.is_alphabetic() || c == '_' => {
                let word = self.take(|c| c.is_alphanumeric() || c == '_' || c == '$');
                Ok(Piece::Word(word.to_lowercase()))
            }
            _ if c.is_ascii_digit() => {
                self.take(|c| c.is_alphanumeric() || c == '.' || c == '_');
                Ok(Piece::Opaque)
            }
            _ => {
                self.rest = &self.rest[c.len_utf8()..];
                Ok(Piece::Mark(c))
            }
        }
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// In PostgreSQL comments nest; in SQLite the end of the text ends one too.
    fn comment(&mut self) -> Result<(), Refusal> {
        let mut depth = 0_usize;
        loop {
            let Some(at) = self.rest.find("*/").map(|end| match self.rest.find("/*") {
                Some(begin) if begin < end && (depth == 0 || self.dialect == Dialect::Postgres) => begin,
                _ => end,
            }) else {
                self.rest = "";
                return match self.dialect {
                    Dialect::Postgres => Err(Refusal::Open("a comment")),
                    Dialect::Sqlite => Ok(()),
                };
            };
            let is_begin = self.rest[at..].starts_with("/*");
            self.rest = &self.rest[at + 2..];
            depth = if is_begin { depth + 1 } else { depth.saturating_sub(1) };
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// A doubled quote is the end of one text and the beginning of the next, which comes to the same.
    fn text(&mut self, escapes: bool) -> Result<Piece, Refusal> {
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' if escapes => drop(characters.next()),
                '\'' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(Piece::Opaque);
                }
                _ => {}
            }
        }
        Err(Refusal::Open("a text in `'`"))
    }

    fn quoted(&mut self, end: char) -> Result<Piece, Refusal> {
        let mut name = String::new();
        let mut rest = self.rest[1..].chars();
        while let Some(c) = rest.next() {
            if c != end {
                name.push(c);
            } else if end != ']' && rest.as_str().starts_with(end) {
                rest.next();
                name.push(c);
            } else {
                self.rest = rest.as_str();
                return Ok(Piece::Quoted(name));
            }
        }
        Err(Refusal::Open("a quoted name"))
    }

    /// A parameter, a text between `$tag$`, or a mark.
    fn dollar(&mut self) -> Result<Piece, Refusal> {
        let whole = self.rest;
        self.rest = &whole[1..];
        let digits = self.take(|c| c.is_ascii_digit());
        if !digits.is_empty() {
            return number(digits, digits);
        }
        let tag = self.take(|c| c.is_alphanumeric() || c == '_');
        if !self.rest.starts_with('$') {
            self.rest = &whole[1..];
            return Ok(Piece::Mark('$'));
        }
        let quote = &whole[..tag.len() + 2];
        match self.rest[1..].split_once(quote) {
            Some((_, rest)) => {
                self.rest = rest;
                Ok(Piece::Opaque)
            }
            None => Err(Refusal::Open("a text in `$`")),
        }
    }

    /// SQLite takes `::` and more into a name, so that `$1::text` is one.
    fn variable(&mut self) -> Result<Piece, Refusal> {
        let whole = self.rest;
        self.rest = &whole[1..];
        self.take(|c| c.is_alphanumeric() || c == '_' || c == '$' || c == ':');
        let name = &whole[..whole.len() - self.rest.len()];
        match name.strip_prefix('$') {
            Some(digits) if !digits.is_empty() => number(digits, name),
            _ => Err(Refusal::Named(name.chars().take(32).collect())),
        }
    }
}

fn number(digits: &str, name: &str) -> Result<Piece, Refusal> {
    match digits.parse::<u16>() {
        Ok(number) if number > 0 => Ok(Piece::Parameter(number.into())),
        _ => Err(Refusal::Named(name.chars().take(32).collect())),
    }
}

#[cfg(test)]
mod tests;
