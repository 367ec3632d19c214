//! Constraints on arguments: `{tool?, pointer, const | enum | max | prefix | path_under | url_host}`.
//!
//! Profiles, tokens and standing grants use the same ones. They are evaluated after defaults were filled in, and all of
//! them must hold. What is absent or of another type denies. Deliberately absent: anything that loosens; a list can only
//! grow, and growing it only narrows.

mod arguments;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use toolgate_contracts::{Fault, FoldedName, json};
use url::{Host, Url};

pub use arguments::Arguments;

/// Of one profile, token or grant.
pub const CONSTRAINTS_MAX: usize = 64;

/// One demand on one argument. INVARIANT: made only from [`Written`], so the demand was understood and is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Constraint {
    /// As written, and as compared. Absent: every tool.
    tool: Option<(String, FoldedName)>,
    /// A JSON Pointer into the arguments.
    pointer: String,
    demand: Demand,
}

/// As it is stored and sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Constraint)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    pointer: String,
    #[serde(default, rename = "const", deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    constant: Option<Value>,
    #[serde(default, rename = "enum", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    choices: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    max: Option<serde_json::Number>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_under: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url_host: Option<Vec<String>>,
}

/// `const: null` is a demand, not an absence.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Clone, Debug, PartialEq)]
enum Demand {
    Const(Value),
    Enum(Vec<Value>),
    Max(serde_json::Number),
    /// Only for strings that are neither a path nor an address: there a prefix says nothing.
    Prefix(String),
    PathUnder(String),
    UrlHost(Vec<(String, Host)>),
}

impl TryFrom<Written> for Constraint {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { tool, pointer, constant, choices, max, prefix, path_under, url_host } = written;
        if !is_pointer(&pointer) {
            return Err("`pointer` is not a JSON Pointer such as `/amount`".to_owned());
        }
        let mut demands = Vec::new();
        demands.extend(constant.map(Demand::Const));
        if let Some(choices) = choices {
            demands.push(Demand::Enum(Some(choices).filter(|list| !list.is_empty()).ok_or("`enum` lists no value")?));
        }
        demands.extend(max.map(Demand::Max));
        if let Some(prefix) = prefix {
            demands.push(Demand::Prefix(Some(prefix).filter(|text| !text.is_empty()).ok_or("`prefix` is empty")?));
        }
        if let Some(folder) = path_under {
            let usable = !folder.is_empty() && has_plain_steps(&folder);
            demands.push(Demand::PathUnder(
                Some(folder).filter(|_| usable).ok_or("`path_under` is not a folder, written without `.` and `..`")?,
            ));
        }
        if let Some(hosts) = url_host {
            let parse = |text: String| match Host::parse(&text) {
                Ok(host) => Ok((text, host)),
                Err(_) => Err(format!("`url_host` lists `{}`, which is no host", text.escape_debug())),
            };
            let hosts = hosts.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
            demands
                .push(Demand::UrlHost(Some(hosts).filter(|list| !list.is_empty()).ok_or("`url_host` lists no host")?));
        }
        let one = "write exactly one of `const`, `enum`, `max`, `prefix`, `path_under` and `url_host`";
        let demand = demands.pop().filter(|_| demands.is_empty()).ok_or(one)?;
        let tool = tool.map(|name| (FoldedName::of(&name), name)).map(|(folded, name)| (name, folded));
        Ok(Self { tool, pointer, demand })
    }
}

impl From<Constraint> for Written {
    fn from(constraint: Constraint) -> Self {
        let Constraint { tool, pointer, demand } = constraint;
        let mut written = Self { tool: tool.map(|(name, _)| name), pointer, ..Self::default() };
        match demand {
            Demand::Const(value) => written.constant = Some(value),
            Demand::Enum(values) => written.choices = Some(values),
            Demand::Max(max) => written.max = Some(max),
            Demand::Prefix(prefix) => written.prefix = Some(prefix),
            Demand::PathUnder(folder) => written.path_under = Some(folder),
            Demand::UrlHost(hosts) => written.url_host = Some(hosts.into_iter().map(|(text, _)| text).collect()),
        }
        written
    }
}

impl utoipa::PartialSchema for Constraint {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        Written::schema()
    }
}

impl utoipa::ToSchema for Constraint {}

impl Constraint {
    /// Whether it speaks of a tool that is called by one of these names.
    fn concerns(&self, names: &[&FoldedName]) -> bool {
        self.tool.as_ref().is_none_or(|(_, folded)| names.contains(&folded))
    }

    fn admits(&self, input: &Value) -> Result<(), String> {
        let Self { tool: _, pointer, demand } = self;
        let found =
            input.pointer(pointer).ok_or_else(|| format!("the argument `{pointer}` is constrained and absent"))?;
        if demand.admits(found) { Ok(()) } else { Err(format!("the argument `{pointer}` must be {demand}")) }
    }
}

/// A list of which everything must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct Constraints(Vec<Constraint>);

impl Constraints {
    /// Reads what was stored or sent as plain JSON. The fault points below `/constraints`.
    pub fn parse(values: &[Value]) -> Result<Self, Fault> {
        let parse = |(index, value): (usize, &Value)| {
            json::decode::<Constraint>(value.clone()).map_err(|error| {
                let remedy = "write `pointer` and one demand, as in `{\"pointer\": \"/amount\", \"max\": 100}`";
                Fault::invalid(error.message, remedy).at(format!("/constraints/{index}{}", error.pointer))
            })
        };
        values.iter().enumerate().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// `names` are all the names that the tool of this call goes by. `Err` says which constraint does not hold.
    pub fn check(&self, names: &[&FoldedName], input: &Value) -> Result<(), String> {
        self.0
            .iter()
            .filter(|constraint| constraint.concerns(names))
            .try_for_each(|constraint| constraint.admits(input))
    }

    /// Both lists: what either refuses is refused.
    #[must_use]
    pub fn and(&self, more: &Self) -> Self {
        let mut all = self.0.clone();
        all.extend(more.0.iter().filter(|constraint| !self.0.contains(constraint)).cloned());
        Self(all)
    }

    /// The tools that are named in them, as written.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|constraint| constraint.tool.as_ref().map(|(name, _)| name.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<Constraint> for Constraints {
    fn from_iter<I: IntoIterator<Item = Constraint>>(list: I) -> Self {
        Self(list.into_iter().collect())
    }
}

impl Demand {
    fn admits(&self, found: &Value) -> bool {
        let text = found.as_str();
        match self {
            Self::Const(wanted) => found == wanted,
            Self::Enum(wanted) => wanted.contains(found),
            Self::Max(max) => found.as_f64().zip(max.as_f64()).is_some_and(|(number, max)| number <= max),
            Self::Prefix(prefix) => text.is_some_and(|text| text.starts_with(prefix) && is_plain_word(text)),
            Self::PathUnder(folder) => text.is_some_and(|path| is_under(path, folder)),
            Self::UrlHost(hosts) => {
                text.and_then(host_of).is_some_and(|host| hosts.iter().any(|(_, listed)| *listed == host))
            }
        }
    }
}

/// What is expected.
impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Const(wanted) => write!(f, "{wanted}"),
            Self::Enum(wanted) => write!(f, "one of {}", Value::from(wanted.clone())),
            Self::Max(max) => write!(f, "a number of at most {max}"),
            Self::Prefix(prefix) => {
                write!(f, "a text that begins with `{prefix}` and is neither a path nor an address")
            }
            Self::PathUnder(folder) => write!(f, "a path under `{folder}`, without `..`"),
            Self::UrlHost(hosts) => {
                let hosts: Vec<_> = hosts.iter().map(|(text, _)| text.as_str()).collect();
                write!(f, "a plain http or https address on one of {}", hosts.join(", "))
            }
        }
    }
}

fn is_pointer(text: &str) -> bool {
    let escapes = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escapes
}

/// Neither a path nor an address, by any reader's rules.
fn is_plain_word(text: &str) -> bool {
    let addressed = Url::parse(text).is_ok_and(|url| url.has_host() || matches!(url.scheme(), "file" | "data"));
    !text.contains(['/', '\\', '\0']) && !addressed
}

fn has_plain_steps(path: &str) -> bool {
    !path.contains(['\0', '\\']) && path.split('/').all(|step| step != ".." && step != ".")
}

fn is_under(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    has_plain_steps(path) && rest.is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
}

/// The host of an http(s) address without credentials. What other readers could take apart differently has none.
fn host_of(text: &str) -> Option<Host> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let ambiguous = rest.starts_with('/') || text.chars().any(|c| c == '\\' || c.is_whitespace() || c.is_control());
    let url = Url::parse(text).ok().filter(|_| !ambiguous)?;
    let authority = rest.split(['/', '?', '#']).next()?;
    url.host().filter(|_| !authority.contains('@')).map(|host| host.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn constraint(value: Value) -> Constraint {
        json::decode(value).unwrap()
    }

    #[track_caller]
    fn check(demand: Value, admitted: &[Value], refused: &[Value]) {
        let mut written = json!({"pointer": "/x"});
        written.as_object_mut().unwrap().extend(demand.as_object().unwrap().clone());
        let list = Constraints::from_iter([constraint(written.clone())]);
        assert_eq!(serde_json::to_value(&list).unwrap(), json!([written]), "it is written as it was read");
        for value in admitted {
            assert_eq!(list.check(&[], &json!({"x": value})), Ok(()), "{value}");
        }
        for value in refused {
            assert!(list.check(&[], &json!({"x": value})).is_err(), "{value}");
        }
        assert!(list.check(&[], &json!({"y": 1})).is_err(), "absent denies");
    }

    #[test]
    fn each_demand_admits_what_it_says_and_denies_other_types() {
        check(json!({"const": 3}), &[json!(3)], &[json!("3"), json!(null), json!(4)]);
        check(json!({"const": null}), &[json!(null)], &[json!(0), json!("")]);
        check(json!({"enum": ["a", "b"]}), &[json!("a")], &[json!("c"), json!(["a"])]);
        check(json!({"max": 10}), &[json!(10), json!(-1), json!(9.5)], &[json!(10.1), json!("1"), json!(null)]);
        check(
            json!({"prefix": "team-"}),
            &[json!("team-a"), json!("team-a:b")],
            &[json!("x"), json!("team-/../b"), json!("team-://x"), json!("team-\\b"), json!(["team-a"])],
        );
        check(json!({"prefix": "http"}), &[json!("httpd")], &[json!("http:evil.test"), json!("https:evil.test")]);
        check(
            json!({"path_under": "/srv/data"}),
            &[json!("/srv/data/a"), json!("/srv/data/a/b")],
            &[json!("/srv/data"), json!("/srv/data-evil/a"), json!("/srv/data/../x"), json!("srv/data/a"), json!(7)],
        );
        check(
            json!({"url_host": ["api.example.com"]}),
            &[
                json!("https://api.example.com/a"),
                json!("http://API.example.com:8080"),
                json!("https://api.example.com/@b"),
                json!("https://%61pi.example.com/"),
            ],
            &[
                json!("https://api.example.com@evil.test/"),
                json!("https://a:b@api.example.com/"),
                json!("https://evil.test/?api.example.com"),
                json!("https://evil.test#@api.example.com"),
                json!("ftp://api.example.com/"),
                json!("https://api.example.com\\@evil.test"),
                json!("https:///api.example.com/"),
                json!("https:api.example.com"),
                json!(" https://api.example.com/"),
                json!("https://api.exa\tmple.com/"),
                json!("https://api.example.com./"),
                json!("https://api.example.com.evil.test/"),
            ],
        );
        check(
            json!({"url_host": ["127.0.0.1"]}),
            &[json!("http://127.0.0.1/"), json!("http://2130706433/"), json!("http://0x7f.1/")],
            &[json!("http://[::ffff:127.0.0.1]/"), json!("http://127.0.0.2/")],
        );
    }

    #[test]
    fn what_is_not_one_understood_demand_is_refused_when_it_is_read() {
        for (written, expected) in [
            (json!({"pointer": "/a"}), "exactly one"),
            (json!({"pointer": "/a", "max": 1, "const": 1}), "exactly one"),
            (json!({"pointer": "a", "max": 1}), "JSON Pointer"),
            (json!({"pointer": "/a~2", "max": 1}), "JSON Pointer"),
            (json!({"pointer": "/a", "min": 1}), "unknown field `min`"),
            (json!({"pointer": "/a", "enum": []}), "no value"),
            (json!({"pointer": "/a", "prefix": ""}), "empty"),
            (json!({"pointer": "/a", "path_under": "/a/../b"}), "folder"),
            (json!({"pointer": "/a", "url_host": ["a b"]}), "no host"),
        ] {
            let fault = Constraints::parse(std::slice::from_ref(&written)).unwrap_err();
            assert!(fault.told().contains(expected), "{written}: {}", fault.told());
            assert!(fault.pointer().unwrap().starts_with("/constraints/0"));
        }
    }

    #[test]
    fn a_constraint_on_one_tool_holds_for_each_of_its_names_and_for_no_other_tool() {
        let list = Constraints::parse(&[json!({"tool": "send_mail", "pointer": "/to", "const": "a"})]).unwrap();
        let (mail, other) = (FoldedName::of("sendMail"), FoldedName::of("find_note"));
        assert!(list.check(&[&mail, &other], &json!({})).is_err());
        assert!(list.check(&[&other, &mail], &json!({"to": "b"})).is_err());
        assert_eq!(list.check(&[&other], &json!({})), Ok(()));
    }

    proptest! {
        #[test]
        fn a_longer_list_admits_no_more(max in 0..9_i64, word in "[ab]{0,2}", n in 0..9_i64, text in "[ab]{0,2}") {
            let first = Constraints::from_iter([constraint(json!({"pointer": "/n", "max": max}))]);
            let second = Constraints::from_iter([constraint(json!({"pointer": "/t", "const": word}))]);
            let input = json!({"n": n, "t": text});
            let both = first.and(&second).check(&[], &input).is_ok();
            prop_assert_eq!(both, first.check(&[], &input).is_ok() && second.check(&[], &input).is_ok());
        }
    }
}
