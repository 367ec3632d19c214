//! From the bytes of one message to what it says.
//!
//! The strict reader, but that a number which not every reader holds becomes the text of it: a server's large ids stay
//! exact, and a schema that wants a number says so. A key that comes twice, or depth without end, is unreadable.

use serde_json::Value;
use toolgate_contracts::json;

use super::error::{LinkError, shown};
use crate::wire::{Message, Revision, messages_of};

const KEYS_MAX: usize = 200_000;

/// Batches are read wherever they come: an older server may answer with one, and nothing is lost by it.
pub fn messages(bytes: &[u8], bytes_max: usize) -> Result<Vec<Message>, LinkError> {
    messages_in(value(bytes, bytes_max)?)
}

pub fn value(bytes: &[u8], bytes_max: usize) -> Result<Value, LinkError> {
    if bytes.len() > bytes_max {
        return Err(LinkError::TooLarge { bytes_max });
    }
    json::read_message(bytes, bytes_max, KEYS_MAX).map_err(|error| unreadable(&error.message))
}

pub fn messages_in(value: Value) -> Result<Vec<Message>, LinkError> {
    let read = messages_of(value, Revision::V20250326).map_err(|error| unreadable(&error.message))?;
    read.into_iter()
        .map(|message| {
            message.map_err(|answer| {
                unreadable(answer.outcome.err().map_or("it is no message", |_| "it is no message of JSON-RPC"))
            })
        })
        .collect()
}

fn unreadable(why: &str) -> LinkError {
    LinkError::Unreadable { why: shown(why) }
}
