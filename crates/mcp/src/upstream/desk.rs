//! Who waits for what on one link: answers find their request by its id, progress by its token, questions of the server
//! the one whom they concern.
//!
//! Invariant: an answer, a progress or a question reaches the exchange that it belongs to, or nobody. Where several could
//! be meant, a question is refused: asking the wrong person is worse than asking none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use toolgate_egress::Sent;

use super::error::LinkError;
use super::exchange::{Asked, Asker, Exchange};
use crate::wire::{Answer, Id, Message, Notification, Request, RpcError, SUBSCRIPTION_ID, code};

/// Questions of one server that are open at once.
const ASKED_MAX: usize = 16;
/// Answers of ours that a server has not taken yet; one that asks and does not read gets no more.
const REPLIES_MAX: usize = 64;
/// News that a slow reader has not taken yet; older ones are lost to it.
const NEWS_MAX: usize = 256;
/// Answers to nothing that one link may bring.
const STRAYS_MAX: usize = 10_000;

/// What a server says that belongs to no request.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    ToolsChanged,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated {
        uri: String,
    },
    /// Anything else, logs for instance.
    Said(Notification),
}

/// The way back to the server, for answers and for what cancels.
pub type Back = Arc<dyn Fn(Value) -> BoxFuture<'static, ()> + Send + Sync>;

pub struct Desk {
    state: Mutex<State>,
    news: broadcast::Sender<News>,
    asked: Arc<Semaphore>,
    replies: Arc<Semaphore>,
    /// Whether the server may ask nothing, and ends a subscription by its id.
    stateless: AtomicBool,
    heard: AtomicU64,
    ended: CancellationToken,
}

#[derive(Default)]
struct State {
    last: i64,
    waiting: HashMap<i64, Waiting>,
    asked: HashMap<Id, CancellationToken>,
    ended: Option<LinkError>,
    strays: usize,
}

struct Waiting {
    answer: oneshot::Sender<Result<Value, LinkError>>,
    heard: Option<mpsc::Sender<Notification>>,
    asker: Option<Arc<dyn Asker>>,
    /// What lasts until it is ended brings nothing but news.
    lasts: bool,
    /// The caller's own.
    token: Option<Value>,
    over: CancellationToken,
}

/// A request that waits for its answer. Dropped before it came, the server is told that nobody wants it any more.
pub struct Ticket {
    desk: Arc<Desk>,
    pub id: i64,
    answer: oneshot::Receiver<Result<Value, LinkError>>,
    over: CancellationToken,
    cancels: Option<Back>,
    is_answered: bool,
}

impl Desk {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            news: broadcast::Sender::new(NEWS_MAX),
            asked: Arc::new(Semaphore::new(ASKED_MAX)),
            replies: Arc::new(Semaphore::new(REPLIES_MAX)),
            stateless: AtomicBool::new(false),
            heard: AtomicU64::new(0),
            ended: CancellationToken::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn speaks_stateless(&self, stateless: bool) {
        self.stateless.store(stateless, Ordering::Relaxed);
    }

    pub fn news(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    /// How many messages came so far.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    pub fn under_way(&self) -> usize {
        self.state().waiting.len()
    }

    /// Whether anything waits for its answer that has one: listening lasts until it is ended.
    pub fn is_busy(&self) -> bool {
        self.state().waiting.values().any(|waiting| !waiting.lasts)
    }

    pub fn why_ended(&self) -> Option<LinkError> {
        self.state().ended.clone()
    }

    /// Takes a request in and makes the message of it, with a token of ours for its progress where the caller has one.
    /// `cancels` is how the server is told that nobody waits any more, where it has to be told.
    pub fn enter(
        self: &Arc<Self>,
        method: &str,
        mut params: Map<String, Value>,
        exchange: &Exchange,
        cancels: Option<Back>,
    ) -> Result<(Ticket, Request), LinkError> {
        let (sender, answer) = oneshot::channel();
        let over = CancellationToken::new();
        let mut state = self.state();
        if let Some(ended) = &state.ended {
            return Err(ended.clone().unsent());
        }
        state.last += 1;
        let id = state.last;
        let token = params
            .get_mut("_meta")
            .and_then(|meta| meta.get_mut("progressToken"))
            .map(|token| std::mem::replace(token, id.into()));
        let waiting = Waiting {
            answer: sender,
            heard: exchange.heard.clone(),
            asker: exchange.asker.clone(),
            lasts: method == "subscriptions/listen",
            token,
            over: over.clone(),
        };
        state.waiting.insert(id, waiting);
        drop(state);
        let ticket = Ticket { desk: Arc::clone(self), id, answer, over, cancels, is_answered: false };
        Ok((ticket, Request { id: Id::Number(id), method: method.to_owned(), params }))
    }

    /// Nothing comes any more.
    pub fn end(&self, why: &LinkError) {
        let waiting = {
            let mut state = self.state();
            state.ended.get_or_insert_with(|| why.clone());
            std::mem::take(&mut state.waiting)
        };
        for (_, waiting) in waiting {
            let _ = waiting.answer.send(Err(why.clone()));
        }
        self.ended.cancel();
    }

    /// Takes what came. `of` is the request on whose own stream it came, where requests have streams of their own.
    pub fn hear(self: &Arc<Self>, message: Message, of: Option<i64>, back: &Back) -> Result<(), LinkError> {
        self.heard.fetch_add(1, Ordering::Relaxed);
        match message {
            Message::Answer(answer) => self.answered(answer, of),
            Message::Notification(notification) => {
                self.told(notification, of);
                Ok(())
            }
            Message::Request(request) => {
                self.questioned(request, of, back);
                Ok(())
            }
        }
    }

    fn answered(&self, answer: Answer, of: Option<i64>) -> Result<(), LinkError> {
        let Answer { id, outcome } = answer;
        let mut state = self.state();
        let meant = match (&id, of) {
            (Some(Id::Number(id)), None) => Some(*id),
            (Some(Id::Number(id)), Some(of)) if *id == of => Some(of),
            // An error without an id, on the stream of one request: it was about that one.
            (None, Some(of)) => Some(of),
            _ => None,
        };
        if let Some(waiting) = meant.and_then(|id| state.waiting.remove(&id)) {
            drop(state);
            let _ = waiting.answer.send(outcome.map_err(LinkError::Rpc));
            return Ok(());
        }
        state.strays += 1;
        let too_many = state.strays > STRAYS_MAX;
        drop(state);
        tracing::debug!(?id, "an upstream answered what was not asked, or answered twice");
        let why = "it answers what it was not asked".to_owned();
        if too_many { Err(LinkError::Unreadable { why }) } else { Ok(()) }
    }

    fn told(&self, mut notification: Notification, of: Option<i64>) {
        match notification.method.as_str() {
            "notifications/progress" => {
                let token = notification.params.get("progressToken").and_then(Value::as_i64);
                let state = self.state();
                let waiting =
                    token.filter(|token| of.is_none_or(|of| of == *token)).and_then(|id| state.waiting.get(&id));
                let Some(Waiting { token: Some(own), heard: Some(heard), .. }) = waiting else { return };
                notification.params.insert("progressToken".into(), own.clone());
                let _ = heard.try_send(notification);
            }
            "notifications/cancelled" => {
                let Some(id) = notification.params.get("requestId").and_then(Id::of) else { return };
                let mut state = self.state();
                if let Some(asked) = state.asked.remove(&id) {
                    asked.cancel();
                } else if let (true, Id::Number(id)) = (self.stateless.load(Ordering::Relaxed), id)
                    && let Some(waiting) = state.waiting.remove(&id)
                {
                    drop(state);
                    let why = "the server ended the subscription".to_owned();
                    let _ = waiting.answer.send(Err(LinkError::Closed { why, sent: Sent::Perhaps }));
                }
            }
            "notifications/tools/list_changed" => self.tell(News::ToolsChanged),
            "notifications/prompts/list_changed" => self.tell(News::PromptsChanged),
            "notifications/resources/list_changed" => self.tell(News::ResourcesChanged),
            "notifications/resources/updated" => {
                if let Some(uri) = notification.params.get("uri").and_then(Value::as_str) {
                    self.tell(News::ResourceUpdated { uri: uri.to_owned() });
                }
            }
            _ => {
                let subscription = notification.params.get("_meta").and_then(|meta| meta.get(SUBSCRIPTION_ID));
                let of = of.or_else(|| subscription.and_then(Value::as_i64));
                let heard = self.concerned(of, |waiting| waiting.heard.clone()).ok();
                match heard {
                    Some(heard) => drop(heard.try_send(notification)),
                    None => self.tell(News::Said(notification)),
                }
            }
        }
    }

    fn tell(&self, news: News) {
        // Nobody listens, and that is fine.
        let _ = self.news.send(news);
    }

    /// What the one exchange has whom something concerns: the one on whose stream it came, otherwise the only one that is
    /// under way. That only one of several could take it does not make it that one's.
    fn concerned<T>(&self, of: Option<i64>, has: impl Fn(&Waiting) -> Option<T>) -> Result<T, Unclear> {
        let state = self.state();
        if let Some(of) = of {
            return state.waiting.get(&of).and_then(has).ok_or(Unclear::Nobody);
        }
        let mut under_way = state.waiting.values().filter(|waiting| !waiting.lasts);
        match (under_way.next(), under_way.next()) {
            (Some(one), None) => has(one).ok_or(Unclear::Nobody),
            (Some(_), Some(_)) => Err(Unclear::Several),
            (None, _) => Err(Unclear::Nobody),
        }
    }

    fn reply(&self, answer: Answer, back: &Back) {
        if let Ok(place) = Arc::clone(&self.replies).try_acquire_owned() {
            let sending = back(answer.into_value());
            tokio::spawn(async move {
                sending.await;
                drop(place);
            });
        }
    }

    fn questioned(self: &Arc<Self>, request: Request, of: Option<i64>, back: &Back) {
        let Request { id, method, params } = request;
        let refuse = |error: RpcError| self.reply(Answer::to(&id, Err(error)), back);
        let stateless = self.stateless.load(Ordering::Relaxed);
        if method == "ping" && !stateless {
            return self.reply(Answer::to(&id, Ok(json!({}))), back);
        }
        let is_known = matches!(method.as_str(), "elicitation/create" | "sampling/createMessage" | "roots/list");
        if !is_known || stateless {
            return refuse(RpcError::method_not_found(&method));
        }
        let whom = |waiting: &Waiting| waiting.asker.clone().map(|asker| (asker, waiting.over.clone()));
        let (asker, over) = match self.concerned(of, whom) {
            Ok(found) => found,
            Err(Unclear::Nobody) => return refuse(RpcError::method_not_found(&method)),
            Err(Unclear::Several) => {
                let told = "several calls are under way, and it is not known whom this question is for";
                return refuse(RpcError::new(code::INTERNAL, told));
            }
        };
        let Ok(place) = Arc::clone(&self.asked).try_acquire_owned() else {
            let told = format!("more than {ASKED_MAX} questions are open at once");
            return refuse(RpcError::new(code::INTERNAL, told));
        };
        let withdrawn = CancellationToken::new();
        {
            let mut state = self.state();
            if state.asked.contains_key(&id) {
                drop(state);
                return refuse(RpcError::invalid_request("a question of this id is open already"));
            }
            state.asked.insert(id.clone(), withdrawn.clone());
        }
        let (desk, back) = (Arc::clone(self), Arc::clone(back));
        tokio::spawn(async move {
            let _place = place;
            let outcome = tokio::select! {
                outcome = asker.ask(Asked { method, params }) => Some(outcome),
                () = over.cancelled() => None,
                () = withdrawn.cancelled() => None,
                () = desk.ended.cancelled() => None,
            };
            desk.state().asked.remove(&id);
            if let Some(outcome) = outcome {
                back(Answer::to(&id, outcome).into_value()).await;
            }
        });
    }
}

enum Unclear {
    Nobody,
    Several,
}

impl Ticket {
    pub async fn answer(&mut self) -> Result<Value, LinkError> {
        let answer = (&mut self.answer).await;
        self.is_answered = true;
        answer.unwrap_or_else(|_| Err(self.desk.why_ended().unwrap_or_else(|| closed("it was dropped"))))
    }

    /// The answer, if it is there.
    pub fn answer_now(&mut self) -> Option<Result<Value, LinkError>> {
        let answer = self.answer.try_recv().ok()?;
        self.is_answered = true;
        Some(answer)
    }

    /// The server is not told of its end: it never got it, or refused it.
    pub fn forget(&mut self) {
        self.cancels = None;
    }
}

pub fn closed(why: impl Into<String>) -> LinkError {
    LinkError::Closed { why: why.into(), sent: Sent::Perhaps }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.over.cancel();
        let was_waiting = self.desk.state().waiting.remove(&self.id).is_some();
        if let Some(back) = self.cancels.take().filter(|_| was_waiting && !self.is_answered)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let told = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": self.id, "reason": "nobody waits for the answer any more"}});
            runtime.spawn(back(told));
        }
    }
}
