//! The way from a call that runs back to the client that waits for it: what a server asks meanwhile, and what it says of
//! its progress. In memory of the replica that runs the call; nothing of it decides anything here.

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use crate::wire::{Level, Notification};

/// What a server says meanwhile and its client has not taken yet; more is left out.
const TOLD_MAX: usize = 256;

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
    told: mpsc::Sender<Notification>,
}

/// The client's end.
pub struct Ear {
    pub asked: mpsc::Receiver<Question>,
    pub told: mpsc::Receiver<Notification>,
}

impl Way {
    pub fn new(capabilities: Map<String, Value>, log_level: Option<Level>) -> (Self, Ear) {
        let (asking, asked) = mpsc::channel(1);
        let (tell, told) = mpsc::channel(TOLD_MAX);
        (Self { capabilities, log_level, asking, told: tell }, Ear { asked, told })
    }

    /// `None`: nobody is there any more who could be asked.
    pub async fn ask(&self, requests: Map<String, Value>) -> Option<Map<String, Value>> {
        let (answers, answered) = oneshot::channel();
        self.asking.send(Question { requests, answers }).await.ok()?;
        answered.await.ok()
    }

    pub fn tell(&self, notification: Notification) {
        // Nobody here waits for a slow reader.
        let _ = self.told.try_send(notification);
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
