//! An answer being read: bytes in, however they are cut, and a turn out. No socket, no clock.

use serde_json::Value;
use toolgate_contracts::json;
use toolgate_egress::events::Events;

use crate::bounds::Bounds;
use crate::error::{ErrorKind, ModelError};
use crate::fold::{Delta, End, Fold};
use crate::model::{Request, Turn};
use crate::provider::Kind;
use crate::providers::{Dialect, Reader};

/// Members of one document: long conversations have many.
const KEYS_MAX: usize = 200_000;

pub struct Reading {
    kind: Kind,
    reader: Box<dyn Reader>,
    fold: Fold,
    events: Events,
    end: Option<End>,
    has_begun: bool,
    bytes_max: usize,
}

impl Reading {
    pub(crate) fn new(dialect: &dyn Dialect, request: &Request, bounds: &Bounds) -> Self {
        Self {
            kind: dialect.kind(),
            reader: dialect.reader(request),
            fold: Fold::new(bounds),
            events: Events::new(bounds.event_bytes_max),
            end: None,
            has_begun: false,
            bytes_max: bounds.event_bytes_max,
        }
    }

    /// The next bytes of an answer in pieces.
    pub fn push(&mut self, piece: &[u8], heard: &mut dyn FnMut(&Delta)) -> Result<(), ModelError> {
        let events = self.events.push(piece).map_err(|_| {
            let message = format!("an event of the answer has more than {} bytes", self.bytes_max);
            ModelError::new(ErrorKind::TooLarge, message)
        })?;
        for event in events {
            self.has_begun = true;
            // Some go on talking after the end; it is theirs alone.
            if self.end.is_some() {
                return Ok(());
            }
            let mut deltas = Vec::new();
            let end = self.reader.event(&event.data, &mut deltas)?;
            self.take(&deltas, heard)?;
            self.end = end;
        }
        Ok(())
    }

    /// Whether the answer said that it is whole.
    pub fn is_whole(&self) -> bool {
        self.end.is_some()
    }

    /// Whether any event has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The turn, if the answer had come to its end.
    pub fn finish(mut self, heard: &mut dyn FnMut(&Delta)) -> Result<Turn, ModelError> {
        if self.end.is_none() {
            let mut deltas = Vec::new();
            self.end = self.reader.close(&mut deltas)?;
            self.take(&deltas, heard)?;
        }
        let end = self.end.take().ok_or_else(ModelError::interrupted)?;
        Ok(self.fold.end(self.kind, end))
    }

    /// The turn of an answer that came whole.
    pub fn whole(mut self, body: &[u8], heard: &mut dyn FnMut(&Delta)) -> Result<Turn, ModelError> {
        if body.len() > self.bytes_max {
            let message = format!("the answer has more than {} bytes", self.bytes_max);
            return Err(ModelError::new(ErrorKind::TooLarge, message));
        }
        let document = document(body)?;
        let mut deltas = Vec::new();
        let end = self.reader.whole(document, &mut deltas)?;
        self.take(&deltas, heard)?;
        Ok(self.fold.end(self.kind, end))
    }

    fn take(&mut self, deltas: &[Delta], heard: &mut dyn FnMut(&Delta)) -> Result<(), ModelError> {
        for delta in deltas {
            self.fold.push(delta)?;
            heard(delta);
        }
        Ok(())
    }
}

/// What a provider wrote, strictly read: it is another program's protocol, and its numbers are whatever they are. How
/// large it may be was judged while it came.
pub(crate) fn document(bytes: &[u8]) -> Result<Value, ModelError> {
    json::read_message(bytes, bytes.len(), KEYS_MAX).map_err(ModelError::unreadable)
}
