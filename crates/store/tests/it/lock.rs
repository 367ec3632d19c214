//! One process per data folder.

#![expect(clippy::disallowed_methods, reason = "a test that kills a process must start one, and tell it where to work")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Map, json};
use toolgate_store::Error;
use toolgate_store::lock::{DataLock, LockError};

const FOLDER: &str = "TOOLGATE_TEST_LOCK_FOLDER";

fn info(text: &str) -> Map<String, serde_json::Value> {
    json!({"url": text}).as_object().unwrap().clone()
}

#[test]
fn a_second_holder_is_told_who_the_first_is() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(DataLock::holder(folder.path()).unwrap(), None);
    let lock = DataLock::acquire(folder.path()).unwrap();
    for url in ["http://127.0.0.1:8080/a/rather/long/address", "http://[::1]", ""] {
        lock.publish(&info(url)).unwrap();
        let Err(LockError::Held(held)) = DataLock::acquire(folder.path()) else { panic!("it was not held") };
        assert_eq!(held.pid, Some(std::process::id()));
        assert_eq!(held.info["url"], url);
        assert_eq!(DataLock::holder(folder.path()).unwrap(), Some(held));
    }
    drop(lock);
    assert_eq!(DataLock::holder(folder.path()).unwrap(), None);
    DataLock::acquire(folder.path()).unwrap();
}

#[test]
fn a_folder_that_cannot_be_locked_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = DataLock::acquire(&folder.path().join("missing"));
    assert!(matches!(missing, Err(LockError::Folder(Error::Open { .. }))), "{missing:?}");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let no_folder = DataLock::acquire(&file);
    assert!(matches!(no_folder, Err(LockError::Folder(Error::Open { .. }))), "{no_folder:?}");
    // What somebody else wrote into the file is no reason to fail.
    std::fs::write(folder.path().join("lock"), vec![0xff; 100_000]).unwrap();
    let lock = DataLock::acquire(folder.path()).unwrap();
    assert_eq!(DataLock::holder(folder.path()).unwrap().unwrap().pid, Some(std::process::id()));
    drop(lock);
}

/// The process that is killed. Does nothing when it is run with the other tests.
#[test]
fn the_child_holds_the_lock_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let lock = DataLock::acquire(folder.as_ref()).unwrap();
    lock.publish(&info("child")).unwrap();
    println!("\nholding");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_lock_ends_with_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lock::the_child_holds_the_lock_until_it_is_killed", "--nocapture"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "holding"));
    let Err(LockError::Held(held)) = DataLock::acquire(folder.path()) else { panic!("it was not held") };
    assert_eq!((held.pid, &held.info["url"]), (Some(child.id()), &json!("child")));
    child.kill().unwrap();
    child.wait().unwrap();
    DataLock::acquire(folder.path()).unwrap();
}
