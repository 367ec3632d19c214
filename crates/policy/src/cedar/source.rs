//! The text of a policy set as words with places, so that a finding names its line and column.
//!
//! Not a parser: Cedar's own reads the policies. Only what is needed to find a word again is told apart here: comments,
//! strings, names, and the semicolon that ends a policy.

use std::ops::Range;

use super::finding::{Gravity, PolicyFinding};
use super::{NESTING_MAX, POLICY_WORDS_MAX};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Name,
    Text,
    Mark,
}

#[derive(Clone, Copy, Debug)]
struct Word {
    kind: Kind,
    start: usize,
    end: usize,
}

pub(super) struct Source<'a> {
    text: &'a str,
    words: Vec<Word>,
    /// Which words each policy has, in order.
    policies: Vec<Range<usize>>,
}

impl<'a> Source<'a> {
    pub fn read(text: &'a str) -> Self {
        let words = words(text);
        let mut policies = Vec::new();
        let mut first = 0;
        for (place, word) in words.iter().enumerate() {
            if word.kind == Kind::Mark && &text[word.start..word.end] == ";" {
                policies.push(first..place);
                first = place + 1;
            }
        }
        Self { text, words, policies }
    }

    fn of(&self, policy: usize) -> impl Iterator<Item = (&'a str, Word)> + '_ {
        let range = self.policies.get(policy).cloned().unwrap_or(0..0);
        self.words[range].iter().map(|word| (&self.text[word.start..word.end], *word))
    }

    /// The place of a policy with too many words or too deep brackets, and what is too much.
    pub fn too_large(&self) -> Option<(usize, &'static str, usize)> {
        let ended = self.policies.last().map_or(0, |last| last.end + 1);
        let rest = ended.min(self.words.len())..self.words.len();
        let ranges = self.policies.iter().cloned().chain(std::iter::once(rest));
        for range in ranges {
            let words = &self.words[range];
            let start = words.first().map_or(0, |word| word.start);
            // A list of texts is long and not deep.
            let flat = |word: &&Word| word.kind == Kind::Text || &self.text[word.start..word.end] == ",";
            if words.iter().filter(|word| !flat(word)).count() > POLICY_WORDS_MAX {
                return Some((start, "words and signs", POLICY_WORDS_MAX));
            }
            // Members of members and sums (`a.b.c + d`) are as deep as brackets: how many there are so far, within each.
            let (mut depth, mut members) = (0_usize, vec![0_usize]);
            for word in words.iter().filter(|word| word.kind != Kind::Text) {
                match (word.kind, &self.text[word.start..word.end]) {
                    (_, "(" | "[" | "{") => {
                        depth += 1;
                        members.push(0);
                    }
                    (_, ")" | "]" | "}") => {
                        depth = depth.saturating_sub(1);
                        members.pop();
                    }
                    (_, "if") => depth += 1,
                    (_, "." | "+" | "-" | "*") => members.iter_mut().last().into_iter().for_each(|count| *count += 1),
                    (Kind::Mark, _) => members.iter_mut().last().into_iter().for_each(|count| *count = 0),
                    (Kind::Name | Kind::Text, _) => {}
                }
                if depth > NESTING_MAX || members.last().is_some_and(|count| *count > NESTING_MAX) {
                    return Some((word.start, "brackets, members, sums or `if` within each other", NESTING_MAX));
                }
            }
        }
        None
    }

    /// Where a policy begins.
    pub fn start(&self, policy: usize) -> usize {
        self.of(policy).next().map_or(0, |(_, word)| word.start)
    }

    /// Where a policy's annotation is.
    pub fn annotation(&self, policy: usize, name: &str) -> usize {
        let words: Vec<_> = self.of(policy).collect();
        words
            .windows(2)
            .find(|pair| pair[0].0 == "@" && pair[1].0 == name)
            .map_or_else(|| self.start(policy), |pair| pair[0].1.start)
    }

    /// Where a policy says `Kind::"id"`.
    pub fn entity(&self, policy: usize, kind: &str, id: &str) -> usize {
        let words: Vec<_> = self.of(policy).filter(|(text, _)| *text != ":").collect();
        words
            .windows(2)
            .find(|pair| pair[0].0 == kind && pair[1].1.kind == Kind::Text && is_text(pair[1].0, id))
            .map_or_else(|| self.start(policy), |pair| pair[0].1.start)
    }

    /// Where a policy says a name or a string of that content.
    pub fn said(&self, policy: usize, said: &str) -> usize {
        self.of(policy)
            .find(|(text, word)| match word.kind {
                Kind::Name => *text == said,
                Kind::Text => is_text(text, said),
                Kind::Mark => false,
            })
            .map_or_else(|| self.start(policy), |(_, word)| word.start)
    }

    /// Line and column, both counted from one, the column in characters.
    pub fn place(&self, offset: usize) -> (u32, u32) {
        let offset = (0..=offset.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        let before = &self.text[..offset];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }

    pub fn finding(
        &self,
        gravity: Gravity,
        code: &'static str,
        policy: Option<&str>,
        offset: usize,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> PolicyFinding {
        let (line, column) = self.place(offset);
        PolicyFinding {
            gravity,
            code: code.into(),
            policy: policy.map(str::to_owned),
            line,
            column,
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}

/// Escapes are rare enough that a string with one is found only where it is spelled the same.
fn is_text(literal: &str, content: &str) -> bool {
    literal.strip_prefix('"').and_then(|text| text.strip_suffix('"')) == Some(content)
}

fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((start, c)) = rest.next() {
        let mut end = start + c.len_utf8();
        let kind = match c {
            '/' if rest.peek().is_some_and(|(_, next)| *next == '/') => {
                while rest.next_if(|(_, c)| *c != '\n').is_some() {}
                continue;
            }
            '"' => {
                let mut escaped = false;
                for (at, c) in rest.by_ref() {
                    end = at + c.len_utf8();
                    match c {
                        _ if escaped => escaped = false,
                        '\\' => escaped = true,
                        '"' => break,
                        _ => {}
                    }
                }
                Kind::Text
            }
            c if c.is_alphanumeric() || c == '_' => {
                while let Some((at, c)) = rest.next_if(|(_, c)| c.is_alphanumeric() || *c == '_') {
                    end = at + c.len_utf8();
                }
                Kind::Name
            }
            c if c.is_whitespace() => continue,
            _ => Kind::Mark,
        };
        words.push(Word { kind, start, end });
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_where_it_stands() {
        let text = "// a; \"comment\n@id(\"é;\")\npermit(principal, action, resource);\n\n@mode(\"x\") forbid(principal, \
                    action, resource == Tool::\"pay\") when { context.args.to == \"a\\\"b\" };";
        let source = Source::read(text);
        assert_eq!(source.policies.len(), 2);
        let check = |offset: usize, line: u32, column: u32| assert_eq!(source.place(offset), (line, column));
        check(source.start(0), 2, 1);
        check(source.start(1), 5, 1);
        check(source.annotation(1, "mode"), 5, 1);
        check(source.annotation(1, "absent"), 5, 1);
        check(source.entity(1, "Tool", "pay"), 5, 50);
        check(source.said(1, "to"), 5, 83);
        check(text.len() + 10, 5, 98);
    }

    #[test]
    fn unfinished_text_is_read_to_its_end() {
        for text in ["", "permit(", "@id(\"open", "\"\\", "// only", "é\"é"] {
            let source = Source::read(text);
            assert_eq!(source.start(0), 0);
            assert!(source.place(text.len()).0 >= 1);
        }
    }
}
