//! SPDX licence expressions: is what a crate offers among what we accept?

/// Whether `expression` can be met with licences of `allowed` alone. `OR` needs one side, `AND` both; an exception
/// (`A WITH B`) is a licence of its own. The old spelling `A/B` means `A OR B`.
pub fn permits(expression: &str, allowed: &[&str]) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, allowed };
    let permitted = parser.either()?;
    match parser.words.first() {
        None => Ok(permitted),
        Some(word) => Err(format!("`{word}` is out of place")),
    }
}

struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn either(&mut self) -> Result<bool, String> {
        let mut permitted = self.both()?;
        while self.take("OR") {
            permitted |= self.both()?;
        }
        Ok(permitted)
    }

    fn both(&mut self) -> Result<bool, String> {
        let mut permitted = self.term()?;
        while self.take("AND") {
            permitted &= self.term()?;
        }
        Ok(permitted)
    }

    fn term(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let permitted = self.either()?;
            return if self.take(")") { Ok(permitted) } else { Err("a `)` is missing".to_owned()) };
        }
        let licence = self.name()?;
        if self.take("WITH") {
            let excepted = format!("{licence} WITH {}", self.name()?);
            return Ok(self.allowed.contains(&excepted.as_str()));
        }
        Ok(self.allowed.contains(&licence))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        match self.words.split_first() {
            Some((word, rest)) if !matches!(*word, "OR" | "AND" | "WITH" | "(" | ")") => {
                self.words = rest;
                Ok(word)
            }
            _ => Err("a licence is missing".to_owned()),
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: Result<bool, &str>) {
        let allowed = ["MIT", "Apache-2.0", "ISC", "Apache-2.0 WITH LLVM-exception"];
        assert_eq!(permits(expression, &allowed), expected.map_err(str::to_owned), "{expression}");
    }

    #[test]
    fn expressions_are_read_by_their_precedence() {
        check("MIT", Ok(true));
        check("GPL-3.0-only", Ok(false));
        check("GPL-3.0-only OR MIT", Ok(true));
        check("MIT AND GPL-3.0-only", Ok(false));
        check("GPL-3.0-only AND MIT OR ISC", Ok(true));
        check("MIT OR ISC AND GPL-3.0-only", Ok(true));
        check("(MIT OR ISC) AND GPL-3.0-only", Ok(false));
        check("(MIT OR GPL-3.0-only) AND (ISC)", Ok(true));
        check("MIT/Apache-2.0", Ok(true));
        check("Apache-2.0 WITH LLVM-exception OR GPL-2.0", Ok(true));
        check("ISC WITH LLVM-exception", Ok(false));
    }

    #[test]
    fn broken_expressions_are_errors() {
        check("", Err("a licence is missing"));
        check("MIT OR", Err("a licence is missing"));
        check("(MIT", Err("a `)` is missing"));
        check("MIT ISC", Err("`ISC` is out of place"));
        check("MIT)", Err("`)` is out of place"));
    }
}
