//! The log from outside: what `audit verify` and `audit follow` say of a log that somebody changed.

use std::path::Path;

use serde_json::{Value, json};
use toolgate_store::MIGRATIONS;
use toolgate_store::testing::{Database, execute_as_owner};

use crate::program::{Home, Ran, Server, both, finish};

/// A log of so many entries.
fn write_entries(home: &Home, names: &[&str]) {
    for name in names {
        home.ok(&["agent", "create", "--name", name]);
    }
}

/// What somebody does who has the database.
fn execute(url: &str, sql: &str) {
    tokio::runtime::Runtime::new().unwrap().block_on(execute_as_owner(url, sql)).unwrap();
}

/// The same, past the rules that keep entries as they are.
fn tamper(home: &Home, sql: &str) {
    let url = format!("sqlite://{}", home.data().join("toolgate.db").display());
    let free: String = ["leaves", "sequence", "checkpoints"]
        .iter()
        .flat_map(|table| {
            ["update", "delete"].map(|verb| format!("DROP TRIGGER IF EXISTS audit_{table}_append_only_{verb};"))
        })
        .chain(["DROP TRIGGER IF EXISTS audit_sequence_once;".to_owned()])
        .collect();
    execute(&url, &format!("PRAGMA foreign_keys = OFF; {free} {sql}"));
}

/// The error of a verification that must find something.
#[track_caller]
fn broken(ran: &Ran) -> String {
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
    let told = ran.stderr.lines().find_map(|line| line.strip_prefix("error: "));
    told.unwrap_or_else(|| panic!("{}", ran.stderr)).to_owned()
}

#[test]
fn the_log_is_listed_shown_exported_and_verified() {
    both(|home| {
        write_entries(home, &["one", "two", "three"]);
        let list = home.json(&["audit", "list", "--action", "agent.*"]);
        let objects: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| &item["entry"]["object"]).collect();
        assert_eq!(objects, ["three", "two", "one"]);
        assert_eq!(home.json(&["audit", "list", "--object", "two"])["items"].as_array().unwrap().len(), 1);
        assert_eq!(home.json(&["audit", "list", "--until", "2020-01-01T00:00:00Z"])["items"], json!([]));
        assert!(home.fails(&["audit", "list", "--since", "yesterday"]).contains("write 1h, 7d"));
        let index = list["items"][0]["index"].to_string();
        assert_eq!(home.json(&["audit", "show", &index])["entry"]["object"], "three");
        assert!(home.fails(&["audit", "show", "999999"]).contains("the log has no entry 999999"));
        assert!(home.fails(&["audit", "show", "nonsense"]).contains("the log has no such entry"));

        let exported = home.json(&["audit", "export", "--to", "copy"]);
        assert!(exported["entries"].as_u64().unwrap() >= 3, "{exported}");
        let verified = home.json(&["audit", "verify", "copy"]);
        assert_eq!(verified["entries"], exported["entries"]);
        assert_eq!(verified["kept"], Value::Null);
        // Continued, not begun anew; and the head that was seen is in it.
        write_entries(home, &["four"]);
        home.ok(&["audit", "export", "--to", "copy"]);
        assert_eq!(home.json(&["audit", "verify", "copy"])["kept"], verified["size"]);
        assert!(home.ok(&["audit", "verify", "--live"]).starts_with("The log verifies."));
    });
}

#[test]
fn a_proof_is_checked_without_the_log() {
    let home = Home::new();
    write_entries(&home, &["one", "two", "three"]);
    home.ok(&["audit", "prove", "1", "--to", "proof.json"]);
    let key = home.json(&["audit", "verify", "--live"])["keys"][0].as_str().unwrap().to_owned();
    home.ok(&["audit", "verify", "proof.json"]);
    // Somebody who never saw the log needs its key.
    let other = Home::new();
    let text = std::fs::read_to_string(home.path().join("proof.json")).unwrap();
    other.write("proof.json", &text);
    assert!(other.fails(&["audit", "verify", "proof.json"]).contains("no key of toolgate/"));
    other.ok(&["audit", "verify", "proof.json", "--verifier", &key]);
    other.write("forged.json", &text.replace("two", "six"));
    let ran = other.run(&["audit", "verify", "forged.json", "--verifier", &key]);
    assert_eq!(broken(&ran), "the entry is not the one of the receipt");
    other.write("moved.json", &text.replace("index 1\\n", "index 0\\n"));
    let ran = other.run(&["audit", "verify", "moved.json", "--verifier", &key]);
    assert_eq!(broken(&ran), "the receipt is for entry 1, the proof for entry 0");
}

#[test]
fn what_was_done_to_the_database_is_found() {
    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let home = Home::new();
        write_entries(&home, &["one", "two", "three", "four", "five"]);
        let head = home.ok(&["audit", "checkpoint"]);
        home.write("head.txt", &head);
        write_entries(&home, &["six"]);
        home.ok(&["audit", "checkpoint"]);
        tamper(&home, sql);
        let kept = broken(&home.run(&["audit", "verify", "--live", "--checkpoint", "head.txt"]));
        assert!(kept.contains(expected), "{sql}: {kept}");
    }
    let nth =
        |n: u32| format!("(SELECT leaf_id FROM audit_sequence WHERE leaf_index = {n} AND tenant_id <> zeroblob(16))");
    // A letter of an entry, its digest, and one entry twice.
    check(
        &format!("UPDATE audit_leaves SET entry = replace(entry, 'three', 'thref') WHERE id = {}", nth(2)),
        "entry 2 does not have the digest that was recorded for it",
    );
    check(
        &format!("UPDATE audit_leaves SET digest = zeroblob(32) WHERE id = {}", nth(2)),
        "entry 2 does not have the digest that was recorded for it",
    );
    check(
        &format!(
            "UPDATE audit_leaves SET (entry, digest) = (SELECT o.entry, o.digest FROM audit_leaves o WHERE o.id = {})
             WHERE id = {}",
            nth(1),
            nth(2)
        ),
        "some of the entries from 0 up to 5 are not those that were signed",
    );
    // Two entries that changed places.
    check(
        "UPDATE audit_sequence SET leaf_index = -1 WHERE tenant_id <> zeroblob(16) AND leaf_index = 1;
         UPDATE audit_sequence SET leaf_index = 1 WHERE tenant_id <> zeroblob(16) AND leaf_index = 2;
         UPDATE audit_sequence SET leaf_index = 2 WHERE leaf_index = -1",
        "some of the entries from 0 up to 5 are not those that were signed",
    );
    // One that is gone, in the middle and at the end.
    check(
        &format!("DELETE FROM audit_leaves WHERE id = {}", nth(2)),
        "entry 2 is missing: entry 3 stands in its place",
    );
    check(
        &format!("DELETE FROM audit_leaves WHERE id = {}", nth(5)),
        "the log ends after 5 entries, but 6 were signed",
    );
    // A tail that is gone with everything that told of it.
    let tail = "DELETE FROM audit_checkpoints WHERE size > 3;
         DELETE FROM audit_leaves WHERE id IN (SELECT leaf_id FROM audit_sequence WHERE leaf_index >= 3
            AND tenant_id <> zeroblob(16)); DELETE FROM audit_sequence WHERE leaf_index >= 3;
         UPDATE audit_progress SET size = 3 WHERE tenant_id <> zeroblob(16)";
    check(tail, "the log ends after 3 entries, but 5 were signed");
}

#[test]
fn a_log_cut_off_with_all_its_heads_is_found_by_who_saw_one() {
    let home = Home::new();
    write_entries(&home, &["one", "two", "three", "four"]);
    home.ok(&["audit", "verify", "--live"]);
    tamper(
        &home,
        "DELETE FROM audit_checkpoints; DELETE FROM audit_leaves WHERE id IN (SELECT leaf_id FROM audit_sequence
            WHERE leaf_index >= 2 AND tenant_id <> zeroblob(16)); DELETE FROM audit_sequence WHERE leaf_index >= 2;
         UPDATE audit_progress SET size = 2, position = (SELECT max(rowid) FROM audit_leaves WHERE tenant_id <> zeroblob(16))
            WHERE tenant_id <> zeroblob(16)",
    );
    // The server's own folder has pinned a head.
    let refused = home.fails(&["audit", "checkpoint"]);
    assert!(refused.contains("4 were signed"), "{refused}");
    std::fs::remove_dir_all(home.data().join("audit")).unwrap();
    // Without it the database looks whole, but not to somebody who saw more.
    let ran = home.run(&["audit", "verify", "--live"]);
    assert_eq!(broken(&ran), "the log ends after 2 entries, but 4 were signed");
    std::fs::remove_dir_all(home.path().join(".config")).unwrap();
    home.ok(&["audit", "verify", "--live"]);
}

#[test]
fn a_folder_that_was_changed_does_not_verify() {
    let home = Home::new();
    write_entries(&home, &["one", "two", "three"]);
    home.ok(&["audit", "export", "--to", "copy"]);
    let file = home.path().join("copy/entries.jsonl");
    let good = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let check = |lines: &[&str], expected: &str| {
        std::fs::write(&file, format!("{}\n", lines.join("\n"))).unwrap();
        assert_eq!(broken(&home.run(&["audit", "verify", "copy"])), expected);
    };
    check(
        &[&lines[0].replace("one", "two"), lines[1], lines[2]],
        "entry 0 does not have the digest that was recorded for it",
    );
    check(&[lines[0], lines[2], lines[1]], "entry 1 is missing: entry 2 stands in its place");
    check(&[lines[0], lines[2]], "entry 1 is missing: entry 2 stands in its place");
    check(&[lines[0], lines[0], lines[1], lines[2]], "entry 1 is missing: entry 0 stands in its place");
    check(&[lines[0], lines[1]], "the log ends after 2 entries, but 3 were signed");
    check(&[lines[0], "{", lines[2]], "a line of the entries is not JSON");
    std::fs::write(&file, &good).unwrap();
    // A head that somebody else signed.
    let checkpoints = home.path().join("copy/checkpoints.jsonl");
    let signed = std::fs::read_to_string(&checkpoints).unwrap();
    std::fs::write(&checkpoints, signed.replace("\\n3\\n", "\\n2\\n")).unwrap();
    assert!(broken(&home.run(&["audit", "verify", "copy"])).contains("no valid signature"));
}

#[test]
fn a_restored_database_is_refused_until_it_is_accepted() {
    let home = Home::new();
    write_entries(&home, &["one"]);
    let file = home.path().join("copy.db").display().to_string();
    home.ok(&["db", "backup", &file]);
    write_entries(&home, &["two", "three"]);
    let before = home.json(&["audit", "checkpoint"]);
    // Not by `db restore`, which says so itself.
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(home.data().join(format!("toolgate.db{suffix}")));
    }
    std::fs::copy(&file, home.data().join("toolgate.db")).unwrap();
    let ran = finish(Server::command(&home, &[]).spawn().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("the database is older than its last signed head"), "{}", ran.stderr);
    assert!(ran.stderr.contains("toolgate audit accept-restore"), "{}", ran.stderr);
    let accepted = home.json(&["audit", "accept-restore"]);
    assert!(accepted["signed_before"].to_string().contains(before["log"].as_str().unwrap()), "{accepted}");
    drop(Server::start(&home, &[]));
    let after = home.json(&["audit", "checkpoint"]);
    assert_ne!(after["log"], before["log"]);
    let entry = &home.json(&["audit", "list", "--action", "db.restore"])["items"][0]["entry"];
    assert_eq!((&entry["details"]["size_before"], &entry["details"]["log_before"]), (&before["size"], &before["log"]));
    home.ok(&["audit", "verify", "--live"]);

    // `db restore` accepts by itself.
    home.ok(&["db", "restore", &file]);
    drop(Server::start(&home, &[]));
    assert_ne!(home.json(&["audit", "checkpoint"])["log"], after["log"]);
    home.ok(&["audit", "verify", "--live"]);
}

fn follow(home: &Home, server: &Server, to: &str) -> Ran {
    let key_file = server.key_file.display().to_string();
    finish(
        home.bare(&["audit", "follow", "--from", &server.url, "--to", to, "--once", "--key-file", &key_file])
            .spawn()
            .unwrap(),
    )
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap().lines().count()
}

#[test]
fn a_copy_elsewhere_is_kept_countersigned_and_goes_on_after_a_cut() {
    let (home, elsewhere) = (Home::new(), Home::new());
    let server = Server::start(&home, &[]);
    write_entries(&home, &["one", "two"]);
    let ran = follow(&elsewhere, &server, "copy");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let entries = elsewhere.path().join("copy/entries.jsonl");
    let count = lines(&entries);
    assert!(count >= 2, "{}", ran.stdout);
    write_entries(&home, &["three"]);
    // Cut off within a line that it was writing, and with a rest of a round that never ended.
    let text = std::fs::read_to_string(&entries).unwrap();
    std::fs::write(&entries, format!("{text}{}", &text[..20])).unwrap();
    elsewhere.write("copy/incoming.jsonl", "{\"index\":");
    let url = server.url.clone();
    server.kill();
    let key_file = home.data().join("admin.key").display().to_string();
    let gone = elsewhere
        .bare(&["audit", "follow", "--from", &url, "--to", "copy", "--once", "--key-file", &key_file])
        .spawn()
        .unwrap();
    assert_eq!(finish(gone).code, 4);
    let server = Server::start(&home, &[]);
    let ran = follow(&elsewhere, &server, "copy");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(lines(&entries) > count);
    let verified = elsewhere.ok(&["audit", "verify", "copy"]);
    assert!(verified.contains("witness   toolgate-follow/"), "{verified}");
    assert!(!elsewhere.path().join("copy/ALARM").exists());
}

#[test]
fn a_forked_or_rolled_back_server_raises_the_alarm_and_leaves_the_copy_alone() {
    // Two data folders with the same keys and the same beginning.
    let (one, two, elsewhere) = (Home::new(), Home::new(), Home::new());
    write_entries(&one, &["one"]);
    one.ok(&["audit", "checkpoint"]);
    std::fs::create_dir_all(two.data()).unwrap();
    for entry in one.data().read_dir().unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        std::fs::copy(entry.path(), two.data().join(entry.file_name())).unwrap();
    }
    write_entries(&one, &["two", "three"]);
    let server = Server::start(&one, &[]);
    for to in ["forked", "older"] {
        assert_eq!(follow(&elsewhere, &server, to).code, 0);
    }
    drop(server);
    let server = Server::start(&two, &[]);
    let check = |to: &str, expected: &str| {
        let (entries, heads) =
            (elsewhere.path().join(to).join("entries.jsonl"), elsewhere.path().join(to).join("checkpoints.jsonl"));
        let before = (std::fs::read(&entries).unwrap(), std::fs::read(&heads).unwrap());
        let ran = follow(&elsewhere, &server, to);
        let told = broken(&ran);
        assert!(told.starts_with("ALARM: ") && told.contains(expected), "{told}");
        assert!(std::fs::read_to_string(elsewhere.path().join(to).join("ALARM")).unwrap().contains(expected));
        assert_eq!((std::fs::read(&entries).unwrap(), std::fs::read(&heads).unwrap()), before);
        // It stays.
        assert!(broken(&follow(&elsewhere, &server, to)).contains("ALARM says that this log was changed"));
    };
    check("older", "were signed");
    write_entries(&two, &["other", "others", "and", "more", "than", "before"]);
    check("forked", "does not continue this copy");
}

#[test]
fn postgres_logs_verify_and_tampering_is_found_there_too() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(database) = runtime.block_on(Database::postgres(MIGRATIONS)) else { return };
    let mut home = Home::new();
    home.set("TOOLGATE_DATABASE", &database.url);
    write_entries(&home, &["one", "two", "three"]);
    home.ok(&["audit", "verify", "--live"]);
    execute(
        &database.url,
        "ALTER TABLE audit_leaves DISABLE TRIGGER USER;
         UPDATE audit_leaves SET entry = replace(entry, '\"object\":\"two\"', '\"object\":\"six\"')",
    );
    let told = broken(&home.run(&["audit", "verify", "--live"]));
    assert!(told.contains("entry 1 does not have the digest"), "{told}");
}
