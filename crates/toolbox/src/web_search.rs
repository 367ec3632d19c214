//! A search of the web by the provider that the operator chose, told in one shape whichever it is.
//!
//! Deliberately absent: reading what was found, which is `http_get`'s.

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_egress::{Effect, HeaderName, HeaderValue, Method, Request, Url};
use toolgate_engine::secrets::Secrets;
use toolgate_engine::{Call, Outcome, Permit};
use toolgate_runners::http::{Failure, with_secret};

use crate::builtin::{Tools, input, invalid};
use crate::outgoing;

const KEY: &str = "SEARCH_API_KEY";
const ENTRY: &str = "search";
const QUERY_CHARS_MAX: usize = 400;
const COUNT_DEFAULT: usize = 5;
const COUNT_MAX: usize = 20;
const SNIPPET_CHARS_MAX: usize = 1_000;
const TITLE_CHARS_MAX: usize = 300;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    query: String,
    #[serde(default = "count_default")]
    count: usize,
}

const fn count_default() -> usize {
    COUNT_DEFAULT
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Provider {
    Exa,
    Brave,
    Searxng,
}

impl Provider {
    const NAMES: &str = "`exa`, `brave` or `searxng`";

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "exa" => Self::Exa,
            "brave" => Self::Brave,
            "searxng" => Self::Searxng,
            _ => return None,
        })
    }

    const fn usual_url(self) -> Option<&'static str> {
        match self {
            Self::Exa => Some("https://api.exa.ai"),
            Self::Brave => Some("https://api.search.brave.com"),
            // There is none: everybody runs their own.
            Self::Searxng => None,
        }
    }

    /// The header that its key goes in; a server of one's own may want one too.
    const fn key_header(self) -> Option<&'static str> {
        match self {
            Self::Exa => Some("x-api-key"),
            Self::Brave => Some("x-subscription-token"),
            Self::Searxng => None,
        }
    }

    fn request(self, server: &Url, query: &str, count: usize) -> Request {
        let mut request = match self {
            Self::Exa => {
                let mut request = Request::new(Method::POST, outgoing::below(server, &["search"]));
                let highlights = json!({"highlights": {"maxCharacters": SNIPPET_CHARS_MAX}});
                request.body = json!({"query": query, "numResults": count, "contents": highlights}).to_string().into();
                let json = HeaderValue::from_static("application/json");
                request.headers.insert(HeaderName::from_static("content-type"), json);
                // It asks, whatever its method: it may be tried again.
                request.effect = Effect::Read;
                request
            }
            Self::Brave => {
                let mut url = outgoing::below(server, &["res", "v1", "web", "search"]);
                url.query_pairs_mut().append_pair("q", query).append_pair("count", &count.to_string());
                Request::get(url)
            }
            Self::Searxng => {
                let mut url = outgoing::below(server, &["search"]);
                url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
                Request::get(url)
            }
        };
        request.headers.insert(HeaderName::from_static("accept"), HeaderValue::from_static("application/json"));
        request
    }

    /// Where the results are, and what each has: title, address, the words around it, when it was published.
    const fn shape(self) -> (&'static str, [&'static [&'static str]; 4]) {
        match self {
            Self::Exa => ("/results", [&["title"], &["url"], &["highlights", "summary", "text"], &["publishedDate"]]),
            Self::Brave => ("/web/results", [&["title"], &["url"], &["description"], &["page_age"]]),
            Self::Searxng => ("/results", [&["title"], &["url"], &["content"], &["publishedDate"]]),
        }
    }
}

struct Configured {
    provider: Provider,
    server: Url,
}

fn configured(tools: &Tools) -> Result<Configured, ToolError> {
    outgoing::readable(tools, ENTRY, None)?;
    let Some(entry) = &tools.entries.search else {
        let fix = "there is none; write `search: {provider: searxng, url: \"https://…\"}`, or `exa` or `brave`";
        return Err(outgoing::not_configured(ENTRY, fix));
    };
    let provider = Provider::named(&entry.provider).ok_or_else(|| {
        let shown: String = entry.provider.chars().take(40).flat_map(char::escape_debug).collect();
        outgoing::not_configured(ENTRY, &format!("its `provider` is `{shown}`; expected {}", Provider::NAMES))
    })?;
    let url = entry.url.as_deref().or_else(|| provider.usual_url());
    let url = url.ok_or_else(|| outgoing::not_configured(ENTRY, "`searxng` needs the `url` of a server"))?;
    Ok(Configured { provider, server: outgoing::server(ENTRY, url)? })
}

pub(crate) fn ready(tools: &Tools) -> Result<(), ToolError> {
    configured(tools).map(drop)
}

pub(crate) async fn run(tools: &Tools, permit: &Permit) -> Outcome {
    match search(tools, permit).await {
        Ok(output) => Outcome::structured(output),
        Err(failure) => failure.into(),
    }
}

async fn search(tools: &Tools, permit: &Permit) -> Result<Value, Failure> {
    let call = permit.call();
    let (Configured { provider, server }, query, count) = asked(tools, call)?;
    let way = outgoing::way_to(tools, call, &server)?;
    let mut request = outgoing::prepared(provider.request(&server, &query, count), call);
    match (permit.secrets().get(KEY), provider.key_header()) {
        (Some(key), header) => request = with_secret(request, key, header, None)?,
        (None, None) => {}
        (None, Some(_)) => {
            let message = format!("the provider wants a key: set the secret `{KEY}`, and allow it for this tool");
            return Err(ToolError::because(ErrorCode::AuthRequired, "secret_missing", message)
                .with("secret", KEY)
                .into());
        }
    }
    let host = server.host_str().unwrap_or_default();
    let answer = outgoing::json_of(outgoing::ask(tools, call, &way, request).await?)?;
    let (list, [title, url, snippet, published]) = provider.shape();
    let found = match answer.pointer(list) {
        Some(Value::Array(found)) => found.as_slice(),
        // Brave leaves the list out where it found nothing.
        None if provider == Provider::Brave && answer.get("query").is_some() => &[],
        _ => return Err(outgoing::unexpected(host, &format!("answers without a list at `{list}`")).into()),
    };
    let results: Vec<Value> = found
        .iter()
        .filter_map(|result| {
            let text = |members, chars_max| text(permit.secrets(), result, members, chars_max);
            let url = text(url, usize::MAX).filter(|url| is_web_address(url))?;
            let mut told = json!({
                "title": text(title, TITLE_CHARS_MAX).unwrap_or_else(|| url.clone()),
                "url": url,
                "snippet": text(snippet, SNIPPET_CHARS_MAX).unwrap_or_default(),
            });
            if let Some(published) = text(published, 64) {
                told["published"] = Value::String(published);
            }
            Some(told)
        })
        .take(count)
        .collect();
    Ok(json!({"results": results}))
}

pub(crate) fn plan(tools: &Tools, call: &Call) -> Result<Value, ToolError> {
    let (Configured { provider, server }, query, count) = asked(tools, call)?;
    let way = outgoing::way_to(tools, call, &server)?;
    let request = outgoing::prepared(provider.request(&server, &query, count), call);
    Ok(outgoing::planned(tools, call, &way, &request))
}

fn asked(tools: &Tools, call: &Call) -> Result<(Configured, String, usize), ToolError> {
    let Input { query, count } = input(call)?;
    let chars = query.chars().count();
    if query.trim().is_empty() || chars > QUERY_CHARS_MAX {
        return Err(invalid("query", format!("it has {chars} characters; expected 1 to {QUERY_CHARS_MAX}")));
    }
    if !(1..=COUNT_MAX).contains(&count) {
        return Err(invalid("count", format!("{count} is not between 1 and {COUNT_MAX}")));
    }
    Ok((configured(tools)?, query, count))
}

/// The first member that has a text; a list of texts is one text.
fn text(secrets: &Secrets, result: &Value, members: &[&str], chars_max: usize) -> Option<String> {
    let found = members.iter().find_map(|member| match result.get(member)? {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" … ")),
        _ => None,
    })?;
    let found = secrets.beginning(found.trim(), chars_max);
    (!found.is_empty()).then_some(found)
}

/// What a provider lists may be anything; only addresses are passed on.
fn is_web_address(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}
