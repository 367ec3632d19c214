//! `toolgate limits`, `killswitch`, `usage`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};

use super::Paging;

#[derive(Subcommand)]
pub enum LimitsCommand {
    /// Show the tenant's limits
    Show,
    /// Set limits of this tenant; what is not named stays
    #[command(
        after_help = "A rate is COUNT/SECONDS, as in 100/60. The word `none` takes a limit away.\n\nExamples:\n  toolgate limits set --rate 100/60 --agent-rate 10/1 --budget 50.00 --max-parallel 32\n  toolgate limits set --tool http_get --tool-rate 5/60 --tool-budget 1.00\n  toolgate limits set --rate none"
    )]
    Set(Box<SetLimits>),
    /// Take every limit of this tenant away
    Clear,
}

#[derive(Args)]
pub struct SetLimits {
    /// Replace all limits by this YAML or JSON file; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "agent_rate", "budget", "max_parallel", "tool", "max_iterations", "max_tool_calls", "max_tokens", "max_wall_s", "max_depth", "max_output_bytes", "side_effects"])]
    pub file: Option<PathBuf>,
    /// How often anything is called
    #[arg(long, value_name = "COUNT/SECONDS", required_unless_present_any = ["file", "agent_rate", "budget", "max_parallel", "tool", "max_iterations", "max_tool_calls", "max_tokens", "max_wall_s", "max_depth", "max_output_bytes", "side_effects"])]
    pub rate: Option<String>,
    /// How often each agent calls, unless it has a stricter limit
    #[arg(long, value_name = "COUNT/SECONDS")]
    pub agent_rate: Option<String>,
    /// What a calendar month may cost, in the tenant's currency
    #[arg(long, value_name = "AMOUNT")]
    pub budget: Option<String>,
    /// How many calls run at the same time, on each replica
    #[arg(long, value_name = "N")]
    pub max_parallel: Option<String>,
    /// How often a run asks its model
    #[arg(long, value_name = "N")]
    pub max_iterations: Option<String>,
    /// How many calls a run makes
    #[arg(long, value_name = "N")]
    pub max_tool_calls: Option<String>,
    /// How many tokens a run reads and writes
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<String>,
    /// How many seconds a run takes, without those in which it waits for people
    #[arg(long, value_name = "N")]
    pub max_wall_s: Option<String>,
    /// How deep runs stand under runs
    #[arg(long, value_name = "N")]
    pub max_depth: Option<String>,
    /// How many bytes a call returns
    #[arg(long, value_name = "N")]
    pub max_output_bytes: Option<String>,
    /// What a call may do at most: none, reads or writes
    #[arg(long, value_name = "CEILING", value_parser = PossibleValuesParser::new(["none", "reads", "writes", "any"]))]
    pub side_effects: Option<String>,
    /// The tool that --tool-rate and --tool-budget are about
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// How often that tool is called
    #[arg(long, value_name = "COUNT/SECONDS", requires = "tool")]
    pub tool_rate: Option<String>,
    /// What that tool may cost in a calendar month
    #[arg(long, value_name = "AMOUNT", requires = "tool")]
    pub tool_budget: Option<String>,
}

#[derive(Subcommand)]
pub enum KillswitchCommand {
    /// List what is stopped, and why
    List(Paging),
    /// Stop every call at once: of this tenant, of an agent, or of a tool
    #[command(
        after_help = "Examples:\n  toolgate killswitch on --agent billing --reason \"it loops, see incident 7\"\n  toolgate killswitch on --tool send_email --reason \"the relay is broken\""
    )]
    On {
        #[command(flatten)]
        target: KillTarget,
        /// Why, for whoever is stopped
        #[arg(long)]
        reason: String,
    },
    /// Let it go on
    Off {
        #[command(flatten)]
        target: KillTarget,
        /// Why, for the log
        #[arg(long)]
        reason: Option<String>,
    },
}

/// Neither: the whole tenant.
#[derive(Args)]
#[group(multiple = false)]
pub struct KillTarget {
    /// One agent, by name or id [default: the whole tenant]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// One tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
}

/// Show what was used and what it cost
///
/// Calls that have ended are counted on the day they began. Dry runs are not counted.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate usage\n  toolgate usage --from 2026-11-01 --to 2026-11-30 --by agent\n  toolgate usage --by day --tool http_get --format csv"
)]
pub struct Usage {
    /// The first day [default: the first of this month]
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub from: Option<String>,
    /// The last day [default: today]
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub to: Option<String>,
    /// What to sum by
    #[arg(long, default_value = "tool", value_parser = PossibleValuesParser::new(["tool", "agent", "day", "tenant"]))]
    pub by: String,
    /// Only calls of this agent
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// How to print it; --json is the same as json
    #[arg(long, value_enum, default_value_t = UsageFormat::Table)]
    pub format: UsageFormat,
    #[command(flatten)]
    pub paging: Paging,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UsageFormat {
    Table,
    /// Every row, whatever --limit says
    Csv,
    Json,
}
