//! `hidden_characters`: what a reader does not see and a model reads, or what rearranges what a reader sees.
//!
//! Emoji, flags, Persian and Indic words and texts with a byte order mark use some of these rightly, and pass.

use serde::Deserialize;
use toolgate_contracts::Fault;
use toolgate_contracts::unseen::is_unseen;

use super::Kinds;
use super::walk::{Found, Leaf};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Characters that turn the direction of what follows.
    Bidi,
    ZeroWidth,
    /// The invisible copies of ASCII at U+E0000, and variation selectors in a row, which carry text as well.
    Tags,
    /// C0 and C1, without tab and line ends.
    Control,
    /// Terminal sequences.
    Ansi,
}

const ALL: [Kind; 5] = [Kind::Bidi, Kind::ZeroWidth, Kind::Tags, Kind::Control, Kind::Ansi];

impl Kind {
    const fn shown(self) -> &'static str {
        match self {
            Self::Bidi => "text that is shown in another order than it is read",
            Self::ZeroWidth => "an invisible character",
            Self::Tags => "text in invisible characters",
            Self::Control => "a control character",
            Self::Ansi => "a terminal sequence",
        }
    }
}

#[derive(Clone, Debug)]
pub struct HiddenCharacters(Vec<Kind>);

impl HiddenCharacters {
    pub fn new(config: &Kinds<Kind>) -> Result<Self, Fault> {
        config.chosen(&ALL).map(Self)
    }

    pub fn look(&self, leaf: &Leaf<'_>, found: &mut Found) {
        let Some(text) = leaf.text() else { return };
        // Nothing below is in printable ASCII.
        if text.bytes().all(|byte| (0x20..0x7f).contains(&byte) || matches!(byte, b'\n' | b'\r' | b'\t')) {
            return;
        }
        let mut before = None;
        let mut rest = text.char_indices();
        while let Some((index, character)) = rest.next() {
            if before == Some(FLAG) && is_tag(character) {
                let length = flag_length(&text[index..]);
                if length > 0 {
                    while rest.offset() < index + length {
                        rest.next();
                    }
                    before = Some(FLAG_END);
                    continue;
                }
            }
            let after = rest.as_str().chars().next();
            if let Some(kind) = kind_of(before, character, after, index == 0)
                && self.0.contains(&kind)
            {
                found.mark(kind.shown());
            }
            before = Some(character);
        }
    }
}

const FLAG: char = '\u{1f3f4}';
const FLAG_END: char = '\u{e007f}';
const JOINER: char = '\u{200d}';
const NON_JOINER: char = '\u{200c}';

fn kind_of(before: Option<char>, character: char, after: Option<char>, is_first: bool) -> Option<Kind> {
    match character {
        '\u{1b}' | '\u{9b}' => Some(Kind::Ansi),
        '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => None,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => Some(Kind::Control),
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Some(Kind::Bidi),
        // Marks belong between letters of both directions; between others they only hide.
        '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            (![before, after].into_iter().flatten().any(is_right_to_left)).then_some(Kind::Bidi)
        }
        '\u{feff}' => (!is_first).then_some(Kind::ZeroWidth),
        JOINER => (!(before.is_some_and(joins) && after.is_some_and(joins))).then_some(Kind::ZeroWidth),
        NON_JOINER => (!(before.is_some_and(is_joining_script) && after.is_some_and(is_joining_script)))
            .then_some(Kind::ZeroWidth),
        // A place where a word may break; in anything but a word it hides.
        '\u{ad}' => (!(before.is_some_and(char::is_alphabetic) && after.is_some_and(char::is_alphabetic)))
            .then_some(Kind::ZeroWidth),
        // A cell without dots, among cells with some.
        '\u{2800}' => (![before, after].into_iter().flatten().any(|c| matches!(c, '\u{2801}'..='\u{28ff}')))
            .then_some(Kind::ZeroWidth),
        _ if is_tag(character) => Some(Kind::Tags),
        _ if is_selector(character) => {
            (before.is_none_or(|before| is_selector(before) || before.is_ascii_whitespace())).then_some(Kind::Tags)
        }
        // Fonts of terminals and pages have signs of their own here, which are seen.
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'.. => None,
        _ => is_unseen(character).then_some(Kind::ZeroWidth),
    }
}

fn is_tag(character: char) -> bool {
    matches!(character, '\u{e0000}'..='\u{e007f}')
}

fn is_selector(character: char) -> bool {
    matches!(character, '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// The bytes of the tags that make a black flag the flag of a region: three to six letters or digits, and the end.
fn flag_length(text: &str) -> usize {
    let end = text.char_indices().take(8).find(|(_, character)| *character == FLAG_END);
    let letters = |text: &str| text.chars().all(|c| matches!(c, '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}'));
    match end {
        Some((end, _)) if (3..=6).contains(&text[..end].chars().count()) && letters(&text[..end]) => {
            end + FLAG_END.len_utf8()
        }
        _ => 0,
    }
}

/// Emoji, their modifiers, and scripts whose letters join.
fn joins(character: char) -> bool {
    is_joining_script(character)
        || is_selector(character)
        || matches!(character, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

fn is_joining_script(character: char) -> bool {
    matches!(character, '\u{600}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{18af}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
}

fn is_right_to_left(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}
