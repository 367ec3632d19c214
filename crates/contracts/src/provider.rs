//! Model providers as they are written: where one is, in which manner it is spoken to, which secret is its key, what its
//! models cost.
//!
//! Deliberately absent: speaking to one, and the values of keys. What is written names a secret; the vault has it.

pub mod script;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use script::Script;

use crate::amount::Amount;
use crate::definition::words;
use crate::fault::Fault;
use crate::name::Slug;
use crate::secret::is_secret_name;

/// Models with a price of their own, of one provider.
pub const PRICES_MAX: usize = 1000;
/// Of what a provider calls a model.
pub const MODEL_CHARS_MAX: usize = 200;
pub const BASE_URL_CHARS_MAX: usize = 2000;
/// The entry for every model that has none of its own.
pub const OTHERS: &str = "*";
const TOKENS: u128 = 1_000_000;

words! {
    /// How a provider is spoken to. `xml` is prompted, for models that were given no way to call tools. `scripted` plays a
    /// script: no model says anything of it, and whatever shows it says so.
    ProviderKind {
        OpenaiChat = "openai_chat",
        OpenaiResponses = "openai_responses",
        Anthropic = "anthropic",
        Gemini = "gemini",
        Xml = "xml",
        Scripted = "scripted",
    }
}

impl ProviderKind {
    /// Whether no model says anything of it.
    pub const fn is_scripted(self) -> bool {
        matches!(self, Self::Scripted)
    }

    /// Whether there is a vendor whose address is known.
    pub const fn has_vendor(self) -> bool {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses | Self::Anthropic | Self::Gemini => true,
            Self::Xml | Self::Scripted => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Provider)]
pub struct ProviderSpec {
    #[schema(value_type = String)]
    pub name: Slug,
    pub kind: ProviderKind,
    /// Of a server that speaks in the same manner; the vendor's own where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The name of the secret that is its key; servers of one's own often take none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// What a `scripted` provider plays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Script>,
    /// By the provider's names of models; `*` stands for all others. A model without a price is not free: nobody knows what
    /// it costs.
    #[serde(default)]
    pub prices: PriceTable,
}

impl ProviderSpec {
    /// What can be said of it without reading addresses and templates.
    pub fn check(&self) -> Result<(), Fault> {
        let Self { name: _, kind, base_url, secret, script, prices } = self;
        if let Some(wrong) = secret.as_deref().filter(|secret| !is_secret_name(secret)) {
            let shown: String = wrong.chars().take(40).flat_map(char::escape_debug).collect();
            let remedy = "name the secret, do not write its value: `toolgate secret set NAME` keeps it";
            return Err(Fault::invalid(format!("`{shown}` is no name of a secret"), remedy).at("/secret"));
        }
        match (kind.is_scripted(), script) {
            (false, Some(_)) => {
                let told = format!("a provider of the kind `{kind}` plays no script");
                return Err(Fault::invalid(told, "leave `script` out, or use the kind `scripted`").at("/script"));
            }
            (true, None) => {
                let told = "a `scripted` provider has no `script`";
                return Err(Fault::invalid(told, "write the turns that it plays").at("/script"));
            }
            (true, Some(script)) => {
                let beside = [("/base_url", base_url.is_some()), ("/secret", secret.is_some())];
                if let Some((pointer, _)) = beside.into_iter().find(|(_, there)| *there) {
                    let told = "a `scripted` provider goes nowhere: it has neither `base_url` nor `secret`";
                    return Err(Fault::invalid(told, "leave them out").at(pointer));
                }
                script.check().map_err(|fault| fault.below("/script"))?;
            }
            (false, None) if base_url.is_none() && !kind.has_vendor() => {
                let told = format!("a provider of the kind `{kind}` has no `base_url`");
                let remedy = "write where the server is, as in `http://localhost:11434/v1`";
                return Err(Fault::invalid(told, remedy).at("/base_url"));
            }
            (false, None) => {}
        }
        if base_url.as_ref().is_some_and(|url| url.chars().count() > BASE_URL_CHARS_MAX) {
            let told = format!("`base_url` has more than {BASE_URL_CHARS_MAX} characters");
            return Err(Fault::invalid(told, "write the address up to the version").at("/base_url"));
        }
        prices.check()
    }
}

/// Per million tokens, in the tenant's currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ModelPrices)]
pub struct Prices {
    pub input: Amount,
    /// Of what was cached; the price of `input` where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<Amount>,
    pub output: Amount,
}

impl Prices {
    /// Exact to the millionth, and rounded up there once: what is counted is never less than what is owed.
    pub fn cost(&self, usage: Usage) -> Amount {
        let Usage { input, cached, output } = usage;
        let cached = cached.min(input);
        let owed = |price: Amount, tokens: u64| u128::from(price.micros().unsigned_abs()) * u128::from(tokens);
        let sum = owed(self.input, input - cached)
            .saturating_add(owed(self.cached_input.unwrap_or(self.input), cached))
            .saturating_add(owed(self.output, output));
        Amount::from_micros(i64::try_from(sum.div_ceil(TOKENS)).unwrap_or(i64::MAX))
    }
}

/// Models by name; `*` stands for all others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct PriceTable(pub BTreeMap<String, Prices>);

impl PriceTable {
    /// `None` where nobody wrote a price: that is not the same as free.
    pub fn of(&self, model: &str) -> Option<&Prices> {
        self.0.get(model).or_else(|| self.0.get(OTHERS))
    }

    /// What an answer costs, counted here and never taken from a report.
    pub fn cost(&self, model: &str, usage: Usage) -> Option<Amount> {
        self.of(model).map(|prices| prices.cost(usage))
    }

    fn check(&self) -> Result<(), Fault> {
        if self.0.len() > PRICES_MAX {
            let told = format!("there are {} prices, at most {PRICES_MAX} are expected", self.0.len());
            return Err(Fault::invalid(told, "write the models that are used, and `*` for all others").at("/prices"));
        }
        let wrong = self.0.keys().find(|model| !is_model(model));
        match wrong {
            None => Ok(()),
            Some(model) => {
                let shown: String = model.chars().take(40).flat_map(char::escape_debug).collect();
                let told = format!("`{shown}` is no name of a model");
                Err(Fault::invalid(told, "write the name by which the provider knows it").at("/prices"))
            }
        }
    }
}

/// What an answer used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ModelUsage)]
pub struct Usage {
    /// All that the model read, with what was cached.
    #[serde(default, rename = "input_tokens")]
    pub input: u64,
    /// Of these, what the provider had read before and charges less for.
    #[serde(default, rename = "cached_tokens")]
    pub cached: u64,
    /// All that the model wrote, with what it thought.
    #[serde(default, rename = "output_tokens")]
    pub output: u64,
}

words! {
    /// Why an answer ended.
    Stop { End = "end", Tool = "tool", Length = "length", Refusal = "refusal" }
}

fn is_model(text: &str) -> bool {
    let chars = text.chars().count();
    (1..=MODEL_CHARS_MAX).contains(&chars) && !text.chars().any(|c| c.is_control() || c.is_whitespace())
}

/// `PROVIDER/MODEL`: whose model, and what they call it. The model's name may have slashes of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelRef {
    pub provider: Slug,
    pub model: String,
}

impl FromStr for ModelRef {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let parts = text.split_once('/').filter(|(_, model)| is_model(model));
        let read = parts.and_then(|(provider, model)| Some((provider.parse::<Slug>().ok()?, model)));
        let unknown = || {
            let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
            let remedy = "write `PROVIDER/MODEL`; `toolgate provider list` shows the providers";
            Fault::invalid(format!("`{shown}` names no model of a provider"), remedy)
        };
        let (provider, model) = read.ok_or_else(unknown)?;
        Ok(Self { provider, model: model.to_owned() })
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::json;

    fn prices(input: &str, cached_input: Option<&str>, output: &str) -> Prices {
        let read = |text: &str| text.parse().unwrap();
        Prices { input: read(input), cached_input: cached_input.map(read), output: read(output) }
    }

    #[test]
    fn tokens_cost_what_the_table_says_rounded_up_once() {
        #[track_caller]
        fn check(prices: Prices, (input, cached, output): (u64, u64, u64), expected: &str) {
            assert_eq!(prices.cost(Usage { input, cached, output }).to_string(), expected);
        }
        let some = prices("2.50", Some("0.25"), "10.00");
        check(some, (0, 0, 0), "0.00");
        check(some, (1_000_000, 0, 0), "2.50");
        check(some, (1_000_000, 1_000_000, 0), "0.25");
        check(some, (1000, 400, 200), "0.0036");
        check(some, (1, 0, 0), "0.000003");
        // Three thirds of a millionth are one, not three.
        check(prices("0.30", None, "0.70"), (1, 0, 1), "0.000001");
        check(prices("1.00", None, "0.00"), (10, 99, 0), "0.00001");
        check(prices("1000000", None, "1000000"), (u64::MAX, 0, u64::MAX), "9223372036854.775807");
    }

    #[test]
    fn a_model_has_its_own_price_the_price_of_all_others_or_none() {
        let usage = Usage { input: 1_000_000, cached: 0, output: 0 };
        let mut table = PriceTable(BTreeMap::from([("large".to_owned(), prices("3", None, "9"))]));
        assert_eq!(table.cost("large", usage), "3".parse().ok());
        assert_eq!(table.cost("small", usage), None);
        table.0.insert(OTHERS.to_owned(), prices("0", None, "0"));
        assert_eq!(table.cost("small", usage), Some(Amount::ZERO));
    }

    proptest! {
        #[test]
        fn parts_never_cost_less_than_the_whole(a in 0u64..1 << 40, b in 0u64..1 << 40, price in 0i64..1 << 30) {
            let prices = Prices { input: Amount::from_micros(price), cached_input: None, output: Amount::ZERO };
            let cost = |input| prices.cost(Usage { input, cached: 0, output: 0 });
            prop_assert!(cost(a) + cost(b) >= cost(a + b));
            prop_assert!((cost(a) + cost(b)).micros() <= cost(a + b).micros() + 1);
        }
    }

    #[test]
    fn a_model_is_named_with_its_provider() {
        #[track_caller]
        fn check(text: &str, expected: Option<(&str, &str)>) {
            let read = text.parse::<ModelRef>().ok();
            let read = read.as_ref().map(|read| (read.provider.as_str(), read.model.as_str()));
            assert_eq!(read, expected, "{text}");
        }
        check("openai/gpt-5", Some(("openai", "gpt-5")));
        check("local/meta-llama/Llama-3.1-8B", Some(("local", "meta-llama/Llama-3.1-8B")));
        check("local/qwen3:8b", Some(("local", "qwen3:8b")));
        for none in ["", "openai", "openai/", "/gpt-5", "a b/c", "openai/a b", "openai/a\u{7}"] {
            check(none, None);
        }
    }

    #[test]
    fn what_is_wrong_with_a_provider_is_said_with_its_place() {
        #[track_caller]
        fn check(changes: Value, pointer: Option<&str>) {
            let mut spec = json!({"name": "some", "kind": "openai_chat"});
            spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            let at = match json::decode::<ProviderSpec>(spec) {
                Err(error) => Some(error.pointer),
                Ok(spec) => spec.check().err().map(|fault| fault.pointer().unwrap_or_default().to_owned()),
            };
            assert_eq!(at.as_deref(), pointer, "{changes}");
        }
        let turn = |turn: Value| json!({"kind": "scripted", "script": {"version": 1, "turns": [turn]}});
        check(json!({}), None);
        check(json!({"secret": "OPENAI_KEY", "base_url": "https://models.example.com/v1"}), None);
        check(json!({"secret": "sk-a real key"}), Some("/secret"));
        check(json!({"key": "x"}), Some("/key"));
        check(json!({"kind": "other"}), Some("/kind"));
        check(json!({"kind": "xml"}), Some("/base_url"));
        check(json!({"kind": "scripted"}), Some("/script"));
        check(json!({"script": {"version": 1, "turns": [{"say": "a"}]}}), Some("/script"));
        check(turn(json!({"say": "a"})), None);
        check(turn(json!({"says": "a"})), Some("/script/turns/0/says"));
        check(turn(json!({})), Some("/script/turns/0/say"));
        check(turn(json!({"say": "a", "chunks": 0})), Some("/script/turns/0/chunks"));
        check(turn(json!({"say": "a", "stop": "soon"})), Some("/script/turns/0/stop"));
        check(turn(json!({"fail": {"status": 200}})), Some("/script/turns/0/fail/status"));
        check(json!({"kind": "scripted", "script": {"version": 2, "turns": [{"say": "a"}]}}), Some("/script/version"));
        check(json!({"kind": "scripted", "script": {"version": 1, "turns": []}}), Some("/script/turns"));
        check(json!({"prices": {"m": {"input": "1", "output": "2"}}}), None);
        check(json!({"prices": {"m": {"input": "1"}}}), Some("/prices/m"));
        check(json!({"prices": {"m": {"input": "-1", "output": "2"}}}), Some("/prices/m/input"));
        check(json!({"prices": {"a b": {"input": "1", "output": "2"}}}), Some("/prices"));
    }
}
