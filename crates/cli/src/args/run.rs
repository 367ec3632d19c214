//! `toolgate run …` and `toolgate work …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use toolgate_contracts::call::{RunKind, RunState};

use super::call::Report;
use super::{Paging, one_of};

#[derive(Subcommand)]
pub enum RunCommand {
    Create(NewRun),
    /// List runs, newest first; a call outside any run is not listed
    List {
        #[arg(long, value_parser = one_of(RunState::ALL, RunState::as_str))]
        state: Option<String>,
        /// Of agents, of workflows, or of calls that somebody makes by themselves
        #[arg(long, value_parser = one_of(RunKind::ALL, RunKind::as_str))]
        kind: Option<String>,
        /// Of this workflow
        #[arg(long, value_name = "NAME")]
        workflow: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    Show(ShowRun),
    /// Begin a titled step of a run
    Step {
        run: String,
        #[arg(long)]
        title: String,
    },
    /// Cancel a run: what waits in it is taken back, what runs is asked to stop
    Cancel {
        run: String,
        #[arg(long)]
        reason: Option<String>,
    },
    /// Take up an agent's run that nobody is at, and follow it
    Resume {
        run: String,
    },
    /// Write an agent's run that has ended as one signed document, to be replayed anywhere
    Export {
        run: String,
        /// The file to write; it must not be there yet [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// End a run
    End {
        run: String,
        #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(["completed", "failed", "cancelled"]))]
        state: String,
        #[arg(long)]
        reason: Option<String>,
    },
}

/// Open a run, to which calls then belong
#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate run create --title \"Answer ticket 42\" --max-calls 10 --budget 0.50\n  toolgate run create --parent ID --agent billing --limits @limits.yaml"
)]
pub struct NewRun {
    #[arg(long)]
    pub title: Option<String>,
    /// Whose calls these are (name or id)
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The run under whose root this one stands
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    /// The same id again within 24 hours is the first run instead of another
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
    #[command(flatten)]
    pub limits: RunLimits,
}

/// What a run may take.
#[derive(Args)]
pub struct RunLimits {
    /// Limits as JSON, or @FILE as YAML or JSON
    #[arg(long, value_name = "JSON")]
    pub limits: Option<String>,
    /// How many calls it may make
    #[arg(long, value_name = "N")]
    pub max_calls: Option<u32>,
    /// What it may cost, in the tenant's currency
    #[arg(long, value_name = "AMOUNT")]
    pub budget: Option<String>,
}

/// Have an agent do something, and follow it
#[derive(Args)]
#[command(
    after_help = "What happens is told on standard error, the answer is printed. Exit status 3: it waits for a person; it goes on by itself\nwhen they have decided (without a server: with `toolgate run resume`).\n\nExamples:\n  toolgate agent run support \"What do I owe for 3 lamps at 19.90?\"\n  toolgate agent run support @question.txt --max-calls 5 --budget 0.10\n  toolgate agent run support \"Sum up ticket {{ ticket }}\" --var ticket=42 --detach"
)]
pub struct AgentRun {
    /// The agent's name or id
    pub agent: String,
    /// What it shall do; `@FILE` reads a file, `-` standard input
    pub prompt: String,
    /// A variable of the prompt, which is then a template; may be repeated
    #[arg(long = "var", value_name = "NAME=VALUE")]
    pub variables: Vec<String>,
    #[arg(long)]
    pub title: Option<String>,
    /// The run under whose root this one stands
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    #[command(flatten)]
    pub limits: RunLimits,
    /// The same id again within 24 hours is the first run instead of another
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
    /// Print the run's id and do not wait; needs a server
    #[arg(long)]
    pub detach: bool,
}

/// Show a run: its steps, the runs under it, its calls
#[derive(Args)]
#[command(
    after_help = "A call outside any run is its own run: give the call's id.\nWith --json, --follow prints one event on each line.\n\nExamples:\n  toolgate run show ID --events\n  toolgate run show ID --follow"
)]
pub struct ShowRun {
    pub id: String,
    /// With everything that happened, also what tools said while they ran
    #[arg(long)]
    pub events: bool,
    /// With the steps of each call and how long they took
    #[arg(long)]
    pub spans: bool,
    /// Go on printing what happens until the run ends or Ctrl-C
    #[arg(long, conflicts_with_all = ["events", "spans"])]
    pub follow: bool,
}

#[derive(Subcommand)]
pub enum WorkCommand {
    /// Take a waiting call of an external tool, to carry it out; exit status 1 if there is none
    #[command(
        after_help = "Carry it out, say that you are alive at least once a minute, then report:\n  toolgate work lease --tool viewTicket --wait 30\n  toolgate work heartbeat LEASE\n  toolgate work complete LEASE --output '{\"title\": \"Broken lamp\"}'"
    )]
    Lease {
        /// A tool that you carry out; may be repeated
        #[arg(long = "tool", value_name = "NAME", required = true)]
        tools: Vec<String>,
        /// Wait for work, 0 to 60 seconds
        #[arg(long, value_name = "SECONDS")]
        wait: Option<u32>,
    },
    /// Say that you are still at it; says whether somebody wants it stopped
    Heartbeat { lease: String },
    /// Report how it ended, once
    Complete {
        lease: String,
        #[command(flatten)]
        report: Report,
    },
}
