//! One change of a YAML text: of the lines that it is about, and of no other.
//!
//! Invariant: what comes out is read again and compared with what the change should give. A file that is written in a
//! way that these edits do not understand is refused, never damaged.

use std::ops::Range;

use serde_json::{Map, Value};
use toolgate_contracts::json;

use super::render::{self, STEP};
use super::{Item, Kind, Node, Pair, Style, parse};

/// A merge patch that names more places than this is a new file.
const MERGE_STEPS_MAX: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The file cannot be read, or cannot be changed without writing all of it anew.
    File(String),
    /// The place that is named is not there, or cannot hold what is given.
    Place(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::File(why) | Self::Place(why)) = self;
        f.write_str(why)
    }
}

impl Refused {
    fn place<T>(message: String) -> Result<T, Self> {
        Err(Self::Place(message))
    }
}

/// Puts a value at a place: a member or item that is there, a new member, or with `-` a new item at the end.
pub fn set(text: &str, pointer: &str, new: &Value) -> Result<String, Refused> {
    let mut expected = super::value(text).map_err(Refused::File)?;
    let tokens = tokens(pointer)?;
    put(&mut expected, &tokens, new)?;
    let source = Source::read(text)?;
    let edits = source.set(&tokens, new);
    source.edited(edits, &expected)
}

/// Takes a member or an item away.
pub fn delete(text: &str, pointer: &str) -> Result<String, Refused> {
    let mut expected = super::value(text).map_err(Refused::File)?;
    let tokens = tokens(pointer)?;
    take(&mut expected, &tokens)?;
    let source = Source::read(text)?;
    let edits = source.delete(&tokens)?;
    source.edited(edits, &expected)
}

/// Gives a member another name, where it stands.
pub fn rename(text: &str, pointer: &str, name: &str) -> Result<String, Refused> {
    let mut expected = super::value(text).map_err(Refused::File)?;
    let tokens = tokens(pointer)?;
    let source = Source::read(text)?;
    let Some((_, Some(Holder::Pair { pair, .. }))) = source.find(&tokens) else {
        return Refused::place(format!("there is no member `{pointer}`"));
    };
    let parents = tokens.get(..tokens.len().saturating_sub(1)).unwrap_or_default();
    if let Some(Value::Object(members)) = expected.pointer_mut(&pointer_of(parents)) {
        if members.contains_key(name) {
            return Refused::place(format!("there is a member `{name}` beside `{pointer}`"));
        }
        let renamed = |(key, value): (String, Value)| (if key == pair.key { name.to_owned() } else { key }, value);
        *members = std::mem::take(members).into_iter().map(renamed).collect();
    }
    // Up to the colon, which may stand apart from the key.
    let written = text.get(pair.key_start..pair.head).unwrap_or_default();
    let key = written.strip_suffix(':').unwrap_or(written).trim_end();
    let range = pair.key_start..pair.key_start + key.len();
    source.edited(vec![(range, render::word(name))], &expected)
}

/// Merges a patch into the value at a place, by RFC 7396.
pub fn merge(text: &str, pointer: &str, patch: &Value) -> Result<String, Refused> {
    let root = super::value(text).map_err(Refused::File)?;
    let Some(target) = root.pointer(pointer) else {
        return Refused::place(format!("there is nothing at `{pointer}`"));
    };
    let mut steps = Vec::new();
    merge_steps(target, patch, pointer, &mut steps);
    if steps.len() > MERGE_STEPS_MAX {
        let count = steps.len();
        return Refused::place(format!("the patch changes {count} places, the limit is {MERGE_STEPS_MAX}"));
    }
    let mut text = text.to_owned();
    for step in steps {
        text = match step {
            Step::Set(pointer, value) => set(&text, &pointer, &value)?,
            Step::Delete(pointer) => delete(&text, &pointer)?,
        };
    }
    Ok(text)
}

enum Step {
    Set(String, Value),
    Delete(String),
}

fn merge_steps(target: &Value, patch: &Value, at: &str, steps: &mut Vec<Step>) {
    let (Value::Object(members), Value::Object(target)) = (patch, target) else {
        let new = without_nulls(patch);
        if new != *target {
            steps.push(Step::Set(at.to_owned(), new));
        }
        return;
    };
    for (key, patch) in members {
        let place = format!("{at}/{}", json::escape(key));
        match target.get(key) {
            Some(_) if patch.is_null() => steps.push(Step::Delete(place)),
            None if patch.is_null() => {}
            Some(target) => merge_steps(target, patch, &place, steps),
            None => steps.push(Step::Set(place, without_nulls(patch))),
        }
    }
}

/// What a patch makes of nothing.
fn without_nulls(patch: &Value) -> Value {
    match patch {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        other => other.clone(),
    }
}

fn tokens(pointer: &str) -> Result<Vec<String>, Refused> {
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let Some(rest) = pointer.strip_prefix('/') else {
        let message = format!("`{}` is no JSON Pointer; it begins with `/`", pointer.escape_debug());
        return Refused::place(message);
    };
    Ok(rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect())
}

fn pointer_of(tokens: &[String]) -> String {
    tokens.iter().flat_map(|token| ["/".to_owned(), json::escape(token)]).collect()
}

/// Item numbers as RFC 6901 writes them.
fn index(token: &str) -> Option<usize> {
    let is_canonical = token == "0" || (!token.starts_with('0') && token.bytes().all(|byte| byte.is_ascii_digit()));
    token.parse().ok().filter(|_| is_canonical)
}

fn put(root: &mut Value, tokens: &[String], new: &Value) -> Result<(), Refused> {
    let Some((last, parents)) = tokens.split_last() else {
        *root = new.clone();
        return Ok(());
    };
    if root.is_null() && parents.is_empty() {
        *root = Value::Object(Map::new());
    }
    let parent = pointer_of(parents);
    let holder = root.pointer_mut(&parent);
    match (holder, last.as_str()) {
        (Some(Value::Object(members)), _) => {
            members.insert(last.clone(), new.clone());
            Ok(())
        }
        (Some(Value::Array(items)), "-") => {
            items.push(new.clone());
            Ok(())
        }
        (Some(Value::Array(items)), token) => {
            let count = items.len();
            match index(token).and_then(|at| items.get_mut(at)) {
                Some(item) => {
                    *item = new.clone();
                    Ok(())
                }
                None => Refused::place(format!(
                    "`{parent}` has {count} items and none is `{}`; `-` adds one at the end",
                    token.escape_debug()
                )),
            }
        }
        (Some(_), _) => {
            Refused::place(format!("`{parent}` is neither a mapping nor a list, so nothing can be put in it"))
        }
        (None, _) => Refused::place(format!("there is nothing at `{parent}`; set that first")),
    }
}

fn take(root: &mut Value, tokens: &[String]) -> Result<(), Refused> {
    let Some((last, parents)) = tokens.split_last() else {
        return Refused::place("the whole file cannot be deleted; name a member".to_owned());
    };
    let taken = match root.pointer_mut(&pointer_of(parents)) {
        Some(Value::Object(members)) => members.shift_remove(last),
        Some(Value::Array(items)) => index(last).filter(|at| *at < items.len()).map(|at| items.remove(at)),
        _ => None,
    };
    match taken {
        Some(_) => Ok(()),
        None => Refused::place(format!("there is nothing at `{}`", pointer_of(tokens))),
    }
}

type Edits = Vec<(Range<usize>, String)>;

struct Source<'a> {
    text: &'a str,
    root: Option<Node>,
    newline: &'static str,
}

/// What a place belongs to.
#[derive(Clone, Copy)]
enum Holder<'a> {
    Pair { pair: &'a Pair, flow: bool },
    Item { item: &'a Item, flow: bool },
}

impl<'a> Source<'a> {
    fn read(text: &'a str) -> Result<Self, Refused> {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Ok(Self { text, root: parse(text).map_err(Refused::File)?, newline })
    }

    /// The text with the edits, which must read as what is expected.
    fn edited(&self, mut edits: Edits, expected: &Value) -> Result<String, Refused> {
        edits.sort_by_key(|(range, _)| (range.start, range.end));
        let mut new = String::with_capacity(self.text.len());
        let mut at = 0;
        for (range, text) in edits {
            new.push_str(self.text.get(at..range.start).unwrap_or_default());
            new.push_str(&text);
            at = range.end;
        }
        new.push_str(self.text.get(at..).unwrap_or_default());
        match super::value(&new) {
            Ok(found) if found == *expected => Ok(new),
            _ => Err(Refused::File(
                "the way this place is written cannot be changed without changing more than it; edit it by hand"
                    .to_owned(),
            )),
        }
    }

    fn find(&self, tokens: &[String]) -> Option<(&Node, Option<Holder<'_>>)> {
        let mut node = self.root.as_ref()?;
        let mut holder = None;
        for token in tokens {
            (node, holder) = match &node.kind {
                Kind::Mapping { flow, pairs } => {
                    let pair = pairs.iter().find(|pair| pair.key == *token)?;
                    (&pair.node, Some(Holder::Pair { pair, flow: *flow }))
                }
                Kind::Sequence { flow, items } => {
                    let item = items.get(index(token)?)?;
                    (&item.node, Some(Holder::Item { item, flow: *flow }))
                }
                Kind::Scalar(..) => return None,
            };
        }
        Some((node, holder))
    }

    fn set(&self, tokens: &[String], new: &Value) -> Edits {
        if let Some((node, holder)) = self.find(tokens) {
            return self.replace(node, holder, new);
        }
        let Some((last, parents)) = tokens.split_last() else { return self.append_line(&self.root_text(new)) };
        match self.find(parents) {
            Some((parent, _)) => self.add(parent, last, new),
            // Nothing but comments so far.
            None => self.append_line(&render::member(last, new, 0, self.newline)),
        }
    }

    fn root_text(&self, new: &Value) -> String {
        if render::is_block(new) { render::block(new, 0, self.newline) } else { render::inline(new, None) }
    }

    fn append_line(&self, line: &str) -> Edits {
        let end = self.text.len();
        let before = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { self.newline };
        vec![(end..end, format!("{before}{line}{}", self.newline))]
    }

    fn replace(&self, node: &Node, holder: Option<Holder<'_>>, new: &Value) -> Edits {
        let style = match &node.kind {
            Kind::Scalar(style, _) => Some(*style),
            _ => None,
        };
        let (head, column, flow, is_item) = match holder {
            None => return vec![(node.start..node.end, self.root_text(new))],
            Some(Holder::Pair { pair, flow }) => (pair.head, self.column(pair.key_start), flow, false),
            Some(Holder::Item { item, flow }) => (item.head, self.column(item.head.saturating_sub(1)), flow, true),
        };
        let inline = || render::inline(new, style);
        if flow {
            let colon = matches!(holder, Some(Holder::Pair { pair, .. }) if !pair.has_colon);
            let before = match (node.is_absent(), colon) {
                (true, true) => ": ",
                (true, false) => " ",
                (false, _) => "",
            };
            return vec![(node.start..node.end, format!("{before}{}", inline()))];
        }
        let is_block = render::is_block(new);
        let below = column + STEP;
        let lines_below =
            || format!("{}{}{}", self.newline, " ".repeat(below), render::block(new, below, self.newline));
        let head_end = self.line_end(head);
        let on_head_line = node.start <= head_end;
        if style == Some(Style::Lines) {
            // `|` and what belongs to it, then perhaps a comment.
            let header = self.text.get(head..head_end).unwrap_or_default();
            let header = header.trim_start();
            let token = header.find([' ', '\t']).unwrap_or(header.len());
            let token_end = head_end - header.len() + token;
            let body = head_end..self.line_end(node.end.max(head_end));
            let (first, lines) =
                if is_block { (String::new(), lines_below()) } else { (format!(" {}", inline()), String::new()) };
            return vec![(head..token_end, first), (body, lines)];
        }
        if node.is_absent() {
            return match (is_block, is_item) {
                (false, _) => vec![(head..head, format!(" {}", inline()))],
                (true, true) => vec![(head..head, format!(" {}", render::block(new, below, self.newline)))],
                (true, false) => vec![(head_end..head_end, lines_below())],
            };
        }
        match (node.is_inline(), on_head_line, is_block) {
            // A list may stand no deeper than its key; a mapping may not.
            (_, false, true) if !is_item && self.column(node.start) <= column => {
                let text = format!("{}{}", " ".repeat(below), render::block(new, below, self.newline));
                vec![(self.line_start(node.start)..node.end, text)]
            }
            (_, _, true) if is_item || !on_head_line => {
                let text = render::block(new, self.column(node.start), self.newline);
                vec![(node.start..node.end, text)]
            }
            (_, _, true) => {
                let end = self.line_end(node.end);
                vec![(head..node.end, String::new()), (end..end, lines_below())]
            }
            (true, _, false) | (false, true, false) => vec![(node.start..node.end, inline())],
            // A block on lines of its own makes room, with the comments in it.
            (false, false, false) => {
                vec![(head..head, format!(" {}", inline())), (head_end..self.line_end(node.end), String::new())]
            }
        }
    }

    /// A new member, or with `-` a new item, behind the last one.
    fn add(&self, parent: &Node, token: &str, new: &Value) -> Edits {
        match &parent.kind {
            Kind::Mapping { flow: true, pairs } => {
                let member = format!("{}: {}", render::word(token), render::inline(new, None));
                add_in_flow(parent, pairs.last().map(|pair| pair.node.end), &member)
            }
            Kind::Sequence { flow: true, items } => {
                add_in_flow(parent, items.last().map(|item| item.node.end), &render::inline(new, None))
            }
            Kind::Mapping { flow: false, .. } => {
                let column = self.column(parent.start);
                self.add_line(parent, column, &render::member(token, new, column, self.newline))
            }
            Kind::Sequence { flow: false, .. } => {
                let column = self.column(parent.start);
                let item = format!("- {}", render::block(new, column + STEP, self.newline));
                self.add_line(parent, column, &item)
            }
            Kind::Scalar(..) => Edits::new(),
        }
    }

    fn add_line(&self, parent: &Node, column: usize, line: &str) -> Edits {
        let end = self.line_end(parent.end);
        vec![(end..end, format!("{}{}{line}", self.newline, " ".repeat(column)))]
    }

    fn delete(&self, tokens: &[String]) -> Result<Edits, Refused> {
        let missing = || Refused::Place(format!("there is nothing at `{}`", pointer_of(tokens)));
        let (last, parents) = tokens.split_last().ok_or_else(missing)?;
        let (parent, holder) = self.find(parents).ok_or_else(missing)?;
        let (flow, at, spans) = match &parent.kind {
            Kind::Mapping { flow, pairs } => {
                let at = pairs.iter().position(|pair| pair.key == *last).ok_or_else(missing)?;
                (*flow, at, pairs.iter().map(|pair| pair.key_start..pair.node.end).collect::<Vec<_>>())
            }
            Kind::Sequence { flow, items } => {
                let at = index(last).ok_or_else(missing)?;
                let start = |item: &Item| if *flow { item.node.start } else { item.head.saturating_sub(1) };
                // An item that is null without being written still has its dash.
                (*flow, at, items.iter().map(|item| start(item)..item.node.end.max(item.head)).collect())
            }
            Kind::Scalar(..) => return Err(missing()),
        };
        let gone = spans.get(at).cloned().ok_or_else(missing)?;
        if spans.len() == 1 {
            let empty = match &parent.kind {
                Kind::Sequence { .. } => Value::Array(Vec::new()),
                _ => Value::Object(Map::new()),
            };
            return Ok(self.replace(parent, holder, &empty));
        }
        let next = spans.get(at + 1).map(|next| next.start);
        if flow {
            let range = match (next, at.checked_sub(1).and_then(|before| spans.get(before))) {
                (Some(next), _) => gone.start..next,
                (None, Some(before)) => before.end..gone.end,
                (None, None) => gone,
            };
            return Ok(vec![(range, String::new())]);
        }
        let line = self.line_start(gone.start);
        let is_alone = self.text.get(line..gone.start).is_some_and(|before| before.trim().is_empty());
        let end = self.line_end(gone.end);
        if is_alone {
            let end = self.end_with_comments(end, self.column(gone.start));
            return Ok(vec![(self.whole_lines(line, end), String::new())]);
        }
        // It shares its line with what holds it, as the first member of an item does: the next one comes up.
        let up = next.filter(|next| self.text.get(end..*next).is_some_and(|between| between.trim().is_empty()));
        Ok(vec![(gone.start..up.unwrap_or(gone.end), String::new())])
    }

    /// Comments below that stand deeper than what goes are part of it.
    fn end_with_comments(&self, end: usize, column: usize) -> usize {
        let (mut kept, mut at) = (end, end);
        for (number, line) in self.text.get(end..).unwrap_or_default().split_inclusive('\n').enumerate() {
            let written = line.trim_start_matches([' ', '\t']);
            let is_comment = written.starts_with('#');
            match number {
                // What is left of the line that goes.
                0 => {}
                _ if is_comment && line.len() - written.len() > column => kept = self.line_end(at),
                _ if is_comment || !written.trim().is_empty() => break,
                _ => {}
            }
            at += line.len();
        }
        kept
    }

    /// From the beginning of a line to the end of one, with the break that follows, or at the end of the file the one
    /// before.
    fn whole_lines(&self, start: usize, end: usize) -> Range<usize> {
        let rest = self.text.get(end..).unwrap_or_default();
        if let Some(newline) = ["\r\n", "\n"].into_iter().find(|newline| rest.starts_with(newline)) {
            return start..end + newline.len();
        }
        let before = self.text.get(..start).unwrap_or_default();
        let kept = before.strip_suffix('\n').map_or(before, |before| before.strip_suffix('\r').unwrap_or(before));
        kept.len()..end
    }

    fn line_start(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
    }

    /// Before the line break.
    fn line_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        at + line.strip_suffix('\r').unwrap_or(line).len()
    }

    /// Everything before a place in a block is spaces and dashes, so that bytes are columns.
    fn column(&self, at: usize) -> usize {
        at - self.line_start(at)
    }
}

fn add_in_flow(parent: &Node, last: Option<usize>, member: &str) -> Edits {
    match last {
        Some(end) => vec![(end..end, format!(", {member}"))],
        // Between the brackets, with whatever blanks are there.
        None => vec![(parent.start + 1..parent.end.saturating_sub(1), member.to_owned())],
    }
}
