//! A provider as it is written, opened: where it is, how it is spoken to, which secret is its key.

use serde_json::Value;
use toolgate_contracts::provider::PriceTable;
use toolgate_contracts::{Fault, Slug};
pub use toolgate_contracts::{ProviderKind as Kind, ProviderSpec};
use toolgate_egress::Url;

use crate::bounds::Bounds;
use crate::error::ModelError;
use crate::fold::Delta;
use crate::model::Request;
use crate::providers::scripted::Script;
use crate::providers::{self, Dialect};
use crate::reading::Reading;
use crate::wire::{self, Answer, Asking};

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
        spec.check()?;
        let ProviderSpec { name, kind, base_url, secret, script, prices } = spec;
        let speaks = match (providers::dialect(kind), script) {
            (Some(dialect), _) => Speaks::Wire { base: base(kind, dialect, base_url.as_deref())?, dialect },
            (None, Some(script)) => Speaks::Script(Script::read(&script)?),
            (None, None) => return Err(Fault::internal("a script was checked for and is not there")),
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
