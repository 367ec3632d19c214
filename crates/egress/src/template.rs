//! URLs with places for values: `https://api.example.com/{country}/places?q={query}`, also written `{{ country }}`.
//!
//! A value fills its place and nothing else: it becomes part of one path segment or of one query value. Deliberately
//! absent: places in the scheme, host or port, where a value would choose who is sent the request and its secrets.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

use crate::error::{EgressError, Rule};
use crate::target::Target;

pub const URL_BYTES_MAX: usize = 16 * 1024;

/// RFC 3986's unreserved characters stay as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("`{0}` is not closed: write `{{name}}` or `{{{{ name }}}}`")]
    Unclosed(String),
    #[error("`{0}` is no name of a value: use letters, digits, `_`, `-` and `.`")]
    Name(String),
    #[error("a value may not be part of the scheme, host or port: write them out, and put values behind the first `/`")]
    Authority,
    #[error("a URL template has no `#`, no `\\`, no control character and no `.` or `..` as a path segment")]
    Character,
    #[error("this is no `https` or `http` URL with a host, and without a user or a password")]
    Url,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(String),
}

/// INVARIANT: the first part is text that holds scheme, host and port.
#[derive(Clone, Debug)]
pub struct Template {
    parts: Vec<Part>,
    /// Rendered with a harmless value in each place: what every rendering must look like.
    model: Url,
}

impl Template {
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.chars().any(|c| c.is_control() || c == '#' || c == '\\') || text.trim() != text {
            return Err(TemplateError::Character);
        }
        let parts = split(text)?;
        let Some(Part::Text(head)) = parts.first() else { return Err(TemplateError::Authority) };
        let after_scheme = head.split_once("://").ok_or(TemplateError::Authority)?.1;
        let has_places = parts.len() > 1;
        if has_places && !after_scheme.contains(['/', '?']) {
            return Err(TemplateError::Authority);
        }
        let model_text: String = parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Value(_) => "x",
            })
            .collect();
        let path = model_text.split_once("://").map_or("", |(_, rest)| rest);
        if path.split('?').next().unwrap_or_default().split('/').skip(1).any(is_dots) {
            return Err(TemplateError::Character);
        }
        let model = Url::parse(&model_text).map_err(|_| TemplateError::Url)?;
        Target::of(&model).map_err(|_| TemplateError::Url)?;
        Ok(Self { parts, model })
    }

    /// The names of the values, in the order of their places.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Value(name) => Some(name.as_str()),
        })
    }

    pub fn render(&self, value: impl Fn(&str) -> Option<String>) -> Result<Url, EgressError> {
        self.render_encoded(|name| value(name).map(|value| utf8_percent_encode(&value, ENCODED).to_string()))
    }

    /// With values that are percent-encoded already, and have `;`, `=` or `,` between their parts where a style of
    /// OpenAPI wants them.
    pub fn render_encoded(&self, value: impl Fn(&str) -> Option<String>) -> Result<Url, EgressError> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Value(name) => {
                    let Some(value) = value(name) else {
                        let told = format!("the URL needs a value for `{name}`");
                        return Err(EgressError::new(Rule::Url, told, "give it among the arguments"));
                    };
                    if percent_decode_str(&value).any(|byte| matches!(byte, b'\r' | b'\n' | b'\0')) {
                        let told = format!("the value of `{name}` holds a line break");
                        return Err(EgressError::new(Rule::Url, told, "give one line"));
                    }
                    if !value.bytes().all(is_encoded) {
                        return Err(left());
                    }
                    text.push_str(&value);
                }
            }
            if text.len() > URL_BYTES_MAX {
                let told = format!("the URL has more than {URL_BYTES_MAX} bytes");
                return Err(EgressError::new(Rule::Url, told, "give shorter values"));
            }
        }
        let rendered = Url::parse(&text).map_err(|_| left())?;
        let path = text.split_once("://").map_or("", |(_, rest)| rest).split('?').next().unwrap_or_default();
        let is_whole = path.split('/').skip(1).all(|segment| !is_dots(segment))
            && is_alike(&rendered, &self.model)
            && emptiness(&rendered).eq(emptiness(&self.model));
        if is_whole { Ok(rendered) } else { Err(left()) }
    }
}

/// Who is asked, how deep the path is and how many parameters there are: none of it is a value's to change.
fn is_alike(rendered: &Url, model: &Url) -> bool {
    let depth = |url: &Url| url.path_segments().map_or(0, Iterator::count);
    let parameters = |url: &Url| url.query().map(|query| query.split('&').count());
    rendered.origin() == model.origin()
        && rendered.username().is_empty()
        && rendered.password().is_none()
        && depth(rendered) == depth(model)
        && parameters(rendered) == parameters(model)
}

/// Which path segments are empty: `DELETE /users/{id}` without an id would mean all users.
fn emptiness(url: &Url) -> impl Iterator<Item = bool> {
    url.path_segments().into_iter().flatten().map(str::is_empty)
}

fn left() -> EgressError {
    let told = "a value leaves its place in the URL: it is empty, `.` or `..` where a path segment is needed";
    EgressError::new(Rule::Url, told, "give another value")
}

fn is_encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%;=,".contains(&byte)
}

fn is_dots(segment: &str) -> bool {
    let decoded: Vec<u8> = percent_decode_str(segment).collect();
    decoded == b"." || decoded == b".."
}

fn split(text: &str) -> Result<Vec<Part>, TemplateError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        if !before.is_empty() {
            parts.push(Part::Text(before.to_owned()));
        }
        let (end, after) = match after.strip_prefix('{') {
            Some(after) => ("}}", after),
            None => ("}", after),
        };
        let shown = || format!("{{{}", after.chars().take(40).collect::<String>());
        let (name, after) = after.split_once(end).ok_or_else(|| TemplateError::Unclosed(shown()))?;
        let name = name.trim();
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
        if !is_name {
            return Err(TemplateError::Name(name.chars().take(80).flat_map(char::escape_debug).collect()));
        }
        parts.push(Part::Value(name.to_owned()));
        rest = after;
    }
    if rest.contains('}') {
        return Err(TemplateError::Unclosed(rest.chars().take(40).collect()));
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    Ok(parts)
}
