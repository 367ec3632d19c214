//! `toolgate approvals …` and `toolgate grant …`.

use clap::{Args, Subcommand};
use toolgate_contracts::ApprovalState;

use super::{Paging, one_of};

/// Look at calls that wait for a person, and decide on them
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Approvals {
    #[command(flatten)]
    pub list: ListApprovals,
    #[command(subcommand)]
    pub command: Option<ApprovalsCommand>,
}

#[derive(Subcommand)]
pub enum ApprovalsCommand {
    /// List calls that wait for a decision, oldest first
    List(ListApprovals),
    /// Show what would run, exactly, and why a person is asked
    Show {
        /// The approval's id, or its call's
        id: String,
    },
    Approve(Approve),
    Reject(Reject),
    /// Print each call that begins to wait, until Ctrl-C
    Watch,
}

#[derive(Args)]
pub struct ListApprovals {
    /// Those in this state instead, newest first
    #[arg(long, default_value = "open", value_parser = one_of(ApprovalState::ALL, ApprovalState::as_str))]
    pub state: String,
    /// All of them, newest first
    #[arg(long, conflicts_with = "state")]
    pub all: bool,
    /// Calls of this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Calls by this agent
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Of this workspace
    #[arg(long, value_name = "SLUG")]
    pub workspace: Option<String>,
    #[command(flatten)]
    pub paging: Paging,
}

/// Approve calls; each runs at once
#[derive(Args)]
#[command(
    after_help = "Several at once must be calls of one tool, and none of them critical.\n\nExamples:\n  toolgate approvals approve ID\n  toolgate approvals approve ID --input @better.json --reason \"to the right address\"\n  toolgate approvals approve ID --standing --constraint '/to const team@example.com' --uses 5"
)]
pub struct Approve {
    /// The approval's id, or its call's
    #[arg(required = true)]
    pub ids: Vec<String>,
    /// Another input instead of the one that was asked for: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub standing: Standing,
    /// Wait at most so many seconds for the end of the call
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub wait: u32,
}

/// What is allowed with a decision besides the call itself.
#[derive(Args)]
#[command(next_help_heading = "Calls like it")]
pub struct Standing {
    /// Allow calls like it for a while: of the same tool, by the same agent or person, within --constraint
    #[arg(long = "standing")]
    pub wanted: bool,
    /// What must hold of their input: `/path path_under out`, or JSON, or @FILE; may be repeated, and all must hold
    #[arg(long = "constraint", value_name = "CONSTRAINT", requires = "wanted")]
    pub constraints: Vec<String>,
    /// How many calls [default: 10]
    #[arg(long, value_name = "COUNT", requires = "wanted")]
    pub uses: Option<u32>,
    /// How long, at most a day [default: an hour]
    #[arg(long, value_name = "SECONDS", requires = "wanted")]
    pub expires: Option<u64>,
    /// Only in the run of this call, and those under it
    #[arg(long, requires = "wanted")]
    pub this_run: bool,
}

/// Reject calls; whoever asked reads why
#[derive(Args)]
#[command(after_help = "Example:\n  toolgate approvals reject ID --reason \"unsafe egress target\"")]
pub struct Reject {
    /// The approval's id, or its call's
    #[arg(required = true)]
    pub ids: Vec<String>,
    /// Why: the agent reads it
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

#[derive(Subcommand)]
pub enum GrantCommand {
    /// List standing grants, newest first
    List {
        #[command(flatten)]
        paging: Paging,
    },
    Create(NewGrant),
    /// Take a standing grant back, at once
    Revoke {
        id: String,
    },
}

/// Allow an agent's calls of a tool without asking, within limits
#[derive(Args)]
#[command(
    after_help = "A constraint is a pointer, a word (const, enum, max, prefix, path_under, url_host) and a value; at least one, and\nall must hold.\n\nExamples:\n  toolgate grant create --tool send_email --agent billing --constraint '/to const team@example.com'\n  toolgate grant create --tool write_file --agent billing --constraint '{\"pointer\": \"/path\", \"path_under\": \"out\"}'"
)]
pub struct NewGrant {
    /// NAME or NAME@VERSION
    #[arg(long, value_name = "NAME")]
    pub tool: String,
    /// Whose calls (name or id)
    #[arg(long, value_name = "NAME")]
    pub agent: String,
    /// What must hold of the input: `/path path_under out`, or JSON, or @FILE; may be repeated
    #[arg(long = "constraint", value_name = "CONSTRAINT", required = true)]
    pub constraints: Vec<String>,
    /// How often [default: 10]
    #[arg(long, value_name = "COUNT")]
    pub uses: Option<u32>,
    /// How long, at most a day [default: an hour]
    #[arg(long, value_name = "SECONDS")]
    pub expires: Option<u64>,
    /// Only in this run and those under it
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}
