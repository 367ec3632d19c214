use serde_json::{Value, json};
use toolgate_expression::{ExpressionError, Text};

#[track_caller]
fn gives(template: &str, expected: &Value) {
    let values = json!({"name": "Ada", "n": 3, "tags": ["a", "b"], "on": true, "at": {"city": "Bern"}, "no": null});
    let value = Text::parse(template).and_then(|text| text.value(&values));
    assert_eq!(value, Ok(Some(expected.clone())), "{template}");
}

#[test]
fn a_template_fills_in_values() {
    gives("Dear {{ name }},\n", &json!("Dear Ada,\n"));
    gives("{% for tag in tags %}<{{ tag }}>{% endfor %}", &json!("<a><b>"));
    gives("{% if on %}yes{% else %}no{% endif %}", &json!("yes"));
    gives("{{ tags | join(', ') }} {{ name | upper }}", &json!("a, b ADA"));
    gives("{% if missing is defined %}a{% else %}b{% endif %}{% if name is defined %}c{% endif %}", &json!("bc"));
    gives("{{ missing is undefined }}{{ no is none }}{{ n is not none }}", &json!("TrueTrueTrue"));
    gives("{{ '| odd is odd' }} this is even", &json!("| odd is odd this is even"));
    gives("{{ at['is even'] | default('y') }}", &json!("y"));
    gives("{{ at | tojson }} <b>", &json!("{\"city\":\"Bern\"} <b>"));
}

#[test]
fn a_lone_place_keeps_the_type() {
    gives("{{ n }}", &json!(3));
    gives("{{ tags }}", &json!(["a", "b"]));
    gives("{{ at }}", &json!({"city": "Bern"}));
    gives("{{ no }}", &Value::Null);
    assert_eq!(Text::parse("{{ missing }}").unwrap().value(&json!({})), Ok(None));
    gives("{{- n }}", &json!("3"));
    gives("{{ n -}}", &json!("3"));
    gives("{{ n }} ", &json!("3 "));
    gives("{{ n }}{{ n }}", &json!("33"));
}

#[test]
fn what_is_wrong_is_said() {
    #[track_caller]
    fn check(template: &str, expected: &str) {
        let error = Text::parse(template).and_then(|text| text.value(&json!({"n": 1}))).unwrap_err();
        assert!(error.to_string().contains(expected), "{template}: {error}");
    }
    check("{{ n", "line 1");
    check("a\n{{ missing }}b", "undefined");
    check("{% set x = 1 %}", "`set` is no statement");
    check("{% include 'x' %}", "`include` is no statement");
    for template in [
        "{{ n | replace('a', 'b') }}",
        "{{ n|replace }}",
        "{% if false %}{{ n | default(1) | replace }}{% endif %}",
        "{% for a in n | replace %}{% endfor %}",
    ] {
        assert!(Text::parse(template).unwrap_err().to_string().contains("no filter `replace`"), "{template}");
    }
    for template in ["{% if n is even %}{% endif %}", "{{ 1 if n is not even }}", "{{ n is  even }}"] {
        assert!(Text::parse(template).unwrap_err().to_string().contains("no test `even`"), "{template}");
    }
    check(&"{% for a in [1] %}".repeat(4), "loops");
}

#[test]
fn a_rendering_ends_whatever_it_is_given() {
    let values = json!({"list": vec![1; 3_000], "text": "x".repeat(100_000)});
    for endless in [
        "{% for a in list %}{{ text }}{% endfor %}",
        "{% for a in list %}{% for b in list %}{% for c in list %}{% endfor %}{% endfor %}{% endfor %}",
        "{{ text ~ text ~ text ~ text ~ text ~ text ~ text ~ text ~ text ~ text ~ text ~ text }}{{ text }}",
    ] {
        let rendered = Text::parse(endless).unwrap().render(&values);
        assert!(matches!(rendered, Err(ExpressionError::Exhausted(_))), "{endless}: {rendered:?}");
    }
}

#[test]
fn a_template_that_would_fill_the_memory_is_not_even_read() {
    for (template, expected) in [
        ("{{ 'a' * 100000000 }}".to_owned(), "multiply"),
        ("{{ '}}' ~ 'a' * 100000000 }}".to_owned(), "multiply"),
        ("{{ \"\\\"}}\" * 100000000 }}".to_owned(), "multiply"),
        ("{% if [1]\n * 100000000 %}{% endif %}".to_owned(), "multiply"),
        (format!("{{{{ text{} }}}}", " ~ text".repeat(17)), "more than 16"),
        ("{% for a in [text ~ text] %}{% endfor %}".to_owned(), "joins nothing"),
        ("{# {% endfor %} #}".to_owned(), "comments"),
    ] {
        let error = Text::parse(&template).unwrap_err().to_string();
        assert!(error.contains(expected), "{template}: {error}");
    }
    // What stands in text and in strings is no sign.
    assert!(Text::parse("**bold** 1 + 1 ~ {{ '*~+' }}").is_ok());
}
