//! The transport of the first revisions: what comes, comes on one stream; what goes, is posted to the address that the
//! stream names first. That address stays on the origin of the stream: a server cannot send our credentials elsewhere.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_egress::{Effect, Response, Url};

use super::desk::{Back, Desk, closed};
use super::error::LinkError;
use super::events::{Event, Events};
use super::exchange::Exchange;
use super::http::{Core, Sending};
use super::read;

pub struct Paired {
    core: Arc<Core>,
    endpoint: Url,
}

impl Paired {
    pub async fn open(core: Arc<Core>, desk: &Arc<Desk>, stop: CancellationToken) -> Result<Self, LinkError> {
        let until = Instant::now() + Duration::from_hours(24);
        let sending = Sending { outlet: None, until, effect: Effect::Read, headers: Vec::new(), session: None };
        let response = core.get(&core.url, None, &sending).await?;
        let (named, endpoint) = oneshot::channel();
        let reader = Reader { core: Arc::clone(&core), desk: Arc::clone(desk), named: Some(named), back: None };
        let desk = Arc::clone(desk);
        tokio::spawn(async move {
            let why = tokio::select! {
                why = reader.read(response) => why,
                () = stop.cancelled() => closed("it was closed here"),
            };
            desk.end(&why);
        });
        match endpoint.await {
            Ok(endpoint) => Ok(Self { core, endpoint }),
            Err(_) => {
                Err(LinkError::Unreadable { why: "its stream did not begin with an address to post to".to_owned() })
            }
        }
    }

    pub async fn send(&self, message: &Value, exchange: &Exchange, until: Instant) -> Result<(), LinkError> {
        let outlet = exchange.outlet.as_ref();
        let sending = Sending { outlet, until, effect: exchange.effect, headers: Vec::new(), session: None };
        self.core.post(&self.endpoint, message, &sending).await.map(drop)
    }

    pub async fn tell(&self, message: &Value) -> Result<(), LinkError> {
        self.core.tell(&self.endpoint, message, None).await
    }

    pub fn back(&self) -> Back {
        back(Arc::clone(&self.core), self.endpoint.clone())
    }
}

fn back(core: Arc<Core>, endpoint: Url) -> Back {
    Arc::new(move |message| {
        let (core, endpoint) = (Arc::clone(&core), endpoint.clone());
        Box::pin(async move {
            if let Err(error) = core.tell(&endpoint, &message, None).await {
                tracing::debug!("an upstream did not take an answer: {error}");
            }
        })
    })
}

struct Reader {
    core: Arc<Core>,
    desk: Arc<Desk>,
    named: Option<oneshot::Sender<Url>>,
    back: Option<Back>,
}

impl Reader {
    async fn read(mut self, mut response: Response) -> LinkError {
        let bytes_max = self.core.bounds.message_bytes_max;
        let mut events = Events::new(bytes_max);
        loop {
            let piece = match response.chunk().await {
                Ok(Some(piece)) => piece,
                Ok(None) => return closed("its stream ended"),
                Err(error) => return closed(error.told()),
            };
            let Ok(read) = events.push(&piece) else { return LinkError::TooLarge { bytes_max } };
            for event in read {
                if let Err(why) = self.take(event) {
                    return why;
                }
            }
        }
    }

    fn take(&mut self, event: Event) -> Result<(), LinkError> {
        let bytes_max = self.core.bounds.message_bytes_max;
        match (event.name.as_str(), &self.back) {
            ("endpoint", None) => {
                let endpoint = endpoint(&self.core.url, &event.data)?;
                self.back = Some(back(Arc::clone(&self.core), endpoint.clone()));
                if let Some(named) = self.named.take() {
                    let _ = named.send(endpoint);
                }
                Ok(())
            }
            ("endpoint", Some(_)) => {
                Err(LinkError::Unreadable { why: "it names another address to post to".to_owned() })
            }
            ("" | "message", Some(back)) => {
                for message in read::messages(&event.data, bytes_max)? {
                    self.desk.hear(message, None, back)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn endpoint(stream: &Url, data: &[u8]) -> Result<Url, LinkError> {
    let named = str::from_utf8(data).ok().and_then(|text| stream.join(text.trim()).ok());
    let Some(mut endpoint) = named else {
        return Err(LinkError::Unreadable { why: "the address that it wants messages at is none".to_owned() });
    };
    endpoint.set_fragment(None);
    let has_user = !endpoint.username().is_empty() || endpoint.password().is_some();
    if endpoint.origin() != stream.origin() || has_user {
        let why = "the address that it wants messages at is of another origin".to_owned();
        return Err(LinkError::Unreadable { why });
    }
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_the_origin_of_the_stream() {
        let stream: Url = "https://a.test:8443/mcp/sse".parse().unwrap();
        for (named, expected) in [
            ("/messages?id=1", Some("https://a.test:8443/messages?id=1")),
            ("messages", Some("https://a.test:8443/mcp/messages")),
            ("?id=2", Some("https://a.test:8443/mcp/sse?id=2")),
            ("https://a.test:8443/x#f", Some("https://a.test:8443/x")),
            ("https://a.test/x", None),
            ("http://a.test:8443/x", None),
            ("//evil.test/x", None),
            ("https://a.test:8443@evil.test/x", None),
            ("https://user@a.test:8443/x", None),
            ("javascript:alert(1)", None),
            ("http://[", None),
        ] {
            let read = endpoint(&stream, named.as_bytes()).ok();
            assert_eq!(read.as_ref().map(Url::as_str), expected, "{named}");
        }
    }
}
