//! Server-sent events, read from pieces that may be cut anywhere, with a bound on everything that is kept.

use std::time::Duration;

/// Ids and names of events; longer ones are as if they were not there.
const FIELD_BYTES_MAX: usize = 1024;
/// A server that asks us to come back later than this is asked earlier.
const RETRY_MAX: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Empty for a plain message.
    pub name: String,
    pub data: Vec<u8>,
}

/// A line or an event has more bytes than are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

#[derive(Debug)]
pub struct Events {
    bytes_max: usize,
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed after it ends no other line.
    after_return: bool,
    begun: bool,
    name: String,
    data: Option<Vec<u8>>,
    /// Of the last event that had one: from there it could go on.
    pub last_id: Option<String>,
    /// How long the server wants us to wait before we come back.
    pub retry: Option<Duration>,
}

impl Events {
    /// `bytes_max` for the data of one event.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            line: Vec::new(),
            after_return: false,
            begun: false,
            name: String::new(),
            data: None,
            last_id: None,
            retry: None,
        }
    }

    /// The events that a piece completes.
    pub fn push(&mut self, mut piece: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        while !piece.is_empty() {
            if std::mem::take(&mut self.after_return) && piece.first() == Some(&b'\n') {
                piece = piece.get(1..).unwrap_or_default();
                continue;
            }
            let end = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (head, rest) = piece.split_at(end.unwrap_or(piece.len()));
            if self.line.len() + head.len() > self.bytes_max.saturating_add(FIELD_BYTES_MAX) {
                return Err(TooLong);
            }
            self.line.extend_from_slice(head);
            if end.is_some() {
                self.after_return = rest.first() == Some(&b'\r');
                let line = std::mem::take(&mut self.line);
                events.extend(self.line(&line)?);
            }
            piece = rest.get(1..).unwrap_or_default();
        }
        Ok(events)
    }

    fn line(&mut self, mut line: &[u8]) -> Result<Option<Event>, TooLong> {
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            return Ok(self.data.take().map(|data| Event { name, data }));
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default()),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                let kept = self.data.as_ref().map_or(0, |data| data.len() + 1);
                if kept + value.len() > self.bytes_max {
                    return Err(TooLong);
                }
                match &mut self.data {
                    Some(data) => {
                        data.push(b'\n');
                        data.extend_from_slice(value);
                    }
                    None => self.data = Some(value.to_vec()),
                }
            }
            b"event" => self.name = short(value).unwrap_or_default(),
            b"id" if !value.contains(&0) => self.last_id = short(value).or(self.last_id.take()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let millis = short(value).and_then(|digits| digits.parse().ok());
                self.retry = millis.map(|millis| Duration::from_millis(millis).min(RETRY_MAX));
            }
            _ => {}
        }
        Ok(None)
    }
}

fn short(value: &[u8]) -> Option<String> {
    String::from_utf8(value.to_vec()).ok().filter(|text| text.len() <= FIELD_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &[u8]) -> Vec<Event> {
        Events::new(100).push(text).unwrap()
    }

    fn plain(data: &str) -> Event {
        Event { name: String::new(), data: data.as_bytes().to_vec() }
    }

    #[test]
    fn an_event_is_what_stands_before_an_empty_line() {
        #[track_caller]
        fn check(text: &str, expected: &[Event]) {
            assert_eq!(read(text.as_bytes()), expected, "{text:?}");
        }
        check("data: a\n\n", &[plain("a")]);
        check("data:a\r\rdata: b\r\n\r\n", &[plain("a"), plain("b")]);
        check("\u{feff}data: a\n\n", &[plain("a")]);
        check(": keep-alive\n\ndata: a\ndata:  b\ndata\n\n", &[plain("a\n b\n")]);
        check("event: endpoint\ndata: /m\n\n", &[Event { name: "endpoint".to_owned(), data: b"/m".to_vec() }]);
        check("event: lost\n\ndata: a\n\n", &[plain("a")]);
        check("data: never ended", &[]);
        check("data: never ended\n", &[]);
        check("unknown: x\nid: 7\nretry: x\n\n", &[]);
        check("data:\n\n", &[plain("")]);
    }

    #[test]
    fn where_it_could_go_on_and_when_is_remembered() {
        let mut events = Events::new(100);
        events.push(b"id: 7\nretry: 250\ndata\n\nid: a\0b\n\n").unwrap();
        assert_eq!(events.last_id.as_deref(), Some("7"));
        assert_eq!(events.retry, Some(Duration::from_millis(250)));
        events.push(b"retry: 99999999\nid\n").unwrap();
        assert_eq!((events.last_id.as_deref(), events.retry), (Some(""), Some(RETRY_MAX)));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut events = Events::new(10);
        assert_eq!(events.push(b"data: 0123456789\n\n").unwrap().len(), 1);
        assert_eq!(events.push(b"data: 01234\ndata: 56789\n"), Err(TooLong));
        assert_eq!(Events::new(10).push(&[b'x'; 2000]), Err(TooLong));
        let mut drip = Events::new(10);
        assert!((0..5000).any(|_| drip.push(b"x").is_err()));
    }

    proptest! {
        #[test]
        fn however_a_stream_is_cut_its_events_are_the_same(
            lines in prop::collection::vec("(data|event|id|:|)(: ?)?[a-c\u{e9}]{0,5}(\r\n|\n|\r)", 0..20),
            cuts in prop::collection::vec(0usize..400, 0..20),
        ) {
            let text = lines.concat().into_bytes();
            let mut whole = Events::new(1000);
            let expected = whole.push(&text).unwrap();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|at| *at < text.len()).collect();
            cuts.sort_unstable();
            let mut pieces = Events::new(1000);
            let (mut read, mut from) = (Vec::new(), 0);
            for at in cuts.into_iter().chain([text.len()]) {
                read.extend(pieces.push(&text[from..at]).unwrap());
                from = at;
            }
            prop_assert_eq!(read, expected);
            prop_assert_eq!(pieces.last_id, whole.last_id);
        }

        #[test]
        fn no_bytes_make_the_reader_panic_or_keep_more_than_it_may(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            let mut events = Events::new(64);
            if let Ok(read) = events.push(&bytes) {
                prop_assert!(read.iter().all(|event| event.data.len() <= 64));
            }
            prop_assert!(events.line.len() <= 64 + FIELD_BYTES_MAX);
        }
    }
}
