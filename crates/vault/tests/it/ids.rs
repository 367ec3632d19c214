//! Ids of calls against values computed elsewhere, and sealed texts.

use toolgate_contracts::{Clock, Rng, RunId, TenantId};
use toolgate_store::MIGRATIONS;
use toolgate_store::testing::Database;
use toolgate_vault::{Keyring, MasterKey, Purpose, RunKey, Sealer};

/// Computed with Python's `hmac`, `hashlib` and `base64`.
const RUN_KEY: &str = "jF5/4Smg2TpCkYqs0WBXPV/FasYM1ewYkIV7k2X8GVA=";
const CALLS: [(&str, &str, u32, &str); 3] = [
    ("mail.send@1.2.0", r#"{"to":"ada@example.com"}"#, 0, "c_6f7zuv22p4kxmqlchmxucipo6u"),
    ("calculator@1.0.0", r#"{"expression":"1 + 1"}"#, u32::MAX, "c_oxo6bfacnsixrfv4inl5znkkrx"),
    ("calculator@1.0.0", r#"{"name":"é€😀"}"#, 7, "c_mr7c32xbrn24bdd2yrxs2ldp2n"),
];

async fn keyring() -> (Database, Keyring) {
    let database = Database::sqlite(MIGRATIONS).unwrap();
    let master = MasterKey::parse(&"07".repeat(32)).unwrap();
    let keyring = Keyring::open(database.open().await, master, None, Clock::System, Rng::System).await.unwrap();
    (database, keyring)
}

#[test]
fn a_call_has_the_id_that_anyone_computes() {
    let run_key = RunKey::from_base64(RUN_KEY).unwrap();
    assert_eq!(*run_key.to_base64(), RUN_KEY);
    for (tool, input, seq, expected) in CALLS {
        assert_eq!(run_key.call_id(tool, input, seq), expected, "{tool}");
    }
    assert_eq!(RunKey::from_base64("AAAA").map(|_| ()), None);
    assert_eq!(format!("{run_key:?}"), "RunKey");
}

#[tokio::test]
async fn what_differs_in_anything_has_another_id() {
    let (_database, keyring) = keyring().await;
    let key = async |tenant| keyring.key(Purpose::Tenant, Some(tenant)).await.unwrap();
    let tenants = [TenantId::new(&Clock::System, &Rng::System), TenantId::new(&Clock::System, &Rng::System)];
    let run = RunId::new(&Clock::System, &Rng::System);
    let mut ids = Vec::new();
    for tenant in tenants {
        let key = key(tenant).await;
        for run in [run, RunId::new(&Clock::System, &Rng::System)] {
            let run_key = RunKey::derive(&key, run);
            assert_eq!(run_key.call_id("a@1.0.0", "{}", 1), RunKey::derive(&key, run).call_id("a@1.0.0", "{}", 1));
            for (tool, input, seq) in [
                ("a@1.0.0", "{}", 1),
                ("a@1.0.0", "{}", 11),
                ("a@1.0.0", "{}1", 1),
                ("a@1.0.01", "{}", 1),
                ("a@1.0.0{}", "", 1),
            ] {
                let id = run_key.call_id(tool, input, seq);
                assert!(id.len() == 28 && id.chars().all(|char| matches!(char, 'a'..='z' | '2'..='7' | '_')), "{id}");
                ids.push(id);
            }
        }
    }
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[tokio::test]
async fn a_sealed_text_opens_for_whom_it_was_sealed() {
    let (_database, keyring) = keyring().await;
    let key = keyring.key(Purpose::Seal, None).await.unwrap();
    let sealer = Sealer::new(&key, Rng::System);
    for bytes in [b"".as_slice(), b"after=7", &[0; 5000]] {
        let text = sealer.seal("cursor/calls", bytes);
        assert!(text.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_')), "{text}");
        assert_eq!(sealer.open("cursor/calls", &text).as_deref(), Some(bytes));
        assert_ne!(sealer.seal("cursor/calls", bytes), text, "twice the same is not seen");
        assert_eq!(sealer.open("cursor/tools", &text), None);
        assert_eq!(sealer.open("cursor/calls", &text[..text.len() - 1]), None);
    }
    for broken in ["", "x", "====", "é", &"A".repeat(200)] {
        assert_eq!(sealer.open("cursor/calls", broken), None, "{broken}");
    }
    let text = sealer.seal("c", b"value");
    for at in 0..text.len() {
        let other = if &text[at..=at] == "A" { "B" } else { "A" };
        let forged = format!("{}{other}{}", &text[..at], &text[at + 1..]);
        assert_eq!(sealer.open("c", &forged), None, "changed at {at}");
    }

    let next = keyring.rotate(Purpose::Seal, None).await.unwrap();
    assert_eq!(Sealer::new(&next, Rng::System).open("c", &text), None);
    let both = Sealer::new(&next, Rng::System).opening(&key);
    assert_eq!(both.open("c", &text).as_deref(), Some(b"value".as_slice()));
    assert_eq!(sealer.open("c", &both.seal("c", b"new")), None, "the new key seals");
}
