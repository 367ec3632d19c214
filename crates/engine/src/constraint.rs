//! Constraints on arguments: `{tool?, pointer, const | enum | max | prefix | path_under | url_host}`.
//!
//! Evaluated after defaults were filled in, all of them must hold. What is absent, of another type, or not understood,
//! denies.

use serde::Deserialize;
use serde_json::Value;
use toolgate_contracts::FoldedName;
use toolgate_registry::snapshot::ResolvedTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Constraint {
    /// Absent: every tool.
    #[serde(default)]
    tool: Option<String>,
    /// A JSON Pointer into the arguments.
    pointer: String,
    #[serde(flatten)]
    demand: Demand,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Demand {
    Const(Value),
    Enum(Vec<Value>),
    Max(f64),
    /// Only for strings that are neither a path nor an address: there a prefix says nothing.
    Prefix(String),
    PathUnder(String),
    UrlHost(Vec<String>),
}

/// `Err` says which constraint does not hold.
pub fn check(constraints: &[Value], tool: &ResolvedTool, input: &Value) -> Result<(), String> {
    for value in constraints {
        let constraint: Constraint = serde_json::from_value(value.clone())
            .map_err(|_| format!("a constraint is not understood, so nothing passes it: {value}"))?;
        let about = constraint.tool.as_deref().map(FoldedName::of);
        if about.is_some_and(|name| name != tool.name.folded() && name != tool.tool.name.folded()) {
            continue;
        }
        let pointer = &constraint.pointer;
        let found =
            input.pointer(pointer).ok_or_else(|| format!("the argument `{pointer}` is constrained and absent"))?;
        constraint.demand.admits(found).map_err(|expected| format!("the argument `{pointer}` must be {expected}"))?;
    }
    Ok(())
}

impl Demand {
    fn admits(&self, found: &Value) -> Result<(), String> {
        let text = found.as_str();
        let holds = match self {
            Self::Const(wanted) => found == wanted,
            Self::Enum(wanted) => wanted.contains(found),
            Self::Max(max) => found.as_f64().is_some_and(|number| number <= *max),
            Self::Prefix(prefix) => {
                text.is_some_and(|text| text.starts_with(prefix) && !text.contains("://") && !text.contains('/'))
            }
            Self::PathUnder(folder) => text.is_some_and(|path| is_under(path, folder)),
            Self::UrlHost(hosts) => text.and_then(host_of).is_some_and(|host| hosts.contains(&host)),
        };
        if holds { Ok(()) } else { Err(self.expected()) }
    }

    fn expected(&self) -> String {
        match self {
            Self::Const(wanted) => wanted.to_string(),
            Self::Enum(wanted) => format!("one of {}", Value::from(wanted.clone())),
            Self::Max(max) => format!("a number of at most {max}"),
            Self::Prefix(prefix) => format!("a text that begins with `{prefix}` and is neither a path nor an address"),
            Self::PathUnder(folder) => format!("a path under `{folder}`, without `..`"),
            Self::UrlHost(hosts) => format!("an http or https address on one of {}", hosts.join(", ")),
        }
    }
}

fn is_under(path: &str, folder: &str) -> bool {
    let plain = |text: &str| {
        !text.contains('\0') && !text.contains('\\') && text.split('/').all(|part| part != ".." && part != ".")
    };
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    plain(path) && rest.is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
}

/// The host of an http(s) address without credentials; another spelling is no host.
fn host_of(text: &str) -> Option<String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let plain = authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':'));
    let host = authority.split(':').next()?;
    (plain && !host.is_empty()).then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(demand: Value, admitted: &[Value], refused: &[Value]) {
        let demand: Demand = serde_json::from_value(demand).unwrap();
        for value in admitted {
            assert!(demand.admits(value).is_ok(), "{value}");
        }
        for value in refused {
            assert!(demand.admits(value).is_err(), "{value}");
        }
    }

    #[test]
    fn each_demand_admits_what_it_says_and_denies_other_types() {
        check(json!({"const": 3}), &[json!(3)], &[json!("3"), json!(null), json!(4)]);
        check(json!({"enum": ["a", "b"]}), &[json!("a")], &[json!("c"), json!(["a"])]);
        check(json!({"max": 10}), &[json!(10), json!(-1), json!(9.5)], &[json!(10.1), json!("1"), json!(null)]);
        check(json!({"prefix": "team-"}), &[json!("team-a")], &[json!("x"), json!("team-/../b"), json!("team-://x")]);
        check(
            json!({"path_under": "/srv/data"}),
            &[json!("/srv/data/a"), json!("/srv/data/a/b")],
            &[json!("/srv/data"), json!("/srv/data-evil/a"), json!("/srv/data/../x"), json!("srv/data/a"), json!(7)],
        );
        check(
            json!({"url_host": ["api.example.com"]}),
            &[json!("https://api.example.com/a"), json!("http://API.example.com:8080")],
            &[
                json!("https://api.example.com@evil.test/"),
                json!("https://evil.test/?api.example.com"),
                json!("ftp://api.example.com/"),
                json!("https://api.example.com\\@evil.test"),
            ],
        );
    }
}
