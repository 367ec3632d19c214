//! Notes that others have signed, and everything that is not a note.

use proptest::prelude::*;

use super::*;

/// The example of C2SP's signed-note.md, "Verifier keys".
const FOO_KEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
const FOO_NOTE: &str = "This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";

/// From the tests of Go's golang.org/x/mod/sumdb/note.
const PETER_KEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const PETER_SECRET: &str = "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
const PETER_TEXT: &str =
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
const PETER_LINE: &str =
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
const ENOCH_KEY: &str = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop";
const ENOCH_LINE: &str =
    "— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n";

/// A checkpoint of a public staging log with signatures of three kinds, by two names of its own and four witnesses.
const ARCHE_NOTE: &str = "\
arche2025h1.staging.ct.transparency.dev
1432088532
U7WM79jrzyhGZ5/GUBTpM7NzwdyfFx61t3RovgcC4Ro=

— arche2025h1.staging.ct.transparency.dev zTM8sQAAAZ5W0WdjBAMARjBEAiBjW5IQf9pvsYLfQFX6hoGREPMHbdQ3urbllzalApkptQIgIpwtEroeW2BXaHAI4kJXFbon5Ch9MNL5zRNZ55lvGt0=
— arche2025h1.staging.ct.transparency.dev ui8GwCF1+kWqZrxGdhj4aX3gcw7XUlXQQabg/27lefwhUkzbC3NygNI75MdhL1bfTW9g8Ei59RA23oHP7Ry1k3ZFWwQ=
— transparency.dev/DEV:witness-little-garden 2AQqhwAAAABqEiEgzgFIqqhbUoDwjMWE6UP8nd8/KYTzwZ2rhIgcqoXHAwVkjZr4AscylP3v7sEodkRAErumC2q44vdgJY096st5BQ==
— witness1.smartit.nu/witness1 pIyCDwAAAABqEiEghIp82KWebrw7/oHQwlTAm3g2RKS4+eebl8eO0WH+/iEcxZ75W3u5hNI7TOQtmJbqmNWVuE0tgh0XwzdZsDsUAQ==
— remora.n621.de 2net5wAAAABqEiEgPlfF3V06o0Y+fHM+J5J9s27wgxxcOVSpZ/2g/KSiXCg9DEZI+aVCIobWX9sXTynk5XeU/zZ0WBxtqB0DrAWfBw==
— witness.stagemole.eu Z/euoAAAAABqEiEgw0i+7g2ENfDAWHmtRzCfKTHSDwYDJA2NmKeGi9Y8FtEyOUvVr+AJmIY/2TUFucgKi7lI7cUiOvKFYe/TmN9DAg==
";
const ARCHE_KEY: &str = "arche2025h1.staging.ct.transparency.dev+ba2f06c0+AU0vHmlGCS/PdN8b2OaGmKprLI8HKM+dJ472xgFYh15f";
const REMORA_KEY: &str = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2";

fn keys(texts: &[&str]) -> Vec<VerifierKey> {
    texts.iter().map(|text| text.parse().expect(text)).collect()
}

/// Opens `note` with `known`: the names that signed, or why not.
fn opened(note: &str, known: &[&str]) -> Result<Vec<String>, Error> {
    let known = keys(known);
    let note = Note::parse(note.as_bytes())?;
    let (_, signed) = note.open(&known)?;
    Ok(signed.iter().map(|signed| signed.by.name().to_string()).collect())
}

#[test]
fn notes_of_others_verify() {
    #[track_caller]
    fn check(note: &str, known: &[&str], names: &[&str]) {
        assert_eq!(opened(note, known).unwrap(), names);
        assert_eq!(Note::parse(note.as_bytes()).unwrap().to_string(), note, "one spelling");
    }
    check(FOO_NOTE, &[FOO_KEY], &["example.com/foo"]);
    let both = format!("{PETER_TEXT}\n{PETER_LINE}{ENOCH_LINE}");
    check(&both, &[PETER_KEY], &["PeterNeumann"]);
    check(&both, &[ENOCH_KEY, FOO_KEY], &["EnochRoot"]);
    check(&both, &[ENOCH_KEY, PETER_KEY], &["PeterNeumann", "EnochRoot"]);
    check(ARCHE_NOTE, &[ARCHE_KEY, REMORA_KEY], &["arche2025h1.staging.ct.transparency.dev", "remora.n621.de"]);
}

#[test]
fn a_witness_signs_a_time() {
    let known = keys(&[REMORA_KEY]);
    let note = Note::parse(ARCHE_NOTE.as_bytes()).unwrap();
    let (text, signed) = note.open(&known).unwrap();
    assert!(text.starts_with("arche2025h1.staging.ct.transparency.dev\n1432088532\n"));
    assert_eq!(signed, [Signed { by: &known[0], at: Some(0x6a12_2120) }]);

    let sooner = ARCHE_NOTE.replace("2net5wAAAABqEiEgPlfF", "2net5wAAAABqEiEfPlfF");
    assert_eq!(
        opened(&sooner, &[REMORA_KEY]).unwrap_err().to_string(),
        "the signature of `remora.n621.de+da77ade7` does not fit the text"
    );
}

#[test]
fn signing_gives_the_bytes_that_go_gives() {
    let seed = BASE64.decode(PETER_SECRET.as_bytes()).unwrap()[1..].try_into().unwrap();
    let signer = Signer::from_seed("PeterNeumann".parse().unwrap(), &seed);
    assert_eq!(signer.verifier().to_string(), PETER_KEY);
    let mut note = Note::new(PETER_TEXT.into(), signer.sign(PETER_TEXT)).unwrap();
    assert_eq!(note.to_string(), format!("{PETER_TEXT}\n{PETER_LINE}"));
    note.add(signer.sign("another text\n")).unwrap();
    note.add(signer.sign(PETER_TEXT)).unwrap();
    assert_eq!(note.to_string(), format!("{PETER_TEXT}\n{PETER_LINE}"), "a newer signature replaces the older one");
}

#[test]
fn who_signed_decides() {
    let note = |lines: &[&str]| format!("{PETER_TEXT}\n{}", lines.concat());
    assert_eq!(opened(&note(&[PETER_LINE]), &[ENOCH_KEY]), Err(Error::NoKnownKey));
    assert_eq!(opened(&note(&[PETER_LINE]), &[]), Err(Error::NoKnownKey));
    assert_eq!(opened(&note(&[PETER_LINE, PETER_LINE]), &[PETER_KEY, PETER_KEY]).unwrap(), ["PeterNeumann"]);

    // The right name and id with somebody else's signature: another known key does not heal it.
    let stolen = PETER_LINE.replace("x08go/ZJ", "x08goxzm");
    let invalid = Error::Invalid { name: "PeterNeumann".parse().unwrap(), id: keys(&[PETER_KEY])[0].id() };
    assert_eq!(opened(&note(&[ENOCH_LINE, &stolen]), &[PETER_KEY, ENOCH_KEY]), Err(invalid.clone()));
    assert_eq!(
        opened(&note(&[PETER_LINE, &stolen]), &[PETER_KEY]),
        Err(invalid.clone()),
        "nor does a good one before it"
    );
    let longer = PETER_LINE.replace("BwJnAM=", "BwJnAMAAAA=");
    assert_eq!(opened(&note(&[&longer]), &[PETER_KEY]), Err(invalid));

    // The same name with another id is somebody else.
    let stranger = PETER_LINE.replace("x08go", "x08gp");
    assert_eq!(opened(&note(&[&stranger, PETER_LINE]), &[PETER_KEY]).unwrap(), ["PeterNeumann"]);
}

#[test]
fn what_is_not_a_note_is_refused() {
    #[track_caller]
    fn check(note: impl AsRef<[u8]>, expected: &str) {
        assert_eq!(Note::parse(note.as_ref()).unwrap_err().to_string(), expected);
    }
    let unsigned = "no signature lines follow the text of the note after an empty line";
    let control = "the note holds a control character";
    let first = "signature line 1 is not `— NAME SIGNATURE`";
    check("", unsigned);
    check("\n", unsigned);
    check("\n\n", unsigned);
    check(PETER_TEXT, unsigned);
    check(format!("{PETER_TEXT}{PETER_LINE}"), unsigned);
    check(format!("{PETER_TEXT}\n{}", PETER_LINE.trim_end()), unsigned);
    check(format!("{PETER_TEXT}\n\n"), unsigned);
    check(format!("\u{1}{PETER_TEXT}\n{PETER_LINE}"), control);
    check(format!("{PETER_TEXT}\n{}", PETER_LINE.replace('\n', "\r\n")), control);
    check(format!("a\tb\n\n{PETER_LINE}"), control);
    check(format!("a\u{7f}\n\n{PETER_LINE}"), control);
    check(format!("a\u{85}\n\n{PETER_LINE}"), control);
    check([b"\xff", FOO_NOTE.as_bytes()].concat(), "the note is not UTF-8");
    check(format!("{PETER_TEXT}\n{PETER_LINE}more\n"), "signature line 2 is not `— NAME SIGNATURE`");
    check(FOO_NOTE.replace('—', "-"), first);
    check(FOO_NOTE.replace("— ", "—"), first);
    check(FOO_NOTE.replace("example.com/foo ", "a b "), first);
    check(FOO_NOTE.replace("example.com/foo ", "a+b "), first);
    check(FOO_NOTE.replace("example.com/foo ", "a\u{a0}b "), first);
    check(FOO_NOTE.replace("example.com/foo ", " "), first);
    check(FOO_NOTE.replace("yaQM=", "yaQM"), first);
    check(FOO_NOTE.replace("yaQM=", "yaQN="), first);
    check(FOO_NOTE.replace("yaQM=", "yaQM= "), first);
    check("a\n\n— name AAAAAA==\n", first);
    check("a\n\n— name \n", first);
    check(format!("{PETER_TEXT}\n{}", PETER_LINE.repeat(SIGNATURES_MAX + 1)), "the note has more than 64 signatures");
    check("x".repeat(NOTE_BYTES_MAX + 1), "the note has 262145 bytes, the limit is 262144");
    assert!(Note::parse(format!("{PETER_TEXT}\n{}", PETER_LINE.repeat(SIGNATURES_MAX)).as_bytes()).is_ok());
    assert_eq!(
        Note::parse("one\n\n\ntwo\n\n\n— n AAAAAAA=\n".as_bytes()).unwrap().unverified_text(),
        "one\n\n\ntwo\n\n"
    );
}

#[test]
fn a_mangled_verifier_key_is_refused() {
    for key in [FOO_KEY, PETER_KEY, ENOCH_KEY, ARCHE_KEY, REMORA_KEY] {
        assert_eq!(keys(&[key])[0].to_string(), key);
        for start in 0..key.len() {
            for end in start..=key.len() {
                let part = &key[start..end];
                assert!(part == key || part.parse::<VerifierKey>().is_err(), "{part}");
            }
        }
        for index in 0..key.len() {
            for bit in 0..7 {
                let mut bytes = key.as_bytes().to_vec();
                bytes[index] ^= 1 << bit;
                let mangled = String::from_utf8(bytes).unwrap();
                assert!(mangled.parse::<VerifierKey>().is_err(), "{mangled}");
            }
        }
    }
    for (bad, why) in [
        ("example.com/foo+530D903A+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", "an id in capitals"),
        ("PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==", "too long, with its own id"),
        ("PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "an unknown kind, with its own id"),
        ("a+b+c", "nothing"),
    ] {
        assert_eq!(bad.parse::<VerifierKey>(), Err(Error::VerifierKey), "{why}");
    }
    let longest = "x".repeat(KEY_NAME_BYTES_MAX);
    assert!(longest.parse::<KeyName>().is_ok());
    assert_eq!(format!("{longest}x").parse::<KeyName>(), Err(Error::KeyName));
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Note::parse(&bytes);
    }

    #[test]
    fn what_is_read_is_written_the_same(text in "[—\n +=a-zA-Z0-9/é]{0,40}", lines in "(— [a+ ]{1,3} [A-Za-z]{7}=?\n?){0,3}") {
        let whole = format!("{text}\n\n{lines}");
        if let Ok(note) = Note::parse(whole.as_bytes()) {
            prop_assert_eq!(&note.to_string(), &whole);
        }
        let _ = whole.parse::<VerifierKey>();
    }
}
