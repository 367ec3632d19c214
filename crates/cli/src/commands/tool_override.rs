//! `toolgate tool override …`: what is not named stays as it is.

use serde_json::{Map, Value};

use crate::args::OverrideCommand;
use crate::client::Client;
use crate::failure::{Done, Failure};
use crate::input;
use crate::output::{Output, text_of};

pub async fn run(command: OverrideCommand, client: &Client, output: &Output) -> Done {
    match command {
        OverrideCommand::Set { name, file: Some(file), .. } => {
            let patch = input::read_document(&file)?;
            put(&name, patch.as_object().cloned().unwrap_or_default(), client, output).await
        }
        OverrideCommand::Set { name, changes, unset, file: None } => {
            let changes = read(&changes, &unset)?;
            let tool = client.get(&["tools", &name], &[("all", Some("true".to_owned()))]).await?;
            let mut members = tool["override"].as_object().cloned().unwrap_or_default();
            members.retain(|_, member| !member.is_null());
            for change in changes {
                apply(&mut members, change);
            }
            if members.is_empty() && !tool["override"].is_null() {
                return clear(&name, client, output).await;
            }
            put(&name, members, client, output).await
        }
        OverrideCommand::Clear { name } => clear(&name, client, output).await,
    }
}

async fn put(name: &str, members: Map<String, Value>, client: &Client, output: &Output) -> Done {
    let holds = shown(&members);
    let tool = client.put(&["tools", name, "override"], Value::Object(members)).await?;
    let name = text_of(&tool, "name");
    if holds.is_empty() {
        return output.say(&tool, &format!("{name} has no override in this tenant."));
    }
    output.say(&tool, &format!("{name} is overridden in this tenant: {holds}."))
}

async fn clear(name: &str, client: &Client, output: &Output) -> Done {
    let tool = client.delete(&["tools", name, "override"]).await?;
    output.say(&tool, &format!("{} has no override in this tenant.", text_of(&tool, "name")))
}

/// Members whose value is a word even when it looks like a number or a list.
const TEXTS: [&str; 6] = ["name", "title", "permission_policy", "risk", "visibility", "required_permission"];

/// A member, as `a` or `a.b`, and what it shall be; `null` takes it out.
type Change = (String, Value);

fn read(changes: &[String], unset: &[String]) -> Result<Vec<Change>, Failure> {
    let given = changes.iter().map(|change| match change.split_once('=') {
        Some((key, "")) if !key.is_empty() => Ok((key.to_owned(), Value::Null)),
        Some((key, text)) if !key.is_empty() => Ok((key.to_owned(), value(key, text))),
        _ => Err(Failure::usage(format!("`{change}` is not KEY=VALUE"), "write for example risk=critical")),
    });
    given.chain(unset.iter().map(|key| Ok((key.clone(), Value::Null)))).collect()
}

fn value(key: &str, text: &str) -> Value {
    let parsed = || serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    match key {
        _ if TEXTS.contains(&key) => Value::from(text),
        "hosts" if !text.starts_with('[') => text.split(',').map(str::trim).filter(|host| !host.is_empty()).collect(),
        _ => parsed(),
    }
}

/// Makes one change; a member that has become empty goes too.
fn apply(members: &mut Map<String, Value>, (key, value): Change) {
    match key.split_once('.') {
        None => set(members, &key, value),
        Some((outer, inner)) => {
            let mut inside = members.get(outer).and_then(Value::as_object).cloned().unwrap_or_default();
            set(&mut inside, inner, value);
            set(members, outer, if inside.is_empty() { Value::Null } else { Value::Object(inside) });
        }
    }
}

fn set(members: &mut Map<String, Value>, key: &str, value: Value) {
    if value.is_null() {
        members.shift_remove(key);
    } else {
        members.insert(key.to_owned(), value);
    }
}

/// The members as one writes them.
fn shown(members: &Map<String, Value>) -> String {
    let word = |value: &Value| match value {
        Value::String(text) if !text.contains(char::is_whitespace) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    };
    let pairs = members.iter().flat_map(|(name, value)| match value {
        Value::Object(inside) => {
            inside.iter().map(|(inner, value)| format!("{name}.{inner}={}", word(value))).collect()
        }
        value => vec![format!("{name}={}", word(value))],
    });
    pairs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(held: Value, words: &[&str], unset: &[&str], expected: &str) {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut members = held.as_object().unwrap().clone();
        for change in read(&own(words), &own(unset)).unwrap() {
            apply(&mut members, change);
        }
        assert_eq!(Value::Object(members.clone()).to_string(), expected, "{}", shown(&members));
    }

    #[test]
    fn changes_become_the_members_of_an_override() {
        let words = [
            "title=12",
            "requires_approval=true",
            "timeout_ms=500",
            "hosts=a.test, b.test",
            "hitl.mode=blocking",
            "hitl.timeout_s=60",
        ];
        check(
            json!({}),
            &words,
            &[],
            r#"{"title":"12","requires_approval":true,"timeout_ms":500,"hosts":["a.test","b.test"],"hitl":{"mode":"blocking","timeout_s":60}}"#,
        );
    }

    #[test]
    fn what_is_no_change_is_refused() {
        for change in ["risk", "=x", ""] {
            assert!(read(&[change.to_owned()], &[]).is_err(), "{change}");
        }
    }

    #[test]
    fn what_is_not_named_stays() {
        let held = json!({"risk": "critical", "hitl": {"mode": "blocking", "timeout_s": 60}});
        check(
            held.clone(),
            &["title=A b", "hitl.mode="],
            &[],
            r#"{"risk":"critical","hitl":{"timeout_s":60},"title":"A b"}"#,
        );
        check(held.clone(), &["hitl.mode=", "hitl.timeout_s="], &[], r#"{"risk":"critical"}"#);
        check(held.clone(), &["hosts=a.test"], &["risk", "hitl"], r#"{"hosts":["a.test"]}"#);
        check(held, &["risk="], &["hitl", "title", "hitl.mode"], "{}");
    }

    #[test]
    fn members_are_shown_as_they_are_written() {
        let members = json!({"title": "A b", "risk": "critical", "hosts": ["a", "b"], "hitl": {"mode": "blocking"}, "timeout_ms": 5});
        assert_eq!(
            shown(members.as_object().unwrap()),
            r#"title="A b", risk=critical, hosts=a,b, hitl.mode=blocking, timeout_ms=5"#
        );
    }
}
