//! The tools that are compiled into this program.

use toolgate_server::CodeTools;

pub const fn code_tools() -> CodeTools {
    CodeTools { tools: toolgate_toolbox::TOOLS, builtins: toolgate_toolbox::BUILTINS }
}
