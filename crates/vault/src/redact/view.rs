//! A text as it reads after escapes are undone, and where each byte came from.
//!
//! Undoing is without memory: what stands at a place decides alone how it is read. So a text may be cut between any
//! two pieces and its rest reads as before, which the stream relies on.

use std::borrow::Cow;
use std::ops::Range;

/// Stacked encodings are undone this deep: JSON in JSON, percent in JSON.
const DEPTH_MAX: usize = 2;
/// A run of line breaks and indentation longer than this is no wrapped line.
const WRAP_BYTES_MAX: usize = 64;
/// No piece of any view is judged by more bytes than this.
const LOOKS_AHEAD_MAX: usize = WRAP_BYTES_MAX + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undo {
    /// `\n`, `\/`, `\u00e9` (pairs of surrogates too), `\x41`.
    Backslash,
    /// The same behind a stray backslash, which would otherwise take the first escape's own for its partner.
    Stray,
    /// `%41`.
    Percent,
    /// `%41`, and `+` for a space.
    Form,
    /// `&amp;`, `&#65;`, `&#x41;`.
    Entity,
    /// Line breaks with the indentation behind them.
    Wrap,
}

/// One place that reads otherwise than it is written: `out` bytes at `at` of the view, for `raw` of what is below.
#[derive(Clone, Debug)]
struct Undone {
    at: usize,
    out: usize,
    raw: Range<usize>,
}

pub(super) struct View<'a> {
    bytes: Cow<'a, [u8]>,
    /// In order; between them the view is what is below it.
    undone: Vec<Undone>,
    below: Option<&'a View<'a>>,
    /// How many bytes of the view cannot change when more text comes.
    stable: usize,
    /// How many views may stand on this one.
    depth: usize,
}

/// Shows every view of the text, the text itself first.
pub(super) fn visit(text: &[u8], plus_is_space: bool, show: &mut impl FnMut(&View<'_>)) {
    let view =
        View { bytes: Cow::Borrowed(text), undone: Vec::new(), below: None, stable: text.len(), depth: DEPTH_MAX };
    descend(&view, plus_is_space, show);
}

fn descend(view: &View<'_>, plus_is_space: bool, show: &mut impl FnMut(&View<'_>)) {
    show(view);
    if view.depth == 0 {
        return;
    }
    for undo in [Undo::Backslash, Undo::Stray, Undo::Percent, Undo::Form, Undo::Entity, Undo::Wrap] {
        // These read like their neighbours in the list but for one thing.
        let is_needed = match undo {
            Undo::Stray => view.bytes.windows(2).any(|pair| pair == b"\\\\"),
            Undo::Form => plus_is_space && view.bytes.contains(&b'+'),
            Undo::Backslash | Undo::Percent | Undo::Entity | Undo::Wrap => true,
        };
        if is_needed && let Some(above) = view.undo(undo) {
            descend(&above, plus_is_space, show);
        }
    }
}

impl View<'_> {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Which bytes of the text a part of the view was read from.
    pub fn raw(&self, part: Range<usize>) -> Range<usize> {
        if part.is_empty() {
            let at = self.raw_start(part.start);
            return at..at;
        }
        self.raw_start(part.start)..self.raw_end(part.end - 1)
    }

    /// Where in the text the byte at `at` begins; for the end of the view, where the text ends.
    fn raw_start(&self, at: usize) -> usize {
        let start = self.below_of(at).start;
        self.below.map_or(start, |below| below.raw_start(start))
    }

    fn raw_end(&self, at: usize) -> usize {
        let end = self.below_of(at).end;
        self.below.map_or(end, |below| below.raw_end(end - 1))
    }

    /// Which bytes of the view below the byte at `at` was read from.
    fn below_of(&self, at: usize) -> Range<usize> {
        let next = self.undone.partition_point(|undone| undone.at + undone.out <= at);
        match self.undone.get(next) {
            Some(undone) if undone.at <= at => undone.raw.clone(),
            _ => {
                let start = match next.checked_sub(1).and_then(|last| self.undone.get(last)) {
                    Some(last) => last.raw.end + (at - last.at - last.out),
                    None => at,
                };
                start..start + 1
            }
        }
    }

    /// The nearest place at or before `cut` of the text where a piece of this view begins, and the view's place there.
    pub fn floor(&self, cut: usize) -> (usize, usize) {
        let (mut low, mut high) = (0, self.bytes.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.raw_start(middle) <= cut { low = middle + 1 } else { high = middle }
        }
        match low.checked_sub(1) {
            // Several bytes of one escape begin together: the first of them.
            Some(last) => {
                let start = self.raw_start(last);
                let mut first = last;
                while first > 0 && self.raw_start(first - 1) == start {
                    first -= 1;
                }
                (start, first)
            }
            None => (0, 0),
        }
    }

    /// Where in the text the earliest piece begins that could be part of a find not yet seen, if finds are up to
    /// `longest` bytes and look one byte further.
    pub fn open_from(&self, longest: usize) -> usize {
        // A view on this one that has nothing to undo yet may have, with what comes.
        let reach = longest + self.depth * LOOKS_AHEAD_MAX;
        self.stable.checked_sub(reach).map_or(0, |at| self.raw_start(at))
    }

    /// Where in the text the piece before the one at `cut` begins.
    pub fn before(&self, cut: usize) -> usize {
        let (_, at) = self.floor(cut);
        at.checked_sub(1).map_or(0, |before| self.raw_start(before))
    }

    /// `None` if there is nothing to undo.
    fn undo(&self, undo: Undo) -> Option<View<'_>> {
        let bytes = &*self.bytes;
        let mut undone = Vec::new();
        let mut out = Vec::new();
        let (mut at, mut copied) = (0, 0);
        while let Some(next) = bytes[at..].iter().position(|byte| undo.begins(*byte)) {
            at += next;
            let Some((read, length)) = undo.read(&bytes[at..]) else {
                at += 1;
                continue;
            };
            out.extend_from_slice(&bytes[copied..at]);
            undone.push(Undone { at: out.len(), out: read.len(), raw: at..at + length });
            out.extend_from_slice(read.as_slice());
            at += length;
            copied = at;
        }
        if undone.is_empty() {
            return None;
        }
        out.extend_from_slice(&bytes[copied..]);
        let depth = self.depth.saturating_sub(1);
        let mut view = View { bytes: Cow::Owned(out), undone, below: Some(self), stable: 0, depth };
        // A piece near the end may be read otherwise when more comes.
        let certain = self.stable.saturating_sub(undo.looks_ahead());
        let (mut low, mut high) = (0, view.bytes.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if view.below_of(middle).start < certain { low = middle + 1 } else { high = middle }
        }
        view.stable = low;
        Some(view)
    }
}

/// Up to four bytes: one character, or nothing.
#[derive(Clone, Copy, Default)]
struct Read {
    bytes: [u8; 4],
    length: usize,
}

impl Read {
    fn byte(byte: u8) -> Self {
        Self { bytes: [byte, 0, 0, 0], length: 1 }
    }

    fn char(char: char) -> Self {
        let mut bytes = [0; 4];
        let length = char.encode_utf8(&mut bytes).len();
        Self { bytes, length }
    }

    fn len(&self) -> usize {
        self.length
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Undo {
    fn begins(self, byte: u8) -> bool {
        match self {
            Self::Backslash | Self::Stray => byte == b'\\',
            Self::Percent => byte == b'%',
            Self::Form => matches!(byte, b'%' | b'+'),
            Self::Entity => byte == b'&',
            Self::Wrap => matches!(byte, b'\n' | b'\r'),
        }
    }

    /// No piece is judged by more bytes than this, of the view below.
    fn looks_ahead(self) -> usize {
        match self {
            Self::Backslash | Self::Stray => 12,
            Self::Percent | Self::Form => 3,
            Self::Entity => ENTITY_BYTES_MAX,
            Self::Wrap => LOOKS_AHEAD_MAX,
        }
    }

    /// How the beginning of `bytes` reads, and how many of them that takes. `None`: as it is written.
    fn read(self, bytes: &[u8]) -> Option<(Read, usize)> {
        match self {
            Self::Stray if bytes.get(1) == Some(&b'\\') => None,
            Self::Backslash | Self::Stray => backslash(bytes),
            Self::Form if bytes.first() == Some(&b'+') => Some((Read::byte(b' '), 1)),
            Self::Percent | Self::Form => Some((Read::byte(u8::try_from(hex(bytes.get(1..3)?)?).ok()?), 3)),
            Self::Entity => entity(bytes),
            Self::Wrap => wrap(bytes).map(|length| (Read::default(), length)),
        }
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

fn backslash(bytes: &[u8]) -> Option<(Read, usize)> {
    let plain = |byte| Some((Read::byte(byte), 2));
    match bytes.get(1)? {
        byte @ (b'"' | b'\'' | b'\\' | b'/') => plain(*byte),
        b'b' => plain(8),
        b'f' => plain(12),
        b'n' => plain(b'\n'),
        b'r' => plain(b'\r'),
        b't' => plain(b'\t'),
        b'x' => Some((Read::byte(u8::try_from(hex(bytes.get(2..4)?)?).ok()?), 4)),
        b'u' => {
            let unit = hex(bytes.get(2..6)?)?;
            if let Some(char) = char::from_u32(unit) {
                return Some((Read::char(char), 6));
            }
            let low = bytes.get(6..8).filter(|next| next == b"\\u").and_then(|_| hex(bytes.get(8..12)?))?;
            let pair = [u16::try_from(unit).ok()?, u16::try_from(low).ok()?];
            char::decode_utf16(pair).next()?.ok().map(|char| (Read::char(char), 12))
        }
        _ => None,
    }
}

const ENTITY_BYTES_MAX: usize = 12;
/// What escapers write by name; others write numbers.
const ENTITIES: [(&[u8], char); 17] = [
    (b"amp", '&'),
    (b"lt", '<'),
    (b"gt", '>'),
    (b"quot", '"'),
    (b"apos", '\''),
    (b"sol", '/'),
    (b"bsol", '\\'),
    (b"plus", '+'),
    (b"equals", '='),
    (b"lowbar", '_'),
    (b"grave", '`'),
    (b"num", '#'),
    (b"dollar", '$'),
    (b"percnt", '%'),
    (b"colon", ':'),
    (b"commat", '@'),
    (b"excl", '!'),
];

fn entity(bytes: &[u8]) -> Option<(Read, usize)> {
    let end = bytes.iter().take(ENTITY_BYTES_MAX).position(|byte| *byte == b';')?;
    let name = &bytes[1..end];
    let char = match name {
        [b'#', b'x' | b'X', digits @ ..] if !digits.is_empty() => char::from_u32(hex(digits)?)?,
        [b'#', digits @ ..] if !digits.is_empty() => {
            let number = digits
                .iter()
                .try_fold(0_u32, |value, digit| value.checked_mul(10)?.checked_add(char::from(*digit).to_digit(10)?));
            char::from_u32(number?)?
        }
        _ => ENTITIES.iter().find(|(known, _)| *known == name)?.1,
    };
    Some((Read::char(char), end + 1))
}

/// How long the run of line breaks and indentation is.
fn wrap(bytes: &[u8]) -> Option<usize> {
    let length = bytes
        .iter()
        .take(WRAP_BYTES_MAX + 1)
        .position(|byte| !matches!(byte, b'\n' | b'\r' | b' ' | b'\t'))
        .unwrap_or(bytes.len().min(WRAP_BYTES_MAX + 1));
    (length <= WRAP_BYTES_MAX).then_some(length)
}
