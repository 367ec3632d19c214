//! One JSON-RPC message: a request, a notification, or the answer to a request that we sent.

use serde_json::{Map, Value, json};

use super::error::{RpcError, code};
use super::revision::Revision;

/// Messages in one batch of the revision that has them.
const BATCH_MAX: usize = 100;
const METHOD_BYTES_MAX: usize = 200;
const ID_BYTES_MAX: usize = 256;

/// As it came: a client finds its request by it, and by nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    pub fn to_value(&self) -> Value {
        match self {
            Self::Number(number) => (*number).into(),
            Self::Text(text) => text.clone().into(),
        }
    }

    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => number.as_i64().map(Self::Number),
            Value::String(text) if text.len() <= ID_BYTES_MAX => Some(Self::Text(text.clone())),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub id: Id,
    pub method: String,
    pub params: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    pub method: String,
    pub params: Map<String, Value>,
}

/// How a request ended. Without an id: of a message that could not be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub id: Option<Id>,
    pub outcome: Result<Value, RpcError>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    Request(Request),
    Notification(Notification),
    Answer(Answer),
}

impl Request {
    pub fn to_value(&self) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id.to_value(), "method": self.method, "params": self.params})
    }
}

impl Notification {
    pub fn new(method: impl Into<String>, params: Map<String, Value>) -> Self {
        Self { method: method.into(), params }
    }

    pub fn to_value(&self) -> Value {
        json!({"jsonrpc": "2.0", "method": self.method, "params": self.params})
    }
}

impl Answer {
    pub fn to(id: &Id, outcome: Result<Value, RpcError>) -> Self {
        Self { id: Some(id.clone()), outcome }
    }

    pub fn unreadable(error: RpcError) -> Self {
        Self { id: None, outcome: Err(error) }
    }

    pub fn to_value(&self) -> Value {
        let mut members = Map::new();
        members.insert("jsonrpc".into(), "2.0".into());
        members.insert("id".into(), self.id.as_ref().map_or(Value::Null, Id::to_value));
        match &self.outcome {
            Ok(result) => members.insert("result".into(), result.clone()),
            Err(error) => members.insert("error".into(), error.to_value()),
        };
        Value::Object(members)
    }

    /// The same without a copy of the result, which may be large.
    pub fn into_value(self) -> Value {
        let mut members = Map::new();
        members.insert("jsonrpc".into(), "2.0".into());
        members.insert("id".into(), self.id.as_ref().map_or(Value::Null, Id::to_value));
        match self.outcome {
            Ok(result) => members.insert("result".into(), result),
            Err(error) => members.insert("error".into(), error.to_value()),
        };
        Value::Object(members)
    }
}

impl Message {
    /// Reads one message. What is wrong with it is told to whoever sent it, under its id where it has one.
    pub fn of(value: Value) -> Result<Self, Box<Answer>> {
        let Value::Object(mut members) = value else {
            return Err(Box::new(Answer::unreadable(RpcError::invalid_request("a message is a JSON object"))));
        };
        let id = members.get("id").and_then(Id::of);
        let refused = |told: &str| Box::new(Answer { id: id.clone(), outcome: Err(RpcError::invalid_request(told)) });
        if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(refused("`jsonrpc` has to be \"2.0\""));
        }
        if members.contains_key("id") && id.is_none() && !members.contains_key("error") {
            return Err(refused("`id` has to be a whole number or a short text"));
        }
        match members.remove("method") {
            Some(Value::String(method)) if !method.is_empty() && method.len() <= METHOD_BYTES_MAX => {
                let params = match members.remove("params") {
                    None => Map::new(),
                    Some(Value::Object(params)) => params,
                    Some(_) => return Err(refused("`params` has to be an object")),
                };
                Ok(match id {
                    Some(id) => Self::Request(Request { id, method, params }),
                    None => Self::Notification(Notification { method, params }),
                })
            }
            Some(_) => Err(refused("`method` has to be a short text")),
            None => match (members.remove("result"), members.remove("error")) {
                (Some(result), None) if id.is_some() => Ok(Self::Answer(Answer { id, outcome: Ok(result) })),
                (None, Some(error)) => Ok(Self::Answer(Answer { id, outcome: Err(error_of(&error)) })),
                _ => Err(refused("a message has a `method`, a `result` or an `error`")),
            },
        }
    }

    pub fn to_value(&self) -> Value {
        match self {
            Self::Request(request) => request.to_value(),
            Self::Notification(notification) => notification.to_value(),
            Self::Answer(answer) => answer.to_value(),
        }
    }
}

fn error_of(error: &Value) -> RpcError {
    let number = error.get("code").and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok());
    RpcError {
        code: number.unwrap_or(code::INTERNAL),
        message: error.get("message").and_then(Value::as_str).unwrap_or("an error without a message").to_owned(),
        data: error.get("data").cloned(),
    }
}

/// What one body holds: a message, or in the revision that has batches several.
pub fn messages_of(value: Value, revision: Revision) -> Result<Vec<Result<Message, Box<Answer>>>, RpcError> {
    match value {
        Value::Array(_) if !revision.has_batches() => {
            Err(RpcError::invalid_request(format!("revision {revision} has no batches: send one message at a time")))
        }
        Value::Array(batch) if batch.is_empty() || batch.len() > BATCH_MAX => {
            Err(RpcError::invalid_request(format!("a batch has 1 to {BATCH_MAX} messages")))
        }
        Value::Array(batch) => Ok(batch.into_iter().map(Message::of).collect()),
        one => Ok(vec![Message::of(one)]),
    }
}

/// How many bytes it has as JSON, without writing it down.
pub fn bytes_of(value: &impl serde::Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be written down has no end.
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_request_a_notification_or_an_answer() {
        let read = Message::of;
        let request = read(json!({"jsonrpc": "2.0", "id": "a", "method": "ping"})).unwrap();
        assert_eq!(request.to_value(), json!({"jsonrpc": "2.0", "id": "a", "method": "ping", "params": {}}));
        let answer = json!({"jsonrpc": "2.0", "id": 7, "result": {"x": 1}});
        assert_eq!(read(answer.clone()).unwrap().to_value(), answer);
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}});
        assert_eq!(read(told.clone()).unwrap().to_value(), told);
    }

    #[test]
    fn what_cannot_be_read_is_answered_under_its_id() {
        for (message, id) in [
            (json!([]), None),
            (json!({"id": 1, "method": "ping"}), Some(Id::Number(1))),
            (json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}), None),
            (json!({"jsonrpc": "2.0", "id": null, "method": "ping"}), None),
            (json!({"jsonrpc": "2.0", "id": 2, "method": 5}), Some(Id::Number(2))),
            (json!({"jsonrpc": "2.0", "id": 3, "method": "ping", "params": []}), Some(Id::Number(3))),
            (json!({"jsonrpc": "2.0", "id": "b"}), Some(Id::Text("b".to_owned()))),
            (json!({"jsonrpc": "2.0", "id": "x".repeat(1000), "method": "ping"}), None),
        ] {
            let refused = Message::of(message.clone()).unwrap_err();
            assert_eq!(refused.id, id, "{message}");
            assert_eq!(refused.outcome.unwrap_err().code, code::INVALID_REQUEST, "{message}");
        }
    }

    #[test]
    fn only_one_revision_has_batches() {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        for revision in Revision::ALL {
            let read = messages_of(json!([ping, ping]), revision);
            assert_eq!(read.is_ok(), revision == Revision::V20250326, "{revision}");
        }
        assert!(messages_of(json!([]), Revision::V20250326).is_err());
        assert!(messages_of(json!(vec![ping; 101]), Revision::V20250326).is_err());
    }
}
