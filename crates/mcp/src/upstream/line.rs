//! What carries requests to one server, whatever it is spoken over; of eras and sessions it knows only what it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_egress::Sent;
use toolgate_sandbox::Spawner;

use super::desk::{Desk, closed};
use super::error::LinkError;
use super::exchange::{Exchange, Outlet};
use super::handshake::Carried;
use super::http::Core;
use super::paired::Paired;
use super::place::{Bounds, Place, Upstream};
use super::stdio::{Held, Piped};
use crate::wire::{Notification, Revision};

/// Requests in a row to which a process said nothing at all, after which it is asked whether it is there.
const SILENT_MAX: u32 = 3;
/// Of requests that were given less time, nothing follows.
const PATIENCE: Duration = Duration::from_secs(1);

/// What links are made with.
#[derive(Clone)]
pub struct Means {
    /// Without one, no server that is a process can be used.
    pub spawner: Option<Spawner>,
    /// For what is no request of anybody: the first words, streams, the end of a session.
    pub outlet: Arc<dyn Outlet>,
}

pub enum Carrier {
    Piped(Piped),
    Http(Arc<Core>),
    Paired(Paired),
}

pub struct Line {
    pub desk: Arc<Desk>,
    pub carrier: Carrier,
    pub bounds: Bounds,
    slots: Semaphore,
    silent: AtomicU32,
    _stop: DropGuard,
    stop: CancellationToken,
}

impl Line {
    pub async fn open(upstream: &Upstream, means: &Means, held: Held) -> Result<Self, LinkError> {
        let Upstream { place, era: _, declared: _, bounds, child: _, secrets: _ } = upstream;
        let (desk, stop) = (Desk::new(), CancellationToken::new());
        let guard = stop.clone().drop_guard();
        let carrier = match place {
            Place::Stdio { .. } => {
                let missing = || LinkError::Place { why: "no processes are started here".to_owned() };
                let spawner = means.spawner.as_ref().ok_or_else(missing)?;
                Carrier::Piped(Piped::start(upstream, spawner, &desk, stop.clone(), held).await?)
            }
            Place::Http { url, headers } => {
                let core = Core::new(url, headers, Arc::clone(&means.outlet), bounds)?;
                hold(held, stop.clone());
                Carrier::Http(core)
            }
            Place::Sse { url, headers } => {
                let core = Core::new(url, headers, Arc::clone(&means.outlet), bounds)?;
                hold(held, stop.clone());
                Carrier::Paired(Paired::open(core, &desk, stop.clone()).await?)
            }
        };
        let slots = Semaphore::new(bounds.requests_max.max(1));
        Ok(Self { desk, carrier, bounds: bounds.clone(), slots, silent: AtomicU32::new(0), _stop: guard, stop })
    }

    pub fn carried(&self) -> Carried {
        match self.carrier {
            Carrier::Piped(_) => Carried::ByPipe,
            Carrier::Http(_) | Carrier::Paired(_) => Carried::ByHttp,
        }
    }

    /// Cancelled when the line is dropped, or closed.
    pub fn stopped(&self) -> &CancellationToken {
        &self.stop
    }

    /// Ends it and waits until its process, if it is one, is gone.
    pub async fn give_up(self) {
        self.end(&closed("it was closed here"));
        if let Carrier::Piped(piped) = &self.carrier {
            piped.gone.cancelled().await;
        }
    }

    pub fn end(&self, why: &LinkError) {
        self.desk.end(why);
        self.stop.cancel();
    }

    pub async fn ask(
        &self,
        revision: Revision,
        method: &str,
        params: Map<String, Value>,
        exchange: &Exchange,
    ) -> Result<Value, LinkError> {
        let until = Instant::now() + exchange.timeout;
        let went = Arc::new(AtomicBool::new(false));
        tokio::select! {
            biased;
            () = exchange.cancel.cancelled() => Err(LinkError::Cancelled { sent: sent(&went) }),
            asked = tokio::time::timeout_at(until, self.exchange(revision, method, params, exchange, until, &went)) => {
                asked.unwrap_or_else(|_| Err(LinkError::Timeout { after: exchange.timeout, sent: sent(&went) }))
            }
        }
    }

    async fn exchange(
        &self,
        revision: Revision,
        method: &str,
        params: Map<String, Value>,
        exchange: &Exchange,
        until: Instant,
        went: &Arc<AtomicBool>,
    ) -> Result<Value, LinkError> {
        let _slot = self.slots.acquire().await.map_err(|_| closed("it was closed here").unsent())?;
        if let Some(ended) = self.desk.why_ended() {
            return Err(ended.unsent());
        }
        let is_first = method == "initialize";
        match &self.carrier {
            Carrier::Http(core) => {
                went.store(true, Ordering::Relaxed);
                core.ask(&self.desk, revision, method, params, exchange, until).await
            }
            Carrier::Piped(piped) => {
                let back = (!is_first).then(|| piped.back());
                let (mut ticket, request) = self.desk.enter(method, params, exchange, back)?;
                if let Err(error) = piped.send(&request.to_value(), went).await {
                    ticket.forget();
                    return Err(error);
                }
                let answer = ticket.answer().await;
                answer.map_err(|error| if went.load(Ordering::Relaxed) { error } else { error.unsent() })
            }
            Carrier::Paired(paired) => {
                let back = (!is_first).then(|| paired.back());
                let (mut ticket, request) = self.desk.enter(method, params, exchange, back)?;
                went.store(true, Ordering::Relaxed);
                if let Err(error) = paired.send(&request.to_value(), exchange, until).await {
                    ticket.forget();
                    return Err(error);
                }
                ticket.answer().await
            }
        }
    }

    /// Whether a process has now said nothing at all, time after time, to those who had the patience to wait. `before` is
    /// how much it had said when the request began.
    pub fn is_silent(&self, asked: &Result<Value, LinkError>, before: u64) -> bool {
        match asked {
            Err(LinkError::Timeout { after, .. })
                if self.carried() == Carried::ByPipe && *after >= PATIENCE && self.desk.heard() == before =>
            {
                self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT_MAX
            }
            Err(LinkError::Cancelled { .. } | LinkError::Timeout { .. }) => false,
            _ => {
                self.silent.store(0, Ordering::Relaxed);
                false
            }
        }
    }

    /// Asks whether anybody is there. A tool may only be slow; who does not answer this either hangs, and is ended.
    pub async fn rouse(self: Arc<Self>, revision: Revision, params: Map<String, Value>) {
        let method = if revision.is_stateless() { "server/discover" } else { "ping" };
        let asked = self.ask(revision, method, params, &Exchange::within(self.bounds.probe)).await;
        match asked {
            Err(LinkError::Timeout { .. }) => self.end(&closed("it does not answer any more")),
            _ => self.silent.store(0, Ordering::Relaxed),
        }
    }

    pub async fn tell(&self, revision: Revision, notification: &Notification) -> Result<(), LinkError> {
        if let Some(ended) = self.desk.why_ended() {
            return Err(ended.unsent());
        }
        let message = notification.to_value();
        match &self.carrier {
            Carrier::Piped(piped) => piped.send(&message, &Arc::default()).await,
            Carrier::Http(core) => core.tell(&core.url, &message, Some(revision)).await,
            Carrier::Paired(paired) => paired.tell(&message).await,
        }
    }

    /// What the operator may read about it, beyond errors.
    pub fn tail(&self) -> Option<String> {
        match &self.carrier {
            Carrier::Piped(piped) => Some(piped.tail()).filter(|text| !text.is_empty()),
            Carrier::Http(_) | Carrier::Paired(_) => None,
        }
    }
}

fn sent(went: &AtomicBool) -> Sent {
    if went.load(Ordering::Relaxed) { Sent::Perhaps } else { Sent::No }
}

/// A place among the connections, until the line is gone.
fn hold(held: Held, stop: CancellationToken) {
    tokio::spawn(async move {
        stop.cancelled().await;
        drop(held);
    });
}
