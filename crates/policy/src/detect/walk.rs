//! The way through a value that all detectors share: every member name, text and number once, within bounds.

use std::collections::BTreeSet;

use serde_json::{Number, Value};
use toolgate_contracts::guardrail::Finding;
use toolgate_contracts::json;

/// Of all texts and names together.
pub const TEXT_BYTES_MAX: usize = 4 << 20;
pub const VALUES_MAX: usize = 1_000_000;
pub const DEPTH_MAX: usize = 128;
/// As many places are named; there may be more.
pub const PATHS_MAX: usize = 16;
const POINTER_BYTES_MAX: usize = 512;

/// One thing to look at.
pub struct Leaf<'a> {
    /// The member that it is the value of.
    pub name: Option<&'a str>,
    pub content: Content<'a>,
}

pub enum Content<'a> {
    /// The name of a member itself.
    Name(&'a str),
    Text(&'a str),
    Number(&'a Number),
}

impl<'a> Leaf<'a> {
    pub fn text(&self) -> Option<&'a str> {
        match self.content {
            Content::Name(text) | Content::Text(text) => Some(text),
            Content::Number(_) => None,
        }
    }
}

/// What was found, in our own words.
#[derive(Default)]
pub struct Found {
    here: bool,
    kinds: BTreeSet<&'static str>,
}

impl Found {
    pub fn mark(&mut self, kind: &'static str) {
        self.here = true;
        self.kinds.insert(kind);
    }
}

pub fn examine(value: &Value, mut look: impl FnMut(&Leaf<'_>, &mut Found)) -> Finding {
    let mut walk = Walk {
        look: &mut look,
        found: Found::default(),
        path: Vec::new(),
        shown: usize::MAX,
        paths: Vec::new(),
        bytes: 0,
        values: 0,
    };
    let end = walk.value(value, None);
    let mut reasons: Vec<&str> = walk.found.kinds.iter().copied().collect();
    if end == End::TooLarge {
        reasons.push("more than can be examined");
    }
    Finding {
        matched: !reasons.is_empty(),
        reason: (!reasons.is_empty()).then(|| format!("there is {}", listed(&reasons))),
        paths: walk.paths,
    }
}

pub fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).to_owned(),
        [words @ .., last] => format!("{} and {last}", words.join(", ")),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Through,
    /// Enough was found.
    Full,
    TooLarge,
}

struct Walk<'w, 'v, F> {
    look: &'w mut F,
    found: Found,
    path: Vec<Step<'v>>,
    /// How many steps of the path may be shown: a name that matched is itself what must not be quoted.
    shown: usize,
    paths: Vec<String>,
    bytes: usize,
    values: usize,
}

enum Step<'v> {
    Name(&'v str),
    Index(usize),
}

impl<'v, F: FnMut(&Leaf<'_>, &mut Found)> Walk<'_, 'v, F> {
    fn value(&mut self, value: &'v Value, name: Option<&'v str>) -> End {
        self.values += 1;
        if self.values > VALUES_MAX || self.path.len() > DEPTH_MAX {
            return End::TooLarge;
        }
        match value {
            Value::Null | Value::Bool(_) => End::Through,
            Value::Number(number) => self.leaf(&Leaf { name, content: Content::Number(number) }).1,
            Value::String(text) => self.leaf(&Leaf { name, content: Content::Text(text) }).1,
            Value::Array(items) => {
                self.each(items.iter().enumerate().map(|(index, item)| (Step::Index(index), item)), name)
            }
            Value::Object(members) => self.members(members),
        }
    }

    fn each(&mut self, items: impl Iterator<Item = (Step<'v>, &'v Value)>, name: Option<&'v str>) -> End {
        for (step, item) in items {
            self.path.push(step);
            let end = self.value(item, name);
            self.path.pop();
            if end != End::Through {
                return end;
            }
        }
        End::Through
    }

    fn members(&mut self, members: &'v serde_json::Map<String, Value>) -> End {
        for (name, member) in members {
            let (matched, end) = self.leaf(&Leaf { name: None, content: Content::Name(name) });
            if end != End::Through {
                return end;
            }
            let shown = self.shown;
            if matched {
                self.shown = shown.min(self.path.len());
            }
            let end = self.each(std::iter::once((Step::Name(name), member)), Some(name));
            self.shown = shown;
            if end != End::Through {
                return end;
            }
        }
        End::Through
    }

    /// Whether it matched, and whether to go on.
    fn leaf(&mut self, leaf: &Leaf<'_>) -> (bool, End) {
        self.bytes = self.bytes.saturating_add(leaf.text().map_or(0, str::len));
        if self.bytes > TEXT_BYTES_MAX {
            return (false, End::TooLarge);
        }
        (self.look)(leaf, &mut self.found);
        if !std::mem::take(&mut self.found.here) {
            return (false, End::Through);
        }
        let pointer = self.pointer();
        if !self.paths.contains(&pointer) {
            self.paths.push(pointer);
        }
        (true, if self.paths.len() < PATHS_MAX { End::Through } else { End::Full })
    }

    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in self.path.iter().take(self.shown) {
            let token = match step {
                Step::Name(name) => json::escape(name),
                Step::Index(index) => index.to_string(),
            };
            if pointer.len() + token.len() >= POINTER_BYTES_MAX {
                break;
            }
            pointer.push('/');
            pointer.push_str(&token);
        }
        pointer
    }
}
