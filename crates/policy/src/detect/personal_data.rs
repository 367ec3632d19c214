//! `personal_data`: e-mail addresses, telephone numbers, bank accounts, payment cards, US social security numbers.
//!
//! What has a checksum must pass it, so that ordinary long numbers do not match.

use regex::Regex;
use serde::Deserialize;
use toolgate_contracts::Fault;

use super::walk::{Content, Found, Leaf};
use super::{Kinds, compile};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Email,
    Phone,
    Iban,
    Card,
    Ssn,
}

const ALL: [Kind; 5] = [Kind::Email, Kind::Phone, Kind::Iban, Kind::Card, Kind::Ssn];

impl Kind {
    const fn shown(self) -> &'static str {
        match self {
            Self::Email => "an e-mail address",
            Self::Phone => "a telephone number",
            Self::Iban => "a bank account number",
            Self::Card => "a payment card number",
            Self::Ssn => "a social security number",
        }
    }

    const fn pattern(self) -> &'static str {
        match self {
            Self::Email => r"(?i-u)[a-z0-9._%+-]{1,64}@(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,24}",
            Self::Phone => r"\+[1-9](?:[ .\-()]{0,2}[0-9]){6,14}",
            Self::Iban => r"[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}",
            // In one piece, or in groups as on the card: a list of small numbers is no card.
            Self::Card => {
                r"[0-9]{4}[ -][0-9]{4}[ -][0-9]{4}[ -][0-9]{1,4}(?:[ -][0-9]{1,3})?|[0-9]{4}[ -][0-9]{6}[ -][0-9]{4,5}|[0-9]{13,19}"
            }
            Self::Ssn => r"[0-9]{3}-[0-9]{2}-[0-9]{4}",
        }
    }

    /// `preceding` and `after` are the texts around.
    fn is(self, text: &str, preceding: &str, after: &str) -> bool {
        let (before, next) = (preceding.chars().next_back(), after.chars().next());
        let alone = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        let digits = || text.chars().filter(char::is_ascii_digit).collect::<String>();
        match self {
            Self::Email => is_mailbox(text, preceding, after),
            Self::Phone => {
                // The `+` of a sum or of a time zone stands behind something.
                alone(before) && before != Some('+') && alone(next) && (8..=15).contains(&digits().len())
            }
            Self::Iban => alone(before) && is_iban(text, after),
            Self::Card => {
                let joined = |c: Option<char>| matches!(c, Some('-' | '.' | '_' | ':' | '/' | '$'));
                alone(before) && alone(next) && !joined(before) && next != Some('-') && is_card(&digits())
            }
            Self::Ssn => alone(before) && alone(next) && before != Some('-') && next != Some('-') && is_ssn(text),
        }
    }
}

#[derive(Clone, Debug)]
pub struct PersonalData(Vec<(Kind, Regex)>);

impl PersonalData {
    pub fn new(config: &Kinds<Kind>) -> Result<Self, Fault> {
        let kinds = config.chosen(&ALL)?;
        kinds.into_iter().map(|kind| Ok((kind, compile(kind.pattern())?))).collect::<Result<_, _>>().map(Self)
    }

    pub fn look(&self, leaf: &Leaf<'_>, found: &mut Found) {
        match leaf.content {
            Content::Name(text) | Content::Text(text) => self.look_at(text, found),
            // Of what is written as a number, only a card number is long enough to be one.
            Content::Number(number) => {
                let written = number.to_string();
                if self.0.iter().any(|(kind, _)| *kind == Kind::Card) && is_card(&written) {
                    found.mark(Kind::Card.shown());
                }
            }
        }
    }

    fn look_at(&self, text: &str, found: &mut Found) {
        for (kind, pattern) in &self.0 {
            let mut from = 0;
            // A candidate that is none may hide one that begins a little later.
            while let Some(candidate) = pattern.find_at(text, from) {
                if kind.is(candidate.as_str(), &text[..candidate.start()], &text[candidate.end()..]) {
                    found.mark(kind.shown());
                    break;
                }
                let rest = &text[candidate.start()..];
                let word = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
                from = candidate.start() + word.max(rest.chars().next().map_or(1, char::len_utf8));
            }
        }
    }
}

/// `git@host:path` names a repository, and `a@2x.png` a picture.
fn is_mailbox(text: &str, preceding: &str, after: &str) -> bool {
    let (local, domain) = text.split_once('@').unwrap_or_default();
    let mut after = after.chars();
    let (next, then) = (after.next(), after.next());
    let repository = next == Some(':') && then.is_some_and(|c| !c.is_whitespace());
    let file = domain.rsplit('.').next().is_some_and(|end| {
        ["png", "jpg", "jpeg", "gif", "svg", "webp", "js", "mjs", "css", "json"]
            .contains(&end.to_ascii_lowercase().as_str())
    });
    let broken = local.starts_with('.') || local.ends_with('.') || local.contains("..");
    // Credentials of an address: `https://user@host/`.
    let preceding = &preceding[preceding.ceil_char_boundary(preceding.len().saturating_sub(80))..];
    let name = preceding.rsplit(|c: char| !(c.is_ascii_graphic() && c != '/')).next().unwrap_or_default();
    let of_address = preceding[..preceding.len() - name.len()].ends_with("//");
    !repository && !file && !broken && !of_address && next.is_none_or(|c| !c.is_alphanumeric() && c != '@')
}

/// Country and length of the registry; the check digits are those of ISO 7064.
fn is_iban(text: &str, after: &str) -> bool {
    let compact: String = text.chars().filter(|c| *c != ' ').collect();
    let Some((_, length)) = IBAN_LENGTHS.iter().find(|(country, _)| compact.starts_with(country)) else { return false };
    // In running text the pattern may have taken the word behind it along.
    let Some(number) = compact.get(..*length) else { return false };
    let ends = compact.len() == *length && after.chars().next().is_none_or(|c| !c.is_alphanumeric())
        || ends_at_space(text, *length);
    ends && remainder_97(number) == 1
}

/// Whether a space follows the first `length` characters that are none.
fn ends_at_space(text: &str, length: usize) -> bool {
    let mut seen = 0;
    let last = text.char_indices().find(|(_, c)| {
        seen += usize::from(*c != ' ');
        seen == length
    });
    last.is_some_and(|(index, _)| text[index + 1..].starts_with(' '))
}

fn remainder_97(number: &str) -> u32 {
    let (head, tail) = number.split_at(4);
    tail.chars().chain(head.chars()).fold(0, |sum, c| {
        let digit = c.to_digit(36).unwrap_or(0);
        (sum * if digit < 10 { 10 } else { 100 } + digit) % 97
    })
}

const IBAN_LENGTHS: [(&str, usize); 78] = [
    ("AD", 24),
    ("AE", 23),
    ("AL", 28),
    ("AT", 20),
    ("AZ", 28),
    ("BA", 20),
    ("BE", 16),
    ("BG", 22),
    ("BH", 22),
    ("BR", 29),
    ("BY", 28),
    ("CH", 21),
    ("CR", 22),
    ("CY", 28),
    ("CZ", 24),
    ("DE", 22),
    ("DK", 18),
    ("DO", 28),
    ("EE", 20),
    ("EG", 29),
    ("ES", 24),
    ("FI", 18),
    ("FO", 18),
    ("FR", 27),
    ("GB", 22),
    ("GE", 22),
    ("GI", 23),
    ("GL", 18),
    ("GR", 27),
    ("GT", 28),
    ("HR", 21),
    ("HU", 28),
    ("IE", 22),
    ("IL", 23),
    ("IQ", 23),
    ("IS", 26),
    ("IT", 27),
    ("JO", 30),
    ("KW", 30),
    ("KZ", 20),
    ("LB", 28),
    ("LC", 32),
    ("LI", 21),
    ("LT", 20),
    ("LU", 20),
    ("LV", 21),
    ("LY", 25),
    ("MC", 27),
    ("MD", 24),
    ("ME", 22),
    ("MK", 19),
    ("MR", 27),
    ("MT", 31),
    ("MU", 30),
    ("NL", 18),
    ("NO", 15),
    ("PK", 24),
    ("PL", 28),
    ("PS", 29),
    ("PT", 25),
    ("QA", 29),
    ("RO", 24),
    ("RS", 22),
    ("SA", 24),
    ("SC", 31),
    ("SD", 18),
    ("SE", 24),
    ("SI", 19),
    ("SK", 24),
    ("SM", 27),
    ("ST", 25),
    ("SV", 28),
    ("TL", 23),
    ("TN", 24),
    ("TR", 26),
    ("UA", 29),
    ("VA", 22),
    ("XK", 20),
];

/// Length and first digits of an issuer, and Luhn's checksum.
fn is_card(digits: &str) -> bool {
    if !(13..=19).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let first = |count: usize| digits.get(..count).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let issued = match digits.len() {
        13 => first(1) == 4,
        14 => matches!(first(2), 36 | 38 | 39) || matches!(first(3), 300..=305),
        15 => matches!(first(2), 34 | 37),
        16 => {
            first(1) == 4
                || matches!(first(2), 51..=55 | 62 | 65)
                || matches!(first(3), 644..=649)
                || matches!(first(4), 2221..=2720 | 3528..=3589 | 6011)
        }
        17 | 18 => first(2) == 62,
        _ => matches!(first(2), 62) || first(1) == 4,
    };
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, byte)| {
            let digit = u32::from(byte - b'0') * if index % 2 == 1 { 2 } else { 1 };
            if digit > 9 { digit - 9 } else { digit }
        })
        .sum();
    let varied = digits.bytes().collect::<std::collections::BTreeSet<_>>().len() > 1;
    issued && varied && sum.is_multiple_of(10)
}

/// Numbers that were never given out are none.
fn is_ssn(text: &str) -> bool {
    let mut parts = text.split('-');
    let (area, group, serial) = (parts.next(), parts.next(), parts.next());
    let area = area.unwrap_or_default();
    area != "000" && area != "666" && !area.starts_with('9') && group != Some("00") && serial != Some("0000")
}
