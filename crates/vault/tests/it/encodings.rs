//! How others would write a value: encoders of the tests' own, so that they do not share the redactor's mistakes.

use std::fmt::Write as _;

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
use unicode_normalization::UnicodeNormalization as _;

/// Every encoding of a text that is text itself, by name.
pub fn of_text(value: &str) -> Vec<(&'static str, String)> {
    let json = |value: &str| {
        let quoted = serde_json::to_string(value).unwrap();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let utf16 = |format: fn(u16) -> String, keep: fn(char) -> bool| {
        let mut text = String::new();
        for char in value.chars() {
            if keep(char) {
                text.push_str(&json(&char.to_string()));
            } else {
                text.extend(char.encode_utf16(&mut [0; 2]).iter().map(|unit| format(*unit)));
            }
        }
        text
    };
    let percent = |upper: bool, keep: &dyn Fn(u8) -> bool, space: &str| {
        value.bytes().fold(String::new(), |mut text, byte| {
            match byte {
                b' ' => text.push_str(space),
                byte if keep(byte) => text.push(byte.into()),
                byte if upper => write!(text, "%{byte:02X}").unwrap(),
                byte => write!(text, "%{byte:02x}").unwrap(),
            }
            text
        })
    };
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let whole_url = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!*'();:@&=+$,/?#".contains(&byte);
    let html = |name: fn(char) -> Option<String>| {
        value.chars().map(|char| name(char).unwrap_or_else(|| char.to_string())).collect::<String>()
    };
    vec![
        ("raw", value.to_owned()),
        ("composed", value.nfc().collect()),
        ("decomposed", value.nfd().collect()),
        ("json", json(value)),
        ("json with \\/", json(value).replace('/', "\\/")),
        ("json, ascii, lower", utf16(|unit| format!("\\u{unit:04x}"), |char| char.is_ascii())),
        ("json, ascii, upper", utf16(|unit| format!("\\u{unit:04X}"), |char| char.is_ascii())),
        ("json for html", utf16(|unit| format!("\\u{unit:04x}"), |char| !"<>&'".contains(char))),
        ("json, all escaped", utf16(|unit| format!("\\u{unit:04x}"), |_| false)),
        ("json in json", json(&json(value))),
        ("percent, upper", percent(true, &unreserved, "%20")),
        ("percent, lower", percent(false, &unreserved, "%20")),
        ("percent, whole url", percent(true, &whole_url, "%20")),
        ("percent, every byte", percent(true, &|_| false, "%20")),
        ("form", percent(true, &|byte| byte.is_ascii_alphanumeric() || b"*-._".contains(&byte), "+")),
        ("percent in json with \\/", percent(true, &whole_url, "%20").replace('/', "\\/")),
        ("hex, lower", HEXLOWER.encode(value.as_bytes())),
        ("hex, upper", HEXUPPER.encode(value.as_bytes())),
        (
            "html, named",
            html(|char| {
                let name = match char {
                    '&' => "&amp;",
                    '<' => "&lt;",
                    '>' => "&gt;",
                    '"' => "&quot;",
                    '\'' => "&#39;",
                    _ => return None,
                };
                Some(name.to_owned())
            }),
        ),
        ("html, decimal", html(|char| Some(format!("&#{};", u32::from(char))))),
        ("html, hexadecimal", html(|char| Some(format!("&#x{:X};", u32::from(char))))),
    ]
}

pub fn utf16(value: &str) -> [Vec<u8>; 2] {
    let bytes = |write: fn(u16) -> [u8; 2]| value.encode_utf16().flat_map(write).collect();
    [bytes(u16::to_le_bytes), bytes(u16::to_be_bytes)]
}

/// Base64 of a value with something before and behind it, and the part of it that depends on the value alone.
pub struct Base64 {
    pub name: String,
    pub text: String,
    pub core: String,
}

pub fn base64(before: &[u8], value: &[u8], behind: &[u8]) -> Vec<Base64> {
    let whole = [before, value, behind].concat();
    let mut texts = Vec::new();
    for (alphabet, encoded) in [("standard", BASE64.encode(&whole)), ("url", BASE64URL_NOPAD.encode(&whole))] {
        let core = encoded[(before.len() * 8).div_ceil(6)..(before.len() + value.len()) * 8 / 6].to_owned();
        let mut add = |name: String, text: String| texts.push(Base64 { name, text, core: core.clone() });
        add(alphabet.into(), encoded.clone());
        for columns in [4, 64, 76] {
            for (end, line_end) in
                [("LF", "\n"), ("CRLF", "\r\n"), ("indented", "\n    "), ("json", "\\n"), ("json CRLF", "\\r\\n")]
            {
                let lines: Vec<&str> =
                    encoded.as_bytes().chunks(columns).map(|line| str::from_utf8(line).unwrap()).collect();
                add(format!("{alphabet}, {columns} columns, {end}"), lines.join(line_end));
            }
        }
        let query = encoded.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        add(format!("{alphabet}, in a query"), query);
        add(format!("{alphabet}, json with \\/"), encoded.replace('/', "\\/"));
    }
    texts
}

/// Undoes what `base64` did after encoding, to look for the core.
pub fn without_wraps(text: &str) -> String {
    let text = text.replace("%2B", "+").replace("%2F", "/").replace("\\/", "/").replace("\\n", "").replace("\\r", "");
    text.chars().filter(|char| !char.is_whitespace()).collect()
}
