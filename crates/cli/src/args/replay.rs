//! `toolgate replay`.

use std::path::PathBuf;

use clap::Args;

/// Replay an agent's run from its bundle, without a server
///
/// Questions to the model, decisions and outputs are compared. Ends with 0 if all are equal, with 1 and the first difference,
/// with 2 if the bundle was changed or its signature does not hold. Nothing is called.
#[derive(Args)]
#[command(
    after_help = "A bundle is made by `toolgate run export`.\n\nExamples:\n  toolgate replay run.json\n  toolgate replay run.json --verifier KEY\n  toolgate replay run.json --policy stricter.cedar\n  toolgate replay run.json --tool tools/lookUp/TOOL.md --script other-model.yaml"
)]
pub struct Replay {
    /// The bundle
    pub file: PathBuf,
    /// Decide by these Cedar policies instead of those that decided
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Judge what was asked of a tool by this TOOL.md; may be repeated
    #[arg(long = "tool", value_name = "FILE")]
    pub tools: Vec<PathBuf>,
    /// Have this script answer instead of the model; its calls are answered as they were recorded
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Believe this key of the log alone (NAME+ID+BASE64); may be repeated
    #[arg(long = "verifier", value_name = "KEY")]
    pub verifiers: Vec<String>,
}
