//! Bundles that are replayed: equal where nothing changed, refused where a byte did, and told apart by place and words
//! where something else did.

mod recorder;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_agents::replay::{Change, Read, Replayed, replay};

use self::recorder::{KEY, POLICY, Recorder, Saying as _, asking, call, say, sealed, signer};

fn equal(replayed: &Replayed) {
    assert!(replayed.equal, "{replayed:#?}");
    assert_eq!((&replayed.at, replayed.differences.len()), (&None, 0));
}

#[track_caller]
fn different(replayed: &Replayed, at: &str, told: &str) {
    assert!(!replayed.equal);
    assert_eq!((replayed.at.as_deref(), replayed.told.as_deref()), (Some(at), Some(told)), "{replayed:#?}");
}

/// Two questions to the model, a call between them.
fn lookup() -> Recorder {
    Recorder::default().turn(call("lookUp", &json!({"q": "lamps"}))).turn(say("Three lamps."))
}

#[test]
fn a_run_without_changes_is_what_it_was() {
    let replayed = replay(&lookup().bundle(), &Change::default());
    equal(&replayed);
    assert_eq!((replayed.turns, replayed.calls, replayed.decisions), (2, 1, 1));
    assert_eq!(replayed.unknown, []);
}

#[test]
fn what_went_wrong_in_a_run_is_replayed_too() {
    let unreadable = say("").calling("lookUp", "{\"q\": ");
    let runs = [
        ("a tool that does not exist", lookup().turn_first(call("noSuchTool", &json!({"a": 1})))),
        ("arguments that cannot be read", lookup().turn_first(unreadable)),
        ("an input that the schema refuses", lookup().turn_first(call("lookUp", &json!({"q": 7})))),
        ("more calls than it may make", lookup().limits(&json!({"max_tool_calls": 0}))),
        ("more questions than it may ask", lookup().limits(&json!({"max_iterations": 1}))),
        (
            "an edited call",
            lookup().turn_first(call("sendLetter", &json!({"to": "a"}))).edits(&json!({"to": "b", "copies": 1})),
        ),
        ("a pending call", lookup().turn_first(call("sendLetter", &json!({"to": "a"}))).goes_on()),
        ("ended before its second question", Recorder::default().turn(call("lookUp", &json!({"q": "lamps"})))),
        ("ended before it was asked anything", Recorder::default()),
        ("an answer that was cut off", Recorder::default().turn(say("Three la").cut())),
        ("a refusal", Recorder::default().turn(say("No.").refusing())),
    ];
    for (name, run) in runs {
        let replayed = replay(&run.bundle(), &Change::default());
        assert!(replayed.equal, "{name}: {replayed:#?}");
    }
}

#[test]
fn each_kind_of_difference_is_named_by_its_place() {
    let check = |change: &dyn Fn(&mut Value), at: &str, told: &str| {
        let mut value = serde_json::to_value(lookup().bundle()).unwrap();
        change(&mut value);
        different(&replay(&serde_json::from_value(value).unwrap(), &Change::default()), at, told);
    };
    check(
        &|bundle| bundle["run"]["agent"]["system"] = "Be rude.".into(),
        "/turns/0/request/system",
        "question 1 to the model is another one",
    );
    check(
        &|bundle| bundle["snapshot"]["tools"][0]["offered"]["description"] = "Finds nothing.".into(),
        "/turns/0/request/tools/0/description",
        "question 1 to the model is another one",
    );
    check(
        &|bundle| bundle["calls"][0]["envelope"]["output"] = json!({"hits": 4}),
        "/calls/0/result_for_model/text",
        "the model would be told something else of call 0 of `lookUp`",
    );
    check(
        &|bundle| bundle["turns"][1]["response"]["text"] = "Four lamps.".into(),
        "/outputs/response",
        "the run would give another `response`",
    );
    // As if the program that asked had put the question in other words than the one that made the bundle.
    check(
        &|bundle| bundle["turns"][1]["response"]["asked"] = bundle["turns"][0]["response"]["asked"].clone(),
        "/turns/1/response/asked",
        "question 2 went out in other words: the program that asked it puts questions together otherwise than the one that made the bundle",
    );
    check(
        &|bundle| bundle["outputs"]["tool_order"] = json!([]),
        "/outputs/tool_order/0",
        "the run would give another `tool_order`",
    );
    check(
        &|bundle| bundle["run"]["limits"]["max_iterations"] = 1.into(),
        "/turns/1",
        "the model was asked 2 times, and would be asked 1",
    );
    check(
        &|bundle| bundle["turns"][0]["response"]["calls"] = json!([]),
        "/turns/1",
        "the model was asked 2 times, and would be asked 1",
    );
    check(&|bundle| bundle["run"]["run_key"] = "AAAA".into(), "/run/run_key", "the key of the run is no key");
    check(
        &|bundle| bundle["run"]["run_key"] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".into(),
        "/calls/0/envelope/call_id",
        "call 0 of `lookUp` has an id that its run's key does not make",
    );
    check(
        &|bundle| bundle["calls"][0]["decision"]["asking"] = asking("policy", "ask-all"),
        "/calls/0/decision",
        "call 0 of `lookUp` was put to a person, and would be allowed",
    );
}

#[test]
fn other_policies_decide_again_and_what_is_not_known_is_said() {
    let under = |bundle: &toolgate_agents::replay::Bundle, source: &str| {
        let policies = Change::read_policies(source).unwrap();
        replay(bundle, &Change { policies: Some(policies), ..Change::default() })
    };
    let bundle = lookup().bundle();
    equal(&under(&bundle, POLICY));
    let forbids = format!(
        "{POLICY}\n@id(\"no-lamps\")\nforbid (principal, action == Action::\"call\", resource == Tool::\"lookUp\");"
    );
    let replayed = under(&bundle, &forbids);
    different(
        &replayed,
        "/calls/0/decision",
        "call 0 of `lookUp` was allowed, and would be denied by the policy `no-lamps`",
    );
    assert_eq!(replayed.replayed, Some(json!({"verdict": "deny", "policies": ["no-lamps"]})));
    let asks = format!("{POLICY}\n@id(\"look\")\nforbid (principal, action == Action::\"call_unattended\", resource);");
    let told = "call 0 of `lookUp` was allowed, and would be put to a person by the policy `look`";
    different(&under(&bundle, &asks), "/calls/0/decision", told);
    let no_permit = "@id(\"none\")\npermit (principal, action, resource == Tool::\"other\");";
    let told = "call 0 of `lookUp` was allowed, and would be denied: no policy permits it";
    different(&under(&bundle, no_permit), "/calls/0/decision", told);
    // A write asks a person whatever policies permit.
    let write = Recorder::default().turn(call("sendLetter", &json!({"to": "a"}))).turn(say("Sent.")).bundle();
    equal(&under(&write, POLICY));
    assert_eq!(under(&write, &forbids).decisions, 1);
    let mut gone = bundle.clone();
    gone.snapshot.tools.iter_mut().for_each(|tool| tool.facts = None);
    let replayed = under(&gone, &forbids);
    assert_eq!((replayed.unknown.len(), replayed.unknown[0].why.as_str()), (1, "the version is gone"));
    let mut elsewhere = bundle;
    elsewhere.calls[0].decision.as_mut().unwrap()["policy"] = 7.into();
    let replayed = replay(&elsewhere, &Change::default());
    assert_eq!(replayed.unknown[0].why, "the policies that decided are not in the bundle");
    assert!(replayed.equal, "what is not known is no difference");
    assert!(Change::read_policies("permit (").is_err());
}

#[test]
fn another_definition_judges_what_was_asked() {
    let under = |schema: Value| {
        let definition = json!({
            "name": "lookUp", "version": "2.0.0", "description": "Finds things.", "input_schema": schema,
            "runner": {"kind": "external"},
        });
        let tools = vec![serde_json::from_value(definition).unwrap()];
        replay(&lookup().bundle(), &Change { tools, ..Change::default() })
    };
    let object = |properties: Value| json!({"type": "object", "additionalProperties": false, "properties": properties});
    equal(&under(object(json!({"q": {"type": "string"}}))));
    let replayed = under(object(json!({"q": {"type": "integer"}})));
    assert_eq!(replayed.at.as_deref(), Some("/calls/0/envelope/error"));
    assert!(
        replayed.told.unwrap().starts_with(
            "call 0 of `lookUp` was taken by version 1.0.0, and its input is not valid by version 2.0.0: "
        )
    );
    let replayed = under(object(json!({"q": {"type": "string"}, "most": {"type": "integer", "default": 5}})));
    different(
        &replayed,
        "/calls/0/envelope/input/most",
        "call 0 of `lookUp` would run with another input by version 2.0.0",
    );
}

#[test]
fn another_model_is_answered_with_what_was_recorded() {
    let under = |turns: Value| {
        let script = Change::read_script(json!({"version": 1, "turns": turns})).unwrap();
        replay(&lookup().bundle(), &Change { script: Some(script), ..Change::default() })
    };
    let asks = |q: &str| json!({"call": [{"tool": "lookUp", "input": {"q": q}}]});
    equal(&under(json!([asks("lamps"), {"say": "Three lamps."}])));
    let replayed = under(json!([asks("lamps"), {"say": "Four lamps."}]));
    different(&replayed, "/outputs/response", "the run would give another `response`");
    let replayed = under(json!([asks("chairs"), {"say": "Three lamps."}]));
    different(&replayed, "/calls", "the model would make call 0 of `lookUp`, and no such call was recorded");
    assert_eq!(replayed.replayed, Some(json!({"seq": 0, "tool": "lookUp", "input": {"q": "chairs"}})));
    let replayed = under(json!([asks("lamps"), asks("lamps"), {"say": "Three lamps."}]));
    different(&replayed, "/calls", "the model would make call 1 of `lookUp`, and no such call was recorded");
    let replayed = under(json!([asks("lamps")]));
    assert_eq!(replayed.at.as_deref(), Some("/turns/1/response"));
    assert!(replayed.told.unwrap().starts_with("question 2 has no answer: the script of `replay` has no turn left"));
    let busy = json!([asks("lamps"), {"fail": {"status": 503}}, {"say": "Three lamps."}]);
    equal(&under(busy));
}

#[test]
fn no_byte_of_a_bundle_can_be_changed() {
    let text = sealed(&lookup().bundle(), &signer(1));
    let own = Read::from_text(text.as_bytes()).unwrap();
    assert_eq!(own.signed_by(&[]).unwrap(), *signer(1).verifier());
    for at in (0..text.len()).step_by(3) {
        let mut changed = text.clone().into_bytes();
        changed[at] ^= 1;
        let read = Read::from_text(&changed).and_then(|read| read.signed_by(&[]).map(|_| read));
        if let Ok(read) = read {
            assert_eq!(read.bundle, own.bundle, "at {at}: {}", &text[at.saturating_sub(20)..(at + 20).min(text.len())]);
        }
    }
}

#[test]
fn a_bundle_is_refused_with_what_is_wrong() {
    let value: Value = serde_json::from_str(&sealed(&lookup().bundle(), &signer(1))).unwrap();
    let check = |change: &dyn Fn(&mut Value), wanted: &str| {
        let mut value = value.clone();
        change(&mut value);
        let read = Read::from_text(value.to_string().as_bytes()).and_then(|read| read.signed_by(&[]).map(|_| ()));
        let told = read.unwrap_err().told().to_owned();
        assert!(told.starts_with(wanted), "{told}");
    };
    check(&|bundle| *bundle = json!([]), "this is no replay bundle: it is no object");
    check(&|bundle| bundle["format"] = "toolgate/replay/9".into(), "`format` is `toolgate/replay/9`, and this program");
    check(&|bundle| *bundle = json!({"a": 1}), "this is no replay bundle: `format` is not");
    check(&|bundle| bundle["run"]["prompt"] = "Other.".into(), "the bundle was changed after it was made");
    check(&|bundle| drop(bundle.as_object_mut().unwrap().shift_remove("digest")), "the bundle has no `digest`");
    check(&|bundle| drop(bundle.as_object_mut().unwrap().shift_remove("signature")), "the bundle has no `signature`");
    check(&|bundle| bundle["signature"]["key"] = KEY.into(), "`signature.key` is no key");
    let others = signer(2).verifier().to_string();
    check(&|bundle| bundle["signature"]["key"] = others.clone().into(), "the signature does not hold");
    // Signed anew by somebody else it is whole, and not the server's.
    let forged = Read::from_text(sealed(&lookup().bundle(), &signer(2)).as_bytes()).unwrap();
    assert!(forged.signed_by(&[]).is_ok());
    assert!(forged.signed_by(&[signer(1).verifier().clone()]).is_err());
    assert!(Read::from_text(b"{").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_bundle_of_any_conversation_replays_equal(run in recorder::any()) {
        let bundle = run.bundle();
        let read = Read::from_text(sealed(&bundle, &signer(1)).as_bytes()).unwrap();
        prop_assert_eq!(&read.bundle, &bundle);
        let replayed = replay(&read.bundle, &Change::default());
        prop_assert!(replayed.equal, "{:#?}", replayed);
    }
}
