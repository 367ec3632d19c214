//! Just enough reading of SQL to do two things at one place for both databases: spell a statement for SQLite, and see
//! whether it names its tenant (`guard`). Nothing here understands a whole statement.
//!
//! What the two databases read differently is refused, so that a text means the same in both.

/// One piece of a statement. The pieces' texts, put together, are the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Space,
    Comment,
    /// A string or a number.
    Literal,
    /// A keyword or a name, quoted or not.
    Word,
    /// `$N`.
    Parameter,
    /// One character of punctuation.
    Symbol,
}

/// Takes a statement apart, or says what in it the two databases would not read alike.
pub(crate) fn tokens(sql: &str) -> Result<Vec<Token<'_>>, String> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = next(first, rest)?;
        let (text, tail) = rest.split_at(length);
        let escaped = first == '\'' && tokens.last().is_some_and(|before| before.text.eq_ignore_ascii_case("e"));
        if escaped {
            return Err("a string with backslash escapes".into());
        }
        tokens.push(Token { kind, text });
        rest = tail;
    }
    let mut ended = false;
    for token in &tokens {
        match token.kind {
            Kind::Space | Kind::Comment => {}
            _ if ended => return Err("more than one statement".into()),
            _ => ended = token.text == ";",
        }
    }
    Ok(tokens)
}

fn next(first: char, rest: &str) -> Result<(Kind, usize), String> {
    let run = |wanted: fn(char) -> bool| rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    Ok(match first {
        _ if first.is_whitespace() => (Kind::Space, run(char::is_whitespace)),
        '-' if rest.starts_with("--") => (Kind::Comment, rest.find('\n').unwrap_or(rest.len())),
        '/' if rest.starts_with("/*") => {
            let end = rest.find("*/").ok_or("a comment without an end")? + 2;
            if rest[2..end].contains("/*") {
                return Err("a comment within a comment".into());
            }
            (Kind::Comment, end)
        }
        '\'' => (Kind::Literal, quoted(rest, '\'')?),
        '"' => (Kind::Word, quoted(rest, '"')?),
        '$' => match rest[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - 1) {
            0 => return Err("a `$` that is not a parameter".into()),
            digits => (Kind::Parameter, digits + 1),
        },
        '?' => return Err("a `?`: parameters are written `$1`, `$2`".into()),
        _ if first.is_alphabetic() || first == '_' => (Kind::Word, run(|c| c.is_alphanumeric() || c == '_')),
        _ if first.is_ascii_digit() => (Kind::Literal, run(|c| c.is_ascii_alphanumeric() || c == '.')),
        _ => (Kind::Symbol, first.len_utf8()),
    })
}

/// The length of a quoted piece; a doubled quote stands for itself.
fn quoted(rest: &str, quote: char) -> Result<usize, String> {
    let mut at = 1;
    loop {
        at += rest[at..].find(quote).ok_or("a quote without an end")? + 1;
        if !rest[at..].starts_with(quote) {
            return Ok(at);
        }
        at += 1;
    }
}

/// The same statement with SQLite's parameters, and an insert that keeps no copy of the pages it touches.
///
/// A statement that fails is undone by SQLite itself, which for that copies each page that it changes. The writer undoes
/// the whole change anyway, so an insert fails without being undone.
pub(crate) fn for_sqlite(tokens: &[Token<'_>]) -> String {
    let mut sql = String::with_capacity(tokens.iter().map(|token| token.text.len()).sum::<usize>() + OR_FAIL.len());
    let mut inserts = is_plain_insert(tokens);
    for token in tokens {
        match token.kind {
            Kind::Parameter => {
                sql.push('?');
                sql.push_str(&token.text[1..]);
            }
            _ => sql.push_str(token.text),
        }
        if inserts && token.kind == Kind::Word {
            sql.push_str(OR_FAIL);
            inserts = false;
        }
    }
    sql
}

const OR_FAIL: &str = " OR FAIL";

/// `INSERT INTO` without a word on conflicts.
fn is_plain_insert(tokens: &[Token<'_>]) -> bool {
    let mut words = tokens.iter().filter(|token| !matches!(token.kind, Kind::Space | Kind::Comment));
    let mut next_is = |word: &str| words.next().is_some_and(|token| token.text.eq_ignore_ascii_case(word));
    next_is("INSERT") && next_is("INTO") && !words.any(|token| token.text.eq_ignore_ascii_case("CONFLICT"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        assert_eq!(for_sqlite(&tokens(sql).unwrap()), expected);
    }

    #[test]
    fn parameters_are_rewritten_and_nothing_else() {
        check("SELECT $1, $12", "SELECT ?1, ?12");
        check("a=$1::text", "a=?1::text");
        check(
            "SELECT '$1', 'it''s $2', \"$3\" -- $4\n/* $5 */ , $6",
            "SELECT '$1', 'it''s $2', \"$3\" -- $4\n/* $5 */ , ?6",
        );
        check("SELECT 'ü$1' || $2;", "SELECT 'ü$1' || ?2;");
    }

    #[test]
    fn a_plain_insert_leaves_undoing_to_the_writer() {
        check("INSERT INTO t (a) VALUES ($1)", "INSERT OR FAIL INTO t (a) VALUES (?1)");
        check(
            "/* no tenant: a */ insert into t (a) VALUES ($1)",
            "/* no tenant: a */ insert OR FAIL into t (a) VALUES (?1)",
        );
        for same in [
            "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO NOTHING",
            "UPDATE t SET a = 1",
            "WITH b AS (SELECT 1) INSERT INTO t SELECT * FROM b",
            "SELECT 'INSERT INTO t'",
        ] {
            check(same, same);
        }
    }

    #[test]
    fn what_the_databases_read_differently_is_refused() {
        for sql in [
            "SELECT ?",
            "SELECT $$a$$",
            "SELECT $a$x$a$",
            "SELECT E'\\n'",
            "/* a /* b */ */ SELECT 1",
            "SELECT 'a",
            "SELECT \"a",
            "SELECT 1; SELECT 2",
            "/* a",
        ] {
            assert!(tokens(sql).is_err(), "{sql}");
        }
        for sql in ["", "SELECT 1;", "SELECT 1; -- done", "SELECT 'a;b'"] {
            assert!(tokens(sql).is_ok(), "{sql}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_tokens_are_the_text(sql in any::<String>()) {
            if let Ok(tokens) = tokens(&sql) {
                prop_assert_eq!(tokens.iter().map(|token| token.text).collect::<String>(), sql);
            }
        }

        #[test]
        fn literals_keep_their_bytes(literal in any::<String>(), number in 1u16..999) {
            let quoted = literal.replace('\'', "''");
            let sql = format!("SELECT '{quoted}' WHERE a = ${number}");
            prop_assert_eq!(for_sqlite(&tokens(&sql).unwrap()), format!("SELECT '{quoted}' WHERE a = ?{number}"));
        }
    }
}
