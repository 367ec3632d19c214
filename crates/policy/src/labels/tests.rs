//! The rules, table by table, and the properties that hold whatever the labels are.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_contracts::definition::{EgressClass, Origin, Sink};
use toolgate_contracts::{Definition, FoldedName, json as strict};
use url::Host;

use super::*;

const U: Labels = Labels::UNTRUSTED;
const P: Labels = Labels::PRIVATE;
const S: Labels = Labels::SENSITIVE;

fn definition(runner: Value, more: Value) -> Definition {
    let mut written = json!({"name": "t", "description": "d", "input_schema": {"type": "object"}, "runner": runner});
    written.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    strict::decode(written).unwrap()
}

fn facts(class: EgressClass, sink: Sink) -> SinkFacts {
    SinkFacts { class, sink, administers: false, accepted: Labels::NONE }
}

#[test]
fn labels_are_written_as_words_in_one_order() {
    assert_eq!(serde_json::to_value(S.join(U)).unwrap(), json!(["untrusted", "sensitive"]));
    let read: Labels = strict::decode(json!(["private", "untrusted", "private"])).unwrap();
    assert_eq!(read, U.join(P));
    assert!(strict::decode::<Labels>(json!(["secret"])).is_err());
    assert_eq!(
        [Labels::NONE, P, U.join(P), Labels::ALL].map(|labels| labels.to_string()),
        ["unlabelled", "private", "untrusted and private", "untrusted, private and sensitive"]
    );
}

#[test]
fn a_result_is_worth_what_its_source_is() {
    let script = json!({"kind": "script", "entry": "e"});
    let get = json!({"kind": "http", "method": "GET", "url": "https://a.test/"});
    let builtin = json!({"kind": "builtin", "function": "f"});
    let host = json!([{"host": "a.test", "methods": ["GET"]}]);
    for (runner, more, brought) in [
        (json!({"kind": "mcp", "server": "s", "tool": "t"}), json!({}), U),
        (get.clone(), json!({}), U),
        (
            json!({"kind": "openapi", "document": "d", "operation": "o", "method": "GET", "server": "https://a.test", "path": "/"}),
            json!({}),
            U,
        ),
        (json!({"kind": "external"}), json!({}), U),
        (json!({"kind": "prompt", "mode": "agent", "template": ""}), json!({}), Labels::NONE),
        (json!({"kind": "prompt", "mode": "direct", "template": ""}), json!({}), Labels::NONE),
        (json!({"kind": "sql", "connection": "c", "statement": "select 1"}), json!({}), P),
        (json!({"kind": "record", "entity_type": "e"}), json!({}), P),
        (script, json!({}), U.join(P)),
        (json!({"kind": "python", "code": "", "hosts": host}), json!({}), U),
        (json!({"kind": "python", "code": ""}), json!({}), Labels::NONE),
        (json!({"kind": "expression", "cel": "1"}), json!({}), Labels::NONE),
        (builtin.clone(), json!({}), Labels::NONE),
        (builtin.clone(), json!({"egress_class": "read_only", "sink": "open"}), U),
        (builtin.clone(), json!({"egress_class": "write"}), Labels::NONE),
        (builtin, json!({"labels": {"adds": ["private", "sensitive"]}}), P.join(S)),
        (
            json!({"kind": "builtin", "function": "database_read"}),
            json!({"egress_class": "read_only", "sink": "open"}),
            P,
        ),
        (json!({"kind": "builtin", "function": "run_sql_write"}), json!({"egress_class": "write"}), P),
    ] {
        let definition = definition(runner, more);
        assert_eq!(sources(&definition, Authority::Other, false), brought, "{:?}", definition.runner);
        assert_eq!(sources(&definition, Authority::Other, true), brought.join(P), "with a secret");
        assert_eq!(along_edge(&definition, Authority::Other, S, false), brought.join(S), "inputs stay");
    }
    assert_eq!(Authority::of(Origin::Code, false), Authority::Operator);
    assert_eq!(Authority::of(Origin::Upstream, true), Authority::Operator);
}

#[test]
fn incident_29_what_an_upstream_says_of_itself_only_restricts() {
    let mcp = json!({"kind": "mcp", "server": "s", "tool": "t"});
    let trusting = definition(mcp, json!({"labels": {"clears": ["untrusted", "private"], "adds": ["sensitive"]}}));
    for origin in [Origin::Upstream, Origin::Tenant, Origin::Openapi, Origin::Bundle] {
        let authority = Authority::of(origin, false);
        assert_eq!(sources(&trusting, authority, true), U.join(P).join(S), "{origin}");
    }
    assert_eq!(sources(&trusting, Authority::Operator, true), S, "the operator may say it");
}

#[track_caller]
fn check(labels: Labels, facts: SinkFacts, expected: &[(Rule, Verdict)]) {
    let hits = judge(labels, &facts);
    assert_eq!(hits.iter().map(|hit| (hit.rule, hit.verdict)).collect::<Vec<_>>(), expected, "{labels:?} {facts:?}");
}

#[test]
fn the_six_rules_say_what_they_say() {
    use EgressClass::{ReadOnly, Write};
    use Rule::{L1, L2, L3, L4, L5, L6};
    use Verdict::{Allow, Ask, Deny};
    let (open, post, fixed) = (facts(ReadOnly, Sink::Open), facts(Write, Sink::Fixed), facts(ReadOnly, Sink::Fixed));
    let none = Labels::NONE;
    check(none, open, &[]);
    check(none, post, &[(L1, Ask)]);
    check(U, open, &[(L2, Allow)]);
    check(U, post, &[(L1, Ask)]);
    check(P, open, &[(L3, Allow)]);
    check(U.join(P), fixed, &[]);
    check(U.join(P), open, &[(L4, Ask)]);
    check(U.join(P), post, &[(L1, Ask), (L4, Ask)]);
    check(U.join(P), facts(Write, Sink::Open), &[(L1, Ask), (L4, Ask)]);
    check(P.join(S), open, &[(L6, Deny)]);
    check(S, open, &[(L6, Deny)]);
    check(S, post, &[(L1, Ask)]);
    check(Labels::ALL, open, &[(L4, Ask), (L6, Deny)]);
    check(U.join(S), open, &[(L4, Ask), (L6, Deny)]);

    let admin = SinkFacts { administers: true, ..facts(EgressClass::None, Sink::None) };
    check(none, admin, &[]);
    check(P, admin, &[]);
    check(U, admin, &[(L5, Deny)]);
    check(U, SinkFacts { accepted: Labels::ALL, ..admin }, &[(L5, Deny)]);
}

#[test]
fn rule_4_waits_for_a_person_and_no_standing_grant_answers_it() {
    for hit in judge(Labels::ALL, &SinkFacts { administers: true, ..facts(EgressClass::Write, Sink::Open) }) {
        assert_eq!((hit.blocking, hit.standing_grants), (hit.rule == Rule::L4, hit.rule != Rule::L4), "{hit:?}");
        assert!(!hit.reason.is_empty() && !hit.remedy.is_empty());
        assert_eq!(serde_json::to_value(hit.rule).unwrap(), json!(hit.rule.as_str()));
        assert_eq!(hit.denial().reason(), "label");
    }
}

#[test]
fn an_operator_accepts_labels_for_a_tool_and_a_host() {
    let read = |value: Value| strict::decode::<Acceptance>(value);
    let written = json!({"tool": "http_get", "host": "api.example.com", "accepts": ["private"]});
    let one = read(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&one).unwrap(), written);
    let any_host = read(json!({"tool": "search", "accepts": ["sensitive"]})).unwrap();
    let all = [one, any_host];
    let host = |text: &str| Host::parse(text).unwrap();
    for (tool, at, expected) in [
        ("http_get", Some("api.example.com"), P),
        ("httpGet", Some("API.example.com"), P),
        ("http_get", Some("evil.test"), Labels::NONE),
        ("http_get", Some("api.example.com.evil.test"), Labels::NONE),
        ("http_get", None, Labels::NONE),
        ("search", None, S),
        ("search", Some("a.test"), S),
        ("other", Some("api.example.com"), Labels::NONE),
    ] {
        let found = accepted(&all, &[&FoldedName::of(tool)], at.map(host).as_ref());
        assert_eq!(found, expected, "{tool} {at:?}");
    }
    let open = facts(EgressClass::ReadOnly, Sink::Open);
    check(U.join(P), SinkFacts { accepted: P, ..open }, &[(Rule::L2, Verdict::Allow)]);
    check(P.join(S), SinkFacts { accepted: S, ..open }, &[(Rule::L3, Verdict::Allow)]);
    check(Labels::ALL, SinkFacts { accepted: P, ..open }, &[(Rule::L4, Verdict::Ask), (Rule::L6, Verdict::Deny)]);
    let post = facts(EgressClass::Write, Sink::Fixed);
    check(U.join(P), SinkFacts { accepted: P, ..post }, &[(Rule::L1, Verdict::Ask)]);
    for broken in [
        json!({"tool": "a", "accepts": []}),
        json!({"tool": "a", "host": "a b", "accepts": ["private"]}),
        json!({"tool": "a", "host": "https://a.test/", "accepts": ["private"]}),
        json!({"tool": "*", "accepts": ["private"]}),
        json!({"tool": "a", "accepts": ["private"], "why": ""}),
    ] {
        assert!(read(broken.clone()).is_err(), "{broken}");
    }
}

#[test]
fn a_tool_and_a_token_take_at_most_what_they_say() {
    let builtin = json!({"kind": "builtin", "function": "f"});
    let any = definition(builtin.clone(), json!({}));
    let clean = definition(builtin.clone(), json!({"labels": {"max_in": []}}));
    let private = definition(builtin, json!({"labels": {"max_in": ["private"]}}));
    for (tool, labels, token, refused) in [
        (&any, Labels::ALL, None, None),
        (&clean, Labels::NONE, None, None),
        (&clean, P, None, Some("labels.max_in")),
        (&private, P, Some(P), None),
        (&private, P.join(U), Some(Labels::ALL), Some("labels.max_in")),
        (&any, P.join(U), Some(P), Some("labels_max")),
        (&any, S, Some(Labels::NONE), Some("labels_max")),
    ] {
        let found = refuse_excess(labels, tool, token).map_err(|error| (error.reason().to_owned(), error.message));
        match (found, refused) {
            (Ok(()), None) => {}
            (Err((reason, message)), Some(member)) => {
                assert!(reason == "label" && message.contains(member), "{message}");
            }
            (found, refused) => panic!("{found:?} {refused:?}"),
        }
    }
}

#[test]
fn only_values_that_a_schema_lists_are_endorsed() {
    let closed = json!({"type": "object", "additionalProperties": false, "properties": {
        "n": {"type": "integer"}, "ok": {"type": ["boolean", "null"]}, "kind": {"type": "string", "enum": ["a", "b"]},
        "list": {"type": "array", "items": {"type": "number"}}, "unit": {"const": "EUR"},
        "one": {"anyOf": [{"type": "number"}, {"type": "null"}]}, "ref": {"$ref": "#/$defs/n"},
        "both": {"allOf": [{"type": "string"}, {"enum": ["x"]}]},
        "pair": {"type": "array", "prefixItems": [{"type": "number"}], "items": false},
    }, "$defs": {"n": {"type": "number"}}});
    assert!(!has_free_text(&closed));
    for open in [
        json!(true),
        json!({}),
        json!({"type": "string"}),
        json!({"type": "string", "format": "date"}),
        json!({"type": "string", "maxLength": 3}),
        json!({"type": ["number", "string"]}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"n": {"type": "number"}}}),
        json!({"properties": {"n": {"type": "number"}}, "additionalProperties": false}),
        json!({"type": "object", "additionalProperties": {"type": "number"}}),
        json!({"type": "object", "additionalProperties": false, "patternProperties": {".*": {"type": "number"}}}),
        json!({"type": "object", "additionalProperties": false, "properties": {"s": {"type": "string"}}}),
        json!({"type": "array"}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"type": "array", "prefixItems": [{"type": "number"}]}),
        json!({"anyOf": [{"type": "number"}, {"type": "string"}]}),
        json!({"anyOf": []}),
        json!({"$ref": "#"}),
        json!({"type": "object", "unevaluatedProperties": false, "allOf": [{"properties": {"s": {"type": "string"}}}]}),
        json!({"type": "array", "unevaluatedItems": false, "allOf": [{"items": {"type": "string"}}]}),
        json!({"$ref": "https://evil.test/schema"}),
        json!({"not": {"type": "number"}}),
    ] {
        assert!(has_free_text(&open), "{open}");
    }
}

#[test]
fn origins_are_few_and_do_not_depend_on_who_joined_first() {
    let of = |names: std::ops::Range<u32>| {
        let mut origins = Origins::default();
        names.for_each(|n| origins.add(&format!("tool{n:02}")));
        origins
    };
    let (left, right) = (of(0..10), of(5..20));
    assert_eq!(left.clone().join(&right), right.clone().join(&left));
    let joined = left.join(&right);
    assert_eq!((joined.names().count(), joined.has_others()), (ORIGINS_MAX, true));
    assert!(joined.to_string().ends_with("tool15 and others"));
    let mut odd = Origins::default();
    odd.add("a\u{202e}b");
    assert_eq!(odd.to_string(), "a\\u{202e}b", "a name cannot rearrange the card");
}

/// Field incident 30: ordinary work must not be stopped by what it looks like.
#[test]
fn incident_30_ordinary_sequences_are_not_asked_about_beyond_writes() {
    let builtin = |more: Value| definition(json!({"kind": "builtin", "function": "f"}), more);
    let search = builtin(json!({"egress_class": "read_only", "sink": "open"}));
    let fetch = definition(
        json!({"kind": "http", "method": "GET", "url": "https://{{ host }}/"}),
        json!({"egress_class": "read_only"}),
    );
    let weather = definition(
        json!({"kind": "http", "method": "GET", "url": "https://w.test/"}),
        json!({"egress_class": "read_only"}),
    );
    let query = definition(
        json!({"kind": "sql", "connection": "c", "statement": "select 1"}),
        json!({"egress_class": "read_only"}),
    );
    let note = builtin(json!({"labels": {"adds": ["private"]}}));
    let compute = builtin(json!({}));
    let report = builtin(json!({"egress_class": "write"}));
    for (about, steps) in [
        ("research", vec![&search, &fetch, &fetch, &compute, &search, &report]),
        ("weather, then research", vec![&weather, &compute, &search, &fetch]),
        ("figures", vec![&query, &compute, &query, &report]),
        ("notes, then figures", vec![&note, &query, &note, &compute, &report]),
        ("private first, then a public look-up", vec![&query, &compute, &search]),
        ("only computing", vec![&compute, &compute, &report]),
    ] {
        let mut seen = Labels::NONE;
        for (index, step) in steps.iter().enumerate() {
            for hit in judge(seen, &SinkFacts::of(step, false, Labels::NONE)) {
                let expected = if hit.rule == Rule::L1 { Verdict::Ask } else { Verdict::Allow };
                assert_eq!(hit.verdict, expected, "{about}, step {index}: {hit:?}");
            }
            seen = seen.join(sources(step, Authority::Other, false));
        }
    }
}

/// `security.md` §11, tests 46 and 47: once both were seen, every way out asks, however the data travelled.
#[test]
fn test_47_every_way_out_is_asked_about_once_untrusted_and_private_data_met() {
    let open = json!({"egress_class": "read_only", "sink": "open"});
    let ways = [
        definition(
            json!({"kind": "http", "method": "GET", "url": "https://{{ host }}/"}),
            json!({"egress_class": "read_only"}),
        ),
        definition(
            json!({"kind": "http", "method": "POST", "url": "https://a.test/"}),
            json!({"egress_class": "write"}),
        ),
        definition(json!({"kind": "mcp", "server": "s", "tool": "t"}), json!({"egress_class": "write"})),
        definition(json!({"kind": "builtin", "function": "web_search"}), open.clone()),
        definition(json!({"kind": "builtin", "function": "resolve_name"}), open),
        definition(json!({"kind": "builtin", "function": "write_file"}), json!({"egress_class": "write"})),
    ];
    for way in ways {
        let hits = judge(U.join(P), &SinkFacts::of(&way, false, Labels::NONE));
        assert!(hits.iter().any(|hit| hit.rule == Rule::L4 && hit.verdict == Verdict::Ask), "{:?}", way.runner);
    }
}

fn any_labels() -> impl Strategy<Value = Labels> {
    prop::sample::subsequence(Label::ALL.to_vec(), 0..=3).prop_map(Labels::from)
}

proptest! {
    #[test]
    fn joining_only_adds(left in any_labels(), right in any_labels(), third in any_labels()) {
        let joined = left.join(right);
        prop_assert!(left.is_within(joined) && right.is_within(joined));
        prop_assert_eq!(joined, right.join(left));
        prop_assert_eq!(joined.join(third), left.join(right.join(third)));
        prop_assert_eq!(joined.join(left), joined);
        prop_assert!(left.meet(right).is_within(left));
        let again: Labels = serde_json::from_value(serde_json::to_value(joined).unwrap()).unwrap();
        prop_assert_eq!(again, joined);
    }

    #[test]
    fn more_labels_never_loosen_the_verdict(
        less in any_labels(), more in any_labels(), accepted in any_labels(), fewer in any_labels(),
        class in prop::sample::select(EgressClass::ALL.to_vec()), sink in prop::sample::select(Sink::ALL.to_vec()),
        administers: bool,
    ) {
        let facts = SinkFacts { class, sink, administers, accepted };
        prop_assert!(verdict(&judge(less.join(more), &facts)) >= verdict(&judge(less, &facts)));
        let stricter = SinkFacts { accepted: accepted.meet(fewer), ..facts };
        prop_assert!(verdict(&judge(less, &stricter)) >= verdict(&judge(less, &facts)), "accepting less loosens nothing");
    }
}
