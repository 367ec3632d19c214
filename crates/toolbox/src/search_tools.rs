//! The tools that fit some words, best first, among those that the caller has.

use std::future::{Ready, ready};

use toolgate_engine::{Call, Outcome};
use toolgate_registry::finders;

use crate::builtin::Tools;
use crate::catalog::with_registry;

pub(crate) fn run(tools: &Tools, call: &Call) -> Ready<Outcome> {
    let found = with_registry(tools, call, |registry, caller, today| {
        finders::search(registry, caller, today, |_| true, &call.input)
    });
    ready(found.map_or_else(Outcome::Failed, Outcome::structured))
}
