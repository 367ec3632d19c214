//! A text in pieces is redacted as it would be whole, wherever it is split.

use proptest::prelude::*;
use toolgate_vault::Redactor;

use crate::encodings;
use crate::redaction::{neighbour, redactor, value};

fn in_pieces(redactor: &Redactor, text: &str, splits: &[usize]) -> String {
    let mut stream = redactor.stream();
    let mut out = String::new();
    let mut done = 0;
    for split in splits.iter().map(|split| text.floor_char_boundary(*split)) {
        out.push_str(&stream.push(&text[done..split.max(done)]));
        done = split.max(done);
    }
    out.push_str(&stream.push(&text[done..]));
    out + &stream.finish()
}

#[test]
fn every_split_of_every_encoding_is_the_same() {
    let value = "p/\"ss wörd+€1";
    let redactor = redactor(&[("KEY", value), ("PIN", "47x1")]);
    let base64 = encodings::base64(b"user:", value.as_bytes(), b"!");
    let encoded = encodings::of_text(value).into_iter().map(|(_, text)| text);
    for encoded in encoded.chain(base64.into_iter().map(|base64| base64.text)) {
        let text = format!("before 47x1 \\{encoded}%{encoded} a47x1\n\n47x1");
        let whole = redactor.redact_text(&text);
        for split in 0..=text.len() {
            assert_eq!(in_pieces(&redactor, &text, &[split]), whole, "split at {split}");
        }
        let every: Vec<usize> = (0..text.len()).collect();
        assert_eq!(in_pieces(&redactor, &text, &every), whole, "character by character");
    }
}

proptest! {
    #[test]
    fn a_stream_gives_what_the_whole_gives(
        values in prop::collection::vec(prop_oneof![3 => value(), 1 => "[a-c1-3%\\\\]{1,7}"], 1..3),
        parts in prop::collection::vec((neighbour(), any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..6),
        filler in 0_usize..3,
        splits in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let named: Vec<(String, &str)> =
            values.iter().enumerate().map(|(number, value)| (format!("S{number}"), value.as_str())).collect();
        let named: Vec<(&str, &str)> = named.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let redactor = redactor(&named);
        let mut text = String::new();
        for (between, which, how) in &parts {
            let value = which.get(&values);
            let mut encoded: Vec<String> = encodings::of_text(value).into_iter().map(|(_, text)| text).collect();
            encoded.extend(encodings::base64(b"x", value.as_bytes(), b"").into_iter().map(|base64| base64.text));
            text.push_str(between);
            text.push_str(&" .\n".repeat(filler * 60));
            text.push_str(how.get(encoded.as_slice()).as_str());
        }
        let mut splits: Vec<usize> = splits.iter().map(|split| split.index(text.len() + 1)).collect();
        splits.sort_unstable();
        prop_assert_eq!(in_pieces(&redactor, &text, &splits), redactor.redact_text(&text));
    }

    #[test]
    fn a_stream_of_markup_gives_what_the_whole_gives(
        text in "[\\\\%+&#;xu0-9a-d\"/\r\n ]{0,400}",
        value in "[\\\\%a-d0-3+ /]{8,12}",
        short in "[a-d0-3]{1,4}",
        splits in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let redactor = redactor(&[("LONG", &value), ("SHORT", &short)]);
        let mut splits: Vec<usize> = splits.iter().map(|split| split.index(text.len() + 1)).collect();
        splits.sort_unstable();
        prop_assert_eq!(in_pieces(&redactor, &text, &splits), redactor.redact_text(&text));
    }
}

#[test]
fn a_stream_gives_early_what_cannot_be_a_secret() {
    let redactor = redactor(&[("KEY", "0123456789abcdef")]);
    let mut stream = redactor.stream();
    let (mut taken, mut given) = (0, 0);
    for _ in 0..200 {
        let piece = "an ordinary line of a log: 100% \\n &c\n\n\n";
        taken += piece.len();
        given += stream.push(piece).len();
        assert!(taken - given < 2048, "{} bytes are held back", taken - given);
    }
    given += stream.finish().len();
    assert_eq!(given, taken);
    assert_eq!(Redactor::none().stream().push("at once"), "at once");
}

#[test]
fn long_runs_of_line_breaks_are_not_held_back() {
    let redactor = redactor(&[("KEY", "0123456789abcdef")]);
    for piece in ["\n".repeat(5000), "\\n".repeat(5000), "\\".repeat(5000), "&#10;".repeat(2000), " ".repeat(5000)] {
        let mut stream = redactor.stream();
        let given = stream.push(&piece).len();
        assert!(piece.len() - given < 2048, "{} bytes of {:?}… are held back", piece.len() - given, &piece[..2]);
        assert_eq!(given + stream.finish().len(), piece.len());
    }
}
