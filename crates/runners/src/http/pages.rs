//! Answers that come in pages: asked for one after the other, their items put together.

use serde_json::Value;
use toolgate_contracts::runner::Pagination;
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_egress::{Method, Request, Url};
use toolgate_engine::Outcome;

use super::answer::{self, Answer, Body};
use super::request::{Declared, wrong};
use super::{Failure, Trip};

const PAGES_DEFAULT: u32 = 10;
const PAGES_MAX: u32 = 100;
const ITEMS_BYTES_MAX: usize = 10 * 1024 * 1024;

pub(super) struct Pages {
    items: String,
    next: String,
    parameter: Option<String>,
    max: u32,
}

impl Pages {
    pub fn read(method: &Method, pagination: &Pagination) -> Result<Self, ToolError> {
        if method != Method::GET {
            return Err(wrong(
                "`pagination`: only `GET` is asked for page by page: another method would act each time",
            ));
        }
        let Pagination { items, next, parameter, max_pages } = pagination;
        for pointer in [items, next] {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                return Err(wrong(&format!("`pagination`: `{pointer}` is no JSON Pointer such as `/items`")));
            }
        }
        let max = max_pages.unwrap_or(PAGES_DEFAULT).clamp(1, PAGES_MAX);
        Ok(Self { items: items.clone(), next: next.clone(), parameter: parameter.clone(), max })
    }
}

/// The first page's answer with the items of all pages, and with what the last one says of the next: whoever goes on
/// behind `max_pages` goes on there. It ends at the page that names no next one, at `max_pages`, or with the error of a
/// page: half a list is none.
pub(super) async fn all(
    trip: &Trip<'_>,
    declared: &Declared,
    pages: &Pages,
    request: Request,
) -> Result<Outcome, Failure> {
    let mut first: Option<Answer> = None;
    let mut items: Vec<Value> = Vec::new();
    let mut bytes = 0;
    let mut rest = None;
    let mut asked = request.clone();
    for page in 1..=pages.max {
        let effect = asked.effect;
        let url = asked.url.clone();
        let mut answer = answer::read(trip.send(asked).await?, effect).await?;
        let body = match &mut answer.body {
            Body::Json(body) => body,
            Body::Unread { why, .. } => return Err(unpaged(page, &format!("is {}", answer::unread(why))).into()),
            Body::Text(_) | Body::Bytes { .. } | Body::Empty => return Err(unpaged(page, "is no JSON").into()),
        };
        let next = body.pointer(&pages.next).cloned();
        let Some(found) = body.pointer_mut(&pages.items).and_then(Value::as_array_mut) else {
            return Err(unpaged(page, &format!("has no list at `{}`", pages.items)).into());
        };
        let found = std::mem::take(found);
        bytes += found.iter().map(|item| item.to_string().len()).sum::<usize>();
        if bytes > ITEMS_BYTES_MAX {
            let message =
                format!("the pages hold more than {ITEMS_BYTES_MAX} bytes after {page} of them; ask for less");
            return Err(ToolError::because(ErrorCode::ProviderError, "output_schema", message).into());
        }
        items.extend(found);
        first.get_or_insert(answer);
        match following(pages, &request, &url, next.as_ref())? {
            Some(following) if following != url => {
                asked = request.clone();
                asked.url = with_key(declared, &request, following);
                rest = next;
            }
            _ => {
                rest = None;
                break;
            }
        }
    }
    let Some(mut whole) = first else { return Err(unpaged(1, "did not come").into()) };
    if let Body::Json(body) = &mut whole.body
        && let Some(place) = body.pointer_mut(&pages.items)
    {
        *place = Value::Array(items);
    }
    if let Body::Json(body) = &mut whole.body {
        set_next(body, &pages.next, rest);
    }
    answer::outcome(declared, trip.call, whole, request.effect).await
}

/// What the first page says of a next one is what the last one says. At the end there is nothing, as on a last page.
fn set_next(body: &mut Value, pointer: &str, rest: Option<Value>) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    let Some(Value::Object(members)) = body.pointer_mut(parent) else { return };
    let name = name.replace("~1", "/").replace("~0", "~");
    match rest {
        Some(rest) => members.insert(name, rest),
        None => members.shift_remove(&name),
    };
}

/// An address that the other side names has no key in it, or its own.
fn with_key(declared: &Declared, request: &Request, mut following: Url) -> Url {
    if let Some(parameter) = declared.key_parameter()
        && following.query_pairs().all(|(name, _)| name != parameter)
        && let Some((_, key)) = request.url.query_pairs().find(|(name, _)| name == parameter)
    {
        following.query_pairs_mut().append_pair(parameter, &key);
    }
    following
}

/// Where the next page is. An address must be of the same origin: it comes from the other side, and the secret goes
/// with it.
fn following(pages: &Pages, request: &Request, at: &Url, next: Option<&Value>) -> Result<Option<Url>, ToolError> {
    let token = match next {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => return Ok(None),
    };
    if let Some(parameter) = &pages.parameter {
        let mut url = request.url.clone();
        let others: Vec<(String, String)> = url
            .query_pairs()
            .filter(|(name, _)| name != parameter)
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        url.query_pairs_mut().clear().extend_pairs(others).append_pair(parameter, &token);
        return Ok(Some(url));
    }
    let url = at.join(&token).ok().filter(|url| url.origin() == request.url.origin());
    match url {
        Some(url) => Ok(Some(url)),
        None => Err(unpaged(1, "names a next page that is no address of the same host")),
    }
}

fn unpaged(page: u32, what: &str) -> ToolError {
    ToolError::because(ErrorCode::ProviderError, "output_schema", format!("page {page} of the answer {what}"))
}
