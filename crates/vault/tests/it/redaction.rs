//! Nothing of a secret is left, in whatever encoding and between whatever neighbours; and nothing else is touched.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_vault::{Redactor, Secret};

use crate::encodings;

pub fn redactor(secrets: &[(&str, &str)]) -> Redactor {
    Redactor::of_values(secrets.iter().map(|(name, value)| (*name, value.as_bytes()))).unwrap()
}

/// Values with everything that some encoding treats in its own way.
pub fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9_-]{8,48}",
        "[ -~]{8,48}",
        "[a-z/+=\"'\\\\%&<>;# \u{e9}\u{65}\u{301}\u{20ac}\u{1f600}]{8,24}",
        "[a-z\"/]{3,30}\n[a-z\"/]{3,30}\n[a-z]{0,12}",
    ]
    // A value that is nothing but white space or shorter without it is found as a word only.
    .prop_filter("long enough", |value| value.trim().len() >= 8)
}

/// Neighbours that could be taken for the beginning or end of something.
pub fn neighbour() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9 .,:]{0,20}", "[\\\\%&#;xu0-9a-f\"/+\r\n ]{0,12}", "\\PC{0,12}",]
}

proptest! {
    #[test]
    fn no_encoding_of_a_secret_is_left(value in value(), before in neighbour(), behind in neighbour()) {
        let redactor = redactor(&[("KEY", &value)]);
        for (name, encoded) in encodings::of_text(&value) {
            let text = format!("{before}{encoded}{behind}");
            let redacted = redactor.redact_text(&text);
            prop_assert!(redacted.contains("[secret:KEY]"), "{name}: {text:?} became {redacted:?}");
            prop_assert!(!redacted.contains(&encoded), "{name}: {text:?} became {redacted:?}");
            let bytes = redactor.redact_bytes(text.as_bytes());
            prop_assert_eq!(&*bytes, redacted.as_bytes(), "{}", name);
        }
        for encoded in encodings::utf16(&value) {
            let text = [before.as_bytes(), &encoded, behind.as_bytes()].concat();
            let redacted = redactor.redact_bytes(&text);
            prop_assert!(!redacted.windows(encoded.len()).any(|part| part == encoded), "{text:?}");
        }
    }

    #[test]
    fn no_base64_of_a_secret_is_left(
        value in value(),
        before in prop::collection::vec(any::<u8>(), 0..70),
        behind in prop::collection::vec(any::<u8>(), 0..7),
    ) {
        let redactor = redactor(&[("KEY", &value)]);
        for encodings::Base64 { name, text, core } in encodings::base64(&before, value.as_bytes(), &behind) {
            let redacted = redactor.redact_text(&text);
            prop_assert!(redacted.contains("[secret:KEY]"), "{name}: {text:?} became {redacted:?}");
            let left = encodings::without_wraps(&redacted);
            prop_assert!(!left.contains(&core), "{name}: {text:?} became {redacted:?}");
        }
    }

    #[test]
    fn a_line_of_a_secret_is_not_left(lines in prop::collection::vec("[a-zA-Z0-9/+]{8,30}", 2..5), at in any::<prop::sample::Index>()) {
        let redactor = redactor(&[("PEM", &format!("-----BEGIN KEY-----\n{}\n-----END KEY-----\n", lines.join("\n")))]);
        let line = at.get(&lines);
        for (name, encoded) in encodings::of_text(line) {
            let redacted = redactor.redact_text(&encoded).into_owned();
            prop_assert_eq!(redacted, "[secret:PEM]", "{}", name);
        }
        prop_assert_eq!(redactor.redact_text("-----BEGIN KEY-----"), "-----BEGIN KEY-----");
    }

    #[test]
    fn text_without_secrets_is_unchanged(value in "[a-zA-Z0-9]{16,40}", text in "\\PC{0,60}", markup in neighbour()) {
        let redactor = redactor(&[("KEY", &value)]);
        let text = format!("{text}{markup}{text}");
        prop_assert!(matches!(redactor.redact_text(&text), Cow::Borrowed(same) if same == text));
        prop_assert!(matches!(redactor.redact_bytes(text.as_bytes()), Cow::Borrowed(_)));
        let value = json!({"text": text, markup: [text, 1, 2.5, null, true]});
        prop_assert_eq!(redactor.redact_json(value.clone()), value);
    }

    #[test]
    fn overlapping_secrets_leave_no_part(parts in prop::collection::vec("[a-z]{4}", 4), cut in 1_usize..3) {
        let (first, second) = (parts[..3].concat(), parts[cut..].concat());
        let redacted = redactor(&[("A", &first), ("B", &second)]).redact_text(&parts.concat()).into_owned();
        prop_assert_eq!(redacted, "[secret:A]");
    }
}

#[test]
fn a_placeholder_stands_where_the_secret_was() {
    let redactor = redactor(&[
        ("TOKEN", "s3cr3t/t0ken"),
        ("PASS", "p&ss \"word\""),
        ("PIN", "4711"),
        ("NL", "trailing-newline\n"),
    ]);
    for (text, expected) in [
        ("", ""),
        ("nothing to see", "nothing to see"),
        ("a s3cr3t/t0ken b", "a [secret:TOKEN] b"),
        ("s3cr3t/t0kens3cr3t/t0ken", "[secret:TOKEN][secret:TOKEN]"),
        (r#"{"k":"s3cr3t\/t0ken"}"#, r#"{"k":"[secret:TOKEN]"}"#),
        ("https://x.test/?k=s3cr3t%2ft0ken&n=1", "https://x.test/?k=[secret:TOKEN]&n=1"),
        ("q=p%26ss+%22word%22;", "q=[secret:PASS];"),
        (r#"error: \"p&ss \\\"word\\\"\""#, r#"error: \"[secret:PASS]\""#),
        ("<b>p&amp;ss &quot;word&quot;</b>", "<b>[secret:PASS]</b>"),
        // `user:` has five bytes: the character that mixes it with the value stays.
        ("Basic dXNlcjpzM2NyM3QvdDBrZW4=", "Basic dXNlcjp[secret:TOKEN]4="),
        ("trailing-newline", "[secret:NL]"),
        ("trailing-newline\nnext", "[secret:NL]next"),
        // Short values are words of their own or nothing.
        ("4711", "[secret:PIN]"),
        ("(4711), 47110, a4711, _4711, é4711", "([secret:PIN]), 47110, a4711, _4711, é4711"),
        ("pin=4711&x", "pin=[secret:PIN]&x"),
        (r"a\n4711\n", r"a\n[secret:PIN]\n"),
        ("NDcxMQ== 34373131", "[secret:PIN]== [secret:PIN]"),
    ] {
        assert_eq!(redactor.redact_text(text), expected);
    }
}

#[test]
fn json_is_redacted_in_values_keys_and_numbers() {
    let redactor = redactor(&[("A", "alpha-secret"), ("N", "1234567890"), ("Q", "with \"quotes\"")]);
    let value = json!({
        "plain": [1, 1.5, true, null, "text"],
        "alpha-secret": {"inner": ["x alpha-secret y", 1_234_567_890, 12_345_678_901_u64]},
        "YWxwaGEtc2VjcmV0": "with \"quotes\"",
        "nested": "{\"k\":\"with \\\"quotes\\\"\"}",
    });
    let expected = json!({
        "plain": [1, 1.5, true, null, "text"],
        "[secret:A]": {"inner": ["x [secret:A] y", "[secret:N]", "[secret:N]1"]},
        "[secret:A]_": "[secret:Q]",
        "nested": "{\"k\":\"[secret:Q]\"}",
    });
    assert_eq!(redactor.redact_json(value), expected);
}

#[test]
fn without_secrets_nothing_is_done() {
    let none = Redactor::none();
    assert!(none.is_empty());
    assert!(redactor(&[]).is_empty());
    assert!(redactor(&[("EMPTY", "")]).is_empty());
    assert!(matches!(none.redact_text("x"), Cow::Borrowed("x")));
    assert_eq!(none.redact_json(json!(["x", 1])), json!(["x", 1]));
    assert_eq!(none.redact_json(Value::Null), Value::Null);
}

#[test]
fn neither_secret_nor_redactor_shows_a_value() {
    let secret = Secret::new("TOKEN", b"very-secret-value".to_vec());
    assert_eq!(format!("{secret:?}"), "Secret(TOKEN)");
    assert_eq!(secret.expose_text(), Some("very-secret-value"));
    let redactor = Redactor::new([&secret]).unwrap();
    assert_eq!(format!("{redactor:?}"), "Redactor(1 secrets)");
    assert_eq!(redactor.redact_text("a very-secret-value"), "a [secret:TOKEN]");
}

#[test]
fn binary_values_are_found_in_bytes_and_in_text_that_carries_them() {
    let value = [0_u8, 255, 254, 128, 7, 9, 200, 201, 202, 203];
    let redactor = Redactor::of_values([("BIN", value.as_slice())]).unwrap();
    let bytes = [b"<".as_slice(), &value, b">"].concat();
    assert_eq!(&*redactor.redact_bytes(&bytes), b"<[secret:BIN]>");
    for text in [
        "00fffe800709c8c9cacb",
        "00FFFE800709C8C9CACB",
        "%00%FF%FE%80%07%09%C8%C9%CA%CB",
        r"\x00\xff\xfe\x80\x07\x09\xc8\xc9\xca\xcb",
    ] {
        assert_eq!(redactor.redact_text(text), "[secret:BIN]");
    }
}
