//! Takes secret values out of whatever leaves: every one goes, in any encoding, and `[secret:NAME]` stands in its place.
//!
//! A text is read in several views (as it is, with escapes undone, without line breaks; see [`view`]), and each view is
//! searched for the value and its encodings (see [`patterns`]). So a value is found also where encodings are mixed or
//! stacked two deep, and where no list of spellings would have it.
//! Deliberately absent: guessing what looks like a secret. Only values that were handed in are found.

mod patterns;
mod stream;
mod view;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::{Map, Value};
use toolgate_contracts::Fault;

use crate::secret::Secret;
use patterns::{Edges, Pattern};
pub use stream::RedactorStream;
use view::View;

/// Cheap to clone; without secrets it costs nothing.
#[derive(Clone, Default)]
pub struct Redactor(Option<Arc<Inner>>);

struct Inner {
    searcher: AhoCorasick,
    /// Per pattern of `searcher`: its secret and what may stand beside it.
    found: Vec<(usize, Edges)>,
    /// Per secret, what stands in its place.
    placeholders: Vec<String>,
    /// A pattern has a space, so `+` may stand for one.
    spaces: bool,
    /// In bytes of a view.
    longest: usize,
}

/// A part of the text to be replaced, and by the placeholder of which secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    start: usize,
    /// Longer ones first among those that start together.
    end: std::cmp::Reverse<usize>,
    secret: usize,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} secrets)", self.0.as_ref().map_or(0, |inner| inner.placeholders.len()))
    }
}

impl Redactor {
    pub const fn none() -> Self {
        Self(None)
    }

    /// Of these secrets. A fault only if the values are so large (gigabytes) that no searcher can be made: then
    /// nothing may leave.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Result<Self, Fault> {
        Self::of_values(secrets.into_iter().map(|secret| (secret.name(), secret.expose())))
    }

    /// Of named values. The first name wins where two have the same value.
    pub fn of_values<'a>(values: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self, Fault> {
        let mut placeholders = Vec::new();
        let mut patterns: Vec<(Pattern, usize)> = Vec::new();
        for (name, value) in values {
            let secret = placeholders.len();
            placeholders.push(format!("[secret:{name}]"));
            patterns.extend(patterns::of(value).into_iter().map(|pattern| (pattern, secret)));
        }
        if patterns.is_empty() {
            return Ok(Self::none());
        }
        let searcher = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            // Made anew for each call: what is built fast is better than what searches fastest.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(patterns.iter().map(|(pattern, _)| &*pattern.bytes))
            .map_err(|error| Fault::internal(format!("no searcher for secrets: {error}")))?;
        Ok(Self(Some(Arc::new(Inner {
            searcher,
            placeholders,
            spaces: patterns.iter().any(|(pattern, _)| pattern.bytes.contains(&b' ')),
            longest: patterns.iter().map(|(pattern, _)| pattern.bytes.len()).max().unwrap_or(0),
            found: patterns.into_iter().map(|(pattern, secret)| (secret, pattern.edges)).collect(),
        }))))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn redact_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(inner) = &self.0 else { return Cow::Borrowed(text) };
        let found = inner.find(text.as_bytes(), |range| to_chars(text, range));
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut redacted = String::with_capacity(text.len());
        let mut done = 0;
        for Found { start, end, secret } in found {
            redacted.push_str(&text[done..start]);
            redacted.push_str(&inner.placeholders[secret]);
            done = end.0;
        }
        redacted.push_str(&text[done..]);
        Cow::Owned(redacted)
    }

    /// For what is not, or not surely, UTF-8.
    pub fn redact_bytes<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let Some(inner) = &self.0 else { return Cow::Borrowed(bytes) };
        let found = inner.find(bytes, |range| range);
        if found.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut redacted = Vec::with_capacity(bytes.len());
        let mut done = 0;
        for Found { start, end, secret } in found {
            redacted.extend_from_slice(&bytes[done..start]);
            redacted.extend_from_slice(inner.placeholders[secret].as_bytes());
            done = end.0;
        }
        redacted.extend_from_slice(&bytes[done..]);
        Cow::Owned(redacted)
    }

    /// Strings and keys at any depth; a number whose digits are a secret becomes the placeholder.
    #[must_use]
    pub fn redact_json(&self, value: Value) -> Value {
        if self.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.redact_string(text)),
            Value::Number(number) => match self.redact_text(&number.to_string()) {
                Cow::Borrowed(_) => Value::Number(number),
                Cow::Owned(redacted) => Value::String(redacted),
            },
            Value::Array(items) => items.into_iter().map(|item| self.redact_json(item)).collect(),
            Value::Object(members) => {
                let mut redacted = Map::with_capacity(members.len());
                for (key, value) in members {
                    let mut key = self.redact_string(key);
                    // Two keys may have become alike; neither value is dropped for that.
                    while redacted.contains_key(&key) {
                        key.push('_');
                    }
                    redacted.insert(key, self.redact_json(value));
                }
                Value::Object(redacted)
            }
            Value::Null | Value::Bool(_) => value,
        }
    }

    /// Of a text that was cut: what stands at its end and may be the beginning of a secret goes too.
    pub fn redact_beginning(&self, text: &str) -> String {
        self.stream().push(text)
    }

    fn redact_string(&self, text: String) -> String {
        match self.redact_text(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(redacted) => redacted,
        }
    }

    /// For text that comes in pieces.
    pub fn stream(&self) -> RedactorStream {
        RedactorStream::new(self.clone())
    }
}

impl Inner {
    /// What to replace, in order and without overlaps.
    fn find(&self, bytes: &[u8], widen: impl Fn(Range<usize>) -> Range<usize>) -> Vec<Found> {
        let mut found = Vec::new();
        view::visit(bytes, self.spaces, &mut |view| self.search(view, &widen, &mut found));
        merge(found)
    }

    fn search(&self, view: &View<'_>, widen: &impl Fn(Range<usize>) -> Range<usize>, found: &mut Vec<Found>) {
        let bytes = view.bytes();
        // Overlapping ones too: of two secrets that share a part, neither leaves its other part behind.
        for hit in self.searcher.find_overlapping_iter(bytes) {
            let (secret, edges) = self.found[hit.pattern().as_usize()];
            if edges == Edges::Token && !is_token(bytes, hit.range()) {
                continue;
            }
            let Range { start, end } = widen(view.raw(hit.range()));
            found.push(Found { start, end: std::cmp::Reverse(end), secret });
        }
    }
}

/// What overlaps becomes one, under the name of what begins first.
fn merge(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_unstable();
    let mut merged: Vec<Found> = Vec::new();
    for next in found {
        match merged.last_mut() {
            Some(last) if next.start < last.end.0 => last.end.0 = last.end.0.max(next.end.0),
            _ => merged.push(next),
        }
    }
    merged
}

/// A pattern of bytes may begin or end within a character.
fn to_chars(text: &str, Range { start, end }: Range<usize>) -> Range<usize> {
    text.floor_char_boundary(start)..text.ceil_char_boundary(end)
}

/// Whether nothing beside the range makes it part of a longer word.
fn is_token(bytes: &[u8], Range { start, end }: Range<usize>) -> bool {
    let is_word = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii())
    };
    let within = |inner, outer| is_word(inner) && is_word(outer);
    !within(Some(start), start.checked_sub(1)) && !within(end.checked_sub(1), Some(end))
}
