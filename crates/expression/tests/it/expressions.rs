use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_expression::{Expression, ExpressionError};

#[track_caller]
fn gives(expression: &str, input: &Value, expected: &Value) {
    let value = Expression::parse(expression).unwrap().evaluate(&[("input", input)]);
    assert_eq!(value.as_ref(), Ok(expected), "{expression}");
}

#[track_caller]
fn refuses(expression: &str, input: &Value, expected: &str) {
    let error = match Expression::parse(expression) {
        Ok(expression) => expression.evaluate(&[("input", input)]).unwrap_err(),
        Err(error) => error,
    };
    let start: String = expression.chars().take(60).collect();
    assert!(error.to_string().contains(expected), "{start}: {error}");
}

#[test]
fn an_expression_chooses_and_maps_json() {
    let input =
        json!({"name": "Ada", "n": 3, "rows": [{"id": 1, "ok": true}, {"id": 2, "ok": false}], "big": u64::MAX});
    gives("input.n + 1", &input, &json!(4));
    gives("input.name + '!'", &input, &json!("Ada!"));
    gives("input.rows.filter(row, row.ok).map(row, row.id)", &input, &json!([1]));
    gives("{'b': input.n, 'a': [input.name]}", &input, &json!({"a": ["Ada"], "b": 3}));
    gives("input.rows.all(row, row.id > 0) && input.rows.exists(row, !row.ok)", &input, &json!(true));
    gives("has(input.missing) ? input.missing : null", &input, &Value::Null);
    gives("input.big", &input, &json!(u64::MAX));
    gives("double(input.n) / 2.0", &input, &json!(1.5));
    gives("input.name.matches('^A') ? size(input.rows) : 0", &input, &json!(2));
    gives("string(input.n)", &input, &json!("3"));
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    let input = json!({"n": 3, "text": "x"});
    refuses("input.n +", &input, "line 1, column");
    refuses("input.m", &input, "No such key: m");
    refuses("other", &input, "other");
    refuses("input.n + input.text", &input, "Unsupported binary operator");
    refuses("input.n / 0", &input, "zero");
    refuses("0.0 / 0.0", &input, "JSON has not");
    refuses("{1: 'a', '1': 'b'}", &input, "twice");
    refuses("@meter(1)", &input, "line 1");
    refuses(&format!("'{}'", "x".repeat(5_000)), &input, "bytes");
}

#[test]
fn what_is_nested_deep_is_refused_and_not_fallen_into() {
    let input = json!({"n": 3});
    refuses(&"(".repeat(4_000), &input, "deep");
    refuses(&format!("{}1{}", "(".repeat(2_000), ")".repeat(2_000)), &input, "deep");
    refuses(&format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000)), &input, "deep");
    refuses(&format!("1{}", "+1".repeat(1_900)), &input, "deep");
    refuses(&format!("{}1", "true?1:".repeat(550)), &input, "deep");
    refuses(&format!("input{}", ".a".repeat(1_900)), &input, "deep");
}

#[test]
fn an_evaluation_ends_whatever_it_is_given() {
    let input = json!({"list": (0..3_000).collect::<Vec<i32>>(), "text": "x".repeat(100_000)});
    for endless in [
        "input.list.map(a, input.list.map(b, input.list.map(c, a * b * c)))",
        "input.list.all(a, input.list.all(b, input.list.all(c, a + b + c >= 0)))",
        "input.list.exists(a, input.list.exists(b, input.list.exists(c, a + b + c < 0)))",
        "input.list.map(a, input)",
        "input.list.map(a, input.text + input.text)",
        "input.list.map(a, {'copy': input.text})",
        "input.list.map(a, string(a) + input.text).size()",
        "input.list.all(a, !(-1 in input.list))",
        "input.list.all(a, input.text != 'y')",
        "input.list.all(a, !input.text.contains('y'))",
        "input.list.all(a, 'ab'.matches('a.'))",
        "input.list.exists_one(a, input.list.exists(b, input.text + input.text == 'y'))",
    ] {
        let value = Expression::parse(endless).unwrap().evaluate(&[("input", &input)]);
        assert!(matches!(value, Err(ExpressionError::Exhausted(_))), "{endless}: {value:?}");
    }
}

#[test]
fn what_it_asks_for_by_name_is_known_before() {
    let check = |text: &str, paths: &[&str], functions: &[&str]| {
        let expression = Expression::parse(text).unwrap();
        let found: Vec<String> = expression.paths().map(|path| path.join(".")).collect();
        assert_eq!(found, paths, "{text}");
        assert_eq!(expression.unknown_functions().collect::<Vec<_>>(), functions, "{text}");
    };
    check("input.a.b + steps['x'].y", &["input.a.b", "steps.x.y"], &[]);
    check("{'a': input.a, nope: [other]}", &["input.a", "nope", "other"], &[]);
    check("input.rates[input.quote]", &["input.quote", "input.rates"], &[]);
    check("has(input.a) ? input.a : 1", &["input", "input.a"], &[]);
    check("input.list.map(x, x.y + z).filter(x, x in input.more)", &["input.list", "input.more", "z"], &[]);
    check("input.list.all(x, input.other.exists(y, x == y)) && x", &["input.list", "input.other", "x"], &[]);
    check("type(input.a) == int || type(1) == string", &["input.a"], &[]);
    check("size(input.a) + int('1') + double(input.b)", &["input.a", "input.b"], &[]);
    check("input.a.startsWith('x') && input.a.matches('y') && 'z'.contains(input.a)", &["input.a"], &[]);
    check("round(input.a) + input.b.trim()", &["input.a", "input.b"], &["round", "trim"]);
    check("-1 + 2 * 3 == 5 ? [1][0] : {'a': 1}.a", &[], &[]);
}

#[test]
fn a_condition_is_a_boolean_and_nothing_else() {
    let input = json!({"n": 1});
    assert_eq!(Expression::parse("input.n == 1").unwrap().holds(&[("input", &input)]), Ok(true));
    let error = Expression::parse("input.n").unwrap().holds(&[("input", &input)]).unwrap_err();
    assert_eq!(error.to_string(), "a condition gives `true` or `false`, this one gave `1`");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(|number| json!(number)),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".{0,8}", inner, 0..6).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn a_value_comes_out_as_it_went_in(value in any_json()) {
        let same = Expression::parse("input").unwrap().evaluate(&[("input", &value)]);
        prop_assert_eq!(same, Ok(value));
    }

    #[test]
    fn no_text_brings_the_reader_down(text in ".{0,60}") {
        if let Ok(expression) = Expression::parse(&text) {
            let _ = expression.evaluate(&[("input", &json!({"a": [1, 2]}))]);
        }
    }

    #[test]
    fn no_line_of_the_languages_own_words_brings_it_down(
        words in prop::collection::vec(
            prop::sample::select(&["input", ".", "a", "[", "]", "(", ")", "+", "-", "1", "'x'", "?", ":", ",", "map", "filter", "all", "has", "{", "}", "&&", "!", " in ", "size", "string", "b'", "r'", "\\u", "null", "1u", "1e9"][..]),
            0..24,
        ),
    ) {
        if let Ok(expression) = Expression::parse(&words.concat()) {
            let _ = expression.evaluate(&[("input", &json!({"a": [1, 2]}))]);
        }
    }
}
