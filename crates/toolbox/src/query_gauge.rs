//! The value of a metric, by the Prometheus HTTP API of the server that the operator names.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::entries::ServiceEntry;
use toolgate_contracts::{ErrorCode, Slug, ToolError};
use toolgate_egress::{HeaderName, HeaderValue, Request, Url};
use toolgate_engine::{Call, Outcome};
use toolgate_runners::http::Failure;

use crate::builtin::{Tools, input, invalid};
use crate::outgoing;

const ENTRY: &str = "metrics";
const LABELS_MAX: usize = 32;
const SERIES_MAX: usize = 100;
const QUERY_CHARS_MAX: usize = 4_000;
/// By one tenant. Agents that look again and again would be a load of their own on what they look at.
pub(crate) const ASKED_PER_MINUTE_MAX: u32 = 60;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default)]
    metric_name: Option<String>,
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    window: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    time: Option<String>,
}

pub(crate) async fn run(tools: &Tools, call: &Call) -> Outcome {
    match ask(tools, call).await {
        Ok(output) => Outcome::structured(output),
        Err(failure) => failure.into(),
    }
}

async fn ask(tools: &Tools, call: &Call) -> Result<Value, Failure> {
    let (query, request, server) = asked(tools, call)?;
    let way = outgoing::way_to(tools, call, &server)?;
    tools.metrics.take(call.tenant, tools.clock.now())?;
    let answer = outgoing::ask(tools, call, &way, request).await.map_err(in_its_words)?;
    let answer = outgoing::json_of(answer)?;
    let host = server.host_str().unwrap_or_default();
    Ok(told(&query, &answer).ok_or_else(|| outgoing::unexpected(host, "answers with something that is no result"))?)
}

pub(crate) fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let (_, request, server) = asked(tools, call)?;
    Ok(outgoing::planned(tools, call, &outgoing::way_to(tools, call, &server)?, &request))
}

pub(crate) fn ready(tools: &Tools, tenant: Option<&Slug>) -> Result<(), ToolError> {
    outgoing::readable(tools, ENTRY, tenant)?;
    let entry = tools.entries.metrics.as_ref();
    match entry.filter(|entry| tenant.is_none_or(|tenant| entry.tenants.include(tenant))) {
        Some(entry) => outgoing::server(ENTRY, &entry.url).map(drop),
        None => Err(missing()),
    }
}

fn missing() -> ToolError {
    outgoing::not_configured(ENTRY, "there is none for this tenant; write `metrics: {url: \"http://prometheus:9090\"}`")
}

fn entry<'a>(tools: &'a Tools, call: &Call) -> Result<&'a ServiceEntry, ToolError> {
    outgoing::readable(tools, ENTRY, Some(&call.tenant_slug))?;
    let entry = tools.entries.metrics.as_ref();
    entry.filter(|entry| entry.tenants.include(&call.tenant_slug)).ok_or_else(missing)
}

fn asked(tools: &Tools, call: &Call) -> Result<(String, Request, Url), ToolError> {
    let input: Input = input(call)?;
    let query = query(&input)?;
    let server = outgoing::server(ENTRY, &entry(tools, call)?.url)?;
    let mut url = outgoing::below(&server, &["api", "v1", "query"]);
    url.query_pairs_mut().append_pair("query", &query);
    if let Some(time) = &input.time {
        let time: jiff::Timestamp =
            time.parse().map_err(|_| invalid("time", "it is no time; write `2026-11-15T10:00:00Z`"))?;
        url.query_pairs_mut().append_pair("time", &time.to_string());
    }
    let mut request = outgoing::prepared(Request::get(url), call);
    request.headers.insert(HeaderName::from_static("accept"), HeaderValue::from_static("application/json"));
    Ok((query, request, server))
}

/// The query in PromQL: a metric, its labels, and the mean over the window where there is one.
fn query(input: &Input) -> Result<String, ToolError> {
    let Input { metric_name, query, window, labels, time: _ } = input;
    let name = match (metric_name, query) {
        (Some(name), None) => name,
        (None, Some(query)) => {
            if window.is_some() || !labels.is_empty() {
                return Err(invalid(
                    "query",
                    "with `window` or `labels` it says two things; write them into the query",
                ));
            }
            let chars = query.chars().count();
            return if (1..=QUERY_CHARS_MAX).contains(&chars) {
                Ok(query.clone())
            } else {
                Err(invalid("query", format!("it has {chars} characters; expected 1 to {QUERY_CHARS_MAX}")))
            };
        }
        _ => return Err(invalid("metric_name", "give either `metric_name` or `query`")),
    };
    if !is_metric(name) {
        return Err(invalid("metric_name", "expected a name such as `http_requests_in_flight`"));
    }
    if labels.len() > LABELS_MAX {
        return Err(invalid("labels", format!("there are {}, the limit is {LABELS_MAX}", labels.len())));
    }
    let mut matchers = Vec::with_capacity(labels.len());
    for (label, value) in labels {
        if !is_label(label) {
            let shown: String = label.chars().take(40).flat_map(char::escape_debug).collect();
            return Err(invalid("labels", format!("`{shown}` is no name of a label; expected one such as `job`")));
        }
        matchers.push(format!("{label}={}", quoted(value)));
    }
    let selector = if matchers.is_empty() { name.clone() } else { format!("{name}{{{}}}", matchers.join(",")) };
    match window {
        None => Ok(selector),
        Some(window) if is_window(window) => Ok(format!("avg_over_time({selector}[{window}])")),
        Some(_) => Err(invalid("window", "expected a length of time such as `5m`, `1h` or `1h30m`")),
    }
}

/// A value cannot end its text and begin something else.
fn quoted(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for character in value.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn is_metric(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | ':'));
    begins && name.len() <= 200 && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'))
}

fn is_label(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.len() <= 200 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Numbers with units from the largest to the smallest, each at most once.
fn is_window(window: &str) -> bool {
    let mut rest = window;
    let mut units = ["y", "w", "d", "h", "m", "s", "ms"].iter();
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if !(1..=6).contains(&digits) {
            return false;
        }
        rest = &rest[digits..];
        let unit = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
        let (name, after) = rest.split_at(unit);
        if !units.any(|known| *known == name) {
            return false;
        }
        rest = after;
    }
    !window.is_empty()
}

/// `None` where it is not what the API documents.
fn told(query: &str, answer: &Value) -> Option<Value> {
    let data = answer.get("data").filter(|_| answer["status"] == "success")?;
    let result = data.get("result")?;
    let (series, total) = match data.get("resultType")?.as_str()? {
        "vector" => {
            let vector = result.as_array()?;
            let series = vector.iter().take(SERIES_MAX).map(|one| point(one.get("metric")?, one.get("value")?));
            (series.collect::<Option<Vec<Value>>>()?, vector.len())
        }
        "scalar" => (vec![point(&json!({}), result)?], 1),
        "matrix" => {
            let matrix = result.as_array()?;
            let last =
                matrix.iter().take(SERIES_MAX).map(|one| point(one.get("metric")?, one["values"].as_array()?.last()?));
            (last.collect::<Option<Vec<Value>>>()?, matrix.len())
        }
        _ => return None,
    };
    let mut output = json!({"query": query, "series": series, "truncated": total > SERIES_MAX});
    // Of one series its value is the answer.
    if let [only] = series.as_slice() {
        output["value"] = only["value"].clone();
    }
    if let Some(Value::Array(warnings)) = answer.get("warnings") {
        output["warnings"] = warnings.iter().filter(|warning| warning.is_string()).take(10).cloned().collect();
    }
    Some(output)
}

/// A value comes as a text, since JSON has no infinity; what is no number stays one.
fn point(labels: &Value, value: &Value) -> Option<Value> {
    let seconds = value.get(0)?.as_f64()?;
    let text = value.get(1)?.as_str()?;
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    #[expect(clippy::cast_possible_truncation, reason = "a time in milliseconds is far below what the type holds")]
    let millis = (seconds * 1000.0).round() as i64;
    let mut point = json!({
        "labels": labels,
        "value": number,
        "time": toolgate_contracts::Timestamp::from_millis(millis),
    });
    if number.is_none() {
        point["text"] = json!(text);
    }
    Some(point)
}

/// A query that it cannot read is the caller's to mend, and Prometheus says where.
fn in_its_words(failure: Failure) -> Failure {
    let Failure::Told(error) = failure else { return failure };
    let body = error.details.as_ref().and_then(|details| details.get("body")?.as_str()).map(str::to_owned);
    let said: Option<Value> = body.and_then(|body| serde_json::from_str(&body).ok());
    match said.as_ref().and_then(|said| Some((said.get("errorType")?.as_str()?, said.get("error")?.as_str()?))) {
        Some(("bad_data", why)) => invalid("query", format!("the server cannot read it: {why}")).into(),
        Some(("timeout" | "canceled", why)) => {
            let message = format!("the query takes the server too long: {why}; ask for less");
            ToolError::because(ErrorCode::ProviderError, "upstream_5xx", message).into()
        }
        _ => Failure::Told(error),
    }
}
