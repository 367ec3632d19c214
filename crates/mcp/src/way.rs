//! The way from a call that runs back to the client that waits for it: what a server asks meanwhile, and what it says of
//! its progress. In memory of the replica that runs the call; nothing of it decides anything here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::wire::{Level, Notification, bytes_of};

/// What a server says meanwhile and its client has not taken yet; more is left out.
const TOLD_MAX: usize = 256;
/// And of how many bytes together. What is larger by itself is left out as well.
const TOLD_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What a server wants to know: by its own key, `{method, params}` as it came, under the server's name.
pub struct Question {
    pub requests: Map<String, Value>,
    /// By the same keys.
    pub answers: oneshot::Sender<Map<String, Value>>,
}

/// What whoever runs a call knows of the client that waits.
#[derive(Debug)]
pub struct Way {
    /// What the client can be asked.
    pub capabilities: Map<String, Value>,
    /// From which level on it wants to hear logs; none: it said nothing.
    pub log_level: Option<Level>,
    asking: mpsc::Sender<Question>,
    told: mpsc::Sender<Waits>,
    waiting: Arc<Waiting>,
}

/// Something that was said and waits to be taken.
#[derive(Debug)]
struct Waits {
    notification: Notification,
    bytes: usize,
    /// Log lines that came right before it, and for which there was no place.
    left_out: u64,
}

/// What was said and not taken.
#[derive(Debug, Default)]
struct Waiting {
    bytes: AtomicUsize,
    /// Log lines for which there was no place since the last one that found one.
    left_out: AtomicU64,
}

/// The client's end.
pub struct Ear {
    pub asked: mpsc::Receiver<Question>,
    pub told: Told,
}

/// What a server says meanwhile, in its order. How many log lines are missing is said where they are.
pub struct Told {
    queue: mpsc::Receiver<Waits>,
    waiting: Arc<Waiting>,
    /// Taken already; what is missing before it was told first.
    next: Option<Notification>,
}

impl Told {
    /// Nothing that was taken is lost where whoever waits here gives up.
    pub async fn recv(&mut self) -> Option<Notification> {
        if let Some(there) = self.try_recv() {
            return Some(there);
        }
        match self.queue.recv().await {
            Some(waits) => Some(self.took(waits)),
            None => self.missing(),
        }
    }

    /// What is there by now.
    pub fn try_recv(&mut self) -> Option<Notification> {
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        match self.queue.try_recv() {
            Ok(waits) => Some(self.took(waits)),
            Err(_) => self.missing(),
        }
    }

    fn took(&mut self, Waits { notification, bytes, left_out }: Waits) -> Notification {
        self.waiting.bytes.fetch_sub(bytes, Ordering::AcqRel);
        match notice(left_out) {
            Some(missing) => {
                self.next = Some(notification);
                missing
            }
            None => notification,
        }
    }

    /// Those after which nothing came.
    fn missing(&self) -> Option<Notification> {
        notice(self.waiting.left_out.swap(0, Ordering::AcqRel))
    }
}

/// That log lines are missing here, if any are.
fn notice(count: u64) -> Option<Notification> {
    let told = format!("{count} log messages of the server are left out: they came faster than they were read");
    let params = json!({"level": Level::Warning.as_str(), "logger": "toolgate", "data": told});
    let params = params.as_object().cloned().unwrap_or_default();
    (count > 0).then(|| Notification::new("notifications/message", params))
}

impl Way {
    pub fn new(capabilities: Map<String, Value>, log_level: Option<Level>) -> (Self, Ear) {
        let (asking, asked) = mpsc::channel(1);
        let (tell, queue) = mpsc::channel(TOLD_MAX);
        let waiting = Arc::new(Waiting::default());
        let told = Told { queue, waiting: Arc::clone(&waiting), next: None };
        (Self { capabilities, log_level, asking, told: tell, waiting }, Ear { asked, told })
    }

    /// `None`: nobody is there any more who could be asked.
    pub async fn ask(&self, requests: Map<String, Value>) -> Option<Map<String, Value>> {
        let (answers, answered) = oneshot::channel();
        self.asking.send(Question { requests, answers }).await.ok()?;
        answered.await.ok()
    }

    pub fn tell(&self, notification: Notification) {
        let bytes = bytes_of(&notification.params);
        let is_log = notification.method == "notifications/message";
        let waiting = &self.waiting;
        let waits = waiting.bytes.fetch_add(bytes, Ordering::AcqRel).saturating_add(bytes);
        // Nobody here waits for a slow reader. The place comes first: what is left out before it is counted with it.
        if let Some(place) = self.told.try_reserve().ok().filter(|_| waits <= TOLD_BYTES_MAX) {
            let left_out = waiting.left_out.swap(0, Ordering::AcqRel);
            place.send(Waits { notification, bytes, left_out });
            return;
        }
        waiting.bytes.fetch_sub(bytes, Ordering::AcqRel);
        // Progress is told again anyway.
        if is_log {
            waiting.left_out.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether the client said that it can be asked this.
    pub fn takes(&self, method: &str, params: &Map<String, Value>) -> bool {
        let declared = |name: &str| self.capabilities.get(name).and_then(Value::as_object);
        match method {
            "sampling/createMessage" => declared("sampling").is_some(),
            "roots/list" => declared("roots").is_some(),
            "elicitation/create" => declared("elicitation").is_some_and(|elicitation| {
                let opens = elicitation.contains_key("url");
                let is_address = params.get("mode").and_then(Value::as_str) == Some("url");
                // Forms were all that there was, and are meant where nothing is said.
                if is_address { opens } else { elicitation.contains_key("form") || !opens }
            }),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_slow_reader_misses_is_bounded_in_bytes_and_counted() {
        let line = |bytes: usize| {
            let params = json!({"level": "info", "data": "x".repeat(bytes)});
            Notification::new("notifications/message", params.as_object().unwrap().clone())
        };
        let said = |notification: Notification| {
            let data = notification.params["data"].as_str().unwrap().to_owned();
            if data.starts_with('x') { data.len().to_string() } else { data }
        };
        let (way, mut ear) = Way::new(Map::new(), None);
        // Two of them fit; one that is too large by itself never does, and a small one still does.
        for bytes in [900_000, 900_000, 900_000, TOLD_BYTES_MAX, 10] {
            way.tell(line(bytes));
        }
        way.tell(Notification::new("notifications/progress", line(900_000).params));
        let heard: Vec<String> = std::iter::from_fn(|| ear.told.try_recv()).map(said).collect();
        assert_eq!(heard.len(), 4, "{heard:?}");
        assert!(heard[2].starts_with("2 log messages"), "{heard:?}");
        assert_eq!(
            (&heard[..2], &heard[3..]),
            (&["900000".to_owned(), "900000".to_owned()][..], &["10".to_owned()][..])
        );
        // Whoever has read has room again.
        for _ in 0..TOLD_MAX + 3 {
            way.tell(line(1));
        }
        let heard: Vec<String> = std::iter::from_fn(|| ear.told.try_recv()).map(said).collect();
        assert_eq!(heard.len(), TOLD_MAX + 1);
        assert!(heard[TOLD_MAX].starts_with("3 log messages"), "{heard:?}");
    }

    #[tokio::test]
    async fn what_is_said_between_two_takes_is_neither_lost_nor_out_of_its_place() {
        let line = |data: &str| {
            let params = json!({"level": "info", "data": data});
            Notification::new("notifications/message", params.as_object().unwrap().clone())
        };
        let said = |notification: Notification| notification.params["data"].as_str().unwrap().to_owned();
        let too_large = "x".repeat(TOLD_BYTES_MAX);
        for waits in [false, true] {
            let (way, mut ear) = Way::new(Map::new(), None);
            let mut heard = Vec::new();
            // Each is told, then something that finds no place; one is taken after each of them.
            for at in 0..4 {
                way.tell(line(&format!("said {at}")));
                way.tell(line(&too_large));
                let taken = if waits { ear.told.recv().await } else { ear.told.try_recv() };
                heard.push(said(taken.unwrap()));
            }
            drop(way);
            while let Some(more) = if waits { ear.told.recv().await } else { ear.told.try_recv() } {
                heard.push(said(more));
            }
            let missing = "1 log messages of the server are left out: they came faster than they were read";
            let expected: Vec<String> = (0..4).flat_map(|at| [format!("said {at}"), missing.to_owned()]).collect();
            assert_eq!(heard, expected, "{waits}");
        }
    }

    #[test]
    fn a_client_is_asked_only_what_it_said_it_can_be_asked() {
        let takes = |capabilities: Value, method: &str, params: Value| {
            let (way, _ear) = Way::new(capabilities.as_object().unwrap().clone(), None);
            way.takes(method, params.as_object().unwrap())
        };
        for (capabilities, form, url, sampling, roots) in [
            (json!({}), false, false, false, false),
            (json!({"elicitation": {}}), true, false, false, false),
            (json!({"elicitation": {"form": {}}}), true, false, false, false),
            (json!({"elicitation": {"url": {}}}), false, true, false, false),
            (json!({"elicitation": {"url": {}, "form": {}}}), true, true, false, false),
            (json!({"sampling": {}, "roots": {"listChanged": true}}), false, false, true, true),
            (json!({"sampling": true}), false, false, false, false),
        ] {
            let of = |method, params| takes(capabilities.clone(), method, params);
            assert_eq!(of("elicitation/create", json!({})), form, "{capabilities}");
            assert_eq!(of("elicitation/create", json!({"mode": "url"})), url, "{capabilities}");
            assert_eq!(of("sampling/createMessage", json!({})), sampling, "{capabilities}");
            assert_eq!(of("roots/list", json!({})), roots, "{capabilities}");
            assert!(!of("tools/call", json!({})), "{capabilities}");
        }
    }
}
