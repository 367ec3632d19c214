//! What an operation is called here: its `operationId` in camelCase, else a verb and the words of its path, within the
//! 64 characters that model providers take, and never twice.

use std::collections::{BTreeMap, BTreeSet};

use toolgate_contracts::name::{FoldedName, PART_CHARS_MAX, ToolName, WIRE_CHARS_MAX};
use toolgate_contracts::runner::Method;

use crate::words;

/// A number behind a name that another operation has.
const NUMBER_CHARS: usize = 6;

/// Where an operation stands, whatever its parameters are called: it keeps the name under which it came first.
pub(crate) type Place = (Method, String);

pub(crate) fn place(method: Method, path: &str) -> Place {
    let mut bare = String::new();
    let mut inside = false;
    for c in path.chars() {
        match c {
            '{' => inside = true,
            '}' => inside = false,
            _ if inside => continue,
            _ => {}
        }
        bare.push(c);
    }
    (method, bare)
}

pub(super) struct Names<'a> {
    pub prefix: Option<&'a str>,
    known: &'a BTreeMap<Place, ToolName>,
    taken: BTreeSet<FoldedName>,
    /// The number that the next operation of a name gets.
    next: BTreeMap<String, u32>,
}

/// A name, and the one that it would have had.
pub(super) struct Named {
    pub name: ToolName,
    pub instead_of: Option<String>,
}

impl<'a> Names<'a> {
    pub fn new(prefix: Option<&'a str>, known: &'a BTreeMap<Place, ToolName>) -> Self {
        Self { prefix, known, taken: known.values().map(ToolName::folded).collect(), next: BTreeMap::new() }
    }

    /// `None` where not even a letter is left.
    pub fn name(&mut self, method: Method, path: &str, id: Option<&str>) -> Option<Named> {
        if let Some(known) = self.known.get(&place(method, path)) {
            return Some(Named { name: known.clone(), instead_of: None });
        }
        let room = match self.prefix {
            Some(prefix) => PART_CHARS_MAX.min(WIRE_CHARS_MAX.saturating_sub(prefix.len() + 2)),
            None => PART_CHARS_MAX,
        };
        let base = own_name(method, path, id);
        let first = self.spelled(&joined(&base, room))?;
        if self.taken.insert(first.folded()) {
            return Some(Named { name: first, instead_of: None });
        }
        let short = joined(&base, room.saturating_sub(NUMBER_CHARS));
        loop {
            let number = self.next.entry(short.clone()).or_insert(2);
            let numbered = format!("{short}{number}");
            *number += 1;
            let name = self.spelled(&numbered)?;
            if self.taken.insert(name.folded()) {
                return Some(Named { name, instead_of: Some(first.to_string()) });
            }
        }
    }

    fn spelled(&self, part: &str) -> Option<ToolName> {
        match self.prefix {
            Some(prefix) => format!("{prefix}.{part}").parse().ok(),
            None => part.parse().ok(),
        }
    }
}

/// The words of its name; what is not ASCII is left out.
fn own_name(method: Method, path: &str, id: Option<&str>) -> Vec<String> {
    let said = id.map(ascii_words).filter(|words| starts_with_letter(words));
    said.unwrap_or_else(|| {
        let mut words = vec![verb(method, path).to_owned()];
        for segment in path.split('/').filter(|segment| !segment.is_empty() && !is_version(segment)) {
            if let Some(parameter) = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                words.push("by".to_owned());
                words.extend(ascii_words(parameter));
            } else {
                words.extend(ascii_words(segment));
            }
        }
        words
    })
}

fn ascii_words(text: &str) -> Vec<String> {
    let ascii: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
    words::split(&ascii)
}

fn starts_with_letter(words: &[String]) -> bool {
    words.first().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
}

fn is_version(segment: &str) -> bool {
    segment == "api"
        || segment
            .strip_prefix('v')
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

fn verb(method: Method, path: &str) -> &'static str {
    let one = path.trim_end_matches('/').ends_with('}');
    match method {
        Method::Get if one => "get",
        Method::Get => "list",
        Method::Head => "check",
        Method::Post => "create",
        Method::Put => "replace",
        Method::Patch => "update",
        Method::Delete => "delete",
    }
}

/// camelCase, of as many whole words as there is room for.
fn joined(words: &[String], chars_max: usize) -> String {
    let mut name = String::new();
    for (index, word) in words.iter().enumerate() {
        if index > 0 && name.len() + word.len() > chars_max {
            break;
        }
        match word.split_at_checked(1) {
            Some((first, rest)) if index > 0 => {
                name.push_str(&first.to_ascii_uppercase());
                name.push_str(rest);
            }
            _ => name.push_str(word),
        }
    }
    name.truncate(chars_max);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_a_verb_and_a_noun_where_the_document_has_none() {
        let known = BTreeMap::new();
        for (method, path, id, expected) in [
            (Method::Get, "/pets", None, "listPets"),
            (Method::Get, "/api/v1/pets/{petId}", None, "getPetsByPetId"),
            (Method::Delete, "/pets/{pet-id}/toys/{n}", None, "deletePetsByPetIdToysByN"),
            (Method::Post, "/", None, "create"),
            (Method::Get, "/x", Some("findPetsByStatus"), "findPetsByStatus"),
            (Method::Get, "/x", Some("repos/list-for-org"), "reposListForOrg"),
            (Method::Get, "/x", Some("get_users_users__get"), "getUsersUsersGet"),
            (Method::Get, "/x", Some("3dModels"), "listX"),
            (Method::Get, "/straße/größe", Some("…"), "listStraEGrE"),
        ] {
            let named = Names::new(None, &known).name(method, path, id).unwrap();
            assert_eq!(named.name.as_str(), expected, "{path} {id:?}");
        }
    }

    #[test]
    fn a_name_is_within_64_characters_and_never_there_twice() {
        let known = BTreeMap::new();
        let mut names = Names::new(Some("billing"), &known);
        let long = "list every single invoice that was ever written to anybody in the whole wide world";
        let mut all = BTreeSet::new();
        for index in 0..300 {
            let named = names.name(Method::Get, &format!("/{index}"), Some(long)).unwrap();
            assert!(named.name.wire().len() <= WIRE_CHARS_MAX, "{}", named.name);
            assert_eq!(named.instead_of.is_some(), index > 0);
            assert!(named.name.as_str().starts_with("billing.listEverySingle"), "{}", named.name);
            assert!(all.insert(named.name.folded()), "{} twice", named.name);
        }
    }

    #[test]
    fn an_operation_keeps_its_name_when_others_come() {
        let known = BTreeMap::from([(place(Method::Get, "/b/{id}"), "getUser2".parse().unwrap())]);
        let mut names = Names::new(None, &known);
        let mut name = |path: &str| names.name(Method::Get, path, Some("getUser")).unwrap().name.to_string();
        assert_eq!([name("/a"), name("/b/{user}"), name("/c")], ["getUser", "getUser2", "getUser3"]);
    }
}
