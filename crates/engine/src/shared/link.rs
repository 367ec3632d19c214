//! One connection to Redis, kept up in the background. While it is down nobody waits for it: a question is answered
//! with `None` at once, and its asker does without.
//!
//! Not the library's own connection manager: with that one each call would wait while it reconnects, and a refusal that
//! is no broken connection (a server still loading, a changed password) would be remembered for good.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, RedisResult};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use toolgate_contracts::Fault;

/// A question that takes longer counts as unanswered, and the connection as broken.
pub const ANSWER_MS_MAX: u64 = 250;
const CONNECT_MS_MAX: u64 = 1000;
/// Between attempts, and after a loss before the first: a server that answers some questions and not others costs a
/// call its wait at most this often.
const PAUSE_MS: u64 = 500;
const WARN_EVERY_S: u64 = 60;
/// Every key starts with it; the number is that of the layout of what is stored.
pub const KEY_PREFIX: &str = "toolgate:1:";

pub struct Link {
    line: Arc<Line>,
    _keeper: AbortOnDropHandle<()>,
}

struct Line {
    connection: ArcSwapOption<MultiplexedConnection>,
    /// Why a connection was given up. Holds one: at the bound the keeper knows already.
    lost: mpsc::Sender<String>,
}

impl Link {
    /// Tries once to connect, and then keeps trying behind the caller's back.
    pub async fn open(url: &str) -> Result<Self, Fault> {
        let client = Client::open(url).map_err(|error| {
            Fault::invalid(
                "the address of Redis is not usable: expected redis://[USER:PASSWORD@]HOST[:PORT][/NUMBER]",
                "correct `redis` in the configuration",
            )
            // The detail quotes the address, which may hold a password; the kind does not.
            .with_log(format!("{:?}", error.kind()))
        })?;
        let (lost, losses) = mpsc::channel(1);
        let line = Arc::new(Line { connection: ArcSwapOption::empty(), lost });
        let mut keeper = Keeper {
            address: client.get_connection_info().addr().to_string(),
            client,
            line: line.clone(),
            warned: None,
            told: false,
        };
        if let Err(error) = keeper.connect().await {
            keeper.warn(&error);
        }
        Ok(Self { line, _keeper: AbortOnDropHandle::new(tokio::spawn(keeper.keep(losses))) })
    }

    /// The answer, or `None` where Redis is away, slow or refuses.
    pub async fn ask<T, F>(&self, question: impl FnOnce(MultiplexedConnection) -> F) -> Option<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let connection = self.line.connection.load_full()?;
        let asked = question(MultiplexedConnection::clone(&connection));
        let reason = match timeout(Duration::from_millis(ANSWER_MS_MAX), asked).await {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {ANSWER_MS_MAX} ms"),
        };
        // Another's newer connection stays.
        self.line.connection.compare_and_swap(&Some(connection), None);
        let _ = self.line.lost.try_send(reason);
        None
    }

    pub fn is_up(&self) -> bool {
        self.line.connection.load().is_some()
    }
}

struct Keeper {
    client: Client,
    /// Host and port alone.
    address: String,
    line: Arc<Line>,
    warned: Option<Instant>,
    /// Whether that was about the absence that lasts.
    told: bool,
}

impl Keeper {
    async fn keep(mut self, mut losses: mpsc::Receiver<String>) {
        loop {
            while self.line.connection.load().is_none() {
                sleep(Duration::from_millis(PAUSE_MS)).await;
                match self.connect().await {
                    Ok(()) => self.back(),
                    Err(error) => self.warn(&error),
                }
            }
            let Some(reason) = losses.recv().await else { return };
            // A reason that came while we were reconnecting already is about the connection before.
            if self.line.connection.load().is_none() {
                self.warn(&reason);
            }
        }
    }

    async fn connect(&self) -> Result<(), String> {
        let answer_max = Duration::from_millis(ANSWER_MS_MAX);
        let connect_max = Duration::from_millis(CONNECT_MS_MAX);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connect_max))
            .set_response_timeout(Some(answer_max));
        let connected = async {
            let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
            // A server that is still loading takes connections and refuses everything else.
            redis::cmd("PING").query_async::<()>(&mut connection).await?;
            Ok::<_, RedisError>(connection)
        };
        match timeout(connect_max, connected).await {
            Ok(Ok(connection)) => {
                self.line.connection.store(Some(Arc::new(connection)));
                Ok(())
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no connection within {CONNECT_MS_MAX} ms")),
        }
    }

    fn warn(&mut self, reason: &str) {
        let every = Duration::from_secs(WARN_EVERY_S);
        if self.warned.is_none_or(|warned| warned.elapsed() >= every) {
            self.warned = Some(Instant::now());
            self.told = true;
            tracing::warn!(
                address = self.address,
                reason,
                "Redis is away: this replica allows half of each rate limit and keeps no results until it is back"
            );
        }
    }

    fn back(&mut self) {
        if std::mem::take(&mut self.told) {
            tracing::info!(address = self.address, "Redis is back");
        }
    }
}
