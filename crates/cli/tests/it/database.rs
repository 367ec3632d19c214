//! Backups, and what a restore refuses.

use serde_json::json;
use toolgate_store::testing::Database;
use toolgate_store::{MIGRATIONS, Migration, Options, Store};

use crate::program::{Home, Server};

#[test]
fn a_backup_brings_back_what_was_and_keeps_what_is_replaced() {
    let home = Home::new();
    home.ok(&["agent", "create", "--name", "before"]);
    let file = home.path().join("copy.db").display().to_string();
    home.ok(&["db", "backup", &file]);
    home.ok(&["agent", "create", "--name", "after"]);
    for n in 1..=2 {
        let restored = home.json(&["db", "restore", &file]);
        assert!(restored["kept"].as_str().unwrap().ends_with(&format!("toolgate.db.before-restore-{n}")), "{restored}");
        let agents = home.json(&["agent", "list"]);
        assert_eq!(agents["items"].as_array().unwrap().len(), 1, "{agents}");
    }
    // What was replaced can be restored in turn.
    let kept = home.data().join("toolgate.db.before-restore-1").display().to_string();
    home.ok(&["db", "restore", &kept]);
    assert_eq!(home.json(&["agent", "list"])["items"].as_array().unwrap().len(), 2);
    assert!(!home.data().join("toolgate.db.restoring").exists());
}

#[test]
fn what_was_not_yet_in_the_file_is_kept_too() {
    let home = Home::new();
    let file = home.path().join("copy.db").display().to_string();
    home.ok(&["init"]);
    home.ok(&["db", "backup", &file]);
    // Killed: the last change is in the log beside the file.
    let server = Server::start(&home, &[]);
    home.ok(&["agent", "create", "--name", "in-the-log"]);
    server.kill();
    assert!(home.data().join("toolgate.db-wal").exists());
    home.ok(&["db", "restore", &file]);
    assert_eq!(home.json(&["agent", "list"])["items"], json!([]));
    // Moved away with its log, it is whole: opening it as a data folder shows everything.
    let other = Home::new();
    std::fs::create_dir_all(other.data()).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let from = home.data().join(format!("toolgate.db.before-restore-1{suffix}"));
        if from.exists() {
            std::fs::copy(from, other.data().join(format!("toolgate.db{suffix}"))).unwrap();
        }
    }
    // Without the key that wraps the others nobody opens it.
    assert!(other.fails(&["agent", "list"]).contains("made with another master key"));
    std::fs::copy(home.data().join("master.key"), other.data().join("master.key")).unwrap();
    assert_eq!(other.json(&["agent", "list"])["items"][0]["name"], "in-the-log");
    // And a file that has a log beside it is no backup.
    let in_use = home.data().join("toolgate.db.before-restore-1").display().to_string();
    assert!(home.fails(&["db", "restore", &in_use]).contains("copied while it was in use"));
}

#[test]
fn what_is_no_backup_is_refused_and_nothing_changes() {
    let home = Home::new();
    home.ok(&["agent", "create", "--name", "mine"]);
    let good = home.path().join("good.db").display().to_string();
    home.ok(&["db", "backup", &good]);
    let bytes = std::fs::read(&good).unwrap();
    let half = home.path().join("half.db");
    std::fs::write(&half, &bytes[..bytes.len() / 2]).unwrap();
    let mut broken = bytes.clone();
    let middle = broken.len() / 2;
    broken[middle..middle + 8192].fill(0xAB);
    let damaged = home.path().join("damaged.db");
    std::fs::write(&damaged, &broken).unwrap();
    home.write("text.db", "hello");
    home.write("empty.db", "");
    for (file, code) in [("half.db", 1), ("damaged.db", 1), ("text.db", 1), ("empty.db", 1), ("gone.db", 2)] {
        let printed = home.fails(&["db", "restore", file]);
        assert!(printed.ends_with(&format!("exit {code}")), "{file}: {printed}");
        assert!(printed.contains(file) && printed.contains("hint: "), "{file}: {printed}");
    }
    assert_eq!(home.json(&["agent", "list"])["items"][0]["name"], "mine");
    assert_eq!(std::fs::read(&good).unwrap(), bytes, "a file that is given is only read");
    let left: Vec<_> = home
        .data()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("restor"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_newer_database_is_refused_and_left_alone() {
    static NEWER: [Migration; 1] =
        [Migration { number: 9_999, name: "later", common: "CREATE TABLE later (id {int})", sqlite: "", postgres: "" }];
    let home = Home::new();
    let file = home.path().join("newer.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = Options { migrations: &NEWER, ..Options::new(format!("sqlite://{}", file.display())) };
        let store = Store::open(options).await.unwrap();
        store.migrate().await.unwrap();
        store.close().await.unwrap();
    });
    home.ok(&["init"]);
    let refused = home.fails(&["db", "restore", "newer.db"]);
    assert!(refused.contains("newer Toolgate") && refused.ends_with("exit 4"), "{refused}");
    std::fs::copy(&file, home.data().join("toolgate.db")).unwrap();
    for command in [&["tool", "list"][..], &["db", "migrate"]] {
        let refused = home.fails(command);
        assert!(refused.contains("newer Toolgate") && refused.ends_with("exit 4"), "{refused}");
    }
    assert!(home.run(&["doctor"]).stdout.contains("newer Toolgate"));
}

#[test]
fn postgres_works_from_a_folder_and_from_a_server() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(database) = runtime.block_on(Database::postgres(MIGRATIONS)) else { return };
    let mut home = Home::new();
    home.set("TOOLGATE_DATABASE", &database.url);
    let migrated = home.json(&["db", "migrate"]);
    assert_eq!(migrated["from"], 0, "{migrated}");
    assert_eq!(home.json(&["db", "migrate"])["from"], migrated["to"]);
    home.ok(&["agent", "create", "--name", "in-postgres"]);
    let server = Server::start(&home, &[]);
    assert!(home.is_served());
    assert_eq!(home.json(&["agent", "list"])["items"][0]["name"], "in-postgres");
    assert!(home.json(&["db", "status"])["url"].as_str().unwrap().starts_with("postgres"));
    assert!(home.fails(&["db", "backup", "x.db"]).contains("pg_dump"));
    drop(server);
    assert!(home.fails(&["db", "restore", "x.db"]).contains("pg_restore"));
}

#[test]
fn migrating_says_from_where_to_where() {
    let home = Home::new();
    let first = home.json(&["db", "migrate"]);
    assert_eq!(first["from"], 0, "{first}");
    assert_eq!(home.ok(&["db", "migrate"]), format!("The database is up to date, at migration {}.\n", first["to"]));
    // Only the schema was made; the next command makes the first rows.
    assert_eq!(home.json(&["whoami"])["tenant"], "default");
}
