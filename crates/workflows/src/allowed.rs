//! Which of an agent's tools a node leaves it. What the agent itself has, its tool set says.

use toolgate_contracts::FoldedName;
use toolgate_contracts::workflow::{AgentConfig, Node};

/// Those that both the node's limits and its configuration name; absent where neither says, so all.
pub fn tools(node: &Node, config: &AgentConfig) -> Option<Vec<String>> {
    let by_limits = node.limits.as_ref().and_then(|limits| limits.enabled_tools.as_ref());
    match (&config.enabled_tools, by_limits) {
        (Some(some), Some(others)) => {
            let pairs = some.iter().flat_map(|one| others.iter().map(move |other| (one, other)));
            let mut both: Vec<String> =
                pairs.filter_map(|(one, other)| narrower(one, other)).map(str::to_owned).collect();
            both.sort();
            both.dedup();
            Some(both)
        }
        (some, others) => some.as_ref().or(others).cloned(),
    }
}

/// Of `name` and `name@version` the one that says more, where both can mean one tool.
fn narrower<'n>(one: &'n str, other: &'n str) -> Option<&'n str> {
    let parts = |text: &'n str| text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
    let ((name, version), (other_name, other_version)) = (parts(one), parts(other));
    if FoldedName::of(name) != FoldedName::of(other_name) {
        return None;
    }
    match (version, other_version) {
        (Some(version), Some(other)) if version != other => None,
        (None, Some(_)) => Some(other),
        _ => Some(one),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolgate_contracts::workflow::{self, NodeKind};

    use super::*;

    #[test]
    fn of_two_lists_only_what_both_name_is_left() {
        let check = |by_config: Value, by_limits: Value, left: Value| {
            let mut node = json!({"id": "a", "kind": "agent", "config": {"agent": "helper", "prompt": "Go."}});
            if !by_config.is_null() {
                node["config"]["enabled_tools"] = by_config.clone();
            }
            if !by_limits.is_null() {
                node["limits"] = json!({"enabled_tools": by_limits});
            }
            let graph = workflow::read(json!({"version": 1, "name": "w", "nodes": [node]})).unwrap();
            let NodeKind::Agent(config) = &graph.nodes[0].kind else { panic!("no agent") };
            assert_eq!(json!(tools(&graph.nodes[0], config)), left, "{by_config} and {by_limits}");
        };
        check(json!(null), json!(null), json!(null));
        check(json!(["a"]), json!(null), json!(["a"]));
        check(json!(null), json!(["a"]), json!(["a"]));
        check(json!(["a", "b"]), json!(["b", "c"]), json!(["b"]));
        check(json!(["a"]), json!(["b"]), json!([]));
        check(json!([]), json!(["b"]), json!([]));
        check(json!(["a"]), json!(["a@1.0.0"]), json!(["a@1.0.0"]));
        check(json!(["a@1.0.0"]), json!(["A"]), json!(["a@1.0.0"]));
        check(json!(["a@1.0.0"]), json!(["a@2.0.0"]), json!([]));
    }
}
