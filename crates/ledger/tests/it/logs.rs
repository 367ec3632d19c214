//! Whole logs: what verifies, and everything that must not. Numbers are those of the list in our threat model.

use toolgate_contracts::Digest;
use toolgate_ledger::broken::EntryFault;
use toolgate_ledger::{
    Before, Broken, Checkpoint, Cosigner, Exported, Frontier, Signer, Trust, Verifier, leaf_hash, note, tree,
};

use crate::world::{Log, Nodes, origin, signer, text, trust, trust_of, witness};

fn verifier() -> Verifier {
    Verifier::new(trust())
}

#[track_caller]
fn refused(log: &Log, verifier: Verifier, expected: Broken) {
    assert_eq!(log.verify(verifier).map(|summary| summary.to_string()), Err(expected));
}

#[test]
fn an_honest_log_verifies() {
    let log = Log::new(11, &[0, 1, 5, 9]);
    let summary = log.verify(verifier().keeping(log.at(7))).unwrap();
    assert_eq!((summary.entries(), summary.confirmed(), summary.checkpoints()), (11, 9, 4));
    assert_eq!(summary.newest().unwrap().checkpoint(), &log.at(9));
    for kept in 0..=11 {
        assert!(log.verify(verifier().keeping(log.at(kept))).is_ok(), "kept at {kept}");
    }
    assert!(Log::new(0, &[]).verify(verifier()).is_ok(), "an empty log needs no checkpoint");
    assert!(Log::new(3, &[]).verify(verifier().keeping(log.at(3))).is_ok(), "a kept checkpoint is one");
    refused(&Log::new(3, &[]), verifier(), Broken::Unsigned);
}

#[test]
fn a_verification_goes_on_where_one_ended() {
    let mut log = Log::new(6, &[4]);
    let first = log.verify(verifier()).unwrap();
    let (start, kept) = (first.frontier().clone(), first.newest().unwrap().checkpoint().clone());
    log.append(&text(6));
    log.checkpoint();
    let rest = |start: &Frontier, notes: &[Vec<u8>], kept: Option<Checkpoint>| {
        let from = usize::try_from(start.size()).unwrap();
        let verifier = verifier().resuming(start.clone());
        let verifier = if let Some(kept) = kept { verifier.keeping(kept) } else { verifier };
        verifier.run::<Broken>(log.entries[from..].iter().cloned().map(Ok), notes.iter().cloned().map(Ok))
    };
    assert_eq!(rest(&start, &log.notes[1..], None).unwrap().confirmed(), 7);
    let order = Broken::CheckpointOrder { before: 6, size: 4 };
    assert_eq!(rest(&start, &log.notes, None).unwrap_err(), order, "an old checkpoint cannot be compared any more");
    assert_eq!(rest(&start, &log.notes[1..], Some(kept)).unwrap_err(), order);
    assert_eq!(rest(&start, &log.notes[1..], Some(log.at(6))).unwrap().confirmed(), 7);
    let other = Nodes::of((10..16).map(|index| leaf_hash(text(index))));
    assert_eq!(rest(&other.frontier, &log.notes[1..], None).unwrap_err(), Broken::Changed { after: 6, size: 7 });
    let behind = rest(&other.frontier, &[], Some(log.at(6)));
    assert_eq!(behind.unwrap_err(), Broken::Changed { after: 0, size: 6 }, "what was kept lies behind");
}

/// Test 21: a flipped bit, a swapped, dropped or duplicated entry verifies.
#[test]
fn test_21_no_changed_entry_verifies() {
    let honest = Log::new(9, &[3, 6, 9]);
    let size = honest.entries.len();
    for at in 0..size {
        // A bit of any letter. What is still JSON in its canonical form is found by the root, the rest at once.
        for letter in 0..honest.entries[at].text.len() {
            for bit in 0..7 {
                let mut log = honest.clone();
                let mut bytes = log.entries[at].text.clone().into_bytes();
                bytes[letter] ^= 1 << bit;
                log.entries[at].text = String::from_utf8(bytes).unwrap();
                let index = at as u64;
                match log.verify(verifier()).unwrap_err() {
                    Broken::Changed { after, size } => {
                        assert_eq!((after, size), (index / 3 * 3, index / 3 * 3 + 3));
                    }
                    Broken::Entry { index: named, why } => assert_eq!((named, why), (index, EntryFault::NotCanonical)),
                    other => panic!("{other}"),
                }
            }
        }
        // With exported digests the entry itself is named.
        let mut log = honest.clone();
        log.entries[at].digest = Some(leaf_hash(&log.entries[at].text));
        log.entries[at].text = text(77);
        refused(&log, verifier(), Broken::Entry { index: at as u64, why: EntryFault::Digest });

        // Dropped: as a gap, or with the rest numbered anew.
        let mut log = honest.clone();
        log.entries.remove(at);
        let gap = Broken::Order { expected: at as u64, found: at as u64 + 1 };
        let last = Broken::Truncated { kept: 9, size: 8 };
        refused(&log, verifier(), if at + 1 < size { gap } else { last });
        renumber(&mut log.entries);
        assert!(log.verify(verifier()).is_err());

        // Duplicated, beside itself or anywhere else. After the last checkpoint nothing is signed: there the copy is
        // read, if it is numbered on, but not confirmed.
        for to in 0..=size {
            let mut log = honest.clone();
            log.entries.insert(to, honest.entries[at].clone());
            assert!(matches!(log.verify(verifier()), Err(Broken::Order { .. })), "{at} again at {to}");
            renumber(&mut log.entries);
            match log.verify(verifier()) {
                Ok(summary) => {
                    assert_eq!(log.entries[..size], honest.entries, "{at} again at {to}");
                    assert_eq!((summary.confirmed(), summary.entries()), (9, 10));
                }
                Err(broken) => assert!(matches!(broken, Broken::Changed { .. }), "{at} again at {to}: {broken}"),
            }
        }

        // Swapped with any other.
        for other in at + 1..size {
            let mut log = honest.clone();
            log.entries.swap(at, other);
            refused(&log, verifier(), Broken::Order { expected: at as u64, found: other as u64 });
            renumber(&mut log.entries);
            let after = at as u64 / 3 * 3;
            refused(&log, verifier(), Broken::Changed { after, size: after + 3 });
        }
    }
}

fn renumber(entries: &mut [Exported]) {
    (0..).zip(entries).for_each(|(index, entry)| entry.index = index);
}

/// Test 22: a truncated tail verifies against a kept checkpoint.
#[test]
fn test_22_no_truncated_tail_verifies_against_a_kept_checkpoint() {
    let honest = Log::new(9, &[3, 6, 9]);
    for size in 0..9 {
        let mut log = honest.clone();
        log.entries.truncate(size);
        // With its checkpoints the cut shows by itself.
        let signed = (size as u64 / 3 + 1) * 3;
        refused(&log, verifier(), Broken::Truncated { kept: signed, size: size as u64 });
        // Whoever cuts the checkpoints too is believed by those who kept none, and by nobody else.
        log.notes.truncate(size / 3);
        if size >= 3 {
            assert!(log.verify(verifier()).unwrap().to_string().contains("would not be noticed"));
        }
        for kept in size as u64 + 1..=9 {
            refused(&log, verifier().keeping(honest.at(kept)), Broken::Truncated { kept, size: size as u64 });
        }
    }
}

/// Test 24: two different heads of one size get signed. Here: one signer refuses, and whoever kept a head notices.
#[test]
fn test_24_no_second_head_of_one_size_is_signed_or_accepted() {
    let mut log = Log::new(5, &[3, 5]);
    let mut fork = Log::new(4, &[3, 4]);
    fork.append(&text(55));

    // The signer's side: another root of the same size, or a size behind, after a restart or a restored backup.
    assert_eq!(log.sign(fork.current()).unwrap_err(), Broken::Fork { size: 5 });
    assert_eq!(log.sign(log.at(4)).unwrap_err(), Broken::Truncated { kept: 5, size: 4 });
    assert!(log.sign(log.current()).is_ok(), "the same head may be signed again, by a new key for instance");
    fork.append(&text(6));
    let proof = tree::consistency_proof(5, 6, fork.nodes.lookup()).unwrap();
    let before = Before::Signed { checkpoint: &log.at(5), proof: &proof };
    assert_eq!(fork.current().sign(before, &signer()).unwrap_err(), Broken::Proof(tree::Error::Root));

    // The verifier's side, where somebody with the key signed both.
    let forged = fork.at(5).sign(Before::Nothing, &signer()).unwrap().to_string().into_bytes();
    log.notes.push(forged.clone());
    refused(&log, verifier(), Broken::Fork { size: 5 });
    log.notes.pop();
    refused(&log, verifier().keeping(fork.at(5)), Broken::Fork { size: 5 });

    // A fork of another size than the kept head: the log shown is consistent in itself.
    fork.notes.push(fork.at(6).sign(Before::Nothing, &signer()).unwrap().to_string().into_bytes());
    assert!(fork.verify(verifier()).is_ok());
    refused(&fork, verifier().keeping(log.at(5)), Broken::Fork { size: 5 });
    // Without the second signature it is a change, which anybody with the database can make.
    fork.notes.pop();
    refused(&fork, verifier().keeping(log.at(5)), Broken::Changed { after: 4, size: 5 });
}

#[test]
fn no_byte_of_a_signed_checkpoint_can_be_changed() {
    let mut log = Log::new(5, &[]);
    let head = log.checkpoint();
    let mut note = head.note().clone();
    note.add(witness(1).cosign(&head, 1_790_000_000)).unwrap();
    let keys = vec![signer().verifier().clone(), witness(1).verifier().clone()];
    let trust = trust_of(keys).witnessed_by(1);
    let bytes = note.to_string().into_bytes();
    assert_eq!(trust.open(&bytes).unwrap().witnesses().len(), 1);
    for index in 0..bytes.len() {
        for change in [0x01, 0x02, 0x20, 0x80] {
            let mut bytes = bytes.clone();
            bytes[index] ^= change;
            assert!(trust.open(&bytes).is_err(), "byte {index} by {change:#x}");
        }
        let mut shorter = bytes.clone();
        shorter.remove(index);
        assert!(trust.open(&shorter).is_err(), "without byte {index}");
    }
    for length in 0..bytes.len() {
        assert!(trust.open(&bytes[..length]).is_err(), "cut at {length}");
    }
}

#[test]
fn a_log_is_believed_by_its_own_key_alone() {
    let log = Log::new(4, &[4]);
    let other = |name: &str| Signer::from_seed(name.parse().unwrap(), &[9; 32]);
    let none = Broken::Signature(note::Error::NoKnownKey);

    // Another log's key, also one among those that are known, and a key with the right name that is not known.
    refused(&log, Verifier::new(trust_of(vec![other("gate.example/audit/other").verifier().clone()])), none.clone());
    refused(&log, Verifier::new(trust_of(vec![other(crate::world::ORIGIN).verifier().clone()])), none.clone());
    let stranger = Checkpoint { origin: "gate.example/audit/other".parse().unwrap(), ..log.current() };
    let signed = stranger.sign(Before::Nothing, &other("gate.example/audit/other")).unwrap().to_string();
    let both = trust_of(vec![signer().verifier().clone(), other("gate.example/audit/other").verifier().clone()]);
    assert_eq!(both.open(signed.as_bytes()).unwrap_err(), none);
    let (expected, found) = (origin(), stranger.origin.clone());
    assert_eq!(
        stranger.sign(Before::Nothing, &signer()).unwrap_err(),
        Broken::Origin { expected: expected.clone(), found: found.clone() }
    );
    refused(&log, verifier().keeping(stranger), Broken::Origin { expected, found });

    // A key that was changed: both are known, one signature is enough.
    let (old, new) = (signer(), other(crate::world::ORIGIN));
    let trust = trust_of(vec![old.verifier().clone(), new.verifier().clone()]);
    for key in [old, new] {
        let note = log.current().sign(Before::Nothing, &key).unwrap().to_string();
        assert!(trust.open(note.as_bytes()).is_ok());
    }
}

#[test]
fn a_witness_counts_once_and_never_for_the_log() {
    let mut log = Log::new(4, &[]);
    let head = log.checkpoint();
    let twin = Cosigner::from_seed("witness.example/twin".parse().unwrap(), &[101; 32]);
    let mut note = head.note().clone();
    for cosigner in [&witness(1), &twin, &witness(2)] {
        note.add(cosigner.cosign(&head, 1_790_000_000)).unwrap();
    }
    let witnesses = || [witness(1), twin_of(&twin), witness(2), witness(3)].map(|key| key.verifier().clone());
    let trust = |min| {
        let keys = [signer().verifier().clone()].into_iter().chain(witnesses());
        Trust::new(origin(), keys).witnessed_by(min)
    };
    let bytes = note.to_string().into_bytes();
    assert_eq!(trust(2).open(&bytes).unwrap().witnesses().len(), 2);
    assert_eq!(trust(3).open(&bytes).unwrap_err(), Broken::Witnesses { needed: 3, found: 2 });
    let alone = trust_of(witnesses().to_vec());
    assert_eq!(alone.open(&bytes).unwrap_err(), Broken::Signature(note::Error::NoKnownKey), "no log key");
}

fn twin_of(cosigner: &Cosigner) -> Cosigner {
    Cosigner::from_seed(cosigner.verifier().name().clone(), &cosigner.seed())
}

#[test]
fn a_witness_sees_that_a_log_only_grows() {
    let log = Log::new(9, &[]);
    for old in 0..=9 {
        for size in 0..=9 {
            let proof = tree::consistency_proof(old, size, log.nodes.lookup()).unwrap_or_default();
            let answer = log.at(size).follows(&log.at(old), &proof);
            if size < old {
                assert_eq!(answer, Err(Broken::Truncated { kept: old, size }));
            } else {
                assert_eq!(answer, Ok(()));
                let other = Checkpoint { root: leaf_hash("other"), ..log.at(size) };
                assert!(old == 0 || other.follows(&log.at(old), &proof).is_err());
            }
        }
    }
}

#[test]
fn a_checkpoint_is_read_strictly() {
    let root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=";
    let good = format!("example.com/behind-the-sofa\n20852163\n{root}\n");
    let read = Checkpoint::parse(&good).unwrap();
    assert_eq!((read.origin.as_str(), read.size), ("example.com/behind-the-sofa", 20_852_163));
    assert_eq!(read.to_string(), good);
    assert_eq!(Checkpoint::parse(&format!("{good}an extension\nanother\n")).unwrap(), read);
    assert!(Checkpoint::parse("an origin + more\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n").is_ok());
    for bad in [
        String::new(),
        "\n".into(),
        format!("\n1\n{root}\n"),
        format!("{}\n1\n{root}\n", "o".repeat(256)),
        format!("o\n1\n{root}"),
        format!("o\n1\n{root}\n\n"),
        format!("o\n1\n{root}\n\nmore\n"),
        format!("o\n\n{root}\n"),
        format!("o\n01\n{root}\n"),
        format!("o\n-1\n{root}\n"),
        format!("o\n1 \n{root}\n"),
        format!("o\n9223372036854775808\n{root}\n"),
        format!("o\n0\n{root}\n"),
        format!("o\r\n1\n{root}\n"),
        "o\n1\n".into(),
        "o\n1\nCsUY\n".into(),
        "o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2J=\n".into(),
    ] {
        assert!(matches!(Checkpoint::parse(&bad), Err(Broken::Checkpoint(_))), "{bad:?}");
    }
}

#[test]
fn entries_are_what_every_reader_reads() {
    for (bad, why) in [
        ("{\"a\": 1}", EntryFault::NotCanonical),
        ("{\"b\":1,\"a\":1}", EntryFault::NotCanonical),
        ("{\"a\":1,\"a\":2}", EntryFault::NotCanonical),
        ("{\"a\":9007199254740993}", EntryFault::NotCanonical),
        ("not JSON", EntryFault::NotCanonical),
        ("", EntryFault::NotCanonical),
    ] {
        let mut log = Log::new(1, &[]);
        log.append(bad);
        log.checkpoint();
        refused(&log, verifier(), Broken::Entry { index: 1, why });
    }
    let mut log = Log::default();
    log.append(&format!("\"{}\"", "x".repeat(65_533)));
    log.checkpoint();
    assert!(log.verify(verifier()).is_ok());
    log.append(&format!("\"{}\"", "x".repeat(65_534)));
    log.checkpoint();
    refused(&log, verifier(), Broken::Entry { index: 1, why: EntryFault::TooLarge(65_536) });
}

#[test]
fn the_summary_says_what_was_not_checked() {
    let mut log = Log::new(4, &[2]);
    let head = log.checkpoint();
    let mut note = head.note().clone();
    note.add(witness(1).cosign(&head, 1_790_000_000)).unwrap();
    log.notes[1] = note.to_string().into_bytes();
    log.append(&text(4));
    let root: Digest = log.current().root;
    let trust = trust_of(vec![signer().verifier().clone(), witness(1).verifier().clone()]);
    assert_eq!(
        log.verify(Verifier::new(trust.clone())).unwrap().to_string(),
        format!(
            "log       gate.example/audit/acme\n\
             entries   5, root {root}\n\
             signed    4 of them, recomputed under 2 checkpoints\n\
             unsigned  1 at the end: nothing is known about them yet\n\
             kept      no checkpoint: entries cut off the end would not be noticed\n\
             witness   witness.example/w1 at 2026-09-21T14:13:20.000Z\n"
        )
    );
    let kept = log.verify(Verifier::new(trust).keeping(log.at(3))).unwrap().to_string();
    assert!(kept.contains("kept      the checkpoint of 3 entries, which the log contains\n"), "{kept}");
}

#[test]
fn an_error_of_the_reader_ends_the_verification() {
    #[derive(Debug, PartialEq)]
    enum Failure {
        Disk,
        Broken(Broken),
    }
    impl From<Broken> for Failure {
        fn from(broken: Broken) -> Self {
            Self::Broken(broken)
        }
    }
    let log = Log::new(2, &[2]);
    let entries = || log.entries.iter().cloned().map(Ok);
    let notes = || log.notes.iter().cloned().map(Ok);
    let failed = verifier().run(entries().take(1).chain([Err(Failure::Disk)]), notes());
    assert_eq!(failed.unwrap_err(), Failure::Disk);
    let failed = verifier().run(entries(), notes().chain([Err(Failure::Disk)]));
    assert_eq!(failed.unwrap_err(), Failure::Disk);
    let broken = verifier().run::<Failure>(entries().take(1), notes());
    assert_eq!(broken.unwrap_err(), Failure::Broken(Broken::Truncated { kept: 2, size: 1 }));
}
