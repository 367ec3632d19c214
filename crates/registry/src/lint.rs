//! What `toolgate tool test` says about a definition: what registration refuses, and what makes a tool hard to
//! use for a model, a person or a provider.
//!
//! Two questions, two functions. [`refusals`] is the law: only errors, the same for everyone, asked again at
//! registration. [`check`] adds advice: its errors fail `tool test` (and so an author's own pipeline), never a
//! registration, because a snake_case name or a terse description harms nobody but its reader.

mod code;
mod consistency;
mod hints;
mod naming;
mod places;
mod provider;
mod shape;
mod steps;
mod text;
mod wishes;
mod wording;

use std::collections::BTreeSet;

use toolgate_contracts::Runner;
use toolgate_contracts::definition::{Definition, Origin};

pub use self::naming::GRANDFATHERED;
pub(crate) use self::text::walk as hidden;
pub(crate) use self::wording::steering;
use crate::finding::{self, Finding, Severity, has_errors};
use crate::floor::{self, Known};
use crate::schema;

/// What a definition is judged beside.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Names of upstream and imported tools are not their registrar's to choose.
    pub origin: Origin,
    /// The tools it will stand beside.
    pub names: &'a BTreeSet<String>,
    /// The current day, `YYYY-MM-DD`; without it dates are not compared.
    pub today: Option<&'a str>,
    /// Functions and tools it may call; without it they are taken on trust.
    pub known: Option<&'a dyn Known>,
}

/// Everything worth saying, gravest first within a place. Lines are the caller's to add.
pub fn check(definition: &Definition, context: &Context<'_>) -> Vec<Finding> {
    let mut findings = refusals(definition, context.known);
    let broken = has_errors(&findings);
    findings.extend(schema_findings(definition).into_iter().filter(|finding| finding.severity != Severity::Error));
    naming::check(definition, context, &mut findings);
    wording::check(definition, &mut findings);
    hints::check(definition, context, &mut findings);
    shape::check(definition, context.origin, &mut findings);
    wishes::check(definition, context, &mut findings);
    if let Runner::Python(python) = &definition.runner {
        code::gives_back(&python.code, &mut findings);
    }
    if !broken {
        // These compile the schemas, so they have to be sound.
        shape::check_values(definition, &mut findings);
        provider::check(definition, &mut findings);
    }
    finding::sort(&mut findings);
    findings.truncate(finding::FINDINGS_MAX);
    findings
}

/// What registration refuses: only errors.
pub fn refusals(definition: &Definition, known: Option<&dyn Known>) -> Vec<Finding> {
    let mut findings = schema_findings(definition);
    match known {
        Some(known) => findings.extend(floor::check(definition, known).err().unwrap_or_default()),
        None => findings.extend(floor::check_alone(definition).err().unwrap_or_default()),
    }
    consistency::check(definition, &mut findings);
    places::check(definition, known, &mut findings);
    text::check(definition, &mut findings);
    findings.retain(|finding| finding.severity == Severity::Error);
    findings
}

fn schema_findings(definition: &Definition) -> Vec<Finding> {
    let mut findings = schema::check(&definition.input_schema, "/input_schema");
    if let Some(output) = &definition.output_schema {
        findings.extend(schema::check(output, "/output_schema"));
    }
    findings
}

#[cfg(test)]
mod tests;
