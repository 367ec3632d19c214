//! A provider as the operator writes it, opened: where it is, how it is spoken to, which secret is its key.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contracts::secret::is_secret_name;
use toolgate_contracts::{Fault, Slug};
use toolgate_egress::Url;

use crate::bounds::Bounds;
use crate::error::ModelError;
use crate::fold::Delta;
use crate::model::Request;
use crate::price::PriceTable;
use crate::providers::scripted::Script;
use crate::providers::{self, Dialect};
use crate::reading::Reading;
use crate::wire::{self, Answer, Asking};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    OpenaiChat,
    OpenaiResponses,
    Anthropic,
    Gemini,
    /// Prompted: for models that were given no way to call tools.
    Xml,
    /// Plays a script. No model says anything of it, and whatever shows it says so.
    Scripted,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai_chat",
            Self::OpenaiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Xml => "xml",
            Self::Scripted => "scripted",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSpec {
    pub name: Slug,
    pub kind: Kind,
    /// Of a server that speaks in the same manner; the vendor's own where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The name of the secret that is its key; servers of one's own often take none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// What a `scripted` provider plays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Value>,
    #[serde(default)]
    pub prices: PriceTable,
}

pub struct Provider {
    pub name: Slug,
    pub kind: Kind,
    pub secret: Option<String>,
    pub prices: PriceTable,
    speaks: Speaks,
}

enum Speaks {
    Wire { base: Url, dialect: &'static dyn Dialect },
    Script(Script),
}

impl Provider {
    pub fn open(spec: ProviderSpec) -> Result<Self, Fault> {
        let ProviderSpec { name, kind, base_url, secret, script, prices } = spec;
        if let Some(wrong) = secret.as_deref().filter(|secret| !is_secret_name(secret)) {
            let shown: String = wrong.chars().take(40).flat_map(char::escape_debug).collect();
            let remedy = "name the secret, do not write its value: `toolgate secret set NAME` keeps it";
            return Err(Fault::invalid(format!("`{shown}` is no name of a secret"), remedy).at("/secret"));
        }
        let speaks = match (providers::dialect(kind), script) {
            (Some(dialect), None) => Speaks::Wire { base: base(kind, dialect, base_url.as_deref())?, dialect },
            (Some(_), Some(_)) => {
                let told = format!("a provider of the kind `{kind}` plays no script");
                return Err(Fault::invalid(told, "leave `script` out, or use the kind `scripted`").at("/script"));
            }
            (None, Some(script)) => {
                if base_url.is_some() || secret.is_some() {
                    let told = "a `scripted` provider goes nowhere: it has neither `base_url` nor `secret`";
                    return Err(Fault::invalid(told, "leave them out").at("/base_url"));
                }
                Speaks::Script(Script::read(script)?)
            }
            (None, None) => {
                let told = "a `scripted` provider has no `script`";
                return Err(Fault::invalid(told, "write the turns that it plays").at("/script"));
            }
        };
        Ok(Self { name, kind, secret, prices, speaks })
    }

    /// Where requests go; `None` for a script.
    pub fn base(&self) -> Option<&Url> {
        match &self.speaks {
            Speaks::Wire { base, dialect: _ } => Some(base),
            Speaks::Script(_) => None,
        }
    }

    /// Asks the model once, with as many tries as it takes until an answer begins. `heard` gets each piece as it comes.
    pub async fn ask(
        &self,
        asking: &Asking<'_>,
        request: &Request,
        heard: &mut (dyn FnMut(&Delta) + Send),
    ) -> Result<Answer, ModelError> {
        match &self.speaks {
            Speaks::Wire { base, dialect } => wire::ask(*dialect, base, asking, request, heard).await,
            Speaks::Script(script) => wire::play(script, &self.name, asking, request, heard).await,
        }
    }

    /// What reads an answer to this request, bytes in and a turn out; `None` for a script, which has no bytes.
    pub fn reading(&self, request: &Request, bounds: &Bounds) -> Option<Reading> {
        match &self.speaks {
            Speaks::Wire { base: _, dialect } => Some(Reading::new(*dialect, request, bounds)),
            Speaks::Script(_) => None,
        }
    }

    /// The body that would be sent, for a record of what was asked; `None` for a script.
    pub fn body(&self, request: &Request, form: wire::Form) -> Option<Result<Value, ModelError>> {
        match &self.speaks {
            Speaks::Wire { base, dialect } => Some(providers::body(*dialect, base, request, form).map(Value::Object)),
            Speaks::Script(_) => None,
        }
    }
}

fn base(kind: Kind, dialect: &dyn Dialect, written: Option<&str>) -> Result<Url, Fault> {
    let Some(text) = written.or(dialect.base()) else {
        let told = format!("a provider of the kind `{kind}` has no `base_url`");
        let remedy = "write where the server is, as in `http://localhost:11434/v1`";
        return Err(Fault::invalid(told, remedy).at("/base_url"));
    };
    let wrong = |why: &str| {
        let remedy = "write the address up to the version, as in `https://api.example.com/v1`";
        Fault::invalid(format!("`base_url` {why}"), remedy).at("/base_url")
    };
    let url: Url = text.parse().map_err(|_| wrong("is no address"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("has neither `https` nor `http`"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("holds a user or a password, which belong into a secret"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("has a query or a fragment"));
    }
    Ok(url)
}
