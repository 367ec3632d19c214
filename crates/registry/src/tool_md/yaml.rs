//! YAML front matter as a JSON value, with the line of every member.
//!
//! Read from parser events rather than through serde, because three things are needed that a deserializer
//! cannot give at once: the line of each node, every problem instead of the first, and a refusal of all that
//! two YAML readers could read differently (anchors, aliases, tags, merge keys, duplicate keys, octal numbers).

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Value};
use toolgate_contracts::json;

use super::lines::Lines;
use crate::finding::{FINDINGS_MAX, Finding, shown};

/// Deeper than anything `json::check` lets through, so that the refusal names our own limit.
const NESTING_MAX: usize = 2 * json::DEPTH_MAX;

pub(crate) struct Reading {
    pub value: Value,
    pub lines: Lines,
    pub findings: Vec<Finding>,
}

/// Reads one YAML document whose first line is line `first_line` of the file. Errors are among the findings.
pub(super) fn read(text: &str, first_line: u32) -> Reading {
    read_within(text, first_line, json::KEYS_MAX)
}

/// The same for a document that may have more members.
pub(crate) fn read_within(text: &str, first_line: u32, keys_max: usize) -> Reading {
    let mut builder = Builder { first_line, keys: 0, keys_max, stack: Vec::new(), root: None, findings: Vec::new() };
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: NESTING_MAX,
        block_nesting_limit: NESTING_MAX,
    };
    let mut documents = 0;
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((Event::DocumentStart(..), span)) => {
                documents += 1;
                if documents > 1 {
                    builder.refuse(
                        "yaml.documents",
                        &span,
                        "a second document begins here",
                        "keep one document between the `---` lines",
                    );
                    break;
                }
            }
            Ok((event, span)) => builder.take(event, &span),
            Err(error) => {
                let line = builder.file_line(error.marker().line());
                let message = shown(&error.info());
                let fix = "correct the YAML at or near this line: indentation by spaces, quotes closed, `key: value`";
                builder.findings.push(Finding::error("yaml.syntax", builder.pointer(), message, fix).on_line(line));
                break;
            }
        }
        if builder.findings.len() >= FINDINGS_MAX || builder.keys > keys_max {
            break;
        }
    }
    builder.finish()
}

struct Builder {
    first_line: u32,
    keys: usize,
    keys_max: usize,
    stack: Vec<Frame>,
    root: Option<(Value, Lines)>,
    findings: Vec<Finding>,
}

enum Frame {
    Sequence {
        line: u32,
        items: Vec<Value>,
        lines: Vec<Lines>,
    },
    Mapping {
        line: u32,
        members: Map<String, Value>,
        lines: HashMap<String, Lines>,
        key: Option<Key>,
    },
    /// A collection used as a key: read to its end and thrown away.
    Discarded {
        depth: usize,
    },
}

struct Key {
    name: String,
    line: u32,
    /// False for a key that was refused: its value is read and dropped.
    keep: bool,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: &Span) {
        if let Some(Frame::Discarded { depth }) = self.stack.last_mut() {
            match event {
                Event::SequenceStart(..) | Event::MappingStart(..) => *depth += 1,
                Event::SequenceEnd | Event::MappingEnd if *depth > 1 => *depth -= 1,
                Event::SequenceEnd | Event::MappingEnd => {
                    self.stack.pop();
                    self.set_key(Key { name: String::new(), line: 0, keep: false });
                }
                _ => {}
            }
            return;
        }
        if matches!(event, Event::SequenceStart(..) | Event::MappingStart(..) | Event::Scalar(..)) {
            self.refuse_properties(&event, span);
        }
        let line = self.file_line(span.start.line());
        match event {
            Event::Scalar(text, style, ..) if self.expects_key() => self.key(&text, style, line, span),
            Event::Scalar(text, style, ..) => {
                let value = self.scalar(&text, style, span);
                self.put(value, Lines { line, ..Lines::default() });
            }
            Event::SequenceStart(..) | Event::MappingStart(..) if self.expects_key() => {
                self.refuse("yaml.key", span, "a list or mapping is used as a key", "use a word as the key");
                self.stack.push(Frame::Discarded { depth: 1 });
            }
            Event::SequenceStart(..) => self.stack.push(Frame::Sequence { line, items: Vec::new(), lines: Vec::new() }),
            Event::MappingStart(..) => {
                self.stack.push(Frame::Mapping { line, members: Map::new(), lines: HashMap::new(), key: None });
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                self.refuse("yaml.alias", span, "an alias (`*name`) is used", "write the value out where it is needed");
                if self.expects_key() {
                    self.set_key(Key { name: String::new(), line, keep: false });
                } else {
                    self.put(Value::Null, Lines { line, ..Lines::default() });
                }
            }
            _ => {}
        }
    }

    fn refuse_properties(&mut self, event: &Event<'_>, span: &Span) {
        if event.anchor_id().is_some() {
            self.refuse(
                "yaml.anchor",
                span,
                "an anchor (`&name`) is used",
                "remove it; write the value out where it is needed",
            );
        }
        if event.tag().is_some() {
            let fix = "remove the tag; put text that looks like a number or a boolean in quotes";
            self.refuse("yaml.tag", span, "a tag (`!name`) is used", fix);
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame::Mapping { key: None, .. }))
    }

    fn set_key(&mut self, new: Key) {
        if let Some(Frame::Mapping { key, .. }) = self.stack.last_mut() {
            *key = Some(new);
        }
    }

    fn key(&mut self, text: &str, style: ScalarStyle, line: u32, span: &Span) {
        self.keys += 1;
        if self.keys == self.keys_max + 1 {
            let message = format!("more than {} members", self.keys_max);
            self.refuse("yaml.members", span, &message, "split the definition, or move data out of it");
        }
        let taken = matches!(self.stack.last(), Some(Frame::Mapping { members, .. }) if members.contains_key(text));
        let plain = style == ScalarStyle::Plain;
        let keep = if plain && text == "<<" {
            self.refuse("yaml.merge", span, "a merge key (`<<`) is used", "write the members out");
            false
        } else if plain && text.is_empty() {
            self.refuse("yaml.key", span, "a member has no name", "write `name: value`");
            false
        } else if taken {
            let message = format!("the key `{}` appears twice", shown(text));
            self.refuse("yaml.duplicate", span, &message, "keep one of the two");
            false
        } else {
            true
        };
        self.set_key(Key { name: text.to_owned(), line, keep });
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: &Span) -> Value {
        if style != ScalarStyle::Plain {
            return Value::String(text.to_owned());
        }
        match plain(text) {
            Plain::Value(value) => value,
            Plain::Ambiguous => {
                let message =
                    format!("`{}` is read as text, though some YAML readers take it for something else", shown(text));
                let line = self.file_line(span.start.line());
                let fix = "put it in quotes, or write `true` or `false` if a boolean is meant";
                self.findings.push(Finding::warning("yaml.ambiguous", self.pointer(), message, fix).on_line(line));
                Value::String(text.to_owned())
            }
            Plain::Refused(why) => {
                let message = format!("`{}` {why}", shown(text));
                self.refuse("yaml.number", span, &message, "write it as a plain decimal number, or in quotes as text");
                Value::Null
            }
        }
    }

    fn put(&mut self, value: Value, lines: Lines) {
        match self.stack.last_mut() {
            None => self.root = Some((value, lines)),
            Some(Frame::Sequence { items, lines: all, .. }) => {
                items.push(value);
                all.push(lines);
            }
            Some(Frame::Mapping { members, lines: all, key, .. }) => {
                if let Some(Key { name, line, keep: true }) = key.take() {
                    all.insert(name.clone(), Lines { line, ..lines });
                    members.insert(name, value);
                }
            }
            Some(Frame::Discarded { .. }) => {}
        }
    }

    fn close(&mut self) {
        match self.stack.pop() {
            Some(Frame::Sequence { line, items, lines }) => {
                self.put(Value::Array(items), Lines { line, items: lines, ..Lines::default() });
            }
            Some(Frame::Mapping { line, members, lines, .. }) => {
                self.put(Value::Object(members), Lines { line, members: lines, ..Lines::default() });
            }
            Some(Frame::Discarded { .. }) | None => {}
        }
    }

    fn refuse(&mut self, code: &'static str, span: &Span, message: &str, fix: &str) {
        let line = self.file_line(span.start.line());
        self.findings.push(Finding::error(code, self.pointer(), message, fix).on_line(line));
    }

    fn file_line(&self, line: usize) -> u32 {
        self.first_line.saturating_add(u32::try_from(line.saturating_sub(1)).unwrap_or(u32::MAX))
    }

    /// The place that is being read.
    fn pointer(&self) -> String {
        let tokens = self.stack.iter().filter_map(|frame| match frame {
            Frame::Sequence { items, .. } => Some(items.len().to_string()),
            Frame::Mapping { key, .. } => key.as_ref().filter(|key| key.keep).map(|key| json::escape(&key.name)),
            Frame::Discarded { .. } => None,
        });
        tokens.fold(String::new(), |pointer, token| pointer + "/" + &shown(&token))
    }

    fn finish(mut self) -> Reading {
        // An input that broke off leaves open collections; what they hold is of no use, the findings are.
        self.stack.clear();
        let (value, lines) = self.root.unwrap_or((Value::Null, Lines { line: self.first_line, ..Lines::default() }));
        Reading { value, lines, findings: self.findings }
    }
}

enum Plain {
    Value(Value),
    /// Text to us and to YAML 1.2, something else to a YAML 1.1 reader.
    Ambiguous,
    Refused(&'static str),
}

/// The core schema of YAML 1.2 for unquoted scalars, without what YAML 1.1 reads differently.
fn plain(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Value(Value::Null),
        "true" | "True" | "TRUE" => return Plain::Value(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Plain::Value(Value::Bool(false)),
        _ => {}
    }
    if matches!(text.to_ascii_lowercase().as_str(), "yes" | "no" | "on" | "off" | "y" | "n") {
        return Plain::Ambiguous;
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(digits, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Plain::Refused("is not a finite number");
    }
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Plain::Value(Value::String(text.to_owned()));
    }
    let based = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0o")).or_else(|| digits.strip_prefix("0b"));
    if based.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        return Plain::Refused("is a number that YAML readers disagree about");
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return whole(text, digits);
    }
    if digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    {
        return Plain::Ambiguous;
    }
    if is_decimal(digits) {
        // `5.` and `.5` are numbers in YAML and to Rust's reader alike.
        return match text.parse::<f64>().ok().and_then(serde_json::Number::from_f64) {
            Some(number) => Plain::Value(Value::Number(number)),
            None => Plain::Refused("is not a finite number"),
        };
    }
    Plain::Value(Value::String(text.to_owned()))
}

fn whole(text: &str, digits: &str) -> Plain {
    if digits.len() > 1 && digits.starts_with('0') {
        return Plain::Refused("begins with a zero, which some YAML readers take for octal");
    }
    let number = text.strip_prefix('+').unwrap_or(text).parse::<i64>();
    match number {
        Ok(number) if number.unsigned_abs() <= json::INTEGER_MAX => Plain::Value(number.into()),
        _ => Plain::Refused("is an integer beyond ±9007199254740991"),
    }
}

fn is_decimal(digits: &str) -> bool {
    let (mantissa, exponent) = digits.split_once(['e', 'E']).map_or((digits, None), |(m, e)| (m, Some(e)));
    let exponent_ok = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && exponent.bytes().all(|byte| byte.is_ascii_digit())
    });
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    exponent_ok && all_digits(before) && all_digits(after) && !(before.is_empty() && after.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn reads(text: &str, expected: Value) {
        let reading = read(text, 1);
        assert_eq!(reading.findings, [], "{text}");
        assert_eq!(reading.value, expected, "{text}");
    }

    #[track_caller]
    fn finds(text: &str, expected: &[(&str, u32)]) {
        let found: Vec<_> = read(text, 1).findings.iter().map(|f| (f.code.to_string(), f.line.unwrap())).collect();
        let expected: Vec<_> = expected.iter().map(|(code, line)| ((*code).to_owned(), *line)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn scalars_follow_the_core_schema() {
        reads(
            "a: 1\nb: -2.5\nc: text\nd: true\ne:\nf: ~\ng: 'true'\n",
            json!({"a": 1, "b": -2.5, "c": "text", "d": true, "e": null, "f": null, "g": "true"}),
        );
        reads(
            "[.5, 5., 1e3, +7, 1.2.3, 2026-01-02, 12:30, -x, '', \"\\u00e9\"]",
            json!([0.5, 5.0, 1000.0, 7, "1.2.3", "2026-01-02", "12:30", "-x", "", "é"]),
        );
        reads("text: |\n  one\n  two\nfolded: >-\n  one\n  two\n", json!({"text": "one\ntwo\n", "folded": "one two"}));
        reads("on: 1\nyes: 2\n1: 3\n", json!({"on": 1, "yes": 2, "1": 3}));
    }

    #[test]
    fn what_two_readers_read_differently_is_refused() {
        finds("a: &x 1\nb: *x\n", &[("yaml.anchor", 1), ("yaml.alias", 2)]);
        finds("a: *missing\n", &[("yaml.alias", 1)]);
        finds("a:\n  <<: {b: 1}\n", &[("yaml.merge", 2)]);
        finds("a: !!str 1\nb: !include x\n", &[("yaml.tag", 1), ("yaml.tag", 2)]);
        finds("a: 1\nb: 2\na: 3\n", &[("yaml.duplicate", 3)]);
        finds(
            "a: 0x1f\nb: 0o17\nc: 010\nd: .nan\ne: 9007199254740993\nf: 1e999\n",
            &[
                ("yaml.number", 1),
                ("yaml.number", 2),
                ("yaml.number", 3),
                ("yaml.number", 4),
                ("yaml.number", 5),
                ("yaml.number", 6),
            ],
        );
        finds("a: yes\nb: 1_000\n", &[("yaml.ambiguous", 1), ("yaml.ambiguous", 2)]);
        finds("? [a, b]\n: 1\nc: 2\n", &[("yaml.key", 1)]);
        finds("a: 1\n...\n---\nb: 2\n", &[("yaml.documents", 3)]);
        finds("%YAML 1.1\n---\na: 1\n", &[("yaml.syntax", 1)]);
        finds("a: [1, 2\n", &[("yaml.syntax", 1)]);
        finds("a: 1\n\tb: 2\n", &[("yaml.syntax", 1)]);
    }

    #[test]
    fn lines_are_those_of_the_keys() {
        let reading = read("a: 1\nb:\n  c: [x,\n    y]\n  d: >\n    long\n", 2);
        let b = &reading.lines.members["b"];
        assert_eq!((reading.lines.members["a"].line, b.line, b.members["c"].line), (2, 3, 4));
        assert_eq!((b.members["c"].items[1].line, b.members["d"].line), (5, 6));
    }

    #[test]
    fn bombs_end_early() {
        finds(&"[".repeat(100_000), &[("yaml.syntax", 1)]);
        let wide = (0..20_000).map(|key| format!("k{key}: 0")).collect::<Vec<_>>().join("\n");
        finds(&wide, &[("yaml.members", 10_001)]);
        let laughs = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n";
        assert_eq!(read(laughs, 1).value, json!({"a": ["x", "x"], "b": [null, null], "c": [null, null]}));
        assert!(read(&"*a ".repeat(50_000), 1).findings.len() <= FINDINGS_MAX + 1);
    }
}
