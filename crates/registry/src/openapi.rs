//! OpenAPI documents as tools: which operations there are, which were chosen, and the definition of each.
//!
//! Pure: bytes and a choice in, definitions and findings out. A definition is complete in itself, so what a document says
//! later changes nothing until it is imported again. Deliberately absent: fetching, and comparing with what is
//! registered (`commands::imports`).

mod answer;
mod body;
mod choice;
mod document;
mod naming;
mod operation;
mod parameters;
mod prose;
mod schema;
mod security;

use std::collections::{BTreeMap, BTreeSet};

use toolgate_contracts::runner::Method;
use toolgate_contracts::{Definition, ToolName};

pub use self::choice::Choice;
use self::document::Part;
pub use self::document::{DOCUMENT_BYTES_MAX, Document};
use self::naming::{Named, Names};
pub(crate) use self::naming::{Place, place};
use self::operation::Item;
use crate::finding::{Finding, shown};

/// Chosen in one import.
pub const OPERATIONS_MAX: usize = 1_000;

const METHODS: [(&str, Method); 6] = [
    ("get", Method::Get),
    ("head", Method::Head),
    ("post", Method::Post),
    ("put", Method::Put),
    ("patch", Method::Patch),
    ("delete", Method::Delete),
];

/// What became of one operation of the document.
#[derive(Debug)]
pub struct Operation {
    /// `operationId`, or method and path.
    pub operation: String,
    pub method: Method,
    pub path: String,
    pub name: Option<ToolName>,
    pub made: Made,
    pub findings: Vec<Finding>,
}

#[derive(Debug)]
pub enum Made {
    Definition(Box<Definition>),
    /// The findings say why.
    Refused,
    /// It is deprecated and was not named.
    Deprecated,
    NotChosen,
}

/// Every operation of a document, in its order.
#[derive(Debug)]
pub struct Imported {
    pub operations: Vec<Operation>,
    /// Of the document as a whole.
    pub findings: Vec<Finding>,
}

/// Makes definitions of what was chosen. `known` are the names under which operations of it are registered.
pub(crate) fn imported(
    document: &Document,
    choice: &Choice,
    known: &BTreeMap<Place, ToolName>,
) -> Result<Imported, Vec<Finding>> {
    choice.check().map_err(|finding| vec![finding])?;
    let mut findings = document.notes.clone();
    let items = items(document, &mut findings);
    // Those who have a name keep it; the others are named around them, in the order of the document. The name of an
    // operation that went elsewhere is free again.
    let places: BTreeSet<Place> = items.iter().map(|item| place(item.method, item.path)).collect();
    let known = known.iter().filter(|(place, _)| places.contains(*place));
    let known = known.map(|(place, name)| (place.clone(), name.clone())).collect();
    let mut names = Names::new(choice.prefix.as_deref(), &known);
    let named: Vec<(Item<'_>, Option<Named>)> = items
        .into_iter()
        .map(|item| {
            let named = names.name(item.method, item.path, item.id());
            (item, named)
        })
        .collect();
    choice.check_matches(&named)?;
    let chosen = named.iter().filter(|(item, named)| choice.takes(item, named.as_ref())).count();
    if chosen > OPERATIONS_MAX {
        let message = format!("{chosen} operations were chosen, the limit is {OPERATIONS_MAX}");
        let fix = "choose some by operation, tag or path";
        return Err(vec![Finding::error("openapi.too-many-operations", "/paths", message, fix)]);
    }
    let operations = named.into_iter().map(|(item, named)| one(document, &item, named, choice)).collect();
    Ok(Imported { operations, findings: document.located(findings) })
}

fn one(document: &Document, item: &Item<'_>, named: Option<Named>, choice: &Choice) -> Operation {
    let mut findings = Vec::new();
    let is_named = choice.names(item, named.as_ref());
    let takes = choice.takes(item, named.as_ref());
    let made = match &named {
        _ if !takes => Made::NotChosen,
        _ if item.is_deprecated() && !is_named => {
            let message = format!("`{}` is deprecated in the document", shown(&item.label()));
            let fix = "name it with `--operation` to have it all the same";
            findings.push(Finding::note("openapi.deprecated", item.part.pointer.clone(), message, fix));
            Made::Deprecated
        }
        None => {
            let message = format!("`{}` has no letter that a name could be made of", shown(&item.label()));
            let fix = "give it an `operationId` in ASCII letters";
            findings.push(Finding::error("openapi.name", item.part.pointer.clone(), message, fix));
            Made::Refused
        }
        Some(Named { name, instead_of }) => {
            if let Some(wanted) = instead_of {
                let message = format!("several operations would be called `{wanted}`; this one is `{name}`");
                let fix = "nothing to do; an `operationId` of its own gives it a better name";
                findings.push(Finding::warning("openapi.collision", item.part.pointer.clone(), message, fix));
            }
            match operation::definition(document, item, name, choice, &mut findings) {
                Ok(definition) => Made::Definition(Box::new(definition)),
                Err(refusals) => {
                    findings.extend(refusals);
                    Made::Refused
                }
            }
        }
    };
    Operation {
        operation: item.label(),
        method: item.method,
        path: item.path.to_owned(),
        name: named.map(|named| named.name),
        made,
        findings: document.located(findings),
    }
}

/// Every operation, by path and method as the document has them.
fn items<'d>(document: &'d Document, findings: &mut Vec<Finding>) -> Vec<Item<'d>> {
    let mut items = Vec::new();
    let root = document.root();
    for (path, part) in root.member("paths").iter().flat_map(Part::members) {
        if !path.starts_with('/') {
            if !path.starts_with("x-") {
                let message = format!("the path `{}` does not begin with `/`", shown(path));
                findings.push(Finding::warning("openapi.path", part.pointer, message, "it is left out"));
            }
            continue;
        }
        let part = match document.resolved(&part) {
            Ok(part) => part,
            Err(mut finding) => {
                finding.severity = crate::Severity::Warning;
                "the path is left out".clone_into(&mut finding.fix);
                findings.push(finding);
                continue;
            }
        };
        for (word, method) in METHODS {
            if let Some(operation) = part.member(word).filter(|operation| operation.value.is_object()) {
                items.push(Item { method, path, path_part: part.clone(), part: operation });
            }
        }
        for word in ["options", "trace"].into_iter().filter(|word| part.value.get(word).is_some()) {
            let message = format!("`{} {}` is no operation of a tool", word.to_ascii_uppercase(), shown(path));
            findings.push(Finding::note("openapi.method", part.pointer.clone(), message, "it is left out"));
        }
    }
    items
}

#[cfg(test)]
mod tests;
