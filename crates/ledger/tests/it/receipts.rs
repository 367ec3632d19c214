//! Receipts and the text of a proof: what one proves without the log, and every way it must not.

use proptest::prelude::*;
use toolgate_ledger::{Broken, Head, Proof, Receipt, leaf_hash, note, tree};

use crate::world::{Log, origin, signer, text, trust, trust_of, witness};

const INDEX: u64 = 5;

fn made() -> (Log, Head, Proof) {
    let mut log = Log::new(11, &[]);
    let head = log.checkpoint();
    let path = tree::inclusion_proof(INDEX, 11, log.nodes.lookup()).unwrap();
    let proof = Proof::new(INDEX, path, &head);
    (log, head, proof)
}

fn receipt() -> Receipt {
    Receipt { entry_digest: leaf_hash(text(INDEX)), log: origin(), index: Some(INDEX) }
}

#[test]
fn a_receipt_is_checked_without_the_log() {
    let (log, head, proof) = made();
    let text_of_proof = proof.to_string();
    assert!(text_of_proof.starts_with("c2sp.org/tlog-proof@v1\nindex 5\n"));
    assert!(text_of_proof.ends_with(&format!("\n\n{}", head.note())));
    let read = Proof::parse(text_of_proof.as_bytes()).unwrap();
    assert_eq!(read, proof);
    assert_eq!(read.index(), INDEX);
    assert!(receipt().is_for(&text(INDEX)));
    assert!(!receipt().is_for(&text(6)));
    assert_eq!(receipt().verify(&read, &trust()).unwrap(), head);
    let early = Receipt { index: None, ..receipt() };
    assert_eq!(early.verify(&read, &trust()).unwrap().checkpoint(), &log.current());
}

#[test]
fn a_receipt_is_three_members() {
    let json = serde_json::to_value(Receipt { index: None, ..receipt() }).unwrap();
    let digest = leaf_hash(text(INDEX)).to_string();
    assert_eq!(json, serde_json::json!({"entry_digest": digest, "log": "gate.example/audit/acme", "index": null}));
    assert_eq!(serde_json::from_value::<Receipt>(json).unwrap(), Receipt { index: None, ..receipt() });
    let bad = serde_json::json!({"entry_digest": digest, "log": "two\nlines", "index": 5});
    assert!(serde_json::from_value::<Receipt>(bad).is_err());
}

#[test]
fn a_receipt_proves_nothing_else() {
    let (log, _, proof) = made();
    let refused = |receipt: Receipt, proof: &Proof| receipt.verify(proof, &trust()).unwrap_err();

    let other = Receipt { entry_digest: leaf_hash(text(6)), ..receipt() };
    assert_eq!(refused(other, &proof), Broken::Proof(tree::Error::Root));
    let moved = Receipt { index: Some(6), ..receipt() };
    assert_eq!(refused(moved, &proof), Broken::Index { receipt: 6, proof: 5 });
    let elsewhere = Receipt { log: "gate.example/audit/other".parse().unwrap(), ..receipt() };
    let found = elsewhere.log.clone();
    assert_eq!(refused(elsewhere, &proof), Broken::Origin { expected: origin(), found });

    let nobody = trust_of(vec![witness(1).verifier().clone()]);
    assert_eq!(receipt().verify(&proof, &nobody).unwrap_err(), Broken::Signature(note::Error::NoKnownKey));
    let witnessed = trust_of(vec![signer().verifier().clone(), witness(1).verifier().clone()]).witnessed_by(1);
    assert_eq!(receipt().verify(&proof, &witnessed).unwrap_err(), Broken::Witnesses { needed: 1, found: 0 });

    let mut smaller = Log::new(4, &[]);
    let beyond = Proof::new(INDEX, Vec::new(), &smaller.checkpoint());
    assert_eq!(refused(receipt(), &beyond), Broken::Proof(tree::Error::Beyond { index: 5, size: 4 }));
    let short = tree::inclusion_proof(INDEX, 10, log.nodes.lookup()).unwrap();
    let short = Proof::new(INDEX, short[..1].to_vec(), &made().1);
    assert_eq!(refused(receipt(), &short), Broken::Proof(tree::Error::Shape));
}

#[test]
fn no_byte_of_a_proof_can_be_changed() {
    let bytes = made().2.to_string().into_bytes();
    let proves = |bytes: &[u8]| Proof::parse(bytes).and_then(|proof| receipt().verify(&proof, &trust())).is_ok();
    assert!(proves(&bytes));
    for index in 0..bytes.len() {
        for change in [0x01, 0x20, 0x80] {
            let mut bytes = bytes.clone();
            bytes[index] ^= change;
            assert!(!proves(&bytes), "byte {index} by {change:#x}");
        }
        assert!(!proves(&bytes[..index]), "cut at {index}");
    }
}

#[test]
fn an_extra_line_is_carried_and_never_believed() {
    let plain = made().2.to_string();
    let with = plain.replace("\nindex", "\nextra aW5kZXggNg==\nindex");
    let proof = Proof::parse(with.as_bytes()).unwrap();
    assert_eq!(proof.unauthenticated_extra(), Some(b"index 6".as_slice()));
    assert_eq!(proof.to_string(), with);
    assert!(receipt().verify(&proof, &trust()).is_ok());
}

#[test]
fn what_is_not_a_proof_is_refused() {
    let good = made().2.to_string();
    let (first, _) = good.split_once("\n\n").unwrap();
    let hash = first.lines().last().unwrap().to_owned();
    let replaced = |from: &str, to: &str| good.replacen(from, to, 1);
    for (bad, why) in [
        (String::new(), "it has no empty line"),
        (first.to_owned(), "it has no empty line"),
        (replaced("proof@v1", "proof@v2"), "its first line is not `c2sp.org/tlog-proof@v1`"),
        (replaced("\n", "\r\n"), "its first line is not `c2sp.org/tlog-proof@v1`"),
        (replaced("index 5", "index 05"), "it has no index"),
        (replaced("index 5", "index -5"), "it has no index"),
        (replaced("index 5", "index"), "it has no index"),
        (replaced("index 5\n", ""), "it has no index"),
        (replaced("index 5", "extra AA==\nextra AA==\nindex 5"), "it has no index"),
        (replaced("index 5", "extra !\nindex 5"), "its extra line is not base64"),
        (replaced("index 5", "extra \nindex 5"), "its extra line is not base64"),
        (replaced("index 5", "index 5\nAAAA"), "a line of its path is not a hash"),
        (replaced("index 5", "index 5\nindex 5"), "a line of its path is not a hash"),
        (replaced(&hash, hash.trim_end_matches('=')), "a line of its path is not a hash"),
        (replaced(&hash, &vec![hash.clone(); 64].join("\n")), "its path is too long"),
        ("x".repeat(2 * 256 * 1024 + 1), "it is too large"),
    ] {
        assert_eq!(Proof::parse(bad.as_bytes()).unwrap_err(), Broken::ProofText(why), "{bad:.80}");
    }
    assert!(matches!(Proof::parse(replaced("— ", "- ").as_bytes()), Err(Broken::Signature(_))));
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0_usize..600) {
        let _ = Proof::parse(&bytes);
        let mut whole = made().2.to_string().into_bytes();
        whole.truncate(cut);
        whole.extend(bytes);
        let _ = Proof::parse(&whole);
    }
}
