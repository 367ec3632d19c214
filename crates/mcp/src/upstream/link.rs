//! One live connection to one server, shared by concurrent requests.
//!
//! Results come back as the server sent them: a result that asks for input is the caller's to answer, by another request.
//! A session that an older server has forgotten is begun again, and the request sent again, once: it did nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::{Map, Value};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, broadcast};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_egress::Effect;

use super::desk::{News, closed};
use super::error::{LinkError, shown};
use super::exchange::{Exchange, Outlet};
use super::handshake::{self, Found, Verdict};
use super::health::Pulse;
use super::line::{Carrier, Line, Means};
use super::place::{Era, Place, Upstream};
use super::stdio::Held;
use super::unsaid;
use crate::wire::{Level, Notification, Revision, SERVER_INFO, code};

const LISTEN_FIRST: Duration = Duration::from_secs(1);
const LISTEN_MOST: Duration = Duration::from_mins(5);

pub struct Link {
    line: Arc<Line>,
    found: ArcSwap<Found>,
    upstream: Arc<Upstream>,
    outlet: Arc<dyn Outlet>,
    pulse: Arc<Pulse>,
    /// One session is begun at a time.
    renewing: Mutex<()>,
    /// How many listen for changes of a resource.
    followed: StdMutex<HashMap<String, usize>>,
    /// The mildest level of logs that an older server was told to send; none: it was told nothing.
    level: StdMutex<Option<Level>>,
    /// Cancelled when nobody is to listen here any more, and with the line.
    retired: CancellationToken,
}

/// What of a server's news is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
    pub uris: Vec<String>,
}

/// News of a server, as long as it is held.
pub struct Listening {
    pub news: broadcast::Receiver<News>,
    over: CancellationToken,
    _stop: DropGuard,
    /// Who listens uses it.
    link: Arc<Link>,
    uris: Vec<String>,
}

impl Listening {
    /// What the server says next. Closed: the link has ended, or was given up.
    pub async fn next(&mut self) -> Result<News, RecvError> {
        tokio::select! {
            biased;
            () = self.over.cancelled() => Err(RecvError::Closed),
            news = self.news.recv() => news,
        }
    }
}

impl Drop for Listening {
    /// An older server goes on telling of a resource until it is told otherwise.
    fn drop(&mut self) {
        let over: Vec<String> = {
            let mut followed = self.link.followed.lock().unwrap_or_else(PoisonError::into_inner);
            let is_over = |uri: &String| {
                let count = followed.get_mut(uri)?;
                *count -= 1;
                (*count == 0).then(|| followed.remove(uri)).map(|_| uri.clone())
            };
            self.uris.iter().filter_map(is_over).collect()
        };
        let revision = self.link.found.load().revision;
        if over.is_empty() || revision.is_stateless() || self.link.ended().is_some() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let line = Arc::clone(&self.link.line);
        runtime.spawn(async move {
            for uri in over {
                let mut params = Map::new();
                params.insert("uri".into(), uri.into());
                let exchange = Exchange { effect: Effect::Read, ..Exchange::within(LISTEN_MOST) };
                if let Err(error) = line.ask(revision, "resources/unsubscribe", params, &exchange).await {
                    tracing::debug!("an upstream goes on telling of a resource: {}", error.name());
                }
            }
        });
    }
}

impl Link {
    /// Opens a link. `known` is what the server spoke the last time; it is asked again if that fails.
    pub(crate) async fn open(
        upstream: Arc<Upstream>,
        means: &Means,
        known: Option<Revision>,
        held: Held,
    ) -> Result<Self, LinkError> {
        let pulse = Arc::clone(&held.pulse);
        let within = upstream.bounds.open;
        let opening = Opening { upstream: &upstream, means, held };
        let opened = tokio::time::timeout(within, opening.open(known)).await;
        let late = || LinkError::Timeout { after: within, sent: toolgate_egress::Sent::Perhaps };
        let opened = opened.unwrap_or_else(|_| Err(late()));
        let (line, found) = opened.map_err(|error| unsaid::without(error, &upstream, &[means.outlet.as_ref()]))?;
        line.desk.speaks_stateless(found.revision.is_stateless());
        let found = ArcSwap::from_pointee(found);
        let retired = line.stopped().child_token();
        Ok(Self {
            retired,
            line: Arc::new(line),
            found,
            upstream,
            outlet: Arc::clone(&means.outlet),
            pulse,
            renewing: Mutex::default(),
            followed: StdMutex::default(),
            level: StdMutex::default(),
        })
    }

    pub fn found(&self) -> Arc<Found> {
        self.found.load_full()
    }

    pub fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Why it ended, if it has.
    pub fn ended(&self) -> Option<LinkError> {
        self.line.desk.why_ended()
    }

    /// Requests without an answer so far.
    pub fn under_way(&self) -> usize {
        self.line.desk.under_way()
    }

    /// Whether somebody waits for an answer; who only listens does not.
    pub fn is_busy(&self) -> bool {
        self.line.desk.is_busy()
    }

    /// Ends all listening, here and at the server. Calls that are under way go on to their end.
    pub fn retire(&self) {
        self.retired.cancel();
    }

    /// The last that a process complained about. For the operator: it may hold anything.
    pub fn tail(&self) -> Option<String> {
        self.line.tail()
    }

    /// The id of the process, if it is one.
    pub fn pid(&self) -> Option<i32> {
        match &self.line.carrier {
            Carrier::Piped(piped) => Some(piped.pid),
            Carrier::Http(_) | Carrier::Paired(_) => None,
        }
    }

    /// Sends a request and waits for its result.
    pub async fn request(
        &self,
        method: &str,
        params: Map<String, Value>,
        exchange: Exchange,
    ) -> Result<Value, LinkError> {
        let began = Instant::now();
        let asked = self.asked(method, params, &exchange).await.map_err(|error| {
            let own = exchange.outlet.as_deref();
            let outlets: Vec<&dyn Outlet> = own.into_iter().chain([self.outlet.as_ref()]).collect();
            unsaid::without(error, &self.upstream, &outlets)
        });
        match &asked {
            Ok(_) | Err(LinkError::Rpc(_)) => self.pulse.succeeded(),
            Err(error) => self.pulse.failed(error, began),
        }
        asked
    }

    async fn asked(&self, method: &str, params: Map<String, Value>, exchange: &Exchange) -> Result<Value, LinkError> {
        let session = self.session();
        let again = session.is_some().then(|| params.clone());
        let asked = self.attempt(method, params, exchange).await;
        let (Err(LinkError::Session), Some(params)) = (&asked, again) else { return asked };
        tokio::select! {
            renewed = self.renew(session.as_deref()) => renewed?,
            () = exchange.cancel.cancelled() => return Err(LinkError::Cancelled { sent: toolgate_egress::Sent::No }),
        }
        self.attempt(method, params, exchange).await
    }

    async fn attempt(
        &self,
        method: &str,
        mut params: Map<String, Value>,
        exchange: &Exchange,
    ) -> Result<Value, LinkError> {
        let revision = self.found.load().revision;
        if revision.is_stateless() {
            let declared = exchange.capabilities.as_ref().unwrap_or(&self.upstream.declared);
            handshake::stamp(revision, &mut params, declared, exchange.log_level.as_deref());
        }
        let before = self.line.desk.heard();
        let asked = self.line.ask(revision, method, params, exchange).await;
        if self.line.is_silent(&asked, before) {
            let mut params = Map::new();
            if revision.is_stateless() {
                handshake::stamp(revision, &mut params, &self.upstream.declared, None);
            }
            tokio::spawn(Arc::clone(&self.line).rouse(revision, params));
        }
        let result = judged(revision, asked?)?;
        self.compare(&result);
        Ok(result)
    }

    /// A server that stands for itself says with each result who it is: another version is another beginning.
    fn compare(&self, result: &Value) {
        let Some(said) = result.get("_meta").and_then(|meta| meta.get(SERVER_INFO)).and_then(Value::as_object) else {
            return;
        };
        let found = self.found();
        if found.revision.is_stateless() && said.get("version") != found.server_info.get("version") {
            let server_info = said.clone();
            self.found.store(Arc::new(Found { server_info, ..(*found).clone() }));
        }
    }

    /// Has an older server send logs from a level on. It is told once for all who share the link, so each of them is
    /// passed only what they want.
    pub async fn hear_logs(&self, level: Level) {
        let found = self.found();
        if found.revision.is_stateless() || !found.capabilities.contains_key("logging") {
            return;
        }
        {
            let mut told = self.level.lock().unwrap_or_else(PoisonError::into_inner);
            if told.is_some_and(|told| told <= level) {
                return;
            }
            *told = Some(level);
        }
        let mut params = Map::new();
        params.insert("level".into(), level.as_str().into());
        let exchange = Exchange { effect: Effect::Read, ..Exchange::within(self.line.bounds.probe) };
        if let Err(error) = self.request("logging/setLevel", params, exchange).await {
            tracing::debug!("an upstream does not take a level of logs: {error}");
        }
    }

    fn session(&self) -> Option<Arc<String>> {
        match &self.line.carrier {
            Carrier::Http(core) => core.session.load_full(),
            Carrier::Piped(_) | Carrier::Paired(_) => None,
        }
    }

    /// Begins a session anew, unless somebody else has meanwhile.
    async fn renew(&self, lost: Option<&String>) -> Result<(), LinkError> {
        let _one = self.renewing.lock().await;
        if self.session().as_deref() != lost {
            return Ok(());
        }
        let revision = self.found.load().revision;
        let renewing = initialize(&self.line, revision, &self.upstream);
        let late = || LinkError::Timeout { after: self.line.bounds.open, sent: toolgate_egress::Sent::No };
        let found = tokio::time::timeout(self.line.bounds.open, renewing).await.unwrap_or_else(|_| Err(late()))?;
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let before = self.found.swap(Arc::new(found));
        let now = self.found.load();
        if (&before.server_info, &before.capabilities) != (&now.server_info, &now.capabilities) {
            // What was known of its tools is not known of this one.
            let why = "another server, or another version of it, answers there now".to_owned();
            return Err(LinkError::Closed { why, sent: toolgate_egress::Sent::No });
        }
        Ok(())
    }

    /// Tells something that has no answer.
    pub async fn notify(&self, method: &str, params: Map<String, Value>) -> Result<(), LinkError> {
        let revision = self.found.load().revision;
        self.line.tell(revision, &Notification::new(method, params)).await
    }

    /// Listens to news of the server until what is given back is dropped. Whatever stream that takes is opened again when
    /// it breaks; a server that has none has no news beside its answers.
    pub fn listen(self: &Arc<Self>, wanted: Wanted) -> Listening {
        let news = self.line.desk.news();
        let uris = wanted.uris.clone();
        {
            let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            for uri in &uris {
                *followed.entry(uri.clone()).or_default() += 1;
            }
        }
        let stop = self.retired.child_token();
        let found = self.found();
        let attending = Attending {
            line: Arc::downgrade(&self.line),
            upstream: Arc::clone(&self.upstream),
            revision: found.revision,
            wanted,
        };
        let until = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = attending.attend() => {}
                () = until.cancelled() => {}
            }
        });
        Listening { news, over: stop.clone(), _stop: stop.drop_guard(), link: Arc::clone(self), uris }
    }

    /// Ends it: what is under way fails, a session is given up, a process is asked to leave and then killed. Returns when
    /// that is done.
    pub async fn close(&self) {
        let leaving = match (&self.line.carrier, self.ended()) {
            (Carrier::Http(core), None) => Some(core.leave(self.found.load().revision)),
            _ => None,
        };
        self.line.end(&closed("it was closed here"));
        if let Some(leaving) = leaving {
            leaving.await;
        }
        if let Carrier::Piped(piped) = &self.line.carrier {
            piped.gone.cancelled().await;
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let was_open = self.ended().is_none();
        self.line.end(&closed("it was closed here"));
        // A session that nobody gave up stays with the server until it forgets it.
        if let (Carrier::Http(core), true) = (&self.line.carrier, was_open)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
            && core.session.load().is_some()
        {
            let (core, revision) = (Arc::clone(core), self.found.load().revision);
            runtime.spawn(async move { core.leave(revision).await });
        }
    }
}

/// A result is an object; the stateless revision says of which kind, and an unknown kind means nothing to anybody.
fn judged(revision: Revision, result: Value) -> Result<Value, LinkError> {
    let Some(members) = result.as_object() else {
        return Err(LinkError::Unreadable { why: "its result is no object".to_owned() });
    };
    let kind = members.get("resultType").filter(|_| revision.is_stateless());
    match kind {
        None => Ok(result),
        Some(Value::String(kind)) if matches!(kind.as_str(), "complete" | "input_required" | "task") => Ok(result),
        Some(kind) => {
            let why = format!("its result is of an unknown kind, `{}`", shown(&kind.to_string()));
            Err(LinkError::Unreadable { why })
        }
    }
}

struct Opening<'a> {
    upstream: &'a Arc<Upstream>,
    means: &'a Means,
    held: Held,
}

impl Opening<'_> {
    async fn line(&self) -> Result<Line, LinkError> {
        Line::open(self.upstream, self.means, self.held.clone()).await
    }

    async fn open(&self, known: Option<Revision>) -> Result<(Line, Found), LinkError> {
        let is_paired = matches!(self.upstream.place, Place::Sse { .. });
        match self.upstream.era {
            Era::Only(revision) if revision.is_stateless() && is_paired => {
                let why = format!("revision {revision} is not spoken over the transport of the first ones");
                Err(LinkError::Place { why })
            }
            Era::Only(revision) if revision.is_stateless() => self.stateless(revision).await,
            Era::Only(revision) => self.handshake(revision).await,
            Era::Auto if is_paired => self.handshake(Revision::NEWEST_WITH_HANDSHAKE).await,
            Era::Auto => match known {
                Some(revision) if !revision.is_stateless() => self.handshake_or_ask().await,
                // To ask is to know again.
                Some(_) | None => self.ask().await,
            },
        }
    }

    async fn stateless(&self, revision: Revision) -> Result<(Line, Found), LinkError> {
        let line = self.line().await?;
        let found = match discover(&line, self.upstream, self.upstream.bounds.open).await {
            // It need not tell about itself to be spoken with.
            Err(LinkError::Rpc(error)) if error.code == code::METHOD_NOT_FOUND => handshake::untold(revision),
            Err(error) => return Err(error),
            answer => match handshake::judge(answer, line.carried()) {
                Verdict::Stateless(found) => *found,
                Verdict::Handshake => return Err(LinkError::Revision { spoken: "older ones".to_owned() }),
                Verdict::Unknown(error) => return Err(error),
            },
        };
        Ok((line, found))
    }

    async fn handshake(&self, revision: Revision) -> Result<(Line, Found), LinkError> {
        let line = self.line().await?;
        let found = initialize(&line, revision, self.upstream).await?;
        Ok((line, found))
    }

    /// It spoke an older revision the last time; if it refuses that now, it may have learnt another.
    async fn handshake_or_ask(&self) -> Result<(Line, Found), LinkError> {
        match self.handshake(Revision::NEWEST_WITH_HANDSHAKE).await {
            Err(LinkError::Rpc(_) | LinkError::Refused { .. } | LinkError::Revision { .. }) => self.ask().await,
            other => other,
        }
    }

    /// Asks which era it is of. A process that does not know the question may not survive it, so it is asked of one that
    /// is given up then; one that knows it is the one that stays.
    async fn ask(&self) -> Result<(Line, Found), LinkError> {
        let line = self.line().await?;
        let within = match self.upstream.place {
            Place::Stdio { .. } => self.upstream.bounds.probe,
            Place::Http { .. } | Place::Sse { .. } => self.upstream.bounds.open,
        };
        let answer = discover(&line, self.upstream, within).await;
        match handshake::judge(answer, line.carried()) {
            Verdict::Stateless(found) => Ok((line, *found)),
            Verdict::Unknown(error) => Err(error),
            Verdict::Handshake if self.upstream.place.is_process() => {
                line.give_up().await;
                match self.handshake(Revision::NEWEST_WITH_HANDSHAKE).await {
                    // It was only slow to understand the first question.
                    Err(LinkError::Rpc(error)) if error.code == code::UNSUPPORTED_VERSION => {
                        self.stateless(Revision::V20260728).await
                    }
                    other => other,
                }
            }
            Verdict::Handshake => {
                let found = initialize(&line, Revision::NEWEST_WITH_HANDSHAKE, self.upstream).await?;
                Ok((line, found))
            }
        }
    }
}

async fn discover(line: &Line, upstream: &Upstream, within: Duration) -> Result<Value, LinkError> {
    let revision = Revision::V20260728;
    let mut params = Map::new();
    handshake::stamp(revision, &mut params, &upstream.declared, None);
    let exchange = Exchange { effect: Effect::Read, ..Exchange::within(within) };
    line.ask(revision, "server/discover", params, &exchange).await
}

async fn initialize(line: &Line, revision: Revision, upstream: &Upstream) -> Result<Found, LinkError> {
    let params = handshake::initialize(revision, &upstream.declared);
    let exchange = Exchange::within(upstream.bounds.open);
    let result = line.ask(revision, "initialize", params, &exchange).await?;
    let found = handshake::initialized(&result)?;
    line.tell(found.revision, &Notification::new("notifications/initialized", Map::new())).await?;
    Ok(found)
}

/// What keeps a stream of news open.
struct Attending {
    line: std::sync::Weak<Line>,
    upstream: Arc<Upstream>,
    revision: Revision,
    wanted: Wanted,
}

impl Attending {
    async fn attend(self) {
        let mut wait = LISTEN_FIRST;
        loop {
            let Some(line) = self.line.upgrade() else { return };
            let began = Instant::now();
            let ended = self.once(&line).await;
            drop(line);
            match ended {
                Attended::NoStream => return,
                Attended::Ended if began.elapsed() > LISTEN_MOST => wait = LISTEN_FIRST,
                Attended::Ended => wait = (wait * 2).min(LISTEN_MOST),
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn once(&self, line: &Line) -> Attended {
        if self.revision.is_stateless() {
            return match self.subscribe(line).await {
                Err(LinkError::Rpc(_) | LinkError::Refused { .. }) => Attended::NoStream,
                _ => Attended::Ended,
            };
        }
        for uri in &self.wanted.uris {
            let mut params = Map::new();
            params.insert("uri".into(), uri.as_str().into());
            let exchange = Exchange { effect: Effect::Read, ..Exchange::within(self.upstream.bounds.open) };
            if let Err(error) = line.ask(self.revision, "resources/subscribe", params, &exchange).await {
                tracing::debug!("an upstream does not tell of changes of a resource: {}", error.name());
            }
        }
        let Carrier::Http(core) = &line.carrier else { return Attended::NoStream };
        match core.attend(&line.desk, self.revision).await {
            Err(LinkError::Refused { .. } | LinkError::Rpc(_) | LinkError::Unreadable { .. }) => Attended::NoStream,
            _ => Attended::Ended,
        }
    }

    async fn subscribe(&self, line: &Line) -> Result<Value, LinkError> {
        let Wanted { tools, prompts, resources, uris } = &self.wanted;
        let mut filter = Map::new();
        for (name, wanted) in
            [("toolsListChanged", tools), ("promptsListChanged", prompts), ("resourcesListChanged", resources)]
        {
            if *wanted {
                filter.insert(name.into(), true.into());
            }
        }
        if !uris.is_empty() {
            filter.insert("resourceSubscriptions".into(), uris.clone().into());
        }
        let mut params = Map::new();
        params.insert("notifications".into(), filter.into());
        handshake::stamp(self.revision, &mut params, &self.upstream.declared, None);
        // Until the server ends it, or nobody listens any more.
        let exchange = Exchange {
            effect: Effect::Read,
            cancel: CancellationToken::new(),
            ..Exchange::within(Duration::from_hours(24))
        };
        line.ask(self.revision, "subscriptions/listen", params, &exchange).await
    }
}

enum Attended {
    NoStream,
    Ended,
}
