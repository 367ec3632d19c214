//! Which operations of a document become tools, and how they are called and reached.

use toolgate_contracts::name::ToolName;
use toolgate_egress::Url;

use super::document::Document;
use super::naming::Named;
use super::operation::Item;
use crate::finding::{Finding, nearest, shown};

const PREFIX_CHARS_MAX: usize = 32;
const CHOICES_MAX: usize = 1_000;

/// An operation is chosen by its id, its name here, a tag or its path; where nothing is named, all are.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// `operationId`, `GET /path`, or the name of the tool.
    pub operations: Vec<String>,
    pub tags: Vec<String>,
    /// `*` is anything within a segment, `**` anything.
    pub paths: Vec<String>,
    /// The namespace of the tools: `billing` makes `billing.listInvoices`.
    pub prefix: Option<String>,
    /// Instead of the servers of the document.
    pub server: Option<String>,
    /// The secret with the credential, instead of one named after the document.
    pub secret: Option<String>,
    /// What the document is known by: it is the same document when it comes again under this name.
    pub source: Option<String>,
    /// Where the document was fetched, which its own relative addresses begin from.
    pub base: Option<Url>,
}

impl Choice {
    pub(crate) fn named(&self, document: &Document) -> String {
        self.source.clone().unwrap_or_else(|| document.title.clone())
    }

    pub(super) fn check(&self) -> Result<(), Finding> {
        if let Some(prefix) = &self.prefix
            && (prefix.len() > PREFIX_CHARS_MAX || prefix.contains('.') || prefix.parse::<ToolName>().is_err())
        {
            let message = format!("`{}` cannot stand before names", shown(prefix));
            let fix = format!("use a letter and then at most {} letters, digits, `_` or `-`", PREFIX_CHARS_MAX - 1);
            return Err(Finding::error("openapi.prefix", "/prefix", message, fix));
        }
        if self.operations.len() + self.tags.len() + self.paths.len() > CHOICES_MAX {
            let message = format!("more than {CHOICES_MAX} operations, tags and paths are named");
            return Err(Finding::error("openapi.choice", "", message, "choose by tag or path instead"));
        }
        Ok(())
    }

    pub(super) fn names(&self, item: &Item<'_>, named: Option<&Named>) -> bool {
        self.operations.iter().any(|wanted| is_called(wanted, item, named))
    }

    pub(super) fn takes(&self, item: &Item<'_>, named: Option<&Named>) -> bool {
        let all = self.operations.is_empty() && self.tags.is_empty() && self.paths.is_empty();
        all || self.names(item, named)
            || item.tags().any(|tag| self.tags.iter().any(|wanted| wanted == tag))
            || self.paths.iter().any(|pattern| matches(pattern, item.path))
    }

    /// What was named and is not there is a mistake, not an empty choice.
    pub(super) fn check_matches(&self, items: &[(Item<'_>, Option<Named>)]) -> Result<(), Vec<Finding>> {
        let mut findings = Vec::new();
        let mut missing = |pointer: String, message: String, near: Option<&str>, fix: &str| {
            let fix = near.map_or_else(|| fix.to_owned(), |near| format!("did you mean `{}`?", shown(near)));
            findings.push(Finding::error("openapi.choice", pointer, message, fix));
        };
        for (index, wanted) in self.operations.iter().enumerate() {
            if !items.iter().any(|(item, named)| is_called(wanted, item, named.as_ref())) {
                let ids = items.iter().filter_map(|(item, _)| item.id());
                let message = format!("there is no operation `{}`", shown(wanted));
                let fix = "name an `operationId`, or method and path as in `GET /pets`";
                missing(format!("/operations/{index}"), message, nearest(wanted, ids), fix);
            }
        }
        for (index, wanted) in self.tags.iter().enumerate() {
            if !items.iter().any(|(item, _)| item.tags().any(|tag| tag == wanted)) {
                let tags = items.iter().flat_map(|(item, _)| item.tags());
                let message = format!("no operation has the tag `{}`", shown(wanted));
                missing(format!("/tags/{index}"), message, nearest(wanted, tags), "name a tag of the document");
            }
        }
        for (index, pattern) in self.paths.iter().enumerate() {
            if !items.iter().any(|(item, _)| matches(pattern, item.path)) {
                let message = format!("no path fits `{}`", shown(pattern));
                let fix = "write a path of the document; `*` is anything within a segment, `**` anything";
                missing(format!("/paths/{index}"), message, None, fix);
            }
        }
        if findings.is_empty() { Ok(()) } else { Err(findings) }
    }
}

fn is_called(wanted: &str, item: &Item<'_>, named: Option<&Named>) -> bool {
    item.id() == Some(wanted)
        || named.is_some_and(|named| named.name.as_str() == wanted)
        || wanted
            .split_once(' ')
            .is_some_and(|(method, path)| method.eq_ignore_ascii_case(item.method.as_str()) && path.trim() == item.path)
}

/// By the columns of a table, so that no pattern takes longer than the two lengths together allow.
fn matches(pattern: &str, path: &str) -> bool {
    enum Token {
        Character(char),
        Within,
        Anything,
    }
    let mut tokens = Vec::new();
    let mut characters = pattern.chars().peekable();
    while let Some(c) = characters.next() {
        tokens.push(match c {
            '*' if characters.next_if_eq(&'*').is_some() => Token::Anything,
            '*' => Token::Within,
            c => Token::Character(c),
        });
    }
    let path: Vec<char> = path.chars().collect();
    // Whether what was read of the pattern fits the first so many characters.
    let mut fits = vec![false; path.len() + 1];
    fits[0] = true;
    for token in tokens {
        match token {
            Token::Character(c) => {
                for end in (1..=path.len()).rev() {
                    fits[end] = fits[end - 1] && path[end - 1] == c;
                }
                fits[0] = false;
            }
            Token::Within => {
                for end in 1..=path.len() {
                    fits[end] = fits[end] || (fits[end - 1] && path[end - 1] != '/');
                }
            }
            Token::Anything => {
                for end in 1..=path.len() {
                    fits[end] = fits[end] || fits[end - 1];
                }
            }
        }
    }
    fits[path.len()]
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stays_in_its_segment() {
        for (pattern, path, expected) in [
            ("/pets", "/pets", true),
            ("/pets", "/pets/{id}", false),
            ("/pets/*", "/pets/{id}", true),
            ("/pets/*", "/pets/{id}/toys", false),
            ("/pets/**", "/pets/{id}/toys", true),
            ("**/toys", "/pets/{id}/toys", true),
            ("/p*s", "/pets", true),
            ("*", "/pets", false),
            ("", "/", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}
