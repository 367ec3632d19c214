//! The interface of `wit/plugin.wit` as Rust, and what of WASI stands behind a component's imports.

use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Engine, Result};

use super::host::State;

pub mod tool {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "tool",
        imports: { default: async | trappable },
        exports: { default: async },
    });
}

pub mod detector {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "detector",
        imports: { default: async | trappable },
        exports: { default: async },
        with: {
            "toolgate:plugin/host@1.0.0": super::tool::toolgate::plugin::host,
            "toolgate:plugin/types@1.0.0": super::tool::toolgate::plugin::types,
        },
    });
}

pub use tool::toolgate::plugin::{host, types};

/// A component that is ready to be instantiated.
pub enum Kind {
    Tool(tool::ToolPre<State>),
    Detector(detector::DetectorPre<State>),
}

/// What a component may import.
const IMPORTS: [&str; 7] =
    ["toolgate:plugin/", "wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

/// Everything that stands behind an import. Of WASI it is all there, since a language's runtime imports all of it whether
/// it uses it or not; what it can reach is decided by the state of an instance, and that is nothing.
pub fn linker(engine: &Engine) -> Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    host::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// Looks at what a component imports and exports, and has it ready; or says what is wrong with it.
pub fn ready(component: &Component, linker: &Linker<State>) -> std::result::Result<Kind, String> {
    let engine = component.engine();
    let shape = component.component_type();
    let foreign =
        shape.imports(engine).map(|(name, _)| name).find(|name| !IMPORTS.iter().any(|known| name.starts_with(known)));
    if let Some(name) = foreign {
        return Err(format!("it imports `{}`, which plug-ins are not given", name.escape_debug()));
    }
    let exports = |wanted: &str| shape.exports(engine).any(|(name, _)| name == wanted);
    let unfit = |error: wasmtime::Error| format!("it does not have the interface: {error}");
    let instance = linker.instantiate_pre(component).map_err(unfit)?;
    if exports("run") {
        return tool::ToolPre::new(instance).map(Kind::Tool).map_err(unfit);
    }
    if exports("examine") {
        return detector::DetectorPre::new(instance).map(Kind::Detector).map_err(unfit);
    }
    Err("it exports neither `run` nor `examine`".to_owned())
}
