//! What goes wrong outside is named, has a remedy, and loses nothing.

use std::fs;
use std::path::Path;
use std::time::Duration;

use toolgate_contracts::{Fault, FaultKind};
use toolgate_store::testing::{Database, postgres_url};
use toolgate_store::{Durability, Error, Options, Scope, Store};

use crate::schema::{MIGRATIONS, bodies, count, note, tenant, write};

async fn opened(url: &str) -> Result<Store, Error> {
    let store = Store::open(Options { migrations: MIGRATIONS, ..Options::new(url) }).await?;
    store.migrate().await?;
    Ok(store)
}

#[track_caller]
fn refused(opened: Result<Store, Error>, says: &str) {
    let Err(Error::Open { message, remedy }) = opened.map(|_| ()) else { panic!("`{says}` was not refused so") };
    assert!(message.contains(says), "{message}");
    assert!(!remedy.is_empty());
    assert!(!message.contains("hunter2") && !remedy.contains("hunter2"), "{message} {remedy}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_no_place_for_a_database_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| format!("sqlite://{}/{name}", folder.path().display());
    refused(opened(&at("missing/toolgate.db")).await, "does not exist");
    refused(opened(&at("")).await, "is a folder");
    fs::write(folder.path().join("file"), "text").unwrap();
    refused(opened(&at("file/toolgate.db")).await, "is a file");

    let text = "this is not a database, and long enough that nobody takes it for an empty one\n".repeat(100);
    fs::write(folder.path().join("text.db"), &text).unwrap();
    refused(opened(&at("text.db")).await, "is not a SQLite database");
    assert_eq!(fs::read_to_string(folder.path().join("text.db")).unwrap(), text, "it was not touched");
    assert!(!folder.path().join("missing").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_is_named() {
    let database = Database::sqlite(MIGRATIONS).unwrap();
    database.open().await.close().await.unwrap();
    let path = database.folder().unwrap().join("toolgate.db");
    let mut bytes = fs::read(&path).unwrap();
    let half = bytes.len() / 4;
    bytes[100..half].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let error = match opened(&database.url).await {
        Err(error) => error,
        Ok(store) => store.query(&Scope::Everyone("a test"), "SELECT count(*) FROM notes", vec![]).await.unwrap_err(),
    };
    assert!(matches!(error, Error::Open { .. } | Error::Corrupt(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let database = Database::sqlite(MIGRATIONS).unwrap();
    let store = database.open().await;
    write(&store, tenant(1), 1, "one").await.unwrap();
    for entry in fs::read_dir(database.folder().unwrap()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_what_does_not_fit_and_keeps_the_rest() {
    let database = Database::sqlite(MIGRATIONS).unwrap();
    let store = database.open().await;
    write(&store, tenant(1), 1, "before").await.unwrap();
    store.limit_pages(20).await.unwrap();
    let large = "x".repeat(200_000);
    // Among small ones in the same group: they fit.
    let outcomes = tokio::join!(
        write(&store, tenant(1), 2, "small"),
        write(&store, tenant(1), 3, &large),
        write(&store, tenant(1), 4, "small too"),
        write(&store, tenant(1), 5, &large),
    );
    for outcome in [outcomes.1, outcomes.3] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Full), "{error:?}");
        let fault = Fault::from(error);
        assert_eq!(fault.kind(), FaultKind::Unavailable);
        assert!(fault.told().contains("full"));
    }
    outcomes.0.unwrap();
    outcomes.2.unwrap();
    assert_eq!(bodies(&store, tenant(1)).await, ["before", "small", "small too"]);
    store.limit_pages(0).await.unwrap();
    write(&store, tenant(1), 3, &large).await.unwrap();
    assert_eq!(count(&store).await, 4);
}

/// On a file system of one megabyte, where mounting is permitted.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_file_system_fills_and_nothing_answered_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mount::new(folder.path(), &["-t", "tmpfs", "-o", "size=1m", "tmpfs"]) else { return };
    let url = format!("sqlite://{}/toolgate.db", folder.path().display());
    let store = opened(&url).await.unwrap();
    let mut kept = Vec::new();
    let mut refused = 0;
    for id in 0..400_i64 {
        let durability = if id % 2 == 0 { Durability::Disk } else { Durability::Process };
        let body = format!("{id}{}", "x".repeat(20_000));
        match store.commit(note(tenant(1), id, &body).durability(durability)).await {
            Ok(_) => kept.push(id),
            Err(Error::Full) => refused += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(refused > 0 && !kept.is_empty());
    // Reading goes on, and a new opener finds the same.
    assert_eq!(bodies(&store, tenant(1)).await.len(), kept.len());
    let backup = store.backup(&folder.path().join("copy.db")).await;
    assert!(matches!(backup, Err(Error::Full)), "{backup:?}");
    assert!(!folder.path().join("copy.db").exists() && !folder.path().join("copy.db.partial").exists());
    store.close().await.unwrap();
    let store = opened(&url).await.unwrap();
    assert_eq!(bodies(&store, tenant(1)).await.len(), kept.len());
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/toolgate.db", folder.path().display());
    opened(&url).await.unwrap().close().await.unwrap();
    let empty = tempfile::tempdir().unwrap();
    let empty_url = format!("sqlite://{}/toolgate.db", empty.path().display());
    let read_only = [folder.path(), empty.path()].map(ReadOnly::new);
    if read_only.iter().any(Option::is_none) {
        return;
    }
    for url in [url.as_str(), &empty_url] {
        let error = opened(url).await.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::ReadOnly), "{url}: {error:?}");
        assert!(Fault::from(error).remedy().contains("read-only"));
    }
    drop(read_only);
    assert_eq!(count(&opened(&url).await.unwrap()).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_whole_and_overwrites_nothing() {
    let database = Database::sqlite(MIGRATIONS).unwrap();
    let store = database.open().await;
    for id in 0..200_i64 {
        store
            .commit(note(tenant(1), id, &format!("{id} {}", "x".repeat(1000))).durability(Durability::Process))
            .await
            .unwrap();
    }
    let copy = database.folder().unwrap().join("copy.db");
    // While it is written to.
    let (copied, written) = tokio::join!(store.backup(&copy), write(&store, tenant(2), 1, "meanwhile"));
    copied.unwrap();
    written.unwrap();
    let again = store.backup(&copy).await.unwrap_err();
    assert!(matches!(&again, Error::Open { message, .. } if message.contains("exists")), "{again:?}");
    let restored = opened(&format!("sqlite://{}", copy.display())).await.unwrap();
    assert_eq!(bodies(&restored, tenant(1)).await.len(), 200);
    assert!(restored.migration_state().await.unwrap().is_current());

    if let Some(database) = Database::postgres(MIGRATIONS).await {
        let store = database.open().await;
        let error = store.backup(&copy).await.unwrap_err();
        assert!(matches!(&error, Error::Open { remedy, .. } if remedy.contains("pg_dump")), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_used_is_named() {
    refused(opened("mysql://root:hunter2@localhost/db").await, "mysql");
    // A port that nobody listens on.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    refused(
        opened(&format!("postgres://user:hunter2@127.0.0.1:{free}/db")).await,
        &format!("user@127.0.0.1:{free}/db cannot be reached"),
    );
    refused(opened("postgres://user:hunter2@no-such-host.invalid/db").await, "no-such-host.invalid");
    // One that is no PostgreSQL and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    refused(opened(&format!("postgres://user:hunter2@127.0.0.1:{port}/db")).await, "does not answer");

    let Some(server) = postgres_url() else { return };
    let (scheme, rest) = server.split_once("://").unwrap();
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let address = host.split('/').next().unwrap();
    refused(opened(&format!("{scheme}://nobody_at_all:hunter2@{address}/postgres")).await, "refuses the user");
    refused(opened(&format!("{}/no_such_database", server.rsplit_once('/').unwrap().0)).await, "no such database");
    refused(opened(&format!("{server}?sslmode=verify-full&sslrootcert=/no/such/file")).await, "sslrootcert");
}

/// The server ends our connections: the next read and the next change find new ones.
#[tokio::test(flavor = "multi_thread")]
async fn lost_connections_are_made_again() {
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let store = database.open().await;
    for id in 0..5_i64 {
        write(&store, tenant(1), id, &format!("{id}")).await.unwrap();
        assert_eq!(count(&store).await, id + 1);
        database
            .execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
            .await
            .unwrap();
        // The client may not have heard yet.
        tokio::time::sleep(Duration::from_millis(20 * u64::try_from(id).unwrap())).await;
        if id % 2 == 0 {
            store.ping().await.unwrap();
        }
    }
    assert_eq!(count(&store).await, 5);
}

/// As above while changes are under way: each is either kept, refused, or said to be unconfirmed.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_change_is_never_made_twice() {
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let store = database.open().await;
    let mut running = tokio::task::JoinSet::new();
    for writer in 0..16_i64 {
        let store = store.clone();
        running.spawn(async move {
            let (mut kept, mut unsure) = (0, 0);
            for number in 0..60 {
                let mut change = note(tenant(1), writer * 1000 + number, &format!("{writer} {number}"));
                change
                    .then("/* no tenant: one counter */ UPDATE counters SET value = value + 1 WHERE name = 'all'", []);
                match store.commit(change).await {
                    Ok(_) => kept += 1,
                    Err(Error::Unavailable(_)) => {}
                    Err(Error::Unconfirmed(_)) => unsure += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
            (kept, unsure)
        });
    }
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let (mut kept, mut unsure) = (0_i64, 0_i64);
    while let Some(done) = running.join_next().await {
        let (one, other) = done.unwrap();
        kept += one;
        unsure += other;
        database.execute(kill).await.unwrap();
    }
    let found = count(&store).await;
    let counted = crate::schema::one(&store, "SELECT value FROM counters", vec![]).await.get::<i64>(0).unwrap();
    assert_eq!(found, counted, "a change is whole");
    assert!(kept <= found && found <= kept + unsure, "{kept} kept, {unsure} unsure, {found} found");
}

/// A file system mounted for a test, by root; `None` with a line on standard error where that is not permitted.
struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    fn new(at: &'a Path, arguments: &[&str]) -> Option<Self> {
        let mounted = command("mount", arguments, at);
        if !mounted {
            eprintln!("not tested: no file system could be mounted");
        }
        mounted.then_some(Self(at))
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        command("umount", &["--lazy"], self.0);
    }
}

/// A folder that this user cannot write: mounted read-only for root, by its mode for others.
struct ReadOnly<'a> {
    mount: Option<Mount<'a>>,
    folder: &'a Path,
}

impl<'a> ReadOnly<'a> {
    fn new(folder: &'a Path) -> Option<Self> {
        set_mode(folder, 0o500);
        if fs::write(folder.join("probe"), "").is_err() {
            return Some(Self { mount: None, folder });
        }
        fs::remove_file(folder.join("probe")).unwrap();
        let itself = folder.to_str().unwrap();
        let mount = Mount::new(folder, &["--bind", "-o", "ro", itself])?;
        Some(Self { mount: Some(mount), folder })
    }
}

impl Drop for ReadOnly<'_> {
    fn drop(&mut self) {
        self.mount = None;
        set_mode(self.folder, 0o700);
    }
}

fn set_mode(folder: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "only the system's own commands mount a file system")]
fn command(name: &str, arguments: &[&str], last: &Path) -> bool {
    let run = std::process::Command::new(name).args(arguments).arg(last).stderr(std::process::Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}
