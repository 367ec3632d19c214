//! A connection that is cut at the worst moment: the change is kept once or not at all, and its caller is told the truth.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use toolgate_store::testing::Database;
use toolgate_store::{Error, Options, Store};

use crate::schema::{MIGRATIONS, bodies, count, tenant, write};

/// When the next connection that says so is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Never,
    /// Before the server hears of the transaction.
    AtBegin,
    /// Before the server hears of the commit.
    BeforeCommit,
    /// After the server has committed, before the client hears of it.
    AfterCommit,
}

impl Cut {
    fn word(self) -> Option<&'static [u8]> {
        match self {
            Self::Never => None,
            Self::AtBegin => Some(b"BEGIN; SET LOCAL"),
            Self::BeforeCommit | Self::AfterCommit => Some(b"COMMIT\0"),
        }
    }
}

struct Proxy {
    port: u16,
    cut: Arc<Mutex<Cut>>,
}

impl Proxy {
    fn new(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = Arc::new(Mutex::new(Cut::Never));
        let shared = Arc::clone(&cut);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                let cut = Arc::clone(&shared);
                std::thread::spawn(move || forward(&client, &server, &cut));
            }
        });
        Self { port, cut }
    }

    fn arm(&self, cut: Cut) {
        *self.cut.lock().unwrap() = cut;
    }
}

/// Requests are watched; answers go through as they are.
fn forward(client: &TcpStream, server: &TcpStream, cut: &Mutex<Cut>) {
    let answers = std::thread::spawn({
        let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        move || drop(std::io::copy(&mut from, &mut to))
    });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = (&*client).read(&mut buffer) {
        let armed = *cut.lock().unwrap();
        let said = armed.word().is_some_and(|word| buffer[..length].windows(word.len()).any(|part| part == word));
        if said {
            *cut.lock().unwrap() = Cut::Never;
            if armed == Cut::AfterCommit {
                // The client hears nothing more; the server commits, answers, and sees that nobody is there.
                client.shutdown(Shutdown::Write).unwrap();
                (&*server).write_all(&buffer[..length]).unwrap();
                server.shutdown(Shutdown::Write).unwrap();
                answers.join().unwrap();
                let _ = client.shutdown(Shutdown::Both);
                return;
            }
            break;
        }
        if (&*server).write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_kept_once_or_not_at_all() {
    let Some(database) = Database::postgres(MIGRATIONS).await else { return };
    let direct = database.open().await;
    let (user, rest) = database.url.strip_prefix("postgres://").unwrap().rsplit_once('@').unwrap();
    let (server, name) = rest.split_once('/').unwrap();
    let proxy = Proxy::new(server.to_owned());
    let url = format!("postgres://{user}@127.0.0.1:{}/{name}?sslmode=disable", proxy.port);
    let store = Store::open(Options { migrations: MIGRATIONS, ..Options::new(url) }).await.unwrap();

    // Nothing was sent that could have been kept: a new connection, the same change, and nobody notices.
    write(&store, tenant(1), 1, "whole").await.unwrap();
    proxy.arm(Cut::AtBegin);
    write(&store, tenant(1), 2, "again").await.unwrap();
    assert_eq!(bodies(&direct, tenant(1)).await, ["whole", "again"]);

    // Nobody can know: so it is said, and not tried again.
    proxy.arm(Cut::BeforeCommit);
    let error = write(&store, tenant(1), 3, "not kept").await.unwrap_err();
    assert!(matches!(error, Error::Unconfirmed(_)), "{error:?}");
    assert_eq!(bodies(&direct, tenant(1)).await, ["whole", "again"]);
    proxy.arm(Cut::AfterCommit);
    let error = write(&store, tenant(1), 4, "kept").await.unwrap_err();
    assert!(matches!(error, Error::Unconfirmed(_)), "{error:?}");
    wait_for(async || count(&direct).await == 3).await;
    assert_eq!(bodies(&direct, tenant(1)).await, ["whole", "again", "kept"]);

    write(&store, tenant(1), 5, "and on").await.unwrap();
    assert_eq!(count(&store).await, 4);
}

async fn wait_for(mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("it did not come true");
}
