//! Security test 32: an argument fills its place in a URL or a header, and nothing else.

use proptest::prelude::*;
use toolgate_egress::{Rule, Template, TemplateError, Url, header};

#[track_caller]
fn render(template: &str, values: &[(&str, &str)]) -> Result<Url, Rule> {
    let template = Template::parse(template).unwrap();
    let value = |name: &str| values.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned());
    template.render(value).map_err(|error| error.rule())
}

#[test]
fn values_are_encoded_where_they_stand() {
    #[track_caller]
    fn check(template: &str, values: &[(&str, &str)], expected: Option<&str>) {
        assert_eq!(render(template, values).ok().as_ref().map(Url::as_str), expected);
    }
    let api = "https://api.test/{a}/x?q={b}";
    check(api, &[("a", "de"), ("b", "1")], Some("https://api.test/de/x?q=1"));
    check("https://api.test/{{ a }}?q={{b}}", &[("a", "de"), ("b", "1")], Some("https://api.test/de?q=1"));
    check(api, &[("a", "a/b"), ("b", "c&admin=1")], Some("https://api.test/a%2Fb/x?q=c%26admin%3D1"));
    check(api, &[("a", "ü ?#"), ("b", "+%41")], Some("https://api.test/%C3%BC%20%3F%23/x?q=%2B%2541"));
    check(api, &[("a", "@evil.test"), ("b", "#")], Some("https://api.test/%40evil.test/x?q=%23"));
    check(api, &[("a", "\\\\evil.test"), ("b", "")], Some("https://api.test/%5C%5Cevil.test/x?q="));
    check("https://api.test/v{n}.json", &[("n", "..")], Some("https://api.test/v...json"));
    for value in ["", ".", "..", "a\r\nHost: evil.test", "a\nb", "\0"] {
        check(api, &[("a", value), ("b", "1")], None);
    }
    check("https://api.test/.{a}", &[("a", ".")], None);
    check("https://api.test/%2{a}", &[("a", "e")], None);
    check(api, &[("a", "de")], None);
    check("https://api.test/{a}", &[("a", &"x".repeat(20_000))], None);
}

#[test]
fn a_value_has_no_place_in_scheme_host_or_port() {
    for wrong in [
        "{a}",
        "{a}://api.test/",
        "https://{a}/",
        "https://{{ a }}.api.test/",
        "https://api.test:{a}/",
        "https://api.test{a}",
        "https://u:{a}@api.test/",
    ] {
        let error = Template::parse(wrong).unwrap_err();
        assert!(matches!(error, TemplateError::Authority), "{wrong}: {error}");
    }
    for wrong in
        ["https://u:p@api.test/{a}", "ftp://api.test/{a}", "file:///{a}", "https://api.test:0/{a}", "https:///"]
    {
        let error = Template::parse(wrong).unwrap_err();
        assert!(matches!(error, TemplateError::Url), "{wrong}: {error}");
    }
    for wrong in [
        "https://api.test/../{a}",
        "https://api.test/#{a}",
        "https://api.test/a\\{a}",
        "https://api.test/\n{a}",
        " https://a.test/",
        "https://api.test/%2e%2E/{a}",
    ] {
        let error = Template::parse(wrong).unwrap_err();
        assert!(matches!(error, TemplateError::Character), "{wrong}: {error}");
    }
    for wrong in [
        "https://api.test/{a",
        "https://api.test/{{ a }",
        "https://api.test/a}",
        "https://api.test/{}",
        "https://api.test/{a b}",
    ] {
        assert!(Template::parse(wrong).is_err(), "{wrong}");
    }
    let template = Template::parse("https://api.test/{a}/{{ b.c }}?q={a}").unwrap();
    assert_eq!(template.values().collect::<Vec<_>>(), ["a", "b.c", "a"]);
}

#[test]
fn a_header_is_one_line_with_a_name_of_its_own() {
    for (name, value, expected) in [
        ("X-Api-Version", "2", true),
        ("accept", "text/html;q=0.9, */*", true),
        ("x-a", "a\r\nhost: evil.test", false),
        ("x-a", "a\nb", false),
        ("x-a", "a\0", false),
        ("x-a\r\nhost", "evil.test", false),
        ("x-a: b", "c", false),
        ("", "c", false),
        ("Host", "evil.test", false),
        ("COOKIE", "a=b", false),
        ("Proxy-Authorization", "x", false),
    ] {
        assert_eq!(header(name, value).is_ok(), expected, "{name:?}: {value:?}");
    }
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("/".to_owned()),
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just("%2e".to_owned()),
        Just("@".to_owned()),
        Just("//evil.test".to_owned()),
        Just("\\".to_owned()),
        Just("?".to_owned()),
        Just("&x=1".to_owned()),
        Just("#".to_owned()),
        Just(":8080".to_owned()),
        Just("\t".to_owned()),
        Just("\r\n".to_owned()),
        any::<String>(),
        Just(String::new()),
    ];
    proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn whatever_the_values_the_request_goes_where_the_template_says(a in hostile(), b in hostile(), c in hostile()) {
        let values = [("a", a.as_str()), ("b", b.as_str()), ("c", c.as_str())];
        let Ok(url) = render("https://api.test:8443/v1/{a}/items/x{b}?kind=all&q={c}", &values) else { return Ok(()) };
        prop_assert_eq!((url.scheme(), url.host_str(), url.port()), ("https", Some("api.test"), Some(8443)));
        prop_assert_eq!((url.username(), url.password(), url.fragment()), ("", None, None));
        let segments: Vec<String> = url.path_segments().unwrap().map(decoded).collect();
        prop_assert_eq!(segments, ["v1", &a, "items", &format!("x{b}")]);
        let pairs: Vec<(String, String)> =
            url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        prop_assert_eq!(pairs, [("kind".to_owned(), "all".to_owned()), ("q".to_owned(), c)]);
    }
}

fn decoded(segment: &str) -> String {
    percent_encoding::percent_decode_str(segment).decode_utf8().unwrap().into_owned()
}
