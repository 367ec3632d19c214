//! `toolgate plugin …`.

use std::path::PathBuf;

use clap::Subcommand;

use super::Paging;

#[derive(Subcommand)]
pub enum PluginCommand {
    /// Install a component, so that tools may name it; it is asked once what it is
    #[command(
        after_help = "Examples:\n  toolgate plugin install analyzeText.wasm --register\n  toolgate plugin install analyzeText.wasm > TOOL.md"
    )]
    Install {
        /// The component, or - for standard input
        file: PathBuf,
        /// What definitions name it by [default: the name that it gives itself]
        #[arg(long)]
        name: Option<String>,
        /// Register the tool that it describes; without this, print the TOOL.md that would
        #[arg(long)]
        register: bool,
        /// Give the tool the hosts and secrets that the plug-in asks for
        #[arg(long, requires = "register")]
        grant: bool,
    },
    /// List what is installed, all versions
    List(Paging),
    /// Show what a plug-in says of itself, and which tools it runs
    Show {
        /// A name, a name@version or a digest
        plugin: String,
    },
    /// Remove one version of a plug-in that no tool names
    Remove {
        /// A name@version or a digest; a name where one version is installed
        plugin: String,
    },
}
