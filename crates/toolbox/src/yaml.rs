//! A YAML file as a tree that knows where each node stands in the text, so that one can be changed and the rest stays.
//!
//! Refused is what two readers could read differently or what one change would change in two places: anchors, aliases,
//! merge keys, tags, directives, several documents, a key that appears twice, a list or mapping as a key.

mod edit;
mod render;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};
use serde_json::{Map, Value};

pub use edit::{Refused, delete, merge, rename, set};

const NESTING_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    /// `|` and `>`.
    Lines,
    /// Nothing is written, which is null.
    Absent,
}

#[derive(Clone, Debug)]
enum Kind {
    Scalar(Style, Value),
    Sequence { flow: bool, items: Vec<Item> },
    Mapping { flow: bool, pairs: Vec<Pair> },
}

/// Places are byte offsets in the text.
#[derive(Clone, Debug)]
struct Node {
    start: usize,
    /// Behind the last byte that is its own.
    end: usize,
    kind: Kind,
}

#[derive(Clone, Debug)]
struct Item {
    /// Behind the `-`, where it has one.
    head: usize,
    node: Node,
}

#[derive(Clone, Debug)]
struct Pair {
    key: String,
    key_start: usize,
    /// Behind the `:`, or behind the key where there is none.
    head: usize,
    has_colon: bool,
    node: Node,
}

impl Node {
    fn value(&self) -> Value {
        match &self.kind {
            Kind::Scalar(_, value) => value.clone(),
            Kind::Sequence { items, .. } => items.iter().map(|item| item.node.value()).collect(),
            Kind::Mapping { pairs, .. } => {
                let members: Map<String, Value> =
                    pairs.iter().map(|pair| (pair.key.clone(), pair.node.value())).collect();
                Value::Object(members)
            }
        }
    }

    fn is_absent(&self) -> bool {
        matches!(self.kind, Kind::Scalar(Style::Absent, _))
    }

    /// Whether it may stand behind other things on a line, as flow collections and scalars may.
    fn is_inline(&self) -> bool {
        match &self.kind {
            Kind::Scalar(style, _) => *style != Style::Lines,
            Kind::Sequence { flow, .. } | Kind::Mapping { flow, .. } => *flow,
        }
    }
}

/// The value of a whole file.
pub fn value(text: &str) -> Result<Value, String> {
    Ok(parse(text)?.map_or(Value::Null, |root| root.value()))
}

/// The root; `None` for a file that holds nothing but comments.
fn parse(text: &str) -> Result<Option<Node>, String> {
    if text.starts_with('\u{feff}') {
        return Err("it begins with a byte order mark; save it without one".to_owned());
    }
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: NESTING_MAX,
        block_nesting_limit: NESTING_MAX,
    };
    let mut builder = Builder { text, stack: Vec::new(), root: None };
    let mut documents = 0;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| format!("line {}: {}", error.marker().line(), error.info()))?;
        if matches!(event, Event::DocumentStart(..)) {
            documents += 1;
        }
        let line = span.start.line();
        if documents > 1 {
            return Err(format!("line {line}: a second document begins here, and only files with one can be changed"));
        }
        builder.take(event, &span).map_err(|why| format!("line {line}: {why}"))?;
    }
    Ok(builder.root)
}

struct Builder<'a> {
    text: &'a str,
    stack: Vec<Open>,
    root: Option<Node>,
}

struct Open {
    start: usize,
    flow: bool,
    kind: OpenKind,
}

enum OpenKind {
    Sequence(Vec<Item>),
    Mapping { pairs: Vec<Pair>, keys: BTreeSet<String>, key: Option<Key> },
}

struct Key {
    text: String,
    start: usize,
    end: usize,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), String> {
        if event.anchor_id().is_some() {
            return Err("an anchor (`&name`) is used, so that one change could change two places".to_owned());
        }
        if event.is_alias() || matches!(event, Event::UnresolvedAlias(_)) {
            return Err("an alias (`*name`) is used, so that one change could change two places".to_owned());
        }
        if event.tag().is_some() {
            return Err("a tag (`!name`) is used, and what it means is not known here".to_owned());
        }
        let range = span.byte_range().ok_or("its place in the file is not known")?;
        match event {
            Event::Scalar(text, style, ..) => {
                let style = match style {
                    _ if range.is_empty() && style == ScalarStyle::Plain => Style::Absent,
                    ScalarStyle::Plain => Style::Plain,
                    ScalarStyle::SingleQuoted => Style::SingleQuoted,
                    ScalarStyle::DoubleQuoted => Style::DoubleQuoted,
                    ScalarStyle::Literal | ScalarStyle::Folded => Style::Lines,
                };
                if self.expects_key() {
                    return self.key(&text, style, range.start, range.end);
                }
                let value = match style {
                    Style::Plain => plain(&text),
                    Style::Absent => Value::Null,
                    _ => Value::from(text.into_owned()),
                };
                let end = if style == Style::Lines { self.written_end(range.end) } else { range.end };
                self.put(Node { start: range.start, end, kind: Kind::Scalar(style, value) })
            }
            Event::SequenceStart(..) | Event::MappingStart(..) if self.expects_key() => {
                Err("a list or mapping is used as a key".to_owned())
            }
            Event::SequenceStart(style, ..) => {
                self.open(range.start, style, OpenKind::Sequence(Vec::new()));
                Ok(())
            }
            Event::MappingStart(style, ..) => {
                let kind = OpenKind::Mapping { pairs: Vec::new(), keys: BTreeSet::new(), key: None };
                self.open(range.start, style, kind);
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(range.end),
            _ => Ok(()),
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.stack.last(), Some(Open { kind: OpenKind::Mapping { key: None, .. }, .. }))
    }

    fn key(&mut self, text: &str, style: Style, start: usize, end: usize) -> Result<(), String> {
        let Some(Open { kind: OpenKind::Mapping { keys, key, .. }, .. }) = self.stack.last_mut() else {
            return Ok(());
        };
        match (style, text) {
            (Style::Plain, "<<") => return Err("a merge key (`<<`) is used".to_owned()),
            (Style::Absent, _) => return Err("a member has no name".to_owned()),
            (Style::Lines, _) => return Err("a key of several lines is used".to_owned()),
            _ => {}
        }
        if !keys.insert(text.to_owned()) {
            return Err(format!("the key `{}` appears twice in one mapping", text.escape_debug()));
        }
        *key = Some(Key { text: text.to_owned(), start, end });
        Ok(())
    }

    fn open(&mut self, start: usize, style: StructureStyle, kind: OpenKind) {
        self.stack.push(Open { start, flow: style == StructureStyle::Flow, kind });
    }

    fn close(&mut self, end: usize) -> Result<(), String> {
        let Some(Open { start, flow, kind }) = self.stack.pop() else { return Ok(()) };
        // The end of a block is where the next thing begins; its own end is that of what it holds last.
        let node = match kind {
            OpenKind::Sequence(items) => {
                let end = items.last().filter(|_| !flow).map_or(end, |item| item.node.end);
                // The dash of the first item, where the parser names what is behind it.
                let start = items.first().filter(|_| !flow).map_or(start, |item| item.head.saturating_sub(1));
                Node { start, end, kind: Kind::Sequence { flow, items } }
            }
            OpenKind::Mapping { pairs, .. } => {
                let end = pairs.last().filter(|_| !flow).map_or(end, |pair| pair.node.end);
                Node { start, end, kind: Kind::Mapping { flow, pairs } }
            }
        };
        self.put(node)
    }

    fn put(&mut self, mut node: Node) -> Result<(), String> {
        let text = self.text;
        let Some(Open { flow, kind, .. }) = self.stack.last_mut() else {
            self.root = Some(node).filter(|node| !node.is_absent());
            return Ok(());
        };
        match kind {
            OpenKind::Sequence(items) => {
                let head = if *flow { node.start } else { dash(text, &node).ok_or("an item without a dash")? + 1 };
                items.push(Item { head, node });
            }
            OpenKind::Mapping { pairs, key, .. } => {
                let Some(Key { text: name, start, end }) = key.take() else { return Ok(()) };
                let behind = text.get(end..).unwrap_or_default();
                let spaces = behind.len() - behind.trim_start_matches([' ', '\t']).len();
                let has_colon = behind.get(spaces..).is_some_and(|rest| rest.starts_with(':'));
                let head = if has_colon { end + spaces + 1 } else { end };
                if node.is_absent() {
                    (node.start, node.end) = (head, head);
                }
                pairs.push(Pair { key: name, key_start: start, head, has_colon, node });
            }
        }
        Ok(())
    }

    /// Where the last line with something on it ends.
    fn written_end(&self, end: usize) -> usize {
        self.text.get(..end).map_or(end, |text| text.trim_end().len())
    }
}

/// The dash of an item: before it, with nothing but blanks and comments between, and `|` and the like where the item is
/// written in lines.
fn dash(text: &str, item: &Node) -> Option<usize> {
    let mut end = item.start;
    let in_lines = matches!(item.kind, Kind::Scalar(Style::Lines, _));
    loop {
        let line = text.get(..end)?.rfind('\n').map_or(0, |newline| newline + 1);
        let before = text.get(line..end)?;
        let mut written = before.split('#').next()?.trim_end();
        if let Some(header) = written.rfind(['|', '>']).filter(|_| in_lines) {
            written = written.get(..header)?.trim_end();
        }
        if written.ends_with('-') {
            return Some(line + written.len() - 1);
        }
        if !written.is_empty() || line == 0 {
            return None;
        }
        end = line - 1;
    }
}

/// What a scalar without quotes is, by the core schema of YAML 1.2. What is a number to some readers only stays the text
/// that it is written as.
fn plain(text: &str) -> Value {
    match text {
        "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_whole && (digits == "0" || !digits.starts_with('0')) && !digits.is_empty() {
        return text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from);
    }
    let is_decimal = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
        && !is_whole;
    let number = text.parse::<f64>().ok().filter(|_| is_decimal).and_then(serde_json::Number::from_f64);
    number.map_or_else(|| Value::from(text), Value::Number)
}
