//! Redaction of text that comes in pieces: what is given out is what the whole text would have given.
//!
//! Held back is what could still become part of a secret. What was given out last stays in view, since a short value
//! is a word of its own only if nothing before it joins it.

use std::cmp::Reverse;

use super::{Found, Inner, Redactor, merge, to_chars, view};

pub struct RedactorStream {
    redactor: Redactor,
    text: String,
    /// How much at the beginning of `text` was given out.
    given: usize,
}

/// Whether more text may come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    MayCome,
    No,
}

impl RedactorStream {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, text: String::new(), given: 0 }
    }

    /// Takes a piece, and gives what is now certain.
    pub fn push(&mut self, piece: &str) -> String {
        let Some(inner) = self.redactor.0.clone() else { return piece.to_owned() };
        self.text.push_str(piece);
        if self.text.len() - self.given <= inner.longest {
            return String::new();
        }
        self.give(&inner, More::MayCome)
    }

    /// Gives the rest.
    pub fn finish(mut self) -> String {
        let Some(inner) = self.redactor.0.clone() else { return String::new() };
        self.give(&inner, More::No)
    }

    fn give(&mut self, inner: &Inner, more: More) -> String {
        let Self { text, given, .. } = self;
        let mut found = Vec::new();
        let mut cut = text.len();
        view::visit(text.as_bytes(), inner.spaces, &mut |view| {
            inner.search(view, &|range| to_chars(text, range), &mut found);
            if more == More::MayCome {
                cut = cut.min(view.open_from(inner.longest));
            }
        });
        // What begins in what was given out was judged then, with more before it in view.
        found.retain(|found| found.start >= *given);
        let found = merge(found);
        cut = Self::settle(text, inner, &found, cut).max(*given);

        let mut out = String::new();
        let mut done = *given;
        for Found { start, end: Reverse(end), secret } in found.into_iter().take_while(|found| found.start < cut) {
            out.push_str(&text[done..start]);
            out.push_str(&inner.placeholders[secret]);
            done = end;
        }
        out.push_str(&text[done..cut]);

        let mut keep = cut;
        view::visit(text.as_bytes(), inner.spaces, &mut |view| keep = keep.min(view.before(cut)));
        let keep = Self::settle(text, inner, &[], keep);
        text.drain(..keep);
        *given = cut - keep;
        out
    }

    /// The nearest place at or before `cut` that is within no character, no escape of any view, and nothing found.
    fn settle(text: &str, inner: &Inner, found: &[Found], mut cut: usize) -> usize {
        if cut == text.len() {
            return cut;
        }
        loop {
            let before = cut;
            cut = text.floor_char_boundary(cut);
            if let Some(crossed) = found.iter().find(|found| found.start < cut && cut < found.end.0) {
                cut = crossed.start;
            }
            view::visit(text.as_bytes(), inner.spaces, &mut |view| cut = cut.min(view.floor(cut).0));
            if cut == before {
                return cut;
            }
        }
    }
}
