//! Regular expressions in schemas: only those that run in time linear in the text.

use regex_syntax::ast::{self, ErrorKind};
use serde_json::json;

use super::validator;

/// Bytes of a compiled program, rising: a pattern is charged the first size it fits into. The largest holds a
/// person's name in any script (`\p{L}{1,64}`) and not `(a{1000}){1000}`.
const SIZES: [usize; 4] = [64 * 1024, 512 * 1024, 2 * 1024 * 1024, COMPILED_BYTES_MAX];
pub(crate) const COMPILED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// For all patterns of a schema together.
pub(crate) const SCHEMA_COMPILED_BYTES_MAX: usize = 32 * 1024 * 1024;
pub(crate) const PATTERN_BYTES_MAX: usize = 4 * 1024;

/// What a pattern costs when compiled, or why it is refused and what to write instead.
pub(crate) fn price(pattern: &str) -> Result<usize, (String, &'static str)> {
    // Compiled exactly as the validator will do it, so that what passes here cannot fail there.
    let fits = |size: &usize| validator::options_with(*size).build(&json!({"pattern": pattern})).is_ok();
    match refused_syntax(pattern) {
        Some(refusal) => Err(refusal),
        None => SIZES.into_iter().find(fits).ok_or_else(|| unfit(pattern)),
    }
}

fn unfit(pattern: &str) -> (String, &'static str) {
    match ast::parse::Parser::new().parse(pattern) {
        Err(error) => (
            format!("the pattern is not a regular expression: {}", error.kind()),
            "correct it; a literal `.`, `(`, `[`, `{`, `*`, `+`, `?` needs a backslash before it",
        ),
        Ok(_) => (
            format!("the pattern needs more than {} MiB when compiled", COMPILED_BYTES_MAX / 1024 / 1024),
            "lower the counts in `{n,m}`, above all nested ones; limit the length with `maxLength`",
        ),
    }
}

fn refused_syntax(pattern: &str) -> Option<(String, &'static str)> {
    if pattern.len() > PATTERN_BYTES_MAX {
        let told = format!("the pattern has {} bytes, the limit is {PATTERN_BYTES_MAX}", pattern.len());
        return Some((told, "check the shape roughly here and the details in the tool"));
    }
    let error = ast::parse::Parser::new().parse(pattern).err()?;
    match error.kind() {
        ErrorKind::UnsupportedLookAround => Some((
            "the pattern uses look-around (`(?=`, `(?!`, `(?<=`, `(?<!`)".to_owned(),
            "look-around needs backtracking, which can take for ever: list what is allowed instead of what is not, or use `not` with a second `pattern`",
        )),
        ErrorKind::UnsupportedBackreference => Some((
            "the pattern uses a back-reference (`\\1`)".to_owned(),
            "back-references need backtracking, which can take for ever: compare the two values in the tool",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(pattern: &str, word: &str) {
        let (message, fix) = price(pattern).expect_err(pattern);
        assert!(message.contains(word), "{pattern}: {message}");
        assert!(!fix.is_empty());
    }

    #[test]
    fn linear_patterns_pass() {
        for pattern in [
            "^[a-z]+$",
            "",
            r"^\d{4}-\d{2}$",
            r"\p{L}+",
            r"^(?:a|b)*?c$",
            "^[A-Za-z0-9._%+-]+@[a-z.]{2,64}$",
            r"^\w{1,64}$",
            r"^\p{L}[\p{L}\p{N} '-]{0,63}$",
            r"^\/api\/v1\/.*$",
            "^[^/]{1,255}$",
            r"\cA",
            r"^.{1,1000}$",
        ] {
            assert!(price(pattern).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn patterns_that_explode_or_backtrack_are_refused() {
        refused("(a{1000}){1000}", "compiled");
        refused("(((x{50}){50}){50}){50}", "compiled");
        refused("^(?!admin).*$", "look-around");
        refused("(?<=a)b", "look-around");
        refused(r"^(?:a|(a))*\1b$", "back-reference");
        refused("[a-", "not a regular expression");
        refused("(", "not a regular expression");
        refused(&"a".repeat(5000), "bytes");
    }
}
