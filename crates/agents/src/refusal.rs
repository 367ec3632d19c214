//! What a provider says when it does not answer: a status, words of its own, or an event within the answer. All of it
//! becomes one of our kinds.

use jiff::fmt::rfc2822;
use serde_json::Value;
use toolgate_contracts::json;
use toolgate_egress::HeaderMap;

use crate::error::{ErrorKind, ModelError};
use crate::model::Asked;

const KEYS_MAX: usize = 10_000;
const DAY_S: u64 = 24 * 60 * 60;

/// Words by which providers name what is wrong, in lower case.
const WORDS: &[(&str, ErrorKind)] = &[
    ("api_key_invalid", ErrorKind::Unauthorized),
    ("authentication_error", ErrorKind::Unauthorized),
    ("invalid_api_key", ErrorKind::Unauthorized),
    ("permission_denied", ErrorKind::Unauthorized),
    ("permission_error", ErrorKind::Unauthorized),
    ("unauthenticated", ErrorKind::Unauthorized),
    ("content_filter", ErrorKind::Refused),
    ("content_policy_violation", ErrorKind::Refused),
    ("context_length_exceeded", ErrorKind::Window),
    ("request_too_large", ErrorKind::Window),
    ("insufficient_quota", ErrorKind::RateLimited),
    ("rate_limit_error", ErrorKind::RateLimited),
    ("rate_limit_exceeded", ErrorKind::RateLimited),
    ("resource_exhausted", ErrorKind::RateLimited),
    ("overloaded_error", ErrorKind::Overloaded),
    ("server_is_overloaded", ErrorKind::Overloaded),
    ("slow_down", ErrorKind::Overloaded),
    ("unavailable", ErrorKind::Overloaded),
    ("invalid_argument", ErrorKind::Rejected),
    ("invalid_request_error", ErrorKind::Rejected),
    ("not_found", ErrorKind::Rejected),
    ("not_found_error", ErrorKind::Rejected),
];
/// By which some say only in prose that the request is longer than the model reads.
const WINDOW_PROSE: [&str; 4] =
    ["maximum context length", "prompt is too long", "exceeds the maximum number of tokens", "context window"];
/// What no waiting brings back.
const SPENT: &str = "insufficient_quota";

/// Of an answer whose status refuses.
pub(crate) fn answered(status: u16, headers: &HeaderMap, body: &[u8], host: &str, asked: &Asked) -> ModelError {
    let document = json::read_message(body, body.len(), KEYS_MAX).ok();
    let said = document.as_ref().map(Said::read).unwrap_or_default();
    let by_status = match status {
        // Not everybody says 429.
        403 if headers.contains_key("retry-after") => ErrorKind::RateLimited,
        status => of_status(status),
    };
    // A status says more than a general word, and less than a special one.
    let kind = match said.kind() {
        Some(ErrorKind::Rejected) | None => by_status,
        Some(special) => special,
    };
    let waits = retry_after(headers).or(said.retry_after_s);
    let mut error = said.error(kind, &format!("`{host}` answers {status}"), asked);
    error = error.with("status", status).with("host", host).retry_after(waits);
    if said.message.is_none() && !body.is_empty() {
        error = error.with("body", String::from_utf8_lossy(body).into_owned());
    }
    let told_off = headers.get("x-should-retry").is_some_and(|told| told.as_bytes() == b"false");
    if told_off || status == 402 { error.lasting() } else { error }
}

/// Of a document within an answer that had begun: an event, or a whole one with an error in it.
pub(crate) fn told(document: &Value, asked: &Asked) -> ModelError {
    let said = Said::read(document);
    let kind = said.kind().or(said.status.map(of_status)).unwrap_or(ErrorKind::Failed);
    said.error(kind, "the provider broke its answer off", asked).retry_after(said.retry_after_s)
}

const fn of_status(status: u16) -> ErrorKind {
    match status {
        401 | 403 => ErrorKind::Unauthorized,
        402 | 429 => ErrorKind::RateLimited,
        413 => ErrorKind::Window,
        503 | 529 => ErrorKind::Overloaded,
        500.. => ErrorKind::Failed,
        _ => ErrorKind::Rejected,
    }
}

#[derive(Default)]
struct Said {
    words: Vec<String>,
    /// Some give their words as a number.
    status: Option<u16>,
    message: Option<String>,
    retry_after_s: Option<u64>,
}

impl Said {
    /// Of `{"error": {…}}`, `{"error": "…"}`, `{"message": "…", …}`, and a list of the first.
    fn read(document: &Value) -> Self {
        let document = document.as_array().and_then(|list| list.first()).unwrap_or(document);
        let inner = document.get("error").filter(|inner| !inner.is_null()).unwrap_or(document);
        if let Some(text) = inner.as_str() {
            return Self { message: Some(text.to_owned()), ..Self::default() };
        }
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let mut words: Vec<String> =
            ["code", "type", "status"].iter().filter_map(|name| text(inner.get(name))).collect();
        let mut retry_after_s = None;
        for detail in inner.get("details").and_then(Value::as_array).into_iter().flatten() {
            words.extend(text(detail.get("reason")));
            // `34s`, `0.5s`
            let delay = detail.get("retryDelay").and_then(Value::as_str).and_then(|delay| delay.strip_suffix('s'));
            let whole = delay.and_then(|delay| delay.split('.').next()).and_then(|whole| whole.parse::<u64>().ok());
            retry_after_s = retry_after_s.or(whole.map(|whole| (whole + 1).min(DAY_S)));
        }
        let status = inner.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        Self { words, status, message: text(inner.get("message")), retry_after_s }
    }

    fn kind(&self) -> Option<ErrorKind> {
        let named = |word: &String| {
            let word = word.to_ascii_lowercase();
            WORDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
        };
        let prose = self.message.as_deref().unwrap_or_default().to_ascii_lowercase();
        if WINDOW_PROSE.iter().any(|words| prose.contains(words)) {
            return Some(ErrorKind::Window);
        }
        let kinds: Vec<ErrorKind> = self.words.iter().filter_map(named).collect();
        kinds.iter().copied().find(|kind| *kind != ErrorKind::Rejected).or(kinds.first().copied())
    }

    fn error(&self, kind: ErrorKind, what: &str, asked: &Asked) -> ModelError {
        let advice = match kind {
            ErrorKind::RateLimited => "it is asked too often, or what was paid for is used up; wait and try again",
            ErrorKind::Overloaded => "it has too much to do; try again later",
            ErrorKind::Unauthorized => "it does not take the key; look at the provider's secret",
            ErrorKind::Refused => "it refuses to answer this; ask for something else",
            ErrorKind::Window => "the request has more than the model reads; use fewer tools or shorter messages",
            ErrorKind::Rejected => "it does not accept the request; look at the model's name and parameters",
            _ => "it has a problem of its own; try again later",
        };
        let mut error = ModelError::new(kind, format!("{what}: {advice}"));
        if let Some(prose) = &self.message {
            error = error.with("said", prose.as_str());
        }
        if let Some(tool) = self.message.as_deref().and_then(|prose| tool_meant(prose, asked)) {
            error = error.with("tool", tool);
        }
        let is_spent = self.words.iter().any(|word| word == SPENT);
        if is_spent { error.lasting() } else { error }
    }
}

/// Providers count tools where they do not like the schema of one (`tools.3.custom.input_schema`, `tools[3]`,
/// `function_declarations[3]`); people know them by name.
fn tool_meant<'a>(prose: &str, asked: &'a Asked) -> Option<&'a str> {
    let (_, behind) = ["tools.", "tools[", "function_declarations["].iter().find_map(|mark| prose.split_once(mark))?;
    let digits = behind.split(|letter: char| !letter.is_ascii_digit()).next()?;
    let index: usize = digits.parse().ok()?;
    asked.tool(index)
}

/// Milliseconds, seconds or a date, at most a day.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|millis| millis.split('.').next()?.parse::<u64>().ok()) {
        return Some(millis.div_ceil(1000).min(DAY_S));
    }
    let wait = text("retry-after")?;
    if let Ok(seconds) = wait.parse::<u64>() {
        return Some(seconds.min(DAY_S));
    }
    let at = rfc2822::parse(wait).ok()?.timestamp().as_second();
    let from = rfc2822::parse(text("date")?).ok()?.timestamp().as_second();
    Some(u64::try_from(at.saturating_sub(from)).unwrap_or(0).min(DAY_S))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_egress::header;

    use super::*;
    use crate::model::{Request, ToolSchema};

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| header(name, value).unwrap()).collect()
    }

    #[test]
    fn a_status_and_the_provider_s_words_become_one_of_our_kinds() {
        #[track_caller]
        fn check(status: u16, body: Value, expected: ErrorKind) {
            let error = answered(status, &HeaderMap::new(), body.to_string().as_bytes(), "h", &Asked::default());
            assert_eq!(error.kind(), expected, "{status} {body}");
        }
        check(401, json!({}), ErrorKind::Unauthorized);
        check(
            400,
            json!({"error": {"status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}),
            ErrorKind::Unauthorized,
        );
        check(429, json!({"error": {"type": "insufficient_quota"}}), ErrorKind::RateLimited);
        check(402, json!({"error": {"message": "credits"}}), ErrorKind::RateLimited);
        check(
            529,
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            ErrorKind::Overloaded,
        );
        check(503, json!("busy"), ErrorKind::Overloaded);
        check(500, json!({"error": {"type": "server_error"}}), ErrorKind::Failed);
        check(
            400,
            json!({"error": {"type": "invalid_request_error", "code": "context_length_exceeded"}}),
            ErrorKind::Window,
        );
        check(
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}),
            ErrorKind::Window,
        );
        check(400, json!({"error": {"code": "content_filter"}}), ErrorKind::Refused);
        check(404, json!({"error": "model 'x' not found"}), ErrorKind::Rejected);
        check(302, json!({}), ErrorKind::Rejected);
        check(500, json!([{"error": {"code": 500, "status": "INTERNAL"}}]), ErrorKind::Failed);
    }

    #[test]
    fn how_long_to_wait_is_read_wherever_providers_write_it() {
        #[track_caller]
        fn check(list: &[(&str, &str)], body: Value, expected: Option<u64>) {
            let error = answered(429, &headers(list), body.to_string().as_bytes(), "h", &Asked::default());
            assert_eq!(error.retry_after_s(), expected, "{list:?} {body}");
        }
        check(&[("retry-after", "7")], json!({}), Some(7));
        check(&[("retry-after-ms", "1500"), ("retry-after", "9")], json!({}), Some(2));
        check(&[("retry-after", "99999999")], json!({}), Some(DAY_S));
        check(
            &[("retry-after", "Mon, 16 Nov 2026 10:00:30 GMT"), ("date", "Mon, 16 Nov 2026 10:00:00 GMT")],
            json!({}),
            Some(30),
        );
        check(&[], json!({"error": {"details": [{"retryDelay": "34.07s"}]}}), Some(35));
        check(&[("retry-after", "soon")], json!({}), None);
    }

    #[test]
    fn what_never_passes_is_not_tried_again() {
        let told = |list: &[(&str, &str)], body: Value| {
            answered(429, &headers(list), body.to_string().as_bytes(), "h", &Asked::default()).may_pass()
        };
        assert!(told(&[], json!({})));
        assert!(!told(&[("x-should-retry", "false")], json!({})));
        assert!(!told(&[], json!({"error": {"code": "insufficient_quota"}})));
    }

    #[test]
    fn a_tool_whose_schema_is_not_liked_is_named() {
        #[track_caller]
        fn check(prose: &str, expected: Option<&str>) {
            let tool = |name: &str| ToolSchema { name: name.into(), description: String::new(), input: json!({}) };
            let request = Request { tools: vec![tool("b"), tool("a")], ..Request::default() };
            let body = json!({"error": {"message": prose}}).to_string();
            let error = answered(400, &HeaderMap::new(), body.as_bytes(), "h", &request.asked());
            let named = error.error().details.as_ref().and_then(|details| details.get("tool")).and_then(Value::as_str);
            assert_eq!(named, expected, "{prose}");
        }
        check("tools.1.custom.input_schema: wrong", Some("b"));
        check("GenerateContentRequest.tools[0].function_declarations[0]: wrong", Some("a"));
        check("tools.7.custom: wrong", None);
        check("tools.x: wrong", None);
    }
}
