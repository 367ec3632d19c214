//! Text with places: minijinja without loaders, within a budget. A template that is one place and nothing else keeps
//! the value's JSON type, so that `"{{ count }}"` in a body stays a number.
//!
//! Deliberately absent: `set`, `with`, `macro` and all else that names a value, `*`, joining in a loop's head, comments,
//! and filters whose result can be much larger than what they are given. A text that is joined to itself thirty times
//! over fills any memory; the library's fuel counts instructions, not bytes, and constants are computed while a template
//! is read, without any.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, LazyLock};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, filters, tests};
use serde_json::Value;

use crate::{ExpressionError, shortened};

pub const TEMPLATE_BYTES_MAX: usize = 32 * 1024;
const RENDERED_BYTES_MAX: usize = 1024 * 1024;
const FUEL: u64 = 200_000;

/// What may stand in `{% … %}`.
const STATEMENTS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];
/// What may stand behind `|`, and behind `is`.
const FILTERS: [&str; 13] = [
    "default", "first", "float", "int", "join", "last", "length", "lower", "round", "string", "tojson", "trim", "upper",
];
const TESTS: [&str; 3] = ["defined", "none", "undefined"];
const LOOPS_MAX: usize = 3;
/// In one place: what is joined there may be as large as an argument, each time.
const JOINS_MAX: usize = 16;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
        environment.set_syntax(syntax);
    }
    environment.add_filter("default", filters::default);
    environment.add_filter("first", filters::first);
    environment.add_filter("float", filters::float);
    environment.add_filter("int", filters::int);
    environment.add_filter("join", joined);
    environment.add_filter("last", filters::last);
    environment.add_filter("length", filters::length);
    environment.add_filter("lower", filters::lower);
    environment.add_filter("round", filters::round);
    environment.add_filter("string", filters::string);
    environment.add_filter("tojson", json);
    environment.add_filter("trim", filters::trim);
    environment.add_filter("upper", filters::upper);
    environment.add_test("defined", tests::is_defined);
    environment.add_test("none", tests::is_none);
    environment.add_test("undefined", tests::is_undefined);
    environment
});

fn joined(items: Vec<String>, separator: Option<String>) -> Result<String, minijinja::Error> {
    let separator = separator.unwrap_or_default();
    let bytes = items.iter().map(String::len).sum::<usize>() + separator.len().saturating_mul(items.len());
    if bytes > RENDERED_BYTES_MAX {
        return Err(minijinja::Error::new(ErrorKind::InvalidOperation, "the joined text has more than 1 MiB"));
    }
    Ok(items.join(&separator))
}

/// The library's own escapes what HTML would read; bodies and prompts are not HTML.
fn json(value: Serde<Value>) -> String {
    value.0.to_string()
}

#[derive(Clone)]
pub struct Text {
    source: Arc<str>,
    /// What stands in the one place, where there is nothing else.
    lone: Option<Arc<str>>,
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Text").field(&self.source).finish()
    }
}

impl Text {
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        if source.len() > TEMPLATE_BYTES_MAX {
            let message = format!("it has {} bytes, {TEMPLATE_BYTES_MAX} at most are read", source.len());
            return Err(ExpressionError::Failed(message));
        }
        check_statements(source)?;
        ENVIRONMENT.template_from_str(source).map_err(|error| unreadable(&error))?;
        Ok(Self { source: source.into(), lone: lone(source).map(Into::into) })
    }

    /// The names that the template asks for.
    pub fn variables(&self) -> Vec<String> {
        let template = ENVIRONMENT.template_from_str(&self.source);
        let mut names: Vec<_> =
            template.map(|template| template.undeclared_variables(false).into_iter().collect()).unwrap_or_default();
        names.sort();
        names
    }

    /// The same with what is asked for within them, as in `input.name`.
    pub fn paths(&self) -> Vec<String> {
        let template = ENVIRONMENT.template_from_str(&self.source);
        let mut names: Vec<_> =
            template.map(|template| template.undeclared_variables(true).into_iter().collect()).unwrap_or_default();
        names.sort();
        names
    }

    pub fn render(&self, values: &Value) -> Result<String, ExpressionError> {
        let template = ENVIRONMENT.template_from_str(&self.source).map_err(|error| unreadable(&error))?;
        let mut rendered = Bounded(Vec::new());
        match template.render_captured_to(Serde(values), &mut rendered) {
            _ if rendered.0.len() > RENDERED_BYTES_MAX => Err(ExpressionError::Exhausted("1 MiB of text")),
            Ok(_) => String::from_utf8(rendered.0).map_err(|error| ExpressionError::Failed(error.to_string())),
            Err(error) => Err(failed(&error)),
        }
    }

    /// As JSON: the value itself for a lone place, which may be absent, otherwise text.
    pub fn value(&self, values: &Value) -> Result<Option<Value>, ExpressionError> {
        let Some(lone) = &self.lone else { return self.render(values).map(Value::String).map(Some) };
        let expression = ENVIRONMENT.compile_expression(lone).map_err(|error| unreadable(&error))?;
        let value = expression.eval(Serde(values)).map_err(|error| failed(&error))?;
        if value.is_undefined() {
            return Ok(None);
        }
        serde_json::to_value(&value).map(Some).map_err(|error| ExpressionError::Failed(shortened(&error.to_string())))
    }
}

/// Walks the template as the library's own reader does: text, and in places words, signs and quoted strings.
fn check_statements(source: &str) -> Result<(), ExpressionError> {
    let mut loops = 0_usize;
    let mut rest = source;
    while let Some(at) = rest.find("{{").into_iter().chain(rest.find("{%")).chain(rest.find("{#")).min() {
        let begins = source.len() - rest.len() + at;
        let refused = |message: String| {
            let before = &source[..begins];
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            ExpressionError::Unreadable { line, column, message }
        };
        let is_statement = rest[at..].starts_with("{%");
        if rest[at..].starts_with("{#") {
            return Err(refused("a template has no comments".to_owned()));
        }
        let inner = &rest[at + 2..];
        let Signs { end, joins, multiplies, unknown } = signs(inner, if is_statement { "%}" } else { "}}" });
        if let Some(unknown) = unknown {
            return Err(refused(unknown));
        }
        if multiplies {
            return Err(refused("a template does not multiply: `*` is no sign of it".to_owned()));
        }
        if joins > if is_statement { 0 } else { JOINS_MAX } {
            let message = if is_statement {
                "a statement joins nothing: `~` and `+` stand in `{{ … }}`".to_owned()
            } else {
                format!("more than {JOINS_MAX} `~` or `+` in one place")
            };
            return Err(refused(message));
        }
        if is_statement {
            let word: String = inner
                .trim_start_matches(['-', '+'])
                .trim_start()
                .chars()
                .take_while(char::is_ascii_alphabetic)
                .take(20)
                .collect();
            match word.as_str() {
                "for" => loops += 1,
                "endfor" => loops = loops.saturating_sub(1),
                word if STATEMENTS.contains(&word) => {}
                word => {
                    let known = STATEMENTS.join("`, `");
                    return Err(refused(format!("`{word}` is no statement of a template: it has `{known}`")));
                }
            }
            if loops > LOOPS_MAX {
                return Err(refused(format!("more than {LOOPS_MAX} loops within each other")));
            }
        }
        rest = &inner[end..];
    }
    Ok(())
}

/// What stands in one place, outside of quoted strings.
struct Signs {
    /// Behind the place.
    end: usize,
    joins: usize,
    multiplies: bool,
    /// A filter or a test that there is none of: the library would say so only when it is filled in.
    unknown: Option<String>,
}

fn signs(inner: &str, closing: &str) -> Signs {
    let (mut joins, mut multiplies, mut unknown) = (0, false, None);
    let mut quoted: Option<u8> = None;
    let bytes = inner.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match quoted {
            Some(_) if byte == b'\\' => at += 1,
            Some(quote) if byte == quote => quoted = None,
            Some(_) => {}
            None if bytes[at..].starts_with(closing.as_bytes()) => {
                return Signs { end: at + closing.len(), joins, multiplies, unknown };
            }
            None => match byte {
                b'\'' | b'"' => quoted = Some(byte),
                // The sign that trims what stands before or behind a place is none.
                b'+' if at == 0 || bytes[at + 1..].starts_with(closing.as_bytes()) => {}
                b'~' | b'+' => joins += 1,
                b'*' => multiplies = true,
                b'|' => unknown = unknown.or_else(|| unknown_word("filter", &FILTERS, &inner[at + 1..])),
                b'i' if is_test(inner, at) => {
                    let behind = inner[at + 2..].trim_start();
                    let behind = behind.strip_prefix("not ").unwrap_or(behind);
                    unknown = unknown.or_else(|| unknown_word("test", &TESTS, behind));
                }
                _ => {}
            },
        }
        at += 1;
    }
    // Unclosed: the library says so.
    Signs { end: inner.len(), joins, multiplies, unknown }
}

/// The word `is` by itself, and no member of that name.
fn is_test(inner: &str, at: usize) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let before = inner[..at].chars().next_back();
    let after = inner[at..].strip_prefix("is").and_then(|rest| rest.chars().next());
    !before.is_some_and(|letter| is_word(letter) || letter == '.') && after.is_some_and(char::is_whitespace)
}

fn unknown_word(what: &str, known: &[&str], behind: &str) -> Option<String> {
    let behind = behind.trim_start();
    let end = behind.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(behind.len());
    let word = &behind[..end];
    let told = || format!("there is no {what} `{}`: there is `{}`", shortened(word), known.join("`, `"));
    (!known.contains(&word)).then(told)
}

fn lone(source: &str) -> Option<&str> {
    let inner = source.strip_prefix("{{")?.strip_suffix("}}")?;
    // A sign at the border trims what is around the place; it is none of the expression.
    let trims = inner.starts_with(['-', '+']) || inner.ends_with(['-', '+']);
    (!trims && !inner.contains("{{") && !inner.contains("}}")).then_some(inner)
}

/// Takes what fits and one byte more, so that the one who reads it sees that it was too much.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = (RENDERED_BYTES_MAX + 1).saturating_sub(self.0.len());
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(room);
        self.0.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn unreadable(error: &minijinja::Error) -> ExpressionError {
    let message = shortened(error.detail().unwrap_or("the template cannot be read"));
    ExpressionError::Unreadable { line: error.line().unwrap_or(1), column: 1, message }
}

fn failed(error: &minijinja::Error) -> ExpressionError {
    match error.kind() {
        ErrorKind::OutOfFuel => ExpressionError::Exhausted("a template may do"),
        _ => ExpressionError::Failed(shortened(&error.to_string())),
    }
}
