//! Which line of a file a JSON Pointer means.

use std::collections::HashMap;

use crate::finding::Finding;

/// A tree beside the value, not a map of pointers: a long key above many items would make those quadratic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    pub line: u32,
    pub members: HashMap<String, Lines>,
    pub items: Vec<Lines>,
}

/// Line numbers of a definition that came from a file; empty for one that came over the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineMap {
    pub(super) root: Option<Lines>,
    /// Where the Markdown body begins.
    pub(super) docs: Option<u32>,
    /// Places of a converted schema and where they were written: (now, then), longest first.
    pub(super) moved: Vec<(String, String)>,
}

impl LineMap {
    /// Of a file that is nothing but what was read.
    pub(crate) fn of(root: Lines) -> Self {
        Self { root: Some(root), docs: None, moved: Vec::new() }
    }

    /// The line of the member, or of the nearest one around it.
    pub fn line(&self, pointer: &str) -> Option<u32> {
        let mut place = self.root.as_ref()?;
        if pointer == "/docs" {
            return self.docs.or(Some(place.line));
        }
        let written = self.written_at(pointer);
        for token in written.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            let next = place
                .members
                .get(&token)
                .or_else(|| token.parse().ok().and_then(|index: usize| place.items.get(index)));
            match next {
                Some(next) => place = next,
                None => break,
            }
        }
        Some(place.line)
    }

    pub fn locate(&self, findings: &mut [Finding]) {
        for finding in findings {
            finding.line = finding.line.or_else(|| self.line(&finding.pointer));
        }
    }

    fn written_at(&self, pointer: &str) -> String {
        let moved = self.moved.iter().find_map(|(now, then)| {
            let rest = pointer.strip_prefix(now.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{then}{rest}"))
        });
        moved.unwrap_or_else(|| pointer.to_owned())
    }

    pub(super) fn remember_moves(&mut self, moves: impl IntoIterator<Item = (String, String)>) {
        self.moved.extend(moves.into_iter().filter(|(now, then)| now != then));
        self.moved.sort_by(|left, right| right.0.len().cmp(&left.0.len()).then_with(|| left.cmp(right)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(line: u32) -> Lines {
        Lines { line, ..Lines::default() }
    }

    #[test]
    fn a_pointer_finds_its_line_or_the_nearest_around_it() {
        let schema = Lines { line: 3, members: HashMap::from([("a/b".to_owned(), leaf(4))]), items: vec![leaf(9)] };
        let root = Lines { line: 1, members: HashMap::from([("input_schema".to_owned(), schema)]), items: vec![] };
        let mut map = LineMap { root: Some(root), docs: Some(20), moved: Vec::new() };
        assert_eq!(map.line("/input_schema/a~1b"), Some(4));
        assert_eq!(map.line("/input_schema/0"), Some(9));
        assert_eq!(map.line("/input_schema/missing/deep"), Some(3));
        assert_eq!(map.line("/docs"), Some(20));
        map.remember_moves([("/input_schema/$defs/x".to_owned(), "/input_schema/a~1b".to_owned())]);
        assert_eq!(map.line("/input_schema/$defs/x/type"), Some(4));
        assert_eq!(LineMap::default().line("/name"), None);
    }
}
