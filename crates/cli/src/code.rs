//! The tools that are compiled into this program.

use toolgate_registry::commands::Builtins;
use toolgate_server::CodeTools;

pub const fn code_tools() -> CodeTools {
    CodeTools { tools: &[], builtins: Builtins { names: &[], floor: |_| None } }
}
