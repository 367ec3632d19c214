//! What the result of a tool adds, by where it comes from.
//!
//! Silence never trusts: a runner that reaches outside brings untrusted data, one that reads the tenant's own brings
//! private data. Only who answers for the installation may say that an output is better than its source.

use toolgate_contracts::Definition;
use toolgate_contracts::definition::{EgressClass, Origin, Sink};
use toolgate_contracts::runner::{Python, Runner, Wasm};

use super::Labels;

/// Functions that read what the kind `sql` reads.
const QUERIES: [&str; 2] = ["database_read", "run_sql_write"];
/// Functions that show the operator's files, or what the operator's commands print.
const OPERATORS: [&str; 3] = ["config_manager.list_changes", "config_manager.update_yaml", "monorepo_cli.run_script"];

/// Who stands behind `labels.clears` of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// It is part of the program, or the operator classified it.
    Operator,
    /// A tenant's author, an upstream, an imported document: it may add labels and clears none.
    Other,
}

impl Authority {
    /// `classified`: the operator has said himself which labels this tool's output has.
    pub const fn of(origin: Origin, classified: bool) -> Self {
        match origin {
            Origin::Code => Self::Operator,
            _ if classified => Self::Operator,
            Origin::Tenant | Origin::Upstream | Origin::Openapi | Origin::Bundle => Self::Other,
        }
    }
}

/// What joins the labels of a run when it reads this tool's result. What the run has seen before stays.
pub fn sources(definition: &Definition, authority: Authority, secret_used: bool) -> Labels {
    along_edge(definition, authority, Labels::NONE, secret_used)
}

/// The labels of a result whose inputs are known, as in a workflow, where they go along edges only.
pub fn along_edge(definition: &Definition, authority: Authority, inputs: Labels, secret_used: bool) -> Labels {
    let secret = if secret_used { Labels::PRIVATE } else { Labels::NONE };
    let brought = inputs.join(by_runner(definition)).join(secret);
    let Some(rules) = &definition.labels else { return brought };
    let cleared = match authority {
        Authority::Operator => Labels::from(rules.clears.as_slice()),
        Authority::Other => Labels::NONE,
    };
    brought.without(cleared).join(Labels::from(rules.adds.as_slice()))
}

fn by_runner(definition: &Definition) -> Labels {
    match &definition.runner {
        Runner::Mcp(_)
        | Runner::Http(_)
        | Runner::Openapi(_)
        | Runner::External(_) => Labels::UNTRUSTED,
        Runner::Python(Python { hosts, .. }) | Runner::Wasm(Wasm { hosts, .. }) if !hosts.is_empty() => {
            Labels::UNTRUSTED
        }
        Runner::Sql(_) | Runner::Record(_) => Labels::PRIVATE,
        // By the function, since a definition of a tenant's own may leave out what the shipped one says.
        Runner::Builtin(builtin) if QUERIES.contains(&builtin.function.as_str()) => Labels::PRIVATE,
        // What a command prints can come from any file of the machine.
        Runner::Script(_) => Labels::UNTRUSTED.join(Labels::PRIVATE),
        Runner::Builtin(builtin) if OPERATORS.contains(&builtin.function.as_str()) => {
            Labels::UNTRUSTED.join(Labels::PRIVATE)
        }
        // A function that fetches what it is told to; one that only computes adds nothing of its own.
        Runner::Builtin(_) if reaches_out(definition) => Labels::UNTRUSTED,
        Runner::Builtin(_)
        | Runner::Python(_)
        | Runner::Wasm(_)
        // What an agent or a workflow has seen joins with its answer, when it is known.
        | Runner::Prompt(_)
        | Runner::Task(_)
        | Runner::Composition(_)
        | Runner::Workflow(_)
        | Runner::Expression(_) => Labels::NONE,
    }
}

fn reaches_out(definition: &Definition) -> bool {
    definition.class() == EgressClass::ReadOnly || definition.effective_sink() == Sink::Open
}
