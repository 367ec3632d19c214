//! The tools that ship with Toolgate: their definitions, and what each function does whatever its definition says.

use toolgate_registry::commands::{Builtins, CodeTool};
use toolgate_registry::floor::Floor;

macro_rules! tools {
    ($($name:literal),* $(,)?) => {
        &[$(CodeTool { file: concat!("tools/", $name, "/TOOL.md"), text: include_bytes!(concat!("../tools/", $name, "/TOOL.md")) }),*]
    };
}

pub const TOOLS: &[CodeTool] = tools!["append_note", "calculator", "echo", "now", "wait"];

/// The functions behind them.
pub const BUILTINS: Builtins = Builtins { names: &["append_note", "calculator", "echo", "now", "wait"], floor };

/// The mildest a definition of this function may claim to be; `None` for a function that is not here.
fn floor(function: &str) -> Option<Floor> {
    match function {
        "calculator" | "echo" | "now" | "wait" => Some(Floor::NOTHING),
        "append_note" => Some(Floor { changes_state: true, ..Floor::NOTHING }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use toolgate_contracts::definition::Origin;
    use toolgate_registry::{Severity, lint, tool_md};

    use super::*;

    #[test]
    fn every_shipped_tool_passes_its_own_test() {
        let names: BTreeSet<String> = BUILTINS.names.iter().map(|name| (*name).to_owned()).collect();
        for tool in TOOLS {
            let authored = tool_md::parse(tool.text).unwrap_or_else(|findings| panic!("{}: {findings:?}", tool.file));
            assert!(authored.definition.version.is_some(), "{}: a shipped tool names its version", tool.file);
            let context = lint::Context { origin: Origin::Code, names: &names, today: None, known: None };
            let mut findings = lint::check(&authored.definition, &context);
            findings.retain(|finding| finding.severity != Severity::Note);
            assert!(findings.is_empty(), "{}: {findings:#?}", tool.file);
        }
    }

    #[test]
    fn every_function_has_a_floor() {
        assert!(BUILTINS.names.iter().all(|name| (BUILTINS.floor)(name).is_some()));
        assert!((BUILTINS.floor)("rm").is_none());
    }
}
