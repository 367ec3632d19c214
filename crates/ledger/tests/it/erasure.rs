//! Test 25 of our threat model: an erased payload can be guessed from its commitment, or erasure breaks the tree.

use serde_json::json;
use toolgate_contracts::{Digest, json as strict};
use toolgate_ledger::{Salt, Verifier, leaf_hash, tree};

use crate::world::{Log, trust};

#[test]
fn test_25_an_erased_payload_cannot_be_guessed_and_the_log_stays_true() {
    let payload = |number: u32| json!({"to": format!("+49 30 {number:07}")});
    let (salt, other) = (Salt::from_bytes([7; 32]), Salt::from_bytes([8; 32]));
    let commitment = salt.commit(&payload(1_234_567));
    let entry = strict::canonical(&json!({"action": "call.outcome", "input": commitment, "v": 1}));
    let mut log = Log::new(3, &[3]);
    log.append(&entry);
    log.append(&entry.replace("outcome", "intent"));
    let head = log.checkpoint();

    // While salt and payload are there, the entry opens.
    assert!(salt.opens(&commitment, &payload(1_234_567)));
    assert!(!other.opens(&commitment, &payload(1_234_567)));

    // Erased. The entry does not hold the payload, equal payloads do not look alike, and whoever tries all numbers
    // finds none, as a bare hash or a guessed salt does not give the commitment.
    drop(salt);
    assert!(!entry.contains("1234567"));
    assert_ne!(other.commit(&payload(1_234_567)), commitment);
    for number in (0..1_000).chain(1_234_000..1_235_000) {
        let text = strict::canonical(&payload(number));
        assert_ne!(Digest::of(text.as_bytes()), commitment);
        assert_ne!(leaf_hash(&text), commitment);
        assert!(!Salt::from_bytes([0; 32]).opens(&commitment, &payload(number)));
    }

    // The log verifies from its entries alone.
    assert_eq!(log.verify(Verifier::new(trust())).unwrap().confirmed(), 5);
    let path = tree::inclusion_proof(3, 5, log.nodes.lookup()).unwrap();
    assert_eq!(head.checkpoint().tree().includes(3, &leaf_hash(&entry), &path), Ok(()));
}
