//! The one thread that starts processes.
//!
//! The kernel ties "kill me when my parent dies" to the thread that forked, and threads of an asynchronous runtime come
//! and go. So one thread forks for all, and lives as long as anybody holds the [`Spawner`]: whatever it started dies
//! with it, at the latest when our own process does.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::SandboxError;

/// How often children that were killed are asked whether they are gone.
const REAP_EVERY: Duration = Duration::from_millis(50);

type Job = Box<dyn FnOnce() + Send>;
/// Asks a child that was killed whether it is gone, and reaps it if so.
type Gone = Box<dyn FnMut() -> bool + Send>;

enum Order {
    Run(Job),
    Reap(Gone),
}

#[derive(Clone)]
pub struct Spawner {
    orders: Arc<mpsc::Sender<Order>>,
}

impl Spawner {
    pub fn new() -> Result<Self, SandboxError> {
        let (orders, received) = mpsc::channel();
        std::thread::Builder::new()
            .name("spawner".to_owned())
            .spawn(move || work(&received))
            .map_err(SandboxError::broke("starting the thread that starts processes"))?;
        Ok(Self { orders: Arc::new(orders) })
    }

    /// Runs `job` on the thread. It forks and returns: it waits for nothing.
    pub(crate) async fn on_thread<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SandboxError> {
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            let _ = done.send(job());
        });
        let gone = || SandboxError::Start { why: "the thread that starts processes is gone".to_owned() };
        self.orders.send(Order::Run(job)).map_err(|_| gone())?;
        result.await.map_err(|_| gone())
    }

    /// Waits for a child that was killed, so that it does not stay as a zombie.
    pub(crate) fn reap(&self, gone: Gone) {
        let _ = self.orders.send(Order::Reap(gone));
    }
}

fn work(orders: &mpsc::Receiver<Order>) {
    let mut dying: Vec<Gone> = Vec::new();
    loop {
        let order = if dying.is_empty() {
            orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            orders.recv_timeout(REAP_EVERY)
        };
        match order {
            Ok(Order::Run(job)) => job(),
            Ok(Order::Reap(gone)) => dying.push(gone),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // They were killed before they came here, so this does not take long.
                while !dying.is_empty() {
                    dying.retain_mut(|gone| !gone());
                    std::thread::sleep(REAP_EVERY);
                }
                return;
            }
        }
        dying.retain_mut(|gone| !gone());
    }
}
