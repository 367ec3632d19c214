//! `toolgate agent …` and `toolgate profile …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use toolgate_contracts::Toolset;

use super::{Paging, one_of};

#[derive(Subcommand)]
pub enum AgentCommand {
    /// Create an agent
    #[command(
        after_help = "Examples:\n  toolgate agent create --name billing --model openai/gpt-5 --instructions @billing.txt\n  toolgate agent create --file agents/billing.yaml"
    )]
    Create {
        /// The agent as a YAML or JSON file; `-` reads standard input
        #[arg(long, value_name = "FILE", required_unless_present = "name")]
        file: Option<PathBuf>,
        /// Its short name
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        fields: AgentFields,
    },
    /// Change an agent: what is not named stays
    Update {
        /// The agent's name or id
        agent: String,
        /// Replace the whole definition by this file; `-` reads standard input
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        fields: AgentFields,
    },
    /// List the agents
    List(Paging),
    /// Show an agent
    #[command(after_help = "Example:\n  toolgate agent show billing --tools --why")]
    Show {
        /// The agent's name or id
        agent: String,
        /// Also the tools it has
        #[arg(long)]
        tools: bool,
        /// Every tool, with why the agent has it or not
        #[arg(long)]
        why: bool,
    },
    Run(super::AgentRun),
    /// Delete an agent
    Delete {
        agent: String,
    },
    /// Freeze an agent: it has no tools until it is unfrozen
    Freeze {
        agent: String,
    },
    /// Let a frozen agent go on
    Unfreeze {
        agent: String,
    },
}

#[derive(Args, Default)]
pub struct AgentFields {
    #[arg(long)]
    pub title: Option<String>,
    #[arg(long)]
    pub description: Option<String>,
    /// PROVIDER/MODEL
    #[arg(long)]
    pub model: Option<String>,
    /// What it is told, or @FILE
    #[arg(long, value_name = "TEXT|@FILE")]
    pub instructions: Option<String>,
    /// `open`: every user-facing tool that writes nothing; `assigned`: only what is assigned
    #[arg(long, value_parser = one_of(Toolset::ALL, Toolset::as_str))]
    pub toolset: Option<String>,
    /// A group of tools it has; may be repeated
    #[arg(long = "group", value_name = "GROUP")]
    pub groups: Vec<String>,
    /// A tool it has, as NAME or NAME@VERSION; may be repeated
    #[arg(long = "tool", value_name = "TOOL")]
    pub tools: Vec<String>,
    /// A skill it has; may be repeated
    #[arg(long = "skill", value_name = "SKILL")]
    pub skills: Vec<String>,
    /// The profile that tightens what it may do
    #[arg(long)]
    pub profile: Option<String>,
    #[arg(long)]
    pub workspace: Option<String>,
}

#[derive(Subcommand)]
pub enum ProfileCommand {
    /// List the profiles
    List(Paging),
    /// Show a profile
    Show { profile: String },
    /// Create or replace a profile from a YAML or JSON file
    #[command(
        after_help = "Example of a file:\n  name: careful\n  requires_approval: true\n  deny_tools: [http_get]\n  max_cost_per_day: \"5.00\""
    )]
    Set {
        /// The profile; `-` reads standard input
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Delete a profile that nothing uses
    Delete { profile: String },
}
