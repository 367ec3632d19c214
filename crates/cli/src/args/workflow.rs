//! `toolgate workflow …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Paging;

#[derive(Subcommand)]
pub enum WorkflowCommand {
    /// Save a workflow from its file, or its next revision
    #[command(after_help = "Example:\n  toolgate workflow save examples/workflows/greet.yaml")]
    Save {
        /// YAML or JSON
        path: PathBuf,
    },
    /// List the workflows
    List(Paging),
    /// Show a workflow's graph
    Show {
        workflow: String,
        /// As it was
        #[arg(long)]
        revision: Option<u32>,
    },
    /// Say what is wrong with a workflow: a file, or a saved one
    #[command(
        after_help = "Examples:\n  toolgate workflow check examples/workflows/greet.yaml\n  toolgate workflow check greet"
    )]
    Check(WorkflowCheck),
    /// Make a tool of a workflow, or the tool's next version
    #[command(after_help = "Example:\n  toolgate workflow publish greet --as greetEverybody")]
    Publish(WorkflowPublish),
    /// Remove a workflow with all its revisions
    Remove { workflow: String },
    /// Run a workflow, and wait until it is over or waits for a person
    #[command(after_help = "Example:\n  toolgate workflow run greet --input '{\"names\": [\"Ada\", \"Ben\"]}'")]
    Run(WorkflowRun),
    /// Go on waiting for a run of a workflow, and show how its nodes stand
    Follow {
        /// The run's id
        run: String,
    },
    /// List the nodes of a run of a workflow, in the order in which they began
    Nodes {
        /// The run's id
        run: String,
        /// Only those that stand so: running, waiting, completed, failed, skipped, cancelled
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Make a node of a recorded call, or of the call that a pin means
    #[command(after_help = "Example:\n  toolgate workflow materialize c_0123456789abcdefghijklmnop")]
    Materialize(Materialize),
}

#[derive(Args)]
pub struct WorkflowCheck {
    /// A file, or the name of a saved workflow
    pub workflow: String,
    /// Look up no tools and no agents; of a file
    #[arg(long)]
    pub offline: bool,
    /// As it was; of a saved one
    #[arg(long, conflicts_with = "offline")]
    pub revision: Option<u32>,
}

#[derive(Args)]
pub struct WorkflowPublish {
    pub workflow: String,
    /// The tool's name; without it the workflow's own
    #[arg(long = "as", value_name = "TOOL")]
    pub tool: Option<String>,
    /// What models read of it: when to use it and when not; without it the workflow's own
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Only say what would be registered
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Args)]
pub struct WorkflowRun {
    /// NAME or NAME@REVISION
    pub workflow: String,
    /// What it is begun with: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub input: String,
    /// The same id again within 24 hours is the first run instead of another
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
    /// Print the run as it begins, and wait for nothing
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Args)]
pub struct Materialize {
    /// A call, by its id
    #[arg(required_unless_present = "pin", conflicts_with = "pin")]
    pub call: Option<String>,
    /// A pin as JSON or @FILE; with --run
    #[arg(long, requires = "run", value_name = "JSON")]
    pub pin: Option<String>,
    /// The run in which the pin's call is looked for
    #[arg(long, requires = "pin")]
    pub run: Option<String>,
    /// The workflow that the node is for, whose ids it does not take
    #[arg(long, value_name = "WORKFLOW")]
    pub into: Option<String>,
}
