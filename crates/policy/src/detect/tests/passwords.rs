//! Passwords and keys that are written out: which forms are found, and what only speaks of one.

use serde_json::json;

use super::{check, detector};

#[test]
fn a_password_that_is_written_out_is_found_and_what_speaks_of_one_is_not() {
    let password = json!({"kinds": ["password"]});
    check(
        "secrets",
        password.clone(),
        &[
            "password=hunter2",
            "the password: hunter2.",
            "pwd: Sommer2026!",
            "PWD=geheim99",
            "passwd => 'trustno1'",
            "api_key = \"abc12345\"",
            "apiKey: 'k3yk3yk3y'",
            "X-Api-Key: 9f8a7d6c",
            "DB_PASSWORD=letme1n",
            "{\"password\": \"hunter2\"}",
            "\"{\\\"password\\\": \\\"hunter2\\\"}\"",
            "postgres?user=ada&password=hunter2&ssl=1",
            "passphrase: \"correct$horse\"",
        ],
        &[
            "\"password\": {\"type\": \"string\"}",
            "{\"password\": \"string\"}",
            "{\"password\": {\"type\": \"string\", \"minLength\": 8, \"format\": \"password\"}}",
            "password: string",
            "password: Option<String>",
            "password: varchar(255)",
            "password: required",
            "password: at least 8 characters",
            "password: must-have-1-digit",
            "password=",
            "password=********",
            "password=${DB_PASSWORD_2}",
            "password: $PASSWORD1",
            "password=%DB_PASS1%",
            "password=<your-password1>",
            "password: your_password_1",
            "password = os.environ[\"DB_PASSWORD_1\"]",
            "password = config.password2",
            "password: DB_PASSWORD_2",
            "password: [secret:DB_PASSWORD1]",
            "password: vault:db/prod1",
            "password: /run/secrets/password1",
            "pwd: /srv/ada/work1",
            "PWD=/tmp/tmp.aB3dE5gH7jK9",
            "password_hash: argon2id",
            "password: sha256",
            "api_key: see example1 below",
            "api_key=API_KEY_1",
            "api_key: api_key2",
            "password_reset_url=https://a.example/reset1",
            "password: 550e8400-e29b-41d4-a716-446655440000",
            "forgot your password? mail help1@example.com",
            "key: value12345",
            "order_id: abc12345",
        ],
    );
    let detector = detector("secrets", password);
    for (value, matched) in [
        (json!({"password": "hunter2"}), true),
        (json!({"login": {"pwd": "Sommer2026!"}}), true),
        (json!({"headers": {"X-Api-Key": "abc12345"}}), true),
        (json!({"properties": {"password": {"type": "string", "description": "at least 8 characters"}}}), false),
        (json!({"password": "a plain sentence with 8 words and more"}), false),
        (json!({"password": "[secret:DB_PASSWORD1]"}), false),
        (json!({"password_policy": "min8chars1"}), false),
        (json!({"name": "hunter2"}), false),
    ] {
        assert_eq!(detector.examine(&value).matched, matched, "{value}");
    }
}

proptest::proptest! {
    #[test]
    fn every_chosen_password_is_found_in_every_form(word in "[a-z]{4,10}", digits in "[0-9]{2,4}", form in 0..6_usize) {
        let value = format!("{word}{digits}");
        proptest::prop_assume!(!["your", "example", "changeme", "xxx", "dummy", "redacted", "placeholder"].iter().any(|stands| value.contains(stands)));
        let manner = ["sha", "base", "argon", "oauth", "uint", "string", "bcrypt", "password", "passwd", "secret", "token", "passphrase", "apikey"];
        proptest::prop_assume!(!manner.iter().any(|manner| word.starts_with(manner)));
        let text = match form {
            0 => format!("password={value}"),
            1 => format!("pwd: {value}"),
            2 => format!("api_key = \"{value}\""),
            3 => format!("{{\"passwd\":\"{value}\"}}"),
            4 => format!("DB_PASSWORD => '{value}'"),
            _ => format!("?user=a&password={value}&b=c"),
        };
        let finding = detector("secrets", json!({"kinds": ["password"]})).examine(&json!(text));
        proptest::prop_assert!(finding.matched, "{text}");
    }

    #[test]
    fn no_words_types_or_schemas_are_taken_for_a_password(
        words in proptest::collection::vec("[a-zA-Z]{1,12}", 1..8),
        keyword in proptest::sample::select(vec!["type", "format", "title", "description", "default", "const"]),
    ) {
        let detector = detector("secrets", json!({"kinds": ["password"]}));
        let sentence = words.join(" ");
        let first = &words[0];
        for text in [
            format!("password: {sentence}"),
            format!("the pwd = {sentence}"),
            format!("\"password\": {{\"{keyword}\": \"{first}\"}}"),
            format!("api_key: {first}.{first}"),
        ] {
            proptest::prop_assert!(!detector.examine(&json!(text)).matched, "{text}");
        }
        let schema = json!({"properties": {"password": {keyword: sentence, "type": "string"}, "api_key": {"type": first}}});
        proptest::prop_assert!(!detector.examine(&schema).matched, "{schema}");
    }
}
