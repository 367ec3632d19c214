//! How one value may be spelled, as bytes to search for in every view of a text.
//!
//! Escapes are undone by the views, whatever their mixture. What usual escapers write is here all the same: behind a
//! stray `\`, `%` or `&` a view reads the beginning otherwise than it was meant.

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, Encoding, HEXLOWER, HEXUPPER};
use unicode_normalization::UnicodeNormalization as _;
use zeroize::Zeroizing;

/// Shorter values would be found all over ordinary text.
pub(super) const WHOLE_BYTES_MIN: usize = 8;
/// Below this an encoded value is two or three letters, or a small number: words of any text.
const ENCODED_BYTES_MIN: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Edges {
    /// Found within whatever.
    Anything,
    /// Found only as a word of its own.
    Token,
}

pub(super) struct Pattern {
    pub bytes: Zeroizing<Vec<u8>>,
    pub edges: Edges,
}

pub(super) fn of(value: &[u8]) -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for value in spellings(value) {
        if value.len() < WHOLE_BYTES_MIN {
            add_token(&value, &mut patterns);
        } else {
            add_encodings(&value, &mut patterns);
        }
    }
    // Of two that are alike the one that is found more often.
    patterns.sort_by(|one, other| (one.bytes.as_slice(), one.edges).cmp(&(other.bytes.as_slice(), other.edges)));
    patterns.dedup_by(|next, kept| next.bytes == kept.bytes);
    patterns
}

/// The value itself; without the white space around it, as people paste it; composed and decomposed; and its lines.
fn spellings(value: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let mut spellings: Vec<Zeroizing<Vec<u8>>> = Vec::new();
    let mut add = |value: &[u8]| {
        if !value.is_empty() && spellings.iter().all(|known| known.as_slice() != value) {
            spellings.push(Zeroizing::new(value.to_vec()));
        }
    };
    add(value);
    add(value.trim_ascii());
    if let Ok(text) = str::from_utf8(value) {
        let text = text.trim();
        add(text.as_bytes());
        add(Zeroizing::new(text.nfc().collect::<String>()).as_bytes());
        add(Zeroizing::new(text.nfd().collect::<String>()).as_bytes());
    }
    for line in value.split(|byte| matches!(byte, b'\n' | b'\r')).map(<[u8]>::trim_ascii) {
        // The first and last line of a PEM file are no secret, and stand in every other one too.
        let is_frame = line.starts_with(b"-----BEGIN ") || line.starts_with(b"-----END ");
        if line.len() >= WHOLE_BYTES_MIN && !is_frame {
            add(line);
        }
    }
    spellings
}

fn add_encodings(value: &[u8], patterns: &mut Vec<Pattern>) {
    let mut add = |bytes: Vec<u8>| {
        patterns.push(Pattern { bytes: Zeroizing::new(bytes), edges: Edges::Anything });
    };
    add(value.to_vec());
    add(HEXLOWER.encode(value).into_bytes());
    add(HEXUPPER.encode(value).into_bytes());
    for encoding in [BASE64_NOPAD, BASE64URL_NOPAD] {
        for before in 0..3 {
            add(base64_within(&encoding, value, before));
        }
    }
    for escaped in escaped(value) {
        add(escaped);
    }
    if let Ok(text) = str::from_utf8(value) {
        let units: Zeroizing<Vec<u16>> = Zeroizing::new(text.encode_utf16().collect());
        add(units.iter().flat_map(|unit| unit.to_le_bytes()).collect());
        add(units.iter().flat_map(|unit| unit.to_be_bytes()).collect());
    }
}

/// What escapers write that escape no more than they must.
fn escaped(value: &[u8]) -> Vec<Vec<u8>> {
    /// Left alone beside letters and digits: by form encoders, RFC 3986, browsers' component and whole-address encoders.
    const LEFT_ALONE: [(&[u8], &str); 4] =
        [(b"*-._", "+"), (b"-._~", "%20"), (b"-._~!*'()", "%20"), (b"-._~!*'();:@&=+$,/?#", "%20")];
    /// For `"` and `'`.
    const QUOTES: [(&str, &str); 5] =
        [("\"", "'"), ("&quot;", "&#39;"), ("&quot;", "&apos;"), ("&quot;", "&#x27;"), ("&#34;", "&#39;")];
    let mut all: Vec<String> = Vec::new();
    for (alone, space) in LEFT_ALONE {
        for digits in [HEXUPPER, HEXLOWER] {
            let mut text = String::new();
            for byte in value {
                match byte {
                    b' ' => text.push_str(space),
                    byte if byte.is_ascii_alphanumeric() || alone.contains(byte) => text.push(char::from(*byte)),
                    byte => text.extend(["%", &digits.encode(&[*byte])]),
                }
            }
            all.push(text);
        }
    }
    if let Ok(text) = str::from_utf8(value) {
        let json = json(text);
        all.extend([HEXUPPER, HEXLOWER].map(|digits| non_ascii_as_units(&json, &digits)));
        let markup = |json: &str, [less, greater]: [&str; 2]| {
            json.replace('<', less).replace('>', greater).replace('&', "\\u0026").replace('\'', "\\u0027")
        };
        all.extend([["\\u003c", "\\u003e"], ["\\u003C", "\\u003E"]].map(|units| markup(&json, units)));
        all.push(self::json(&json));
        all.push(json);
        for (double, single) in QUOTES {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            // What the quotes become holds `&`, so they come last.
            all.push(text.replace('"', double).replace('\'', single));
        }
    }
    let slashes: Vec<String> =
        all.iter().filter(|text| text.contains('/')).map(|text| text.replace('/', "\\/")).collect();
    all.into_iter().chain(slashes).map(String::into_bytes).collect()
}

/// As the inside of a JSON string.
fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

fn non_ascii_as_units(text: &str, digits: &Encoding) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        if char.is_ascii() {
            escaped.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            escaped.extend(["\\u", &digits.encode(&unit.to_be_bytes())]);
        }
    }
    escaped
}

/// The characters of base64 that depend on nothing but the value, when `before` bytes (modulo three) come before it:
/// those at the edges mix it with its neighbours.
fn base64_within(encoding: &Encoding, value: &[u8], before: usize) -> Vec<u8> {
    let padded = Zeroizing::new([&[0; 2][..before], value].concat());
    let mut text = encoding.encode(&padded).into_bytes();
    text.truncate(padded.len() * 8 / 6);
    text.drain(..(before * 8).div_ceil(6));
    text
}

fn add_token(value: &[u8], patterns: &mut Vec<Pattern>) {
    let mut add = |bytes: Vec<u8>| {
        patterns.push(Pattern { bytes: Zeroizing::new(bytes), edges: Edges::Token });
    };
    add(value.to_vec());
    if value.len() >= ENCODED_BYTES_MIN {
        add(HEXLOWER.encode(value).into_bytes());
        add(HEXUPPER.encode(value).into_bytes());
        // As a whole word it begins where the value begins, and ends with it.
        add(BASE64_NOPAD.encode(value).into_bytes());
        add(BASE64URL_NOPAD.encode(value).into_bytes());
    }
}
