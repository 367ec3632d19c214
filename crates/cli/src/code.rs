//! The tools that are compiled into this program, and what runs tools in it.

use std::sync::Arc;

use toolgate_engine::Runners;
use toolgate_server::{CodeTools, Wiring};
use toolgate_toolbox::{Builtin, Tools};

pub const fn code_tools() -> CodeTools {
    CodeTools { tools: toolgate_toolbox::TOOLS, builtins: toolgate_toolbox::BUILTINS, runners }
}

fn runners(wiring: &Wiring<'_>) -> Runners {
    let Wiring { store, clock, rng, data } = *wiring;
    let tools = Tools { store: store.clone(), clock: clock.clone(), rng: rng.clone(), files: data.join("files") };
    Runners::default().with("builtin", Arc::new(Builtin::new(tools)))
}
