//! One tool whole: what it takes, what it gives, what it does and whether a person is asked.

use std::future::{Ready, ready};

use toolgate_engine::{Call, Outcome};
use toolgate_registry::finders;

use crate::builtin::Tools;
use crate::catalog::with_registry;

pub(crate) fn run(tools: &Tools, call: &Call) -> Ready<Outcome> {
    let described = with_registry(tools, call, |registry, caller, today| {
        finders::describe(registry, caller, today, |_| true, &call.input)
    });
    ready(described.map_or_else(Outcome::Failed, Outcome::structured))
}
