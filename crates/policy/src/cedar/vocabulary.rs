//! What there is that policies may name: the schema that they are checked against is made from it.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use toolgate_contracts::definition::EgressClass;
use toolgate_contracts::{FoldedName, Role};

/// The names of a tenant when a policy set is saved.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary<'a> {
    pub tools: Vec<KnownTool<'a>>,
    /// Groups besides those that a tool names.
    pub groups: Vec<&'a str>,
    /// Ids as `principal.id` has them; `None` leaves them unchecked.
    pub agents: Option<Vec<&'a str>>,
    pub workspaces: Option<Vec<&'a str>>,
    /// Those who may decide on approvals; `None` leaves numbers of approvers unchecked.
    pub people: Option<Vec<KnownPerson<'a>>>,
}

#[derive(Clone, Debug)]
pub struct KnownPerson<'a> {
    pub id: String,
    pub roles: &'a [Role],
}

#[derive(Clone, Debug)]
pub struct KnownTool<'a> {
    pub name: &'a str,
    /// Old names that still resolve to it. A policy never sees them.
    pub aliases: Vec<&'a str>,
    pub egress_class: EgressClass,
    pub group: Option<&'a str>,
    /// Of every version that can be called.
    pub input_schemas: Vec<&'a Value>,
}

/// The vocabulary with what is needed to look words up.
pub(super) struct Lexicon<'a> {
    pub tools: HashMap<&'a str, &'a KnownTool<'a>>,
    /// Other spellings and old names, by the tool's own.
    others: HashMap<String, &'a str>,
    pub groups: BTreeSet<&'a str>,
    pub agents: Option<&'a [&'a str]>,
    pub workspaces: Option<&'a [&'a str]>,
}

impl<'a> Lexicon<'a> {
    pub fn new(vocabulary: &'a Vocabulary<'a>) -> Self {
        let Vocabulary { tools, groups, agents, workspaces, people: _ } = vocabulary;
        let mut others = HashMap::new();
        for tool in tools {
            for alias in &tool.aliases {
                others.insert(FoldedName::of(alias).as_str().to_owned(), tool.name);
            }
        }
        // A tool's own name wins over another's alias.
        for tool in tools {
            others.insert(FoldedName::of(tool.name).as_str().to_owned(), tool.name);
        }
        Self {
            tools: tools.iter().map(|tool| (tool.name, tool)).collect(),
            others,
            groups: groups.iter().copied().chain(tools.iter().filter_map(|tool| tool.group)).collect(),
            agents: agents.as_deref(),
            workspaces: workspaces.as_deref(),
        }
    }

    /// The tool that would be called by this name, under its own name.
    pub fn canonical(&self, name: &str) -> Option<&'a str> {
        let bare = name.split_once('@').map_or(name, |(bare, _)| bare).trim_end_matches('.');
        self.others.get(FoldedName::of(bare).as_str()).copied()
    }
}
