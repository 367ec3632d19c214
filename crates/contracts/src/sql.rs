//! Which SQL statements only read. What is not plainly a read counts as a write: a class too strict costs a question,
//! one too mild costs the effect. [`judge`] says which are sent at all.

pub mod judge;

/// Functions that compute and touch nothing; every other call may do anything.
const PURE_FUNCTIONS: &[&str] = &[
    "abs",
    "array_agg",
    "avg",
    "cast",
    "ceil",
    "ceiling",
    "char_length",
    "coalesce",
    "concat",
    "concat_ws",
    "count",
    "cume_dist",
    "date",
    "date_part",
    "date_trunc",
    "dense_rank",
    "extract",
    "first_value",
    "floor",
    "format",
    "greatest",
    "group_concat",
    "ifnull",
    "initcap",
    "instr",
    "json_agg",
    "json_array_length",
    "json_build_object",
    "json_extract",
    "json_object",
    "jsonb_agg",
    "jsonb_array_length",
    "jsonb_build_object",
    "julianday",
    "lag",
    "last_value",
    "lead",
    "least",
    "left",
    "length",
    "lower",
    "lpad",
    "ltrim",
    "max",
    "min",
    "mod",
    "now",
    "ntile",
    "nullif",
    "octet_length",
    "percent_rank",
    "position",
    "power",
    "printf",
    "rank",
    "regexp_replace",
    "replace",
    "reverse",
    "right",
    "round",
    "row_number",
    "rpad",
    "rtrim",
    "sign",
    "split_part",
    "sqrt",
    "strftime",
    "string_agg",
    "strpos",
    "substr",
    "substring",
    "sum",
    "time",
    "to_char",
    "to_date",
    "to_number",
    "to_timestamp",
    "total",
    "trim",
    "trunc",
    "upper",
];

/// Words that may stand before a parenthesis without being a function.
const BEFORE_PARENTHESIS: &[&str] = &[
    "all",
    "and",
    "any",
    "as",
    "between",
    "by",
    "case",
    "distinct",
    "else",
    "except",
    "exists",
    "filter",
    "from",
    "having",
    "ilike",
    "in",
    "intersect",
    "is",
    "join",
    "lateral",
    "like",
    "limit",
    "not",
    "offset",
    "on",
    "or",
    "over",
    "partition",
    "select",
    "some",
    "then",
    "union",
    "using",
    "values",
    "when",
    "where",
    "within",
];

/// Words that never stand in a plain read.
const WRITING: &[&str] = &[
    "alter",
    "analyze",
    "attach",
    "begin",
    "call",
    "cluster",
    "commit",
    "copy",
    "create",
    "deallocate",
    "delete",
    "detach",
    "do",
    "drop",
    "execute",
    "explain",
    "for",
    "grant",
    "insert",
    "into",
    "listen",
    "load",
    "lock",
    "merge",
    "notify",
    "pragma",
    "prepare",
    "refresh",
    "reindex",
    "replace",
    "reset",
    "revoke",
    "rollback",
    "savepoint",
    "set",
    "truncate",
    "update",
    "vacuum",
    "with",
];

/// One `SELECT`, of pure functions only.
pub fn only_reads(statement: &str) -> bool {
    let Some(tokens) = tokens(statement) else { return false };
    let mut tokens = tokens.as_slice();
    while let [rest @ .., Token::Mark(';')] = tokens {
        tokens = rest;
    }
    let begins = matches!(tokens.first(), Some(Token::Word(word)) if word == "select");
    begins
        && tokens.iter().enumerate().all(|(index, token)| match token {
            Token::Mark(';') => false,
            Token::Mark(_) | Token::Opaque => true,
            Token::Word(word) => match tokens.get(index + 1) {
                Some(Token::Mark('(')) => {
                    PURE_FUNCTIONS.contains(&word.as_str()) || BEFORE_PARENTHESIS.contains(&word.as_str())
                }
                _ => !WRITING.contains(&word.as_str()),
            },
            Token::Quoted => !matches!(tokens.get(index + 1), Some(Token::Mark('('))),
        })
}

enum Token {
    /// In lower case.
    Word(String),
    /// A quoted identifier: before a parenthesis it is a function nobody can vouch for.
    Quoted,
    /// A text or a number.
    Opaque,
    Mark(char),
}

/// `None` where two databases could read the text differently: comments, escapes, dollar quotes, an open quote.
fn tokens(statement: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = statement.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied();
        match c {
            _ if c.is_whitespace() => {}
            '-' if next == Some('-') => return None,
            '/' if next == Some('*') => return None,
            '\\' | '#' => return None,
            '$' if next.is_none_or(|next| !next.is_ascii_digit()) => return None,
            '\'' | '"' | '`' => {
                rest.by_ref().find(|inner| *inner == c)?;
                tokens.push(if c == '\'' { Token::Opaque } else { Token::Quoted });
            }
            _ if c.is_alphabetic() || c == '_' => {
                let mut word: String = c.to_lowercase().collect();
                while let Some(inner) = rest.next_if(|inner| inner.is_alphanumeric() || *inner == '_' || *inner == '$')
                {
                    word.extend(inner.to_lowercase());
                }
                // `E'…'` and the like change how the text is read.
                if rest.peek() == Some(&'\'') && word.len() <= 2 {
                    return None;
                }
                tokens.push(Token::Word(word));
            }
            _ if c.is_ascii_digit() => {
                while rest.next_if(|inner| inner.is_alphanumeric() || *inner == '.').is_some() {}
                tokens.push(Token::Opaque);
            }
            _ => tokens.push(Token::Mark(c)),
        }
    }
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::only_reads;

    #[test]
    fn plain_reads_are_reads() {
        for statement in [
            "select 1",
            "SELECT id, count(*) FROM orders WHERE total > $1 AND name IN ('a', 'b;c', 'drop table') GROUP BY id ORDER BY 2 DESC LIMIT 10;",
            "select coalesce(max(x), 0) from t join u using (id) where exists (select 1 from v where v.id = t.id)",
            "select case when a then lower(b) else '' end from t where c between 1 and 2 and d like '%update%'",
            "select row_number() over (partition by a order by b) from \"Weird Table\" where x = :name",
        ] {
            assert!(only_reads(statement), "{statement}");
        }
    }

    #[test]
    fn everything_else_may_write() {
        for statement in [
            "",
            "update t set a = 1",
            "select 1; drop table x",
            "SELECT 1; VACUUM",
            "select * into x from y",
            "select nextval('s')",
            "select load_extension('x')",
            "select writefile('a', 'b')",
            "select lo_unlink(1)",
            "select pg_terminate_backend(1)",
            "select my_side_effect()",
            "select \"my_side_effect\"()",
            "select 1 -- x\n; delete from t",
            "select /* x */ 1",
            "with x as (delete from y returning 1) select * from x",
            "select * from t for update",
            "values (1)",
            "select 'a",
            "select $$x$$",
            "select E'\\'' ; drop table x --'",
            "explain analyze delete from t",
            "select set_config('a', 'b', false)",
            "pragma x",
            "copy t to program 'x'",
            "select dblink_exec('x', 'y')",
            "select pg_read_file('x')",
            "select schema.lower_then_drop(1)",
        ] {
            assert!(!only_reads(statement), "{statement}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            let _ = only_reads(&text);
        }
    }
}
