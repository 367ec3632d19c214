//! Where a server is and how far it is trusted with bytes, time and processes. Values, no behaviour.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};
use toolgate_egress::Url;
use toolgate_sandbox::ChildLimits;
use zeroize::Zeroizing;

use crate::wire::Revision;

/// A variable or a header that a server is given. The value is never shown and is wiped when it goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Given {
    pub name: String,
    pub value: Zeroizing<String>,
}

impl Given {
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: Zeroizing::new(value.into()) }
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Given({})", self.name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A trusted child that speaks over its standard streams. The first word is the program's absolute path; the
    /// environment is all that it gets.
    Stdio {
        command: Vec<String>,
        environment: Vec<Given>,
        folder: Option<PathBuf>,
    },
    Http {
        url: Url,
        headers: Vec<Given>,
    },
    /// The transport of the first revisions: one stream for what comes, an address that it names for what goes.
    Sse {
        url: Url,
        headers: Vec<Given>,
    },
}

impl Place {
    pub const fn is_process(&self) -> bool {
        matches!(self, Self::Stdio { .. })
    }
}

/// What a server speaks, as far as it is known before it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Auto,
    Only(Revision),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub message_bytes_max: usize,
    /// Of all messages that come while one request waits for its answer.
    pub stream_bytes_max: u64,
    /// Under way at once on one link; more wait within their own time.
    pub requests_max: usize,
    /// From the start to the first request that may be sent.
    pub open: Duration,
    /// How long a process may think about the first question, which older servers do not understand.
    pub probe: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            message_bytes_max: 10 * 1024 * 1024,
            stream_bytes_max: 64 * 1024 * 1024,
            requests_max: 1024,
            open: Duration::from_secs(45),
            probe: Duration::from_secs(10),
        }
    }
}

/// One server as it is configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    pub place: Place,
    pub era: Era,
    /// What is declared to it: capabilities in the form of the newest revision. Empty: it may ask us nothing.
    pub declared: Map<String, Value>,
    pub bounds: Bounds,
    /// Of a process.
    pub child: ChildLimits,
    /// What it is given in secret, bare, by the names that they have here: it is taken out of what the server says when
    /// it fails.
    pub secrets: Vec<Given>,
}

impl Upstream {
    pub fn new(place: Place) -> Self {
        Self {
            place,
            era: Era::Auto,
            declared: Map::new(),
            bounds: Bounds::default(),
            child: ChildLimits::default(),
            secrets: Vec::new(),
        }
    }
}
